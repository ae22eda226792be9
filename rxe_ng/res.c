// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects as the RDMA tool shows them. Values are taken under the object's own
 * lock, all at once, then written out.
 */
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "cq.h"
#include "mr.h"
#include "qp.h"
#include "res.h"

static void take_qp(struct rxng_qp *qp, struct rxng_raw_qp *raw)
{
	const struct rxng_resp *resp = &qp->resp;
	const struct rxng_req *req = &qp->req;

	local_bh_disable();
	spin_lock(&qp->lock);
	*raw = (struct rxng_raw_qp){
		.posted = req->tail - req->head,
		.started = req->started - req->head,
		.psn = req->psn,
		.una_psn = req->una,
		.sent_psn = req->sent,
		.window = req->window,
		.under_way = req->inflight,
		.reading = req->reading,
		.rd_used = req->rd_used,
		.retry_left = req->retry_left,
		.rnr_left = req->rnr_left,
		.srtt_ns = min_t(u64, req->srtt, U32_MAX),
		.expected_psn = resp->epsn,
		.msn = resp->msn,
		.message_bytes = resp->got,
		.gap = resp->gap,
		.replying = qp->reply.active,
		.requests_queued = skb_queue_len(&qp->requests),
		.responses_queued = skb_queue_len(&qp->responses),
		.bytes_under_way = refcount_read(&qp->sk->sk_wmem_alloc) - 1,
		.home_cpu = qp->home,
	};
	rxng_qp_unlock(qp);
	local_bh_enable();
}

/* In the order of struct rxng_raw_qp. */
static const char *const qp_names[] = {
	"posted", "started", "psn", "una_psn", "sent_psn", "window",
	"under_way", "reading", "rd_used", "retry_left", "rnr_left", "srtt_ns",
	"expected_psn", "msn", "message_bytes", "gap", "replying",
	"requests_queued", "responses_queued", "bytes_under_way",
	"home_cpu",
};

static_assert(ARRAY_SIZE(qp_names) * sizeof(u32) == sizeof(struct rxng_raw_qp));

/* Named values inside of the driver's own table. */
static int put_values(struct sk_buff *msg, const char *const *names,
		      const u32 *values, unsigned int num)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	unsigned int i;

	if (!table)
		return -EMSGSIZE;
	for (i = 0; i < num; i++) {
		if (rdma_nl_put_driver_u32(msg, names[i], values[i])) {
			nla_nest_cancel(msg, table);
			return -EMSGSIZE;
		}
	}
	nla_nest_end(msg, table);
	return 0;
}

/**
 * rxng_fill_res_qp_entry - show a QP's transport state
 * @msg: netlink message
 * @ibqp: QP
 *
 * Return: 0 or -EMSGSIZE.
 * Context: process.
 */
int rxng_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct rxng_raw_qp raw;

	take_qp(to_rxng_qp(ibqp), &raw);
	return put_values(msg, qp_names, (const u32 *)&raw,
			  ARRAY_SIZE(qp_names));
}

/**
 * rxng_fill_res_qp_entry_raw - the same as one block of bytes
 * @msg: netlink message
 * @ibqp: QP
 *
 * Return: 0 or -EMSGSIZE.
 * Context: process.
 */
int rxng_fill_res_qp_entry_raw(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct rxng_raw_qp raw;

	take_qp(to_rxng_qp(ibqp), &raw);
	return nla_put(msg, RDMA_NLDEV_ATTR_RES_RAW, sizeof(raw), &raw);
}

/**
 * rxng_fill_res_cq_entry - show what a CQ holds
 * @msg: netlink message
 * @ibcq: CQ
 *
 * Return: 0 or -EMSGSIZE.
 * Context: process.
 */
int rxng_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	static const char *const names[] = { "backlog", "pushed", "armed",
					     "overflowed" };
	struct rxng_cq *cq = to_rxng_cq(ibcq);
	const u32 values[] = {
		rxng_cq_backlog(cq),
		READ_ONCE(cq->pushed),
		READ_ONCE(cq->armed),
		READ_ONCE(cq->overflowed),
	};

	return put_values(msg, names, values, ARRAY_SIZE(values));
}

/**
 * rxng_fill_res_mr_entry - show a region's state
 * @msg: netlink message
 * @ibmr: region
 *
 * Return: 0 or -EMSGSIZE.
 * Context: process.
 */
int rxng_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	static const char *const names[] = { "state", "access", "windows" };
	const struct rxng_mr *mr = to_rxng_mr(ibmr);
	const u32 values[] = {
		READ_ONCE(mr->state),
		READ_ONCE(mr->access),
		atomic_read(&mr->windows),
	};

	return put_values(msg, names, values, ARRAY_SIZE(values));
}

/**
 * rxng_fill_res_srq_entry - show what a shared receive queue holds
 * @msg: netlink message
 * @ibsrq: SRQ
 *
 * Return: 0 or -EMSGSIZE.
 * Context: process.
 */
int rxng_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	static const char *const names[] = { "posted", "max", "limit" };
	struct rxng_srq *srq = to_rxng_srq(ibsrq);
	u32 values[3];

	spin_lock_bh(&srq->lock);
	values[0] = rxng_ring_ready(&srq->ring, srq->ring.index);
	values[1] = srq->ring.mask;
	values[2] = srq->limit;
	spin_unlock_bh(&srq->lock);
	return put_values(msg, names, values, ARRAY_SIZE(values));
}
