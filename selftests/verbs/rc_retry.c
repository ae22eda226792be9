// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* RNR, silence, flushing, full completion queues. */
#include <stdlib.h>

#include "verbs.h"

/* ---- receiver not ready ------------------------------------------------ */

static struct pair *rnr_pair(uint8_t rnr_retry, uint8_t min_rnr_timer)
{
	struct param param = param_default();

	param.rnr_retry = rnr_retry;
	param.min_rnr_timer = min_rnr_timer;
	return pair_new(&param);
}

struct rnr {
	const char *name;
	uint8_t retry;
	enum ibv_wr_opcode opcode;
};

static const struct rnr rnrs[] = {
	{ "send_0", 0, IBV_WR_SEND },
	{ "send_1", 1, IBV_WR_SEND },
	{ "send_6", 6, IBV_WR_SEND },
	{ "send_imm_0", 0, IBV_WR_SEND_WITH_IMM },
	{ "write_imm_0", 0, IBV_WR_RDMA_WRITE_WITH_IMM },
	{ "write_imm_3", 3, IBV_WR_RDMA_WRITE_WITH_IMM },
};

TEST_EACH(rnr_retry_exceeded, rnrs)
{
	struct pair *pair = rnr_pair(arg->retry, 1);
	struct ibv_send_wr wr = send_wr(arg->opcode, 1, NULL, 0, 0);

	end_send(&pair->a, &wr);
	wr.wr_id = 2;
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	wc_expect(pair->a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	wc_none(pair->a.scq);
	CHECK_EQ(end_state(&pair->a), IBV_QPS_ERR);
	CHECK_EQ(end_state(&pair->b), IBV_QPS_RTS);
	pair_reconnect(pair);
	end_ping(&pair->a, &pair->b);
	pair_teardown(pair);
}

/*
 * 7 means for ever. Another connection with as short waits is the clock: each
 * time it gives up, it has waited 6 times.
 */
TEST(rnr_retry_forever)
{
	struct pair *clock = rnr_pair(6, 1), *pair = rnr_pair(7, 1);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	int i;

	end_send(&pair->a, &wr);
	for (i = 0; i < 20; i++) {
		end_send(&clock->a, &wr);
		wc_expect(clock->a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		pair_reconnect(clock);
		wc_none(pair->a.scq);
	}
	CHECK_EQ(end_state(&pair->a), IBV_QPS_RTS);
	end_recv(&pair->b, 2, NULL, 0);
	wc_expect(pair->b.rcq, 2, IBV_WC_SUCCESS);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	pair_teardown(clock);
	pair_teardown(pair);
}

static const struct {
	const char *name;
	uint8_t retry;
} no_receive[] = {
	{ "no_retry", 0 },
	{ "waiting", 7 },
};

/* No receive is there for its end: the region may go nevertheless, at once. */
TEST_EACH(write_imm_region_goes, no_receive)
{
	struct pair *pair = rnr_pair(arg->retry, 1);
	struct buf *from = buf_new(pair->a.host->pd, 5000, ALL_ACCESS);
	struct buf *to = buf_new(pair->b.host->pd, 5000, ALL_ACCESS);
	struct ibv_sge sge = buf_sge(from, 0, 5000);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM, 1, &sge, 1,
					IBV_SEND_SIGNALED);
	uint64_t before = host_counter(pair->b.host, "tx_rnr");

	wr_remote(&wr, buf_addr(to, 0), to->mr->rkey);
	end_send(&pair->a, &wr);
	host_wait_counter(pair->b.host, "tx_rnr", before);
	CHECK_RC(ibv_dereg_mr(to->mr));
	to->mr = NULL;
	if (arg->retry == 7) {
		end_recv(&pair->b, 2, NULL, 0);
		wc_expect(pair->a.scq, 1, IBV_WC_REM_ACCESS_ERR);
		wc_expect(pair->b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	} else {
		wc_expect(pair->a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	}
	pair_reconnect(pair);
	end_ping(&pair->a, &pair->b);
	buf_free(from);
	buf_free(to);
	pair_teardown(pair);
}

/* What is behind a request that waits goes out after it, and once. */
TEST(rnr_keeps_order)
{
	struct pair *pair = rnr_pair(7, 1);
	struct buf *src = buf_new(pair->a.host->pd, 8192, ALL_ACCESS);
	struct buf *dst = buf_new(pair->b.host->pd, 8192, ALL_ACCESS);
	struct ibv_sge from = buf_sge(src, 0, 3000), to = buf_sge(dst, 10, 3000);
	struct ibv_sge wfrom = buf_sge(src, 4000, 100);
	unsigned int i, rounds = tap_rounds(200);

	for (i = 0; i < rounds; i++) {
		struct ibv_send_wr wr[2] = {
			send_wr(IBV_WR_SEND, 1, &from, 1, IBV_SEND_SIGNALED),
			send_wr(IBV_WR_RDMA_WRITE, 2, &wfrom, 1,
				IBV_SEND_SIGNALED),
		};

		buf_refill(src);
		wr[0].next = &wr[1];
		/* The WRITE lands on what the SEND brings, so it must be last. */
		wr_remote(&wr[1], buf_addr(dst, 50), dst->mr->rkey);
		end_send(&pair->a, wr);
		wc_none(pair->a.scq);
		end_recv(&pair->b, 3, &to, 1);
		wc_expect(pair->b.rcq, 3, IBV_WC_SUCCESS);
		wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
		wc_expect(pair->a.scq, 2, IBV_WC_SUCCESS);
		buf_move(dst, &to, src, &from, 3000);
		to.addr += 40;
		buf_move(dst, &to, src, &wfrom, 100);
		to.addr -= 40;
		buf_check(dst);
	}
	wc_none(pair->b.rcq);
	buf_free(src);
	buf_free(dst);
	pair_teardown(pair);
}

/* ---- silence ----------------------------------------------------------- */

struct silent {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint8_t retry_cnt;
	enum { GONE, RESET, INIT, IN_ERROR } peer;
};

static const struct silent silents[] = {
	{ "send_peer_gone", IBV_WR_SEND, 1, GONE },
	{ "send_peer_reset", IBV_WR_SEND, 2, RESET },
	{ "send_peer_init", IBV_WR_SEND, 1, INIT },
	{ "send_peer_in_error", IBV_WR_SEND, 1, IN_ERROR },
	{ "write_peer_gone", IBV_WR_RDMA_WRITE, 0, GONE },
	{ "read_peer_gone", IBV_WR_RDMA_READ, 7, GONE },
	{ "atomic_peer_reset", IBV_WR_ATOMIC_FETCH_AND_ADD, 1, RESET },
};

static void silence(struct end *peer, const struct silent *kind)
{
	switch (kind->peer) {
	case GONE:
		CHECK_RC(ibv_destroy_qp(peer->qp));
		peer->qp = NULL;
		break;
	case INIT:
		CHECK_RC(end_modify_state(peer, IBV_QPS_RESET));
		end_to_init(peer);
		break;
	case RESET:
		CHECK_RC(end_modify_state(peer, IBV_QPS_RESET));
		break;
	case IN_ERROR:
		CHECK_RC(end_modify_state(peer, IBV_QPS_ERR));
		break;
	}
}

TEST_EACH(retry_exceeded, silents)
{
	struct param param = param_default();
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair *pair;
	struct buf *buf;
	unsigned int i;

	param.timeout = 8;		/* 1 ms */
	param.retry_cnt = arg->retry_cnt;
	pair = pair_new(&param);
	buf = buf_new(pair->a.host->pd, 4096, ALL_ACCESS);
	silence(&pair->b, arg);
	for (i = 0; i < 10; i++) {
		sge = buf_sge(buf, 8 * i, 8);
		wr = send_wr(arg->opcode, i, &sge, 1, 0);
		if (arg->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			wr_atomic(&wr, buf_addr(buf, 800), buf->mr->rkey, 1, 0);
		else if (arg->opcode != IBV_WR_SEND)
			wr_remote(&wr, buf_addr(buf, 800), buf->mr->rkey);
		end_send(&pair->a, &wr);
	}
	wc_expect(pair->a.scq, 0, IBV_WC_RETRY_EXC_ERR);
	for (i = 1; i < 10; i++)
		wc_expect(pair->a.scq, i, IBV_WC_WR_FLUSH_ERR);
	wc_none(pair->a.scq);
	CHECK_EQ(end_state(&pair->a), IBV_QPS_ERR);
	buf_check(buf);
	buf_free(buf);
	if (pair->b.qp) {
		pair_reconnect(pair);
		end_ping(&pair->a, &pair->b);
	}
	pair_teardown(pair);
}

/* ---- flushing ---------------------------------------------------------- */

#define OUTSTANDING 100

static struct pair *flush_pair(void)
{
	struct param param = param_default();

	param.sq_wr = param.rq_wr = 2 * OUTSTANDING;
	param.scqe = param.rcqe = 4 * OUTSTANDING;
	param.min_rnr_timer = 0;	/* 655 ms */
	return pair_new(&param);
}

static void post_both(struct end *end, unsigned int from, unsigned int to)
{
	for (; from < to; from++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, from, NULL, 0,
						from & 1 ? IBV_SEND_SIGNALED :
						0);

		end_recv(end, 1000 + from, NULL, 0);
		end_send(end, &wr);
	}
}

static void expect_flushed(struct ibv_cq *cq, unsigned int from,
			   unsigned int to, uint32_t qp_num)
{
	for (; from < to; from++)
		CHECK_EQ(wc_expect(cq, from, IBV_WC_WR_FLUSH_ERR).qp_num,
			 qp_num);
	wc_none(cq);
}

/* All of them, signalled or not, in the order of the posts, and just once. */
TEST(flush_outstanding)
{
	struct pair *pair = flush_pair();
	struct end *a = &pair->a;

	post_both(a, 0, OUTSTANDING);
	CHECK_RC(end_modify_state(a, IBV_QPS_ERR));
	expect_flushed(a->scq, 0, OUTSTANDING, a->qp->qp_num);
	expect_flushed(a->rcq, 1000, 1000 + OUTSTANDING, a->qp->qp_num);
	CHECK_EQ(end_state(a), IBV_QPS_ERR);
	host_expect_quiet(a->host);
	pair_teardown(pair);
}

TEST(flush_sends_posted_later)
{
	struct pair *pair = flush_pair();
	struct end *a = &pair->a;
	unsigned int i;

	CHECK_RC(end_modify_state(a, IBV_QPS_ERR));
	for (i = 0; i < OUTSTANDING; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, i, NULL, 0,
						0);

		end_send(a, &wr);
	}
	expect_flushed(a->scq, 0, OUTSTANDING, a->qp->qp_num);
	pair_teardown(pair);
}

/* The provider makes no system call for a receive; they are flushed all the same. */
TEST(flush_receives_posted_later)
{
	struct pair *pair = flush_pair();
	struct end *a = &pair->a;
	unsigned int i;

	CHECK_RC(end_modify_state(a, IBV_QPS_ERR));
	for (i = 0; i < OUTSTANDING; i++)
		end_recv(a, i, NULL, 0);
	expect_flushed(a->rcq, 0, OUTSTANDING, a->qp->qp_num);
	pair_teardown(pair);
}

/* Receives that a peer's silence left behind, after the peer's own error. */
TEST(flush_twice)
{
	struct pair *pair = flush_pair();
	struct end *a = &pair->a;

	post_both(a, 0, 10);
	CHECK_RC(end_modify_state(a, IBV_QPS_ERR));
	CHECK_RC(end_modify_state(a, IBV_QPS_ERR));
	expect_flushed(a->scq, 0, 10, a->qp->qp_num);
	expect_flushed(a->rcq, 1000, 1010, a->qp->qp_num);
	pair_reconnect(pair);
	end_ping(&pair->a, &pair->b);
	end_ping(&pair->b, &pair->a);
	pair_teardown(pair);
}

/* ---- a full completion queue ------------------------------------------- */

/* Exactly one CQ_ERR of that queue; the queue pair may say QP_FATAL once. */
static void expect_overrun(struct end *end, struct ibv_cq *cq)
{
	struct ibv_async_event event;
	unsigned int cq_errs = 0, fatals = 0;

	while (!cq_errs) {
		host_event(end->host, &event);
		cq_errs += event.event_type == IBV_EVENT_CQ_ERR;
		fatals += event.event_type == IBV_EVENT_QP_FATAL;
		if (event.event_type == IBV_EVENT_CQ_ERR)
			CHECK(event.element.cq == cq);
		else
			CHECK_EQ(event.event_type, IBV_EVENT_QP_FATAL);
	}
	end_wait_state(end, IBV_QPS_ERR);
	while (is_readable(end->host->ctx->async_fd)) {
		host_event(end->host, &event);
		CHECK_EQ(event.event_type, IBV_EVENT_QP_FATAL);
		CHECK_EQ(fatals++, 0);
	}
}

/* What was in the queue before is still there. */
static void expect_full(struct ibv_cq *cq)
{
	int i;

	for (i = 0; i < cq->cqe; i++)
		wc_expect(cq, i, IBV_WC_SUCCESS);
	wc_none(cq);
}

TEST(send_cq_overrun)
{
	struct param param = param_default();
	struct pair *pair;
	int i;

	param.scqe = 5;
	pair = pair_new(&param);
	CHECK(pair->a.scq->cqe >= 5 && pair->a.scq->cqe < 50);
	for (i = 0; i < pair->a.scq->cqe + 10; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, i, NULL, 0,
						IBV_SEND_SIGNALED);

		end_send(&pair->a, &wr);
	}
	expect_overrun(&pair->a, pair->a.scq);
	expect_full(pair->a.scq);
	pair_teardown(pair);
}

TEST(receive_cq_overrun)
{
	struct param param = param_default();
	struct pair *pair;
	int i;

	param.rcqe = 5;
	pair = pair_new(&param);
	CHECK(pair->b.rcq->cqe >= 5 && pair->b.rcq->cqe < 50);
	for (i = 0; i < pair->b.rcq->cqe + 10; i++)
		end_recv(&pair->b, i, NULL, 0);
	for (i = 0; i < pair->b.rcq->cqe + 10; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, i, NULL, 0, 0);

		end_send(&pair->a, &wr);
	}
	expect_overrun(&pair->b, pair->b.rcq);
	expect_full(pair->b.rcq);
	pair_teardown(pair);
}
