// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Carrying out what proto/completer.c decides. */
#include "trace.h"
#include "tx.h"

static void fail(struct rxng_qp *qp)
{
	struct rxng_swqe *wqe = rxng_req_wqe(&qp->req, qp->req.una_idx);

	rxng_req_fail(&qp->req, wqe, RXNG_WC_LOC_PROT_ERR);
}

static void open_target(struct rxng_qp *qp, u32 offset,
			struct rxng_cursor *target)
{
	struct rxng_send *send = rxng_qp_send(qp, qp->req.una_idx);

	rxng_cursor_init(target, rxng_qp_dev(qp), qp->ibqp.pd, send->sge,
			 send->w.num_sge, IB_ACCESS_LOCAL_WRITE, offset);
}

/* All of a READ is there: its buffer's key ends with it, if that was asked. */
static int invalidate_after(struct rxng_qp *qp, u32 end)
{
	const struct rxng_send *send = rxng_qp_send(qp, qp->req.una_idx);

	if (send->w.opcode != RXNG_WR_RDMA_READ_WITH_INV ||
	    end != send->w.length)
		return 0;
	return rxng_mr_invalidate(&qp->ibqp, send->key, false);
}

static void place_read(struct rxng_qp *qp, const struct sk_buff *skb,
		       const struct rxng_pkt *pkt, u32 offset, u64 now)
{
	struct rxng_cursor target;
	int err;

	open_target(qp, offset, &target);
	err = rxng_cursor_write_skb(&target, skb, 0, pkt->payload_len);
	err = rxng_qp_end_copy(qp, &target, err);
	if (err == -EAGAIN)
		return;
	if (err || invalidate_after(qp, offset + pkt->payload_len))
		fail(qp);
	else
		rxng_req_answered(&qp->req, pkt->npkts, now);
}

static void place_atomic(struct rxng_qp *qp, const struct rxng_pkt *pkt,
			 u64 now)
{
	struct rxng_cursor target;
	u64 orig = pkt->orig;
	int err;

	open_target(qp, 0, &target);
	err = rxng_cursor_write(&target, &orig, sizeof(orig));
	err = rxng_qp_end_copy(qp, &target, err);
	if (err == -EAGAIN)
		return;
	if (err)
		fail(qp);
	else
		rxng_req_answered(&qp->req, 1, now);
}

static void note_retry(struct rxng_qp *qp, bool rnr)
{
	const struct rxng_req *req = &qp->req;

	rxng_qp_count(qp,
		      rnr ? RXNG_STAT_RX_RNR : RXNG_STAT_RETRANSMIT, 1);
	trace_rxng_retry(qp->ibqp.qp_num, req->una, rnr, req->retry_left,
			 req->rnr_left);
}

static void respond(struct rxng_qp *qp, enum rxng_comp_verdict verdict)
{
	if (verdict == RXNG_COMP_RETRY || verdict == RXNG_COMP_RNR)
		note_retry(qp, verdict == RXNG_COMP_RNR);
	rxng_requester_retire(qp);
}

/* @skb: what has the payload of a READ's response; NULL for others. */
static void response(struct rxng_qp *qp, const struct rxng_pkt *pkt,
		     const struct sk_buff *skb, u64 now)
{
	enum rxng_comp_verdict verdict;
	u32 offset;

	trace_rxng_rx(qp->ibqp.qp_num, pkt);
	if (pkt->kind == RXNG_KIND_ACK &&
	    pkt->syndrome == (RXNG_AETH_NAK | RXNG_NAK_PSN))
		rxng_qp_count(qp, RXNG_STAT_RX_NAK_SEQ, 1);
	verdict = rxng_req_response(&qp->req, pkt, now, &offset);
	if (verdict == RXNG_COMP_READ)
		place_read(qp, skb, pkt, offset, now);
	else if (verdict == RXNG_COMP_ATOMIC)
		place_atomic(qp, pkt, now);
	respond(qp, verdict);
}

/**
 * rxng_completer_run - take up the responses in the inbox
 * @qp: QP that the caller owns
 * @now: time in nanoseconds
 * @budget: bursts that this turn may still handle
 */
void rxng_completer_run(struct rxng_qp *qp, u64 now, int *budget)
{
	struct sk_buff *skb;
	struct rxng_pkt ack;

	while (*budget > 0 && (skb = rxng_qp_dequeue(qp, &qp->responses))) {
		if (qp->attr.qp_state != IB_QPS_ERR)
			response(qp, rxng_skb_pkt(skb), skb, now);
		(*budget)--;
		if (rxng_qp_stands_still(qp)) {
			rxng_qp_requeue(qp, &qp->responses, skb);
			return;
		}
		rxng_skb_done(skb);
	}
	if (rxng_qp_take_ack(qp, &ack) && qp->attr.qp_state != IB_QPS_ERR)
		response(qp, &ack, NULL, now);
}

/**
 * rxng_completer_timer - retransmit when the peer has been silent too long
 * @qp: QP that the caller owns
 * @now: time in nanoseconds
 *
 * Packets that have not left this host yet cannot have been answered; nor was
 * the peer asked for an answer while the QP stood still.
 */
void rxng_completer_timer(struct rxng_qp *qp, u64 now)
{
	enum rxng_comp_verdict verdict;
	bool local;

	if (qp->attr.qp_state == IB_QPS_ERR)
		return;
	local = qp->fault.asked || !rxng_tx_requests_left(qp);
	verdict = rxng_req_timeout(&qp->req, now, local);
	if (verdict != RXNG_COMP_DROP)
		respond(qp, verdict);
}
