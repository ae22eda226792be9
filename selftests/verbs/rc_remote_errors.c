// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the responder finds wrong, as both ends see it. */
#include <arpa/inet.h>

#include "fault.h"

static uint64_t *remote_addr(struct fault *f)
{
	if (f->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    f->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return &f->wr.wr.atomic.remote_addr;
	return &f->wr.wr.rdma.remote_addr;
}

static uint32_t *remote_key(struct fault *f)
{
	if (f->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    f->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return &f->wr.wr.atomic.rkey;
	return &f->wr.wr.rdma.rkey;
}

static void bad_rkey(struct fault *f)
{
	*remote_key(f) ^= 0x5a5a5a00;
}

static void bad_rkey_low(struct fault *f)
{
	*remote_key(f) ^= 0x01;
}

static void zero_rkey(struct fault *f)
{
	*remote_key(f) = 0;
}

/* One byte (8 for an atomic) over the end. */
static void past_end(struct fault *f)
{
	uint64_t end = buf_addr(f->remote, MID_AT + MID_BYTES);
	uint32_t length = f->sge[0].length;

	*remote_key(f) = f->remote_mid->rkey;
	*remote_addr(f) = length == 8 ? end : end - length + 1;
}

/* The same with more than a packet's bytes: the first packet is refused. */
static void long_past_end(struct fault *f)
{
	f->sge[0].length = MID_BYTES;
	*remote_key(f) = f->remote_mid->rkey;
	*remote_addr(f) = buf_addr(f->remote, MID_AT + 1);
}

static void before_start(struct fault *f)
{
	*remote_key(f) = f->remote_mid->rkey;
	*remote_addr(f) = buf_addr(f->remote, MID_AT) -
			  (f->sge[0].length == 8 ? 8 : 1);
}

static void wraps_to_zero(struct fault *f)
{
	f->sge[0].length = 8;
	*remote_addr(f) = UINT64_MAX - 7;
}

static void wraps(struct fault *f)
{
	f->sge[0].length = 64;
	*remote_addr(f) = UINT64_MAX - 7;
}

static void address_zero(struct fault *f)
{
	*remote_addr(f) = 0;
}

static void other_pd(struct fault *f)
{
	f->other_pd = ibv_alloc_pd(f->pair->b.host->ctx);
	CHECK_ERRNO(f->other_pd);
	f->extra = ibv_reg_mr(f->other_pd, f->remote->mem, FAULT_BYTES,
			      ALL_ACCESS);
	CHECK_ERRNO(f->extra);
	*remote_key(f) = f->extra->rkey;
}

static void deregistered(struct fault *f)
{
	struct ibv_mr *mr = ibv_reg_mr(f->pair->b.host->pd, f->remote->mem,
				       FAULT_BYTES, ALL_ACCESS);

	CHECK_ERRNO(mr);
	*remote_key(f) = mr->rkey;
	CHECK_RC(ibv_dereg_mr(mr));
}

/* Every right but the one that the operation needs. */
static void right_missing(struct fault *f)
{
	int right = f->wr.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ :
		    f->wr.opcode == IBV_WR_RDMA_WRITE ||
		    f->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ?
		    IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_ATOMIC;

	f->extra = ibv_reg_mr(f->pair->b.host->pd, f->remote->mem, FAULT_BYTES,
			      ALL_ACCESS & ~right);
	CHECK_ERRNO(f->extra);
	*remote_key(f) = f->extra->rkey;
}

#define EACH_OP(text, spoil)						\
	{ "write_" text, IBV_WR_RDMA_WRITE, spoil,			\
	  IBV_WC_REM_ACCESS_ERR, false },				\
	{ "read_" text, IBV_WR_RDMA_READ, spoil,			\
	  IBV_WC_REM_ACCESS_ERR, false },				\
	{ "swap_" text, IBV_WR_ATOMIC_CMP_AND_SWP, spoil,		\
	  IBV_WC_REM_ACCESS_ERR, false },				\
	{ "add_" text, IBV_WR_ATOMIC_FETCH_AND_ADD, spoil,		\
	  IBV_WC_REM_ACCESS_ERR, false }

static const struct fault_case remote_accesses[] = {
	EACH_OP("bad_rkey", bad_rkey),
	EACH_OP("bad_rkey_low", bad_rkey_low),
	EACH_OP("zero_rkey", zero_rkey),
	EACH_OP("past_end", past_end),
	EACH_OP("before_start", before_start),
	EACH_OP("wraps_to_zero", wraps_to_zero),
	EACH_OP("address_zero", address_zero),
	EACH_OP("other_pd", other_pd),
	EACH_OP("deregistered", deregistered),
	EACH_OP("right_missing", right_missing),
	{ "write_wraps", IBV_WR_RDMA_WRITE, wraps,
	  IBV_WC_REM_ACCESS_ERR, false },
	{ "read_wraps", IBV_WR_RDMA_READ, wraps,
	  IBV_WC_REM_ACCESS_ERR, false },
	{ "write_long_past_end", IBV_WR_RDMA_WRITE, long_past_end,
	  IBV_WC_REM_ACCESS_ERR, false },
	{ "read_long_past_end", IBV_WR_RDMA_READ, long_past_end,
	  IBV_WC_REM_ACCESS_ERR, false },
};

/* The responder stops too: its receives are flushed, one event tells why. */
static void check_responder(struct fault *f, enum ibv_event_type type)
{
	end_wait_state(&f->pair->b, IBV_QPS_ERR);
	wc_expect(f->pair->b.rcq, 21, IBV_WC_WR_FLUSH_ERR);
	wc_expect(f->pair->b.rcq, 22, IBV_WC_WR_FLUSH_ERR);
	wc_none(f->pair->b.rcq);
	host_expect_event(f->pair->b.host, type, f->pair->b.qp);
	host_expect_quiet(f->pair->b.host);
}

static void refused(const struct fault_case *kind, enum ibv_event_type type)
{
	int signalled;

	for (signalled = 1; signalled >= 0; signalled--) {
		struct fault f;

		fault_open(&f, kind);
		end_recv(&f.pair->b, 21, NULL, 0);
		end_recv(&f.pair->b, 22, NULL, 0);
		fault_run(&f, kind, signalled);
		check_responder(&f, type);
		pair_reconnect(f.pair);
		end_ping(&f.pair->a, &f.pair->b);
		fault_close(&f);
	}
}

TEST_EACH(rem_access, remote_accesses)
{
	refused(arg, IBV_EVENT_QP_ACCESS_ERR);
}

static void misaligned(struct fault *f)
{
	*remote_addr(f) += 4;
}

static void misaligned_by_one(struct fault *f)
{
	*remote_addr(f) += 1;
}

/* The right is missing at the queue pair: it is not set up for the operation. */
static void not_enabled(struct fault *f)
{
	struct ibv_qp_attr attr = {};

	CHECK_RC(ibv_modify_qp(f->pair->b.qp, &attr, IBV_QP_ACCESS_FLAGS));
}

static const struct fault_case invalid_requests[] = {
	{ "swap_misaligned", IBV_WR_ATOMIC_CMP_AND_SWP, misaligned,
	  IBV_WC_REM_INV_REQ_ERR, true },
	{ "add_misaligned", IBV_WR_ATOMIC_FETCH_AND_ADD, misaligned,
	  IBV_WC_REM_INV_REQ_ERR, true },
	{ "add_misaligned_by_one", IBV_WR_ATOMIC_FETCH_AND_ADD,
	  misaligned_by_one, IBV_WC_REM_INV_REQ_ERR, true },
};

TEST_EACH(rem_inv_req, invalid_requests)
{
	refused(arg, IBV_EVENT_QP_REQ_ERR);
}

static const struct fault_case not_enabled_ops[] = {
	{ "write", IBV_WR_RDMA_WRITE, not_enabled, IBV_WC_REM_INV_REQ_ERR,
	  false },
	{ "read", IBV_WR_RDMA_READ, not_enabled, IBV_WC_REM_INV_REQ_ERR,
	  false },
	{ "swap", IBV_WR_ATOMIC_CMP_AND_SWP, not_enabled,
	  IBV_WC_REM_INV_REQ_ERR, false },
	{ "add", IBV_WR_ATOMIC_FETCH_AND_ADD, not_enabled,
	  IBV_WC_REM_INV_REQ_ERR, false },
};

/* No good WRITE goes before it: that would be refused as well. */
TEST_EACH(rem_inv_req_not_enabled, not_enabled_ops)
{
	struct ibv_send_wr next = send_wr(IBV_WR_SEND, 3, NULL, 0, 0);
	struct fault f;

	fault_open(&f, arg);
	end_recv(&f.pair->b, 21, NULL, 0);
	end_recv(&f.pair->b, 22, NULL, 0);
	end_send(&f.pair->a, &f.wr);
	end_send(&f.pair->a, &next);
	wc_expect(f.pair->a.scq, 2, arg->status);
	wc_expect(f.pair->a.scq, 3, IBV_WC_WR_FLUSH_ERR);
	check_responder(&f, IBV_EVENT_QP_REQ_ERR);
	buf_check(f.local);
	buf_check(f.remote);
	pair_reconnect(f.pair);
	end_ping(&f.pair->a, &f.pair->b);
	fault_close(&f);
}

/* A responder with no resources for reads or atomics at all. */
static const struct fault_case no_depth_ops[] = {
	{ "read", IBV_WR_RDMA_READ, NULL, IBV_WC_REM_INV_REQ_ERR, false },
	{ "swap", IBV_WR_ATOMIC_CMP_AND_SWP, NULL, IBV_WC_REM_INV_REQ_ERR,
	  false },
};

TEST_EACH(rem_inv_req_no_depth, no_depth_ops)
{
	struct fault f;
	struct param param;

	fault_open(&f, arg);
	param = f.pair->param;
	param.rd_atomic = 0;
	CHECK_RC(end_modify_state(&f.pair->b, IBV_QPS_RESET));
	f.pair->b.param = &param;
	end_connect(&f.pair->b, &f.pair->a);
	end_send(&f.pair->a, &f.wr);
	wc_expect(f.pair->a.scq, 2, arg->status);
	buf_check(f.local);
	buf_check(f.remote);
	fault_close(&f);
}

/* A message that the receive cannot hold. */
struct long_send {
	const char *name;
	uint32_t bytes, room;
};

static const struct long_send long_sends[] = {
	{ "by_one_byte", 65, 64 },
	{ "no_room", 1, 0 },
	{ "second_packet", 1025, 1024 },
	{ "many_packets", 8000, 4999 },
};

TEST_EACH(send_too_long, long_sends)
{
	static const struct fault_case kind = {
		"", IBV_WR_SEND, NULL, IBV_WC_REM_INV_REQ_ERR, false,
	};
	struct ibv_sge from, to;
	struct fault f;

	fault_open(&f, &kind);
	from = buf_sge(f.local, 0, arg->bytes);
	to = buf_sge(f.remote, 1000, arg->room);
	f.wr.sg_list = &from;
	end_recv(&f.pair->b, 21, &to, arg->room ? 1 : 0);
	end_recv(&f.pair->b, 22, NULL, 0);
	end_send(&f.pair->a, &f.wr);
	wc_expect(f.pair->a.scq, 2, IBV_WC_REM_INV_REQ_ERR);
	wc_expect(f.pair->b.rcq, 21, IBV_WC_LOC_LEN_ERR);
	wc_expect(f.pair->b.rcq, 22, IBV_WC_WR_FLUSH_ERR);
	end_wait_state(&f.pair->b, IBV_QPS_ERR);
	CHECK_EQ(end_state(&f.pair->a), IBV_QPS_ERR);
	/* Whole packets before the fault may have arrived, nothing else. */
	memcpy(f.remote->shadow + 1000, f.remote->mem + 1000, arg->room);
	buf_check(f.remote);
	pair_reconnect(f.pair);
	end_ping(&f.pair->a, &f.pair->b);
	fault_close(&f);
}

/* A receive whose memory is not the consumer's to give. */
struct bad_receive {
	const char *name;
	void (*spoil)(struct fault *f, struct ibv_sge *sge);
};

static void recv_bad_lkey(struct fault *f, struct ibv_sge *sge)
{
	(void)f;
	sge->lkey ^= 0x5a5a5a00;
}

static void recv_past_end(struct fault *f, struct ibv_sge *sge)
{
	sge->lkey = f->remote_mid->lkey;
	sge->addr = buf_addr(f->remote, MID_AT + MID_BYTES) - sge->length + 1;
}

static void recv_other_pd(struct fault *f, struct ibv_sge *sge)
{
	f->other_pd = ibv_alloc_pd(f->pair->b.host->ctx);
	CHECK_ERRNO(f->other_pd);
	f->extra = ibv_reg_mr(f->other_pd, f->remote->mem, FAULT_BYTES,
			      ALL_ACCESS);
	CHECK_ERRNO(f->extra);
	sge->lkey = f->extra->lkey;
}

static void recv_read_only(struct fault *f, struct ibv_sge *sge)
{
	f->extra = ibv_reg_mr(f->pair->b.host->pd, f->remote->mem, FAULT_BYTES,
			      IBV_ACCESS_REMOTE_READ);
	CHECK_ERRNO(f->extra);
	sge->lkey = f->extra->lkey;
}

static void recv_wraps(struct fault *f, struct ibv_sge *sge)
{
	(void)f;
	sge->addr = UINT64_MAX - 3;
}

static const struct bad_receive bad_receives[] = {
	{ "bad_lkey", recv_bad_lkey },
	{ "past_end", recv_past_end },
	{ "other_pd", recv_other_pd },
	{ "read_only", recv_read_only },
	{ "wraps", recv_wraps },
};

TEST_EACH(receive_loc_prot, bad_receives)
{
	static const struct fault_case kind = {
		"", IBV_WR_SEND, NULL, IBV_WC_REM_OP_ERR, false,
	};
	struct ibv_sge to;
	struct fault f;

	fault_open(&f, &kind);
	to = buf_sge(f.remote, 1024, 64);
	arg->spoil(&f, &to);
	end_recv(&f.pair->b, 21, &to, 1);
	end_recv(&f.pair->b, 22, NULL, 0);
	fault_run(&f, &kind, true);
	wc_expect(f.pair->b.rcq, 21, IBV_WC_LOC_PROT_ERR);
	wc_expect(f.pair->b.rcq, 22, IBV_WC_WR_FLUSH_ERR);
	end_wait_state(&f.pair->b, IBV_QPS_ERR);
	buf_check(f.remote);
	pair_reconnect(f.pair);
	end_ping(&f.pair->a, &f.pair->b);
	fault_close(&f);
}

/*
 * WRITE with immediate whose remote key is bad. In a single packet the receive
 * is taken with it, and reports the access error; of a longer message the
 * first packet is refused before any receive is taken.
 */
TEST(write_imm_bad_rkey)
{
	static const struct fault_case kind = {
		"", IBV_WR_RDMA_WRITE_WITH_IMM, bad_rkey,
		IBV_WC_REM_ACCESS_ERR, false,
	};
	struct fault f;

	fault_open(&f, &kind);
	end_recv(&f.pair->b, 21, NULL, 0);
	end_recv(&f.pair->b, 22, NULL, 0);
	fault_run(&f, &kind, true);
	wc_expect(f.pair->b.rcq, 21, IBV_WC_LOC_ACCESS_ERR);
	wc_expect(f.pair->b.rcq, 22, IBV_WC_WR_FLUSH_ERR);
	wc_none(f.pair->b.rcq);
	end_wait_state(&f.pair->b, IBV_QPS_ERR);
	fault_close(&f);
}

TEST(write_imm_bad_rkey_long)
{
	static const struct fault_case kind = {
		"", IBV_WR_RDMA_WRITE_WITH_IMM, long_past_end,
		IBV_WC_REM_ACCESS_ERR, false,
	};
	struct fault f;

	fault_open(&f, &kind);
	end_recv(&f.pair->b, 21, NULL, 0);
	end_recv(&f.pair->b, 22, NULL, 0);
	fault_run(&f, &kind, true);
	check_responder(&f, IBV_EVENT_QP_ACCESS_ERR);
	fault_close(&f);
}

/* Nothing is read or written, so no key is looked at. */
static const struct fault_case empty_ops[] = {
	{ "write", IBV_WR_RDMA_WRITE, NULL, IBV_WC_SUCCESS, false },
	{ "write_imm", IBV_WR_RDMA_WRITE_WITH_IMM, NULL, IBV_WC_SUCCESS,
	  false },
	{ "read", IBV_WR_RDMA_READ, NULL, IBV_WC_SUCCESS, false },
};

TEST_EACH(empty_with_any_rkey, empty_ops)
{
	struct fault f;

	fault_open(&f, arg);
	f.wr.num_sge = 0;
	f.wr.send_flags = IBV_SEND_SIGNALED;
	wr_remote(&f.wr, 0x1234567, 0xdeadbeef);
	if (arg->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		end_recv(&f.pair->b, 21, NULL, 0);
	end_send(&f.pair->a, &f.wr);
	wc_expect(f.pair->a.scq, 2, IBV_WC_SUCCESS);
	if (arg->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wc_expect(f.pair->b.rcq, 21, IBV_WC_SUCCESS);
	fault_close(&f);
}

/*
 * A key that cannot be invalidated by the peer (nothing, or an ordinary
 * region): the sender hears of it, and the region stays.
 */
static void invalidate_nothing(struct fault *f)
{
	f->wr.invalidate_rkey = 0xdeadbe00;
}

static void invalidate_region(struct fault *f)
{
	f->wr.invalidate_rkey = f->remote->mr->rkey;
}

static const struct fault_case bad_invalidates[] = {
	{ "unknown_key", IBV_WR_SEND_WITH_INV, invalidate_nothing,
	  IBV_WC_REM_OP_ERR, false },
	{ "plain_region", IBV_WR_SEND_WITH_INV, invalidate_region,
	  IBV_WC_REM_OP_ERR, false },
};

TEST_EACH(send_inv_refused, bad_invalidates)
{
	struct ibv_sge to, probe;
	struct ibv_wc wc;
	struct fault f;

	fault_open(&f, arg);
	to = buf_sge(f.remote, 512, 64);
	end_recv(&f.pair->b, 21, &to, 1);
	end_send(&f.pair->a, &f.wr);
	wc = wc_wait(f.pair->a.scq);
	CHECK_EQ(wc.wr_id, 2);
	if (wc.status != IBV_WC_REM_OP_ERR &&
	    wc.status != IBV_WC_REM_INV_REQ_ERR &&
	    wc.status != IBV_WC_REM_ACCESS_ERR)
		FAIL("status \"%s\", not a NAK", ibv_wc_status_str(wc.status));
	wc = wc_wait(f.pair->b.rcq);
	CHECK_EQ(wc.wr_id, 21);
	CHECK(wc.status != IBV_WC_SUCCESS);
	end_wait_state(&f.pair->b, IBV_QPS_ERR);

	pair_reconnect(f.pair);
	probe = buf_sge(f.local, 0, 8);
	f.wr = send_wr(IBV_WR_RDMA_WRITE, 3, &probe, 1, IBV_SEND_SIGNALED);
	wr_remote(&f.wr, buf_addr(f.remote, 0), f.remote->mr->rkey);
	end_send(&f.pair->a, &f.wr);
	wc_expect(f.pair->a.scq, 3, IBV_WC_SUCCESS);
	fault_close(&f);
}
