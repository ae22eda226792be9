// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A verb that runs out of memory at each place in turn. */
#include <ctype.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "starve.h"

/* No verb has so many places. */
#define MANY 20000

int got(const void *object)
{
	return object ? 0 : errno ? errno : EPROTO;
}

void need_memory(struct world *w)
{
	w->mem = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK_ERRNO(w->mem != MAP_FAILED);
}

void free_memory(struct world *w)
{
	munmap(w->mem, LARGE);
}

void use_memory(struct world *w, void *at, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = buf_sge(w->local, 0, 64);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, &sge, 1,
					IBV_SEND_SIGNALED);

	buf_refill(w->local);
	wr_remote(&wr, addr, rkey);
	end_send(&w->pair->a, &wr);
	wc_expect(w->pair->a.scq, 1, IBV_WC_SUCCESS);
	CHECK(!memcmp(at, w->local->mem, 64));
}

int create_qp(struct world *w)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = w->pair->a.scq,
		.recv_cq = w->pair->a.rcq,
		.srq = w->srq,
		.cap = {
			.max_send_wr = w->verb->size,
			.max_recv_wr = w->verb->size,
			.max_send_sge = 4,
			.max_recv_sge = 4,
		},
		.qp_type = IBV_QPT_RC,
	};

	w->qp = ibv_create_qp(w->host->pd, &attr);
	return got(w->qp);
}

static void check_and_undo(struct world *w)
{
	if (w->verb->check)
		w->verb->check(w);
	if (w->verb->undo)
		w->verb->undo(w);
}

/* One call with a failure at the nth place; whether that was reached. */
static bool starve_at(struct world *w, unsigned int nth)
{
	const struct verb *v = w->verb;
	unsigned int left;
	int err, again;

	if (v->before)
		v->before(w);
	errno = 0;
	inject_arm(nth);
	err = v->call(w);
	left = inject_disarm();
	if (!err) {
		check_and_undo(w);
		return !left;
	}
	if (left)
		FAIL("%s, and nothing was made to fail", strerror(err));
	if (!inject_is_cause(err))
		FAIL("place %u: %d (%s)", nth, err, strerror(err));
	if (v->untouched && err != EFAULT)
		v->untouched(w);

	errno = 0;
	again = v->call(w);
	/* The answer may be what failed, when what it says was done. */
	if (v->ends && err == EFAULT) {
		w->half |= again;
		return true;
	}
	if (again)
		FAIL("place %u: %s, and then %s", nth, strerror(err),
		     strerror(again));
	check_and_undo(w);
	return true;
}

static void world_open(struct world *w)
{
	struct param param = param_default();

	param.one_context = true;
	w->pair = pair_new(&param);
	w->host = w->pair->a.host;
	w->local = buf_new(w->host->pd, PAGE, ALL_ACCESS);
	if (w->verb->open)
		w->verb->open(w);
}

static void world_close(struct world *w)
{
	if (w->verb->close)
		w->verb->close(w);
	end_ping(&w->pair->a, &w->pair->b);
	buf_free(w->local);
	pair_teardown(w->pair);
}

/* The provider's mapping of what it kept holds the device open. */
static void forget_contexts(char *resources)
{
	char *at = resources;

	while ((at = strstr(at, " ctx ")))
		for (at += 5; isdigit(*at); at++)
			*at = '.';
}

void starve(const struct verb *verb)
{
	struct world w = { .verb = verb };
	char *before, *after;
	unsigned int n = 0;

	inject_open();
	before = resources();
	world_open(&w);
	do {
		if (++n == MANY)
			FAIL("%u places, and no end", n);
	} while (starve_at(&w, n));
	world_close(&w);
	after = resources();
	if (w.half) {
		forget_contexts(before);
		forget_contexts(after);
	}
	if (strcmp(before, after))
		FAIL("objects before: %s; after: %s", before, after);
	if (n == 1 && !verb->quiet)
		FAIL("nothing could fail");
	tap_note("%s: %u places", verb->name, n - 1);
}
