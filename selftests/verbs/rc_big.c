// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The largest message, 2^31 bytes, in little memory: a region whose pages are
 * the same few over and over. The two ends repeat with different periods, so
 * the bytes that remain tell where in the message they come from.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs.h"

#define PAGE 4096ul
#define FROM_PAGES 509			/* primes */
#define TO_PAGES 757

struct tiled {
	uint8_t *mem;
	size_t size, period;
	struct ibv_mr *mr;
};

static void tiled_open(struct tiled *t, struct ibv_pd *pd, size_t size,
		       size_t pages)
{
	int fd = memfd_create("tiled", 0);
	size_t at;

	CHECK_ERRNO(fd >= 0);
	t->period = pages * PAGE;
	t->size = (size + t->period - 1) / t->period * t->period;
	CHECK_ERRNO(!ftruncate(fd, t->period));
	t->mem = mmap(NULL, t->size, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK_ERRNO(t->mem != MAP_FAILED);
	for (at = 0; at < t->size; at += t->period)
		CHECK_ERRNO(mmap(t->mem + at, t->period, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	close(fd);
	t->mr = ibv_reg_mr(pd, t->mem, t->size, ALL_ACCESS);
	CHECK_ERRNO(t->mr);
}

static void tiled_close(struct tiled *t)
{
	CHECK_RC(ibv_dereg_mr(t->mr));
	munmap(t->mem, t->size);
}

static void fill(struct tiled *t)
{
	uint64_t x = 88172645463325252ull;
	size_t i;

	for (i = 0; i < t->period; i += sizeof(x)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(t->mem + i, &x, sizeof(x));
	}
}

/*
 * The byte at place p of the target's period was written last by the last byte
 * of the message that falls there: compare runs that are contiguous in both.
 */
static void check(const struct tiled *to, size_t to_at,
		  const struct tiled *from, size_t from_at, uint64_t length)
{
	uint64_t done = length - to->period;	/* the last period remains */

	while (done < length) {
		size_t t = (to_at + done) % to->period;
		size_t f = (from_at + done) % from->period;
		size_t n = length - done;

		if (n > to->period - t)
			n = to->period - t;
		if (n > from->period - f)
			n = from->period - f;
		if (memcmp(to->mem + t, from->mem + f, n))
			FAIL("bytes at %llu of the message differ",
			     (unsigned long long)done);
		done += n;
	}
}

struct big {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint64_t length;
};

static const struct big bigs[] = {
	{ "send_16M", IBV_WR_SEND, 1ull << 24 },
	{ "write_2G", IBV_WR_RDMA_WRITE, 1ull << 31 },
	{ "read_2G", IBV_WR_RDMA_READ, 1ull << 31 },
	{ "send_2G", IBV_WR_SEND, 1ull << 31 },
};

TEST_EACH_LIMIT(big, bigs, 400)
{
	struct param param = param_default();
	struct tiled here, there, *from, *to;
	size_t here_at = 17, there_at = 4095;
	struct ibv_send_wr wr;
	struct ibv_sge sge, into;
	struct pair *pair;

	if (tap_slow() > 4 && arg->length > 1 << 24)
		SKIP("too slow here");
	param.mtu = IBV_MTU_1024;
	pair = pair_new(&param);
	CHECK(arg->length <= pair->a.host->port.max_msg_sz);
	from = arg->opcode == IBV_WR_RDMA_READ ? &there : &here;
	to = arg->opcode == IBV_WR_RDMA_READ ? &here : &there;
	tiled_open(&here, pair->a.host->pd, arg->length + PAGE,
		   from == &here ? FROM_PAGES : TO_PAGES);
	tiled_open(&there, pair->b.host->pd, arg->length + PAGE,
		   from == &there ? FROM_PAGES : TO_PAGES);
	fill(from);
	sge = (struct ibv_sge){ (uintptr_t)here.mem + here_at, arg->length,
				here.mr->lkey };
	into = (struct ibv_sge){ (uintptr_t)there.mem + there_at, arg->length,
				 there.mr->lkey };
	wr = send_wr(arg->opcode, 1, &sge, 1, IBV_SEND_SIGNALED);
	if (arg->opcode == IBV_WR_SEND)
		end_recv(&pair->b, 2, &into, 1);
	else
		wr_remote(&wr, into.addr, there.mr->rkey);
	end_send(&pair->a, &wr);
	wc_expect_long(pair->a.scq, 1);
	if (arg->opcode == IBV_WR_SEND)
		CHECK_EQ(wc_expect(pair->b.rcq, 2, IBV_WC_SUCCESS).byte_len,
			 arg->length);
	check(to, to == &there ? there_at : here_at,
	      from, from == &here ? here_at : there_at, arg->length);
	tiled_close(&here);
	tiled_close(&there);
	pair_teardown(pair);
}
