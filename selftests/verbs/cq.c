// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completion queues: sizes, resizing, sharing, moderation. */
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <stdlib.h>

#include "call.h"
#include "verbs.h"

/* ---- sizes ------------------------------------------------------------- */

static const struct {
	const char *name;
	int cqe;
} sizes[] = {
	{ "1", 1 }, { "2", 2 }, { "3", 3 }, { "4", 4 }, { "63", 63 },
	{ "64", 64 }, { "65", 65 }, { "1000", 1000 },
};

static void write_signalled(struct pair *pair, uint64_t id)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, id, NULL, 0,
					IBV_SEND_SIGNALED);

	end_send(&pair->a, &wr);
}

/* Wait until all that was posted is done, without looking at the queue. */
static void settle(struct pair *pair)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 0, NULL, 0, 0);

	end_recv(&pair->b, 0x5e771e, NULL, 0);
	end_send(&pair->a, &wr);
	wc_expect(pair->b.rcq, 0x5e771e, IBV_WC_SUCCESS);
}

/* A queue of n holds n at least, says how many, and holds exactly those. */
TEST_EACH(capacity, sizes)
{
	struct param param = param_default();
	struct pair *pair;
	int round, i;

	param.scqe = arg->cqe;
	param.sq_wr = 2 * arg->cqe + 200;
	pair = pair_new(&param);
	CHECK(pair->a.scq->cqe >= arg->cqe);
	for (round = 0; round < 5; round++) {
		int n = pair->a.scq->cqe;

		for (i = 0; i < n && i < (int)pair->a.cap.max_send_wr; i++)
			write_signalled(pair, i);
		n = i;
		settle(pair);
		for (i = 0; i < n; i++)
			wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
		wc_none(pair->a.scq);
	}
	host_expect_quiet(pair->a.host);
	pair_teardown(pair);
}

static void no_cq(struct host *host, int cqe, int vector)
{
	struct ibv_cq *cq = ibv_create_cq(host->ctx, cqe, NULL, NULL, vector);

	if (cq)
		FAIL("created with %d entries, vector %d", cqe, vector);
	CHECK_EQ(errno, EINVAL);
}

TEST(refused_sizes)
{
	struct host *host = host_open(0);
	struct ibv_cq *cq;

	no_cq(host, 0, 0);
	no_cq(host, -1, 0);
	no_cq(host, host->dev.max_cqe + 1, 0);
	no_cq(host, 10, host->ctx->num_comp_vectors);
	no_cq(host, 10, -1);
	cq = ibv_create_cq(host->ctx, host->dev.max_cqe, NULL, NULL, 0);
	CHECK_ERRNO(cq);
	CHECK_EQ(cq->cqe, host->dev.max_cqe);
	CHECK_RC(ibv_destroy_cq(cq));
	host_close(host);
}

TEST(every_vector)
{
	struct host *host = host_open(0);
	int i;

	CHECK(host->ctx->num_comp_vectors >= 1);
	for (i = 0; i < host->ctx->num_comp_vectors; i++) {
		struct ibv_cq *cq = ibv_create_cq(host->ctx, 4, NULL, NULL, i);

		CHECK_ERRNO(cq);
		CHECK_RC(ibv_destroy_cq(cq));
	}
	host_close(host);
}

TEST_F(pair, busy)
{
	CHECK_EQ(ibv_destroy_cq(pair->a.scq), EBUSY);
	CHECK_EQ(ibv_destroy_cq(pair->a.rcq), EBUSY);
	end_ping(&pair->a, &pair->b);
}

/* ---- resizing ---------------------------------------------------------- */

/*
 * Held completions stay, in order, at every place of the ring where they can
 * lie, growing and shrinking; a size below their number is refused and changes
 * nothing.
 */
static void resize_holding(struct pair *pair, int held, int cqe)
{
	struct ibv_cq *cq = pair->a.scq;
	int i, old = cq->cqe, rc;

	for (i = 0; i < held; i++)
		write_signalled(pair, i);
	settle(pair);
	rc = ibv_resize_cq(cq, cqe);
	if (cqe < held) {
		CHECK_EQ(rc, EINVAL);
		CHECK_EQ(cq->cqe, old);
	} else {
		CHECK_RC(rc);
		CHECK(cq->cqe >= cqe);
	}
	for (i = 0; i < held; i++)
		wc_expect(cq, i, IBV_WC_SUCCESS);
	wc_none(cq);
	/* And it works on, to its new brim. */
	for (i = 0; i < cq->cqe && i < 60; i++)
		write_signalled(pair, 100 + i);
	settle(pair);
	for (i = 0; i < cq->cqe && i < 60; i++)
		wc_expect(cq, 100 + i, IBV_WC_SUCCESS);
	wc_none(cq);
}

TEST_F(pair, resize_holding_completions)
{
	static const int cqes[] = { 3, 100, 7, 20, 50, 1, 31, 500, 8 };
	static const int helds[] = { 0, 1, 5, 7, 3 };
	size_t i, k;

	for (k = 0; k < ARRAY_SIZE(helds); k++)
		for (i = 0; i < ARRAY_SIZE(cqes); i++) {
			if (helds[k] > pair->a.scq->cqe)
				CHECK_RC(ibv_resize_cq(pair->a.scq, 64));
			resize_holding(pair, helds[k], cqes[i]);
		}
	host_expect_quiet(pair->a.host);
}

/* Down to exactly what it holds. */
TEST_F(pair, resize_to_held)
{
	struct ibv_cq *cq = pair->a.scq;
	int i, n = 20;

	for (i = 0; i < n; i++)
		write_signalled(pair, i);
	settle(pair);
	CHECK_EQ(ibv_resize_cq(cq, n - 1), EINVAL);
	CHECK_RC(ibv_resize_cq(cq, n));
	for (i = 0; i < n; i++)
		wc_expect(cq, i, IBV_WC_SUCCESS);
	wc_none(cq);
}

TEST_F(pair, resize_refused)
{
	struct ibv_cq *cq = pair->a.scq;
	int old = cq->cqe;

	CHECK_EQ(ibv_resize_cq(cq, 0), EINVAL);
	CHECK_EQ(ibv_resize_cq(cq, -1), EINVAL);
	CHECK_EQ(ibv_resize_cq(cq, pair->a.host->dev.max_cqe + 1), EINVAL);
	CHECK_EQ(cq->cqe, old);
	end_ping(&pair->a, &pair->b);
	CHECK_RC(ibv_resize_cq(cq, pair->a.host->dev.max_cqe));
	end_ping(&pair->a, &pair->b);
}

/* An armed queue stays armed. */
TEST(resize_armed)
{
	struct param param = param_default();
	struct pair *pair;
	int i;

	param.channel = true;
	pair = pair_new(&param);
	for (i = 0; i < 10; i++) {
		CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 0));
		CHECK_RC(ibv_resize_cq(pair->b.rcq, i & 1 ? 300 : 70));
		CHECK(!is_readable(pair->b.channel->fd));
		end_ping(&pair->a, &pair->b);
		end_take_event(&pair->b, pair->b.rcq);
	}
	pair_teardown(pair);
}

/*
 * While completions come in and another thread polls: none lost, none twice.
 * A resize after every few completions: the provider's lock is not fair.
 */
struct flow {
	struct pair *pair;
	unsigned int total, seen;
};

#define RESIZE_EVERY 23

static void *keep_resizing(void *arg)
{
	static const int cqes[] = { 64, 200, 65, 127, 1000, 90 };
	unsigned int i, seen, last = 0;
	struct flow *f = arg;

	for (i = 0; last + RESIZE_EVERY < f->total; i++) {
		while ((seen = __atomic_load_n(&f->seen, __ATOMIC_ACQUIRE)) <
		       last + RESIZE_EVERY)
			sched_yield();
		last = seen;
		CHECK_RC(ibv_resize_cq(f->pair->a.scq,
				       cqes[i % ARRAY_SIZE(cqes)]));
	}
	return NULL;
}

TEST_F(pair, resize_under_traffic)
{
	struct flow f = { .pair = pair, .total = tap_rounds(20000) };
	unsigned int posted = 0, seen = 0;
	uint64_t until = deadline();
	pthread_t resizer;
	struct ibv_wc wc;

	CHECK_RC(pthread_create(&resizer, NULL, keep_resizing, &f));
	while (seen < f.total) {
		while (posted < f.total && posted - seen < 50)
			write_signalled(pair, posted++);
		while (ibv_poll_cq(pair->a.scq, 1, &wc) > 0) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(wc.wr_id, seen++);
			__atomic_store_n(&f.seen, seen, __ATOMIC_RELEASE);
			until = deadline();
		}
		if (deadline_over(until))
			FAIL("no completion after %u", seen);
		sched_yield();
	}
	CHECK_RC(pthread_join(resizer, NULL));
	wc_none(pair->a.scq);
	host_expect_quiet(pair->a.host);
}

/* ---- sharing ----------------------------------------------------------- */

struct shared {
	struct host *host;
	struct param param;
	struct ibv_cq *cq, *peer_cq;
	struct end end[2], peer[2];
};

static void shared_qp(struct shared *s, struct end *end, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 64, 64, 1, 1, 0 },
	};

	end->host = s->host;
	end->param = &s->param;
	end->qp = ibv_create_qp(s->host->pd, &init);
	CHECK_ERRNO(end->qp);
}

static void shared_open(struct shared *s, int cqe)
{
	int i;

	memset(s, 0, sizeof(*s));
	s->host = host_open(0);
	s->param = param_default();
	s->cq = ibv_create_cq(s->host->ctx, cqe, NULL, NULL, 0);
	CHECK_ERRNO(s->cq);
	s->peer_cq = ibv_create_cq(s->host->ctx, 500, NULL, NULL, 0);
	CHECK_ERRNO(s->peer_cq);
	for (i = 0; i < 2; i++) {
		shared_qp(s, &s->end[i], s->cq);
		shared_qp(s, &s->peer[i], s->peer_cq);
		end_connect(&s->peer[i], &s->end[i]);
		end_connect(&s->end[i], &s->peer[i]);
	}
}

static void shared_close(struct shared *s)
{
	int i;

	for (i = 0; i < 2; i++) {
		CHECK_RC(ibv_destroy_qp(s->end[i].qp));
		CHECK_RC(ibv_destroy_qp(s->peer[i].qp));
	}
	CHECK_RC(ibv_destroy_cq(s->cq));
	CHECK_RC(ibv_destroy_cq(s->peer_cq));
	host_close(s->host);
}

static void shared_write(struct shared *s, int which, uint64_t id)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, id, NULL, 0,
					IBV_SEND_SIGNALED);

	end_send(&s->end[which], &wr);
}

/* One queue for sends and receives of several queue pairs. */
TEST(shared_by_queue_pairs)
{
	unsigned int i, next[2] = { 0, 0 };
	struct shared s;

	shared_open(&s, 100);
	for (i = 0; i < 80; i++)
		shared_write(&s, i & 1, i / 2);
	for (i = 0; i < 80; i++) {
		struct ibv_wc wc = wc_wait(s.cq);
		int which = wc.qp_num == s.end[1].qp->qp_num;

		CHECK_EQ(wc.qp_num, s.end[which].qp->qp_num);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, next[which]++);
	}
	wc_none(s.cq);
	shared_close(&s);
}

/*
 * When it overruns, every queue pair that feeds it stops, at the latest with
 * its next completion, and one event comes.
 */
TEST(overrun_stops_all)
{
	struct ibv_async_event event;
	struct shared s;
	int i, errors = 0;

	shared_open(&s, 10);
	CHECK(s.cq->cqe < 40);
	for (i = 0; i < s.cq->cqe + 1; i++)
		shared_write(&s, 0, i);
	do {
		host_event(s.host, &event);
	} while (event.event_type != IBV_EVENT_CQ_ERR);
	CHECK(event.element.cq == s.cq);
	end_wait_state(&s.end[0], IBV_QPS_ERR);
	shared_write(&s, 1, 0);
	end_wait_state(&s.end[1], IBV_QPS_ERR);
	while (is_readable(s.host->ctx->async_fd)) {
		host_event(s.host, &event);
		errors += event.event_type == IBV_EVENT_CQ_ERR;
	}
	CHECK_EQ(errors, 0);
	CHECK_EQ(end_state(&s.peer[1]), IBV_QPS_RTS);
	for (i = 0; i < s.cq->cqe; i++)
		wc_expect(s.cq, i, IBV_WC_SUCCESS);
	shared_close(&s);
}

/* Exactly full, again and again, is no overrun. */
TEST(full_is_no_overrun)
{
	struct shared s;
	int round, i;

	shared_open(&s, 10);
	CHECK(s.cq->cqe < 60);
	for (round = 0; round < 50; round++) {
		for (i = 0; i < s.cq->cqe; i++)
			shared_write(&s, 0, i);
		for (i = 0; i < s.cq->cqe; i++)
			wc_expect(s.cq, i, IBV_WC_SUCCESS);
		wc_none(s.cq);
	}
	host_expect_quiet(s.host);
	shared_close(&s);
}

/* Many pollers: each completion goes to one of them. */
struct pollers {
	struct ibv_cq *cq;
	unsigned int left;
	unsigned char *seen;
};

static void *poll_all(void *arg)
{
	struct pollers *p = arg;
	uint64_t until = deadline();
	struct ibv_wc wc;

	while (__atomic_load_n(&p->left, __ATOMIC_ACQUIRE)) {
		int n = ibv_poll_cq(p->cq, 1, &wc);

		CHECK(n >= 0);
		if (!n && deadline_over(until))
			FAIL("no completion");
		if (!n) {
			sched_yield();
			continue;
		}
		until = deadline();
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(__atomic_fetch_add(&p->seen[wc.wr_id], 1,
					    __ATOMIC_RELAXED), 0);
		__atomic_fetch_sub(&p->left, 1, __ATOMIC_ACQ_REL);
	}
	return NULL;
}

TEST_F(pair, polled_by_threads)
{
	unsigned int total = tap_rounds(20000), i, out;
	struct pollers p = { pair->a.scq, total, calloc(total, 1) };
	pthread_t thread[3];

	for (i = 0; i < ARRAY_SIZE(thread); i++)
		CHECK_RC(pthread_create(&thread[i], NULL, poll_all, &p));
	for (i = 0; i < total; i++) {
		do
			out = i - (total - __atomic_load_n(&p.left,
							   __ATOMIC_ACQUIRE));
		while (out >= 60);
		write_signalled(pair, i);
	}
	for (i = 0; i < ARRAY_SIZE(thread); i++)
		CHECK_RC(pthread_join(thread[i], NULL));
	wc_none(pair->a.scq);
	free(p.seen);
}

/* ---- moderation -------------------------------------------------------- */

#define PERIOD_US 65535
/* Enough for one of them to find the machine not busy with something else. */
#define ROUNDS 50

/* ibv_modify_cq(), which the stock provider does not have. */
static int moderate(struct ibv_cq *cq, uint16_t count, uint16_t period_us)
{
	struct ib_uverbs_ex_modify_cq cmd = {
		.cq_handle = cq->handle,
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.attr = { .cq_count = count, .cq_period = period_us },
	};

	return call_ex_command(cq->context, IB_USER_VERBS_EX_CMD_MODIFY_CQ,
			       &cmd, sizeof(cmd));
}

static struct pair *pair_with_channels(void)
{
	struct param param = param_default();

	param.channel = true;
	return pair_new(&param);
}

/* Arm, complete @count writes, wait for the event: how long that took. */
static uint64_t event_after(struct pair *pair, int count)
{
	struct ibv_cq *cq = pair->a.scq;
	uint64_t began;
	int i;

	CHECK_RC(ibv_req_notify_cq(cq, 0));
	began = tap_now_ns();
	for (i = 0; i < count; i++)
		write_signalled(pair, i);
	end_take_event(&pair->a, cq);
	began = tap_now_ns() - began;
	for (i = 0; i < count; i++)
		wc_expect(cq, i, IBV_WC_SUCCESS);
	wc_none(cq);
	return began / 1000;
}

/* The event comes before the period is over, sooner or later. */
static void expect_before_period(struct pair *pair, int count)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		if (event_after(pair, count) < PERIOD_US)
			return;
	FAIL("each event of %d completions took the whole period", count);
}

TEST(moderation_limits)
{
	struct host *host = host_open(0);
	struct ibv_device_attr_ex attr;

	CHECK_RC(ibv_query_device_ex(host->ctx, NULL, &attr));
	CHECK_EQ(attr.cq_mod_caps.max_cq_count, UINT16_MAX);
	CHECK_EQ(attr.cq_mod_caps.max_cq_period, UINT16_MAX);
	host_close(host);
}

/* With the last of so many, and not with the first. */
TEST(moderation_by_count)
{
	struct pair *pair = pair_with_channels();

	CHECK_RC(moderate(pair->a.scq, 5, PERIOD_US));
	expect_before_period(pair, 5);
	CHECK(event_after(pair, 4) >= PERIOD_US);
	expect_before_period(pair, 5);
	pair_teardown(pair);
}

/* Fewer bring one event when the period is over. */
TEST(moderation_by_period)
{
	struct pair *pair = pair_with_channels();

	CHECK_RC(moderate(pair->a.scq, UINT16_MAX, PERIOD_US));
	CHECK(event_after(pair, 1) >= PERIOD_US);
	CHECK(event_after(pair, 20) >= PERIOD_US);
	CHECK(!is_readable(pair->a.channel->fd));
	pair_teardown(pair);
}

static const struct {
	const char *name;
	uint16_t count, period_us;
} moderate_none[] = {
	{ "zeros", 0, 0 }, { "no_count", 0, PERIOD_US },
	{ "count_of_1", 1, PERIOD_US }, { "no_period", 100, 0 },
};

TEST_EACH(moderation_off, moderate_none)
{
	struct pair *pair = pair_with_channels();

	CHECK_RC(moderate(pair->a.scq, 100, PERIOD_US));
	CHECK_RC(moderate(pair->a.scq, arg->count, arg->period_us));
	expect_before_period(pair, 1);
	pair_teardown(pair);
}

/* What waits for its event gets it when the rule changes. */
TEST(moderation_change_reports)
{
	struct pair *pair = pair_with_channels();
	struct ibv_cq *cq = pair->a.scq;
	uint64_t began;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		CHECK_RC(moderate(cq, 100, PERIOD_US));
		CHECK_RC(ibv_req_notify_cq(cq, 0));
		began = tap_now_ns();
		write_signalled(pair, 1);
		wc_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK_RC(moderate(cq, 100, PERIOD_US));
		end_take_event(&pair->a, cq);
		began = tap_now_ns() - began;
		if (began / 1000 < PERIOD_US)
			break;
	}
	CHECK(i < ROUNDS);
	pair_teardown(pair);
}

/* A queue goes while its timer runs. */
TEST(moderation_destroy)
{
	int i;

	for (i = 0; i < 5; i++) {
		struct pair *pair = pair_with_channels();

		CHECK_RC(moderate(pair->a.scq, 100, i ? 200 * i : PERIOD_US));
		CHECK_RC(ibv_req_notify_cq(pair->a.scq, 0));
		write_signalled(pair, 1);
		wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
		pair_teardown(pair);
	}
}
