// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A hostile process writes what it likes into the rings that it shares with
 * the kernel. The kernel goes on, for others unharmed; the queue pair reports
 * an error or stops.
 */
#include <rdma/ib_user_verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture.h"

OPTION(rounds, "200", "how often the random cases repeat")
OPTION(seed, "1", "where their random numbers begin")

#define MAX_SGE 4

/* The largest request that a slot of these tests' queue pairs takes. */
struct wqe {
	struct rxng_send_wqe head;
	struct rxng_sge sge[MAX_SGE];
};

struct recv_wqe {
	struct rxng_recv_wqe head;
	struct rxng_sge sge[MAX_SGE];
};

struct hostile {
	struct pair *pair;
	struct rings rings;
	struct buf *local, *remote;
};

static struct hostile *hostile_setup(void)
{
	struct hostile *h = calloc(1, sizeof(*h));
	struct param param = param_default();

	CHECK(h);
	param.rnr_retry = 1;
	param.min_rnr_timer = 1;
	param.timeout = 10;
	param.retry_cnt = 2;
	h->pair = rings_pair(&param, &h->rings);
	h->local = buf_new(h->pair->a.host->pd, 8192, ALL_ACCESS);
	h->remote = buf_new(h->pair->b.host->pd, 8192, ALL_ACCESS);
	return h;
}

/* Another connection of the same device is as well as ever. */
static void others_live(void)
{
	struct pair *pair = pair_setup();
	int i;

	for (i = 0; i < 5; i++) {
		end_ping(&pair->a, &pair->b);
		end_ping(&pair->b, &pair->a);
	}
	pair_teardown(pair);
}

static void hostile_teardown(struct hostile *h)
{
	others_live();
	buf_free(h->local);
	buf_free(h->remote);
	pair_teardown(h->pair);
	free(h);
}

/* A good signalled WRITE of 64 bytes, to be spoilt. */
static struct wqe good_write(const struct hostile *h, uint64_t id)
{
	struct wqe wqe;

	memset(&wqe, 0, sizeof(wqe));
	wqe.head.wr_id = id;
	wqe.head.opcode = RXNG_WR_RDMA_WRITE;
	wqe.head.send_flags = RXNG_SEND_SIGNALED;
	wqe.head.wr.rdma.remote_addr = buf_addr(h->remote, 128);
	wqe.head.wr.rdma.rkey = h->remote->mr->rkey;
	wqe.head.dma.length = 64;
	wqe.head.dma.num_sge = 1;
	wqe.sge[0].addr = buf_addr(h->local, 64);
	wqe.sge[0].length = 64;
	wqe.sge[0].lkey = h->local->mr->lkey;
	return wqe;
}

static void expect_written(struct hostile *h)
{
	struct ibv_sge from = buf_sge(h->local, 64, 64);
	struct ibv_sge to = buf_sge(h->remote, 128, 64);

	buf_move(h->remote, &to, h->local, &from, 64);
	buf_check(h->remote);
}

static void put(struct hostile *h, const struct wqe *wqe)
{
	ring_put(&h->rings.sq, wqe, sizeof(*wqe));
}

/* It completes with an error, and the queue pair stops. */
static void expect_refused(struct hostile *h, const struct wqe *wqe)
{
	struct ibv_wc wc;

	put(h, wqe);
	CHECK_RC(doorbell(&h->pair->a));
	wc = wc_wait(h->pair->a.scq);
	CHECK_EQ(wc.wr_id, wqe->head.wr_id);
	if (wc.status == IBV_WC_SUCCESS)
		FAIL("it succeeds");
	CHECK_EQ(wc.qp_num, h->pair->a.qp->qp_num);
	CHECK_EQ(end_state(&h->pair->a), IBV_QPS_ERR);
	wc_none(h->pair->a.scq);
	buf_check(h->remote);
	buf_check(h->local);
}

/* ---- by hand as the provider does it ----------------------------------- */

TEST_F(hostile, good_by_hand)
{
	struct wqe wqe = good_write(hostile, 7);

	put(hostile, &wqe);
	CHECK_RC(doorbell(&hostile->pair->a));
	wc_expect(hostile->pair->a.scq, 7, IBV_WC_SUCCESS);
	expect_written(hostile);
}

/* The fields that only the provider and an older kernel ever used. */
TEST_F(hostile, scratch_is_ignored)
{
	struct wqe wqe = good_write(hostile, 7);

	memset(wqe.head.scratch, 0xff, sizeof(wqe.head.scratch));
	wqe.head.reserved = UINT32_MAX;
	wqe.head.dma.resid = UINT32_MAX;
	wqe.head.dma.cur_sge = UINT32_MAX;
	wqe.head.dma.sge_offset = UINT32_MAX;
	wqe.head.dma.reserved = UINT32_MAX;
	put(hostile, &wqe);
	CHECK_RC(doorbell(&hostile->pair->a));
	wc_expect(hostile->pair->a.scq, 7, IBV_WC_SUCCESS);
	expect_written(hostile);
}

/* ---- one bad field ----------------------------------------------------- */

static bool is_user_opcode(uint32_t opcode)
{
	switch (opcode) {
	case RXNG_WR_RDMA_WRITE:
	case RXNG_WR_RDMA_WRITE_WITH_IMM:
	case RXNG_WR_SEND:
	case RXNG_WR_SEND_WITH_IMM:
	case RXNG_WR_RDMA_READ:
	case RXNG_WR_ATOMIC_CMP_AND_SWP:
	case RXNG_WR_ATOMIC_FETCH_AND_ADD:
	case RXNG_WR_SEND_WITH_INV:
		return true;
	default:
		return false;
	}
}

/* Every opcode that is not a request of a user on RC fails as such. */
static void one_opcode(struct hostile *h, uint32_t opcode)
{
	struct wqe wqe = good_write(h, opcode);

	if (is_user_opcode(opcode))
		return;
	wqe.head.opcode = opcode;
	expect_refused(h, &wqe);
	pair_reconnect(h->pair);
}

TEST_F(hostile, opcodes)
{
	static const uint32_t large[] = {
		256, 0x10000, 0x7fffffff, 0x80000000, UINT32_MAX,
	};
	uint32_t opcode;
	size_t i;

	for (opcode = 0; opcode < 256; opcode++)
		one_opcode(hostile, opcode);
	for (i = 0; i < ARRAY_SIZE(large); i++)
		one_opcode(hostile, large[i]);
}

/*
 * Those of the kernel's own consumers, with what they would do if they were
 * taken: make a region from a pointer in the request.
 */
TEST_F(hostile, kernel_opcodes)
{
	static const uint32_t opcodes[] = { 7, 8, 10, 11, 14, 32, 33, 34, 0xf0 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct wqe wqe = good_write(hostile, i);

		wqe.head.opcode = opcodes[i];
		memset(&wqe.head.wr, 0x41, sizeof(wqe.head.wr));
		wqe.head.ex.invalidate_rkey = hostile->local->mr->rkey;
		expect_refused(hostile, &wqe);
		pair_reconnect(hostile->pair);
	}
}

struct bad_field {
	const char *name;
	void (*spoil)(struct wqe *wqe);
};

static void num_sge_over(struct wqe *wqe)
{
	wqe->head.dma.num_sge = 1000;
}

static void num_sge_huge(struct wqe *wqe)
{
	wqe->head.dma.num_sge = UINT32_MAX;
}

/* Times 16 this wraps to one entry. */
static void num_sge_wraps(struct wqe *wqe)
{
	wqe->head.dma.num_sge = 0x10000001;
}

static void inline_over(struct wqe *wqe)
{
	wqe->head.send_flags |= RXNG_SEND_INLINE;
	wqe->head.dma.length = 1 << 20;
}

static void inline_huge(struct wqe *wqe)
{
	wqe->head.send_flags |= RXNG_SEND_INLINE;
	wqe->head.dma.length = UINT32_MAX;
	wqe->head.dma.num_sge = UINT32_MAX;
}

static void lengths_wrap(struct wqe *wqe)
{
	int i;

	wqe->head.dma.num_sge = 4;
	for (i = 0; i < 4; i++)
		wqe->sge[i] = (struct rxng_sge){ wqe->sge[0].addr, 0x40000010,
						 wqe->sge[0].lkey };
	wqe->head.dma.length = 0x40;
}

static void kernel_address(struct wqe *wqe)
{
	wqe->sge[0].addr = 0xffff888000001000;
	wqe->sge[0].lkey = 0;
}

static void lkey_all_ones(struct wqe *wqe)
{
	wqe->sge[0].lkey = UINT32_MAX;
}

static const struct bad_field bad_fields[] = {
	{ "num_sge_over", num_sge_over },
	{ "num_sge_huge", num_sge_huge },
	{ "num_sge_wraps", num_sge_wraps },
	{ "inline_over", inline_over },
	{ "inline_huge", inline_huge },
	{ "lengths_wrap", lengths_wrap },
	{ "kernel_address", kernel_address },
	{ "lkey_all_ones", lkey_all_ones },
};

TEST_EACH(bad_field, bad_fields)
{
	struct hostile *h = hostile_setup();
	struct wqe wqe = good_write(h, 7);

	arg->spoil(&wqe);
	expect_refused(h, &wqe);
	hostile_teardown(h);
}

/* Flags that nobody knows, and inline data of an operation that has none. */
TEST_F(hostile, odd_flags)
{
	struct wqe wqe = good_write(hostile, 7);
	struct ibv_wc wc;

	wqe.head.send_flags = UINT32_MAX;
	wqe.head.dma.length = 16;
	put(hostile, &wqe);
	CHECK_RC(doorbell(&hostile->pair->a));
	wc = wc_wait(hostile->pair->a.scq);
	CHECK_EQ(wc.wr_id, 7);
	buf_check(hostile->local);
	pair_reconnect(hostile->pair);

	wqe = good_write(hostile, 8);
	wqe.head.opcode = RXNG_WR_RDMA_READ;
	wqe.head.send_flags |= RXNG_SEND_INLINE;
	put(hostile, &wqe);
	CHECK_RC(doorbell(&hostile->pair->a));
	wc = wc_wait(hostile->pair->a.scq);
	CHECK_EQ(wc.wr_id, 8);
	if (wc.status == IBV_WC_SUCCESS)
		FAIL("a READ into inline data");
}

/* What the request says of its length is not what the pieces say. */
TEST_F(hostile, length_contradicts_pieces)
{
	static const uint32_t lengths[] = { 0, 1, 63, 65, 4096, UINT32_MAX };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct wqe wqe = good_write(hostile, i);
		struct ibv_wc wc;

		wqe.head.dma.length = lengths[i];
		put(hostile, &wqe);
		CHECK_RC(doorbell(&hostile->pair->a));
		wc = wc_wait(hostile->pair->a.scq);
		CHECK_EQ(wc.wr_id, i);
		/* Either length may be believed; nothing else may be written. */
		memcpy(hostile->remote->shadow + 128,
		       hostile->remote->mem + 128, 64);
		buf_check(hostile->remote);
		pair_reconnect(hostile->pair);
	}
}

/* ---- the receive ring -------------------------------------------------- */

static struct recv_wqe good_recv(const struct hostile *h, uint64_t id)
{
	struct recv_wqe wqe;

	memset(&wqe, 0, sizeof(wqe));
	wqe.head.wr_id = id;
	wqe.head.dma.length = 64;
	wqe.head.dma.num_sge = 1;
	wqe.sge[0].addr = buf_addr(h->local, 1024);
	wqe.sge[0].length = 64;
	wqe.sge[0].lkey = h->local->mr->lkey;
	return wqe;
}

static void message_from_b(struct hostile *h, enum ibv_wc_status *status)
{
	struct ibv_sge sge = buf_sge(h->remote, 0, 64);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &sge, 1,
					IBV_SEND_SIGNALED);

	end_send(&h->pair->b, &wr);
	*status = wc_wait(h->pair->b.scq).status;
}

TEST_F(hostile, receive_by_hand)
{
	struct ibv_sge from = buf_sge(hostile->remote, 0, 64);
	struct ibv_sge to = buf_sge(hostile->local, 1024, 64);
	struct recv_wqe wqe = good_recv(hostile, 9);
	enum ibv_wc_status status;

	wqe.head.dma.resid = wqe.head.dma.cur_sge = UINT32_MAX;
	wqe.head.dma.sge_offset = wqe.head.dma.reserved = UINT32_MAX;
	wqe.head.reserved = wqe.head.pad = UINT32_MAX;
	ring_put(&hostile->rings.rq, &wqe, sizeof(wqe));
	message_from_b(hostile, &status);
	CHECK_EQ(status, IBV_WC_SUCCESS);
	wc_expect(hostile->pair->a.rcq, 9, IBV_WC_SUCCESS);
	buf_move(hostile->local, &to, hostile->remote, &from, 64);
	buf_check(hostile->local);
}

struct bad_recv {
	const char *name;
	void (*spoil)(struct recv_wqe *wqe);
};

static void recv_num_sge_over(struct recv_wqe *wqe)
{
	wqe->head.dma.num_sge = 1000;
}

static void recv_num_sge_huge(struct recv_wqe *wqe)
{
	wqe->head.dma.num_sge = UINT32_MAX;
}

static void recv_num_sge_wraps(struct recv_wqe *wqe)
{
	wqe->head.dma.num_sge = 0x10000001;
}

static void recv_kernel_address(struct recv_wqe *wqe)
{
	wqe->sge[0].addr = 0xffff888000001000;
	wqe->sge[0].lkey = 0;
}

static const struct bad_recv bad_recvs[] = {
	{ "num_sge_over", recv_num_sge_over },
	{ "num_sge_huge", recv_num_sge_huge },
	{ "num_sge_wraps", recv_num_sge_wraps },
	{ "kernel_address", recv_kernel_address },
};

TEST_EACH(bad_receive, bad_recvs)
{
	struct hostile *h = hostile_setup();
	struct recv_wqe wqe = good_recv(h, 9);
	enum ibv_wc_status status;

	arg->spoil(&wqe);
	ring_put(&h->rings.rq, &wqe, sizeof(wqe));
	message_from_b(h, &status);
	if (status == IBV_WC_SUCCESS)
		FAIL("the message is delivered");
	end_wait_state(&h->pair->a, IBV_QPS_ERR);
	buf_check(h->local);
	hostile_teardown(h);
}

/* ---- indices and geometry ---------------------------------------------- */

static const struct {
	const char *name;
	uint32_t value;
} indices[] = {
	{ "mask_plus_1", 0 },		/* see wild_index() */
	{ "middle", 0x8000 }, { "high_bit", 0x80000000 },
	{ "all_ones", UINT32_MAX }, { "deadbeef", 0xdeadbeef },
};

static uint32_t wild_index(uint32_t value, const struct ring *ring)
{
	return value ? value : ring->mask + 1;
}

/* One event tells, the queue pair is in error, and can be used again. */
static void expect_stopped(struct hostile *h)
{
	host_expect_event(h->pair->a.host, IBV_EVENT_QP_FATAL, h->pair->a.qp);
	CHECK_EQ(end_state(&h->pair->a), IBV_QPS_ERR);
	doorbell(&h->pair->a);
	others_live();
	host_expect_quiet(h->pair->a.host);
	h->rings.sq.hdr->producer_index = 0;
	h->rings.rq.hdr->producer_index = 0;
	pair_reconnect(h->pair);
	end_ping(&h->pair->a, &h->pair->b);
	end_ping(&h->pair->b, &h->pair->a);
}

/* An index that is not in the ring stops the queue pair. */
TEST_EACH(send_producer, indices)
{
	struct hostile *h = hostile_setup();

	h->rings.sq.hdr->producer_index = wild_index(arg->value, &h->rings.sq);
	doorbell(&h->pair->a);
	expect_stopped(h);
	wc_none(h->pair->a.scq);
	hostile_teardown(h);
}

TEST_EACH(receive_producer, indices)
{
	struct hostile *h = hostile_setup();
	enum ibv_wc_status status;

	h->rings.rq.hdr->producer_index = wild_index(arg->value, &h->rings.rq);
	message_from_b(h, &status);
	if (status == IBV_WC_SUCCESS)
		FAIL("the message is delivered");
	expect_stopped(h);
	hostile_teardown(h);
}

/*
 * One in the ring, and yet behind what was posted and is not done. What the
 * kernel has not fetched yet is taken back by that; what it has, it finds
 * overtaken. Either way each request completes once at most.
 */
TEST_F(hostile, send_producer_moved_back)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 0, NULL, 0, 0);
	struct param slow = hostile->pair->param;
	struct end *a = &hostile->pair->a;
	unsigned int i, last = 0;
	struct ibv_wc wc;

	/* The peer has no receive: all of them wait. */
	slow.rnr_retry = 7;
	slow.min_rnr_timer = 0;
	a->param = hostile->pair->b.param = &slow;
	pair_reconnect(hostile->pair);
	for (i = 1; i <= 10; i++) {
		wr.wr_id = i;
		end_send(a, &wr);
	}
	hostile->rings.sq.hdr->producer_index =
		(hostile->rings.sq.hdr->producer_index - 5) &
		hostile->rings.sq.mask;
	doorbell(a);
	CHECK_RC(end_modify_state(a, IBV_QPS_ERR));
	wc_expect(a->scq, 1, IBV_WC_WR_FLUSH_ERR);
	others_live();
	for (i = 1; ibv_poll_cq(a->scq, 1, &wc) > 0; i++) {
		CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		last = wc.wr_id;
	}
	CHECK(i >= 5 && i <= 10);
	CHECK_EQ(last, i);
	a->param = hostile->pair->b.param = &hostile->pair->param;
	pair_reconnect(hostile->pair);
	end_ping(a, &hostile->pair->b);
}

/* The consumer's index of a send or receive ring is the kernel's to know. */
TEST_EACH(consumer_overwritten, indices)
{
	struct hostile *h = hostile_setup();
	struct wqe wqe = good_write(h, 7);

	h->rings.sq.hdr->consumer_index = wild_index(arg->value, &h->rings.sq);
	h->rings.rq.hdr->consumer_index = wild_index(arg->value, &h->rings.rq);
	put(h, &wqe);
	CHECK_RC(doorbell(&h->pair->a));
	wc_expect(h->pair->a.scq, 7, IBV_WC_SUCCESS);
	expect_written(h);
	hostile_teardown(h);
}

/* The geometry in the header is for the provider only. */
TEST_F(hostile, geometry_overwritten)
{
	struct ring *all[] = {
		&hostile->rings.sq, &hostile->rings.rq, &hostile->rings.scq,
		&hostile->rings.rcq,
	};
	uint32_t log[4], mask[4];
	struct wqe wqe;
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		log[i] = all[i]->hdr->log2_elem_size;
		mask[i] = all[i]->hdr->index_mask;
	}
	for (k = 0; k < 3 * hostile->rings.sq.mask; k++) {
		for (i = 0; i < ARRAY_SIZE(all); i++) {
			all[i]->hdr->log2_elem_size = 31;
			all[i]->hdr->index_mask = UINT32_MAX;
		}
		wqe = good_write(hostile, k);
		put(hostile, &wqe);
		CHECK_RC(doorbell(&hostile->pair->a));
		end_state(&hostile->pair->a);
		for (i = 0; i < ARRAY_SIZE(all); i++) {
			all[i]->hdr->log2_elem_size = log[i];
			all[i]->hdr->index_mask = mask[i];
		}
		wc_expect(hostile->pair->a.scq, k, IBV_WC_SUCCESS);
	}
	expect_written(hostile);
}

/*
 * The consumer's index of a completion ring wherever it may be put: what it
 * says is a matter between the process and itself, no reason to stop others.
 */
TEST_EACH(cq_consumer, indices)
{
	struct hostile *h = hostile_setup();
	struct ring *cq = &h->rings.scq;
	struct wqe wqe;
	unsigned int i;

	for (i = 0; i < 20; i++) {
		cq->hdr->consumer_index = wild_index(arg->value, cq);
		wqe = good_write(h, i);
		put(h, &wqe);
		CHECK_RC(doorbell(&h->pair->a));
		others_live();
	}
	hostile_teardown(h);
}

/*
 * One beyond what was produced, as rdma-core before 55 leaves it: the kernel
 * knows where the consumer was, and neither overruns nor stops.
 */
TEST_F(hostile, cq_consumer_one_ahead)
{
	volatile struct rxng_ring_hdr *hdr = hostile->rings.scq.hdr;
	uint32_t mask = hostile->rings.scq.mask, i;
	struct wqe wqe;

	for (i = 0; i < 3 * mask; i++) {
		uint32_t at = hdr->producer_index;
		const struct rxng_cqe *cqe;
		uint64_t until = deadline();

		hdr->consumer_index = (at + 1) & mask;
		wqe = good_write(hostile, 1000 + i);
		put(hostile, &wqe);
		CHECK_RC(doorbell(&hostile->pair->a));
		while (hdr->producer_index == at)
			if (deadline_over(until))
				FAIL("no completion in round %u", i);
		cqe = ring_slot(&hostile->rings.scq, at);
		CHECK_EQ(cqe->wr_id, 1000 + i);
		CHECK_EQ(cqe->status, IBV_WC_SUCCESS);
		hdr->consumer_index = hdr->producer_index;
	}
	host_expect_quiet(hostile->pair->a.host);
	CHECK_EQ(end_state(&hostile->pair->a), IBV_QPS_RTS);
}

/* The producer's index of a completion ring is the kernel's to know. */
TEST_F(hostile, cq_producer_overwritten)
{
	struct ring *cq = &hostile->rings.scq;
	uint32_t i;

	for (i = 0; i < 50; i++) {
		struct wqe wqe = good_write(hostile, i);
		uint32_t at = cq->hdr->producer_index;
		uint64_t until = deadline();

		cq->hdr->producer_index = i & 1 ? 0xffffffff : at + 77;
		put(hostile, &wqe);
		CHECK_RC(doorbell(&hostile->pair->a));
		while (cq->hdr->producer_index != ((at + 1) & cq->mask))
			if (deadline_over(until))
				FAIL("the producer is %u, not %u",
				     cq->hdr->producer_index,
				     (at + 1) & cq->mask);
		wc_expect(hostile->pair->a.scq, i, IBV_WC_SUCCESS);
	}
}

/* ---- garbage ----------------------------------------------------------- */

static uint64_t random64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t seed(void)
{
	return strtoull(OPT(seed), NULL, 0) * 0x9e3779b97f4a7c15ull | 1;
}

static unsigned int rounds(void)
{
	return tap_rounds(atoi(OPT(rounds)));
}

static void scribble(uint8_t *mem, size_t bytes, uint64_t *state)
{
	size_t i;

	for (i = 0; i + 8 <= bytes; i += 8) {
		uint64_t word = random64(state);

		memcpy(mem + i, &word, sizeof(word));
	}
}

/* Both rings full of noise, or of good requests with a few words of noise. */
static void fill_rings(struct hostile *h, uint64_t *state)
{
	struct wqe wqe = good_write(h, 7);
	struct recv_wqe recv = good_recv(h, 9);
	uint32_t i, noise = random64(state) % 4;

	for (i = 0; i <= h->rings.sq.mask; i++)
		memcpy(ring_slot(&h->rings.sq, i), &wqe, sizeof(wqe));
	for (i = 0; i <= h->rings.rq.mask; i++)
		memcpy(ring_slot(&h->rings.rq, i), &recv, sizeof(recv));
	if (!noise) {
		scribble(h->rings.sq.slots, (h->rings.sq.mask + 1ul) *
			 h->rings.sq.elem, state);
		scribble(h->rings.rq.slots, (h->rings.rq.mask + 1ul) *
			 h->rings.rq.elem, state);
		return;
	}
	for (i = 0; i <= h->rings.sq.mask; i += noise) {
		uint32_t *word = ring_slot(&h->rings.sq, i);

		word[random64(state) % (sizeof(wqe) / 4)] = random64(state) >>
			(random64(state) % 64);
		word = ring_slot(&h->rings.rq, i % h->rings.rq.mask);
		word[random64(state) % (sizeof(recv) / 4)] = random64(state) >>
			(random64(state) % 64);
	}
}

TEST_LIMIT(noise, 600)
{
	uint64_t state = seed();
	struct hostile *h = hostile_setup();
	unsigned int i, n = rounds();
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0, 0);

	for (i = 0; i < n; i++) {
		fill_rings(h, &state);
		h->rings.sq.hdr->producer_index = random64(&state) &
						  h->rings.sq.mask;
		h->rings.rq.hdr->producer_index = random64(&state) &
						  h->rings.rq.mask;
		doorbell(&h->pair->a);
		end_try_send(&h->pair->b, &wr);
		end_try_send(&h->pair->b, &wr);
		if (i % 20 == 19)
			others_live();
		pair_reconnect(h->pair);
	}
	hostile_teardown(h);
}

/* A thread writes noise while the kernel reads. */
struct writer {
	struct hostile *h;
	uint64_t state;
	bool done;
};

static void *keep_writing(void *arg)
{
	struct writer *w = arg;
	struct ring *all[] = {
		&w->h->rings.sq, &w->h->rings.rq, &w->h->rings.scq,
		&w->h->rings.rcq,
	};

	while (!__atomic_load_n(&w->done, __ATOMIC_ACQUIRE)) {
		struct ring *r = all[random64(&w->state) % 4];
		size_t at = random64(&w->state) % (r->size / 4);
		uint32_t value = random64(&w->state) >>
				 (random64(&w->state) % 64);

		((volatile uint32_t *)r->hdr)[at] = value;
		at = random64(&w->state) % (sizeof(struct wqe) / 4);
		((volatile uint32_t *)ring_slot(&w->h->rings.sq, value))[at] =
			value;
	}
	return NULL;
}

TEST_LIMIT(noise_beside, 600)
{
	struct writer w = { .state = seed() };
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0, 0);
	unsigned int i, k, n = rounds();
	pthread_t thread;

	w.h = hostile_setup();
	CHECK_RC(pthread_create(&thread, NULL, keep_writing, &w));
	for (i = 0; i < n; i++) {
		struct wqe wqe = good_write(w.h, i);

		for (k = 0; k < 10; k++) {
			memcpy(ring_slot(&w.h->rings.sq, k + i), &wqe,
			       sizeof(wqe));
			w.h->rings.sq.hdr->producer_index =
				(k + i + 1) & w.h->rings.sq.mask;
			doorbell(&w.h->pair->a);
		}
		end_try_send(&w.h->pair->b, &wr);
		if (i % 20 == 19)
			others_live();
		pair_reconnect(w.h->pair);
	}
	__atomic_store_n(&w.done, true, __ATOMIC_RELEASE);
	CHECK_RC(pthread_join(thread, NULL));
	hostile_teardown(w.h);
}

/* ---- mappings ---------------------------------------------------------- */

static bool can_map(int fd, size_t size, off_t offset)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			 offset);

	if (mem == MAP_FAILED)
		return false;
	munmap(mem, size);
	return true;
}

TEST_F(hostile, mappings_refused)
{
	const struct ring *sq = &hostile->rings.sq;
	int other = hostile->pair->b.host->ctx->cmd_fd;
	off_t offset;

	for (offset = 0; offset < 1 << 20; offset += 4096)
		if (can_map(other, 1 << 20, offset))
			FAIL("1 MiB at 0x%lx", (long)offset);
	CHECK(!can_map(sq->fd, 4096, -4096));
	CHECK(!can_map(sq->fd, 4096, 1ll << 40));
	CHECK(!can_map(sq->fd, sq->size + 4096, sq->offset));
	/* Rings of one context are not to be had from another. */
	if (other != sq->fd && sq->offset > 1 << 20)
		CHECK(!can_map(other, sq->size, sq->offset));
}

/* The memory of a ring lives as long as a mapping of it does. */
TEST(mapping_outlives_queue)
{
	struct param param = param_default();
	struct ring *all[4];
	struct rings rings;
	struct pair *pair;
	unsigned int i;
	size_t k;

	pair = rings_pair(&param, &rings);
	all[0] = &rings.sq;
	all[1] = &rings.rq;
	all[2] = &rings.scq;
	all[3] = &rings.rcq;
	end_ping(&pair->a, &pair->b);
	keep_mappings();
	pair_teardown(pair);
	for (i = 0; i < 4; i++)
		for (k = 0; k < all[i]->size; k++)
			((volatile uint8_t *)all[i]->hdr)[k] ^= 0xff;
	others_live();
	for (i = 0; i < 4; i++)
		for (k = 0; k < all[i]->size; k++)
			((volatile uint8_t *)all[i]->hdr)[k] ^= 0xff;
	CHECK_EQ(rings.sq.hdr->index_mask, rings.sq.mask);
	CHECK_EQ(rings.scq.hdr->index_mask, rings.scq.mask);
}

/* The process gives up access to its rings; the kernel has them still. */
TEST_F(hostile, unmapped_under_work)
{
	struct wqe wqe = good_write(hostile, 7);
	unsigned int i;

	for (i = 0; i < hostile->rings.sq.mask; i++)
		put(hostile, &wqe);
	CHECK_RC(doorbell(&hostile->pair->a));
	mprotect((void *)hostile->rings.sq.hdr, hostile->rings.sq.size,
		 PROT_NONE);
	mprotect((void *)hostile->rings.scq.hdr, hostile->rings.scq.size,
		 PROT_NONE);
	others_live();
	mprotect((void *)hostile->rings.sq.hdr, hostile->rings.sq.size,
		 PROT_READ | PROT_WRITE);
	mprotect((void *)hostile->rings.scq.hdr, hostile->rings.scq.size,
		 PROT_READ | PROT_WRITE);
	for (i = 0; i < hostile->rings.sq.mask; i++)
		wc_expect(hostile->pair->a.scq, 7, IBV_WC_SUCCESS);
	expect_written(hostile);
}

/* ---- the system calls that the provider does not make ------------------ */

static int command(struct end *end, uint32_t number, const void *body,
		   size_t bytes)
{
	uint64_t words[64];
	struct ib_uverbs_cmd_hdr *hdr = (void *)words;
	static char response[4096];

	memset(words, 0, sizeof(words));
	CHECK(sizeof(*hdr) + bytes <= sizeof(words));
	hdr->command = number;
	hdr->in_words = (sizeof(*hdr) + bytes) / 4;
	hdr->out_words = sizeof(response) / 4;
	memcpy(hdr + 1, body, bytes);
	words[1] = (uintptr_t)response;
	if (write(end->host->ctx->cmd_fd, words, sizeof(*hdr) + bytes) < 0)
		return errno;
	return 0;
}

/* A request in the call itself does not go by the ring, and is not taken. */
TEST_F(hostile, post_send_in_the_call)
{
	struct {
		struct ib_uverbs_post_send cmd;
		struct ib_uverbs_send_wr wr;
		struct ib_uverbs_sge sge;
	} body = {
		.cmd.qp_handle = hostile->pair->a.qp->handle,
		.cmd.wr_count = 1, .cmd.sge_count = 1,
		.cmd.wqe_size = sizeof(body.wr),
		.wr.wr_id = 5, .wr.num_sge = 1, .wr.opcode = IBV_WR_RDMA_WRITE,
		.wr.send_flags = IBV_SEND_SIGNALED,
		.wr.wr.rdma.remote_addr = buf_addr(hostile->remote, 0),
		.wr.wr.rdma.rkey = hostile->remote->mr->rkey,
		.sge = { buf_addr(hostile->local, 0), 64,
			 hostile->local->mr->lkey },
	};

	command(&hostile->pair->a, IB_USER_VERBS_CMD_POST_SEND, &body,
		sizeof(body));
	body.wr.send_flags = UINT32_MAX;
	body.wr.opcode = 32;
	command(&hostile->pair->a, IB_USER_VERBS_CMD_POST_SEND, &body,
		sizeof(body));
	end_ping(&hostile->pair->a, &hostile->pair->b);
	wc_none(hostile->pair->a.scq);
	buf_check(hostile->remote);
}

TEST_F(hostile, post_recv_in_the_call)
{
	struct {
		struct ib_uverbs_post_recv cmd;
		struct ib_uverbs_recv_wr wr;
		struct ib_uverbs_sge sge;
	} body = {
		.cmd.qp_handle = hostile->pair->a.qp->handle,
		.cmd.wr_count = 1, .cmd.sge_count = 1,
		.cmd.wqe_size = sizeof(body.wr),
		.wr.wr_id = 5, .wr.num_sge = 1,
		.sge = { buf_addr(hostile->local, 0), 64,
			 hostile->local->mr->lkey },
	};
	enum ibv_wc_status status;

	if (!command(&hostile->pair->a, IB_USER_VERBS_CMD_POST_RECV, &body,
		     sizeof(body)))
		FAIL("taken");
	message_from_b(hostile, &status);
	CHECK_EQ(status, IBV_WC_RNR_RETRY_EXC_ERR);
	wc_none(hostile->pair->a.rcq);
}

TEST_F(hostile, poll_in_the_call)
{
	struct ib_uverbs_poll_cq body = {
		.cq_handle = hostile->pair->a.scq->handle, .ne = 16,
	};
	struct wqe wqe = good_write(hostile, 7);

	put(hostile, &wqe);
	CHECK_RC(doorbell(&hostile->pair->a));
	command(&hostile->pair->a, IB_USER_VERBS_CMD_POLL_CQ, &body,
		sizeof(body));
	others_live();
	end_ping(&hostile->pair->b, &hostile->pair->a);
}

/* Doorbells of other sizes, other handles, and very many of them. */
TEST_F(hostile, odd_doorbells)
{
	struct ib_uverbs_post_send cmd = {
		.qp_handle = hostile->pair->a.qp->handle,
	};
	struct end *a = &hostile->pair->a;
	uint32_t i;

	for (i = 0; i < 300; i++) {
		cmd.wqe_size = i;
		command(a, IB_USER_VERBS_CMD_POST_SEND, &cmd, sizeof(cmd));
	}
	cmd.wqe_size = RXNG_DOORBELL_WQE_SIZE;
	for (i = 0; i < 1000; i++) {
		cmd.qp_handle = i * 7;
		command(a, IB_USER_VERBS_CMD_POST_SEND, &cmd, sizeof(cmd));
	}
	for (i = 0; i < 5000; i++)
		CHECK_RC(doorbell(a));
	end_ping(a, &hostile->pair->b);
}
