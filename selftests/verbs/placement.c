// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ATOMIC WRITE and FLUSH (annex A19), put into the ring by hand: older libraries
 * have no function for them.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "call.h"
#include "capture.h"
#include "paged.h"

#define BYTES 8192
#define ACCESS_FLUSH_GLOBAL (1 << 8)
#define ACCESS_FLUSH_PERSISTENT (1 << 9)
#define DEVICE_FLUSH_GLOBAL (1ull << 38)
#define DEVICE_FLUSH_PERSISTENT (1ull << 39)
#define DEVICE_ATOMIC_WRITE (1ull << 40)
/* Of enum ibv_wc_opcode, in later libraries. */
#define WC_FLUSH 8
#define WC_ATOMIC_WRITE 9
#define GLOBAL 1
#define PERSISTENT 2
#define RANGE 0
#define REGION 1

struct placing {
	struct pair *pair;
	struct rings rings;
	struct buf *remote;
	struct ibv_device_attr_ex dev;
	bool stop;
};

static struct placing *open_pair(int qp_access)
{
	struct placing *p = calloc(1, sizeof(*p));
	struct param param = param_default();

	CHECK(p);
	param.access = qp_access;
	p->pair = rings_pair(&param, &p->rings);
	CHECK_RC(ibv_query_device_ex(p->pair->a.host->ctx, NULL, &p->dev));
	return p;
}

static struct placing *open_placing(int qp_access, int mr_access)
{
	struct placing *p = open_pair(qp_access);

	p->remote = buf_new(p->pair->b.host->pd, BYTES, mr_access);
	return p;
}

static bool has(const struct placing *p, uint64_t capability)
{
	return p->dev.device_cap_flags_ex & capability;
}

static bool can_flush(void)
{
	struct host *host = host_open(0);
	struct ibv_device_attr_ex dev;

	CHECK_RC(ibv_query_device_ex(host->ctx, NULL, &dev));
	host_close(host);
	return dev.device_cap_flags_ex & DEVICE_FLUSH_GLOBAL;
}

static struct placing *placing_setup(void)
{
	int flush = can_flush() ? ACCESS_FLUSH_GLOBAL : 0;

	return open_placing(ALL_QP_ACCESS | flush, ALL_ACCESS | flush);
}

static void placing_teardown(struct placing *p)
{
	buf_free(p->remote);
	pair_teardown(p->pair);
	free(p);
}

struct wqe {
	struct rxng_send_wqe head;
	uint64_t value;
};

static enum ibv_wc_status post(struct placing *p, const struct wqe *wqe)
{
	struct ibv_wc wc;

	ring_put(&p->rings.sq, wqe, sizeof(*wqe));
	CHECK_RC(doorbell(&p->pair->a));
	wc = wc_wait(p->pair->a.scq);
	CHECK_EQ(wc.wr_id, 7);
	if (wc.status == IBV_WC_SUCCESS)
		CHECK_EQ((int)wc.opcode,
			 wqe->head.opcode == RXNG_WR_FLUSH ? WC_FLUSH :
							     WC_ATOMIC_WRITE);
	return wc.status;
}

static enum ibv_wc_status store(struct placing *p, uint64_t addr, uint32_t rkey,
				uint64_t value)
{
	return post(p, &(struct wqe) {
		.head.wr_id = 7,
		.head.opcode = RXNG_WR_ATOMIC_WRITE,
		.head.send_flags = RXNG_SEND_SIGNALED,
		.head.wr.rdma.remote_addr = addr,
		.head.wr.rdma.rkey = rkey,
		.head.dma.length = 8,
		.value = value,
	});
}

static struct wqe flush_wqe(uint64_t addr, uint32_t length, uint32_t rkey,
			    int type, int level)
{
	return (struct wqe) {
		.head.wr_id = 7,
		.head.opcode = RXNG_WR_FLUSH,
		.head.send_flags = RXNG_SEND_SIGNALED,
		.head.wr.flush.remote_addr = addr,
		.head.wr.flush.rkey = rkey,
		.head.wr.flush.type = type,
		.head.wr.flush.level = level,
		.head.dma.length = length,
	};
}

static enum ibv_wc_status flush(struct placing *p, uint64_t addr,
				uint32_t length, uint32_t rkey, int type,
				int level)
{
	struct wqe wqe = flush_wqe(addr, length, rkey, type, level);

	return post(p, &wqe);
}

/* ---- ATOMIC WRITE ------------------------------------------------------ */

TEST_F(placing, atomic_write)
{
	uint64_t value = 0x1122334455667788;
	int i;

	CHECK(has(placing, DEVICE_ATOMIC_WRITE));
	for (i = 0; i < 20; i++) {
		CHECK_EQ(store(placing, buf_addr(placing->remote, 64 + 8 * i),
			       placing->remote->mr->rkey, value + i),
			 IBV_WC_SUCCESS);
		buf_put64(placing->remote, 64 + 8 * i, value + i);
	}
	buf_check(placing->remote);
}

struct bad_store {
	const char *name;
	uint64_t offset;
	uint32_t rkey_xor;
	int access;
	enum ibv_wc_status status;
};

static const struct bad_store bad_stores[] = {
	{ "misaligned", 65, 0, ALL_ACCESS, IBV_WC_REM_INV_REQ_ERR },
	{ "past_end", BYTES, 0, ALL_ACCESS, IBV_WC_REM_ACCESS_ERR },
	{ "bad_key", 64, 0x100, ALL_ACCESS, IBV_WC_REM_ACCESS_ERR },
	{ "no_right", 64, 0, IBV_ACCESS_REMOTE_READ, IBV_WC_REM_ACCESS_ERR },
};

TEST_EACH(bad_store, bad_stores)
{
	struct placing *p = open_placing(ALL_QP_ACCESS, arg->access);

	CHECK_EQ(store(p, buf_addr(p->remote, 0) + arg->offset,
		       p->remote->mr->rkey ^ arg->rkey_xor, 1), arg->status);
	end_wait_state(&p->pair->b, IBV_QPS_ERR);
	buf_check(p->remote);
	placing_teardown(p);
}

TEST(store_of_another_length)
{
	struct placing *p = open_placing(ALL_QP_ACCESS, ALL_ACCESS);
	struct wqe wqe = {
		.head.wr_id = 7,
		.head.opcode = RXNG_WR_ATOMIC_WRITE,
		.head.wr.rdma.remote_addr = buf_addr(p->remote, 64),
		.head.wr.rdma.rkey = p->remote->mr->rkey,
		.head.dma.length = 4,
	};

	CHECK_EQ(post(p, &wqe), IBV_WC_LOC_LEN_ERR);
	buf_check(p->remote);
	placing_teardown(p);
}

/* ---- memory that is paged in on demand ---------------------------------- */

TEST(atomic_write_untouched)
{
	struct placing *p = open_pair(ALL_QP_ACCESS);
	struct paged *there = paged_new(p->pair->b.host->pd, 4 * PAGE, 1,
					PROT_READ | PROT_WRITE, 0);
	uint64_t before = host_counter(p->pair->b.host, "page_faults");
	uint64_t value = 0x1122334455667788, found;

	CHECK_EQ(store(p, paged_sge(there, PAGE + 8, 8).addr, there->mr->rkey,
		       value), IBV_WC_SUCCESS);
	CHECK_EQ(host_counter(p->pair->b.host, "page_faults"), before + 1);
	memcpy(&found, there->far + PAGE + 8, 8);
	CHECK_EQ(found, value);
	paged_free(there);
	pair_teardown(p->pair);
	free(p);
}

TEST(flush_untouched)
{
	struct paged *there;
	struct placing *p;
	uint64_t addr;

	if (!can_flush())
		SKIP("this kernel lets no process ask for the right to flush");
	p = open_pair(ALL_QP_ACCESS | ACCESS_FLUSH_GLOBAL);
	there = paged_new(p->pair->b.host->pd, 4 * PAGE, 1,
			  PROT_READ | PROT_WRITE, ACCESS_FLUSH_GLOBAL);
	addr = paged_sge(there, 0, 0).addr;
	CHECK_EQ(flush(p, addr, 4 * PAGE, there->mr->rkey, GLOBAL, RANGE),
		 IBV_WC_SUCCESS);
	CHECK_EQ(flush(p, 0, 0, there->mr->rkey, GLOBAL, REGION),
		 IBV_WC_SUCCESS);
	/* Each byte that is named has to be the region's, paged in or not. */
	CHECK_EQ(flush(p, addr + PAGE, 4 * PAGE, there->mr->rkey, GLOBAL,
		       RANGE), IBV_WC_REM_ACCESS_ERR);
	paged_free(there);
	pair_teardown(p->pair);
	free(p);
}

/* ---- FLUSH ------------------------------------------------------------- */

TEST_F(placing, flush_forms)
{
	uint64_t addr = buf_addr(placing->remote, 0);
	uint32_t rkey = placing->remote->mr->rkey;

	if (!has(placing, DEVICE_FLUSH_GLOBAL))
		SKIP("this kernel lets no process ask for the right to flush");
	CHECK_EQ(flush(placing, addr, BYTES, rkey, GLOBAL, RANGE),
		 IBV_WC_SUCCESS);
	CHECK_EQ(flush(placing, addr + 100, 1, rkey, GLOBAL, RANGE),
		 IBV_WC_SUCCESS);
	CHECK_EQ(flush(placing, addr, 0, rkey, GLOBAL, RANGE), IBV_WC_SUCCESS);
	/* All of the region: address and length do not count. */
	CHECK_EQ(flush(placing, 0, 0, rkey, GLOBAL, REGION), IBV_WC_SUCCESS);
	end_ping(&placing->pair->b, &placing->pair->a);
	buf_check(placing->remote);
}

/* It has a key for peers, who may do nothing else with it. */
TEST(flush_only)
{
	struct placing *p;
	uint64_t addr;

	if (!can_flush())
		SKIP("this kernel lets no process ask for the right to flush");
	p = open_placing(ALL_QP_ACCESS | ACCESS_FLUSH_GLOBAL,
			 ACCESS_FLUSH_GLOBAL);
	addr = buf_addr(p->remote, 0);
	CHECK(p->remote->mr->rkey);
	CHECK_EQ(flush(p, addr, BYTES, p->remote->mr->rkey, GLOBAL, RANGE),
		 IBV_WC_SUCCESS);
	CHECK_EQ(store(p, addr, p->remote->mr->rkey, 1), IBV_WC_REM_ACCESS_ERR);
	placing_teardown(p);
}

struct bad_flush {
	const char *name;
	uint64_t offset;
	uint32_t length, rkey_xor;
	int type, level, qp_access, mr_access;
	enum ibv_wc_status status;
};

#define QP_FLUSH (ALL_QP_ACCESS | ACCESS_FLUSH_GLOBAL)
#define MR_FLUSH (ALL_ACCESS | ACCESS_FLUSH_GLOBAL)

static const struct bad_flush bad_flushes[] = {
	{ "past_end", 1, BYTES, 0, GLOBAL, RANGE, QP_FLUSH, MR_FLUSH,
	  IBV_WC_REM_ACCESS_ERR },
	{ "bad_key", 0, 8, 0x100, GLOBAL, RANGE, QP_FLUSH, MR_FLUSH,
	  IBV_WC_REM_ACCESS_ERR },
	{ "no_right", 0, 8, 0, GLOBAL, RANGE, QP_FLUSH, ALL_ACCESS,
	  IBV_WC_REM_ACCESS_ERR },
	{ "no_right_of_the_qp", 0, 8, 0, GLOBAL, RANGE, ALL_QP_ACCESS, MR_FLUSH,
	  IBV_WC_REM_INV_REQ_ERR },
	{ "persistent_no_right", 0, 8, 0, PERSISTENT, RANGE,
	  QP_FLUSH | ACCESS_FLUSH_PERSISTENT, MR_FLUSH, IBV_WC_REM_ACCESS_ERR },
	{ "persistent_no_right_of_the_qp", 0, 8, 0, PERSISTENT, RANGE, QP_FLUSH,
	  MR_FLUSH, IBV_WC_REM_INV_REQ_ERR },
	{ "no_placement", 0, 8, 0, 0, RANGE, QP_FLUSH, MR_FLUSH,
	  IBV_WC_REM_INV_REQ_ERR },
	{ "no_such_level", 0, 8, 0, GLOBAL, 2, QP_FLUSH, MR_FLUSH,
	  IBV_WC_REM_INV_REQ_ERR },
};

TEST_EACH(bad_flush, bad_flushes)
{
	struct placing *p;

	if (!can_flush())
		SKIP("this kernel lets no process ask for the right to flush");
	p = open_placing(arg->qp_access, arg->mr_access);
	CHECK_EQ(flush(p, buf_addr(p->remote, 0) + arg->offset, arg->length,
		       p->remote->mr->rkey ^ arg->rkey_xor, arg->type,
		       arg->level), arg->status);
	end_wait_state(&p->pair->b, IBV_QPS_ERR);
	placing_teardown(p);
}

/* ---- FLUSH to persistence ---------------------------------------------- */

/* Made of an NVDIMM; see test_verbs.py. */
#define DAX "/dev/dax0.0"
#define DAX_BYTES (16u << 20)
#define DAX_PAGES (DAX_BYTES / 4096)

static struct placing *open_persistent(int qp_access, int mr_access)
{
	struct placing *p;
	void *mem;
	int fd = open(DAX, O_RDWR);

	if (fd < 0)
		SKIP("there is no persistent memory (%s)", DAX);
	p = open_pair(qp_access);
	CHECK(has(p, DEVICE_FLUSH_PERSISTENT));
	mem = mmap(NULL, DAX_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK_ERRNO(mem != MAP_FAILED);
	close(fd);
	p->remote = buf_of(p->pair->b.host->pd, mem, DAX_BYTES, mr_access);
	return p;
}

#define QP_PERSIST (QP_FLUSH | ACCESS_FLUSH_PERSISTENT)
#define MR_PERSIST (MR_FLUSH | ACCESS_FLUSH_PERSISTENT)

/* Python counts what is written back: 5000 bytes, then all, then 1, then none. */
TEST(persistent_forms)
{
	struct placing *p = open_persistent(QP_PERSIST, MR_PERSIST);
	uint64_t addr = buf_addr(p->remote, 0);
	uint32_t rkey = p->remote->mr->rkey;
	struct buf *local = buf_new(p->pair->a.host->pd, BYTES, ALL_ACCESS);
	struct ibv_sge from = buf_sge(local, 3, 5000);
	struct ibv_sge to = buf_sge(p->remote, 100, 5000);

	CHECK_EQ(pair_ask(p->pair, IBV_WR_RDMA_WRITE, &from, to.addr, rkey),
		 IBV_WC_SUCCESS);
	buf_move(p->remote, &to, local, &from, 5000);
	CHECK_EQ(flush(p, to.addr, 5000, rkey, PERSISTENT, RANGE),
		 IBV_WC_SUCCESS);
	CHECK_EQ(flush(p, 0, 0, rkey, PERSISTENT | GLOBAL, REGION),
		 IBV_WC_SUCCESS);
	CHECK_EQ(flush(p, addr + DAX_BYTES - 1, 1, rkey, PERSISTENT, RANGE),
		 IBV_WC_SUCCESS);
	CHECK_EQ(flush(p, addr, 0, rkey, PERSISTENT, RANGE), IBV_WC_SUCCESS);
	CHECK_EQ(flush(p, addr, 8, rkey, GLOBAL, RANGE), IBV_WC_SUCCESS);
	end_ping(&p->pair->b, &p->pair->a);
	buf_check(p->remote);
	buf_free(local);
	placing_teardown(p);
}

/* The same range three times in a row is written back three times. */
TEST(persistent_again)
{
	struct placing *p = open_persistent(QP_PERSIST, MR_PERSIST);
	struct wqe wqe = flush_wqe(buf_addr(p->remote, 64), 64,
				   p->remote->mr->rkey, PERSISTENT, RANGE);
	int i;

	for (i = 0; i < 3; i++)
		ring_put(&p->rings.sq, &wqe, sizeof(wqe));
	CHECK_RC(doorbell(&p->pair->a));
	for (i = 0; i < 3; i++)
		wc_expect(p->pair->a.scq, 7, IBV_WC_SUCCESS);
	placing_teardown(p);
}

static const struct bad_flush bad_persistent[] = {
	{ "past_end", DAX_BYTES - 8, 9, 0, PERSISTENT, RANGE, QP_PERSIST,
	  MR_PERSIST, IBV_WC_REM_ACCESS_ERR },
	{ "no_right", 0, 8, 0, PERSISTENT, RANGE, QP_PERSIST, MR_FLUSH,
	  IBV_WC_REM_ACCESS_ERR },
	{ "only_right", 0, 8, 0, GLOBAL, RANGE, QP_PERSIST,
	  ALL_ACCESS | ACCESS_FLUSH_PERSISTENT, IBV_WC_REM_ACCESS_ERR },
	{ "no_right_of_the_qp", 0, 8, 0, PERSISTENT | GLOBAL, RANGE, QP_FLUSH,
	  MR_PERSIST, IBV_WC_REM_INV_REQ_ERR },
};

TEST_EACH(persistent_bad, bad_persistent)
{
	struct placing *p = open_persistent(arg->qp_access, arg->mr_access);

	CHECK_EQ(flush(p, buf_addr(p->remote, 0) + arg->offset, arg->length,
		       p->remote->mr->rkey, arg->type, arg->level), arg->status);
	end_wait_state(&p->pair->b, IBV_QPS_ERR);
	placing_teardown(p);
}

static void start_flush_region(struct placing *p)
{
	struct wqe wqe = flush_wqe(0, 0, p->remote->mr->rkey, PERSISTENT,
				   REGION);

	ring_put(&p->rings.sq, &wqe, sizeof(wqe));
	CHECK_RC(doorbell(&p->pair->a));
}

/* Pages that the kernel has written back, by Python's probe. */
static long write_backs(void)
{
	FILE *f = fopen("/sys/kernel/tracing/kprobe_profile", "re");
	long hits = -1;

	CHECK_ERRNO(f);
	if (fscanf(f, " written_back %ld", &hits) != 1)
		FAIL("nobody counts what is written back");
	fclose(f);
	return hits;
}

/* All of the region is on its way to memory; it waits for that, and goes. */
TEST(persistent_region_goes)
{
	struct placing *p = open_persistent(QP_PERSIST, MR_PERSIST);
	struct ibv_wc wc;

	start_flush_region(p);
	CHECK_RC(ibv_dereg_mr(p->remote->mr));
	p->remote->mr = NULL;
	wc = wc_wait(p->pair->a.scq);
	CHECK(wc.status == IBV_WC_SUCCESS ||
	      wc.status == IBV_WC_REM_ACCESS_ERR);
	placing_teardown(p);
}

TEST(persistent_qp_goes)
{
	struct placing *p = open_persistent(QP_PERSIST, MR_PERSIST);

	start_flush_region(p);
	CHECK_RC(ibv_destroy_qp(p->pair->b.qp));
	p->pair->b.qp = NULL;
	placing_teardown(p);
}

/* What was asked for before a reset is no answer to the same afterwards. */
TEST(persistent_after_reset)
{
	struct placing *p = open_persistent(QP_PERSIST, MR_PERSIST);
	long before = write_backs();

	start_flush_region(p);
	while (write_backs() == before)
		sched_yield();
	pair_reconnect(p->pair);
	while (write_backs() < before + DAX_PAGES)
		sched_yield();
	CHECK_EQ(flush(p, 0, 0, p->remote->mr->rkey, PERSISTENT, REGION),
		 IBV_WC_SUCCESS);
	CHECK_EQ(write_backs(), before + 2 * DAX_PAGES);
	placing_teardown(p);
}

static void *change_rights(void *arg)
{
	struct placing *p = arg;

	while (!__atomic_load_n(&p->stop, __ATOMIC_RELAXED))
		CHECK_RC(call_rereg_mr(p->remote->mr,
				       IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL,
				       0, MR_PERSIST));
	return NULL;
}

/* Either the region is not there for a moment, or all of it is written back. */
TEST_LIMIT(persistent_changes, 120)
{
	struct placing *p = open_persistent(QP_PERSIST, MR_PERSIST);
	uint32_t rkey = p->remote->mr->rkey;
	pthread_t thread;
	int i;

	CHECK_RC(pthread_create(&thread, NULL, change_rights, p));
	for (i = 0; i < 30; i++) {
		long before = write_backs();
		enum ibv_wc_status status = flush(p, 0, 0, rkey, PERSISTENT,
						  REGION);

		if (status == IBV_WC_SUCCESS) {
			CHECK(write_backs() >= before + DAX_PAGES);
			continue;
		}
		CHECK_EQ(status, IBV_WC_REM_ACCESS_ERR);
		pair_reconnect(p->pair);
	}
	p->stop = true;
	CHECK_RC(pthread_join(thread, NULL));
	placing_teardown(p);
}

/* Nobody may be promised that common memory keeps what it has. */
TEST(persistent_only_what_is)
{
	struct placing *p = open_pair(QP_FLUSH);
	struct ibv_pd *pd = p->pair->b.host->pd;
	struct ibv_mr *mr;

	if (!has(p, DEVICE_FLUSH_PERSISTENT))
		SKIP("this kernel lets no process ask for the right to flush");
	p->remote = buf_new(pd, BYTES, MR_FLUSH);
	mr = ibv_reg_mr(pd, p->remote->mem, BYTES, MR_PERSIST);
	CHECK(!mr);
	CHECK_EQ(errno, EINVAL);
	mr = ibv_reg_mr(pd, p->remote->mem, BYTES,
			MR_PERSIST | IBV_ACCESS_ON_DEMAND);
	CHECK(!mr);
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(call_rereg_mr(p->remote->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
			       NULL, 0, MR_PERSIST), EINVAL);
	CHECK_EQ(flush(p, buf_addr(p->remote, 0), BYTES, p->remote->mr->rkey,
		       GLOBAL, RANGE), IBV_WC_SUCCESS);
	placing_teardown(p);
}

TEST(persistent_by_rereg)
{
	struct placing *p = open_persistent(QP_PERSIST, MR_FLUSH);

	CHECK_RC(call_rereg_mr(p->remote->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
			       NULL, 0, MR_PERSIST));
	CHECK_EQ(flush(p, buf_addr(p->remote, 0), DAX_BYTES,
		       p->remote->mr->rkey, PERSISTENT, RANGE), IBV_WC_SUCCESS);
	placing_teardown(p);
}
