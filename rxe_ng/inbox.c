// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Inboxes: packets and bursts wait here for their QP's turn. A QP may stand
 * still for long, so what all inboxes hold is bounded, beside what each may.
 */
#include <linux/percpu_counter.h>
#include <linux/skbuff.h>
#include <linux/swap.h>

#include "qp.h"
#include "trace.h"

/* Packets or bursts that each queue of an inbox takes. */
#define INBOX_MAX 1024
/* It takes so many whatever others hold, so that every QP gets on. */
#define INBOX_SURE 8
/* Part of the host's memory that all inboxes together may hold. */
#define MEMORY_PART 8
/* Bytes, and part of all, that CPUs may have counted for themselves. */
#define COUNTED_ALONE (1024 * 1024)
#define ALONE_PART 8

/* Bytes in all inboxes of all devices. */
static struct percpu_counter waiting;
static s64 waiting_max;
static s32 counted_alone;

/**
 * rxng_inbox_init - count nothing yet
 *
 * Return: 0 or -ENOMEM.
 * Context: process, may sleep.
 */
int rxng_inbox_init(void)
{
	waiting_max = (s64)nr_free_buffer_pages() * PAGE_SIZE / MEMORY_PART;
	counted_alone = min_t(s64, COUNTED_ALONE,
			      waiting_max / ALONE_PART / num_possible_cpus());
	return percpu_counter_init(&waiting, 0, GFP_KERNEL);
}

/**
 * rxng_inbox_exit - the end of it; there is no QP any more
 *
 * Context: process.
 */
void rxng_inbox_exit(void)
{
	WARN_ON(percpu_counter_sum(&waiting));
	percpu_counter_destroy(&waiting);
}

static void count_waiting(s64 bytes)
{
	percpu_counter_add_batch(&waiting, bytes, counted_alone);
}

static bool has_room(const struct sk_buff_head *queue)
{
	u32 len = skb_queue_len(queue);

	return len < INBOX_SURE ||
	       (len < INBOX_MAX && percpu_counter_read(&waiting) < waiting_max);
}

static bool addresses_match(const struct rxng_qp *qp,
			    const struct in6_addr *saddr,
			    const struct in6_addr *daddr)
{
	return ipv6_addr_equal(saddr, &qp->peer[0]) &&
	       ipv6_addr_equal(daddr, &qp->peer[1]);
}

/* Connected QPs take what comes over their own path (9.6.1.1, A17.4.4). */
static bool addresses_ok(const struct rxng_qp *qp, const struct in6_addr *saddr,
			 const struct in6_addr *daddr)
{
	return qp->req.service == RXNG_SERVICE_UD ||
	       addresses_match(qp, saddr, daddr);
}

/* Returns the counter of the reason when a packet is not for this QP. */
static int admit(const struct rxng_qp *qp, const struct rxng_pkt *pkt,
		 const struct in6_addr *saddr, const struct in6_addr *daddr)
{
	lockdep_assert_held(&qp->inbox_lock);
	if (!qp->accepting ||
	    rxng_opcode_service(pkt->opcode) != qp->req.service)
		return RXNG_STAT_RX_NO_QP;
	return addresses_ok(qp, saddr, daddr) ? -1 : RXNG_STAT_RX_BAD_ADDR;
}

/* Returns the counter of the reason when the packet was not queued. */
static int enqueue(struct rxng_qp *qp, struct sk_buff *skb,
		   const struct in6_addr *saddr, const struct in6_addr *daddr)
{
	const struct rxng_pkt *pkt = rxng_skb_pkt(skb);
	struct sk_buff_head *queue = &qp->responses;
	int stat;

	if (rxng_kind_is_request(pkt->kind))
		queue = &qp->requests;
	spin_lock(&qp->inbox_lock);
	stat = admit(qp, pkt, saddr, daddr);
	if (stat < 0 && !has_room(queue))
		stat = RXNG_STAT_RX_QUEUE_FULL;
	if (stat < 0) {
		__skb_queue_tail(queue, skb);
		count_waiting(skb->truesize);
	}
	spin_unlock(&qp->inbox_lock);
	return stat;
}

/**
 * rxng_qp_drop - count a packet that a QP does not take
 * @qp: QP
 * @why: reason
 *
 * Context: bottom halves off.
 */
void rxng_qp_drop(const struct rxng_qp *qp, enum rxng_stat why)
{
	trace_rxng_drop(qp->ibqp.qp_num, why);
	rxng_qp_count(qp, why, 1);
}

/**
 * rxng_qp_receive - put a packet or burst into a QP's inbox
 * @qp: QP, from rxng_qp_lookup()
 * @skb: packet, consumed; rxng_skb_pkt() is filled in, data is the payload
 * @saddr: source address, IPv4 mapped
 * @daddr: destination address
 *
 * Context: bottom halves off, within the RCU section of the look-up.
 */
void rxng_qp_receive(struct rxng_qp *qp, struct sk_buff *skb,
		     const struct in6_addr *saddr,
		     const struct in6_addr *daddr)
{
	int stat = enqueue(qp, skb, saddr, daddr);

	if (stat >= 0) {
		rxng_qp_drop(qp, stat);
		kfree_skb(skb);
		return;
	}
	rxng_qp_wake(qp, RXNG_WAKE_WORK);
}

/**
 * rxng_qp_receive_ack - put an acknowledgement into a QP's inbox
 * @qp: QP, from rxng_qp_lookup()
 * @pkt: acknowledgement, no NAK, by a peer on this host
 * @saddr: source address, IPv4 mapped
 * @daddr: destination address
 *
 * A later one takes the place of one that was not taken up yet: it acknowledges
 * that as well (9.7.5.1.2).
 *
 * Context: bottom halves off, within the RCU section of the look-up.
 */
void rxng_qp_receive_ack(struct rxng_qp *qp, const struct rxng_pkt *pkt,
			 const struct in6_addr *saddr,
			 const struct in6_addr *daddr)
{
	int stat;

	spin_lock(&qp->inbox_lock);
	stat = admit(qp, pkt, saddr, daddr);
	if (stat < 0) {
		qp->ack = *pkt;
		WRITE_ONCE(qp->ack_waits, true);
	}
	spin_unlock(&qp->inbox_lock);
	if (stat < 0)
		rxng_qp_wake(qp, RXNG_WAKE_WORK);
	else
		rxng_qp_drop(qp, stat);
}

/**
 * rxng_qp_take_ack - take up what rxng_qp_receive_ack() left
 * @qp: QP that the caller owns
 * @pkt: filled in
 *
 * Not before the responses that came ahead of it, which it would seem to skip;
 * those that came behind it do no harm.
 *
 * Return: whether there is one.
 * Context: bottom halves off.
 */
bool rxng_qp_take_ack(struct rxng_qp *qp, struct rxng_pkt *pkt)
{
	bool taken;

	/* Who sets it wakes the QP afterwards. */
	if (!READ_ONCE(qp->ack_waits))
		return false;
	spin_lock(&qp->inbox_lock);
	taken = qp->ack_waits && skb_queue_empty(&qp->responses);
	if (taken) {
		*pkt = qp->ack;
		WRITE_ONCE(qp->ack_waits, false);
	}
	spin_unlock(&qp->inbox_lock);
	return taken;
}

/**
 * rxng_qp_unqueue - take a packet or burst out of the inbox
 * @qp: QP that the caller owns
 * @queue: its requests or its responses
 * @skb: one of them, now the caller's
 *
 * Context: @qp->inbox_lock held.
 */
void rxng_qp_unqueue(struct rxng_qp *qp, struct sk_buff_head *queue,
		     struct sk_buff *skb)
{
	lockdep_assert_held(&qp->inbox_lock);
	__skb_unlink(skb, queue);
	count_waiting(-(s64)skb->truesize);
}

/**
 * rxng_qp_dequeue - take the oldest packet or burst out of the inbox
 * @qp: QP that the caller owns
 * @queue: its requests or its responses
 *
 * Return: the packet, now the caller's, or NULL.
 * Context: bottom halves off.
 */
struct sk_buff *rxng_qp_dequeue(struct rxng_qp *qp, struct sk_buff_head *queue)
{
	struct sk_buff *skb;

	/* Who puts one there wakes the QP afterwards. */
	if (skb_queue_empty_lockless(queue))
		return NULL;
	spin_lock(&qp->inbox_lock);
	skb = skb_peek(queue);
	if (skb)
		rxng_qp_unqueue(qp, queue, skb);
	spin_unlock(&qp->inbox_lock);
	return skb;
}

/**
 * rxng_qp_requeue - put a packet or burst back in front of all others
 * @qp: QP that the caller owns
 * @queue: where rxng_qp_dequeue() took it from
 * @skb: packet, consumed
 *
 * Context: bottom halves off.
 */
void rxng_qp_requeue(struct rxng_qp *qp, struct sk_buff_head *queue,
		     struct sk_buff *skb)
{
	spin_lock(&qp->inbox_lock);
	__skb_queue_head(queue, skb);
	count_waiting(skb->truesize);
	spin_unlock(&qp->inbox_lock);
}

/**
 * rxng_qp_purge_inbox - drop all received packets
 * @qp: QP that the caller owns
 */
void rxng_qp_purge_inbox(struct rxng_qp *qp)
{
	struct sk_buff_head drop;
	struct sk_buff *skb;

	__skb_queue_head_init(&drop);
	spin_lock_bh(&qp->inbox_lock);
	skb_queue_splice_init(&qp->requests, &drop);
	skb_queue_splice_tail_init(&qp->responses, &drop);
	WRITE_ONCE(qp->ack_waits, false);
	spin_unlock_bh(&qp->inbox_lock);
	skb_queue_walk(&drop, skb)
		count_waiting(-(s64)skb->truesize);
	__skb_queue_purge(&drop);
}
