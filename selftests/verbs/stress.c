// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Ends of all kinds in the middle of work: killed, destroyed, changed, closed. */
#include <rdma/ib_user_verbs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs.h"

OPTION(rounds, "100", "how often each case repeats (timers: 20 times that)")

static unsigned int rounds(unsigned int factor)
{
	return tap_rounds(atoi(OPT(rounds)) * factor);
}

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

/* ---- load -------------------------------------------------------------- */

#define LOAD_BYTES 20000

/* A pair with its memory, and requests of every kind under way. */
struct load {
	struct pair *pair;
	struct buf *local, *remote;
	uint64_t id;
};

static void load_open(struct load *l, const struct param *param)
{
	memset(l, 0, sizeof(*l));
	l->pair = pair_new(param);
	l->local = buf_new(l->pair->a.host->pd, LOAD_BYTES, ALL_ACCESS);
	l->remote = buf_new(l->pair->b.host->pd, LOAD_BYTES, ALL_ACCESS);
}

static void load_close(struct load *l)
{
	buf_free(l->local);
	buf_free(l->remote);
	pair_teardown(l->pair);
}

/*
 * Post FILL requests, or until the queue is full or refuses. Whoever drains the
 * completion queues after each call never sees them overrun: the send queue
 * holds no more than as many again.
 */
#define FILL 60

static void load_fill(struct load *l)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct ibv_sge sge, into = buf_sge(l->remote, 0, LOAD_BYTES);
	struct ibv_send_wr wr;
	unsigned int n = 0;

	do {
		enum ibv_wr_opcode opcode = opcodes[l->id % 5];

		sge = buf_sge(l->local, 0, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
			      ? 8 : l->id * 977 % LOAD_BYTES);
		wr = send_wr(opcode, l->id++, &sge, 1, IBV_SEND_SIGNALED);
		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			wr_atomic(&wr, buf_addr(l->remote, 8),
				  l->remote->mr->rkey, 1, 0);
		else if (opcode != IBV_WR_SEND)
			wr_remote(&wr, buf_addr(l->remote, 0),
				  l->remote->mr->rkey);
		if (opcode == IBV_WR_SEND ||
		    opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			end_try_recv(&l->pair->b, l->id, &into, 1);
	} while (!end_try_send(&l->pair->a, &wr) && ++n < FILL);
}

/* Take what is there; the number. */
static unsigned int drain_cq(struct ibv_cq *cq)
{
	struct ibv_wc wc[16];
	unsigned int all = 0;
	int n;

	while ((n = ibv_poll_cq(cq, 16, wc)) > 0)
		all += n;
	return all;
}

static struct param load_param(void)
{
	struct param param = param_default();

	param.scqe = param.rcqe = 256;
	return param;
}

/* ---- killed ------------------------------------------------------------ */

static volatile unsigned int *shared_counter(void)
{
	void *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK_ERRNO(mem != MAP_FAILED);
	return mem;
}

static void work_for_ever(volatile unsigned int *progress)
{
	struct param param = load_param();
	struct load load[3];
	int i;

	for (i = 0; i < 3; i++)
		load_open(&load[i], &param);
	for (;;)
		for (i = 0; i < 3; i++) {
			load_fill(&load[i]);
			*progress += drain_cq(load[i].pair->a.scq);
			drain_cq(load[i].pair->b.rcq);
		}
}

static void wait_progress(volatile unsigned int *progress, unsigned int want)
{
	uint64_t until = deadline();

	while (*progress < want) {
		if (deadline_over(until))
			FAIL("the child stands still at %u", *progress);
		sched_yield();
	}
}

/* kill -9 with requests of every kind in flight, both ends in the process. */
TEST_LIMIT(killed_mid_transfer, 600)
{
	volatile unsigned int *progress = shared_counter();
	unsigned int i, n = rounds(1) / 2 + 1;

	for (i = 0; i < n; i++) {
		pid_t child;

		*progress = 0;
		child = fork();
		CHECK_ERRNO(child >= 0);
		if (!child)
			work_for_ever(progress);
		wait_progress(progress, 10 + i * 37 % 400);
		CHECK_ERRNO(!kill(child, SIGKILL));
		CHECK_ERRNO(waitpid(child, NULL, 0) == child);
		if (i % 10 == 0)
			others_live();
	}
	others_live();
}

/* What two processes tell each other to connect. */
struct meeting {
	volatile unsigned int child_ready, parent_ready;
	uint32_t qpn[2], psn[2];
	uint64_t addr;
	uint32_t rkey;
};

static void meet(struct end *end, struct meeting *m, int side)
{
	struct ibv_qp peer_qp = {};
	struct host peer_host = *end->host;
	struct end peer = { .host = &peer_host, .qp = &peer_qp };
	volatile unsigned int *mine = side ? &m->child_ready : &m->parent_ready;
	volatile unsigned int *other = side ? &m->parent_ready : &m->child_ready;
	uint64_t until = deadline();

	m->qpn[side] = end->qp->qp_num;
	m->psn[side] = end->psn;
	__atomic_store_n(mine, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(other, __ATOMIC_ACQUIRE))
		if (deadline_over(until))
			FAIL("the other process does not come");
	peer_qp.qp_num = m->qpn[!side];
	peer.psn = m->psn[!side];
	end_connect(end, &peer);
	__atomic_store_n(mine, 2, __ATOMIC_RELEASE);
	while (__atomic_load_n(other, __ATOMIC_ACQUIRE) < 2)
		if (deadline_over(until))
			FAIL("the other process does not connect");
}

static void be_peer(struct meeting *m, const struct param *param)
{
	struct host *host = host_open(0);
	struct buf *buf = buf_new(host->pd, LOAD_BYTES, ALL_ACCESS);
	struct end end;

	end_create(&end, host, param);
	m->addr = buf_addr(buf, 0);
	m->rkey = buf->mr->rkey;
	meet(&end, m, 1);
	pause();
}

/* The peer's process is killed: the requests fail as towards a silent peer. */
static void peer_killed_once(unsigned int when)
{
	struct meeting *m = (void *)shared_counter();
	struct param param = load_param();
	struct host *host;
	struct end end;
	struct buf *buf;
	uint64_t posted = 0, done = 0;
	bool failed = false;
	pid_t child;

	param.timeout = 10;
	param.retry_cnt = 2;
	child = fork();
	CHECK_ERRNO(child >= 0);
	if (!child)
		be_peer(m, &param);
	host = host_open(0);
	buf = buf_new(host->pd, LOAD_BYTES, ALL_ACCESS);
	end_create(&end, host, &param);
	meet(&end, m, 0);
	while (!failed || done < posted) {
		struct ibv_sge sge = buf_sge(buf, 0, 5000);
		struct ibv_send_wr wr = send_wr(posted & 1 ? IBV_WR_RDMA_READ :
						IBV_WR_RDMA_WRITE, posted, &sge,
						1, IBV_SEND_SIGNALED);
		struct ibv_wc wc;

		wr_remote(&wr, m->addr, m->rkey);
		while (!failed && posted - done < 40) {
			wr.wr_id = posted++;
			end_send(&end, &wr);
		}
		wc = wc_wait(end.scq);
		CHECK_EQ(wc.wr_id, done++);
		if (done == when)
			CHECK_ERRNO(!kill(child, SIGKILL));
		if (failed)
			CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		else if (wc.status != IBV_WC_SUCCESS &&
			 wc.status != IBV_WC_RETRY_EXC_ERR &&
			 wc.status != IBV_WC_REM_ACCESS_ERR)
			FAIL("status \"%s\"", ibv_wc_status_str(wc.status));
		failed |= wc.status != IBV_WC_SUCCESS;
	}
	CHECK_ERRNO(waitpid(child, NULL, 0) == child);
	end_destroy(&end);
	buf_free(buf);
	host_close(host);
	munmap(m, 4096);
}

TEST_LIMIT(peer_killed, 600)
{
	unsigned int i, n = rounds(1) / 2 + 1;

	for (i = 0; i < n; i++)
		peer_killed_once(1 + i * 17 % 200);
}

/* ---- destroyed --------------------------------------------------------- */

enum { QP, SCQ, RCQ, MR, PD, CHANNEL, OBJECTS };

struct objects {
	struct host *host;
	struct ibv_pd *pd;
	struct end end;
	struct ibv_mr *mr;
	bool gone[OBJECTS];
};

static int destroy_object(struct objects *o, int which)
{
	switch (which) {
	case QP:
		return ibv_destroy_qp(o->end.qp);
	case SCQ:
		return ibv_destroy_cq(o->end.scq);
	case RCQ:
		return ibv_destroy_cq(o->end.rcq);
	case MR:
		return ibv_dereg_mr(o->mr);
	case CHANNEL:
		return ibv_destroy_comp_channel(o->end.channel);
	default:
		return ibv_dealloc_pd(o->pd);
	}
}

static bool is_used(const struct objects *o, int which)
{
	switch (which) {
	case SCQ:
	case RCQ:
		return !o->gone[QP];
	case PD:
		return !o->gone[QP] || !o->gone[MR];
	case CHANNEL:
		return !o->gone[SCQ] || !o->gone[RCQ];
	default:
		return false;
	}
}

static void objects_open(struct objects *o, const struct param *param)
{
	static uint8_t mem[4096];

	memset(o, 0, sizeof(*o));
	o->host = host_open(0);
	o->pd = ibv_alloc_pd(o->host->ctx);
	CHECK_ERRNO(o->pd);
	o->host->pd = o->pd;
	o->mr = ibv_reg_mr(o->pd, mem, sizeof(mem), ALL_ACCESS);
	CHECK_ERRNO(o->mr);
	end_create(&o->end, o->host, param);
	/* Connected to itself: its own peer, so that work is under way. */
	end_connect(&o->end, &o->end);
}

static void objects_work(struct objects *o)
{
	struct ibv_sge sge = { (uintptr_t)o->mr->addr, 4096, o->mr->lkey };
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_READ, 1, &sge, 1,
					IBV_SEND_SIGNALED);

	int i;

	wr_remote(&wr, (uintptr_t)o->mr->addr, o->mr->rkey);
	end_recv(&o->end, 1, &sge, 1);
	for (i = 0; i < FILL; i++)
		end_try_send(&o->end, &wr);
}

/* Try in this order over and over: EBUSY just while something uses it. */
static void destroy_in_order(struct objects *o, const int order[OBJECTS])
{
	int left = OBJECTS, i;

	while (left)
		for (i = 0; i < OBJECTS; i++) {
			int which = order[i], rc;

			if (o->gone[which])
				continue;
			rc = destroy_object(o, which);
			if (rc != (is_used(o, which) ? EBUSY : 0))
				FAIL("object %d in place %d: %d (%s)", which, i,
				     rc, strerror(rc));
			o->gone[which] = !rc;
			left -= !rc;
		}
}

/* The n-th permutation. */
static void permutation(int n, int order[OBJECTS])
{
	int i, k;

	for (i = 0; i < OBJECTS; i++) {
		int at = n % (i + 1);

		for (k = i; k > at; k--)
			order[k] = order[k - 1];
		order[at] = i;
		n /= i + 1;
	}
}

/* All 720 orders, each with requests under way. */
TEST_LIMIT(destroy_orders, 600)
{
	int n, order[OBJECTS], step = tap_slow();
	struct param param = param_default();

	param.channel = true;
	for (n = 0; n < 720; n += step) {
		struct objects o;

		permutation(n, order);
		objects_open(&o, &param);
		objects_work(&o);
		destroy_in_order(&o, order);
		CHECK_RC(ibv_close_device(o.host->ctx));
	}
	others_live();
}

/* The responder goes while requests are coming in, and the requester too. */
TEST_LIMIT(destroy_under_traffic, 600)
{
	unsigned int i, n = rounds(2);

	for (i = 0; i < n; i++) {
		struct param param = load_param();
		struct load l;

		param.timeout = 8;
		param.retry_cnt = 1;
		load_open(&l, &param);
		load_fill(&l);
		if (i & 1)
			wc_wait(l.pair->a.scq);
		if (i & 2) {
			CHECK_RC(ibv_destroy_qp(l.pair->b.qp));
			l.pair->b.qp = NULL;
			wc_wait(l.pair->a.scq);
		} else {
			CHECK_RC(ibv_destroy_qp(l.pair->a.qp));
			l.pair->a.qp = NULL;
		}
		load_close(&l);
	}
	others_live();
}

/* The descriptor is closed with all objects on it, work under way. */
TEST_LIMIT(close_under_traffic, 600)
{
	unsigned int i, n = rounds(1);

	for (i = 0; i < n; i++) {
		pid_t child = fork();
		struct param param = load_param();
		struct load l;

		CHECK_ERRNO(child >= 0);
		if (child) {
			int status;

			CHECK_ERRNO(waitpid(child, &status, 0) == child);
			CHECK_EQ(status, 0);
			continue;
		}
		load_open(&l, &param);
		load_fill(&l);
		close(l.pair->b.host->ctx->cmd_fd);
		close(l.pair->b.host->ctx->async_fd);
		load_fill(&l);
		close(l.pair->a.host->ctx->cmd_fd);
		close(l.pair->a.host->ctx->async_fd);
		_exit(0);
	}
	others_live();
}

/* ---- timers ------------------------------------------------------------ */

/*
 * Queue pairs whose every timer fires: to a peer that is not there, and to one
 * that has no receive. Destroyed, reset or put in error while they do; some of
 * them after a timeout of 4 ms, which is the shortest.
 */
TEST_LIMIT(destroy_while_timers_fire, 900)
{
	struct host *host = host_open(0);
	struct param param = param_default();
	unsigned int i, n = rounds(20);
	struct end end, deaf, gone = {};
	struct ibv_qp no_qp = { .qp_num = 0x7ffff0 };

	param.timeout = 1;
	param.retry_cnt = 7;
	param.min_rnr_timer = 1;	/* 10 us */
	end_create(&deaf, host, &param);
	gone.host = host;
	gone.qp = &no_qp;
	for (i = 0; i < n; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, i, NULL, 0,
						IBV_SEND_SIGNALED);
		unsigned int k, spin = i * 31 % 40;

		end_create(&end, host, &param);
		CHECK_RC(end_modify_state(&deaf, IBV_QPS_RESET));
		end_connect(&deaf, &end);
		end_connect(&end, i & 1 ? &deaf : &gone);
		end_send(&end, &wr);
		end_send(&end, &wr);
		for (k = 0; k < spin; k++)
			end_state(&end);
		if (i % 16 == 0)
			usleep(4000 + i % 1000);
		if (i % 3 == 1)
			CHECK_RC(end_modify_state(&end, IBV_QPS_RESET));
		else if (i % 3 == 2)
			CHECK_RC(end_modify_state(&end, IBV_QPS_ERR));
		end_destroy(&end);
	}
	end_destroy(&deaf);
	host_close(host);
	others_live();
}

/* ---- threads ----------------------------------------------------------- */

struct threads {
	struct load load;
	bool done;
	unsigned int n;
};

static bool is_done(struct threads *t)
{
	return __atomic_load_n(&t->done, __ATOMIC_ACQUIRE);
}

static void *keep_reconnecting(void *arg)
{
	struct threads *t = arg;
	struct end *a = &t->load.pair->a, *b = &t->load.pair->b;
	struct ibv_qp_attr attr;
	unsigned int i;
	int mask;

	/* Others change the same queue pair: any step may be refused. */
	for (i = 0; i < t->n; i++) {
		end_modify_state(a, IBV_QPS_RESET);
		mask = end_init_attr(a, &attr);
		ibv_modify_qp(a->qp, &attr, mask);
		mask = end_rtr_attr(a, b, &attr);
		ibv_modify_qp(a->qp, &attr, mask);
		mask = end_rts_attr(a, &attr);
		ibv_modify_qp(a->qp, &attr, mask);
	}
	__atomic_store_n(&t->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void *keep_breaking(void *arg)
{
	struct threads *t = arg;
	unsigned int i = 0;

	while (!is_done(t)) {
		end_modify_state(&t->load.pair->a, i & 1 ? IBV_QPS_ERR :
				 IBV_QPS_SQD);
		end_state(&t->load.pair->a);
		if (i++ % 8 == 0)
			end_modify_state(&t->load.pair->b, IBV_QPS_ERR);
	}
	return NULL;
}

static void *keep_posting(void *arg)
{
	struct threads *t = arg;

	while (!is_done(t)) {
		load_fill(&t->load);
		drain_cq(t->load.pair->a.scq);
		drain_cq(t->load.pair->b.rcq);
	}
	return NULL;
}

/* One changes the state, one breaks it, one posts, all at the same queue pair. */
TEST_LIMIT(modify_races, 600)
{
	void *(*const body[])(void *) = {
		keep_reconnecting, keep_breaking, keep_posting,
	};
	struct threads t = { .n = rounds(10) };
	struct param param = load_param();
	pthread_t thread[ARRAY_SIZE(body)];
	unsigned int i;

	param.timeout = 5;
	param.scqe = param.rcqe = 1000;
	load_open(&t.load, &param);
	for (i = 0; i < ARRAY_SIZE(body); i++)
		CHECK_RC(pthread_create(&thread[i], NULL, body[i], &t));
	for (i = 0; i < ARRAY_SIZE(body); i++)
		CHECK_RC(pthread_join(thread[i], NULL));
	pair_reconnect(t.load.pair);
	drain_cq(t.load.pair->a.scq);
	drain_cq(t.load.pair->b.rcq);
	load_close(&t.load);
	others_live();
}

static void *keep_registering(void *arg)
{
	struct threads *t = arg;
	static uint8_t mem[3 * 4096];
	unsigned int i;

	for (i = 0; i < t->n; i++) {
		struct ibv_mr *mr = ibv_reg_mr(t->load.pair->b.host->pd,
					       mem + i % 4096, 5000,
					       ALL_ACCESS);

		CHECK_ERRNO(mr);
		CHECK_RC(ibv_dereg_mr(mr));
	}
	__atomic_store_n(&t->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Other keys come and go; the traffic's own is never mistaken for them. */
TEST_LIMIT(register_under_traffic, 600)
{
	struct threads t = { .n = rounds(100) };
	struct param param = load_param();
	unsigned int seen = 0;
	pthread_t thread;
	struct ibv_wc wc;

	load_open(&t.load, &param);
	CHECK_RC(pthread_create(&thread, NULL, keep_registering, &t));
	while (!is_done(&t)) {
		load_fill(&t.load);
		while (ibv_poll_cq(t.load.pair->a.scq, 1, &wc) > 0) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			seen++;
		}
		drain_cq(t.load.pair->b.rcq);
	}
	CHECK_RC(pthread_join(thread, NULL));
	CHECK(seen > 0);
	CHECK_RC(end_modify_state(&t.load.pair->b, IBV_QPS_RESET));
	CHECK_RC(end_modify_state(&t.load.pair->a, IBV_QPS_RESET));
	load_close(&t.load);
}

/* Connections come and go while others carry traffic, none of which fails. */
static void *keep_connecting(void *arg)
{
	struct threads *t = arg;
	unsigned int i;

	for (i = 0; i < t->n; i++)
		others_live();
	__atomic_store_n(&t->done, true, __ATOMIC_RELEASE);
	return NULL;
}

TEST_LIMIT(connect_under_traffic, 600)
{
	struct threads t = { .n = rounds(1) };
	struct param param = load_param();
	pthread_t thread;
	struct ibv_wc wc;

	load_open(&t.load, &param);
	CHECK_RC(pthread_create(&thread, NULL, keep_connecting, &t));
	while (!is_done(&t)) {
		load_fill(&t.load);
		while (ibv_poll_cq(t.load.pair->a.scq, 1, &wc) > 0)
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		while (ibv_poll_cq(t.load.pair->b.rcq, 1, &wc) > 0)
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	}
	CHECK_RC(pthread_join(thread, NULL));
	CHECK_RC(end_modify_state(&t.load.pair->b, IBV_QPS_RESET));
	CHECK_RC(end_modify_state(&t.load.pair->a, IBV_QPS_RESET));
	load_close(&t.load);
}

/* The doorbell with nothing to post: whoever rings does what is to be done. */
static void *keep_ringing(void *arg)
{
	struct threads *t = arg;
	struct end *a = &t->load.pair->a;
	struct ib_uverbs_post_send_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
	} call = {
		.hdr.command = IB_USER_VERBS_CMD_POST_SEND,
		.hdr.in_words = sizeof(call) / 4,
		.hdr.out_words = sizeof(resp) / 4,
		.cmd.response = (uintptr_t)&resp,
		.cmd.qp_handle = a->qp->handle,
		.cmd.wqe_size = sizeof(struct ib_uverbs_send_wr),
	};

	while (!is_done(t))
		CHECK_ERRNO(write(a->host->ctx->cmd_fd, &call, sizeof(call)) ==
			    sizeof(call));
	return NULL;
}

static void pin(pthread_t thread, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK_RC(pthread_setaffinity_np(thread, sizeof(set), &set));
}

/* Fill the queue to its last slot, poll without a pause, fill it again. */
static void keep_full(struct threads *t)
{
	struct load *l = &t->load;
	struct end *a = &l->pair->a;
	struct ibv_sge sge = buf_sge(l->local, 0, 8);
	unsigned int posted = 0, done = 0, depth = a->cap.max_send_wr;
	struct ibv_wc wc[8];
	int i, n, rc;

	while (done < t->n) {
		for (; posted < t->n && posted - done < depth; posted++) {
			struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE,
							posted, &sge, 1,
							IBV_SEND_SIGNALED);

			wr_remote(&wr, buf_addr(l->remote, 0),
				  l->remote->mr->rkey);
			rc = end_try_send(a, &wr);
			if (rc)
				FAIL("%s: %u of %u slots taken, %u completions",
				     strerror(rc), posted - done, depth, done);
		}
		n = ibv_poll_cq(a->scq, ARRAY_SIZE(wc), wc);
		CHECK(n >= 0);
		for (i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			CHECK_EQ(wc[i].wr_id, done++);
		}
	}
}

/*
 * A request's slot is free when its completion was polled, at the moment that
 * another CPU put the completion there.
 */
TEST_LIMIT(polled_slot_is_free, 300)
{
	struct threads t = { .n = rounds(200) };
	struct param param = load_param();
	pthread_t thread;

	param.sq_wr = 3;
	param.sq_sge = 1;
	load_open(&t.load, &param);
	CHECK_RC(pthread_create(&thread, NULL, keep_ringing, &t));
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		pin(pthread_self(), 0);
		pin(thread, 1);
	}
	keep_full(&t);
	__atomic_store_n(&t.done, true, __ATOMIC_RELEASE);
	CHECK_RC(pthread_join(thread, NULL));
	load_close(&t.load);
}

static void write_eight(struct load *l, unsigned int i, unsigned int flags)
{
	struct ibv_sge from = buf_sge(l->local, 8 * i, 8);
	struct ibv_sge to = buf_sge(l->remote, 16 * i, 8);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, i, &from, 1, flags);

	wr_remote(&wr, to.addr, l->remote->mr->rkey);
	buf_move(l->remote, &to, l->local, &from, 8);
	end_send(&l->pair->a, &wr);
}

/*
 * Who posts one request after the other and asks for no completion leaves the
 * work to another CPU. All of it is done, in order; also while the queue pair
 * is being destroyed nothing is used that is gone.
 */
TEST_LIMIT(another_cpu_works, 300)
{
	enum { MANY = 40 };
	unsigned int round, i, n = rounds(2);
	struct param param = load_param();

	param.sq_wr = 2 * MANY;
	for (round = 0; round < n; round++) {
		struct load l;

		load_open(&l, &param);
		for (i = 0; i < MANY; i++)
			write_eight(&l, i, i == MANY - 1 ? IBV_SEND_SIGNALED :
							   0);
		wc_expect(l.pair->a.scq, MANY - 1, IBV_WC_SUCCESS);
		buf_check(l.remote);
		for (i = 0; i < MANY - round % 8; i++)
			write_eight(&l, i, 0);
		load_close(&l);
	}
}

/*
 * A QP that is connected to itself: its READ has to be answered while its own
 * WRITEs wait behind the READ, and fill what it may have under way.
 */
TEST_LIMIT(answers_have_room, 300)
{
	enum { WRITES = 100 };
	struct param param = load_param();
	unsigned int round, i;
	struct load l;

	param.sq_wr = 1 + WRITES;
	load_open(&l, &param);
	CHECK_RC(end_modify_state(&l.pair->a, IBV_QPS_RESET));
	CHECK_RC(end_modify_state(&l.pair->b, IBV_QPS_RESET));
	end_connect(&l.pair->a, &l.pair->a);
	for (round = 0; round < rounds(1); round++) {
		/* Small ones take the most room for each of their bytes. */
		struct ibv_sge sge = buf_sge(l.local, 0, 1000);
		struct ibv_send_wr wr[1 + WRITES];

		for (i = 0; i <= WRITES; i++) {
			wr[i] = send_wr(i ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
					i, &sge, 1,
					i && i < WRITES ? 0 : IBV_SEND_SIGNALED);
			wr[i].next = i < WRITES ? &wr[i + 1] : NULL;
			wr_remote(&wr[i], buf_addr(l.local, 0),
				  l.local->mr->rkey);
		}
		end_send(&l.pair->a, wr);
		wc_expect(l.pair->a.scq, 0, IBV_WC_SUCCESS);
		wc_expect(l.pair->a.scq, WRITES, IBV_WC_SUCCESS);
	}
	load_close(&l);
}

/* One device, one connection, a thousand times from nothing. */
TEST_LIMIT(connect_many_times, 600)
{
	unsigned int i, n = rounds(10);

	for (i = 0; i < n; i++) {
		struct pair *pair = pair_setup();

		end_ping(&pair->a, &pair->b);
		end_ping(&pair->b, &pair->a);
		pair_teardown(pair);
	}
}
