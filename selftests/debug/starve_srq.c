// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Running out of memory: shared receive queues, multicast groups. */
#include "starve.h"

/* ---- shared receive queues --------------------------------------------- */

static int create_srq(struct world *w)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = w->verb->size, .max_sge = 4 },
	};

	w->srq = ibv_create_srq(w->host->pd, &attr);
	return got(w->srq);
}

static int destroy_srq(struct world *w)
{
	return ibv_destroy_srq(w->srq);
}

static void undo_srq(struct world *w)
{
	CHECK_RC(destroy_srq(w));
}

static void need_srq(struct world *w)
{
	CHECK_RC(create_srq(w));
}

static void post_srq(struct world *w, uint64_t id)
{
	struct ibv_recv_wr wr = { .wr_id = id }, *bad;

	CHECK_RC(ibv_post_srq_recv(w->srq, &wr, &bad));
}

/* A message of a peer is received from it. */
static void take_from_srq(struct world *w, uint64_t id)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct param with = w->pair->param;
	struct end end, peer;

	with.srq = w->srq;
	end_create(&end, w->host, &with);
	end_create(&peer, w->host, &w->pair->param);
	end_connect(&end, &peer);
	end_connect(&peer, &end);
	end_send(&peer, &wr);
	wc_expect(peer.scq, 1, IBV_WC_SUCCESS);
	wc_expect(end.rcq, id, IBV_WC_SUCCESS);
	end_destroy(&peer);
	end_destroy(&end);
}

static void use_srq(struct world *w)
{
	post_srq(w, 5);
	take_from_srq(w, 5);
}

static void need_filled_srq(struct world *w)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = 10, .max_sge = 4 },
	};
	uint64_t id;

	w->srq = ibv_create_srq(w->host->pd, &attr);
	CHECK_ERRNO(w->srq);
	/* More than the limit, which is told at once otherwise. */
	for (id = 7; id < 12; id++)
		post_srq(w, id);
}

static int modify_srq(struct world *w)
{
	struct ibv_srq_attr attr = { .max_wr = 1000, .srq_limit = 3 };

	return ibv_modify_srq(w->srq, &attr, w->verb->flags);
}

static void use_modified_srq(struct world *w)
{
	struct ibv_srq_attr attr;

	CHECK_RC(ibv_query_srq(w->srq, &attr));
	if (w->verb->flags & IBV_SRQ_MAX_WR)
		CHECK(attr.max_wr >= 1000);
	if (w->verb->flags & IBV_SRQ_LIMIT)
		CHECK_EQ(attr.srq_limit, 3);
	take_from_srq(w, 7);
}

static int query_srq(struct world *w)
{
	struct ibv_srq_attr attr;

	return ibv_query_srq(w->srq, &attr);
}

static void undo_qp(struct world *w)
{
	CHECK_RC(ibv_destroy_qp(w->qp));
}

/* ---- groups ------------------------------------------------------------ */

/* IPv6: its members are told to the netdev. */
static const union ibv_gid group = {
	.raw = { 0xff, 0x12, [14] = 0x77, [15] = 0x01 },
};

static void need_datagrams(struct world *w)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = w->pair->a.scq,
		.recv_cq = w->pair->a.rcq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};

	w->qp = ibv_create_qp(w->host->pd, &attr);
	CHECK_ERRNO(w->qp);
}

static int attach(struct world *w)
{
	return ibv_attach_mcast(w->qp, &group, 0);
}

static int detach(struct world *w)
{
	return ibv_detach_mcast(w->qp, &group, 0);
}

static void undo_attach(struct world *w)
{
	CHECK_RC(detach(w));
}

static void need_attached(struct world *w)
{
	CHECK_RC(attach(w));
}

/* ---- all of them ------------------------------------------------------- */

static const struct verb shared[] = {
	{ "create_srq", create_srq, use_srq, undo_srq, .size = 10 },
	{ "create_srq_large", create_srq, use_srq, undo_srq, .size = 8000 },
	{ "destroy_srq", destroy_srq, .before = need_srq, .ends = true,
	  .size = 10 },
	{ "modify_srq_limit", modify_srq, use_modified_srq, undo_srq,
	  .before = need_filled_srq, .flags = IBV_SRQ_LIMIT },
	{ "modify_srq_size", modify_srq, use_modified_srq, undo_srq,
	  .before = need_filled_srq, .flags = IBV_SRQ_MAX_WR },
	{ "query_srq", query_srq, NULL, NULL, need_srq, NULL, undo_srq,
	  .size = 10 },
	{ "create_qp_of_srq", create_qp, NULL, undo_qp, need_srq, NULL,
	  undo_srq, .size = 10 },
	{ "attach_mcast", attach, NULL, undo_attach, need_datagrams,
	  .close = undo_qp },
	{ "detach_mcast", detach, NULL, NULL, need_datagrams, need_attached,
	  undo_qp, .ends = true },
};

TEST_EACH_LIMIT(verb, shared, 300)
{
	starve(arg);
}
