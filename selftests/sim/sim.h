/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two ends of a reliable connection on a bad wire, driven by one seed.
 *
 *	plan.c		draws everything that a schedule is made of
 *	wire.c		clock and wire: loss, order, duplicates, bursts
 *	end.c		one end: posts, timers, error
 *	ask.c		its requester and completer
 *	answer.c	its responder
 *	oracle.c	what must be true, judged without looking into proto/
 *	main.c		many seeds
 */
#ifndef SIM_H
#define SIM_H

#include "requester.h"
#include "responder.h"
#include "timer.h"

#define MAX_WORK 48
#define MAX_RECV (MAX_WORK + 4)
#define RING 32
#define REGION (16 * 1024)
#define ARENA (1024 * 1024)
#define HEAP (16 * 1024 * 1024)
#define MAX_PSN 16384
#define MAX_EVENTS 16384
#define MAX_INBOX 4096
#define NEVER (~0ull)

#define US 1000ull
#define MS 1000000ull

/* Faults and chances are given in 1/10000. */
#define CHANCE_ONE 10000u

struct world;

/* What is wrong with a work request. */
enum trouble {
	TROUBLE_NONE,
	TROUBLE_BAD_RKEY,
	TROUBLE_TOO_LONG,	/* for the receive that it meets */
	TROUBLE_BAD_LKEY,	/* found at byte @trouble_at */
	TROUBLE_LOCAL,		/* the local operation fails */
	TROUBLE_REFUSED,	/* found when it was fetched from the ring */
};

struct work {
	u8 kind;
	u8 flags;
	u8 trouble;
	u32 trouble_at;
	u32 length;
	u32 src;		/* offset into the arena */
	u32 at;			/* offset into the peer's region */
	u32 word;		/* immediate data or key to invalidate */
	u64 compare;
	u64 swap_add;
	u64 post_at;
	/* While running. */
	u32 psn;
	u32 npkts;
	bool sent;		/* at least one packet left */
	bool executed;		/* by the peer, whole */
	bool local_done;
	bool completed;
	u32 placed;		/* bytes of a READ's data */
	u8 *sink;
	u64 orig;
};

struct recv {
	u32 length;
	u64 post_at;
	u8 *buf;
};

struct side_plan {
	u32 first_psn;
	u32 max_rd;
	u32 depth;
	u8 retry_cnt;
	u8 rnr_retry;
	u8 rnr_code;
	u64 timeout;
	bool credits;
	u32 max_pkts;
	u32 congestion;		/* chance per burst */
	u32 pace;		/* chance that the answer to a READ pauses */
	u64 drain_at;
	u32 nwork;
	u32 nrecv;
	u64 base;		/* address of the region */
	u32 rkey;
	struct work work[MAX_WORK];
	struct recv recv[MAX_RECV];
};

enum cutting { CUT_SINGLE, CUT_WHOLE, CUT_RANDOM };

struct plan {
	u64 seed;
	u32 mtu;
	u32 loss;
	u32 dup;
	u32 late;
	u32 merge;
	u64 delay;
	u64 late_max;
	u64 fair_after;
	enum cutting cutting;
	bool bytes;
	struct side_plan side[2];
};

struct slot {
	struct rxng_swqe wqe;
	u32 work;
	u32 unrelated[3];
};

struct inbox_entry {
	struct rxng_pkt pkt;
	const u8 *payload;
};

struct end {
	struct world *w;
	struct side_plan *plan;
	struct end *peer;
	u8 me;
	bool error;
	u8 *region;
	u8 *model;		/* the peer's region, as it should become */

	struct rxng_req req;
	struct slot ring[RING];
	u32 posted;
	u32 retired;
	u64 congested_until;
	u64 more_at;		/* goes on sending then */
	u64 drain_at;
	u64 resume_at;		/* the queue was drained: go on then */
	bool draining;
	u32 started_at_drain;

	struct rxng_resp resp;
	u32 inbox_head;
	u32 inbox_tail;
	bool streaming;
	struct rxng_resource stream;
	u32 stream_first;
	u32 stream_from;
	u64 stream_at;
	bool ack_due;
	u32 recv_posted;
	u32 recv_taken;
	u32 recv_done;

	bool held;		/* a packet that may still be merged */
	struct inbox_entry hold;
	u64 hold_until;

	/* The oracle's books. */
	u32 first_sent;		/* packets sent at least once */
	u32 last_una;
	u32 retries;		/* since una moved */
	u32 rnrs;
	u64 una_since;
	u64 nak_counts_at;
	u64 quiet_until;
	u32 faults;		/* on the way of its requests and their answers */
	u32 executed;		/* works of the peer that were executed here */
	u32 received;		/* works of the peer met by a receive here */
	u32 msn;

	/* Not cleared between schedules. */
	struct inbox_entry inbox[MAX_INBOX];
	u32 faults_at[MAX_PSN];	/* when a PSN was sent first */
	u32 una_at[MAX_PSN];
};

struct event {
	u64 time;
	u32 order;
	u8 to;
	struct rxng_pkt pkt;
	const u8 *payload;
};

struct world {
	struct plan plan;
	u64 now;
	u64 rng;
	u64 last_arrival[2];
	struct end end[2];
	struct event events[MAX_EVENTS];
	u16 heap[MAX_EVENTS];
	u16 unused[MAX_EVENTS];
	u32 nheap;
	u32 nunused;
	u32 order;
	u32 steps;
	u8 *bump;
	u8 regions[4][REGION];
	u8 bytes[HEAP];
};

extern u8 arena[ARENA];
extern bool verbose;
/* Totals over all seeds, so that one sees what was met. */
extern struct totals {
	u64 packets, bursts, lost, duplicated, late, merged, timeouts, naks,
		implied, rnrs, ghosts, congested, errors[16], works, completed,
		again, limited, drains;
} totals;

/* plan.c */
void plan_draw(struct plan *p, u64 seed);
void plan_print(const struct plan *p);

/* wire.c */
u64 rng_next(u64 *state);
u32 rnd(struct world *w, u32 n);
bool chance(struct world *w, u32 per_10000);
void wire_send(struct world *w, u8 from, const struct rxng_pkt *burst,
	       const u8 *payload);
u64 wire_next(const struct world *w);
void wire_deliver(struct world *w);
void wire_release(struct end *e);
u8 *bump(struct world *w, u32 bytes);
void trace(const struct world *w, u8 me, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* end.c */
void end_setup(struct world *w, u8 me);
void end_take(struct end *e, const struct rxng_pkt *pkt, const u8 *payload);
u64 end_wake(const struct end *e);
void end_run(struct end *e);
void end_fail(struct end *e, const char *why);

/* ask.c */
void ask_post(struct end *e);
void ask_send(struct end *e);
void ask_response(struct end *e, const struct rxng_pkt *pkt,
		  const u8 *payload);
void ask_timer(struct end *e);
void ask_retire(struct end *e);

/* answer.c */
void answer_request(struct end *e, const struct rxng_pkt *pkt,
		    const u8 *payload);
void answer_inbox(struct end *e);
void answer_timer(struct end *e);
void answer_flush(struct end *e);

/* oracle.c */
void broken(const struct world *w, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
u64 oracle_rnr_ns(u8 code);
void oracle_check(struct end *e);
void oracle_fence(struct end *e, const struct work *work);
void oracle_first_send(struct end *e, struct work *work,
		       const struct rxng_pkt *pkt, u32 n);
void oracle_retry(struct end *e, bool nak);
void oracle_rnr(struct end *e);
void oracle_completed(struct end *e, u32 n, const struct rxng_swqe *wqe);
void oracle_executed(struct end *e, const struct rxng_pkt *pkt, u64 orig);
void oracle_received(struct end *e, const struct recv *recv,
		     const struct rxng_pkt *pkt, u32 length);
void oracle_acknowledges(struct end *e, u32 psn);
void oracle_end(struct world *w);

static inline bool work_takes_receive(const struct work *work)
{
	return work->kind == RXNG_KIND_SEND ||
	       (work->kind == RXNG_KIND_WRITE && work->flags & RXNG_SWQE_IMM);
}

#endif
