/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A responder as one would write it who has never heard of speed: one packet
 * at a time, PSNs as 64-bit numbers, all history kept. Written from the
 * specification's rules and not from proto/responder.c, with which it must
 * agree.
 */
#ifndef NAIVE_H
#define NAIVE_H

#include "packet.h"

#define NAIVE_HISTORY 4096
#define NAIVE_MEMORY 4096
#define NAIVE_BASE 0x7000ull
#define NAIVE_RKEY 0x55

enum naive_says {
	NAIVE_DROP,
	NAIVE_EXECUTED,
	NAIVE_ACK_AGAIN,
	NAIVE_READ_AGAIN,
	NAIVE_ATOMIC_AGAIN,
	NAIVE_NAK_PSN,
	NAIVE_NAK_INVALID,
	/* What the specification leaves to the layer above proto/. */
	NAIVE_RNR,
	NAIVE_NAK_ACCESS,
	NAIVE_NAK_TOO_LONG,
};

/* A READ or atomic that was carried out. */
struct naive_answer {
	u8 kind;
	u64 psn;
	u64 npkts;
	u64 va;
	u32 rkey;
	u32 len;
	u64 orig;
	u64 messages;
};

struct naive {
	u32 mtu;
	u32 depth;
	bool may_write;
	bool may_read;
	bool may_atomic;
	u64 expected;
	u64 messages;
	u64 ack;		/* newest SEND or WRITE packet */
	/* The message that is under way. */
	u8 open;		/* its kind, or none */
	u64 bytes;
	u64 total;		/* of a WRITE */
	u64 va;
	u32 rkey;
	u32 recv_size;
	/* The gap. */
	bool told;
	bool told_rnr;
	u64 told_by;
	u32 receives;
	u32 next_recv_size;
	const struct naive_answer *answer;	/* what is to be sent again */
	u8 memory[NAIVE_MEMORY];
	u32 nanswers;
	/* Stays where it is when a request is tried out on a copy. */
	struct naive_answer answers[NAIVE_HISTORY];
};

#define NAIVE_STATE offsetof(struct naive, answers)

void naive_start(struct naive *n, u32 psn);
enum naive_says naive_request(struct naive *n, const struct rxng_pkt *burst,
			      const u8 *payload);

#endif
