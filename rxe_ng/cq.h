/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues. */
#ifndef RXNG_CQ_H
#define RXNG_CQ_H

#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>

#include "ring.h"

/* Bits of struct rxng_cq.pending. */
#define RXNG_CQ_PENDING_COMP 0
#define RXNG_CQ_PENDING_ERR 1

/**
 * struct rxng_cq - a completion queue
 * @ibcq: the core's part; its cqe is the capacity of @ring
 * @lock: protects all but @ibcq, @timer and @pending. Interrupts are off while it is
 *	held, since a kernel consumer may poll anywhere; innermost lock.
 * @resizing: held across rxng_resize_cq(); outside of @lock
 * @ring: completions; slots hold struct rxng_cqe for a process and struct
 *	ib_wc for kernel consumers
 * @consumer: what was consumed: of a process the last index that it can have
 *	meant, of a kernel consumer its own index
 * @pushed: completions ever added
 * @armed: what wakes the consumer next: 0, IB_CQ_SOLICITED or IB_CQ_NEXT_COMP
 * @max_held: completions that bring an event (moderation); 0 or 1: each
 * @max_held_us: microseconds after which fewer bring one; 0: no moderation
 * @held: completions whose event is held back
 * @timer: reports them when no more come
 * @overflowed: a completion found no room; nothing is added any more
 * @pending: RXNG_CQ_PENDING_* that rxng_cq_deliver() has yet to report
 * @handling: held while a kernel consumer's completion handler runs, which may
 *	post, poll and arm; nothing that it may call takes it
 */
struct rxng_cq {
	struct ib_cq ibcq;
	spinlock_t lock;
	struct mutex resizing;
	struct rxng_ring ring;
	u32 consumer;
	u32 pushed;
	u8 armed;
	u16 max_held;
	u16 max_held_us;
	u16 held;
	struct hrtimer timer;
	bool overflowed;
	unsigned long pending;
	spinlock_t handling;
};

static inline struct rxng_cq *to_rxng_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct rxng_cq, ibcq);
}

int rxng_cq_push(struct rxng_cq *cq, const struct ib_wc *wc, bool solicited);
void rxng_cq_deliver(struct rxng_cq *cq);
void rxng_cq_settle(struct rxng_cq *cq);
u32 rxng_cq_backlog(struct rxng_cq *cq);

/**
 * rxng_cq_pending - is there something for rxng_cq_deliver()?
 * @cq: a CQ
 */
static inline bool rxng_cq_pending(const struct rxng_cq *cq)
{
	return READ_ONCE(cq->pending);
}

/*
 * Device operations, cq.c; see struct ib_device_ops. rxng_create_cq() serves
 * as create_cq and create_user_cq: kernels that have the latter want it set.
 */
int rxng_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs);
int rxng_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int rxng_resize_cq(struct ib_cq *ibcq, unsigned int cqe,
		   struct ib_udata *udata);
int rxng_modify_cq(struct ib_cq *ibcq, u16 count, u16 period_us);
int rxng_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int rxng_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

#endif
