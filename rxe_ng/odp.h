/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * On-demand paging: memory of a region that is not pinned. Pages are brought in
 * when an access misses them, and go when the process' page tables change.
 */
#ifndef RXNG_ODP_H
#define RXNG_ODP_H

#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

struct ib_umem_odp;

/**
 * struct rxng_odp - memory of a region that is paged in on demand
 * @root: anchor in the core: the process and the rights
 * @mm: the process' memory, held: the core only names it
 * @start: address in the process of the region's first byte
 * @spans: parts of which pages are there, by address; looked up under RCU
 * @mutex: protects changes of @spans, and makes page faults of a region one
 *	after the other; taken before the process' mmap lock
 * @sweep: frees spans of which no page is there any more
 */
struct rxng_odp {
	struct ib_umem_odp *root;
	struct mm_struct *mm;
	u64 start;
	struct xarray spans;
	struct mutex mutex;
	struct delayed_work sweep;
};

/* What a page fault is asked for. */
enum rxng_odp_want {
	/* Only what is there without a fault. */
	RXNG_ODP_PRESENT,
	RXNG_ODP_READ_FAULT,
	RXNG_ODP_WRITE_FAULT,
};

struct rxng_odp *rxng_odp_create(struct ib_device *ibdev, u64 start,
				 int access);
void rxng_odp_destroy(struct rxng_odp *odp);
void *rxng_odp_address(const struct rxng_odp *odp, u64 offset, size_t *len,
		       bool write);
int rxng_odp_page_in(struct rxng_odp *odp, u64 offset, u64 len,
		     enum rxng_odp_want want);
int rxng_odp_init(void);
void rxng_odp_exit(void);

#endif
