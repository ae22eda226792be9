// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* RC operations: atomics, signalling, solicited events, fences, depths. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "verbs.h"

/* A queue pair whose requests wait: the peer has no receive, for ever. */
static struct pair *waiting_pair(uint32_t depth)
{
	struct param param = param_default();

	param.sq_wr = depth;
	param.rq_wr = depth;
	param.scqe = param.rcqe = 2 * depth;
	param.rnr_retry = 7;
	return pair_new(&param);
}

/* ---- atomics ----------------------------------------------------------- */

static uint64_t atomic(struct pair *pair, enum ibv_wr_opcode opcode,
		       struct ibv_sge *sge, int num_sge, uint64_t addr,
		       uint32_t rkey, uint64_t compare_add, uint64_t swap)
{
	static uint64_t id;
	struct ibv_send_wr wr = send_wr(opcode, ++id, sge, num_sge,
					IBV_SEND_SIGNALED);
	struct ibv_wc wc;

	wr_atomic(&wr, addr, rkey, compare_add, swap);
	end_send(&pair->a, &wr);
	wc = wc_expect(pair->a.scq, id, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, opcode == IBV_WR_ATOMIC_CMP_AND_SWP ?
		 IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
	CHECK_EQ(wc.byte_len, 8);
	CHECK_EQ(wc.qp_num, pair->a.qp->qp_num);
	return id;
}

struct atomic_at {
	const char *name;
	size_t local, remote;
	int pieces;
};

static const struct atomic_at atomic_places[] = {
	{ "aligned", 64, 64, 1 },
	{ "odd_local", 67, 72, 1 },
	{ "page_end", 4096 - 5, 4096 - 8, 1 },
	{ "two_pieces", 101, 4096, 2 },
};

static int atomic_pieces(const struct atomic_at *at, const struct buf *buf,
			 struct ibv_sge *sge)
{
	if (at->pieces == 1) {
		sge[0] = buf_sge(buf, at->local, 8);
		return 1;
	}
	sge[0] = buf_sge(buf, at->local, 3);
	sge[1] = buf_sge(buf, at->local + 50, 5);
	return 2;
}

TEST_EACH(compare_swap, atomic_places)
{
	struct pair *pair = pair_setup();
	struct buf *local = buf_new(pair->a.host->pd, 8192, ALL_ACCESS);
	struct buf *remote = buf_new(pair->b.host->pd, 8192, ALL_ACCESS);
	struct ibv_sge cell = buf_sge(remote, arg->remote, 8), sge[2];
	uint64_t old = buf_get64(remote, arg->remote);
	int n = atomic_pieces(arg, local, sge);

	/* Not equal in one bit: nothing is swapped, the old value is told. */
	buf_move(local, sge, remote, &cell, 8);
	atomic(pair, IBV_WR_ATOMIC_CMP_AND_SWP, sge, n, cell.addr,
	       remote->mr->rkey, old ^ (1ull << 63), ~old);
	buf_check(remote);
	buf_check(local);

	atomic(pair, IBV_WR_ATOMIC_CMP_AND_SWP, sge, n, cell.addr,
	       remote->mr->rkey, old, 0x1122334455667788);
	buf_put64(remote, arg->remote, 0x1122334455667788);
	buf_check(remote);
	buf_check(local);

	buf_move(local, sge, remote, &cell, 8);
	atomic(pair, IBV_WR_ATOMIC_CMP_AND_SWP, sge, n, cell.addr,
	       remote->mr->rkey, 0x1122334455667788, 0);
	buf_put64(remote, arg->remote, 0);
	buf_check(remote);
	buf_check(local);
	buf_free(local);
	buf_free(remote);
	pair_teardown(pair);
}

TEST_EACH(fetch_add, atomic_places)
{
	static const uint64_t addends[] = {
		1, 0, UINT64_MAX, 0x8000000000000000, 0x100000000, 12345,
	};
	struct pair *pair = pair_setup();
	struct buf *local = buf_new(pair->a.host->pd, 8192, ALL_ACCESS);
	struct buf *remote = buf_new(pair->b.host->pd, 8192, ALL_ACCESS);
	struct ibv_sge cell = buf_sge(remote, arg->remote, 8), sge[2];
	int n = atomic_pieces(arg, local, sge);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(addends); i++) {
		buf_move(local, sge, remote, &cell, 8);
		atomic(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, sge, n, cell.addr,
		       remote->mr->rkey, addends[i], 0);
		buf_put64(remote, arg->remote,
			  buf_get64(remote, arg->remote) + addends[i]);
		buf_check(remote);
		buf_check(local);
	}
	buf_free(local);
	buf_free(remote);
	pair_teardown(pair);
}

/* Many in flight from both ends on one cell: each sees its own old value. */
TEST_F(pair, fetch_add_many)
{
	struct buf *cell = buf_new(pair->b.host->pd, 64, ALL_ACCESS);
	struct buf *old = buf_new(pair->a.host->pd, 64 * 8, ALL_ACCESS);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint64_t first = buf_get64(cell, 8), seen;
	unsigned int i;

	for (i = 0; i < 64; i++) {
		sge = buf_sge(old, 8 * i, 8);
		wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, i, &sge, 1,
			     IBV_SEND_SIGNALED);
		wr_atomic(&wr, buf_addr(cell, 8), cell->mr->rkey, 3, 0);
		end_send(&pair->a, &wr);
	}
	for (i = 0; i < 64; i++) {
		wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
		memcpy(&seen, old->mem + 8 * i, 8);
		CHECK_EQ(seen, first + 3 * i);
	}
	buf_put64(cell, 8, first + 3 * 64);
	buf_check(cell);
	buf_free(cell);
	buf_free(old);
}

#define ASKED 500

/* Numbers that the process itself takes. */
#define OWN 100000

/* One of two threads that add by a connection of their own. */
struct adder {
	struct host *host, *peer;
	struct buf *cell, *old;
	bool done;
};

static void *keep_adding(void *data)
{
	struct adder *adder = data;
	struct param param = param_default();
	struct end one, other;
	int i;

	end_create(&one, adder->host, &param);
	end_create(&other, adder->peer, &param);
	end_connect(&other, &one);
	end_connect(&one, &other);
	for (i = 0; i < ASKED; i++) {
		struct ibv_sge sge = buf_sge(adder->old, 8 * i, 8);
		struct ibv_send_wr wr;

		wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, i, &sge, 1,
			     IBV_SEND_SIGNALED);
		wr_atomic(&wr, buf_addr(adder->cell, 0), adder->cell->mr->rkey,
			  1, 0);
		end_send(&one, &wr);
		wc_expect(one.scq, i, IBV_WC_SUCCESS);
	}
	end_destroy(&one);
	end_destroy(&other);
	__atomic_store_n(&adder->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void take_number(char *taken, uint64_t number, uint64_t end)
{
	if (number >= end || taken[number])
		FAIL("number %llu of %llu was given twice, or is none",
		     (unsigned long long)number, (unsigned long long)end);
	taken[number] = 1;
}

/*
 * Two connections and the process itself count in one cell (IBV_ATOMIC_GLOB):
 * each number is given once.
 */
TEST(fetch_add_shared)
{
	struct host *h0 = host_open(0), *h1 = host_open(1);
	struct buf *cell = buf_new(h1->pd, 4096, ALL_ACCESS);
	uint64_t *place = (uint64_t *)cell->mem, end, number;
	uint64_t *own = calloc(OWN, sizeof(*own));
	struct adder adder[2];
	pthread_t thread[2];
	int i, n, num_own = 0;
	char *taken;

	CHECK(own);
	*place = 0;
	for (i = 0; i < 2; i++) {
		adder[i] = (struct adder) {
			h0, h1, cell, buf_new(h0->pd, ASKED * 8, ALL_ACCESS), false,
		};
		CHECK_RC(pthread_create(&thread[i], NULL, keep_adding,
					&adder[i]));
	}
	while (num_own < OWN &&
	       !(__atomic_load_n(&adder[0].done, __ATOMIC_ACQUIRE) &&
		 __atomic_load_n(&adder[1].done, __ATOMIC_ACQUIRE))) {
		own[num_own++] = __atomic_fetch_add(place, 1, __ATOMIC_SEQ_CST);
		sched_yield();
	}
	for (i = 0; i < 2; i++)
		CHECK_RC(pthread_join(thread[i], NULL));
	end = *place;
	CHECK_EQ(end, num_own + 2 * ASKED);
	taken = calloc(end, 1);
	CHECK(taken);
	for (n = 0; n < num_own; n++)
		take_number(taken, own[n], end);
	for (i = 0; i < 2; i++) {
		for (n = 0; n < ASKED; n++) {
			memcpy(&number, adder[i].old->mem + 8 * n, 8);
			take_number(taken, number, end);
		}
		buf_free(adder[i].old);
	}
	free(taken);
	free(own);
	buf_free(cell);
	host_close(h0);
	host_close(h1);
}

/* ---- signalling -------------------------------------------------------- */

TEST_F(pair, unsignalled)
{
	struct buf *buf = buf_new(pair->a.host->pd, 4096, ALL_ACCESS);
	struct buf *remote = buf_new(pair->b.host->pd, 4096, ALL_ACCESS);
	struct ibv_sge sge = buf_sge(buf, 0, 8);
	unsigned int i;

	for (i = 0; i < 200; i++) {
		bool last = i % 50 == 49;
		struct ibv_send_wr wr = send_wr(i & 1 ? IBV_WR_RDMA_WRITE :
						IBV_WR_RDMA_READ, i, &sge, 1,
						last ? IBV_SEND_SIGNALED : 0);

		wr_remote(&wr, buf_addr(remote, 0), remote->mr->rkey);
		end_send(&pair->a, &wr);
		if (last)
			wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
	}
	wc_none(pair->a.scq);
	buf_free(buf);
	buf_free(remote);
}

TEST(signal_all)
{
	struct param param = param_default();
	struct pair *pair;
	unsigned int i;

	param.sq_sig_all = 1;
	pair = pair_new(&param);
	for (i = 0; i < 50; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, i, NULL, 0, 0);

		end_recv(&pair->b, i, NULL, 0);
		end_send(&pair->a, &wr);
	}
	for (i = 0; i < 50; i++) {
		wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
		wc_expect(pair->b.rcq, i, IBV_WC_SUCCESS);
	}
	pair_teardown(pair);
}

/* Work request ids are 64 bits of the consumer's own. */
TEST_F(pair, wr_id_all_bits)
{
	static const uint64_t ids[] = {
		0, UINT64_MAX, 0x8000000000000000, 0xffffffff, 0x100000000,
		0x0123456789abcdef,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, ids[i], NULL, 0,
						IBV_SEND_SIGNALED);

		end_recv(&pair->b, ~ids[i], NULL, 0);
		end_send(&pair->a, &wr);
		wc_expect(pair->a.scq, ids[i], IBV_WC_SUCCESS);
		wc_expect(pair->b.rcq, ~ids[i], IBV_WC_SUCCESS);
	}
}

TEST_F(pair, immediate_all_bits)
{
	static const uint32_t values[] = {
		0, 1, 0x80000000, 0xffffffff, 0x12345678,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND_WITH_IMM, i, NULL,
						0, IBV_SEND_SIGNALED);
		struct ibv_wc wc;

		wr.imm_data = htonl(values[i]);
		end_recv(&pair->b, i, NULL, 0);
		end_send(&pair->a, &wr);
		wc = wc_expect(pair->b.rcq, i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wc_flags & ~IBV_WC_GRH, IBV_WC_WITH_IMM);
		CHECK_EQ(ntohl(wc.imm_data), values[i]);
		wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
	}
}

/* A GRH comes with datagrams only. The other cases do not look at this bit. */
TEST_F(pair, no_grh_flag)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct ibv_send_wr wr = send_wr(opcodes[i], i, NULL, 0,
						IBV_SEND_SIGNALED);

		end_recv(&pair->b, i, NULL, 0);
		end_send(&pair->a, &wr);
		CHECK_EQ(wc_expect(pair->b.rcq, i, IBV_WC_SUCCESS).wc_flags,
			 i ? IBV_WC_WITH_IMM : 0);
		CHECK_EQ(wc_expect(pair->a.scq, i, IBV_WC_SUCCESS).wc_flags, 0);
	}
}

/* ---- solicited events -------------------------------------------------- */

static void message(struct pair *pair, unsigned int flags, bool imm_write)
{
	struct ibv_send_wr wr = send_wr(imm_write ? IBV_WR_RDMA_WRITE_WITH_IMM :
					IBV_WR_SEND, 1, NULL, 0,
					IBV_SEND_SIGNALED | flags);

	end_recv(&pair->b, 2, NULL, 0);
	end_send(&pair->a, &wr);
	wc_expect(pair->b.rcq, 2, IBV_WC_SUCCESS);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
}

static struct pair *channel_pair(void)
{
	struct param param = param_default();

	param.channel = true;
	return pair_new(&param);
}

TEST(solicited_only)
{
	struct pair *pair = channel_pair();
	int fd = pair->b.channel->fd;

	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 1));
	message(pair, 0, false);
	message(pair, 0, true);
	/* A third message is through the whole way after the first two. */
	message(pair, 0, false);
	if (is_readable(fd))
		FAIL("an unsolicited message woke a solicited-only consumer");
	message(pair, IBV_SEND_SOLICITED, false);
	end_take_event(&pair->b, pair->b.rcq);

	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 1));
	message(pair, IBV_SEND_SOLICITED, true);
	end_take_event(&pair->b, pair->b.rcq);

	/* Not armed: no event even for a solicited message. */
	message(pair, IBV_SEND_SOLICITED, false);
	message(pair, IBV_SEND_SOLICITED, false);
	if (is_readable(fd))
		FAIL("an event without arming");
	pair_teardown(pair);
}

/* The solicited bit of a long message is in its last packet. */
TEST(solicited_long_message)
{
	struct pair *pair = channel_pair();
	struct buf *src = buf_new(pair->a.host->pd, 10000, ALL_ACCESS);
	struct buf *dst = buf_new(pair->b.host->pd, 10000, ALL_ACCESS);
	struct ibv_sge from = buf_sge(src, 0, 10000), to = buf_sge(dst, 0, 10000);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &from, 1,
					IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);

	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 1));
	end_recv(&pair->b, 2, &to, 1);
	end_send(&pair->a, &wr);
	end_take_event(&pair->b, pair->b.rcq);
	wc_expect(pair->b.rcq, 2, IBV_WC_SUCCESS);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	buf_free(src);
	buf_free(dst);
	pair_teardown(pair);
}

TEST(armed_for_next)
{
	struct pair *pair = channel_pair();

	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 0));
	CHECK_RC(ibv_req_notify_cq(pair->a.scq, 0));
	message(pair, 0, false);
	end_take_event(&pair->b, pair->b.rcq);
	end_take_event(&pair->a, pair->a.scq);
	message(pair, 0, false);
	if (is_readable(pair->b.channel->fd))
		FAIL("armed once, woken twice");
	pair_teardown(pair);
}

/* Arming for the next after arming for solicited widens, never narrows. */
TEST(arm_twice)
{
	struct pair *pair = channel_pair();

	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 1));
	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 0));
	message(pair, 0, false);
	end_take_event(&pair->b, pair->b.rcq);

	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 0));
	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 1));
	message(pair, 0, false);
	end_take_event(&pair->b, pair->b.rcq);
	pair_teardown(pair);
}

/* ---- fences ------------------------------------------------------------ */

struct fence_case {
	const char *name;
	enum ibv_wr_opcode first, second;
};

static const struct fence_case fences[] = {
	{ "read_send", IBV_WR_RDMA_READ, IBV_WR_SEND },
	{ "read_write", IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE },
	{ "atomic_send", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND },
	{ "atomic_write", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE },
};

#define FENCE_BYTES 100000

struct fence {
	struct pair *pair;
	struct buf *here, *there, *result;
	uint32_t bytes;
};

/* Fetch from there, and at once send on what was fetched. */
static void fence_round(struct fence *f, const struct fence_case *kind)
{
	struct ibv_sge here = buf_sge(f->here, 8, f->bytes);
	struct ibv_sge there = buf_sge(f->there, 8, f->bytes);
	struct ibv_sge result = buf_sge(f->result, 8, f->bytes);
	struct ibv_send_wr second = send_wr(kind->second, 2, &here, 1,
					    IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	struct ibv_send_wr first = send_wr(kind->first, 1, &here, 1,
					   IBV_SEND_SIGNALED);

	buf_refill(f->there);
	buf_move(f->here, &here, f->there, &there, f->bytes);
	buf_move(f->result, &result, f->there, &there, f->bytes);
	if (kind->first == IBV_WR_RDMA_READ) {
		wr_remote(&first, there.addr, f->there->mr->rkey);
	} else {
		wr_atomic(&first, there.addr, f->there->mr->rkey, 5, 0);
		buf_put64(f->there, 8, buf_get64(f->there, 8) + 5);
	}
	if (kind->second == IBV_WR_SEND)
		end_recv(&f->pair->b, 3, &result, 1);
	else
		wr_remote(&second, result.addr, f->result->mr->rkey);
	first.next = &second;
	end_send(&f->pair->a, &first);
	wc_expect(f->pair->a.scq, 1, IBV_WC_SUCCESS);
	wc_expect(f->pair->a.scq, 2, IBV_WC_SUCCESS);
	if (kind->second == IBV_WR_SEND)
		wc_expect(f->pair->b.rcq, 3, IBV_WC_SUCCESS);
	buf_check(f->here);
	buf_check(f->there);
	buf_check(f->result);
}

TEST_EACH(fence, fences)
{
	struct fence f = { .pair = pair_setup() };
	unsigned int i, rounds = tap_rounds(50);

	f.bytes = arg->first == IBV_WR_RDMA_READ ? FENCE_BYTES : 8;
	f.here = buf_new(f.pair->a.host->pd, f.bytes + 64, ALL_ACCESS);
	f.there = buf_new(f.pair->b.host->pd, f.bytes + 64, ALL_ACCESS);
	f.result = buf_new(f.pair->b.host->pd, f.bytes + 64, ALL_ACCESS);
	for (i = 0; i < rounds; i++)
		fence_round(&f, arg);
	buf_free(f.here);
	buf_free(f.there);
	buf_free(f.result);
	pair_teardown(f.pair);
}

/* ---- depths ------------------------------------------------------------ */

struct depth {
	const char *name;
	uint32_t wr;
};

static const struct depth depths[] = {
	{ "1", 1 }, { "2", 2 }, { "3", 3 }, { "7", 7 }, { "8", 8 },
	{ "100", 100 }, { "1000", 1000 },
};

/* Exactly what the created queue says goes in; then ENOMEM, then in order. */
TEST_EACH(send_queue_depth, depths)
{
	struct pair *pair = waiting_pair(arg->wr);
	uint32_t cap = pair->a.cap.max_send_wr, i;
	struct ibv_send_wr wr;
	int rc;

	CHECK(cap >= arg->wr);
	for (i = 0; i < cap; i++) {
		wr = send_wr(IBV_WR_SEND, i, NULL, 0, IBV_SEND_SIGNALED);
		end_send(&pair->a, &wr);
	}
	rc = end_try_send(&pair->a, &wr);
	CHECK_EQ(abs(rc), ENOMEM);
	for (i = 0; i < cap; i++) {
		end_recv(&pair->b, i, NULL, 0);
		wc_expect(pair->b.rcq, i, IBV_WC_SUCCESS);
		wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
	}
	wc_none(pair->a.scq);
	wr.wr_id = 0x777;
	end_recv(&pair->b, 0x777, NULL, 0);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 0x777, IBV_WC_SUCCESS);
	pair_teardown(pair);
}

TEST_EACH(receive_queue_depth, depths)
{
	struct pair *pair = waiting_pair(arg->wr);
	uint32_t cap = pair->b.cap.max_recv_wr, i;
	struct ibv_send_wr wr;

	CHECK(cap >= arg->wr);
	for (i = 0; i < cap; i++)
		end_recv(&pair->b, i, NULL, 0);
	CHECK_EQ(abs(end_try_recv(&pair->b, i, NULL, 0)), ENOMEM);
	for (i = 0; i < cap; i++) {
		wr = send_wr(IBV_WR_SEND, i, NULL, 0, IBV_SEND_SIGNALED);
		end_send(&pair->a, &wr);
		wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
		wc_expect(pair->b.rcq, i, IBV_WC_SUCCESS);
	}
	end_ping(&pair->a, &pair->b);
	pair_teardown(pair);
}

/*
 * Reads and atomics in numbers, at each depth that both ends agreed on. A
 * request beyond the depth waits at the requester; the responder would answer
 * it with an error.
 */
static void deep_reads(struct pair *pair, struct buf *local, struct buf *remote,
		       unsigned int count)
{
	struct ibv_sge to, from;
	struct ibv_send_wr wr;
	unsigned int i;

	for (i = 0; i < count; i++) {
		to = buf_sge(local, 3000 * i, i & 1 ? 8 : 2999);
		from = buf_sge(remote, 3000 * (count - 1 - i), to.length);
		wr = send_wr(i & 1 ? IBV_WR_ATOMIC_CMP_AND_SWP :
			     IBV_WR_RDMA_READ, i, &to, 1, IBV_SEND_SIGNALED);
		if (i & 1)
			wr_atomic(&wr, from.addr, remote->mr->rkey, 1, 2);
		else
			wr_remote(&wr, from.addr, remote->mr->rkey);
		end_send(&pair->a, &wr);
		buf_move(local, &to, remote, &from, to.length);
	}
	for (i = 0; i < count; i++)
		wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
	buf_check(local);
	buf_check(remote);
}

/* Some more than the depth, so that some have to wait. */
static void reads_at_depth(unsigned int depth)
{
	unsigned int count = depth < 32 ? 64 : 2 * depth;
	struct param param = param_default();
	struct buf *local, *remote;
	struct pair *pair;

	param.rd_atomic = depth;
	param.sq_wr = param.scqe = count;
	pair = pair_new(&param);
	local = buf_new(pair->a.host->pd, count * 3000, ALL_ACCESS);
	remote = buf_new(pair->b.host->pd, count * 3000, ALL_ACCESS);
	deep_reads(pair, local, remote, count);
	buf_free(local);
	buf_free(remote);
	pair_teardown(pair);
}

static int max_depth(void)
{
	struct host *host = host_open(0);
	int max = host->dev.max_qp_rd_atom;

	CHECK(max >= 1);
	CHECK(host->dev.max_qp_init_rd_atom >= 1);
	if (max > host->dev.max_qp_init_rd_atom)
		max = host->dev.max_qp_init_rd_atom;
	host_close(host);
	return max;
}

TEST(read_atomic_depths)
{
	int depth, max = max_depth();

	for (depth = 1; depth <= max && depth <= 16; depth++)
		reads_at_depth(depth);
}

TEST(read_atomic_max_depth)
{
	reads_at_depth(max_depth());
}

/* One call may post a list; the queue takes what fits and names the first bad. */
TEST(post_list)
{
	struct pair *pair = waiting_pair(16);
	uint32_t cap = pair->a.cap.max_send_wr, i;
	struct ibv_send_wr *list = calloc(cap + 2, sizeof(*list)), *bad = NULL;

	for (i = 0; i < cap + 2; i++) {
		list[i] = send_wr(IBV_WR_SEND, i, NULL, 0, IBV_SEND_SIGNALED);
		list[i].next = i < cap + 1 ? &list[i + 1] : NULL;
	}
	CHECK_EQ(abs(ibv_post_send(pair->a.qp, list, &bad)), ENOMEM);
	CHECK(bad == &list[cap]);
	for (i = 0; i < cap; i++) {
		end_recv(&pair->b, i, NULL, 0);
		wc_expect(pair->b.rcq, i, IBV_WC_SUCCESS);
		wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
	}
	free(list);
	pair_teardown(pair);
}

/* ---- SEND with invalidate ---------------------------------------------- */

static void bind_window(struct end *end, struct ibv_mw *mw, struct buf *buf)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = 0xb1d, .opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = {
				.mr = buf->mr, .addr = buf_addr(buf, 0),
				.length = buf->size,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};

	CHECK_RC(ibv_post_send(end->qp, &wr, &bad));
	wc_expect(end->scq, 0xb1d, IBV_WC_SUCCESS);
	mw->rkey = wr.bind_mw.rkey;
}

/*
 * A process can have only a window's key invalidated, so this wants memory
 * windows; without them rc_errors has what is left: the refusals.
 */
TEST_F(pair, send_with_invalidate)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND_WITH_INV, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct ibv_mw *mw = ibv_alloc_mw(pair->b.host->pd, IBV_MW_TYPE_2);
	struct ibv_sge sge;
	struct buf *buf, *local;
	struct ibv_wc wc;

	if (!mw && errno == EOPNOTSUPP)
		SKIP("no memory windows");
	CHECK_ERRNO(mw);
	local = buf_new(pair->a.host->pd, 64, ALL_ACCESS);
	buf = buf_new(pair->b.host->pd, 4096, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	bind_window(&pair->b, mw, buf);
	end_recv(&pair->b, 2, NULL, 0);
	wr.invalidate_rkey = mw->rkey;
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	wc = wc_expect(pair->b.rcq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wc_flags & ~IBV_WC_GRH, IBV_WC_WITH_INV);
	CHECK_EQ(wc.invalidated_rkey, mw->rkey);

	sge = buf_sge(local, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, 3, &sge, 1, IBV_SEND_SIGNALED);
	wr_remote(&wr, buf_addr(buf, 0), mw->rkey);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 3, IBV_WC_REM_ACCESS_ERR);
	buf_check(buf);
	CHECK_RC(ibv_dealloc_mw(mw));
	buf_free(buf);
	buf_free(local);
}
