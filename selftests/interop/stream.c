// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Streams of mixed requests.
 *
 * Request i is told by the seed, so that both ends know all of them. Every
 * RECV_EVERY-th takes a receive, and the server looks at all bytes written
 * before it when it comes.
 *
 * May target i % SLOTS be written again by i + SLOTS? That one is posted after
 * i + WINDOW completed. Between i and there are at least RECVS requests that
 * take a receive, so that the last of them took one that was posted after the
 * server looked at what was written by i.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "matrix.h"

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

void serve_stream(const struct step *step, char *word)
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
void finish_stream(struct answer *answer)
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
	if (wc.wr_id != i || (int)wc.opcode != op_wc[item_of(a->step, i).op])
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

void run_stream(uint32_t seed, uint32_t count, uint32_t shortest,
		uint32_t longest)
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
