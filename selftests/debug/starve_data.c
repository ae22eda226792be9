// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Messages while memory is short: they go later and arrive whole, no
 * completion is lost, and to the transport nothing has happened.
 */
#include <stdio.h>
#include <stdlib.h>

#include "inject.h"

#define LARGEST 65536
#define MANY 2000
#define MARK 0x6d61726b
#define FLIGHT 16

/* What counts to the transport as a loss. */
static const char *const losses[] = {
	"retransmit", "retry_exceeded", "rnr_retry_exceeded", "rx_rnr",
	"tx_rnr", "rx_nak_seq", "out_of_seq_request", "dup_request",
	"local_err", "remote_err", "rx_queue_full", "cq_overflow",
	"tx_no_route", "rx_no_qp", "rx_malformed", "rx_icrc_err",
};

struct hungry {
	struct pair *pair;
	struct buf *local, *remote;
	unsigned long lost[2][ARRAY_SIZE(losses)];
	unsigned long congested;
};

static const char *device(struct end *end)
{
	return ibv_get_device_name(end->host->ctx->device);
}

static unsigned long congested(struct hungry *h)
{
	return counter(device(&h->pair->a), "tx_congested") +
	       counter(device(&h->pair->b), "tx_congested");
}

static void hungry_open(struct hungry *h)
{
	struct param param = param_default();
	unsigned int i;

	inject_open();
	/* An answer that is late is no lost one: 8.6 s. */
	param.timeout = 21;
	h->pair = pair_new(&param);
	h->local = buf_new(h->pair->a.host->pd, LARGEST, ALL_ACCESS);
	h->remote = buf_new(h->pair->b.host->pd, LARGEST, ALL_ACCESS);
	/* The neighbours on the way are known from here on. */
	end_ping(&h->pair->a, &h->pair->b);
	for (i = 0; i < ARRAY_SIZE(losses); i++) {
		h->lost[0][i] = counter(device(&h->pair->a), losses[i]);
		h->lost[1][i] = counter(device(&h->pair->b), losses[i]);
	}
	h->congested = congested(h);
}

/* Write which counters of an end moved, and how far. */
static void put_moved(FILE *f, struct end *end, const unsigned long *before)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(losses); i++) {
		unsigned long now = counter(device(end), losses[i]);

		if (now != before[i])
			fprintf(f, " %s: %s %lu", device(end), losses[i],
				now - before[i]);
	}
}

static void hungry_close(struct hungry *h)
{
	char text[1024] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");

	CHECK_ERRNO(f);
	put_moved(f, &h->pair->a, h->lost[0]);
	put_moved(f, &h->pair->b, h->lost[1]);
	fclose(f);
	if (text[0])
		FAIL("to the transport something was lost:%s", text);
	wc_none(h->pair->a.scq);
	wc_none(h->pair->b.rcq);
	end_ping(&h->pair->b, &h->pair->a);
	buf_free(h->local);
	buf_free(h->remote);
	pair_teardown(h->pair);
}

/* ---- one message, and what it does ------------------------------------- */

struct message {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t size;
};

#define SIZES(label, op)						\
	{ label "_0", op, 0 }, { label "_8", op, 8 },			\
	{ label "_1025", op, 1025 }, { label "_5000", op, 5000 },	\
	{ label "_64k", op, LARGEST }

static const struct message messages[] = {
	SIZES("send", IBV_WR_SEND),
	SIZES("write", IBV_WR_RDMA_WRITE),
	SIZES("read", IBV_WR_RDMA_READ),
	{ "write_imm_5000", IBV_WR_RDMA_WRITE_WITH_IMM, 5000 },
	{ "fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8 },
	{ "compare_swap", IBV_WR_ATOMIC_CMP_AND_SWP, 8 },
};

static bool takes_receive(const struct message *m)
{
	return m->opcode == IBV_WR_SEND ||
	       m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* The request, and in the shadows what it should do. */
static struct ibv_send_wr prepare(struct hungry *h, const struct message *m,
				  uint64_t id, struct ibv_sge *sge)
{
	struct ibv_sge there = buf_sge(h->remote, 0, m->size);
	struct ibv_send_wr wr;
	uint64_t old;

	buf_refill(h->local);
	buf_refill(h->remote);
	*sge = buf_sge(h->local, 0, m->size);
	wr = send_wr(m->opcode, id, sge, !!m->size, IBV_SEND_SIGNALED);
	wr_remote(&wr, buf_addr(h->remote, 0), h->remote->mr->rkey);
	switch (m->opcode) {
	case IBV_WR_RDMA_READ:
		buf_move(h->local, sge, h->remote, &there, m->size);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		old = buf_get64(h->remote, 0);
		wr_atomic(&wr, buf_addr(h->remote, 0), h->remote->mr->rkey,
			  id + 1, 0);
		buf_put64(h->local, 0, old);
		buf_put64(h->remote, 0, old + id + 1);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		old = buf_get64(h->remote, 0);
		wr_atomic(&wr, buf_addr(h->remote, 0), h->remote->mr->rkey,
			  old, ~id);
		buf_put64(h->local, 0, old);
		buf_put64(h->remote, 0, ~id);
		break;
	default:
		buf_move(h->remote, &there, h->local, sge, m->size);
		break;
	}
	if (takes_receive(m))
		end_recv(&h->pair->b, id, &there, 1);
	return wr;
}

static void expect(struct hungry *h, const struct message *m, uint64_t id)
{
	wc_expect(h->pair->a.scq, id, IBV_WC_SUCCESS);
	if (takes_receive(m)) {
		struct ibv_wc wc = wc_expect(h->pair->b.rcq, id,
					     IBV_WC_SUCCESS);

		CHECK_EQ(wc.byte_len, m->size);
	}
	buf_check(h->local);
	buf_check(h->remote);
}

/* ---- a doorbell that fails at each place ------------------------------- */

/*
 * The stock provider has put the requests into the ring when it rings: when
 * that fails, they wait for the next doorbell.
 */
static void ring_again(struct hungry *h, const struct message *m, uint64_t id)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, MARK, NULL, 0,
					IBV_SEND_SIGNALED);

	end_send(&h->pair->a, &wr);
	expect(h, m, id);
	wc_expect(h->pair->a.scq, MARK, IBV_WC_SUCCESS);
}

static bool starve(struct hungry *h, const struct message *m, unsigned int nth)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	unsigned int left;
	int err;

	wr = prepare(h, m, nth, &sge);
	inject_arm(nth);
	err = end_try_send(&h->pair->a, &wr);
	left = inject_disarm();
	if (!err) {
		expect(h, m, nth);
		return !left;
	}
	if (left)
		FAIL("%s, and nothing was made to fail", strerror(err));
	if (!inject_is_cause(err))
		FAIL("place %u: %d (%s)", nth, err, strerror(err));
	ring_again(h, m, nth);
	return true;
}

TEST_EACH_LIMIT(doorbell, messages, 200)
{
	struct hungry h = {};
	unsigned int n = 0;

	hungry_open(&h);
	do {
		if (++n == MANY)
			FAIL("%u places, and no end", n);
	} while (starve(&h, arg, n));
	hungry_close(&h);
	tap_note("%s: %u places", arg->name, n - 1);
}

/* The same when the way to the peer has to be found again. */
TEST_LIMIT(doorbell_without_route, 200)
{
	static const struct message m = { "write_8", IBV_WR_RDMA_WRITE, 8 };
	struct hungry h = {};
	unsigned int n = 0;

	hungry_open(&h);
	do {
		FILE *f = fopen("/proc/sys/net/ipv4/route/flush", "w");

		CHECK_ERRNO(f && fputs("1", f) > 0 && !fclose(f));
		if (++n == MANY)
			FAIL("%u places, and no end", n);
	} while (starve(&h, &m, n));
	hungry_close(&h);
	tap_note("%u places", n - 1);
}

/* ---- the stock of pages is used up -------------------------------------- */

/* Smaller ones may go round in packets that were used before. */
static const struct message long_messages[] = {
	{ "send_64k", IBV_WR_SEND, LARGEST },
	{ "write_64k", IBV_WR_RDMA_WRITE, LARGEST },
	{ "read_64k", IBV_WR_RDMA_READ, LARGEST },
	{ "write_imm_64k", IBV_WR_RDMA_WRITE_WITH_IMM, LARGEST },
};

/* Messages, until one of them had to be sent later. */
static void send_until_congested(struct hungry *h, const struct message *m)
{
	unsigned int i;

	h->congested = congested(h);
	for (i = 0; congested(h) == h->congested; i++) {
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		if (i == MANY)
			FAIL("%u messages, and none had to be sent later", i);
		wr = prepare(h, m, i, &sge);
		end_send(&h->pair->a, &wr);
		expect(h, m, i);
	}
}

TEST_EACH_LIMIT(stock, long_messages, 300)
{
	struct hungry h = {};
	int i;

	hungry_open(&h);
	for (i = 0; i < 3; i++) {
		inject_drop();
		send_until_congested(&h, arg);
		inject_rain_end();
	}
	hungry_close(&h);
}

/* ---- any allocation, at any time --------------------------------------- */

struct shortage {
	const char *name;
	unsigned int percent;
};

static const struct shortage shortages[] = {
	{ "10", 10 },
	{ "50", 50 },
};

TEST_EACH_LIMIT(rain, shortages, 300)
{
	struct hungry h = {};
	uint64_t i, n = tap_rounds(400);

	hungry_open(&h);
	inject_rain(arg->percent);
	for (i = 0; i < n || congested(&h) == h.congested; i++) {
		const struct message *m = &messages[i % ARRAY_SIZE(messages)];
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		wr = prepare(&h, m, i, &sge);
		/* A failed ring may leave it to the next doorbell. */
		if (end_try_send(&h.pair->a, &wr))
			ring_again(&h, m, i);
		else
			expect(&h, m, i);
	}
	inject_rain_end();
	hungry_close(&h);
}

/* Many under way at once, in both directions, all of them the same bytes. */
TEST_EACH_LIMIT(rain_stream, shortages, 300)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
	};
	uint64_t i, n = tap_rounds(800);
	struct ibv_sge here, there;
	struct hungry h = {};

	hungry_open(&h);
	here = buf_sge(h.local, 0, LARGEST);
	there = buf_sge(h.remote, 0, LARGEST);
	buf_move(h.remote, &there, h.local, &here, LARGEST);
	memcpy(h.remote->mem, h.local->mem, LARGEST);
	inject_rain(arg->percent);
	for (i = 0; i < n + FLIGHT; i++) {
		enum ibv_wr_opcode opcode = opcodes[i % 3];
		struct ibv_send_wr wr;

		if (i >= FLIGHT) {
			wc_expect(h.pair->a.scq, i - FLIGHT, IBV_WC_SUCCESS);
			if (opcodes[(i - FLIGHT) % 3] == IBV_WR_SEND)
				wc_expect(h.pair->b.rcq, i - FLIGHT,
					  IBV_WC_SUCCESS);
		}
		if (i >= n)
			continue;
		here = buf_sge(h.local, 0, 1 + i * 7919 % LARGEST);
		wr = send_wr(opcode, i, &here, 1, IBV_SEND_SIGNALED);
		wr_remote(&wr, buf_addr(h.remote, 0), h.remote->mr->rkey);
		if (opcode == IBV_WR_SEND)
			end_recv(&h.pair->b, i, &there, 1);
		end_send(&h.pair->a, &wr);
	}
	inject_rain_end();
	buf_check(h.local);
	buf_check(h.remote);
	hungry_close(&h);
}
