// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "responder.h"

static u32 read_npkts(const struct rxng_resp *r, u32 len)
{
	return len ? (len - 1) / r->mtu + 1 : 1;
}

/**
 * rxng_resp_reset - back to the state of a new QP
 * @r: responder; @service, @mtu, @allow and @depth are set by the caller
 */
void rxng_resp_reset(struct rxng_resp *r)
{
	r->msn = 0;
	r->msg = RXNG_KIND_NONE;
	r->got = 0;
	r->resid = 0;
	r->next_resource = 0;
	memset(r->resources, 0, sizeof(r->resources));
	rxng_resp_start(r, 0);
}

/**
 * rxng_resp_start - set the PSN of the first request
 * @r: responder that has received nothing
 * @psn: attribute rq_psn
 */
void rxng_resp_start(struct rxng_resp *r, u32 psn)
{
	r->epsn = psn;
	r->ack_psn = rxng_psn_add(psn, RXNG_PSN_MASK);
	r->gap = RXNG_GAP_NONE;
	r->nak_at = 0;
}

static void reverse(struct rxng_resource *first, u32 n)
{
	u32 i;

	for (i = 0; i < n / 2; i++)
		swap(first[i], first[n - 1 - i]);
}

/**
 * rxng_resp_set_depth - set how many READs and atomics are remembered
 * @r: responder
 * @depth: attribute max_dest_rd_atomic
 *
 * In SQD that may happen while the peer goes on: the newest are kept.
 */
void rxng_resp_set_depth(struct rxng_resp *r, u8 depth)
{
	u32 keep = min(r->depth, depth);

	if (depth == r->depth)
		return;
	if (keep) {
		/* A ring, turned so that the newest are the first, in order. */
		u32 from = (r->next_resource + r->depth - keep) % r->depth;

		reverse(r->resources, from);
		reverse(r->resources + from, r->depth - from);
		reverse(r->resources, r->depth);
	}
	memset(r->resources + keep, 0,
	       (RXNG_MAX_RESOURCES - keep) * sizeof(*r->resources));
	r->depth = depth;
	r->next_resource = depth ? keep % depth : 0;
}

static struct rxng_resource *nth_newest(struct rxng_resp *r, u32 n)
{
	return &r->resources[(r->next_resource + r->depth - n) % r->depth];
}

static struct rxng_resource *find_resource(struct rxng_resp *r,
					   const struct rxng_pkt *pkt)
{
	u32 i;

	/* The newest first: PSNs come round again before entries do. */
	for (i = 1; i <= r->depth; i++) {
		struct rxng_resource *res = nth_newest(r, i);

		if (res->kind == pkt->kind &&
		    ((pkt->psn - res->psn) & RXNG_PSN_MASK) < res->npkts)
			return res;
	}
	return NULL;
}

/*
 * A READ may be asked for again from its middle to its end (9.7.5.1.5): the
 * same bytes under the same key, nothing else.
 */
static bool same_read(const struct rxng_resp *r,
		      const struct rxng_resource *res,
		      const struct rxng_pkt *pkt)
{
	u32 at = (pkt->psn - res->psn) & RXNG_PSN_MASK;
	u64 offset = (u64)at * r->mtu;

	return pkt->rkey == res->rkey && pkt->va == res->va + offset &&
	       offset + pkt->dma_len == res->len;
}

static enum rxng_resp_verdict duplicate(struct rxng_resp *r,
					const struct rxng_pkt *pkt,
					struct rxng_resource **res)
{
	if (!rxng_kind_is_request(pkt->kind))
		return RXNG_RESP_DROP;
	if (!rxng_kind_has_response(pkt->kind))
		return RXNG_RESP_ACK_AGAIN;
	*res = find_resource(r, pkt);
	if (!*res)
		return RXNG_RESP_DROP;
	if (pkt->kind == RXNG_KIND_READ && (!(r->allow & RXNG_ALLOW_READ) ||
					    !same_read(r, *res, pkt)))
		return RXNG_RESP_DROP;
	/* The peer has gone back: a gap behind it needs no other NAK. */
	r->nak_at = 0;
	return pkt->kind == RXNG_KIND_ATOMIC ? RXNG_RESP_ATOMIC_AGAIN :
					       RXNG_RESP_READ_AGAIN;
}

/*
 * One NAK for a gap. The PSN that caused it comes again, or an older one, when
 * the peer goes through its packets once more and the missing one was lost
 * again: tell it without waiting for its timer. After an RNR NAK that is any
 * PSN that is not newer than all that came since. Newer ones tell nothing,
 * though they may have changed places on the way.
 */
static enum rxng_resp_verdict out_of_sequence(struct rxng_resp *r,
					      const struct rxng_pkt *pkt)
{
	if (r->gap != RXNG_GAP_NONE &&
	    rxng_psn_diff(pkt->psn, r->gap_psn) > 0) {
		if (r->gap == RXNG_GAP_RNR)
			r->gap_psn = pkt->psn;
		return RXNG_RESP_DROP;
	}
	r->gap = RXNG_GAP_NAK;
	r->gap_psn = pkt->psn;
	return RXNG_RESP_NAK_PSN;
}

/* The part of a burst before @epsn was received already. */
static void trim_front(struct rxng_resp *r, struct rxng_pkt *pkt, u32 n)
{
	pkt->psn = rxng_psn_add(pkt->psn, n);
	pkt->npkts -= n;
	pkt->payload_len -= n * r->mtu;
	pkt->flags &= ~(RXNG_PKT_START | RXNG_PKT_RETH);
}

/* Sizes that a packet of a message may have (9.7.4.1.6, 9.7.4.1.7). */
static bool data_length_ok(const struct rxng_resp *r,
			   const struct rxng_pkt *pkt)
{
	u32 most = pkt->npkts * r->mtu;
	u32 least = most - r->mtu;

	if (!(pkt->flags & RXNG_PKT_END))
		return pkt->payload_len == most;
	if (pkt->flags & RXNG_PKT_START && pkt->npkts == 1)
		return pkt->payload_len <= most;
	return pkt->payload_len > least && pkt->payload_len <= most;
}

static bool write_ok(const struct rxng_resp *r, const struct rxng_pkt *pkt)
{
	bool start = pkt->flags & RXNG_PKT_START;
	u32 resid = start ? pkt->dma_len : r->resid;

	if (!(r->allow & RXNG_ALLOW_WRITE) || resid > RXNG_MAX_MESSAGE)
		return false;
	return pkt->flags & RXNG_PKT_END ? pkt->payload_len == resid :
					   pkt->payload_len < resid;
}

static bool send_ok(const struct rxng_resp *r, const struct rxng_pkt *pkt)
{
	u32 got = pkt->flags & RXNG_PKT_START ? 0 : r->got;

	return pkt->payload_len <= RXNG_MAX_MESSAGE - got;
}

/* Placements that exist and are allowed, and a level that exists (annex A19). */
static bool flush_ok(const struct rxng_resp *r, u32 feth)
{
	u32 rights = rxng_flush_rights(feth);

	return rights && !(rights & ~(r->allow & RXNG_ALLOW_FLUSH)) &&
	       rxng_flush_level(feth) <= RXNG_FLUSH_REGION;
}

/* Opcode sequence, enabled operations and lengths (9.7.4.1.2 to 9.7.4.1.7). */
static bool valid(const struct rxng_resp *r, const struct rxng_pkt *pkt)
{
	bool start = pkt->flags & RXNG_PKT_START;

	if (r->msg == RXNG_KIND_NONE ? !start : start || pkt->kind != r->msg)
		return false;
	switch (pkt->kind) {
	case RXNG_KIND_SEND:
		return data_length_ok(r, pkt) && send_ok(r, pkt);
	case RXNG_KIND_WRITE:
		return data_length_ok(r, pkt) && write_ok(r, pkt);
	case RXNG_KIND_READ:
		return r->allow & RXNG_ALLOW_READ && r->depth &&
		       pkt->dma_len <= RXNG_MAX_MESSAGE;
	case RXNG_KIND_ATOMIC:
		return r->allow & RXNG_ALLOW_ATOMIC && r->depth &&
		       !(pkt->va & 7);
	case RXNG_KIND_FLUSH:
		return r->depth && flush_ok(r, pkt->feth);
	case RXNG_KIND_ATOMIC_WRITE:
		return r->allow & RXNG_ALLOW_WRITE && r->depth &&
		       !(pkt->va & 7) &&
		       pkt->dma_len == RXNG_ATOMIC_WRITE_LEN &&
		       pkt->payload_len == RXNG_ATOMIC_WRITE_LEN;
	default:
		return false;
	}
}

/*
 * Nothing is said. A message that misses a packet is lost, and with it what is
 * left of it; the next one starts afresh with whatever PSN it has (9.8.2.2.1).
 * Datagrams are all alone, and their PSNs mean nothing (9.8.3.1).
 */
static enum rxng_resp_verdict unreliable(struct rxng_resp *r,
					 const struct rxng_pkt *pkt)
{
	bool start = pkt->flags & RXNG_PKT_START;
	bool expected;

	if (start) {
		r->msg = RXNG_KIND_NONE;
		r->epsn = pkt->psn;
	}
	expected = pkt->psn == r->epsn && (start || r->msg != RXNG_KIND_NONE);
	if (expected && valid(r, pkt))
		return RXNG_RESP_EXECUTE;
	r->msg = RXNG_KIND_NONE;
	return expected ? RXNG_RESP_NAK_INVALID : RXNG_RESP_DROP;
}

/**
 * rxng_resp_request - judge a request
 * @r: responder
 * @pkt: request packet or burst; what was received before is cut off it
 * @skip: packets that were cut off the front; their payload is to be skipped
 * @res: for RXNG_RESP_READ_AGAIN and RXNG_RESP_ATOMIC_AGAIN: what is recorded
 *
 * Except for the NAK's bookkeeping nothing changes until rxng_resp_done().
 *
 * Return: the verdict.
 */
enum rxng_resp_verdict rxng_resp_request(struct rxng_resp *r,
					 struct rxng_pkt *pkt, u32 *skip,
					 struct rxng_resource **res)
{
	s32 diff = rxng_psn_diff(pkt->psn, r->epsn);

	*skip = 0;
	*res = NULL;
	if (r->service != RXNG_SERVICE_RC)
		return unreliable(r, pkt);
	if (diff > 0)
		return out_of_sequence(r, pkt);
	if (diff < 0) {
		if (diff + pkt->npkts <= 0)
			return duplicate(r, pkt, res);
		*skip = -diff;
		trim_front(r, pkt, *skip);
	}
	return valid(r, pkt) ? RXNG_RESP_EXECUTE : RXNG_RESP_NAK_INVALID;
}

/**
 * rxng_resp_target - where a WRITE's payload goes
 * @r: responder
 * @pkt: WRITE packet with verdict RXNG_RESP_EXECUTE
 * @target: filled in
 */
void rxng_resp_target(const struct rxng_resp *r, const struct rxng_pkt *pkt,
		      struct rxng_write_target *target)
{
	bool start = pkt->flags & RXNG_PKT_START;

	target->va = start ? pkt->va : r->va;
	target->rkey = start ? pkt->rkey : r->rkey;
}

static struct rxng_resource *record(struct rxng_resp *r,
				    const struct rxng_pkt *pkt, u64 orig)
{
	struct rxng_resource *res = &r->resources[r->next_resource];

	*res = (struct rxng_resource){
		.kind = pkt->kind,
		.psn = pkt->psn,
		.npkts = 1,
		.msn = r->msn,
		.rkey = pkt->rkey,
		.va = pkt->va,
		.orig = orig,
	};
	if (pkt->kind == RXNG_KIND_READ) {
		res->len = pkt->dma_len;
		res->npkts = read_npkts(r, pkt->dma_len);
	}
	r->next_resource++;
	if (r->next_resource >= r->depth)
		r->next_resource = 0;
	return res;
}

static void advance_message(struct rxng_resp *r, const struct rxng_pkt *pkt)
{
	if (pkt->flags & RXNG_PKT_START) {
		r->got = 0;
		if (pkt->kind == RXNG_KIND_WRITE) {
			r->va = pkt->va;
			r->rkey = pkt->rkey;
			r->resid = pkt->dma_len;
		}
	}
	r->got += pkt->payload_len;
	if (pkt->kind == RXNG_KIND_WRITE) {
		r->va += pkt->payload_len;
		r->resid -= pkt->payload_len;
	}
	r->msg = pkt->flags & RXNG_PKT_END ? RXNG_KIND_NONE : pkt->kind;
}

/**
 * rxng_resp_done - the request was carried out
 * @r: responder
 * @pkt: the request as rxng_resp_request() left it
 * @orig: for an atomic: the original value
 *
 * Return: for a request that has a response, the record from which it is
 * answered, now and if it comes again; NULL for the rest.
 */
struct rxng_resource *rxng_resp_done(struct rxng_resp *r,
				     const struct rxng_pkt *pkt, u64 orig)
{
	struct rxng_resource *res = NULL;
	u32 npkts = pkt->npkts;

	if (pkt->flags & RXNG_PKT_END)
		r->msn = rxng_psn_add(r->msn, 1);
	if (rxng_kind_has_response(pkt->kind)) {
		res = record(r, pkt, orig);
		npkts = res->npkts;
	} else {
		advance_message(r, pkt);
	}
	r->epsn = rxng_psn_add(r->epsn, npkts);
	if (!res)
		r->ack_psn = rxng_psn_add(r->epsn, RXNG_PSN_MASK);
	r->gap = RXNG_GAP_NONE;
	r->nak_at = 0;
	return res;
}

/**
 * rxng_resp_lost - a packet of an unreliable service could not be carried out
 * @r: responder that gave RXNG_RESP_EXECUTE
 *
 * Its message is lost; the peer is not told (9.8.2.2.7).
 */
void rxng_resp_lost(struct rxng_resp *r)
{
	r->msg = RXNG_KIND_NONE;
}

/**
 * rxng_resp_nak_sent - the NAK of a gap is on its way
 * @r: responder that gave RXNG_RESP_NAK_PSN
 * @timeout: the QP's ACK timeout in nanoseconds, 0 without one
 * @now: time in nanoseconds
 *
 * Should it get lost, the peer would wait for its own timer, whose length both
 * ends usually agree on: a quarter of it is more than a round trip.
 */
void rxng_resp_nak_sent(struct rxng_resp *r, u64 timeout, u64 now)
{
	u64 wait = RXNG_NAK_WAIT_NS;

	if (timeout)
		wait = max_t(u64, timeout / 4, RXNG_MIN_NAK_WAIT_NS);
	r->nak_at = now + wait;
}

/**
 * rxng_resp_timeout - is a gap's NAK to be sent once more?
 * @r: responder
 * @now: time in nanoseconds
 *
 * Once for each NAK: a peer may count them as retries.
 *
 * Return: true when @epsn has to be NAKed.
 */
bool rxng_resp_timeout(struct rxng_resp *r, u64 now)
{
	if (!r->nak_at || now < r->nak_at)
		return false;
	r->nak_at = 0;
	return r->gap == RXNG_GAP_NAK;
}

/**
 * rxng_resp_not_ready - the request met no receive request and got an RNR NAK
 * @r: responder
 * @pkt: the request
 *
 * What the peer sent behind it is dropped without a NAK until it comes again
 * (9.7.5.2.8).
 */
void rxng_resp_not_ready(struct rxng_resp *r, const struct rxng_pkt *pkt)
{
	r->gap = RXNG_GAP_RNR;
	r->gap_psn = pkt->psn;
}

/**
 * rxng_resp_ack - describe an acknowledgement or NAK
 * @r: responder
 * @syndrome: what the AETH says (9.7.5.2.1)
 * @psn: its PSN
 * @pkt: filled in, except destination QP
 */
void rxng_resp_ack(const struct rxng_resp *r, u8 syndrome, u32 psn,
		   struct rxng_pkt *pkt)
{
	*pkt = (struct rxng_pkt){
		.opcode = RXNG_RC_ACK,
		.kind = RXNG_KIND_ACK,
		.flags = RXNG_PKT_START | RXNG_PKT_END | RXNG_PKT_AETH,
		.psn = psn,
		.npkts = 1,
		.syndrome = syndrome,
		.msn = r->msn,
	};
}

/**
 * rxng_resp_atomic_ack - describe the response to an atomic
 * @res: the atomic
 * @syndrome: acknowledgement with credits
 * @pkt: filled in, except destination QP
 */
void rxng_resp_atomic_ack(const struct rxng_resource *res, u8 syndrome,
			  struct rxng_pkt *pkt)
{
	*pkt = (struct rxng_pkt){
		.opcode = RXNG_RC_ATOMIC_ACK,
		.kind = RXNG_KIND_ATOMIC_ACK,
		.flags = RXNG_PKT_START | RXNG_PKT_END | RXNG_PKT_AETH |
			 RXNG_PKT_ATOMICACK,
		.psn = res->psn,
		.npkts = 1,
		.syndrome = syndrome,
		.msn = res->msn,
		.orig = res->orig,
	};
}

/**
 * rxng_resp_answered - all of an answer was sent
 * @r: responder
 * @res: what was answered, as it was recorded
 */
void rxng_resp_answered(struct rxng_resp *r, const struct rxng_resource *res)
{
	u32 i;

	for (i = 1; i <= r->depth; i++) {
		struct rxng_resource *own = nth_newest(r, i);

		if (own->kind == res->kind && own->psn == res->psn) {
			own->answered = true;
			return;
		}
	}
}

/**
 * rxng_resp_asks_again - is the rest of a READ's answer of no use any more?
 * @res: the READ that is being answered
 * @next: packet of it that goes next
 * @pkt: a request that came meanwhile
 *
 * Who asks again for what was sent has lost some of it, and drops all that
 * follows (9.7.5.1.5).
 *
 * Return: true when @pkt should be taken up at once.
 */
bool rxng_resp_asks_again(const struct rxng_resource *res, u32 next,
			  const struct rxng_pkt *pkt)
{
	return res->kind == RXNG_KIND_READ && pkt->kind == RXNG_KIND_READ &&
	       ((pkt->psn - res->psn) & RXNG_PSN_MASK) < next;
}

/**
 * rxng_resp_asks_earlier - does a request want something older answered?
 * @res: the READ that is being answered
 * @pkt: a request that came meanwhile
 *
 * A peer that steps back so far asks for this READ once more behind it.
 *
 * Return: true when @pkt repeats a request before the READ that has a response.
 */
bool rxng_resp_asks_earlier(const struct rxng_resource *res,
			    const struct rxng_pkt *pkt)
{
	return rxng_kind_has_response(pkt->kind) &&
	       rxng_psn_diff(pkt->psn, res->psn) < 0;
}

/**
 * rxng_resp_read_burst - describe the next packets of a READ's response
 * @res: the READ
 * @mtu: path MTU in bytes
 * @first: packet of the READ at which this answer begins: 0, or where a
 *	repeated request asked it to
 * @from: next packet to be sent, at least @first
 * @max_pkts: longest burst that the caller takes
 * @pkt: filled in, except destination QP and credits in the syndrome; the
 *	payload stands (@from * @mtu) bytes into the READ
 */
void rxng_resp_read_burst(const struct rxng_resource *res, u32 mtu, u32 first,
			  u32 from, u32 max_pkts, struct rxng_pkt *pkt)
{
	u32 n = min(res->npkts - from, max_pkts);

	memset(pkt, 0, sizeof(*pkt));
	pkt->kind = RXNG_KIND_READ_RESP;
	pkt->psn = rxng_psn_add(res->psn, from);
	pkt->npkts = n;
	pkt->msn = res->msn;
	pkt->syndrome = RXNG_AETH_ACK | RXNG_AETH_NO_CREDITS;
	pkt->payload_len = n * mtu;
	if (from == first)
		pkt->flags |= RXNG_PKT_START;
	if (from + n == res->npkts) {
		pkt->flags |= RXNG_PKT_END;
		pkt->payload_len = res->len - from * mtu;
	}
	if (pkt->flags)
		pkt->flags |= RXNG_PKT_AETH;
	pkt->opcode = rxng_opcode_find(RXNG_SERVICE_RC, pkt->kind,
				       n > 1 ? pkt->flags & RXNG_PKT_START :
					       pkt->flags,
				       false);
}
