/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tests of an RDMA device's verbs for kernel consumers. They use nothing but
 * what <rdma/ib_verbs.h> offers, and so run on any RoCE device that can talk
 * to itself.
 */
#ifndef RXNG_KTEST_H
#define RXNG_KTEST_H

#include <linux/scatterlist.h>
#include <linux/wait.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

/* Bytes of each side's buffer; physically contiguous. */
#define KT_BUF_SIZE (256 * 1024)
#define KT_MAX_MRS 8

/**
 * struct kt_side - one of two connected QPs, with all that it uses
 * @t: test that it belongs to
 * @qp: the QP
 * @cq: CQ of its sends and receives
 * @buf: memory
 * @dma: DMA address of @buf
 * @work: what the CQ's completion handler does besides, or NULL
 * @events: times that it ran
 * @cq_errs: IB_EVENT_CQ_ERR seen
 * @qp_events: a bit for each enum ib_event_type that the QP reported
 * @wait: woken by each handler
 */
struct kt_side {
	struct kt *t;
	struct ib_qp *qp;
	struct ib_cq *cq;
	u8 *buf;
	u64 dma;
	void (*work)(struct kt_side *side);
	atomic_t events;
	atomic_t cq_errs;
	unsigned long qp_events;
	wait_queue_head_t wait;
};

/**
 * struct kt_opts - what a test's QPs are like; zeros mean the usual
 * @cqe: size of the CQs
 * @wr: send and receive queue size of each QP
 * @sge: SGEs of each request
 * @inline_data: bytes of inline data
 * @retries: how often a request is sent again
 * @sig_all: all sends are signalled
 * @poll_ctx: 1 + enum ib_poll_context of CQs that the core polls
 * @unconnected: leave the QPs in RESET
 * @srq: requests of a shared receive queue of both QPs; 0 for none
 * @one_cq: both QPs use the first side's CQ
 * @apart: the first side's QP is of the other protection domain
 */
struct kt_opts {
	u32 cqe;
	u32 wr;
	u32 sge;
	u32 inline_data;
	u8 retries;
	bool sig_all;
	int poll_ctx;
	bool unconnected;
	u32 srq;
	bool one_cq;
	bool apart;
};

/**
 * struct kt - a test that is running
 * @dev: device
 * @gid_index: source GID of both QPs
 * @gid: the GID
 * @mac: link address of its netdev
 * @mtu: path MTU
 * @mtu_bytes: likewise, as a number
 * @opts: of this test
 * @pd: protection domain whose rkey reaches all memory
 * @other_pd: another one
 * @srq: shared receive queue of both QPs, or NULL
 * @srq_limits: IB_EVENT_SRQ_LIMIT_REACHED seen
 * @side: the two QPs
 * @mrs: regions that are given back after the test
 * @num_mrs: how many
 * @why: first failure, or reason for a skip
 * @failed: there was one
 * @skipped: there was a skip
 */
struct kt {
	struct ib_device *dev;
	int gid_index;
	union ib_gid gid;
	u8 mac[ETH_ALEN];
	enum ib_mtu mtu;
	u32 mtu_bytes;
	struct kt_opts opts;
	struct ib_pd *pd;
	struct ib_pd *other_pd;
	struct ib_srq *srq;
	atomic_t srq_limits;
	struct kt_side side[2];
	struct ib_mr *mrs[KT_MAX_MRS];
	int num_mrs;
	char why[200];
	bool failed;
	bool skipped;
};

/**
 * struct kt_case - a test
 * @name: what must be true
 * @run: returns false after kt_fail()
 * @opts: QPs that it wants
 */
struct kt_case {
	const char *name;
	bool (*run)(struct kt *t);
	struct kt_opts opts;
};

/* main.c */
extern unsigned int kt_timeout_ms;
__printf(2, 3) bool kt_fail(struct kt *t, const char *fmt, ...);
__printf(2, 3) bool kt_skip(struct kt *t, const char *fmt, ...);

#define KT_REQUIRE(t, cond, fmt, ...) \
	do { \
		if (!(cond)) \
			return kt_fail(t, "%s:%d: " fmt, __func__, __LINE__, \
				       ##__VA_ARGS__); \
	} while (0)

/* pair.c */
bool kt_setup(struct kt *t, const struct kt_opts *opts);
void kt_teardown(struct kt *t);
bool kt_connect(struct kt *t);
bool kt_to_error(struct kt *t, int side);
void kt_fill(u8 *buf, size_t len, u32 seed);
bool kt_check_fill(struct kt *t, const u8 *buf, size_t len, u32 seed);
struct ib_sge kt_sge(struct kt *t, int side, u32 offset, u32 len);
bool kt_post_recv(struct kt *t, int side, u64 wr_id, u32 offset, u32 len);
bool kt_post_send(struct kt *t, int side, u64 wr_id, u32 offset, u32 len);
bool kt_post_rdma(struct kt *t, int side, enum ib_wr_opcode op, u64 wr_id,
		  struct ib_sge sge, u64 raddr, u32 rkey);
bool kt_poll(struct kt *t, int side, struct ib_wc *wc);
bool kt_expect(struct kt *t, int side, u64 wr_id, enum ib_wc_status status,
	       struct ib_wc *wc);
bool kt_expect_none(struct kt *t, int side);
bool kt_wait_count(struct kt *t, int side, atomic_t *count, int value);

struct ib_mr *kt_alloc_mr(struct kt *t, struct ib_pd *pd, u32 max_pages);
bool kt_map(struct kt *t, struct ib_mr *mr, int side, u32 offset, u32 len);
void kt_reg_wr(struct ib_reg_wr *wr, struct ib_mr *mr, u64 wr_id, int access);
void kt_inv_wr(struct ib_send_wr *wr, u32 rkey, u64 wr_id);
bool kt_reg(struct kt *t, struct ib_mr *mr, int side, int access);
bool kt_inv(struct kt *t, int side, u32 rkey, enum ib_wc_status status);

extern const struct kt_case kt_data_cases[];
extern const struct kt_case kt_post_cases[];
extern const struct kt_case kt_cq_cases[];
extern const struct kt_case kt_mr_cases[];
extern const struct kt_case kt_life_cases[];
extern const struct kt_case kt_fail_cases[];
extern const struct kt_case kt_srq_cases[];

#endif
