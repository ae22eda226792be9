// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Whatever a peer answers, the requester stays whole. */
#include "input.h"
#include "../unit/invariants.h"

#define MTU 64
#define RING 16
#define MAX_STEPS 600

struct fuzz {
	struct rxng_req r;
	struct rxng_swqe ring[RING];
	u64 now;
	bool failed;
	/* What the peer said, by position in the stream of all PSNs. */
	u64 una;		/* r.una, not wrapped */
	u64 acknowledged;	/* all before may be complete */
	u64 first[RING];	/* of each request, once sent */
	u64 end[RING];
	u32 placed[RING];
	bool sent[RING];
	bool answered[RING];
};

static u64 stream(const struct fuzz *f, u32 psn)
{
	return f->una + ((psn - f->r.una) & RXNG_PSN_MASK);
}

static void check(struct fuzz *f)
{
	const char *what = req_broken(&f->r);
	u32 moved;

	MUST(!what, "%s", what);
	moved = (f->r.una - (u32)f->una) & RXNG_PSN_MASK;
	MUST(moved <= RXNG_PSN_SPAN, "una went back");
	f->una += moved;
}

static void post(struct fuzz *f, struct input *in)
{
	static const u8 kinds[] = {
		RXNG_KIND_SEND, RXNG_KIND_WRITE, RXNG_KIND_READ,
		RXNG_KIND_ATOMIC, RXNG_KIND_NONE,
	};
	struct rxng_swqe *wqe = rxng_req_wqe(&f->r, f->r.tail);
	u32 i = f->r.tail & f->r.mask;

	if (f->r.tail - f->r.head == RING)
		return;
	memset(wqe, 0xa5, sizeof(*wqe));
	wqe->kind = kinds[take8(in) % ARRAY_SIZE(kinds)];
	wqe->flags = take8(in);
	wqe->state = RXNG_SWQE_POSTED;
	wqe->status = 0;
	wqe->length = take8(in) & 1 ? take8(in) : take16(in) % 2000;
	f->placed[i] = 0;
	f->sent[i] = false;
	f->answered[i] = false;
	f->r.tail++;
}

static void retire(struct fuzz *f)
{
	struct rxng_swqe *wqe;

	while (!f->failed && (wqe = rxng_req_retirable(&f->r))) {
		u32 i = f->r.head & f->r.mask;

		if (wqe->state == RXNG_SWQE_FAILED) {
			MUST(wqe->status != RXNG_WC_SUCCESS);
			f->failed = true;
			return;
		}
		switch (wqe->kind) {
		case RXNG_KIND_NONE:
			MUST(f->answered[i], "local operation left out");
			break;
		case RXNG_KIND_READ:
			MUST(f->placed[i] == wqe->length, "READ without data");
			MUST(f->answered[i]);
			break;
		case RXNG_KIND_ATOMIC:
			MUST(f->answered[i], "atomic without result");
			break;
		default:
			MUST(f->sent[i], "never sent");
			MUST(f->end[i] <= f->acknowledged,
			     "not acknowledged");
		}
		rxng_req_retire(&f->r);
	}
}

static void sent(struct fuzz *f, const struct rxng_pkt *pkt, u32 n)
{
	struct rxng_swqe *wqe = rxng_req_wqe(&f->r, f->r.cur);
	u32 i = f->r.cur & f->r.mask;
	u32 offset = rxng_req_offset(&f->r);

	MUST(!f->r.rnr_until, "sends in an RNR wait");
	MUST(pkt->npkts >= 1 && pkt->npkts <= RXNG_WINDOW);
	MUST(offset <= wqe->length || !offset);
	if (!rxng_kind_has_response(wqe->kind)) {
		MUST(pkt->payload_len <= wqe->length - offset);
		MUST(n < pkt->npkts || !(pkt->flags & RXNG_PKT_END) ||
		     offset + pkt->payload_len == wqe->length);
	}
	if (n && (wqe->flags & RXNG_SWQE_FENCE) && !f->r.cur_pkt)
		MUST(!f->r.rd_used, "fence");
	f->first[i] = stream(f, wqe->psn);
	f->end[i] = f->first[i] + wqe->npkts;
	if (rxng_psn_diff(wqe->psn, f->r.una) < 0) {
		f->first[i] -= 1 << 24;
		f->end[i] -= 1 << 24;
	}
	if (n == pkt->npkts && (pkt->flags & RXNG_PKT_END))
		f->sent[i] = true;
	rxng_req_sent(&f->r, n, f->now);
}

static void run(struct fuzz *f, struct input *in)
{
	u8 how = take8(in);
	struct rxng_pkt pkt;

	switch (rxng_req_next(&f->r, f->now, 1 + how % 32, &pkt)) {
	case RXNG_REQ_SEND:
		check(f);
		sent(f, &pkt, how & 0x80 ? take8(in) % (pkt.npkts + 1) :
					   pkt.npkts);
		break;
	case RXNG_REQ_LOCAL:
		f->answered[f->r.cur & f->r.mask] = true;
		rxng_req_local_done(&f->r);
		break;
	default:
		break;
	}
}

static void respond(struct fuzz *f, struct input *in)
{
	static const u8 kinds[] = {
		RXNG_KIND_ACK, RXNG_KIND_ACK, RXNG_KIND_READ_RESP,
		RXNG_KIND_ATOMIC_ACK,
	};
	u8 how = take8(in);
	u32 una = f->r.una, span = (f->r.sent - una) & RXNG_PSN_MASK;
	u32 idx = f->r.una_idx;
	struct rxng_swqe *wqe = rxng_req_wqe(&f->r, idx);
	struct rxng_pkt pkt = {
		.kind = kinds[how & 3],
		.flags = take8(in) & (RXNG_PKT_START | RXNG_PKT_END),
		.npkts = 1,
	};
	u32 offset = ~0u, at;

	pkt.psn = rxng_psn_add(una, (u32)(s8)take8(in) % 32 - 2);
	if (how & 4)
		pkt.psn = rxng_psn_add(una, span ? take16(in) % span : 0);
	pkt.syndrome = how & 8 ? take8(in) : RXNG_AETH_NO_CREDITS;
	pkt.msn = how & 8 ? take32(in) & RXNG_PSN_MASK : 0;
	if (pkt.flags || pkt.kind != RXNG_KIND_READ_RESP)
		pkt.flags |= RXNG_PKT_AETH;
	pkt.payload_len = take16(in);
	if (how & 0x10 && f->r.una_idx != f->r.started) {
		/* What a READ at una would be answered with. */
		at = (una - wqe->psn) & RXNG_PSN_MASK;
		pkt.psn = una;
		pkt.npkts = 1 + take8(in) % 8;
		if (at + pkt.npkts > wqe->npkts && wqe->npkts > at)
			pkt.npkts = wqe->npkts - at;
		pkt.flags = (at ? 0 : RXNG_PKT_START) |
			    (at + pkt.npkts == wqe->npkts ? RXNG_PKT_END : 0);
		if (how & 0x20)
			pkt.flags |= RXNG_PKT_START;
		pkt.payload_len = pkt.flags & RXNG_PKT_END ?
					  wqe->length - at * MTU :
					  pkt.npkts * MTU;
	}
	if (((pkt.psn - una) & RXNG_PSN_MASK) < span) {
		u64 to = stream(f, pkt.psn);

		if (pkt.kind == RXNG_KIND_ACK &&
		    (pkt.syndrome & RXNG_AETH_TYPE_MASK) == RXNG_AETH_ACK)
			to++;
		f->acknowledged = max(f->acknowledged, to);
	}
	switch (rxng_req_response(&f->r, &pkt, f->now, &offset)) {
	case RXNG_COMP_READ:
		idx = f->r.una_idx;
		wqe = rxng_req_wqe(&f->r, idx);
		MUST(wqe->kind == RXNG_KIND_READ);
		MUST(offset == f->placed[idx & f->r.mask]);
		MUST(offset <= wqe->length &&
		     pkt.payload_len <= wqe->length - offset);
		f->placed[idx & f->r.mask] += pkt.payload_len;
		rxng_req_answered(&f->r, pkt.npkts, f->now);
		if (f->r.una_idx != idx)
			f->answered[idx & f->r.mask] = true;
		break;
	case RXNG_COMP_ATOMIC:
		idx = f->r.una_idx;
		MUST(rxng_req_wqe(&f->r, idx)->kind == RXNG_KIND_ATOMIC);
		f->answered[idx & f->r.mask] = true;
		rxng_req_answered(&f->r, 1, f->now);
		break;
	case RXNG_COMP_FAILED:
		MUST(rxng_req_wqe(&f->r, f->r.una_idx)->state ==
		     RXNG_SWQE_FAILED);
		break;
	case RXNG_COMP_RNR:
		MUST(f->r.rnr_until > f->now);
		break;
	default:
		break;
	}
}

static void fail_one(struct fuzz *f, struct input *in)
{
	u32 n = f->r.tail - f->r.una_idx;

	/* As the module does: the request that it is about to send. */
	(void)in;
	if (n && f->r.cur != f->r.tail && f->r.cur != f->r.started)
		rxng_req_fail(&f->r, rxng_req_wqe(&f->r, f->r.cur),
			      RXNG_WC_LOC_PROT_ERR);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct fuzz f;
	struct input in = { data, size };
	u32 psn = take8(&in) & 1 ? RXNG_PSN_MASK - take8(&in) : take32(&in);
	u32 step;

	psn &= RXNG_PSN_MASK;
	memset(&f, 0, sizeof(f));
	f.r.wqes = f.ring;
	f.r.stride = sizeof(f.ring[0]);
	f.r.mask = RING - 1;
	f.r.mtu = MTU;
	f.r.max_rd_atomic = take8(&in) % 5;
	f.r.retry_cnt = take8(&in) & 7;
	f.r.rnr_retry = take8(&in) & 7;
	f.r.timeout = 4096ull << take8(&in) % 16;
	f.now = 1;
	rxng_req_reset(&f.r, take32(&in));
	rxng_req_start(&f.r, psn);
	f.una = (1ull << 40) + psn;
	f.acknowledged = f.una;

	for (step = 0; in.left && step < MAX_STEPS && !f.failed; step++) {
		switch (take8(&in) % 16) {
		case 0:
		case 1:
		case 2:
			post(&f, &in);
			break;
		case 3:
		case 4:
		case 5:
		case 6:
			run(&f, &in);
			break;
		case 7:
			f.now += take32(&in);
			break;
		case 8:
			rxng_req_timeout(&f.r, f.now, take8(&in) & 1);
			break;
		case 9:
			f.r.draining = take8(&in) & 1;
			break;
		case 10:
			if (!(take8(&in) & 15))
				fail_one(&f, &in);
			break;
		default:
			respond(&f, &in);
		}
		check(&f);
		retire(&f);
	}
	return 0;
}
