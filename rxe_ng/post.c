// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Work requests come in here: a kernel consumer's lists, a process' rings.
 * What a process wrote is read once, checked, and never read again.
 */
#include "qp.h"

/* Requests that one look at a process' send ring takes. */
#define FETCH_MAX 32

#define RC BIT(RXNG_SERVICE_RC)
#define UC BIT(RXNG_SERVICE_UC)
#define UD BIT(RXNG_SERVICE_UD)

/* What a send opcode asks the transport to do, and which services have it. */
static const struct {
	u8 kind;
	u8 flags;
	u8 services;
	bool kernel_only;
} send_ops[] = {
	[RXNG_WR_RDMA_WRITE] = { RXNG_KIND_WRITE, 0, RC | UC },
	[RXNG_WR_RDMA_WRITE_WITH_IMM] = { RXNG_KIND_WRITE, RXNG_SWQE_IMM,
					  RC | UC },
	[RXNG_WR_SEND] = { RXNG_KIND_SEND, 0, RC | UC | UD },
	[RXNG_WR_SEND_WITH_IMM] = { RXNG_KIND_SEND, RXNG_SWQE_IMM,
				    RC | UC | UD },
	[RXNG_WR_SEND_WITH_INV] = { RXNG_KIND_SEND, RXNG_SWQE_INV, RC },
	[RXNG_WR_RDMA_READ] = { RXNG_KIND_READ, 0, RC },
	[RXNG_WR_RDMA_READ_WITH_INV] = { RXNG_KIND_READ, 0, RC, true },
	[RXNG_WR_ATOMIC_CMP_AND_SWP] = { RXNG_KIND_ATOMIC, RXNG_SWQE_CMP_SWAP,
					 RC },
	[RXNG_WR_ATOMIC_FETCH_AND_ADD] = { RXNG_KIND_ATOMIC, 0, RC },
	[RXNG_WR_FLUSH] = { RXNG_KIND_FLUSH, 0, RC },
	[RXNG_WR_ATOMIC_WRITE] = { RXNG_KIND_ATOMIC_WRITE, 0, RC },
	[RXNG_WR_LOCAL_INV] = { RXNG_KIND_NONE, RXNG_SWQE_BARRIER, RC | UC },
	[RXNG_WR_BIND_MW] = { RXNG_KIND_NONE, 0, RC | UC },
	[RXNG_WR_REG_MR] = { RXNG_KIND_NONE, 0, RC | UC, true },
};

static_assert(RXNG_WR_RDMA_WRITE == (int)IB_WR_RDMA_WRITE);
static_assert(RXNG_WR_SEND_WITH_INV == (int)IB_WR_SEND_WITH_INV);
static_assert(RXNG_WR_ATOMIC_FETCH_AND_ADD ==
	      (int)IB_WR_ATOMIC_FETCH_AND_ADD);
static_assert(RXNG_WR_LOCAL_INV == (int)IB_WR_LOCAL_INV);
static_assert(RXNG_WR_RDMA_READ_WITH_INV == (int)IB_WR_RDMA_READ_WITH_INV);
static_assert(RXNG_WR_BIND_MW == (int)IB_WR_BIND_MW);
static_assert(RXNG_WR_REG_MR == (int)IB_WR_REG_MR);
static_assert(RXNG_SEND_FENCE == (int)IB_SEND_FENCE);
static_assert(RXNG_SEND_INLINE == (int)IB_SEND_INLINE);
static_assert(RXNG_SWQE_INLINE == RXNG_SEND_INLINE);
static_assert(RXNG_SWQE_SOLICITED == RXNG_SEND_SOLICITED);
static_assert(RXNG_SWQE_SIGNALED == RXNG_SEND_SIGNALED);

static bool op_known(const struct rxng_qp *qp, u32 opcode)
{
	return opcode < ARRAY_SIZE(send_ops) &&
	       send_ops[opcode].services & BIT(qp->req.service) &&
	       !(qp->user && send_ops[opcode].kernel_only);
}

static void begin(struct rxng_send *send, u64 wr_id, u32 opcode, u32 flags)
{
	const u32 from_consumer = RXNG_SWQE_FENCE | RXNG_SWQE_SIGNALED |
				  RXNG_SWQE_SOLICITED | RXNG_SWQE_INLINE;

	memset(send, 0, sizeof(*send));
	send->w.wr_id = wr_id;
	send->w.opcode = opcode;
	send->w.kind = send_ops[opcode].kind;
	send->w.flags = (flags & from_consumer) | send_ops[opcode].flags;
}

/*
 * Faults of a request that are told by its completion, as adapters do it
 * (10.8.3.1: only what is seen at once is an immediate error).
 */
static void check_length(struct rxng_send *send, u64 length)
{
	send->w.length = length;
	if (length > RXNG_MAX_MESSAGE ||
	    ((send->w.kind == RXNG_KIND_ATOMIC ||
	      send->w.kind == RXNG_KIND_ATOMIC_WRITE) &&
	     length != sizeof(u64))) {
		send->w.state = RXNG_SWQE_FAILED;
		send->w.status = RXNG_WC_LOC_LEN_ERR;
	}
}

static void refuse(struct rxng_send *send, u64 wr_id, u32 opcode,
		   enum rxng_status status)
{
	memset(send, 0, sizeof(*send));
	send->w.wr_id = wr_id;
	send->w.opcode = min_t(u32, opcode, U8_MAX);
	send->w.state = RXNG_SWQE_FAILED;
	send->w.status = status;
}

static u32 flush_header(u8 type, u8 level)
{
	return (type & RXNG_FETH_TYPE_MASK) |
	       (level & RXNG_FETH_LEVEL_MASK) << RXNG_FETH_LEVEL_SHIFT;
}

/* Has data that goes to the peer, and not some of the peer's to be put. */
static bool carries_data(const struct rxng_send *send)
{
	return !rxng_kind_has_response(send->w.kind) ||
	       send->w.kind == RXNG_KIND_ATOMIC_WRITE;
}

static void fetch_operation(struct rxng_send *send,
			    const struct rxng_send_wqe *wqe)
{
	send->w.raddr = READ_ONCE(wqe->wr.rdma.remote_addr);
	if (send->w.kind == RXNG_KIND_ATOMIC) {
		send->w.rkey = READ_ONCE(wqe->wr.atomic.rkey);
		send->w.compare = READ_ONCE(wqe->wr.atomic.compare_add);
		send->w.swap_add = send->w.flags & RXNG_SWQE_CMP_SWAP ?
					   READ_ONCE(wqe->wr.atomic.swap) :
					   send->w.compare;
	} else if (send->w.kind == RXNG_KIND_FLUSH) {
		send->w.rkey = READ_ONCE(wqe->wr.flush.rkey);
		send->w.feth = flush_header(READ_ONCE(wqe->wr.flush.type),
					    READ_ONCE(wqe->wr.flush.level));
		return;
	} else {
		send->w.rkey = READ_ONCE(wqe->wr.rdma.rkey);
	}
	if (send->w.flags & RXNG_SWQE_INV)
		send->w.inv_rkey = READ_ONCE(wqe->ex.invalidate_rkey);
	else
		send->w.imm = READ_ONCE(wqe->ex.imm_data);
}

/* A local operation has no data. */
static void fetch_local(struct rxng_send *send, const struct rxng_send_wqe *wqe)
{
	if (send->w.opcode == RXNG_WR_LOCAL_INV) {
		send->key = READ_ONCE(wqe->ex.invalidate_rkey);
		return;
	}
	send->bind = (struct rxng_bind){
		.addr = READ_ONCE(wqe->wr.mw.addr),
		.length = READ_ONCE(wqe->wr.mw.length),
		.lkey = READ_ONCE(wqe->wr.mw.mr_lkey),
		.window = READ_ONCE(wqe->wr.mw.mw_rkey),
		.key = READ_ONCE(wqe->wr.mw.rkey),
		.access = READ_ONCE(wqe->wr.mw.access),
	};
}

static u32 effective_qkey(const struct rxng_qp *qp, u32 asked)
{
	return asked & RXNG_QKEY_OWN ? qp->attr.qkey : asked;
}

/* Returns whether there is such a handle. */
static bool fetch_destination(struct rxng_qp *qp, struct rxng_send *send,
			      const struct rxng_send_wqe *wqe)
{
	send->w.dqpn = READ_ONCE(wqe->wr.ud.remote_qpn) & RXNG_QPN_MASK;
	send->w.qkey = effective_qkey(qp, READ_ONCE(wqe->wr.ud.remote_qkey));
	send->w.imm = READ_ONCE(wqe->ex.imm_data);
	send->av = rxng_av_get(rxng_qp_dev(qp), qp->ibqp.pd,
			       READ_ONCE(wqe->wr.ud.ah_num));
	return send->av;
}

static void fetch_one(struct rxng_qp *qp, struct rxng_send *send,
		      const struct rxng_send_wqe *wqe)
{
	u64 wr_id = READ_ONCE(wqe->wr_id);
	u32 opcode = READ_ONCE(wqe->opcode);
	u32 num_sge = READ_ONCE(wqe->dma.num_sge);
	u32 length = READ_ONCE(wqe->dma.length);
	bool is_inline;

	if (!op_known(qp, opcode)) {
		refuse(send, wr_id, opcode, RXNG_WC_LOC_QP_OP_ERR);
		return;
	}
	begin(send, wr_id, opcode, READ_ONCE(wqe->send_flags));
	if (send->w.kind == RXNG_KIND_NONE) {
		fetch_local(send, wqe);
		return;
	}
	/* Inline data of the stock provider's ibv_wr_*() has no flag. */
	if (!num_sge && length && carries_data(send))
		send->w.flags |= RXNG_SWQE_INLINE;
	is_inline = send->w.flags & RXNG_SWQE_INLINE;
	if (is_inline ? length > qp->cap.max_inline_data ||
				!carries_data(send) :
			num_sge > qp->cap.max_send_sge) {
		refuse(send, wr_id, opcode, RXNG_WC_LOC_QP_OP_ERR);
		return;
	}
	if (qp->req.service != RXNG_SERVICE_UD) {
		fetch_operation(send, wqe);
	} else if (!fetch_destination(qp, send, wqe)) {
		refuse(send, wr_id, opcode, RXNG_WC_LOC_QP_OP_ERR);
		return;
	}
	if (send->w.kind == RXNG_KIND_FLUSH) {
		send->w.length = length;
	} else if (is_inline) {
		memcpy(send->sge, wqe->data, length);
		check_length(send, length);
	} else {
		send->w.num_sge = num_sge;
		check_length(send, rxng_copy_user_sges(send->sge,
						       (const void *)wqe->data,
						       num_sge));
	}
}

static void fetch_user(struct rxng_qp *qp)
{
	struct rxng_req *req = &qp->req;
	u32 ready = rxng_ring_ready(&qp->sq, req->tail & qp->sq.mask);
	u32 room = qp->sq.mask - (req->tail - req->head);
	u32 i;

	/* More than fits: the process moved its index over ours. */
	if (ready == RXNG_RING_BAD || ready > room) {
		rxng_qp_fatal(qp);
		return;
	}
	qp->rung = ready > FETCH_MAX;
	for (i = 0; i < min(ready, FETCH_MAX); i++) {
		fetch_one(qp, rxng_qp_send(qp, req->tail),
			  rxng_ring_slot(&qp->sq, req->tail));
		req->tail++;
	}
}

/**
 * rxng_qp_fetch_sends - take up posted send requests
 * @qp: QP that the caller owns
 */
void rxng_qp_fetch_sends(struct rxng_qp *qp)
{
	qp->rung = false;
	if (qp->user)
		fetch_user(qp);
	else
		qp->req.tail = smp_load_acquire(&qp->posted);
}

/**
 * rxng_qp_publish_head - tell who posts that send requests were retired
 * @qp: QP that the caller owns
 */
void rxng_qp_publish_head(struct rxng_qp *qp)
{
	if (qp->user)
		rxng_ring_retire(&qp->sq, qp->req.head);
	else
		smp_store_release(&qp->retired, qp->req.head);
}

/**
 * rxng_qp_drop_posted - forget all send requests, without a completion
 * @qp: QP that the caller owns and that sends nothing
 */
void rxng_qp_drop_posted(struct rxng_qp *qp)
{
	u32 posted, last, idx;

	if (qp->user) {
		posted = READ_ONCE(qp->sq.shared->producer_index) &
			 qp->sq.mask;
		last = qp->req.tail;
	} else {
		posted = READ_ONCE(qp->posted);
		last = posted;
	}
	for (idx = qp->req.head; idx != last; idx++)
		rxng_send_release(rxng_qp_send(qp, idx));
	rxng_req_reset(&qp->req, posted);
	rxng_qp_publish_head(qp);
}

static int take_own(struct rxng_qp *qp)
{
	u32 ready = rxng_ring_ready(&qp->rq, qp->rq.index);

	if (ready == RXNG_RING_BAD)
		return -EIO;
	if (!ready)
		return -ENODATA;
	return rxng_recv_load(&qp->recv, rxng_ring_slot(&qp->rq, qp->rq.index),
			      qp->cap.max_recv_sge);
}

/**
 * rxng_qp_take_recv - take up the next receive request
 * @qp: QP that the caller owns; no receive is in use
 *
 * Return: 0; -ENODATA when none is posted, also when the queue is broken and
 * the QP goes to ERROR for it; -EINVAL when it is malformed, in which case it
 * is in use all the same, to be completed in error.
 */
int rxng_qp_take_recv(struct rxng_qp *qp)
{
	int err = qp->srq ? rxng_srq_take(qp->srq, &qp->recv) : take_own(qp);

	if (err != -EIO)
		return err;
	rxng_qp_fatal(qp);
	return -ENODATA;
}

/**
 * rxng_qp_retire_recv - the receive request in use was completed
 * @qp: QP that the caller owns
 */
void rxng_qp_retire_recv(struct rxng_qp *qp)
{
	qp->recv.taken = false;
	if (!qp->srq)
		rxng_ring_retire(&qp->rq,
				 rxng_ring_next(&qp->rq, qp->rq.index));
}

static int copy_inline(struct rxng_qp *qp, struct rxng_send *send,
		       const struct ib_send_wr *wr)
{
	void *to = send->sge;
	u64 length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (length > qp->cap.max_inline_data)
		return -EINVAL;
	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
	check_length(send, length);
	return 0;
}

static int copy_destination(struct rxng_qp *qp, struct rxng_send *send,
			    const struct ib_send_wr *wr)
{
	if (!ud_wr(wr)->ah || ud_wr(wr)->ah->pd != qp->ibqp.pd)
		return -EINVAL;
	send->w.dqpn = ud_wr(wr)->remote_qpn & RXNG_QPN_MASK;
	send->w.qkey = effective_qkey(qp, ud_wr(wr)->remote_qkey);
	send->w.imm = wr->ex.imm_data;
	send->av = to_rxng_ah(ud_wr(wr)->ah)->av;
	refcount_inc(&send->av->refs);
	return 0;
}

static void copy_operation(struct rxng_send *send, const struct ib_send_wr *wr)
{
	switch (send->w.kind) {
	case RXNG_KIND_ATOMIC:
		send->w.raddr = atomic_wr(wr)->remote_addr;
		send->w.rkey = atomic_wr(wr)->rkey;
		send->w.compare = atomic_wr(wr)->compare_add;
		send->w.swap_add = send->w.flags & RXNG_SWQE_CMP_SWAP ?
					   atomic_wr(wr)->swap :
					   atomic_wr(wr)->compare_add;
		break;
	case RXNG_KIND_WRITE:
	case RXNG_KIND_READ:
	case RXNG_KIND_ATOMIC_WRITE:
		send->w.raddr = rdma_wr(wr)->remote_addr;
		send->w.rkey = rdma_wr(wr)->rkey;
		break;
	default:
		break;
	}
	if (wr->opcode == IB_WR_REG_MR) {
		send->mr = reg_wr(wr)->mr;
		send->key = reg_wr(wr)->key;
		send->access = reg_wr(wr)->access;
	} else if (wr->opcode == IB_WR_LOCAL_INV ||
		   wr->opcode == IB_WR_RDMA_READ_WITH_INV) {
		send->key = wr->ex.invalidate_rkey;
	} else if (send->w.flags & RXNG_SWQE_INV) {
		send->w.inv_rkey = wr->ex.invalidate_rkey;
	} else {
		send->w.imm = wr->ex.imm_data;
	}
}

static int copy_data(struct rxng_qp *qp, struct rxng_send *send,
		     const struct ib_send_wr *wr)
{
	if (send->w.kind == RXNG_KIND_NONE)
		return 0;
	if (send->w.flags & RXNG_SWQE_INLINE)
		return carries_data(send) ? copy_inline(qp, send, wr) :
					    -EINVAL;
	send->w.num_sge = wr->num_sge;
	check_length(send,
		     rxng_copy_kernel_sges(send->sge, wr->sg_list, wr->num_sge));
	return 0;
}

static int copy_send(struct rxng_qp *qp, struct rxng_send *send,
		     const struct ib_send_wr *wr)
{
	int err;

	/* The kernel has no interface to windows and FLUSH. */
	if (!op_known(qp, wr->opcode) || wr->opcode == (int)RXNG_WR_BIND_MW ||
	    wr->opcode == (int)RXNG_WR_FLUSH)
		return -EOPNOTSUPP;
	if (wr->num_sge < 0 || wr->num_sge > qp->cap.max_send_sge)
		return -EINVAL;
	begin(send, wr->wr_id, wr->opcode, wr->send_flags);
	err = copy_data(qp, send, wr);
	if (err)
		return err;
	if (qp->req.service == RXNG_SERVICE_UD)
		return copy_destination(qp, send, wr);
	copy_operation(send, wr);
	return 0;
}

static int post_kernel_sends(struct rxng_qp *qp, const struct ib_send_wr *wr,
			     const struct ib_send_wr **bad_wr)
{
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&qp->post_lock, flags);
	for (; wr; wr = wr->next) {
		if (qp->posted - smp_load_acquire(&qp->retired) >=
		    qp->cap.max_send_wr)
			err = -ENOMEM;
		else
			err = copy_send(qp, rxng_qp_send(qp, qp->posted), wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
		smp_store_release(&qp->posted, qp->posted + 1);
	}
	spin_unlock_irqrestore(&qp->post_lock, flags);
	return err;
}

static bool may_post(const struct rxng_qp *qp)
{
	switch (READ_ONCE(qp->attr.qp_state)) {
	case IB_QPS_RESET:
	case IB_QPS_INIT:
	case IB_QPS_RTR:
		return false;
	default:
		return true;
	}
}

/*
 * What a process put into its ring when it may not post is not posted. Returns
 * false when it may by now.
 */
static bool refuse_posted(struct rxng_qp *qp)
{
	bool refuse;

	local_bh_disable();
	spin_lock(&qp->lock);
	refuse = !may_post(qp);
	if (refuse)
		rxng_qp_drop_posted(qp);
	rxng_qp_unlock(qp);
	local_bh_enable();
	return refuse;
}

/**
 * rxng_post_send - post send requests; for a process, its doorbell
 * @ibqp: QP
 * @wr: list of a kernel consumer; NULL for a process, whose requests stand in
 *	its ring
 * @bad_wr: first one that was not posted
 *
 * Return: 0; -EINVAL in RESET, INIT and RTR, or for a malformed request;
 * -ENOMEM when the queue is full; -EOPNOTSUPP for an unknown operation.
 * Context: any.
 */
int rxng_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr)
{
	struct rxng_qp *qp = to_rxng_qp(ibqp);
	int err = 0;

	if (!may_post(qp) && (!qp->user || refuse_posted(qp))) {
		*bad_wr = wr;
		return -EINVAL;
	}
	/* A process' requests stand in its ring, not in the call. */
	if (qp->user && wr) {
		*bad_wr = wr;
		return -EINVAL;
	}
	if (!qp->user)
		err = post_kernel_sends(qp, wr, bad_wr);
	rxng_qp_doorbell(qp);
	return err;
}

/**
 * rxng_post_recv - post receive requests of a kernel consumer
 * @ibqp: QP
 * @wr: list
 * @bad_wr: first one that was not posted
 *
 * A process writes its ring without this call.
 *
 * Return: 0; -EINVAL in RESET, for a process, with an SRQ, or for a malformed
 * request; -ENOMEM when the queue is full.
 * Context: any.
 */
int rxng_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr)
{
	struct rxng_qp *qp = to_rxng_qp(ibqp);
	unsigned long flags;
	int err;

	if (qp->user || qp->srq ||
	    READ_ONCE(qp->attr.qp_state) == IB_QPS_RESET) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&qp->recv_lock, flags);
	err = rxng_recv_post(&qp->rq, qp->cap.max_recv_sge, wr, bad_wr);
	spin_unlock_irqrestore(&qp->recv_lock, flags);
	/* Pairs with taking the wake bits: ERROR's turn sees it, or it sees ERROR. */
	smp_mb();
	if (READ_ONCE(qp->attr.qp_state) == IB_QPS_ERR)
		rxng_qp_wake(qp, RXNG_WAKE_WORK);
	return err;
}
