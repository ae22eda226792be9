// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "judge.h"

#define MTU BENCH_MTU
#define RKEY 0x1234
#define VA 0x10000ull

/* A SEND or WRITE; the RETH of a WRITE promises @dma_len bytes. */
static enum rxng_resp_verdict data(struct judge *j, u8 kind, u32 psn,
				   u32 npkts, u16 place, u32 len, u32 dma_len)
{
	return judge_pkt(j, (struct rxng_pkt){
		.kind = kind,
		.flags = place,
		.psn = psn,
		.npkts = npkts,
		.payload_len = len,
		.va = VA,
		.rkey = RKEY,
		.dma_len = dma_len,
	});
}

static enum rxng_resp_verdict read_at(struct judge *j, u32 psn, u64 va,
				      u32 len)
{
	return judge_pkt(j, (struct rxng_pkt){
		.kind = READ,
		.opcode = RXNG_RC_READ_REQUEST,
		.flags = ONLY | RXNG_PKT_RETH,
		.psn = psn,
		.va = va,
		.rkey = RKEY,
		.dma_len = len,
	});
}

static enum rxng_resp_verdict atomic_at(struct judge *j, u32 psn, u64 va)
{
	return judge_pkt(j, (struct rxng_pkt){
		.kind = ATOMIC,
		.opcode = RXNG_RC_FETCH_ADD,
		.flags = ONLY | RXNG_PKT_ATOMICETH,
		.psn = psn,
		.va = va,
		.rkey = RKEY,
	});
}

static struct rxng_resource *done(struct judge *j, u64 orig)
{
	return rxng_resp_done(&j->r, &j->pkt, orig);
}

#define JUDGE(call, verdict) CHECK_EQ(AT(call), RXNG_RESP_##verdict)
#define RESPONSE(id) TEST_F(judge, id)
#define SEND_ONLY(psn, verdict) \
	JUDGE(data(judge, SEND, psn, 1, ONLY, 1, 0), verdict)

/* Carry out a small SEND. */
#define TAKE(psn) do {			\
	SEND_ONLY(psn, EXECUTE);	\
	done(judge, 0);			\
} while (0)

RESPONSE(rxng_resp_reset__forgets)
{
	static struct rxng_resp clean;

	clean = judge->r;
	clean.va = 0;
	clean.rkey = 0;
	clean.gap_psn = 0;
	JUDGE(read_at(judge, 0x100, VA, 1000), EXECUTE);
	done(judge, 0);
	JUDGE(data(judge, SEND, 0x104, 1, FIRST, MTU, 0), EXECUTE);
	done(judge, 0);
	JUDGE(data(judge, SEND, 0x109, 1, FIRST, MTU, 0), NAK_PSN);
	rxng_resp_reset(&judge->r);
	rxng_resp_start(&judge->r, 0x100);
	/* Have no meaning before a WRITE or a gap. */
	judge->r.va = 0;
	judge->r.rkey = 0;
	judge->r.gap_psn = 0;
	CHECK(!memcmp(&clean, &judge->r, sizeof(clean)));
	rxng_resp_start(&judge->r, 0x200);
	JUDGE(read_at(judge, 0x100, VA, 1000), DROP);
	JUDGE(data(judge, SEND, 0x205, 1, FIRST, MTU, 0), NAK_PSN);
	TAKE(0x200);
}

RESPONSE(rxng_resp_start__nothing_to_acknowledge)
{
	rxng_resp_start(&judge->r, 0);
	CHECK_EQ(judge->r.ack_psn, 0xffffff);
	SEND_ONLY(0xffffff, ACK_AGAIN);
	TAKE(0);
	CHECK_EQ(judge->r.ack_psn, 0);
}

RESPONSE(rxng_resp_request__in_order)
{
	TAKE(0x100);
	JUDGE(data(judge, SEND, 0x101, 1, FIRST, MTU, 0), EXECUTE);
	done(judge, 0);
	CHECK_EQ(judge->r.msn, 1);
	CHECK_EQ(judge->r.got, MTU);
	JUDGE(data(judge, SEND, 0x102, 1, MIDDLE, MTU, 0), EXECUTE);
	done(judge, 0);
	JUDGE(data(judge, SEND, 0x103, 1, LAST, 3, 0), EXECUTE);
	done(judge, 0);
	CHECK_EQ(judge->r.msn, 2);
	CHECK_EQ(judge->r.got, 2 * MTU + 3);
	CHECK_EQ(judge->r.epsn, 0x104);
}

RESPONSE(rxng_resp_request__nothing_changes_before_done)
{
	struct rxng_resp before = judge->r;

	SEND_ONLY(0x100, EXECUTE);
	SEND_ONLY(0x100, EXECUTE);
	JUDGE(read_at(judge, 0x100, VA, 5), EXECUTE);
	JUDGE(atomic_at(judge, 0x100, VA + 1), NAK_INVALID);
	SEND_ONLY(0xff, ACK_AGAIN);
	CHECK(!memcmp(&before, &judge->r, sizeof(before)));
}

RESPONSE(rxng_resp_request__psn_wraps)
{
	rxng_resp_start(&judge->r, 0xfffffe);
	JUDGE(data(judge, WRITE, 0xfffffe, 4, ONLY, 1000, 1000), EXECUTE);
	done(judge, 0);
	CHECK_EQ(judge->r.epsn, 2);
	CHECK_EQ(judge->r.ack_psn, 1);
	JUDGE(data(judge, WRITE, 0xfffffe, 4, ONLY, 1000, 1000), ACK_AGAIN);
	JUDGE(read_at(judge, 2, VA, 1000), EXECUTE);
	done(judge, 0);
	SEND_ONLY(0x7, NAK_PSN);
	JUDGE(read_at(judge, 2, VA, 1000), READ_AGAIN);
}

RESPONSE(rxng_resp_request__read_over_the_wrap_again)
{
	rxng_resp_start(&judge->r, 0xffffff);
	JUDGE(read_at(judge, 0xffffff, VA, 3 * MTU), EXECUTE);
	done(judge, 0);
	CHECK_EQ(judge->r.epsn, 2);
	JUDGE(read_at(judge, 0, VA + MTU, 2 * MTU), READ_AGAIN);
	JUDGE(read_at(judge, 1, VA + 2 * MTU, MTU), READ_AGAIN);
}

/* Half the circle is new, half is old. */
RESPONSE(rxng_resp_request__far_away)
{
	rxng_resp_start(&judge->r, 0);
	SEND_ONLY(0x7fffff, NAK_PSN);
	SEND_ONLY(0x800000, ACK_AGAIN);
}

RESPONSE(rxng_resp_request__one_nak_for_a_gap)
{
	SEND_ONLY(0x101, NAK_PSN);
	SEND_ONLY(0x102, DROP);
	SEND_ONLY(0x103, DROP);
	TAKE(0x100);
	TAKE(0x101);
	/* The next gap has its own. */
	SEND_ONLY(0x105, NAK_PSN);
	SEND_ONLY(0x106, DROP);
}

/* The packet that was missing is lost once more. */
RESPONSE(rxng_resp_request__gap_again)
{
	SEND_ONLY(0x101, NAK_PSN);
	SEND_ONLY(0x102, DROP);
	SEND_ONLY(0x101, NAK_PSN);
	SEND_ONLY(0x102, DROP);
	TAKE(0x100);
}

/* Told once more after a quarter of the peer's time, then never again. */
RESPONSE(rxng_resp_timeout__nak_is_lost)
{
	CHECK(!rxng_resp_timeout(&judge->r, 1));
	SEND_ONLY(0x101, NAK_PSN);
	rxng_resp_nak_sent(&judge->r, 400000000, 7);
	CHECK_EQ(judge->r.nak_at, 100000007);
	CHECK(!rxng_resp_timeout(&judge->r, 100000006));
	SEND_ONLY(0x102, DROP);
	CHECK(rxng_resp_timeout(&judge->r, 100000007));
	CHECK(!rxng_resp_timeout(&judge->r, ~0ull));
	CHECK_EQ(judge->r.nak_at, 0);
	/* The next NAK has its own. */
	SEND_ONLY(0x101, NAK_PSN);
	rxng_resp_nak_sent(&judge->r, 400000000, 8);
	CHECK(rxng_resp_timeout(&judge->r, 100000008));
}

RESPONSE(rxng_resp_timeout__gap_ended)
{
	SEND_ONLY(0x101, NAK_PSN);
	rxng_resp_nak_sent(&judge->r, 0, 0);
	TAKE(0x100);
	CHECK_EQ(judge->r.nak_at, 0);
	CHECK(!rxng_resp_timeout(&judge->r, ~0ull));
}

/* The peer asks for a READ again: it has gone back, whatever told it to. */
RESPONSE(rxng_resp_timeout__gone_back)
{
	JUDGE(read_at(judge, 0x100, VA, 1000), EXECUTE);
	done(judge, 0);
	SEND_ONLY(0x106, NAK_PSN);
	rxng_resp_nak_sent(&judge->r, 0, 0);
	JUDGE(read_at(judge, 0x101, VA + MTU, 1000 - MTU), READ_AGAIN);
	CHECK(!rxng_resp_timeout(&judge->r, ~0ull));
}

/* The missing packet came and met no receive: the peer was told that. */
RESPONSE(rxng_resp_timeout__not_ready_since)
{
	SEND_ONLY(0x101, NAK_PSN);
	rxng_resp_nak_sent(&judge->r, 0, 0);
	SEND_ONLY(0x100, EXECUTE);
	rxng_resp_not_ready(&judge->r, &judge->pkt);
	CHECK(!rxng_resp_timeout(&judge->r, ~0ull));
}

/* Without a timeout, and with one that software cannot keep. */
RESPONSE(rxng_resp_timeout__bounds)
{
	SEND_ONLY(0x101, NAK_PSN);
	rxng_resp_nak_sent(&judge->r, 0, 1);
	CHECK_EQ(judge->r.nak_at, 1 + RXNG_NAK_WAIT_NS);
	rxng_resp_nak_sent(&judge->r, 4096, 1);
	CHECK_EQ(judge->r.nak_at, 1 + RXNG_MIN_NAK_WAIT_NS);
	rxng_resp_start(&judge->r, 5);
	CHECK(!rxng_resp_timeout(&judge->r, ~0ull));
}

/* Places changed behind the gap say nothing new. */
RESPONSE(rxng_resp_request__gap_in_disorder)
{
	SEND_ONLY(0x103, NAK_PSN);
	SEND_ONLY(0x105, DROP);
	SEND_ONLY(0x104, DROP);
	SEND_ONLY(0x107, DROP);
	SEND_ONLY(0x106, DROP);
}

RESPONSE(rxng_resp_request__read_of_a_gap)
{
	JUDGE(read_at(judge, 0x101, VA, 10), NAK_PSN);
	JUDGE(atomic_at(judge, 0x102, VA), DROP);
}

/* Of a READ whose answer is on its way: what was sent, not what follows. */
RESPONSE(rxng_resp_asks_again__middle)
{
	struct rxng_resource *res;
	struct rxng_pkt pkt = { .kind = READ, .psn = 0x102 };

	JUDGE(read_at(judge, 0x100, VA, 10 * MTU), EXECUTE);
	res = done(judge, 0);
	CHECK(!rxng_resp_asks_again(res, 0, &pkt));
	CHECK(!rxng_resp_asks_again(res, 2, &pkt));
	CHECK(rxng_resp_asks_again(res, 3, &pkt));
	pkt.psn = 0x100;
	CHECK(rxng_resp_asks_again(res, 1, &pkt));
	/* The next request, or an older one. */
	pkt.psn = 0x10a;
	CHECK(!rxng_resp_asks_again(res, 10, &pkt));
	pkt.psn = 0xff;
	CHECK(!rxng_resp_asks_again(res, 10, &pkt));
	pkt.psn = 0x102;
	pkt.kind = WRITE;
	CHECK(!rxng_resp_asks_again(res, 3, &pkt));
	pkt.kind = ATOMIC;
	CHECK(!rxng_resp_asks_again(res, 3, &pkt));
}

/* Of a READ whose answer is on its way: what has an answer before it. */
RESPONSE(rxng_resp_asks_earlier__kinds)
{
	struct rxng_resource *res;
	struct rxng_pkt pkt = { .kind = READ, .psn = 0xff };

	JUDGE(read_at(judge, 0x100, VA, 10 * MTU), EXECUTE);
	res = done(judge, 0);
	CHECK(rxng_resp_asks_earlier(res, &pkt));
	pkt.kind = ATOMIC;
	CHECK(rxng_resp_asks_earlier(res, &pkt));
	pkt.psn = 0x800101;
	CHECK(rxng_resp_asks_earlier(res, &pkt));
	/* An acknowledgement is all that these want. */
	pkt.kind = WRITE;
	CHECK(!rxng_resp_asks_earlier(res, &pkt));
	pkt.kind = READ;
	for (pkt.psn = 0x100; pkt.psn < 0x10c; pkt.psn++)
		CHECK(!rxng_resp_asks_earlier(res, &pkt));
}

/* The right was taken back since. */
RESPONSE(rxng_resp_request__read_again_without_the_right)
{
	JUDGE(read_at(judge, 0x100, VA, 1000), EXECUTE);
	done(judge, 0);
	JUDGE(read_at(judge, 0x100, VA, 1000), READ_AGAIN);
	judge->r.allow &= ~RXNG_ALLOW_READ;
	JUDGE(read_at(judge, 0x100, VA, 1000), DROP);
}

/* Old ones in between do not count as the gap's end. */
RESPONSE(rxng_resp_request__duplicates_inside_a_gap)
{
	TAKE(0x100);
	SEND_ONLY(0x102, NAK_PSN);
	SEND_ONLY(0x100, ACK_AGAIN);
	SEND_ONLY(0x103, DROP);
}

RESPONSE(rxng_resp_request__duplicate_send_and_write)
{
	TAKE(0x100);
	JUDGE(data(judge, WRITE, 0x101, 3, ONLY, 700, 700), EXECUTE);
	done(judge, 0);
	SEND_ONLY(0x100, ACK_AGAIN);
	JUDGE(data(judge, WRITE, 0x101, 1, FIRST, MTU, 700), ACK_AGAIN);
	JUDGE(data(judge, WRITE, 0x102, 2, LAST, 444, 0), ACK_AGAIN);
	CHECK_EQ(judge->r.ack_psn, 0x103);
	CHECK_EQ(judge->r.msn, 2);
}

/* An ACK that named the READ would say that its data is there. */
RESPONSE(rxng_resp_request__ack_again_behind_a_read)
{
	TAKE(0x100);
	JUDGE(read_at(judge, 0x101, VA, 1000), EXECUTE);
	done(judge, 0);
	JUDGE(atomic_at(judge, 0x105, VA), EXECUTE);
	done(judge, 0);
	SEND_ONLY(0x100, ACK_AGAIN);
	CHECK_EQ(judge->r.ack_psn, 0x100);
	TAKE(0x106);
	CHECK_EQ(judge->r.ack_psn, 0x106);
}

RESPONSE(rxng_resp_request__duplicate_read)
{
	struct rxng_resource *res;

	JUDGE(read_at(judge, 0x100, VA, 1000), EXECUTE);
	res = done(judge, 0);
	CHECK_EQ(res->npkts, 4);
	CHECK_EQ(judge->r.epsn, 0x104);
	JUDGE(read_at(judge, 0x100, VA, 1000), READ_AGAIN);
	CHECK(judge->res == res);
	/* From its middle. */
	JUDGE(read_at(judge, 0x102, VA + 2 * MTU, 1000 - 2 * MTU), READ_AGAIN);
	CHECK(judge->res == res);
	JUDGE(read_at(judge, 0x103, VA + 3 * MTU, 1000 - 3 * MTU), READ_AGAIN);
	/* After newer requests. */
	JUDGE(read_at(judge, 0x104, VA + 5000, 100), EXECUTE);
	done(judge, 0);
	JUDGE(atomic_at(judge, 0x105, VA), EXECUTE);
	done(judge, 0);
	TAKE(0x106);
	JUDGE(read_at(judge, 0x100, VA, 1000), READ_AGAIN);
	CHECK(judge->res == res);
	CHECK_EQ(res->msn, 1);
}

/* Anything but the same READ is a lie or a mistake. */
RESPONSE(rxng_resp_request__duplicate_read_of_other_bytes)
{
	JUDGE(read_at(judge, 0x100, VA, 1000), EXECUTE);
	done(judge, 0);
	JUDGE(read_at(judge, 0x100, VA + 1, 1000), DROP);
	JUDGE(read_at(judge, 0x100, VA, 1001), DROP);
	JUDGE(read_at(judge, 0x100, VA, 999), DROP);
	JUDGE(read_at(judge, 0x101, VA, 1000 - MTU), DROP);
	JUDGE(read_at(judge, 0x101, VA + MTU, 1000), DROP);
	JUDGE(read_at(judge, 0x101, VA + MTU, ~0u), DROP);
	JUDGE(judge_pkt(judge, (struct rxng_pkt){
		.kind = READ, .flags = ONLY, .psn = 0x100, .va = VA,
		.rkey = RKEY + 1, .dma_len = 1000 }), DROP);
}

RESPONSE(rxng_resp_request__duplicate_read_of_nothing)
{
	JUDGE(read_at(judge, 0x100, VA, 0), EXECUTE);
	CHECK_EQ(done(judge, 0)->npkts, 1);
	CHECK_EQ(judge->r.epsn, 0x101);
	JUDGE(read_at(judge, 0x101, VA, 300), EXECUTE);
	done(judge, 0);
	JUDGE(read_at(judge, 0x100, VA, 0), READ_AGAIN);
	CHECK_EQ(judge->res->len, 0);
	JUDGE(read_at(judge, 0x101, VA, 300), READ_AGAIN);
	CHECK_EQ(judge->res->len, 300);
}

/* No more is remembered than was agreed on, and no less. */
RESPONSE(rxng_resp_request__depth)
{
	u32 depth, i;

	for (depth = 1; depth <= 6; depth++) {
		judge_setup();
		judge->r.depth = depth;
		for (i = 0; i < 20; i++) {
			JUDGE(read_at(judge, 0x100 + i, VA + i, 1), EXECUTE);
			done(judge, 0);
		}
		for (i = 0; i < 20; i++)
			CHECK_EQ(read_at(judge, 0x100 + i, VA + i, 1),
				 i < 20 - depth ? RXNG_RESP_DROP :
						  RXNG_RESP_READ_AGAIN);
	}
}

/* What is remembered when the depth changes under way, and then goes on. */
static void change_depth(struct judge *judge, u32 asked, u32 from, u32 to)
{
	u32 kept = min(asked, min(from, to)), i;

	judge_setup();
	judge->r.depth = from;
	for (i = 0; i < asked; i++) {
		JUDGE(atomic_at(judge, 0x100 + i, VA), EXECUTE);
		done(judge, i);
	}
	rxng_resp_set_depth(&judge->r, to);
	for (i = 0; i < asked; i++)
		CHECK_EQ(atomic_at(judge, 0x100 + i, VA),
			 i < asked - kept ? RXNG_RESP_DROP :
					    RXNG_RESP_ATOMIC_AGAIN);
	/* The next ones take the places of the oldest. */
	for (i = asked; i < asked + to; i++) {
		u32 first = max((s32)(asked - kept), (s32)(i + 1 - to));

		JUDGE(atomic_at(judge, 0x100 + i, VA), EXECUTE);
		done(judge, i);
		JUDGE(atomic_at(judge, 0x100 + first, VA), ATOMIC_AGAIN);
		CHECK_EQ(judge->res->orig, first);
		if (first)
			CHECK_EQ(atomic_at(judge, 0x100 + first - 1, VA),
				 RXNG_RESP_DROP);
	}
}

RESPONSE(rxng_resp_set_depth__keeps_the_newest)
{
	u32 asked, from, to;

	for (asked = 1; asked < 12; asked++)
		for (from = 1; from <= 5; from++)
			for (to = 1; to <= 6; to++)
				change_depth(judge, asked, from, to);
}

/* A record that was answered to its end stays so, wherever it moves. */
RESPONSE(rxng_resp_answered__record)
{
	struct rxng_resource first, second;

	JUDGE(read_at(judge, 0x100, VA, 10 * MTU), EXECUTE);
	first = *done(judge, 0);
	JUDGE(read_at(judge, 0x10a, VA, 1), EXECUTE);
	second = *done(judge, 0);
	CHECK(!first.answered && !second.answered);
	rxng_resp_answered(&judge->r, &first);
	JUDGE(read_at(judge, 0x103, VA + 3 * MTU, 7 * MTU), READ_AGAIN);
	CHECK(judge->res->answered);
	JUDGE(read_at(judge, 0x10a, VA, 1), READ_AGAIN);
	CHECK(!judge->res->answered);
	rxng_resp_set_depth(&judge->r, 3);
	JUDGE(read_at(judge, 0x100, VA, 10 * MTU), READ_AGAIN);
	CHECK(judge->res->answered);
	/* Of another kind, or gone. */
	first.kind = ATOMIC;
	first.psn = 0x10a;
	rxng_resp_answered(&judge->r, &first);
	JUDGE(read_at(judge, 0x10a, VA, 1), READ_AGAIN);
	CHECK(!judge->res->answered);
	/* The next one in the same place begins anew. */
	JUDGE(read_at(judge, 0x10b, VA, 1), EXECUTE);
	CHECK(!done(judge, 0)->answered);
}

RESPONSE(rxng_resp_set_depth__none)
{
	JUDGE(atomic_at(judge, 0x100, VA), EXECUTE);
	done(judge, 1);
	rxng_resp_set_depth(&judge->r, 0);
	JUDGE(atomic_at(judge, 0x100, VA), DROP);
	JUDGE(atomic_at(judge, 0x101, VA), NAK_INVALID);
	rxng_resp_set_depth(&judge->r, 3);
	JUDGE(atomic_at(judge, 0x100, VA), DROP);
	JUDGE(atomic_at(judge, 0x101, VA), EXECUTE);
}

RESPONSE(rxng_resp_request__largest_depth)
{
	u32 i;

	judge->r.depth = RXNG_MAX_RESOURCES;
	for (i = 0; i < 300; i++) {
		JUDGE(atomic_at(judge, 0x100 + i, VA), EXECUTE);
		done(judge, i);
	}
	for (i = 300 - RXNG_MAX_RESOURCES; i < 300; i++) {
		JUDGE(atomic_at(judge, 0x100 + i, VA), ATOMIC_AGAIN);
		CHECK_EQ(judge->res->orig, i);
	}
}

/* Carried out once; the answer is the same each time. */
RESPONSE(rxng_resp_request__atomic_replay)
{
	JUDGE(atomic_at(judge, 0x100, VA), EXECUTE);
	done(judge, 77);
	JUDGE(atomic_at(judge, 0x101, VA), EXECUTE);
	done(judge, 78);
	TAKE(0x102);
	JUDGE(atomic_at(judge, 0x100, VA), ATOMIC_AGAIN);
	CHECK_EQ(judge->res->orig, 77);
	CHECK_EQ(judge->res->msn, 1);
	JUDGE(atomic_at(judge, 0x101, VA), ATOMIC_AGAIN);
	CHECK_EQ(judge->res->orig, 78);
	CHECK_EQ(judge->res->msn, 2);
	CHECK_EQ(judge->r.msn, 3);
}

/* Kinds are not mixed up. */
RESPONSE(rxng_resp_request__replay_of_another_kind)
{
	JUDGE(atomic_at(judge, 0x100, VA), EXECUTE);
	done(judge, 77);
	JUDGE(read_at(judge, 0x101, VA, 1), EXECUTE);
	done(judge, 0);
	JUDGE(read_at(judge, 0x100, VA, 1), DROP);
	JUDGE(atomic_at(judge, 0x101, VA), DROP);
	JUDGE(judge_pkt(judge, (struct rxng_pkt){
		.kind = RXNG_KIND_ACK, .flags = ONLY, .psn = 0x100 }), DROP);
}

/* The same PSN a whole circle later: the newest record answers. */
RESPONSE(rxng_resp_request__replay_after_the_wrap)
{
	JUDGE(atomic_at(judge, 0x100, VA), EXECUTE);
	done(judge, 1);
	rxng_resp_start(&judge->r, 0x100);
	JUDGE(atomic_at(judge, 0x100, VA), EXECUTE);
	done(judge, 2);
	JUDGE(atomic_at(judge, 0x100, VA), ATOMIC_AGAIN);
	CHECK_EQ(judge->res->orig, 2);
}

/* The front of a burst was received before. */
RESPONSE(rxng_resp_request__burst_is_trimmed)
{
	struct rxng_write_target target;

	JUDGE(data(judge, WRITE, 0x100, 2, FIRST, 512, 1300), EXECUTE);
	CHECK_EQ(judge->skip, 0);
	done(judge, 0);
	JUDGE(data(judge, WRITE, 0x100, 6, ONLY, 1300, 1300), EXECUTE);
	CHECK_EQ(judge->skip, 2);
	CHECK_EQ(judge->pkt.npkts, 4);
	CHECK_EQ(judge->pkt.psn, 0x102);
	CHECK_EQ(judge->pkt.payload_len, 1300 - 512);
	CHECK(!(judge->pkt.flags & RXNG_PKT_START));
	rxng_resp_target(&judge->r, &judge->pkt, &target);
	CHECK_EQ(target.va, VA + 512);
	CHECK_EQ(target.rkey, RKEY);
	done(judge, 0);
	CHECK_EQ(judge->r.epsn, 0x106);
	CHECK_EQ(judge->r.msn, 1);
	JUDGE(data(judge, WRITE, 0x100, 6, ONLY, 1300, 1300), ACK_AGAIN);
}

RESPONSE(rxng_resp_request__burst_is_trimmed_over_the_wrap)
{
	rxng_resp_start(&judge->r, 0xfffffe);
	JUDGE(data(judge, SEND, 0xfffffe, 1, FIRST, 256, 0), EXECUTE);
	done(judge, 0);
	JUDGE(data(judge, SEND, 0xfffffe, 4, ONLY, 800, 0), EXECUTE);
	CHECK_EQ(judge->skip, 1);
	CHECK_EQ(judge->pkt.psn, 0xffffff);
	done(judge, 0);
	CHECK_EQ(judge->r.got, 800);
	CHECK_EQ(judge->r.epsn, 2);
}

/* Which packet may come in which place. */
RESPONSE(rxng_resp_request__order_of_packets)
{
	static const u8 kinds[] = { RXNG_KIND_NONE, SEND, WRITE };
	static const u16 places[] = { FIRST, MIDDLE, LAST, ONLY };
	size_t open, kind, place;

	for (open = 0; open < 3; open++)
		for (kind = 1; kind < 3; kind++)
			for (place = 0; place < 4; place++) {
				bool start = places[place] & FIRST;
				bool good = open ? !start && kind == open :
						   start;

				judge_setup();
				if (open) {
					JUDGE(data(judge, kinds[open], 0x100, 1,
						   FIRST, MTU, 2 * MTU),
					      EXECUTE);
					done(judge, 0);
				}
				/* A WRITE's middle leaves a byte to come. */
				judge->r.resid += places[place] == MIDDLE;
				CHECK_EQ(data(judge, kinds[kind],
					      judge->r.epsn, 1, places[place],
					      MTU,
					      MTU + (places[place] == FIRST)),
					 good ? RXNG_RESP_EXECUTE :
						RXNG_RESP_NAK_INVALID);
			}
}

/* READs and atomics do not stand inside a message. */
RESPONSE(rxng_resp_request__read_inside_a_message)
{
	JUDGE(data(judge, SEND, 0x100, 1, FIRST, MTU, 0), EXECUTE);
	done(judge, 0);
	JUDGE(read_at(judge, 0x101, VA, 1), NAK_INVALID);
	JUDGE(atomic_at(judge, 0x101, VA), NAK_INVALID);
	JUDGE(data(judge, SEND, 0x101, 1, LAST, 1, 0), EXECUTE);
	done(judge, 0);
	JUDGE(read_at(judge, 0x102, VA, 1), EXECUTE);
}

RESPONSE(rxng_resp_request__response_as_request)
{
	JUDGE(judge_pkt(judge, (struct rxng_pkt){
		.kind = RXNG_KIND_READ_RESP, .flags = ONLY, .psn = 0x100 }),
	      NAK_INVALID);
}

static const struct {
	const char *name;
	u32 npkts;
	u16 place;
	u32 len;
	bool good;
} lengths[] = {
	{ "only_empty", 1, ONLY, 0, true },
	{ "only_full", 1, ONLY, 256, true },
	{ "only_long", 1, ONLY, 257, false },
	{ "first_full", 1, FIRST, 256, true },
	{ "first_short", 1, FIRST, 255, false },
	{ "first_empty", 1, FIRST, 0, false },
	{ "first_long", 1, FIRST, 257, false },
	{ "middle_full", 1, MIDDLE, 256, true },
	{ "middle_short", 1, MIDDLE, 252, false },
	{ "middle_empty", 1, MIDDLE, 0, false },
	{ "last_one", 1, LAST, 1, true },
	{ "last_full", 1, LAST, 256, true },
	{ "last_empty", 1, LAST, 0, false },
	{ "last_long", 1, LAST, 257, false },
	{ "burst_full", 3, FIRST, 768, true },
	{ "burst_short", 3, FIRST, 767, false },
	{ "burst_whole", 3, ONLY, 513, true },
	{ "burst_whole_too_short", 3, ONLY, 512, false },
	{ "burst_whole_too_long", 3, ONLY, 769, false },
	{ "burst_last", 3, LAST, 513, true },
	{ "burst_last_too_short", 3, LAST, 512, false },
};

TEST_EACH(rxng_resp_request__length, lengths)
{
	static const u8 kinds[] = { SEND, WRITE };
	struct judge *judge;
	size_t i;

	for (i = 0; i < 2; i++) {
		bool start = arg->place & RXNG_PKT_START;
		u32 rest = arg->place & RXNG_PKT_END ? arg->len : 5000;

		judge = judge_setup();
		if (!start) {
			JUDGE(data(judge, kinds[i], 0x100, 1, FIRST, MTU,
				   MTU + rest + !rest), EXECUTE);
			done(judge, 0);
		}
		CHECK_EQ(data(judge, kinds[i], judge->r.epsn, arg->npkts,
			      arg->place, arg->len, rest),
			 arg->good ? RXNG_RESP_EXECUTE : RXNG_RESP_NAK_INVALID);
	}
}

/* The RETH's length is what comes, to the byte (9.7.4.1.6). */
RESPONSE(rxng_resp_request__write_length)
{
	JUDGE(data(judge, WRITE, 0x100, 1, ONLY, 10, 10), EXECUTE);
	JUDGE(data(judge, WRITE, 0x100, 1, ONLY, 10, 11), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x100, 1, ONLY, 10, 9), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x100, 1, ONLY, 0, 0), EXECUTE);
	JUDGE(data(judge, WRITE, 0x100, 1, ONLY, 0, 1), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x100, 1, FIRST, 256, 256), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x100, 1, FIRST, 256, 0x80000001), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x100, 1, FIRST, 256, ~0u), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x100, 1, FIRST, 256, 0x80000000), EXECUTE);
	JUDGE(data(judge, WRITE, 0x100, 1, FIRST, 256, 520), EXECUTE);
	done(judge, 0);
	JUDGE(data(judge, WRITE, 0x101, 1, LAST, 100, 0), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x101, 1, MIDDLE, 256, 0), EXECUTE);
	done(judge, 0);
	JUDGE(data(judge, WRITE, 0x102, 1, MIDDLE, 256, 0), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x102, 1, LAST, 7, 0), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x102, 1, LAST, 9, 0), NAK_INVALID);
	JUDGE(data(judge, WRITE, 0x102, 1, LAST, 8, 0), EXECUTE);
}

RESPONSE(rxng_resp_request__longest_send)
{
	JUDGE(data(judge, SEND, 0x100, 1, FIRST, 256, 0), EXECUTE);
	done(judge, 0);
	judge->r.got = RXNG_MAX_MESSAGE - 256;
	JUDGE(data(judge, SEND, 0x101, 1, LAST, 256, 0), EXECUTE);
	judge->r.got++;
	JUDGE(data(judge, SEND, 0x101, 1, LAST, 256, 0), NAK_INVALID);
}

RESPONSE(rxng_resp_request__longest_read)
{
	JUDGE(read_at(judge, 0x100, VA, RXNG_MAX_MESSAGE + 1), NAK_INVALID);
	JUDGE(read_at(judge, 0x100, VA, RXNG_MAX_MESSAGE), EXECUTE);
	CHECK_EQ(done(judge, 0)->npkts, 1u << 23);
	CHECK_EQ(judge->r.epsn, 0x800100);
	/* Its first packet is as far back as PSNs reach. */
	JUDGE(read_at(judge, 0x100, VA, RXNG_MAX_MESSAGE), READ_AGAIN);
}

RESPONSE(rxng_resp_request__rights)
{
	u32 allow;

	for (allow = 0; allow < 8; allow++) {
		judge_setup();
		judge->r.allow = allow << 1;
		SEND_ONLY(0x100, EXECUTE);
		CHECK_EQ(data(judge, WRITE, 0x100, 1, ONLY, 1, 1) ==
				 RXNG_RESP_EXECUTE, !!(allow & 1));
		CHECK_EQ(read_at(judge, 0x100, VA, 1) == RXNG_RESP_EXECUTE,
			 !!(allow & 2));
		CHECK_EQ(atomic_at(judge, 0x100, VA) == RXNG_RESP_EXECUTE,
			 !!(allow & 4));
	}
}

RESPONSE(rxng_resp_request__no_resources)
{
	judge->r.depth = 0;
	JUDGE(read_at(judge, 0x100, VA, 1), NAK_INVALID);
	JUDGE(atomic_at(judge, 0x100, VA), NAK_INVALID);
	JUDGE(read_at(judge, 0xff, VA, 1), DROP);
	TAKE(0x100);
}

RESPONSE(rxng_resp_request__unaligned_atomic)
{
	u32 i;

	for (i = 1; i < 8; i++)
		JUDGE(atomic_at(judge, 0x100, VA + i), NAK_INVALID);
	JUDGE(atomic_at(judge, 0x100, VA + 8), EXECUTE);
}

RESPONSE(rxng_resp_target__follows_the_message)
{
	struct rxng_write_target target;

	JUDGE(data(judge, WRITE, 0x100, 2, FIRST, 512, 800), EXECUTE);
	rxng_resp_target(&judge->r, &judge->pkt, &target);
	CHECK_EQ(target.va, VA);
	CHECK_EQ(target.rkey, RKEY);
	done(judge, 0);
	JUDGE(judge_pkt(judge, (struct rxng_pkt){
		.kind = WRITE, .psn = 0x102, .payload_len = 256 }), EXECUTE);
	rxng_resp_target(&judge->r, &judge->pkt, &target);
	CHECK_EQ(target.va, VA + 512);
	CHECK_EQ(target.rkey, RKEY);
}

/* Addresses end at 2^64; that the range fits is the region's question. */
RESPONSE(rxng_resp_target__top_of_memory)
{
	struct rxng_write_target target;

	JUDGE(judge_pkt(judge, (struct rxng_pkt){
		.kind = WRITE, .flags = FIRST, .psn = 0x100,
		.payload_len = 256, .dma_len = 300, .va = -256ull }), EXECUTE);
	done(judge, 0);
	JUDGE(data(judge, WRITE, 0x101, 1, LAST, 44, 0), EXECUTE);
	rxng_resp_target(&judge->r, &judge->pkt, &target);
	CHECK_EQ(target.va, 0);
}

RESPONSE(rxng_resp_done__counts_messages)
{
	rxng_resp_reset(&judge->r);
	judge->r.msn = 0xffffff;
	TAKE(0);
	CHECK_EQ(judge->r.msn, 0);
	JUDGE(read_at(judge, 1, VA, 1000), EXECUTE);
	CHECK_EQ(done(judge, 0)->msn, 1);
	JUDGE(atomic_at(judge, 5, VA), EXECUTE);
	CHECK_EQ(done(judge, 0)->msn, 2);
	JUDGE(data(judge, WRITE, 6, 1, FIRST, MTU, 300), EXECUTE);
	CHECK(!done(judge, 0));
	CHECK_EQ(judge->r.msn, 2);
}

/* What goes back is parsed as what it was meant to be. */
static void check_built(const struct rxng_pkt *pkt, u8 opcode)
{
	u8 bytes[RXNG_MAX_HDR + RXNG_ICRC_LEN] = {};
	u32 len = rxng_hdr_len(pkt);
	struct rxng_pkt read;
	u16 pkey;

	rxng_build(bytes, pkt);
	CHECK_EQ(rxng_parse(bytes, len, len + RXNG_ICRC_LEN, &read, &pkey),
		 RXNG_PARSE_OK);
	CHECK_EQ(read.opcode, opcode);
	CHECK_EQ(read.kind, pkt->kind);
	CHECK_EQ(read.psn, pkt->psn);
	CHECK_EQ(read.syndrome, pkt->syndrome);
	CHECK_EQ(read.msn, pkt->msn);
	CHECK_EQ(read.npkts, 1);
	CHECK_EQ(read.payload_len, 0);
}

RESPONSE(rxng_resp_ack__whole)
{
	struct rxng_pkt pkt;

	TAKE(0x100);
	TAKE(0x101);
	rxng_resp_ack(&judge->r, RXNG_AETH_NAK | RXNG_NAK_PSN, 0x102, &pkt);
	CHECK_EQ(pkt.syndrome, RXNG_AETH_NAK | RXNG_NAK_PSN);
	CHECK_EQ(pkt.psn, 0x102);
	CHECK_EQ(pkt.msn, 2);
	CHECK_EQ(pkt.kind, RXNG_KIND_ACK);
	check_built(&pkt, RXNG_RC_ACK);
}

RESPONSE(rxng_resp_atomic_ack__whole)
{
	struct rxng_resource *res;
	struct rxng_pkt pkt;

	TAKE(0x100);
	JUDGE(atomic_at(judge, 0x101, VA), EXECUTE);
	res = done(judge, 0x1122334455667788);
	/* It answers for the atomic, whatever came since. */
	TAKE(0x102);
	rxng_resp_atomic_ack(res, RXNG_AETH_ACK | 5, &pkt);
	CHECK_EQ(pkt.syndrome, RXNG_AETH_ACK | 5);
	CHECK_EQ(pkt.psn, 0x101);
	CHECK_EQ(pkt.msn, 2);
	CHECK_EQ(pkt.orig, 0x1122334455667788);
	CHECK_EQ(pkt.kind, RXNG_KIND_ATOMIC_ACK);
	check_built(&pkt, RXNG_RC_ATOMIC_ACK);
}

/* What comes behind an RNR NAK is dropped; the packet itself may come. */
RESPONSE(rxng_resp_not_ready__quiet)
{
	u32 i;

	SEND_ONLY(0x100, EXECUTE);
	rxng_resp_not_ready(&judge->r, &judge->pkt);
	for (i = 1; i < 5; i++)
		SEND_ONLY(0x100 + i, DROP);
	SEND_ONLY(0x100, EXECUTE);
	rxng_resp_not_ready(&judge->r, &judge->pkt);
	SEND_ONLY(0x101, DROP);
	TAKE(0x100);
	TAKE(0x101);
	SEND_ONLY(0x103, NAK_PSN);
}

/* When it is sent again and lost, what follows it tells. */
RESPONSE(rxng_resp_not_ready__lost_when_sent_again)
{
	SEND_ONLY(0x100, EXECUTE);
	rxng_resp_not_ready(&judge->r, &judge->pkt);
	SEND_ONLY(0x101, DROP);
	SEND_ONLY(0x102, DROP);
	SEND_ONLY(0x101, NAK_PSN);
	SEND_ONLY(0x102, DROP);
}

static const struct {
	const char *name;
	u32 len;
	u32 first;
	u32 from;
	u32 max;
	u32 npkts;
	u16 place;
	u32 payload;
	u8 opcode;
} reads[] = {
	{ "whole", 1000, 0, 0, 9, 4, ONLY, 1000, RXNG_RC_READ_RESP_FIRST },
	{ "one_packet", 200, 0, 0, 9, 1, ONLY, 200, RXNG_RC_READ_RESP_ONLY },
	{ "nothing", 0, 0, 0, 9, 1, ONLY, 0, RXNG_RC_READ_RESP_ONLY },
	{ "first", 1000, 0, 0, 1, 1, FIRST, 256, RXNG_RC_READ_RESP_FIRST },
	{ "middle", 1000, 0, 1, 1, 1, MIDDLE, 256, RXNG_RC_READ_RESP_MIDDLE },
	{ "middles", 1000, 0, 1, 2, 2, MIDDLE, 512, RXNG_RC_READ_RESP_MIDDLE },
	{ "last", 1000, 0, 3, 5, 1, LAST, 232, RXNG_RC_READ_RESP_LAST },
	{ "to_the_end", 1000, 0, 1, 5, 3, LAST, 744, RXNG_RC_READ_RESP_MIDDLE },
	{ "full_last", 512, 0, 1, 5, 1, LAST, 256, RXNG_RC_READ_RESP_LAST },
	{ "again", 1000, 2, 2, 1, 1, FIRST, 256, RXNG_RC_READ_RESP_FIRST },
	{ "again_last", 1000, 3, 3, 9, 1, ONLY, 232, RXNG_RC_READ_RESP_ONLY },
	{ "again_goes_on", 1000, 2, 3, 9, 1, LAST, 232, RXNG_RC_READ_RESP_LAST },
};

TEST_EACH(rxng_resp_read_burst__places, reads)
{
	struct judge *judge = judge_setup();
	struct rxng_resource *res;
	struct rxng_pkt pkt;

	JUDGE(read_at(judge, 0x100, VA, arg->len), EXECUTE);
	res = done(judge, 0);
	rxng_resp_read_burst(res, MTU, arg->first, arg->from, arg->max, &pkt);
	CHECK_EQ(pkt.kind, RXNG_KIND_READ_RESP);
	CHECK_EQ(pkt.psn, 0x100 + arg->from);
	CHECK_EQ(pkt.npkts, arg->npkts);
	CHECK_EQ(pkt.flags & ONLY, arg->place);
	CHECK_EQ(!!(pkt.flags & RXNG_PKT_AETH), !!arg->place);
	CHECK_EQ(pkt.payload_len, arg->payload);
	CHECK_EQ(pkt.opcode, arg->opcode);
	CHECK_EQ(pkt.msn, 1);
}
