// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The newer interfaces: ibv_wr_*() and extended completion queues. */
#include <arpa/inet.h>
#include <sched.h>

#include "verbs.h"

#define ALL_OPS (IBV_QP_EX_WITH_RDMA_WRITE |				\
		 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |			\
		 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |	\
		 IBV_QP_EX_WITH_RDMA_READ |				\
		 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |			\
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static struct pair *wr_pair(void)
{
	struct param param = param_default();

	param.ops = ALL_OPS;
	param.inline_data = 64;
	return pair_new(&param);
}

struct wr_case {
	const char *name;
	enum ibv_wr_opcode opcode;
	bool receive, imm;
};

static const struct wr_case wr_cases[] = {
	{ "send", IBV_WR_SEND, true, false },
	{ "send_imm", IBV_WR_SEND_WITH_IMM, true, true },
	{ "write", IBV_WR_RDMA_WRITE, false, false },
	{ "write_imm", IBV_WR_RDMA_WRITE_WITH_IMM, true, true },
	{ "read", IBV_WR_RDMA_READ, false, false },
};

struct wr_test {
	struct pair *pair;
	struct buf *local, *remote;
};

static void wr_open(struct wr_test *t)
{
	t->pair = wr_pair();
	t->local = buf_new(t->pair->a.host->pd, 70000, ALL_ACCESS);
	t->remote = buf_new(t->pair->b.host->pd, 70000, ALL_ACCESS);
}

static void wr_close(struct wr_test *t)
{
	buf_free(t->local);
	buf_free(t->remote);
	pair_teardown(t->pair);
}

static void wr_transfer(struct wr_test *t, const struct wr_case *kind,
			struct ibv_sge *sge, int num_sge, uint32_t length)
{
	struct ibv_sge into = buf_sge(t->remote, 77, length);
	struct ibv_send_wr wr = send_wr(kind->opcode, 1, sge, num_sge,
					IBV_SEND_SIGNALED);
	bool is_send = kind->opcode == IBV_WR_SEND ||
		       kind->opcode == IBV_WR_SEND_WITH_IMM;
	struct ibv_wc wc;

	wr.imm_data = htonl(0x1234567);
	if (kind->receive)
		end_recv(&t->pair->b, 2, &into, is_send ? 1 : 0);
	if (!is_send)
		wr_remote(&wr, into.addr, t->remote->mr->rkey);
	end_send(&t->pair->a, &wr);
	wc_expect(t->pair->a.scq, 1, IBV_WC_SUCCESS);
	if (kind->receive) {
		wc = wc_expect(t->pair->b.rcq, 2, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, length);
		CHECK_EQ(wc.wc_flags & ~IBV_WC_GRH,
			 kind->imm ? IBV_WC_WITH_IMM : 0);
		if (kind->imm)
			CHECK_EQ(ntohl(wc.imm_data), 0x1234567);
	}
	if (length && kind->opcode == IBV_WR_RDMA_READ)
		buf_move(t->local, sge, t->remote, &into, length);
	else if (length)
		buf_move(t->remote, &into, t->local, sge, length);
	buf_check(t->local);
	buf_check(t->remote);
}

TEST_EACH(wr_sge, wr_cases)
{
	static const uint32_t sizes[] = { 0, 1, 1023, 1024, 1025, 65537 };
	struct wr_test t;
	size_t i;

	wr_open(&t);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct ibv_sge sge = buf_sge(t.local, 131, sizes[i]);

		wr_transfer(&t, arg, &sge, 1, sizes[i]);
	}
	wr_close(&t);
}

TEST_EACH(wr_sge_list_equal, wr_cases)
{
	struct ibv_sge sge[3];
	struct wr_test t;
	int i;

	wr_open(&t);
	for (i = 0; i < 3; i++)
		sge[i] = buf_sge(t.local, 2500 * i + 7, 1001);
	wr_transfer(&t, arg, sge, 3, 3003);
	wr_close(&t);
}

/*
 * rdma-core before 64 multiplies the first length by the number of pieces. The
 * pieces themselves are right, and the kernel can add them up.
 */
TEST_EACH(wr_sge_list, wr_cases)
{
	struct ibv_sge sge[4];
	struct wr_test t;
	uint32_t sum = 0;
	int i;

	wr_open(&t);
	for (i = 0; i < 4; i++) {
		sge[i] = buf_sge(t.local, 2500 * i + 7, 501 + 202 * (i ^ 1));
		sum += sge[i].length;
	}
	wr_transfer(&t, arg, sge, 4, sum);
	wr_close(&t);
}

TEST(wr_atomics)
{
	struct ibv_send_wr wr[2];
	struct ibv_sge sge[2], cell;
	struct wr_test t;

	wr_open(&t);
	cell = buf_sge(t.remote, 800, 8);
	sge[0] = buf_sge(t.local, 9, 8);
	sge[1] = buf_sge(t.local, 99, 8);
	wr[0] = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge[0], 1,
			IBV_SEND_SIGNALED);
	wr_atomic(&wr[0], cell.addr, t.remote->mr->rkey, 100, 0);
	wr[1] = send_wr(IBV_WR_ATOMIC_CMP_AND_SWP, 2, &sge[1], 1,
			IBV_SEND_SIGNALED);
	wr_atomic(&wr[1], cell.addr, t.remote->mr->rkey,
		  buf_get64(t.remote, 800) + 100, 0xabcdef);
	wr[0].next = &wr[1];
	end_send(&t.pair->a, wr);
	wc_expect(t.pair->a.scq, 1, IBV_WC_SUCCESS);
	wc_expect(t.pair->a.scq, 2, IBV_WC_SUCCESS);
	buf_move(t.local, &sge[0], t.remote, &cell, 8);
	buf_put64(t.remote, 800, buf_get64(t.remote, 800) + 100);
	buf_move(t.local, &sge[1], t.remote, &cell, 8);
	buf_put64(t.remote, 800, 0xabcdef);
	buf_check(t.local);
	buf_check(t.remote);
	wr_close(&t);
}

/* Requests between start and abort were never posted. */
TEST(wr_abort)
{
	struct wr_test t;
	struct ibv_qp_ex *qpx;

	wr_open(&t);
	qpx = t.pair->a.qpx;
	ibv_wr_start(qpx);
	qpx->wr_id = 5;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qpx, t.remote->mr->rkey, buf_addr(t.remote, 0));
	ibv_wr_set_sge(qpx, t.local->mr->lkey, buf_addr(t.local, 0), 100);
	ibv_wr_abort(qpx);
	end_ping(&t.pair->a, &t.pair->b);
	wc_none(t.pair->a.scq);
	buf_check(t.remote);
	wr_close(&t);
}

/* ---- extended completion queues ---------------------------------------- */

struct ex {
	struct host *host;
	struct ibv_cq_ex *cqx;
	struct end a, b;
	struct param param;
};

/* Both ends' completions go to one extended queue. */
static void ex_open(struct ex *x)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 100,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
			    IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
			    IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
			    IBV_WC_EX_WITH_DLID_PATH_BITS,
	};
	struct ibv_qp_init_attr init = {
		.cap = { 64, 64, 4, 4, 0 }, .qp_type = IBV_QPT_RC,
	};

	memset(x, 0, sizeof(*x));
	x->param = param_default();
	x->host = host_open(0);
	x->cqx = ibv_create_cq_ex(x->host->ctx, &attr);
	CHECK_ERRNO(x->cqx);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(x->cqx);
	x->a.host = x->b.host = x->host;
	x->a.param = x->b.param = &x->param;
	x->a.qp = ibv_create_qp(x->host->pd, &init);
	CHECK_ERRNO(x->a.qp);
	x->b.qp = ibv_create_qp(x->host->pd, &init);
	CHECK_ERRNO(x->b.qp);
	end_connect(&x->b, &x->a);
	end_connect(&x->a, &x->b);
}

static void ex_close(struct ex *x)
{
	CHECK_RC(ibv_destroy_qp(x->a.qp));
	CHECK_RC(ibv_destroy_qp(x->b.qp));
	CHECK_RC(ibv_destroy_cq(ibv_cq_ex_to_cq(x->cqx)));
	host_close(x->host);
}

static void ex_start(struct ex *x)
{
	struct ibv_poll_cq_attr attr = {};
	uint64_t until = deadline();
	int rc;

	while ((rc = ibv_start_poll(x->cqx, &attr)) == ENOENT) {
		if (deadline_over(until))
			FAIL("no completion");
		sched_yield();
	}
	CHECK_RC(rc);
}

static void ex_post(struct ex *x, uint64_t id)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND_WITH_IMM, id, NULL, 0,
					IBV_SEND_SIGNALED);

	wr.imm_data = htonl(~id);
	end_recv(&x->b, id, NULL, 0);
	end_send(&x->a, &wr);
}

static void ex_check_fields(struct ex *x, uint64_t id)
{
	CHECK_EQ(x->cqx->status, IBV_WC_SUCCESS);
	CHECK_EQ(x->cqx->wr_id, id);
	if (ibv_wc_read_opcode(x->cqx) == IBV_WC_SEND) {
		CHECK_EQ(ibv_wc_read_qp_num(x->cqx), x->a.qp->qp_num);
		return;
	}
	CHECK_EQ(ibv_wc_read_opcode(x->cqx), IBV_WC_RECV);
	CHECK_EQ(ibv_wc_read_qp_num(x->cqx), x->b.qp->qp_num);
	CHECK_EQ(ibv_wc_read_byte_len(x->cqx), 0);
	CHECK_EQ(ibv_wc_read_wc_flags(x->cqx) & ~IBV_WC_GRH, IBV_WC_WITH_IMM);
	CHECK_EQ(ntohl(ibv_wc_read_imm_data(x->cqx)), (uint32_t)~id);
}

/* One completion between start and end. */
TEST(cq_ex_single)
{
	unsigned int i, rounds = tap_rounds(2000), k;
	struct ex x;

	ex_open(&x);
	for (i = 0; i < rounds; i++) {
		ex_post(&x, i);
		for (k = 0; k < 2; k++) {
			ex_start(&x);
			ex_check_fields(&x, i);
			ibv_end_poll(x.cqx);
		}
	}
	ex_close(&x);
}

/*
 * All that are there between start and end. In rdma-core before 55 next_poll
 * followed by end_poll consumes one more than there are; the first round,
 * with nothing in flight, tells.
 */
TEST(cq_ex_batch)
{
	unsigned int i, n, rounds = tap_rounds(500);
	struct ibv_poll_cq_attr attr = {};
	struct ex x;

	ex_open(&x);
	for (i = 0; i < rounds; i++) {
		/* A lone message is through when its post returns. */
		unsigned int posts = i ? 40 : 1;

		for (n = 0; n < posts; n++)
			ex_post(&x, i);
		for (n = 0; n < 2 * posts;) {
			ex_start(&x);
			do {
				ex_check_fields(&x, i);
				n++;
			} while (!ibv_next_poll(x.cqx));
			ibv_end_poll(x.cqx);
		}
		CHECK_EQ(n, 2 * posts);
		if (!ibv_start_poll(x.cqx, &attr)) {
			if (i)
				FAIL("a completion that nobody posted");
			SKIP("rdma-core's ibv_next_poll() consumes too much");
		}
	}
	ex_close(&x);
}
