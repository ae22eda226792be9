// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Flushing, draining and destroying. */
#include <linux/slab.h>

#include "ktest.h"

static bool flush_in_order(struct kt *t)
{
	int i, n = t->opts.wr;
	u64 next[2] = {};
	struct ib_wc wc;

	/* Sends wait for receives that never come; receives for sends. */
	for (i = 0; i < n; i++)
		if (!kt_post_send(t, 0, i, 0, 16) ||
		    !kt_post_recv(t, 0, 1000 + i, 0, 16))
			return false;
	if (!kt_to_error(t, 0))
		return false;
	for (i = 0; i < 2 * n; i++) {
		int recv;

		if (!kt_poll(t, 0, &wc))
			return false;
		recv = wc.wr_id >= 1000;
		KT_REQUIRE(t, wc.status == IB_WC_WR_FLUSH_ERR, "status %s",
			   ib_wc_status_msg(wc.status));
		KT_REQUIRE(t, wc.wr_id == 1000 * recv + next[recv],
			   "wr_id %llu out of order", wc.wr_id);
		next[recv]++;
	}
	return kt_expect_none(t, 0);
}

/* Requests whose completions are counted by the core's polling. */
struct counted {
	struct ib_cqe cqe;
	atomic_t seen;
	atomic_t wrong;
};

static void counted_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct counted *c = container_of(wc->wr_cqe, struct counted, cqe);

	if (wc->status != IB_WC_WR_FLUSH_ERR)
		atomic_inc(&c->wrong);
	atomic_inc(&c->seen);
}

static bool drain(struct kt *t)
{
	struct counted sends = { .cqe.done = counted_done };
	struct counted recvs = { .cqe.done = counted_done };
	struct ib_send_wr swr = {
		.wr_cqe = &sends.cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ib_recv_wr rwr = { .wr_cqe = &recvs.cqe };
	int i, err = 0, n = 10;

	for (i = 0; i < n && !err; i++) {
		err = ib_post_recv(t->side[0].qp, &rwr, NULL);
		if (!err)
			err = ib_post_send(t->side[0].qp, &swr, NULL);
	}
	/* Also after a failure: the counters are on this stack. */
	ib_drain_qp(t->side[0].qp);
	KT_REQUIRE(t, !err, "post: %d", err);
	KT_REQUIRE(t, atomic_read(&sends.seen) == n &&
		   atomic_read(&recvs.seen) == n,
		   "%d sends and %d receives of %d completed",
		   atomic_read(&sends.seen), atomic_read(&recvs.seen), n);
	KT_REQUIRE(t, !atomic_read(&sends.wrong) && !atomic_read(&recvs.wrong),
		   "%d sends and %d receives not flushed",
		   atomic_read(&sends.wrong), atomic_read(&recvs.wrong));
	return true;
}

static bool destroy_busy(struct kt *t)
{
	int i, s;

	/* Half of it waits for the peer, half moves; kt_teardown() destroys. */
	for (i = 0; i < 8; i++)
		for (s = 0; s < 2; s++)
			if (!kt_post_send(t, s, i, 0, 65536) ||
			    !kt_post_rdma(t, s, IB_WR_RDMA_READ, i,
					  kt_sge(t, s, 65536, 65536),
					  t->side[!s].dma,
					  t->pd->unsafe_global_rkey))
				return false;
	return kt_post_recv(t, 1, 0, 131072, 65536) &&
	       kt_expect(t, 1, 0, IB_WC_SUCCESS, NULL);
}

static bool reconnect(struct kt *t)
{
	int i;

	for (i = 0; i < 10; i++)
		if (!kt_post_recv(t, 1, 1, 0, 16) ||
		    !kt_post_send(t, 0, 2, 0, 16) ||
		    !kt_expect(t, 1, 1, IB_WC_SUCCESS, NULL) ||
		    !kt_expect(t, 0, 2, IB_WC_SUCCESS, NULL) ||
		    !kt_post_send(t, 0, 3, 0, 16) ||
		    (i & 1 && !kt_to_error(t, 0)) || !kt_connect(t))
			return false;
	return true;
}

static bool peer_gone(struct kt *t)
{
	struct ib_wc wc;

	if (!kt_to_error(t, 1) || !kt_post_send(t, 0, 1, 0, 16) ||
	    !kt_poll(t, 0, &wc))
		return false;
	KT_REQUIRE(t, wc.status == IB_WC_RETRY_EXC_ERR, "status %s",
		   ib_wc_status_msg(wc.status));
	return true;
}

static bool address_handles(struct kt *t)
{
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_ROCE }, got;
	struct ib_ah *ah;
	int err;

	rdma_ah_set_port_num(&attr, 1);
	rdma_ah_set_grh(&attr, &t->gid, 0x12345, t->gid_index, 64, 8);
	ah = rdma_create_ah(t->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	if (PTR_ERR_OR_ZERO(ah) == -EOPNOTSUPP)
		return kt_skip(t, "no address handles");
	KT_REQUIRE(t, !IS_ERR(ah), "create AH: %ld", PTR_ERR(ah));
	err = rdma_query_ah(ah, &got);
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	KT_REQUIRE(t, !err, "query AH: %d", err);
	KT_REQUIRE(t, !memcmp(&got.grh.dgid, &t->gid, sizeof(t->gid)) &&
		   got.grh.flow_label == 0x12345 && got.grh.hop_limit == 64 &&
		   got.grh.traffic_class == 8 &&
		   got.grh.sgid_index == t->gid_index, "AH was changed");
	return true;
}

static bool many_objects(struct kt *t)
{
	enum { MANY = 64 };
	struct ib_cq_init_attr attr = { .cqe = 10 };
	struct ib_cq *cq[MANY];
	struct ib_pd *pd[MANY];
	int cqs, pds;

	for (cqs = 0; cqs < MANY; cqs++) {
		cq[cqs] = ib_create_cq(t->dev, NULL, NULL, NULL, &attr);
		if (IS_ERR(cq[cqs]))
			break;
	}
	for (pds = 0; pds < MANY; pds++) {
		pd[pds] = ib_alloc_pd(t->dev, 0);
		if (IS_ERR(pd[pds]))
			break;
	}
	if (cqs < MANY || pds < MANY)
		kt_fail(t, "%d CQs, %d PDs of %d", cqs, pds, MANY);
	while (pds)
		ib_dealloc_pd(pd[--pds]);
	while (cqs)
		ib_destroy_cq(cq[--cqs]);
	return !t->failed;
}

const struct kt_case kt_life_cases[] = {
	{ "ERROR flushes everything in order", flush_in_order,
	  { .wr = 100 } },
	{ "draining a QP", drain, { .poll_ctx = 1 + IB_POLL_WORKQUEUE } },
	{ "destroying QPs with work under way", destroy_busy },
	{ "RESET and connecting again", reconnect },
	{ "a peer that does not answer", peer_gone, { .retries = 2 } },
	{ "address handles", address_handles },
	{ "many objects", many_objects },
	{}
};
