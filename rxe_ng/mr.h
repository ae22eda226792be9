/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions: registration, access checks and copies. */
#ifndef RXNG_MR_H
#define RXNG_MR_H

#include <linux/completion.h>
#include <linux/refcount.h>
#include <linux/skbuff.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#include "device.h"

enum rxng_mr_state {
	/* Allocated for fast registration, or invalidated: no access. */
	RXNG_MR_FREE,
	/* On its way between the other two; someone owns the change. */
	RXNG_MR_BUSY,
	RXNG_MR_VALID,
};

/**
 * struct rxng_mr_map - memory behind a region
 * @pages: kernel address of each page; NULL for a DMA region, whose addresses
 *	are kernel addresses themselves
 * @num_pages: entries of @pages in use
 * @page_shift: log2 of the bytes that each entry of @pages stands for
 * @page_offset: offset of the region's first byte into the first page
 */
struct rxng_mr_map {
	void **pages;
	u32 num_pages;
	u32 page_shift;
	u32 page_offset;
};

/**
 * struct rxng_mr - a memory region
 * @ibmr: the core's part; lkey, and rkey when remote rights are given. The
 *	consumer of a fast registration writes its keys, iova and length.
 * @pd: protection domain; @ibmr has it only after the verb has returned
 * @key: lkey and rkey that accesses have to name
 * @state: enum rxng_mr_state
 * @access: IB_ACCESS_* rights
 * @iova: first address of the region in its own address space
 * @length: bytes
 * @map: where the bytes are
 * @umem: pinned user memory, or NULL
 * @staged: of a fast-registration region, what rxng_map_mr_sg() filled in for
 *	the next registration, while accesses still use @map
 * @fresh: @staged was filled since it was last used
 * @max_pages: entries allocated for each map of a fast-registration region,
 *	zero for other regions
 * @refs: one for the table's entry, one for each access under way
 * @idle: completed when @refs reaches zero
 * @rcu: frees the structure after look-ups are over
 *
 * Nothing from @pd to @umem changes while anyone holds a reference on a valid
 * region: a change begins with taking the region out of RXNG_MR_VALID, or its
 * reference from the table, and then waits for the accesses under way.
 */
struct rxng_mr {
	struct ib_mr ibmr;
	struct ib_pd *pd;
	u32 key;
	u32 state;
	u32 access;
	u64 iova;
	u64 length;
	struct rxng_mr_map map;
	struct ib_umem *umem;
	struct rxng_mr_map staged;
	bool fresh;
	u32 max_pages;
	refcount_t refs;
	struct completion idle;
	struct rcu_head rcu;
};

static inline struct rxng_mr *to_rxng_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct rxng_mr, ibmr);
}

/* Direction of a copy, seen from the region. */
enum rxng_mr_dir {
	RXNG_FROM_MR,
	RXNG_TO_MR,
};

struct rxng_mr *rxng_mr_get(struct rxng_dev *dev, const struct ib_pd *pd,
			    u32 key, u64 iova, u64 len, u32 access);
void rxng_mr_put(struct rxng_mr *mr);
void rxng_mr_copy(struct rxng_mr *mr, u64 iova, void *buf, size_t len,
		  enum rxng_mr_dir dir);
int rxng_mr_from_skb(struct rxng_mr *mr, u64 iova, const struct sk_buff *skb,
		     int offset, size_t len);
u64 rxng_mr_atomic(struct rxng_mr *mr, u64 iova, bool cmp_swap, u64 compare,
		   u64 swap_add);
bool rxng_mr_aligned(const struct rxng_mr *mr, u64 iova);
int rxng_mr_fast_reg(struct rxng_dev *dev, const struct ib_pd *pd,
		     struct ib_mr *ibmr, u32 key, u32 access);
int rxng_mr_invalidate(struct rxng_dev *dev, const struct ib_pd *pd, u32 key,
		       bool remote);

/* Device operations, mr.c; see struct ib_device_ops. */
struct ib_mr *rxng_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *rxng_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 iova, int access, struct ib_udata *udata);
struct ib_mr *rxng_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				 u64 length, u64 iova, int access,
				 struct ib_pd *pd, struct ib_udata *udata);
struct ib_mr *rxng_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg);
int rxng_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		   unsigned int *sg_offset);
int rxng_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

#endif
