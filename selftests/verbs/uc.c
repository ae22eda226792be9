// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Unreliable connections: operations, losses, send errors. */
#include <arpa/inet.h>

#include "verbs.h"

#define BYTES (1024 * 1024 + 64)

static struct pair *uc_new(void)
{
	struct param param = param_default();

	param.type = IBV_QPT_UC;
	return pair_new(&param);
}

/* ---- every operation, every size --------------------------------------- */

struct transfer {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t length;
};

#define SIZES(name, opcode) \
	{ name "_0", opcode, 0 }, { name "_1", opcode, 1 }, \
	{ name "_1023", opcode, 1023 }, { name "_1024", opcode, 1024 }, \
	{ name "_1025", opcode, 1025 }, { name "_65536", opcode, 65536 }, \
	{ name "_1048576", opcode, 1048576 }

static const struct transfer transfers[] = {
	SIZES("send", IBV_WR_SEND),
	SIZES("send_imm", IBV_WR_SEND_WITH_IMM),
	SIZES("write", IBV_WR_RDMA_WRITE),
	SIZES("write_imm", IBV_WR_RDMA_WRITE_WITH_IMM),
};

static bool is_write(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_WRITE ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void check_receive(struct pair *pair, const struct transfer *t)
{
	bool imm = t->opcode == IBV_WR_SEND_WITH_IMM ||
		   t->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct ibv_wc wc = wc_expect(pair->b.rcq, 2, IBV_WC_SUCCESS);

	CHECK_EQ(wc.opcode, is_write(t->opcode) ? IBV_WC_RECV_RDMA_WITH_IMM :
						  IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, t->length);
	CHECK_EQ(wc.wc_flags, imm ? IBV_WC_WITH_IMM : 0);
	if (imm)
		CHECK_EQ(wc.imm_data, htonl(0x12345678));
}

TEST_EACH(transfer, transfers)
{
	struct pair *pair = uc_new();
	struct buf *from = buf_new(pair->a.host->pd, BYTES, ALL_ACCESS);
	struct buf *to = buf_new(pair->b.host->pd, BYTES, ALL_ACCESS);
	struct ibv_sge source[2], sink = buf_sge(to, 3, arg->length);
	int n = arg->length > 2 ? buf_cut(from, 5, arg->length, 2, source) : 1;
	struct ibv_send_wr wr;

	if (n == 1)
		source[0] = buf_sge(from, 5, arg->length);
	wr = send_wr(arg->opcode, 1, source, arg->length ? n : 0,
		     IBV_SEND_SIGNALED);
	wr.imm_data = htonl(0x12345678);
	if (is_write(arg->opcode))
		wr_remote(&wr, sink.addr, to->mr->rkey);
	if (arg->opcode != IBV_WR_RDMA_WRITE)
		end_recv(&pair->b, 2, is_write(arg->opcode) ? NULL : &sink,
			 is_write(arg->opcode) ? 0 : 1);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	if (arg->opcode != IBV_WR_RDMA_WRITE)
		check_receive(pair, arg);
	else
		/* In order behind it: it has arrived when this has. */
		end_ping(&pair->a, &pair->b);
	buf_move(to, &sink, from, source, arg->length);
	buf_check(to);
	buf_check(from);
	buf_free(from);
	buf_free(to);
	pair_teardown(pair);
}

/* ---- what is lost ------------------------------------------------------ */

/* No receive: the message is gone, nobody is told, the next one arrives. */
TEST(no_receive)
{
	struct pair *pair = uc_new();
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0,
					IBV_SEND_SIGNALED);

	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	end_ping(&pair->a, &pair->b);
	wc_none(pair->b.rcq);
	CHECK_EQ(end_state(&pair->a), IBV_QPS_RTS);
	CHECK_EQ(end_state(&pair->b), IBV_QPS_RTS);
	pair_teardown(pair);
}

/* Longer than its receive, which the next message gets. */
TEST(receive_too_short)
{
	struct pair *pair = uc_new();
	struct buf *from = buf_new(pair->a.host->pd, 8192, ALL_ACCESS);
	struct buf *to = buf_new(pair->b.host->pd, 8192, ALL_ACCESS);
	struct ibv_sge source = buf_sge(from, 0, 4097), sink;
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &source, 1,
					IBV_SEND_SIGNALED);
	struct ibv_wc wc;

	sink = buf_sge(to, 0, 4096);
	end_recv(&pair->b, 7, &sink, 1);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	source.length = 4096;
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	wc = wc_expect(pair->b.rcq, 7, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 4096);
	buf_move(to, &sink, from, &source, 4096);
	buf_check(to);
	end_ping(&pair->a, &pair->b);
	buf_free(from);
	buf_free(to);
	pair_teardown(pair);
}

/* A receive that a lost message began is not completed by a plain WRITE. */
TEST(write_after_lost_send)
{
	struct pair *pair = uc_new();
	struct buf *from = buf_new(pair->a.host->pd, 8192, ALL_ACCESS);
	struct buf *to = buf_new(pair->b.host->pd, 16384, ALL_ACCESS);
	struct ibv_sge source = buf_sge(from, 0, 8192), sink, target;
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &source, 1,
					IBV_SEND_SIGNALED);

	sink = buf_sge(to, 0, 100);
	end_recv(&pair->b, 7, &sink, 1);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	target = buf_sge(to, 8192, 8192);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr_remote(&wr, target.addr, to->mr->rkey);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	source.length = 100;
	wr.opcode = IBV_WR_SEND;
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc_expect(pair->b.rcq, 7, IBV_WC_SUCCESS).byte_len, 100);
	wc_none(pair->b.rcq);
	source.length = 8192;
	buf_move(to, &target, from, &source, 8192);
	source.length = 100;
	buf_move(to, &sink, from, &source, 100);
	buf_check(to);
	buf_free(from);
	buf_free(to);
	pair_teardown(pair);
}

struct bad_write {
	const char *name;
	uint32_t rkey_xor;
	uint64_t past;
	int access;
};

static const struct bad_write bad_writes[] = {
	{ "key", 0x100, 0, ALL_ACCESS },
	{ "range", 0, 8192, ALL_ACCESS },
	{ "right", 0, 0, IBV_ACCESS_LOCAL_WRITE },
};

/* 9.8.2.2.7: dropped without a word; memory is as before. */
TEST_EACH(bad_write, bad_writes)
{
	struct pair *pair = uc_new();
	struct buf *from = buf_new(pair->a.host->pd, 4096, ALL_ACCESS);
	struct buf *to = buf_new(pair->b.host->pd, 8192, arg->access);
	struct ibv_sge source = buf_sge(from, 0, 4096);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, &source, 1,
					IBV_SEND_SIGNALED);

	wr_remote(&wr, buf_addr(to, 0) + arg->past,
		  to->mr->rkey ^ arg->rkey_xor);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	end_ping(&pair->a, &pair->b);
	buf_check(to);
	host_expect_quiet(pair->b.host);
	CHECK_EQ(end_state(&pair->b), IBV_QPS_RTS);
	buf_free(from);
	buf_free(to);
	pair_teardown(pair);
}

/* ---- send errors ------------------------------------------------------- */

static void fail_a_send(struct pair *pair, struct buf *from)
{
	struct ibv_sge bad = buf_sge(from, 0, 64);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &bad, 1, 0);

	bad.lkey ^= 0x100;
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_LOC_PROT_ERR);
	end_wait_state(&pair->a, IBV_QPS_SQE);
}

/* What is behind it is flushed, and what comes later; receiving goes on. */
TEST(send_error)
{
	struct pair *pair = uc_new();
	struct buf *from = buf_new(pair->a.host->pd, 4096, ALL_ACCESS);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 2, NULL, 0, 0);

	fail_a_send(pair, from);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	end_ping(&pair->b, &pair->a);
	CHECK_EQ(end_state(&pair->a), IBV_QPS_SQE);
	buf_free(from);
	pair_teardown(pair);
}

TEST(send_error_left)
{
	struct pair *pair = uc_new();
	struct buf *from = buf_new(pair->a.host->pd, 4096, ALL_ACCESS);

	fail_a_send(pair, from);
	CHECK_RC(end_modify_state(&pair->a, IBV_QPS_RTS));
	CHECK_EQ(end_state(&pair->a), IBV_QPS_RTS);
	end_ping(&pair->a, &pair->b);
	end_ping(&pair->b, &pair->a);
	fail_a_send(pair, from);
	CHECK_RC(end_modify_state(&pair->a, IBV_QPS_ERR));
	buf_free(from);
	pair_teardown(pair);
}

/* In the middle of a message: the peer gets the next one all the same. */
TEST(send_error_in_a_message)
{
	struct pair *pair = uc_new();
	struct buf *from = buf_new(pair->a.host->pd, 256 * 1024, ALL_ACCESS);
	struct buf *to = buf_new(pair->b.host->pd, 256 * 1024, ALL_ACCESS);
	struct ibv_sge source[2], sink = buf_sge(to, 0, 256 * 1024);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, source, 2, 0);

	source[0] = buf_sge(from, 0, 200 * 1024);
	source[1] = buf_sge(from, 200 * 1024, 1024);
	source[1].lkey ^= 0x100;
	end_recv(&pair->b, 7, &sink, 1);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_LOC_PROT_ERR);
	CHECK_RC(end_modify_state(&pair->a, IBV_QPS_RTS));
	source[0].length = 5000;
	wr = send_wr(IBV_WR_SEND, 2, source, 1, IBV_SEND_SIGNALED);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc_expect(pair->b.rcq, 7, IBV_WC_SUCCESS).byte_len, 5000);
	CHECK(!memcmp(to->mem, from->mem, 5000));
	buf_free(from);
	buf_free(to);
	pair_teardown(pair);
}

/* Operations that wait for an answer are not for this service (table 92). */
static const struct transfer not_for_uc[] = {
	{ "read", IBV_WR_RDMA_READ, 8 },
	{ "compare_swap", IBV_WR_ATOMIC_CMP_AND_SWP, 8 },
	{ "fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8 },
	{ "send_inv", IBV_WR_SEND_WITH_INV, 8 },
};

TEST_EACH(refused, not_for_uc)
{
	struct pair *pair = uc_new();
	struct buf *from = buf_new(pair->a.host->pd, 64, ALL_ACCESS);
	struct ibv_sge sge = buf_sge(from, 0, 8);
	struct ibv_send_wr wr = send_wr(arg->opcode, 1, &sge, 1,
					IBV_SEND_SIGNALED);

	/* The provider may say so itself. */
	if (!end_try_send(&pair->a, &wr)) {
		wc_expect(pair->a.scq, 1, IBV_WC_LOC_QP_OP_ERR);
		end_wait_state(&pair->a, IBV_QPS_SQE);
	}
	buf_check(from);
	buf_free(from);
	pair_teardown(pair);
}

/* A bad buffer of the receiver's own ends its QP, and the peer hears nothing. */
TEST(bad_receive)
{
	struct pair *pair = uc_new();
	struct buf *to = buf_new(pair->b.host->pd, 64, ALL_ACCESS);
	struct buf *from = buf_new(pair->a.host->pd, 64, ALL_ACCESS);
	struct ibv_sge sink = buf_sge(to, 0, 64), source = buf_sge(from, 0, 64);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &source, 1,
					IBV_SEND_SIGNALED);

	sink.lkey ^= 0x100;
	end_recv(&pair->b, 7, &sink, 1);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	wc_expect(pair->b.rcq, 7, IBV_WC_LOC_PROT_ERR);
	end_wait_state(&pair->b, IBV_QPS_ERR);
	CHECK_EQ(end_state(&pair->a), IBV_QPS_RTS);
	buf_check(to);
	buf_free(to);
	buf_free(from);
	pair_teardown(pair);
}

TEST(established)
{
	struct param param = param_default();
	struct pair *pair;
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0, 0);

	param.type = IBV_QPT_UC;
	pair = pair_new(&param);
	CHECK_RC(end_modify_state(&pair->b, IBV_QPS_RESET));
	end_to_init(&pair->b);
	end_recv(&pair->b, 1, NULL, 0);
	end_to_rtr(&pair->b, &pair->a);
	end_send(&pair->a, &wr);
	wc_expect(pair->b.rcq, 1, IBV_WC_SUCCESS);
	host_expect_event(pair->b.host, IBV_EVENT_COMM_EST, pair->b.qp);
	host_expect_quiet(pair->b.host);
	pair_teardown(pair);
}

/* ---- draining ---------------------------------------------------------- */

/* What is posted while drained waits for RTS; receiving goes on. */
TEST(drained)
{
	struct pair *pair = uc_new();
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct end *a = &pair->a, *b = &pair->b;

	end_ping(a, b);
	CHECK_RC(end_drain(a, true));
	host_expect_event(a->host, IBV_EVENT_SQ_DRAINED, a->qp);
	end_recv(b, 2, NULL, 0);
	end_send(a, &wr);
	end_ping(b, a);
	end_expect_held(a, b);
	pair_teardown(pair);
}

/* The bit is in the last packet of a message. */
TEST(solicited)
{
	struct param param = param_default();
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct pair *pair;

	param.type = IBV_QPT_UC;
	param.channel = true;
	pair = pair_new(&param);
	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 1));
	end_ping(&pair->a, &pair->b);
	end_ping(&pair->a, &pair->b);
	if (is_readable(pair->b.channel->fd))
		FAIL("an unsolicited message woke a solicited-only consumer");
	wr.send_flags |= IBV_SEND_SOLICITED;
	end_recv(&pair->b, 2, NULL, 0);
	end_send(&pair->a, &wr);
	end_take_event(&pair->b, pair->b.rcq);
	wc_expect(pair->b.rcq, 2, IBV_WC_SUCCESS);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	pair_teardown(pair);
}
