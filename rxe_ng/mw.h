/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory windows, type 1 and 2B (IBTA 10.6.7). */
#ifndef RXNG_MW_H
#define RXNG_MW_H

#include <rdma/ib_verbs.h>

#include "mr.h"

/**
 * struct rxng_mw - a memory window
 * @ibmw: the core's part
 * @mr: what peers see: pages of the region that it is bound to, with a range,
 *	rights and a key of its own. Found and referenced as a region is
 */
struct rxng_mw {
	struct ib_mw ibmw;
	struct rxng_mr *mr;
};

static inline struct rxng_mw *to_rxng_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct rxng_mw, ibmw);
}

/**
 * struct rxng_bind - what a bind request asks for
 * @addr: first address, in the address space of the region
 * @length: bytes; 0 to take a type 1 window back
 * @lkey: the region
 * @window: present key of the window
 * @key: its new key, of which the lower 8 bits are the consumer's and count
 * @access: IB_ACCESS_REMOTE_* rights, IB_ZERO_BASED
 */
struct rxng_bind {
	u64 addr;
	u64 length;
	u32 lkey;
	u32 window;
	u32 key;
	u32 access;
};

int rxng_mw_bind(const struct ib_qp *ibqp, const struct rxng_bind *bind);
int rxng_mw_invalidate(struct rxng_mr *mr);

/* Device operations, mw.c; see struct ib_device_ops. */
int rxng_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int rxng_dealloc_mw(struct ib_mw *ibmw);

#endif
