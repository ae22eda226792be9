// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the requester itself finds wrong. */
#include <stdlib.h>
#include <sys/mman.h>

#include "fault.h"

static void bad_lkey(struct fault *f)
{
	f->sge[0].lkey ^= 0x5a5a5a00;
}

/* Only the 8 bits that change with each use of the same index. */
static void bad_lkey_low(struct fault *f)
{
	f->sge[0].lkey ^= 0x01;
}

static void zero_lkey(struct fault *f)
{
	f->sge[0].lkey = 0;
}

static void past_end(struct fault *f)
{
	f->sge[0].lkey = f->local_mid->lkey;
	f->sge[0].addr = buf_addr(f->local, MID_AT + MID_BYTES) -
			 f->sge[0].length + 1;
}

static void before_start(struct fault *f)
{
	f->sge[0].lkey = f->local_mid->lkey;
	f->sge[0].addr = buf_addr(f->local, MID_AT) - 1;
}

static void wraps(struct fault *f)
{
	f->sge[0].addr = UINT64_MAX - f->sge[0].length + 1;
}

static void wraps_beyond(struct fault *f)
{
	f->sge[0].addr = UINT64_MAX - 3;
}

static void other_pd(struct fault *f)
{
	f->other_pd = ibv_alloc_pd(f->pair->a.host->ctx);
	CHECK_ERRNO(f->other_pd);
	f->extra = ibv_reg_mr(f->other_pd, f->local->mem, FAULT_BYTES,
			      ALL_ACCESS);
	CHECK_ERRNO(f->extra);
	f->sge[0].lkey = f->extra->lkey;
}

static void read_only(struct fault *f)
{
	f->extra = ibv_reg_mr(f->pair->a.host->pd, f->local->mem, FAULT_BYTES,
			      IBV_ACCESS_REMOTE_READ);
	CHECK_ERRNO(f->extra);
	f->sge[0].lkey = f->extra->lkey;
}

static void deregistered(struct fault *f)
{
	struct ibv_mr *mr = ibv_reg_mr(f->pair->a.host->pd, f->local->mem,
				       FAULT_BYTES, ALL_ACCESS);

	CHECK_ERRNO(mr);
	f->sge[0].lkey = mr->lkey;
	CHECK_RC(ibv_dereg_mr(mr));
}

static void bad_second_piece(struct fault *f)
{
	f->sge[0].length = 3000;	/* some packets before the bad place */
	f->sge[1] = buf_sge(f->local, 4000, 64);
	f->sge[1].lkey ^= 0x5a5a5a00;
	f->wr.num_sge = 2;
}

#define EACH_OP(text, spoil)						\
	{ "send_" text, IBV_WR_SEND, spoil, IBV_WC_LOC_PROT_ERR, false }, \
	{ "write_" text, IBV_WR_RDMA_WRITE, spoil, IBV_WC_LOC_PROT_ERR, false }, \
	{ "read_" text, IBV_WR_RDMA_READ, spoil, IBV_WC_LOC_PROT_ERR, false }, \
	{ "swap_" text, IBV_WR_ATOMIC_CMP_AND_SWP, spoil,		\
	  IBV_WC_LOC_PROT_ERR, false },					\
	{ "add_" text, IBV_WR_ATOMIC_FETCH_AND_ADD, spoil,		\
	  IBV_WC_LOC_PROT_ERR, false }

static const struct fault_case local_protections[] = {
	EACH_OP("bad_lkey", bad_lkey),
	EACH_OP("bad_lkey_low", bad_lkey_low),
	EACH_OP("zero_lkey", zero_lkey),
	EACH_OP("past_end", past_end),
	EACH_OP("before_start", before_start),
	EACH_OP("wraps", wraps),
	EACH_OP("wraps_beyond", wraps_beyond),
	EACH_OP("other_pd", other_pd),
	EACH_OP("deregistered", deregistered),
	{ "read_read_only", IBV_WR_RDMA_READ, read_only,
	  IBV_WC_LOC_PROT_ERR, false },
	{ "swap_read_only", IBV_WR_ATOMIC_CMP_AND_SWP, read_only,
	  IBV_WC_LOC_PROT_ERR, false },
	{ "add_read_only", IBV_WR_ATOMIC_FETCH_AND_ADD, read_only,
	  IBV_WC_LOC_PROT_ERR, false },
};

TEST_EACH(loc_prot, local_protections)
{
	int signalled;

	for (signalled = 1; signalled >= 0; signalled--) {
		struct fault f;

		fault_open(&f, arg);
		if (arg->opcode == IBV_WR_SEND)
			end_recv(&f.pair->b, 9, NULL, 0);
		/* An atomic that was carried out before its result had no place
		 * is not excluded: the cell is then not what it was.
		 */
		fault_run(&f, arg, signalled);
		CHECK_EQ(end_state(&f.pair->b), IBV_QPS_RTS);
		wc_none(f.pair->b.rcq);
		pair_reconnect(f.pair);
		end_ping(&f.pair->a, &f.pair->b);
		fault_close(&f);
	}
}

/* The fault is behind some packets of the same message. */
static const struct fault_case second_pieces[] = {
	{ "send", IBV_WR_SEND, bad_second_piece, IBV_WC_LOC_PROT_ERR, false },
	{ "write", IBV_WR_RDMA_WRITE, bad_second_piece, IBV_WC_LOC_PROT_ERR,
	  false },
	{ "read", IBV_WR_RDMA_READ, bad_second_piece, IBV_WC_LOC_PROT_ERR,
	  false },
};

TEST_EACH(loc_prot_second_piece, second_pieces)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 3, NULL, 0, 0);
	struct ibv_sge into;
	struct fault f;

	fault_open(&f, arg);
	into = buf_sge(f.remote, 0, FAULT_BYTES);
	if (arg->opcode == IBV_WR_SEND)
		end_recv(&f.pair->b, 9, &into, 1);
	else
		wr_remote(&f.wr, buf_addr(f.remote, 0), f.remote->mr->rkey);
	end_send(&f.pair->a, &f.wr);
	end_send(&f.pair->a, &wr);
	wc_expect(f.pair->a.scq, 2, IBV_WC_LOC_PROT_ERR);
	wc_expect(f.pair->a.scq, 3, IBV_WC_WR_FLUSH_ERR);
	wc_none(f.pair->b.rcq);
	pair_reconnect(f.pair);
	end_ping(&f.pair->a, &f.pair->b);
	fault_close(&f);
}

/* Successful and unsignalled ones before the bad one give no completion. */
TEST(loc_prot_after_unsignalled)
{
	static const struct fault_case kind = {
		"", IBV_WR_RDMA_WRITE, bad_lkey, IBV_WC_LOC_PROT_ERR, false,
	};
	struct ibv_send_wr good;
	struct ibv_sge sge;
	struct fault f;
	int i;

	fault_open(&f, &kind);
	sge = buf_sge(f.local, 0, 8);
	for (i = 0; i < 30; i++) {
		good = send_wr(IBV_WR_RDMA_WRITE, 100 + i, &sge, 1, 0);
		wr_remote(&good, buf_addr(f.remote, 0), f.remote->mr->rkey);
		end_send(&f.pair->a, &good);
	}
	end_send(&f.pair->a, &f.wr);
	wc_expect(f.pair->a.scq, 2, IBV_WC_LOC_PROT_ERR);
	wc_none(f.pair->a.scq);
	fault_close(&f);
}

static void seven_bytes(struct fault *f)
{
	f->sge[0].length = 7;
}

static void nine_bytes(struct fault *f)
{
	f->sge[0].length = 9;
}

static void no_bytes(struct fault *f)
{
	f->wr.num_sge = 0;
}

static const struct fault_case atomic_lengths[] = {
	{ "swap_7", IBV_WR_ATOMIC_CMP_AND_SWP, seven_bytes,
	  IBV_WC_LOC_LEN_ERR, true },
	{ "swap_9", IBV_WR_ATOMIC_CMP_AND_SWP, nine_bytes,
	  IBV_WC_LOC_LEN_ERR, true },
	{ "swap_0", IBV_WR_ATOMIC_CMP_AND_SWP, no_bytes,
	  IBV_WC_LOC_LEN_ERR, true },
	{ "add_7", IBV_WR_ATOMIC_FETCH_AND_ADD, seven_bytes,
	  IBV_WC_LOC_LEN_ERR, true },
	{ "add_9", IBV_WR_ATOMIC_FETCH_AND_ADD, nine_bytes,
	  IBV_WC_LOC_LEN_ERR, true },
	{ "add_9_posted", IBV_WR_ATOMIC_FETCH_AND_ADD, nine_bytes,
	  IBV_WC_LOC_LEN_ERR, false },
};

TEST_EACH(loc_len_atomic, atomic_lengths)
{
	int signalled;

	for (signalled = 1; signalled >= 0; signalled--) {
		struct fault f;

		fault_open(&f, arg);
		fault_run(&f, arg, signalled);
		CHECK_EQ(end_state(&f.pair->b), IBV_QPS_RTS);
		fault_close(&f);
	}
}

/* A message longer than the port's maximum, from pieces that are all right. */
static const struct fault_case too_long[] = {
	{ "write", IBV_WR_RDMA_WRITE, NULL, IBV_WC_LOC_LEN_ERR, false },
	{ "read", IBV_WR_RDMA_READ, NULL, IBV_WC_LOC_LEN_ERR, false },
	{ "send", IBV_WR_SEND, NULL, IBV_WC_LOC_LEN_ERR, false },
};

TEST_EACH(loc_len_over_maximum, too_long)
{
	struct param param = param_default();
	struct host *host = host_open(0);
	uint32_t piece = host->port.max_msg_sz / host->dev.max_sge + 1;
	int i, count = host->dev.max_sge;
	struct ibv_sge *sge = calloc(count, sizeof(*sge));
	struct ibv_send_wr wr = send_wr(arg->opcode, 1, sge, count, 0);
	struct ibv_mr *mr;
	struct pair *pair;
	void *mem;

	host_close(host);
	if ((uint64_t)piece * count > UINT32_MAX || piece > 256u << 20)
		SKIP("the limits do not allow it");
	param.sq_sge = count;
	pair = pair_new(&param);
	mem = mmap(NULL, piece, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_ERRNO(mem != MAP_FAILED);
	mr = ibv_reg_mr(pair->a.host->pd, mem, piece, ALL_ACCESS);
	CHECK_ERRNO(mr);
	for (i = 0; i < count; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)mem, piece, mr->lkey };
	wr_remote(&wr, (uintptr_t)mem, mr->rkey);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, arg->status);
	CHECK_EQ(end_state(&pair->a), IBV_QPS_ERR);
	CHECK_EQ(end_state(&pair->b), IBV_QPS_RTS);
	CHECK_RC(ibv_dereg_mr(mr));
	pair_teardown(pair);
}

/* An operation that an RC queue pair does not have. */
static const struct fault_case foreign_ops[] = {
	{ "tso", IBV_WR_TSO, NULL, IBV_WC_LOC_QP_OP_ERR, false },
};

TEST_EACH(loc_qp_op, foreign_ops)
{
	int signalled;

	for (signalled = 1; signalled >= 0; signalled--) {
		struct fault f;

		fault_open(&f, arg);
		fault_run(&f, arg, signalled);
		fault_close(&f);
	}
}
