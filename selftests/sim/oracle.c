// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What must be true. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"
#include "../unit/invariants.h"

void broken(const struct world *w, const char *fmt, ...)
{
	va_list ap;

	printf("not ok 1 seed %llu\n# at %llu.%03llu us: ",
	       (unsigned long long)w->plan.seed,
	       (unsigned long long)(w->now / US),
	       (unsigned long long)(w->now % US));
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n# to see it: sim --seed %llu -v\n",
	       (unsigned long long)w->plan.seed);
	fflush(stdout);
	exit(1);
}

/* Written from the rule behind the table of 9.7.5.2.8, not from timer.c. */
u64 oracle_rnr_ns(u8 code)
{
	if (!code)
		return 65536 * 10 * US;
	if (code == 1)
		return 10 * US;
	return (code & 1 ? 15 * US : 10 * US) << code / 2;
}

static void track_una(struct end *e)
{
	if (e->req.una == e->last_una)
		return;
	if (rxng_psn_diff(e->req.una, e->last_una) < 0)
		broken(e->w, "%c: una went back", "AB"[e->me]);
	e->last_una = e->req.una;
	e->una_since = e->w->now;
	e->retries = 0;
	e->rnrs = 0;
	e->nak_counts_at = 0;
}

/* The peer has the packet, but no receive for it. */
void oracle_rnr(struct end *e)
{
	track_una(e);
	e->una_since = e->w->now;
	e->retries = 0;
	e->nak_counts_at = 0;
	e->rnrs++;
}

void oracle_check(struct end *e)
{
	const char *what = req_broken(&e->req);

	if (what)
		broken(e->w, "%c: not so: %s", "AB"[e->me], what);
	track_una(e);
	if (e->draining && e->req.started != e->started_at_drain)
		broken(e->w, "%c: a request was started in SQD", "AB"[e->me]);
}

/*
 * Faults that may have hurt the oldest unacknowledged packet: those since the
 * packet was sent that was the oldest when this one was sent first. (A late
 * packet makes the peer drop what comes behind it.)
 */
static u32 faults_since_una(const struct end *e)
{
	u32 at = (e->req.una - e->plan->first_psn) & RXNG_PSN_MASK;

	if (at >= e->first_sent)
		return 0;
	return e->faults - e->faults_at[e->una_at[at]];
}

/* READs and atomics that were posted before @work and are not answered. */
static u32 unanswered_before(const struct end *e, const struct work *work)
{
	u32 count = 0, i;

	for (i = e->retired; i < work - e->plan->work; i++)
		count += rxng_kind_has_response(e->plan->work[i].kind);
	return count;
}

void oracle_fence(struct end *e, const struct work *work)
{
	u32 n = unanswered_before(e, work);

	if (work->flags & RXNG_SWQE_FENCE && n)
		broken(e->w, "%c: fenced %u goes before %u READs are answered",
		       "AB"[e->me], (u32)(work - e->plan->work), n);
}

/* Before @n of the described packets leave. */
void oracle_first_send(struct end *e, struct work *work,
		       const struct rxng_pkt *pkt, u32 n)
{
	u32 me = work - e->plan->work;
	u32 at = (pkt->psn - e->plan->first_psn) & RXNG_PSN_MASK;
	u32 under_way = unanswered_before(e, work), i, una;

	if (!n)
		return;
	if (rxng_kind_has_response(work->kind))
		n = work->length ? (work->length - 1) / e->w->plan.mtu + 1 : 1;
	for (i = e->retired; i < me; i++) {
		const struct work *other = &e->plan->work[i];

		if (other->kind != RXNG_KIND_NONE && !other->sent)
			broken(e->w, "%c: %u overtook %u", "AB"[e->me], me, i);
	}
	oracle_fence(e, work);
	if (rxng_kind_has_response(work->kind) &&
	    under_way + 1 > e->plan->max_rd)
		broken(e->w, "%c: %u READs and atomics under way, not %u",
		       "AB"[e->me], under_way + 1, e->plan->max_rd);
	if (!work->sent) {
		work->psn = pkt->psn;
		work->npkts = n;
	}
	work->sent = true;
	if (at > e->first_sent)
		broken(e->w, "%c: a PSN was left out", "AB"[e->me]);
	una = (e->req.una - e->plan->first_psn) & RXNG_PSN_MASK;
	while (e->first_sent < at + n) {
		if (e->first_sent >= MAX_PSN)
			broken(e->w, "more than %u PSNs", MAX_PSN);
		e->faults_at[e->first_sent] = e->faults;
		e->una_at[e->first_sent++] = una;
	}
}

/* NAKs of one packet count once in an ACK timeout. */
void oracle_retry(struct end *e, bool nak)
{
	track_una(e);
	if (!nak || e->w->now >= e->nak_counts_at)
		e->retries++;
	if (nak && e->w->now >= e->nak_counts_at)
		e->nak_counts_at = e->w->now + max(e->plan->timeout,
						   RXNG_MIN_TIMEOUT_NS);
	if (e->retries > e->plan->retry_cnt)
		broken(e->w, "%c: more retries than allowed", "AB"[e->me]);
	if (!faults_since_una(e) && !e->peer->error)
		broken(e->w, "%c: sends again though nothing went wrong",
		       "AB"[e->me]);
}

static void apply(const struct work *work, u8 *memory)
{
	u64 value;

	if (work->kind == RXNG_KIND_WRITE) {
		memcpy(memory + work->at, arena + work->src, work->length);
	} else if (work->kind == RXNG_KIND_ATOMIC) {
		memcpy(&value, memory + work->at, 8);
		if (!(work->flags & RXNG_SWQE_CMP_SWAP))
			value += work->swap_add;
		else if (value == work->compare)
			value = work->swap_add;
		memcpy(memory + work->at, &value, 8);
	}
}

/*
 * A READ that was asked for again may see what later requests wrote that no
 * fence held back. Each byte must be of the model, or of it after one of
 * those requests.
 */
static bool legal_bytes(const struct end *e, u32 from, bool to_fence,
			const u8 *bytes, u32 at, u32 length)
{
	static u8 memory[REGION];
	static bool ok[REGION];
	u32 i, n;

	if (!memcmp(bytes, e->model + at, length))
		return true;
	memcpy(memory, e->model, REGION);
	for (i = 0; i < length; i++)
		ok[i] = bytes[i] == memory[at + i];
	for (n = from; n < e->posted; n++) {
		const struct work *work = &e->plan->work[n];

		if (to_fence && work->flags & RXNG_SWQE_FENCE)
			break;
		if (!work->sent)
			continue;
		if (work->kind == RXNG_KIND_WRITE && !work->executed) {
			/* Perhaps in part. */
			for (i = 0; i < length; i++) {
				u32 byte = at + i - work->at;

				if (at + i >= work->at && byte < work->length)
					ok[i] |= bytes[i] ==
						 arena[work->src + byte];
			}
			continue;
		}
		if (!work->executed)
			continue;
		apply(work, memory);
		for (i = 0; i < length; i++)
			ok[i] |= bytes[i] == memory[at + i];
	}
	for (i = 0; i < length; i++)
		if (!ok[i])
			return false;
	return true;
}

static void check_success(struct end *e, u32 n)
{
	struct work *work = &e->plan->work[n];
	char me = "AB"[e->me];
	u64 orig;

	if (work->trouble)
		broken(e->w, "%c: %u succeeds in spite of trouble %u", me, n,
		       work->trouble);
	if (work->kind == RXNG_KIND_NONE) {
		if (!work->local_done)
			broken(e->w, "%c: local operation %u left out", me, n);
		return;
	}
	if (!work->executed)
		broken(e->w, "%c: %u succeeds but was not executed", me, n);
	if (work->kind == RXNG_KIND_READ) {
		if (work->placed != work->length)
			broken(e->w, "%c: READ %u has %u bytes of %u", me, n,
			       work->placed, work->length);
		if (!legal_bytes(e, n + 1, true, work->sink, work->at,
				 work->length))
			broken(e->w, "%c: READ %u has wrong data", me, n);
	} else if (work->kind == RXNG_KIND_ATOMIC) {
		memcpy(&orig, e->model + work->at, 8);
		if (work->orig != orig)
			broken(e->w, "%c: atomic %u has a wrong result", me, n);
	}
	apply(work, e->model);
}

static void check_retry_exceeded(struct end *e, u32 n)
{
	if (e->retries != e->plan->retry_cnt)
		broken(e->w, "%c: %u gives up after %u retries", "AB"[e->me],
		       n, e->retries);
	if (e->peer->error)
		return;
	if (faults_since_una(e) <= e->plan->retry_cnt)
		broken(e->w, "%c: %u gives up after %u faults", "AB"[e->me], n,
		       faults_since_una(e));
	/* Timeouts or NAKs, each kind at its pace. */
	if (e->w->now - e->una_since <
	    e->plan->retry_cnt / 3 * RXNG_MIN_TIMEOUT_NS)
		broken(e->w, "%c: %u gives up after %llu us", "AB"[e->me], n,
		       (unsigned long long)(e->w->now - e->una_since) / US);
}

static void check_error(struct end *e, u32 n, enum rxng_status status)
{
	static const u8 due[] = {
		[TROUBLE_BAD_RKEY] = RXNG_WC_REM_ACCESS_ERR,
		[TROUBLE_TOO_LONG] = RXNG_WC_REM_INV_REQ_ERR,
		[TROUBLE_BAD_LKEY] = RXNG_WC_LOC_PROT_ERR,
		[TROUBLE_LOCAL] = RXNG_WC_LOC_QP_OP_ERR,
		[TROUBLE_REFUSED] = RXNG_WC_LOC_LEN_ERR,
	};
	const struct work *work = &e->plan->work[n];

	totals.errors[status & 15]++;
	switch (status) {
	case RXNG_WC_RETRY_EXC_ERR:
		check_retry_exceeded(e, n);
		break;
	case RXNG_WC_RNR_RETRY_EXC_ERR:
		if (e->plan->rnr_retry == RXNG_RNR_FOREVER)
			broken(e->w, "%c: for ever has an end", "AB"[e->me]);
		if (e->rnrs != e->plan->rnr_retry)
			broken(e->w, "%c: %u gives up after %u RNR NAKs",
			       "AB"[e->me], n, e->rnrs);
		break;
	default:
		if (!work->trouble || status != due[work->trouble])
			broken(e->w, "%c: %u (trouble %u) has status %u",
			       "AB"[e->me], n, work->trouble, status);
	}
}

void oracle_completed(struct end *e, u32 n, const struct rxng_swqe *wqe)
{
	struct work *work = &e->plan->work[n];

	totals.completed++;
	if (work->completed)
		broken(e->w, "%c: %u completes twice", "AB"[e->me], n);
	work->completed = true;
	if (wqe->state == RXNG_SWQE_FAILED)
		check_error(e, n, wqe->status);
	else
		check_success(e, n);
}

static struct work *next_work(struct end *e, u32 *n, bool receive)
{
	struct side_plan *plan = e->peer->plan;

	while (*n < plan->nwork &&
	       (receive ? !work_takes_receive(&plan->work[*n]) :
			  plan->work[*n].kind == RXNG_KIND_NONE))
		++*n;
	if (*n == plan->nwork)
		broken(e->w, "%c: got more than was sent", "AB"[e->me]);
	return &plan->work[(*n)++];
}

/* A message came in whole: it must be the next one. */
void oracle_executed(struct end *e, const struct rxng_pkt *pkt, u64 orig)
{
	struct work *work = next_work(e, &e->executed, false);
	bool takes = work_takes_receive(work);

	(void)orig;
	if (!work->sent || work->executed || work->kind != pkt->kind)
		broken(e->w, "%c: executes %s out of order", "AB"[e->me],
		       pkt->kind == RXNG_KIND_READ ? "a READ" : "a message");
	if (pkt->kind == RXNG_KIND_READ && pkt->dma_len != work->length)
		broken(e->w, "%c: READ of %u bytes, not %u", "AB"[e->me],
		       pkt->dma_len, work->length);
	if (takes && !(pkt->bits & RXNG_PKT_SOLICITED) !=
			     !(work->flags & RXNG_SWQE_SOLICITED))
		broken(e->w, "%c: solicited event is wrong", "AB"[e->me]);
	work->executed = true;
	e->msn = rxng_psn_add(e->msn, 1);
	if (pkt->kind != RXNG_KIND_READ && pkt->kind != RXNG_KIND_ATOMIC &&
	    e->resp.msn != e->msn)
		broken(e->w, "%c: MSN %u, not %u", "AB"[e->me], e->resp.msn,
		       e->msn);
}

void oracle_received(struct end *e, const struct recv *recv,
		     const struct rxng_pkt *pkt, u32 length)
{
	const struct work *work = next_work(e, &e->received, true);
	const u8 *data = work->kind == RXNG_KIND_SEND ? recv->buf :
							e->region + work->at;

	if (!work->executed || work->kind != pkt->kind)
		broken(e->w, "%c: receive met a wrong message", "AB"[e->me]);
	if (work->kind == RXNG_KIND_SEND && length != work->length)
		broken(e->w, "%c: received %u bytes, not %u", "AB"[e->me],
		       length, work->length);
	if (memcmp(data, arena + work->src, work->length))
		broken(e->w, "%c: received wrong bytes", "AB"[e->me]);
	if (!(pkt->flags & RXNG_PKT_IMM) != !(work->flags & RXNG_SWQE_IMM) ||
	    !(pkt->flags & RXNG_PKT_INV) != !(work->flags & RXNG_SWQE_INV) ||
	    (pkt->flags & (RXNG_PKT_IMM | RXNG_PKT_INV) &&
	     pkt->imm != work->word))
		broken(e->w, "%c: immediate data is wrong", "AB"[e->me]);
	e->recv_done++;
}

/*
 * An ACK that names a PSN of a READ or atomic would say that its result is
 * there; some peers then complete it without.
 */
void oracle_acknowledges(struct end *e, u32 psn)
{
	u32 i;

	for (i = 0; i < e->peer->plan->nwork; i++) {
		const struct work *work = &e->peer->plan->work[i];

		if (work->sent && rxng_kind_has_response(work->kind) &&
		    ((psn - work->psn) & RXNG_PSN_MASK) < work->npkts)
			broken(e->w, "%c: acknowledges a READ or atomic",
			       "AB"[e->me]);
	}
}

static void check_idle(struct end *e)
{
	u32 i;

	if (e->req.head != e->req.tail || e->retired != e->plan->nwork)
		broken(e->w, "%c: stands still at %u of %u", "AB"[e->me],
		       e->retired, e->plan->nwork);
	if (!rxng_req_drained(&e->req) || e->req.una != e->req.psn ||
	    e->req.deadline || e->req.rd_used || e->req.inflight)
		broken(e->w, "%c: not idle at the end", "AB"[e->me]);
	for (i = 0; i < e->plan->nwork; i++)
		if (!e->plan->work[i].completed)
			broken(e->w, "%c: no completion of %u", "AB"[e->me], i);
	if (memcmp(e->model, e->peer->region, REGION))
		broken(e->w, "%c's memory is not as it should be",
		       "AB"[!e->me]);
}

/* Nothing is left to happen. */
void oracle_end(struct world *w)
{
	u32 i;

	for (i = 0; i < 2; i++) {
		struct end *e = &w->end[i];

		if (!e->error)
			check_idle(e);
		else if (!legal_bytes(e, e->retired, false, e->peer->region, 0,
				      REGION))
			broken(w, "%c's memory is not as it should be",
			       "AB"[!e->me]);
	}
}
