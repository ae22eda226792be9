// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues. A request leaves the ring when a QP takes it, so that
 * other QPs get the next one meanwhile.
 */
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <rdma/uverbs_ioctl.h>

#include "srq.h"
#include "ucontext.h"

/* Requests that a resize moves while interrupts are off. */
#define MOVE_LOCKED 64

static void note(struct rxng_srq *srq, int what)
{
	set_bit(what, &srq->pending);
}

/* Fewer than asked for: told once, until a new limit is set (10.2.9.3). */
static void check_limit(struct rxng_srq *srq, u32 ready)
{
	lockdep_assert_held(&srq->lock);
	if (ready >= srq->limit)
		return;
	srq->limit = 0;
	note(srq, RXNG_SRQ_PENDING_LIMIT);
}

static void break_it(struct rxng_srq *srq)
{
	lockdep_assert_held(&srq->lock);
	if (srq->broken)
		return;
	srq->broken = true;
	note(srq, RXNG_SRQ_PENDING_ERR);
}

/* Returns requests that are posted; none of a ring that is broken. */
static u32 look(struct rxng_srq *srq)
{
	u32 ready = rxng_ring_ready(&srq->ring, srq->ring.index);

	if (ready == RXNG_RING_BAD)
		break_it(srq);
	return srq->broken ? 0 : ready;
}

/**
 * rxng_srq_take - take up the next receive request
 * @srq: SRQ of a QP that the caller owns
 * @recv: filled in
 *
 * When rxng_srq_pending() is true afterwards, the caller has to call
 * rxng_srq_deliver() once it holds no lock, and before the QP can be destroyed.
 *
 * Return: 0; -ENODATA when none is posted; -EINVAL when it is malformed, in
 * which case it is in use all the same; -EIO when the SRQ is in error.
 * Context: bottom halves off.
 */
int rxng_srq_take(struct rxng_srq *srq, struct rxng_recv *recv)
{
	u32 ready;
	int err;

	spin_lock(&srq->lock);
	ready = look(srq);
	if (ready) {
		err = rxng_recv_load(recv, rxng_ring_slot(&srq->ring,
							  srq->ring.index),
				     srq->max_sge);
		rxng_ring_retire(&srq->ring,
				 rxng_ring_next(&srq->ring, srq->ring.index));
		srq->taken++;
		check_limit(srq, ready - 1);
	} else {
		err = srq->broken ? -EIO : -ENODATA;
	}
	spin_unlock(&srq->lock);
	return err;
}

static void deliver(struct rxng_srq *srq, enum ib_event_type type)
{
	struct ib_srq *ibsrq = &srq->ibsrq;
	struct ib_event event = {
		.device = ibsrq->device,
		.element.srq = ibsrq,
		.event = type,
	};

	if (ibsrq->event_handler)
		ibsrq->event_handler(&event, ibsrq->srq_context);
}

/**
 * rxng_srq_deliver - report to the consumer what there is to report
 * @srq: SRQ, or NULL
 *
 * Context: softirq or process; the caller keeps the SRQ from being destroyed
 * and holds no lock.
 */
void rxng_srq_deliver(struct rxng_srq *srq)
{
	unsigned long pending;

	if (!rxng_srq_pending(srq))
		return;
	pending = xchg(&srq->pending, 0);
	if (pending & BIT(RXNG_SRQ_PENDING_LIMIT))
		deliver(srq, IB_EVENT_SRQ_LIMIT_REACHED);
	if (pending & BIT(RXNG_SRQ_PENDING_ERR))
		deliver(srq, IB_EVENT_SRQ_ERR);
}

static int map(struct rxng_ring *ring, struct ib_udata *udata,
	       struct rxng_mminfo *mi)
{
	struct rxng_ucontext *uc =
		rdma_udata_to_drv_context(udata, struct rxng_ucontext, ibuc);

	return rxng_ring_map(ring, &uc->ibuc, mi);
}

static int create(struct rxng_srq *srq, const struct ib_srq_attr *attr,
		  struct ib_udata *udata)
{
	struct rxng_create_srq_resp resp = {};
	int err;

	srq->max_sge = attr->max_sge;
	err = rxng_ring_create(&srq->ring, attr->max_wr,
			       rxng_recv_slot_size(attr->max_sge));
	if (err || !udata)
		return err;
	err = map(&srq->ring, udata, &resp.mi);
	if (!err)
		err = rxng_udata_respond(udata, &resp, sizeof(resp));
	if (err)
		rxng_ring_destroy(&srq->ring);
	return err;
}

/**
 * rxng_create_srq - make an SRQ; see struct ib_device_ops
 * @ibsrq: SRQ to set up
 * @init: type and sizes; the sizes are updated to what is given
 * @udata: private part of a user's call, else NULL
 *
 * Return: 0; -EOPNOTSUPP for a type that is not there; -EINVAL for sizes that
 * are zero or beyond the device's; -ENOMEM at a limit or without memory.
 * Context: process.
 */
int rxng_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		    struct ib_udata *udata)
{
	struct rxng_dev *dev = to_rxng_dev(ibsrq->device);
	struct rxng_srq *srq = to_rxng_srq(ibsrq);
	struct ib_srq_attr *attr = &init->attr;
	int err;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	err = rxng_udata_check(udata, sizeof(struct rxng_create_srq_resp));
	if (err)
		return err;
	if (!attr->max_wr || attr->max_wr > RXNG_MAX_SRQ_WR ||
	    attr->max_sge > RXNG_MAX_SGE)
		return -EINVAL;
	if (!rxng_take(&dev->num_srq, RXNG_MAX_SRQ, &ibsrq->pd->res))
		return -ENOMEM;
	spin_lock_init(&srq->lock);
	spin_lock_init(&srq->post_lock);
	mutex_init(&srq->resizing);
	srq->user = udata;
	err = create(srq, attr, udata);
	if (err) {
		mutex_destroy(&srq->resizing);
		rxng_give(&dev->num_srq, &ibsrq->pd->res);
		return err;
	}
	attr->max_wr = srq->ring.mask;
	return 0;
}

static void set_limit(struct rxng_srq *srq, u32 limit)
{
	spin_lock_bh(&srq->lock);
	srq->limit = limit;
	check_limit(srq, look(srq));
	spin_unlock_bh(&srq->lock);
	rxng_srq_deliver(srq);
}

/*
 * Slots of the old ring since @taken was the count, of which @moved are moved. A
 * process that takes back one of those has broken the SRQ.
 */
static u32 slots_since(struct rxng_srq *srq, u32 taken, u32 moved)
{
	u32 total = srq->taken - taken + look(srq);

	if (total < moved)
		break_it(srq);
	return total;
}

/*
 * What is left moves too, and @to takes the ring's place and becomes it. A
 * process is not asked again: it could have posted any number by now.
 */
static int exchange(struct rxng_srq *srq, struct rxng_ring *to, u32 first,
		    u32 taken, u32 moved, u32 total)
{
	struct rxng_ring *from = &srq->ring;
	unsigned long flags;
	int err = -EINVAL;

	spin_lock_irqsave(&srq->post_lock, flags);
	if (!srq->user)
		total = slots_since(srq, taken, moved);
	if (!srq->broken && total <= to->mask) {
		rxng_ring_copy(to, moved, from, first + moved, total - moved);
		rxng_ring_retire(to, srq->taken - taken);
		WRITE_ONCE(to->shared->producer_index, total);
		swap(*from, *to);
		err = 0;
	}
	spin_unlock_irqrestore(&srq->post_lock, flags);
	return err;
}

/*
 * What is posted moves to another ring; most of it without a lock, while QPs
 * take from the old one and a kernel consumer posts to it. What is taken
 * meanwhile moves too and is not seen again; when that needs too much room,
 * begin anew.
 */
static int move_to(struct rxng_srq *srq, struct rxng_ring *to)
{
	u32 first, taken, total, moved = 0;
	int err;

	spin_lock_bh(&srq->lock);
	first = srq->ring.index;
	taken = srq->taken;
	for (;;) {
		total = slots_since(srq, taken, moved);
		if (total > to->mask && srq->taken != taken && !srq->broken &&
		    !fatal_signal_pending(current)) {
			first = srq->ring.index;
			taken = srq->taken;
			moved = 0;
			continue;
		}
		if (srq->broken || total > to->mask ||
		    total - moved <= MOVE_LOCKED)
			break;
		spin_unlock_bh(&srq->lock);
		rxng_ring_copy(to, moved, &srq->ring, first + moved, total - moved);
		moved = total;
		cond_resched();
		spin_lock_bh(&srq->lock);
	}
	err = exchange(srq, to, first, taken, moved, total);
	spin_unlock_bh(&srq->lock);
	return err;
}

/*
 * Where the provider wants to be told of the new ring's place; the request has
 * no answer of its own.
 */
static int tell_place(struct ib_udata *udata, const struct rxng_mminfo *mi)
{
	struct rxng_modify_srq_cmd cmd;

	if (ib_copy_from_udata(&cmd, udata, sizeof(cmd)))
		return -EFAULT;
	return copy_to_user(u64_to_user_ptr(cmd.mmap_info_addr), mi,
			    sizeof(*mi)) ? -EFAULT : 0;
}

static int resize(struct rxng_srq *srq, u32 max_wr, struct ib_udata *udata)
{
	struct rxng_mminfo mi = {};
	struct rxng_ring ring;
	int err;

	err = rxng_ring_create(&ring, max_wr, rxng_recv_slot_size(srq->max_sge));
	if (err)
		return err;
	if (srq->user) {
		err = map(&ring, udata, &mi);
		if (!err)
			err = tell_place(udata, &mi);
	}
	if (!err)
		err = move_to(srq, &ring);
	rxng_ring_destroy(&ring);
	return err;
}

static int check_modify(const struct rxng_srq *srq,
			const struct ib_srq_attr *attr,
			enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	u32 max_wr = READ_ONCE(srq->ring.mask);

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EOPNOTSUPP;
	if (mask & IB_SRQ_MAX_WR) {
		max_wr = attr->max_wr;
		if (!max_wr || max_wr > RXNG_MAX_SRQ_WR)
			return -EINVAL;
		if (srq->user && (!udata || udata->inlen <
				  sizeof(struct rxng_modify_srq_cmd)))
			return -EINVAL;
	}
	return mask & IB_SRQ_LIMIT && attr->srq_limit > max_wr ? -EINVAL : 0;
}

/**
 * rxng_modify_srq - resize an SRQ or arm its limit; see struct ib_device_ops
 * @ibsrq: SRQ
 * @attr: new values
 * @mask: IB_SRQ_MAX_WR, IB_SRQ_LIMIT
 * @udata: private part of a user's call: where to tell the new ring's place
 *
 * A limit above what is posted is reached at once. A process' provider keeps
 * itself from posting while the ring is exchanged.
 *
 * Return: 0; -EINVAL for sizes that do not go, or fewer than are posted now;
 * -EOPNOTSUPP, -EFAULT, -ENOMEM.
 * Context: process.
 */
int rxng_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct rxng_srq *srq = to_rxng_srq(ibsrq);
	int err;

	err = check_modify(srq, attr, mask, udata);
	if (err)
		return err;
	if (mask & IB_SRQ_MAX_WR) {
		mutex_lock(&srq->resizing);
		err = resize(srq, attr->max_wr, udata);
		if (!err)
			attr->max_wr = srq->ring.mask;
		mutex_unlock(&srq->resizing);
		rxng_srq_deliver(srq);
		if (err)
			return err;
	}
	if (mask & IB_SRQ_LIMIT)
		set_limit(srq, attr->srq_limit);
	return 0;
}

/**
 * rxng_query_srq - tell sizes and limit; see struct ib_device_ops
 * @ibsrq: SRQ
 * @attr: filled in
 *
 * Return: 0.
 * Context: process.
 */
int rxng_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct rxng_srq *srq = to_rxng_srq(ibsrq);

	spin_lock_bh(&srq->lock);
	attr->max_wr = srq->ring.mask;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = srq->limit;
	spin_unlock_bh(&srq->lock);
	return 0;
}

/**
 * rxng_destroy_srq - an SRQ goes; see struct ib_device_ops
 * @ibsrq: SRQ that no QP uses
 * @udata: ignored
 *
 * Return: 0.
 * Context: process.
 */
int rxng_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct rxng_srq *srq = to_rxng_srq(ibsrq);

	rxng_ring_destroy(&srq->ring);
	mutex_destroy(&srq->resizing);
	rxng_give(&to_rxng_dev(ibsrq->device)->num_srq, &ibsrq->pd->res);
	return 0;
}

/**
 * rxng_post_srq_recv - post a kernel consumer's receive requests
 * @ibsrq: SRQ
 * @wr: list
 * @bad_wr: first one that was not posted
 *
 * Return: 0; -EINVAL for a process' SRQ or a malformed request; -ENOMEM when
 * the queue is full.
 * Context: any.
 */
int rxng_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr)
{
	struct rxng_srq *srq = to_rxng_srq(ibsrq);
	unsigned long flags;
	int err;

	if (srq->user) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&srq->post_lock, flags);
	err = rxng_recv_post(&srq->ring, srq->max_sge, wr, bad_wr);
	spin_unlock_irqrestore(&srq->post_lock, flags);
	return err;
}
