// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Two RC QPs of one device that are connected to each other. */
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "ktest.h"

static void on_completion(struct ib_cq *cq, void *context)
{
	struct kt_side *side = context;
	void (*work)(struct kt_side *side) = READ_ONCE(side->work);

	atomic_inc(&side->events);
	if (work)
		work(side);
	wake_up(&side->wait);
}

static void on_cq_event(struct ib_event *event, void *context)
{
	struct kt_side *side = context;

	if (event->event == IB_EVENT_CQ_ERR)
		atomic_inc(&side->cq_errs);
	wake_up(&side->wait);
}

static void on_qp_event(struct ib_event *event, void *context)
{
	struct kt_side *side = context;

	set_bit(event->event, &side->qp_events);
	wake_up(&side->wait);
}

static bool create_cq(struct kt *t, struct kt_side *side)
{
	struct ib_cq_init_attr attr = { .cqe = t->opts.cqe };

	if (t->opts.poll_ctx)
		side->cq = ib_alloc_cq(t->dev, side, t->opts.cqe, 0,
				       t->opts.poll_ctx - 1);
	else
		side->cq = ib_create_cq(t->dev, on_completion, on_cq_event,
					side, &attr);
	if (IS_ERR(side->cq)) {
		long err = PTR_ERR(side->cq);

		side->cq = NULL;
		return kt_fail(t, "create CQ: %ld", err);
	}
	return true;
}

static bool create_qp(struct kt *t, struct kt_side *side)
{
	struct ib_cq *cq = t->opts.one_cq ? t->side[0].cq : side->cq;
	struct ib_qp_init_attr attr = {
		.event_handler = on_qp_event,
		.qp_context = side,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = t->srq,
		.cap.max_send_wr = t->opts.wr,
		.cap.max_recv_wr = t->opts.wr,
		.cap.max_send_sge = t->opts.sge,
		.cap.max_recv_sge = t->opts.sge,
		.cap.max_inline_data = t->opts.inline_data,
		.sq_sig_type = t->opts.sig_all ? IB_SIGNAL_ALL_WR :
						 IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};

	side->qp = ib_create_qp(t->opts.apart && side == &t->side[0] ?
					t->other_pd : t->pd, &attr);
	if (IS_ERR(side->qp)) {
		long err = PTR_ERR(side->qp);

		side->qp = NULL;
		return kt_fail(t, "create QP: %ld", err);
	}
	return true;
}

static void on_srq_event(struct ib_event *event, void *context)
{
	struct kt *t = context;

	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED)
		atomic_inc(&t->srq_limits);
	wake_up(&t->side[0].wait);
}

static bool create_srq(struct kt *t)
{
	struct ib_srq_init_attr attr = {
		.event_handler = on_srq_event,
		.srq_context = t,
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = t->opts.srq, .max_sge = t->opts.sge },
	};
	struct ib_srq *srq;

	if (!t->opts.srq)
		return true;
	srq = ib_create_srq(t->pd, &attr);
	KT_REQUIRE(t, !IS_ERR(srq), "create SRQ: %ld", PTR_ERR(srq));
	t->srq = srq;
	return true;
}

static bool create_side(struct kt *t, struct kt_side *side)
{
	side->t = t;
	init_waitqueue_head(&side->wait);
	side->buf = kzalloc(KT_BUF_SIZE, GFP_KERNEL);
	KT_REQUIRE(t, side->buf, "no memory");
	side->dma = ib_dma_map_single(t->dev, side->buf, KT_BUF_SIZE,
				      DMA_BIDIRECTIONAL);
	KT_REQUIRE(t, !ib_dma_mapping_error(t->dev, side->dma), "DMA mapping");
	return create_cq(t, side) && create_qp(t, side);
}

static void destroy_side(struct kt *t, struct kt_side *side)
{
	if (side->cq && t->opts.poll_ctx)
		ib_free_cq(side->cq);
	else if (side->cq)
		ib_destroy_cq(side->cq);
	if (side->dma && !ib_dma_mapping_error(t->dev, side->dma))
		ib_dma_unmap_single(t->dev, side->dma, KT_BUF_SIZE,
				    DMA_BIDIRECTIONAL);
	kfree(side->buf);
}

static struct ib_pd *create_pd(struct kt *t, unsigned int flags)
{
	struct ib_pd *pd = ib_alloc_pd(t->dev, flags);

	if (IS_ERR(pd)) {
		kt_fail(t, "alloc PD: %ld", PTR_ERR(pd));
		return NULL;
	}
	return pd;
}

/**
 * kt_setup - make what a test needs
 * @t: test
 * @opts: what it wants
 *
 * Return: whether all went well; kt_teardown() is due in both cases.
 */
bool kt_setup(struct kt *t, const struct kt_opts *opts)
{
	t->opts = *opts;
	t->opts.cqe = opts->cqe ?: 256;
	t->opts.wr = opts->wr ?: 64;
	t->opts.sge = opts->sge ?: 4;
	t->opts.retries = opts->retries ?: 7;

	t->pd = create_pd(t, IB_PD_UNSAFE_GLOBAL_RKEY);
	t->other_pd = create_pd(t, 0);
	if (!t->pd || !t->other_pd || !create_srq(t))
		return false;
	if (!create_side(t, &t->side[0]) || !create_side(t, &t->side[1]))
		return false;
	return opts->unconnected || kt_connect(t);
}

/**
 * kt_teardown - give back what a test had
 * @t: test
 */
void kt_teardown(struct kt *t)
{
	int i;

	for (i = 0; i < 2; i++)
		if (t->side[i].qp)
			ib_destroy_qp(t->side[i].qp);
	for (i = 0; i < 2; i++)
		destroy_side(t, &t->side[i]);
	if (t->srq)
		ib_destroy_srq(t->srq);
	while (t->num_mrs)
		ib_dereg_mr(t->mrs[--t->num_mrs]);
	if (t->other_pd)
		ib_dealloc_pd(t->other_pd);
	if (t->pd)
		ib_dealloc_pd(t->pd);
}

static bool modify(struct kt *t, int side, struct ib_qp_attr *attr, int mask)
{
	int err = ib_modify_qp(t->side[side].qp, attr, mask);

	KT_REQUIRE(t, !err, "QP to state %d: %d", attr->qp_state, err);
	return true;
}

static bool to_init(struct kt *t, int side)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IB_ACCESS_REMOTE_READ |
				   IB_ACCESS_REMOTE_WRITE |
				   IB_ACCESS_REMOTE_ATOMIC,
	};

	return modify(t, side, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
		      IB_QP_PORT | IB_QP_ACCESS_FLAGS);
}

static bool to_rtr(struct kt *t, int side)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = t->mtu,
		.dest_qp_num = t->side[!side].qp->qp_num,
		.rq_psn = 0xffff00 + !side,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
	};

	attr.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE;
	memcpy(attr.ah_attr.roce.dmac, t->mac, ETH_ALEN);
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	rdma_ah_set_grh(&attr.ah_attr, &t->gid, 0, t->gid_index, 64, 0);
	return modify(t, side, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
		      IB_QP_DEST_QPN | IB_QP_RQ_PSN |
		      IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
}

static bool to_rts(struct kt *t, int side)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		/* PSNs wrap around early in each test. */
		.sq_psn = 0xffff00 + side,
		.timeout = 14,
		.retry_cnt = t->opts.retries,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	return modify(t, side, &attr, IB_QP_STATE | IB_QP_SQ_PSN |
		      IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
		      IB_QP_MAX_QP_RD_ATOMIC);
}

/**
 * kt_connect - take both QPs from whatever state to RTS
 * @t: test
 *
 * Return: whether that worked.
 */
bool kt_connect(struct kt *t)
{
	struct ib_qp_attr reset = { .qp_state = IB_QPS_RESET };
	struct ib_wc wc;
	int i;

	for (i = 0; i < 2; i++)
		if (!modify(t, i, &reset, IB_QP_STATE) || !to_init(t, i))
			return false;
	for (i = 0; i < 2; i++)
		if (!to_rtr(t, i))
			return false;
	for (i = 0; i < 2; i++)
		if (!to_rts(t, i))
			return false;
	/* What is left from before a reconnect is of no interest. */
	for (i = 0; i < 2 && !t->opts.poll_ctx; i++)
		while (ib_poll_cq(t->side[i].cq, 1, &wc) > 0)
			;
	return true;
}

/**
 * kt_to_error - take a QP to ERROR
 * @t: test
 * @side: which
 *
 * Return: whether that worked.
 */
bool kt_to_error(struct kt *t, int side)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return modify(t, side, &attr, IB_QP_STATE);
}

static u8 pattern(size_t i, u32 seed)
{
	return (i * 131 + (i >> 8) * 29 + seed * 73 + 7) & 0xff;
}

/**
 * kt_fill - write a pattern
 * @buf: where
 * @len: bytes
 * @seed: which pattern
 */
void kt_fill(u8 *buf, size_t len, u32 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		buf[i] = pattern(i, seed);
}

/**
 * kt_check_fill - is the pattern there?
 * @t: test
 * @buf: where
 * @len: bytes
 * @seed: which pattern
 *
 * Return: whether it is.
 */
bool kt_check_fill(struct kt *t, const u8 *buf, size_t len, u32 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (buf[i] != pattern(i, seed))
			return kt_fail(t, "byte %zu of %zu is %#x, not %#x", i,
				       len, buf[i], pattern(i, seed));
	return true;
}

/**
 * kt_sge - a piece of a side's buffer
 * @t: test
 * @side: which
 * @offset: where it begins
 * @len: bytes
 *
 * Return: an SGE with the local key of all memory.
 */
struct ib_sge kt_sge(struct kt *t, int side, u32 offset, u32 len)
{
	return (struct ib_sge) {
		.addr = t->side[side].dma + offset,
		.length = len,
		.lkey = t->pd->local_dma_lkey,
	};
}

/**
 * kt_post_recv - post one receive, to the shared queue if there is one
 * @t: test
 * @side: whose
 * @wr_id: identifier
 * @offset: where in the buffer
 * @len: bytes
 *
 * Return: whether it was taken.
 */
bool kt_post_recv(struct kt *t, int side, u64 wr_id, u32 offset, u32 len)
{
	struct ib_sge sge = kt_sge(t, side, offset, len);
	struct ib_recv_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int err = t->srq ? ib_post_srq_recv(t->srq, &wr, NULL) :
			   ib_post_recv(t->side[side].qp, &wr, NULL);

	KT_REQUIRE(t, !err, "post receive: %d", err);
	return true;
}

/**
 * kt_post_send - post one signalled send
 * @t: test
 * @side: whose
 * @wr_id: identifier
 * @offset: where in the buffer
 * @len: bytes
 *
 * Return: whether it was taken.
 */
bool kt_post_send(struct kt *t, int side, u64 wr_id, u32 offset, u32 len)
{
	struct ib_sge sge = kt_sge(t, side, offset, len);
	struct ib_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	int err = ib_post_send(t->side[side].qp, &wr, NULL);

	KT_REQUIRE(t, !err, "post send: %d", err);
	return true;
}

/**
 * kt_post_rdma - post one signalled RDMA WRITE or READ
 * @t: test
 * @side: whose
 * @op: opcode; immediate data is 0x12345678
 * @wr_id: identifier
 * @sge: local memory
 * @raddr: remote address
 * @rkey: remote key
 *
 * Return: whether it was taken.
 */
bool kt_post_rdma(struct kt *t, int side, enum ib_wr_opcode op, u64 wr_id,
		  struct ib_sge sge, u64 raddr, u32 rkey)
{
	struct ib_rdma_wr wr = {
		.wr.wr_id = wr_id,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.wr.opcode = op,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.ex.imm_data = cpu_to_be32(0x12345678),
		.remote_addr = raddr,
		.rkey = rkey,
	};
	int err = ib_post_send(t->side[side].qp, &wr.wr, NULL);

	KT_REQUIRE(t, !err, "post RDMA %d: %d", op, err);
	return true;
}

/**
 * kt_poll - wait for the next completion
 * @t: test
 * @side: whose
 * @wc: where to put it
 *
 * Return: whether there was one in time.
 */
bool kt_poll(struct kt *t, int side, struct ib_wc *wc)
{
	unsigned long end = jiffies + msecs_to_jiffies(kt_timeout_ms);
	int n;

	while (!(n = ib_poll_cq(t->side[side].cq, 1, wc))) {
		KT_REQUIRE(t, time_before(jiffies, end),
			   "side %d: no completion in time", side);
		cond_resched();
	}
	KT_REQUIRE(t, n == 1, "poll: %d", n);
	return true;
}

/**
 * kt_expect - wait for a certain completion
 * @t: test
 * @side: whose
 * @wr_id: the next one has to have this identifier
 * @status: and this status
 * @wc: where to put it, or NULL
 *
 * Return: whether it came.
 */
bool kt_expect(struct kt *t, int side, u64 wr_id, enum ib_wc_status status,
	       struct ib_wc *wc)
{
	struct ib_wc own;

	wc = wc ?: &own;
	if (!kt_poll(t, side, wc))
		return false;
	KT_REQUIRE(t, wc->wr_id == wr_id && wc->status == status,
		   "side %d: wr_id %llu %s, not %llu %s", side, wc->wr_id,
		   ib_wc_status_msg(wc->status), wr_id,
		   ib_wc_status_msg(status));
	KT_REQUIRE(t, wc->qp == t->side[side].qp, "another QP's completion");
	return true;
}

/**
 * kt_expect_none - is the CQ empty?
 * @t: test
 * @side: whose
 *
 * Return: whether it is.
 */
bool kt_expect_none(struct kt *t, int side)
{
	struct ib_wc wc;

	KT_REQUIRE(t, !ib_poll_cq(t->side[side].cq, 1, &wc),
		   "side %d: completion wr_id %llu %s too many", side,
		   wc.wr_id, ib_wc_status_msg(wc.status));
	return true;
}

/**
 * kt_wait_count - wait until a handler has counted up to a number
 * @t: test
 * @side: whose handler
 * @count: what it counts
 * @value: number
 *
 * Return: whether it did so in time, and no further.
 */
bool kt_wait_count(struct kt *t, int side, atomic_t *count, int value)
{
	wait_event_timeout(t->side[side].wait, atomic_read(count) >= value,
			   msecs_to_jiffies(kt_timeout_ms));
	KT_REQUIRE(t, atomic_read(count) == value, "side %d: %d events, not %d",
		   side, atomic_read(count), value);
	return true;
}

/**
 * kt_alloc_mr - make a region for fast registration
 * @t: test, which frees it
 * @pd: protection domain
 * @max_pages: pages that it takes
 *
 * Return: the region, or NULL after kt_fail().
 */
struct ib_mr *kt_alloc_mr(struct kt *t, struct ib_pd *pd, u32 max_pages)
{
	struct ib_mr *mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, max_pages);

	if (IS_ERR(mr)) {
		kt_fail(t, "alloc MR: %ld", PTR_ERR(mr));
		return NULL;
	}
	t->mrs[t->num_mrs++] = mr;
	return mr;
}

/**
 * kt_map - lay a piece of a buffer out in a region
 * @t: test
 * @mr: region
 * @side: whose buffer
 * @offset: where the piece begins
 * @len: bytes
 *
 * Return: whether all of it was taken.
 */
bool kt_map(struct kt *t, struct ib_mr *mr, int side, u32 offset, u32 len)
{
	struct scatterlist sg;
	int n;

	sg_init_one(&sg, t->side[side].buf + offset, len);
	n = ib_dma_map_sg(t->dev, &sg, 1, DMA_BIDIRECTIONAL);
	KT_REQUIRE(t, n == 1, "DMA mapping of a list: %d", n);
	n = ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE);
	ib_dma_unmap_sg(t->dev, &sg, 1, DMA_BIDIRECTIONAL);
	KT_REQUIRE(t, n == 1, "map of %u bytes at %#x: %d", len, offset, n);
	KT_REQUIRE(t, mr->length == len, "mapped %llu bytes, not %u",
		   mr->length, len);
	return true;
}

/**
 * kt_reg_wr - fill in a signalled registration
 * @wr: request
 * @mr: region, laid out
 * @wr_id: identifier
 * @access: rights
 */
void kt_reg_wr(struct ib_reg_wr *wr, struct ib_mr *mr, u64 wr_id, int access)
{
	*wr = (struct ib_reg_wr) {
		.wr.wr_id = wr_id,
		.wr.opcode = IB_WR_REG_MR,
		.wr.send_flags = IB_SEND_SIGNALED,
		.mr = mr,
		.key = mr->rkey,
		.access = access,
	};
}

/**
 * kt_inv_wr - fill in a signalled local invalidate
 * @wr: request
 * @rkey: key
 * @wr_id: identifier
 */
void kt_inv_wr(struct ib_send_wr *wr, u32 rkey, u64 wr_id)
{
	*wr = (struct ib_send_wr) {
		.wr_id = wr_id,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = rkey,
	};
}

/**
 * kt_reg - register a region and wait
 * @t: test
 * @mr: region, laid out
 * @side: whose QP does it
 * @access: rights
 *
 * Return: whether it is registered.
 */
bool kt_reg(struct kt *t, struct ib_mr *mr, int side, int access)
{
	struct ib_reg_wr wr;
	int err;

	kt_reg_wr(&wr, mr, 9000, access);
	err = ib_post_send(t->side[side].qp, &wr.wr, NULL);
	KT_REQUIRE(t, !err, "post registration: %d", err);
	return kt_expect(t, side, 9000, IB_WC_SUCCESS, NULL);
}

/**
 * kt_inv - invalidate a registration and wait
 * @t: test
 * @side: whose QP does it
 * @rkey: key
 * @status: how it has to end
 *
 * Return: whether it ended so.
 */
bool kt_inv(struct kt *t, int side, u32 rkey, enum ib_wc_status status)
{
	struct ib_send_wr wr;
	int err;

	kt_inv_wr(&wr, rkey, 9001);
	err = ib_post_send(t->side[side].qp, &wr, NULL);
	KT_REQUIRE(t, !err, "post invalidate: %d", err);
	return kt_expect(t, side, 9001, status, NULL);
}
