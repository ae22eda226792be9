// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Running out of memory: contexts, domains, completion queues, queue pairs. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "starve.h"

#define HELD 3			/* completions in a CQ that is resized */

/* ---- contexts ---------------------------------------------------------- */

static int open_context(struct world *w)
{
	w->ctx = ibv_open_device(w->host->ctx->device);
	return got(w->ctx);
}

static void use_context(struct world *w)
{
	struct ibv_pd *pd = ibv_alloc_pd(w->ctx);

	CHECK_ERRNO(pd);
	CHECK_RC(ibv_dealloc_pd(pd));
}

static int close_context(struct world *w)
{
	return ibv_close_device(w->ctx) ? errno : 0;
}

static void undo_context(struct world *w)
{
	CHECK_RC(close_context(w));
}

static void need_context(struct world *w)
{
	CHECK_RC(open_context(w));
}

static int query_device(struct world *w)
{
	struct ibv_device_attr attr;

	return ibv_query_device(w->host->ctx, &attr);
}

static int query_port(struct world *w)
{
	struct ibv_port_attr attr;

	return ibv_query_port(w->host->ctx, 1, &attr);
}

static int query_gid(struct world *w)
{
	union ibv_gid gid;

	return ibv_query_gid(w->host->ctx, 1, w->host->gid_index, &gid) ?
	       errno : 0;
}

/* ---- protection domains ------------------------------------------------ */

static int alloc_pd(struct world *w)
{
	w->pd = ibv_alloc_pd(w->host->ctx);
	return got(w->pd);
}

static int dealloc_pd(struct world *w)
{
	return ibv_dealloc_pd(w->pd);
}

static void undo_pd(struct world *w)
{
	CHECK_RC(dealloc_pd(w));
}

static void need_pd(struct world *w)
{
	CHECK_RC(alloc_pd(w));
}

/* ---- completion queues ------------------------------------------------- */

static void need_channel(struct world *w)
{
	w->channel = ibv_create_comp_channel(w->host->ctx);
	CHECK_ERRNO(w->channel);
}

static void free_channel(struct world *w)
{
	int err = ibv_destroy_comp_channel(w->channel);

	if (!w->half)
		CHECK_RC(err);
}

static int create_channel(struct world *w)
{
	w->channel = ibv_create_comp_channel(w->host->ctx);
	return got(w->channel);
}

static int create_cq(struct world *w)
{
	w->cq = ibv_create_cq(w->host->ctx, w->verb->size, NULL, w->channel,
			      0);
	return got(w->cq);
}

static int create_cq_ex(struct world *w)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = w->verb->size,
		.channel = w->channel,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(w->host->ctx, &attr);

	w->cq = cq ? ibv_cq_ex_to_cq(cq) : NULL;
	return got(cq);
}

static int destroy_cq(struct world *w)
{
	return ibv_destroy_cq(w->cq);
}

static void undo_cq(struct world *w)
{
	CHECK_RC(destroy_cq(w));
}

/* A connected QP that completes to this CQ; let n sends complete. */
static void ping_cq(struct world *w, struct states *s, unsigned int n)
{
	memset(s, 0, sizeof(*s));
	s->param = param_default();
	end_create(&s->end, w->host, &s->param);
	end_create(&s->peer, w->host, &s->param);
	CHECK_RC(ibv_destroy_qp(s->end.qp));
	CHECK_RC(ibv_destroy_cq(s->end.scq));
	s->end.scq = w->cq;
	s->end.qp = ibv_create_qp(w->host->pd, &(struct ibv_qp_init_attr) {
		.send_cq = w->cq,
		.recv_cq = s->end.rcq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	});
	CHECK_ERRNO(s->end.qp);
	end_connect(&s->peer, &s->end);
	end_connect(&s->end, &s->peer);
	while (n--) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, n, NULL, 0,
						IBV_SEND_SIGNALED);

		end_recv(&s->peer, n, NULL, 0);
		end_send(&s->end, &wr);
		wc_expect(s->peer.rcq, n, IBV_WC_SUCCESS);
	}
}

static void ping_cq_end(struct states *s)
{
	CHECK_RC(ibv_destroy_qp(s->end.qp));
	CHECK_RC(ibv_destroy_cq(s->end.rcq));
	end_destroy(&s->peer);
}

static void use_cq(struct world *w)
{
	struct states s;

	ping_cq(w, &s, 1);
	wc_expect(w->cq, 0, IBV_WC_SUCCESS);
	wc_none(w->cq);
	ping_cq_end(&s);
}

static void need_cq(struct world *w)
{
	CHECK_RC(create_cq(w));
}

/* A small one that holds completions. */
static void need_held_cq(struct world *w)
{
	w->cq = ibv_create_cq(w->host->ctx, 10, NULL, NULL, 0);
	CHECK_ERRNO(w->cq);
	ping_cq(w, &w->states, HELD);
}

static int resize_cq(struct world *w)
{
	return ibv_resize_cq(w->cq, w->verb->size);
}

static void use_held_cq(struct world *w)
{
	unsigned int n;

	CHECK(w->cq->cqe >= w->verb->size);
	for (n = HELD; n--; )
		wc_expect(w->cq, n, IBV_WC_SUCCESS);
	wc_none(w->cq);
}

static void undo_held_cq(struct world *w)
{
	ping_cq_end(&w->states);
	undo_cq(w);
}

static int arm_cq(struct world *w)
{
	return ibv_req_notify_cq(w->cq, 0);
}

/* ---- queue pairs ------------------------------------------------------- */

static int destroy_qp(struct world *w)
{
	return ibv_destroy_qp(w->qp);
}

static void undo_qp(struct world *w)
{
	CHECK_RC(destroy_qp(w));
}

/* It connects, and a message gets through. */
static void use_qp(struct world *w)
{
	struct end end = w->pair->a, peer;

	end.qp = w->qp;
	end_create(&peer, w->host, &w->pair->param);
	end_connect(&peer, &end);
	end_connect(&end, &peer);
	end_ping(&end, &peer);
	end_ping(&peer, &end);
	end_destroy(&peer);
}

static void need_qp(struct world *w)
{
	CHECK_RC(create_qp(w));
}

static void need_states(struct world *w)
{
	states_open(&w->states, IBV_QPT_RC);
}

static void reach_from(struct world *w)
{
	states_reach(&w->states, w->verb->from);
}

static int modify_qp(struct world *w)
{
	struct end *end = &w->states.end;
	struct ibv_qp_attr attr = { .qp_state = w->verb->to };
	int mask = IBV_QP_STATE;

	if (w->verb->to == IBV_QPS_INIT)
		mask = end_init_attr(end, &attr);
	else if (w->verb->to == IBV_QPS_RTR)
		mask = end_rtr_attr(end, &w->states.peer, &attr);
	else if (w->verb->from == IBV_QPS_RTR)
		mask = end_rts_attr(end, &attr);
	return ibv_modify_qp(end->qp, &attr, mask);
}

static void check_to(struct world *w)
{
	end_wait_state(&w->states.end, w->verb->to);
}

static void still_from(struct world *w)
{
	CHECK_EQ(end_state(&w->states.end), w->verb->from);
}

static int query_qp(struct world *w)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(w->states.end.qp, &attr, IBV_QP_STATE, &init);
}

static void free_states(struct world *w)
{
	states_close(&w->states);
}

/* ---- address handles --------------------------------------------------- */

static int create_ah(struct world *w)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {
			.dgid = w->host->gid,
			.sgid_index = w->host->gid_index,
			.hop_limit = 64,
		},
	};

	w->ah = ibv_create_ah(w->host->pd, &attr);
	return got(w->ah);
}

static int destroy_ah(struct world *w)
{
	return ibv_destroy_ah(w->ah);
}

static void undo_ah(struct world *w)
{
	CHECK_RC(destroy_ah(w));
}

static void need_ah(struct world *w)
{
	CHECK_RC(create_ah(w));
}

/* ---- mappings ---------------------------------------------------------- */

/* The last ring that is mapped: one of the large QP's. */
static void find_ring(struct world *w)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long start, end, offset;
	char line[512];

	CHECK_ERRNO(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strstr(line, "/dev/infiniband/uverbs") ||
		    sscanf(line, "%lx-%lx %*s %lx", &start, &end,
			   &offset) != 3 || end - start < w->ring_size)
			continue;
		w->ring_size = end - start;
		w->ring_offset = offset;
	}
	fclose(f);
	CHECK(w->ring_size);
}

static void need_ring(struct world *w)
{
	need_qp(w);
	find_ring(w);
}

static int map_ring(struct world *w)
{
	w->ring = mmap(NULL, w->ring_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		       w->host->ctx->cmd_fd, w->ring_offset);
	return w->ring == MAP_FAILED ? errno : 0;
}

static void use_ring(struct world *w)
{
	volatile const uint8_t *ring = w->ring;
	size_t i;

	for (i = 0; i < w->ring_size; i += PAGE)
		(void)ring[i];
}

static void unmap_ring(struct world *w)
{
	CHECK_ERRNO(!munmap(w->ring, w->ring_size));
}

/* ---- all of them ------------------------------------------------------- */

#define MODIFY_CASE(label, a, b)					\
	{ "modify_qp_" label, modify_qp, check_to, NULL, need_states,	\
	  reach_from, free_states, .untouched = still_from,		\
	  .from = IBV_QPS_##a, .to = IBV_QPS_##b }

static const struct verb verbs[] = {
	{ "open_device", open_context, .check = use_context,
	  .undo = undo_context },
	{ "close_device", close_context, .before = need_context, .ends = true,
	  .quiet = true },
	{ "query_device", .call = query_device },
	{ "query_port", .call = query_port },
	{ "query_gid", .call = query_gid },
	{ "alloc_pd", alloc_pd, .undo = undo_pd },
	{ "dealloc_pd", dealloc_pd, .before = need_pd, .ends = true },
	{ "create_comp_channel", create_channel, .undo = free_channel },
	{ "create_cq", create_cq, use_cq, undo_cq, .size = 10 },
	{ "create_cq_large", create_cq, use_cq, undo_cq, .size = 30000 },
	{ "create_cq_channel", create_cq, use_cq, undo_cq, need_channel, NULL,
	  free_channel, .size = 100 },
	{ "create_cq_ex", create_cq_ex, use_cq, undo_cq, .size = 100 },
	{ "destroy_cq", destroy_cq, .before = need_cq, .ends = true,
	  .size = 100 },
	{ "destroy_cq_channel", destroy_cq, NULL, NULL, need_channel, need_cq,
	  free_channel, .ends = true, .size = 100 },
	{ "resize_cq", resize_cq, use_held_cq, undo_held_cq, NULL,
	  need_held_cq, .size = 5000 },
	{ "arm_cq", arm_cq, NULL, NULL, need_cq, NULL, undo_cq, .size = 10 },
	{ "create_qp", create_qp, use_qp, undo_qp, .size = 10 },
	{ "create_qp_large", create_qp, use_qp, undo_qp, .size = 8000 },
	{ "destroy_qp", destroy_qp, .before = need_qp, .ends = true,
	  .size = 100 },
	MODIFY_CASE("reset_init", RESET, INIT),
	MODIFY_CASE("init_rtr", INIT, RTR),
	MODIFY_CASE("rtr_rts", RTR, RTS),
	MODIFY_CASE("rts_sqd", RTS, SQD),
	MODIFY_CASE("sqd_rts", SQD, RTS),
	MODIFY_CASE("rts_err", RTS, ERR),
	MODIFY_CASE("err_reset", ERR, RESET),
	MODIFY_CASE("rts_reset", RTS, RESET),
	{ "query_qp", query_qp, .open = need_states, .close = free_states },
	{ "create_ah", create_ah, .undo = undo_ah },
	{ "destroy_ah", destroy_ah, .before = need_ah, .ends = true },
	{ "mmap", map_ring, use_ring, unmap_ring, need_ring, NULL, undo_qp,
	  .size = 8000 },
};

TEST_EACH_LIMIT(verb, verbs, 300)
{
	starve(arg);
}
