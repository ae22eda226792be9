// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Posting and completing. */
#include <sched.h>

#include "verbs.h"

#define PING_ID 0x70696e67

struct ibv_send_wr send_wr(enum ibv_wr_opcode opcode, uint64_t id,
			   struct ibv_sge *sge, int num_sge,
			   unsigned int flags)
{
	return (struct ibv_send_wr) {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = num_sge,
		.opcode = opcode,
		.send_flags = flags,
	};
}

void wr_remote(struct ibv_send_wr *wr, uint64_t addr, uint32_t rkey)
{
	wr->wr.rdma.remote_addr = addr;
	wr->wr.rdma.rkey = rkey;
}

void wr_atomic(struct ibv_send_wr *wr, uint64_t addr, uint32_t rkey,
	       uint64_t compare_add, uint64_t swap)
{
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void wr_build_op(struct ibv_qp_ex *qpx, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(qpx);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qpx, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(qpx, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qpx, wr->wr.rdma.rkey,
				  wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qpx, wr->wr.rdma.rkey,
				      wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qpx, wr->wr.rdma.rkey,
				 wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qpx, wr->wr.atomic.rkey,
				      wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qpx, wr->wr.atomic.rkey,
					wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	default:
		FAIL("no ibv_wr function for opcode %d", wr->opcode);
	}
}

static void wr_build_data(struct ibv_qp_ex *qpx, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;

	if (wr->num_sge > 1 && wr->send_flags & IBV_SEND_INLINE)
		FAIL("inline lists are broken in rdma-core before 64");
	if (wr->num_sge > 1)
		ibv_wr_set_sge_list(qpx, wr->num_sge, sge);
	else if (wr->num_sge && wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qpx, (void *)(uintptr_t)sge->addr,
				       sge->length);
	else if (wr->num_sge)
		ibv_wr_set_sge(qpx, sge->lkey, sge->addr, sge->length);
}

static int wr_post(struct ibv_qp_ex *qpx, struct ibv_send_wr *wr)
{
	ibv_wr_start(qpx);
	for (; wr; wr = wr->next) {
		qpx->wr_id = wr->wr_id;
		qpx->wr_flags = wr->send_flags & ~IBV_SEND_INLINE;
		wr_build_op(qpx, wr);
		wr_build_data(qpx, wr);
	}
	return ibv_wr_complete(qpx);
}

int end_try_send(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (end->qpx)
		return wr_post(end->qpx, wr);
	return ibv_post_send(end->qp, wr, &bad);
}

int end_try_recv(struct end *end, uint64_t id, struct ibv_sge *sge,
		 int num_sge)
{
	struct ibv_recv_wr *bad, wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = num_sge,
	};

	return ibv_post_recv(end->qp, &wr, &bad);
}

void end_send_(struct end *end, struct ibv_send_wr *wr)
{
	CHECK_RC(end_try_send(end, wr));
}

void end_recv_(struct end *end, uint64_t id, struct ibv_sge *sge, int num_sge)
{
	CHECK_RC(end_try_recv(end, id, sge, num_sge));
}

struct ibv_wc wc_wait_(struct ibv_cq *cq)
{
	uint64_t until = deadline();
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc))) {
		if (deadline_over(until))
			FAIL("no completion");
		sched_yield();
	}
	CHECK_EQ(n, 1);
	return wc;
}

static void check_wc(const struct ibv_wc *wc, uint64_t id,
		     enum ibv_wc_status status)
{
	if (wc->wr_id != id)
		FAIL("completion of request 0x%llx (%s), not of 0x%llx",
		     (unsigned long long)wc->wr_id,
		     ibv_wc_status_str(wc->status), (unsigned long long)id);
	if (wc->status != status)
		FAIL("request 0x%llx: status \"%s\", not \"%s\"",
		     (unsigned long long)id, ibv_wc_status_str(wc->status),
		     ibv_wc_status_str(status));
}

struct ibv_wc wc_expect_(struct ibv_cq *cq, uint64_t id,
			 enum ibv_wc_status status)
{
	struct ibv_wc wc = wc_wait_(cq);

	check_wc(&wc, id, status);
	return wc;
}

void wc_expect_long_(struct ibv_cq *cq, uint64_t id)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		sched_yield();
	CHECK_EQ(n, 1);
	check_wc(&wc, id, IBV_WC_SUCCESS);
}

void wc_none_(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc))
		FAIL("unexpected completion of request 0x%llx (%s)",
		     (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status));
}

enum ibv_wc_status pair_ask_(struct pair *pair, enum ibv_wr_opcode opcode,
			     struct ibv_sge *sge, uint64_t addr, uint32_t rkey)
{
	struct ibv_send_wr wr = send_wr(opcode, 1, sge, 1, IBV_SEND_SIGNALED);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr_atomic(&wr, addr, rkey, 5, 0);
	else if (opcode != IBV_WR_SEND)
		wr_remote(&wr, addr, rkey);
	end_send_(&pair->a, &wr);
	return wc_wait_(pair->a.scq).status;
}

void end_ping_(struct end *from, struct end *to)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, PING_ID, NULL, 0,
					IBV_SEND_SIGNALED);

	end_recv_(to, PING_ID, NULL, 0);
	end_send_(from, &wr);
	wc_expect_(to->rcq, PING_ID, IBV_WC_SUCCESS);
	wc_expect_(from->scq, PING_ID, IBV_WC_SUCCESS);
}

void end_expect_held_(struct end *from, struct end *to)
{
	wc_none(from->scq);
	wc_none(to->rcq);
	CHECK_RC(end_modify_state(from, IBV_QPS_RTS));
	wc_expect(from->scq, 1, IBV_WC_SUCCESS);
	wc_expect(to->rcq, 2, IBV_WC_SUCCESS);
	CHECK_RC(end_drain(from, false));
	host_expect_quiet(from->host);
}
