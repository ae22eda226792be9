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
#include "dmabuf.h"
#include "odp.h"
#include "proto/packet.h"

/*
 * Rights of a region, and of a QP, that older kernels have no name for: they let
 * no process ask for them.
 */
#define RXNG_ACCESS_FLUSH_GLOBAL BIT(8)
#define RXNG_ACCESS_FLUSH_PERSISTENT BIT(9)
/* Length of whatever a region has. */
#define RXNG_WHOLE_REGION U64_MAX

struct rxng_mw;

enum rxng_mr_state {
	/* Allocated for fast registration, or invalidated: no access. */
	RXNG_MR_FREE,
	/* On its way between the other two, or changed; someone owns that. */
	RXNG_MR_BUSY,
	RXNG_MR_VALID,
};

/**
 * struct rxng_mr_map - memory behind a region
 * @linear: of a DMA region: its addresses are kernel addresses themselves
 * @odp: memory that is paged in on demand, else NULL
 * @dmabuf: buffer that @pages are of, else NULL
 * @pages: kernel address of each page
 * @num_pages: entries of @pages in use
 * @page_shift: log2 of the bytes that each entry of @pages stands for
 * @page_offset: offset of the region's first byte into the first page
 */
struct rxng_mr_map {
	bool linear;
	struct rxng_odp *odp;
	struct rxng_dmabuf *dmabuf;
	void **pages;
	u32 num_pages;
	u32 page_shift;
	u32 page_offset;
};

/**
 * struct rxng_mr - a memory region, or what a memory window shows of one
 * @ibmr: the core's part; lkey, and rkey when remote rights are given. The
 *	consumer of a fast registration writes its keys, iova and length.
 * @pd: protection domain; @ibmr has it only after the verb has returned
 * @key: lkey and rkey that accesses have to name
 * @state: enum rxng_mr_state
 * @access: IB_ACCESS_* rights
 * @iova: first address of the region in its own address space
 * @length: bytes
 * @map: where the bytes are
 * @umem: pinned user memory, or NULL; also NULL with on-demand paging
 * @staged: of a fast-registration region, what rxng_map_mr_sg() filled in for
 *	the next registration, while accesses still use @map
 * @fresh: @staged was filled since it was last used
 * @max_pages: entries allocated for each map of a fast-registration region,
 *	zero for other regions
 * @base: of a bound window: the region that @map's pages belong to, which
 *	stays as it is for as long as @base->windows counts this one
 * @mw: the window, NULL for a region; see mw.c
 * @qpn: of a type 2 window: number of the QP that it is bound to; else 0
 * @windows: windows bound to this region; negative while it is being changed
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
	struct rxng_mr *base;
	struct rxng_mw *mw;
	u32 qpn;
	atomic_t windows;
	refcount_t refs;
	struct completion idle;
	struct rcu_head rcu;
};

static inline struct rxng_mr *to_rxng_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct rxng_mr, ibmr);
}

static inline bool rxng_mr_is_fast_reg(const struct rxng_mr *mr)
{
	return mr->max_pages;
}

/* Whether all of the bytes are the region's. */
static inline bool rxng_mr_covers(const struct rxng_mr *mr, u64 iova, u64 len)
{
	u64 offset = iova - mr->iova;

	return offset <= mr->length && len <= mr->length - offset;
}

/* Direction of a copy, seen from the region. */
enum rxng_mr_dir {
	RXNG_FROM_MR,
	RXNG_TO_MR,
};

struct rxng_mr *rxng_mr_get(struct rxng_dev *dev, const struct ib_pd *pd,
			    u32 key, u64 iova, u64 len, u32 access);
struct rxng_mr *rxng_mr_get_remote(const struct ib_qp *ibqp, u32 key, u64 iova,
				   u64 len, u32 access);
void rxng_mr_put(struct rxng_mr *mr);
int rxng_mr_flush(const struct ib_qp *ibqp, const struct rxng_pkt *pkt);
int rxng_mr_invalidate(const struct ib_qp *ibqp, u32 key, bool remote);

/* The bytes of a region, mr_data.c. */
int rxng_mr_copy(struct rxng_mr *mr, u64 iova, void *buf, size_t len,
		 enum rxng_mr_dir dir);
int rxng_mr_from_skb(struct rxng_mr *mr, u64 iova, const struct sk_buff *skb,
		     int offset, size_t len);
int rxng_mr_atomic(struct rxng_mr *mr, u64 iova, bool cmp_swap, u64 compare,
		   u64 swap_add, u64 *orig);
int rxng_mr_store(struct rxng_mr *mr, u64 iova, u64 value);
bool rxng_mr_aligned(const struct rxng_mr *mr, u64 iova);
int rxng_mr_page_in(struct rxng_dev *dev, u32 key, u64 iova, u64 len,
		    enum rxng_odp_want want);
int rxng_mr_write_back(struct rxng_dev *dev, u32 key, u64 iova, u64 len);

/* Fast registration, fast_reg.c. */
int rxng_mr_fast_reg(struct rxng_dev *dev, const struct ib_pd *pd,
		     struct ib_mr *ibmr, u32 key, u32 access);

/* How regions and windows are made, changed and freed, mr.c. */
int rxng_mr_check_access(int access, int more);
void rxng_mr_set_access(struct rxng_mr *mr, int access);
struct rxng_mr *rxng_mr_alloc(struct ib_pd *pd);
void rxng_mr_init(struct rxng_mr *mr, struct ib_pd *pd);
int rxng_mr_publish(struct rxng_mr *mr, int access);
void rxng_mr_unpublish(struct rxng_mr *mr);
void rxng_mr_unmap(struct rxng_mr_map *map, struct ib_umem *umem);
void rxng_mr_release(struct rxng_mr *mr);
struct rxng_mr *rxng_mr_find(struct rxng_dev *dev, u32 key);
int rxng_mr_claim(struct rxng_mr *mr, u32 state);
void rxng_mr_suspend(struct rxng_mr *mr);
void rxng_mr_resume(struct rxng_mr *mr);
bool rxng_mr_keep_windows_off(struct rxng_mr *mr);
void rxng_mr_let_windows_in(struct rxng_mr *mr);

/* Device operations; see struct ib_device_ops. */
struct ib_mr *rxng_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *rxng_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 iova, int access, struct ib_udata *udata);
struct ib_mr *rxng_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 iova, int fd, int access);
struct ib_mr *rxng_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				 u64 length, u64 iova, int access,
				 struct ib_pd *pd, struct ib_udata *udata);
struct ib_mr *rxng_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg);
int rxng_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		   unsigned int *sg_offset);
int rxng_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
int rxng_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice,
		   u32 flags, struct ib_sge *sges, u32 num_sge,
		   struct uverbs_attr_bundle *attrs);

#endif
