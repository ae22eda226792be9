// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Every operation moves exactly the bytes it should, at every size around a
 * packet's, from and to every shape of scatter list, and nothing beside them.
 */
#include <arpa/inet.h>
#include <stdlib.h>

#include "verbs.h"

#define BIG (1u << 20)
#define ROOM (BIG + 8192)		/* gaps between pieces, guards at the ends */
#define MAX_PIECES 32

struct payload {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum ibv_mtu mtu;
	uint64_t ops;
};

struct shape {
	int local, remote;		/* pieces; WRITE and READ have one remote */
	unsigned int local_at, remote_at;
};

struct transfer {
	struct pair *pair;
	struct buf *local, *remote;
	const struct payload *kind;
	uint64_t id;
};

static const struct shape shapes[] = {
	{ 1, 1, 64, 64 },
	{ 1, 1, 65, 131 },
	{ 2, 3, 67, 93 },
	{ 3, 1, 4095, 71 },
	{ 1, MAX_PIECES, 77, 4093 },
	{ MAX_PIECES, 2, 101, 4097 },
};

#define MTUS(text, op)							\
	{ text "_mtu256", op, IBV_MTU_256, 0 },				\
	{ text "_mtu512", op, IBV_MTU_512, 0 },				\
	{ text "_mtu1024", op, IBV_MTU_1024, 0 },			\
	{ text "_mtu2048", op, IBV_MTU_2048, 0 },			\
	{ text "_mtu4096", op, IBV_MTU_4096, 0 }

static const struct payload payloads[] = {
	MTUS("send", IBV_WR_SEND),
	MTUS("send_imm", IBV_WR_SEND_WITH_IMM),
	MTUS("write", IBV_WR_RDMA_WRITE),
	MTUS("write_imm", IBV_WR_RDMA_WRITE_WITH_IMM),
	MTUS("read", IBV_WR_RDMA_READ),
};

static bool is_send(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

static bool takes_receive(enum ibv_wr_opcode opcode)
{
	return is_send(opcode) || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool has_imm(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static enum ibv_wc_opcode send_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

static void check_sent(const struct transfer *t, uint32_t length)
{
	struct ibv_wc wc = wc_expect(t->pair->a.scq, t->id, IBV_WC_SUCCESS);

	CHECK_EQ(wc.opcode, send_opcode(t->kind->opcode));
	CHECK_EQ(wc.qp_num, t->pair->a.qp->qp_num);
	if (t->kind->opcode == IBV_WR_RDMA_READ)
		CHECK_EQ(wc.byte_len, length);
}

static void check_received(const struct transfer *t, uint32_t length)
{
	struct ibv_wc wc = wc_expect(t->pair->b.rcq, ~t->id, IBV_WC_SUCCESS);

	CHECK_EQ(wc.opcode, is_send(t->kind->opcode) ?
		 IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc.byte_len, length);
	CHECK_EQ(wc.qp_num, t->pair->b.qp->qp_num);
	CHECK_EQ(wc.wc_flags & ~IBV_WC_GRH,
		 has_imm(t->kind->opcode) ? IBV_WC_WITH_IMM : 0);
	if (has_imm(t->kind->opcode))
		CHECK_EQ(ntohl(wc.imm_data), (uint32_t)t->id);
}

static void expect_move(const struct transfer *t, const struct ibv_sge *local,
			const struct ibv_sge *remote, uint32_t length)
{
	if (t->kind->opcode == IBV_WR_RDMA_READ)
		buf_move(t->local, local, t->remote, remote, length);
	else
		buf_move(t->remote, remote, t->local, local, length);
}

static void transfer(struct transfer *t, uint32_t length, struct shape shape,
		     unsigned int flags)
{
	enum ibv_wr_opcode opcode = t->kind->opcode;
	struct ibv_sge local[MAX_PIECES], remote[MAX_PIECES];
	struct ibv_send_wr wr;
	int n, m;

	if (!is_send(opcode))
		shape.remote = 1;
	n = buf_cut(t->local, shape.local_at, length, shape.local, local);
	m = buf_cut(t->remote, shape.remote_at, length, shape.remote, remote);
	if (takes_receive(opcode))
		end_recv(&t->pair->b, ~++t->id, remote, is_send(opcode) ? m : 0);
	else
		t->id++;
	wr = send_wr(opcode, t->id, local, n, IBV_SEND_SIGNALED | flags);
	wr.imm_data = htonl(t->id);
	if (!is_send(opcode))
		wr_remote(&wr, buf_addr(t->remote, shape.remote_at),
			  t->remote->mr->rkey);
	end_send(&t->pair->a, &wr);
	check_sent(t, length);
	if (takes_receive(opcode))
		check_received(t, length);
	if (length)
		expect_move(t, local, remote, length);
	buf_check(t->local);
	buf_check(t->remote);
}

static void all_shapes(struct transfer *t, uint32_t length)
{
	int max = t->pair->a.cap.max_send_sge, rmax = t->pair->b.cap.max_recv_sge;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct shape shape = shapes[i];

		if (shape.local > max)
			shape.local = max;
		if (shape.remote > rmax)
			shape.remote = rmax;
		transfer(t, length, shape, 0);
	}
}

static uint32_t at_most(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void transfer_open(struct transfer *t, const struct payload *kind,
			  uint32_t inline_data)
{
	struct param param = param_default();
	struct host *host = host_open(0);

	param.mtu = kind->mtu;
	param.ops = kind->ops;
	param.sq_sge = at_most(MAX_PIECES, host->dev.max_sge);
	param.rq_sge = param.sq_sge;
	param.inline_data = inline_data;
	host_close(host);
	memset(t, 0, sizeof(*t));
	t->kind = kind;
	t->pair = pair_new(&param);
	t->local = buf_new(t->pair->a.host->pd, ROOM, ALL_ACCESS);
	t->remote = buf_new(t->pair->b.host->pd, ROOM, ALL_ACCESS);
}

static void transfer_close(struct transfer *t)
{
	buf_free(t->local);
	buf_free(t->remote);
	pair_teardown(t->pair);
}

TEST_EACH(payload, payloads)
{
	unsigned int mtu = mtu_bytes(arg->mtu);
	const uint32_t sizes[] = {
		0, 1, 7, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 1,
		65536, 65537, BIG,
	};
	struct transfer t;
	size_t i;

	transfer_open(&t, arg, 0);
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		all_shapes(&t, sizes[i]);
	transfer_close(&t);
}

static const struct payload inlines[] = {
	{ "send", IBV_WR_SEND, IBV_MTU_1024, 0 },
	{ "send_imm", IBV_WR_SEND_WITH_IMM, IBV_MTU_1024, 0 },
	{ "write", IBV_WR_RDMA_WRITE, IBV_MTU_1024, 0 },
	{ "write_imm", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_MTU_1024, 0 },
	{ "send_mtu256", IBV_WR_SEND, IBV_MTU_256, 0 },
	{ "wr_send", IBV_WR_SEND, IBV_MTU_1024, IBV_QP_EX_WITH_SEND },
	{ "wr_write", IBV_WR_RDMA_WRITE, IBV_MTU_1024,
	  IBV_QP_EX_WITH_RDMA_WRITE },
};

#define INLINE_BYTES 400

/* Inline data of every length up to the limit, from up to three pieces. */
TEST_EACH(inline_data, inlines)
{
	const struct shape one = { 1, 2, 65, 131 }, three = { 3, 1, 93, 65 };
	struct transfer t;
	uint32_t max, n;

	transfer_open(&t, arg, INLINE_BYTES);
	max = t.pair->a.cap.max_inline_data;
	CHECK(max >= INLINE_BYTES);
	for (n = 0; n <= max; n += n < 20 || n > max - 20 ? 1 : 13) {
		transfer(&t, n, one, IBV_SEND_INLINE);
		if (!arg->ops)
			transfer(&t, n, three, IBV_SEND_INLINE);
	}
	transfer_close(&t);
}

/* The memory of an inline request belongs to the consumer after the post. */
TEST_EACH(inline_reuse, inlines)
{
	struct transfer t;
	uint8_t bytes[32];
	struct ibv_sge sge = { (uintptr_t)bytes, sizeof(bytes), 0 };
	struct ibv_send_wr wr = send_wr(arg->opcode, 0, &sge, 1,
					IBV_SEND_INLINE | IBV_SEND_SIGNALED);
	struct ibv_sge to;
	unsigned int i;

	transfer_open(&t, arg, INLINE_BYTES);
	for (i = 0; i < 60; i++) {
		to = buf_sge(t.remote, 33 * i, sizeof(bytes));
		if (takes_receive(arg->opcode))
			end_recv(&t.pair->b, i, &to, 1);
		wr.wr_id = i;
		if (!is_send(arg->opcode))
			wr_remote(&wr, to.addr, t.remote->mr->rkey);
		memset(bytes, i + 1, sizeof(bytes));
		memset(t.remote->shadow + 33 * i, i + 1, sizeof(bytes));
		end_send(&t.pair->a, &wr);
		memset(bytes, 0xee, sizeof(bytes));
	}
	for (i = 0; i < 60; i++) {
		wc_expect(t.pair->a.scq, i, IBV_WC_SUCCESS);
		if (takes_receive(arg->opcode))
			wc_expect(t.pair->b.rcq, i, IBV_WC_SUCCESS);
	}
	buf_check(t.remote);
	transfer_close(&t);
}

/* An empty piece in a list means no bytes there, wherever it stands. */
TEST_EACH(empty_pieces, inlines)
{
	struct ibv_sge local[4], remote[4];
	struct ibv_send_wr wr;
	struct transfer t;
	int i;

	if (arg->ops)
		SKIP("ibv_wr_set_sge_list() is broken in rdma-core before 64");
	transfer_open(&t, arg, 0);
	for (i = 0; i < 4; i++) {
		local[i] = buf_sge(t.local, 100 * i, i & 1 ? 77 : 0);
		remote[i] = buf_sge(t.remote, 200 * i, i & 1 ? 0 : 99);
	}
	if (takes_receive(arg->opcode))
		end_recv(&t.pair->b, 1, remote, 4);
	wr = send_wr(arg->opcode, 2, local, 4, IBV_SEND_SIGNALED);
	if (!is_send(arg->opcode)) {
		remote[0] = buf_sge(t.remote, 999, 154);
		wr_remote(&wr, remote[0].addr, t.remote->mr->rkey);
	}
	end_send(&t.pair->a, &wr);
	wc_expect(t.pair->a.scq, 2, IBV_WC_SUCCESS);
	buf_move(t.remote, remote, t.local, local, 154);
	buf_check(t.remote);
	transfer_close(&t);
}

/*
 * A receive is not changed beyond the message, and the message need not fill
 * it; WRITE with immediate does not touch the receive's own memory.
 */
TEST_F(pair, receive_larger_than_message)
{
	struct buf *src = buf_new(pair->a.host->pd, 8192, ALL_ACCESS);
	struct buf *dst = buf_new(pair->b.host->pd, 8192, ALL_ACCESS);
	struct buf *other = buf_new(pair->b.host->pd, 8192, ALL_ACCESS);
	struct ibv_sge from = buf_sge(src, 3, 1500), to = buf_sge(dst, 5, 4000);
	struct ibv_sge into = buf_sge(other, 7, 1500);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &from, 1,
					IBV_SEND_SIGNALED);

	end_recv(&pair->b, 2, &to, 1);
	end_send(&pair->a, &wr);
	CHECK_EQ(wc_expect(pair->b.rcq, 2, IBV_WC_SUCCESS).byte_len, 1500);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	buf_move(dst, &to, src, &from, 1500);

	end_recv(&pair->b, 3, &to, 1);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr_remote(&wr, into.addr, other->mr->rkey);
	end_send(&pair->a, &wr);
	CHECK_EQ(wc_expect(pair->b.rcq, 3, IBV_WC_SUCCESS).byte_len, 1500);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	buf_move(other, &into, src, &from, 1500);

	buf_check(dst);
	buf_check(other);
	buf_check(src);
	buf_free(src);
	buf_free(dst);
	buf_free(other);
}
