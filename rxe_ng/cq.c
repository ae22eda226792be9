// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues. Their handlers run from rxng_cq_deliver(), with no lock
 * held that they could need. That a handler never runs after rxng_destroy_cq()
 * is the queue pairs' doing: the core refuses to destroy a CQ that a QP feeds,
 * and a QP's destroy waits for its tasklet, for system calls on it and, by
 * rxng_cq_settle(), for the CQ's timer, which is where rxng_cq_deliver() is
 * called.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <rdma/uverbs_ioctl.h>

#include "cq.h"
#include "trace.h"
#include "ucontext.h"

/* Slots of the smallest ring; fewer make the reading of a user's index vague. */
#define MIN_CAPACITY 3
/* Completions that a resize moves while interrupts are off. */
#define MOVE_LOCKED 256

/* Flags of a completion as user space knows them; see enum ibv_wc_flags. */
#define USER_WC_GRH 0x1
#define USER_WC_WITH_IMM 0x2
#define USER_WC_WITH_INV 0x8

/*
 * Of a datagram the service level says what kind of packet it came in, as
 * adapters have it: there is no other field for the flag that annex A17.4.5.1
 * wants. Bit 3: with a UDP header; below it the kind of the IP header.
 */
#define USER_SL_UDP 0x8
#define USER_SL_IPV6 0x1
#define USER_SL_IPV4 0x2

/* Status and opcode need no conversion: these are the values of user space. */
static_assert(IB_WC_LOC_PROT_ERR == 4);
static_assert(IB_WC_WR_FLUSH_ERR == 5);
static_assert(IB_WC_GENERAL_ERR == 21);
static_assert(IB_WC_LOCAL_INV == 6);
static_assert(IB_WC_RECV == 0x80);
static_assert(IB_WC_RECV_RDMA_WITH_IMM == 0x81);

static bool is_user(const struct rxng_cq *cq)
{
	return cq->ring.entry;
}

static u32 unconsumed(const struct rxng_cq *cq)
{
	return (cq->ring.index - cq->consumer) & cq->ring.mask;
}

/*
 * Take notice of what a process consumed. It can only have consumed what was
 * there. An index beyond that comes from the provider of rdma-core 44, which
 * steps over the end of a batch by one: all was consumed.
 */
static void look_at_consumer(struct rxng_cq *cq)
{
	struct rxng_ring *ring = &cq->ring;
	u32 seen;

	lockdep_assert_held(&cq->lock);
	if (!is_user(cq))
		return;

	/* Its slots may be written once its index was seen to pass them. */
	seen = smp_load_acquire(&ring->shared->consumer_index);
	if (seen & ~ring->mask)
		return;
	if (((seen - cq->consumer) & ring->mask) > unconsumed(cq))
		seen = ring->index;
	cq->consumer = seen;
}

static bool has_room(struct rxng_cq *cq)
{
	/* Sparing the process's cache line while the ring is far from full. */
	if (unconsumed(cq) > cq->ring.mask / 2)
		look_at_consumer(cq);
	return unconsumed(cq) < cq->ring.mask;
}

static u8 user_sl(const struct ib_wc *wc)
{
	if (!(wc->wc_flags & IB_WC_WITH_NETWORK_HDR_TYPE))
		return wc->sl;
	return USER_SL_UDP | (wc->network_hdr_type == RDMA_NETWORK_IPV6 ?
				      USER_SL_IPV6 : USER_SL_IPV4);
}

static void write_cqe(struct rxng_cqe *cqe, const struct ib_wc *wc)
{
	u32 flags = 0;

	if (wc->wc_flags & IB_WC_GRH)
		flags |= USER_WC_GRH;
	if (wc->wc_flags & IB_WC_WITH_IMM)
		flags |= USER_WC_WITH_IMM;
	if (wc->wc_flags & IB_WC_WITH_INVALIDATE)
		flags |= USER_WC_WITH_INV;

	*cqe = (struct rxng_cqe) {
		.wr_id = wc->wr_id,
		.status = wc->status,
		.opcode = wc->opcode,
		.vendor_err = wc->vendor_err,
		.byte_len = wc->byte_len,
		.ex.imm_data = wc->ex.imm_data,
		.qp_num = wc->qp->qp_num,
		.src_qp = wc->src_qp,
		.wc_flags = flags,
		.pkey_index = wc->pkey_index,
		.slid = wc->slid,
		.sl = user_sl(wc),
		.dlid_path_bits = wc->dlid_path_bits,
		.port_num = wc->port_num,
	};
}

/* An event for all completions that came; the consumer has to arm again. */
static void notify(struct rxng_cq *cq)
{
	cq->armed = 0;
	cq->held = 0;
	set_bit(RXNG_CQ_PENDING_COMP, &cq->pending);
}

/* A completion came that an event is due for: now, or with others. */
static void notify_moderately(struct rxng_cq *cq)
{
	if (++cq->held >= cq->max_held || !cq->max_held_us)
		notify(cq);
	else if (cq->held == 1)
		hrtimer_start(&cq->timer,
			      ns_to_ktime(cq->max_held_us * NSEC_PER_USEC),
			      HRTIMER_MODE_REL_SOFT);
}

static enum hrtimer_restart timer_fired(struct hrtimer *timer)
{
	struct rxng_cq *cq = container_of(timer, struct rxng_cq, timer);
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	/* Not when it was started anew, for later completions, meanwhile. */
	if (cq->held && !hrtimer_is_queued(timer))
		notify(cq);
	spin_unlock_irqrestore(&cq->lock, flags);
	rxng_cq_deliver(cq);
	return HRTIMER_NORESTART;
}

static void add(struct rxng_cq *cq, const struct ib_wc *wc, bool solicited)
{
	void *slot = rxng_ring_slot(&cq->ring, cq->ring.index);

	if (is_user(cq))
		write_cqe(slot, wc);
	else
		memcpy(slot, wc, sizeof(*wc));
	rxng_ring_publish(&cq->ring, cq->ring.index + 1);
	cq->pushed++;

	if (cq->armed == IB_CQ_NEXT_COMP ||
	    (cq->armed == IB_CQ_SOLICITED &&
	     (solicited || wc->status != IB_WC_SUCCESS)))
		notify_moderately(cq);
}

/**
 * rxng_cq_push - add a completion
 * @cq: CQ that the caller's QP feeds
 * @wc: completion; copied
 * @solicited: the sender asked for an event
 *
 * When rxng_cq_pending() is true afterwards, the caller has to call
 * rxng_cq_deliver() once it holds no lock, and before the QP can be destroyed.
 *
 * A CQ without room is in error from then on (IBTA 11.6.3.2): one
 * IB_EVENT_CQ_ERR is reported, and the QPs that feed it have to stop.
 *
 * Return: 0, or -ENOSPC when the completion was not added.
 * Context: any; takes the CQ's lock.
 */
int rxng_cq_push(struct rxng_cq *cq, const struct ib_wc *wc, bool solicited)
{
	struct rxng_dev *dev = to_rxng_dev(cq->ibcq.device);
	unsigned long flags;
	int err = 0;

	trace_rxng_completion(wc);
	spin_lock_irqsave(&cq->lock, flags);
	if (!cq->overflowed && has_room(cq)) {
		add(cq, wc, solicited);
	} else {
		if (!cq->overflowed)
			set_bit(RXNG_CQ_PENDING_ERR, &cq->pending);
		cq->overflowed = true;
		err = -ENOSPC;
	}
	spin_unlock_irqrestore(&cq->lock, flags);

	if (err)
		rxng_stat_inc(dev, RXNG_STAT_CQ_OVERFLOW);
	return err;
}

/**
 * rxng_cq_backlog - completions that the consumer has not taken
 * @cq: a CQ
 *
 * Context: any; takes the CQ's lock.
 */
u32 rxng_cq_backlog(struct rxng_cq *cq)
{
	unsigned long flags;
	u32 num;

	spin_lock_irqsave(&cq->lock, flags);
	look_at_consumer(cq);
	num = unconsumed(cq);
	spin_unlock_irqrestore(&cq->lock, flags);
	return num;
}

/*
 * A kernel consumer's runs once at a time (core_locking.rst), whichever QPs on
 * whichever CPUs feed the CQ; that of uverbs has a lock of its own.
 */
static void call_handler(struct rxng_cq *cq)
{
	struct ib_cq *ibcq = &cq->ibcq;

	if (is_user(cq)) {
		ibcq->comp_handler(ibcq, ibcq->cq_context);
		return;
	}
	spin_lock_bh(&cq->handling);
	ibcq->comp_handler(ibcq, ibcq->cq_context);
	spin_unlock_bh(&cq->handling);
}

/**
 * rxng_cq_deliver - report to the consumer what there is to report
 * @cq: CQ
 *
 * The handlers may poll, arm and post, and so may run other QPs.
 *
 * Context: softirq or process; the caller keeps @cq, or a QP that feeds it,
 * from being destroyed, and holds no lock and no reference on a memory region.
 */
void rxng_cq_deliver(struct rxng_cq *cq)
{
	struct ib_cq *ibcq = &cq->ibcq;
	unsigned long pending;

	if (!rxng_cq_pending(cq))
		return;
	pending = xchg(&cq->pending, 0);

	if (pending & BIT(RXNG_CQ_PENDING_COMP) && ibcq->comp_handler)
		call_handler(cq);

	if (pending & BIT(RXNG_CQ_PENDING_ERR) && ibcq->event_handler) {
		struct ib_event event = {
			.device = ibcq->device,
			.element.cq = ibcq,
			.event = IB_EVENT_CQ_ERR,
		};

		ibcq->event_handler(&event, ibcq->cq_context);
	}
}

/**
 * rxng_cq_settle - report what the moderation holds back, and stop its timer
 * @cq: CQ that a QP has fed until now
 *
 * A kernel consumer may free what its handlers use once the last QP is gone,
 * before it destroys the CQ.
 *
 * Context: process, may sleep; no completions of that QP come any more.
 */
void rxng_cq_settle(struct rxng_cq *cq)
{
	/* First, so that one that another QP starts from now on stays. */
	hrtimer_cancel(&cq->timer);
	spin_lock_irq(&cq->lock);
	if (cq->held)
		notify(cq);
	spin_unlock_irq(&cq->lock);
	local_bh_disable();
	rxng_cq_deliver(cq);
	local_bh_enable();
}

/* A ring for @cqe completions, and the answer that says where to map it. */
static int create_ring(struct rxng_ring *ring, unsigned int cqe,
		       struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	size_t slot = udata ? sizeof(struct rxng_cqe) : sizeof(struct ib_wc);
	struct rxng_create_cq_resp resp = {};
	int err;

	err = rxng_udata_check(udata, sizeof(resp));
	if (err)
		return err;
	err = rxng_ring_create(ring, max_t(u32, cqe, MIN_CAPACITY), slot);
	if (err || !udata)
		return err;

	err = rxng_ring_map(ring, ibuc, &resp.mi);
	if (err)
		goto err_ring;
	err = rxng_udata_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_ring;
	return 0;

err_ring:
	rxng_ring_destroy(ring);
	return err;
}

/**
 * rxng_create_cq - make a completion queue
 * @ibcq: CQ to set up
 * @attr: its size, flags and completion vector
 * @attrs: a user's call, else NULL
 *
 * Return: 0 or an error code.
 * Context: process, may sleep.
 */
int rxng_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs)
{
	struct rxng_dev *dev = to_rxng_dev(ibcq->device);
	struct rxng_cq *cq = to_rxng_cq(ibcq);
	int err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > RXNG_MAX_CQE ||
	    attr->comp_vector >= ibcq->device->num_comp_vectors)
		return -EINVAL;
	if (!rxng_take(&dev->num_cq, RXNG_MAX_CQ, &ibcq->res))
		return -ENOMEM;

	spin_lock_init(&cq->lock);
	spin_lock_init(&cq->handling);
	mutex_init(&cq->resizing);
	hrtimer_setup(&cq->timer, timer_fired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
	err = create_ring(&cq->ring, attr->cqe, attrs ? attrs->context : NULL,
			  attrs ? &attrs->driver_udata : NULL);
	if (err)
		goto err_count;
	ibcq->cqe = min_t(u32, cq->ring.mask, RXNG_MAX_CQE);
	return 0;

err_count:
	rxng_give(&dev->num_cq, &ibcq->res);
	return err;
}

/**
 * rxng_destroy_cq - a completion queue goes
 * @ibcq: CQ that no QP feeds
 * @udata: private part of a user's call, else NULL
 *
 * Return: 0.
 * Context: process, may sleep.
 */
int rxng_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct rxng_cq *cq = to_rxng_cq(ibcq);

	hrtimer_cancel(&cq->timer);
	rxng_ring_destroy(&cq->ring);
	mutex_destroy(&cq->resizing);
	rxng_give(&to_rxng_dev(ibcq->device)->num_cq, &ibcq->res);
	return 0;
}

/*
 * Move what is not consumed to a new ring, which takes the old one's place;
 * @to becomes the old one. Most of it is copied without the lock, while
 * completions come in and are consumed. What is consumed meanwhile moves too
 * and is not seen again; when that needs too much room, begin anew.
 */
static int move_to(struct rxng_cq *cq, struct rxng_ring *to, unsigned int cqe)
{
	struct rxng_ring *from = &cq->ring;
	u32 moved = 0, next, left, consumed, pushed;
	int err;

	spin_lock_irq(&cq->lock);
	look_at_consumer(cq);
	next = cq->consumer;
	for (;;) {
		left = (from->index - next) & from->mask;
		if (moved + left > cqe) {
			look_at_consumer(cq);
			next = cq->consumer;
			left = unconsumed(cq);
			moved = 0;
		}
		err = cq->overflowed || left > cqe ? -EINVAL :
		      fatal_signal_pending(current) ? -EINTR : 0;
		if (err) {
			spin_unlock_irq(&cq->lock);
			return err;
		}
		if (left <= MOVE_LOCKED)
			break;
		pushed = cq->pushed;
		spin_unlock_irq(&cq->lock);

		rxng_ring_copy(to, moved, from, next, left);
		next += left;
		moved += left;
		cond_resched();

		spin_lock_irq(&cq->lock);
		/* Once round the ring meanwhile: what was moved is consumed. */
		if (cq->pushed - pushed > from->mask - left) {
			look_at_consumer(cq);
			next = cq->consumer;
			moved = 0;
		}
	}
	rxng_ring_copy(to, moved, from, next, left);
	moved += left;

	look_at_consumer(cq);
	consumed = moved - unconsumed(cq);
	WRITE_ONCE(to->shared->consumer_index, consumed);
	rxng_ring_publish(to, moved);
	swap(*from, *to);
	cq->consumer = consumed;
	cq->ibcq.cqe = min_t(u32, from->mask, RXNG_MAX_CQE);
	spin_unlock_irq(&cq->lock);
	return 0;
}

/**
 * rxng_resize_cq - change how many completions a CQ holds
 * @ibcq: CQ
 * @cqe: completions that it has to hold
 * @udata: private part of a user's call, else NULL
 *
 * A process learns where to map the new ring, with the completions that it
 * has not consumed. Its mapping of the old one stays until it unmaps it.
 *
 * Return: 0, -EINVAL when @cqe is out of range or less than there are
 * completions now, -EINTR when the caller is killed, or another error code.
 * Context: process, may sleep.
 */
int rxng_resize_cq(struct ib_cq *ibcq, unsigned int cqe,
		   struct ib_udata *udata)
{
	struct rxng_cq *cq = to_rxng_cq(ibcq);
	struct ib_ucontext *ibuc = NULL;
	struct rxng_ring ring;
	int err;

	if (!cqe || cqe > RXNG_MAX_CQE)
		return -EINVAL;
	if (udata)
		ibuc = rdma_udata_to_uverbs_attr_bundle(udata)->context;

	mutex_lock(&cq->resizing);
	err = create_ring(&ring, cqe, ibuc, udata);
	if (err)
		goto unlock;
	err = move_to(cq, &ring, cqe);
	rxng_ring_destroy(&ring);
unlock:
	mutex_unlock(&cq->resizing);
	return err;
}

/**
 * rxng_modify_cq - let an event wait for more completions
 * @ibcq: CQ
 * @count: completions that bring an event
 * @period_us: microseconds after which fewer bring one too
 *
 * Only completions count that would have brought an event of their own, as the
 * consumer armed the CQ. With one of both 0 each brings one. Those that wait
 * when this is called are reported at once.
 *
 * Return: 0.
 * Context: process.
 */
int rxng_modify_cq(struct ib_cq *ibcq, u16 count, u16 period_us)
{
	struct rxng_cq *cq = to_rxng_cq(ibcq);

	spin_lock_irq(&cq->lock);
	cq->max_held = count;
	cq->max_held_us = period_us;
	spin_unlock_irq(&cq->lock);
	rxng_cq_settle(cq);
	return 0;
}

/**
 * rxng_poll_cq - take completions off a kernel consumer's CQ
 * @ibcq: CQ
 * @num: how many at most
 * @wc: where to put them
 *
 * Return: how many there were, or -EINVAL for a CQ that a process polls
 * through its mapping.
 * Context: any.
 */
int rxng_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct rxng_cq *cq = to_rxng_cq(ibcq);
	unsigned long flags;
	int n;

	if (is_user(cq))
		return -EINVAL;

	spin_lock_irqsave(&cq->lock, flags);
	for (n = 0; n < num && unconsumed(cq); n++) {
		memcpy(&wc[n], rxng_ring_slot(&cq->ring, cq->consumer),
		       sizeof(*wc));
		cq->consumer = rxng_ring_next(&cq->ring, cq->consumer);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

/**
 * rxng_req_notify_cq - ask for one event at a coming completion
 * @ibcq: CQ
 * @flags: IB_CQ_SOLICITED or IB_CQ_NEXT_COMP, IB_CQ_REPORT_MISSED_EVENTS
 *
 * A request for any completion is not weakened by one for solicited ones,
 * neither by a later one (IBTA 11.4.2.2) nor when both flags are set, as SMC
 * does it.
 *
 * Return: 1 when asked for and the CQ already has completions, else 0.
 * Context: any.
 */
int rxng_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct rxng_cq *cq = to_rxng_cq(ibcq);
	unsigned long irq_flags;
	int missed;

	spin_lock_irqsave(&cq->lock, irq_flags);
	if (flags & IB_CQ_NEXT_COMP)
		cq->armed = IB_CQ_NEXT_COMP;
	else if (flags & IB_CQ_SOLICITED && !cq->armed)
		cq->armed = IB_CQ_SOLICITED;
	look_at_consumer(cq);
	missed = (flags & IB_CQ_REPORT_MISSED_EVENTS) && unconsumed(cq);
	spin_unlock_irqrestore(&cq->lock, irq_flags);
	return missed;
}
