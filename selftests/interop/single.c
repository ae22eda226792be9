// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* One operation at a time. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "matrix.h"

static struct ibv_mr *window_mr;
static struct ibv_mw *window;
static uint8_t window_mem[4096];
unsigned int inv_flag = IBV_WC_WITH_INV;

bool make_window(void)
{
	window_mr = ibv_reg_mr(rc.pd, window_mem, sizeof(window_mem),
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	if (!window_mr)
		return false;
	window = ibv_alloc_mw(rc.pd, IBV_MW_TYPE_2);
	return window;
}

void destroy_window(void)
{
	if (window && ibv_dealloc_mw(window))
		die("ibv_dealloc_mw: %m");
	if (window_mr && ibv_dereg_mr(window_mr))
		die("ibv_dereg_mr: %m");
}

/* ---- the server -------------------------------------------------------- */

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

void prepare(const struct step *step, struct answer *answer)
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

void check(const struct step *step, struct answer *answer)
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
		check_bytes(step, answer->word,
			    step->op != OP_READ && step->op != OP_FLUSH);
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

/* ---- the client -------------------------------------------------------- */

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
	if ((int)wc->opcode != op_wc[step->op])
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
	if (is_placing(step->op)) {
		post_placing(step);
	} else {
		wr.num_sge = cut(at(step->offset), step->length, step->pieces,
				 sge);
		set_remote(&wr, step, answer.rkey, old_word(step));
		post_send(&wr);
	}
	if (!wait_wc(word, &wc, "the request") ||
	    !check_sent(step, word, &wc) || !check_local(step, word))
		return false;
	tell(V_CHECK, step, &answer);
	if (answer.word[0])
		return complain(word, "%s", answer.word);
	return true;
}

/* Of eight bytes that are aligned. */
static bool is_cell(enum op op)
{
	return is_atomic(op) || op == OP_ATOMIC_WRITE;
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
			.offset = PLACE + (is_cell(op) ? 8 * i : i),
			.pieces = is_cell(op) ? 1 : 1 + i % 3,
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

void run_singles(uint32_t can, uint32_t longest)
{
	uint32_t mtu = rc_mtu(&rc, &rc.peer);
	const uint32_t lengths[] = {
		0, 1, 2, 3, 4, 5, 7, mtu - 1, mtu, mtu + 1, 2 * mtu,
		3 * mtu + 2, 65535, 65536, 65537, BIGGEST,
	};
	const uint32_t cells[] = { 8, 8, 8, 8 };
	uint32_t n = ARRAY_SIZE(lengths);

	while (lengths[n - 1] > longest)
		n--;

	for (uint32_t op = 0; op < OP_COUNT && !failures; op++) {
		if (!(can & 1u << op))
			report("# SKIP a device or library does not have it",
			       "%s", op_names[op]);
		else if (is_cell(op))
			run_lengths(op, cells, ARRAY_SIZE(cells));
		else
			run_lengths(op, lengths, n);
	}
}
