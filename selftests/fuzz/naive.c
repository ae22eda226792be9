// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "input.h"
#include "naive.h"

#define MAX_MESSAGE (1ull << 31)

/* Far enough from zero that nothing becomes negative. */
#define FAR (1ull << 40)

struct one {
	bool first, last, imm;
	u64 psn;
	s64 len;
	const u8 *payload;
};

void naive_start(struct naive *n, u32 psn)
{
	n->expected = FAR + psn;
	n->ack = n->expected - 1;
}

/* The number nearest to the expected one that has these 24 bits; half the circle away it is old. */
static u64 unwrap(const struct naive *n, u32 psn)
{
	u64 lap = n->expected >> 24 << 24, best = lap + psn;

	if (best + (1 << 23) < n->expected)
		best += 1 << 24;
	else if (best >= n->expected + (1 << 23))
		best -= 1 << 24;
	return best;
}

static struct one packet(const struct naive *n, const struct rxng_pkt *burst,
			 const u8 *payload, u32 i)
{
	bool last = i + 1u == burst->npkts;

	return (struct one){
		.first = !i && burst->flags & RXNG_PKT_START,
		.last = last && burst->flags & RXNG_PKT_END,
		.imm = last && burst->flags & RXNG_PKT_IMM,
		.psn = unwrap(n, burst->psn) + i,
		.len = last ? (s64)burst->payload_len - (s64)i * n->mtu :
			      (s64)n->mtu,
		.payload = payload + (u64)i * n->mtu,
	};
}

/* May a SEND or WRITE packet stand here? Takes it into account when it may. */
static bool data_fits(struct naive *n, const struct rxng_pkt *burst,
		      const struct one *p)
{
	if (p->first) {
		if (n->open)
			return false;
		n->open = burst->kind;
		n->bytes = 0;
		if (burst->kind == RXNG_KIND_WRITE) {
			n->total = burst->dma_len;
			n->va = burst->va;
			n->rkey = burst->rkey;
			if (n->total > MAX_MESSAGE)
				return false;
		}
	} else if (n->open != burst->kind) {
		return false;
	}
	if (p->len < 0 || p->len > n->mtu)
		return false;
	if (!p->last && p->len != n->mtu)
		return false;
	if (p->last && !p->first && p->len == 0)
		return false;
	n->bytes += p->len;
	if (n->bytes > MAX_MESSAGE)
		return false;
	if (burst->kind == RXNG_KIND_WRITE) {
		if (!n->may_write)
			return false;
		if (p->last ? n->bytes != n->total : n->bytes >= n->total)
			return false;
	}
	if (p->last)
		n->open = RXNG_KIND_NONE;
	return true;
}

/* A gap: say it once, and again when the peer starts over in vain. */
static enum naive_says gap(struct naive *n, u64 psn)
{
	if (!n->told || psn <= n->told_by) {
		n->told = true;
		n->told_rnr = false;
		n->told_by = psn;
		return NAIVE_NAK_PSN;
	}
	if (n->told_rnr)
		n->told_by = psn;
	return NAIVE_DROP;
}

static enum naive_says old(struct naive *n, const struct rxng_pkt *burst,
			   u64 psn)
{
	u32 i;

	if (burst->kind == RXNG_KIND_SEND || burst->kind == RXNG_KIND_WRITE)
		return NAIVE_ACK_AGAIN;
	if (burst->kind != RXNG_KIND_READ && burst->kind != RXNG_KIND_ATOMIC)
		return NAIVE_DROP;
	for (i = 0; i < n->nanswers; i++) {
		const struct naive_answer *a = &n->answers[i];
		u64 skipped = (psn - a->psn) * n->mtu;

		if (i + n->depth < n->nanswers || a->kind != burst->kind ||
		    psn < a->psn || psn >= a->psn + a->npkts)
			continue;
		n->answer = a;
		if (a->kind == RXNG_KIND_ATOMIC)
			return NAIVE_ATOMIC_AGAIN;
		if (burst->rkey == a->rkey && burst->va == a->va + skipped &&
		    burst->dma_len + skipped == a->len)
			return NAIVE_READ_AGAIN;
		return NAIVE_DROP;
	}
	return NAIVE_DROP;
}

static u8 *memory_at(struct naive *n, u64 va, u32 rkey, u64 len)
{
	if (rkey != NAIVE_RKEY || va < NAIVE_BASE || len > NAIVE_MEMORY ||
	    va > NAIVE_BASE + NAIVE_MEMORY - len)
		return NULL;
	return n->memory + (va - NAIVE_BASE);
}

static void remember(struct naive *n, const struct rxng_pkt *pkt, u64 npkts,
		     u64 orig)
{
	MUST(n->nanswers < NAIVE_HISTORY);
	n->messages++;
	n->answers[n->nanswers++] = (struct naive_answer){
		.kind = pkt->kind,
		.psn = n->expected,
		.npkts = npkts,
		.va = pkt->va,
		.rkey = pkt->rkey,
		.len = pkt->dma_len,
		.orig = orig,
		.messages = n->messages,
	};
	n->expected += npkts;
	n->told = false;
}

static enum naive_says do_read(struct naive *n, const struct rxng_pkt *pkt)
{
	u64 npkts = pkt->dma_len ? (pkt->dma_len + n->mtu - 1ull) / n->mtu : 1;

	if (n->open || !n->may_read || !n->depth || pkt->dma_len > MAX_MESSAGE)
		return NAIVE_NAK_INVALID;
	if (pkt->dma_len && !memory_at(n, pkt->va, pkt->rkey, pkt->dma_len))
		return NAIVE_NAK_ACCESS;
	remember(n, pkt, npkts, 0);
	return NAIVE_EXECUTED;
}

static enum naive_says do_atomic(struct naive *n, const struct rxng_pkt *pkt)
{
	u64 value;
	u8 *at;

	if (n->open || !n->may_atomic || !n->depth || pkt->va % 8)
		return NAIVE_NAK_INVALID;
	at = memory_at(n, pkt->va, pkt->rkey, 8);
	if (!at)
		return NAIVE_NAK_ACCESS;
	memcpy(&value, at, 8);
	remember(n, pkt, 1, value);
	if (pkt->opcode == RXNG_RC_FETCH_ADD)
		value += pkt->swap_add;
	else if (value == pkt->compare)
		value = pkt->swap_add;
	memcpy(at, &value, 8);
	return NAIVE_EXECUTED;
}

/* One packet of a SEND or WRITE that may stand here. */
static enum naive_says do_data(struct naive *n, const struct rxng_pkt *burst,
			       const struct one *p)
{
	u64 at = n->bytes - p->len;
	bool takes;

	if (burst->kind == RXNG_KIND_SEND) {
		takes = p->first;
		if (!takes && at + p->len > n->recv_size)
			return NAIVE_NAK_TOO_LONG;
	} else {
		takes = p->last && p->imm;
		if (p->len && !memory_at(n, n->va + at, n->rkey, p->len))
			return NAIVE_NAK_ACCESS;
	}
	if (takes && !n->receives)
		return NAIVE_RNR;
	if (takes) {
		n->receives--;
		n->recv_size = n->next_recv_size;
		if (burst->kind == RXNG_KIND_SEND && p->len > n->recv_size)
			return NAIVE_NAK_TOO_LONG;
	}
	if (burst->kind == RXNG_KIND_WRITE && p->len)
		memcpy(memory_at(n, n->va + at, n->rkey, p->len), p->payload,
		       p->len);
	n->ack = p->psn;
	n->expected = p->psn + 1;
	n->told = false;
	if (p->last)
		n->messages++;
	return NAIVE_EXECUTED;
}

/*
 * A burst is its packets, those that are old left out; but it is carried out
 * whole or not at all.
 */
enum naive_says naive_request(struct naive *n, const struct rxng_pkt *burst,
			      const u8 *payload)
{
	static struct naive trial;
	u64 psn = unwrap(n, burst->psn);
	enum naive_says says = NAIVE_DROP;
	u32 skip = 0, i;

	n->answer = NULL;
	if (psn > n->expected)
		return gap(n, psn);
	if (psn < n->expected) {
		if (psn + burst->npkts <= n->expected)
			return old(n, burst, psn);
		skip = n->expected - psn;
	}
	switch (burst->kind) {
	case RXNG_KIND_READ:
		return do_read(n, burst);
	case RXNG_KIND_ATOMIC:
		return do_atomic(n, burst);
	case RXNG_KIND_SEND:
	case RXNG_KIND_WRITE:
		break;
	default:
		return NAIVE_NAK_INVALID;
	}
	memcpy(&trial, n, NAIVE_STATE);
	for (i = skip; i < burst->npkts; i++) {
		struct one p = packet(n, burst, payload, i);

		if (!data_fits(&trial, burst, &p))
			return NAIVE_NAK_INVALID;
	}
	memcpy(&trial, n, NAIVE_STATE);
	for (i = skip; i < burst->npkts; i++) {
		struct one p = packet(n, burst, payload, i);

		data_fits(&trial, burst, &p);
		says = do_data(&trial, burst, &p);
		if (says != NAIVE_EXECUTED)
			break;
	}
	if (says == NAIVE_EXECUTED) {
		memcpy(n, &trial, NAIVE_STATE);
	} else if (says == NAIVE_RNR) {
		n->told = true;
		n->told_rnr = true;
		n->told_by = n->expected;
	}
	return says;
}
