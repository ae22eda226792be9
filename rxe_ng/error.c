// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* QPs in ERROR and SQE: flushing, and the events that tell the consumer. */
#include "qp.h"

/**
 * rxng_qp_news - note an event for the consumer
 * @qp: QP
 * @what: event; told once by rxng_qp_deliver()
 */
void rxng_qp_news(struct rxng_qp *qp, enum rxng_news what)
{
	set_bit(what, &qp->news);
}

/**
 * rxng_qp_error - go to ERROR
 * @qp: QP that the caller owns
 *
 * What is posted is flushed in this turn and those that follow it.
 */
void rxng_qp_error(struct rxng_qp *qp)
{
	lockdep_assert_held(&qp->lock);
	rxng_qp_set_state(qp, IB_QPS_ERR);
	qp->req.draining = false;
	qp->req.deadline = 0;
	qp->req.rnr_until = 0;
	qp->resp.nak_at = 0;
	qp->blocked_until = 0;
	qp->recheck_ns = 0;
	qp->reply.active = false;
	qp->ack_pending = false;
	qp->owed = 0;
	spin_lock_bh(&qp->inbox_lock);
	qp->accepting = false;
	spin_unlock_bh(&qp->inbox_lock);
	set_bit(RXNG_WAKE_WORK, &qp->wake);
}

/**
 * rxng_qp_send_error - go to SQE: a send of an unreliable QP failed
 * @qp: QP that the caller owns
 *
 * It receives on. What is posted is flushed until the consumer takes the QP
 * back to RTS (10.3.1, SQE).
 */
void rxng_qp_send_error(struct rxng_qp *qp)
{
	lockdep_assert_held(&qp->lock);
	rxng_qp_set_state(qp, IB_QPS_SQE);
	qp->req.draining = false;
	set_bit(RXNG_WAKE_WORK, &qp->wake);
}

/**
 * rxng_qp_fatal - go to ERROR for a cause that no completion can tell
 * @qp: QP that the caller owns
 */
void rxng_qp_fatal(struct rxng_qp *qp)
{
	if (qp->attr.qp_state == IB_QPS_ERR)
		return;
	rxng_qp_error(qp);
	rxng_qp_news(qp, RXNG_NEWS_QP_FATAL);
}

/*
 * What is posted to a shared queue is for other QPs: only the request in use
 * ends here, and the consumer is told that no other will (o11-5.2.5).
 */
static bool flush_shared(struct rxng_qp *qp, int *budget)
{
	bool any = qp->recv.taken;

	if (any) {
		rxng_recv_complete(qp, IB_WC_WR_FLUSH_ERR, NULL);
		(*budget)--;
	}
	if (!qp->last_wqe)
		rxng_qp_news(qp, RXNG_NEWS_LAST_WQE);
	qp->last_wqe = true;
	return any;
}

static bool flush_recvs(struct rxng_qp *qp, int *budget)
{
	bool any = false;

	if (qp->srq)
		return flush_shared(qp, budget);
	while (*budget > 0 &&
	       (qp->recv.taken || rxng_qp_take_recv(qp) != -ENODATA)) {
		rxng_recv_complete(qp, IB_WC_WR_FLUSH_ERR, NULL);
		(*budget)--;
		any = true;
	}
	return any;
}

/**
 * rxng_qp_flush_sends - complete posted send requests with a flush error
 * @qp: QP in ERROR or SQE that the caller owns
 * @budget: completions that this turn may still write
 *
 * Return: whether there was any.
 */
bool rxng_qp_flush_sends(struct rxng_qp *qp, int *budget)
{
	struct rxng_req *req = &qp->req;
	bool any = false;

	while (*budget > 0) {
		struct rxng_swqe *wqe;

		if (req->head == req->tail) {
			rxng_qp_fetch_sends(qp);
			if (req->head == req->tail)
				break;
		}
		wqe = rxng_req_wqe(req, req->head);
		wqe->state = RXNG_SWQE_FAILED;
		wqe->status = RXNG_WC_WR_FLUSH_ERR;
		req->una_idx = req->head;
		rxng_requester_retire(qp);
		(*budget)--;
		any = true;
	}
	rxng_req_resume(req);
	return any;
}

/**
 * rxng_qp_flush - complete posted requests with a flush error
 * @qp: QP in ERROR that the caller owns
 * @budget: completions that this turn may still write
 *
 * In posting order, sends and receives (IBTA 10.3.1, ERROR state).
 *
 * Return: whether there was any.
 */
bool rxng_qp_flush(struct rxng_qp *qp, int *budget)
{
	bool any = flush_recvs(qp, budget);

	return rxng_qp_flush_sends(qp, budget) || any;
}

static const enum ib_event_type event_of[RXNG_NEWS_COUNT] = {
	[RXNG_NEWS_COMM_EST] = IB_EVENT_COMM_EST,
	[RXNG_NEWS_SQ_DRAINED] = IB_EVENT_SQ_DRAINED,
	[RXNG_NEWS_QP_FATAL] = IB_EVENT_QP_FATAL,
	[RXNG_NEWS_QP_REQ_ERR] = IB_EVENT_QP_REQ_ERR,
	[RXNG_NEWS_QP_ACCESS_ERR] = IB_EVENT_QP_ACCESS_ERR,
	[RXNG_NEWS_LAST_WQE] = IB_EVENT_QP_LAST_WQE_REACHED,
};

static void deliver_event(struct rxng_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = qp->ibqp.device,
		.element.qp = &qp->ibqp,
		.event = type,
	};

	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

/**
 * rxng_qp_has_news - is there something for rxng_qp_deliver()?
 * @qp: QP
 */
bool rxng_qp_has_news(const struct rxng_qp *qp)
{
	return READ_ONCE(qp->news) ||
	       rxng_cq_pending(to_rxng_cq(qp->ibqp.send_cq)) ||
	       rxng_cq_pending(to_rxng_cq(qp->ibqp.recv_cq)) ||
	       rxng_srq_pending(qp->srq);
}

/**
 * rxng_qp_deliver - call the handlers for what a turn brought about
 * @qp: QP
 *
 * Context: no lock of the module held; a handler may poll, arm and post.
 */
void rxng_qp_deliver(struct rxng_qp *qp)
{
	int what;

	rxng_cq_deliver(to_rxng_cq(qp->ibqp.recv_cq));
	rxng_cq_deliver(to_rxng_cq(qp->ibqp.send_cq));
	rxng_srq_deliver(qp->srq);
	if (!READ_ONCE(qp->news))
		return;
	for (what = 0; what < RXNG_NEWS_COUNT; what++)
		if (test_and_clear_bit(what, &qp->news))
			deliver_event(qp, event_of[what]);
}
