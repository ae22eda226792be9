// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completion queues and their events. */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "ktest.h"

static bool message(struct kt *t, u64 wr_id, bool solicited)
{
	struct ib_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED |
			      (solicited ? IB_SEND_SOLICITED : 0),
	};
	int err;

	if (!kt_post_recv(t, 1, wr_id, 0, 16))
		return false;
	err = ib_post_send(t->side[0].qp, &wr, NULL);
	KT_REQUIRE(t, !err, "post: %d", err);
	return kt_expect(t, 0, wr_id, IB_WC_SUCCESS, NULL) &&
	       kt_expect(t, 1, wr_id, IB_WC_SUCCESS, NULL);
}

static bool notify_once(struct kt *t)
{
	struct kt_side *side = &t->side[1];

	if (!message(t, 1, false))
		return false;
	KT_REQUIRE(t, !atomic_read(&side->events), "event without request");
	ib_req_notify_cq(side->cq, IB_CQ_NEXT_COMP);
	if (!message(t, 2, false) || !kt_wait_count(t, 1, &side->events, 1) ||
	    !message(t, 3, false))
		return false;
	/* Asked for again: the second event shows that there was no other. */
	ib_req_notify_cq(side->cq, IB_CQ_NEXT_COMP);
	return message(t, 4, false) && kt_wait_count(t, 1, &side->events, 2);
}

static bool notify_solicited(struct kt *t)
{
	struct kt_side *side = &t->side[1];

	ib_req_notify_cq(side->cq, IB_CQ_SOLICITED);
	if (!message(t, 1, false) || !message(t, 2, false))
		return false;
	KT_REQUIRE(t, !atomic_read(&side->events), "unsolicited event");
	if (!message(t, 3, true) || !kt_wait_count(t, 1, &side->events, 1))
		return false;
	/* The stronger request wins, whichever came first. */
	ib_req_notify_cq(side->cq, IB_CQ_NEXT_COMP);
	ib_req_notify_cq(side->cq, IB_CQ_SOLICITED);
	if (!message(t, 4, false) || !kt_wait_count(t, 1, &side->events, 2))
		return false;
	ib_req_notify_cq(side->cq, IB_CQ_SOLICITED | IB_CQ_NEXT_COMP);
	return message(t, 5, false) && kt_wait_count(t, 1, &side->events, 3);
}

static bool notify_error(struct kt *t)
{
	struct kt_side *side = &t->side[1];

	ib_req_notify_cq(side->cq, IB_CQ_SOLICITED);
	return kt_post_recv(t, 1, 1, 0, 16) && kt_to_error(t, 1) &&
	       kt_wait_count(t, 1, &side->events, 1) &&
	       kt_expect(t, 1, 1, IB_WC_WR_FLUSH_ERR, NULL);
}

/* Two are held back until a third one comes, or the QP goes, or time is over. */
static bool moderated(struct kt *t)
{
	struct kt_side *side = &t->side[1];
	int err = rdma_set_cq_moderation(side->cq, 3, U16_MAX);

	KT_REQUIRE(t, !err, "moderation: %d", err);
	ib_req_notify_cq(side->cq, IB_CQ_NEXT_COMP);
	if (!message(t, 1, false) || !message(t, 2, false) ||
	    !message(t, 3, false) || !kt_wait_count(t, 1, &side->events, 1))
		return false;
	ib_req_notify_cq(side->cq, IB_CQ_NEXT_COMP);
	if (!message(t, 4, false) || !kt_wait_count(t, 1, &side->events, 2))
		return false;
	ib_req_notify_cq(side->cq, IB_CQ_NEXT_COMP);
	if (!message(t, 5, false))
		return false;
	ib_destroy_qp(side->qp);
	side->qp = NULL;
	/* The core may free what the handler uses, before the CQ goes. */
	KT_REQUIRE(t, atomic_read(&side->events) == 3, "%d events, not 3",
		   atomic_read(&side->events));
	return true;
}

#define PONGS 200

static atomic_t pongs;

/* Poll, post, arm: all that a consumer may do in its handler. */
static void pong(struct kt_side *side)
{
	struct kt *t = side->t;
	int i = side - t->side;
	struct ib_wc wc;

	do {
		while (ib_poll_cq(side->cq, 1, &wc) > 0) {
			if (wc.status) {
				kt_fail(t, "status %d", wc.status);
				return;
			}
			if (wc.opcode != IB_WC_RECV)
				continue;
			if (!kt_post_recv(t, i, 1, 0, 16))
				return;
			if (atomic_inc_return(&pongs) < PONGS &&
			    !kt_post_send(t, i, 2, 0, 16))
				return;
		}
	} while (ib_req_notify_cq(side->cq, IB_CQ_NEXT_COMP |
				  IB_CQ_REPORT_MISSED_EVENTS) > 0);
}

/* No lock is held in it: messages go to and fro by handlers alone. */
static bool handlers_post(struct kt *t)
{
	bool done;
	int i;

	atomic_set(&pongs, 0);
	for (i = 0; i < 2; i++) {
		if (!kt_post_recv(t, i, 1, 0, 16))
			return false;
		ib_req_notify_cq(t->side[i].cq, IB_CQ_NEXT_COMP);
		WRITE_ONCE(t->side[i].work, pong);
	}
	done = kt_post_send(t, 0, 2, 0, 16) &&
	       kt_wait_count(t, 0, &pongs, PONGS);
	for (i = 0; i < 2; i++)
		WRITE_ONCE(t->side[i].work, NULL);
	return done;
}

#define CROWD 3000

/**
 * struct crowd - one of two that post to QPs of one CQ, each on its own CPU
 * @work: what posts
 * @t: test
 * @side: whose QP
 * @done: completions seen
 * @posted: all of them were
 */
struct crowd {
	struct work_struct work;
	struct kt *t;
	int side;
	atomic_t done;
	bool posted;
};

static struct crowd crowd[2];
static atomic_t in_handler, most_in_handler;

/* Looks whether another one runs. */
static void linger(struct kt_side *side)
{
	int inside = atomic_inc_return(&in_handler);
	struct ib_wc wc;

	if (inside > atomic_read(&most_in_handler))
		atomic_set(&most_in_handler, inside);
	do {
		while (ib_poll_cq(side->cq, 1, &wc) > 0) {
			if (wc.status)
				kt_fail(side->t, "status %d", wc.status);
			atomic_inc(&crowd[wc.wr_id].done);
		}
		udelay(10);
	} while (ib_req_notify_cq(side->cq, IB_CQ_NEXT_COMP |
				  IB_CQ_REPORT_MISSED_EVENTS) > 0);
	atomic_dec(&in_handler);
}

static void post_to_crowd(struct work_struct *work)
{
	struct crowd *one = container_of(work, struct crowd, work);
	unsigned long end = jiffies + msecs_to_jiffies(kt_timeout_ms);
	struct kt *t = one->t;
	int i;

	for (i = 0; i < CROWD; i++) {
		while (atomic_read(&one->done) + 32 <= i) {
			if (time_after(jiffies, end))
				return;
			cond_resched();
		}
		if (!kt_post_rdma(t, one->side, IB_WR_RDMA_WRITE, one->side,
				  kt_sge(t, one->side, 0, 0),
				  t->side[!one->side].dma,
				  t->pd->unsafe_global_rkey))
			return;
	}
	one->posted = true;
}

/* core_locking.rst: a CQ's handler runs once at a time. */
static bool one_handler(struct kt *t)
{
	bool done;
	int i;

	atomic_set(&most_in_handler, 0);
	WRITE_ONCE(t->side[0].work, linger);
	ib_req_notify_cq(t->side[0].cq, IB_CQ_NEXT_COMP);
	for (i = 0; i < 2; i++) {
		crowd[i] = (struct crowd) { .t = t, .side = i };
		INIT_WORK(&crowd[i].work, post_to_crowd);
		queue_work_on(i % num_online_cpus(), system_wq, &crowd[i].work);
	}
	for (i = 0; i < 2; i++)
		flush_work(&crowd[i].work);
	done = kt_wait_count(t, 0, &crowd[0].done, CROWD) &&
	       kt_wait_count(t, 0, &crowd[1].done, CROWD);
	WRITE_ONCE(t->side[0].work, NULL);
	KT_REQUIRE(t, crowd[0].posted && crowd[1].posted, "not all posted");
	KT_REQUIRE(t, atomic_read(&most_in_handler) == 1, "%d at once",
		   atomic_read(&most_in_handler));
	return done;
}

static bool missed_events(struct kt *t)
{
	struct ib_cq *cq = t->side[1].cq;
	int ret;

	ret = ib_req_notify_cq(cq, IB_CQ_NEXT_COMP |
			       IB_CQ_REPORT_MISSED_EVENTS);
	KT_REQUIRE(t, !ret, "empty CQ: %d", ret);
	if (!kt_post_recv(t, 1, 1, 0, 16) || !kt_post_send(t, 0, 1, 0, 16) ||
	    !kt_expect(t, 0, 1, IB_WC_SUCCESS, NULL) ||
	    !kt_wait_count(t, 1, &t->side[1].events, 1))
		return false;
	ret = ib_req_notify_cq(cq, IB_CQ_NEXT_COMP |
			       IB_CQ_REPORT_MISSED_EVENTS);
	KT_REQUIRE(t, ret == 1, "CQ with a completion: %d", ret);
	ret = ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
	KT_REQUIRE(t, !ret, "not asked: %d", ret);
	return kt_expect(t, 1, 1, IB_WC_SUCCESS, NULL);
}

static bool poll_many(struct kt *t)
{
	struct ib_wc wc[8];
	int i, n;

	for (i = 0; i < 5; i++)
		if (!kt_post_recv(t, 1, i, 0, 16))
			return false;
	if (!kt_to_error(t, 1) || !kt_expect(t, 1, 0, IB_WC_WR_FLUSH_ERR, NULL))
		return false;
	/* A modify returns when everything that was posted is flushed. */
	n = ib_poll_cq(t->side[1].cq, 2, wc);
	KT_REQUIRE(t, n == 2, "asked for 2, got %d", n);
	n += ib_poll_cq(t->side[1].cq, 6, &wc[2]);
	KT_REQUIRE(t, n == 4, "asked for more than there are, got %d", n);
	for (i = 0; i < 4; i++)
		KT_REQUIRE(t, wc[i].wr_id == i + 1, "order: %llu at %d",
			   wc[i].wr_id, i);
	return true;
}

static bool overflow(struct kt *t)
{
	struct kt_side *side = &t->side[1];
	int i, n, num = 2 * side->cq->cqe + 8;
	struct ib_wc wc;

	for (i = 0; i < num; i++)
		if (!kt_post_recv(t, 1, i, 0, 16))
			return false;
	if (!kt_to_error(t, 1) || !kt_wait_count(t, 1, &side->cq_errs, 1))
		return false;
	/* What had found room is there, in order, and nothing behind it. */
	for (n = 0; ib_poll_cq(side->cq, 1, &wc) == 1; n++)
		KT_REQUIRE(t, wc.wr_id == n, "wr_id %llu at %d", wc.wr_id, n);
	KT_REQUIRE(t, n == side->cq->cqe, "%d completions of %d", n,
		   side->cq->cqe);
	return kt_wait_count(t, 1, &side->cq_errs, 1);
}

static bool create_limits(struct kt *t)
{
	static const struct {
		struct ib_cq_init_attr attr;
		long err;
	} bad[] = {
		/* Not zero: the core of newer kernels warns about that. */
		{ { .cqe = 0x7fffffff }, -EINVAL },
		{ { .cqe = 16, .comp_vector = 100000 }, -EINVAL },
		{ { .cqe = 16, .flags = IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN },
		  -EOPNOTSUPP },
	};
	struct ib_cq *cq;
	int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		cq = ib_create_cq(t->dev, NULL, NULL, NULL, &bad[i].attr);
		if (!IS_ERR(cq)) {
			ib_destroy_cq(cq);
			return kt_fail(t, "bad attributes %d taken", i);
		}
		KT_REQUIRE(t, PTR_ERR(cq) == bad[i].err, "%d: %ld, not %ld", i,
			   PTR_ERR(cq), bad[i].err);
	}
	return true;
}

/* Messages that the completion handler itself keeps going. */
struct ball {
	struct ib_cqe send_cqe;
	struct ib_cqe recv_cqe;
	struct kt_side *side;
	struct completion *done;
	int left;
	int err;
};

static void post_ball(struct ball *ball)
{
	struct ib_send_wr swr = {
		.wr_cqe = &ball->send_cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	ball->err = ib_post_send(ball->side->qp, &swr, NULL);
	if (ball->err)
		complete(ball->done);
}

static bool post_catch(struct ball *ball)
{
	struct ib_recv_wr rwr = { .wr_cqe = &ball->recv_cqe };

	return !ib_post_recv(ball->side->qp, &rwr, NULL);
}

static void ball_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ball *ball = container_of(wc->wr_cqe, struct ball, send_cqe);

	if (wc->status && wc->status != IB_WC_WR_FLUSH_ERR) {
		ball->err = -EIO;
		complete(ball->done);
	}
}

static void ball_caught(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ball *ball = container_of(wc->wr_cqe, struct ball, recv_cqe);

	if (wc->status)
		return;
	if (!--ball->left) {
		complete(ball->done);
		return;
	}
	if (!post_catch(ball)) {
		ball->err = -ENOMEM;
		complete(ball->done);
		return;
	}
	post_ball(ball);
}

static bool wait_for_game(struct kt *t, struct completion *done)
{
	unsigned long end = jiffies + msecs_to_jiffies(kt_timeout_ms);

	if (t->opts.poll_ctx - 1 != IB_POLL_DIRECT)
		return wait_for_completion_timeout(done, end - jiffies);
	while (!completion_done(done) && time_before(jiffies, end)) {
		ib_process_cq_direct(t->side[0].cq, 16);
		ib_process_cq_direct(t->side[1].cq, 16);
		cond_resched();
	}
	return completion_done(done);
}

static bool handler_posts(struct kt *t)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct ball *ball = kcalloc(2, sizeof(*ball), GFP_KERNEL);
	bool in_time, ok;
	int i;

	if (!ball)
		return kt_fail(t, "no memory");
	for (i = 0; i < 2; i++) {
		ball[i].side = &t->side[i];
		ball[i].done = &done;
		ball[i].left = 500;
		ball[i].send_cqe.done = ball_sent;
		ball[i].recv_cqe.done = ball_caught;
		if (!post_catch(&ball[i]))
			kt_fail(t, "post receive");
	}
	post_ball(&ball[0]);
	in_time = wait_for_game(t, &done);

	/* Handlers hold on to the balls until nothing is posted any more. */
	for (i = 0; i < 2; i++)
		ib_drain_qp(t->side[i].qp);
	ok = in_time && !ball[0].err && !ball[1].err &&
	     (!ball[0].left || !ball[1].left);
	if (!ok)
		kt_fail(t, "%s: %d and %d left, errors %d and %d",
			in_time ? "stopped" : "too slow", ball[0].left,
			ball[1].left, ball[0].err, ball[1].err);
	kfree(ball);
	return ok;
}

const struct kt_case kt_cq_cases[] = {
	{ "one event for each request of one", notify_once },
	{ "solicited events", notify_solicited },
	{ "an error wakes who waits for solicited ones", notify_error },
	{ "events are moderated, and none comes after the QP", moderated },
	{ "missed events are reported", missed_events },
	{ "handlers poll, arm and post", handlers_post },
	{ "one handler at a time", one_handler, { .one_cq = true } },
	{ "polling for several", poll_many },
	{ "a full CQ is reported once", overflow, { .cqe = 7 } },
	{ "CQs that cannot be", create_limits },
	{ "a handler that posts, in softirq", handler_posts,
	  { .poll_ctx = 1 + IB_POLL_SOFTIRQ } },
	{ "a handler that posts, in a workqueue", handler_posts,
	  { .poll_ctx = 1 + IB_POLL_WORKQUEUE } },
	{ "a handler that posts, in an unbound workqueue", handler_posts,
	  { .poll_ctx = 1 + IB_POLL_UNBOUND_WORKQUEUE } },
	{ "a handler that posts, polled directly", handler_posts,
	  { .poll_ctx = 1 + IB_POLL_DIRECT } },
	{}
};
