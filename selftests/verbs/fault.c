// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A stream of requests with one bad among them. */
#include "fault.h"

#define ALL_OPS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND |	\
		 IBV_QP_EX_WITH_RDMA_READ |				\
		 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |			\
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_send(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV;
}

static void fault_request(struct fault *f, enum ibv_wr_opcode opcode)
{
	f->sge[0] = buf_sge(f->local, 100, is_atomic(opcode) ? 8 : 64);
	f->wr = send_wr(opcode, 2, f->sge, 1, 0);
	if (is_atomic(opcode))
		wr_atomic(&f->wr, buf_addr(f->remote, 2048),
			  f->remote->mr->rkey, 1, 2);
	else if (!is_send(opcode))
		wr_remote(&f->wr, buf_addr(f->remote, 2048),
			  f->remote->mr->rkey);
}

void fault_open(struct fault *f, const struct fault_case *kind)
{
	struct param param = param_default();

	memset(f, 0, sizeof(*f));
	param.min_rnr_timer = 1;
	param.rnr_retry = 0;
	if (kind->wr_api)
		param.ops = ALL_OPS;
	f->pair = pair_new(&param);
	f->local = buf_new(f->pair->a.host->pd, FAULT_BYTES, ALL_ACCESS);
	f->remote = buf_new(f->pair->b.host->pd, FAULT_BYTES, ALL_ACCESS);
	f->local_mid = ibv_reg_mr(f->pair->a.host->pd, f->local->mem + MID_AT,
				  MID_BYTES, ALL_ACCESS);
	CHECK_ERRNO(f->local_mid);
	f->remote_mid = ibv_reg_mr(f->pair->b.host->pd, f->remote->mem + MID_AT,
				   MID_BYTES, ALL_ACCESS);
	CHECK_ERRNO(f->remote_mid);
	fault_request(f, kind->opcode);
	if (kind->spoil)
		kind->spoil(f);
}

void fault_close(struct fault *f)
{
	if (f->extra)
		CHECK_RC(ibv_dereg_mr(f->extra));
	if (f->other_pd)
		CHECK_RC(ibv_dealloc_pd(f->other_pd));
	CHECK_RC(ibv_dereg_mr(f->local_mid));
	CHECK_RC(ibv_dereg_mr(f->remote_mid));
	buf_free(f->local);
	buf_free(f->remote);
	pair_teardown(f->pair);
}

static void post_good(struct fault *f, uint64_t id, unsigned int flags)
{
	struct ibv_sge from = buf_sge(f->local, 3, 50);
	struct ibv_sge to = buf_sge(f->remote, 7, 50);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, id, &from, 1, flags);

	wr_remote(&wr, to.addr, f->remote->mr->rkey);
	end_send(&f->pair->a, &wr);
	if (id == 1)
		buf_move(f->remote, &to, f->local, &from, 50);
}

void fault_run(struct fault *f, const struct fault_case *kind, bool signalled)
{
	struct ibv_cq *cq = f->pair->a.scq;

	post_good(f, 0, 0);
	post_good(f, 1, IBV_SEND_SIGNALED);
	f->wr.send_flags |= signalled ? IBV_SEND_SIGNALED : 0;
	end_send(&f->pair->a, &f->wr);
	post_good(f, 3, IBV_SEND_SIGNALED);
	post_good(f, 4, 0);
	wc_expect(cq, 1, IBV_WC_SUCCESS);
	wc_expect(cq, 2, kind->status);
	wc_expect(cq, 3, IBV_WC_WR_FLUSH_ERR);
	wc_expect(cq, 4, IBV_WC_WR_FLUSH_ERR);
	wc_none(cq);
	CHECK_EQ(end_state(&f->pair->a), IBV_QPS_ERR);
	/* The completions told it: no event in addition. */
	if (f->pair->a.host != f->pair->b.host)
		host_expect_quiet(f->pair->a.host);
	buf_check(f->local);
	buf_check(f->remote);
}
