/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A requester on the bench, and words for what is done to it. */
#ifndef BENCH_H
#define BENCH_H

#include "../lib/tap.h"
#include "invariants.h"
#include "timer.h"

#define SEND RXNG_KIND_SEND
#define WRITE RXNG_KIND_WRITE
#define READ RXNG_KIND_READ
#define ATOMIC RXNG_KIND_ATOMIC
#define LOCAL RXNG_KIND_NONE

#define FIRST RXNG_PKT_START
#define MIDDLE 0
#define LAST RXNG_PKT_END
#define ONLY (RXNG_PKT_START | RXNG_PKT_END)

#define BENCH_MTU 256u
#define BENCH_PSN 0x100u
#define BENCH_RING 2048
#define US 1000ull
#define MS 1000000ull
/* 16.8 ms */
#define BENCH_TIMEOUT (4096ull << 12)

struct bench {
	struct rxng_req r;
	struct rxng_swqe ring[BENCH_RING];
	struct rxng_pkt pkt;	/* described last */
	u32 max_pkts;
	u32 offset;		/* of the last READ response */
	u64 now;
};

static inline void bench_check(struct bench *b)
{
	const char *what = req_broken(&b->r);

	if (what)
		FAIL("not so: %s", what);
}

static inline struct bench *bench_setup_at(u32 psn)
{
	static struct bench b;

	memset(&b, 0, sizeof(b));
	memset(b.ring, 0xa5, sizeof(b.ring));
	b.now = 1000 * MS;
	b.max_pkts = 256;
	b.r.wqes = b.ring;
	b.r.stride = sizeof(b.ring[0]);
	b.r.mask = BENCH_RING - 1;
	b.r.mtu = BENCH_MTU;
	b.r.max_rd_atomic = 4;
	b.r.retry_cnt = 7;
	b.r.rnr_retry = 6;
	b.r.timeout = BENCH_TIMEOUT;
	/* So that the ring's indices wrap too. */
	rxng_req_reset(&b.r, ~0u - 3);
	rxng_req_start(&b.r, psn);
	/* As after some time without a loss. */
	b.r.window = RXNG_WINDOW;
	bench_check(&b);
	return &b;
}

static inline struct bench *bench_setup(void)
{
	return bench_setup_at(BENCH_PSN);
}

static inline void bench_teardown(struct bench *b)
{
	bench_check(b);
}

static inline struct rxng_swqe *post(struct bench *b, u8 kind, u32 length,
				     u8 flags)
{
	struct rxng_swqe *wqe = rxng_req_wqe(&b->r, b->r.tail);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = b->r.tail++;
	wqe->kind = kind;
	wqe->flags = flags;
	wqe->length = kind == ATOMIC ? 8 : length;
	wqe->raddr = 0x10000;
	wqe->rkey = 0x1234;
	wqe->imm = 0x55667788;
	return wqe;
}

static inline enum rxng_req_verdict next(struct bench *b)
{
	enum rxng_req_verdict v;

	v = rxng_req_next(&b->r, b->now, b->max_pkts, &b->pkt);
	bench_check(b);
	return v;
}

/* The next burst is this one; only @n of it leave. */
static inline void sends_part(struct bench *b, u8 kind, u32 psn, u32 npkts,
			      u32 n)
{
	CHECK_EQ(next(b), RXNG_REQ_SEND);
	CHECK_EQ(b->pkt.kind, kind);
	CHECK_EQ(b->pkt.psn, psn);
	CHECK_EQ(b->pkt.npkts, npkts);
	rxng_req_sent(&b->r, n, b->now);
	bench_check(b);
}

static inline void sends(struct bench *b, u8 kind, u32 psn, u32 npkts)
{
	sends_part(b, kind, psn, npkts, npkts);
}

static inline void waits(struct bench *b)
{
	CHECK_EQ(next(b), RXNG_REQ_WAIT);
}

static inline void idle(struct bench *b)
{
	CHECK_EQ(next(b), RXNG_REQ_IDLE);
}

static inline enum rxng_comp_verdict respond(struct bench *b,
					     struct rxng_pkt pkt)
{
	enum rxng_comp_verdict v;

	b->offset = ~0u;
	if (!pkt.npkts)
		pkt.npkts = 1;
	v = rxng_req_response(&b->r, &pkt, b->now, &b->offset);
	bench_check(b);
	return v;
}

static inline enum rxng_comp_verdict aeth(struct bench *b, u32 psn,
					  u8 syndrome, u32 msn)
{
	return respond(b, (struct rxng_pkt){
		.opcode = RXNG_RC_ACK,
		.kind = RXNG_KIND_ACK,
		.flags = ONLY | RXNG_PKT_AETH,
		.psn = psn,
		.syndrome = syndrome,
		.msn = msn,
	});
}

static inline enum rxng_comp_verdict ack(struct bench *b, u32 psn)
{
	return aeth(b, psn, RXNG_AETH_ACK | RXNG_AETH_NO_CREDITS, 0);
}

static inline enum rxng_comp_verdict nak(struct bench *b, u32 psn, u8 code)
{
	return aeth(b, psn, RXNG_AETH_NAK | code, 0);
}

static inline enum rxng_comp_verdict rnr(struct bench *b, u32 psn, u8 code)
{
	return aeth(b, psn, RXNG_AETH_RNR | code, 0);
}

/* A READ response; its data is placed when the verdict asks for it. */
static inline enum rxng_comp_verdict read_resp(struct bench *b, u32 psn,
					       u32 npkts, u16 place, u32 len)
{
	enum rxng_comp_verdict v = respond(b, (struct rxng_pkt){
		.kind = RXNG_KIND_READ_RESP,
		.flags = place | (place ? RXNG_PKT_AETH : 0),
		.psn = psn,
		.npkts = npkts,
		.payload_len = len,
		.syndrome = RXNG_AETH_ACK | RXNG_AETH_NO_CREDITS,
	});

	if (v == RXNG_COMP_READ) {
		rxng_req_answered(&b->r, npkts, b->now);
		bench_check(b);
	}
	return v;
}

static inline enum rxng_comp_verdict atomic_ack(struct bench *b, u32 psn)
{
	enum rxng_comp_verdict v = respond(b, (struct rxng_pkt){
		.opcode = RXNG_RC_ATOMIC_ACK,
		.kind = RXNG_KIND_ATOMIC_ACK,
		.flags = ONLY | RXNG_PKT_AETH | RXNG_PKT_ATOMICACK,
		.psn = psn,
		.syndrome = RXNG_AETH_ACK | RXNG_AETH_NO_CREDITS,
	});

	if (v == RXNG_COMP_ATOMIC) {
		rxng_req_answered(&b->r, 1, b->now);
		bench_check(b);
	}
	return v;
}

/* Retire all that may be; the number of requests that succeeded. */
static inline u32 succeeded(struct bench *b)
{
	struct rxng_swqe *wqe;
	u32 n = 0;

	while ((wqe = rxng_req_retirable(&b->r)) &&
	       wqe->state != RXNG_SWQE_FAILED) {
		CHECK_EQ(wqe->wr_id, b->r.head);
		rxng_req_retire(&b->r);
		n++;
	}
	bench_check(b);
	return n;
}

/* Status of the request that is to be retired next; 0 when none failed. */
static inline int failed(struct bench *b)
{
	struct rxng_swqe *wqe = rxng_req_retirable(&b->r);

	return wqe && wqe->state == RXNG_SWQE_FAILED ? wqe->status : 0;
}

/* Failures inside these name the line that uses them. */
#define POST(...) AT(post(bench, __VA_ARGS__))
#define SENDS(...) AT(sends(bench, __VA_ARGS__))
#define SENDS_PART(...) AT(sends_part(bench, __VA_ARGS__))
#define WAITS() AT(waits(bench))
#define IDLE() AT(idle(bench))
#define SUCCEEDED(n) CHECK_EQ(AT(succeeded(bench)), n)
#define FAILED(status) CHECK_EQ(AT(failed(bench)), status)
#define GIVES(call, verdict) CHECK_EQ(AT(call), RXNG_COMP_##verdict)
#define REQUEST(id) TEST_F(bench, id)

#endif
