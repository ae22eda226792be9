// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The clock, and a wire that loses, delays, repeats, cuts and merges. */
#include <stdarg.h>
#include <stdio.h>

#include "sim.h"

#define MERGE_WAIT (2 * US)

u64 rng_next(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* From 0 to n - 1. */
u32 rnd(struct world *w, u32 n)
{
	return (rng_next(&w->rng) >> 32) * n >> 32;
}

bool chance(struct world *w, u32 per_10000)
{
	return per_10000 && rnd(w, CHANCE_ONE) < per_10000;
}

u8 *bump(struct world *w, u32 bytes)
{
	u8 *p = w->bump;

	if (bytes > (size_t)(w->bytes + HEAP - p))
		broken(w, "the simulation's memory is used up");
	w->bump += (bytes + 7) & ~7u;
	return p;
}

void trace(const struct world *w, u8 me, const char *fmt, ...)
{
	va_list ap;

	if (!verbose)
		return;
	printf("%10llu.%03llu us %c ", (unsigned long long)(w->now / US),
	       (unsigned long long)(w->now % US), "AB"[me]);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

static void trace_packet(const struct world *w, u8 from, const char *what,
			 const struct rxng_pkt *pkt)
{
	static const char *const names[] = {
		"none", "SEND", "WRITE", "READ", "ATOMIC", "READ_RESP", "ACK",
		"ATOMIC_ACK",
	};

	if (!verbose)
		return;
	trace(w, from, "%s %s%s%s psn %06x+%u len %u%s%s%s%s synd %02x msn %u",
	      what, names[pkt->kind],
	      pkt->flags & RXNG_PKT_START ? " first" : "",
	      pkt->flags & RXNG_PKT_END ? " last" : "", pkt->psn, pkt->npkts,
	      pkt->payload_len, pkt->flags & RXNG_PKT_IMM ? " imm" : "",
	      pkt->flags & RXNG_PKT_INV ? " inv" : "",
	      pkt->bits & RXNG_PKT_ACK_REQ ? " ackreq" : "",
	      pkt->bits & RXNG_PKT_SOLICITED ? " se" : "", pkt->syndrome,
	      pkt->flags & RXNG_PKT_AETH ? pkt->msn : 0);
}

static bool before(const struct world *w, u16 a, u16 b)
{
	const struct event *x = &w->events[a], *y = &w->events[b];

	return x->time != y->time ? x->time < y->time : x->order < y->order;
}

static void heap_push(struct world *w, u16 ev)
{
	u32 i = w->nheap++;

	while (i && before(w, ev, w->heap[(i - 1) / 2])) {
		w->heap[i] = w->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	w->heap[i] = ev;
}

static u16 heap_pop(struct world *w)
{
	u16 top = w->heap[0], last = w->heap[--w->nheap];
	u32 i = 0, child;

	while ((child = 2 * i + 1) < w->nheap) {
		if (child + 1 < w->nheap &&
		    before(w, w->heap[child + 1], w->heap[child]))
			child++;
		if (before(w, last, w->heap[child]))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	return top;
}

static void enqueue(struct world *w, u8 to, const struct rxng_pkt *pkt,
		    const u8 *payload, u64 time)
{
	u16 ev;

	if (!w->nunused) {
		w->end[rxng_kind_is_request(pkt->kind) ? !to : to].faults++;
		totals.lost++;
		return;
	}
	ev = w->unused[--w->nunused];
	w->events[ev] = (struct event){
		.time = time,
		.order = w->order++,
		.to = to,
		.pkt = *pkt,
		.payload = payload,
	};
	heap_push(w, ev);
}

/* Through bytes and back: what arrives is what was meant. */
static void as_bytes(struct world *w, struct rxng_pkt *pkt)
{
	u8 data[RXNG_MAX_HDR];
	struct rxng_pkt back;
	size_t hdr = rxng_build(data, pkt);
	u16 pkey;

	if (hdr != rxng_hdr_len(pkt))
		broken(w, "built %zu bytes, not %zu", hdr, rxng_hdr_len(pkt));
	if (rxng_parse(data, hdr,
		       hdr + pkt->payload_len + rxng_pad(pkt->payload_len) +
			       RXNG_ICRC_LEN,
		       &back, &pkey) != RXNG_PARSE_OK)
		broken(w, "what was built does not parse, opcode %02x",
		       pkt->opcode);
	if (back.kind != pkt->kind || back.psn != pkt->psn ||
	    back.payload_len != pkt->payload_len || back.bits != pkt->bits ||
	    (pkt->flags & (RXNG_PKT_START | RXNG_PKT_END | RXNG_PKT_IMM |
			   RXNG_PKT_INV)) !=
		    (back.flags & (RXNG_PKT_START | RXNG_PKT_END |
				   RXNG_PKT_IMM | RXNG_PKT_INV)))
		broken(w, "opcode %02x parses to something else", pkt->opcode);
	*pkt = back;
}

static void transmit(struct world *w, u8 from, struct rxng_pkt *pkt,
		     const u8 *payload)
{
	const struct plan *p = &w->plan;
	bool fair = w->now >= p->fair_after;
	u8 flow = rxng_kind_is_request(pkt->kind) ? from : !from;
	u64 time = w->now + p->delay;

	totals.packets += pkt->npkts;
	totals.bursts++;
	if (pkt->npkts == 1 && p->bytes)
		as_bytes(w, pkt);
	if (!fair && chance(w, p->loss)) {
		w->end[flow].faults++;
		totals.lost++;
		trace_packet(w, from, "LOST", pkt);
		return;
	}
	if (!fair && chance(w, p->dup)) {
		w->end[flow].faults++;
		totals.duplicated++;
		trace_packet(w, from, "DUPLICATE", pkt);
		enqueue(w, !from, pkt, payload, time + rnd(w, p->late_max));
	}
	if (!fair && chance(w, p->late)) {
		w->end[flow].faults++;
		totals.late++;
		trace_packet(w, from, "LATE", pkt);
		enqueue(w, !from, pkt, payload, time + rnd(w, p->late_max));
		return;
	}
	trace_packet(w, from, "sends", pkt);
	time = max(time, w->last_arrival[!from]);
	w->last_arrival[!from] = time;
	enqueue(w, !from, pkt, payload, time);
}

/* Packets [i, i + n) of a burst, as a burst. */
static void cut(const struct rxng_pkt *burst, u32 i, u32 n, u32 mtu,
		struct rxng_pkt *pkt)
{
	struct rxng_pkt last;

	if (n == burst->npkts) {
		*pkt = *burst;
		return;
	}
	rxng_pkt_slice(burst, i, mtu, pkt);
	if (n == 1)
		return;
	rxng_pkt_slice(burst, i + n - 1, mtu, &last);
	pkt->npkts = n;
	pkt->flags |= last.flags;
	pkt->bits = last.bits;
	if (last.flags & (RXNG_PKT_IMM | RXNG_PKT_INV))
		pkt->imm = last.imm;
	pkt->payload_len = (n - 1) * mtu + last.payload_len;
	pkt->opcode = rxng_opcode_find(RXNG_SERVICE_RC, pkt->kind,
				       pkt->flags & RXNG_PKT_START, false);
}

/**
 * wire_send - a burst leaves, in one piece or in several
 * @w: world
 * @from: which end sends
 * @burst: packets
 * @payload: their bytes; stay where they are until the schedule ends
 */
void wire_send(struct world *w, u8 from, const struct rxng_pkt *burst,
	       const u8 *payload)
{
	u32 mtu = w->plan.mtu;
	u32 i = 0, n;

	if (!burst->npkts)
		broken(w, "a burst of no packets");
	while (i < burst->npkts) {
		struct rxng_pkt pkt;

		switch (w->plan.cutting) {
		case CUT_SINGLE:
			n = 1;
			break;
		case CUT_WHOLE:
			n = burst->npkts;
			break;
		default:
			n = 1 + rnd(w, burst->npkts - i);
		}
		cut(burst, i, n, mtu, &pkt);
		transmit(w, from, &pkt, payload + (size_t)i * mtu);
		i += n;
	}
}

u64 wire_next(const struct world *w)
{
	return w->nheap ? w->events[w->heap[0]].time : NEVER;
}

static bool mergeable(const struct rxng_pkt *pkt)
{
	return (pkt->kind == RXNG_KIND_SEND || pkt->kind == RXNG_KIND_WRITE) &&
	       !(pkt->flags & RXNG_PKT_END);
}

/* As receive batching does it: consecutive packets of one message. */
static bool merge(struct world *w, struct inbox_entry *hold,
		  const struct rxng_pkt *pkt, const u8 *payload)
{
	struct rxng_pkt *h = &hold->pkt;

	if (pkt->kind != h->kind || pkt->flags & RXNG_PKT_START ||
	    pkt->psn != rxng_psn_add(h->psn, h->npkts) ||
	    payload != hold->payload + h->payload_len ||
	    h->payload_len != h->npkts * w->plan.mtu)
		return false;
	h->npkts += pkt->npkts;
	h->flags |= pkt->flags;
	h->bits = pkt->bits;
	if (pkt->flags & (RXNG_PKT_IMM | RXNG_PKT_INV))
		h->imm = pkt->imm;
	h->payload_len += pkt->payload_len;
	totals.merged++;
	return true;
}

/* Give on what was held back to be merged. */
void wire_release(struct end *e)
{
	if (!e->held)
		return;
	e->held = false;
	trace_packet(e->w, e->me, "gets", &e->hold.pkt);
	end_take(e, &e->hold.pkt, e->hold.payload);
}

void wire_deliver(struct world *w)
{
	u16 i = heap_pop(w);
	struct event *ev = &w->events[i];
	struct end *e = &w->end[ev->to];

	if (e->held && merge(w, &e->hold, &ev->pkt, ev->payload)) {
		w->unused[w->nunused++] = i;
		if (!mergeable(&e->hold.pkt))
			wire_release(e);
		return;
	}
	wire_release(e);
	if (mergeable(&ev->pkt) && chance(w, w->plan.merge)) {
		e->held = true;
		e->hold.pkt = ev->pkt;
		e->hold.payload = ev->payload;
		e->hold_until = w->now + MERGE_WAIT;
	} else {
		trace_packet(w, e->me, "gets", &ev->pkt);
		end_take(e, &ev->pkt, ev->payload);
	}
	w->unused[w->nunused++] = i;
}
