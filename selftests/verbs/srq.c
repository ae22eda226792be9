// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Shared receive queues: many QPs, limits, last requests, sizes. */
#include <errno.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>

#include "call.h"
#include "capture.h"

#define QPS 4
#define WR 15
#define SLOT 4096

struct shared {
	struct param param, plain;
	struct host *host, *far;
	struct ibv_pd *pd;		/* of the queue, not of the QPs */
	struct ibv_srq *srq;
	struct ring ring;		/* the queue's, as the process sees it */
	struct buf *to, *from;
	struct end end[QPS], peer[QPS];
};

static struct shared *open_shared(enum ibv_qp_type type)
{
	struct shared *s = calloc(1, sizeof(*s));
	int i;

	CHECK(s);
	s->plain = param_default();
	s->plain.type = type;
	s->plain.mtu = IBV_MTU_256;
	s->param = s->plain;
	s->host = host_open(0);
	s->far = host_open(1);
	s->pd = ibv_alloc_pd(s->host->ctx);
	CHECK_ERRNO(s->pd);
	s->srq = ring_srq(s->pd, WR, 2, &s->ring);
	s->param.srq = s->srq;
	s->to = buf_new(s->pd, (WR + 1) * SLOT, ALL_ACCESS);
	s->from = buf_new(s->far->pd, SLOT, ALL_ACCESS);
	for (i = 0; i < QPS; i++) {
		end_create(&s->end[i], s->host, &s->param);
		end_create(&s->peer[i], s->far, &s->plain);
		end_connect(&s->end[i], &s->peer[i]);
		end_connect(&s->peer[i], &s->end[i]);
	}
	return s;
}

static struct shared *shared_setup(void)
{
	return open_shared(IBV_QPT_RC);
}

static void shared_teardown(struct shared *s)
{
	int i;

	for (i = 0; i < QPS; i++) {
		end_destroy(&s->end[i]);
		end_destroy(&s->peer[i]);
	}
	buf_free(s->to);
	buf_free(s->from);
	CHECK_RC(ibv_destroy_srq(s->srq));
	CHECK_RC(ibv_dealloc_pd(s->pd));
	host_close(s->far);
	host_close(s->host);
	free(s);
}

static int try_post(struct shared *s, uint64_t id, struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr *bad, wr = {
		.wr_id = id, .sg_list = sge, .num_sge = n,
	};

	return ibv_post_srq_recv(s->srq, &wr, &bad);
}

/* A receive whose id is its slot in the buffer. */
static void post(struct shared *s, uint64_t slot)
{
	struct ibv_sge sge = buf_sge(s->to, slot * SLOT, SLOT);

	CHECK_RC(try_post(s, slot, &sge, 1));
}

static void transmit(struct shared *s, int qp, uint32_t length)
{
	struct ibv_sge sge = buf_sge(s->from, 0, length);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, qp, &sge, 1,
					IBV_SEND_SIGNALED);

	end_send(&s->peer[qp], &wr);
}

/* QP @qp gets @length bytes into slot @slot. */
static void receives(struct shared *s, int qp, uint64_t slot, uint32_t length)
{
	struct ibv_wc wc = wc_expect(s->end[qp].rcq, slot, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, length);
	CHECK_EQ(wc.qp_num, s->end[qp].qp->qp_num);
	CHECK(!memcmp(s->to->mem + slot * SLOT, s->from->mem, length));
}

static void message(struct shared *s, int qp, uint64_t slot, uint32_t length)
{
	transmit(s, qp, length);
	AT(receives(s, qp, slot, length));
	wc_expect(s->peer[qp].scq, qp, IBV_WC_SUCCESS);
}

#define MESSAGE(...) AT(message(s, __VA_ARGS__))

/* ---- who gets what ----------------------------------------------------- */

/* Requests go out in the order of posting, to whoever asks next. */
TEST(in_turn)
{
	static const uint32_t lengths[] = { 0, 1, 256, 257, 4096 };
	struct shared *s = shared_setup();
	unsigned int i;

	for (i = 0; i < 60; i++) {
		post(s, i % WR);
		MESSAGE(i % QPS, i % WR, lengths[i % 5]);
	}
	shared_teardown(s);
}

TEST(unreliable)
{
	struct shared *s = open_shared(IBV_QPT_UC);
	unsigned int i;

	for (i = 0; i < 20; i++) {
		post(s, i % WR);
		MESSAGE(i % QPS, i % WR, 1000);
	}
	/* Too long for its receive: lost, and the next one gets it. */
	CHECK_RC(try_post(s, 1, (struct ibv_sge[]){ buf_sge(s->to, SLOT, 100) },
			  1));
	transmit(s, 0, 1000);
	wc_expect(s->peer[0].scq, 0, IBV_WC_SUCCESS);
	MESSAGE(0, 1, 100);
	shared_teardown(s);
}

/* While one QP is in the middle of a message others take the next requests. */
TEST(interleaved)
{
	struct shared *s = shared_setup();
	unsigned int i, round, got;
	struct ibv_wc wc;

	for (round = 0; round < 50; round++) {
		for (i = 0; i < 3 * QPS; i++)
			post(s, i);
		for (i = 0; i < 3 * QPS; i++)
			transmit(s, i % QPS, SLOT);
		for (i = 0, got = 0; i < 3 * QPS; i++) {
			wc = wc_wait(s->end[i % QPS].rcq);
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(wc.byte_len, SLOT);
			CHECK(!(got & 1u << wc.wr_id));
			got |= 1u << wc.wr_id;
			CHECK(!memcmp(s->to->mem + wc.wr_id * SLOT,
				      s->from->mem, SLOT));
			wc_expect(s->peer[i % QPS].scq, i % QPS, IBV_WC_SUCCESS);
		}
	}
	shared_teardown(s);
}

/* None posted: the peer waits, and goes on when there is one. */
TEST(not_ready)
{
	struct shared *s = shared_setup();

	transmit(s, 1, 100);
	transmit(s, 2, 100);
	wc_none(s->end[1].rcq);
	post(s, 3);
	post(s, 4);
	CHECK_EQ(wc_wait(s->end[1].rcq).wr_id + wc_wait(s->end[2].rcq).wr_id, 7);
	wc_expect(s->peer[1].scq, 1, IBV_WC_SUCCESS);
	wc_expect(s->peer[2].scq, 2, IBV_WC_SUCCESS);
	shared_teardown(s);
}

/* 10.2.9.1: the keys are of the queue's domain, not of the QP's. */
TEST(domain)
{
	struct shared *s = shared_setup();
	struct buf *other = buf_new(s->host->pd, SLOT, ALL_ACCESS);
	struct ibv_sge sge = buf_sge(other, 0, SLOT);

	post(s, 0);
	MESSAGE(0, 0, 100);
	CHECK_RC(try_post(s, 9, &sge, 1));
	transmit(s, 1, 100);
	wc_expect(s->end[1].rcq, 9, IBV_WC_LOC_PROT_ERR);
	wc_expect(s->peer[1].scq, 1, IBV_WC_REM_OP_ERR);
	buf_check(other);
	host_expect_event(s->host, IBV_EVENT_QP_LAST_WQE_REACHED, s->end[1].qp);
	buf_free(other);
	shared_teardown(s);
}

/* ---- limit ------------------------------------------------------------- */

static int arm(struct shared *s, uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	return ibv_modify_srq(s->srq, &attr, IBV_SRQ_LIMIT);
}

static struct ibv_srq_attr query(struct shared *s)
{
	struct ibv_srq_attr attr;

	CHECK_RC(ibv_query_srq(s->srq, &attr));
	return attr;
}

TEST(limit)
{
	struct shared *s = shared_setup();
	unsigned int i;

	for (i = 0; i < 5; i++)
		post(s, i);
	CHECK_RC(arm(s, 4));
	CHECK_EQ(query(s).srq_limit, 4);
	MESSAGE(0, 0, 10);
	host_expect_quiet(s->host);
	MESSAGE(1, 1, 10);
	host_expect_event(s->host, IBV_EVENT_SRQ_LIMIT_REACHED, s->srq);
	CHECK_EQ(query(s).srq_limit, 0);
	/* Once, until it is armed again. */
	MESSAGE(2, 2, 10);
	host_expect_quiet(s->host);
	CHECK_RC(arm(s, 2));
	host_expect_quiet(s->host);
	MESSAGE(3, 3, 10);
	host_expect_event(s->host, IBV_EVENT_SRQ_LIMIT_REACHED, s->srq);
	shared_teardown(s);
}

/* Nothing will be taken that would tell it later. */
TEST(limit_reached_already)
{
	struct shared *s = shared_setup();

	post(s, 0);
	CHECK_RC(arm(s, 2));
	host_expect_event(s->host, IBV_EVENT_SRQ_LIMIT_REACHED, s->srq);
	host_expect_quiet(s->host);
	CHECK_EQ(arm(s, WR + 1), EINVAL);
	CHECK_RC(arm(s, 0));
	host_expect_quiet(s->host);
	shared_teardown(s);
}

/* ---- a QP goes to ERROR ------------------------------------------------ */

/* o11-5.2.5: no more of the queue's requests will end on this QP. */
TEST(last_request)
{
	struct shared *s = shared_setup();

	post(s, 0);
	post(s, 1);
	MESSAGE(0, 0, 10);
	CHECK_RC(end_modify_state(&s->end[0], IBV_QPS_ERR));
	host_expect_event(s->host, IBV_EVENT_QP_LAST_WQE_REACHED, s->end[0].qp);
	CHECK_RC(end_modify_state(&s->end[0], IBV_QPS_ERR));
	host_expect_quiet(s->host);
	wc_none(s->end[0].rcq);
	/* What was posted is for the others. */
	MESSAGE(1, 1, 10);

	CHECK_RC(end_modify_state(&s->end[0], IBV_QPS_RESET));
	CHECK_RC(end_modify_state(&s->peer[0], IBV_QPS_RESET));
	end_connect(&s->end[0], &s->peer[0]);
	end_connect(&s->peer[0], &s->end[0]);
	post(s, 2);
	MESSAGE(0, 2, 10);
	CHECK_RC(end_modify_state(&s->end[0], IBV_QPS_ERR));
	host_expect_event(s->host, IBV_EVENT_QP_LAST_WQE_REACHED, s->end[0].qp);
	shared_teardown(s);
}

/* ---- sizes ------------------------------------------------------------- */

static int resize(struct shared *s, uint32_t wr)
{
	struct ibv_srq_attr attr = { .max_wr = wr };

	return ibv_modify_srq(s->srq, &attr, IBV_SRQ_MAX_WR);
}

TEST(resize_with_requests)
{
	struct shared *s = shared_setup();
	unsigned int i;

	for (i = 0; i < 6; i++)
		post(s, i);
	MESSAGE(0, 0, 100);
	CHECK_RC(resize(s, 40));
	CHECK(query(s).max_wr >= 40);
	for (i = 6; i < 15; i++)
		post(s, i);
	for (i = 1; i < 15; i++)
		MESSAGE(i % QPS, i, 300);
	post(s, 0);
	CHECK_RC(resize(s, 1));
	MESSAGE(0, 0, 100);
	shared_teardown(s);
}

/* While QPs take from it, more than what moves under the lock. */
TEST(resize_under_traffic)
{
	struct shared *s = shared_setup();
	unsigned int i, round, posted = 0, got = 0;
	struct ibv_wc wc;

	CHECK_RC(resize(s, 500));
	for (i = 0; i < 400; i++) {
		CHECK_RC(try_post(s, posted % WR, (struct ibv_sge[]){
			buf_sge(s->to, posted % WR * SLOT, SLOT) }, 1));
		posted++;
	}
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 40; i++)
			transmit(s, i % QPS, 64);
		CHECK_RC(resize(s, round % 2 ? 500 : 1000));
		for (i = 0; i < 40; i++, got++) {
			wc = wc_wait(s->end[i % QPS].rcq);
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			wc_expect(s->peer[i % QPS].scq, i % QPS, IBV_WC_SUCCESS);
		}
	}
	CHECK_EQ(got, posted);
	transmit(s, 0, 64);
	wc_none(s->end[0].rcq);
	shared_teardown(s);
}

TEST(resize_refused)
{
	struct shared *s = shared_setup();
	uint32_t before = query(s).max_wr;
	unsigned int i;

	for (i = 0; i < 5; i++)
		post(s, i);
	CHECK_EQ(resize(s, 3), EINVAL);
	CHECK_EQ(resize(s, 0), EINVAL);
	CHECK_EQ(resize(s, s->host->dev.max_srq_wr + 1), EINVAL);
	CHECK_EQ(query(s).max_wr, before);
	shared_teardown(s);
}

TEST(full)
{
	struct shared *s = shared_setup();
	uint32_t max = query(s).max_wr, i;

	CHECK(max >= WR);
	for (i = 0; i < max; i++)
		CHECK_RC(try_post(s, i, NULL, 0));
	CHECK(try_post(s, i, NULL, 0));
	shared_teardown(s);
}

struct sizes {
	const char *name;
	uint32_t wr, sge;
};

static const struct sizes bad_sizes[] = {
	{ "no_requests", 0, 1 }, { "requests", 1u << 20, 1 },
	{ "pieces", 8, 1000 },
};

TEST_EACH(too_much, bad_sizes)
{
	struct host *host = host_open(0);
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = arg->wr, .max_sge = arg->sge },
	};

	CHECK(!ibv_create_srq(host->pd, &init));
	CHECK_EQ(errno, EINVAL);
	host_close(host);
}

TEST(busy)
{
	struct shared *s = shared_setup();

	CHECK_EQ(ibv_destroy_srq(s->srq), EBUSY);
	shared_teardown(s);
}

/* ---- many threads ------------------------------------------------------ */

#define MANY 4000

struct resizer {
	struct ibv_srq *srq;
	unsigned int seed, done;
};

/* As the provider does it, whose own lock lets only one thread in. */
static int raw_resize(struct ibv_srq *srq, uint32_t max_wr)
{
	struct rxng_mminfo mi;
	struct {
		struct ib_uverbs_modify_srq cmd;
		uint64_t place;
	} body = {
		.cmd = {
			.srq_handle = srq->handle,
			.attr_mask = IBV_SRQ_MAX_WR,
			.max_wr = max_wr,
		},
		.place = (uintptr_t)&mi,
	};

	return call_command(srq->context, IB_USER_VERBS_CMD_MODIFY_SRQ, &body,
			    sizeof(body), 0);
}

static void *resize_often(void *arg)
{
	struct resizer *r = arg;
	unsigned int i;

	for (i = 0; i < tap_rounds(100); i++)
		r->done += !raw_resize(r->srq, MANY + rand_r(&r->seed) % MANY);
	return NULL;
}

static struct ibv_srq *full_srq(struct host *host, struct ring *ring)
{
	struct ibv_srq *srq = ring_srq(host->pd, MANY, 4, ring);
	struct ibv_recv_wr *bad, wr = {};
	int i;

	for (i = 0; i < MANY; i++)
		CHECK_RC(ibv_post_srq_recv(srq, &wr, &bad));
	return srq;
}

TEST(resized_by_threads)
{
	struct host *host = host_open(0);
	struct resizer resizers[3];
	pthread_t thread[3];
	struct ring ring;
	unsigned int i;

	keep_mappings();
	for (i = 0; i < ARRAY_SIZE(thread); i++)
		resizers[i] = (struct resizer) { .seed = i };
	resizers[0].srq = resizers[1].srq = resizers[2].srq =
		full_srq(host, &ring);
	for (i = 0; i < ARRAY_SIZE(thread); i++)
		CHECK_RC(pthread_create(&thread[i], NULL, resize_often,
					&resizers[i]));
	for (i = 0; i < ARRAY_SIZE(thread); i++) {
		CHECK_RC(pthread_join(thread[i], NULL));
		CHECK_EQ(resizers[i].done, tap_rounds(100));
	}
	CHECK_RC(ibv_destroy_srq(resizers[0].srq));
	host_close(host);
}

/* ---- a process that writes into its ring ------------------------------- */

TEST(wild_index)
{
	struct shared *s = shared_setup();

	s->ring.hdr->producer_index = 0x12345678;
	transmit(s, 0, 10);
	host_expect_event(s->host, IBV_EVENT_SRQ_ERR, s->srq);
	end_wait_state(&s->end[0], IBV_QPS_ERR);
	transmit(s, 1, 10);
	end_wait_state(&s->end[1], IBV_QPS_ERR);
	while (is_readable(s->host->ctx->async_fd)) {
		struct ibv_async_event event;

		host_event(s->host, &event);
		CHECK(event.event_type == IBV_EVENT_QP_FATAL ||
		      event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
	}
	s->ring.hdr->producer_index = 0;
	shared_teardown(s);
}

TEST(malformed_request)
{
	struct shared *s = shared_setup();
	struct rxng_recv_wqe wqe = { .wr_id = 77, .dma.num_sge = 1000 };

	ring_put(&s->ring, &wqe, sizeof(wqe));
	transmit(s, 0, 10);
	wc_expect(s->end[0].rcq, 77, IBV_WC_LOC_QP_OP_ERR);
	post(s, 1);
	MESSAGE(1, 1, 10);
	shared_teardown(s);
}

struct shaker {
	struct ring ring;
	bool stop;
};

static void *take_back(void *arg)
{
	struct shaker *s = arg;
	unsigned int seed = 1, i;

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		s->ring.hdr->producer_index = MANY;
		for (i = rand_r(&seed) % 3000; i; i--)
			__asm__ volatile("");
		s->ring.hdr->producer_index = 100;
		for (i = rand_r(&seed) % 3000; i; i--)
			__asm__ volatile("");
	}
	return NULL;
}

/* What is posted is taken back while it moves to another ring. */
TEST(taken_back)
{
	struct host *host = host_open(0);
	unsigned int i;

	keep_mappings();
	for (i = 0; i < tap_rounds(40); i++) {
		struct shaker s = {};
		struct ibv_srq *srq = full_srq(host, &s.ring);
		pthread_t thread;
		int err;

		CHECK_RC(pthread_create(&thread, NULL, take_back, &s));
		err = raw_resize(srq, MANY);
		__atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
		CHECK_RC(pthread_join(thread, NULL));
		CHECK(!err || err == EINVAL);
		if (err)
			host_expect_event(host, IBV_EVENT_SRQ_ERR, srq);
		CHECK_RC(ibv_destroy_srq(srq));
	}
	host_close(host);
}
