/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A responder on the bench. */
#ifndef JUDGE_H
#define JUDGE_H

#include "bench.h"
#include "responder.h"

#define JUDGE_PSN 0x100u

struct judge {
	struct rxng_resp r;
	struct rxng_pkt pkt;	/* judged last */
	struct rxng_resource *res;
	u32 skip;
};

static inline struct judge *judge_setup(void)
{
	static struct judge j;

	memset(&j, 0xa5, sizeof(j));
	j.r.service = RXNG_SERVICE_RC;
	j.r.mtu = BENCH_MTU;
	j.r.allow = RXNG_ALLOW_WRITE | RXNG_ALLOW_READ | RXNG_ALLOW_ATOMIC;
	j.r.depth = 4;
	rxng_resp_reset(&j.r);
	rxng_resp_start(&j.r, JUDGE_PSN);
	return &j;
}

static inline void judge_teardown(struct judge *j)
{
	(void)j;
}

static inline enum rxng_resp_verdict judge_pkt(struct judge *j,
					       struct rxng_pkt pkt)
{
	if (!pkt.npkts)
		pkt.npkts = 1;
	j->pkt = pkt;
	return rxng_resp_request(&j->r, &j->pkt, &j->skip, &j->res);
}

#endif
