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

#include "cq.h"
#include "net.h"
#include "proto/requester.h"
#include "proto/responder.h"
#include "ring.h"

/* Packets or bursts that each queue of the inbox takes. */
#define RXNG_INBOX_MAX 1024
/* Packets or bursts that one turn handles before it lets others run. */
#define RXNG_RUN_BUDGET 128

/* A process this far ahead does not wait for its next completion. */
#define RXNG_AHEAD 4
/* Messages up to this cost little more than their number. */
#define RXNG_SHORT_BYTES 4096

/* Bits of struct rxng_qp.wake: why the QP has to run. */
enum rxng_wake {
	/* Packets, work requests, room to send, or more than one turn takes. */
	RXNG_WAKE_WORK,
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
	RXNG_NEWS_COUNT,
};

/**
 * struct rxng_send - a posted send request, in the QP's own memory
 * @w: what the transport needs
 * @mr: region of a fast registration
 * @key: its new key, or the key of a local invalidate
 * @access: its new rights
 * @sge: scatter-gather list; with RXNG_SWQE_INLINE the data itself
 */
struct rxng_send {
	struct rxng_swqe w;
	struct ib_mr *mr;
	u32 key;
	u32 access;
	struct rxng_sge sge[];
};

/**
 * struct rxng_recv - the receive request that the responder fills
 * @taken: one is in use
 * @wr_id: consumer's identifier
 * @num_sge: entries of @sge
 * @length: bytes that it has room for
 * @sge: scatter list
 */
struct rxng_recv {
	bool taken;
	u64 wr_id;
	u32 num_sge;
	u64 length;
	struct rxng_sge sge[RXNG_MAX_SGE];
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

/**
 * struct rxng_qp - a queue pair
 * @ibqp: the core's part
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
 * @inbox_lock: protects the next four; innermost, bottom halves off
 * @requests: received requests
 * @responses: received responses
 * @accepting: packets are taken (RTR and later)
 * @peer: addresses of packets that are taken: source, then destination
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
 * @rq: receive ring
 * @sends: ring of struct rxng_send of @req.stride bytes each
 * @req: requester and completer
 * @resp: responder
 * @recv: receive request in use
 * @reply: READ response in progress
 * @ack_pending: an acknowledgement has to be sent
 * @established: the peer's first request was seen
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
	bool accepting;
	struct in6_addr peer[2];

	struct sock *sk;
	struct rxng_path path;
	u32 dqpn;
	u32 want_space;
	u64 blocked_until;
	u64 congestion_ns;
	u32 charged;
	u32 charged_req;
	u64 recheck_at;
	u64 recheck_ns;

	bool user;
	struct rxng_ring sq;
	struct rxng_ring rq;
	void *sends;
	struct rxng_req req;
	struct rxng_resp resp;
	struct rxng_recv recv;
	struct rxng_reply reply;
	bool ack_pending;
	bool established;

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
void rxng_qp_receive(struct rxng_qp *qp, struct sk_buff *skb,
		     const struct in6_addr *saddr,
		     const struct in6_addr *daddr);
struct sk_buff *rxng_qp_dequeue(struct rxng_qp *qp, struct sk_buff_head *queue);
void rxng_qp_write_space(struct sock *sk);
void rxng_qp_init_task(struct rxng_qp *qp);
void rxng_qp_stop_task(struct rxng_qp *qp);
void rxng_qp_purge_inbox(struct rxng_qp *qp);

/* error.c */
void rxng_qp_error(struct rxng_qp *qp);
void rxng_qp_fatal(struct rxng_qp *qp);
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
void rxng_recv_complete(struct rxng_qp *qp, enum ib_wc_status status,
			const struct rxng_pkt *pkt);

#endif
