// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory regions: what can be registered, what a key then allows, until when. */
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "call.h"
#include "verbs.h"

#define PAGE 4096

/* ---- single accesses by a peer ----------------------------------------- */

/* An RDMA WRITE of bytes from local to the address, signalled; its status. */
static enum ibv_wc_status write_to(struct pair *pair, const struct buf *local,
				   uint64_t addr, uint32_t rkey, uint32_t bytes)
{
	struct ibv_sge sge = buf_sge(local, 0, bytes);

	return pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, addr, rkey);
}

static enum ibv_wc_status read_from(struct pair *pair, const struct buf *local,
				    uint64_t addr, uint32_t rkey,
				    uint32_t bytes)
{
	struct ibv_sge sge = buf_sge(local, 0, bytes);

	return pair_ask(pair, IBV_WR_RDMA_READ, &sge, addr, rkey);
}

static void expect_refused(struct pair *pair, const struct buf *local,
			   uint64_t addr, uint32_t rkey, uint32_t bytes)
{
	CHECK_EQ(write_to(pair, local, addr, rkey, bytes),
		 IBV_WC_REM_ACCESS_ERR);
	pair_reconnect(pair);
}

/* ---- ranges ------------------------------------------------------------ */

struct range {
	const char *name;
	size_t offset, length;
};

static const struct range ranges[] = {
	{ "one_byte", 123, 1 },
	{ "last_byte_of_page", PAGE - 1, 1 },
	{ "two_bytes_over_page_end", PAGE - 1, 2 },
	{ "odd", 77, 4095 },
	{ "page", 0, PAGE },
	{ "page_and_byte", 0, PAGE + 1 },
	{ "page_less_byte", 1, PAGE - 1 },
	{ "many_odd", 4093, 5 * PAGE + 7 },
};

/* All of the region can be written, and not one byte on either side. */
TEST_EACH(region, ranges)
{
	struct pair *pair = pair_setup();
	struct buf *local = buf_new(pair->a.host->pd, 8 * PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, 8 * PAGE, ALL_ACCESS);
	struct ibv_sge from = buf_sge(local, 0, arg->length);
	struct ibv_sge to = buf_sge(buf, arg->offset, arg->length);
	struct ibv_mr *mr;

	mr = ibv_reg_mr(pair->b.host->pd, buf->mem + arg->offset, arg->length,
			ALL_ACCESS);
	CHECK_ERRNO(mr);
	CHECK_EQ(write_to(pair, local, to.addr, mr->rkey, arg->length),
		 IBV_WC_SUCCESS);
	buf_move(buf, &to, local, &from, arg->length);
	expect_refused(pair, local, to.addr - 1, mr->rkey, 1);
	expect_refused(pair, local, to.addr + arg->length, mr->rkey, 1);
	expect_refused(pair, local, to.addr, mr->rkey, arg->length + 1);
	buf_check(buf);
	CHECK_EQ(read_from(pair, local, to.addr, mr->rkey, arg->length),
		 IBV_WC_SUCCESS);
	buf_check(local);
	CHECK_RC(ibv_dereg_mr(mr));
	buf_free(local);
	buf_free(buf);
	pair_teardown(pair);
}

#define GIB (1ull << 30)
#define HUGE_REGION (16 * GIB)
/* The memory behind it, many times; 4 GiB is no multiple. */
#define BEHIND (48ull << 20)

static uint8_t *map_16_gib(void)
{
	int fd = memfd_create("behind", 0);
	uint8_t *mem = mmap(NULL, HUGE_REGION, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t at, size;

	if (tap_slow() > 1)
		SKIP("it takes minutes under the checkers");
	CHECK_ERRNO(fd >= 0 && !ftruncate(fd, BEHIND) && mem != MAP_FAILED);
	for (at = 0; at < HUGE_REGION; at += size) {
		size = HUGE_REGION - at < BEHIND ? HUGE_REGION - at : BEHIND;
		CHECK_ERRNO(mmap(mem + at, size, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, fd, 0) == mem + at);
	}
	close(fd);
	return mem;
}

TEST_LIMIT(region_of_16_gib, 200)
{
	struct pair *pair = pair_setup();
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	uint8_t *mem = map_16_gib();
	struct ibv_mr *mr = ibv_reg_mr(pair->b.host->pd, mem, HUGE_REGION,
				       ALL_ACCESS);
	uint64_t at;

	CHECK_ERRNO(mr);
	/* Places that are not behind each other, the last one at the end. */
	for (at = 100; at < HUGE_REGION; at += 3 * GIB + 12345) {
		buf_refill(local);
		CHECK_EQ(write_to(pair, local, (uintptr_t)mem + at, mr->rkey,
				  100), IBV_WC_SUCCESS);
		CHECK(!memcmp(mem + at, local->mem, 100));
	}
	at = HUGE_REGION - 100;
	CHECK_EQ(write_to(pair, local, (uintptr_t)mem + at, mr->rkey, 100),
		 IBV_WC_SUCCESS);
	CHECK(!memcmp(mem + at, local->mem, 100));
	expect_refused(pair, local, (uintptr_t)mem + at, mr->rkey, 101);
	CHECK_RC(ibv_dereg_mr(mr));
	munmap(mem, HUGE_REGION);
	buf_free(local);
	pair_teardown(pair);
}

/* A region may start at any I/O address of the same offset in the page. */
static const struct {
	const char *name;
	uint64_t iova;
} iovas[] = {
	{ "zero", 0 },
	{ "low", 0x10000 },
	{ "high", 0xffff800000000000 },
	{ "top", UINT64_MAX - 2 * PAGE + 1 },	/* its last byte is the last */
};

TEST_EACH(iova, iovas)
{
	struct pair *pair = pair_setup();
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, 2 * PAGE, ALL_ACCESS);
	struct ibv_sge from = buf_sge(local, 0, 100), to;
	struct ibv_mr *mr;

	mr = ibv_reg_mr_iova(pair->b.host->pd, buf->mem, 2 * PAGE, arg->iova,
			     ALL_ACCESS);
	if (!mr && arg->iova + 2 * PAGE == 0 && errno == EINVAL)
		SKIP("a region that ends at 2^64 is refused");
	CHECK_ERRNO(mr);
	to = buf_sge(buf, PAGE - 50, 100);
	CHECK_EQ(write_to(pair, local, arg->iova + PAGE - 50, mr->rkey, 100),
		 IBV_WC_SUCCESS);
	buf_move(buf, &to, local, &from, 100);
	to = buf_sge(buf, 2 * PAGE - 8, 8);
	CHECK_EQ(write_to(pair, local, arg->iova + 2 * PAGE - 8, mr->rkey, 8),
		 IBV_WC_SUCCESS);
	buf_move(buf, &to, local, &from, 8);
	expect_refused(pair, local, buf_addr(buf, 0), mr->rkey, 8);
	expect_refused(pair, local, arg->iova + 2 * PAGE, mr->rkey, 8);
	expect_refused(pair, local, arg->iova - 1, mr->rkey, 8);
	expect_refused(pair, local, arg->iova + 2 * PAGE - 8, mr->rkey, 9);
	buf_check(buf);
	CHECK_RC(ibv_dereg_mr(mr));
	buf_free(local);
	buf_free(buf);
	pair_teardown(pair);
}

/* The local key too means the I/O address. */
TEST_F(pair, iova_local)
{
	struct buf *src = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct buf *dst = buf_new(pair->b.host->pd, PAGE, ALL_ACCESS);
	struct ibv_mr *mr = ibv_reg_mr_iova(pair->a.host->pd, src->mem, PAGE,
					    0x7000, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { 0x7000 + 33, 500, 0 };
	struct ibv_sge from = buf_sge(src, 33, 500), to = buf_sge(dst, 9, 500);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, &sge, 1,
					IBV_SEND_SIGNALED);

	CHECK_ERRNO(mr);
	sge.lkey = mr->lkey;
	wr_remote(&wr, to.addr, dst->mr->rkey);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	buf_move(dst, &to, src, &from, 500);
	buf_check(dst);
	CHECK_RC(ibv_dereg_mr(mr));
	buf_free(src);
	buf_free(dst);
}

TEST_F(pair, iova_wraps)
{
	struct buf *buf = buf_new(pair->b.host->pd, 2 * PAGE, ALL_ACCESS);

	CHECK(!ibv_reg_mr_iova(pair->b.host->pd, buf->mem, 2 * PAGE,
			       UINT64_MAX - PAGE + 1, ALL_ACCESS));
	CHECK_EQ(errno, EINVAL);
	buf_free(buf);
}

/* From zero, if the device takes such a region. */
TEST_F(pair, zero_based)
{
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, 2 * PAGE, ALL_ACCESS);
	struct ibv_sge from = buf_sge(local, 0, 64), to = buf_sge(buf, 500, 64);
	struct ibv_mr *mr = ibv_reg_mr(pair->b.host->pd, buf->mem + 100,
				       PAGE, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);

	if (!mr && (errno == EOPNOTSUPP || errno == EINVAL))
		SKIP("no zero-based regions");
	CHECK_ERRNO(mr);
	CHECK_EQ(write_to(pair, local, 400, mr->rkey, 64), IBV_WC_SUCCESS);
	buf_move(buf, &to, local, &from, 64);
	expect_refused(pair, local, PAGE - 63, mr->rkey, 64);
	expect_refused(pair, local, buf_addr(buf, 500), mr->rkey, 64);
	buf_check(buf);
	CHECK_RC(ibv_dereg_mr(mr));
	buf_free(local);
	buf_free(buf);
}

/* ---- what is refused at once ------------------------------------------- */

struct refused {
	const char *name;
	int access, error;
};

static const struct refused refused_rights[] = {
	{ "remote_write_alone", IBV_ACCESS_REMOTE_WRITE, EINVAL },
	{ "remote_atomic_alone", IBV_ACCESS_REMOTE_ATOMIC, EINVAL },
	{ "remote_write_and_read", IBV_ACCESS_REMOTE_WRITE |
	  IBV_ACCESS_REMOTE_READ, EINVAL },
	{ "unknown_bit", IBV_ACCESS_LOCAL_WRITE | 1 << 19, EINVAL },
};

TEST_EACH(refused_right, refused_rights)
{
	struct host *host = host_open(0);
	void *mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK_ERRNO(mem != MAP_FAILED);
	mr = ibv_reg_mr(host->pd, mem, PAGE, arg->access);
	if (mr)
		FAIL("registered");
	if (errno != arg->error && errno != EOPNOTSUPP)
		FAIL("%s, not %s", strerror(errno), strerror(arg->error));
	host_close(host);
}

/* On-demand paging only where the device says that it has it. */
TEST(on_demand_told_truly)
{
	struct ibv_device_attr_ex attr;
	struct host *host = host_open(0);
	void *mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;
	bool can;

	CHECK_RC(ibv_query_device_ex(host->ctx, NULL, &attr));
	can = attr.odp_caps.general_caps & IBV_ODP_SUPPORT;
	mr = ibv_reg_mr(host->pd, mem, PAGE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	if (can != !!mr)
		FAIL("said %s, and registering %s", can ? "yes" : "no",
		     mr ? "works" : strerror(errno));
	if (mr)
		CHECK_RC(ibv_dereg_mr(mr));
	host_close(host);
}

static void no_region(struct host *host, void *mem, size_t length, int access,
		      int error)
{
	struct ibv_mr *mr = ibv_reg_mr(host->pd, mem, length, access);

	if (mr)
		FAIL("registered");
	if (errno != error)
		FAIL("%s, not %s", strerror(errno), strerror(error));
}

TEST(unmapped)
{
	struct host *host = host_open(0);
	char *mem = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_ERRNO(mem != MAP_FAILED);
	munmap(mem + 2 * PAGE, PAGE);
	no_region(host, mem + 2 * PAGE, PAGE, ALL_ACCESS, EFAULT);
	no_region(host, mem, 4 * PAGE, ALL_ACCESS, EFAULT);
	no_region(host, mem, 2 * PAGE + 1, ALL_ACCESS, EFAULT);
	host_close(host);
}

TEST(zero_length)
{
	struct host *host = host_open(0);
	char *mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_ERRNO(mem != MAP_FAILED);
	no_region(host, mem, 0, ALL_ACCESS, EINVAL);
	host_close(host);
}

TEST(length_wraps)
{
	struct host *host = host_open(0);
	char *mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_ERRNO(mem != MAP_FAILED);
	no_region(host, mem, SIZE_MAX - PAGE + 1, ALL_ACCESS, EINVAL);
	host_close(host);
}

/* A read-only mapping can be read by the peer, and not be registered to write. */
TEST_F(pair, read_only_mapping)
{
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	char *mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK_ERRNO(mem != MAP_FAILED);
	memset(mem, 0x5a, PAGE);
	CHECK_ERRNO(!mprotect(mem, PAGE, PROT_READ));
	no_region(pair->b.host, mem, PAGE, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mr = ibv_reg_mr(pair->b.host->pd, mem, PAGE, IBV_ACCESS_REMOTE_READ);
	CHECK_ERRNO(mr);
	CHECK_EQ(read_from(pair, local, (uintptr_t)mem, mr->rkey, 100),
		 IBV_WC_SUCCESS);
	memset(local->shadow, 0x5a, 100);
	buf_check(local);
	expect_refused(pair, local, (uintptr_t)mem, mr->rkey, 1);
	CHECK_RC(ibv_dereg_mr(mr));
	buf_free(local);
}

/* ---- kinds of memory --------------------------------------------------- */

/* The region keeps its pages when the process gives up the mapping. */
TEST_F(pair, outlives_mapping)
{
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	char *mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK_ERRNO(mem != MAP_FAILED);
	memset(mem, 0x6b, PAGE);
	mr = ibv_reg_mr(pair->b.host->pd, mem, PAGE, ALL_ACCESS);
	CHECK_ERRNO(mr);
	munmap(mem, PAGE);
	CHECK_EQ(read_from(pair, local, (uintptr_t)mem, mr->rkey, PAGE),
		 IBV_WC_SUCCESS);
	memset(local->shadow, 0x6b, PAGE);
	buf_check(local);
	CHECK_RC(ibv_dereg_mr(mr));
	buf_free(local);
}

static long huge_pages(long wanted)
{
	FILE *f = fopen("/proc/sys/vm/nr_hugepages", "r+");
	long old = -1;

	if (f && fscanf(f, "%ld", &old) == 1 && wanted >= 0) {
		rewind(f);
		fprintf(f, "%ld\n", wanted);
	}
	if (f)
		fclose(f);
	return old;
}

#define HUGE (2u << 20)

static const struct {
	const char *name;
	int access;
} huge_page_rights[] = {
	{ "not_told", ALL_ACCESS }, { "told", ALL_ACCESS | IBV_ACCESS_HUGETLB },
};

/* A transfer across the border of two huge pages, at odd places. */
TEST_EACH(huge_pages_mapping, huge_page_rights)
{
	struct pair *pair = pair_setup();
	struct buf *local = buf_new(pair->a.host->pd, 64 * 1024, ALL_ACCESS);
	long old = huge_pages(-1);
	uint8_t *mem;
	struct ibv_mr *mr;

	huge_pages(old + 2);
	mem = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		   MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
	huge_pages(old);
	if (mem == MAP_FAILED)
		SKIP("no huge pages");
	mr = ibv_reg_mr(pair->b.host->pd, mem + 5, 2 * HUGE - 9, arg->access);
	CHECK_ERRNO(mr);
	CHECK_EQ(write_to(pair, local, (uintptr_t)mem + HUGE - 30001, mr->rkey,
			  60001), IBV_WC_SUCCESS);
	CHECK(!memcmp(mem + HUGE - 30001, local->shadow, 60001));
	CHECK_EQ(write_to(pair, local, (uintptr_t)mem + 2 * HUGE - 4 - 1000,
			  mr->rkey, 1000), IBV_WC_SUCCESS);
	CHECK(!memcmp(mem + 2 * HUGE - 1004, local->shadow, 1000));
	CHECK_EQ(mem[2 * HUGE - 4], 0);
	expect_refused(pair, local, (uintptr_t)mem + 2 * HUGE - 4, mr->rkey, 1);
	CHECK_RC(ibv_dereg_mr(mr));
	munmap(mem, 2 * HUGE);
	buf_free(local);
	pair_teardown(pair);
}

/* That pages are huge is no more than a hint: others do too. */
TEST_F(pair, huge_pages_told_of_others)
{
	struct buf *local = buf_new(pair->a.host->pd, 3 * PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, 4 * PAGE,
				  ALL_ACCESS | IBV_ACCESS_HUGETLB);
	struct ibv_sge from = buf_sge(local, 0, 2 * PAGE + 99);
	struct ibv_sge to = buf_sge(buf, PAGE - 50, 2 * PAGE + 99);

	CHECK_EQ(write_to(pair, local, to.addr, buf->mr->rkey, to.length),
		 IBV_WC_SUCCESS);
	buf_move(buf, &to, local, &from, to.length);
	buf_check(buf);
	buf_free(local);
	buf_free(buf);
}

/* The limit on locked memory holds for one who may not pass it. */
TEST(memlock_limit)
{
	struct rlimit limit = { 16 * PAGE, 16 * PAGE };
	struct host *host = host_open(0);
	char *mem = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK_ERRNO(mem != MAP_FAILED);
	CHECK_ERRNO(!setrlimit(RLIMIT_MEMLOCK, &limit));
	if (setresuid(65534, 65534, 65534))
		SKIP("cannot become another user");
	no_region(host, mem, 64 * PAGE, ALL_ACCESS, ENOMEM);
	mr = ibv_reg_mr(host->pd, mem, 4 * PAGE, ALL_ACCESS);
	CHECK_ERRNO(mr);
	CHECK_RC(ibv_dereg_mr(mr));
	host_close(host);
}

/* ---- keys -------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void check_unequal(uint32_t *keys, unsigned int count)
{
	unsigned int i;

	qsort(keys, count, sizeof(*keys), by_value);
	for (i = 1; i < count; i++)
		if (keys[i] == keys[i - 1])
			FAIL("key 0x%x twice", keys[i]);
}

#define MANY 3000

/* Thousands at once: no key twice, and each key means its own bytes. */
TEST_F(pair, many_regions)
{
	struct buf *buf = buf_new(pair->b.host->pd, MANY * 8, ALL_ACCESS);
	struct buf *local = buf_new(pair->a.host->pd, 8, ALL_ACCESS);
	struct ibv_sge from = buf_sge(local, 0, 8);
	unsigned int i, count = MANY;
	static struct ibv_mr *mr[MANY];
	static uint32_t keys[MANY];

	if ((int)count > pair->b.host->dev.max_mr - 10)
		count = pair->b.host->dev.max_mr - 10;
	for (i = 0; i < count; i++) {
		mr[i] = ibv_reg_mr(pair->b.host->pd, buf->mem + 8 * i, 8,
				   ALL_ACCESS);
		CHECK_ERRNO(mr[i]);
		keys[i] = mr[i]->rkey;
		CHECK(keys[i]);
	}
	for (i = 0; i < count; i += 7) {
		struct ibv_sge to = buf_sge(buf, 8 * i, 8);

		CHECK_EQ(write_to(pair, local, to.addr, mr[i]->rkey, 8),
			 IBV_WC_SUCCESS);
		buf_move(buf, &to, local, &from, 8);
	}
	buf_check(buf);
	check_unequal(keys, count);
	for (i = 0; i < count; i++)
		CHECK_RC(ibv_dereg_mr(mr[i]));
	buf_free(buf);
	buf_free(local);
}

/* The key of a region that is gone is not given to the next ones. */
TEST(keys_not_reused_soon)
{
	struct host *host = host_open(0);
	static char mem[PAGE];
	static uint32_t keys[1000];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		struct ibv_mr *mr = ibv_reg_mr(host->pd, mem, PAGE, ALL_ACCESS);

		CHECK_ERRNO(mr);
		keys[i] = mr->rkey;
		CHECK_RC(ibv_dereg_mr(mr));
	}
	check_unequal(keys, ARRAY_SIZE(keys));
	host_close(host);
}

/* Two neighbours in time do not have keys a step apart. */
TEST(keys_hard_to_guess)
{
	struct host *host = host_open(0);
	static char mem[PAGE];
	struct ibv_mr *mr[64];
	unsigned int i, same = 0;

	for (i = 0; i < ARRAY_SIZE(mr); i++) {
		mr[i] = ibv_reg_mr(host->pd, mem, PAGE, ALL_ACCESS);
		CHECK_ERRNO(mr[i]);
		same += i > 1 && mr[i]->rkey - mr[i - 1]->rkey ==
			mr[i - 1]->rkey - mr[i - 2]->rkey;
	}
	if (same > ARRAY_SIZE(mr) / 4)
		FAIL("%u of %zu keys follow by the same step", same,
		     ARRAY_SIZE(mr));
	for (i = 0; i < ARRAY_SIZE(mr); i++)
		CHECK_RC(ibv_dereg_mr(mr[i]));
	host_close(host);
}

/* ---- registering anew -------------------------------------------------- */

TEST_F(pair, rereg_rights)
{
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, PAGE, ALL_ACCESS);
	struct ibv_mr *mr = buf->mr;

	CHECK_RC(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	expect_refused(pair, local, buf_addr(buf, 0), mr->rkey, 8);
	buf_check(buf);
	CHECK_EQ(read_from(pair, local, buf_addr(buf, 0), mr->rkey, 8),
		 IBV_WC_SUCCESS);
	CHECK_RC(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
		       ALL_ACCESS));
	CHECK_EQ(write_to(pair, local, buf_addr(buf, 0), mr->rkey, 8),
		 IBV_WC_SUCCESS);
	buf_free(local);
	buf_free(buf);
}

/* What cannot be done changes nothing. */
TEST_F(pair, rereg_refused)
{
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, PAGE, ALL_ACCESS);
	char *hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	struct ibv_mr *mr = buf->mr;

	CHECK_ERRNO(hole != MAP_FAILED);
	munmap(hole, PAGE);
	CHECK_EQ(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, hole, PAGE,
		       0), EFAULT);
	CHECK_EQ(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
		       IBV_ACCESS_REMOTE_WRITE), EINVAL);
	CHECK_EQ(call_rereg_mr(mr, 0, NULL, NULL, 0, 0), EINVAL);
	CHECK_EQ(call_rereg_mr(mr, 1 << 10, NULL, NULL, 0, 0), EOPNOTSUPP);
	CHECK_EQ(write_to(pair, local, buf_addr(buf, 0), mr->rkey, 8),
		 IBV_WC_SUCCESS);
	buf_free(local);
	buf_free(buf);
}

TEST_F(pair, rereg_pd)
{
	struct ibv_pd *other = ibv_alloc_pd(pair->b.host->ctx);
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, PAGE, ALL_ACCESS);
	struct ibv_mr *mr = buf->mr;

	CHECK_ERRNO(other);
	CHECK_RC(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0));
	CHECK_EQ(ibv_dealloc_pd(other), EBUSY);
	expect_refused(pair, local, buf_addr(buf, 0), mr->rkey, 8);
	CHECK_RC(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pair->b.host->pd, NULL, 0,
		       0));
	CHECK_EQ(write_to(pair, local, buf_addr(buf, 0), mr->rkey, 8),
		 IBV_WC_SUCCESS);
	CHECK_RC(ibv_dealloc_pd(other));
	buf_free(local);
	buf_free(buf);
}

/* A peer's memory, and a region that moves between two others. */
struct moving {
	struct pair *pair;
	struct buf *local, *first, *second;
	struct ibv_mr *mr;		/* the region, if it is still there at the end */
};

static struct moving *moving_setup(void)
{
	struct moving *m = calloc(1, sizeof(*m));

	CHECK(m);
	m->pair = pair_setup();
	m->local = buf_new(m->pair->a.host->pd, PAGE, ALL_ACCESS);
	m->first = buf_new(m->pair->b.host->pd, 2 * PAGE, ALL_ACCESS);
	m->second = buf_new(m->pair->b.host->pd, 2 * PAGE, ALL_ACCESS);
	return m;
}

static void moving_teardown(struct moving *m)
{
	buf_check(m->first);
	buf_check(m->second);
	if (m->mr)
		CHECK_RC(ibv_dereg_mr(m->mr));
	buf_free(m->local);
	buf_free(m->first);
	buf_free(m->second);
	pair_teardown(m->pair);
	free(m);
}

TEST_F(moving, rereg_memory)
{
	struct buf *local = moving->local, *first = moving->first;
	struct buf *second = moving->second;
	struct pair *pair = moving->pair;
	struct ibv_mr *mr = ibv_reg_mr(pair->b.host->pd, first->mem, PAGE,
				       ALL_ACCESS);
	struct ibv_sge from = buf_sge(local, 0, 64), to;

	CHECK_ERRNO(mr);
	moving->mr = mr;
	CHECK_RC(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
		       second->mem + 10, PAGE + 20, 0));
	to = buf_sge(second, PAGE - 34, 64);
	CHECK_EQ(write_to(pair, local, to.addr, mr->rkey, 64), IBV_WC_SUCCESS);
	buf_move(second, &to, local, &from, 64);
	expect_refused(pair, local, buf_addr(first, 0), mr->rkey, 64);
	expect_refused(pair, local, to.addr + 1, mr->rkey, 64);
}

/* A connection whose second end is in another domain than the pair's. */
struct elsewhere {
	struct host host;
	struct end a, b;
};

static void open_elsewhere(struct elsewhere *e, struct pair *pair)
{
	e->host = *pair->b.host;
	e->host.pd = ibv_alloc_pd(e->host.ctx);
	CHECK_ERRNO(e->host.pd);
	end_create(&e->a, pair->a.host, &pair->param);
	end_create(&e->b, &e->host, &pair->param);
	end_connect(&e->b, &e->a);
	end_connect(&e->a, &e->b);
}

static void close_elsewhere(struct elsewhere *e)
{
	end_destroy(&e->a);
	end_destroy(&e->b);
	CHECK_RC(ibv_dealloc_pd(e->host.pd));
}

/* One operation of 64 bytes by it; after an error it is connected anew. */
static enum ibv_wc_status ask_elsewhere(struct elsewhere *e,
					enum ibv_wr_opcode opcode,
					const struct buf *local, uint64_t addr,
					uint32_t rkey)
{
	struct ibv_sge sge = buf_sge(local, 0, 64);
	struct ibv_send_wr wr = send_wr(opcode, 1, &sge, 1, IBV_SEND_SIGNALED);
	enum ibv_wc_status status;

	wr_remote(&wr, addr, rkey);
	end_send(&e->a, &wr);
	status = wc_wait(e->a.scq).status;
	if (status != IBV_WC_SUCCESS) {
		CHECK_RC(end_modify_state(&e->a, IBV_QPS_RESET));
		CHECK_RC(end_modify_state(&e->b, IBV_QPS_RESET));
		end_connect(&e->b, &e->a);
		end_connect(&e->a, &e->b);
	}
	return status;
}

#define REREG_ALL (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | \
		   IBV_REREG_MR_CHANGE_ACCESS)

/* Domain, memory and rights by one call; then nothing of the old ones holds. */
TEST_F(moving, rereg_everything)
{
	struct buf *local = moving->local, *first = moving->first;
	struct buf *second = moving->second;
	struct pair *pair = moving->pair;
	struct ibv_mr *mr = ibv_reg_mr(pair->b.host->pd, first->mem, PAGE,
				       ALL_ACCESS);
	uint64_t addr = buf_addr(second, PAGE - 34);
	struct ibv_sge from = buf_sge(second, PAGE - 34, 64);
	struct ibv_sge to = buf_sge(local, 0, 64);
	struct elsewhere e;

	CHECK_ERRNO(mr);
	open_elsewhere(&e, pair);
	CHECK_RC(call_rereg_mr(mr, REREG_ALL, e.host.pd, second->mem + 10,
			       PAGE + 20, IBV_ACCESS_REMOTE_READ));
	CHECK_EQ(read_from(pair, local, addr, mr->rkey, 64),
		 IBV_WC_REM_ACCESS_ERR);
	pair_reconnect(pair);
	CHECK_EQ(ask_elsewhere(&e, IBV_WR_RDMA_WRITE, local, addr, mr->rkey),
		 IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ask_elsewhere(&e, IBV_WR_RDMA_READ, local,
			       buf_addr(first, 100), mr->rkey),
		 IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ask_elsewhere(&e, IBV_WR_RDMA_READ, local, addr + 1, mr->rkey),
		 IBV_WC_REM_ACCESS_ERR);
	buf_check(local);
	CHECK_EQ(ask_elsewhere(&e, IBV_WR_RDMA_READ, local, addr, mr->rkey),
		 IBV_WC_SUCCESS);
	buf_move(local, &to, second, &from, 64);
	buf_check(local);
	CHECK_RC(ibv_dereg_mr(mr));
	close_elsewhere(&e);
}

/* When one of three cannot be done, none is. */
TEST_F(pair, rereg_nothing)
{
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, PAGE, ALL_ACCESS);
	struct ibv_sge from = buf_sge(local, 0, 64), to = buf_sge(buf, 8, 64);
	char *hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	struct ibv_pd *other = ibv_alloc_pd(pair->b.host->ctx);

	CHECK_ERRNO(hole != MAP_FAILED && other);
	munmap(hole, PAGE);
	CHECK_EQ(call_rereg_mr(buf->mr, REREG_ALL, other, hole, PAGE,
			       IBV_ACCESS_REMOTE_READ), EFAULT);
	CHECK_EQ(call_rereg_mr(buf->mr, REREG_ALL, other, buf->mem + 64, 64,
			       IBV_ACCESS_REMOTE_WRITE), EINVAL);
	CHECK_RC(ibv_dealloc_pd(other));
	CHECK_EQ(write_to(pair, local, to.addr, buf->mr->rkey, 64),
		 IBV_WC_SUCCESS);
	buf_move(buf, &to, local, &from, 64);
	buf_check(buf);
	buf_free(local);
	buf_free(buf);
}

/* A zero-based region stays so with other memory, and can become one, or none. */
TEST_F(moving, rereg_zero_based)
{
	struct buf *local = moving->local, *first = moving->first;
	struct buf *second = moving->second;
	struct pair *pair = moving->pair;
	struct ibv_sge from = buf_sge(local, 0, 64), to;
	struct ibv_mr *mr = ibv_reg_mr(pair->b.host->pd, first->mem + 100, PAGE,
				       ALL_ACCESS | IBV_ACCESS_ZERO_BASED);

	CHECK_ERRNO(mr);
	moving->mr = mr;
	CHECK_RC(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			       second->mem + 10, PAGE + 20, 0));
	to = buf_sge(second, 10 + PAGE - 44, 64);
	CHECK_EQ(write_to(pair, local, PAGE - 44, mr->rkey, 64),
		 IBV_WC_SUCCESS);
	buf_move(second, &to, local, &from, 64);
	expect_refused(pair, local, PAGE - 43, mr->rkey, 64);
	expect_refused(pair, local, buf_addr(second, 10), mr->rkey, 64);

	CHECK_RC(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION |
			       IBV_REREG_MR_CHANGE_ACCESS, NULL, first->mem,
			       2 * PAGE, ALL_ACCESS));
	to = buf_sge(first, 2 * PAGE - 64, 64);
	CHECK_EQ(write_to(pair, local, to.addr, mr->rkey, 64), IBV_WC_SUCCESS);
	buf_move(first, &to, local, &from, 64);
	expect_refused(pair, local, 0, mr->rkey, 64);

	CHECK_RC(call_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION |
			       IBV_REREG_MR_CHANGE_ACCESS, NULL,
			       second->mem + 1000, 300,
			       ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	to = buf_sge(second, 1000 + 236, 64);
	CHECK_EQ(write_to(pair, local, 236, mr->rkey, 64), IBV_WC_SUCCESS);
	buf_move(second, &to, local, &from, 64);
	expect_refused(pair, local, 237, mr->rkey, 64);
}

/* ---- the end of a region ----------------------------------------------- */

#define FLIGHT_BYTES 65536

struct flight {
	struct pair *pair;
	struct buf *local;
	uint64_t addr;
	uint32_t rkey;
	unsigned int done;
	enum ibv_wc_status status;
};

/* One WRITE after the other, until one fails. */
static void *keep_writing(void *arg)
{
	struct flight *f = arg;

	while (!f->status) {
		f->status = write_to(f->pair, f->local, f->addr, f->rkey,
				     FLIGHT_BYTES);
		__atomic_fetch_add(&f->done, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/*
 * When dereg returns the memory is the consumer's alone: not one byte changes
 * after that, and the peer is told.
 */
TEST_F(pair, dereg_under_writes)
{
	struct buf *local = buf_new(pair->a.host->pd, FLIGHT_BYTES, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, FLIGHT_BYTES, ALL_ACCESS);
	unsigned int round, rounds = tap_rounds(50);

	for (round = 0; round < rounds; round++) {
		struct flight f = {
			pair, local, buf_addr(buf, 0), buf->mr->rkey, 0, 0,
		};
		pthread_t writer;

		CHECK_RC(pthread_create(&writer, NULL, keep_writing, &f));
		while (__atomic_load_n(&f.done, __ATOMIC_ACQUIRE) < round % 5)
			sched_yield();
		CHECK_RC(ibv_dereg_mr(buf->mr));
		buf_refill(buf);
		CHECK_RC(pthread_join(writer, NULL));
		CHECK_EQ(f.status, IBV_WC_REM_ACCESS_ERR);
		buf_check(buf);
		buf->mr = ibv_reg_mr(pair->b.host->pd, buf->mem, buf->size,
				     ALL_ACCESS);
		CHECK_ERRNO(buf->mr);
		pair_reconnect(pair);
	}
	buf_free(local);
	buf_free(buf);
}

/* The same for memory that a posted receive names. */
TEST_F(pair, dereg_under_receive)
{
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, PAGE, ALL_ACCESS);
	struct ibv_sge from = buf_sge(local, 0, 64), to = buf_sge(buf, 0, 64);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &from, 1, 0);

	end_recv(&pair->b, 2, &to, 1);
	CHECK_RC(ibv_dereg_mr(buf->mr));
	buf->mr = NULL;
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_REM_OP_ERR);
	wc_expect(pair->b.rcq, 2, IBV_WC_LOC_PROT_ERR);
	buf_check(buf);
	buf_free(buf);
	buf_free(local);
}

/* And for a request that waits to be sent. */
TEST_F(pair, dereg_under_send)
{
	struct buf *local = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct buf *buf = buf_new(pair->b.host->pd, PAGE, ALL_ACCESS);
	struct ibv_sge from = buf_sge(local, 0, 64), to = buf_sge(buf, 0, 64);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0, 0);
	struct ibv_wc wc;

	end_send(&pair->a, &wr);		/* waits: no receive */
	wr = send_wr(IBV_WR_SEND, 2, &from, 1, IBV_SEND_SIGNALED);
	end_send(&pair->a, &wr);
	CHECK_RC(ibv_dereg_mr(local->mr));
	local->mr = NULL;
	end_recv(&pair->b, 11, NULL, 0);
	end_recv(&pair->b, 12, &to, 1);
	wc_expect(pair->b.rcq, 11, IBV_WC_SUCCESS);
	/* It may have been sent before it had to wait; then it is right. */
	wc = wc_wait(pair->a.scq);
	CHECK_EQ(wc.wr_id, 2);
	if (wc.status == IBV_WC_SUCCESS) {
		wc_expect(pair->b.rcq, 12, IBV_WC_SUCCESS);
		buf_move(buf, &to, local, &from, 64);
	} else {
		CHECK_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
	}
	buf_check(buf);
	buf_free(buf);
	buf_free(local);
}

TEST(pd_busy)
{
	struct host *host = host_open(0);
	struct ibv_pd *pd = ibv_alloc_pd(host->ctx);
	static char mem[PAGE];
	struct ibv_mr *mr;

	CHECK_ERRNO(pd);
	mr = ibv_reg_mr(pd, mem, PAGE, ALL_ACCESS);
	CHECK_ERRNO(mr);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_RC(ibv_dereg_mr(mr));
	CHECK_RC(ibv_dealloc_pd(pd));
	host_close(host);
}
