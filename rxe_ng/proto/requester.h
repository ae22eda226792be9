/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The requester's side: which packet goes next (IBTA 9.7.2, 9.7.3, 9.8.2,
 * 9.8.3); and the completer's of a reliable connection: what a response means
 * (9.7.4 to 9.7.7, 9.9). Nothing here touches memory regions, packets' bytes,
 * queues or clocks: the caller does what the verdicts say.
 *
 * Send work requests stand in a ring in posting order:
 *
 *	head <= una_idx <= cur <= started <= tail
 *
 * [head, una_idx) is complete and waits to be retired; una_idx holds the
 * oldest unacknowledged PSN; cur is where the next packet comes from, which
 * moves back to una_idx when packets have to be sent again; [head, started)
 * have PSNs; [started, tail) are posted only. Where nothing is acknowledged,
 * what was sent is complete, and una_idx is cur.
 */
#ifndef RXNG_REQUESTER_H
#define RXNG_REQUESTER_H

#include "packet.h"
#include "status.h"

/* SEND and RDMA WRITE packets that may be under way unacknowledged. */
#define RXNG_WINDOW 256
/* How many may be before the peer has answered any. */
#define RXNG_WINDOW_START 32
/* The smallest window, and what is left of it when time alone told a loss. */
#define RXNG_WINDOW_MIN 2
/* Requests past the oldest one not acknowledged, before a local one waits. */
#define RXNG_MAX_AHEAD 1024
/* Packets after which an acknowledgement is asked for in a long message. */
#define RXNG_ACK_EVERY 64
/* Furthest that PSNs under way may span (9.7.3.1). */
#define RXNG_PSN_SPAN (1u << 23)
/* rnr_retry value that means for ever (9.9.2.4). */
#define RXNG_RNR_FOREVER 7
/* The shortest ACK timeout that a software end can keep, in nanoseconds. */
#define RXNG_MIN_TIMEOUT_NS (4096ull << 10)

/* Bits of struct rxng_swqe.flags; the first four as in the ABI. */
#define RXNG_SWQE_FENCE BIT(0)
#define RXNG_SWQE_SIGNALED BIT(1)
#define RXNG_SWQE_SOLICITED BIT(2)
#define RXNG_SWQE_INLINE BIT(3)
/* Carries immediate data, or a key to invalidate. */
#define RXNG_SWQE_IMM BIT(4)
#define RXNG_SWQE_INV BIT(5)
/* Compare-and-swap, not fetch-and-add. */
#define RXNG_SWQE_CMP_SWAP BIT(6)
/* Local operation that has to see all earlier requests complete. */
#define RXNG_SWQE_BARRIER BIT(7)

enum rxng_swqe_state {
	RXNG_SWQE_POSTED,
	/* A READ or atomic that holds one of the rd_atomic slots. */
	RXNG_SWQE_SLOT,
	/* A local operation that was carried out, a READ or atomic answered. */
	RXNG_SWQE_DONE,
	/* Ends with @status once all before it have completed. */
	RXNG_SWQE_FAILED,
};

/**
 * struct rxng_swqe - a send work request as the requester sees it
 * @wr_id: consumer's identifier
 * @opcode: work request opcode, for the completion
 * @kind: enum rxng_kind of its packets; RXNG_KIND_NONE for a local operation
 * @flags: RXNG_SWQE_* bits
 * @state: enum rxng_swqe_state
 * @status: enum rxng_status, when failed
 * @num_sge: entries of the scatter-gather list that stands behind it
 * @imm: immediate data as on the wire
 * @inv_rkey: key for the peer to invalidate
 * @feth: of a FLUSH: its placement and level
 * @rkey: remote key
 * @raddr: remote address
 * @dqpn: of a datagram: its destination QP
 * @qkey: of a datagram: its Q_Key
 * @length: bytes of payload; of a FLUSH: of the range
 * @compare: operand of an atomic
 * @swap_add: operand of an atomic
 * @psn: PSN of its first packet, once started
 * @npkts: PSNs that it takes
 * @ssn: sequence number of the message, compared with credits (9.7.7.2)
 */
struct rxng_swqe {
	u64 wr_id;
	u8 opcode;
	u8 kind;
	u8 flags;
	u8 state;
	u8 status;
	u8 num_sge;
	union {
		__be32 imm;
		u32 inv_rkey;
		u32 feth;
	};
	u32 rkey;
	union {
		u64 raddr;
		struct {
			u32 dqpn;
			u32 qkey;
		};
	};
	u32 length;
	u64 compare;
	u64 swap_add;
	u32 psn;
	u32 npkts;
	u32 ssn;
};

/**
 * struct rxng_req - state of requester and completer
 * @service: enum rxng_service
 * @wqes: ring of struct rxng_swqe, each @stride bytes from the other
 * @stride: bytes from one entry to the next
 * @mask: entries minus one; a power of two minus one
 * @head: oldest entry not retired; this and the next four run freely and are
 *	masked on use
 * @una_idx: entry that holds @una; @started when all is acknowledged
 * @cur: entry that the next packet comes from
 * @started: one past the newest entry that has PSNs
 * @tail: one past the newest entry
 * @cur_pkt: PSNs of @cur that lie before the next packet
 * @mtu: path MTU in bytes
 * @psn: PSN for the next entry that is started
 * @una: oldest unacknowledged PSN
 * @sent: one past the newest PSN ever sent
 * @inflight: SEND and WRITE packets sent since the last step back and not
 *	acknowledged
 * @reading: READ response packets asked for since the last step back and not
 *	received
 * @window: packets that either may count. As TCP does it (RFC 5681), so that
 *	many QPs share a narrow way: a loss halves it, progress doubles it each
 *	round trip up to @threshold and adds one packet beyond
 * @threshold: half of the window that met the last loss
 * @grown: packets acknowledged since the window last grew beyond it
 * @recover: one past the newest PSN that was sent at the last loss: what
 *	gets lost before it is the same loss
 * @since_ack_req: packets since the last one that asked for an ACK
 * @asking: packets of the burst described last if its last one asks for an
 *	ACK, else 0
 * @ssn: sequence number of the next message
 * @lsn: last message that credits allow
 * @credits: the peer counts credits
 * @draining: start no new message (SQD)
 * @gap_seen: a lost response was already acted on since the last progress
 * @nak_until: more NAKs of the same packet before this time are not counted
 * @read_restart: PSN at which a READ was last asked for again
 * @rd_used: READ and atomic requests outstanding
 * @max_rd_atomic: how many may be
 * @retry_cnt: transport retries allowed
 * @retry_left: of them left
 * @rnr_retry: RNR retries allowed
 * @rnr_left: of them left
 * @backoff: times the timer was doubled since the last progress
 * @timeout: ACK timeout in nanoseconds, 0 for none
 * @srtt: round trip as measured, smoothed, in nanoseconds; 0 when not known
 * @rtt_at: when the packet that is being measured went; 0 for none
 * @rtt_psn: one past its PSN
 * @deadline: when it runs out; 0 when it does not run
 * @rnr_until: nothing is sent before this time; 0 when not waiting
 */
struct rxng_req {
	u8 service;
	void *wqes;
	u32 stride;
	u32 mask;
	u32 head;
	u32 una_idx;
	u32 cur;
	u32 started;
	u32 tail;
	u32 cur_pkt;
	u32 mtu;
	u32 psn;
	u32 una;
	u32 sent;
	u32 inflight;
	u32 reading;
	u32 window;
	u32 threshold;
	u32 grown;
	u32 recover;
	u32 since_ack_req;
	u32 asking;
	u32 ssn;
	u32 lsn;
	bool credits;
	bool draining;
	bool gap_seen;
	u64 nak_until;
	u32 read_restart;
	u32 rd_used;
	u32 max_rd_atomic;
	u8 retry_cnt;
	u8 retry_left;
	u8 rnr_retry;
	u8 rnr_left;
	u8 backoff;
	u64 timeout;
	u64 srtt;
	u64 rtt_at;
	u32 rtt_psn;
	u64 deadline;
	u64 rnr_until;
};

/* What the requester is to do next. */
enum rxng_req_verdict {
	/* Nothing is posted that may be sent. */
	RXNG_REQ_IDLE,
	/* Something has to happen first: an ACK, a response, or RNR's time. */
	RXNG_REQ_WAIT,
	/* Send the packets described, then call rxng_req_sent(). */
	RXNG_REQ_SEND,
	/* Carry out the local operation at @cur, then rxng_req_local_done(). */
	RXNG_REQ_LOCAL,
	/*
	 * Nothing of the datagram at @cur is sent and nothing said, since it is
	 * longer than a packet (C10-93.1.1): call rxng_req_sent() for it.
	 */
	RXNG_REQ_TOO_LONG,
};

/* What a response means. */
enum rxng_comp_verdict {
	/* Nothing: old, stray or a duplicate. */
	RXNG_COMP_DROP,
	/* State moved: retire what is complete, then go on sending. */
	RXNG_COMP_PROGRESS,
	/* Packets are to be sent again; go on sending. */
	RXNG_COMP_RETRY,
	/* The peer has no receive posted: wait until @rnr_until. */
	RXNG_COMP_RNR,
	/* Place the payload in the READ's buffers, then rxng_req_answered(). */
	RXNG_COMP_READ,
	/* Place the original value, then rxng_req_answered(). */
	RXNG_COMP_ATOMIC,
	/* A request failed; retiring reaches it. */
	RXNG_COMP_FAILED,
};

static inline struct rxng_swqe *rxng_req_wqe(const struct rxng_req *r, u32 idx)
{
	return r->wqes + (size_t)(idx & r->mask) * r->stride;
}

/**
 * rxng_req_offset - where in its request's buffers the next packet starts
 * @r: requester
 *
 * Return: bytes.
 */
static inline u32 rxng_req_offset(const struct rxng_req *r)
{
	return r->cur_pkt * r->mtu;
}

void rxng_req_reset(struct rxng_req *r, u32 index);
void rxng_req_start(struct rxng_req *r, u32 psn);
void rxng_req_resume(struct rxng_req *r);
enum rxng_req_verdict rxng_req_next(struct rxng_req *r, u64 now, u32 max_pkts,
				    struct rxng_pkt *pkt);
void rxng_req_sent(struct rxng_req *r, u32 n, u64 now);
void rxng_req_local_done(struct rxng_req *r);
void rxng_req_fail(struct rxng_req *r, struct rxng_swqe *wqe,
		   enum rxng_status status);
struct rxng_swqe *rxng_req_retirable(struct rxng_req *r);
void rxng_req_retire(struct rxng_req *r);
bool rxng_req_drained(const struct rxng_req *r);
enum rxng_comp_verdict rxng_req_timeout(struct rxng_req *r, u64 now,
					bool local);

enum rxng_comp_verdict rxng_req_response(struct rxng_req *r,
					 const struct rxng_pkt *pkt, u64 now,
					 u32 *offset);
void rxng_req_answered(struct rxng_req *r, u32 npkts, u64 now);

/* Shared by requester.c and completer.c. */
void rxng_req_step_back(struct rxng_req *r);
void rxng_req_halve_window(struct rxng_req *r);
void rxng_req_restart_timer(struct rxng_req *r, u64 now);

void rxng_pkt_slice(const struct rxng_pkt *burst, u32 i, u32 mtu,
		    struct rxng_pkt *pkt);

#endif
