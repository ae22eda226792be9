// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A run of requests, given to proto/responder.c and to the naive one. */
#include "input.h"
#include "naive.h"
#include "responder.h"

#define MTU 64
#define MAX_BURST 8
#define MAX_PAYLOAD (MTU * (MAX_BURST + 1))
#define MAX_STEPS 400

struct real {
	struct rxng_resp r;
	u8 memory[NAIVE_MEMORY];
	u32 receives;
	u32 recv_size;
	u32 next_recv_size;
	struct rxng_resource *answer;
};

static u8 *memory_at(struct real *real, u64 va, u32 rkey, u32 len)
{
	u64 offset = va - NAIVE_BASE;

	if (rkey != NAIVE_RKEY || offset > NAIVE_MEMORY ||
	    len > NAIVE_MEMORY - offset)
		return NULL;
	return real->memory + offset;
}

static enum naive_says execute_data(struct real *real,
				    const struct rxng_pkt *pkt,
				    const u8 *payload)
{
	bool send = pkt->kind == RXNG_KIND_SEND;
	bool start = pkt->flags & RXNG_PKT_START;
	bool takes = send ? start :
			    pkt->flags & RXNG_PKT_END &&
				    pkt->flags & RXNG_PKT_IMM;
	struct rxng_write_target target;
	u32 got = start ? 0 : real->r.got;
	u8 *to = NULL;

	rxng_resp_target(&real->r, pkt, &target);
	if (!send && pkt->payload_len) {
		to = memory_at(real, target.va, target.rkey, pkt->payload_len);
		if (!to)
			return NAIVE_NAK_ACCESS;
	}
	if (takes && !real->receives) {
		rxng_resp_not_ready(&real->r, pkt);
		return NAIVE_RNR;
	}
	if (takes) {
		real->receives--;
		real->recv_size = real->next_recv_size;
	}
	if (send && got + pkt->payload_len > real->recv_size)
		return NAIVE_NAK_TOO_LONG;
	if (to)
		memcpy(to, payload, pkt->payload_len);
	rxng_resp_done(&real->r, pkt, 0);
	return NAIVE_EXECUTED;
}

static enum naive_says execute(struct real *real, const struct rxng_pkt *pkt,
			       const u8 *payload)
{
	u64 orig, value;
	u8 *at;

	if (pkt->kind == RXNG_KIND_READ) {
		if (pkt->dma_len &&
		    !memory_at(real, pkt->va, pkt->rkey, pkt->dma_len))
			return NAIVE_NAK_ACCESS;
		rxng_resp_done(&real->r, pkt, 0);
		return NAIVE_EXECUTED;
	}
	if (pkt->kind != RXNG_KIND_ATOMIC)
		return execute_data(real, pkt, payload);
	at = memory_at(real, pkt->va, pkt->rkey, 8);
	if (!at)
		return NAIVE_NAK_ACCESS;
	memcpy(&orig, at, 8);
	value = orig;
	if (pkt->opcode == RXNG_RC_FETCH_ADD)
		value += pkt->swap_add;
	else if (value == pkt->compare)
		value = pkt->swap_add;
	memcpy(at, &value, 8);
	rxng_resp_done(&real->r, pkt, orig);
	return NAIVE_EXECUTED;
}

static enum naive_says request(struct real *real, struct rxng_pkt *pkt,
			       const u8 *payload)
{
	static const enum naive_says same[] = {
		[RXNG_RESP_DROP] = NAIVE_DROP,
		[RXNG_RESP_ACK_AGAIN] = NAIVE_ACK_AGAIN,
		[RXNG_RESP_READ_AGAIN] = NAIVE_READ_AGAIN,
		[RXNG_RESP_ATOMIC_AGAIN] = NAIVE_ATOMIC_AGAIN,
		[RXNG_RESP_NAK_PSN] = NAIVE_NAK_PSN,
		[RXNG_RESP_NAK_INVALID] = NAIVE_NAK_INVALID,
	};
	enum rxng_resp_verdict v;
	u32 skip;

	v = rxng_resp_request(&real->r, pkt, &skip, &real->answer);
	if (v == RXNG_RESP_EXECUTE)
		return execute(real, pkt, payload + (size_t)skip * MTU);
	return same[v];
}

static s8 near(struct input *in)
{
	u8 byte = take8(in);

	/* Mostly the expected one, else near to it. */
	return byte < 128 ? 0 : (s8)(byte - 192) / 4;
}

static void draw_data(struct input *in, const struct real *real,
		      struct rxng_pkt *pkt, u8 how)
{
	bool open = real->r.msg != RXNG_KIND_NONE;

	pkt->npkts = 1 + how % MAX_BURST;
	pkt->flags = take8(in) & (RXNG_PKT_START | RXNG_PKT_END);
	if (!(how & 0x80)) {
		/* One that fits. */
		pkt->flags &= ~RXNG_PKT_START;
		pkt->flags |= open ? 0 : RXNG_PKT_START;
		if (open)
			pkt->kind = real->r.msg;
	}
	pkt->payload_len = pkt->npkts * MTU;
	if (pkt->flags & RXNG_PKT_END)
		pkt->payload_len -= take8(in) % MTU;
	if (how & 0x40)
		pkt->payload_len = take16(in) % MAX_PAYLOAD;
	if (pkt->flags & RXNG_PKT_END && how & 8)
		pkt->flags |= RXNG_PKT_IMM;
	pkt->dma_len = pkt->payload_len;
	if (!(pkt->flags & RXNG_PKT_END))
		pkt->dma_len += take16(in) % 512;
	if (how & 0x20)
		pkt->dma_len = take32(in);
	if (!(how & 0x80) && open && pkt->kind == RXNG_KIND_WRITE &&
	    real->r.resid <= MAX_BURST * MTU && real->r.resid) {
		pkt->npkts = (real->r.resid + MTU - 1) / MTU;
		pkt->payload_len = real->r.resid;
		pkt->flags |= RXNG_PKT_END;
	}
}

static void draw(struct input *in, const struct real *real,
		 struct rxng_pkt *pkt)
{
	static const u8 kinds[] = {
		RXNG_KIND_SEND, RXNG_KIND_WRITE, RXNG_KIND_READ,
		RXNG_KIND_ATOMIC, RXNG_KIND_SEND, RXNG_KIND_WRITE,
		RXNG_KIND_WRITE, RXNG_KIND_ACK,
	};
	u8 how = take8(in);

	memset(pkt, 0, sizeof(*pkt));
	pkt->kind = kinds[take8(in) % ARRAY_SIZE(kinds)];
	pkt->npkts = 1;
	pkt->flags = RXNG_PKT_START | RXNG_PKT_END;
	pkt->rkey = how & 0x10 && !(take8(in) & 15) ? 1 : NAIVE_RKEY;
	pkt->va = NAIVE_BASE + take16(in) % NAIVE_MEMORY;
	switch (pkt->kind) {
	case RXNG_KIND_SEND:
	case RXNG_KIND_WRITE:
		draw_data(in, real, pkt, how);
		break;
	case RXNG_KIND_READ:
		pkt->dma_len = how & 0x80 ? take32(in) : take16(in) % 600;
		break;
	case RXNG_KIND_ATOMIC:
		if (!(how & 0x80))
			pkt->va &= ~7ull;
		pkt->opcode = how & 1 ? RXNG_RC_CMP_SWAP : RXNG_RC_FETCH_ADD;
		pkt->compare = take8(in) & 1;
		pkt->swap_add = take8(in) & 1;
	}
	pkt->psn = rxng_psn_add(real->r.epsn, near(in));
	/* A READ that was carried out, again, or from its middle. */
	if (how & 4 && pkt->kind == RXNG_KIND_READ && real->r.depth) {
		const struct rxng_resource *res =
			&real->r.resources[take8(in) % real->r.depth];
		u32 at = take8(in) % (res->npkts + 1);

		pkt->psn = rxng_psn_add(res->psn, at);
		pkt->va = res->va + at * MTU;
		pkt->dma_len = res->len - at * MTU;
		pkt->rkey = res->rkey;
	}
}

static void compare(const struct real *real, const struct naive *naive,
		    enum naive_says got, enum naive_says want, u32 step)
{
	MUST(got == want, "step %u: %u, naive %u", step, got, want);
	MUST(real->r.epsn == (naive->expected & RXNG_PSN_MASK), "step %u",
	     step);
	MUST(real->r.msn == (naive->messages & RXNG_PSN_MASK), "step %u",
	     step);
	MUST(real->r.ack_psn == (naive->ack & RXNG_PSN_MASK), "step %u", step);
	MUST(real->r.msg == naive->open, "step %u", step);
	MUST(real->receives == naive->receives, "step %u", step);
	MUST(!memcmp(real->memory, naive->memory, NAIVE_MEMORY), "step %u",
	     step);
	if (want == NAIVE_READ_AGAIN || want == NAIVE_ATOMIC_AGAIN) {
		const struct rxng_resource *a = real->answer;
		const struct naive_answer *b = naive->answer;

		MUST(a->psn == (b->psn & RXNG_PSN_MASK) && a->va == b->va &&
		     a->npkts == b->npkts && a->rkey == b->rkey &&
		     a->orig == b->orig &&
		     a->msn == (b->messages & RXNG_PSN_MASK), "step %u", step);
		MUST(a->kind != RXNG_KIND_READ || a->len == b->len,
		     "step %u", step);
	}
}

static bool is_fatal(enum naive_says says)
{
	return says == NAIVE_NAK_INVALID || says == NAIVE_NAK_ACCESS ||
	       says == NAIVE_NAK_TOO_LONG;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct real real;
	static struct naive naive;
	static u8 payload[MAX_PAYLOAD];
	struct input in = { data, size };
	u32 psn = take8(&in) & 1 ? RXNG_PSN_MASK - take8(&in) : take32(&in);
	u8 rights = ~take8(&in);
	u32 step, i;

	psn &= RXNG_PSN_MASK;
	real.r.mtu = MTU;
	real.r.allow = rights & (RXNG_ALLOW_WRITE | RXNG_ALLOW_READ |
				 RXNG_ALLOW_ATOMIC);
	real.r.depth = take8(&in) % 6;
	rxng_resp_reset(&real.r);
	rxng_resp_start(&real.r, psn);
	real.receives = 0;
	memset(real.memory, 0, sizeof(real.memory));
	memset(&naive, 0, NAIVE_STATE);
	naive.mtu = MTU;
	naive.depth = real.r.depth;
	naive.may_write = rights & RXNG_ALLOW_WRITE;
	naive.may_read = rights & RXNG_ALLOW_READ;
	naive.may_atomic = rights & RXNG_ALLOW_ATOMIC;
	naive_start(&naive, psn);

	for (step = 0; in.left && step < MAX_STEPS; step++) {
		struct rxng_pkt pkt, copy;
		enum naive_says want, got;
		u8 posts = take8(&in);

		if (posts & 1) {
			real.receives += posts >> 5;
			naive.receives += posts >> 5;
		}
		real.next_recv_size = posts & 2 ? 100 : 4096;
		naive.next_recv_size = real.next_recv_size;
		draw(&in, &real, &pkt);
		for (i = 0; i < MAX_PAYLOAD; i++)
			payload[i] = step * 7 + i;
		copy = pkt;
		want = naive_request(&naive, &copy, payload);
		got = request(&real, &pkt, payload);
		if (is_fatal(want) || is_fatal(got)) {
			MUST(got == want, "step %u: %u, naive %u", step, got,
			     want);
			break;
		}
		compare(&real, &naive, got, want, step);
	}
	return 0;
}
