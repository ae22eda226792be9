// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Streams: mixed, many, both ways, many queue pairs at once. */
#include <arpa/inet.h>
#include <sched.h>
#include <stdlib.h>

#include "verbs.h"

/* ---- a random mixture, in order ---------------------------------------- */

#define AREA (256 * 1024)
#define MIX_MAX 65536
#define SLOTS 32			/* receives in flight */
#define WINDOW 48			/* requests in flight */

/* Ids that are due on a completion queue, oldest first. */
struct due {
	uint64_t id[256];
	unsigned int head, tail;
};

struct mix {
	struct pair *pair;
	struct buf *src, *read_into, *olds;	/* at the requester */
	struct buf *write_into, *read_from, *cells, *received;
	struct due sends, receives;
	unsigned int unconfirmed;	/* posted after the last signalled */
	uint64_t posted, received_n;
	uint64_t random;
};

static uint32_t below(struct mix *m, uint32_t n)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return (m->random >> 11) % n;
}

static void due_add(struct due *due, uint64_t id)
{
	CHECK(due->tail - due->head < ARRAY_SIZE(due->id));
	due->id[due->tail++ % ARRAY_SIZE(due->id)] = id;
}

static void due_wait(struct due *due, struct ibv_cq *cq)
{
	wc_expect(cq, due->id[due->head++ % ARRAY_SIZE(due->id)],
		  IBV_WC_SUCCESS);
}

static void mix_drain(struct mix *m)
{
	while (m->receives.head != m->receives.tail)
		due_wait(&m->receives, m->pair->b.rcq);
	while (m->sends.head != m->sends.tail)
		due_wait(&m->sends, m->pair->a.scq);
	m->unconfirmed = 0;
}

/* Sizes spread over the magnitudes, small ones as often as large ones. */
static uint32_t mix_size(struct mix *m)
{
	return below(m, 1 + below(m, 1u << below(m, 17)));
}

static void mix_receive(struct mix *m, struct ibv_sge into[2], uint32_t length)
{
	size_t at = (m->received_n++ % SLOTS) * (MIX_MAX + 64);
	uint32_t cut = below(m, length + 1);

	into[0] = buf_sge(m->received, at, cut);
	into[1] = buf_sge(m->received, at + cut + 5, MIX_MAX - cut);
	end_recv(&m->pair->b, m->received_n, into, 2);
	due_add(&m->receives, m->received_n);
}

static void mix_send(struct mix *m, struct ibv_send_wr *wr, uint32_t length)
{
	struct ibv_sge into[2];

	mix_receive(m, into, length);
	wr->imm_data = htonl(m->posted);
	if (length)
		buf_move(m->received, into, m->src, wr->sg_list, length);
}

static void mix_write(struct mix *m, struct ibv_send_wr *wr, uint32_t length)
{
	struct ibv_sge to = buf_sge(m->write_into, below(m, AREA - length),
				    length), unused[2];

	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		mix_receive(m, unused, 0);
	wr_remote(wr, to.addr, m->write_into->mr->rkey);
	if (length)
		buf_move(m->write_into, &to, m->src, wr->sg_list, length);
}

static void mix_read(struct mix *m, struct ibv_send_wr *wr, struct ibv_sge *sge,
		     uint32_t length)
{
	struct ibv_sge from = buf_sge(m->read_from, below(m, AREA - length),
				      length);

	*sge = buf_sge(m->read_into, below(m, AREA - length), length);
	wr_remote(wr, from.addr, m->read_from->mr->rkey);
	if (length)
		buf_move(m->read_into, sge, m->read_from, &from, length);
}

static void mix_atomic(struct mix *m, struct ibv_send_wr *wr,
		       struct ibv_sge *sge)
{
	size_t at = 8 * below(m, 16);
	struct ibv_sge cell = buf_sge(m->cells, at, 8);
	uint64_t old = buf_get64(m->cells, at), add = m->random;
	bool hit = below(m, 2);

	*sge = buf_sge(m->olds, below(m, 4000), 8);
	buf_move(m->olds, sge, m->cells, &cell, 8);
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr_atomic(wr, cell.addr, m->cells->mr->rkey, add, 0);
		buf_put64(m->cells, at, old + add);
	} else {
		wr_atomic(wr, cell.addr, m->cells->mr->rkey,
			  hit ? old : ~old, add);
		buf_put64(m->cells, at, hit ? add : old);
	}
}

static void mix_step(struct mix *m)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	enum ibv_wr_opcode opcode = opcodes[below(m, ARRAY_SIZE(opcodes))];
	uint32_t length = mix_size(m);
	struct ibv_sge sge = buf_sge(m->src, below(m, AREA - length), length);
	bool signalled = below(m, 2) || m->unconfirmed + 2 > WINDOW / 2;
	struct ibv_send_wr wr = send_wr(opcode, ++m->posted, &sge, 1,
					signalled ? IBV_SEND_SIGNALED : 0);

	if (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM)
		mix_send(m, &wr, length);
	else if (opcode == IBV_WR_RDMA_READ)
		mix_read(m, &wr, &sge, length);
	else if (opcode == IBV_WR_RDMA_WRITE ||
		 opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		mix_write(m, &wr, length);
	else
		mix_atomic(m, &wr, &sge);
	end_send(&m->pair->a, &wr);
	m->unconfirmed = signalled ? 0 : m->unconfirmed + 1;
	if (signalled)
		due_add(&m->sends, m->posted);
}

/* After a ping all that was posted before it is done, signalled or not. */
static void mix_check(struct mix *m)
{
	mix_drain(m);
	end_ping(&m->pair->a, &m->pair->b);
	buf_check(m->src);
	buf_check(m->read_into);
	buf_check(m->olds);
	buf_check(m->write_into);
	buf_check(m->read_from);
	buf_check(m->cells);
	buf_check(m->received);
}

static void mix_open(struct mix *m, struct pair *pair, uint64_t seed)
{
	struct ibv_pd *a = pair->a.host->pd, *b = pair->b.host->pd;

	memset(m, 0, sizeof(*m));
	m->pair = pair;
	m->random = seed;
	m->src = buf_new(a, AREA, IBV_ACCESS_LOCAL_WRITE);
	m->read_into = buf_new(a, AREA, IBV_ACCESS_LOCAL_WRITE);
	m->olds = buf_new(a, 4096, IBV_ACCESS_LOCAL_WRITE);
	m->write_into = buf_new(b, AREA, ALL_ACCESS);
	m->read_from = buf_new(b, AREA, IBV_ACCESS_REMOTE_READ);
	m->cells = buf_new(b, 4096, ALL_ACCESS);
	m->received = buf_new(b, SLOTS * (MIX_MAX + 64), IBV_ACCESS_LOCAL_WRITE);
}

static void mix_close(struct mix *m)
{
	buf_free(m->src);
	buf_free(m->read_into);
	buf_free(m->olds);
	buf_free(m->write_into);
	buf_free(m->read_from);
	buf_free(m->cells);
	buf_free(m->received);
}

struct mix_case {
	const char *name;
	enum ibv_mtu mtu;
	uint32_t psn;
};

/* The packet sequence number starts low, and just before it wraps. */
static const struct mix_case mixes[] = {
	{ "mtu256", IBV_MTU_256, 0 },
	{ "mtu1024", IBV_MTU_1024, 0x654321 },
	{ "mtu4096", IBV_MTU_4096, 1 },
	{ "psn_wrap", IBV_MTU_1024, 0xfffff0 },
	{ "psn_half", IBV_MTU_512, 0x7ffff0 },
};

TEST_EACH(mixed, mixes)
{
	struct param param = param_default();
	unsigned int i, rounds = tap_rounds(4000);
	struct pair *pair;
	struct mix m;

	param.mtu = arg->mtu;
	param.psn = arg->psn;
	pair = pair_new(&param);
	mix_open(&m, pair, 0x2545f4914f6cdd1dull + arg->psn);
	for (i = 0; i < rounds; i++) {
		while (m.receives.tail - m.receives.head >= SLOTS)
			due_wait(&m.receives, pair->b.rcq);
		while (m.sends.tail - m.sends.head >= WINDOW / 2)
			due_wait(&m.sends, pair->a.scq);
		if (m.posted - (m.sends.head == m.sends.tail ? m.posted :
		    m.sends.id[m.sends.head % 256]) >= WINDOW)
			due_wait(&m.sends, pair->a.scq);
		mix_step(&m);
		if (i % 500 == 499)
			mix_check(&m);
	}
	mix_check(&m);
	mix_close(&m);
	pair_teardown(pair);
}

/* ---- many small messages ----------------------------------------------- */

#define DEEP 50

struct stream {
	struct end *from, *to;
	struct buf *out, *in;
	uint32_t bytes;
	uint64_t total, posted, sent, receives, received;
};

static void stream_open(struct stream *s, struct end *from, struct end *to,
			uint32_t bytes, uint64_t total)
{
	memset(s, 0, sizeof(*s));
	s->from = from;
	s->to = to;
	s->bytes = bytes;
	s->total = total;
	s->out = buf_new(from->host->pd, DEEP * bytes, IBV_ACCESS_LOCAL_WRITE);
	s->in = buf_new(to->host->pd, DEEP * bytes, IBV_ACCESS_LOCAL_WRITE);
}

static void stream_close(struct stream *s)
{
	buf_free(s->out);
	buf_free(s->in);
}

static void stamp(uint8_t *mem, uint32_t bytes, uint64_t n)
{
	memcpy(mem, &n, sizeof(n));
	if (bytes > 16)
		memcpy(mem + bytes - sizeof(n), &n, sizeof(n));
}

static void check_stamp(const uint8_t *mem, uint32_t bytes, uint64_t n)
{
	uint64_t got;

	memcpy(&got, mem, sizeof(got));
	CHECK_EQ(got, n);
	memcpy(&got, mem + bytes - sizeof(got), sizeof(got));
	CHECK_EQ(got, n);
}

static void stream_post(struct stream *s)
{
	while (s->receives < s->total && s->receives - s->received < DEEP) {
		struct ibv_sge sge = buf_sge(s->in, s->receives % DEEP *
					     s->bytes, s->bytes);

		end_recv(s->to, s->receives++, &sge, 1);
	}
	while (s->posted < s->receives && s->posted - s->sent < DEEP) {
		size_t at = s->posted % DEEP * s->bytes;
		struct ibv_sge sge = buf_sge(s->out, at, s->bytes);
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, s->posted, &sge, 1,
						IBV_SEND_SIGNALED);

		stamp(s->out->mem + at, s->bytes, s->posted++);
		end_send(s->from, &wr);
	}
}

static bool stream_poll(struct stream *s)
{
	struct ibv_wc wc[16];
	int n, i, all = 0;

	all += n = ibv_poll_cq(s->from->scq, ARRAY_SIZE(wc), wc);
	for (i = 0; i < n; i++) {
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		CHECK_EQ(wc[i].wr_id, s->sent++);
	}
	all += n = ibv_poll_cq(s->to->rcq, ARRAY_SIZE(wc), wc);
	for (i = 0; i < n; i++) {
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		CHECK_EQ(wc[i].wr_id, s->received);
		CHECK_EQ(wc[i].byte_len, s->bytes);
		check_stamp(s->in->mem + s->received % DEEP * s->bytes,
			    s->bytes, s->received);
		s->received++;
	}
	return all > 0;
}

static void streams_run(struct stream *s, unsigned int count)
{
	uint64_t until = deadline();
	unsigned int i, busy;

	do {
		bool moved = false;

		for (i = busy = 0; i < count; i++) {
			stream_post(&s[i]);
			moved |= stream_poll(&s[i]);
			busy += s[i].sent < s[i].total ||
				s[i].received < s[i].total;
		}
		if (moved)
			until = deadline();
		else if (deadline_over(until))
			FAIL("%u streams stand still", busy);
		else
			sched_yield();
	} while (busy);
}

/* The completion queues hold no more than what is in flight, and wrap. */
TEST_LIMIT(many_small, 300)
{
	struct param param = param_default();
	struct pair *pair;
	struct stream s;

	param.scqe = param.rcqe = DEEP;
	pair = pair_new(&param);
	stream_open(&s, &pair->a, &pair->b, 8, tap_rounds(100000));
	streams_run(&s, 1);
	wc_none(pair->a.scq);
	wc_none(pair->b.rcq);
	host_expect_quiet(pair->a.host);
	stream_close(&s);
	pair_teardown(pair);
}

TEST_F(pair, both_ways)
{
	struct stream s[2];

	stream_open(&s[0], &pair->a, &pair->b, 4000, tap_rounds(10000));
	stream_open(&s[1], &pair->b, &pair->a, 4001, tap_rounds(10000));
	streams_run(s, 2);
	stream_close(&s[0]);
	stream_close(&s[1]);
}

#define QPS 64

OPTION(seconds, "0", "for how long many queue pairs go on, at least")

/* 64 connections between two opened devices, all busy at once. */
TEST_LIMIT(many_queue_pairs, 300)
{
	uint64_t end = tap_now_ns() + atoi(OPT(seconds)) * 1000000000ull;
	struct host *h0 = host_open(0), *h1 = host_open(1);
	struct end *a = calloc(QPS, sizeof(*a)), *b = calloc(QPS, sizeof(*b));
	struct stream *s = calloc(2 * QPS, sizeof(*s));
	struct param param = param_default();
	unsigned int i;

	for (i = 0; i < QPS; i++) {
		end_create(&a[i], h0, &param);
		end_create(&b[i], h1, &param);
		end_connect(&b[i], &a[i]);
		end_connect(&a[i], &b[i]);
	}
	do {
		for (i = 0; i < QPS; i++) {
			stream_open(&s[2 * i], &a[i], &b[i], 3000,
				    tap_rounds(500));
			stream_open(&s[2 * i + 1], &b[i], &a[i], 17,
				    tap_rounds(500));
		}
		streams_run(s, 2 * QPS);
		for (i = 0; i < 2 * QPS; i++)
			stream_close(&s[i]);
	} while (tap_now_ns() < end);
	for (i = 0; i < QPS; i++) {
		end_destroy(&a[i]);
		end_destroy(&b[i]);
	}
	host_close(h0);
	host_close(h1);
}
