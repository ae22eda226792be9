// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The responder's side of an end. */
#include "sim.h"

#define PAUSE (5 * US)

static u8 credits(const struct end *e)
{
	if (!e->plan->credits)
		return RXNG_AETH_NO_CREDITS;
	return rxng_credits_encode(e->recv_posted - e->recv_taken);
}

static void send_ack(struct end *e, u8 syndrome, u32 psn)
{
	struct rxng_pkt pkt;

	rxng_resp_ack(&e->resp, syndrome, psn, &pkt);
	e->ack_due = false;
	wire_send(e->w, e->me, &pkt, arena);
}

/* One acknowledgement for all that came in since the last. */
void answer_flush(struct end *e)
{
	if (e->error || !e->ack_due)
		return;
	oracle_acknowledges(e, e->resp.ack_psn);
	send_ack(e, RXNG_AETH_ACK | credits(e), e->resp.ack_psn);
}

static void refuse(struct end *e, enum rxng_nak code, const char *why)
{
	send_ack(e, RXNG_AETH_NAK | code, e->resp.epsn);
	end_fail(e, why);
}

/* A response acknowledges what is older; one that is repeated is old itself. */
static void acknowledged_up_to(struct end *e, u32 psn)
{
	if (rxng_psn_diff(psn, e->resp.ack_psn) > 0)
		e->ack_due = false;
}

static void answer_atomic(struct end *e, const struct rxng_resource *res)
{
	struct rxng_pkt pkt;

	rxng_resp_atomic_ack(res, RXNG_AETH_ACK | credits(e), &pkt);
	acknowledged_up_to(e, res->psn);
	wire_send(e->w, e->me, &pkt, arena);
}

/* The region's bytes, or NULL when key or range are wrong. */
static u8 *region_at(struct end *e, u64 va, u32 rkey, u32 length)
{
	if (rkey != e->plan->rkey || va < e->plan->base ||
	    va - e->plan->base > REGION ||
	    length > REGION - (va - e->plan->base))
		return NULL;
	return e->region + (va - e->plan->base);
}

static void pump(struct end *e)
{
	struct world *w = e->w;

	e->stream_at = NEVER;
	while (e->streaming) {
		const struct rxng_resource *res = &e->stream;
		struct rxng_pkt pkt;
		u8 *data;

		if (chance(w, e->plan->pace)) {
			e->stream_at = w->now + 1 + rnd(w, PAUSE);
			return;
		}
		rxng_resp_read_burst(res, w->plan.mtu, e->stream_first,
				     e->stream_from, e->plan->max_pkts, &pkt);
		pkt.syndrome = RXNG_AETH_ACK | credits(e);
		data = bump(w, pkt.payload_len);
		if (pkt.payload_len)
			memcpy(data,
			       e->region + (res->va - e->plan->base) +
				       (size_t)e->stream_from * w->plan.mtu,
			       pkt.payload_len);
		acknowledged_up_to(e, pkt.psn);
		wire_send(w, e->me, &pkt, data);
		e->stream_from += pkt.npkts;
		if (e->stream_from >= res->npkts)
			e->streaming = false;
	}
}

static void start_stream(struct end *e, const struct rxng_resource *res,
			 u32 first)
{
	if (res->len && !region_at(e, res->va, res->rkey, res->len)) {
		refuse(e, RXNG_NAK_REM_ACC, "READ outside the region");
		return;
	}
	e->streaming = true;
	e->stream = *res;
	e->stream_first = first;
	e->stream_from = first;
	pump(e);
}

static void not_ready(struct end *e, const struct rxng_pkt *pkt)
{
	trace(e->w, e->me, "has no receive");
	send_ack(e, RXNG_AETH_RNR | e->plan->rnr_code, e->resp.epsn);
	rxng_resp_not_ready(&e->resp, pkt);
}

static bool have_receive(const struct end *e)
{
	return e->recv_taken < e->recv_posted;
}

static void finish(struct end *e, const struct rxng_pkt *pkt)
{
	rxng_resp_done(&e->resp, pkt, 0);
	if (pkt->flags & RXNG_PKT_END)
		oracle_executed(e, pkt, 0);
	if (pkt->bits & RXNG_PKT_ACK_REQ || !rnd(e->w, 32))
		e->ack_due = true;
}

static void execute_send(struct end *e, const struct rxng_pkt *pkt,
			 const u8 *payload)
{
	u32 got = pkt->flags & RXNG_PKT_START ? 0 : e->resp.got;
	struct recv *recv;

	if (pkt->flags & RXNG_PKT_START) {
		if (!have_receive(e)) {
			not_ready(e, pkt);
			return;
		}
		e->recv_taken++;
	}
	recv = &e->plan->recv[e->recv_taken - 1];
	if (pkt->payload_len > recv->length - got) {
		refuse(e, RXNG_NAK_INV_REQ, "SEND longer than the receive");
		return;
	}
	if (pkt->payload_len)
		memcpy(recv->buf + got, payload, pkt->payload_len);
	finish(e, pkt);
	if (pkt->flags & RXNG_PKT_END)
		oracle_received(e, recv, pkt, e->resp.got);
}

static void execute_write(struct end *e, const struct rxng_pkt *pkt,
			  const u8 *payload)
{
	bool takes = pkt->flags & RXNG_PKT_END && pkt->flags & RXNG_PKT_IMM;
	struct rxng_write_target target;
	u8 *to;

	rxng_resp_target(&e->resp, pkt, &target);
	if (pkt->payload_len) {
		to = region_at(e, target.va, target.rkey, pkt->payload_len);
		if (!to) {
			refuse(e, RXNG_NAK_REM_ACC, "WRITE outside the region");
			return;
		}
	}
	if (takes && !have_receive(e)) {
		not_ready(e, pkt);
		return;
	}
	if (pkt->payload_len)
		memcpy(to, payload, pkt->payload_len);
	finish(e, pkt);
	if (takes)
		oracle_received(e, &e->plan->recv[e->recv_taken++], pkt, 0);
}

static void execute_read(struct end *e, const struct rxng_pkt *pkt)
{
	struct rxng_resource *res;

	if (pkt->dma_len && !region_at(e, pkt->va, pkt->rkey, pkt->dma_len)) {
		refuse(e, RXNG_NAK_REM_ACC, "READ outside the region");
		return;
	}
	res = rxng_resp_done(&e->resp, pkt, 0);
	oracle_executed(e, pkt, 0);
	start_stream(e, res, 0);
}

static void execute_atomic(struct end *e, const struct rxng_pkt *pkt)
{
	u8 *at = region_at(e, pkt->va, pkt->rkey, 8);
	u64 orig, new;

	if (!at) {
		refuse(e, RXNG_NAK_REM_ACC, "atomic outside the region");
		return;
	}
	memcpy(&orig, at, 8);
	if (pkt->opcode == RXNG_RC_FETCH_ADD)
		new = orig + pkt->swap_add;
	else
		new = orig == pkt->compare ? pkt->swap_add : orig;
	memcpy(at, &new, 8);
	oracle_executed(e, pkt, orig);
	answer_atomic(e, rxng_resp_done(&e->resp, pkt, orig));
}

static void execute(struct end *e, const struct rxng_pkt *pkt,
		    const u8 *payload)
{
	switch (pkt->kind) {
	case RXNG_KIND_SEND:
		execute_send(e, pkt, payload);
		break;
	case RXNG_KIND_WRITE:
		execute_write(e, pkt, payload);
		break;
	case RXNG_KIND_READ:
		execute_read(e, pkt);
		break;
	default:
		execute_atomic(e, pkt);
	}
}

static void judge(struct end *e, const struct inbox_entry *entry)
{
	struct rxng_pkt pkt = entry->pkt;
	struct rxng_resource *res;
	u32 mtu = e->w->plan.mtu;
	u32 skip;

	switch (rxng_resp_request(&e->resp, &pkt, &skip, &res)) {
	case RXNG_RESP_DROP:
		break;
	case RXNG_RESP_EXECUTE:
		execute(e, &pkt, entry->payload + (size_t)skip * mtu);
		break;
	case RXNG_RESP_ACK_AGAIN:
		totals.again++;
		e->ack_due = true;
		break;
	case RXNG_RESP_READ_AGAIN:
		totals.again++;
		start_stream(e, res, (pkt.psn - res->psn) & RXNG_PSN_MASK);
		break;
	case RXNG_RESP_ATOMIC_AGAIN:
		totals.again++;
		answer_atomic(e, res);
		break;
	case RXNG_RESP_NAK_PSN:
		send_ack(e, RXNG_AETH_NAK | RXNG_NAK_PSN, e->resp.epsn);
		rxng_resp_nak_sent(&e->resp, e->plan->timeout, e->w->now);
		break;
	case RXNG_RESP_NAK_INVALID:
		broken(e->w, "%c: a valid request was found invalid",
		       "AB"[e->me]);
	}
}

/* Requests wait while a READ is being answered. */
void answer_inbox(struct end *e)
{
	if (e->streaming && e->stream_at <= e->w->now)
		pump(e);
	while (!e->error && !e->streaming && e->inbox_head != e->inbox_tail)
		judge(e, &e->inbox[e->inbox_head++ % MAX_INBOX]);
}

/* A gap that lasts is told again. */
void answer_timer(struct end *e)
{
	if (!e->error && rxng_resp_timeout(&e->resp, e->w->now))
		send_ack(e, RXNG_AETH_NAK | RXNG_NAK_PSN, e->resp.epsn);
}

void answer_request(struct end *e, const struct rxng_pkt *pkt,
		    const u8 *payload)
{
	if (!e->error && e->streaming &&
	    rxng_resp_asks_again(&e->stream, e->stream_from, pkt)) {
		struct inbox_entry again = { .pkt = *pkt, .payload = payload };

		judge(e, &again);
		return;
	}
	/* Queues have an end, here as in the module. */
	if (e->inbox_tail - e->inbox_head == MAX_INBOX) {
		e->peer->faults++;
		totals.lost++;
		return;
	}
	e->inbox[e->inbox_tail++ % MAX_INBOX] = (struct inbox_entry){
		.pkt = *pkt,
		.payload = payload,
	};
	answer_inbox(e);
}
