/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Calls of the kernel that the stock provider does not make. */
#ifndef CALL_H
#define CALL_H

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "verbs.h"

/* A call of ioctl(RDMA_VERBS_IOCTL) in the making; zeroed before. */
struct call {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[10];
};

void call_attr(struct call *call, uint16_t id, uint16_t len, uint64_t data);
/* 0 or an error number; what the kernel returns is in call->attrs. */
int call_method(struct ibv_context *ctx, uint16_t object, uint16_t method,
		struct call *call);

/*
 * One of IB_USER_VERBS_CMD_*, by write(): 0 or an error number. The body has the
 * address of the response, of out_bytes, where it belongs.
 */
int call_command(struct ibv_context *ctx, uint32_t command, const void *body,
		 size_t bytes, size_t out_bytes);
/* ibv_rereg_mr() with IBV_REREG_MR_* flags; the region's keys are the new ones. */
int call_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *mem,
		  size_t length, int access);
/* ibv_advise_mr() of one piece of memory. */
int call_advise_mr(struct ibv_pd *pd, uint32_t advice, uint32_t flags,
		   const struct ibv_sge *sge);

/* ibv_reg_dmabuf_mr(). */
struct dmabuf_mr {
	uint32_t handle, lkey, rkey;
};

int call_reg_dmabuf_mr(struct ibv_pd *pd, int fd, uint64_t offset,
		       uint64_t length, uint64_t iova, int access,
		       struct dmabuf_mr *mr);
int call_dereg_dmabuf_mr(struct ibv_pd *pd, const struct dmabuf_mr *mr);
/*
 * One of IB_USER_VERBS_EX_CMD_*, without a response, by write(): 0 or an error
 * number. Its bytes are a multiple of 8.
 */
int call_ex_command(struct ibv_context *ctx, uint32_t command, const void *body,
		    size_t bytes);

#endif
