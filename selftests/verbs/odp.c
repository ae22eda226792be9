// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* On-demand paging: memory that is not pinned, as it comes, changes and goes. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call.h"
#include "paged.h"

/* Names that later libraries have; placement.c tests the two. */
#define DEVICE_FLUSH_GLOBAL (1ull << 38)
#define ODP_FLUSH (1 << 6)
#define ODP_ATOMIC_WRITE (1 << 7)

static uint64_t faults(const struct host *host)
{
	return host_counter(host, "page_faults");
}

/* ---- every operation, with no page there ------------------------------- */

struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum ibv_qp_type type;
	size_t offset;
	uint32_t length;
};

static const struct operation operations[] = {
	{ "write", IBV_WR_RDMA_WRITE, IBV_QPT_RC, 77, 3 * PAGE },
	{ "write_long", IBV_WR_RDMA_WRITE, IBV_QPT_RC, 4095, 5000000 },
	{ "write_imm", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QPT_RC, 77, 3 * PAGE },
	{ "write_unreliable", IBV_WR_RDMA_WRITE, IBV_QPT_UC, 1, 60000 },
	{ "read", IBV_WR_RDMA_READ, IBV_QPT_RC, 77, 3 * PAGE },
	{ "read_long", IBV_WR_RDMA_READ, IBV_QPT_RC, 4095, 5000000 },
	{ "send", IBV_WR_SEND, IBV_QPT_RC, 77, 3 * PAGE },
	{ "send_long", IBV_WR_SEND, IBV_QPT_RC, 4095, 5000000 },
	{ "send_unreliable", IBV_WR_SEND, IBV_QPT_UC, 1, 60000 },
	{ "fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QPT_RC, 8, 8 },
};

static void check_moved(const struct operation *op, const struct paged *from,
			const struct paged *to)
{
	CHECK(!memcmp(from->far + op->offset, to->far + op->offset,
		      op->length));
	CHECK(to->far[op->offset - 1] != from->far[op->offset - 1]);
	CHECK(to->far[op->offset + op->length] !=
	      from->far[op->offset + op->length]);
}

static void check_added(const struct operation *op, const struct paged *here,
			const struct paged *there, uint64_t before)
{
	uint64_t found, now;

	memcpy(&found, here->far + op->offset, 8);
	memcpy(&now, there->far + op->offset, 8);
	CHECK_EQ(found, before);
	CHECK_EQ(now, before + 5);
}

TEST_EACH(untouched, operations)
{
	struct param param = param_default();
	size_t size = arg->offset + arg->length + PAGE;
	struct paged *here, *there;
	struct ibv_sge sge, to;
	struct pair *pair;
	uint64_t before, count;

	/* Programs give the rights of their regions to their QPs. */
	param.access |= IBV_ACCESS_ON_DEMAND;
	param.type = arg->type;
	pair = pair_new(&param);
	here = paged_new(pair->a.host->pd, size, 1, PROT_READ | PROT_WRITE, 0);
	there = paged_new(pair->b.host->pd, size, 100, PROT_READ | PROT_WRITE, 0);
	memcpy(&before, there->far + arg->offset, 8);
	count = faults(pair->a.host);

	sge = paged_sge(here, arg->offset, arg->length);
	to = paged_sge(there, arg->offset, arg->length);
	if (arg->opcode == IBV_WR_SEND ||
	    arg->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		end_recv(&pair->b, 9, &to, 1);
	CHECK_EQ(pair_ask(pair, arg->opcode, &sge, to.addr, there->mr->rkey),
		 IBV_WC_SUCCESS);
	if (arg->opcode == IBV_WR_SEND ||
	    arg->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		CHECK_EQ(wc_expect(pair->b.rcq, 9, IBV_WC_SUCCESS).byte_len,
			 arg->length);
	else if (arg->type == IBV_QPT_UC)
		while (memcmp(here->far + arg->offset, there->far + arg->offset,
			      arg->length))
			usleep(1000);
	CHECK(faults(pair->a.host) >= count + 2);
	if (arg->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		check_added(arg, here, there, before);
	else if (arg->opcode == IBV_WR_RDMA_READ)
		check_moved(arg, there, here);
	else
		check_moved(arg, here, there);

	paged_free(here);
	paged_free(there);
	pair_teardown(pair);
}

static const struct queue {
	const char *name;
	enum ibv_qp_type type;
	bool shared;
} queues[] = {
	{ "datagram", IBV_QPT_UD, false },
	{ "datagram_shared_queue", IBV_QPT_UD, true },
	{ "shared_queue", IBV_QPT_RC, true },
};

/* A QP that is its own peer. */
struct self {
	struct host *host;
	struct param param;
	struct ibv_ah *ah;
	struct end end;
};

static void self_open(struct self *s, enum ibv_qp_type type, bool shared)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	memset(s, 0, sizeof(*s));
	s->host = host_open(0);
	attr.grh.dgid = s->host->gid;
	attr.grh.sgid_index = s->host->gid_index;
	s->ah = ibv_create_ah(s->host->pd, &attr);
	CHECK_ERRNO(s->ah);
	s->param = param_default();
	s->param.type = type;
	if (shared)
		s->param.srq = ibv_create_srq(s->host->pd, &init);
	CHECK_ERRNO(!shared || s->param.srq);
	end_create(&s->end, s->host, &s->param);
	end_connect(&s->end, &s->end);
}

static void self_close(struct self *s)
{
	end_destroy(&s->end);
	if (s->param.srq)
		CHECK_RC(ibv_destroy_srq(s->param.srq));
	CHECK_RC(ibv_destroy_ah(s->ah));
	host_close(s->host);
}

/* One message, received as request @id by its own queue or the shared one. */
static struct ibv_wc self_message(struct self *s, struct ibv_sge *from,
				  struct ibv_sge *room, uint64_t id)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, from, 1,
					IBV_SEND_SIGNALED);
	struct ibv_recv_wr *bad, recv = { .wr_id = id, .sg_list = room,
					  .num_sge = 1 };

	if (s->param.srq)
		CHECK_RC(ibv_post_srq_recv(s->param.srq, &recv, &bad));
	else
		end_recv(&s->end, id, room, 1);
	wr.wr.ud.ah = s->ah;
	wr.wr.ud.remote_qpn = s->end.qp->qp_num;
	wr.wr.ud.remote_qkey = s->param.qkey;
	end_send(&s->end, &wr);
	wc_expect(s->end.scq, 1, IBV_WC_SUCCESS);
	return wc_expect(s->end.rcq, id, IBV_WC_SUCCESS);
}

TEST_EACH(receive, queues)
{
	uint32_t grh = arg->type == IBV_QPT_UD ? 40 : 0;
	struct paged *from, *to;
	struct ibv_sge sge, room;
	struct self self;

	self_open(&self, arg->type, arg->shared);
	from = paged_new(self.host->pd, 2 * PAGE, 1, PROT_READ | PROT_WRITE, 0);
	to = paged_new(self.host->pd, 2 * PAGE, 100, PROT_READ | PROT_WRITE, 0);
	sge = paged_sge(from, PAGE - 100, 200);
	room = paged_sge(to, PAGE - 100 - grh, 200 + grh);
	CHECK_EQ(self_message(&self, &sge, &room, 9).byte_len, 200 + grh);
	CHECK(!memcmp(from->far + PAGE - 100, to->far + PAGE - 100, 200));

	paged_free(from);
	paged_free(to);
	self_close(&self);
}

/* Each of many datagrams finds neither what it is sent from nor its room. */
TEST(no_datagram_is_lost)
{
	unsigned int i, rounds = tap_rounds(500);
	struct ibv_sge sge, room;
	struct self self;
	struct paged *p;

	self_open(&self, IBV_QPT_UD, false);
	p = paged_new(self.host->pd, 4 * PAGE, 1, PROT_READ | PROT_WRITE, 0);
	sge = paged_sge(p, PAGE - 100, 200);
	room = paged_sge(p, 3 * PAGE - 140, 240);
	for (i = 0; i < rounds; i++) {
		CHECK_ERRNO(!madvise(p->mem, p->size, MADV_DONTNEED));
		self_message(&self, &sge, &room, i);
		CHECK(!memcmp(p->far + PAGE - 100, p->far + 3 * PAGE - 100,
			      200));
	}
	paged_free(p);
	self_close(&self);
}

/* ---- memory that is not there, or not to be written --------------------- */

struct refusal {
	const char *name;
	enum ibv_wr_opcode opcode;
	bool remote;		/* it is the peer's memory that is missing */
	int prot;		/* of it; PROT_NONE: no memory at all */
	enum ibv_wc_status status;
};

static const struct refusal refusals[] = {
	{ "remote_write", IBV_WR_RDMA_WRITE, true, PROT_NONE,
	  IBV_WC_REM_ACCESS_ERR },
	{ "remote_read", IBV_WR_RDMA_READ, true, PROT_NONE,
	  IBV_WC_REM_ACCESS_ERR },
	{ "remote_atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, true, PROT_NONE,
	  IBV_WC_REM_ACCESS_ERR },
	{ "local_write", IBV_WR_RDMA_WRITE, false, PROT_NONE,
	  IBV_WC_LOC_PROT_ERR },
	{ "local_send", IBV_WR_SEND, false, PROT_NONE, IBV_WC_LOC_PROT_ERR },
	{ "local_read", IBV_WR_RDMA_READ, false, PROT_NONE,
	  IBV_WC_LOC_PROT_ERR },
	{ "write_to_what_is_read_only", IBV_WR_RDMA_WRITE, true, PROT_READ,
	  IBV_WC_REM_ACCESS_ERR },
	{ "read_into_what_is_read_only", IBV_WR_RDMA_READ, false, PROT_READ,
	  IBV_WC_LOC_PROT_ERR },
	{ "atomic_on_what_is_read_only", IBV_WR_ATOMIC_FETCH_AND_ADD, true,
	  PROT_READ, IBV_WC_REM_ACCESS_ERR },
	{ "read_of_what_is_read_only", IBV_WR_RDMA_READ, true, PROT_READ,
	  IBV_WC_SUCCESS },
	{ "write_of_what_is_read_only", IBV_WR_RDMA_WRITE, false, PROT_READ,
	  IBV_WC_SUCCESS },
};

TEST_EACH(refused, refusals)
{
	struct pair *pair = pair_setup();
	struct paged *bad = paged_new(arg->remote ? pair->b.host->pd :
						    pair->a.host->pd,
				      4 * PAGE, 1,
				      arg->prot ?: PROT_READ | PROT_WRITE, 0);
	struct buf *good = buf_new(arg->remote ? pair->a.host->pd :
						 pair->b.host->pd,
				   4 * PAGE, ALL_ACCESS);
	uint32_t length = arg->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 5000;
	struct ibv_sge bad_sge = paged_sge(bad, 0, length);
	struct ibv_sge good_sge = buf_sge(good, 0, length);

	if (!arg->prot)
		munmap(bad->mem, bad->size);
	if (arg->opcode == IBV_WR_SEND)
		end_recv(&pair->b, 9, &good_sge, 1);
	if (arg->remote)
		CHECK_EQ(pair_ask(pair, arg->opcode, &good_sge, bad_sge.addr,
			     bad->mr->rkey), arg->status);
	else
		CHECK_EQ(pair_ask(pair, arg->opcode, &bad_sge, good_sge.addr,
			     good->mr->rkey), arg->status);
	if (arg->status)
		end_wait_state(&pair->a, IBV_QPS_ERR);
	pair_reconnect(pair);
	end_ping(&pair->a, &pair->b);
	buf_free(good);
	paged_free(bad);
	pair_teardown(pair);
}

TEST(receive_without_memory)
{
	struct pair *pair = pair_setup();
	struct paged *bad = paged_new(pair->b.host->pd, 4 * PAGE, 1,
				      PROT_READ | PROT_WRITE, 0);
	struct buf *good = buf_new(pair->a.host->pd, 4 * PAGE, ALL_ACCESS);
	struct ibv_sge to = paged_sge(bad, 0, 5000);
	struct ibv_sge from = buf_sge(good, 0, 5000);

	munmap(bad->mem, bad->size);
	end_recv(&pair->b, 9, &to, 1);
	CHECK_EQ(pair_ask(pair, IBV_WR_SEND, &from, 0, 0), IBV_WC_REM_OP_ERR);
	wc_expect(pair->b.rcq, 9, IBV_WC_LOC_PROT_ERR);
	buf_free(good);
	paged_free(bad);
	pair_teardown(pair);
}

/* ---- pages that change -------------------------------------------------- */

/* What a peer writes is there whatever became of the page before. */
TEST(pages_go_between_writes)
{
	struct pair *pair = pair_setup();
	struct buf *from = buf_new(pair->a.host->pd, 8 * PAGE, ALL_ACCESS);
	uint8_t *mem = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge sge = buf_sge(from, 0, 8 * PAGE);
	struct ibv_mr *mr;

	CHECK_ERRNO(mem != MAP_FAILED);
	mr = ibv_reg_mr(pair->b.host->pd, mem, 8 * PAGE, PAGED);
	CHECK_ERRNO(mr);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, (uintptr_t)mem,
			     mr->rkey), IBV_WC_SUCCESS);
		CHECK(!memcmp(mem, from->mem, 8 * PAGE));
		if (i % 3 == 0)
			CHECK_ERRNO(!madvise(mem, 8 * PAGE, MADV_DONTNEED));
		else if (i % 3 == 1)
			CHECK_ERRNO(mmap(mem, 8 * PAGE, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
					 -1, 0) == mem);
		else
			memset(mem, i, 8 * PAGE);
	}
	CHECK_RC(ibv_dereg_mr(mr));
	munmap(mem, 8 * PAGE);
	buf_free(from);
	pair_teardown(pair);
}

static const struct {
	const char *name;
	int flags, advice;
} clean[] = {
	/* A hole that was only read; memory that may be given up as it is. */
	{ "shared", MAP_SHARED | MAP_ANONYMOUS, 0 },
	{ "given_up", MAP_PRIVATE | MAP_ANONYMOUS, MADV_FREE },
};

/*
 * The process' page tables say that a page was not written. Reclaim would throw
 * it away, and with it what the peer wrote.
 */
TEST_EACH(what_is_written_stays, clean)
{
	struct pair *pair = pair_setup();
	size_t size = 64 * PAGE;
	struct buf *from = buf_new(pair->a.host->pd, size, ALL_ACCESS);
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, arg->flags,
			    -1, 0);
	struct ibv_sge sge = buf_sge(from, 0, size);
	struct ibv_mr *mr;

	CHECK_ERRNO(mem != MAP_FAILED);
	for (size_t i = 0; i < size; i += PAGE) {
		if (arg->advice)
			mem[i] = 1;
		CHECK_EQ(((volatile uint8_t *)mem)[i + 1], 0);
	}
	mr = ibv_reg_mr(pair->b.host->pd, mem, size, PAGED);
	CHECK_ERRNO(mr);
	if (arg->advice)
		CHECK_ERRNO(!madvise(mem, size, arg->advice));
	/* First the pages are there only to be read, then also to be written. */
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_READ, &sge, (uintptr_t)mem,
			  mr->rkey), IBV_WC_SUCCESS);
	memset(from->mem, 0x5a, size);
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, (uintptr_t)mem,
			  mr->rkey), IBV_WC_SUCCESS);
	CHECK_ERRNO(!madvise(mem, size, MADV_PAGEOUT));
	CHECK(!memcmp(mem, from->mem, size));
	CHECK_RC(ibv_dereg_mr(mr));
	munmap(mem, size);
	buf_free(from);
	pair_teardown(pair);
}

struct shaker {
	uint8_t *mem;
	size_t size;
	bool stop;
};

static void *shake(void *arg)
{
	struct shaker *s = arg;

	for (int i = 0; !__atomic_load_n(&s->stop, __ATOMIC_RELAXED); i++) {
		size_t at = i % 7 * PAGE;

		madvise(s->mem + at, s->size - at, MADV_DONTNEED);
		mprotect(s->mem + at, PAGE, PROT_READ);
		mprotect(s->mem + at, PAGE, PROT_READ | PROT_WRITE);
		usleep(200);
	}
	return NULL;
}

/* Pages go at any moment: each byte is the old, the new or none at all. */
TEST_LIMIT(pages_go_during_traffic, 120)
{
	struct pair *pair = pair_setup();
	struct buf *from = buf_new(pair->a.host->pd, 64 * PAGE, ALL_ACCESS);
	struct shaker s = { .size = 64 * PAGE };
	struct ibv_sge sge = buf_sge(from, 0, 64 * PAGE);
	struct ibv_mr *mr;
	pthread_t thread;

	s.mem = mmap(NULL, s.size + 2 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_ERRNO(s.mem != MAP_FAILED);
	mr = ibv_reg_mr(pair->b.host->pd, s.mem, s.size, PAGED);
	CHECK_ERRNO(mr);
	memset(s.mem + s.size, 0x5a, 2 * PAGE);
	CHECK(!pthread_create(&thread, NULL, shake, &s));
	for (int i = 0; i < 200; i++) {
		enum ibv_wc_status status =
			pair_ask(pair, i % 2 ? IBV_WR_RDMA_WRITE :
					       IBV_WR_RDMA_READ,
				 &sge, (uintptr_t)s.mem, mr->rkey);

		/* It may meet the moment in which it must not write. */
		if (status == IBV_WC_REM_ACCESS_ERR && i % 2) {
			pair_reconnect(pair);
			continue;
		}
		CHECK_EQ(status, IBV_WC_SUCCESS);
	}
	s.stop = true;
	pthread_join(thread, NULL);
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge,
			  (uintptr_t)s.mem, mr->rkey),
		 IBV_WC_SUCCESS);
	CHECK(!memcmp(s.mem, from->mem, s.size));
	for (int i = 0; i < 2 * PAGE; i++)
		CHECK_EQ(s.mem[s.size + i], 0x5a);
	CHECK_RC(ibv_dereg_mr(mr));
	munmap(s.mem, s.size + 2 * PAGE);
	buf_free(from);
	pair_teardown(pair);
}

#define FORK_BYTES (64 * PAGE)

/* WRITEs of one content and the other in turn, without end. */
struct stream {
	struct pair *pair;
	struct buf *from[2];
	uint8_t *mem;
	struct ibv_mr *mr;
	unsigned int done;
	bool stop;
};

static void *keep_streaming(void *arg)
{
	struct stream *s = arg;
	unsigned int i;

	for (i = 0; !__atomic_load_n(&s->stop, __ATOMIC_RELAXED); i++) {
		struct ibv_sge sge = buf_sge(s->from[i % 2], 0, FORK_BYTES);

		CHECK_EQ(pair_ask(s->pair, IBV_WR_RDMA_WRITE, &sge,
				  (uintptr_t)s->mem, s->mr->rkey),
			 IBV_WC_SUCCESS);
		__atomic_store_n(&s->done, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void wait_written(struct stream *s, unsigned int more)
{
	unsigned int start = __atomic_load_n(&s->done, __ATOMIC_ACQUIRE);
	uint64_t until = deadline();

	while (__atomic_load_n(&s->done, __ATOMIC_ACQUIRE) < start + more) {
		if (deadline_over(until))
			FAIL("the stream stands still");
		usleep(100);
	}
}

/* Each byte is of one content or the other. */
static bool is_mixed(const struct stream *s, const uint8_t *mem)
{
	size_t i;

	for (i = 0; i < FORK_BYTES; i++)
		if (mem[i] != s->from[0]->shadow[i] &&
		    mem[i] != s->from[1]->shadow[i])
			return false;
	return true;
}

/* A child registers memory by what the parent opened, and ends. */
static struct ibv_sge leave_region(struct ibv_pd *pd)
{
	struct ibv_sge sge = {};
	int p[2], status;
	pid_t child;

	CHECK_ERRNO(!pipe(p));
	child = fork();
	CHECK_ERRNO(child >= 0);
	if (!child) {
		struct paged *left = paged_new(pd, 2 * PAGE, 0,
					       PROT_READ | PROT_WRITE, 0);

		sge = paged_sge(left, 0, 8);
		sge.lkey = left->mr->rkey;
		_exit(write(p[1], &sge, sizeof(sge)) != sizeof(sge));
	}
	CHECK_EQ(read(p[0], &sge, sizeof(sge)), sizeof(sge));
	CHECK_ERRNO(waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
	close(p[0]);
	close(p[1]);
	return sge;
}

/*
 * Nobody has the memory any more, and no page of it was ever there. Nobody has
 * the region's handle either: it goes, with all the rest, when this process ends.
 */
TEST(process_gone)
{
	struct param param = param_default();
	struct pair *pair = pair_new(&param);
	struct ibv_sge there = leave_region(pair->b.host->pd);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct buf *from = buf_new(pair->a.host->pd, 8, ALL_ACCESS);
	struct ibv_sge sge = buf_sge(from, 0, 8);

	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr_remote(&wr, there.addr, there.lkey);
	end_send(&pair->a, &wr);
	wc_expect(pair->a.scq, 1, IBV_WC_REM_ACCESS_ERR);
}

/* The child's exit status: 0 when its memory stays what it was at the fork. */
static int look_on(const struct stream *s, int ready, int go)
{
	static uint8_t copy[FORK_BYTES];
	char c;

	memcpy(copy, s->mem, FORK_BYTES);
	if (!is_mixed(s, copy))
		return 1;
	if (write(ready, "r", 1) != 1 || read(go, &c, 1) != 1)
		return 2;
	return memcmp(copy, s->mem, FORK_BYTES) ? 3 : 0;
}

static void fork_once(struct stream *s)
{
	int ready[2], go[2], status;
	pid_t child;
	char c;

	CHECK_ERRNO(!pipe(ready) && !pipe(go));
	wait_written(s, 1);
	child = fork();
	CHECK_ERRNO(child >= 0);
	if (!child)
		_exit(look_on(s, ready[1], go[0]));
	close(ready[1]);
	if (read(ready[0], &c, 1) == 1)
		wait_written(s, 4);
	CHECK_EQ(write(go[1], "x", 1), 1);
	CHECK_ERRNO(waitpid(child, &status, 0) == child);
	if (status)
		FAIL("the child ended with 0x%x", status);
	close(ready[0]);
	close(go[0]);
	close(go[1]);
}

/* The child keeps what there was; what a peer writes is the parent's. */
TEST_LIMIT(fork_during_traffic, 120)
{
	struct stream s = { .pair = pair_setup() };
	unsigned int i, rounds = tap_rounds(30);
	pthread_t thread;

	s.from[0] = buf_new(s.pair->a.host->pd, FORK_BYTES, ALL_ACCESS);
	s.from[1] = buf_new(s.pair->a.host->pd, FORK_BYTES, ALL_ACCESS);
	s.mem = mmap(NULL, FORK_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_ERRNO(s.mem != MAP_FAILED);
	s.mr = ibv_reg_mr(s.pair->b.host->pd, s.mem, FORK_BYTES, PAGED);
	CHECK_ERRNO(s.mr);
	CHECK(!pthread_create(&thread, NULL, keep_streaming, &s));
	for (i = 0; i < rounds; i++)
		fork_once(&s);
	__atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	CHECK(!memcmp(s.mem, s.from[(s.done - 1) % 2]->mem, FORK_BYTES));
	CHECK_RC(ibv_dereg_mr(s.mr));
	munmap(s.mem, FORK_BYTES);
	buf_free(s.from[0]);
	buf_free(s.from[1]);
	pair_teardown(s.pair);
}

/* ---- all of the address space ------------------------------------------ */

TEST(implicit)
{
	struct pair *pair = pair_setup();
	struct buf *from = buf_new(pair->a.host->pd, 2 * PAGE, ALL_ACCESS);
	struct ibv_mr *mr = ibv_reg_mr(pair->b.host->pd, NULL, SIZE_MAX, PAGED);
	struct ibv_sge sge = buf_sge(from, 0, 2 * PAGE);
	uint8_t on_stack[2 * PAGE], *heap = malloc(2 * PAGE);

	CHECK_ERRNO(mr);
	for (int i = 0; i < 20; i++) {
		uint8_t *mem = mmap((void *)(0x100000000000ull +
					     i * 0x40001000ull), 4 * PAGE,
				    PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK_ERRNO(mem != MAP_FAILED);
		CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge,
			     (uintptr_t)mem + 5, mr->rkey), IBV_WC_SUCCESS);
		CHECK(!memcmp(mem + 5, from->mem, 2 * PAGE));
		munmap(mem, 4 * PAGE);
		CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge,
			     (uintptr_t)mem + 5, mr->rkey),
			 IBV_WC_REM_ACCESS_ERR);
		pair_reconnect(pair);
	}
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, (uintptr_t)on_stack,
		     mr->rkey), IBV_WC_SUCCESS);
	CHECK(!memcmp(on_stack, from->mem, 2 * PAGE));
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge,
			  (uintptr_t)heap, mr->rkey),
		 IBV_WC_SUCCESS);
	CHECK(!memcmp(heap, from->mem, 2 * PAGE));
	/* Addresses that no process can have. */
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, 0xffff888000000000ull,
		     mr->rkey), IBV_WC_REM_ACCESS_ERR);
	pair_reconnect(pair);
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, UINT64_MAX - 3 * PAGE,
		     mr->rkey), IBV_WC_REM_ACCESS_ERR);
	CHECK_RC(ibv_dereg_mr(mr));
	free(heap);
	buf_free(from);
	pair_teardown(pair);
}

/* Memory that the kernel itself has no address of. */
TEST_F(pair, secret_memory)
{
	struct buf *from = buf_new(pair->a.host->pd, PAGE, ALL_ACCESS);
	struct ibv_sge sge = buf_sge(from, 0, 64), bad;
	int fd = syscall(SYS_memfd_secret, 0);
	struct ibv_mr *mr, *own;
	uint8_t *mem;

	if (fd < 0 && errno == ENOSYS)
		SKIP("this kernel has no secret memory");
	CHECK_ERRNO(fd >= 0 && !ftruncate(fd, PAGE));
	mem = map_file(fd, PAGE, PROT_READ | PROT_WRITE);
	memset(mem, 0x5a, PAGE);
	mr = ibv_reg_mr(pair->b.host->pd, mem, PAGE, PAGED);
	own = ibv_reg_mr(pair->a.host->pd, mem, PAGE, PAGED);
	CHECK_ERRNO(mr && own);
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &sge, (uintptr_t)mem,
			  mr->rkey), IBV_WC_REM_ACCESS_ERR);
	pair_reconnect(pair);
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_READ, &sge, (uintptr_t)mem,
			  mr->rkey), IBV_WC_REM_ACCESS_ERR);
	pair_reconnect(pair);
	bad = (struct ibv_sge) { (uintptr_t)mem, 64, own->lkey };
	CHECK_EQ(pair_ask(pair, IBV_WR_SEND, &bad, 0, 0), IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(mem[0], 0x5a);
	buf_check(from);
	CHECK_RC(ibv_dereg_mr(mr));
	CHECK_RC(ibv_dereg_mr(own));
	close(fd);
	buf_free(from);
}

/* A fault that fails, and whose QP is reset meanwhile, means nothing later. */
TEST_F(pair, failure_is_forgotten)
{
	struct buf *to = buf_new(pair->b.host->pd, PAGE, ALL_ACCESS);
	uint8_t *mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge sge = { (uintptr_t)mem, PAGE, 0 };
	unsigned int i, rounds = tap_rounds(50);
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	CHECK_ERRNO(mem != MAP_FAILED);
	mr = ibv_reg_mr(pair->a.host->pd, mem, PAGE, PAGED);
	CHECK_ERRNO(mr);
	sge.lkey = mr->lkey;
	wr = send_wr(IBV_WR_RDMA_WRITE, 1, &sge, 1, IBV_SEND_SIGNALED);
	wr_remote(&wr, buf_addr(to, 0), to->mr->rkey);
	for (i = 0; i < rounds; i++) {
		struct ibv_wc wc;

		munmap(mem, PAGE);
		end_send(&pair->a, &wr);
		CHECK_RC(end_modify_state(&pair->a, IBV_QPS_RESET));
		CHECK_ERRNO(mmap(mem, PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
				 0) == mem);
		while (ibv_poll_cq(pair->a.scq, 1, &wc))
			;
		pair_reconnect(pair);
		end_send(&pair->a, &wr);
		wc_expect(pair->a.scq, 1, IBV_WC_SUCCESS);
	}
	CHECK_RC(ibv_dereg_mr(mr));
	buf_free(to);
}

/* ---- prefetch ----------------------------------------------------------- */

TEST(prefetch)
{
	struct pair *pair = pair_setup();
	struct buf *local = buf_new(pair->a.host->pd, 40 * PAGE, ALL_ACCESS);
	struct paged *p = paged_new(pair->b.host->pd, 40 * PAGE, 1,
				    PROT_READ | PROT_WRITE, 0);
	struct ibv_sge from = buf_sge(local, 0, 40 * PAGE);
	struct ibv_sge sge = paged_sge(p, 0, 40 * PAGE);
	uint64_t count = faults(pair->a.host);

	/* What needs no fault is nothing yet. */
	CHECK_RC(call_advise_mr(pair->b.host->pd, 2, 1, &sge));
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_READ, &from, sge.addr, p->mr->rkey),
		 IBV_WC_SUCCESS);
	CHECK(faults(pair->a.host) > count);
	madvise(p->mem, p->size, MADV_DONTNEED);

	count = faults(pair->a.host);
	CHECK_RC(call_advise_mr(pair->b.host->pd, 1, 1, &sge));
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_WRITE, &from,
			  sge.addr, p->mr->rkey),
		 IBV_WC_SUCCESS);
	CHECK_EQ(faults(pair->a.host), count);
	CHECK(!memcmp(p->far, local->mem, p->size));
	madvise(p->mem, p->size, MADV_DONTNEED);

	CHECK_RC(call_advise_mr(pair->b.host->pd, 0, 0, &sge));
	CHECK_EQ(pair_ask(pair, IBV_WR_RDMA_READ, &from, sge.addr, p->mr->rkey),
		 IBV_WC_SUCCESS);
	CHECK_EQ(faults(pair->a.host), count);

	/* What cannot be. */
	CHECK_EQ(call_advise_mr(pair->b.host->pd, 77, 0, &sge), EOPNOTSUPP);
	sge.lkey ^= 0x5a;
	CHECK_EQ(call_advise_mr(pair->b.host->pd, 1, 1, &sge), ENOENT);
	sge.lkey ^= 0x5a;
	sge.length++;
	CHECK_EQ(call_advise_mr(pair->b.host->pd, 1, 1, &sge), ERANGE);
	sge.length--;
	CHECK_EQ(call_advise_mr(pair->a.host->pd, 1, 1, &from), EINVAL);
	munmap(p->mem, p->size);
	CHECK_EQ(call_advise_mr(pair->b.host->pd, 1, 1, &sge), EFAULT);
	CHECK_RC(call_advise_mr(pair->b.host->pd, 1, 0, &sge));
	buf_free(local);
	paged_free(p);
	pair_teardown(pair);
}

/* ---- what is told, and what is refused ---------------------------------- */

TEST(told_truly)
{
	struct host *host = host_open(0);
	struct ibv_device_attr_ex dev;
	struct ibv_mr *mr;
	uint8_t *mem = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const int not_with[] = { IBV_ACCESS_MW_BIND, IBV_ACCESS_HUGETLB };

	CHECK_RC(ibv_query_device_ex(host->ctx, NULL, &dev));
	CHECK_EQ(dev.odp_caps.general_caps,
		 IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	CHECK_EQ(dev.odp_caps.per_transport_caps.rc_odp_caps,
		 IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
		 IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
		 IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV |
		 ODP_ATOMIC_WRITE |
		 (dev.device_cap_flags_ex & DEVICE_FLUSH_GLOBAL ? ODP_FLUSH :
								   0));
	CHECK_EQ(dev.odp_caps.per_transport_caps.uc_odp_caps,
		 IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
		 IBV_ODP_SUPPORT_WRITE);
	CHECK_EQ(dev.odp_caps.per_transport_caps.ud_odp_caps,
		 IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
		 IBV_ODP_SUPPORT_SRQ_RECV);

	for (unsigned int i = 0; i < ARRAY_SIZE(not_with); i++) {
		errno = 0;
		CHECK(!ibv_reg_mr(host->pd, mem, 4 * PAGE, PAGED | not_with[i]));
		CHECK_EQ(errno, EOPNOTSUPP);
	}
	errno = 0;
	CHECK(!ibv_reg_mr(host->pd, mem, 0, PAGED));
	CHECK_EQ(errno, EINVAL);

	mr = ibv_reg_mr(host->pd, mem, 4 * PAGE, PAGED);
	CHECK_ERRNO(mr);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, host->pd, NULL, 0,
			   ALL_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_RC(ibv_dereg_mr(mr));
	munmap(mem, 4 * PAGE);
	host_close(host);
}

/* ---- ends --------------------------------------------------------------- */

static void *destroy_soon(void *arg)
{
	struct pair *pair = arg;

	usleep(rand() % 2000);
	end_modify_state(&pair->b, IBV_QPS_RESET);
	return NULL;
}

/* A QP and its region go while it waits for pages. */
TEST_LIMIT(qp_goes_while_it_waits, 120)
{
	for (int i = 0; i < 30; i++) {
		struct param param = param_default();
		struct pair *pair;
		struct buf *from;
		struct paged *p;
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		pthread_t thread;

		param.timeout = 8;
		param.retry_cnt = 1;
		pair = pair_new(&param);
		from = buf_new(pair->a.host->pd, 256 * PAGE, ALL_ACCESS);
		p = paged_new(pair->b.host->pd, 256 * PAGE, 1,
			      PROT_READ | PROT_WRITE, 0);
		sge = buf_sge(from, 0, 256 * PAGE);
		wr = send_wr(IBV_WR_RDMA_WRITE, 1, &sge, 1, IBV_SEND_SIGNALED);
		wr_remote(&wr, (uintptr_t)p->mem, p->mr->rkey);
		CHECK(!pthread_create(&thread, NULL, destroy_soon, pair));
		end_send(&pair->a, &wr);
		if (i % 2)
			wc_wait(pair->a.scq);
		pthread_join(thread, NULL);
		end_modify_state(&pair->a, IBV_QPS_RESET);
		paged_free(p);
		buf_free(from);
		pair_teardown(pair);
	}
}

/* ---- what the kernel keeps of it ---------------------------------------- */

#define SPAN (2ull << 20)
#define SPANS 2000

static long available_kib(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[200];
	long kib = -1;

	CHECK_ERRNO(f);
	while (kib < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "MemAvailable: %ld", &kib);
	fclose(f);
	return kib;
}

/* A checker keeps freed memory for a while. */
static void need_true_figures(void)
{
	if (tap_slow() > 1)
		SKIP("free memory is no figure under KASAN");
}

/* Looking for what is there, where nothing is, costs nothing. */
TEST(prefetch_of_nothing)
{
	struct host *host = host_open(0);
	struct ibv_mr *mr = ibv_reg_mr(host->pd, NULL, SIZE_MAX, PAGED);
	long before = available_kib();
	uint64_t i;

	need_true_figures();
	CHECK_ERRNO(mr);
	for (i = 0; i < 32; i++) {
		struct ibv_sge sge = { 0x300000000000 + (i << 30), 1 << 30,
				       mr->lkey };

		CHECK_RC(call_advise_mr(host->pd, 2, 1, &sge));
	}
	CHECK(before - available_kib() < 100000);
	CHECK_RC(ibv_dereg_mr(mr));
	host_close(host);
}

/* What was kept of memory goes with it. */
TEST(kept_while_mapped)
{
	struct host *host = host_open(0);
	struct ibv_mr *mr = ibv_reg_mr(host->pd, NULL, SIZE_MAX, PAGED);
	uint8_t *mem = mmap(NULL, SPANS * SPAN, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	long before = available_kib(), kept;
	uint64_t until;
	int i;

	need_true_figures();
	CHECK_ERRNO(mr && mem != MAP_FAILED);
	for (i = 0; i < SPANS; i++) {
		struct ibv_sge sge = { (uintptr_t)mem + i * SPAN, 1, mr->lkey };

		CHECK_RC(call_advise_mr(host->pd, 0, 1, &sge));
	}
	kept = before - available_kib();
	CHECK(kept > 2 * SPANS);
	munmap(mem, SPANS * SPAN);
	until = deadline();
	while (before - available_kib() > kept / 2) {
		if (deadline_over(until))
			FAIL("%ld KiB were kept, and %ld still are", kept,
			     before - available_kib());
		usleep(20000);
	}
	CHECK_RC(ibv_dereg_mr(mr));
	host_close(host);
}
