// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Requester and responder of UC and UD: nothing is acknowledged. */
#include "judge.h"

#define UC RXNG_SERVICE_UC
#define UD RXNG_SERVICE_UD

static void become(struct bench *b, enum rxng_service service)
{
	b->r.service = service;
	b->r.max_rd_atomic = 0;
	b->r.timeout = 0;
}

TEST_F(bench, rxng_req_sent__is_complete)
{
	become(bench, UC);
	POST(SEND, 3 * BENCH_MTU, 0);
	POST(WRITE, 1, 0);
	SENDS(SEND, BENCH_PSN, 3);
	CHECK_EQ(bench->pkt.opcode, 0x20);
	SUCCEEDED(1);
	SENDS(WRITE, BENCH_PSN + 3, 1);
	CHECK_EQ(bench->pkt.opcode, 0x2a);
	SUCCEEDED(1);
	IDLE();
	CHECK_EQ(bench->r.deadline, 0);
	CHECK(rxng_req_drained(&bench->r));
}

TEST_F(bench, rxng_req_sent__a_part)
{
	become(bench, UC);
	POST(SEND, 4 * BENCH_MTU, 0);
	SENDS_PART(SEND, BENCH_PSN, 4, 3);
	SUCCEEDED(0);
	CHECK(!rxng_req_drained(&bench->r));
	SENDS(SEND, BENCH_PSN + 3, 1);
	CHECK_EQ(bench->pkt.opcode, 0x22);
	SUCCEEDED(1);
}

/* Far more than a window, and nobody asks for an acknowledgement. */
TEST_F(bench, rxng_req_next__no_window)
{
	u32 i;

	become(bench, UC);
	POST(SEND, 4 * RXNG_WINDOW * BENCH_MTU, 0);
	for (i = 0; i < 4; i++) {
		SENDS(SEND, BENCH_PSN + i * RXNG_WINDOW, RXNG_WINDOW);
		CHECK(!(bench->pkt.bits & RXNG_PKT_ACK_REQ));
	}
	SUCCEEDED(1);
}

TEST_F(bench, rxng_req_start__whole_window)
{
	become(bench, UC);
	rxng_req_start(&bench->r, BENCH_PSN);
	CHECK_EQ(bench->r.window, RXNG_WINDOW);
	bench->r.service = RXNG_SERVICE_RC;
	rxng_req_start(&bench->r, BENCH_PSN);
	CHECK_EQ(bench->r.window, RXNG_WINDOW_START);
}

TEST_F(bench, rxng_req_next__no_response)
{
	become(bench, UC);
	POST(READ, 1, 0);
	IDLE();
	FAILED(RXNG_WC_LOC_QP_OP_ERR);
}

TEST_F(bench, rxng_req_resume__psns_go_on)
{
	become(bench, UC);
	POST(SEND, 4 * BENCH_MTU, 0);
	SENDS_PART(SEND, BENCH_PSN, 4, 1);
	rxng_req_fail(&bench->r, rxng_req_wqe(&bench->r, bench->r.cur),
		      RXNG_WC_LOC_PROT_ERR);
	FAILED(RXNG_WC_LOC_PROT_ERR);
	bench->r.una_idx++;
	rxng_req_retire(&bench->r);
	rxng_req_resume(&bench->r);
	bench_check(bench);
	POST(SEND, 1, 0);
	SENDS(SEND, BENCH_PSN + 4, 1);
	SUCCEEDED(1);
}

TEST_F(bench, rxng_req_next__datagram)
{
	struct rxng_swqe *wqe = POST(SEND, BENCH_MTU, RXNG_SWQE_IMM);

	become(bench, UD);
	wqe->dqpn = 0x123456;
	wqe->qkey = 0x89abcdef;
	SENDS(SEND, BENCH_PSN, 1);
	CHECK_EQ(bench->pkt.opcode, 0x65);
	CHECK_EQ(bench->pkt.flags, ONLY | RXNG_PKT_IMM | RXNG_PKT_DETH);
	CHECK_EQ(bench->pkt.qpn, 0x123456);
	CHECK_EQ(bench->pkt.qkey, 0x89abcdef);
	CHECK_EQ(bench->pkt.imm, 0x55667788);
	CHECK_EQ(bench->pkt.payload_len, BENCH_MTU);
	SUCCEEDED(1);
}

TEST_F(bench, rxng_req_next__too_long)
{
	become(bench, UD);
	POST(SEND, BENCH_MTU + 1, 0);
	POST(SEND, 1, 0);
	CHECK_EQ(next(bench), RXNG_REQ_TOO_LONG);
	rxng_req_sent(&bench->r, 1, bench->now);
	SUCCEEDED(1);
	SENDS(SEND, BENCH_PSN + 1, 1);
	SUCCEEDED(1);
}

static void hears_only(struct judge *j, enum rxng_service service)
{
	j->r.service = service;
	j->r.allow = RXNG_ALLOW_WRITE;
	j->r.depth = 0;
}

static enum rxng_resp_verdict hear(struct judge *j, u8 kind, u32 psn, u16 place,
				   u32 len, u32 dma_len)
{
	enum rxng_resp_verdict verdict = judge_pkt(j, (struct rxng_pkt){
		.kind = kind,
		.flags = place,
		.psn = psn,
		.payload_len = len,
		.dma_len = dma_len,
	});

	if (verdict == RXNG_RESP_EXECUTE)
		CHECK(!rxng_resp_done(&j->r, &j->pkt, 0));
	return verdict;
}

#define HEAR(verdict, ...) \
	CHECK_EQ(AT(hear(judge, __VA_ARGS__)), RXNG_RESP_##verdict)
#define FULL BENCH_MTU

TEST_F(judge, rxng_resp_request__in_order)
{
	hears_only(judge, UC);
	HEAR(EXECUTE, SEND, 0x100, FIRST, FULL, 0);
	HEAR(EXECUTE, SEND, 0x101, MIDDLE, FULL, 0);
	HEAR(EXECUTE, SEND, 0x102, LAST, 1, 0);
	CHECK_EQ(judge->r.got, 2 * FULL + 1);
	HEAR(EXECUTE, WRITE, 0x103, ONLY, 9, 9);
}

/* 9.8.2.2.1: what is left of a message is lost, the next one is not. */
TEST_F(judge, rxng_resp_request__middle_lost)
{
	hears_only(judge, UC);
	HEAR(EXECUTE, SEND, 0x100, FIRST, FULL, 0);
	HEAR(DROP, SEND, 0x102, MIDDLE, FULL, 0);
	HEAR(DROP, SEND, 0x103, LAST, 1, 0);
	HEAR(EXECUTE, SEND, 0x104, FIRST, FULL, 0);
	HEAR(EXECUTE, SEND, 0x105, LAST, 1, 0);
	CHECK_EQ(judge->r.got, FULL + 1);
}

TEST_F(judge, rxng_resp_request__missing_comes_late)
{
	hears_only(judge, UC);
	HEAR(EXECUTE, SEND, 0x100, FIRST, FULL, 0);
	HEAR(DROP, SEND, 0x102, MIDDLE, FULL, 0);
	HEAR(DROP, SEND, 0x101, MIDDLE, FULL, 0);
	HEAR(DROP, SEND, 0x103, LAST, 1, 0);
}

TEST_F(judge, rxng_resp_request__end_lost)
{
	hears_only(judge, UC);
	HEAR(EXECUTE, WRITE, 0x100, FIRST, FULL, 2 * FULL);
	HEAR(EXECUTE, SEND, 0x102, ONLY, 7, 0);
	CHECK_EQ(judge->r.got, 7);
}

TEST_F(judge, rxng_resp_request__start_lost)
{
	hears_only(judge, UC);
	HEAR(DROP, SEND, 0x101, MIDDLE, FULL, 0);
	HEAR(DROP, SEND, 0x102, LAST, 1, 0);
	HEAR(EXECUTE, SEND, 0x103, ONLY, 1, 0);
}

/* Any PSN begins a message, also one far away (9.8.2.2.1). */
TEST_F(judge, rxng_resp_request__starts_anywhere)
{
	hears_only(judge, UC);
	HEAR(EXECUTE, SEND, 0x900000, FIRST, FULL, 0);
	HEAR(EXECUTE, SEND, 0x900001, LAST, 1, 0);
	HEAR(EXECUTE, SEND, 0x10, ONLY, 1, 0);
}

TEST_F(judge, rxng_resp_request__malformed)
{
	hears_only(judge, UC);
	HEAR(NAK_INVALID, SEND, 0x100, FIRST, FULL - 1, 0);
	HEAR(DROP, SEND, 0x101, LAST, 1, 0);
	HEAR(NAK_INVALID, WRITE, 0x102, ONLY, 9, 10);
	HEAR(EXECUTE, SEND, 0x103, FIRST, FULL, 0);
	HEAR(NAK_INVALID, WRITE, 0x104, LAST, 1, 0);
	HEAR(DROP, SEND, 0x105, LAST, 1, 0);
	judge->r.allow = 0;
	HEAR(NAK_INVALID, WRITE, 0x106, ONLY, 9, 9);
	HEAR(EXECUTE, SEND, 0x107, ONLY, 1, 0);
}

TEST_F(judge, rxng_resp_lost__rest_of_the_message)
{
	hears_only(judge, UC);
	HEAR(EXECUTE, WRITE, 0x100, FIRST, FULL, FULL + 1);
	rxng_resp_lost(&judge->r);
	HEAR(DROP, WRITE, 0x101, LAST, 1, 0);
	HEAR(EXECUTE, SEND, 0x102, ONLY, 1, 0);
}

TEST_F(judge, rxng_resp_request__datagrams)
{
	hears_only(judge, UD);
	HEAR(EXECUTE, SEND, 0x500, ONLY, 1, 0);
	HEAR(EXECUTE, SEND, 0x500, ONLY, 0, 0);
	HEAR(EXECUTE, SEND, 0x4ff, ONLY, FULL, 0);
}
