/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A process's open device: what it maps, and how it is answered. */
#ifndef RXNG_UCONTEXT_H
#define RXNG_UCONTEXT_H

#include <rdma/ib_verbs.h>

/**
 * struct rxng_ucontext - one opening of the device by a process
 * @ibuc: the core's part
 */
struct rxng_ucontext {
	struct ib_ucontext ibuc;
};

int rxng_udata_check(struct ib_udata *udata, size_t resp_len);
int rxng_udata_unused(struct ib_udata *udata);
int rxng_udata_respond(struct ib_udata *udata, const void *resp,
		       size_t resp_len);

/* Device operations, ucontext.c; see struct ib_device_ops. */
int rxng_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata);
void rxng_dealloc_ucontext(struct ib_ucontext *ibuc);
void rxng_disassociate_ucontext(struct ib_ucontext *ibuc);
int rxng_mmap(struct ib_ucontext *ibuc, struct vm_area_struct *vma);
void rxng_mmap_free(struct rdma_user_mmap_entry *entry);

#endif
