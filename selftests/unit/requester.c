// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "bench.h"

REQUEST(rxng_req_reset__forgets)
{
	POST(READ, 100, 0);
	POST(SEND, 1000, 0);
	SENDS(READ, 0x100, 1);
	SENDS(SEND, 0x101, 4);
	bench->r.draining = true;
	rxng_req_reset(&bench->r, 77);
	IDLE();
	CHECK(!rxng_req_retirable(&bench->r));
	CHECK(rxng_req_drained(&bench->r));
	CHECK_EQ(bench->r.deadline, 0);
	CHECK_EQ(bench->r.rd_used, 0);
	CHECK(!bench->r.draining);
	CHECK_EQ(bench->r.head, 77);
}

/* All of the last connection is forgotten, whatever it was in. */
REQUEST(rxng_req_start__forgets)
{
	struct rxng_req clean;

	rxng_req_start(&bench->r, 0xabc);
	clean = bench->r;
	POST(SEND, 1, 0);
	POST(READ, 1000, 0);
	POST(SEND, 4000, 0);
	bench->max_pkts = 5;
	SENDS(SEND, 0xabc, 1);
	GIVES(aeth(bench, 0xabc, RXNG_AETH_ACK | 5, 1), PROGRESS);
	SENDS(READ, 0xabd, 1);
	SENDS(SEND, 0xac1, 5);
	GIVES(read_resp(bench, 0xabd, 1, FIRST, 256), READ);
	bench->now = bench->r.deadline;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_RETRY);
	SENDS(READ, 0xabe, 1);
	GIVES(ack(bench, 0xac1), RETRY);
	SENDS(READ, 0xabe, 1);
	SENDS(SEND, 0xac1, 2);
	GIVES(rnr(bench, 0xabe, 1), RNR);
	bench->r.draining = true;
	bench->r.backoff = 2;
	rxng_req_reset(&bench->r, clean.head);
	rxng_req_start(&bench->r, 0xabc);
	CHECK_EQ(bench->r.window, RXNG_WINDOW_START);
	clean.window = RXNG_WINDOW_START;
	CHECK(!memcmp(&clean, &bench->r, sizeof(clean)));
}

REQUEST(rxng_req_start__first_psn)
{
	rxng_req_start(&bench->r, 0xabc);
	POST(SEND, 1, 0);
	SENDS(SEND, 0xabc, 1);
}

REQUEST(rxng_req_next__idle_when_empty)
{
	IDLE();
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	IDLE();
}

REQUEST(rxng_req_next__same_answer_twice)
{
	struct rxng_pkt first;

	POST(WRITE, 1000, RXNG_SWQE_IMM);
	CHECK_EQ(next(bench), RXNG_REQ_SEND);
	first = bench->pkt;
	CHECK_EQ(next(bench), RXNG_REQ_SEND);
	CHECK(!memcmp(&first, &bench->pkt, sizeof(first)));
}

/* Length, MTU and number of PSNs, at and around each edge. */
REQUEST(rxng_req_next__packets_of_a_length)
{
	static const struct {
		u32 length;
		u32 npkts;
	} cases[] = {
		{ 0, 1 },   { 1, 1 },	{ 255, 1 }, { 256, 1 },
		{ 257, 2 }, { 512, 2 }, { 513, 3 }, { 65536, 256 },
	};
	u32 psn = 0x100;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		POST(SEND, cases[i].length, 0);
		SENDS(SEND, psn, cases[i].npkts);
		CHECK_EQ(bench->pkt.payload_len, cases[i].length);
		psn += cases[i].npkts;
		GIVES(ack(bench, psn - 1), PROGRESS);
		SUCCEEDED(1);
	}
}

/* 2^31 bytes at the smallest MTU take as many PSNs as may be under way. */
REQUEST(rxng_req_next__longest_message)
{
	u32 psn = 0x100, left = 1u << 23;

	POST(WRITE, 0x80000000u, RXNG_SWQE_IMM);
	POST(SEND, 1, 0);
	while (left) {
		SENDS(WRITE, psn, min(left, 256u));
		CHECK_EQ(bench->pkt.payload_len, min(left, 256u) * 256);
		left -= bench->pkt.npkts;
		psn = rxng_psn_add(psn, bench->pkt.npkts);
		if (left)
			WAITS();
		CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
		CHECK_EQ(!(bench->pkt.flags & RXNG_PKT_END), left != 0);
		if (left)
			GIVES(ack(bench, rxng_psn_add(psn, RXNG_PSN_MASK)),
			      PROGRESS);
	}
	GIVES(ack(bench, rxng_psn_add(psn, RXNG_PSN_MASK)), PROGRESS);
	SUCCEEDED(1);
	SENDS(SEND, psn, 1);
}

REQUEST(rxng_req_next__psns_span_half_the_circle)
{
	POST(READ, 0x80000000u, 0);
	POST(SEND, 1, 0);
	SENDS(READ, 0x100, 1);
	WAITS();
	GIVES(read_resp(bench, 0x100, 1, FIRST, 256), READ);
	SENDS(SEND, 0x800100, 1);
}

/* One READ of any length goes; the next waits for room for its responses. */
REQUEST(rxng_req_next__reads_within_the_window)
{
	POST(READ, 200 * 256, 0);
	POST(READ, 100 * 256, 0);
	SENDS(READ, 0x100, 1);
	WAITS();
	GIVES(read_resp(bench, 0x100, 43, FIRST, 43 * 256), READ);
	WAITS();
	GIVES(read_resp(bench, 0x100 + 43, 1, MIDDLE, 256), READ);
	SENDS(READ, 0x100 + 200, 1);
}

/* A loss leaves little under way; progress brings it back. */
REQUEST(rxng_req_next__window_after_a_timeout)
{
	POST(WRITE, 60 * 256, 0);
	SENDS(WRITE, 0x100, 60);
	bench->now += BENCH_TIMEOUT;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_RETRY);
	SENDS(WRITE, 0x100, RXNG_WINDOW_MIN);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
	WAITS();
	GIVES(ack(bench, 0x101), PROGRESS);
	SENDS(WRITE, 0x102, 2 * RXNG_WINDOW_MIN);
	WAITS();
}

/* A loss halves the window, once for all that was under way. */
REQUEST(rxng_req_next__window_after_a_nak)
{
	POST(WRITE, 900 * 256, 0);
	SENDS(WRITE, 0x100, 256);
	GIVES(nak(bench, 0x100, RXNG_NAK_PSN), RETRY);
	SENDS(WRITE, 0x100, 128);
	WAITS();
	GIVES(nak(bench, 0x110, RXNG_NAK_PSN), RETRY);
	CHECK_EQ(bench->r.window, 128);
	SENDS(WRITE, 0x110, 128);
	GIVES(ack(bench, 0x18f), PROGRESS);
	CHECK_EQ(bench->r.window, 129);
	SENDS(WRITE, 0x190, 129);
	/* What is lost now was sent after it. */
	GIVES(nak(bench, 0x200, RXNG_NAK_PSN), RETRY);
	SENDS(WRITE, 0x200, 64);
}

/* However long ago the last loss was. */
REQUEST(rxng_req_halve_window__half_a_circle_later)
{
	POST(WRITE, 5 * 256, 0);
	SENDS(WRITE, 0x100, 5);
	bench->r.recover = 0x101;
	GIVES(ack(bench, 0x103), PROGRESS);
	CHECK_EQ(bench->r.recover, 0x104);
	bench->r.recover = 0x105;
	GIVES(ack(bench, 0x104), PROGRESS);
	CHECK_EQ(bench->r.recover, 0x105);
}

/* Beyond the half of what was too much it grows by one packet a window. */
REQUEST(rxng_req_next__window_grows)
{
	u32 psn = 0x100, i;

	POST(WRITE, 4000 * 256, 0);
	SENDS(WRITE, psn, 256);
	GIVES(nak(bench, psn, RXNG_NAK_PSN), RETRY);
	bench->max_pkts = 128;
	for (i = 128; i < 140; i++) {
		bench->max_pkts = i;
		SENDS(WRITE, psn, i);
		WAITS();
		psn += i;
		GIVES(ack(bench, psn - 1), PROGRESS);
		CHECK_EQ(bench->r.window, i + 1);
	}
	/* Up to what it began with. */
	bench->r.window = RXNG_WINDOW - 1;
	for (i = 0; i < 3; i++) {
		bench->max_pkts = bench->r.window;
		SENDS(WRITE, psn, bench->max_pkts);
		psn += bench->max_pkts;
		GIVES(ack(bench, psn - 1), PROGRESS);
	}
	CHECK_EQ(bench->r.window, RXNG_WINDOW);
}

/* A round trip that is long for its queues takes the timer to its bound. */
REQUEST(rxng_req_restart_timer__round_trip)
{
	u64 rtt = BENCH_TIMEOUT / 2;
	u32 i;

	for (i = 0; i < 8; i++) {
		POST(SEND, 1, 0);
		SENDS(SEND, 0x100 + i, 1);
		CHECK_EQ(bench->r.deadline, bench->now +
			 (i ? 2 : 1) * BENCH_TIMEOUT);
		bench->now += rtt;
		GIVES(ack(bench, 0x100 + i), PROGRESS);
		CHECK_EQ(bench->r.srtt, rtt);
	}
	/* An eighth of what is new. */
	POST(SEND, 1, 0);
	SENDS(SEND, 0x108, 1);
	bench->now += 9 * rtt;
	GIVES(ack(bench, 0x108), PROGRESS);
	CHECK_EQ(bench->r.srtt, 2 * rtt);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x109, 1);
	CHECK_EQ(bench->r.deadline, bench->now + 4 * BENCH_TIMEOUT);
	/* What went twice is not measured, and the timer has its bound. */
	bench->now = bench->r.deadline;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_RETRY);
	SENDS(SEND, 0x109, 1);
	CHECK_EQ(bench->r.deadline, bench->now + 4 * BENCH_TIMEOUT);
	bench->now += MS;
	GIVES(ack(bench, 0x109), PROGRESS);
	CHECK_EQ(bench->r.srtt, 2 * rtt);
}

/* With a small window too, the next half goes while the first is on its way. */
REQUEST(rxng_req_next__acks_within_a_small_window)
{
	POST(WRITE, 300 * 256, 0);
	bench->r.window = 8;
	bench->max_pkts = 1;
	SENDS(WRITE, 0x100, 1);
	SENDS(WRITE, 0x101, 1);
	SENDS(WRITE, 0x102, 1);
	CHECK(!(bench->pkt.bits & RXNG_PKT_ACK_REQ));
	SENDS(WRITE, 0x103, 1);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
	SENDS(WRITE, 0x104, 1);
	CHECK(!(bench->pkt.bits & RXNG_PKT_ACK_REQ));
}

REQUEST(rxng_req_next__send_headers)
{
	struct rxng_swqe *wqe = POST(SEND, 700, RXNG_SWQE_SOLICITED);

	wqe->flags |= RXNG_SWQE_INV;
	wqe->inv_rkey = 0xfeed;
	bench->max_pkts = 1;
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_SEND_FIRST);
	CHECK_EQ(bench->pkt.bits, 0);
	SENDS(SEND, 0x101, 1);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_SEND_MIDDLE);
	CHECK_EQ(bench->pkt.payload_len, 256);
	SENDS(SEND, 0x102, 1);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_SEND_LAST_INV);
	CHECK_EQ(bench->pkt.inv_rkey, 0xfeed);
	CHECK_EQ(bench->pkt.payload_len, 700 - 512);
	CHECK_EQ(bench->pkt.bits, RXNG_PKT_SOLICITED | RXNG_PKT_ACK_REQ);
}

REQUEST(rxng_req_next__write_headers)
{
	POST(WRITE, 300, RXNG_SWQE_IMM);
	bench->max_pkts = 1;
	SENDS(WRITE, 0x100, 1);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_WRITE_FIRST);
	CHECK_EQ(bench->pkt.va, 0x10000);
	CHECK_EQ(bench->pkt.rkey, 0x1234);
	CHECK_EQ(bench->pkt.dma_len, 300);
	SENDS(WRITE, 0x101, 1);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_WRITE_LAST_IMM);
	CHECK_EQ(bench->pkt.imm, 0x55667788);
	CHECK_EQ(bench->pkt.payload_len, 44);
}

/* Only what takes a receive at the peer can be solicited. */
REQUEST(rxng_req_next__write_is_not_solicited)
{
	POST(WRITE, 4, RXNG_SWQE_SOLICITED);
	SENDS(WRITE, 0x100, 1);
	CHECK_EQ(bench->pkt.bits, RXNG_PKT_ACK_REQ);
	POST(WRITE, 4, RXNG_SWQE_SOLICITED | RXNG_SWQE_IMM);
	SENDS(WRITE, 0x101, 1);
	CHECK_EQ(bench->pkt.bits, RXNG_PKT_ACK_REQ | RXNG_PKT_SOLICITED);
}

REQUEST(rxng_req_next__read_takes_psns_of_its_responses)
{
	POST(READ, 1000, 0);
	POST(READ, 0, 0);
	POST(SEND, 1, 0);
	SENDS(READ, 0x100, 1);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_READ_REQUEST);
	CHECK_EQ(bench->pkt.dma_len, 1000);
	CHECK_EQ(bench->pkt.va, 0x10000);
	CHECK_EQ(bench->pkt.payload_len, 0);
	SENDS(READ, 0x104, 1);
	CHECK_EQ(bench->pkt.dma_len, 0);
	SENDS(SEND, 0x105, 1);
}

REQUEST(rxng_req_next__atomic_headers)
{
	struct rxng_swqe *wqe = POST(ATOMIC, 8, RXNG_SWQE_CMP_SWAP);

	wqe->compare = 0x1111111111111111;
	wqe->swap_add = 0x2222222222222222;
	SENDS(ATOMIC, 0x100, 1);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_CMP_SWAP);
	CHECK_EQ(bench->pkt.compare, 0x1111111111111111);
	CHECK_EQ(bench->pkt.swap_add, 0x2222222222222222);
	POST(ATOMIC, 8, 0);
	SENDS(ATOMIC, 0x101, 1);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_FETCH_ADD);
}

/* An atomic of a wrong length still takes one PSN. */
REQUEST(rxng_req_next__atomic_of_any_length)
{
	POST(ATOMIC, 8, 0)->length = 5000;
	POST(SEND, 1, 0);
	SENDS(ATOMIC, 0x100, 1);
	SENDS(SEND, 0x101, 1);
}

REQUEST(rxng_req_next__psn_wraps_inside_a_message)
{
	rxng_req_start(&bench->r, 0xfffffe);
	POST(WRITE, 1024, 0);
	POST(SEND, 1, 0);
	SENDS(WRITE, 0xfffffe, 4);
	SENDS(SEND, 0x000002, 1);
	GIVES(ack(bench, 0xffffff), PROGRESS);
	SUCCEEDED(0);
	GIVES(nak(bench, 0x000000, RXNG_NAK_PSN), RETRY);
	SENDS(WRITE, 0x000000, 2);
	SENDS(SEND, 0x000002, 1);
	GIVES(ack(bench, 0x000002), PROGRESS);
	SUCCEEDED(2);
}

REQUEST(rxng_req_next__psn_wraps_inside_a_read)
{
	rxng_req_start(&bench->r, 0xffffff);
	POST(READ, 1024, 0);
	SENDS(READ, 0xffffff, 1);
	GIVES(read_resp(bench, 0xffffff, 1, FIRST, 256), READ);
	GIVES(read_resp(bench, 0x000000, 2, MIDDLE, 512), READ);
	CHECK_EQ(bench->offset, 256);
	GIVES(read_resp(bench, 0x000002, 1, LAST, 256), READ);
	SUCCEEDED(1);
	CHECK_EQ(bench->r.una, 3);
}

REQUEST(rxng_req_next__burst_limit)
{
	bench->max_pkts = 3;
	POST(SEND, 7 * 256, 0);
	SENDS(SEND, 0x100, 3);
	CHECK_EQ(bench->pkt.flags & ONLY, FIRST);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_SEND_FIRST);
	CHECK_EQ(rxng_req_offset(&bench->r), 3 * 256);
	SENDS(SEND, 0x103, 3);
	CHECK_EQ(bench->pkt.flags & ONLY, MIDDLE);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_SEND_MIDDLE);
	SENDS(SEND, 0x106, 1);
	CHECK_EQ(bench->pkt.flags & ONLY, LAST);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_SEND_LAST);
}

REQUEST(rxng_req_next__window)
{
	POST(WRITE, 300 * 256, 0);
	SENDS(WRITE, 0x100, 256);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
	WAITS();
	GIVES(ack(bench, 0x100 + 9), PROGRESS);
	SENDS(WRITE, 0x200, 10);
	WAITS();
	GIVES(ack(bench, 0x1ff), PROGRESS);
	SENDS(WRITE, 0x20a, 34);
	IDLE();
}

/* The window counts packets of all messages; a READ has none in it. */
REQUEST(rxng_req_next__window_of_small_messages)
{
	u32 i;

	POST(SEND, 240 * 256, 0);
	SENDS(SEND, 0x100, 240);
	for (i = 0; i < 16; i++) {
		POST(SEND, 1, 0);
		SENDS(SEND, 0x1f0 + i, 1);
	}
	POST(SEND, 1, 0);
	WAITS();
	GIVES(ack(bench, 0x1ef), PROGRESS);
	SENDS(SEND, 0x200, 1);
	POST(READ, 1, 0);
	SENDS(READ, 0x201, 1);
}

REQUEST(rxng_req_next__acks_are_asked_for)
{
	u32 i;

	bench->max_pkts = 1;
	POST(WRITE, 200 * 256, 0);
	for (i = 0; i < 200; i++) {
		SENDS(WRITE, 0x100 + i, 1);
		CHECK_EQ(!!(bench->pkt.bits & RXNG_PKT_ACK_REQ),
			 i == 63 || i == 127 || i == 191 || i == 199);
	}
}

/* Each message asks, and the count starts afresh. */
REQUEST(rxng_req_next__acks_of_messages)
{
	bench->max_pkts = 60;
	POST(WRITE, 60 * 256, 0);
	SENDS(WRITE, 0x100, 60);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
	POST(WRITE, 100 * 256, 0);
	SENDS(WRITE, 0x13c, 60);
	CHECK(!(bench->pkt.bits & RXNG_PKT_ACK_REQ));
	SENDS(WRITE, 0x178, 40);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
}

REQUEST(rxng_req_next__fence_waits_for_reads)
{
	POST(READ, 1, 0);
	POST(SEND, 1, 0);
	POST(SEND, 1, RXNG_SWQE_FENCE);
	SENDS(READ, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	WAITS();
	GIVES(read_resp(bench, 0x100, 1, ONLY, 1), READ);
	SENDS(SEND, 0x102, 1);
}

REQUEST(rxng_req_next__fence_waits_for_atomics)
{
	POST(ATOMIC, 8, 0);
	POST(ATOMIC, 8, 0);
	POST(READ, 600, RXNG_SWQE_FENCE);
	SENDS(ATOMIC, 0x100, 1);
	SENDS(ATOMIC, 0x101, 1);
	WAITS();
	GIVES(atomic_ack(bench, 0x100), ATOMIC);
	WAITS();
	GIVES(atomic_ack(bench, 0x101), ATOMIC);
	SENDS(READ, 0x102, 1);
}

/* Writes under way do not hold a fence up. */
REQUEST(rxng_req_next__fence_passes_writes)
{
	POST(WRITE, 1, 0);
	POST(SEND, 1, RXNG_SWQE_FENCE);
	SENDS(WRITE, 0x100, 1);
	SENDS(SEND, 0x101, 1);
}

REQUEST(rxng_req_next__fence_after_step_back)
{
	POST(READ, 1, 0);
	SENDS(READ, 0x100, 1);
	bench->now += 20 * MS;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_RETRY);
	POST(SEND, 1, RXNG_SWQE_FENCE);
	SENDS(READ, 0x100, 1);
	WAITS();
}

REQUEST(rxng_req_next__rd_atomic_depth_is_exact)
{
	u32 depth, i;

	for (depth = 1; depth <= 5; depth++) {
		bench_setup();
		bench->r.max_rd_atomic = depth;
		for (i = 0; i < 7; i++)
			POST(i & 1 ? ATOMIC : READ, 8, 0);
		POST(SEND, 1, 0);
		for (i = 0; i < depth; i++)
			SENDS(i & 1 ? ATOMIC : READ, 0x100 + i, 1);
		WAITS();
		GIVES(read_resp(bench, 0x100, 1, ONLY, 8), READ);
		SENDS(i & 1 ? ATOMIC : READ, 0x100 + i, 1);
		WAITS();
		CHECK_EQ(bench->r.rd_used, depth);
	}
}

/* A slot comes back also when its request fails. */
REQUEST(rxng_req_next__rd_atomic_slot_of_a_failed_one)
{
	POST(READ, 1, 0);
	SENDS(READ, 0x100, 1);
	GIVES(nak(bench, 0x100, RXNG_NAK_REM_ACC), FAILED);
	CHECK_EQ(bench->r.rd_used, 0);
	FAILED(RXNG_WC_REM_ACCESS_ERR);
}

REQUEST(rxng_req_next__no_rd_atomic_at_all)
{
	bench->r.max_rd_atomic = 0;
	POST(SEND, 1, 0);
	POST(READ, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	IDLE();
	IDLE();
	FAILED(0);
	GIVES(ack(bench, 0x100), PROGRESS);
	SUCCEEDED(1);
	FAILED(RXNG_WC_LOC_QP_OP_ERR);
}

REQUEST(rxng_req_next__local_operations_in_order)
{
	POST(SEND, 1, 0);
	POST(LOCAL, 0, 0);
	POST(LOCAL, 0, RXNG_SWQE_BARRIER);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	rxng_req_local_done(&bench->r);
	SUCCEEDED(0);
	WAITS();
	GIVES(ack(bench, 0x100), PROGRESS);
	SUCCEEDED(2);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	rxng_req_local_done(&bench->r);
	SUCCEEDED(1);
	SENDS(SEND, 0x101, 1);
}

REQUEST(rxng_req_next__local_operation_is_not_repeated)
{
	POST(SEND, 1, 0);
	POST(LOCAL, 0, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	rxng_req_local_done(&bench->r);
	SENDS(SEND, 0x101, 1);
	GIVES(nak(bench, 0x100, RXNG_NAK_PSN), RETRY);
	SENDS(SEND, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	IDLE();
	GIVES(ack(bench, 0x101), PROGRESS);
	SUCCEEDED(3);
}

/* What an acknowledgement has to go through is bounded. */
REQUEST(rxng_req_next__local_operations_ahead)
{
	u32 i;

	POST(SEND, 1, 0);
	for (i = 0; i < RXNG_MAX_AHEAD; i++)
		POST(LOCAL, 0, 0);
	SENDS(SEND, 0x100, 1);
	for (i = 1; i < RXNG_MAX_AHEAD; i++) {
		CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
		rxng_req_local_done(&bench->r);
	}
	WAITS();
	GIVES(nak(bench, 0x100, RXNG_NAK_PSN), RETRY);
	SENDS(SEND, 0x100, 1);
	WAITS();
	GIVES(ack(bench, 0x100), PROGRESS);
	SUCCEEDED(RXNG_MAX_AHEAD);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	rxng_req_local_done(&bench->r);
	SUCCEEDED(1);
}

REQUEST(rxng_req_next__barrier_waits_for_a_read)
{
	POST(READ, 1, 0);
	POST(LOCAL, 0, RXNG_SWQE_BARRIER);
	SENDS(READ, 0x100, 1);
	WAITS();
	GIVES(read_resp(bench, 0x100, 1, ONLY, 1), READ);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
}

/* A fence holds a local operation up as it does all others (10.8.3.3). */
REQUEST(rxng_req_next__fenced_local_operation)
{
	POST(READ, 1, 0);
	POST(SEND, 1, 0);
	POST(LOCAL, 0, RXNG_SWQE_FENCE);
	SENDS(READ, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	WAITS();
	GIVES(read_resp(bench, 0x100, 1, ONLY, 1), READ);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
}

/* A request that was refused when it was fetched waits for its turn. */
REQUEST(rxng_req_next__posted_as_failed)
{
	struct rxng_swqe *wqe;

	POST(SEND, 1, 0);
	POST(LOCAL, 0, 0);
	wqe = POST(SEND, 1, 0);
	wqe->state = RXNG_SWQE_FAILED;
	wqe->status = RXNG_WC_LOC_LEN_ERR;
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	rxng_req_local_done(&bench->r);
	IDLE();
	FAILED(0);
	GIVES(nak(bench, 0x100, RXNG_NAK_PSN), RETRY);
	SENDS(SEND, 0x100, 1);
	IDLE();
	GIVES(ack(bench, 0x100), PROGRESS);
	SUCCEEDED(2);
	FAILED(RXNG_WC_LOC_LEN_ERR);
}

REQUEST(rxng_req_next__rnr_wait_stops_everything)
{
	POST(SEND, 1, 0);
	POST(WRITE, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(rnr(bench, 0x100, 14), RNR);
	POST(LOCAL, 0, 0);
	POST(READ, 1, 0);
	bench->now += 1280 * US - 1;
	WAITS();
	bench->now += 1;
	SENDS(SEND, 0x100, 1);
	SENDS(WRITE, 0x101, 1);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
}

REQUEST(rxng_req_next__drain)
{
	POST(SEND, 2000, 0);
	POST(SEND, 1, 0);
	bench->max_pkts = 1;
	SENDS(SEND, 0x100, 1);
	bench->r.draining = true;
	bench->max_pkts = 256;
	SENDS(SEND, 0x101, 7);
	IDLE();
	CHECK(!rxng_req_drained(&bench->r));
	GIVES(nak(bench, 0x102, RXNG_NAK_PSN), RETRY);
	SENDS(SEND, 0x102, 6);
	GIVES(ack(bench, 0x107), PROGRESS);
	CHECK(rxng_req_drained(&bench->r));
	IDLE();
	bench->r.draining = false;
	SENDS(SEND, 0x108, 1);
}

/* A credit for the first of two: the second goes alone and waits. */
REQUEST(rxng_req_next__without_credit)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(aeth(bench, 0x100, RXNG_AETH_ACK | 1, 1), PROGRESS);
	POST(SEND, 1, 0);
	POST(SEND, 4 * 256, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x101, 1);
	WAITS();
	GIVES(aeth(bench, 0x101, RXNG_AETH_ACK | 0, 2), PROGRESS);
	SENDS(SEND, 0x102, 1);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_SEND_FIRST);
	WAITS();
	GIVES(aeth(bench, 0x102, RXNG_AETH_ACK | 0, 2), PROGRESS);
	SENDS(SEND, 0x103, 3);
	WAITS();
	GIVES(aeth(bench, 0x105, RXNG_AETH_ACK | 0, 3), PROGRESS);
	SENDS(SEND, 0x106, 1);
}

/* The same when the caller takes one packet at a time. */
REQUEST(rxng_req_next__without_credit_single_packets)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(aeth(bench, 0x100, RXNG_AETH_ACK | 0, 1), PROGRESS);
	POST(SEND, 4 * 256, 0);
	bench->max_pkts = 1;
	SENDS(SEND, 0x101, 1);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
	WAITS();
}

/* Credits count what takes a receive; the rest goes as it likes. */
REQUEST(rxng_req_next__credits_are_for_receives)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(aeth(bench, 0x100, RXNG_AETH_ACK | 0, 1), PROGRESS);
	POST(WRITE, 600, 0);
	POST(READ, 1, 0);
	POST(ATOMIC, 8, 0);
	POST(WRITE, 600, RXNG_SWQE_IMM);
	SENDS(WRITE, 0x101, 3);
	SENDS(READ, 0x104, 1);
	SENDS(ATOMIC, 0x105, 1);
	WAITS();
}

/* Credits come to be counted while a message is half sent. */
REQUEST(rxng_req_next__credits_in_the_middle)
{
	POST(SEND, 1, 0);
	POST(SEND, 20 * 256, 0);
	SENDS(SEND, 0x100, 1);
	bench->max_pkts = 5;
	SENDS(SEND, 0x101, 5);
	CHECK(!(bench->pkt.bits & RXNG_PKT_ACK_REQ));
	GIVES(aeth(bench, 0x100, RXNG_AETH_ACK | 0, 1), PROGRESS);
	SENDS(SEND, 0x106, 5);
	SENDS(SEND, 0x10b, 5);
	SENDS(SEND, 0x110, 5);
	IDLE();
}

REQUEST(rxng_req_next__credits_end)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(aeth(bench, 0x100, RXNG_AETH_ACK | 0, 1), PROGRESS);
	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x101, 1);
	WAITS();
	GIVES(ack(bench, 0x101), PROGRESS);
	SENDS(SEND, 0x102, 1);
	CHECK(!bench->r.credits);
}

REQUEST(rxng_req_sent__none)
{
	POST(SEND, 1000, 0);
	SENDS_PART(SEND, 0x100, 4, 0);
	CHECK_EQ(bench->r.deadline, 0);
	CHECK_EQ(bench->r.sent, 0x100);
	SENDS(SEND, 0x100, 4);
}

REQUEST(rxng_req_sent__fewer)
{
	POST(SEND, 1000, RXNG_SWQE_IMM);
	SENDS_PART(SEND, 0x100, 4, 1);
	CHECK(bench->r.deadline);
	SENDS_PART(SEND, 0x101, 3, 2);
	SENDS(SEND, 0x103, 1);
	CHECK_EQ(bench->pkt.payload_len, 1000 - 768);
	CHECK(bench->pkt.flags & RXNG_PKT_IMM);
	IDLE();
}

/* The AckReq of a burst that was cut short did not leave. */
REQUEST(rxng_req_sent__fewer_asks_again)
{
	bench->max_pkts = 100;
	POST(SEND, 250 * 256, 0);
	SENDS_PART(SEND, 0x100, 100, 80);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
	bench->max_pkts = 10;
	SENDS(SEND, 0x150, 10);
	CHECK(bench->pkt.bits & RXNG_PKT_ACK_REQ);
	SENDS(SEND, 0x15a, 10);
	CHECK(!(bench->pkt.bits & RXNG_PKT_ACK_REQ));
}

/* A message without credit that is half sent because of congestion. */
REQUEST(rxng_req_sent__fewer_then_credits_end)
{
	POST(SEND, 1, 0);
	POST(SEND, 100 * 256, 0);
	SENDS(SEND, 0x100, 1);
	SENDS_PART(SEND, 0x101, 100, 70);
	GIVES(aeth(bench, 0x100, RXNG_AETH_ACK | 0, 1), PROGRESS);
	SENDS(SEND, 0x147, 30);
}

/* The timer runs from the first packet, and is not pushed away by more. */
REQUEST(rxng_req_sent__timer)
{
	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(bench->r.deadline, bench->now + BENCH_TIMEOUT);
	bench->now += MS;
	SENDS(SEND, 0x101, 1);
	CHECK_EQ(bench->r.deadline, bench->now - MS + BENCH_TIMEOUT);
	bench->now += MS;
	GIVES(ack(bench, 0x100), PROGRESS);
	CHECK_EQ(bench->r.deadline, bench->now + BENCH_TIMEOUT);
	GIVES(ack(bench, 0x101), PROGRESS);
	CHECK_EQ(bench->r.deadline, 0);
}

REQUEST(rxng_req_sent__no_timer)
{
	bench->r.timeout = 0;
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(bench->r.deadline, 0);
	bench->now += 100000 * MS;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_DROP);
}

REQUEST(rxng_req_sent__timeout_has_a_floor)
{
	bench->r.timeout = 8192;
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(bench->r.deadline, bench->now + RXNG_MIN_TIMEOUT_NS);
}

REQUEST(rxng_req_local_done__alone)
{
	POST(LOCAL, 0, RXNG_SWQE_BARRIER);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	rxng_req_local_done(&bench->r);
	SUCCEEDED(1);
	CHECK(rxng_req_drained(&bench->r));
	CHECK_EQ(bench->r.psn, 0x100);
}

REQUEST(rxng_req_fail__before_anything_was_sent)
{
	struct rxng_swqe *wqe;

	POST(WRITE, 1, 0);
	wqe = POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(WRITE, 0x100, 1);
	CHECK_EQ(next(bench), RXNG_REQ_SEND);
	rxng_req_fail(&bench->r, wqe, RXNG_WC_LOC_PROT_ERR);
	IDLE();
	FAILED(0);
	GIVES(ack(bench, 0x100), PROGRESS);
	SUCCEEDED(1);
	FAILED(RXNG_WC_LOC_PROT_ERR);
}

/* A request that fails when half of it was sent waits for its turn, too. */
REQUEST(rxng_req_fail__half_sent_is_reported_in_order)
{
	struct rxng_swqe *wqe;

	bench->max_pkts = 2;
	POST(READ, 1, 0);
	POST(WRITE, 1, 0);
	wqe = POST(SEND, 1000, 0);
	POST(SEND, 1, 0);
	SENDS(READ, 0x100, 1);
	SENDS(WRITE, 0x101, 1);
	SENDS(SEND, 0x102, 2);
	rxng_req_fail(&bench->r, wqe, RXNG_WC_LOC_PROT_ERR);
	IDLE();
	FAILED(0);
	/* The READ's answer is lost; it is asked for again. */
	GIVES(ack(bench, 0x101), RETRY);
	SENDS(READ, 0x100, 1);
	SENDS(WRITE, 0x101, 1);
	IDLE();
	GIVES(read_resp(bench, 0x100, 1, ONLY, 1), READ);
	SUCCEEDED(1);
	FAILED(0);
	GIVES(ack(bench, 0x102), PROGRESS);
	SUCCEEDED(1);
	FAILED(RXNG_WC_LOC_PROT_ERR);
}

/* What the peer thinks of a request that failed here does not count. */
REQUEST(rxng_req_fail__first_error_stays)
{
	struct rxng_swqe *wqe;

	bench->max_pkts = 2;
	POST(WRITE, 1, 0);
	wqe = POST(SEND, 1000, 0);
	SENDS(WRITE, 0x100, 1);
	SENDS(SEND, 0x101, 2);
	rxng_req_fail(&bench->r, wqe, RXNG_WC_LOC_PROT_ERR);
	GIVES(nak(bench, 0x101, RXNG_NAK_REM_ACC), PROGRESS);
	SUCCEEDED(1);
	FAILED(RXNG_WC_LOC_PROT_ERR);
	GIVES(nak(bench, 0x101, RXNG_NAK_REM_OP), DROP);
	GIVES(rnr(bench, 0x101, 1), DROP);
	FAILED(RXNG_WC_LOC_PROT_ERR);
	bench->r.retry_left = 0;
	bench->now = bench->r.deadline;
	rxng_req_timeout(&bench->r, bench->now, false);
	FAILED(RXNG_WC_LOC_PROT_ERR);
}

REQUEST(rxng_req_fail__rnr_nak_for_a_failed_one)
{
	struct rxng_swqe *wqe;

	bench->max_pkts = 2;
	POST(WRITE, 1, 0);
	wqe = POST(SEND, 1000, 0);
	SENDS(WRITE, 0x100, 1);
	SENDS(SEND, 0x101, 2);
	rxng_req_fail(&bench->r, wqe, RXNG_WC_LOC_PROT_ERR);
	GIVES(rnr(bench, 0x101, 1), PROGRESS);
	SUCCEEDED(1);
	FAILED(RXNG_WC_LOC_PROT_ERR);
}

REQUEST(rxng_req_fail__local_operation)
{
	POST(SEND, 1, 0);
	POST(LOCAL, 0, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	rxng_req_fail(&bench->r, rxng_req_wqe(&bench->r, bench->r.cur),
		      RXNG_WC_LOC_QP_OP_ERR);
	IDLE();
	FAILED(0);
	GIVES(ack(bench, 0x100), PROGRESS);
	SUCCEEDED(1);
	FAILED(RXNG_WC_LOC_QP_OP_ERR);
}

REQUEST(rxng_req_retirable__none_posted)
{
	CHECK(!rxng_req_retirable(&bench->r));
	POST(SEND, 1, 0);
	CHECK(!rxng_req_retirable(&bench->r));
	SENDS(SEND, 0x100, 1);
	CHECK(!rxng_req_retirable(&bench->r));
}

/* The slot behind the newest request may hold an old error. */
REQUEST(rxng_req_retirable__stale_slot)
{
	memset(bench->ring, 0, sizeof(bench->ring));
	bench->ring[bench->r.head & bench->r.mask].state = RXNG_SWQE_FAILED;
	CHECK(!rxng_req_retirable(&bench->r));
}

/* In SQD what was posted is held, also what cannot be carried out. */
REQUEST(rxng_req_retirable__held_while_draining)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	POST(SEND, 1, 0);
	bench->ring[bench->r.cur & bench->r.mask].state = RXNG_SWQE_FAILED;
	bench->ring[bench->r.cur & bench->r.mask].status = RXNG_WC_LOC_LEN_ERR;
	bench->r.draining = true;
	GIVES(ack(bench, 0x100), PROGRESS);
	SUCCEEDED(1);
	IDLE();
	FAILED(0);
	CHECK(rxng_req_drained(&bench->r));
	bench->r.draining = false;
	FAILED(RXNG_WC_LOC_LEN_ERR);
}

/* One that was under way is no longer held. */
REQUEST(rxng_req_retirable__started_before_draining)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	bench->r.draining = true;
	rxng_req_fail(&bench->r, rxng_req_wqe(&bench->r, bench->r.head),
		      RXNG_WC_RETRY_EXC_ERR);
	FAILED(RXNG_WC_RETRY_EXC_ERR);
}

REQUEST(rxng_req_drained__started_only)
{
	CHECK(rxng_req_drained(&bench->r));
	POST(SEND, 1, 0);
	CHECK(rxng_req_drained(&bench->r));
	SENDS(SEND, 0x100, 1);
	CHECK(!rxng_req_drained(&bench->r));
	GIVES(ack(bench, 0x100), PROGRESS);
	CHECK(rxng_req_drained(&bench->r));
}

REQUEST(rxng_req_step_back__to_the_middle)
{
	POST(SEND, 1000, 0);
	POST(READ, 1000, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 4);
	SENDS(READ, 0x104, 1);
	SENDS(SEND, 0x108, 1);
	GIVES(ack(bench, 0x101), PROGRESS);
	rxng_req_step_back(&bench->r);
	CHECK_EQ(bench->r.rd_used, 0);
	SENDS(SEND, 0x102, 2);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_SEND_MIDDLE);
	CHECK_EQ(bench->pkt.payload_len, 1000 - 512);
	SENDS(READ, 0x104, 1);
	SENDS(SEND, 0x108, 1);
	CHECK_EQ(bench->r.sent, 0x109);
}

REQUEST(rxng_req_step_back__nothing_under_way)
{
	rxng_req_step_back(&bench->r);
	IDLE();
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
}

REQUEST(rxng_req_timeout__not_yet)
{
	POST(SEND, 1, 0);
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_DROP);
	SENDS(SEND, 0x100, 1);
	bench->now += BENCH_TIMEOUT - 1;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_DROP);
	IDLE();
	bench->now++;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_RETRY);
	SENDS(SEND, 0x100, 1);
}

/* The wait doubles up to four times the timeout, until the peer answers. */
REQUEST(rxng_req_timeout__backs_off)
{
	static const u32 factors[] = { 1, 2, 4, 4, 4 };
	size_t i;

	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	for (i = 0; i < ARRAY_SIZE(factors); i++) {
		CHECK_EQ(bench->r.deadline,
			 bench->now + BENCH_TIMEOUT * factors[i]);
		bench->now = bench->r.deadline;
		CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
			 RXNG_COMP_RETRY);
		SENDS(SEND, 0x100, 1);
		SENDS(SEND, 0x101, 1);
	}
	GIVES(ack(bench, 0x100), PROGRESS);
	CHECK_EQ(bench->r.deadline, bench->now + BENCH_TIMEOUT);
	CHECK_EQ(bench->r.retry_left, 7);
}

REQUEST(rxng_req_timeout__retries_are_used_up)
{
	u32 retries, i;

	for (retries = 0; retries < 8; retries++) {
		bench_setup();
		bench->r.retry_cnt = retries;
		rxng_req_start(&bench->r, 0x100);
		POST(SEND, 1, 0);
		POST(SEND, 1, 0);
		SENDS(SEND, 0x100, 1);
		for (i = 0; i < retries; i++) {
			bench->now = bench->r.deadline;
			CHECK_EQ(rxng_req_timeout(&bench->r, bench->now,
						  false), RXNG_COMP_RETRY);
			SENDS(SEND, 0x100, 1);
		}
		bench->now = bench->r.deadline;
		CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
			 RXNG_COMP_FAILED);
		FAILED(RXNG_WC_RETRY_EXC_ERR);
	}
}

/* Packets that wait on this host are not the peer's silence. */
REQUEST(rxng_req_timeout__local_congestion)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	bench->now = bench->r.deadline;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, true),
		 RXNG_COMP_DROP);
	CHECK_EQ(bench->r.retry_left, 7);
	CHECK_EQ(bench->r.deadline, bench->now + BENCH_TIMEOUT);
	IDLE();
}

REQUEST(rxng_req_timeout__not_during_rnr_wait)
{
	POST(WRITE, 1, 0);
	POST(SEND, 1, 0);
	SENDS(WRITE, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	GIVES(rnr(bench, 0x101, 30), RNR);
	CHECK_EQ(bench->r.deadline, 0);
	SUCCEEDED(1);
	bench->now += 327 * MS;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_DROP);
	WAITS();
	bench->now += MS;
	SENDS(SEND, 0x101, 1);
	CHECK_EQ(bench->r.deadline, bench->now + BENCH_TIMEOUT);
}

/* An ACK during the wait does not set the timer going either. */
REQUEST(rxng_req_timeout__not_during_rnr_wait_after_ack)
{
	POST(SEND, 1000, 0);
	POST(SEND, 1000, 0);
	SENDS(SEND, 0x100, 4);
	SENDS(SEND, 0x104, 4);
	GIVES(rnr(bench, 0x100, 20), RNR);
	GIVES(ack(bench, 0x100), PROGRESS);
	CHECK_EQ(bench->r.deadline, 0);
	WAITS();
	bench->now += 10240 * US;
	SENDS(SEND, 0x101, 3);
}

static void check_slices(const struct rxng_pkt *burst)
{
	const u16 extended = RXNG_PKT_RETH | RXNG_PKT_IMM | RXNG_PKT_INV |
			     RXNG_PKT_AETH;
	u32 i, total = 0;

	for (i = 0; i < burst->npkts; i++) {
		const struct rxng_opcode_info *info;
		struct rxng_pkt pkt;

		rxng_pkt_slice(burst, i, BENCH_MTU, &pkt);
		info = rxng_opcode_info(pkt.opcode);
		CHECK_EQ(info->kind, burst->kind);
		CHECK_EQ(pkt.flags & (ONLY | extended),
			 info->flags & (ONLY | extended));
		CHECK_EQ(pkt.npkts, 1);
		CHECK_EQ(pkt.psn, rxng_psn_add(burst->psn, i));
		CHECK_EQ(!!(pkt.flags & RXNG_PKT_START),
			 !i && burst->flags & RXNG_PKT_START);
		CHECK_EQ(!!(pkt.flags & RXNG_PKT_END),
			 i + 1 == burst->npkts && burst->flags & RXNG_PKT_END);
		CHECK_EQ(pkt.bits, i + 1 == burst->npkts ? burst->bits : 0);
		CHECK(i + 1 == burst->npkts || pkt.payload_len == BENCH_MTU);
		total += pkt.payload_len;
	}
	CHECK_EQ(total, burst->payload_len);
}

REQUEST(rxng_pkt_slice__all_places)
{
	static const u8 flags[] = { 0, RXNG_SWQE_IMM, RXNG_SWQE_SOLICITED };
	u32 limit, length;
	size_t i;

	rxng_req_start(&bench->r, 0xfffff0);
	for (limit = 1; limit < 5; limit++)
		for (length = 0; length < 1300; length += 43)
			for (i = 0; i < ARRAY_SIZE(flags); i++) {
				POST(i & 1 ? WRITE : SEND, length, flags[i]);
				bench->max_pkts = limit;
				while (next(bench) == RXNG_REQ_SEND) {
					check_slices(&bench->pkt);
					rxng_req_sent(&bench->r,
						      bench->pkt.npkts,
						      bench->now);
				}
				GIVES(ack(bench, rxng_psn_add(bench->r.psn,
							RXNG_PSN_MASK)),
				      PROGRESS);
				SUCCEEDED(1);
			}
}

TEST(rxng_pkt_slice__read_response)
{
	struct rxng_pkt burst = {
		.kind = RXNG_KIND_READ_RESP,
		.flags = ONLY | RXNG_PKT_AETH,
		.psn = 0xffffff,
		.npkts = 4,
		.payload_len = 900,
	};

	check_slices(&burst);
	burst.flags = FIRST | RXNG_PKT_AETH;
	burst.payload_len = 1024;
	check_slices(&burst);
	burst.flags = MIDDLE;
	check_slices(&burst);
	burst.flags = LAST | RXNG_PKT_AETH;
	check_slices(&burst);
}
