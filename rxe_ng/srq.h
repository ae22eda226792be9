/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues (IBTA 10.2.9). */
#ifndef RXNG_SRQ_H
#define RXNG_SRQ_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "recv.h"

/* Bits of struct rxng_srq.pending. */
#define RXNG_SRQ_PENDING_LIMIT 0
#define RXNG_SRQ_PENDING_ERR 1

/**
 * struct rxng_srq - a shared receive queue
 * @ibsrq: the core's part
 * @lock: protects @ring with its consumer's side, @limit, @taken and @broken;
 *	bottom halves are off, inside of a QP's ownership
 * @ring: receive requests
 * @max_sge: entries of the list of each
 * @limit: an event is due when fewer requests than this are posted; 0 when none
 *	is asked for
 * @taken: requests ever taken
 * @broken: the process wrote an index that makes no sense: nothing is taken
 * @post_lock: protects the producer's side of a kernel consumer's ring; inside
 *	of @lock, interrupts are off
 * @user: posted by a process through its ring
 * @resizing: held while another ring takes the place of @ring; outside of @lock
 * @pending: RXNG_SRQ_PENDING_* that rxng_srq_deliver() has yet to report
 */
struct rxng_srq {
	struct ib_srq ibsrq;
	spinlock_t lock;
	struct rxng_ring ring;
	u32 max_sge;
	u32 limit;
	u32 taken;
	bool broken;
	spinlock_t post_lock;
	bool user;
	struct mutex resizing;
	unsigned long pending;
};

static inline struct rxng_srq *to_rxng_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct rxng_srq, ibsrq);
}

/**
 * rxng_srq_pending - is there something for rxng_srq_deliver()?
 * @srq: SRQ, or NULL
 */
static inline bool rxng_srq_pending(const struct rxng_srq *srq)
{
	return srq && READ_ONCE(srq->pending);
}

int rxng_srq_take(struct rxng_srq *srq, struct rxng_recv *recv);
void rxng_srq_deliver(struct rxng_srq *srq);

/* Device operations, srq.c; see struct ib_device_ops. */
int rxng_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		    struct ib_udata *udata);
int rxng_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata);
int rxng_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int rxng_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int rxng_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);

#endif
