// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs, connected. */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>

#include "verbs.h"

#define PORT 1

struct param param_default(void)
{
	return (struct param) {
		.type = IBV_QPT_RC,
		.mtu = IBV_MTU_1024,
		.timeout = 14,		/* 67 ms */
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 12,	/* 0.64 ms */
		.rd_atomic = 4,
		.sq_wr = 64, .rq_wr = 64,
		.sq_sge = 4, .rq_sge = 4,
		.scqe = 128, .rcqe = 128,
		.access = ALL_QP_ACCESS,
		.psn = 0x123456,
		.qkey = 0x11223344,
	};
}

static void create_qp(struct end *end)
{
	const struct param *p = end->param;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = end->scq,
		.recv_cq = end->rcq,
		.cap = {
			.max_send_wr = p->sq_wr,
			.max_recv_wr = p->rq_wr,
			.max_send_sge = p->sq_sge,
			.max_recv_sge = p->rq_sge,
			.max_inline_data = p->inline_data,
		},
		.srq = p->srq,
		.qp_type = p->type,
		.sq_sig_all = p->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = end->host->pd,
	};

	if (p->ops) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = p->ops;
	}
	end->qp = ibv_create_qp_ex(end->host->ctx, &attr);
	CHECK_ERRNO(end->qp);
	if (p->ops) {
		end->qpx = ibv_qp_to_qp_ex(end->qp);
		CHECK(end->qpx);
	}
	end->cap = attr.cap;
}

void end_create(struct end *end, struct host *host, const struct param *param)
{
	memset(end, 0, sizeof(*end));
	end->host = host;
	end->param = param;
	end->psn = param->psn;
	if (param->channel) {
		end->channel = ibv_create_comp_channel(host->ctx);
		CHECK_ERRNO(end->channel);
		CHECK_ERRNO(!fcntl(end->channel->fd, F_SETFL, O_NONBLOCK));
	}
	end->scq = ibv_create_cq(host->ctx, param->scqe, NULL, end->channel, 0);
	CHECK_ERRNO(end->scq);
	end->rcq = ibv_create_cq(host->ctx, param->rcqe, NULL, end->channel, 0);
	CHECK_ERRNO(end->rcq);
	create_qp(end);
}

void end_destroy(struct end *end)
{
	if (end->qp)
		CHECK_RC(ibv_destroy_qp(end->qp));
	CHECK_RC(ibv_destroy_cq(end->scq));
	CHECK_RC(ibv_destroy_cq(end->rcq));
	if (end->channel)
		CHECK_RC(ibv_destroy_comp_channel(end->channel));
}

void end_take_event_(struct end *end, struct ibv_cq *want)
{
	struct ibv_cq *cq;
	void *context;

	if (!wait_readable(end->channel->fd))
		FAIL("no completion event");
	CHECK_ERRNO(!ibv_get_cq_event(end->channel, &cq, &context));
	CHECK(cq == want);
	ibv_ack_cq_events(cq, 1);
}

int end_init_attr(const struct end *end, struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = IBV_QPS_INIT;
	attr->port_num = PORT;
	attr->qkey = end->param->qkey;
	attr->qp_access_flags = end->param->access;
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       (end->param->type == IBV_QPT_UD ? IBV_QP_QKEY :
						 IBV_QP_ACCESS_FLAGS);
}

int end_rtr_attr(const struct end *end, const struct end *peer,
		 struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = IBV_QPS_RTR;
	attr->path_mtu = end->param->mtu;
	attr->dest_qp_num = peer->qp->qp_num;
	attr->rq_psn = peer->psn;
	attr->max_dest_rd_atomic = end->param->rd_atomic;
	attr->min_rnr_timer = end->param->min_rnr_timer;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = PORT;
	attr->ah_attr.grh.dgid = peer->host->gid;
	attr->ah_attr.grh.sgid_index = end->host->gid_index;
	attr->ah_attr.grh.hop_limit = 64;
	if (end->param->type == IBV_QPT_UD)
		return IBV_QP_STATE;
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
	       IBV_QP_RQ_PSN |
	       (end->param->type == IBV_QPT_RC ?
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
}

int end_rts_attr(const struct end *end, struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = IBV_QPS_RTS;
	attr->timeout = end->param->timeout;
	attr->retry_cnt = end->param->retry_cnt;
	attr->rnr_retry = end->param->rnr_retry;
	attr->sq_psn = end->psn;
	attr->max_rd_atomic = end->param->rd_atomic;
	return IBV_QP_STATE | IBV_QP_SQ_PSN |
	       (end->param->type == IBV_QPT_RC ?
			IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_MAX_QP_RD_ATOMIC : 0);
}

void end_to_init(struct end *end)
{
	struct ibv_qp_attr attr;
	int mask = end_init_attr(end, &attr);

	CHECK_RC(ibv_modify_qp(end->qp, &attr, mask));
}

void end_to_rtr(struct end *end, const struct end *peer)
{
	struct ibv_qp_attr attr;
	int mask = end_rtr_attr(end, peer, &attr);

	CHECK_RC(ibv_modify_qp(end->qp, &attr, mask));
}

void end_to_rts(struct end *end)
{
	struct ibv_qp_attr attr;
	int mask = end_rts_attr(end, &attr);

	CHECK_RC(ibv_modify_qp(end->qp, &attr, mask));
}

int end_modify_state(struct end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE);
}

int end_drain(struct end *end, bool notify)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify,
	};

	return ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

enum ibv_qp_state end_state(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_RC(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

void end_wait_state_(struct end *end, enum ibv_qp_state state)
{
	uint64_t until = deadline();

	while (end_state(end) != state) {
		if (deadline_over(until))
			FAIL("QP state is %d, not %d", end_state(end), state);
		sched_yield();
	}
}

void end_connect(struct end *end, const struct end *peer)
{
	end_to_init(end);
	end_to_rtr(end, peer);
	end_to_rts(end);
}

struct pair *pair_new(const struct param *param)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	struct host *first, *second;

	CHECK(pair);
	pair->param = *param;
	first = host_open(0);
	second = param->one_context ? first : host_open(1);
	if (pair->param.mtu > first->port.active_mtu ||
	    pair->param.mtu > second->port.active_mtu)
		SKIP("the port's MTU is %u", mtu_bytes(first->port.active_mtu));
	end_create(&pair->a, first, &pair->param);
	end_create(&pair->b, second, &pair->param);
	pair->b.psn = (pair->b.psn + 1) & 0xffffff;
	end_connect(&pair->b, &pair->a);
	end_connect(&pair->a, &pair->b);
	return pair;
}

struct pair *pair_setup(void)
{
	struct param param = param_default();

	return pair_new(&param);
}

void pair_teardown(struct pair *pair)
{
	end_destroy(&pair->a);
	end_destroy(&pair->b);
	if (pair->b.host != pair->a.host)
		host_close(pair->b.host);
	host_close(pair->a.host);
	free(pair);
}

void pair_reconnect(struct pair *pair)
{
	CHECK_RC(end_modify_state(&pair->a, IBV_QPS_RESET));
	CHECK_RC(end_modify_state(&pair->b, IBV_QPS_RESET));
	end_connect(&pair->b, &pair->a);
	end_connect(&pair->a, &pair->b);
}
