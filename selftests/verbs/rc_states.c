// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the states mean: attributes, posting, draining, resetting. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "states.h"

/* ---- attributes come back ---------------------------------------------- */

static void query(struct end *end, struct ibv_qp_attr *attr,
		  struct ibv_qp_init_attr *init)
{
	CHECK_RC(ibv_query_qp(end->qp, attr, IBV_QP_STATE | IBV_QP_CUR_STATE |
			      IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
			      IBV_QP_PORT | IBV_QP_AV | IBV_QP_PATH_MTU |
			      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_CAP | IBV_QP_DEST_QPN, init));
}

TEST(query_after_create)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct states s;

	states_open(&s, IBV_QPT_RC);
	query(&s.end, &attr, &init);
	CHECK_EQ(attr.qp_state, IBV_QPS_RESET);
	CHECK_EQ(attr.cap.max_send_wr, s.end.cap.max_send_wr);
	CHECK_EQ(attr.cap.max_recv_wr, s.end.cap.max_recv_wr);
	CHECK_EQ(attr.cap.max_send_sge, s.end.cap.max_send_sge);
	CHECK_EQ(attr.cap.max_recv_sge, s.end.cap.max_recv_sge);
	CHECK_EQ(attr.cap.max_inline_data, s.end.cap.max_inline_data);
	CHECK_EQ(init.cap.max_send_wr, s.end.cap.max_send_wr);
	CHECK_EQ(init.cap.max_recv_wr, s.end.cap.max_recv_wr);
	CHECK_EQ(init.qp_type, IBV_QPT_RC);
	CHECK_EQ(init.sq_sig_all, 0);
	CHECK(init.send_cq == s.end.scq && init.recv_cq == s.end.rcq);
	states_close(&s);
}

TEST(query_sig_all)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct param param = param_default();
	struct pair *pair;

	param.sq_sig_all = 1;
	pair = pair_new(&param);
	query(&pair->a, &attr, &init);
	CHECK_EQ(init.sq_sig_all, 1);
	pair_teardown(pair);
}

/* Values that are unlike each other and unlike any default. */
static void set_odd_values(struct states *s, struct ibv_qp_attr *want)
{
	struct ibv_qp_attr rts;

	end_to_init(&s->end);
	end_rtr_attr(&s->end, &s->peer, want);
	want->path_mtu = IBV_MTU_512;
	want->dest_qp_num = 0xabcdef;
	want->rq_psn = 0xfedcba;
	want->max_dest_rd_atomic = 3;
	want->min_rnr_timer = 23;
	want->ah_attr.sl = 5;
	want->ah_attr.grh.traffic_class = 0x68;
	want->ah_attr.grh.flow_label = 0x12345;
	CHECK_RC(ibv_modify_qp(s->end.qp, want, IBV_QP_STATE | IBV_QP_AV |
			       IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			       IBV_QP_MIN_RNR_TIMER));
	end_rts_attr(&s->end, &rts);
	want->qp_state = rts.qp_state;
	want->timeout = rts.timeout = 19;
	want->retry_cnt = rts.retry_cnt = 6;
	want->rnr_retry = rts.rnr_retry = 4;
	want->sq_psn = rts.sq_psn = 0x7fffff;
	want->max_rd_atomic = rts.max_rd_atomic = 5;
	want->qp_access_flags = rts.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	CHECK_RC(ibv_modify_qp(s->end.qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT |
			       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
			       IBV_QP_ACCESS_FLAGS));
}

/* The core replaces the hop limit by the route's, so that one is not compared. */
static void check_path(const struct ibv_ah_attr *got,
		       const struct ibv_ah_attr *want)
{
	CHECK_EQ(got->is_global, 1);
	CHECK_EQ(got->port_num, 1);
	CHECK_EQ(got->sl, want->sl);
	CHECK_EQ(got->grh.sgid_index, want->grh.sgid_index);
	CHECK_EQ(got->grh.traffic_class, want->grh.traffic_class);
	CHECK_EQ(got->grh.flow_label, want->grh.flow_label);
	CHECK(!memcmp(&got->grh.dgid, &want->grh.dgid, sizeof(got->grh.dgid)));
}

TEST(query_what_was_set)
{
	struct ibv_qp_attr want, got;
	struct ibv_qp_init_attr init;
	struct states s;

	states_open(&s, IBV_QPT_RC);
	set_odd_values(&s, &want);
	query(&s.end, &got, &init);
	CHECK_EQ(got.qp_state, IBV_QPS_RTS);
	CHECK_EQ(got.cur_qp_state, IBV_QPS_RTS);
	CHECK_EQ(got.path_mtu, want.path_mtu);
	CHECK_EQ(got.dest_qp_num, want.dest_qp_num);
	CHECK_EQ(got.rq_psn, want.rq_psn);
	CHECK_EQ(got.sq_psn, want.sq_psn);
	CHECK_EQ(got.max_rd_atomic, want.max_rd_atomic);
	CHECK_EQ(got.max_dest_rd_atomic, want.max_dest_rd_atomic);
	CHECK_EQ(got.min_rnr_timer, want.min_rnr_timer);
	CHECK_EQ(got.timeout, want.timeout);
	CHECK_EQ(got.retry_cnt, want.retry_cnt);
	CHECK_EQ(got.rnr_retry, want.rnr_retry);
	CHECK_EQ(got.qp_access_flags, want.qp_access_flags);
	CHECK_EQ(got.port_num, 1);
	CHECK_EQ(got.pkey_index, 0);
	CHECK_EQ(got.sq_draining, 0);
	check_path(&got.ah_attr, &want.ah_attr);
	states_close(&s);
}

/* RESET forgets all of it but what was given at creation. */
TEST(reset_forgets_attributes)
{
	struct ibv_qp_attr want, got;
	struct ibv_qp_init_attr init;
	struct states s;

	states_open(&s, IBV_QPT_RC);
	set_odd_values(&s, &want);
	CHECK_RC(end_modify_state(&s.end, IBV_QPS_RESET));
	query(&s.end, &got, &init);
	CHECK_EQ(got.qp_state, IBV_QPS_RESET);
	CHECK_EQ(got.cap.max_send_wr, s.end.cap.max_send_wr);
	CHECK_EQ(got.dest_qp_num, 0);
	CHECK_EQ(got.qp_access_flags, 0);
	CHECK_EQ(got.max_rd_atomic, 0);
	CHECK_EQ(got.max_dest_rd_atomic, 0);
	states_close(&s);
}

/* ---- values out of range ----------------------------------------------- */

struct bad_value {
	const char *name;
	enum ibv_qp_state to;
	void (*spoil)(const struct host *host, struct ibv_qp_attr *attr);
};

static void mtu_above_port(const struct host *host, struct ibv_qp_attr *attr)
{
	if (host->port.active_mtu == IBV_MTU_4096)
		SKIP("the port carries the largest MTU there is");
	attr->path_mtu = host->port.active_mtu + 1;
}

static void mtu_zero(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->path_mtu = 0;
}

static void mtu_unknown(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->path_mtu = 6;
}

static void depth_above_device(const struct host *host,
			       struct ibv_qp_attr *attr)
{
	if (host->dev.max_qp_rd_atom > 254 ||
	    host->dev.max_qp_init_rd_atom > 254)
		SKIP("no larger depth fits the attribute");
	attr->max_rd_atomic = host->dev.max_qp_init_rd_atom + 1;
	attr->max_dest_rd_atomic = host->dev.max_qp_rd_atom + 1;
}

static void gid_index(const struct host *host, struct ibv_qp_attr *attr)
{
	attr->ah_attr.grh.sgid_index = host->port.gid_tbl_len > 255 ? 255 :
				       host->port.gid_tbl_len;
}

static void not_global(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->ah_attr.is_global = 0;
}

static void other_port(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->port_num = attr->ah_attr.port_num = 2;
}

static void port_zero(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->port_num = attr->ah_attr.port_num = 0;
}

static void pkey_index(const struct host *host, struct ibv_qp_attr *attr)
{
	attr->pkey_index = host->port.pkey_tbl_len;
}

static void rnr_timer_32(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->min_rnr_timer = 32;
}

static void timeout_32(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->timeout = 32;
}

static void retry_8(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->retry_cnt = 8;
}

static void rnr_retry_8(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->rnr_retry = 8;
}

/* Neither a right nor among the flags that a driver may ignore. */
static void unknown_right(const struct host *host, struct ibv_qp_attr *attr)
{
	(void)host;
	attr->qp_access_flags |= 1 << 19;
}

static const struct bad_value bad_values[] = {
	{ "port_2", IBV_QPS_INIT, other_port },
	{ "port_0", IBV_QPS_INIT, port_zero },
	{ "pkey_index", IBV_QPS_INIT, pkey_index },
	{ "unknown_right", IBV_QPS_INIT, unknown_right },
	{ "mtu_above_port", IBV_QPS_RTR, mtu_above_port },
	{ "mtu_0", IBV_QPS_RTR, mtu_zero },
	{ "mtu_6", IBV_QPS_RTR, mtu_unknown },
	{ "dest_rd_atomic", IBV_QPS_RTR, depth_above_device },
	{ "min_rnr_timer_32", IBV_QPS_RTR, rnr_timer_32 },
	{ "gid_index", IBV_QPS_RTR, gid_index },
	{ "av_port_2", IBV_QPS_RTR, other_port },
	{ "av_not_global", IBV_QPS_RTR, not_global },
	{ "rd_atomic", IBV_QPS_RTS, depth_above_device },
	{ "timeout_32", IBV_QPS_RTS, timeout_32 },
	{ "retry_cnt_8", IBV_QPS_RTS, retry_8 },
	{ "rnr_retry_8", IBV_QPS_RTS, rnr_retry_8 },
};

TEST_EACH(refused_value, bad_values)
{
	int error = arg->spoil == unknown_right ? EOPNOTSUPP : EINVAL;
	struct ibv_qp_attr attr;
	struct states s;
	int mask, rc;

	states_open(&s, IBV_QPT_RC);
	states_reach(&s, arg->to - 1);
	mask = arg->to == IBV_QPS_INIT ? end_init_attr(&s.end, &attr) :
	       arg->to == IBV_QPS_RTR ? end_rtr_attr(&s.end, &s.peer, &attr) :
	       end_rts_attr(&s.end, &attr);
	arg->spoil(s.end.host, &attr);
	rc = ibv_modify_qp(s.end.qp, &attr, mask);
	if (!rc)
		FAIL("accepted");
	/* The core says ENODATA of a place in the GID table that is empty. */
	if (rc != error && !(rc == ENODATA && arg->spoil == gid_index))
		FAIL("%s, not %s", strerror(rc), strerror(error));
	CHECK_EQ(end_state(&s.end), arg->to - 1);
	states_close(&s);
}

/* ---- posting ----------------------------------------------------------- */

static const struct {
	const char *name;
	enum ibv_qp_state state;
} early_states[] = {
	{ "reset", IBV_QPS_RESET }, { "init", IBV_QPS_INIT },
	{ "rtr", IBV_QPS_RTR },
};

/* Refused, and never carried out, although the provider's ring holds it. */
TEST_EACH(send_refused_in, early_states)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct buf *buf;
	struct states s;

	states_open(&s, IBV_QPT_RC);
	states_reach(&s, arg->state);
	buf = buf_new(s.end.host->pd, 4096, ALL_ACCESS);
	sge = buf_sge(buf, 0, 100);
	wr = send_wr(IBV_WR_SEND, 666, &sge, 1, IBV_SEND_SIGNALED);
	CHECK_EQ(end_try_send(&s.end, &wr), EINVAL);
	CHECK_EQ(end_state(&s.end), arg->state);
	wc_none(s.end.scq);

	if (arg->state == IBV_QPS_RESET)
		end_to_init(&s.end);
	if (arg->state != IBV_QPS_RTR)
		end_to_rtr(&s.end, &s.peer);
	end_to_rts(&s.end);
	end_connect(&s.peer, &s.end);
	end_ping(&s.end, &s.peer);
	wc_none(s.end.scq);
	wc_none(s.peer.rcq);
	buf_free(buf);
	states_close(&s);
}

/* A receive may be posted from INIT on, and is used when something comes. */
TEST(receive_posted_in_init)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct states s;

	states_open(&s, IBV_QPT_RC);
	states_reach(&s, IBV_QPS_INIT);
	end_recv(&s.end, 11, NULL, 0);
	end_to_rtr(&s.end, &s.peer);
	end_recv(&s.end, 12, NULL, 0);
	end_connect(&s.peer, &s.end);
	end_send(&s.peer, &wr);
	wc_expect(s.peer.scq, 1, IBV_WC_SUCCESS);
	wc_expect(s.end.rcq, 11, IBV_WC_SUCCESS);
	end_to_rts(&s.end);
	end_send(&s.peer, &wr);
	wc_expect(s.end.rcq, 12, IBV_WC_SUCCESS);
	wc_expect(s.peer.scq, 1, IBV_WC_SUCCESS);
	states_close(&s);
}

/* From INIT to ERROR the receives come back. */
TEST(receive_flushed_from_init)
{
	struct states s;

	states_open(&s, IBV_QPT_RC);
	states_reach(&s, IBV_QPS_INIT);
	end_recv(&s.end, 11, NULL, 0);
	end_recv(&s.end, 12, NULL, 0);
	CHECK_RC(end_modify_state(&s.end, IBV_QPS_ERR));
	wc_expect(s.end.rcq, 11, IBV_WC_WR_FLUSH_ERR);
	wc_expect(s.end.rcq, 12, IBV_WC_WR_FLUSH_ERR);
	states_close(&s);
}

/* ---- draining ---------------------------------------------------------- */

/* The event comes when it was asked for, once, and otherwise not. */
TEST_F(pair, sqd_idle_event)
{
	struct end *a = &pair->a;
	int i;

	for (i = 0; i < 20; i++) {
		CHECK_RC(end_drain(a, 1));
		host_expect_event(a->host, IBV_EVENT_SQ_DRAINED, a->qp);
		CHECK_RC(end_modify_state(a, IBV_QPS_RTS));
		end_ping(a, &pair->b);
		CHECK_RC(end_drain(a, 0));
		CHECK_RC(end_modify_state(a, IBV_QPS_RTS));
		end_ping(a, &pair->b);
		CHECK_RC(end_modify_state(a, IBV_QPS_SQD));
		CHECK_RC(end_modify_state(a, IBV_QPS_RTS));
		end_ping(a, &pair->b);
		host_expect_quiet(a->host);
	}
}

/* What is posted while drained waits for RTS; receiving goes on. */
TEST_F(pair, sqd_holds_requests)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_send_wr wr;
	int i;

	CHECK_RC(end_drain(a, 1));
	host_expect_event(a->host, IBV_EVENT_SQ_DRAINED, a->qp);
	for (i = 0; i < 10; i++) {
		wr = send_wr(IBV_WR_SEND, i, NULL, 0, IBV_SEND_SIGNALED);
		end_recv(b, i, NULL, 0);
		end_send(a, &wr);
	}
	for (i = 0; i < 20; i++) {
		wr = send_wr(IBV_WR_SEND, 77, NULL, 0, IBV_SEND_SIGNALED);
		end_recv(a, 77, NULL, 0);
		end_send(b, &wr);
		wc_expect(a->rcq, 77, IBV_WC_SUCCESS);
		wc_expect(b->scq, 77, IBV_WC_SUCCESS);
	}
	wc_none(a->scq);
	wc_none(b->rcq);
	CHECK_EQ(end_state(a), IBV_QPS_SQD);
	CHECK_RC(end_modify_state(a, IBV_QPS_RTS));
	for (i = 0; i < 10; i++) {
		wc_expect(a->scq, i, IBV_WC_SUCCESS);
		wc_expect(b->rcq, i, IBV_WC_SUCCESS);
	}
}

/* The request in flight is waited for, and the event comes after it. */
TEST_F(pair, sqd_waits_for_flight)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int i;

	end_send(a, &wr);			/* waits: no receive */
	CHECK_RC(end_drain(a, 1));
	for (i = 0; i < 10; i++)
		end_ping(b, a);
	CHECK_RC(ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(attr.qp_state, IBV_QPS_SQD);
	CHECK_EQ(attr.sq_draining, 1);
	host_expect_quiet(a->host);
	end_recv(b, 2, NULL, 0);
	wc_expect(b->rcq, 2, IBV_WC_SUCCESS);
	wc_expect(a->scq, 1, IBV_WC_SUCCESS);
	host_expect_event(a->host, IBV_EVENT_SQ_DRAINED, a->qp);
	CHECK_RC(ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(attr.sq_draining, 0);
	host_expect_quiet(a->host);
	CHECK_RC(end_modify_state(a, IBV_QPS_RTS));
	end_ping(a, b);
}

struct load {
	struct end *end;
	struct buf *src, *dst;
	unsigned int posted, seen;
	bool done;
};

/* Keep the send queue busy, whatever the state. */
static void *keep_posting(void *arg)
{
	struct load *l = arg;

	while (!__atomic_load_n(&l->done, __ATOMIC_ACQUIRE)) {
		struct ibv_sge sge = buf_sge(l->src, 0,
					     l->posted * 977 % 60000);
		struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, l->posted,
						&sge, 1, IBV_SEND_SIGNALED);

		if (l->posted - __atomic_load_n(&l->seen, __ATOMIC_ACQUIRE) >=
		    50) {
			sched_yield();
			continue;
		}
		wr_remote(&wr, buf_addr(l->dst, 0), l->dst->mr->rkey);
		CHECK_RC(end_try_send(l->end, &wr));
		l->posted++;
	}
	return NULL;
}

static void take_done(struct load *l)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(l->end->scq, 1, &wc)) {
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, l->seen);
		__atomic_fetch_add(&l->seen, 1, __ATOMIC_RELEASE);
	}
}

/*
 * In the middle of much work: what was begun is finished before the event, the
 * rest waits, nothing is lost or done twice.
 */
TEST_F(pair, sqd_under_load)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct load l = { .end = a };
	unsigned int round, rounds = tap_rounds(100);
	pthread_t poster;

	l.src = buf_new(a->host->pd, 65536, ALL_ACCESS);
	l.dst = buf_new(b->host->pd, 65536, ALL_ACCESS);
	CHECK_RC(pthread_create(&poster, NULL, keep_posting, &l));
	for (round = 0; round < rounds; round++) {
		unsigned int seen = l.seen;
		uint64_t until = deadline();

		while (l.seen < seen + 10) {
			take_done(&l);
			if (deadline_over(until))
				FAIL("no completion in round %u", round);
		}
		CHECK_RC(end_drain(a, 1));
		host_expect_event(a->host, IBV_EVENT_SQ_DRAINED, a->qp);
		take_done(&l);
		end_ping(b, a);
		end_ping(b, a);
		wc_none(a->scq);
		CHECK_RC(end_modify_state(a, IBV_QPS_RTS));
	}
	__atomic_store_n(&l.done, true, __ATOMIC_RELEASE);
	CHECK_RC(pthread_join(poster, NULL));
	while (l.seen < l.posted)
		wc_expect(a->scq, l.seen++, IBV_WC_SUCCESS);
	wc_none(a->scq);
	host_expect_quiet(a->host);
	buf_free(l.src);
	buf_free(l.dst);
}

/* Drained, changed, and on: that is what the state is for. */
TEST_F(pair, sqd_change_attributes)
{
	struct ibv_qp_attr attr, got;
	struct ibv_qp_init_attr init;
	struct end *a = &pair->a;

	CHECK_RC(end_modify_state(a, IBV_QPS_SQD));
	end_rtr_attr(a, &pair->b, &attr);
	attr.timeout = 17;
	attr.retry_cnt = 3;
	attr.rnr_retry = 2;
	attr.min_rnr_timer = 5;
	attr.ah_attr.grh.traffic_class = 0x28;
	CHECK_RC(ibv_modify_qp(a->qp, &attr, IBV_QP_TIMEOUT |
			       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			       IBV_QP_MIN_RNR_TIMER | IBV_QP_AV));
	query(a, &got, &init);
	CHECK_EQ(got.qp_state, IBV_QPS_SQD);
	CHECK_EQ(got.timeout, 17);
	CHECK_EQ(got.retry_cnt, 3);
	CHECK_EQ(got.rnr_retry, 2);
	CHECK_EQ(got.min_rnr_timer, 5);
	CHECK_EQ(got.ah_attr.grh.traffic_class, 0x28);
	CHECK_RC(end_modify_state(a, IBV_QPS_RTS));
	end_ping(a, &pair->b);
	end_ping(&pair->b, a);
}

/* Held requests are flushed when the error comes instead of RTS. */
TEST_F(pair, sqd_to_error)
{
	struct end *a = &pair->a;
	int i;

	CHECK_RC(end_drain(a, 1));
	host_expect_event(a->host, IBV_EVENT_SQ_DRAINED, a->qp);
	for (i = 0; i < 10; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, i, NULL, 0, 0);

		end_send(a, &wr);
	}
	CHECK_RC(end_modify_state(a, IBV_QPS_ERR));
	for (i = 0; i < 10; i++)
		wc_expect(a->scq, i, IBV_WC_WR_FLUSH_ERR);
	wc_none(a->scq);
}

/* ---- resetting --------------------------------------------------------- */

/* Requests and receives that were not done are gone, without a completion. */
TEST_F(pair, reset_drops_work)
{
	struct end *a = &pair->a, *b = &pair->b;
	int i;

	for (i = 0; i < 30; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 500 + i, NULL, 0,
						IBV_SEND_SIGNALED);

		end_send(a, &wr);
		end_recv(a, 600 + i, NULL, 0);
	}
	pair_reconnect(pair);
	for (i = 0; i < 100; i++) {
		end_ping(a, b);
		end_ping(b, a);
	}
	wc_none(a->scq);
	wc_none(a->rcq);
	wc_none(b->rcq);
}

/* The receives of before the reset do not take the messages of after. */
TEST(reset_drops_receives)
{
	struct param param = param_default();
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0, 0);
	struct pair *pair;

	param.rnr_retry = 0;
	param.min_rnr_timer = 1;
	pair = pair_new(&param);
	end_recv(&pair->b, 600, NULL, 0);
	end_recv(&pair->b, 601, NULL, 0);
	pair_reconnect(pair);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	wc_none(pair->b.rcq);
	pair_teardown(pair);
}

/* Completions that were there before the reset are the consumer's. */
TEST_F(pair, reset_keeps_completions)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 41, NULL, 0,
					IBV_SEND_SIGNALED);

	end_send(&pair->a, &wr);
	wr.wr_id = 42;
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 41, IBV_WC_SUCCESS);
	wc_expect(pair->a.scq, 42, IBV_WC_SUCCESS);
	pair_reconnect(pair);
	end_ping(&pair->a, &pair->b);
}

/* A full send queue is empty after the reset: all of it can be filled again. */
TEST_F(pair, reset_frees_queue)
{
	unsigned int round, i, cap = pair->a.cap.max_send_wr;
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0, 0);

	for (round = 0; round < 5; round++) {
		for (i = 0; i < cap; i++)
			end_send(&pair->a, &wr);
		CHECK_EQ(abs(end_try_send(&pair->a, &wr)), ENOMEM);
		pair_reconnect(pair);
	}
	end_ping(&pair->a, &pair->b);
}

/* Again and again, each time with other packet sequence numbers. */
TEST_F(pair, reconnect_many_times)
{
	unsigned int i, rounds = tap_rounds(300);

	for (i = 0; i < rounds; i++) {
		pair->a.psn = (pair->a.psn + 0x555557) & 0xffffff;
		pair->b.psn = (pair->b.psn + 0x123456) & 0xffffff;
		pair_reconnect(pair);
		end_ping(&pair->a, &pair->b);
		end_ping(&pair->b, &pair->a);
	}
}
