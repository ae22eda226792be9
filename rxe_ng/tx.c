// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/skbuff.h>

#include "mcast.h"
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
 * rxng_tx_requests_left - has every request packet left this host's queues?
 * @qp: QP that the caller owns
 *
 * Packets leave in the order in which they were sent, but for those to a QP of
 * this host.
 *
 * Return: true when none is there.
 */
bool rxng_tx_requests_left(const struct rxng_qp *qp)
{
	u32 here = refcount_read(&qp->sk->sk_wmem_alloc) - 1;

	return here <= qp->charged - qp->charged_req;
}

/*
 * A peer that never stops reading could keep the room for its answers. One
 * burst of requests may go nevertheless, when none is in the queues; to a QP of
 * this host, when none waits there for its responder.
 */
static bool has_turn(const struct rxng_qp *qp)
{
	const struct dst_entry *dst = qp->path.dst;

	if (qp->blocked_until || !dst)
		return false;
	if (!rxng_path_is_local(dst))
		return rxng_tx_requests_left(qp);
	return qp->req.service == RXNG_SERVICE_RC &&
	       qp->req.una == qp->req.sent;
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

	if (!rxng_kind_is_request(kind))
		return room(qp, whole);
	return room(qp, request_limit(qp, whole)) || has_turn(qp);
}

static void congested(struct rxng_qp *qp, u64 now)
{
	rxng_qp_count(qp, RXNG_STAT_TX_CONGESTED, 1);
	qp->congestion_ns = clamp_t(u64, 2 * qp->congestion_ns,
				    CONGESTION_MIN_NS, CONGESTION_MAX_NS);
	qp->blocked_until = now + qp->congestion_ns;
}

/*
 * What the network keeps refusing is lost, where nobody waits for it: a packet
 * filter may refuse one destination of datagrams for ever.
 */
static bool give_up(const struct rxng_qp *qp)
{
	return qp->req.service != RXNG_SERVICE_RC &&
	       qp->congestion_ns >= CONGESTION_MAX_NS;
}

static void accepted(struct rxng_qp *qp, u32 truesize)
{
	qp->congestion_ns = 0;
	qp->charged += truesize;
}

static void count_sent(struct rxng_qp *qp, const struct rxng_pkt *pkt)
{
	trace_rxng_tx(qp->ibqp.qp_num, pkt);
	rxng_qp_count(qp, RXNG_STAT_TX_PKTS, pkt->npkts);
	rxng_qp_count(qp, RXNG_STAT_TX_BYTES, pkt->payload_len);
	if (pkt->qpn == RXNG_MULTICAST_QPN)
		rxng_qp_count(qp, RXNG_STAT_TX_MCAST_PKTS, 1);
}

/* One packet onto the network: 1 when it left, 0 when not now, or errno. */
static int send_packet(struct rxng_qp *qp, const struct rxng_path *path,
		       struct dst_entry *dst, const struct rxng_pkt *pkt,
		       struct rxng_cursor *payload, u64 now)
{
	u32 hdr = rxng_hdr_len(pkt);
	u32 pad = rxng_pad(pkt->payload_len);
	u32 len = hdr + pkt->payload_len + pad + RXNG_ICRC_LEN;
	struct sk_buff *skb = rxng_skb_alloc(path, dst, len, qp->sk);
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
	err = rxng_net_send(path, dst, skb, qp->sk);
	if (err && !give_up(qp)) {
		congested(qp, now);
		return 0;
	}
	accepted(qp, truesize);
	count_sent(qp, pkt);
	return 1;
}

/*
 * All packets of a QP by one queue of the netdev: the choice by CPU would let
 * those of a doorbell overtake those of the tasklet. A VLAN has one queue, that
 * below it may have many.
 */
static void use_one_queue(const struct rxng_qp *qp,
			  const struct net_device *ndev)
{
	u32 queues = READ_ONCE(rxng_real_dev(ndev)->real_num_tx_queues);

	sk_tx_queue_set(qp->sk, qp->sk->sk_txhash % queues);
}

static int send_packets(struct rxng_qp *qp, const struct rxng_path *path,
			struct dst_entry *dst, const struct rxng_pkt *burst,
			struct rxng_cursor *payload, u64 now)
{
	u32 i;

	use_one_queue(qp, dst->dev);
	for (i = 0; i < burst->npkts; i++) {
		struct rxng_pkt pkt;
		int ret;

		if (i && !rxng_tx_room(qp, burst->kind))
			break;
		rxng_pkt_slice(burst, i, qp->req.mtu, &pkt);
		ret = send_packet(qp, path, dst, &pkt, payload, now);
		/* What left counts; the next burst finds what is wrong again. */
		if (ret < 0 && !i)
			return ret;
		if (ret <= 0)
			break;
	}
	return i;
}

/*
 * A buffer for a whole burst, in few large pieces behind @head bytes; NULL
 * without memory. It may wait for long: no piece of a page (path.c).
 */
static struct sk_buff *alloc_burst(struct rxng_qp *qp, u32 head, u32 len)
{
	bool linear = head + len <= SKB_MAX_ORDER(0, 0);
	struct sk_buff *skb;
	int err;

	if (linear)
		skb = alloc_skb(head + len, GFP_ATOMIC | __GFP_NOWARN);
	else
		skb = alloc_skb_with_frags(head, len, PAGE_ALLOC_COSTLY_ORDER,
					   &err, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_put(skb, head);
	if (!linear) {
		skb->data_len = len;
		skb->len += len;
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

/* What a datagram's receiver is told, as if it had been on the wire. */
static void put_origin(struct sk_buff *skb, const struct rxng_path *path)
{
	struct rxng_pkt *pkt = rxng_skb_pkt(skb);

	rxng_path_grh(path, rxng_hdr_len(pkt) + pkt->payload_len +
		      rxng_pad(pkt->payload_len) + RXNG_ICRC_LEN, skb->data);
	pkt->bits |= path->v6 ? RXNG_PKT_IPV6 : 0;
	pkt->vlan = path->vlan;
}

/*
 * The QP of this host that a packet or burst is for, which counts as received
 * by it. No such QP means silence, as on the wire. RCU read-side section.
 */
static struct rxng_qp *find_peer(const struct rxng_path *path,
				 const struct rxng_pkt *pkt)
{
	struct rxng_qp *peer = rxng_net_find_qp(path->net, NULL, pkt->qpn,
						&path->daddr);

	if (!peer)
		return NULL;
	rxng_qp_count(peer, RXNG_STAT_RX_PKTS, pkt->npkts);
	rxng_qp_count(peer, RXNG_STAT_RX_BYTES, pkt->payload_len);
	return peer;
}

static void hand_over(struct rxng_qp *qp, struct sk_buff *skb,
		      const struct rxng_path *path)
{
	const struct rxng_pkt *pkt = rxng_skb_pkt(skb);
	struct rxng_qp *peer;

	rcu_read_lock();
	/* A link on the loopback device reaches its own members only. */
	if (pkt->qpn == RXNG_MULTICAST_QPN) {
		rxng_mcast_deliver(rxng_qp_dev(qp), skb, &path->saddr,
				   &path->daddr);
		rcu_read_unlock();
		rxng_skb_done(skb);
		return;
	}
	peer = find_peer(path, pkt);
	if (peer)
		rxng_qp_receive(peer, skb, &path->saddr, &path->daddr);
	else
		kfree_skb(skb);
	rcu_read_unlock();
}

static void count_delivered(struct rxng_qp *qp, const struct rxng_pkt *pkt)
{
	count_sent(qp, pkt);
	rxng_qp_count(qp, RXNG_STAT_LOOPBACK_PKTS, pkt->npkts);
}

/* Nothing but its header: no packet is made for it. */
static int deliver_ack(struct rxng_qp *qp, const struct rxng_path *path,
		       const struct rxng_pkt *ack)
{
	struct rxng_qp *peer;

	count_delivered(qp, ack);
	rcu_read_lock();
	peer = find_peer(path, ack);
	if (peer)
		rxng_qp_receive_ack(peer, ack, &path->saddr, &path->daddr);
	rcu_read_unlock();
	return ack->npkts;
}

static bool is_ack(const struct rxng_pkt *pkt)
{
	return pkt->kind == RXNG_KIND_ACK &&
	       (pkt->syndrome & RXNG_AETH_TYPE_MASK) == RXNG_AETH_ACK;
}

/* The peer is on this host: the burst goes into its inbox in one piece. */
static int deliver_burst(struct rxng_qp *qp, const struct rxng_path *path,
			 const struct rxng_pkt *burst,
			 struct rxng_cursor *payload, u64 now)
{
	bool datagram = burst->flags & RXNG_PKT_DETH;
	struct sk_buff *skb;
	int err;

	skb = alloc_burst(qp, datagram ? RXNG_GRH_LEN : 0, burst->payload_len);
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
	count_delivered(qp, burst);
	*rxng_skb_pkt(skb) = *burst;
	if (datagram)
		put_origin(skb, path);
	hand_over(qp, skb, path);
	return burst->npkts;
}

/*
 * Without a route packets count as sent: whether the peer is gone is for the
 * transport's timer to find out, or for whoever sends datagrams.
 */
static int send_on(struct rxng_qp *qp, const struct rxng_path *path,
		   struct dst_entry *dst, const struct rxng_pkt *burst,
		   struct rxng_cursor *payload, u64 now)
{
	if (IS_ERR(dst)) {
		congested(qp, now);
		return 0;
	}
	if (!dst) {
		rxng_qp_count(qp, RXNG_STAT_TX_NO_ROUTE, 1);
		return burst->npkts;
	}
	if (rxng_path_is_local(dst))
		return is_ack(burst) ?
			       deliver_ack(qp, path, burst) :
			       deliver_burst(qp, path, burst, payload, now);
	return send_packets(qp, path, dst, burst, payload, now);
}

/**
 * rxng_tx_burst - send a burst to a connection's peer
 * @qp: QP that the caller owns; there was room for it
 * @burst: what to send; the destination QP is filled in
 * @payload: where its bytes come from; may be NULL when it has none
 * @now: time in nanoseconds
 *
 * Return: packets that left, fewer than asked for when the network or memory
 * is short (the QP then is woken later); a negative errno as
 * rxng_cursor_read() when @payload cannot be read.
 * Context: bottom halves off.
 */
int rxng_tx_burst(struct rxng_qp *qp, struct rxng_pkt *burst,
		  struct rxng_cursor *payload, u64 now)
{
	struct dst_entry *dst = rxng_path_route(&qp->path, qp->sk);

	burst->qpn = qp->dqpn;
	return send_on(qp, &qp->path, dst, burst, payload, now);
}

/**
 * rxng_tx_datagram - send a datagram
 * @qp: UD QP that the caller owns; there was room for it
 * @av: where it goes
 * @pkt: what to send; the source QP is filled in
 * @payload: where its bytes come from; may be NULL when it has none
 * @now: time in nanoseconds
 *
 * Return: as rxng_tx_burst(), 1 or 0.
 * Context: bottom halves off.
 */
int rxng_tx_datagram(struct rxng_qp *qp, struct rxng_av *av,
		     struct rxng_pkt *pkt, struct rxng_cursor *payload, u64 now)
{
	struct rxng_path path;
	struct dst_entry *dst;
	int ret;

	pkt->sqpn = qp->ibqp.qp_num;
	spin_lock(&av->lock);
	dst = rxng_path_route(&av->path, qp->sk);
	path = av->path;
	path.sport = rxng_path_sport(&path, pkt->sqpn, pkt->qpn);
	ret = send_on(qp, &path, dst, pkt, payload, now);
	/* Who joins a group on this host later changes its IPv4 routes. */
	if (pkt->qpn == RXNG_MULTICAST_QPN && !path.v6)
		rxng_path_drop_route(&av->path);
	spin_unlock(&av->lock);
	return ret;
}
