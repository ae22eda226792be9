// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Everything that a schedule is made of, drawn from its seed. */
#include <stdio.h>

#include "sim.h"

static u64 state;

static u32 draw(u32 n)
{
	return (rng_next(&state) >> 32) * n >> 32;
}

static bool percent(u32 n)
{
	return draw(100) < n;
}

static u32 between(u32 a, u32 b)
{
	return a + draw(b - a + 1);
}

static void draw_wire(struct plan *p)
{
	static const u32 mtus[] = { 16, 16, 16, 16, 64, 64, 256, 256, 1024,
				    4096 };

	p->mtu = mtus[draw(ARRAY_SIZE(mtus))];
	p->delay = between(1, 20) * US;
	p->late_max = percent(80) ? 100 * US : 10 * MS;
	p->fair_after = percent(30) ? NEVER : draw(20000) * US;
	p->merge = percent(60) ? 0 : between(1000, 9000);
	p->cutting = draw(3);
	p->bytes = percent(50);
	switch (draw(8)) {
	case 0:
	case 1:
		break;
	case 2:
	case 3:
	case 4:
		p->loss = draw(200);
		p->dup = draw(100);
		p->late = draw(200);
		break;
	case 5:
		p->loss = between(500, 2000);
		break;
	case 6:
		p->late = between(500, 3000);
		p->dup = draw(500);
		break;
	default:
		p->loss = draw(1000);
		p->dup = draw(1000);
		p->late = draw(1000);
	}
}

static void draw_side(struct side_plan *s)
{
	static const u32 bursts[] = { 1, 1, 2, 5, 16, 64, 256 };

	s->first_psn = percent(50) ? RXNG_PSN_MASK - draw(300) :
				     draw(RXNG_PSN_MASK + 1);
	s->max_rd = percent(90) ? between(1, 5) : between(1, 16);
	s->depth = min(s->max_rd + (percent(50) ? 0 : draw(5)),
		       (u32)RXNG_MAX_RESOURCES);
	s->retry_cnt = percent(60) ? 7 : draw(8);
	s->rnr_retry = percent(50) ? 7 : draw(8);
	s->rnr_code = percent(97) ? between(1, 12) : draw(32);
	s->timeout = 4096ull << between(8, 13);
	s->credits = percent(40);
	s->max_pkts = bursts[draw(ARRAY_SIZE(bursts))];
	s->congestion = percent(70) ? 0 : draw(6000);
	s->pace = percent(70) ? 0 : draw(5000);
	s->drain_at = percent(75) ? NEVER : draw(500) * US;
	s->base = rng_next(&state) & ~7ull;
	if (s->base > NEVER - 2 * REGION || percent(10))
		s->base = -(u64)REGION;
	s->rkey = rng_next(&state);
	s->nwork = percent(85) ? between(1, 16) : between(1, MAX_WORK);
}

static u32 draw_length(const struct plan *p)
{
	u32 most = REGION, kind = draw(100);
	u32 n;

	if (kind < 10)
		return 0;
	if (kind < 25)
		return between(1, p->mtu - 1);
	if (kind < 55)
		n = p->mtu * between(1, 4) + between(0, 2) - 1;
	else if (kind < 90)
		n = between(1, 8 * p->mtu);
	else if (kind < 97 || p->late > 200)
		n = between(1, 40 * p->mtu);
	else
		n = between(1, REGION);
	return min(n, most);
}

/* @favour: a kind that this side likes, so that schedules differ. */
static u8 draw_kind(u8 favour)
{
	static const u8 kinds[] = {
		RXNG_KIND_SEND, RXNG_KIND_SEND, RXNG_KIND_SEND,
		RXNG_KIND_WRITE, RXNG_KIND_WRITE, RXNG_KIND_WRITE,
		RXNG_KIND_READ, RXNG_KIND_READ, RXNG_KIND_ATOMIC,
		RXNG_KIND_ATOMIC, RXNG_KIND_NONE,
	};

	if (favour != RXNG_KIND_NONE && percent(60))
		return favour;
	return kinds[draw(ARRAY_SIZE(kinds))];
}

static void draw_flags(struct work *work)
{
	if (percent(60))
		work->flags |= RXNG_SWQE_SIGNALED;
	if (work->kind == RXNG_KIND_NONE) {
		if (percent(50))
			work->flags |= RXNG_SWQE_BARRIER;
		if (percent(25))
			work->flags |= RXNG_SWQE_FENCE;
		return;
	}
	if (percent(12))
		work->flags |= RXNG_SWQE_FENCE;
	if (percent(25))
		work->flags |= RXNG_SWQE_SOLICITED;
	switch (work->kind) {
	case RXNG_KIND_SEND:
		if (percent(30))
			work->flags |= RXNG_SWQE_IMM;
		else if (percent(30))
			work->flags |= RXNG_SWQE_INV;
		break;
	case RXNG_KIND_WRITE:
		if (percent(35))
			work->flags |= RXNG_SWQE_IMM;
		break;
	case RXNG_KIND_ATOMIC:
		if (percent(50))
			work->flags |= RXNG_SWQE_CMP_SWAP;
	}
}

static void draw_work(const struct plan *p, struct side_plan *s)
{
	u8 favour = percent(50) ? draw(RXNG_KIND_ATOMIC + 1) : 0;
	u32 crowded = percent(50) ? 64 : REGION;
	u32 pauses = percent(50) ? 0 : draw(50);
	u32 psns = 0;
	u64 time = 0;
	u32 i;

	for (i = 0; i < s->nwork; i++) {
		struct work *work = &s->work[i];

		*work = (struct work){ .kind = draw_kind(favour) };
		draw_flags(work);
		if (work->kind == RXNG_KIND_ATOMIC) {
			work->length = 8;
			work->at = 8 * draw(min(crowded, (u32)REGION) / 8);
			/* Small values, so that comparisons often hold. */
			work->compare = draw(3);
			work->swap_add = draw(3);
		} else if (work->kind != RXNG_KIND_NONE) {
			work->length = draw_length(p);
			work->at = draw(min(crowded, REGION - work->length + 1));
		}
		work->src = draw(ARENA - REGION);
		work->word = rng_next(&state);
		if (percent(pauses))
			time += draw(percent(95) ? 100 * US : 5 * MS);
		work->post_at = time;
		psns += work->length / p->mtu + 1;
		if (psns > MAX_PSN - 1)
			work->length = 0;
	}
}

static void draw_receives(struct side_plan *s, const struct side_plan *peer)
{
	u32 mode = draw(100), i;
	u64 time = mode < 60 ? 0 : draw(300) * US;
	u64 gap = mode < 60 ? 0 : between(1, 400) * US;

	s->nrecv = 0;
	for (i = 0; i < peer->nwork; i++) {
		struct recv *recv = &s->recv[s->nrecv];

		if (!work_takes_receive(&peer->work[i]))
			continue;
		recv->length = peer->work[i].length + (percent(50) ? draw(50) : 0);
		if (percent(40))
			time += draw(gap);
		recv->post_at = time;
		s->nrecv++;
	}
	for (i = draw(3); i; i--)
		s->recv[s->nrecv++] = (struct recv){ .post_at = time };
	/* Never enough: then the peer must not wait for ever. */
	if (mode >= 96 && s->nrecv && peer->rnr_retry != RXNG_RNR_FOREVER)
		for (i = draw(s->nrecv); i < s->nrecv; i++)
			s->recv[i].post_at = NEVER;
}

static u32 receive_of(const struct side_plan *s, u32 n)
{
	u32 i, count = 0;

	for (i = 0; i < n; i++)
		count += work_takes_receive(&s->work[i]);
	return count;
}

static void draw_trouble(struct side_plan *s, struct side_plan *peer)
{
	u32 n = draw(s->nwork);
	struct work *work = &s->work[n];

	if (percent(20)) {
		work->trouble = TROUBLE_REFUSED;
		return;
	}
	switch (work->kind) {
	case RXNG_KIND_NONE:
		work->trouble = TROUBLE_LOCAL;
		return;
	case RXNG_KIND_ATOMIC:
		work->trouble = TROUBLE_BAD_RKEY;
		return;
	}
	if (!work->length)
		return;
	if (work->kind != RXNG_KIND_READ && percent(40)) {
		work->trouble = TROUBLE_BAD_LKEY;
		work->trouble_at = draw(work->length);
	} else if (work->kind == RXNG_KIND_SEND) {
		work->trouble = TROUBLE_TOO_LONG;
		peer->recv[receive_of(s, n)].length = draw(work->length);
	} else {
		work->trouble = TROUBLE_BAD_RKEY;
	}
}

void plan_draw(struct plan *p, u64 seed)
{
	struct side_plan *a = &p->side[0], *b = &p->side[1];

	state = seed;
	rng_next(&state);
	p->seed = seed;
	p->loss = 0;
	p->dup = 0;
	p->late = 0;
	draw_wire(p);
	draw_side(a);
	draw_side(b);
	/* No deeper than the peer's responder remembers. */
	a->depth = max(a->depth, b->max_rd);
	b->depth = max(b->depth, a->max_rd);
	if (percent(15))
		b->nwork = 0;
	/* Without a timer, nothing may go wrong. */
	if (!p->loss && !p->dup && !p->late && percent(10)) {
		a->rnr_retry = b->rnr_retry = RXNG_RNR_FOREVER;
		a->timeout = b->timeout = 0;
	}
	draw_work(p, a);
	draw_work(p, b);
	draw_receives(a, b);
	draw_receives(b, a);
	if (a->timeout && percent(12))
		draw_trouble(a, b);
}

void plan_print(const struct plan *p)
{
	static const char *const cuts[] = { "single", "whole", "random" };
	u32 i;

	printf("# seed %llu: mtu %u delay %llu us loss %u dup %u late %u of 10000 (%llu us) merge %u bursts %s%s\n",
	       (unsigned long long)p->seed, p->mtu,
	       (unsigned long long)(p->delay / US), p->loss, p->dup, p->late,
	       (unsigned long long)(p->late_max / US), p->merge,
	       cuts[p->cutting], p->bytes ? " as bytes" : "");
	for (i = 0; i < 2; i++) {
		const struct side_plan *s = &p->side[i];

		printf("# %c: psn %06x rd %u/%u retry %u rnr %u code %u timeout %llu us credits %u burst %u congestion %u pace %u works %u receives %u\n",
		       "AB"[i], s->first_psn, s->max_rd, s->depth,
		       s->retry_cnt, s->rnr_retry, s->rnr_code,
		       (unsigned long long)(s->timeout / US), s->credits,
		       s->max_pkts, s->congestion, s->pace, s->nwork,
		       s->nrecv);
	}
}
