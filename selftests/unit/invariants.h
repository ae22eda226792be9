/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What holds of a requester between any two calls; for simulation and fuzzer. */
#ifndef INVARIANTS_H
#define INVARIANTS_H

#include "requester.h"

/* Return: what is broken, or NULL. */
static inline const char *req_broken(const struct rxng_req *r)
{
	u32 una_idx = r->una_idx - r->head, cur = r->cur - r->head;
	u32 started = r->started - r->head, tail = r->tail - r->head;
	u32 slots = 0, psn, i;

	if (una_idx > cur || cur > started || started > tail)
		return "head <= una_idx <= cur <= started <= tail";
	if (tail > r->mask + 1)
		return "the ring holds at most its size";
	if (((r->sent - r->una) & RXNG_PSN_MASK) >
	    ((r->psn - r->una) & RXNG_PSN_MASK))
		return "una <= sent <= psn";
	if (((r->psn - r->una) & RXNG_PSN_MASK) > RXNG_PSN_SPAN)
		return "PSNs under way span at most 2^23";
	if (una_idx == started && r->una != r->psn)
		return "una is psn when nothing is under way";
	psn = r->una;
	for (i = r->una_idx; i != r->started; i++) {
		const struct rxng_swqe *wqe = rxng_req_wqe(r, i);
		u32 at = (psn - wqe->psn) & RXNG_PSN_MASK;

		if (i == r->una_idx ? at && at >= wqe->npkts : at)
			return "PSNs of the requests follow each other";
		psn = rxng_psn_add(wqe->psn, wqe->npkts);
		slots += wqe->state == RXNG_SWQE_SLOT;
	}
	if (psn != r->psn)
		return "psn follows the last started request";
	if (slots != r->rd_used)
		return "rd_used is the number of slots held";
	if (r->rd_used > r->max_rd_atomic)
		return "rd_used <= max_rd_atomic";
	if (r->cur != r->started &&
	    r->cur_pkt && r->cur_pkt >= rxng_req_wqe(r, r->cur)->npkts)
		return "cur_pkt lies inside the request at cur";
	if (r->cur == r->started && r->cur_pkt)
		return "cur_pkt is 0 when all was sent";
	if (r->cur == r->una_idx && r->una_idx != r->started &&
	    r->cur_pkt < ((r->una - rxng_req_wqe(r, r->una_idx)->psn) &
			  RXNG_PSN_MASK))
		return "nothing acknowledged is sent again";
	if (r->retry_left > r->retry_cnt || r->rnr_left > r->rnr_retry)
		return "retries left <= retries allowed";
	if (r->deadline && r->rnr_until)
		return "the timer does not run during an RNR wait";
	return NULL;
}

#endif
