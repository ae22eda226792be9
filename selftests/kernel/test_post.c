// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Posting: lists, full queues, refusals, signalling. */
#include <linux/slab.h>

#include "ktest.h"

#define LIST 16

static bool lists(struct kt *t)
{
	struct ib_send_wr swr[LIST] = {};
	struct ib_recv_wr rwr[LIST] = {};
	struct ib_sge ssge[LIST], rsge[LIST];
	int i, err;

	kt_fill(t->side[0].buf, LIST * 512, 4);
	for (i = 0; i < LIST; i++) {
		ssge[i] = kt_sge(t, 0, 512 * i, 512);
		rsge[i] = kt_sge(t, 1, 512 * i, 512);
		swr[i] = (struct ib_send_wr) {
			.wr_id = i,
			.next = i < LIST - 1 ? &swr[i + 1] : NULL,
			.sg_list = &ssge[i],
			.num_sge = 1,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		};
		rwr[i] = (struct ib_recv_wr) {
			.wr_id = i,
			.next = i < LIST - 1 ? &rwr[i + 1] : NULL,
			.sg_list = &rsge[i],
			.num_sge = 1,
		};
	}
	err = ib_post_recv(t->side[1].qp, rwr, NULL);
	KT_REQUIRE(t, !err, "post receives: %d", err);
	err = ib_post_send(t->side[0].qp, swr, NULL);
	KT_REQUIRE(t, !err, "post sends: %d", err);
	for (i = 0; i < LIST; i++)
		if (!kt_expect(t, 1, i, IB_WC_SUCCESS, NULL) ||
		    !kt_expect(t, 0, i, IB_WC_SUCCESS, NULL))
			return false;
	return kt_check_fill(t, t->side[1].buf, LIST * 512, 4);
}

/* Post more than fits; how many are taken? */
static bool fill_sends(struct kt *t, int *taken)
{
	int num = 4 * t->opts.wr, i, err;
	const struct ib_send_wr *bad = NULL;
	struct ib_send_wr *wr = kcalloc(num, sizeof(*wr), GFP_KERNEL);

	KT_REQUIRE(t, wr, "no memory");
	for (i = 0; i < num; i++)
		wr[i] = (struct ib_send_wr) {
			.wr_id = i,
			.next = i < num - 1 ? &wr[i + 1] : NULL,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		};
	err = ib_post_send(t->side[0].qp, wr, &bad);
	*taken = bad ? bad - wr : num;
	kfree(wr);
	KT_REQUIRE(t, err == -ENOMEM, "full send queue: %d, not -ENOMEM", err);
	KT_REQUIRE(t, *taken >= t->opts.wr && *taken < num,
		   "%d of %d sends taken, %u promised", *taken, num,
		   t->opts.wr);
	return true;
}

static bool full_send_queue(struct kt *t)
{
	int taken, i;

	if (!fill_sends(t, &taken))
		return false;
	/* Without receives they wait; none of them is lost. */
	for (i = 0; i < taken; i++)
		if (!kt_post_recv(t, 1, i, 0, 16) ||
		    !kt_expect(t, 1, i, IB_WC_SUCCESS, NULL) ||
		    !kt_expect(t, 0, i, IB_WC_SUCCESS, NULL))
			return false;
	if (!kt_expect_none(t, 0) || !kt_expect_none(t, 1))
		return false;
	/* And there is room again. */
	return kt_post_recv(t, 1, 7, 0, 16) && kt_post_send(t, 0, 7, 0, 16) &&
	       kt_expect(t, 0, 7, IB_WC_SUCCESS, NULL) &&
	       kt_expect(t, 1, 7, IB_WC_SUCCESS, NULL);
}

static bool full_recv_queue(struct kt *t)
{
	int num = 4 * t->opts.wr, taken, i, err;
	const struct ib_recv_wr *bad = NULL;
	struct ib_recv_wr *wr = kcalloc(num, sizeof(*wr), GFP_KERNEL);

	KT_REQUIRE(t, wr, "no memory");
	for (i = 0; i < num; i++) {
		wr[i].wr_id = i;
		wr[i].next = i < num - 1 ? &wr[i + 1] : NULL;
	}
	err = ib_post_recv(t->side[1].qp, wr, &bad);
	taken = bad ? bad - wr : num;
	kfree(wr);
	KT_REQUIRE(t, err == -ENOMEM, "full receive queue: %d, not -ENOMEM",
		   err);
	KT_REQUIRE(t, taken >= t->opts.wr && taken < num, "%d of %d taken",
		   taken, num);
	for (i = 0; i < taken; i++)
		if (!kt_post_send(t, 0, i, 0, 0) ||
		    !kt_expect(t, 0, i, IB_WC_SUCCESS, NULL) ||
		    !kt_expect(t, 1, i, IB_WC_SUCCESS, NULL))
			return false;
	return kt_expect_none(t, 1);
}

/* The second request of three is bad: the first is sent, the third is not. */
static bool refuse(struct kt *t, const char *what, struct ib_send_wr middle)
{
	struct ib_send_wr last = { .wr_id = 3, .opcode = IB_WR_SEND };
	struct ib_send_wr first = {
		.wr_id = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.next = &middle,
	};
	const struct ib_send_wr *bad = NULL;
	int err;

	middle.wr_id = 2;
	middle.next = &last;
	if (!kt_post_recv(t, 1, 0, 0, 16))
		return false;
	err = ib_post_send(t->side[0].qp, &first, &bad);
	KT_REQUIRE(t, err == -EINVAL || err == -EOPNOTSUPP || err == -ENOMEM,
		   "%s: %d", what, err);
	KT_REQUIRE(t, bad == &middle, "%s: wrong bad_wr", what);
	return kt_expect(t, 0, 1, IB_WC_SUCCESS, NULL) &&
	       kt_expect(t, 1, 0, IB_WC_SUCCESS, NULL) &&
	       kt_expect_none(t, 0) && kt_expect_none(t, 1);
}

static bool refusals(struct kt *t)
{
	struct ib_sge sge[40];
	int i;

	for (i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = kt_sge(t, 0, 0, 256);
	return refuse(t, "opcode", (struct ib_send_wr) { .opcode = 0xee }) &&
	       refuse(t, "too many SGEs", (struct ib_send_wr) {
			.opcode = IB_WR_SEND,
			.sg_list = sge,
			.num_sge = ARRAY_SIZE(sge) }) &&
	       refuse(t, "too much inline data", (struct ib_send_wr) {
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_INLINE,
			.sg_list = sge,
			.num_sge = 4 });
}

static bool unsignalled(struct kt *t)
{
	int i, err;

	for (i = 0; i < 40; i++) {
		struct ib_send_wr wr = {
			.wr_id = i,
			.opcode = IB_WR_SEND,
			.send_flags = i % 8 == 7 ? IB_SEND_SIGNALED : 0,
		};

		if (!kt_post_recv(t, 1, i, 0, 16))
			return false;
		err = ib_post_send(t->side[0].qp, &wr, NULL);
		KT_REQUIRE(t, !err, "post: %d", err);
		if (!kt_expect(t, 1, i, IB_WC_SUCCESS, NULL))
			return false;
		if (i % 8 == 7 && !kt_expect(t, 0, i, IB_WC_SUCCESS, NULL))
			return false;
	}
	return kt_expect_none(t, 0);
}

static bool all_signalled(struct kt *t)
{
	struct ib_send_wr wr = { .wr_id = 5, .opcode = IB_WR_SEND };
	int err;

	if (!kt_post_recv(t, 1, 0, 0, 16))
		return false;
	err = ib_post_send(t->side[0].qp, &wr, NULL);
	KT_REQUIRE(t, !err, "post: %d", err);
	return kt_expect(t, 0, 5, IB_WC_SUCCESS, NULL);
}

/* An unsignalled request that fails has a completion all the same. */
static bool unsignalled_error(struct kt *t)
{
	struct ib_sge sge = kt_sge(t, 0, 0, 16);
	struct ib_send_wr wr = {
		.wr_id = 6,
		.opcode = IB_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int err;

	sge.lkey ^= 0x55;
	if (!kt_post_recv(t, 1, 0, 0, 16))
		return false;
	err = ib_post_send(t->side[0].qp, &wr, NULL);
	KT_REQUIRE(t, !err, "post: %d", err);
	return kt_expect(t, 0, 6, IB_WC_LOC_PROT_ERR, NULL);
}

static bool post_in_reset(struct kt *t)
{
	struct ib_send_wr swr = { .opcode = IB_WR_SEND };
	struct ib_recv_wr rwr = {};
	int err;

	err = ib_post_send(t->side[0].qp, &swr, NULL);
	KT_REQUIRE(t, err, "send taken in RESET");
	err = ib_post_recv(t->side[0].qp, &rwr, NULL);
	KT_REQUIRE(t, err, "receive taken in RESET");
	return kt_expect_none(t, 0);
}

static bool post_in_error(struct kt *t)
{
	int i;

	if (!kt_to_error(t, 0))
		return false;
	for (i = 0; i < 20; i++) {
		if (!kt_post_recv(t, 0, 100 + i, 0, 16) ||
		    !kt_expect(t, 0, 100 + i, IB_WC_WR_FLUSH_ERR, NULL) ||
		    !kt_post_send(t, 0, i, 0, 16) ||
		    !kt_expect(t, 0, i, IB_WC_WR_FLUSH_ERR, NULL))
			return false;
	}
	return kt_expect_none(t, 0);
}

const struct kt_case kt_post_cases[] = {
	{ "lists of requests", lists },
	{ "a full send queue", full_send_queue, { .wr = 20 } },
	{ "a full receive queue", full_recv_queue, { .wr = 20 } },
	{ "bad requests in a list", refusals, { .sge = 2, .inline_data = 64 } },
	{ "unsignalled requests", unsignalled },
	{ "all requests signalled", all_signalled, { .sig_all = true } },
	{ "an unsignalled request that fails", unsignalled_error },
	{ "posting in RESET", post_in_reset, { .unconnected = true } },
	{ "posting in ERROR", post_in_error },
	{}
};
