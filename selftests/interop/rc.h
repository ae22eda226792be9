/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One end of a connection, or of datagrams, for programs that run on two hosts.
 * All functions end the program with a message when something is wrong, except
 * those that return int, which give the error number of the verb.
 */
#ifndef RC_H
#define RC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* In libraries that know it: IBV_QP_EX_WITH_FLUSH. */
#ifdef HAVE_IBV_WR_FLUSH
#define RC_WITH_FLUSH IBV_QP_EX_WITH_FLUSH
#else
#define RC_WITH_FLUSH 0
#endif

/* How long a completion may take before it counts as lost. */
#define RC_PATIENCE_MS 120000

struct rc_conf {
	enum ibv_qp_type type;
	const char *dev;	/* NULL: the first one */
	int gid;		/* index; -1: the first of RoCEv2 */
	int mtu;		/* bytes; 0: the port's */
	int timeout, retry, rnr;
	int depth;		/* of each queue */
	int cqe;		/* of their CQ; 0: as many as both queues hold */
	int rd_atomic;
	int tclass, hop_limit, flow_label;
	int psn;		/* our first; -1: any */
	uint32_t qkey;		/* of datagrams */
	bool on_demand;		/* the memory: no page of it is pinned */
};

extern const struct rc_conf rc_conf_default;

/* What the peer has to know. */
struct rc_addr {
	uint32_t qpn, psn, mtu, rkey;
	uint64_t va, length;
	union ibv_gid gid;
};

struct rc {
	struct rc_conf conf;
	struct ibv_context *ctx;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;	/* of both queues */
	struct ibv_qp *qp;
	struct ibv_ah *ah;	/* of datagrams: to the peer */
	uint64_t send_ops;	/* IBV_QP_EX_WITH_*: beyond ibv_post_send() */
	struct ibv_mr *mr;
	uint8_t *mem;
	size_t size;
	struct rc_addr self, peer;
};

void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Open a device, make its objects, and @size bytes of registered memory. */
void rc_open(struct rc *rc, const struct rc_conf *conf, size_t size);
void rc_close(struct rc *rc);

/* What both ends carry. */
uint32_t rc_mtu(const struct rc *rc, const struct rc_addr *peer);
/* Of a QP in INIT: through RTR to RTS. Datagrams may change their peer later. */
int rc_connect(struct rc *rc, const struct rc_addr *peer);

/*
 * 1 with a completion, 0 when none came within so many milliseconds (0 only
 * looks), or a negative errno: the device may go while a program waits.
 */
int rc_poll(struct rc *rc, struct ibv_wc *wc, int timeout_ms);

int rc_gid_index(struct ibv_context *ctx);
void rc_gid_print(const union ibv_gid *gid, char *text, size_t size);

/* Blocking TCP: a listener that takes one connection, and its client. */
int tcp_accept(const char *port);
int tcp_connect(const char *host, const char *port);
void tcp_send(int fd, const void *data, size_t size);
void tcp_recv(int fd, void *data, size_t size);

#endif
