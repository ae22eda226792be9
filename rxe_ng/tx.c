// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/skbuff.h>

#include "trace.h"
#include "tx.h"

/* Bounds of how long to wait after the network refused a packet. */
#define CONGESTION_MIN_NS (200 * NSEC_PER_USEC)
#define CONGESTION_MAX_NS (25 * NSEC_PER_MSEC)

static bool room(struct rxng_qp *qp, u32 limit)
{
	refcount_t *charged = &qp->sk->sk_wmem_alloc;

	if (qp->blocked_until)
		return false;
	if (refcount_read(charged) <= limit)
		return true;
	/* The wish of who may use more is the first to come true. */
	WRITE_ONCE(qp->want_space, max(READ_ONCE(qp->want_space),
				       limit - limit / 4));
	/* Pairs with sock_wfree(): it sees the wish, or this sees the room. */
	smp_mb();
	return refcount_read(charged) <= limit;
}

/*
 * Requests have no more than their window in the queues of this host, also
 * right after a step back, when packets of the last try are still there.
 */
static u32 request_limit(const struct rxng_qp *qp, u32 whole)
{
	u32 packet = SKB_TRUESIZE(RXNG_MAX_HDR + MAX_HEADER + qp->req.mtu);

	return min(qp->req.window * packet, whole / 2);
}

/**
 * rxng_tx_room - may a QP send now?
 * @qp: QP that the caller owns
 * @kind: what it is about to send
 *
 * When it may not, the QP is woken once a quarter of the room is free.
 *
 * Responses may use all of the room, requests half of it. For requests to a QP
 * of this host wait there for its responder, which may have to send a response
 * first; and that the peer's completer always takes. So the room of a response
 * always comes free.
 */
bool rxng_tx_room(struct rxng_qp *qp, enum rxng_kind kind)
{
	u32 whole = READ_ONCE(qp->sk->sk_sndbuf);

	return room(qp, rxng_kind_is_request(kind) ? request_limit(qp, whole) :
						     whole);
}

static void congested(struct rxng_qp *qp, u64 now)
{
	rxng_stat_inc(rxng_qp_dev(qp), RXNG_STAT_TX_CONGESTED);
	qp->congestion_ns = clamp_t(u64, 2 * qp->congestion_ns,
				    CONGESTION_MIN_NS, CONGESTION_MAX_NS);
	qp->blocked_until = now + qp->congestion_ns;
}

static void accepted(struct rxng_qp *qp, u32 truesize)
{
	qp->congestion_ns = 0;
	qp->charged += truesize;
}

/* One packet onto the network: 1 when it left, 0 when not now, or errno. */
static int send_packet(struct rxng_qp *qp, struct dst_entry *dst,
		       const struct rxng_pkt *pkt, struct rxng_cursor *payload,
		       u64 now)
{
	u32 hdr = rxng_hdr_len(pkt);
	u32 pad = rxng_pad(pkt->payload_len);
	u32 len = hdr + pkt->payload_len + pad + RXNG_ICRC_LEN;
	struct sk_buff *skb = rxng_skb_alloc(&qp->path, dst, len, qp->sk);
	u32 truesize;
	u8 *data;
	int err;

	if (!skb) {
		congested(qp, now);
		return 0;
	}
	truesize = skb->truesize;
	data = skb_put(skb, len);
	rxng_build(data, pkt);
	if (pkt->payload_len) {
		err = rxng_cursor_read(payload, data + hdr, pkt->payload_len);
		if (err) {
			kfree_skb(skb);
			return err;
		}
	}
	memset(data + hdr + pkt->payload_len, 0, pad + RXNG_ICRC_LEN);
	err = rxng_net_send(&qp->path, dst, skb, qp->sk);
	if (err) {
		congested(qp, now);
		return 0;
	}
	accepted(qp, truesize);
	trace_rxng_tx(qp->ibqp.qp_num, pkt);
	rxng_stat_inc(rxng_qp_dev(qp), RXNG_STAT_TX_PKTS);
	rxng_stat_add(rxng_qp_dev(qp), RXNG_STAT_TX_BYTES, pkt->payload_len);
	return 1;
}

static int send_packets(struct rxng_qp *qp, struct dst_entry *dst,
			const struct rxng_pkt *burst,
			struct rxng_cursor *payload, u64 now)
{
	u32 i;

	/*
	 * All packets of a QP by one queue of the netdev: the choice by CPU
	 * would let those of a doorbell overtake those of the tasklet.
	 */
	sk_tx_queue_set(qp->sk, qp->sk->sk_txhash %
					READ_ONCE(dst->dev->real_num_tx_queues));
	for (i = 0; i < burst->npkts; i++) {
		struct rxng_pkt pkt;
		int ret;

		if (i && !rxng_tx_room(qp, burst->kind))
			break;
		rxng_pkt_slice(burst, i, qp->req.mtu, &pkt);
		ret = send_packet(qp, dst, &pkt, payload, now);
		if (ret < 0)
			return ret;
		if (!ret)
			break;
	}
	return i;
}

/* A buffer for a whole burst, in few large pieces; NULL without memory. */
static struct sk_buff *alloc_burst(struct rxng_qp *qp, u32 len)
{
	bool linear = len <= SKB_MAX_ORDER(0, 0);
	struct sk_buff *skb;
	int err;

	if (linear)
		skb = alloc_skb(len, GFP_ATOMIC | __GFP_NOWARN);
	else
		skb = alloc_skb_with_frags(0, len, PAGE_ALLOC_COSTLY_ORDER,
					   &err, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	if (!linear) {
		skb->data_len = len;
		skb->len = len;
	}
	skb_set_owner_w(skb, qp->sk);
	return skb;
}

static int fill_burst(struct sk_buff *skb, struct rxng_cursor *payload, u32 len)
{
	int i, err;

	if (!skb_is_nonlinear(skb))
		return rxng_cursor_read(payload, skb_put(skb, len), len);
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

		err = rxng_cursor_read(payload, skb_frag_address(frag),
				       skb_frag_size(frag));
		if (err)
			return err;
	}
	return 0;
}

/*
 * The peer is on this host: the burst goes into its inbox in one piece. No
 * such QP means silence, as on the wire.
 */
static int deliver_burst(struct rxng_qp *qp, const struct rxng_pkt *burst,
			 struct rxng_cursor *payload, u64 now)
{
	struct sk_buff *skb = alloc_burst(qp, burst->payload_len);
	struct rxng_qp *peer;
	int err;

	if (!skb) {
		congested(qp, now);
		return 0;
	}
	if (burst->payload_len) {
		err = fill_burst(skb, payload, burst->payload_len);
		if (err) {
			kfree_skb(skb);
			return err;
		}
	}
	accepted(qp, skb->truesize);
	trace_rxng_tx(qp->ibqp.qp_num, burst);
	*rxng_skb_pkt(skb) = *burst;
	rcu_read_lock();
	peer = rxng_qp_lookup(burst->qpn);
	if (peer && net_eq(rxng_qp_net(peer), qp->path.net))
		rxng_qp_receive(peer, skb, &qp->path.saddr, &qp->path.daddr);
	else
		kfree_skb(skb);
	rcu_read_unlock();
	rxng_stat_add(rxng_qp_dev(qp), RXNG_STAT_LOOPBACK_PKTS, burst->npkts);
	return burst->npkts;
}

/**
 * rxng_tx_burst - send a burst
 * @qp: QP that the caller owns; there was room for it
 * @burst: what to send; the destination QP is filled in
 * @payload: where its bytes come from; may be NULL when it has none
 * @now: time in nanoseconds
 *
 * Without a route the packets count as sent: whether the peer is gone is for
 * the transport's timer to find out.
 *
 * Return: packets that left, fewer than asked for when the network or memory
 * is short (the QP then is woken later); a negative errno when @payload cannot
 * be read.
 * Context: bottom halves off.
 */
int rxng_tx_burst(struct rxng_qp *qp, struct rxng_pkt *burst,
		  struct rxng_cursor *payload, u64 now)
{
	struct dst_entry *dst = rxng_path_route(&qp->path, qp->sk);

	burst->qpn = qp->dqpn;
	if (!dst) {
		rxng_stat_inc(rxng_qp_dev(qp), RXNG_STAT_TX_NO_ROUTE);
		return burst->npkts;
	}
	if (rxng_path_is_local(dst))
		return deliver_burst(qp, burst, payload, now);
	return send_packets(qp, dst, burst, payload, now);
}
