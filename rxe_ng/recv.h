/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Receive requests: in a ring, and the one that a responder fills. */
#ifndef RXNG_RECV_H
#define RXNG_RECV_H

#include <rdma/ib_verbs.h>

#include "limits.h"
#include "ring.h"

/**
 * struct rxng_recv - the receive request that the responder fills
 * @taken: one is in use
 * @wr_id: consumer's identifier
 * @num_sge: entries of @sge
 * @length: bytes that it has room for
 * @sge: scatter list
 */
struct rxng_recv {
	bool taken;
	u64 wr_id;
	u32 num_sge;
	u64 length;
	struct rxng_sge sge[RXNG_MAX_SGE];
};

/**
 * rxng_recv_slot_size - bytes that a receive request needs in a ring
 * @max_sge: entries of its list
 */
static inline size_t rxng_recv_slot_size(u32 max_sge)
{
	return sizeof(struct rxng_recv_wqe) + max_sge * sizeof(struct rxng_sge);
}

int rxng_recv_load(struct rxng_recv *recv, const struct rxng_recv_wqe *wqe,
		   u32 max_sge);
int rxng_recv_post(struct rxng_ring *ring, u32 max_sge,
		   const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr);
u64 rxng_copy_user_sges(struct rxng_sge *to, const struct rxng_sge *from,
			u32 num);
u64 rxng_copy_kernel_sges(struct rxng_sge *to, const struct ib_sge *from,
			  u32 num);

#endif
