/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs. docs/locking.md tells who may touch what; in short: @lock is
 * ownership of the QP, everything without another note belongs to whoever
 * holds it.
 */
#ifndef RXNG_QP_H
#define RXNG_QP_H

#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/mutex.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "ah.h"
#include "counter.h"
#include "cq.h"
#include "cursor.h"
#include "mw.h"
#include "net.h"
#include "proto/requester.h"
#include "proto/responder.h"
#include "ring.h"
#include "srq.h"

/* Packets or bursts that one turn handles before it lets others run. */
#define RXNG_RUN_BUDGET 128
/* Responder and requester may handle so many whatever others have used up. */
#define RXNG_SURE_SHARE 32
/* Looks of a doorbell at an owner that may let go soon. */
#define RXNG_OWNER_SPINS 64

/* A process this far ahead does not wait for its next completion. */
#define RXNG_AHEAD 4
/* Messages up to this cost little more than their number. */
#define RXNG_SHORT_BYTES 4096

/* Bits of struct rxng_qp.wake: why the QP has to run. */
enum rxng_wake {
	/* Packets, room to send, or more than one turn takes. */
	RXNG_WAKE_WORK,
	/* A doorbell: send requests were posted. */
	RXNG_WAKE_POST,
	/* The timer fired, and does not run any more. */
	RXNG_WAKE_TIMER,
};

/* Bits of struct rxng_qp.news: asynchronous events to be delivered. */
enum rxng_news {
	RXNG_NEWS_COMM_EST,
	RXNG_NEWS_SQ_DRAINED,
	RXNG_NEWS_QP_FATAL,
	RXNG_NEWS_QP_REQ_ERR,
	RXNG_NEWS_QP_ACCESS_ERR,
	RXNG_NEWS_LAST_WQE,
	RXNG_NEWS_COUNT,
};

/**
 * struct rxng_send - a posted send request, in the QP's own memory
 * @w: what the transport needs
 * @av: where a datagram goes, held; else NULL
 * @bind: a window's binding
 * @mr: region of a fast registration
 * @key: its new key, or the key of a local invalidate, by itself or behind a
 *	READ
 * @access: its new rights
 * @sge: scatter-gather list; with RXNG_SWQE_INLINE the data itself
 */
struct rxng_send {
	struct rxng_swqe w;
	struct rxng_av *av;
	union {
		struct rxng_bind bind;
		struct {
			struct ib_mr *mr;
			u32 key;
			u32 access;
		};
	};
	struct rxng_sge sge[];
};

/**
 * struct rxng_reply - the READ whose data the responder is sending
 * @active: there is one; requests behind it wait
 * @res: the READ
 * @first: packet of it at which this answer began
 * @next: packet of it that goes next
 */
struct rxng_reply {
	bool active;
	struct rxng_resource res;
	u32 first;
	u32 next;
};

/* What a QP cannot do in its turn, since it takes long. */
enum rxng_errand {
	RXNG_PAGE_IN_TO_READ,
	RXNG_PAGE_IN_TO_WRITE,
	RXNG_WRITE_BACK,
};

/**
 * struct rxng_fault - pages that a QP misses, or that are to be written back;
 *	see fault.c
 * @pager: brings pages in
 * @writer: writes them back; one work for both could run on their two
 *	workqueues at once, and cancelling it would wait for one run only
 * @missed: found missing in this turn; the work is queued when the turn ends,
 *	since its end before that would look as if nothing was missing
 * @asked: the same access is to come again and be told of @err; until a whole
 *	turn has gone by without it, or a reset
 * @pending: the work has yet to be done; from its start it owns what follows
 * @errand: what is to be done
 * @key: key of the memory region
 * @iova: first address
 * @len: bytes
 * @err: why the last ones could not be had, else 0
 */
struct rxng_fault {
	struct work_struct pager;
	struct work_struct writer;
	bool missed;
	bool asked;
	bool pending;
	enum rxng_errand errand;
	u32 key;
	u64 iova;
	u64 len;
	int err;
};

/**
 * struct rxng_qp - a queue pair
 * @ibqp: the core's part
 * @stats: where it counts: with its device, or in a counter that it is bound
 *	to; who counts has bottom halves off
 * @modify_mutex: one modify at a time; outermost
 * @lock: ownership; taken with bottom halves off. The tasklet and doorbells
 *	only try it: who fails leaves a bit in @wake that the owner sees after
 *	letting go
 * @wake: enum rxng_wake bits; atomic
 * @news: enum rxng_news bits; atomic
 * @task: runs the QP when nobody else does
 * @home: CPU that runs it when its consumer is ahead
 * @away: another one, where there is
 * @streak: doorbells since a request of the peer came; a hint, not exact
 * @kick: schedules @task on one of them
 * @kicked: bit 0: @kick is on its way
 * @timer: fires for the nearest of retransmission, RNR, a NAK that is told
 *	again, congestion and the look for late work in ERROR
 * @timer_at: when @timer fires, 0 when it does not
 * @inbox_lock: protects the next six; innermost, bottom halves off
 * @requests: received requests
 * @responses: received responses
 * @ack: newest acknowledgement by a peer on this host, which needs no packet
 * @ack_waits: it was not taken up yet
 * @accepting: packets are taken (RTR and later)
 * @peer: addresses of packets that are taken: source, then destination
 * @fault: pages that it waits for
 * @sk: accounts for packets under way
 * @path: where packets go
 * @dqpn: destination QP
 * @want_space: wake when @sk has charged no more than this, 0 when not; read by
 *	the socket's callback
 * @blocked_until: the network refused a packet: try again then; 0 when not
 * @congestion_ns: how long that is; doubled while it goes on
 * @charged: bytes ever charged to @sk
 * @charged_req: likewise, when the requester last sent
 * @recheck_at: in ERROR: when to look for requests posted without a doorbell
 * @recheck_ns: how long after the last look that is
 * @user: posted by a process through rings
 * @sq: send ring, of a process only
 * @srq: where receives come from instead of @rq, or NULL
 * @rq: receive ring, all zero with @srq
 * @rung: a doorbell told of send requests that were not taken up yet
 * @sends: ring of struct rxng_send of @req.stride bytes each
 * @req: requester and completer
 * @resp: responder
 * @recv: receive request in use
 * @reply: READ response in progress
 * @ack_pending: an acknowledgement has to be sent
 * @owed: syndrome of a NAK that could not be sent yet, 0 when there is none
 * @owed_psn: its PSN
 * @owed_until: when it is given up
 * @established: the peer's first request was seen
 * @last_wqe: it was told that nothing more is taken from @srq (ERROR)
 * @attr: attributes as last set; qp_state is the QP's state, also read
 *	without ownership (READ_ONCE)
 * @cap: capacities
 * @sq_sig_all: each send request is signalled
 * @post_lock: protects the kernel consumer's producer side: @posted
 * @posted: one past the newest request that a kernel consumer posted
 * @retired: oldest request not retired, for who posts
 * @recv_lock: protects the producer side of @rq of a kernel consumer
 */
struct rxng_qp {
	struct ib_qp ibqp;
	struct rxng_stats __percpu *stats;
	struct mutex modify_mutex;

	spinlock_t lock;
	unsigned long wake;
	unsigned long news;
	struct tasklet_struct task;
	unsigned int home;
	unsigned int away;
	u32 streak;
	call_single_data_t kick;
	unsigned long kicked;
	struct hrtimer timer;
	u64 timer_at;

	spinlock_t inbox_lock;
	struct sk_buff_head requests;
	struct sk_buff_head responses;
	struct rxng_pkt ack;
	bool ack_waits;
	bool accepting;
	struct in6_addr peer[2];

	struct rxng_fault fault;

	struct sock *sk;
	struct rxng_path path;
	u32 dqpn;
	u32 want_space;
	u64 blocked_until;
	u64 congestion_ns;
	u64 charged;
	u64 charged_req;
	u64 recheck_at;
	u64 recheck_ns;

	bool user;
	struct rxng_ring sq;
	struct rxng_srq *srq;
	struct rxng_ring rq;
	bool rung;
	void *sends;
	struct rxng_req req;
	struct rxng_resp resp;
	struct rxng_recv recv;
	struct rxng_reply reply;
	bool ack_pending;
	u8 owed;
	u32 owed_psn;
	u64 owed_until;
	bool established;
	bool last_wqe;

	struct ib_qp_attr attr;
	struct ib_qp_cap cap;
	bool sq_sig_all;

	spinlock_t post_lock;
	u32 posted;
	u32 retired;
	spinlock_t recv_lock;
};

static inline struct rxng_qp *to_rxng_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct rxng_qp, ibqp);
}

static inline struct rxng_dev *rxng_qp_dev(const struct rxng_qp *qp)
{
	return to_rxng_dev(qp->ibqp.device);
}

static inline struct net *rxng_qp_net(const struct rxng_qp *qp)
{
	return sock_net(qp->sk);
}

static inline struct rxng_send *rxng_qp_send(const struct rxng_qp *qp, u32 idx)
{
	return container_of(rxng_req_wqe(&qp->req, idx), struct rxng_send, w);
}

/**
 * rxng_qp_count - count something that a QP did or met
 * @qp: QP
 * @stat: what
 * @n: how much of it
 *
 * Context: bottom halves off.
 */
static inline void rxng_qp_count(const struct rxng_qp *qp, enum rxng_stat stat,
				 u64 n)
{
	this_cpu_add(READ_ONCE(qp->stats)->count[stat], n);
}

/**
 * rxng_send_release - a send request is over
 * @send: request; it refers to nothing afterwards
 */
static inline void rxng_send_release(struct rxng_send *send)
{
	rxng_av_put(send->av);
	send->av = NULL;
}

/**
 * rxng_qp_stands_still - does a QP wait for pages?
 * @qp: QP that the caller owns
 *
 * It copies and sends nothing then.
 */
static inline bool rxng_qp_stands_still(const struct rxng_qp *qp)
{
	/* Pairs with the worker: what it found is seen. */
	return smp_load_acquire(&qp->fault.pending);
}

/* qp.c */
struct rxng_qp *rxng_qp_lookup(u32 qpn);
int rxng_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		   struct ib_udata *udata);
int rxng_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init);
int rxng_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
void rxng_qp_init_table(void);
void rxng_qp_exit_table(void);

/* modify.c */
int rxng_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);
void rxng_qp_reset(struct rxng_qp *qp);
void rxng_qp_set_state(struct rxng_qp *qp, enum ib_qp_state state);

/* task.c */
void rxng_qp_wake(struct rxng_qp *qp, enum rxng_wake why);
void rxng_qp_doorbell(struct rxng_qp *qp);
void rxng_qp_run_owned(struct rxng_qp *qp);
void rxng_qp_unlock(struct rxng_qp *qp) __releases(&qp->lock);
void rxng_qp_write_space(struct sock *sk);
void rxng_qp_init_task(struct rxng_qp *qp);
void rxng_qp_stop_task(struct rxng_qp *qp);

/* inbox.c */
int rxng_inbox_init(void);
void rxng_inbox_exit(void);
void rxng_qp_receive(struct rxng_qp *qp, struct sk_buff *skb,
		     const struct in6_addr *saddr,
		     const struct in6_addr *daddr);
void rxng_qp_receive_ack(struct rxng_qp *qp, const struct rxng_pkt *pkt,
			 const struct in6_addr *saddr,
			 const struct in6_addr *daddr);
bool rxng_qp_take_ack(struct rxng_qp *qp, struct rxng_pkt *pkt);
void rxng_qp_drop(const struct rxng_qp *qp, enum rxng_stat why);
void rxng_qp_unqueue(struct rxng_qp *qp, struct sk_buff_head *queue,
		     struct sk_buff *skb);
struct sk_buff *rxng_qp_dequeue(struct rxng_qp *qp, struct sk_buff_head *queue);
void rxng_qp_requeue(struct rxng_qp *qp, struct sk_buff_head *queue,
		     struct sk_buff *skb);
void rxng_qp_purge_inbox(struct rxng_qp *qp);

/* fault.c */
int rxng_qp_end_copy(struct rxng_qp *qp, struct rxng_cursor *cur, int ret);
int rxng_qp_page_in_cell(struct rxng_qp *qp, u32 key, u64 iova);
int rxng_qp_write_back(struct rxng_qp *qp, const struct rxng_pkt *pkt);
void rxng_qp_start_errand(struct rxng_qp *qp, bool whole);
void rxng_qp_init_fault(struct rxng_qp *qp);
void rxng_qp_stop_fault(struct rxng_qp *qp);
int rxng_fault_init(void);
void rxng_fault_exit(void);

/* error.c */
void rxng_qp_error(struct rxng_qp *qp);
void rxng_qp_send_error(struct rxng_qp *qp);
void rxng_qp_fatal(struct rxng_qp *qp);
bool rxng_qp_flush_sends(struct rxng_qp *qp, int *budget);
bool rxng_qp_flush(struct rxng_qp *qp, int *budget);
void rxng_qp_news(struct rxng_qp *qp, enum rxng_news what);
void rxng_qp_deliver(struct rxng_qp *qp);
bool rxng_qp_has_news(const struct rxng_qp *qp);

/* post.c */
int rxng_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr);
int rxng_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr);
void rxng_qp_fetch_sends(struct rxng_qp *qp);
void rxng_qp_publish_head(struct rxng_qp *qp);
void rxng_qp_drop_posted(struct rxng_qp *qp);
int rxng_qp_take_recv(struct rxng_qp *qp);
void rxng_qp_retire_recv(struct rxng_qp *qp);

/* requester.c, completer.c, responder.c */
void rxng_requester_run(struct rxng_qp *qp, u64 now, int *budget);
void rxng_requester_retire(struct rxng_qp *qp);
void rxng_completer_run(struct rxng_qp *qp, u64 now, int *budget);
void rxng_completer_timer(struct rxng_qp *qp, u64 now);
void rxng_responder_run(struct rxng_qp *qp, u64 now, int *budget);
void rxng_responder_pay_nak(struct rxng_qp *qp, u64 now);
void rxng_recv_complete(struct rxng_qp *qp, enum ib_wc_status status,
			const struct rxng_pkt *pkt);

#endif
