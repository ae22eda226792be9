// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the device advertises: each maximum can be reached by one process, one
 * more is refused, all comes back; what it has not is refused by its name.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs.h"

#define PAGE 4096

/* The kernel's memory killer shall take the case, and nothing else. */
static void first_victim(void)
{
	FILE *f = fopen("/proc/self/oom_score_adj", "w");

	if (f) {
		fputs("1000", f);
		fclose(f);
	}
}

/* ---- how many objects -------------------------------------------------- */

struct kind {
	const char *name;
	long (*advertised)(const struct host *host);
	void *(*create)(struct host *host, struct ibv_cq *cq, void *mem);
	int (*destroy)(void *object);
	int error;
};

static long max_pd(const struct host *host)
{
	return host->dev.max_pd - 1;		/* the host has one */
}

static void *create_pd(struct host *host, struct ibv_cq *cq, void *mem)
{
	(void)cq;
	(void)mem;
	return ibv_alloc_pd(host->ctx);
}

static int destroy_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static long max_cq(const struct host *host)
{
	return host->dev.max_cq - 1;
}

static void *create_cq(struct host *host, struct ibv_cq *cq, void *mem)
{
	(void)cq;
	(void)mem;
	return ibv_create_cq(host->ctx, 1, NULL, NULL, 0);
}

static int destroy_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static long max_qp(const struct host *host)
{
	return host->dev.max_qp;
}

static void *create_qp(struct host *host, struct ibv_cq *cq, void *mem)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 1, 1, 1, 1, 0 },
	};

	(void)mem;
	return ibv_create_qp(host->pd, &init);
}

static int destroy_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static long max_mr(const struct host *host)
{
	return host->dev.max_mr;
}

static void *create_mr(struct host *host, struct ibv_cq *cq, void *mem)
{
	(void)cq;
	return ibv_reg_mr(host->pd, mem, 64, ALL_ACCESS);
}

static int destroy_mr(void *mr)
{
	return ibv_dereg_mr(mr);
}

static long max_srq(const struct host *host)
{
	return host->dev.max_srq;
}

static void *create_srq(struct host *host, struct ibv_cq *cq, void *mem)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = 1, .max_sge = 1 },
	};

	(void)cq;
	(void)mem;
	return ibv_create_srq(host->pd, &init);
}

static int destroy_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static long max_mw(const struct host *host)
{
	return host->dev.max_mw;
}

static void *create_mw(struct host *host, struct ibv_cq *cq, void *mem)
{
	(void)cq;
	(void)mem;
	return ibv_alloc_mw(host->pd, IBV_MW_TYPE_2);
}

static int destroy_mw(void *mw)
{
	return ibv_dealloc_mw(mw);
}

static long max_ah(const struct host *host)
{
	return host->dev.max_ah;
}

static void *create_ah(struct host *host, struct ibv_cq *cq, void *mem)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {
			.dgid = host->gid,
			.sgid_index = host->gid_index,
			.hop_limit = 64,
		},
	};

	(void)cq;
	(void)mem;
	return ibv_create_ah(host->pd, &attr);
}

static int destroy_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

static const struct kind kinds[] = {
	{ "pd", max_pd, create_pd, destroy_pd, ENOMEM },
	{ "cq", max_cq, create_cq, destroy_cq, ENOMEM },
	{ "qp", max_qp, create_qp, destroy_qp, ENOMEM },
	{ "mr", max_mr, create_mr, destroy_mr, ENOMEM },
	{ "srq", max_srq, create_srq, destroy_srq, ENOMEM },
	{ "mw", max_mw, create_mw, destroy_mw, ENOMEM },
	{ "ah", max_ah, create_ah, destroy_ah, ENOMEM },
};

struct many {
	struct host *host;
	struct ibv_cq *cq;
	void *mem;
	void **object;
	long count;
};

static void many_open(struct many *m, const struct kind *kind)
{
	memset(m, 0, sizeof(*m));
	first_victim();
	m->host = host_open(0);
	m->count = kind->advertised(m->host);
	CHECK(m->count > 0);
	m->cq = ibv_create_cq(m->host->ctx, 16, NULL, NULL, 0);
	CHECK_ERRNO(m->cq);
	m->mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK_ERRNO(m->mem != MAP_FAILED);
	m->object = calloc(m->count, sizeof(*m->object));
	CHECK(m->object);
}

static void many_create(struct many *m, const struct kind *kind)
{
	long i;

	for (i = 0; i < m->count; i++) {
		m->object[i] = kind->create(m->host, m->cq, m->mem);
		if (!m->object[i])
			FAIL("number %ld of %ld: %s", i + 1, m->count,
			     strerror(errno));
	}
	if (kind->create(m->host, m->cq, m->mem))
		FAIL("%ld are told, and there is one more", m->count);
	if (errno != kind->error)
		FAIL("one more gives %s, not %s", strerror(errno),
		     strerror(kind->error));
}

static void many_destroy(struct many *m, const struct kind *kind)
{
	long i;

	for (i = 0; i < m->count; i++)
		CHECK_RC(kind->destroy(m->object[i]));
}

static void many_close(struct many *m)
{
	free(m->object);
	CHECK_RC(ibv_destroy_cq(m->cq));
	host_close(m->host);
}

/* Reached, passed by none; what is given back can be had again at once. */
TEST_EACH_LIMIT(maximum, kinds, 600)
{
	struct many m;
	void *one;

	many_open(&m, arg);
	tap_note("%ld", m.count);
	many_create(&m, arg);
	CHECK_RC(arg->destroy(m.object[m.count / 2]));
	one = arg->create(m.host, m.cq, m.mem);
	CHECK_ERRNO(one);
	m.object[m.count / 2] = one;
	many_destroy(&m, arg);
	one = arg->create(m.host, m.cq, m.mem);
	CHECK_ERRNO(one);
	CHECK_RC(arg->destroy(one));
	many_close(&m);
}

/* ---- memberships of groups --------------------------------------------- */

static union ibv_gid nth_group(unsigned int n)
{
	return (union ibv_gid) {
		.raw = { 0xff, 0x12, [14] = n >> 8, [15] = n },
	};
}

static struct ibv_qp *datagram_qp(struct host *host, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(host->pd, &init);

	CHECK_ERRNO(qp);
	return qp;
}

/* One QP in as many groups as there can be, twice. */
TEST_LIMIT(most_groups, 300)
{
	struct host *host = host_open(0);
	struct ibv_cq *cq = ibv_create_cq(host->ctx, 4, NULL, NULL, 0);
	struct ibv_qp *qp = datagram_qp(host, cq);
	int i, round, n = host->dev.max_mcast_grp;
	union ibv_gid gid;

	CHECK_EQ(n, host->dev.max_total_mcast_qp_attach);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < n; i++) {
			gid = nth_group(i + 2);
			CHECK_RC(ibv_attach_mcast(qp, &gid, 0));
		}
		gid = nth_group(n + 2);
		CHECK_EQ(ibv_attach_mcast(qp, &gid, 0), ENOMEM);
		for (i = 0; i < n; i++) {
			gid = nth_group(i + 2);
			CHECK_RC(ibv_detach_mcast(qp, &gid, 0));
		}
	}
	CHECK_RC(ibv_destroy_qp(qp));
	CHECK_RC(ibv_destroy_cq(cq));
	host_close(host);
}

/* As many QPs in one group as there can be. */
TEST(most_members)
{
	struct host *host = host_open(0);
	struct ibv_cq *cq = ibv_create_cq(host->ctx, 4, NULL, NULL, 0);
	int i, n = host->dev.max_mcast_qp_attach;
	struct ibv_qp **qp = calloc(n + 1, sizeof(*qp));
	union ibv_gid gid = nth_group(2);

	CHECK(qp);
	for (i = 0; i <= n; i++)
		qp[i] = datagram_qp(host, cq);
	for (i = 0; i < n; i++)
		CHECK_RC(ibv_attach_mcast(qp[i], &gid, 0));
	CHECK_EQ(ibv_attach_mcast(qp[n], &gid, 0), ENOMEM);
	CHECK_RC(ibv_detach_mcast(qp[0], &gid, 0));
	CHECK_RC(ibv_attach_mcast(qp[n], &gid, 0));
	for (i = 1; i <= n; i++)
		CHECK_RC(ibv_detach_mcast(qp[i], &gid, 0));
	for (i = 0; i <= n; i++)
		CHECK_RC(ibv_destroy_qp(qp[i]));
	free(qp);
	CHECK_RC(ibv_destroy_cq(cq));
	host_close(host);
}

/* ---- what a killed process leaves -------------------------------------- */

/*
 * A child creates many of everything and is killed. Whatever it had must be
 * there for the next: each round takes more than half of the maximum.
 */
static void hold_and_wait(const struct kind *kind, long count, int ready)
{
	struct many m;
	long i;

	many_open(&m, kind);
	for (i = 0; i < count; i++)
		if (!kind->create(m.host, m.cq, m.mem))
			FAIL("number %ld of %ld: %s", i + 1, count,
			     strerror(errno));
	CHECK_ERRNO(write(ready, "r", 1) == 1);
	pause();
}

TEST_EACH_LIMIT(killed, kinds, 600)
{
	struct host *host = host_open(0);
	long count = arg->advertised(host) / 2 + 10;
	int round;

	host_close(host);
	for (round = 0; round < 3; round++) {
		int ready[2];
		pid_t child;
		char c;

		CHECK_ERRNO(!pipe(ready));
		child = fork();
		CHECK_ERRNO(child >= 0);
		if (!child)
			hold_and_wait(arg, count, ready[1]);
		close(ready[1]);
		if (read(ready[0], &c, 1) != 1)
			FAIL("the child died in round %d", round);
		CHECK_ERRNO(!kill(child, SIGKILL));
		CHECK_ERRNO(waitpid(child, NULL, 0) == child);
		close(ready[0]);
	}
}

/* ---- the size of one --------------------------------------------------- */

static struct ibv_qp *sized_qp(struct host *host, struct ibv_cq *cq,
			       struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = *cap,
	};
	struct ibv_qp *qp = ibv_create_qp(host->pd, &init);

	*cap = init.cap;
	return qp;
}

struct size {
	const char *name;
	struct ibv_qp_cap cap;		/* -1: the device's maximum */
	struct ibv_qp_cap over;		/* added, and then refused */
};

static const struct size qp_sizes[] = {
	{ "send_wr", { -1, 1, 1, 1, 0 }, { 1, 0, 0, 0, 0 } },
	{ "recv_wr", { 1, -1, 1, 1, 0 }, { 0, 1, 0, 0, 0 } },
	{ "send_sge", { 1, 1, -1, 1, 0 }, { 0, 0, 1, 0, 0 } },
	{ "recv_sge", { 1, 1, 1, -1, 0 }, { 0, 0, 0, 1, 0 } },
	{ "all_wr", { -1, -1, 1, 1, 0 }, { 1, 1, 0, 0, 0 } },
	{ "all_sge", { 1, 1, -1, -1, 0 }, { 0, 0, 1, 1, 0 } },
	{ "all", { -1, -1, -1, -1, 0 }, { 1, 1, 1, 1, 0 } },
	{ "inline", { 1, 1, 1, 1, 1 }, { 0, 0, 0, 0, 1u << 20 } },
	{ "wraps", { 1, 1, 1, 1, 0 }, { UINT32_MAX - 1, 0, 0, 0, 0 } },
	{ "sge_wraps", { 1, 1, 1, 1, 0 }, { 0, 0, 0xfffffff, 0, 0 } },
};

TEST_EACH(qp_size, qp_sizes)
{
	struct host *host = host_open(0);
	struct ibv_cq *cq = ibv_create_cq(host->ctx, 4, NULL, NULL, 0);
	struct ibv_qp_cap want = arg->cap, got;
	struct ibv_qp *qp;

	CHECK_ERRNO(cq);
	if (want.max_send_wr == (uint32_t)-1)
		want.max_send_wr = host->dev.max_qp_wr;
	if (want.max_recv_wr == (uint32_t)-1)
		want.max_recv_wr = host->dev.max_qp_wr;
	if (want.max_send_sge == (uint32_t)-1)
		want.max_send_sge = host->dev.max_sge;
	if (want.max_recv_sge == (uint32_t)-1)
		want.max_recv_sge = host->dev.max_sge;
	got = want;
	qp = sized_qp(host, cq, &got);
	CHECK_ERRNO(qp);
	CHECK(got.max_send_wr >= want.max_send_wr);
	CHECK(got.max_recv_wr >= want.max_recv_wr);
	CHECK(got.max_send_sge >= want.max_send_sge);
	CHECK(got.max_recv_sge >= want.max_recv_sge);
	CHECK(got.max_inline_data >= want.max_inline_data);
	CHECK_RC(ibv_destroy_qp(qp));

	want.max_send_wr += arg->over.max_send_wr;
	want.max_recv_wr += arg->over.max_recv_wr;
	want.max_send_sge += arg->over.max_send_sge;
	want.max_recv_sge += arg->over.max_recv_sge;
	want.max_inline_data += arg->over.max_inline_data;
	qp = sized_qp(host, cq, &want);
	if (qp)
		FAIL("more than the maximum is created");
	CHECK_EQ(errno, EINVAL);
	CHECK_RC(ibv_destroy_cq(cq));
	host_close(host);
}

struct srq_size {
	const char *name;
	uint32_t wr, sge;		/* -1: the device's maximum */
	uint32_t over_wr, over_sge;	/* added, and then refused */
};

static const struct srq_size srq_sizes[] = {
	{ "wr", -1, 1, 1, 0 },
	{ "sge", 1, -1, 0, 1 },
	{ "all", -1, -1, 1, 1 },
};

static struct ibv_srq *sized_srq(struct host *host,
				 struct ibv_srq_init_attr *init)
{
	errno = 0;
	return ibv_create_srq(host->pd, init);
}

/* As many receives as were asked for can be posted, with as many pieces. */
static void fill_srq(struct ibv_srq *srq, const struct srq_size *size)
{
	struct ibv_sge *sge = calloc(size->sge, sizeof(*sge));
	struct ibv_recv_wr *bad, wr = { .sg_list = sge, .num_sge = size->sge };
	uint32_t i;

	CHECK(sge);
	for (i = 0; i < size->wr; i++)
		CHECK_RC(ibv_post_srq_recv(srq, &wr, &bad));
	free(sge);
}

TEST_EACH(srq_size, srq_sizes)
{
	struct host *host = host_open(0);
	struct srq_size size = *arg;
	struct ibv_srq_init_attr init = {};
	struct ibv_srq *srq;

	if (size.wr == (uint32_t)-1)
		size.wr = host->dev.max_srq_wr;
	if (size.sge == (uint32_t)-1)
		size.sge = host->dev.max_srq_sge;
	init.attr.max_wr = size.wr;
	init.attr.max_sge = size.sge;
	srq = sized_srq(host, &init);
	CHECK_ERRNO(srq);
	CHECK(init.attr.max_wr >= size.wr && init.attr.max_sge >= size.sge);
	fill_srq(srq, &size);
	CHECK_RC(ibv_destroy_srq(srq));

	init.attr.max_wr = size.wr + size.over_wr;
	init.attr.max_sge = size.sge + size.over_sge;
	if (sized_srq(host, &init))
		FAIL("more than the maximum is created");
	CHECK_EQ(errno, EINVAL);
	host_close(host);
}

/* A queue pair without a send or without a receive queue. */
static const struct size empty_queues[] = {
	{ "no_receives", { 4, 0, 1, 0, 0 }, {} },
	{ "no_sends", { 0, 4, 0, 1, 0 }, {} },
	{ "nothing", { 0, 0, 0, 0, 0 }, {} },
};

TEST_EACH(qp_without, empty_queues)
{
	struct host *host = host_open(0);
	struct ibv_cq *cq = ibv_create_cq(host->ctx, 4, NULL, NULL, 0);
	struct ibv_qp_cap cap = arg->cap;
	struct ibv_qp *qp;

	CHECK_ERRNO(cq);
	qp = sized_qp(host, cq, &cap);
	CHECK_ERRNO(qp);
	CHECK_RC(ibv_destroy_qp(qp));
	CHECK_RC(ibv_destroy_cq(cq));
	host_close(host);
}

/* The longest queue, filled and worked off. */
TEST_LIMIT(longest_send_queue, 300)
{
	struct param param = param_default();
	struct host *host = host_open(0);
	struct pair *pair;
	uint32_t i, n;

	param.sq_wr = host->dev.max_qp_wr;
	param.scqe = host->dev.max_cqe;
	host_close(host);
	pair = pair_new(&param);
	n = pair->a.cap.max_send_wr;
	if (n > (uint32_t)pair->a.scq->cqe)
		n = pair->a.scq->cqe;
	for (i = 0; i < n; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, i, NULL, 0,
						IBV_SEND_SIGNALED);

		end_send(&pair->a, &wr);
	}
	for (i = 0; i < n; i++)
		wc_expect(pair->a.scq, i, IBV_WC_SUCCESS);
	pair_teardown(pair);
}

static const struct {
	const char *name;
	bool shared;
} receive_queues[] = {
	{ "own_queue", false }, { "shared_queue", true },
};

struct pieces {
	struct param param, receiver;
	struct host *host;
	struct end a, b;
	struct buf *src, *dst;
	struct ibv_sge *from, *to;
	int num;
};

static void open_pieces(struct pieces *p, bool shared)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1 } };
	int n;

	memset(p, 0, sizeof(*p));
	p->host = host_open(0);
	p->num = n = shared ? p->host->dev.max_srq_sge : p->host->dev.max_sge;
	CHECK(n > 0 && n <= p->host->dev.max_sge);
	p->from = calloc(n, sizeof(*p->from));
	p->to = calloc(n, sizeof(*p->to));
	CHECK(p->from && p->to);
	p->param = param_default();
	p->param.sq_sge = p->param.rq_sge = n;
	p->receiver = p->param;
	init.attr.max_sge = n;
	if (shared)
		p->receiver.srq = ibv_create_srq(p->host->pd, &init);
	CHECK_ERRNO(!shared || p->receiver.srq);
	end_create(&p->a, p->host, &p->param);
	end_create(&p->b, p->host, &p->receiver);
	end_connect(&p->b, &p->a);
	end_connect(&p->a, &p->b);
	p->src = buf_new(p->host->pd, 3 * n, ALL_ACCESS);
	p->dst = buf_new(p->host->pd, 3 * n, ALL_ACCESS);
}

static void close_pieces(struct pieces *p)
{
	buf_free(p->src);
	buf_free(p->dst);
	end_destroy(&p->a);
	end_destroy(&p->b);
	if (p->receiver.srq)
		CHECK_RC(ibv_destroy_srq(p->receiver.srq));
	host_close(p->host);
	free(p->from);
	free(p->to);
}

static void receive_pieces(struct pieces *p, uint64_t id)
{
	struct ibv_recv_wr *bad, wr = {
		.wr_id = id, .sg_list = p->to, .num_sge = p->num,
	};

	if (p->receiver.srq)
		CHECK_RC(ibv_post_srq_recv(p->receiver.srq, &wr, &bad));
	else
		end_recv(&p->b, id, p->to, p->num);
}

/* The maximum number of pieces, one byte each. */
TEST_EACH(most_pieces, receive_queues)
{
	struct ibv_send_wr wr;
	struct pieces p;
	int i, n;

	open_pieces(&p, arg->shared);
	n = p.num;
	for (i = 0; i < n; i++) {
		p.from[i] = buf_sge(p.src, 3 * i, 1);
		p.to[i] = buf_sge(p.dst, 3 * (n - i) - 1, 1);
	}
	receive_pieces(&p, 2);
	wr = send_wr(IBV_WR_SEND, 1, p.from, n, IBV_SEND_SIGNALED);
	end_send(&p.a, &wr);
	CHECK_EQ(wc_expect(p.b.rcq, 2, IBV_WC_SUCCESS).byte_len, n);
	wc_expect(p.a.scq, 1, IBV_WC_SUCCESS);
	buf_move(p.dst, p.to, p.src, p.from, n);
	buf_check(p.dst);
	close_pieces(&p);
}

/* ---- what is there at all ---------------------------------------------- */

static void check_refusal(bool told, bool created)
{
	if (created && !told)
		FAIL("created, and the attributes deny it");
	if (!created && told)
		FAIL("the attributes promise it: %s", strerror(errno));
	if (!created && errno != EOPNOTSUPP)
		FAIL("refused with %s, not %s", strerror(errno),
		     strerror(EOPNOTSUPP));
}

static const struct {
	const char *name;
	enum ibv_qp_type type;
	bool there;
} other_types[] = {
	{ "uc", IBV_QPT_UC, true }, { "ud", IBV_QPT_UD, true },
	{ "raw", IBV_QPT_RAW_PACKET, false },
	{ "xrc_send", IBV_QPT_XRC_SEND, false },
};

/* No attribute tells of these; docs/limits.md does. */
TEST_EACH(qp_type, other_types)
{
	struct host *host = host_open(0);
	struct ibv_cq *cq = ibv_create_cq(host->ctx, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = arg->type,
		.cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_qp *qp;

	CHECK_ERRNO(cq);
	errno = 0;
	qp = ibv_create_qp(host->pd, &init);
	check_refusal(arg->there, qp);
	if (qp)
		CHECK_RC(ibv_destroy_qp(qp));
	CHECK_RC(ibv_destroy_cq(cq));
	host_close(host);
}

TEST(srq_told_truly)
{
	struct host *host = host_open(0);
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = 1, .max_sge = 1 },
	};
	struct ibv_srq *srq = ibv_create_srq(host->pd, &init);

	check_refusal(host->dev.max_srq > 0, srq);
	if (!srq)
		CHECK(!host->dev.max_srq_wr && !host->dev.max_srq_sge);
	if (srq)
		CHECK_RC(ibv_destroy_srq(srq));
	host_close(host);
}

static void try_mw(struct host *host, enum ibv_mw_type type, bool told)
{
	struct ibv_mw *mw;

	errno = 0;
	mw = ibv_alloc_mw(host->pd, type);
	check_refusal(told, mw);
	if (mw)
		CHECK_RC(ibv_dealloc_mw(mw));
}

TEST(mw_told_truly)
{
	struct host *host = host_open(0);
	unsigned int flags = host->dev.device_cap_flags;

	try_mw(host, IBV_MW_TYPE_1, flags & IBV_DEVICE_MEM_WINDOW);
	try_mw(host, IBV_MW_TYPE_2, flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
					     IBV_DEVICE_MEM_WINDOW_TYPE_2B));
	if (!(flags & IBV_DEVICE_MEM_WINDOW))
		CHECK_EQ(host->dev.max_mw, 0);
	host_close(host);
}

TEST(xrcd_told_truly)
{
	struct host *host = host_open(0);
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd;

	errno = 0;
	xrcd = ibv_open_xrcd(host->ctx, &init);
	check_refusal(host->dev.device_cap_flags & IBV_DEVICE_XRC, xrcd);
	host_close(host);
}

/* Figures that have to be there, and to agree with each other. */
TEST(attributes_agree)
{
	struct host *host = host_open(0);
	const struct ibv_device_attr *d = &host->dev;

	CHECK(d->max_qp > 0 && d->max_cq > 0 && d->max_mr > 0 && d->max_pd > 0);
	CHECK(d->max_qp_wr > 0 && d->max_sge > 0 && d->max_cqe > 0);
	CHECK(d->max_qp_rd_atom > 0 && d->max_qp_init_rd_atom > 0);
	CHECK(d->max_res_rd_atom >= d->max_qp_rd_atom);
	CHECK(d->max_mr_size >= 1ull << 31);
	CHECK_EQ(d->phys_port_cnt, 1);
	CHECK(d->atomic_cap == IBV_ATOMIC_HCA || d->atomic_cap == IBV_ATOMIC_GLOB);
	CHECK(d->page_size_cap & 4096);
	CHECK(d->node_guid);
	/* The core refuses alternate paths on Ethernet, whatever the driver. */
	CHECK(!(d->device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG));
	CHECK_EQ(host->port.link_layer, IBV_LINK_LAYER_ETHERNET);
	CHECK_EQ(host->port.state, IBV_PORT_ACTIVE);
	CHECK(host->port.active_mtu <= host->port.max_mtu);
	CHECK_EQ(host->port.max_msg_sz, 1u << 31);
	CHECK(host->port.gid_tbl_len > 0 && host->port.pkey_tbl_len > 0);
	host_close(host);
}

static void refused_cq(struct host *host, int cqe)
{
	errno = 0;
	CHECK(!ibv_create_cq(host->ctx, cqe, NULL, NULL, 0));
	CHECK_EQ(errno, ENOMEM);
}

/* What was refused or destroyed does not count. */
TEST(queues_are_locked_memory)
{
	const int many = 64 * PAGE / 64;	/* bytes of a completion */
	struct rlimit limit = { 64 * PAGE, 64 * PAGE };
	struct host *host = host_open(0);
	struct ibv_cq *cq;
	struct buf *buf;

	CHECK_ERRNO(!setrlimit(RLIMIT_MEMLOCK, &limit));
	cq = ibv_create_cq(host->ctx, many, NULL, NULL, 0);
	CHECK_ERRNO(cq);
	if (setresuid(65534, 65534, 65534))
		SKIP("cannot become another user");
	refused_cq(host, 4);
	CHECK_RC(ibv_destroy_cq(cq));
	for (int i = 0; i < 10; i++) {
		refused_cq(host, many);
		cq = ibv_create_cq(host->ctx, many / 4, NULL, NULL, 0);
		CHECK_ERRNO(cq);
		CHECK_RC(ibv_destroy_cq(cq));
	}
	/* Together with its regions. */
	buf = buf_new(host->pd, 60 * PAGE, ALL_ACCESS);
	refused_cq(host, many / 4);
	buf_free(buf);
	cq = ibv_create_cq(host->ctx, many / 4, NULL, NULL, 0);
	CHECK_ERRNO(cq);
	CHECK_RC(ibv_destroy_cq(cq));
	host_close(host);
}
