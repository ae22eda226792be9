// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Carrying out what proto/responder.c decides. */
#include <rdma/ib_mad.h>

#include "proto/timer.h"
#include "trace.h"
#include "tx.h"

static bool reliable(const struct rxng_qp *qp)
{
	return qp->resp.service == RXNG_SERVICE_RC;
}

/*
 * Credits: receive requests that are posted and not in use (9.7.7.2). A shared
 * queue gives none, since any QP may take them (10.2.9.1).
 */
static u8 ack_syndrome(const struct rxng_qp *qp)
{
	u32 ready = qp->srq ? RXNG_RING_BAD :
			      rxng_ring_ready(&qp->rq, qp->rq.index);

	if (ready == RXNG_RING_BAD)
		return RXNG_AETH_ACK | RXNG_AETH_NO_CREDITS;
	if (ready && qp->recv.taken)
		ready--;
	return RXNG_AETH_ACK | rxng_credits_encode(ready);
}

/* For how long a NAK is tried that the network refuses or memory lacks for. */
#define OWED_NS (10 * NSEC_PER_SEC)

/*
 * A NAK does not wait for room: it is one packet for one fault of the peer's.
 */
static bool send_aeth(struct rxng_qp *qp, u8 syndrome, u32 psn, u64 now)
{
	bool ack = (syndrome & RXNG_AETH_TYPE_MASK) == RXNG_AETH_ACK;
	struct rxng_pkt pkt;

	rxng_resp_ack(&qp->resp, syndrome, psn, &pkt);
	return (!ack || rxng_tx_room(qp, pkt.kind)) &&
	       rxng_tx_burst(qp, &pkt, NULL, now) > 0;
}

static void send_ack(struct rxng_qp *qp, u64 now)
{
	if (send_aeth(qp, ack_syndrome(qp), qp->resp.ack_psn, now))
		qp->ack_pending = false;
}

/**
 * rxng_responder_pay_nak - send the NAK that could not leave yet
 * @qp: QP that the caller owns
 * @now: time in nanoseconds
 *
 * Without it the peer would learn of its fault by a time-out, and of one that
 * ended the connection never.
 */
void rxng_responder_pay_nak(struct rxng_qp *qp, u64 now)
{
	if (!qp->owed || qp->blocked_until)
		return;
	/* A NAK acknowledges all before it. */
	if (send_aeth(qp, qp->owed, qp->owed_psn, now))
		qp->ack_pending = false;
	else if (now < qp->owed_until)
		return;
	qp->owed = 0;
}

static void send_nak(struct rxng_qp *qp, u8 syndrome, u32 psn, u64 now)
{
	qp->owed = syndrome;
	qp->owed_psn = psn;
	qp->owed_until = now + OWED_NS;
	rxng_responder_pay_nak(qp, now);
}

static void reject(struct rxng_qp *qp, enum rxng_nak code, u32 psn, u64 now)
{
	rxng_qp_error(qp);
	if (reliable(qp))
		send_nak(qp, RXNG_AETH_NAK | code, psn, now);
}

/* The peer's fault costs its message and nothing else (9.8.2.2.7, 9.8.3.2). */
static void lose(struct rxng_qp *qp, enum rxng_stat why)
{
	rxng_qp_drop(qp, why);
	rxng_resp_lost(&qp->resp);
}

/* The consumer's own buffers are at fault: only the completion says so. */
static void reject_recv(struct rxng_qp *qp, enum ib_wc_status status,
			enum rxng_nak code, u64 now)
{
	rxng_qp_count(qp, RXNG_STAT_LOCAL_ERR, 1);
	rxng_recv_complete(qp, status, NULL);
	reject(qp, code, qp->resp.epsn, now);
}

static void reject_invalid(struct rxng_qp *qp, u64 now)
{
	if (!reliable(qp)) {
		lose(qp, RXNG_STAT_RX_INVALID_REQUEST);
		return;
	}
	rxng_qp_drop(qp, RXNG_STAT_RX_INVALID_REQUEST);
	rxng_qp_news(qp, RXNG_NEWS_QP_REQ_ERR);
	reject(qp, RXNG_NAK_INV_REQ, qp->resp.epsn, now);
}

static void reject_access(struct rxng_qp *qp, u32 psn, u64 now)
{
	if (!reliable(qp)) {
		lose(qp, RXNG_STAT_RX_BAD_ACCESS);
		return;
	}
	rxng_qp_drop(qp, RXNG_STAT_RX_BAD_ACCESS);
	if (qp->recv.taken)
		rxng_recv_complete(qp, IB_WC_LOC_ACCESS_ERR, NULL);
	rxng_qp_news(qp, RXNG_NEWS_QP_ACCESS_ERR);
	reject(qp, RXNG_NAK_REM_ACC, psn, now);
}

/* Only of a datagram does the receiver learn where it came from. */
static void tell_origin(const struct rxng_pkt *pkt, struct ib_wc *wc)
{
	wc->byte_len += RXNG_GRH_LEN;
	wc->src_qp = pkt->sqpn;
	wc->wc_flags |= IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE;
	wc->network_hdr_type = pkt->bits & RXNG_PKT_IPV6 ? RDMA_NETWORK_IPV6 :
							  RDMA_NETWORK_IPV4;
	if (pkt->vlan == RXNG_NO_VLAN)
		return;
	wc->wc_flags |= IB_WC_WITH_VLAN;
	wc->vlan_id = pkt->vlan;
}

/**
 * rxng_recv_complete - complete the receive request in use
 * @qp: QP that the caller owns
 * @status: completion status
 * @pkt: last packet of the message; NULL when @status is an error
 */
void rxng_recv_complete(struct rxng_qp *qp, enum ib_wc_status status,
			const struct rxng_pkt *pkt)
{
	struct ib_wc wc = {
		.wr_id = qp->recv.wr_id,
		.status = status,
		.opcode = IB_WC_RECV,
		.qp = &qp->ibqp,
		.src_qp = qp->dqpn,
		.port_num = 1,
	};
	bool solicited = pkt && pkt->bits & RXNG_PKT_SOLICITED;

	if (pkt) {
		wc.byte_len = qp->resp.got;
		if (pkt->kind == RXNG_KIND_WRITE)
			wc.opcode = IB_WC_RECV_RDMA_WITH_IMM;
		if (pkt->flags & RXNG_PKT_IMM) {
			wc.wc_flags = IB_WC_WITH_IMM;
			wc.ex.imm_data = pkt->imm;
		} else if (pkt->flags & RXNG_PKT_INV) {
			wc.wc_flags = IB_WC_WITH_INVALIDATE;
			wc.ex.invalidate_rkey = pkt->inv_rkey;
		}
		if (pkt->flags & RXNG_PKT_DETH)
			tell_origin(pkt, &wc);
	}
	rxng_qp_retire_recv(qp);
	if (rxng_cq_push(to_rxng_cq(qp->ibqp.recv_cq), &wc, solicited))
		rxng_qp_fatal(qp);
}

/* Returns whether a receive request is at hand. */
static bool need_recv(struct rxng_qp *qp, const struct rxng_pkt *pkt, u64 now)
{
	int err = qp->recv.taken ? 0 : rxng_qp_take_recv(qp);

	if (err == -ENODATA) {
		if (qp->attr.qp_state == IB_QPS_ERR)
			return false;
		if (!reliable(qp)) {
			lose(qp, RXNG_STAT_OUT_OF_BUFFER);
			return false;
		}
		rxng_qp_count(qp, RXNG_STAT_TX_RNR, 1);
		rxng_resp_not_ready(&qp->resp, pkt);
		send_nak(qp, RXNG_AETH_RNR | qp->attr.min_rnr_timer,
			 qp->resp.epsn, now);
		return false;
	}
	if (err) {
		reject_recv(qp, IB_WC_LOC_QP_OP_ERR, RXNG_NAK_REM_OP, now);
		return false;
	}
	return true;
}

/* A receive may be at hand from a message that was lost (9.8.2.2.1). */
static void finish(struct rxng_qp *qp, const struct rxng_pkt *pkt)
{
	bool consumes = pkt->kind == RXNG_KIND_SEND ||
			pkt->flags & RXNG_PKT_IMM;

	rxng_resp_done(&qp->resp, pkt, 0);
	if (pkt->bits & RXNG_PKT_ACK_REQ && reliable(qp))
		qp->ack_pending = true;
	if (pkt->flags & RXNG_PKT_END && consumes)
		rxng_recv_complete(qp, IB_WC_SUCCESS, pkt);
}

/* A receive's memory is of the domain of the queue that it was posted to. */
static const struct ib_pd *recv_pd(const struct rxng_qp *qp)
{
	return qp->srq ? qp->srq->ibsrq.pd : qp->ibqp.pd;
}

/*
 * The receive requests' own memory; returns whether @len bytes are there. They
 * are not when the receive was rejected, or when the QP waits for pages.
 */
static bool place(struct rxng_qp *qp, const struct sk_buff *skb, u32 at,
		  u32 from, u32 len, u64 now)
{
	struct rxng_cursor to;
	int err;

	rxng_cursor_init(&to, rxng_qp_dev(qp), recv_pd(qp), qp->recv.sge,
			 qp->recv.num_sge, IB_ACCESS_LOCAL_WRITE, at);
	err = rxng_cursor_write_skb(&to, skb, from, len);
	err = rxng_qp_end_copy(qp, &to, err);
	if (err && err != -EAGAIN)
		reject_recv(qp, IB_WC_LOC_PROT_ERR, RXNG_NAK_REM_OP, now);
	return !err;
}

/*
 * The core writes a line into the log for each MAD that is none, which a peer
 * could make it do without end.
 */
static bool is_mad(const struct sk_buff *skb, const struct rxng_pkt *pkt)
{
	u8 version;

	return pkt->payload_len == IB_MGMT_MAD_SIZE &&
	       !skb_copy_bits(skb, RXNG_GRH_LEN, &version, sizeof(version)) &&
	       version == IB_MGMT_BASE_VERSION;
}

/* With the global route header in front (annex A17.4.5.1). */
static void execute_datagram(struct rxng_qp *qp, const struct sk_buff *skb,
			     const struct rxng_pkt *pkt, u64 now)
{
	u32 len = RXNG_GRH_LEN + pkt->payload_len;

	if (pkt->qkey != qp->attr.qkey) {
		lose(qp, RXNG_STAT_RX_BAD_QKEY);
		return;
	}
	if (qp->ibqp.qp_type == IB_QPT_GSI && !is_mad(skb, pkt)) {
		lose(qp, RXNG_STAT_RX_MALFORMED);
		return;
	}
	if (!need_recv(qp, pkt, now))
		return;
	if (len > qp->recv.length)
		lose(qp, RXNG_STAT_RX_TOO_LONG);
	else if (place(qp, skb, 0, 0, len, now))
		finish(qp, pkt);
}

static void execute_send(struct rxng_qp *qp, const struct sk_buff *skb,
			 const struct rxng_pkt *pkt, u32 from, u64 now)
{
	u32 got = pkt->flags & RXNG_PKT_START ? 0 : qp->resp.got;

	if (!need_recv(qp, pkt, now))
		return;
	if ((u64)got + pkt->payload_len > qp->recv.length) {
		if (!reliable(qp)) {
			lose(qp, RXNG_STAT_RX_TOO_LONG);
			return;
		}
		reject_recv(qp, IB_WC_LOC_LEN_ERR, RXNG_NAK_INV_REQ, now);
		return;
	}
	if (!place(qp, skb, got, from, pkt->payload_len, now))
		return;
	if (pkt->flags & RXNG_PKT_INV &&
	    rxng_mr_invalidate(&qp->ibqp, pkt->inv_rkey, true)) {
		reject_access(qp, qp->resp.epsn, now);
		return;
	}
	finish(qp, pkt);
}

/* The whole rest of the message has to be in reach, not this part alone. */
static int write_payload(struct rxng_qp *qp, const struct sk_buff *skb,
			 const struct rxng_pkt *pkt, u32 from)
{
	u32 resid = pkt->flags & RXNG_PKT_START ? pkt->dma_len :
						  qp->resp.resid;
	struct rxng_write_target target;
	struct rxng_cursor to;
	struct rxng_sge sge;
	int err;

	if (!resid)
		return 0;
	rxng_resp_target(&qp->resp, pkt, &target);
	sge.addr = target.va;
	sge.length = resid;
	sge.lkey = target.rkey;
	rxng_cursor_init_remote(&to, &qp->ibqp, &sge, IB_ACCESS_REMOTE_WRITE,
				0);
	err = rxng_cursor_write_skb(&to, skb, from, pkt->payload_len);
	return rxng_qp_end_copy(qp, &to, err);
}

static void execute_write(struct rxng_qp *qp, const struct sk_buff *skb,
			  const struct rxng_pkt *pkt, u32 from, u64 now)
{
	bool imm = pkt->flags & RXNG_PKT_IMM;
	int err;

	/*
	 * The packet with the immediate takes a receive, then its key is looked
	 * at; in a longer burst the first packet's key comes before.
	 */
	if (imm && pkt->npkts == 1 && !need_recv(qp, pkt, now))
		return;
	err = write_payload(qp, skb, pkt, from);
	if (err == -EAGAIN)
		return;
	if (err) {
		reject_access(qp, qp->resp.epsn, now);
		return;
	}
	if (imm && !need_recv(qp, pkt, now))
		return;
	finish(qp, pkt);
}

static void start_reply(struct rxng_qp *qp, const struct rxng_resource *res,
			u32 first)
{
	/* Before the answer a NAK would say that the answer is lost. */
	qp->owed = 0;
	qp->reply = (struct rxng_reply){
		.active = true,
		.res = *res,
		.first = first,
		.next = first,
	};
}

static void execute_read(struct rxng_qp *qp, const struct rxng_pkt *pkt,
			 u64 now)
{
	if (pkt->dma_len) {
		struct rxng_mr *mr = rxng_mr_get_remote(&qp->ibqp, pkt->rkey,
							pkt->va, pkt->dma_len,
							IB_ACCESS_REMOTE_READ);

		if (IS_ERR(mr)) {
			reject_access(qp, qp->resp.epsn, now);
			return;
		}
		rxng_mr_put(mr);
	}
	start_reply(qp, rxng_resp_done(&qp->resp, pkt, 0), 0);
}

/*
 * The region with the eight bytes that an atomic operation names, to be put;
 * NULL when the request was rejected.
 */
static struct rxng_mr *get_aligned(struct rxng_qp *qp,
				   const struct rxng_pkt *pkt, u32 access,
				   u64 now)
{
	struct rxng_mr *mr = rxng_mr_get_remote(&qp->ibqp, pkt->rkey, pkt->va,
						sizeof(u64), access);

	if (IS_ERR(mr)) {
		reject_access(qp, qp->resp.epsn, now);
		return NULL;
	}
	if (!rxng_mr_aligned(mr, pkt->va)) {
		rxng_mr_put(mr);
		reject_invalid(qp, now);
		return NULL;
	}
	return mr;
}

/*
 * @err: of the operation. Returns whether it was done; if not, the request was
 * rejected or the QP waits for the page.
 */
static bool cell_was_there(struct rxng_qp *qp, const struct rxng_pkt *pkt,
			   int err, u64 now)
{
	if (err == -EAGAIN)
		err = rxng_qp_page_in_cell(qp, pkt->rkey, pkt->va);
	if (err && err != -EAGAIN)
		reject_access(qp, qp->resp.epsn, now);
	return !err;
}

static void execute_atomic(struct rxng_qp *qp, const struct rxng_pkt *pkt,
			   u64 now)
{
	struct rxng_mr *mr = get_aligned(qp, pkt, IB_ACCESS_REMOTE_ATOMIC, now);
	u64 orig;
	int err;

	if (!mr)
		return;
	err = rxng_mr_atomic(mr, pkt->va, pkt->opcode == RXNG_RC_CMP_SWAP,
			     pkt->compare, pkt->swap_add, &orig);
	rxng_mr_put(mr);
	if (!cell_was_there(qp, pkt, err, now))
		return;
	start_reply(qp, rxng_resp_done(&qp->resp, pkt, orig), 0);
}

static void execute_flush(struct rxng_qp *qp, const struct rxng_pkt *pkt,
			  u64 now)
{
	int err = rxng_mr_flush(&qp->ibqp, pkt);

	if (!err && rxng_flush_type(pkt->feth) & RXNG_FLUSH_PERSISTENT)
		err = rxng_qp_write_back(qp, pkt);
	if (err == -EAGAIN)
		return;
	if (err)
		reject_access(qp, qp->resp.epsn, now);
	else
		start_reply(qp, rxng_resp_done(&qp->resp, pkt, 0), 0);
}

static void execute_atomic_write(struct rxng_qp *qp, const struct sk_buff *skb,
				 const struct rxng_pkt *pkt, u64 now)
{
	struct rxng_mr *mr;
	u64 value;
	int err;

	static_assert(sizeof(value) == RXNG_ATOMIC_WRITE_LEN);
	mr = get_aligned(qp, pkt, IB_ACCESS_REMOTE_WRITE, now);
	if (!mr)
		return;
	if (skb_copy_bits(skb, 0, &value, sizeof(value))) {
		rxng_mr_put(mr);
		reject_invalid(qp, now);
		return;
	}
	err = rxng_mr_store(mr, pkt->va, value);
	rxng_mr_put(mr);
	if (!cell_was_there(qp, pkt, err, now))
		return;
	start_reply(qp, rxng_resp_done(&qp->resp, pkt, 0), 0);
}

static void execute(struct rxng_qp *qp, struct sk_buff *skb,
		    const struct rxng_pkt *pkt, u32 from, u64 now)
{
	bool connected = !(pkt->flags & RXNG_PKT_DETH);

	if (connected && !qp->established && qp->attr.qp_state == IB_QPS_RTR)
		rxng_qp_news(qp, RXNG_NEWS_COMM_EST);
	qp->established = true;
	switch (pkt->kind) {
	case RXNG_KIND_SEND:
		if (connected)
			execute_send(qp, skb, pkt, from, now);
		else
			execute_datagram(qp, skb, pkt, now);
		break;
	case RXNG_KIND_WRITE:
		execute_write(qp, skb, pkt, from, now);
		break;
	case RXNG_KIND_READ:
		execute_read(qp, pkt, now);
		break;
	case RXNG_KIND_FLUSH:
		execute_flush(qp, pkt, now);
		break;
	case RXNG_KIND_ATOMIC_WRITE:
		execute_atomic_write(qp, skb, pkt, now);
		break;
	default:
		execute_atomic(qp, pkt, now);
		break;
	}
}

static void request(struct rxng_qp *qp, struct sk_buff *skb, u64 now)
{
	struct rxng_pkt *pkt = rxng_skb_pkt(skb);
	struct rxng_resource *res;
	u32 skip;

	WRITE_ONCE(qp->streak, 0);
	trace_rxng_rx(qp->ibqp.qp_num, pkt);
	switch (rxng_resp_request(&qp->resp, pkt, &skip, &res)) {
	case RXNG_RESP_DROP:
		break;
	case RXNG_RESP_EXECUTE:
		execute(qp, skb, pkt, skip * qp->resp.mtu, now);
		break;
	case RXNG_RESP_ACK_AGAIN:
		rxng_qp_count(qp, RXNG_STAT_DUP_REQUEST, 1);
		qp->ack_pending = true;
		break;
	case RXNG_RESP_READ_AGAIN:
		rxng_qp_count(qp, RXNG_STAT_DUP_REQUEST, 1);
		start_reply(qp, res, (pkt->psn - res->psn) & RXNG_PSN_MASK);
		break;
	case RXNG_RESP_ATOMIC_AGAIN:
		rxng_qp_count(qp, RXNG_STAT_DUP_REQUEST, 1);
		start_reply(qp, res, 0);
		break;
	case RXNG_RESP_NAK_PSN:
		rxng_qp_count(qp, RXNG_STAT_OUT_OF_SEQ_REQUEST, 1);
		send_nak(qp, RXNG_AETH_NAK | RXNG_NAK_PSN, qp->resp.epsn, now);
		if (!qp->owed)
			rxng_resp_nak_sent(&qp->resp, qp->req.timeout, now);
		break;
	case RXNG_RESP_NAK_INVALID:
		reject_invalid(qp, now);
		break;
	}
}

static int send_atomic_result(struct rxng_qp *qp, u64 now)
{
	struct rxng_pkt pkt;

	rxng_resp_atomic_ack(&qp->reply.res, ack_syndrome(qp), &pkt);
	return rxng_tx_burst(qp, &pkt, NULL, now);
}

/* The key is checked for each burst: it may have become invalid meanwhile. */
static int send_read_data(struct rxng_qp *qp, u64 now)
{
	const struct rxng_reply *reply = &qp->reply;
	u32 offset = reply->next * qp->resp.mtu;
	struct rxng_sge sge = {
		.addr = reply->res.va,
		.length = reply->res.len,
		.lkey = reply->res.rkey,
	};
	struct rxng_cursor from;
	struct rxng_pkt pkt;
	int n;

	rxng_resp_read_burst(&reply->res, qp->resp.mtu, reply->first,
			     reply->next, rxng_burst_pkts(qp), &pkt);
	pkt.syndrome = ack_syndrome(qp);
	rxng_cursor_init_remote(&from, &qp->ibqp, &sge, IB_ACCESS_REMOTE_READ,
				offset);
	n = rxng_tx_burst(qp, &pkt, &from, now);
	return rxng_qp_end_copy(qp, &from, n);
}

/*
 * Whoever asks again may have had the answer by now, and its owner may have
 * ended the region for that: it costs no connection. Returns whether the QP may
 * go on.
 */
static bool cannot_read(struct rxng_qp *qp, u64 now)
{
	const struct rxng_reply *reply = &qp->reply;

	if (reply->res.answered) {
		rxng_qp_drop(qp, RXNG_STAT_RX_BAD_ACCESS);
		qp->reply.active = false;
		return true;
	}
	reject_access(qp, rxng_psn_add(reply->res.psn, reply->next), now);
	return false;
}

/*
 * Sends what is left of the answer to a READ or atomic. Returns whether all
 * of it left; if not, the QP runs again when more may go.
 */
static bool continue_reply(struct rxng_qp *qp, u64 now, int *budget)
{
	struct rxng_reply *reply = &qp->reply;

	while (reply->active) {
		int n;

		if (*budget <= 0 || !rxng_tx_room(qp, RXNG_KIND_READ_RESP))
			return false;
		if (reply->res.kind == RXNG_KIND_ATOMIC)
			n = send_atomic_result(qp, now);
		else
			n = send_read_data(qp, now);
		if (n == -EAGAIN)
			return false;
		if (n < 0)
			return cannot_read(qp, now);
		if (!n)
			return false;
		reply->next += n;
		*budget -= rxng_burst_cost(n);
		/* It acknowledges what is older; a repeated one is old itself. */
		if (rxng_psn_diff(rxng_psn_add(reply->res.psn, reply->next),
				  qp->resp.ack_psn) > 0)
			qp->ack_pending = false;
		reply->active = reply->next < reply->res.npkts;
		if (!reply->active)
			rxng_resp_answered(&qp->resp, &reply->res);
	}
	return true;
}

/*
 * Move the requests that ask for the READ again from the inbox to a list, as
 * far as they stand before one that is to be answered earlier. Returns whether
 * there is one behind it too.
 */
static bool find_asked_again(struct rxng_qp *qp, struct sk_buff_head *list)
{
	const struct rxng_reply *reply = &qp->reply;
	struct sk_buff *skb, *next;
	bool earlier = false, behind = false;

	spin_lock(&qp->inbox_lock);
	skb_queue_walk_safe(&qp->requests, skb, next) {
		const struct rxng_pkt *pkt = rxng_skb_pkt(skb);

		earlier = earlier || rxng_resp_asks_earlier(&reply->res, pkt);
		if (!rxng_resp_asks_again(&reply->res, reply->next, pkt))
			continue;
		behind = earlier;
		if (behind)
			break;
		rxng_qp_unqueue(qp, &qp->requests, skb);
		__skb_queue_tail(list, skb);
	}
	spin_unlock(&qp->inbox_lock);
	return behind;
}

/*
 * The newest wish counts; a long READ would go on for nothing. With a wish for
 * something earlier before it, both are answered in their order.
 */
static void take_asked_again(struct rxng_qp *qp, u64 now)
{
	struct sk_buff_head list;
	struct sk_buff *skb;
	bool behind;

	if (!qp->reply.active || qp->attr.qp_state == IB_QPS_ERR)
		return;
	__skb_queue_head_init(&list);
	behind = find_asked_again(qp, &list);
	while ((skb = __skb_dequeue(&list))) {
		if (skb_queue_empty(&list) && !behind)
			request(qp, skb, now);
		rxng_skb_done(skb);
	}
	if (behind)
		qp->reply.active = false;
}

static void acknowledge(struct rxng_qp *qp, u64 now)
{
	if (qp->ack_pending && !qp->reply.active)
		send_ack(qp, now);
}

/**
 * rxng_responder_run - take up the requests in the inbox
 * @qp: QP that the caller owns
 * @now: time in nanoseconds
 * @budget: bursts that this turn may still handle
 *
 * One acknowledgement is sent for all of them, also when the QP is to stand
 * still: the next turns may end so too. A gap that lasts is told again.
 */
void rxng_responder_run(struct rxng_qp *qp, u64 now, int *budget)
{
	/* Not of what the peer has sent again meanwhile. */
	if (qp->owed_psn != qp->resp.epsn)
		qp->owed = 0;
	rxng_responder_pay_nak(qp, now);
	take_asked_again(qp, now);
	while (qp->attr.qp_state != IB_QPS_ERR) {
		struct rxng_pkt asked;
		struct sk_buff *skb;

		if (!continue_reply(qp, now, budget) || *budget <= 0)
			break;
		skb = rxng_qp_dequeue(qp, &qp->requests);
		if (!skb)
			break;
		asked = *rxng_skb_pkt(skb);
		request(qp, skb, now);
		(*budget)--;
		if (rxng_qp_stands_still(qp)) {
			/* What was cut off it belongs to it again. */
			*rxng_skb_pkt(skb) = asked;
			rxng_qp_requeue(qp, &qp->requests, skb);
			acknowledge(qp, now);
			return;
		}
		rxng_skb_done(skb);
	}
	if (qp->attr.qp_state == IB_QPS_ERR || rxng_qp_stands_still(qp))
		return;
	if (rxng_resp_timeout(&qp->resp, now))
		send_nak(qp, RXNG_AETH_NAK | RXNG_NAK_PSN, qp->resp.epsn, now);
	acknowledge(qp, now);
}
