// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* One end: what wakes it and what it does then. */
#include "sim.h"

#define REST (20 * US)

void end_setup(struct world *w, u8 me)
{
	struct end *e = &w->end[me];
	struct side_plan *plan = &w->plan.side[me];
	u32 index = rng_next(&w->rng);
	u32 i;

	memset(e, 0, offsetof(struct end, inbox));
	memset(e->ring, 0xa5, sizeof(e->ring));
	e->w = w;
	e->me = me;
	e->plan = plan;
	e->peer = &w->end[!me];
	e->region = w->regions[me];
	e->model = w->regions[2 + !me];
	e->more_at = NEVER;
	e->stream_at = NEVER;
	e->resume_at = NEVER;
	e->drain_at = plan->drain_at;
	i = rnd(w, ARENA - REGION);
	memcpy(e->region, arena + i, REGION);
	memcpy(w->regions[2 + me], arena + i, REGION);

	e->req.wqes = e->ring;
	e->req.stride = sizeof(struct slot);
	e->req.mask = RING - 1;
	e->req.mtu = w->plan.mtu;
	e->req.max_rd_atomic = plan->max_rd;
	e->req.retry_cnt = plan->retry_cnt;
	e->req.rnr_retry = plan->rnr_retry;
	e->req.timeout = plan->timeout;
	rxng_req_reset(&e->req, index);
	rxng_req_start(&e->req, plan->first_psn);
	e->last_una = e->req.una;

	e->resp.mtu = w->plan.mtu;
	e->resp.allow = RXNG_ALLOW_WRITE | RXNG_ALLOW_READ |
			RXNG_ALLOW_ATOMIC;
	e->resp.depth = plan->depth;
	rxng_resp_reset(&e->resp);
	rxng_resp_start(&e->resp, w->plan.side[!me].first_psn);

	for (i = 0; i < plan->nrecv; i++)
		plan->recv[i].buf = bump(w, plan->recv[i].length);
	for (i = 0; i < plan->nwork; i++)
		if (plan->work[i].kind == RXNG_KIND_READ)
			plan->work[i].sink = bump(w, plan->work[i].length);
}

/* The QP goes to ERROR: nothing more goes out or is taken in. */
void end_fail(struct end *e, const char *why)
{
	trace(e->w, e->me, "ERROR: %s", why);
	e->error = true;
	e->held = false;
}

void end_take(struct end *e, const struct rxng_pkt *pkt, const u8 *payload)
{
	if (e->error)
		return;
	if (rxng_kind_is_request(pkt->kind))
		answer_request(e, pkt, payload);
	else
		ask_response(e, pkt, payload);
}

static void wake_at(u64 *wake, u64 time)
{
	*wake = min(*wake, time);
}

u64 end_wake(const struct end *e)
{
	const struct side_plan *plan = e->plan;
	u64 wake = NEVER;

	if (e->error)
		return NEVER;
	if (e->req.deadline)
		wake_at(&wake, e->req.deadline);
	if (e->resp.nak_at)
		wake_at(&wake, e->resp.nak_at);
	wake_at(&wake, e->more_at);
	if (e->req.rnr_until && e->more_at == NEVER)
		wake_at(&wake, e->req.rnr_until);
	if (e->posted < plan->nwork && e->req.tail - e->req.head < RING)
		wake_at(&wake, plan->work[e->posted].post_at);
	if (e->recv_posted < plan->nrecv)
		wake_at(&wake, plan->recv[e->recv_posted].post_at);
	if (e->held)
		wake_at(&wake, e->hold_until);
	if (e->streaming)
		wake_at(&wake, e->stream_at);
	wake_at(&wake, e->drain_at);
	wake_at(&wake, e->resume_at);
	return wake;
}

/* SQD in the middle of the work, and back to RTS some time after the drain. */
static void drain(struct end *e)
{
	u64 now = e->w->now;

	if (e->drain_at <= now) {
		e->drain_at = NEVER;
		e->draining = true;
		e->req.draining = true;
		e->started_at_drain = e->req.started;
		trace(e->w, e->me, "drains");
	}
	if (e->draining && e->resume_at == NEVER &&
	    rxng_req_drained(&e->req)) {
		e->resume_at = now + rnd(e->w, REST);
		totals.drains++;
		trace(e->w, e->me, "is drained");
	}
	if (e->resume_at <= now) {
		e->resume_at = NEVER;
		e->draining = false;
		e->req.draining = false;
	}
}

void end_run(struct end *e)
{
	struct world *w = e->w;

	if (e->held && e->hold_until <= w->now)
		wire_release(e);
	while (e->recv_posted < e->plan->nrecv &&
	       e->plan->recv[e->recv_posted].post_at <= w->now)
		e->recv_posted++;
	answer_inbox(e);
	answer_timer(e);
	ask_timer(e);
	ask_post(e);
	drain(e);
	ask_send(e);
	drain(e);
	answer_flush(e);
}
