/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the verbs tests share. Nothing here returns an error that a test could
 * forget: helpers end the case when something goes wrong, except those that
 * return int, which give the verb's own error number.
 */
#ifndef VERBS_H
#define VERBS_H

#include <infiniband/verbs.h>
#include <net/if.h>

#include "../lib/tap.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Rights for a region that is used for everything. */
#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* Rights for a queue pair. */
#define ALL_QP_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		       IBV_ACCESS_REMOTE_ATOMIC)

/* ---- host.c: an opened device, one of its GIDs, its events ------------- */

struct host {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
	char netdev[IF_NAMESIZE];
};

/* End 0 is on --dev; end 1 is on --dev2, or on --dev when that is not given. */
struct host *host_open(unsigned int end);
void host_close(struct host *host);
bool gid_is_ipv4(const union ibv_gid *gid);

/* The next asynchronous event, acknowledged. */
void host_event(struct host *host, struct ibv_async_event *event);
void host_expect_event_(struct host *host, enum ibv_event_type type,
			const void *element);
void host_expect_quiet_(struct host *host);
uint64_t host_counter(const struct host *host, const char *name);
void host_wait_counter(const struct host *host, const char *name,
		       uint64_t above);
#define host_expect_event(...) AT(host_expect_event_(__VA_ARGS__))
#define host_expect_quiet(...) AT(host_expect_quiet_(__VA_ARGS__))

/* Until when a test waits before it calls something lost. */
uint64_t deadline(void);
bool deadline_over(uint64_t end);
/* Wait until fd can be read; false when it never could. */
bool wait_readable(int fd);
bool is_readable(int fd);

/* Run a command to its end; its exit status. */
int run(const char *const argv[]);

/* ---- buf.c: registered memory, and what should be in it ---------------- */

struct buf {
	uint8_t *mem;
	uint8_t *shadow;	/* what mem should hold */
	size_t size;
	struct ibv_mr *mr;
};

/* Filled with bytes that no other buffer has at the same place. */
struct buf *buf_new(struct ibv_pd *pd, size_t size, int access);
/* Of memory that is mapped already; from now on it belongs to the buffer. */
struct buf *buf_of(struct ibv_pd *pd, void *mem, size_t size, int access);
void buf_free(struct buf *buf);
void buf_refill(struct buf *buf);
uint64_t buf_addr(const struct buf *buf, size_t offset);
struct ibv_sge buf_sge(const struct buf *buf, size_t offset, uint32_t length);
/*
 * Cut length bytes into count pieces of odd lengths with gaps between them,
 * the first at offset. Returns the number of pieces: never an empty one.
 */
int buf_cut(const struct buf *buf, size_t offset, uint32_t length, int count,
	    struct ibv_sge *sge);
/* What a transfer should do, done to the shadows. */
void buf_move(struct buf *dst, const struct ibv_sge *to, struct buf *src,
	      const struct ibv_sge *from, size_t length);
void buf_put64(struct buf *buf, size_t offset, uint64_t value);
uint64_t buf_get64(const struct buf *buf, size_t offset);
/* Fails at the first byte that differs from the shadow. */
void buf_check_(const struct buf *buf, const char *what);
#define buf_check(buf) AT(buf_check_((buf), #buf))

/* ---- end.c: queue pairs, connected ------------------------------------- */

struct param {
	enum ibv_qp_type type;
	enum ibv_mtu mtu;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t rd_atomic;		/* both as requester and responder */
	uint32_t sq_wr, rq_wr;
	uint32_t sq_sge, rq_sge;
	uint32_t inline_data;
	uint32_t scqe, rcqe;
	int access;
	int sq_sig_all;
	uint32_t qkey;			/* of datagrams */
	struct ibv_srq *srq;		/* receives come from it */
	uint32_t psn;			/* the first end's; the second's is +1 */
	bool channel;
	bool one_context;		/* both ends opened once */
	uint64_t ops;			/* IBV_QP_EX_WITH_*: use ibv_wr_* */
};

struct end {
	struct host *host;
	const struct param *param;
	struct ibv_comp_channel *channel;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;		/* with param.ops */
	struct ibv_qp_cap cap;
	uint32_t psn;
};

struct pair {
	struct param param;
	struct end a, b;
};

struct param param_default(void);

void end_create(struct end *end, struct host *host, const struct param *param);
void end_destroy(struct end *end);

/* Attributes of the three steps; each returns the mask. */
int end_init_attr(const struct end *end, struct ibv_qp_attr *attr);
int end_rtr_attr(const struct end *end, const struct end *peer,
		 struct ibv_qp_attr *attr);
int end_rts_attr(const struct end *end, struct ibv_qp_attr *attr);

void end_to_init(struct end *end);
void end_to_rtr(struct end *end, const struct end *peer);
void end_to_rts(struct end *end);
int end_modify_state(struct end *end, enum ibv_qp_state state);
/* To SQD; @notify: an event tells when nothing is under way any more. */
int end_drain(struct end *end, bool notify);
enum ibv_qp_state end_state(struct end *end);
void end_wait_state_(struct end *end, enum ibv_qp_state state);
#define end_wait_state(...) AT(end_wait_state_(__VA_ARGS__))
void end_connect(struct end *end, const struct end *peer);

struct pair *pair_new(const struct param *param);
struct pair *pair_setup(void);
void pair_teardown(struct pair *pair);
/* Both ends through RESET and connected again. */
void pair_reconnect(struct pair *pair);

/* ---- request.c: posting and completing --------------------------------- */

struct ibv_send_wr send_wr(enum ibv_wr_opcode opcode, uint64_t id,
			   struct ibv_sge *sge, int num_sge,
			   unsigned int flags);
void wr_remote(struct ibv_send_wr *wr, uint64_t addr, uint32_t rkey);
void wr_atomic(struct ibv_send_wr *wr, uint64_t addr, uint32_t rkey,
	       uint64_t compare_add, uint64_t swap);

/* By ibv_post_send(), or by ibv_wr_*() when the end was made for it. */
int end_try_send(struct end *end, struct ibv_send_wr *wr);
int end_try_recv(struct end *end, uint64_t id, struct ibv_sge *sge,
		 int num_sge);
void end_send_(struct end *end, struct ibv_send_wr *wr);
void end_recv_(struct end *end, uint64_t id, struct ibv_sge *sge, int num_sge);
#define end_send(...) AT(end_send_(__VA_ARGS__))
#define end_recv(...) AT(end_recv_(__VA_ARGS__))

/* One completion, or the case fails. */
struct ibv_wc wc_wait_(struct ibv_cq *cq);
/* The same with a work request id and a status. */
struct ibv_wc wc_expect_(struct ibv_cq *cq, uint64_t id,
			 enum ibv_wc_status status);
/* For a request that takes long: only the case's own time limit counts. */
void wc_expect_long_(struct ibv_cq *cq, uint64_t id);
void wc_none_(struct ibv_cq *cq);
#define wc_wait(...) AT(wc_wait_(__VA_ARGS__))
#define wc_expect(...) AT(wc_expect_(__VA_ARGS__))
#define wc_expect_long(...) AT(wc_expect_long_(__VA_ARGS__))
#define wc_none(...) AT(wc_none_(__VA_ARGS__))

/*
 * One signalled request of the first end with one SGE, to its end. An atomic
 * adds 5.
 */
enum ibv_wc_status pair_ask_(struct pair *pair, enum ibv_wr_opcode opcode,
			     struct ibv_sge *sge, uint64_t addr, uint32_t rkey);
#define pair_ask(...) AT(pair_ask_(__VA_ARGS__))

/* Wait for a completion event, which has to be of CQ @want. */
void end_take_event_(struct end *end, struct ibv_cq *want);
#define end_take_event(...) AT(end_take_event_(__VA_ARGS__))
/* A signalled empty message from one end to the other, and its receipt. */
void end_ping_(struct end *from, struct end *to);
#define end_ping(...) AT(end_ping_(__VA_ARGS__))

/*
 * Request 1 of a drained end waits, as does the other end's receive 2 for it;
 * both complete in RTS. Drained again without asking, the end causes no event.
 */
void end_expect_held_(struct end *from, struct end *to);
#define end_expect_held(...) AT(end_expect_held_(__VA_ARGS__))

static inline unsigned int mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

#endif
