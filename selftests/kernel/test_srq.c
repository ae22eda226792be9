// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Shared receive queues of kernel consumers. */
#include "ktest.h"

#define LEN 3000

/* One message to the QP of @side, which gets the receive @wr_id. */
static bool message(struct kt *t, int side, u64 wr_id, u32 offset)
{
	struct ib_wc wc;

	kt_fill(t->side[!side].buf, LEN, wr_id);
	if (!kt_post_send(t, !side, 900, 0, LEN) ||
	    !kt_expect(t, !side, 900, IB_WC_SUCCESS, NULL) ||
	    !kt_expect(t, side, wr_id, IB_WC_SUCCESS, &wc))
		return false;
	KT_REQUIRE(t, wc.byte_len == LEN, "%u bytes", wc.byte_len);
	return true;
}

/* Receives go to whichever QP needs the next one, in the order of posting. */
static bool in_turn(struct kt *t)
{
	int i;

	for (i = 0; i < 40; i++) {
		int side = i / 3 & 1;

		if (!kt_post_recv(t, side, i, 65536, LEN) ||
		    !message(t, side, i, 65536) ||
		    !kt_check_fill(t, t->side[side].buf + 65536, LEN, i))
			return false;
	}
	return true;
}

static bool limit(struct kt *t)
{
	struct ib_srq_attr attr = { .srq_limit = 3 };
	int i, err;

	for (i = 0; i < 4; i++)
		if (!kt_post_recv(t, 0, i, 65536, LEN))
			return false;
	err = ib_modify_srq(t->srq, &attr, IB_SRQ_LIMIT);
	KT_REQUIRE(t, !err, "arm: %d", err);
	if (!message(t, 0, 0, 65536))
		return false;
	KT_REQUIRE(t, !atomic_read(&t->srq_limits), "told too early");
	if (!message(t, 0, 1, 65536) ||
	    !kt_wait_count(t, 0, &t->srq_limits, 1) ||
	    !message(t, 0, 2, 65536))
		return false;
	KT_REQUIRE(t, atomic_read(&t->srq_limits) == 1, "told again");
	err = ib_query_srq(t->srq, &attr);
	KT_REQUIRE(t, !err && !attr.srq_limit, "limit %u", attr.srq_limit);
	return true;
}

static bool resize(struct kt *t)
{
	struct ib_srq_attr attr = { .max_wr = 100 };
	int i, err;

	for (i = 0; i < 10; i++)
		if (!kt_post_recv(t, 0, i, 65536, LEN))
			return false;
	if (!message(t, 0, 0, 65536))
		return false;
	err = ib_modify_srq(t->srq, &attr, IB_SRQ_MAX_WR);
	KT_REQUIRE(t, !err && attr.max_wr >= 100, "resize: %d", err);
	for (i = 10; i < 100; i++)
		if (!kt_post_recv(t, 0, i, 65536, LEN))
			return false;
	attr.max_wr = 4;
	err = ib_modify_srq(t->srq, &attr, IB_SRQ_MAX_WR);
	KT_REQUIRE(t, err == -EINVAL, "resize below what is posted: %d", err);
	for (i = 1; i < 100; i++)
		if (!message(t, i & 1, i, 65536))
			return false;
	return true;
}

static bool full(struct kt *t)
{
	struct ib_recv_wr wr = { .wr_id = 1 };
	struct ib_srq_attr attr;
	u32 i;
	int err;

	err = ib_query_srq(t->srq, &attr);
	KT_REQUIRE(t, !err, "query: %d", err);
	for (i = 0; i < attr.max_wr; i++) {
		err = ib_post_srq_recv(t->srq, &wr, NULL);
		KT_REQUIRE(t, !err, "post %u of %u: %d", i, attr.max_wr, err);
	}
	err = ib_post_srq_recv(t->srq, &wr, NULL);
	KT_REQUIRE(t, err == -ENOMEM, "one too many: %d", err);
	return true;
}

/* A QP that fails says when the queue's requests are all the others'. */
static bool last_request(struct kt *t)
{
	if (!kt_post_recv(t, 0, 1, 65536, LEN) || !kt_to_error(t, 0))
		return false;
	wait_event_timeout(t->side[0].wait,
			   test_bit(IB_EVENT_QP_LAST_WQE_REACHED,
				    &t->side[0].qp_events),
			   msecs_to_jiffies(kt_timeout_ms));
	KT_REQUIRE(t, test_bit(IB_EVENT_QP_LAST_WQE_REACHED,
			       &t->side[0].qp_events), "not told");
	return kt_expect_none(t, 0);
}

/* Its receives are no business of the QP. */
static bool not_to_the_qp(struct kt *t)
{
	struct ib_recv_wr wr = { .wr_id = 1 };
	int err = ib_post_recv(t->side[0].qp, &wr, NULL);

	KT_REQUIRE(t, err == -EINVAL, "post to the QP: %d", err);
	return true;
}

const struct kt_case kt_srq_cases[] = {
	{ "a shared queue's receives in turn", in_turn, { .srq = 16 } },
	{ "a shared queue's limit", limit, { .srq = 16 } },
	{ "a shared queue of another size", resize, { .srq = 16, .wr = 128 } },
	{ "a full shared queue", full, { .srq = 16 } },
	{ "a shared queue's last request of a QP", last_request, { .srq = 16 } },
	{ "a QP with a shared queue has none of its own", not_to_the_qp,
	  { .srq = 16 } },
	{}
};
