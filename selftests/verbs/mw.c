// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory windows: type 1 and 2, their range, rights, keys and ends. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs.h"

#define BYTES 16384
#define WINDOW_AT 4099			/* the window's place in the region */
#define LEN 5000
#define BASE_ACCESS (ALL_ACCESS | IBV_ACCESS_MW_BIND)

struct win {
	struct pair *pair;		/* b has the window, a uses it */
	struct buf *base, *data;
	struct ibv_mw *mw;
	uint32_t rkey;
};

static struct win *open_window(enum ibv_mw_type type, int base_access)
{
	struct win *w = calloc(1, sizeof(*w));

	CHECK(w);
	w->pair = pair_setup();
	w->base = buf_new(w->pair->b.host->pd, BYTES, base_access);
	w->data = buf_new(w->pair->a.host->pd, BYTES, ALL_ACCESS);
	w->mw = ibv_alloc_mw(w->pair->b.host->pd, type);
	CHECK_ERRNO(w->mw);
	return w;
}

static void close_window(struct win *w)
{
	if (w->mw)
		CHECK_RC(ibv_dealloc_mw(w->mw));
	buf_free(w->base);
	buf_free(w->data);
	pair_teardown(w->pair);
	free(w);
}

static struct ibv_mw_bind_info info(struct win *w, size_t at, size_t length,
				    int access)
{
	return (struct ibv_mw_bind_info) {
		.mr = w->base->mr,
		.addr = buf_addr(w->base, at),
		.length = length,
		.mw_access_flags = access,
	};
}

static void post_bind_by_key(struct win *w, struct ibv_mw_bind_info bind,
			     uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 9, .opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = w->mw, .rkey = rkey, .bind_info = bind },
	};

	w->rkey = rkey;
	end_send(&w->pair->b, &wr);
}

/* Post a binding; the completion is the caller's. */
static void post_bind(struct win *w, struct ibv_mw_bind_info bind)
{
	struct ibv_mw_bind one = {
		.wr_id = 9, .send_flags = IBV_SEND_SIGNALED, .bind_info = bind,
	};

	if (w->mw->type == IBV_MW_TYPE_1) {
		CHECK_RC(ibv_bind_mw(w->pair->b.qp, w->mw, &one));
		w->rkey = w->mw->rkey;
		return;
	}
	post_bind_by_key(w, bind, ibv_inc_rkey(w->mw->rkey));
	w->mw->rkey = w->rkey;
}

static void bind_to(struct win *w, size_t at, size_t length, int access)
{
	struct ibv_wc wc;

	post_bind(w, info(w, at, length, access));
	wc = wc_expect(w->pair->b.scq, 9, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_BIND_MW);
}

#define BIND(...) AT(bind_to(w, __VA_ARGS__))

/* One operation of the peer's; its status. */
static enum ibv_wc_status access_by(struct win *w, enum ibv_wr_opcode opcode,
				    uint64_t addr, uint32_t length,
				    uint32_t rkey)
{
	struct ibv_sge sge = buf_sge(w->data, 0, length);
	struct ibv_send_wr wr = send_wr(opcode, 1, &sge, 1, IBV_SEND_SIGNALED);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr_atomic(&wr, addr, rkey, 1, 0);
	else
		wr_remote(&wr, addr, rkey);
	end_send(&w->pair->a, &wr);
	return wc_wait(w->pair->a.scq).status;
}

static void allowed(struct win *w, enum ibv_wr_opcode opcode, uint64_t addr,
		    uint32_t length)
{
	CHECK_EQ(access_by(w, opcode, addr, length, w->rkey), IBV_WC_SUCCESS);
}

/* Refused, and the connection is made anew. */
static void refused(struct win *w, enum ibv_wr_opcode opcode, uint64_t addr,
		    uint32_t length, uint32_t rkey)
{
	CHECK_EQ(access_by(w, opcode, addr, length, rkey),
		 IBV_WC_REM_ACCESS_ERR);
	pair_reconnect(w->pair);
	while (is_readable(w->pair->b.host->ctx->async_fd)) {
		struct ibv_async_event event;

		host_event(w->pair->b.host, &event);
	}
}

#define ALLOWED(...) AT(allowed(w, __VA_ARGS__))
#define REFUSED(...) AT(refused(w, __VA_ARGS__))
#define WRITE IBV_WR_RDMA_WRITE
#define READ IBV_WR_RDMA_READ
#define ADD IBV_WR_ATOMIC_FETCH_AND_ADD

struct kind {
	const char *name;
	enum ibv_mw_type type;
};

static const struct kind kinds[] = {
	{ "1", IBV_MW_TYPE_1 }, { "2", IBV_MW_TYPE_2 },
};

/* ---- range, rights, key ------------------------------------------------ */

TEST_EACH(range, kinds)
{
	struct win *w = open_window(arg->type, BASE_ACCESS);
	uint64_t from, end;
	struct ibv_sge source, target;

	BIND(WINDOW_AT, LEN, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	from = buf_addr(w->base, WINDOW_AT);
	end = from + LEN;
	ALLOWED(WRITE, from, LEN);
	source = buf_sge(w->data, 0, LEN);
	target = buf_sge(w->base, WINDOW_AT, LEN);
	buf_move(w->base, &target, w->data, &source, LEN);
	buf_check(w->base);
	ALLOWED(READ, from + 1000, LEN - 1000);
	CHECK(!memcmp(w->data->mem, w->base->mem + WINDOW_AT + 1000, LEN - 1000));
	ALLOWED(WRITE, end - 1, 1);
	memcpy(w->base->shadow + WINDOW_AT + LEN - 1, w->data->mem, 1);
	REFUSED(WRITE, end, 1, w->rkey);
	REFUSED(WRITE, from - 1, 1, w->rkey);
	REFUSED(READ, from + 1, LEN, w->rkey);
	REFUSED(WRITE, from, 1, w->rkey ^ 1);
	buf_check(w->base);
	close_window(w);
}

TEST_EACH(rights, kinds)
{
	struct win *w = open_window(arg->type, BASE_ACCESS);
	uint64_t addr = buf_addr(w->base, 8192);

	BIND(8192, 64, IBV_ACCESS_REMOTE_READ);
	ALLOWED(READ, addr, 64);
	REFUSED(WRITE, addr, 1, w->rkey);
	REFUSED(ADD, addr, 8, w->rkey);
	buf_check(w->base);
	close_window(w);
}

TEST_EACH(atomic, kinds)
{
	struct win *w = open_window(arg->type, BASE_ACCESS);
	uint64_t before = buf_get64(w->base, 8192);

	BIND(8192, 8, IBV_ACCESS_REMOTE_ATOMIC);
	ALLOWED(ADD, buf_addr(w->base, 8192), 8);
	buf_put64(w->base, 8192, before + 1);
	buf_check(w->base);
	close_window(w);
}

/* A window is for peers: its key is no local one. */
TEST_EACH(not_a_local_key, kinds)
{
	struct win *w = open_window(arg->type, BASE_ACCESS);
	struct ibv_sge sge;
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &sge, 1, 0);

	BIND(0, 64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	sge = buf_sge(w->base, 0, 64);
	sge.lkey = w->rkey;
	end_send(&w->pair->b, &wr);
	wc_expect(w->pair->b.scq, 1, IBV_WC_LOC_PROT_ERR);
	close_window(w);
}

/* 10.6.7.2: before it is bound it shows nothing. */
TEST_EACH(not_bound, kinds)
{
	struct win *w = open_window(arg->type, BASE_ACCESS);

	REFUSED(WRITE, buf_addr(w->base, 0), 1, w->mw->rkey);
	buf_check(w->base);
	close_window(w);
}

TEST(zero_based)
{
	struct win *w = open_window(IBV_MW_TYPE_2, BASE_ACCESS);

	BIND(WINDOW_AT, LEN, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED);
	ALLOWED(WRITE, 0, 16);
	memcpy(w->base->shadow + WINDOW_AT, w->data->mem, 16);
	ALLOWED(WRITE, LEN - 16, 16);
	memcpy(w->base->shadow + WINDOW_AT + LEN - 16, w->data->mem, 16);
	REFUSED(WRITE, LEN, 1, w->rkey);
	REFUSED(WRITE, buf_addr(w->base, WINDOW_AT), 1, w->rkey);
	buf_check(w->base);
	close_window(w);
}

/* ---- ends of a binding ------------------------------------------------- */

/* Type 1: bound anew at any time; the old key is dead. */
TEST(rebind)
{
	struct win *w = open_window(IBV_MW_TYPE_1, BASE_ACCESS);
	uint32_t old;

	BIND(0, 64, IBV_ACCESS_REMOTE_WRITE);
	old = w->rkey;
	BIND(4096, 64, IBV_ACCESS_REMOTE_WRITE);
	CHECK(w->rkey != old);
	ALLOWED(WRITE, buf_addr(w->base, 4096), 64);
	memcpy(w->base->shadow + 4096, w->data->mem, 64);
	REFUSED(WRITE, buf_addr(w->base, 0), 64, w->rkey);
	REFUSED(WRITE, buf_addr(w->base, 4096), 64, old);
	/* Length zero takes it back. */
	BIND(0, 0, 0);
	REFUSED(WRITE, buf_addr(w->base, 4096), 64, w->rkey);
	buf_check(w->base);
	close_window(w);
}

static struct ibv_send_wr invalidate(uint32_t rkey)
{
	return (struct ibv_send_wr) {
		.wr_id = 5, .opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey,
	};
}

TEST(invalidate_locally)
{
	struct win *w = open_window(IBV_MW_TYPE_2, BASE_ACCESS);
	struct ibv_send_wr wr;

	BIND(0, 64, IBV_ACCESS_REMOTE_WRITE);
	wr = invalidate(w->rkey);
	end_send(&w->pair->b, &wr);
	CHECK_EQ(wc_expect(w->pair->b.scq, 5, IBV_WC_SUCCESS).opcode,
		 IBV_WC_LOCAL_INV);
	REFUSED(WRITE, buf_addr(w->base, 0), 1, w->rkey);
	BIND(128, 64, IBV_ACCESS_REMOTE_WRITE);
	ALLOWED(WRITE, buf_addr(w->base, 128), 1);
	memcpy(w->base->shadow + 128, w->data->mem, 1);
	buf_check(w->base);
	close_window(w);
}

TEST(invalidate_by_peer)
{
	struct win *w = open_window(IBV_MW_TYPE_2, BASE_ACCESS);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND_WITH_INV, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct ibv_wc wc;

	BIND(0, 64, IBV_ACCESS_REMOTE_WRITE);
	wr.invalidate_rkey = w->rkey;
	end_recv(&w->pair->b, 2, NULL, 0);
	end_send(&w->pair->a, &wr);
	wc_expect(w->pair->a.scq, 1, IBV_WC_SUCCESS);
	wc = wc_expect(w->pair->b.rcq, 2, IBV_WC_SUCCESS);
	CHECK(wc.wc_flags & IBV_WC_WITH_INV);
	CHECK_EQ(wc.invalidated_rkey, w->rkey);
	REFUSED(WRITE, buf_addr(w->base, 0), 1, w->rkey);
	close_window(w);
}

/* A connection of the window's host beside the one that it is bound to. */
struct stranger {
	struct end end, peer;
};

static void open_stranger(struct win *w, struct stranger *s)
{
	end_create(&s->end, w->pair->b.host, &w->pair->param);
	end_create(&s->peer, w->pair->a.host, &w->pair->param);
	end_connect(&s->end, &s->peer);
	end_connect(&s->peer, &s->end);
}

static void close_stranger(struct stranger *s)
{
	end_destroy(&s->end);
	end_destroy(&s->peer);
}

static void write_by_stranger(struct win *w, struct stranger *s)
{
	struct ibv_sge sge = buf_sge(w->data, 0, 1);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, &sge, 1,
					IBV_SEND_SIGNALED);

	wr_remote(&wr, buf_addr(w->base, 0), w->rkey);
	end_send(&s->peer, &wr);
	wc_expect(s->peer.scq, 1, IBV_WC_REM_ACCESS_ERR);
}

static void invalidate_by_stranger(struct win *w, struct stranger *s)
{
	struct ibv_send_wr wr = invalidate(w->rkey);

	end_send(&s->end, &wr);
	wc_expect(s->end.scq, 5, IBV_WC_LOC_QP_OP_ERR);
	end_wait_state(&s->end, IBV_QPS_ERR);
}

static void invalidate_by_strangers_peer(struct win *w, struct stranger *s)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND_WITH_INV, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct ibv_wc wc;

	wr.invalidate_rkey = w->rkey;
	end_recv(&s->end, 2, NULL, 0);
	end_send(&s->peer, &wr);
	wc_expect(s->peer.scq, 1, IBV_WC_REM_ACCESS_ERR);
	wc = wc_wait(s->end.rcq);
	CHECK_EQ(wc.wr_id, 2);
	CHECK(wc.status != IBV_WC_SUCCESS);
}

static const struct {
	const char *name;
	void (*act)(struct win *w, struct stranger *s);
} strangers[] = {
	{ "write", write_by_stranger },
	{ "invalidate", invalidate_by_stranger },
	{ "send_with_invalidate", invalidate_by_strangers_peer },
};

/*
 * 10.6.7.2.2: nobody but the QP that it is bound to uses a type 2 window, or takes
 * the binding back.
 */
TEST_EACH(of_another_qp, strangers)
{
	struct win *w = open_window(IBV_MW_TYPE_2, BASE_ACCESS);
	struct stranger stranger;

	open_stranger(w, &stranger);
	BIND(0, 64, IBV_ACCESS_REMOTE_WRITE);
	arg->act(w, &stranger);
	buf_check(w->base);
	ALLOWED(WRITE, buf_addr(w->base, 0), 64);
	memcpy(w->base->shadow, w->data->mem, 64);
	buf_check(w->base);
	close_stranger(&stranger);
	close_window(w);
}

TEST_EACH(dealloc_while_bound, kinds)
{
	struct win *w = open_window(arg->type, BASE_ACCESS);

	BIND(0, 64, IBV_ACCESS_REMOTE_WRITE);
	CHECK_RC(ibv_dealloc_mw(w->mw));
	w->mw = NULL;
	REFUSED(WRITE, buf_addr(w->base, 0), 1, w->rkey);
	buf_check(w->base);
	close_window(w);
}

/* 10.6.7.2.6: the region stays for as long as a window shows it. */
TEST_EACH(region_is_busy, kinds)
{
	struct win *w = open_window(arg->type, BASE_ACCESS);

	BIND(0, 64, IBV_ACCESS_REMOTE_WRITE);
	CHECK_EQ(ibv_dereg_mr(w->base->mr), EBUSY);
	ALLOWED(WRITE, buf_addr(w->base, 0), 1);
	memcpy(w->base->shadow, w->data->mem, 1);
	buf_check(w->base);
	close_window(w);
}

/* ---- bindings that are refused ----------------------------------------- */

struct bad_bind {
	const char *name;
	enum ibv_mw_type type;
	size_t at, length;
	int access, base_access;
};

static const struct bad_bind bad_binds[] = {
	{ "past_end_1", IBV_MW_TYPE_1, BYTES - 8, 9, IBV_ACCESS_REMOTE_READ,
	  BASE_ACCESS },
	{ "past_end_2", IBV_MW_TYPE_2, BYTES - 8, 9, IBV_ACCESS_REMOTE_READ,
	  BASE_ACCESS },
	{ "before_1", IBV_MW_TYPE_1, -1, 9, IBV_ACCESS_REMOTE_READ,
	  BASE_ACCESS },
	{ "wraps_2", IBV_MW_TYPE_2, 8, -8, IBV_ACCESS_REMOTE_READ,
	  BASE_ACCESS },
	{ "no_bind_right_1", IBV_MW_TYPE_1, 0, 8, IBV_ACCESS_REMOTE_READ,
	  ALL_ACCESS },
	{ "no_bind_right_2", IBV_MW_TYPE_2, 0, 8, IBV_ACCESS_REMOTE_READ,
	  ALL_ACCESS },
	{ "write_of_read_only_2", IBV_MW_TYPE_2, 0, 8,
	  IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_MW_BIND },
	{ "empty_2", IBV_MW_TYPE_2, 0, 0, IBV_ACCESS_REMOTE_READ,
	  BASE_ACCESS },
};

/* The bind fails, and nothing is shown by this key. */
static void bind_fails(struct win *w, uint32_t rkey)
{
	wc_expect(w->pair->b.scq, 9, IBV_WC_MW_BIND_ERR);
	end_wait_state(&w->pair->b, IBV_QPS_ERR);
	pair_reconnect(w->pair);
	REFUSED(READ, buf_addr(w->base, 0), 1, rkey);
}

#define BIND_FAILS(...) AT(bind_fails(w, __VA_ARGS__))

TEST_EACH(bad_bind, bad_binds)
{
	struct win *w = open_window(arg->type, arg->base_access);
	struct ibv_mw_bind_info bad = info(w, 0, arg->length, arg->access);
	uint32_t before = w->mw->rkey;

	bad.addr += arg->at;
	post_bind(w, bad);
	BIND_FAILS(w->rkey);
	/* The window can be bound as ever. */
	w->mw->rkey = before;
	if (arg->base_access & IBV_ACCESS_MW_BIND) {
		BIND(0, 8, IBV_ACCESS_REMOTE_READ);
		ALLOWED(READ, buf_addr(w->base, 0), 8);
	}
	close_window(w);
}

/* 10.6.7.1: the lower 8 bits of a type 2 window's key are the consumer's. */
TEST(key_of_choice)
{
	struct win *w = open_window(IBV_MW_TYPE_2, BASE_ACCESS);
	uint32_t before = w->mw->rkey;

	post_bind_by_key(w, info(w, 0, 64, IBV_ACCESS_REMOTE_READ),
			 before ^ 0xa5);
	wc_expect(w->pair->b.scq, 9, IBV_WC_SUCCESS);
	ALLOWED(READ, buf_addr(w->base, 0), 64);
	REFUSED(READ, buf_addr(w->base, 0), 64, before);
	close_window(w);
}

/* The other bits are not. */
TEST(key_of_another)
{
	struct win *w = open_window(IBV_MW_TYPE_2, BASE_ACCESS);
	uint32_t before = w->mw->rkey;

	post_bind_by_key(w, info(w, 0, 64, IBV_ACCESS_REMOTE_READ),
			 before ^ 0x100);
	BIND_FAILS(before);
	BIND(0, 8, IBV_ACCESS_REMOTE_READ);
	ALLOWED(READ, buf_addr(w->base, 0), 8);
	close_window(w);
}

/* A type 2 window that is bound has to be invalidated first. */
TEST(bound_twice)
{
	struct win *w = open_window(IBV_MW_TYPE_2, BASE_ACCESS);

	BIND(0, 64, IBV_ACCESS_REMOTE_WRITE);
	post_bind(w, info(w, 128, 64, IBV_ACCESS_REMOTE_WRITE));
	wc_expect(w->pair->b.scq, 9, IBV_WC_MW_BIND_ERR);
	end_wait_state(&w->pair->b, IBV_QPS_ERR);
	close_window(w);
}

TEST(of_another_domain)
{
	struct win *w = open_window(IBV_MW_TYPE_2, BASE_ACCESS);
	struct ibv_pd *pd = ibv_alloc_pd(w->pair->b.host->ctx);
	struct buf *other;
	struct ibv_mw_bind_info bad;

	CHECK_ERRNO(pd);
	other = buf_new(pd, 4096, BASE_ACCESS);
	bad = info(w, 0, 64, IBV_ACCESS_REMOTE_WRITE);
	bad.mr = other->mr;
	bad.addr = buf_addr(other, 0);
	post_bind(w, bad);
	wc_expect(w->pair->b.scq, 9, IBV_WC_MW_BIND_ERR);
	buf_free(other);
	CHECK_RC(ibv_dealloc_pd(pd));
	close_window(w);
}

/* Regions of a process are not for invalidation, nor are type 1 windows. */
TEST(not_to_be_invalidated)
{
	struct win *w = open_window(IBV_MW_TYPE_1, BASE_ACCESS);
	struct ibv_send_wr wr = invalidate(w->base->mr->rkey);

	end_send(&w->pair->b, &wr);
	wc_expect(w->pair->b.scq, 5, IBV_WC_LOC_QP_OP_ERR);
	pair_reconnect(w->pair);
	BIND(0, 64, IBV_ACCESS_REMOTE_WRITE);
	wr = invalidate(w->rkey);
	end_send(&w->pair->b, &wr);
	wc_expect(w->pair->b.scq, 5, IBV_WC_LOC_QP_OP_ERR);
	close_window(w);
}

/* Bound, invalidated and given back by several threads, under WRITEs. */
struct contest {
	struct win *w;
	volatile bool over;
};

static void *keep_writing(void *arg)
{
	struct contest *c = arg;
	struct win *w = c->w;
	struct ibv_wc wc;

	while (!c->over) {
		struct ibv_sge sge = buf_sge(w->data, 0, 8192);
		struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, &sge, 1,
						IBV_SEND_SIGNALED);

		wr_remote(&wr, buf_addr(w->base, 0), w->rkey);
		if (end_try_send(&w->pair->a, &wr))
			break;
		while (!ibv_poll_cq(w->pair->a.scq, 1, &wc))
			if (c->over)
				return NULL;
		if (wc.status != IBV_WC_SUCCESS)
			break;
	}
	return NULL;
}

TEST(given_back_under_traffic)
{
	unsigned int round;

	for (round = 0; round < tap_rounds(60); round++) {
		struct win *w = open_window(IBV_MW_TYPE_2, BASE_ACCESS);
		struct contest c = { .w = w };
		struct ibv_send_wr wr;
		pthread_t writer;

		BIND(0, 8192, IBV_ACCESS_REMOTE_WRITE);
		wr = invalidate(w->rkey);
		CHECK(!pthread_create(&writer, NULL, keep_writing, &c));
		usleep(round * 50);
		end_send(&w->pair->b, &wr);
		CHECK_RC(ibv_dealloc_mw(w->mw));
		w->mw = NULL;
		CHECK_RC(ibv_dereg_mr(w->base->mr));
		w->base->mr = NULL;
		c.over = true;
		pthread_join(writer, NULL);
		close_window(w);
	}
}

/* ---- while peers write ------------------------------------------------- */

/*
 * What there is of a WRITE whose window was bound elsewhere meanwhile: its first
 * packets, and all of them if it succeeded.
 */
static void check_beginning(struct win *w, enum ibv_wc_status status)
{
	uint32_t mtu = mtu_bytes(w->pair->param.mtu), done = 0;

	if (status == IBV_WC_SUCCESS)
		done = 8192;
	while (done < 8192 &&
	       !memcmp(w->base->mem + done, w->data->mem + done, mtu))
		done += mtu;
	memcpy(w->base->shadow, w->data->mem, done);
	buf_check(w->base);
}

/* A window bound elsewhere beside a stream through it. */
TEST(under_traffic)
{
	struct win *w = open_window(IBV_MW_TYPE_1, BASE_ACCESS);
	struct pair *other = pair_setup();
	unsigned int round;

	for (round = 0; round < tap_rounds(300); round++) {
		struct ibv_sge sge = buf_sge(w->data, 0, 8192);
		struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, &sge, 1,
						IBV_SEND_SIGNALED);
		enum ibv_wc_status status;

		buf_refill(w->data);
		BIND(0, 8192, IBV_ACCESS_REMOTE_WRITE);
		wr_remote(&wr, buf_addr(w->base, 0), w->rkey);
		end_send(&w->pair->a, &wr);
		post_bind(w, info(w, 8192, 8192, IBV_ACCESS_REMOTE_WRITE));
		wc_expect(w->pair->b.scq, 9, IBV_WC_SUCCESS);
		status = wc_wait(w->pair->a.scq).status;
		CHECK(status == IBV_WC_SUCCESS ||
		      status == IBV_WC_REM_ACCESS_ERR);
		check_beginning(w, status);
		if (status != IBV_WC_SUCCESS)
			pair_reconnect(w->pair);
		end_ping(&other->a, &other->b);
	}
	pair_teardown(other);
	close_window(w);
}
