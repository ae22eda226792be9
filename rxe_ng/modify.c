// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The QP state machine (IBTA 10.3.1, 11.2.5.2). Attributes are checked first,
 * all of them, then applied by the QP's owner, then the state becomes visible.
 */
#include "proto/timer.h"
#include "qp.h"
#include "trace.h"

/* That a region is paged in on demand means nothing to a QP, and does no harm. */
#define ALLOWED_ACCESS                                                    \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |                 \
	 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |                \
	 IB_ACCESS_ON_DEMAND |                                            \
	 RXNG_ACCESS_FLUSH_GLOBAL | RXNG_ACCESS_FLUSH_PERSISTENT)

static_assert(RXNG_ALLOW_WRITE == (int)IB_ACCESS_REMOTE_WRITE);
static_assert(RXNG_ALLOW_READ == (int)IB_ACCESS_REMOTE_READ);
static_assert(RXNG_ALLOW_ATOMIC == (int)IB_ACCESS_REMOTE_ATOMIC);
static_assert(RXNG_ALLOW_FLUSH ==
	      (RXNG_ACCESS_FLUSH_GLOBAL | RXNG_ACCESS_FLUSH_PERSISTENT));
static_assert(RXNG_MAX_RD_ATOMIC <= RXNG_MAX_RESOURCES);

/* Largest codes of the timer and retry attributes. */
#define MAX_TIMER_CODE 31
#define MAX_RETRY 7

static int check_values(struct rxng_qp *qp, const struct ib_qp_attr *attr,
			int mask)
{
	if ((mask & IB_QP_PORT && attr->port_num != 1) ||
	    (mask & IB_QP_PKEY_INDEX && attr->pkey_index) ||
	    (mask & IB_QP_MAX_QP_RD_ATOMIC &&
	     attr->max_rd_atomic > RXNG_MAX_RD_ATOMIC) ||
	    (mask & IB_QP_MAX_DEST_RD_ATOMIC &&
	     attr->max_dest_rd_atomic > RXNG_MAX_RD_ATOMIC) ||
	    (mask & IB_QP_TIMEOUT && attr->timeout > MAX_TIMER_CODE) ||
	    (mask & IB_QP_MIN_RNR_TIMER &&
	     attr->min_rnr_timer > MAX_TIMER_CODE) ||
	    (mask & IB_QP_RETRY_CNT && attr->retry_cnt > MAX_RETRY) ||
	    (mask & IB_QP_RNR_RETRY && attr->rnr_retry > MAX_RETRY) ||
	    (mask & IB_QP_RQ_PSN && attr->rq_psn > RXNG_PSN_MASK) ||
	    (mask & IB_QP_SQ_PSN && attr->sq_psn > RXNG_PSN_MASK) ||
	    (mask & IB_QP_DEST_QPN && attr->dest_qp_num > RXNG_QPN_MASK) ||
	    (mask & IB_QP_PATH_MTU &&
	     (attr->path_mtu < IB_MTU_256 ||
	      attr->path_mtu > rxng_device_mtu(rxng_qp_dev(qp)))))
		return -EINVAL;
	if (mask & IB_QP_ACCESS_FLAGS &&
	    attr->qp_access_flags & ~ALLOWED_ACCESS)
		return -EOPNOTSUPP;
	if (mask & IB_QP_ALT_PATH || (mask & IB_QP_PATH_MIG_STATE &&
				      attr->path_mig_state != IB_MIG_MIGRATED))
		return -EOPNOTSUPP;
	return 0;
}

/* The QP's own state decides; what the consumer believes is compared. */
static int check_transition(struct rxng_qp *qp, const struct ib_qp_attr *attr,
			    int mask)
{
	enum ib_qp_state cur = READ_ONCE(qp->attr.qp_state);
	enum ib_qp_state next = mask & IB_QP_STATE ? attr->qp_state : cur;

	if (mask & IB_QP_CUR_STATE && attr->cur_qp_state != cur)
		return -EINVAL;
	if (!ib_modify_qp_is_ok(cur, next, qp->ibqp.qp_type, mask))
		return -EINVAL;
	/* Attributes for a drained queue have to wait until it is (SQD). */
	if (cur == IB_QPS_SQD && next == IB_QPS_SQD &&
	    mask & ~(IB_QP_STATE | IB_QP_CUR_STATE |
		     IB_QP_EN_SQD_ASYNC_NOTIFY) &&
	    READ_ONCE(qp->attr.sq_draining))
		return -EINVAL;
	return 0;
}

static void apply_peer(struct rxng_qp *qp)
{
	spin_lock_bh(&qp->inbox_lock);
	qp->peer[0] = qp->path.daddr;
	qp->peer[1] = qp->path.saddr;
	spin_unlock_bh(&qp->inbox_lock);
}

static void apply_path(struct rxng_qp *qp, const struct rxng_path *path,
		       const struct ib_qp_attr *attr)
{
	rxng_path_drop_route(&qp->path);
	qp->path = *path;
	qp->attr.ah_attr = attr->ah_attr;
	/* The core holds the GID for the QP; this copy is for query_qp. */
	qp->attr.ah_attr.grh.sgid_attr = NULL;
	apply_peer(qp);
}

static void apply_transport(struct rxng_qp *qp, const struct ib_qp_attr *attr,
			    int mask)
{
	struct rxng_resp *resp = &qp->resp;
	struct rxng_req *req = &qp->req;

	if (mask & IB_QP_PATH_MTU) {
		qp->attr.path_mtu = attr->path_mtu;
		req->mtu = ib_mtu_enum_to_int(attr->path_mtu);
		resp->mtu = req->mtu;
	}
	if (mask & IB_QP_MAX_QP_RD_ATOMIC) {
		qp->attr.max_rd_atomic = attr->max_rd_atomic;
		req->max_rd_atomic = attr->max_rd_atomic;
	}
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC) {
		qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
		rxng_resp_set_depth(resp, attr->max_dest_rd_atomic);
	}
	if (mask & IB_QP_ACCESS_FLAGS) {
		qp->attr.qp_access_flags = attr->qp_access_flags;
		resp->allow = attr->qp_access_flags;
	}
	if (mask & IB_QP_TIMEOUT) {
		qp->attr.timeout = attr->timeout;
		req->timeout = rxng_ack_timeout_ns(attr->timeout);
	}
	if (mask & IB_QP_RETRY_CNT) {
		qp->attr.retry_cnt = attr->retry_cnt;
		req->retry_cnt = attr->retry_cnt;
		req->retry_left = attr->retry_cnt;
	}
	if (mask & IB_QP_RNR_RETRY) {
		qp->attr.rnr_retry = attr->rnr_retry;
		req->rnr_retry = attr->rnr_retry;
		req->rnr_left = attr->rnr_retry;
	}
	if (mask & IB_QP_RQ_PSN) {
		qp->attr.rq_psn = attr->rq_psn;
		rxng_resp_start(resp, attr->rq_psn);
	}
	if (mask & IB_QP_SQ_PSN) {
		qp->attr.sq_psn = attr->sq_psn;
		rxng_req_start(req, attr->sq_psn);
	}
}

static void apply_attributes(struct rxng_qp *qp, const struct ib_qp_attr *attr,
			     int mask)
{
	if (mask & IB_QP_PORT)
		qp->attr.port_num = attr->port_num;
	if (mask & IB_QP_PKEY_INDEX)
		qp->attr.pkey_index = attr->pkey_index;
	if (mask & IB_QP_MIN_RNR_TIMER)
		qp->attr.min_rnr_timer = attr->min_rnr_timer;
	if (mask & IB_QP_PATH_MIG_STATE)
		qp->attr.path_mig_state = attr->path_mig_state;
	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY)
		qp->attr.en_sqd_async_notify = attr->en_sqd_async_notify;
	if (mask & IB_QP_QKEY)
		qp->attr.qkey = attr->qkey;
	if (mask & IB_QP_DEST_QPN) {
		qp->attr.dest_qp_num = attr->dest_qp_num;
		qp->dqpn = attr->dest_qp_num;
	}
	apply_transport(qp, attr, mask);
}

/**
 * rxng_qp_set_state - a QP enters another state
 * @qp: QP that the caller owns, or that nobody else knows
 * @state: the state, visible to others from now on
 */
void rxng_qp_set_state(struct rxng_qp *qp, enum ib_qp_state state)
{
	if (state != qp->attr.qp_state)
		trace_rxng_qp_state(qp->ibqp.qp_num, qp->attr.qp_state, state);
	WRITE_ONCE(qp->attr.qp_state, state);
}

static void reset_requester(struct rxng_qp *qp)
{
	struct rxng_req *req = &qp->req;

	req->mtu = ib_mtu_enum_to_int(IB_MTU_256);
	req->max_rd_atomic = 0;
	req->timeout = 0;
	req->retry_cnt = 0;
	req->rnr_retry = 0;
	rxng_qp_drop_posted(qp);
}

static void reset_responder(struct rxng_qp *qp)
{
	struct rxng_resp *resp = &qp->resp;

	/* A datagram may be as long as any packet. */
	resp->mtu = resp->service == RXNG_SERVICE_UD ?
			    RXNG_MAX_PAYLOAD : ib_mtu_enum_to_int(IB_MTU_256);
	resp->allow = 0;
	resp->depth = 0;
	rxng_resp_reset(resp);
	if (!qp->srq)
		rxng_ring_retire(&qp->rq,
				 READ_ONCE(qp->rq.shared->producer_index));
	qp->recv.taken = false;
	qp->reply.active = false;
	qp->ack_pending = false;
	qp->owed = 0;
	qp->established = false;
	qp->last_wqe = false;
}

/**
 * rxng_qp_reset - back to the state after creation
 * @qp: QP that the caller owns, or that nobody else knows yet
 *
 * Work that is posted vanishes without a completion (10.3.1, RESET).
 */
void rxng_qp_reset(struct rxng_qp *qp)
{
	/* IB_QPS_RESET is zero: nobody sees another state meanwhile. */
	rxng_qp_set_state(qp, IB_QPS_RESET);
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->attr.path_mtu = IB_MTU_256;
	spin_lock_bh(&qp->inbox_lock);
	qp->accepting = false;
	spin_unlock_bh(&qp->inbox_lock);
	rxng_qp_purge_inbox(qp);

	reset_requester(qp);
	reset_responder(qp);
	rxng_path_drop_route(&qp->path);
	qp->dqpn = 0;
	qp->fault.asked = false;
	qp->blocked_until = 0;
	qp->congestion_ns = 0;
	qp->recheck_at = 0;
	qp->recheck_ns = 0;
}

static void start_receiving(struct rxng_qp *qp)
{
	spin_lock_bh(&qp->inbox_lock);
	qp->accepting = true;
	spin_unlock_bh(&qp->inbox_lock);
}

/*
 * What was posted while the queue stood still is flushed before it goes on; no
 * more than fits in, whatever a process adds meanwhile.
 */
static void leave_send_error(struct rxng_qp *qp)
{
	int budget = qp->req.mask + 1;

	rxng_qp_flush_sends(qp, &budget);
}

static void enter_state(struct rxng_qp *qp, enum ib_qp_state next)
{
	if (next == qp->attr.qp_state && next != IB_QPS_SQD)
		return;
	switch (next) {
	case IB_QPS_RESET:
		rxng_qp_reset(qp);
		return;
	case IB_QPS_ERR:
		rxng_qp_error(qp);
		return;
	case IB_QPS_RTR:
		start_receiving(qp);
		break;
	case IB_QPS_RTS:
		if (qp->attr.qp_state == IB_QPS_SQE)
			leave_send_error(qp);
		/* Completions may have found no room. */
		if (qp->attr.qp_state == IB_QPS_ERR)
			return;
		qp->req.draining = false;
		qp->attr.sq_draining = 0;
		qp->attr.en_sqd_async_notify = 0;
		break;
	case IB_QPS_SQD:
		if (qp->attr.qp_state != IB_QPS_SQD) {
			qp->req.draining = true;
			qp->attr.sq_draining = 1;
		}
		break;
	default:
		break;
	}
	rxng_qp_set_state(qp, next);
}

static int modify(struct rxng_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	struct rxng_path path = {};
	int err;

	err = check_transition(qp, attr, mask);
	if (err)
		return err;
	err = check_values(qp, attr, mask);
	if (err)
		return err;
	if (mask & IB_QP_AV) {
		u32 dqpn = mask & IB_QP_DEST_QPN ? attr->dest_qp_num :
						   qp->dqpn;

		err = rxng_path_init(&path, rxng_qp_dev(qp), &attr->ah_attr,
				     qp->ibqp.qp_num, dqpn);
		if (err)
			return err;
	}

	local_bh_disable();
	spin_lock(&qp->lock);
	/* It may have gone to ERROR by itself since it was looked at. */
	err = check_transition(qp, attr, mask);
	if (!err) {
		if (mask & IB_QP_AV)
			apply_path(qp, &path, attr);
		apply_attributes(qp, attr, mask);
		if (mask & IB_QP_STATE)
			enter_state(qp, attr->qp_state);
		rxng_qp_run_owned(qp);
	}
	rxng_qp_unlock(qp);
	local_bh_enable();
	return err;
}

/**
 * rxng_modify_qp - change attributes and state; see struct ib_device_ops
 * @ibqp: QP
 * @attr: new values
 * @mask: which of them
 * @udata: ignored
 *
 * Return: 0; -EINVAL for a transition, attribute or value that is not allowed;
 * -EOPNOTSUPP for what is not supported. Nothing has changed then.
 * Context: process.
 */
int rxng_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata)
{
	struct rxng_qp *qp = to_rxng_qp(ibqp);
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	mutex_lock(&qp->modify_mutex);
	err = modify(qp, attr, mask);
	mutex_unlock(&qp->modify_mutex);
	if (err)
		return err;
	/* A kernel consumer's handlers are called from the tasklet only. */
	if (qp->user)
		rxng_qp_deliver(qp);
	else
		rxng_qp_wake(qp, RXNG_WAKE_WORK);
	return 0;
}
