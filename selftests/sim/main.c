// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#include "sim.h"

#define MAX_STEPS 400000u
#define DEFAULT_COUNT 100000

u8 arena[ARENA];
bool verbose;
struct totals totals;

static void setup(struct world *w, u64 seed)
{
	u32 i;

	plan_draw(&w->plan, seed);
	w->now = 0;
	w->rng = ~seed;
	w->order = 0;
	w->steps = 0;
	w->nheap = 0;
	w->nunused = MAX_EVENTS;
	w->bump = w->bytes;
	for (i = 0; i < MAX_EVENTS; i++)
		w->unused[i] = MAX_EVENTS - 1 - i;
	for (i = 0; i < 2; i++)
		w->last_arrival[i] = 0;
	for (i = 0; i < 2; i++)
		end_setup(w, i);
	totals.works += w->plan.side[0].nwork + w->plan.side[1].nwork;
}

static void run(struct world *w, u64 seed)
{
	setup(w, seed);
	if (verbose)
		plan_print(&w->plan);
	end_run(&w->end[0]);
	end_run(&w->end[1]);
	for (;;) {
		u64 wire = wire_next(w);
		u64 wake[2] = { end_wake(&w->end[0]), end_wake(&w->end[1]) };
		u64 next = min(wire, min(wake[0], wake[1]));
		u32 i;

		if (next == NEVER)
			break;
		if (w->steps++ == MAX_STEPS)
			broken(w, "no end after %u steps", MAX_STEPS);
		w->now = max(w->now, next);
		if (wire <= next) {
			u8 to = w->events[w->heap[0]].to;

			wire_deliver(w);
			end_run(&w->end[to]);
			continue;
		}
		for (i = 0; i < 2; i++)
			if (wake[i] <= next)
				end_run(&w->end[i]);
	}
	oracle_end(w);
}

static void print_totals(u64 count, double seconds)
{
	const struct totals *t = &totals;
	u32 i;

	printf("# %llu schedules in %.1f s\n", (unsigned long long)count,
	       seconds);
#define SHOW(name) printf("# %-12s %llu\n", #name, (unsigned long long)t->name)
	SHOW(works);
	SHOW(completed);
	SHOW(packets);
	SHOW(bursts);
	SHOW(merged);
	SHOW(lost);
	SHOW(duplicated);
	SHOW(late);
	SHOW(congested);
	SHOW(naks);
	SHOW(implied);
	SHOW(timeouts);
	SHOW(rnrs);
	SHOW(again);
	SHOW(ghosts);
	SHOW(drains);
#undef SHOW
	for (i = 0; i < ARRAY_SIZE(t->errors); i++)
		if (t->errors[i])
			printf("# status %-5u %llu\n", i,
			       (unsigned long long)t->errors[i]);
}

static u64 number(const char *text)
{
	char *end;
	u64 n = strtoull(text, &end, 0);

	if (!*text || *end) {
		fprintf(stderr, "sim: %s is not a number\n", text);
		exit(2);
	}
	return n;
}

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static const char usage[] =
	"usage: sim [--count N] [--start SEED] [--seed SEED [-v]]\n"
	"  --count N     how many schedules (100000)\n"
	"  --start SEED  the first of them (0)\n"
	"  --seed SEED   this one only\n"
	"  -v            print each packet and decision\n";

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "start", required_argument, NULL, 'b' },
		{ "count", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	static struct world world;
	u64 start = 0, count = DEFAULT_COUNT, i, state = 1;
	double began = seconds_now();
	int opt;

	while ((opt = getopt_long(argc, argv, "vh", options, NULL)) != -1) {
		switch (opt) {
		case 's':
			start = number(optarg);
			count = 1;
			break;
		case 'b':
			start = number(optarg);
			break;
		case 'n':
			count = number(optarg);
			break;
		case 'v':
			verbose = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	for (i = 0; i < ARENA; i += 8) {
		u64 word = rng_next(&state);

		memcpy(arena + i, &word, 8);
	}
	printf("TAP version 13\n1..1\n");
	for (i = 0; i < count; i++) {
		run(&world, start + i);
		if (count > 1 && (i + 1) % (count / 10 + !(count / 10)) == 0) {
			printf("# %llu of %llu schedules\n",
			       (unsigned long long)(i + 1),
			       (unsigned long long)count);
			fflush(stdout);
		}
	}
	printf("ok 1 seeds %llu to %llu\n", (unsigned long long)start,
	       (unsigned long long)(start + count - 1));
	print_totals(count, seconds_now() - began);
	return 0;
}
