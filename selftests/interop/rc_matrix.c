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

#include "matrix.h"

const char *const op_names[] = {
	"send", "send_imm", "send_inv", "write", "write_imm", "read",
	"cmp_swap", "fetch_add", "atomic_write", "flush",
};

const enum ibv_wr_opcode op_wr[] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
};

/* Of enum ibv_wc_opcode, in later libraries. */
#define WC_FLUSH 8
#define WC_ATOMIC_WRITE 9

const int op_wc[] = {
	IBV_WC_SEND, IBV_WC_SEND, IBV_WC_SEND, IBV_WC_RDMA_WRITE,
	IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP,
	IBV_WC_FETCH_ADD, WC_ATOMIC_WRITE, WC_FLUSH,
};

struct greeting {
	struct rc_addr addr;
	uint32_t can;		/* operations, as bits */
};

struct rc rc;
int control;
unsigned int failures;
static unsigned int test_number;
static uint32_t cannot;		/* operations, as bits */

/* ---- bytes ------------------------------------------------------------- */

uint64_t mix(uint64_t x)
{
	x = (x + 1) * 0x9e3779b97f4a7c15ull;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 32;
}

void fill(uint8_t *at, size_t length, uint64_t seed)
{
	seed = mix(seed);
	for (size_t i = 0; i < length; i += 8, seed += 0x9e3779b97f4a7c15ull) {
		uint64_t word = seed ^ seed >> 31;

		memcpy(at + i, &word, length - i < 8 ? length - i : 8);
	}
}

/* Returns the first byte that is not what fill() makes, or -1. */
long differs(const uint8_t *at, size_t length, uint64_t seed)
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

bool complain(char *word, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The first complaint counts. Always false. */
bool complain(char *word, const char *fmt, ...)
{
	va_list args;

	if (word[0])
		return false;
	va_start(args, fmt);
	vsnprintf(word, sizeof(((struct answer *)0)->word), fmt, args);
	va_end(args);
	return false;
}

void report(const char *word, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void report(const char *word, const char *fmt, ...)
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

bool wait_wc(char *word, struct ibv_wc *wc, const char *what)
{
	int got = rc_poll(&rc, wc, RC_PATIENCE_MS);

	if (got < 0)
		return complain(word, "%s: %s", what, strerror(-got));
	if (!got)
		return complain(word, "%s did not complete within %d s", what,
				RC_PATIENCE_MS / 1000);
	if (wc->status)
		return complain(word, "%s (wr_id %llu): %s", what,
				(unsigned long long)wc->wr_id,
				ibv_wc_status_str(wc->status));
	return true;
}

void tell(uint32_t verb, const struct step *step, struct answer *answer)
{
	struct step message = *step;

	message.verb = verb;
	tcp_send(control, &message, sizeof(message));
	tcp_recv(control, answer, sizeof(*answer));
}

/* ---- posting ----------------------------------------------------------- */

/* Cut a stretch of memory into so many pieces, none of them empty. */
int cut(uint64_t addr, uint32_t length, uint32_t pieces,
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

void post_recv(uint64_t id, struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = sge, .num_sge = n };

	errno = ibv_post_recv(rc.qp, &wr, &bad);
	if (errno)
		die("ibv_post_recv: %m");
}

void post_send(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	errno = ibv_post_send(rc.qp, wr, &bad);
	if (errno)
		die("ibv_post_send: %m");
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

/* What both ends can. Only the server needs a window to be invalidated. */
static uint32_t greet(void)
{
	uint32_t always = (1u << OP_ATOMIC_WRITE) - 1 - (1u << OP_SEND_INV);
	uint32_t window = make_window() ? 1u << OP_SEND_INV : 0;
	struct greeting self = { .addr = rc.self };
	struct greeting peer;
	uint8_t ready = 1;

	self.can = (always | window | placing_ops()) & ~cannot;

	tcp_send(control, &self, sizeof(self));
	tcp_recv(control, &peer, sizeof(peer));
	errno = rc_connect(&rc, &peer.addr);
	if (errno)
		die("the QP cannot be connected: %m");
	tcp_send(control, &ready, sizeof(ready));
	tcp_recv(control, &ready, sizeof(ready));
	return peer.can & (self.can | 1u << OP_SEND_INV);
}

static void usage(void)
{
	die("usage: rc_matrix [-d DEVICE] [-g GID-INDEX] [-m MTU] [-p PORT] [-t TIMEOUT]\n"
	    "       [-r RETRIES] [-P PSN] [-S SEED] [-n REQUESTS-OF-A-STREAM (0: none)]\n"
	    "       [-b LONGEST-SINGLE] [-l LONGEST-OF-A-STREAM] [-x (no single operations)]\n"
	    "       [-i (the device says WITH_INV as rdma_rxe does)] [-f (no FLUSH)]\n"
	    "       [-z (nothing of zero length in a stream)] [SERVER]");
}

int main(int argc, char **argv)
{
	struct rc_conf conf = rc_conf_default;
	uint32_t count = 5000, longest = SLOT, shortest = 0, seed = 1;
	uint32_t longest_single = BIGGEST;
	const char *port = "18600";
	bool singles = true;
	int c;

	conf.depth = WINDOW;
	while ((c = getopt(argc, argv, "d:g:m:p:t:r:P:S:b:n:l:xizf")) != -1) {
		switch (c) {
		case 'd': conf.dev = optarg; break;
		case 'g': conf.gid = atoi(optarg); break;
		case 'm': conf.mtu = atoi(optarg); break;
		case 'p': port = optarg; break;
		case 't': conf.timeout = atoi(optarg); break;
		case 'r': conf.retry = atoi(optarg); break;
		case 'P': conf.psn = strtol(optarg, NULL, 0); break;
		case 'S': seed = strtoul(optarg, NULL, 0); break;
		case 'b': longest_single = strtoul(optarg, NULL, 0); break;
		case 'n': count = strtoul(optarg, NULL, 0); break;
		case 'l': longest = strtoul(optarg, NULL, 0); break;
		case 'x': singles = false; break;
		/* rdma_rxe cannot answer a READ again after one of no length. */
		case 'z': shortest = 1; break;
		/* rdma_rxe's have an ICRC that is not the specification's. */
		case 'f': cannot = 1u << OP_FLUSH; break;
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
		uint32_t can;

		control = tcp_connect(argv[optind], port);
		can = greet();
		if (singles)
			run_singles(can, longest_single);
		if (count && !failures)
			run_stream(seed, count, shortest, longest);
		printf("1..%u\n", test_number);
		tcp_send(control, &bye, sizeof(bye));
	}
	destroy_window();
	rc_close(&rc);
	return failures ? 1 : 0;
}
