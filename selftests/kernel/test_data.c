// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Operations that move data. */
#include <linux/slab.h>

#include "ktest.h"

#define MAX_SIZES 8
#define IMM 0x12345678

static int sizes(const struct kt *t, u32 size[MAX_SIZES])
{
	const u32 all[MAX_SIZES] = {
		0, 1, t->mtu_bytes - 1, t->mtu_bytes, t->mtu_bytes + 1,
		3 * t->mtu_bytes + 5, 65536, 200003,
	};

	memcpy(size, all, sizeof(all));
	return MAX_SIZES;
}

static bool send_sizes(struct kt *t)
{
	u32 size[MAX_SIZES];
	struct ib_wc wc;
	int i, n = sizes(t, size);

	for (i = 0; i < n; i++) {
		u32 off = 3 * i;

		kt_fill(t->side[0].buf + off, size[i], i);
		memset(t->side[1].buf, 0, KT_BUF_SIZE);
		if (!kt_post_recv(t, 1, 10 + i, 1, KT_BUF_SIZE - 1) ||
		    !kt_post_send(t, 0, i, off, size[i]) ||
		    !kt_expect(t, 1, 10 + i, IB_WC_SUCCESS, &wc) ||
		    !kt_check_fill(t, t->side[1].buf + 1, size[i], i))
			return false;
		KT_REQUIRE(t, wc.byte_len == size[i], "length %u, not %u",
			   wc.byte_len, size[i]);
		KT_REQUIRE(t, wc.opcode == IB_WC_RECV, "opcode %d", wc.opcode);
		KT_REQUIRE(t, !(wc.wc_flags & IB_WC_GRH), "GRH of an RC QP");
		KT_REQUIRE(t, !t->side[1].buf[1 + size[i]], "wrote too much");
		if (!kt_expect(t, 0, i, IB_WC_SUCCESS, &wc))
			return false;
		KT_REQUIRE(t, wc.opcode == IB_WC_SEND, "opcode %d", wc.opcode);
	}
	return true;
}

static bool write_sizes(struct kt *t)
{
	u32 size[MAX_SIZES];
	struct ib_wc wc;
	int i, n = sizes(t, size);

	for (i = 0; i < n; i++) {
		kt_fill(t->side[0].buf, size[i], i);
		memset(t->side[1].buf, 0, KT_BUF_SIZE);
		if (!kt_post_rdma(t, 0, IB_WR_RDMA_WRITE, i,
				  kt_sge(t, 0, 0, size[i]), t->side[1].dma + 5,
				  t->pd->unsafe_global_rkey) ||
		    !kt_expect(t, 0, i, IB_WC_SUCCESS, &wc) ||
		    !kt_check_fill(t, t->side[1].buf + 5, size[i], i))
			return false;
		KT_REQUIRE(t, wc.opcode == IB_WC_RDMA_WRITE, "opcode %d",
			   wc.opcode);
		KT_REQUIRE(t, !t->side[1].buf[4] &&
			   !t->side[1].buf[5 + size[i]], "wrote too much");
	}
	return true;
}

static bool read_sizes(struct kt *t)
{
	u32 size[MAX_SIZES];
	struct ib_wc wc;
	int i, n = sizes(t, size);

	for (i = 0; i < n; i++) {
		kt_fill(t->side[1].buf + 7, size[i], i);
		memset(t->side[0].buf, 0, KT_BUF_SIZE);
		if (!kt_post_rdma(t, 0, IB_WR_RDMA_READ, i,
				  kt_sge(t, 0, 2, size[i]), t->side[1].dma + 7,
				  t->pd->unsafe_global_rkey) ||
		    !kt_expect(t, 0, i, IB_WC_SUCCESS, &wc) ||
		    !kt_check_fill(t, t->side[0].buf + 2, size[i], i))
			return false;
		KT_REQUIRE(t, wc.opcode == IB_WC_RDMA_READ, "opcode %d",
			   wc.opcode);
		KT_REQUIRE(t, !t->side[0].buf[1] &&
			   !t->side[0].buf[2 + size[i]], "wrote too much");
	}
	return true;
}

static bool immediate(struct kt *t)
{
	struct ib_wc wc;
	struct ib_sge sge = kt_sge(t, 0, 0, 77);

	kt_fill(t->side[0].buf, 77, 1);
	if (!kt_post_recv(t, 1, 1, 100, 0) ||
	    !kt_post_rdma(t, 0, IB_WR_RDMA_WRITE_WITH_IMM, 2, sge,
			  t->side[1].dma, t->pd->unsafe_global_rkey) ||
	    !kt_expect(t, 1, 1, IB_WC_SUCCESS, &wc) ||
	    !kt_expect(t, 0, 2, IB_WC_SUCCESS, NULL) ||
	    !kt_check_fill(t, t->side[1].buf, 77, 1))
		return false;
	KT_REQUIRE(t, wc.opcode == IB_WC_RECV_RDMA_WITH_IMM &&
		   wc.wc_flags & IB_WC_WITH_IMM && wc.byte_len == 77 &&
		   wc.ex.imm_data == cpu_to_be32(IMM),
		   "write: opcode %d flags %#x length %u data %#x", wc.opcode,
		   wc.wc_flags, wc.byte_len, be32_to_cpu(wc.ex.imm_data));

	if (!kt_post_recv(t, 1, 3, 100, 200) ||
	    !kt_post_rdma(t, 0, IB_WR_SEND_WITH_IMM, 4, sge, 0, 0) ||
	    !kt_expect(t, 1, 3, IB_WC_SUCCESS, &wc) ||
	    !kt_expect(t, 0, 4, IB_WC_SUCCESS, NULL) ||
	    !kt_check_fill(t, t->side[1].buf + 100, 77, 1))
		return false;
	KT_REQUIRE(t, wc.opcode == IB_WC_RECV && wc.wc_flags & IB_WC_WITH_IMM &&
		   wc.byte_len == 77 && wc.ex.imm_data == cpu_to_be32(IMM),
		   "send: opcode %d flags %#x length %u data %#x", wc.opcode,
		   wc.wc_flags, wc.byte_len, be32_to_cpu(wc.ex.imm_data));
	return true;
}

static bool many_sges(struct kt *t)
{
	u32 n = t->opts.sge, i, from = 0, to = 0, total = 0;
	struct ib_sge *sge = kcalloc(2 * n, sizeof(*sge), GFP_KERNEL);
	struct ib_send_wr swr = {
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = sge,
		.num_sge = n,
	};
	struct ib_recv_wr rwr = { .sg_list = sge + n, .num_sge = n };
	bool ok = false;
	int err;

	if (!sge)
		return kt_fail(t, "no memory");
	/* Pieces lie without a gap, so that the pattern stays one. */
	for (i = 0; i < n; i++) {
		sge[i] = kt_sge(t, 0, from, 1 + 37 * i);
		from += sge[i].length;
		sge[n + i] = kt_sge(t, 1, to, 1 + 37 * (n - 1 - i));
		to += sge[n + i].length;
	}
	total = from;
	kt_fill(t->side[0].buf, total, 9);
	err = ib_post_recv(t->side[1].qp, &rwr, NULL);
	if (!err)
		err = ib_post_send(t->side[0].qp, &swr, NULL);
	if (err)
		kt_fail(t, "post: %d", err);
	else
		ok = kt_expect(t, 1, 0, IB_WC_SUCCESS, NULL) &&
		     kt_expect(t, 0, 0, IB_WC_SUCCESS, NULL) &&
		     kt_check_fill(t, t->side[1].buf, total, 9);
	kfree(sge);
	return ok;
}

static bool atomic_op(struct kt *t, struct ib_mr *mr, enum ib_wr_opcode op,
		      u64 compare_add, u64 swap, u32 offset,
		      enum ib_wc_status status)
{
	struct ib_sge sge = kt_sge(t, 0, 0, 8);
	struct ib_atomic_wr wr = {
		.wr.opcode = op,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.remote_addr = mr->iova + offset,
		.rkey = mr->rkey,
		.compare_add = compare_add,
		.swap = swap,
	};
	int err = ib_post_send(t->side[0].qp, &wr.wr, NULL);

	KT_REQUIRE(t, !err, "post atomic: %d", err);
	return kt_expect(t, 0, 0, status, NULL);
}

/* The key of all memory has no right to atomics. */
static struct ib_mr *atomic_mr(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, 1);

	if (!mr || !kt_map(t, mr, 1, 0, 64) ||
	    !kt_reg(t, mr, 1, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC))
		return NULL;
	return mr;
}

static bool atomics(struct kt *t)
{
	u64 *got = (u64 *)t->side[0].buf, *there = (u64 *)t->side[1].buf;
	const u64 big = 0xfffffffffffffff0ull;
	struct ib_mr *mr = atomic_mr(t);

	if (!mr)
		return false;
	there[1] = big;
	if (!atomic_op(t, mr, IB_WR_ATOMIC_FETCH_AND_ADD, 0x25, 0, 8,
		       IB_WC_SUCCESS))
		return false;
	KT_REQUIRE(t, *got == big && there[1] == 0x15, "add: %#llx, now %#llx",
		   *got, there[1]);
	if (!atomic_op(t, mr, IB_WR_ATOMIC_CMP_AND_SWP, 0x16, 1, 8,
		       IB_WC_SUCCESS))
		return false;
	KT_REQUIRE(t, *got == 0x15 && there[1] == 0x15,
		   "unequal: %#llx, now %#llx", *got, there[1]);
	if (!atomic_op(t, mr, IB_WR_ATOMIC_CMP_AND_SWP, 0x15, big, 8,
		       IB_WC_SUCCESS))
		return false;
	KT_REQUIRE(t, *got == 0x15 && there[1] == big,
		   "equal: %#llx, now %#llx", *got, there[1]);
	KT_REQUIRE(t, !there[0] && !there[2], "wrote beside");
	return true;
}

static bool atomic_misaligned(struct kt *t)
{
	struct ib_mr *mr = atomic_mr(t);

	return mr && atomic_op(t, mr, IB_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 4,
			       IB_WC_REM_INV_REQ_ERR);
}

static bool atomic_without_right(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, 1);

	return mr && kt_map(t, mr, 1, 0, 64) &&
	       kt_reg(t, mr, 1, IB_ACCESS_LOCAL_WRITE |
		      IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ) &&
	       atomic_op(t, mr, IB_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8,
			 IB_WC_REM_ACCESS_ERR);
}

static bool inline_data(struct kt *t)
{
	struct ib_sge sge = {
		/* No key, and the memory may change after the post. */
		.addr = (uintptr_t)t->side[0].buf,
		.length = t->opts.inline_data,
	};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED | IB_SEND_INLINE,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int err;

	kt_fill(t->side[0].buf, sge.length, 3);
	if (!kt_post_recv(t, 1, 0, 0, 4096))
		return false;
	err = ib_post_send(t->side[0].qp, &wr, NULL);
	KT_REQUIRE(t, !err, "post: %d", err);
	memset(t->side[0].buf, 0, sge.length);
	return kt_expect(t, 0, 0, IB_WC_SUCCESS, NULL) &&
	       kt_expect(t, 1, 0, IB_WC_SUCCESS, NULL) &&
	       kt_check_fill(t, t->side[1].buf, sge.length, 3);
}

static bool too_long_for_receive(struct kt *t)
{
	return kt_post_recv(t, 1, 1, 0, 99) &&
	       kt_post_send(t, 0, 2, 0, 100) &&
	       kt_expect(t, 1, 1, IB_WC_LOC_LEN_ERR, NULL) &&
	       kt_expect(t, 0, 2, IB_WC_REM_INV_REQ_ERR, NULL);
}

static bool both_ways(struct kt *t)
{
	enum { ROUNDS = 500 };
	int i, s;

	for (i = 0; i < ROUNDS; i++) {
		for (s = 0; s < 2; s++) {
			kt_fill(t->side[s].buf, 64, 2 * i + s);
			if (!kt_post_recv(t, s, i, 4096, 64))
				return false;
		}
		for (s = 0; s < 2; s++)
			if (!kt_post_send(t, s, 10000 + i, 0, 64))
				return false;
		for (s = 0; s < 2; s++) {
			struct ib_wc wc[2];

			if (!kt_poll(t, s, &wc[0]) || !kt_poll(t, s, &wc[1]))
				return false;
			KT_REQUIRE(t, !wc[0].status && !wc[1].status &&
				   wc[0].wr_id + wc[1].wr_id == 10000 + 2 * i,
				   "round %d: completions %llu and %llu", i,
				   wc[0].wr_id, wc[1].wr_id);
			if (!kt_check_fill(t, t->side[s].buf + 4096, 64,
					   2 * i + !s))
				return false;
		}
	}
	return true;
}

const struct kt_case kt_data_cases[] = {
	{ "SEND of many sizes", send_sizes },
	{ "RDMA WRITE of many sizes", write_sizes },
	{ "RDMA READ of many sizes", read_sizes },
	{ "immediate data", immediate },
	{ "scatter-gather lists of 32 entries", many_sges, { .sge = 32 } },
	{ "compare and swap, fetch and add", atomics },
	{ "an atomic that is not aligned is an invalid request",
	  atomic_misaligned },
	{ "an atomic without the right to it", atomic_without_right },
	{ "inline data", inline_data, { .inline_data = 128 } },
	{ "a SEND longer than the receive", too_long_for_receive },
	{ "messages both ways", both_ways },
	{}
};
