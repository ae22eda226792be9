// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Every RC operation between two hosts, payloads checked at both ends:
 *
 *	rc_matrix [OPTIONS]		the server: it answers, and tells what it saw
 *	rc_matrix [OPTIONS] SERVER	the client: it posts the requests; TAP
 *
 * The client tells the server over TCP what comes next, and asks it afterwards
 * whether it came. Two kinds of cases: one operation at a time, in all lengths
 * that matter and with bytes around it that must stay as they are; and streams
 * of mixed operations in deep queues, where every completion is counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rc.h"

enum op {
	OP_SEND, OP_SEND_IMM, OP_SEND_INV, OP_WRITE, OP_WRITE_IMM, OP_READ,
	OP_CMP_SWAP, OP_FETCH_ADD, OP_COUNT,
};

static const char *const op_names[] = {
	"send", "send_imm", "send_inv", "write", "write_imm", "read",
	"cmp_swap", "fetch_add",
};

static const enum ibv_wr_opcode op_wr[] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
};

static const enum ibv_wc_opcode op_wc[] = {
	IBV_WC_SEND, IBV_WC_SEND, IBV_WC_SEND, IBV_WC_RDMA_WRITE,
	IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP,
	IBV_WC_FETCH_ADD,
};

/* One operation at a time: the place of the bytes, and what lies around. */
#define GUARD 128u
#define PLACE 8192u
#define BIGGEST (1u << 20)

/* Streams. WINDOW requests are under way; SLOTS targets are not used again
 * before the server has looked at them (see may_reuse below). */
#define WINDOW 256u
#define SLOTS (2 * WINDOW)
#define RECVS 16u
#define RECV_EVERY 8u
#define SLOT 16384u

#define COUNTER 0u		/* two cells, in front of all else */
#define CELL 8u
#define TARGETS PLACE
#define RECV_AREA (TARGETS + SLOTS * SLOT)
#define SOURCE_AREA (RECV_AREA + RECVS * SLOT)
#define SOURCE_SIZE (1u << 20)
#define MEMORY (SOURCE_AREA + SOURCE_SIZE)

/* What the client tells the server. */
enum verb { V_PREPARE, V_CHECK, V_STREAM, V_FINISH, V_BYE };

struct step {
	uint32_t verb, op, length, offset, pieces, seed, count;
};

/* And what it answers: an empty word when all is well. */
struct answer {
	char word[200];
	uint32_t rkey;
	uint64_t cells[2];
};

struct greeting {
	struct rc_addr addr;
	uint32_t can_inv;
};

static struct rc rc;
static int control;
static unsigned int test_number, failures;

/* A second region to be invalidated from afar, where the device has windows. */
static struct ibv_mr *window_mr;
static struct ibv_mw *window;
static uint8_t window_mem[4096];
/* rdma_rxe gives users the kernel's value of the flag, which means another. */
static unsigned int inv_flag = IBV_WC_WITH_INV;
/* rdma_rxe cannot answer a READ again after another request of no length. */
static uint32_t shortest;

/* ---- bytes ------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x + 1) * 0x9e3779b97f4a7c15ull;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 32;
}

static void fill(uint8_t *at, size_t length, uint64_t seed)
{
	seed = mix(seed);
	for (size_t i = 0; i < length; i += 8, seed += 0x9e3779b97f4a7c15ull) {
		uint64_t word = seed ^ seed >> 31;

		memcpy(at + i, &word, length - i < 8 ? length - i : 8);
	}
}

/* Returns the first byte that is not what fill() makes, or -1. */
static long differs(const uint8_t *at, size_t length, uint64_t seed)
{
	seed = mix(seed);
	for (size_t i = 0; i < length; i += 8, seed += 0x9e3779b97f4a7c15ull) {
		size_t n = length - i < 8 ? length - i : 8;
		uint64_t word = seed ^ seed >> 31;

		if (memcmp(at + i, &word, n))
			for (size_t k = 0; k < n; k++)
				if (at[i + k] != ((uint8_t *)&word)[k])
					return i + k;
	}
	return -1;
}

/* ---- words ------------------------------------------------------------- */

static bool complain(char *word, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The first complaint counts. Always false. */
static bool complain(char *word, const char *fmt, ...)
{
	va_list args;

	if (word[0])
		return false;
	va_start(args, fmt);
	vsnprintf(word, sizeof(((struct answer *)0)->word), fmt, args);
	va_end(args);
	return false;
}

static void report(const char *word, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void report(const char *word, const char *fmt, ...)
{
	va_list args;

	test_number++;
	if (word[0] && word[0] != '#')
		failures++;
	printf("%s %u - ", word[0] && word[0] != '#' ? "not ok" : "ok",
	       test_number);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	if (word[0] == '#')
		printf(" %s\n", word);
	else if (word[0])
		printf("\n# %s\n", word);
	else
		printf("\n");
	fflush(stdout);
}

static bool wait_wc(char *word, struct ibv_wc *wc, const char *what)
{
	if (!rc_poll(&rc, wc, RC_PATIENCE_MS))
		return complain(word, "%s did not complete within %d s", what,
				RC_PATIENCE_MS / 1000);
	if (wc->status)
		return complain(word, "%s (wr_id %llu): %s", what,
				(unsigned long long)wc->wr_id,
				ibv_wc_status_str(wc->status));
	return true;
}

static void tell(uint32_t verb, const struct step *step, struct answer *answer)
{
	struct step message = *step;

	message.verb = verb;
	tcp_send(control, &message, sizeof(message));
	tcp_recv(control, answer, sizeof(*answer));
}

/* ---- posting ----------------------------------------------------------- */

/* Cut a stretch of memory into so many pieces, none of them empty. */
static int cut(uint64_t addr, uint32_t length, uint32_t pieces,
	       struct ibv_sge *sge)
{
	uint32_t done = 0;
	int n = 0;

	while (done < length) {
		uint32_t left = length - done;
		uint32_t part = pieces > 1 ? left / pieces : left;

		sge[n++] = (struct ibv_sge){
			.addr = addr + done,
			.length = part ?: 1,
			.lkey = rc.mr->lkey,
		};
		done += part ?: 1;
		pieces -= pieces > 1;
	}
	return n;
}

static void post_recv(uint64_t id, struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = sge, .num_sge = n };

	errno = ibv_post_recv(rc.qp, &wr, &bad);
	if (errno)
		die("ibv_post_recv: %m");
}

static void post_send(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	errno = ibv_post_send(rc.qp, wr, &bad);
	if (errno)
		die("ibv_post_send: %m");
}

static bool takes_recv(enum op op)
{
	return op <= OP_SEND_INV || op == OP_WRITE_IMM;
}

static bool is_atomic(enum op op)
{
	return op == OP_CMP_SWAP || op == OP_FETCH_ADD;
}

static uint64_t at(uint32_t offset)
{
	return (uintptr_t)rc.mem + offset;
}

/* ---- one operation at a time: the server ------------------------------- */

static bool bind_window(struct answer *answer)
{
	struct ibv_mw_bind_info info = {
		.mr = window_mr,
		.addr = (uintptr_t)window_mem,
		.length = sizeof(window_mem),
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = window,
			.rkey = ibv_inc_rkey(window->rkey),
			.bind_info = info,
		},
	};
	struct ibv_wc wc;

	post_send(&wr);
	if (!wait_wc(answer->word, &wc, "the window's bind"))
		return false;
	window->rkey = wr.bind_mw.rkey;
	answer->rkey = window->rkey;
	return true;
}

static void prepare(const struct step *step, struct answer *answer)
{
	struct ibv_sge sge[4];
	int n = 0;

	fill(rc.mem + step->offset - GUARD, step->length + 2 * GUARD,
	     ~step->seed);
	if (step->op == OP_SEND_INV && !bind_window(answer))
		return;
	if (!takes_recv(step->op))
		return;
	if (step->op != OP_WRITE_IMM)
		n = cut(at(step->offset), step->length, step->pieces, sge);
	post_recv(step->seed, sge, n);
}

static bool check_recv(const struct step *step, char *word,
		       const struct ibv_wc *wc)
{
	enum ibv_wc_opcode opcode = step->op == OP_WRITE_IMM ?
				    IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	bool imm = step->op == OP_WRITE_IMM || step->op == OP_SEND_IMM;

	if (wc->wr_id != step->seed)
		return complain(word, "the receive has wr_id %llu, not %u",
				(unsigned long long)wc->wr_id, step->seed);
	if (wc->opcode != opcode)
		return complain(word, "the receive has opcode %d", wc->opcode);
	if (wc->byte_len != step->length)
		return complain(word, "the receive has %u bytes", wc->byte_len);
	if (wc->qp_num != rc.self.qpn)
		return complain(word, "the receive has QP %u", wc->qp_num);
	if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != imm)
		return complain(word, "the receive has flags 0x%x", wc->wc_flags);
	if (imm && wc->imm_data != htonl(step->seed))
		return complain(word, "the immediate is 0x%x, not 0x%x",
				ntohl(wc->imm_data), step->seed);
	if (step->op == OP_SEND_INV &&
	    (!(wc->wc_flags & inv_flag) ||
	     wc->invalidated_rkey != window->rkey))
		return complain(word, "the receive has flags 0x%x and key 0x%x",
				wc->wc_flags, wc->invalidated_rkey);
	return true;
}

/*
 * The bytes of a step, and those around them. fill() starts anew at each
 * stretch, so the guards are compared as parts of the whole window's pattern.
 */
static bool check_bytes(const struct step *step, char *word, bool changed)
{
	static uint8_t before[BIGGEST + 2 * GUARD];
	const uint8_t *got = rc.mem + step->offset - GUARD;
	size_t size = step->length + 2 * GUARD;

	fill(before, size, ~step->seed);
	if (changed)
		fill(before + GUARD, step->length, step->seed);
	if (!memcmp(got, before, size))
		return true;
	for (size_t i = 0; ; i++)
		if (got[i] != before[i])
			return complain(word, "byte %ld of %u is 0x%02x, not 0x%02x",
					(long)i - (long)GUARD, step->length,
					got[i], before[i]);
}

/* What an atomic does to the 8 bytes that stand there. */
static uint64_t atomic_result(const struct step *step, uint64_t old)
{
	return step->op == OP_FETCH_ADD ? old + mix(step->seed) :
					  mix(step->seed);
}

static void check(const struct step *step, struct answer *answer)
{
	struct ibv_wc wc;
	uint64_t old, want, got;

	if (takes_recv(step->op) &&
	    (!wait_wc(answer->word, &wc, "the receive") ||
	     !check_recv(step, answer->word, &wc)))
		return;
	if (rc_poll(&rc, &wc, 0)) {
		complain(answer->word, "one completion too many: wr_id %llu, %s",
			 (unsigned long long)wc.wr_id,
			 ibv_wc_status_str(wc.status));
		return;
	}
	if (!is_atomic(step->op)) {
		check_bytes(step, answer->word, step->op != OP_READ);
		return;
	}
	memcpy(&got, rc.mem + step->offset, 8);
	fill(rc.mem + step->offset - GUARD, GUARD + 8, ~step->seed);
	memcpy(&old, rc.mem + step->offset, 8);
	want = atomic_result(step, old);
	if (got != want)
		complain(answer->word, "the cell holds 0x%llx, not 0x%llx",
			 (unsigned long long)got, (unsigned long long)want);
	else
		check_bytes(step, answer->word, false);
}

/* ---- one operation at a time: the client ------------------------------- */

static void set_remote(struct ibv_send_wr *wr, const struct step *step,
		       uint32_t inv_rkey, uint64_t old)
{
	uint64_t addr = rc.peer.va + step->offset;

	switch (step->op) {
	case OP_SEND_INV:
		wr->invalidate_rkey = inv_rkey;
		break;
	case OP_SEND_IMM:
	case OP_SEND:
		wr->imm_data = htonl(step->seed);
		break;
	case OP_CMP_SWAP:
	case OP_FETCH_ADD:
		wr->wr.atomic.remote_addr = addr;
		wr->wr.atomic.rkey = rc.peer.rkey;
		wr->wr.atomic.compare_add = step->op == OP_CMP_SWAP ?
					    old : mix(step->seed);
		wr->wr.atomic.swap = mix(step->seed);
		break;
	default:
		wr->imm_data = htonl(step->seed);
		wr->wr.rdma.remote_addr = addr;
		wr->wr.rdma.rkey = rc.peer.rkey;
		break;
	}
}

/* The word that an atomic finds there: from the server's pattern. */
static uint64_t old_word(const struct step *step)
{
	static uint8_t before[GUARD + 8];
	uint64_t old;

	fill(before, sizeof(before), ~step->seed);
	memcpy(&old, before + GUARD, 8);
	return old;
}

static bool check_sent(const struct step *step, char *word,
		       const struct ibv_wc *wc)
{
	if (wc->wr_id != step->seed)
		return complain(word, "the request has wr_id %llu, not %u",
				(unsigned long long)wc->wr_id, step->seed);
	if (wc->opcode != op_wc[step->op])
		return complain(word, "the request has opcode %d", wc->opcode);
	if ((step->op == OP_READ || is_atomic(step->op)) &&
	    wc->byte_len != step->length)
		return complain(word, "the request has %u bytes", wc->byte_len);
	return true;
}

/* The local bytes: what a READ or an atomic brought, else untouched. */
static bool check_local(const struct step *step, char *word)
{
	static uint8_t want[BIGGEST + 2 * GUARD], remote[BIGGEST + 2 * GUARD];
	const uint8_t *got = rc.mem + step->offset - GUARD;
	size_t size = step->length + 2 * GUARD;

	fill(want, size, step->seed + 7);
	fill(want + GUARD, step->length, step->seed);
	if (step->op == OP_READ || is_atomic(step->op)) {
		fill(remote, size, ~step->seed);
		memcpy(want + GUARD, remote + GUARD, step->length);
	}
	if (!memcmp(got, want, size))
		return true;
	for (size_t i = 0; ; i++)
		if (got[i] != want[i])
			return complain(word, "local byte %ld of %u is 0x%02x, not 0x%02x",
					(long)i - (long)GUARD, step->length,
					got[i], want[i]);
}

/* Returns whether it went well, else the word says why not. */
static bool run_step(const struct step *step, char *word)
{
	struct answer answer = {};
	struct ibv_sge sge[4];
	struct ibv_send_wr wr = {
		.wr_id = step->seed,
		.opcode = op_wr[step->op],
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
		.sg_list = sge,
	};
	struct ibv_wc wc;

	fill(rc.mem + step->offset - GUARD, step->length + 2 * GUARD,
	     step->seed + 7);
	fill(rc.mem + step->offset, step->length, step->seed);
	tell(V_PREPARE, step, &answer);
	if (answer.word[0])
		return complain(word, "%s", answer.word);
	wr.num_sge = cut(at(step->offset), step->length, step->pieces, sge);
	set_remote(&wr, step, answer.rkey, old_word(step));
	post_send(&wr);
	if (!wait_wc(word, &wc, "the request") ||
	    !check_sent(step, word, &wc) || !check_local(step, word))
		return false;
	tell(V_CHECK, step, &answer);
	if (answer.word[0])
		return complain(word, "%s", answer.word);
	return true;
}

static void run_lengths(enum op op, const uint32_t *lengths, uint32_t n)
{
	char word[sizeof(((struct answer *)0)->word)] = "";
	static uint32_t seed = 1000;
	struct step step;
	uint32_t i;

	for (i = 0; i < n; i++) {
		step = (struct step){
			.op = op,
			.length = lengths[i],
			.offset = PLACE + (is_atomic(op) ? 8 * i : i),
			.pieces = is_atomic(op) ? 1 : 1 + i % 3,
			.seed = ++seed,
		};
		if (!run_step(&step, word))
			break;
	}
	report(word, "%s, mtu %u, %u lengths", op_names[op],
	       rc_mtu(&rc, &rc.peer), n);
	if (word[0])
		printf("# %u bytes in %u pieces at offset %u\n", step.length,
		       step.pieces, step.offset);
}

static void run_singles(bool can_inv)
{
	uint32_t mtu = rc_mtu(&rc, &rc.peer);
	const uint32_t lengths[] = {
		0, 1, 2, 3, 4, 5, 7, mtu - 1, mtu, mtu + 1, 2 * mtu,
		3 * mtu + 2, 65535, 65536, 65537, BIGGEST,
	};
	const uint32_t cells[] = { 8, 8, 8, 8 };

	for (uint32_t op = 0; op < OP_COUNT && !failures; op++) {
		if (op == OP_SEND_INV && !can_inv)
			report("# SKIP the server's device has no memory windows",
			       "%s", op_names[op]);
		else if (is_atomic(op))
			run_lengths(op, cells, ARRAY_SIZE(cells));
		else
			run_lengths(op, lengths, ARRAY_SIZE(lengths));
	}
}

/* ---- streams ----------------------------------------------------------- */

/*
 * Request i is told by the seed, so that both ends know all of them. Every
 * RECV_EVERY-th takes a receive, and the server looks at all bytes written
 * before it when it comes.
 *
 * May target i % SLOTS be written again by i + SLOTS? That one is posted after
 * i + WINDOW completed. Between i and there are at least RECVS requests that
 * take a receive, so that the last of them took one that was posted after the
 * server looked at what was written by i.
 */
_Static_assert(WINDOW / RECV_EVERY - 2 >= RECVS, "may_reuse");

struct item {
	enum op op;
	uint32_t length;
	uint32_t offset;	/* of a READ in the sources */
	bool signaled;
};

static struct item item_of(const struct step *step, uint32_t i)
{
	static const enum op ops[] = {
		OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE, OP_WRITE_IMM,
		OP_READ, OP_READ, OP_FETCH_ADD, OP_CMP_SWAP,
	};
	uint64_t r = mix((uint64_t)step->seed << 32 | i);
	struct item item = { .op = ops[r % ARRAY_SIZE(ops)] };

	r >>= 8;
	if (i % RECV_EVERY == RECV_EVERY - 1 && !takes_recv(item.op))
		item.op = OP_SEND;
	if (r % 4 == 0)
		item.length = (r >> 8) % 65;
	else if (r % 4 == 1)
		item.length = (r >> 8) % 1500;
	else
		item.length = (r >> 8) % step->length;
	if (item.length < step->offset)
		item.length = step->offset;
	if (is_atomic(item.op))
		item.length = 8;
	item.offset = (r >> 24) % (SOURCE_SIZE - SLOT);
	item.signaled = (r >> 48) % 2 || i % 16 == 15 || i + 1 == step->count;
	return item;
}

static uint64_t item_seed(const struct step *step, uint32_t i)
{
	return ((uint64_t)step->seed << 32 | i) * 3;
}

struct serving {
	const struct step *step;
	char *word;
	uint32_t next;		/* first request that was not looked at */
	uint32_t recvs;		/* completed */
};

static bool look_at(struct serving *s, uint32_t i, const struct ibv_wc *wc)
{
	struct item item = item_of(s->step, i);
	const uint8_t *bytes = rc.mem + TARGETS + i % SLOTS * SLOT;
	bool imm = item.op == OP_SEND_IMM || item.op == OP_WRITE_IMM;
	long bad;

	if (item.op == OP_READ || is_atomic(item.op))
		return true;
	if (takes_recv(item.op)) {
		enum ibv_wc_opcode opcode = item.op == OP_WRITE_IMM ?
			IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;

		if (item.op != OP_WRITE_IMM)
			bytes = rc.mem + RECV_AREA + s->recvs % RECVS * SLOT;
		if (wc->wr_id != s->recvs || wc->opcode != opcode ||
		    wc->byte_len != item.length ||
		    !!(wc->wc_flags & IBV_WC_WITH_IMM) != imm ||
		    (imm && wc->imm_data != htonl(i)))
			return complain(s->word, "%s %u of %u bytes (receive %u) came as wr_id %llu, opcode %d, %u bytes, flags 0x%x, immediate %u",
					op_names[item.op], i, item.length,
					s->recvs, (unsigned long long)wc->wr_id,
					wc->opcode, wc->byte_len, wc->wc_flags,
					ntohl(wc->imm_data));
	}
	bad = differs(bytes, item.length, item_seed(s->step, i));
	if (bad >= 0)
		return complain(s->word, "%s %u: byte %ld of %u is wrong",
				op_names[item.op], i, bad, item.length);
	return true;
}

static void post_slot(uint32_t n)
{
	struct ibv_sge sge = {
		.addr = at(RECV_AREA + n % RECVS * SLOT),
		.length = SLOT,
		.lkey = rc.mr->lkey,
	};

	post_recv(n, &sge, 1);
}

static uint32_t count_recvs(const struct step *step)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < step->count; i++)
		n += takes_recv(item_of(step, i).op);
	return n;
}

static void serve_stream(const struct step *step, char *word)
{
	struct serving s = { .step = step, .word = word };
	struct answer ready = {};
	uint32_t total = count_recvs(step), posted = 0;
	struct ibv_wc wc;

	fill(rc.mem + SOURCE_AREA, SOURCE_SIZE, step->seed);
	memset(rc.mem, 0, 2 * CELL);
	while (posted < RECVS && posted < total)
		post_slot(posted++);
	tcp_send(control, &ready, sizeof(ready));

	while (s.recvs < total) {
		if (!wait_wc(word, &wc, "a receive"))
			return;
		/* All up to the request that this receive belongs to. */
		while (!takes_recv(item_of(step, s.next).op))
			if (!look_at(&s, s.next++, NULL))
				return;
		if (!look_at(&s, s.next++, &wc))
			return;
		s.recvs++;
		if (posted < total)
			post_slot(posted++);
	}
}

/* All requests are complete: what is left of the stream. */
static void finish_stream(struct answer *answer)
{
	struct ibv_wc wc;

	if (rc_poll(&rc, &wc, 0))
		complain(answer->word, "one receive too many: wr_id %llu, %s",
			 (unsigned long long)wc.wr_id,
			 ibv_wc_status_str(wc.status));
	memcpy(answer->cells, rc.mem, sizeof(answer->cells));
}

struct asking {
	const struct step *step;
	char *word;
	uint32_t done;		/* requests known to be complete */
	uint64_t adds, cell;
};

static bool look_back(struct asking *a, uint32_t i)
{
	struct item item = item_of(a->step, i);
	const uint8_t *bytes = rc.mem + TARGETS + i % WINDOW * SLOT;
	uint64_t got, want;

	if (item.op == OP_READ) {
		static uint8_t source[SOURCE_SIZE];
		static uint32_t of;

		if (of != a->step->seed)
			fill(source, sizeof(source), a->step->seed);
		of = a->step->seed;
		if (memcmp(bytes, source + item.offset, item.length))
			return complain(a->word, "READ %u of %u bytes brought wrong ones",
					i, item.length);
	}
	if (!is_atomic(item.op))
		return true;
	memcpy(&got, bytes, 8);
	want = item.op == OP_FETCH_ADD ? a->adds++ : a->cell;
	if (item.op == OP_CMP_SWAP)
		a->cell = i + 1;
	if (got != want)
		return complain(a->word, "%s %u found %llu, not %llu",
				op_names[item.op], i, (unsigned long long)got,
				(unsigned long long)want);
	return true;
}

static bool take_completion(struct asking *a)
{
	uint32_t i = a->done;
	struct ibv_wc wc;

	while (!item_of(a->step, i).signaled)
		i++;
	if (!wait_wc(a->word, &wc, "a request"))
		return false;
	if (wc.wr_id != i || wc.opcode != op_wc[item_of(a->step, i).op])
		return complain(a->word, "a completion of wr_id %llu, opcode %d came where %u, %s, was due",
				(unsigned long long)wc.wr_id, wc.opcode, i,
				op_names[item_of(a->step, i).op]);
	while (a->done <= i)
		if (!look_back(a, a->done++))
			return false;
	return true;
}

static void post_item(const struct step *step, uint32_t i, uint64_t last_swap)
{
	struct item item = item_of(step, i);
	uint32_t offset = TARGETS + i % WINDOW * SLOT;
	struct ibv_sge sge = {
		.addr = at(offset), .length = item.length, .lkey = rc.mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = i,
		.opcode = op_wr[item.op],
		.send_flags = item.signaled ? IBV_SEND_SIGNALED : 0,
		.sg_list = &sge,
		.num_sge = item.length ? 1 : 0,
		.imm_data = htonl(i),
	};

	if (item.op == OP_READ || is_atomic(item.op))
		memset(rc.mem + offset, 0xee, item.length);
	else
		fill(rc.mem + offset, item.length, item_seed(step, i));
	if (is_atomic(item.op)) {
		wr.wr.atomic.remote_addr = rc.peer.va +
			(item.op == OP_FETCH_ADD ? COUNTER : CELL);
		wr.wr.atomic.rkey = rc.peer.rkey;
		wr.wr.atomic.compare_add = item.op == OP_FETCH_ADD ? 1 : last_swap;
		wr.wr.atomic.swap = i + 1;
	} else {
		wr.wr.rdma.remote_addr = rc.peer.va +
			(item.op == OP_READ ? SOURCE_AREA + item.offset :
					      TARGETS + i % SLOTS * SLOT);
		wr.wr.rdma.rkey = rc.peer.rkey;
	}
	post_send(&wr);
}

static bool ask_stream(struct asking *a)
{
	const struct step *step = a->step;
	uint64_t last_swap = 0;

	for (uint32_t i = 0; i < step->count; i++) {
		while (i - a->done >= WINDOW)
			if (!take_completion(a))
				return false;
		post_item(step, i, last_swap);
		if (item_of(step, i).op == OP_CMP_SWAP)
			last_swap = i + 1;
	}
	while (a->done < step->count)
		if (!take_completion(a))
			return false;
	return true;
}

static void check_stream(struct asking *a)
{
	struct answer answer = {};
	struct ibv_wc wc;

	tell(V_FINISH, a->step, &answer);
	if (answer.word[0] && a->word[0])
		printf("# the client: %s\n", a->word);
	if (answer.word[0])
		strcpy(a->word, answer.word);
	if (rc_poll(&rc, &wc, 0))
		complain(a->word, "one completion too many: wr_id %llu, %s",
			 (unsigned long long)wc.wr_id,
			 ibv_wc_status_str(wc.status));
	if (answer.cells[0] != a->adds || answer.cells[1] != a->cell)
		complain(a->word, "the cells hold %llu and %llu, not %llu and %llu",
			 (unsigned long long)answer.cells[0],
			 (unsigned long long)answer.cells[1],
			 (unsigned long long)a->adds,
			 (unsigned long long)a->cell);
}

static void run_stream(uint32_t seed, uint32_t count, uint32_t longest)
{
	struct step step = {
		.seed = seed,
		.count = count,
		.length = longest,
		.offset = shortest,
	};
	struct answer ready = {};
	char word[sizeof(ready.word)] = "";
	struct asking a = { .step = &step, .word = word };

	tell(V_STREAM, &step, &ready);
	ask_stream(&a);
	check_stream(&a);
	report(word, "stream of %u requests of up to %u bytes, seed %u", count,
	       longest, seed);
}

/* ---- both ends --------------------------------------------------------- */

static bool make_window(void)
{
	window_mr = ibv_reg_mr(rc.pd, window_mem, sizeof(window_mem),
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	if (!window_mr)
		return false;
	window = ibv_alloc_mw(rc.pd, IBV_MW_TYPE_2);
	return window;
}

static void destroy_window(void)
{
	if (window && ibv_dealloc_mw(window))
		die("ibv_dealloc_mw: %m");
	if (window_mr && ibv_dereg_mr(window_mr))
		die("ibv_dereg_mr: %m");
}

static void serve(void)
{
	char word[sizeof(((struct answer *)0)->word)] = "";
	struct step step;

	for (;;) {
		struct answer answer = {};

		tcp_recv(control, &step, sizeof(step));
		switch (step.verb) {
		case V_PREPARE:
			prepare(&step, &answer);
			break;
		case V_CHECK:
			check(&step, &answer);
			break;
		case V_STREAM:
			word[0] = 0;
			serve_stream(&step, word);
			continue;
		case V_FINISH:
			strcpy(answer.word, word);
			finish_stream(&answer);
			break;
		default:
			return;
		}
		tcp_send(control, &answer, sizeof(answer));
	}
}

static bool greet(void)
{
	struct greeting self = { .addr = rc.self, .can_inv = make_window() };
	struct greeting peer;
	uint8_t ready = 1;

	tcp_send(control, &self, sizeof(self));
	tcp_recv(control, &peer, sizeof(peer));
	errno = rc_connect(&rc, &peer.addr);
	if (errno)
		die("the QP cannot be connected: %m");
	tcp_send(control, &ready, sizeof(ready));
	tcp_recv(control, &ready, sizeof(ready));
	return peer.can_inv;
}

static void usage(void)
{
	die("usage: rc_matrix [-d DEVICE] [-g GID-INDEX] [-m MTU] [-p PORT] [-t TIMEOUT]\n"
	    "       [-r RETRIES] [-P PSN] [-S SEED] [-n REQUESTS-OF-A-STREAM (0: none)]\n"
	    "       [-l LONGEST-OF-A-STREAM] [-x (no single operations)]\n"
	    "       [-i (the device says WITH_INV as rdma_rxe does)]\n"
	    "       [-z (nothing of zero length in a stream)] [SERVER]");
}

int main(int argc, char **argv)
{
	struct rc_conf conf = rc_conf_default;
	uint32_t count = 5000, longest = SLOT, seed = 1;
	const char *port = "18600";
	bool singles = true;
	int c;

	conf.depth = WINDOW;
	while ((c = getopt(argc, argv, "d:g:m:p:t:r:P:S:n:l:xiz")) != -1) {
		switch (c) {
		case 'd': conf.dev = optarg; break;
		case 'g': conf.gid = atoi(optarg); break;
		case 'm': conf.mtu = atoi(optarg); break;
		case 'p': port = optarg; break;
		case 't': conf.timeout = atoi(optarg); break;
		case 'r': conf.retry = atoi(optarg); break;
		case 'P': conf.psn = strtol(optarg, NULL, 0); break;
		case 'S': seed = strtoul(optarg, NULL, 0); break;
		case 'n': count = strtoul(optarg, NULL, 0); break;
		case 'l': longest = strtoul(optarg, NULL, 0); break;
		case 'x': singles = false; break;
		case 'z': shortest = 1; break;
		case 'i': inv_flag = IBV_WC_IP_CSUM_OK; break;
		default: usage();
		}
	}
	if (argc - optind > 1 || !longest || longest > SLOT)
		usage();
	srandom(getpid());
	rc_open(&rc, &conf, MEMORY);
	if (argc == optind) {
		control = tcp_accept(port);
		greet();
		serve();
	} else {
		struct step bye = { .verb = V_BYE };
		bool can_inv;

		control = tcp_connect(argv[optind], port);
		can_inv = greet();
		if (singles)
			run_singles(can_inv);
		if (count && !failures)
			run_stream(seed, count, longest);
		printf("1..%u\n", test_number);
		tcp_send(control, &bye, sizeof(bye));
	}
	destroy_window();
	rc_close(&rc);
	return failures ? 1 : 0;
}
