// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* FLUSH and ATOMIC WRITE (annex A19), at both ends. */
#include "judge.h"

#define FLUSH RXNG_KIND_FLUSH
#define ATOMIC_WRITE RXNG_KIND_ATOMIC_WRITE
#define GLOBAL RXNG_FLUSH_GLOBAL
#define LEVEL(n) ((n) << RXNG_FETH_LEVEL_SHIFT)

/* ---- requester --------------------------------------------------------- */

TEST_F(bench, rxng_req_next__flush)
{
	struct rxng_swqe *wqe = POST(FLUSH, 100000, 0);

	wqe->feth = GLOBAL | LEVEL(1);
	POST(SEND, 1, 0);
	SENDS(FLUSH, BENCH_PSN, 1);
	CHECK_EQ(bench->pkt.opcode, 0x1c);
	CHECK_EQ(bench->pkt.dma_len, 100000);
	CHECK_EQ(bench->pkt.payload_len, 0);
	CHECK_EQ(bench->pkt.feth, 0x11);
	CHECK_EQ(bench->pkt.va, 0x10000);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
	CHECK_EQ(bench->r.rd_used, 1);
	SENDS(SEND, BENCH_PSN + 1, 1);
	/* An ACK behind it does not answer it. */
	GIVES(ack(bench, BENCH_PSN + 1), RETRY);
	SUCCEEDED(0);
	SENDS(FLUSH, BENCH_PSN, 1);
	GIVES(read_resp(bench, BENCH_PSN, 1, ONLY, 0), READ);
	SUCCEEDED(1);
	CHECK_EQ(bench->r.rd_used, 0);
}

TEST_F(bench, rxng_req_next__atomic_write)
{
	POST(ATOMIC_WRITE, 8, 0);
	SENDS(ATOMIC_WRITE, BENCH_PSN, 1);
	CHECK_EQ(bench->pkt.opcode, 0x1d);
	CHECK_EQ(bench->pkt.dma_len, 8);
	CHECK_EQ(bench->pkt.payload_len, 8);
	GIVES(read_resp(bench, BENCH_PSN, 1, ONLY, 0), READ);
	SUCCEEDED(1);
}

TEST_F(bench, rxng_req_response__flush_with_data)
{
	POST(FLUSH, 8, 0);
	SENDS(FLUSH, BENCH_PSN, 1);
	GIVES(read_resp(bench, BENCH_PSN, 1, ONLY, 8), FAILED);
	FAILED(RXNG_WC_LOC_LEN_ERR);
}

TEST_F(bench, rxng_req_response__flush_answered_by_an_atomic)
{
	POST(FLUSH, 8, 0);
	SENDS(FLUSH, BENCH_PSN, 1);
	GIVES(atomic_ack(bench, BENCH_PSN), FAILED);
	FAILED(RXNG_WC_BAD_RESP_ERR);
}

TEST_F(bench, rxng_req_next__flush_takes_a_slot)
{
	u32 i;

	for (i = 0; i < 5; i++)
		POST(FLUSH, 8, 0);
	for (i = 0; i < 4; i++)
		SENDS(FLUSH, BENCH_PSN + i, 1);
	WAITS();
	GIVES(read_resp(bench, BENCH_PSN, 1, ONLY, 0), READ);
	SENDS(FLUSH, BENCH_PSN + 4, 1);
}

/* ---- responder --------------------------------------------------------- */

static void may_place(struct judge *j)
{
	j->r.allow = RXNG_ALLOW_WRITE | RXNG_ALLOW_FLUSH;
}

static enum rxng_resp_verdict ask(struct judge *j, struct rxng_pkt pkt)
{
	pkt.flags = ONLY;
	return judge_pkt(j, pkt);
}

static enum rxng_resp_verdict flush(struct judge *j, u32 psn, u32 feth)
{
	return ask(j, (struct rxng_pkt){ .kind = FLUSH, .psn = psn,
					 .dma_len = 4096, .feth = feth });
}

static enum rxng_resp_verdict store(struct judge *j, u32 psn, u64 va, u32 len,
				    u32 dma_len)
{
	return ask(j, (struct rxng_pkt){ .kind = ATOMIC_WRITE, .psn = psn,
					 .va = va, .payload_len = len,
					 .dma_len = dma_len });
}

TEST_F(judge, rxng_resp_request__flush)
{
	struct rxng_resource *res;
	struct rxng_pkt pkt;

	may_place(judge);
	CHECK_EQ(flush(judge, 0x100, GLOBAL), RXNG_RESP_EXECUTE);
	res = rxng_resp_done(&judge->r, &judge->pkt, 0);
	CHECK(res);
	CHECK_EQ(judge->r.epsn, 0x101);
	CHECK_EQ(judge->r.msn, 1);
	rxng_resp_read_burst(res, BENCH_MTU, 0, 0, 256, &pkt);
	CHECK_EQ(pkt.opcode, RXNG_RC_READ_RESP_ONLY);
	CHECK_EQ(pkt.payload_len, 0);
	CHECK_EQ(pkt.psn, 0x100);
	/* It comes again: answered from what was recorded. */
	CHECK_EQ(flush(judge, 0x100, GLOBAL), RXNG_RESP_READ_AGAIN);
	CHECK(judge->res == res);
	CHECK_EQ(judge->r.epsn, 0x101);
}

TEST_F(judge, rxng_resp_request__flush_forms)
{
	may_place(judge);
	CHECK_EQ(flush(judge, 0x100, RXNG_FLUSH_PERSISTENT),
		 RXNG_RESP_EXECUTE);
	CHECK_EQ(flush(judge, 0x100, GLOBAL | LEVEL(1)), RXNG_RESP_EXECUTE);
	CHECK_EQ(flush(judge, 0x100, 0), RXNG_RESP_NAK_INVALID);
	CHECK_EQ(flush(judge, 0x100, 4), RXNG_RESP_NAK_INVALID);
	CHECK_EQ(flush(judge, 0x100, GLOBAL | LEVEL(2)),
		 RXNG_RESP_NAK_INVALID);
	CHECK_EQ(flush(judge, 0x100, GLOBAL | 1u << 31),
		 RXNG_RESP_NAK_INVALID);
	/* Each placement is a right of its own. */
	judge->r.allow = RXNG_ALLOW_FLUSH & ~BIT(9);
	CHECK_EQ(flush(judge, 0x100, GLOBAL), RXNG_RESP_EXECUTE);
	CHECK_EQ(flush(judge, 0x100, RXNG_FLUSH_PERSISTENT | GLOBAL),
		 RXNG_RESP_NAK_INVALID);
	judge->r.allow = RXNG_ALLOW_WRITE;
	CHECK_EQ(flush(judge, 0x100, GLOBAL), RXNG_RESP_NAK_INVALID);
	judge->r.allow = RXNG_ALLOW_FLUSH;
	judge->r.depth = 0;
	CHECK_EQ(flush(judge, 0x100, GLOBAL), RXNG_RESP_NAK_INVALID);
}

TEST_F(judge, rxng_resp_request__atomic_write)
{
	may_place(judge);
	CHECK_EQ(store(judge, 0x100, 64, 8, 8), RXNG_RESP_EXECUTE);
	CHECK(rxng_resp_done(&judge->r, &judge->pkt, 0));
	/* Once only, however often it is asked for. */
	CHECK_EQ(store(judge, 0x100, 64, 8, 8), RXNG_RESP_READ_AGAIN);
	CHECK_EQ(store(judge, 0x101, 65, 8, 8), RXNG_RESP_NAK_INVALID);
	CHECK_EQ(store(judge, 0x101, 64, 4, 8), RXNG_RESP_NAK_INVALID);
	CHECK_EQ(store(judge, 0x101, 64, 4, 4), RXNG_RESP_NAK_INVALID);
	CHECK_EQ(store(judge, 0x101, 64, 16, 16), RXNG_RESP_NAK_INVALID);
	judge->r.allow = RXNG_ALLOW_FLUSH;
	CHECK_EQ(store(judge, 0x101, 64, 8, 8), RXNG_RESP_NAK_INVALID);
}
