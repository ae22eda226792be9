// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "bench.h"

static struct rxng_pkt response(u8 kind, u32 psn, u16 place, u32 len)
{
	return (struct rxng_pkt){
		.kind = kind,
		.flags = place | (place ? RXNG_PKT_AETH : 0),
		.psn = psn,
		.npkts = 1,
		.payload_len = len,
		.syndrome = RXNG_AETH_ACK | RXNG_AETH_NO_CREDITS,
	};
}

REQUEST(rxng_req_response__nothing_under_way)
{
	GIVES(ack(bench, 0x100), DROP);
	GIVES(nak(bench, 0x100, RXNG_NAK_REM_ACC), DROP);
	GIVES(rnr(bench, 0x100, 1), DROP);
	GIVES(read_resp(bench, 0x100, 1, ONLY, 0), DROP);
	GIVES(atomic_ack(bench, 0x100), DROP);
}

REQUEST(rxng_req_response__acks_coalesce)
{
	POST(SEND, 1, 0);
	POST(WRITE, 600, 0);
	POST(SEND, 1, 0);
	POST(SEND, 600, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(WRITE, 0x101, 3);
	SENDS(SEND, 0x104, 1);
	SENDS(SEND, 0x105, 3);
	GIVES(ack(bench, 0x102), PROGRESS);
	SUCCEEDED(1);
	GIVES(ack(bench, 0x106), PROGRESS);
	SUCCEEDED(2);
	CHECK_EQ(bench->r.inflight, 1);
	GIVES(ack(bench, 0x107), PROGRESS);
	SUCCEEDED(1);
	CHECK_EQ(bench->r.inflight, 0);
}

REQUEST(rxng_req_response__stale_and_wild_acks)
{
	u32 i;

	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	GIVES(ack(bench, 0x102), DROP);
	GIVES(ack(bench, 0x1ff), DROP);
	GIVES(ack(bench, 0x900100), DROP);
	GIVES(ack(bench, 0xfe), DROP);
	GIVES(ack(bench, 0x100), PROGRESS);
	for (i = 0; i < 3; i++) {
		GIVES(nak(bench, 0x100, RXNG_NAK_INV_REQ), DROP);
		GIVES(rnr(bench, 0x100, 1), DROP);
		GIVES(read_resp(bench, 0x100, 1, ONLY, 1), DROP);
	}
	SUCCEEDED(1);
	GIVES(ack(bench, 0x101), PROGRESS);
	SUCCEEDED(1);
}

/* Given a PSN, but not sent: nobody can have answered. */
REQUEST(rxng_req_response__ack_for_the_unsent)
{
	POST(SEND, 1000, 0);
	SENDS_PART(SEND, 0x100, 4, 2);
	GIVES(ack(bench, 0x102), DROP);
	GIVES(ack(bench, 0x101), PROGRESS);
	SENDS(SEND, 0x102, 2);
}

REQUEST(rxng_req_response__ack_again_brings_credits)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(aeth(bench, 0x100, RXNG_AETH_ACK | 0, 1), PROGRESS);
	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x101, 1);
	WAITS();
	GIVES(aeth(bench, 0x100, RXNG_AETH_ACK | 2, 1), PROGRESS);
	SENDS(SEND, 0x102, 1);
}

REQUEST(rxng_req_response__credits_wrap_with_msn)
{
	POST(SEND, 1, 0);
	bench->r.ssn = 0xffffff;
	SENDS(SEND, 0x100, 1);
	GIVES(aeth(bench, 0x100, RXNG_AETH_ACK | 2, 0xffffff), PROGRESS);
	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x101, 1);
	SENDS(SEND, 0x102, 1);
	WAITS();
}

REQUEST(rxng_req_response__local_operations_are_stepped_over)
{
	POST(SEND, 1, 0);
	POST(LOCAL, 0, 0);
	POST(LOCAL, 0, 0);
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	rxng_req_local_done(&bench->r);
	CHECK_EQ(next(bench), RXNG_REQ_LOCAL);
	rxng_req_local_done(&bench->r);
	SUCCEEDED(0);
	GIVES(ack(bench, 0x100), PROGRESS);
	SUCCEEDED(3);
	CHECK(rxng_req_drained(&bench->r));
}

/* Sent once, sent back, and answered before it is sent again. */
REQUEST(rxng_req_response__catches_up)
{
	POST(SEND, 5 * 256, 0);
	POST(SEND, 3 * 256, 0);
	SENDS(SEND, 0x100, 5);
	SENDS(SEND, 0x105, 3);
	rxng_req_step_back(&bench->r);
	bench->max_pkts = 2;
	SENDS(SEND, 0x100, 2);
	GIVES(ack(bench, 0x105), PROGRESS);
	SUCCEEDED(1);
	SENDS(SEND, 0x106, 2);
	CHECK_EQ(bench->pkt.opcode, RXNG_RC_SEND_MIDDLE);
	GIVES(ack(bench, 0x107), PROGRESS);
	SUCCEEDED(1);
	IDLE();
	CHECK_EQ(bench->r.inflight, 0);
}

/* An ACK behind where the sending stands does not move it. */
REQUEST(rxng_req_response__ack_behind_the_resend)
{
	POST(SEND, 5 * 256, 0);
	SENDS(SEND, 0x100, 5);
	rxng_req_step_back(&bench->r);
	bench->max_pkts = 3;
	SENDS(SEND, 0x100, 3);
	GIVES(ack(bench, 0x101), PROGRESS);
	CHECK_EQ(bench->r.inflight, 1);
	SENDS(SEND, 0x103, 2);
}

/* An ACK for something later says that a READ's response was lost. */
REQUEST(rxng_req_response__implied_nak)
{
	POST(SEND, 1, 0);
	POST(READ, 1, 0);
	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(READ, 0x101, 1);
	SENDS(SEND, 0x102, 1);
	SENDS(SEND, 0x103, 1);
	GIVES(ack(bench, 0x102), RETRY);
	CHECK_EQ(bench->r.retry_left, 6);
	SUCCEEDED(1);
	/* More of the kind say nothing new. */
	GIVES(ack(bench, 0x103), PROGRESS);
	SENDS(READ, 0x101, 1);
	GIVES(ack(bench, 0x103), PROGRESS);
	CHECK_EQ(bench->r.retry_left, 6);
	SENDS(SEND, 0x102, 1);
	GIVES(read_resp(bench, 0x101, 1, ONLY, 1), READ);
	GIVES(ack(bench, 0x103), PROGRESS);
	SUCCEEDED(3);
	CHECK_EQ(bench->r.retry_left, 7);
}

/* An ACK for an atomic is none: its result is missing. */
REQUEST(rxng_req_response__ack_for_an_atomic)
{
	POST(ATOMIC, 8, 0);
	SENDS(ATOMIC, 0x100, 1);
	GIVES(ack(bench, 0x100), RETRY);
	SUCCEEDED(0);
	SENDS(ATOMIC, 0x100, 1);
	GIVES(atomic_ack(bench, 0x100), ATOMIC);
	SUCCEEDED(1);
}

REQUEST(rxng_req_response__ack_for_a_read)
{
	POST(READ, 600, 0);
	SENDS(READ, 0x100, 1);
	GIVES(ack(bench, 0x102), RETRY);
	SENDS(READ, 0x100, 1);
	GIVES(read_resp(bench, 0x100, 3, ONLY, 600), READ);
	SUCCEEDED(1);
}

REQUEST(rxng_req_response__implied_nak_uses_retries_up)
{
	bench->r.retry_cnt = 0;
	rxng_req_start(&bench->r, 0x100);
	POST(READ, 1, 0);
	POST(SEND, 1, 0);
	SENDS(READ, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	GIVES(ack(bench, 0x101), FAILED);
	FAILED(RXNG_WC_RETRY_EXC_ERR);
	CHECK_EQ(bench->r.rd_used, 0);
}

REQUEST(rxng_req_response__nak_sequence)
{
	POST(SEND, 1, 0);
	POST(SEND, 1000, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(SEND, 0x101, 4);
	GIVES(nak(bench, 0x102, RXNG_NAK_PSN), RETRY);
	SUCCEEDED(1);
	CHECK_EQ(bench->r.retry_left, 6);
	/* The same told twice, nothing sent in between. */
	GIVES(nak(bench, 0x102, RXNG_NAK_PSN), PROGRESS);
	CHECK_EQ(bench->r.retry_left, 6);
	SENDS(SEND, 0x102, 3);
	bench->now += BENCH_TIMEOUT;
	GIVES(nak(bench, 0x102, RXNG_NAK_PSN), RETRY);
	CHECK_EQ(bench->r.retry_left, 5);
	SENDS(SEND, 0x102, 3);
	GIVES(ack(bench, 0x104), PROGRESS);
	CHECK_EQ(bench->r.retry_left, 7);
	SUCCEEDED(1);
}

REQUEST(rxng_req_response__nak_sequence_uses_retries_up)
{
	u32 i;

	bench->r.retry_cnt = 3;
	rxng_req_start(&bench->r, 0x100);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	for (i = 0; i < 3; i++) {
		GIVES(nak(bench, 0x100, RXNG_NAK_PSN), RETRY);
		SENDS(SEND, 0x100, 1);
		bench->now += BENCH_TIMEOUT;
	}
	GIVES(nak(bench, 0x100, RXNG_NAK_PSN), FAILED);
	FAILED(RXNG_WC_RETRY_EXC_ERR);
}

/* A storm of NAKs of one packet, as disorder makes it, is one retry. */
REQUEST(rxng_req_response__nak_sequence_storm)
{
	u32 i;

	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	for (i = 0; i < 100; i++) {
		GIVES(nak(bench, 0x100, RXNG_NAK_PSN), RETRY);
		SENDS(SEND, 0x100, 1);
		SENDS(SEND, 0x101, 1);
		bench->now += 10 * US;
	}
	CHECK_EQ(bench->r.retry_left, 6);
	/* Another packet is another matter. */
	GIVES(nak(bench, 0x101, RXNG_NAK_PSN), RETRY);
	CHECK_EQ(bench->r.retry_left, 6);
	SENDS(SEND, 0x101, 1);
	GIVES(ack(bench, 0x101), PROGRESS);
	CHECK_EQ(bench->r.retry_left, 7);
}

REQUEST(rxng_req_response__nak_sequence_without_retries)
{
	bench->r.retry_cnt = 0;
	rxng_req_start(&bench->r, 0x100);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(nak(bench, 0x100, RXNG_NAK_PSN), FAILED);
	FAILED(RXNG_WC_RETRY_EXC_ERR);
}

/* A NAK for a packet that was never sent is not for us. */
REQUEST(rxng_req_response__nak_beyond)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(nak(bench, 0x101, RXNG_NAK_PSN), DROP);
	GIVES(nak(bench, 0x101, RXNG_NAK_REM_ACC), DROP);
	GIVES(ack(bench, 0x100), PROGRESS);
	SUCCEEDED(1);
}

static const struct {
	const char *name;
	u8 syndrome;
	int status;
} fatal[] = {
	{ "invalid_request", RXNG_AETH_NAK | 1, RXNG_WC_REM_INV_REQ_ERR },
	{ "remote_access", RXNG_AETH_NAK | 2, RXNG_WC_REM_ACCESS_ERR },
	{ "remote_operation", RXNG_AETH_NAK | 3, RXNG_WC_REM_OP_ERR },
	{ "reserved_code", RXNG_AETH_NAK | 5, RXNG_WC_BAD_RESP_ERR },
	{ "last_code", RXNG_AETH_NAK | 31, RXNG_WC_BAD_RESP_ERR },
	{ "reserved_type", 0x40, RXNG_WC_BAD_RESP_ERR },
	{ "top_bit", 0x80, RXNG_WC_BAD_RESP_ERR },
};

/* All before the PSN was done; the error is reported after that. */
TEST_EACH(rxng_req_response__fatal_nak, fatal)
{
	struct bench *bench = bench_setup();

	POST(SEND, 1, 0);
	POST(WRITE, 1000, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(WRITE, 0x101, 4);
	SENDS(SEND, 0x105, 1);
	GIVES(aeth(bench, 0x103, arg->syndrome, 0), FAILED);
	SUCCEEDED(1);
	FAILED(arg->status);
	GIVES(ack(bench, 0x105), DROP);
	FAILED(arg->status);
}

/* It says that a READ before it was answered: that answer comes first. */
REQUEST(rxng_req_response__fatal_nak_behind_a_lost_read)
{
	POST(READ, 1, 0);
	POST(SEND, 1, 0);
	SENDS(READ, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	GIVES(nak(bench, 0x101, RXNG_NAK_INV_REQ), RETRY);
	FAILED(0);
	SENDS(READ, 0x100, 1);
}

REQUEST(rxng_req_response__rnr_times)
{
	u32 code;

	for (code = 0; code < 32; code++) {
		bench_setup();
		POST(SEND, 1, 0);
		SENDS(SEND, 0x100, 1);
		GIVES(rnr(bench, 0x100, code), RNR);
		CHECK_EQ(bench->r.rnr_until, bench->now + rxng_rnr_ns(code));
		CHECK_EQ(bench->r.deadline, 0);
		bench->now = bench->r.rnr_until - 1;
		WAITS();
		bench->now++;
		SENDS(SEND, 0x100, 1);
		CHECK_EQ(bench->r.rnr_until, 0);
	}
}

REQUEST(rxng_req_response__rnr_retries)
{
	u32 retries, i;

	for (retries = 0; retries < 8; retries++) {
		bench_setup();
		bench->r.rnr_retry = retries;
		rxng_req_start(&bench->r, 0x100);
		POST(SEND, 1, 0);
		for (i = 0; i < (retries == 7 ? 1000 : retries); i++) {
			SENDS(SEND, 0x100, 1);
			GIVES(rnr(bench, 0x100, 1), RNR);
			FAILED(0);
			bench->now = bench->r.rnr_until;
		}
		SENDS(SEND, 0x100, 1);
		if (retries == 7) {
			GIVES(rnr(bench, 0x100, 1), RNR);
			continue;
		}
		GIVES(rnr(bench, 0x100, 1), FAILED);
		FAILED(RXNG_WC_RNR_RETRY_EXC_ERR);
	}
}

REQUEST(rxng_req_response__rnr_retries_come_back)
{
	bench->r.rnr_retry = 1;
	rxng_req_start(&bench->r, 0x100);
	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(rnr(bench, 0x100, 1), RNR);
	bench->now = bench->r.rnr_until;
	SENDS(SEND, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	GIVES(rnr(bench, 0x101, 1), RNR);
	SUCCEEDED(1);
	bench->now = bench->r.rnr_until;
	SENDS(SEND, 0x101, 1);
	GIVES(rnr(bench, 0x101, 1), FAILED);
	FAILED(RXNG_WC_RNR_RETRY_EXC_ERR);
}

/*
 * An RNR NAK says that the packet arrived: a peer that is not ready for long
 * is not lost, however many packets are lost meanwhile. A sequence error says
 * nothing of receives.
 */
REQUEST(rxng_req_response__rnr_refills_retries)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	bench->now = bench->r.deadline;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_RETRY);
	SENDS(SEND, 0x100, 1);
	GIVES(rnr(bench, 0x100, 1), RNR);
	CHECK_EQ(bench->r.retry_left, 7);
	CHECK_EQ(bench->r.rnr_left, 5);
	bench->now = bench->r.rnr_until;
	SENDS(SEND, 0x100, 1);
	CHECK_EQ(bench->r.deadline, bench->now + BENCH_TIMEOUT);
	GIVES(nak(bench, 0x100, RXNG_NAK_PSN), RETRY);
	CHECK_EQ(bench->r.rnr_left, 5);
}

/* One that comes twice counts once, and does not make the wait longer. */
REQUEST(rxng_req_response__rnr_twice)
{
	u64 until;

	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(rnr(bench, 0x100, 10), RNR);
	until = bench->r.rnr_until;
	bench->now += US;
	GIVES(rnr(bench, 0x100, 20), DROP);
	CHECK_EQ(bench->r.rnr_until, until);
	CHECK_EQ(bench->r.rnr_left, 5);
}

/* Sequence errors of what was sent behind are no news during the wait. */
REQUEST(rxng_req_response__nak_during_rnr_wait)
{
	POST(SEND, 1, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(SEND, 0x101, 1);
	GIVES(rnr(bench, 0x100, 10), RNR);
	GIVES(nak(bench, 0x100, RXNG_NAK_PSN), PROGRESS);
	CHECK_EQ(bench->r.retry_left, 7);
	WAITS();
}

/* A NAK that ends the request ends the wait with it. */
REQUEST(rxng_req_response__fatal_nak_during_rnr_wait)
{
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	GIVES(rnr(bench, 0x100, 10), RNR);
	GIVES(nak(bench, 0x100, RXNG_NAK_INV_REQ), FAILED);
	FAILED(RXNG_WC_REM_INV_REQ_ERR);
}

REQUEST(rxng_req_response__rnr_gives_slots_back)
{
	POST(SEND, 1, 0);
	POST(READ, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(READ, 0x101, 1);
	GIVES(rnr(bench, 0x100, 1), RNR);
	CHECK_EQ(bench->r.rd_used, 0);
	bench->now = bench->r.rnr_until;
	SENDS(SEND, 0x100, 1);
	SENDS(READ, 0x101, 1);
	CHECK_EQ(bench->r.rd_used, 1);
}

REQUEST(rxng_req_response__read_in_bursts)
{
	POST(READ, 10 * 256 + 1, 0);
	SENDS(READ, 0x100, 1);
	GIVES(read_resp(bench, 0x100, 4, FIRST, 1024), READ);
	CHECK_EQ(bench->offset, 0);
	GIVES(read_resp(bench, 0x104, 1, MIDDLE, 256), READ);
	CHECK_EQ(bench->offset, 1024);
	GIVES(read_resp(bench, 0x105, 5, MIDDLE, 1280), READ);
	CHECK_EQ(bench->offset, 1280);
	SUCCEEDED(0);
	CHECK_EQ(bench->r.rd_used, 1);
	GIVES(read_resp(bench, 0x10a, 1, LAST, 1), READ);
	CHECK_EQ(bench->offset, 2560);
	SUCCEEDED(1);
	CHECK_EQ(bench->r.rd_used, 0);
}

REQUEST(rxng_req_response__read_of_nothing)
{
	POST(READ, 0, 0);
	SENDS(READ, 0x100, 1);
	GIVES(read_resp(bench, 0x100, 1, ONLY, 0), READ);
	CHECK_EQ(bench->offset, 0);
	SUCCEEDED(1);
}

static const struct {
	const char *name;
	u32 length;		/* of the READ */
	u32 before;		/* packets of it that came already */
	u32 npkts;
	u16 place;
	u32 payload;
	int status;
} bad_reads[] = {
	{ "first_short", 600, 0, 1, FIRST, 255, RXNG_WC_LOC_LEN_ERR },
	{ "first_empty", 600, 0, 1, FIRST, 0, RXNG_WC_LOC_LEN_ERR },
	{ "first_long", 600, 0, 1, FIRST, 257, RXNG_WC_LOC_LEN_ERR },
	{ "only_short", 100, 0, 1, ONLY, 99, RXNG_WC_LOC_LEN_ERR },
	{ "only_long", 100, 0, 1, ONLY, 101, RXNG_WC_LOC_LEN_ERR },
	{ "only_for_nothing", 0, 0, 1, ONLY, 1, RXNG_WC_LOC_LEN_ERR },
	{ "middle_short", 600, 1, 1, MIDDLE, 1, RXNG_WC_LOC_LEN_ERR },
	{ "last_long", 600, 2, 1, LAST, 89, RXNG_WC_LOC_LEN_ERR },
	{ "last_empty", 512, 1, 1, LAST, 0, RXNG_WC_LOC_LEN_ERR },
	{ "burst_short", 1000, 0, 3, FIRST, 767, RXNG_WC_LOC_LEN_ERR },
	{ "only_for_many", 600, 0, 1, ONLY, 256, RXNG_WC_BAD_RESP_ERR },
	{ "first_for_one", 100, 0, 1, FIRST, 100, RXNG_WC_BAD_RESP_ERR },
	{ "middle_at_start", 600, 0, 1, MIDDLE, 256, RXNG_WC_BAD_RESP_ERR },
	{ "last_at_start", 100, 0, 1, LAST, 100, RXNG_WC_BAD_RESP_ERR },
	{ "first_inside", 600, 1, 1, FIRST, 256, RXNG_WC_BAD_RESP_ERR },
	{ "only_inside", 600, 2, 1, ONLY, 88, RXNG_WC_BAD_RESP_ERR },
	{ "last_too_early", 600, 1, 1, LAST, 256, RXNG_WC_BAD_RESP_ERR },
	{ "no_last", 600, 2, 1, MIDDLE, 88, RXNG_WC_BAD_RESP_ERR },
	{ "too_many", 600, 1, 3, LAST, 600, RXNG_WC_BAD_RESP_ERR },
};

TEST_EACH(rxng_req_response__bad_read, bad_reads)
{
	struct bench *bench = bench_setup();

	POST(SEND, 1, 0);
	POST(READ, arg->length, 0);
	POST(SEND, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(READ, 0x101, 1);
	SENDS(SEND, rxng_psn_add(bench->r.psn, 0), 1);
	if (arg->before)
		GIVES(read_resp(bench, 0x101, arg->before, FIRST,
				arg->before * 256), READ);
	GIVES(read_resp(bench, 0x101 + arg->before, arg->npkts, arg->place,
			arg->payload), FAILED);
	SUCCEEDED(1);
	FAILED(arg->status);
	CHECK_EQ(bench->r.rd_used, 0);
}

REQUEST(rxng_req_response__read_with_a_nak_inside)
{
	struct rxng_pkt pkt = response(RXNG_KIND_READ_RESP, 0x100, ONLY, 1);

	POST(READ, 1, 0);
	SENDS(READ, 0x100, 1);
	pkt.syndrome = RXNG_AETH_NAK | RXNG_NAK_REM_ACC;
	GIVES(respond(bench, pkt), FAILED);
	FAILED(RXNG_WC_BAD_RESP_ERR);
}

static const struct {
	const char *name;
	u8 asked;
	u8 answered;
} mismatches[] = {
	{ "read_for_send", SEND, RXNG_KIND_READ_RESP },
	{ "read_for_write", WRITE, RXNG_KIND_READ_RESP },
	{ "read_for_atomic", ATOMIC, RXNG_KIND_READ_RESP },
	{ "atomic_for_send", SEND, RXNG_KIND_ATOMIC_ACK },
	{ "atomic_for_read", READ, RXNG_KIND_ATOMIC_ACK },
};

TEST_EACH(rxng_req_response__wrong_kind, mismatches)
{
	struct bench *bench = bench_setup();

	POST(arg->asked, 8, 0);
	SENDS(arg->asked, 0x100, 1);
	GIVES(respond(bench, response(arg->answered, 0x100, ONLY, 8)), FAILED);
	FAILED(RXNG_WC_BAD_RESP_ERR);
}

/* A response acknowledges what came before its request. */
REQUEST(rxng_req_response__read_acknowledges)
{
	POST(SEND, 1, 0);
	POST(WRITE, 600, 0);
	POST(READ, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(WRITE, 0x101, 3);
	SENDS(READ, 0x104, 1);
	GIVES(read_resp(bench, 0x104, 1, ONLY, 1), READ);
	SUCCEEDED(3);
	CHECK_EQ(bench->r.deadline, 0);
}

REQUEST(rxng_req_response__read_with_a_gap)
{
	POST(READ, 5 * 256, 0);
	SENDS(READ, 0x100, 1);
	GIVES(read_resp(bench, 0x100, 2, FIRST, 512), READ);
	GIVES(read_resp(bench, 0x103, 1, MIDDLE, 256), RETRY);
	GIVES(read_resp(bench, 0x104, 1, LAST, 256), PROGRESS);
	SENDS(READ, 0x102, 1);
	CHECK_EQ(bench->pkt.va, 0x10000 + 512);
	CHECK_EQ(bench->pkt.dma_len, 3 * 256);
	CHECK_EQ(bench->r.rd_used, 1);
	GIVES(read_resp(bench, 0x104, 1, LAST, 256), PROGRESS);
	CHECK_EQ(bench->r.retry_left, 6);
	GIVES(read_resp(bench, 0x102, 2, FIRST, 512), READ);
	CHECK_EQ(bench->offset, 512);
	GIVES(read_resp(bench, 0x104, 1, LAST, 256), READ);
	SUCCEEDED(1);
	CHECK_EQ(bench->r.rd_used, 0);
}

/* The rest may also come as it would have come the first time. */
REQUEST(rxng_req_response__read_goes_on_by_itself)
{
	POST(READ, 5 * 256, 0);
	SENDS(READ, 0x100, 1);
	GIVES(read_resp(bench, 0x100, 1, FIRST, 256), READ);
	GIVES(read_resp(bench, 0x102, 1, MIDDLE, 256), RETRY);
	SENDS(READ, 0x101, 1);
	GIVES(read_resp(bench, 0x101, 1, MIDDLE, 256), READ);
	GIVES(read_resp(bench, 0x102, 1, MIDDLE, 256), READ);
	/* The repetition: what is known already, then the end. */
	GIVES(read_resp(bench, 0x101, 1, FIRST, 256), DROP);
	GIVES(read_resp(bench, 0x102, 1, MIDDLE, 256), DROP);
	GIVES(read_resp(bench, 0x103, 2, LAST, 512), READ);
	SUCCEEDED(1);
}

REQUEST(rxng_req_response__read_of_the_last_packet_again)
{
	POST(READ, 600, 0);
	SENDS(READ, 0x100, 1);
	GIVES(read_resp(bench, 0x100, 2, FIRST, 512), READ);
	bench->now = bench->r.deadline;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_RETRY);
	SENDS(READ, 0x102, 1);
	CHECK_EQ(bench->pkt.dma_len, 88);
	GIVES(read_resp(bench, 0x102, 1, ONLY, 88), READ);
	SUCCEEDED(1);
}

/* Only where it was asked for again a READ may start afresh. */
REQUEST(rxng_req_response__read_starts_elsewhere)
{
	POST(READ, 5 * 256, 0);
	SENDS(READ, 0x100, 1);
	GIVES(read_resp(bench, 0x100, 1, FIRST, 256), READ);
	GIVES(read_resp(bench, 0x102, 1, MIDDLE, 256), RETRY);
	SENDS(READ, 0x101, 1);
	GIVES(read_resp(bench, 0x101, 1, FIRST, 256), READ);
	GIVES(read_resp(bench, 0x102, 1, FIRST, 256), FAILED);
	FAILED(RXNG_WC_BAD_RESP_ERR);
}

/* A response that was still on its way when its READ was given up. */
REQUEST(rxng_req_response__late_response_after_step_back)
{
	POST(READ, 600, 0);
	POST(ATOMIC, 8, 0);
	POST(SEND, 1, 0);
	SENDS(READ, 0x100, 1);
	SENDS(ATOMIC, 0x103, 1);
	SENDS(SEND, 0x104, 1);
	rxng_req_step_back(&bench->r);
	GIVES(read_resp(bench, 0x100, 2, FIRST, 512), READ);
	SENDS(READ, 0x102, 1);
	GIVES(read_resp(bench, 0x102, 1, LAST, 88), READ);
	SUCCEEDED(1);
	CHECK_EQ(bench->r.rd_used, 0);
	GIVES(atomic_ack(bench, 0x103), ATOMIC);
	SUCCEEDED(1);
	GIVES(ack(bench, 0x104), PROGRESS);
	SUCCEEDED(1);
	IDLE();
}

REQUEST(rxng_req_response__stale_responses)
{
	POST(READ, 1, 0);
	POST(ATOMIC, 8, 0);
	POST(READ, 1, 0);
	SENDS(READ, 0x100, 1);
	SENDS(ATOMIC, 0x101, 1);
	SENDS(READ, 0x102, 1);
	GIVES(read_resp(bench, 0x100, 1, ONLY, 1), READ);
	GIVES(read_resp(bench, 0x100, 1, ONLY, 1), DROP);
	GIVES(atomic_ack(bench, 0x101), ATOMIC);
	GIVES(atomic_ack(bench, 0x101), DROP);
	GIVES(read_resp(bench, 0x100, 1, ONLY, 1), DROP);
	GIVES(read_resp(bench, 0x102, 1, ONLY, 1), READ);
	GIVES(read_resp(bench, 0x102, 1, ONLY, 1), DROP);
	SUCCEEDED(3);
}

/* A request that failed here does not succeed by an answer that comes. */
REQUEST(rxng_req_response__response_for_a_failed_one)
{
	struct rxng_swqe *wqe;

	POST(SEND, 1, 0);
	wqe = POST(READ, 1, 0);
	SENDS(SEND, 0x100, 1);
	SENDS(READ, 0x101, 1);
	rxng_req_fail(&bench->r, wqe, RXNG_WC_LOC_PROT_ERR);
	GIVES(read_resp(bench, 0x101, 1, ONLY, 1), PROGRESS);
	SUCCEEDED(1);
	FAILED(RXNG_WC_LOC_PROT_ERR);
	GIVES(read_resp(bench, 0x101, 1, ONLY, 1), DROP);
	FAILED(RXNG_WC_LOC_PROT_ERR);
}

REQUEST(rxng_req_answered__timer_and_retries)
{
	POST(READ, 600, 0);
	SENDS(READ, 0x100, 1);
	bench->now = bench->r.deadline;
	CHECK_EQ(rxng_req_timeout(&bench->r, bench->now, false),
		 RXNG_COMP_RETRY);
	SENDS(READ, 0x100, 1);
	CHECK_EQ(bench->r.deadline, bench->now + 2 * BENCH_TIMEOUT);
	bench->now += MS;
	GIVES(read_resp(bench, 0x100, 1, FIRST, 256), READ);
	CHECK_EQ(bench->r.deadline, bench->now + BENCH_TIMEOUT);
	CHECK_EQ(bench->r.retry_left, 7);
	GIVES(read_resp(bench, 0x101, 2, LAST, 344), READ);
	CHECK_EQ(bench->r.deadline, 0);
}
