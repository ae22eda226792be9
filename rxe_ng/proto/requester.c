// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Which packet of which request goes next (IBTA 9.7.3, 9.8.2, 9.9.2). */
#include "requester.h"

/* Doublings of the timer: it may take up to four times as long (9.9.2.1). */
#define MAX_BACKOFF 2

static bool reliable(const struct rxng_req *r)
{
	return r->service == RXNG_SERVICE_RC;
}

/**
 * rxng_req_reset - forget all requests and all progress
 * @r: requester
 * @index: ring position at which the next posted request will stand
 */
void rxng_req_reset(struct rxng_req *r, u32 index)
{
	r->head = index;
	r->una_idx = index;
	r->cur = index;
	r->started = index;
	r->tail = index;
	r->draining = false;
	rxng_req_start(r, 0);
}

/**
 * rxng_req_start - set the first PSN and refill the retry counters
 * @r: requester with nothing under way
 * @psn: PSN of the first packet (attribute sq_psn)
 */
void rxng_req_start(struct rxng_req *r, u32 psn)
{
	r->cur_pkt = 0;
	r->psn = psn;
	r->una = psn;
	r->sent = psn;
	r->inflight = 0;
	r->reading = 0;
	r->window = reliable(r) ? RXNG_WINDOW_START : RXNG_WINDOW;
	r->threshold = RXNG_WINDOW;
	r->grown = 0;
	r->recover = psn;
	r->since_ack_req = 0;
	r->asking = 0;
	r->ssn = 1;
	r->lsn = 0;
	r->credits = false;
	r->gap_seen = false;
	r->nak_until = 0;
	r->read_restart = psn;
	r->rd_used = 0;
	r->retry_left = r->retry_cnt;
	r->rnr_left = r->rnr_retry;
	r->backoff = 0;
	r->srtt = 0;
	r->rtt_at = 0;
	r->rtt_psn = psn;
	r->deadline = 0;
	r->rnr_until = 0;
}

/**
 * rxng_req_resume - begin anew after all requests were flushed
 * @r: requester with no request left
 *
 * PSNs go on, so that the peer sees what is missing (9.8.2.2).
 */
void rxng_req_resume(struct rxng_req *r)
{
	r->una_idx = r->head;
	r->cur = r->head;
	r->started = r->head;
	r->cur_pkt = 0;
	r->una = r->psn;
	r->sent = r->psn;
}

static u32 psns_of(const struct rxng_req *r, const struct rxng_swqe *wqe)
{
	if (wqe->kind == RXNG_KIND_NONE)
		return 0;
	if (wqe->kind >= RXNG_KIND_ATOMIC || !wqe->length ||
	    r->service == RXNG_SERVICE_UD)
		return 1;
	return (wqe->length - 1) / r->mtu + 1;
}

static bool takes_receive(const struct rxng_swqe *wqe)
{
	return wqe->kind == RXNG_KIND_SEND ||
	       (wqe->kind == RXNG_KIND_WRITE && wqe->flags & RXNG_SWQE_IMM);
}

/*
 * Without a credit only the first packet of a message may go, alone, and has
 * to be acknowledged before the rest follows (9.7.7.2.5). A message that was
 * begun before credits were counted goes on, until a packet asks for an ACK.
 */
static bool out_of_credit(const struct rxng_req *r,
			  const struct rxng_swqe *wqe)
{
	return r->credits && takes_receive(wqe) &&
	       rxng_psn_diff(wqe->ssn, r->lsn) > 0;
}

static bool credit_waits(const struct rxng_req *r, const struct rxng_swqe *wqe)
{
	if (!out_of_credit(r, wqe))
		return false;
	if (!r->cur_pkt)
		return r->una_idx != r->cur;
	return (r->una_idx != r->cur || r->una == wqe->psn) &&
	       !r->since_ack_req;
}

/* PSNs are given when the first packet is about to go, in ring order. */
static bool start_wqe(struct rxng_req *r, struct rxng_swqe *wqe)
{
	u32 npkts = psns_of(r, wqe);

	if (((r->psn - r->una) & RXNG_PSN_MASK) + npkts > RXNG_PSN_SPAN)
		return false;
	wqe->psn = r->psn;
	wqe->npkts = npkts;
	wqe->ssn = r->ssn;
	if (npkts)
		r->ssn = rxng_psn_add(r->ssn, 1);
	r->psn = rxng_psn_add(r->psn, npkts);
	r->started++;
	return true;
}

static void skip_done(struct rxng_req *r)
{
	while (r->cur != r->started &&
	       rxng_req_wqe(r, r->cur)->state == RXNG_SWQE_DONE) {
		r->cur++;
		r->cur_pkt = 0;
	}
}

/*
 * Those that are done ahead of an acknowledgement are gone through when it comes,
 * and when packets are sent again: so they are bounded.
 */
static enum rxng_req_verdict local_verdict(const struct rxng_req *r,
					   const struct rxng_swqe *wqe)
{
	if (r->cur - r->una_idx >= RXNG_MAX_AHEAD)
		return RXNG_REQ_WAIT;
	if (wqe->flags & RXNG_SWQE_BARRIER && r->una_idx != r->cur)
		return RXNG_REQ_WAIT;
	if (wqe->flags & RXNG_SWQE_FENCE && r->rd_used)
		return RXNG_REQ_WAIT;
	return RXNG_REQ_LOCAL;
}

static bool must_wait(struct rxng_req *r, const struct rxng_swqe *wqe)
{
	if (!r->cur_pkt && wqe->flags & RXNG_SWQE_FENCE && r->rd_used)
		return true;
	if (rxng_kind_has_response(wqe->kind))
		return r->rd_used >= r->max_rd_atomic ||
		       (r->reading && r->reading + wqe->npkts - r->cur_pkt >
					      r->window);
	return r->inflight >= r->window || credit_waits(r, wqe);
}

static void describe_response_request(const struct rxng_req *r,
				      const struct rxng_swqe *wqe,
				      struct rxng_pkt *pkt)
{
	u32 offset = rxng_req_offset(r);

	pkt->flags = RXNG_PKT_START | RXNG_PKT_END;
	pkt->bits = RXNG_PKT_ACK_REQ;
	pkt->va = wqe->raddr + offset;
	if (wqe->kind == RXNG_KIND_ATOMIC) {
		pkt->flags |= RXNG_PKT_ATOMICETH;
		pkt->compare = wqe->compare;
		pkt->swap_add = wqe->swap_add;
		return;
	}
	pkt->flags |= RXNG_PKT_RETH;
	pkt->dma_len = wqe->length - offset;
	if (wqe->kind == RXNG_KIND_FLUSH) {
		pkt->flags |= RXNG_PKT_FETH;
		pkt->feth = wqe->feth;
	} else if (wqe->kind == RXNG_KIND_ATOMIC_WRITE) {
		pkt->payload_len = wqe->length;
	}
}

static void describe_datagram(const struct rxng_swqe *wqe,
			      struct rxng_pkt *pkt)
{
	pkt->flags |= RXNG_PKT_DETH;
	pkt->qpn = wqe->dqpn;
	pkt->qkey = wqe->qkey;
}

/*
 * In the middle of a window, so that the next one follows without a pause, and
 * whenever nothing may follow before an acknowledgement.
 */
static bool asks_for_ack(const struct rxng_req *r, u32 n, bool last)
{
	return reliable(r) &&
	       (last || r->inflight + n == r->window ||
		r->since_ack_req + n >= min((u32)RXNG_ACK_EVERY, r->window / 2));
}

static void describe_data(struct rxng_req *r,
			  const struct rxng_swqe *wqe, u32 max_pkts,
			  struct rxng_pkt *pkt)
{
	u32 left = wqe->npkts - r->cur_pkt;
	u32 n = min3(left, max_pkts, r->window - r->inflight);
	bool limited = out_of_credit(r, wqe) && !r->cur_pkt;

	if (limited)
		n = 1;
	pkt->npkts = n;
	pkt->payload_len = n * r->mtu;
	if (!r->cur_pkt) {
		pkt->flags |= RXNG_PKT_START;
		if (wqe->kind == RXNG_KIND_WRITE) {
			pkt->flags |= RXNG_PKT_RETH;
			pkt->va = wqe->raddr;
			pkt->dma_len = wqe->length;
		}
	}
	if (n == left) {
		pkt->payload_len = wqe->length - rxng_req_offset(r);
		pkt->flags |= RXNG_PKT_END;
		if (wqe->flags & RXNG_SWQE_IMM) {
			pkt->flags |= RXNG_PKT_IMM;
			pkt->imm = wqe->imm;
		} else if (wqe->flags & RXNG_SWQE_INV) {
			pkt->flags |= RXNG_PKT_INV;
			pkt->inv_rkey = wqe->inv_rkey;
		}
		if (wqe->flags & RXNG_SWQE_SOLICITED && takes_receive(wqe))
			pkt->bits |= RXNG_PKT_SOLICITED;
	}
	if (asks_for_ack(r, n, n == left || limited))
		pkt->bits |= RXNG_PKT_ACK_REQ;
	r->asking = pkt->bits & RXNG_PKT_ACK_REQ ? n : 0;
}

/**
 * rxng_req_next - what to do next
 * @r: requester
 * @now: time in nanoseconds
 * @max_pkts: longest burst that the caller takes, at least 1
 * @pkt: filled in for RXNG_REQ_SEND, except the QPs of a connection and the
 *	source QP of a datagram. Its payload starts rxng_req_offset() bytes into
 *	the request at @r->cur; the AckReq bit belongs to its last packet
 *
 * Asking again without rxng_req_sent() gives the same answer.
 *
 * Return: the verdict.
 */
enum rxng_req_verdict rxng_req_next(struct rxng_req *r, u64 now, u32 max_pkts,
				    struct rxng_pkt *pkt)
{
	struct rxng_swqe *wqe;

	if (r->rnr_until) {
		if (now < r->rnr_until)
			return RXNG_REQ_WAIT;
		r->rnr_until = 0;
	}
	skip_done(r);
	if (r->cur == r->tail || (r->cur == r->started && r->draining))
		return RXNG_REQ_IDLE;
	wqe = rxng_req_wqe(r, r->cur);
	if (wqe->state == RXNG_SWQE_FAILED)
		return RXNG_REQ_IDLE;
	if (wqe->kind == RXNG_KIND_NONE) {
		if (r->cur == r->started && !start_wqe(r, wqe))
			return RXNG_REQ_WAIT;
		return local_verdict(r, wqe);
	}
	if (rxng_kind_has_response(wqe->kind) && !r->max_rd_atomic) {
		rxng_req_fail(r, wqe, RXNG_WC_LOC_QP_OP_ERR);
		return RXNG_REQ_IDLE;
	}
	if (r->cur == r->started && !start_wqe(r, wqe))
		return RXNG_REQ_WAIT;
	if (must_wait(r, wqe))
		return RXNG_REQ_WAIT;
	if (r->service == RXNG_SERVICE_UD && wqe->length > r->mtu)
		return RXNG_REQ_TOO_LONG;

	memset(pkt, 0, sizeof(*pkt));
	pkt->kind = wqe->kind;
	pkt->npkts = 1;
	pkt->psn = rxng_psn_add(wqe->psn, r->cur_pkt);
	pkt->rkey = wqe->rkey;
	if (rxng_kind_has_response(wqe->kind))
		describe_response_request(r, wqe, pkt);
	else
		describe_data(r, wqe, max_pkts, pkt);
	if (r->service == RXNG_SERVICE_UD)
		describe_datagram(wqe, pkt);
	pkt->opcode = rxng_opcode_find(r->service, pkt->kind,
				       pkt->npkts > 1 ?
					       pkt->flags & RXNG_PKT_START :
					       pkt->flags,
				       wqe->flags & RXNG_SWQE_CMP_SWAP);
	return RXNG_REQ_SEND;
}

/*
 * Let the timer run afresh while anything is unacknowledged. Where queues make
 * round trips long it takes what the specification allows.
 */
void rxng_req_restart_timer(struct rxng_req *r, u64 now)
{
	u64 timeout = max_t(u64, r->timeout, RXNG_MIN_TIMEOUT_NS);
	u64 longest = timeout << MAX_BACKOFF;

	if (!r->timeout || r->una_idx == r->started || r->una == r->sent ||
	    r->rnr_until)
		r->deadline = 0;
	else
		r->deadline = now + min(max(timeout, 4 * r->srtt) << r->backoff,
					longest);
}

/* What is sent twice cannot be measured (RFC 6298, section 3). */
static void begin_to_measure(struct rxng_req *r, const struct rxng_swqe *wqe,
			     u32 n, u64 now)
{
	u32 end = rxng_psn_add(wqe->psn, r->cur_pkt + n);

	if (r->rtt_at || rxng_psn_diff(end, r->sent) <= 0)
		return;
	r->rtt_at = now;
	r->rtt_psn = end;
}

/* Nobody acknowledges: what has left is complete (9.8.2, 9.8.3). */
static void sent_for_good(struct rxng_req *r, const struct rxng_swqe *wqe,
			  u32 n)
{
	r->cur_pkt += n;
	r->una = rxng_psn_add(wqe->psn, r->cur_pkt);
	r->sent = r->una;
	if (r->cur_pkt < wqe->npkts)
		return;
	r->cur++;
	r->cur_pkt = 0;
	r->una_idx = r->cur;
}

/**
 * rxng_req_sent - packets of the last RXNG_REQ_SEND or TOO_LONG have left
 * @r: requester
 * @n: how many of them, possibly none or fewer than described
 * @now: time in nanoseconds
 */
void rxng_req_sent(struct rxng_req *r, u32 n, u64 now)
{
	struct rxng_swqe *wqe = rxng_req_wqe(r, r->cur);
	u32 end;

	if (!n)
		return;
	if (!reliable(r)) {
		sent_for_good(r, wqe, n);
		return;
	}
	if (rxng_kind_has_response(wqe->kind)) {
		wqe->state = RXNG_SWQE_SLOT;
		r->rd_used++;
		if (r->cur_pkt)
			r->read_restart = rxng_psn_add(wqe->psn, r->cur_pkt);
		r->reading += wqe->npkts - r->cur_pkt;
		r->cur_pkt = wqe->npkts;
		r->since_ack_req = 0;
	} else {
		if (n == r->asking)
			begin_to_measure(r, wqe, n, now);
		r->cur_pkt += n;
		r->inflight += n;
		/* When a burst is cut short its AckReq did not go out. */
		r->since_ack_req = n == r->asking ? 0 : r->since_ack_req + n;
	}
	end = rxng_psn_add(wqe->psn, r->cur_pkt);
	if (((end - r->una) & RXNG_PSN_MASK) >
	    ((r->sent - r->una) & RXNG_PSN_MASK))
		r->sent = end;
	if (r->cur_pkt == wqe->npkts) {
		r->cur++;
		r->cur_pkt = 0;
	}
	if (!r->deadline)
		rxng_req_restart_timer(r, now);
}

/**
 * rxng_req_local_done - the local operation at @cur was carried out
 * @r: requester
 */
void rxng_req_local_done(struct rxng_req *r)
{
	rxng_req_wqe(r, r->cur)->state = RXNG_SWQE_DONE;
	if (r->una_idx == r->cur)
		r->una_idx++;
	r->cur++;
	r->cur_pkt = 0;
}

/**
 * rxng_req_fail - let a request end in error
 * @r: requester
 * @wqe: the request, in [@r->head, @r->tail)
 * @status: its completion status
 *
 * Nothing of it or after it is sent any more. It is reported when all before
 * it have completed (9.9.2.3: errors are reported in order). Its first error
 * counts.
 */
void rxng_req_fail(struct rxng_req *r, struct rxng_swqe *wqe,
		   enum rxng_status status)
{
	if (wqe->state == RXNG_SWQE_FAILED)
		return;
	if (wqe->state == RXNG_SWQE_SLOT)
		r->rd_used--;
	wqe->state = RXNG_SWQE_FAILED;
	wqe->status = status;
}

/**
 * rxng_req_retirable - oldest request, if it has ended
 * @r: requester
 *
 * Return: a request that has completed, or whose state is RXNG_SWQE_FAILED;
 * rxng_req_retire() takes it out. NULL while the oldest is under way, or is
 * held since it was not started (SQD).
 */
struct rxng_swqe *rxng_req_retirable(struct rxng_req *r)
{
	struct rxng_swqe *wqe = rxng_req_wqe(r, r->head);

	if (r->head != r->una_idx)
		return wqe;
	if (r->head == r->tail || (r->draining && r->head == r->started))
		return NULL;
	return wqe->state == RXNG_SWQE_FAILED ? wqe : NULL;
}

/**
 * rxng_req_retire - take the oldest request out
 * @r: requester; rxng_req_retirable() gave a request
 */
void rxng_req_retire(struct rxng_req *r)
{
	r->head++;
}

/**
 * rxng_req_drained - is everything that was started complete?
 * @r: requester
 */
bool rxng_req_drained(const struct rxng_req *r)
{
	return r->una_idx == r->started;
}

/**
 * rxng_req_step_back - send again from the oldest unacknowledged packet on
 * @r: requester
 */
void rxng_req_step_back(struct rxng_req *r)
{
	u32 idx;

	for (idx = r->una_idx; idx != r->started; idx++) {
		struct rxng_swqe *wqe = rxng_req_wqe(r, idx);

		if (wqe->state == RXNG_SWQE_SLOT)
			wqe->state = RXNG_SWQE_POSTED;
	}
	r->rd_used = 0;
	r->inflight = 0;
	r->reading = 0;
	r->since_ack_req = 0;
	r->rtt_at = 0;
	r->cur = r->una_idx;
	r->cur_pkt = 0;
	if (r->una_idx != r->started)
		r->cur_pkt = (r->una - rxng_req_wqe(r, r->una_idx)->psn) &
			     RXNG_PSN_MASK;
}

/**
 * rxng_req_halve_window - have less under way after a loss
 * @r: requester that has stepped back
 *
 * Once for all that was under way when the loss was first seen.
 */
void rxng_req_halve_window(struct rxng_req *r)
{
	if (rxng_psn_diff(r->una, r->recover) < 0)
		return;
	r->threshold = max(r->window / 2, (u32)RXNG_WINDOW_MIN);
	r->window = r->threshold;
	r->grown = 0;
	r->recover = r->sent;
}

/**
 * rxng_req_timeout - look at the clock
 * @r: requester
 * @now: time in nanoseconds
 * @local: packets of this QP still wait on this host; then silence is not the
 *	peer's, and no retry is counted
 *
 * Return: RXNG_COMP_DROP when no time has run out, RXNG_COMP_RETRY when
 * packets go again, RXNG_COMP_FAILED when the retries are used up (9.9.2.4.1).
 */
enum rxng_comp_verdict rxng_req_timeout(struct rxng_req *r, u64 now,
					bool local)
{
	if (!r->deadline || now < r->deadline)
		return RXNG_COMP_DROP;
	if (local) {
		rxng_req_restart_timer(r, now);
		return RXNG_COMP_DROP;
	}
	r->deadline = 0;
	if (r->una_idx == r->started)
		return RXNG_COMP_DROP;
	if (!r->retry_left) {
		rxng_req_fail(r, rxng_req_wqe(r, r->una_idx),
			      RXNG_WC_RETRY_EXC_ERR);
		return RXNG_COMP_FAILED;
	}
	r->retry_left--;
	if (r->backoff < MAX_BACKOFF)
		r->backoff++;
	r->gap_seen = false;
	rxng_req_step_back(r);
	rxng_req_halve_window(r);
	r->window = RXNG_WINDOW_MIN;
	return RXNG_COMP_RETRY;
}

/**
 * rxng_pkt_slice - one packet of a burst
 * @burst: SEND, WRITE or READ response
 * @i: which packet, from 0
 * @mtu: path MTU in bytes
 * @pkt: filled in
 */
void rxng_pkt_slice(const struct rxng_pkt *burst, u32 i, u32 mtu,
		    struct rxng_pkt *pkt)
{
	const u16 first = RXNG_PKT_START | RXNG_PKT_RETH;
	const u16 last = RXNG_PKT_END | RXNG_PKT_IMM | RXNG_PKT_INV;

	*pkt = *burst;
	if (burst->npkts == 1)
		return;
	pkt->npkts = 1;
	pkt->psn = rxng_psn_add(burst->psn, i);
	if (i)
		pkt->flags &= ~first;
	if (i + 1 == burst->npkts) {
		pkt->payload_len = burst->payload_len - i * mtu;
	} else {
		pkt->payload_len = mtu;
		pkt->flags &= ~last;
		pkt->bits &= ~(RXNG_PKT_ACK_REQ | RXNG_PKT_SOLICITED);
	}
	/* Of READ responses those in the middle have no AETH. */
	if (!(pkt->flags & (RXNG_PKT_START | RXNG_PKT_END)))
		pkt->flags &= ~RXNG_PKT_AETH;
	pkt->opcode = rxng_opcode_find(rxng_opcode_service(burst->opcode),
				       pkt->kind, pkt->flags, false);
}
