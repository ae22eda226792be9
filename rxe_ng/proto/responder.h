/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder's side: is this packet expected, a duplicate or out of
 * sequence, is it well-formed in its place, and what has to be answered (IBTA
 * 9.7.4.1, 9.7.5; 9.8.2.2 and 9.8.3.1, where nothing is). The caller carries out what the
 * verdict says and reports with rxng_resp_done().
 */
#ifndef RXNG_RESPONDER_H
#define RXNG_RESPONDER_H

#include "packet.h"
#include "status.h"

/* Largest responder depth (attribute max_dest_rd_atomic). */
#define RXNG_MAX_RESOURCES 128
/* How long a NAK may go unanswered, without an ACK timeout and at least. */
#define RXNG_NAK_WAIT_NS 16000000ull
#define RXNG_MIN_NAK_WAIT_NS 1000000ull
/* Longest message (9.7.7: 2^31 bytes). */
#define RXNG_MAX_MESSAGE 0x80000000u

/* Rights that the QP gives its peer, as in IB_ACCESS_REMOTE_*. */
#define RXNG_ALLOW_WRITE BIT(1)
#define RXNG_ALLOW_READ BIT(2)
#define RXNG_ALLOW_ATOMIC BIT(3)
#define RXNG_ALLOW_FLUSH (BIT(8) | BIT(9))

/**
 * struct rxng_resource - what is kept to answer a request again
 * @kind: one that has a response, or RXNG_KIND_NONE when empty
 * @psn: PSN of the request
 * @npkts: PSNs that it took
 * @msn: message sequence number after it
 * @rkey: key of the READ
 * @len: length of the READ
 * @va: address of the READ
 * @orig: result of the atomic
 * @answered: all of the answer was sent, once at least
 */
struct rxng_resource {
	u8 kind;
	bool answered;
	u32 psn;
	u32 npkts;
	u32 msn;
	u32 rkey;
	u32 len;
	u64 va;
	u64 orig;
};

/* Why packets after @epsn are dropped. */
enum rxng_gap {
	RXNG_GAP_NONE,
	RXNG_GAP_NAK,
	RXNG_GAP_RNR,
};

/**
 * struct rxng_resp - state of a responder
 * @service: enum rxng_service
 * @mtu: path MTU in bytes
 * @epsn: PSN that is expected next
 * @ack_psn: what an acknowledgement names: the newest PSN of a SEND or WRITE
 *	that was carried out. Never one of a READ or atomic, which is
 *	acknowledged by its response only
 * @msn: messages completed
 * @allow: RXNG_ALLOW_* bits
 * @depth: READ and atomic requests that are remembered; at most
 *	RXNG_MAX_RESOURCES
 * @msg: kind of the message whose middle is expected, else RXNG_KIND_NONE
 * @got: bytes of it received
 * @va: where the next bytes of a WRITE go
 * @rkey: its key
 * @resid: bytes of it still to come
 * @gap: what the peer was told of the gap at @epsn
 * @gap_psn: PSN that made the NAK; after an RNR NAK the newest that was seen
 * @nak_at: when the NAK of a gap is sent once more, 0 when it is not
 * @next_resource: entry of @resources that is overwritten next
 * @resources: ring of the last READs and atomics
 */
struct rxng_resp {
	u8 service;
	u32 mtu;
	u32 epsn;
	u32 ack_psn;
	u32 msn;
	u16 allow;
	u8 depth;
	u8 msg;
	u32 got;
	u64 va;
	u32 rkey;
	u32 resid;
	enum rxng_gap gap;
	u32 gap_psn;
	u64 nak_at;
	u32 next_resource;
	struct rxng_resource resources[RXNG_MAX_RESOURCES];
};

enum rxng_resp_verdict {
	/* Say nothing. */
	RXNG_RESP_DROP,
	/* Carry out, then rxng_resp_done(). */
	RXNG_RESP_EXECUTE,
	/* Acknowledge @ack_psn again. */
	RXNG_RESP_ACK_AGAIN,
	/*
	 * Send the response again: a READ's data, whose @va and @rkey are
	 * checked again, or nothing for FLUSH and ATOMIC WRITE.
	 */
	RXNG_RESP_READ_AGAIN,
	/* Send the recorded result of the atomic again. */
	RXNG_RESP_ATOMIC_AGAIN,
	/* NAK @epsn: a packet is missing. */
	RXNG_RESP_NAK_PSN,
	/*
	 * Not a valid request: NAK @epsn, and the QP goes to ERROR; of an
	 * unreliable service the message is lost.
	 */
	RXNG_RESP_NAK_INVALID,
};

/**
 * struct rxng_write_target - where the payload of a WRITE goes
 * @va: address
 * @rkey: key
 */
struct rxng_write_target {
	u64 va;
	u32 rkey;
};

void rxng_resp_reset(struct rxng_resp *r);
void rxng_resp_start(struct rxng_resp *r, u32 psn);
void rxng_resp_set_depth(struct rxng_resp *r, u8 depth);
enum rxng_resp_verdict rxng_resp_request(struct rxng_resp *r,
					 struct rxng_pkt *pkt, u32 *skip,
					 struct rxng_resource **res);
void rxng_resp_target(const struct rxng_resp *r, const struct rxng_pkt *pkt,
		      struct rxng_write_target *target);
struct rxng_resource *rxng_resp_done(struct rxng_resp *r,
				     const struct rxng_pkt *pkt, u64 orig);
void rxng_resp_lost(struct rxng_resp *r);
void rxng_resp_nak_sent(struct rxng_resp *r, u64 timeout, u64 now);
bool rxng_resp_timeout(struct rxng_resp *r, u64 now);
void rxng_resp_not_ready(struct rxng_resp *r, const struct rxng_pkt *pkt);
void rxng_resp_ack(const struct rxng_resp *r, u8 syndrome, u32 psn,
		   struct rxng_pkt *pkt);
void rxng_resp_atomic_ack(const struct rxng_resource *res, u8 syndrome,
			  struct rxng_pkt *pkt);
void rxng_resp_answered(struct rxng_resp *r, const struct rxng_resource *res);
bool rxng_resp_asks_earlier(const struct rxng_resource *res,
			    const struct rxng_pkt *pkt);
bool rxng_resp_asks_again(const struct rxng_resource *res, u32 next,
			  const struct rxng_pkt *pkt);
void rxng_resp_read_burst(const struct rxng_resource *res, u32 mtu, u32 first,
			  u32 from, u32 max_pkts, struct rxng_pkt *pkt);

#endif
