// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The requester's and completer's side of an end. */
#include "sim.h"

#define BURSTS_AT_ONCE 8

static struct work *work_of(struct end *e, u32 idx)
{
	struct slot *slot = (struct slot *)rxng_req_wqe(&e->req, idx);

	return &e->plan->work[slot->work];
}

/* Post what is due and fits into the ring. */
void ask_post(struct end *e)
{
	while (e->posted < e->plan->nwork &&
	       e->plan->work[e->posted].post_at <= e->w->now &&
	       e->req.tail - e->req.head < RING) {
		const struct work *work = &e->plan->work[e->posted];
		struct slot *slot =
			(struct slot *)rxng_req_wqe(&e->req, e->req.tail);

		slot->work = e->posted;
		slot->wqe = (struct rxng_swqe){
			.wr_id = e->posted,
			.kind = work->kind,
			.flags = work->flags,
			.imm = work->word,
			.rkey = e->peer->plan->rkey,
			.raddr = e->peer->plan->base + work->at,
			.length = work->length,
			.compare = work->compare,
			.swap_add = work->swap_add,
			/* As garbage as a ring may leave it. */
			.psn = rng_next(&e->w->rng) & RXNG_PSN_MASK,
			.npkts = rnd(e->w, 100),
			.ssn = rnd(e->w, 100),
		};
		if (work->trouble == TROUBLE_BAD_RKEY)
			slot->wqe.rkey ^= 0x100;
		if (work->trouble == TROUBLE_REFUSED) {
			slot->wqe.state = RXNG_SWQE_FAILED;
			slot->wqe.status = RXNG_WC_LOC_LEN_ERR;
		}
		trace(e->w, e->me, "posts %u: kind %u flags %02x len %u",
		      e->posted, work->kind, work->flags, work->length);
		e->posted++;
		e->req.tail++;
	}
}

void ask_retire(struct end *e)
{
	struct rxng_swqe *wqe;

	while (!e->error && (wqe = rxng_req_retirable(&e->req))) {
		u32 n = ((struct slot *)wqe)->work;

		trace(e->w, e->me, "completes %u: %s %u", n,
		      wqe->state == RXNG_SWQE_FAILED ? "status" : "ok",
		      wqe->state == RXNG_SWQE_FAILED ? wqe->status : 0);
		if (n != e->retired)
			broken(e->w, "%c: completion of %u, not of %u",
			       "AB"[e->me], n, e->retired);
		oracle_completed(e, n, wqe);
		if (wqe->state == RXNG_SWQE_FAILED) {
			end_fail(e, "a request failed");
			return;
		}
		rxng_req_retire(&e->req);
		e->retired++;
	}
}

static void local_operation(struct end *e)
{
	u32 idx = e->req.cur;
	struct rxng_swqe *wqe = rxng_req_wqe(&e->req, idx);
	struct work *work = work_of(e, idx);
	u32 n = work - e->plan->work;

	if (work->kind != RXNG_KIND_NONE || work->local_done)
		broken(e->w, "%c: local operation %u carried out twice",
		       "AB"[e->me], n);
	ask_retire(e);
	if (e->error)
		return;
	if (work->flags & RXNG_SWQE_BARRIER && e->retired != n)
		broken(e->w, "%c: operation %u ran before %u had ended",
		       "AB"[e->me], n, e->retired);
	if (work->flags & RXNG_SWQE_FENCE)
		oracle_fence(e, work);
	if (n && !e->plan->work[n - 1].completed &&
	    !e->plan->work[n - 1].sent && !e->plan->work[n - 1].local_done)
		broken(e->w, "%c: local operation %u overtook %u",
		       "AB"[e->me], n, n - 1);
	work->local_done = true;
	trace(e->w, e->me, "local operation %u", n);
	if (work->trouble == TROUBLE_LOCAL)
		rxng_req_fail(&e->req, wqe, RXNG_WC_LOC_QP_OP_ERR);
	else
		rxng_req_local_done(&e->req);
}

/*
 * Packets of a burst that leave before its bad key is met: none on one host,
 * where a burst goes in one piece.
 */
static u32 before_trouble(struct world *w, const struct work *work,
			  const struct rxng_pkt *pkt, u32 offset)
{
	u32 good = work->trouble_at > offset ?
			   (work->trouble_at - offset) / w->plan.mtu : 0;

	return rnd(w, 2) ? min(good, pkt->npkts - 1) : 0;
}

static void send_burst(struct end *e, const struct rxng_pkt *pkt)
{
	struct world *w = e->w;
	struct work *work = work_of(e, e->req.cur);
	u32 offset = rxng_req_offset(&e->req);
	u32 n = pkt->npkts;

	if (w->now < e->quiet_until)
		broken(w, "%c: sends during an RNR wait", "AB"[e->me]);
	if (offset > work->length ||
	    pkt->payload_len > work->length - offset)
		broken(w, "%c: payload [%u, +%u) of a request of %u bytes",
		       "AB"[e->me], offset, pkt->payload_len, work->length);
	if (work->trouble == TROUBLE_BAD_LKEY &&
	    offset + pkt->payload_len >= work->trouble_at) {
		n = before_trouble(w, work, pkt, offset);
		trace(w, e->me, "bad local key behind %u packets", n);
		if (!n) {
			rxng_req_fail(&e->req,
				      rxng_req_wqe(&e->req, e->req.cur),
				      RXNG_WC_LOC_PROT_ERR);
			return;
		}
	} else if (chance(w, e->plan->congestion)) {
		n = rnd(w, pkt->npkts);
		e->congested_until = w->now + 1 + rnd(w, 50 * US);
		totals.congested++;
		trace(w, e->me, "congested: %u of %u packets", n, pkt->npkts);
	}
	oracle_first_send(e, work, pkt, n);
	if (n == pkt->npkts) {
		wire_send(w, e->me, pkt, arena + work->src + offset);
	} else {
		struct rxng_pkt one;
		u32 i;

		for (i = 0; i < n; i++) {
			rxng_pkt_slice(pkt, i, w->plan.mtu, &one);
			wire_send(w, e->me, &one,
				  arena + work->src + offset +
					  (size_t)i * w->plan.mtu);
		}
	}
	rxng_req_sent(&e->req, n, w->now);
}

/* Send what may be sent, up to a budget. */
void ask_send(struct end *e)
{
	struct world *w = e->w;
	u32 budget = 1 + rnd(w, BURSTS_AT_ONCE);
	struct rxng_pkt pkt, again;

	e->more_at = NEVER;
	while (!e->error) {
		enum rxng_req_verdict v;

		if (w->now < e->congested_until) {
			e->more_at = e->congested_until;
			return;
		}
		if (!budget--) {
			e->more_at = w->now + rnd(w, 3 * US);
			return;
		}
		v = rxng_req_next(&e->req, w->now, e->plan->max_pkts, &pkt);
		if (v == RXNG_REQ_SEND && !rnd(w, 8)) {
			if (rxng_req_next(&e->req, w->now, e->plan->max_pkts,
					  &again) != v ||
			    memcmp(&pkt, &again, sizeof(pkt)))
				broken(w, "%c: two answers to one question",
				       "AB"[e->me]);
		}
		if (v == RXNG_REQ_LOCAL)
			local_operation(e);
		else if (v == RXNG_REQ_SEND)
			send_burst(e, &pkt);
		ask_retire(e);
		oracle_check(e);
		if (v == RXNG_REQ_IDLE || v == RXNG_REQ_WAIT)
			return;
	}
}

static void place_read(struct end *e, const struct rxng_pkt *pkt,
		       const u8 *payload, u32 offset)
{
	struct work *work = work_of(e, e->req.una_idx);

	if (offset > work->length ||
	    pkt->payload_len > work->length - offset)
		broken(e->w, "%c: READ data [%u, +%u) of %u bytes",
		       "AB"[e->me], offset, pkt->payload_len, work->length);
	if (offset != work->placed)
		broken(e->w, "%c: READ data at %u, not at %u", "AB"[e->me],
		       offset, work->placed);
	memcpy(work->sink + offset, payload, pkt->payload_len);
	work->placed += pkt->payload_len;
	rxng_req_answered(&e->req, pkt->npkts, e->w->now);
}

void ask_response(struct end *e, const struct rxng_pkt *pkt,
		  const u8 *payload)
{
	struct world *w = e->w;
	u32 offset = ~0u;
	u8 code = pkt->syndrome & RXNG_AETH_VALUE_MASK;
	enum rxng_comp_verdict v;
	bool nak;

	v = rxng_req_response(&e->req, pkt, w->now, &offset);
	switch (v) {
	case RXNG_COMP_DROP:
		totals.ghosts++;
		break;
	case RXNG_COMP_PROGRESS:
		break;
	case RXNG_COMP_RETRY:
		/* A NAK behind a READ without its data is an implied one. */
		nak = pkt->kind == RXNG_KIND_ACK && pkt->psn == e->req.una &&
		      pkt->syndrome == (RXNG_AETH_NAK | RXNG_NAK_PSN);
		if (nak)
			totals.naks++;
		else
			totals.implied++;
		trace(w, e->me, "retries: %u left", e->req.retry_left);
		oracle_retry(e, nak);
		break;
	case RXNG_COMP_RNR:
		totals.rnrs++;
		e->quiet_until = w->now + oracle_rnr_ns(code);
		trace(w, e->me, "waits for a receive");
		oracle_rnr(e);
		break;
	case RXNG_COMP_READ:
		place_read(e, pkt, payload, offset);
		break;
	case RXNG_COMP_ATOMIC:
		work_of(e, e->req.una_idx)->orig = pkt->orig;
		rxng_req_answered(&e->req, 1, w->now);
		break;
	case RXNG_COMP_FAILED:
		break;
	}
	oracle_check(e);
	ask_retire(e);
}

void ask_timer(struct end *e)
{
	bool local = e->w->now < e->congested_until;

	if (e->error)
		return;
	if (rxng_req_timeout(&e->req, e->w->now, local) == RXNG_COMP_RETRY) {
		totals.timeouts++;
		trace(e->w, e->me, "times out: %u retries left",
		      e->req.retry_left);
		oracle_retry(e, false);
	}
	oracle_check(e);
	ask_retire(e);
}
