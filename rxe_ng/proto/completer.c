// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What a response means for the requests under way (IBTA 9.7.4.1, 9.7.5). */
#include "requester.h"
#include "timer.h"

static u32 outstanding(const struct rxng_req *r)
{
	return (r->sent - r->una) & RXNG_PSN_MASK;
}

static void grow_window(struct rxng_req *r, u32 n)
{
	if (r->window < r->threshold) {
		r->window = min(r->window + n, r->threshold);
		return;
	}
	r->grown += n;
	if (r->grown >= r->window && r->window < RXNG_WINDOW) {
		r->grown = 0;
		r->window++;
	}
}

static void measure(struct rxng_req *r, u64 now)
{
	u64 rtt = now - r->rtt_at;

	if (!r->rtt_at || rxng_psn_diff(r->una, r->rtt_psn) < 0)
		return;
	r->rtt_at = 0;
	r->srtt = r->srtt ? (7 * r->srtt + rtt) / 8 : rtt;
}

/* The peer answered @n packets: retries start afresh. */
static void progress(struct rxng_req *r, u32 n, u64 now)
{
	grow_window(r, n);
	/* Not left behind so far that it would seem to lie ahead. */
	if (rxng_psn_diff(r->una, r->recover) > 0)
		r->recover = r->una;
	measure(r, now);
	r->retry_left = r->retry_cnt;
	r->rnr_left = r->rnr_retry;
	r->backoff = 0;
	r->gap_seen = false;
	r->nak_until = 0;
	rxng_req_restart_timer(r, now);
}

/* Packets sent before a step back may be acknowledged while sending again. */
static void catch_up(struct rxng_req *r)
{
	u32 pkt = 0;

	if ((s32)(r->cur - r->una_idx) > 0)
		return;
	if (r->una_idx != r->started)
		pkt = (r->una - rxng_req_wqe(r, r->una_idx)->psn) &
		      RXNG_PSN_MASK;
	if (r->cur == r->una_idx && r->cur_pkt >= pkt)
		return;
	r->cur = r->una_idx;
	r->cur_pkt = pkt;
}

/* Step over local operations that stand in between and are done. */
static void next_una(struct rxng_req *r)
{
	r->una_idx++;
	while (r->una_idx != r->started) {
		struct rxng_swqe *wqe = rxng_req_wqe(r, r->una_idx);

		if (wqe->kind != RXNG_KIND_NONE ||
		    wqe->state != RXNG_SWQE_DONE)
			break;
		r->una_idx++;
	}
}

/*
 * Acknowledge the @n oldest PSNs. A READ or atomic is not acknowledged by a
 * later packet's ACK: its response is missing (9.7.5.1.2).
 *
 * Returns whether all @n were.
 */
static bool acknowledge(struct rxng_req *r, u32 n, u64 now)
{
	u32 asked = n;

	while (n && r->una_idx != r->started) {
		struct rxng_swqe *wqe = rxng_req_wqe(r, r->una_idx);
		u32 left = wqe->npkts - ((r->una - wqe->psn) & RXNG_PSN_MASK);
		u32 step = min(n, left);

		if (rxng_kind_has_response(wqe->kind) ||
		    wqe->state == RXNG_SWQE_FAILED)
			break;
		r->una = rxng_psn_add(r->una, step);
		r->inflight -= min(r->inflight, step);
		n -= step;
		if (step == left)
			next_una(r);
	}
	if (n != asked) {
		catch_up(r);
		progress(r, asked - n, now);
	}
	return !n;
}

/* All before a request that failed on this host is acknowledged. */
static bool reached_failed(const struct rxng_req *r)
{
	return r->una_idx != r->started &&
	       rxng_req_wqe(r, r->una_idx)->state == RXNG_SWQE_FAILED;
}

static enum rxng_comp_verdict fail(struct rxng_req *r, enum rxng_status status)
{
	rxng_req_fail(r, rxng_req_wqe(r, r->una_idx), status);
	return RXNG_COMP_FAILED;
}

static enum rxng_comp_verdict send_again(struct rxng_req *r)
{
	r->deadline = 0;
	rxng_req_step_back(r);
	rxng_req_halve_window(r);
	return RXNG_COMP_RETRY;
}

/* Send again from @una on; each time without progress costs a retry. */
static enum rxng_comp_verdict retry(struct rxng_req *r)
{
	if (!r->retry_left)
		return fail(r, RXNG_WC_RETRY_EXC_ERR);
	r->retry_left--;
	return send_again(r);
}

static bool sent_beyond_una(const struct rxng_req *r)
{
	if (r->cur != r->una_idx)
		return true;
	return r->una_idx != r->started &&
	       r->cur_pkt != ((r->una - rxng_req_wqe(r, r->una_idx)->psn) &
			      RXNG_PSN_MASK);
}

/* A response is missing: many packets may tell so, one of them counts. */
static enum rxng_comp_verdict response_lost(struct rxng_req *r)
{
	if (r->gap_seen || r->rnr_until || !sent_beyond_una(r))
		return RXNG_COMP_PROGRESS;
	r->gap_seen = true;
	return retry(r);
}

static void take_credits(struct rxng_req *r, const struct rxng_pkt *pkt)
{
	u8 code = pkt->syndrome & RXNG_AETH_VALUE_MASK;

	if ((pkt->syndrome & RXNG_AETH_TYPE_MASK) != RXNG_AETH_ACK)
		return;
	r->credits = code != RXNG_AETH_NO_CREDITS;
	if (r->credits)
		r->lsn = rxng_psn_add(pkt->msn, rxng_credits_decode(code));
}

/* The packet itself arrived, so that transport retries start afresh. */
static enum rxng_comp_verdict rnr_nak(struct rxng_req *r, u8 syndrome, u64 now)
{
	if (r->rnr_until)
		return RXNG_COMP_DROP;
	if (!r->rnr_left)
		return fail(r, RXNG_WC_RNR_RETRY_EXC_ERR);
	if (r->rnr_retry != RXNG_RNR_FOREVER)
		r->rnr_left--;
	r->retry_left = r->retry_cnt;
	r->backoff = 0;
	r->nak_until = 0;
	r->rnr_until = now + rxng_rnr_ns(syndrome & RXNG_AETH_VALUE_MASK);
	r->deadline = 0;
	rxng_req_step_back(r);
	return RXNG_COMP_RNR;
}

/*
 * Packets that change places on the way bring several NAKs of the same packet
 * within a round trip, which may be long when either end is short of CPU. Each
 * sends again, but within an ACK timeout they count as one retry: a peer that
 * answers is not lost.
 */
static enum rxng_comp_verdict nak_sequence(struct rxng_req *r, u64 now)
{
	if (r->rnr_until || !sent_beyond_una(r))
		return RXNG_COMP_PROGRESS;
	if (now < r->nak_until)
		return send_again(r);
	r->nak_until = now + max_t(u64, r->timeout, RXNG_MIN_TIMEOUT_NS);
	return retry(r);
}

static enum rxng_comp_verdict nak(struct rxng_req *r, u8 code, u64 now)
{
	switch (code) {
	case RXNG_NAK_PSN:
		return nak_sequence(r, now);
	case RXNG_NAK_INV_REQ:
		return fail(r, RXNG_WC_REM_INV_REQ_ERR);
	case RXNG_NAK_REM_ACC:
		return fail(r, RXNG_WC_REM_ACCESS_ERR);
	case RXNG_NAK_REM_OP:
		return fail(r, RXNG_WC_REM_OP_ERR);
	default:
		return fail(r, RXNG_WC_BAD_RESP_ERR);
	}
}

/* @ahead: PSNs from the oldest unacknowledged one to the packet's. */
static enum rxng_comp_verdict acknowledgement(struct rxng_req *r,
					      const struct rxng_pkt *pkt,
					      u32 ahead, u64 now)
{
	u8 type = pkt->syndrome & RXNG_AETH_TYPE_MASK;
	bool all;

	take_credits(r, pkt);
	all = acknowledge(r, ahead + (type == RXNG_AETH_ACK), now);
	if (reached_failed(r))
		return RXNG_COMP_PROGRESS;
	if (!all)
		return response_lost(r);
	if (type == RXNG_AETH_ACK)
		return RXNG_COMP_PROGRESS;
	if (type == RXNG_AETH_RNR)
		return rnr_nak(r, pkt->syndrome, now);
	if (type == RXNG_AETH_NAK)
		return nak(r, pkt->syndrome & RXNG_AETH_VALUE_MASK, now);
	return fail(r, RXNG_WC_BAD_RESP_ERR);
}

/*
 * Responses to a READ have their place fixed by their PSN; FLUSH and ATOMIC
 * WRITE are answered as a READ of nothing is (annex A19). A first or only
 * packet stands at the READ's start, or where it was asked for again.
 */
static enum rxng_comp_verdict read_response(struct rxng_req *r,
					    const struct rxng_swqe *wqe,
					    const struct rxng_pkt *pkt,
					    u32 *offset)
{
	u32 at = (r->una - wqe->psn) & RXNG_PSN_MASK;
	bool end = at + pkt->npkts == wqe->npkts;
	bool may_start = !at || r->una == r->read_restart;
	u32 length = wqe->kind == RXNG_KIND_READ ? wqe->length : 0;
	u32 expected;

	if (at + pkt->npkts > wqe->npkts ||
	    !!(pkt->flags & RXNG_PKT_END) != end ||
	    (pkt->flags & RXNG_PKT_START ? !may_start : !at))
		return fail(r, RXNG_WC_BAD_RESP_ERR);
	*offset = at * r->mtu;
	expected = end ? length - *offset : pkt->npkts * r->mtu;
	if (pkt->payload_len != expected)
		return fail(r, RXNG_WC_LOC_LEN_ERR);
	return RXNG_COMP_READ;
}

/**
 * rxng_req_response - take up a response
 * @r: requester
 * @pkt: acknowledge, READ response (or a burst of them) or atomic acknowledge
 * @now: time in nanoseconds
 * @offset: for RXNG_COMP_READ: bytes into the READ at @r->una_idx at which the
 *	payload belongs
 *
 * Return: the verdict. After any but RXNG_COMP_DROP requests may have become
 * retirable.
 */
enum rxng_comp_verdict rxng_req_response(struct rxng_req *r,
					 const struct rxng_pkt *pkt, u64 now,
					 u32 *offset)
{
	u32 ahead = (pkt->psn - r->una) & RXNG_PSN_MASK;
	struct rxng_swqe *wqe;
	bool all;

	if (r->una_idx == r->started || ahead >= outstanding(r)) {
		/* An ACK sent again carries fresh credits. */
		if (pkt->kind == RXNG_KIND_ACK &&
		    (pkt->syndrome & RXNG_AETH_TYPE_MASK) == RXNG_AETH_ACK &&
		    rxng_psn_add(pkt->psn, 1) == r->una) {
			take_credits(r, pkt);
			return RXNG_COMP_PROGRESS;
		}
		return RXNG_COMP_DROP;
	}
	if (reached_failed(r))
		return RXNG_COMP_DROP;
	if (pkt->kind == RXNG_KIND_ACK)
		return acknowledgement(r, pkt, ahead, now);

	all = acknowledge(r, ahead, now);
	if (reached_failed(r))
		return RXNG_COMP_PROGRESS;
	if (!all)
		return response_lost(r);
	wqe = rxng_req_wqe(r, r->una_idx);
	if (pkt->flags & RXNG_PKT_AETH) {
		if ((pkt->syndrome & RXNG_AETH_TYPE_MASK) != RXNG_AETH_ACK)
			return fail(r, RXNG_WC_BAD_RESP_ERR);
		take_credits(r, pkt);
	}
	if (pkt->kind == RXNG_KIND_READ_RESP &&
	    rxng_kind_has_response(wqe->kind) &&
	    wqe->kind != RXNG_KIND_ATOMIC)
		return read_response(r, wqe, pkt, offset);
	if (pkt->kind == RXNG_KIND_ATOMIC_ACK &&
	    wqe->kind == RXNG_KIND_ATOMIC)
		return RXNG_COMP_ATOMIC;
	return fail(r, RXNG_WC_BAD_RESP_ERR);
}

/**
 * rxng_req_answered - the response given by the last verdict was placed
 * @r: requester; the READ or atomic stands at @r->una_idx
 * @npkts: packets of the response
 * @now: time in nanoseconds
 */
void rxng_req_answered(struct rxng_req *r, u32 npkts, u64 now)
{
	struct rxng_swqe *wqe = rxng_req_wqe(r, r->una_idx);

	r->una = rxng_psn_add(r->una, npkts);
	r->reading -= min(r->reading, npkts);
	if (((r->una - wqe->psn) & RXNG_PSN_MASK) == wqe->npkts) {
		if (wqe->state == RXNG_SWQE_SLOT)
			r->rd_used--;
		wqe->state = RXNG_SWQE_DONE;
		next_una(r);
	}
	catch_up(r);
	progress(r, npkts, now);
}
