// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Carrying out what proto/requester.c decides. */
#include "tx.h"

/* Older kernels have no names for them. */
#define WC_FLUSH 8
#define WC_ATOMIC_WRITE 9

static const enum ib_wc_opcode wc_opcode[] = {
	[RXNG_WR_RDMA_WRITE] = IB_WC_RDMA_WRITE,
	[RXNG_WR_RDMA_WRITE_WITH_IMM] = IB_WC_RDMA_WRITE,
	[RXNG_WR_SEND] = IB_WC_SEND,
	[RXNG_WR_SEND_WITH_IMM] = IB_WC_SEND,
	[RXNG_WR_SEND_WITH_INV] = IB_WC_SEND,
	[RXNG_WR_RDMA_READ] = IB_WC_RDMA_READ,
	[RXNG_WR_RDMA_READ_WITH_INV] = IB_WC_RDMA_READ,
	[RXNG_WR_ATOMIC_CMP_AND_SWP] = IB_WC_COMP_SWAP,
	[RXNG_WR_ATOMIC_FETCH_AND_ADD] = IB_WC_FETCH_ADD,
	[RXNG_WR_LOCAL_INV] = IB_WC_LOCAL_INV,
	[RXNG_WR_REG_MR] = IB_WC_REG_MR,
	[RXNG_WR_BIND_MW] = IB_WC_BIND_MW,
	[RXNG_WR_FLUSH] = WC_FLUSH,
	[RXNG_WR_ATOMIC_WRITE] = WC_ATOMIC_WRITE,
};

/* Who sees the completion may post: the request's place is free by then. */
static void complete_send(struct rxng_qp *qp, struct rxng_swqe *wqe,
			  enum ib_wc_status status)
{
	struct ib_wc wc = {
		.wr_id = wqe->wr_id,
		.status = status,
		.qp = &qp->ibqp,
		.byte_len = wqe->length,
	};
	bool silent = status == IB_WC_SUCCESS && !qp->sq_sig_all &&
		      !(wqe->flags & RXNG_SWQE_SIGNALED);

	if (wqe->opcode < ARRAY_SIZE(wc_opcode))
		wc.opcode = wc_opcode[wqe->opcode];
	rxng_send_release(container_of(wqe, struct rxng_send, w));
	rxng_req_retire(&qp->req);
	rxng_qp_publish_head(qp);
	if (silent)
		return;
	if (rxng_cq_push(to_rxng_cq(qp->ibqp.send_cq), &wc, false))
		rxng_qp_fatal(qp);
}

/* One failed: what is behind it is flushed (10.3.1, ERROR and SQE). */
static void stop_sending(struct rxng_qp *qp)
{
	if (qp->attr.qp_state == IB_QPS_ERR || qp->attr.qp_state == IB_QPS_SQE)
		return;
	if (qp->req.service == RXNG_SERVICE_RC)
		rxng_qp_error(qp);
	else
		rxng_qp_send_error(qp);
}

/* A request that is flushed ended because another one had failed. */
static void count_failure(struct rxng_qp *qp, enum rxng_status status)
{
	enum rxng_stat stat = RXNG_STAT_LOCAL_ERR;

	switch (status) {
	case RXNG_WC_WR_FLUSH_ERR:
		return;
	case RXNG_WC_BAD_RESP_ERR:
	case RXNG_WC_REM_INV_REQ_ERR:
	case RXNG_WC_REM_ACCESS_ERR:
	case RXNG_WC_REM_OP_ERR:
		stat = RXNG_STAT_REMOTE_ERR;
		break;
	case RXNG_WC_RETRY_EXC_ERR:
		stat = RXNG_STAT_RETRY_EXCEEDED;
		break;
	case RXNG_WC_RNR_RETRY_EXC_ERR:
		stat = RXNG_STAT_RNR_RETRY_EXCEEDED;
		break;
	default:
		break;
	}
	rxng_qp_count(qp, stat, 1);
}

/**
 * rxng_requester_retire - complete the requests that have ended, in order
 * @qp: QP that the caller owns
 *
 * The first one that failed takes the QP to ERROR or SQE; what is left is
 * flushed.
 */
void rxng_requester_retire(struct rxng_qp *qp)
{
	struct rxng_req *req = &qp->req;
	struct rxng_swqe *wqe;

	while ((wqe = rxng_req_retirable(req))) {
		bool failed = wqe->state == RXNG_SWQE_FAILED;

		if (failed) {
			if (req->una_idx == req->head)
				req->una_idx++;
			count_failure(qp, wqe->status);
		}
		complete_send(qp, wqe,
			      failed ? (enum ib_wc_status)wqe->status :
				       IB_WC_SUCCESS);
		if (failed) {
			stop_sending(qp);
			break;
		}
	}
}

static int do_local(struct rxng_qp *qp, struct rxng_send *send)
{
	struct rxng_dev *dev = rxng_qp_dev(qp);

	switch (send->w.opcode) {
	case RXNG_WR_REG_MR:
		return rxng_mr_fast_reg(dev, qp->ibqp.pd, send->mr, send->key,
					send->access);
	case RXNG_WR_BIND_MW:
		return rxng_mw_bind(&qp->ibqp, &send->bind);
	default:
		return rxng_mr_invalidate(&qp->ibqp, send->key, false);
	}
}

static void run_local(struct rxng_qp *qp)
{
	struct rxng_send *send = rxng_qp_send(qp, qp->req.cur);

	if (do_local(qp, send))
		rxng_req_fail(&qp->req, &send->w,
			      send->w.opcode == RXNG_WR_BIND_MW ?
				      RXNG_WC_MW_BIND_ERR :
				      RXNG_WC_LOC_QP_OP_ERR);
	else
		rxng_req_local_done(&qp->req);
}

static void open_payload(struct rxng_qp *qp, const struct rxng_send *send,
			 struct rxng_cursor *payload)
{
	u32 offset = rxng_req_offset(&qp->req);

	if (send->w.flags & RXNG_SWQE_INLINE)
		rxng_cursor_init_inline(payload, send->sge, offset);
	else
		rxng_cursor_init(payload, rxng_qp_dev(qp), qp->ibqp.pd,
				 send->sge, send->w.num_sge, 0, offset);
}

/* What was sent, for the question whether it has left this host. */
static void sent(struct rxng_qp *qp, int n, u64 now)
{
	if (n > 0)
		qp->charged_req = qp->charged;
	rxng_req_sent(&qp->req, n, now);
}

/* Returns whether the turn may go on: with the rest, if not all of it left. */
static bool send_burst(struct rxng_qp *qp, struct rxng_pkt *burst, u64 now)
{
	struct rxng_send *send = rxng_qp_send(qp, qp->req.cur);
	struct rxng_cursor payload;
	int n;

	open_payload(qp, send, &payload);
	if (send->av)
		n = rxng_tx_datagram(qp, send->av, burst, &payload, now);
	else
		n = rxng_tx_burst(qp, burst, &payload, now);
	n = rxng_qp_end_copy(qp, &payload, n);
	if (n == -EAGAIN)
		return false;
	if (n < 0) {
		rxng_req_fail(&qp->req, &send->w, RXNG_WC_LOC_PROT_ERR);
		return true;
	}
	sent(qp, n, now);
	return n;
}

/*
 * The buffers of a READ or atomic are looked at when the answer comes; a bad
 * one is found now, so that the request does not go out at all.
 */
static bool target_ok(struct rxng_qp *qp, const struct rxng_send *send)
{
	u32 i;

	for (i = 0; i < send->w.num_sge; i++) {
		const struct rxng_sge *sge = &send->sge[i];
		struct rxng_mr *mr;

		if (!sge->length)
			continue;
		mr = rxng_mr_get(rxng_qp_dev(qp), qp->ibqp.pd, sge->lkey,
				 sge->addr, sge->length,
				 IB_ACCESS_LOCAL_WRITE);
		if (IS_ERR(mr))
			return false;
		rxng_mr_put(mr);
	}
	return true;
}

static bool send_one(struct rxng_qp *qp, struct rxng_pkt *pkt, u64 now)
{
	struct rxng_send *send = rxng_qp_send(qp, qp->req.cur);
	int n;

	if (!rxng_kind_has_response(send->w.kind) ||
	    send->w.kind == RXNG_KIND_ATOMIC_WRITE)
		return send_burst(qp, pkt, now);
	if (!target_ok(qp, send)) {
		rxng_req_fail(&qp->req, &send->w, RXNG_WC_LOC_PROT_ERR);
		return true;
	}
	n = rxng_tx_burst(qp, pkt, NULL, now);
	sent(qp, n, now);
	return n;
}

/*
 * Requests are taken up when a doorbell tells of them and not before: whoever
 * runs the QP for a packet that came would take them from the CPU that posts
 * them, which is about to send them itself.
 */
static bool was_rung(struct rxng_qp *qp)
{
	return qp->rung || (test_bit(RXNG_WAKE_POST, &qp->wake) &&
			    test_and_clear_bit(RXNG_WAKE_POST, &qp->wake));
}

static void tell_drained(struct rxng_qp *qp)
{
	if (qp->attr.qp_state != IB_QPS_SQD || !qp->attr.sq_draining ||
	    !rxng_req_drained(&qp->req))
		return;
	qp->attr.sq_draining = 0;
	if (qp->attr.en_sqd_async_notify)
		rxng_qp_news(qp, RXNG_NEWS_SQ_DRAINED);
}

/**
 * rxng_requester_run - send what may be sent
 * @qp: QP that the caller owns
 * @now: time in nanoseconds
 * @budget: bursts that this turn may still handle
 */
void rxng_requester_run(struct rxng_qp *qp, u64 now, int *budget)
{
	struct rxng_req *req = &qp->req;
	bool going = qp->attr.qp_state == IB_QPS_RTS ||
		     qp->attr.qp_state == IB_QPS_SQD;

	/* Datagrams take what the port carries now. */
	if (req->service == RXNG_SERVICE_UD)
		req->mtu = ib_mtu_enum_to_int(rxng_device_mtu(rxng_qp_dev(qp)));
	while (going && *budget > 0) {
		struct rxng_pkt pkt = {};

		if (req->cur == req->tail && was_rung(qp))
			rxng_qp_fetch_sends(qp);
		switch (rxng_req_next(req, now, rxng_burst_pkts(qp), &pkt)) {
		case RXNG_REQ_LOCAL:
			run_local(qp);
			break;
		case RXNG_REQ_SEND:
			going = rxng_tx_room(qp, pkt.kind) &&
				send_one(qp, &pkt, now);
			break;
		case RXNG_REQ_TOO_LONG:
			rxng_qp_count(qp, RXNG_STAT_TX_TOO_LONG, 1);
			rxng_req_sent(req, 1, now);
			break;
		case RXNG_REQ_IDLE:
		case RXNG_REQ_WAIT:
			going = false;
			break;
		}
		*budget -= rxng_burst_cost(pkt.npkts);
	}
	if (qp->attr.qp_state == IB_QPS_ERR)
		return;
	rxng_requester_retire(qp);
	tell_drained(qp);
}
