// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Ends of connections, or of datagrams, that do what they are told. Each line
 * of the standard input is a command with arguments NAME=VALUE, each line of
 * the standard output an answer: "ok NAME=VALUE...", or "err ERRNO TEXT".
 * selftests/interop/puppet.py speaks it. q=N says which of the ends is meant.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rc.h"

#define ENDS 64

static struct rc *ends[ENDS];
static struct rc *end;		/* the one that is meant */
static char *words[32];
static int count;

static const char *text(const char *name, const char *other)
{
	size_t length = strlen(name);

	for (int i = 1; i < count; i++)
		if (!strncmp(words[i], name, length) && words[i][length] == '=')
			return words[i] + length + 1;
	return other;
}

static long long number(const char *name, long long other)
{
	const char *word = text(name, NULL);
	char *rest;
	unsigned long long value;

	if (!word)
		return other;
	value = strtoull(word, &rest, 0);
	if (*rest || !*word)
		die("%s=%s is no number", name, word);
	return value;
}

static void answer(int err)
{
	if (err)
		printf("err %d %s\n", err, strerror(err));
	else
		printf("ok\n");
}

static void *place(void)
{
	size_t off = number("off", 0), len = number("len", 0);

	if (off > end->size || len > end->size - off)
		die("there are only %zu bytes", end->size);
	return end->mem + off;
}

static enum ibv_qp_type qp_type(void)
{
	const char *name = text("type", "rc");

	if (!strcmp(name, "uc"))
		return IBV_QPT_UC;
	if (!strcmp(name, "ud"))
		return IBV_QPT_UD;
	if (strcmp(name, "rc"))
		die("type=%s is none of rc, uc, ud", name);
	return IBV_QPT_RC;
}

static void do_open(void)
{
	struct rc_conf conf = rc_conf_default;
	long long q = number("q", 0);
	char gid[INET6_ADDRSTRLEN];

	if (ends[q])
		die("end %lld is open", q);
	conf.type = qp_type();
	conf.dev = text("dev", NULL);
	conf.gid = number("gid", conf.gid);
	conf.mtu = number("mtu", 0);
	conf.timeout = number("timeout", conf.timeout);
	conf.retry = number("retry", conf.retry);
	conf.rnr = number("rnr", conf.rnr);
	conf.depth = number("depth", conf.depth);
	conf.cqe = number("cqe", 0);
	conf.qkey = number("qkey", conf.qkey);
	conf.on_demand = number("on_demand", 0);
	conf.rd_atomic = number("rd", conf.rd_atomic);
	conf.tclass = number("tclass", 0);
	conf.hop_limit = number("hop", conf.hop_limit);
	conf.flow_label = number("flow", 0);
	conf.psn = number("psn", conf.psn);
	ends[q] = end = malloc(sizeof(*end));
	rc_open(end, &conf, number("size", 1 << 20));
	fcntl(end->ctx->async_fd, F_SETFL, O_NONBLOCK);
	rc_gid_print(&end->self.gid, gid, sizeof(gid));
	printf("ok qpn=%u psn=%u mtu=%u rkey=%u va=%llu size=%zu gid=%s cqe=%d\n",
	       end->self.qpn, end->self.psn, end->self.mtu, end->self.rkey,
	       (unsigned long long)end->self.va, end->size, gid, end->cq->cqe);
}

static union ibv_gid named_gid(void)
{
	union ibv_gid gid;

	if (inet_pton(AF_INET6, text("gid", ""), &gid) != 1)
		die("gid=%s is no GID", text("gid", ""));
	return gid;
}

static void do_connect(void)
{
	struct rc_addr peer = {
		.qpn = number("qpn", 0),
		.psn = number("psn", 0),
		.mtu = number("mtu", end->self.mtu),
		.rkey = number("rkey", 0),
		.va = number("va", 0),
		.length = number("size", 0),
		.gid = named_gid(),
	};

	answer(rc_connect(end, &peer));
}

/* Hear a multicast group: join gid= */
static void do_join(void)
{
	union ibv_gid gid = named_gid();

	answer(ibv_attach_mcast(end->qp, &gid, 0));
}

static void do_leave(void)
{
	union ibv_gid gid = named_gid();

	answer(ibv_detach_mcast(end->qp, &gid, 0));
}

static enum ibv_wr_opcode opcode(void)
{
	static const char *const names[] = {
		[IBV_WR_SEND] = "send",
		[IBV_WR_SEND_WITH_IMM] = "send_imm",
		[IBV_WR_SEND_WITH_INV] = "send_inv",
		[IBV_WR_RDMA_WRITE] = "write",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "write_imm",
		[IBV_WR_RDMA_READ] = "read",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "cmp_swap",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "fetch_add",
	};
	const char *name = text("op", "");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i] && !strcmp(name, names[i]))
			return i;
	die("op=%s is no operation", name);
}

static void set_remote(struct ibv_send_wr *wr)
{
	uint64_t remote = number("va", end->peer.va) + number("roff", 0);
	uint32_t rkey = number("rkey", end->peer.rkey);

	if (end->ah) {
		wr->wr.ud.ah = end->ah;
		wr->wr.ud.remote_qpn = end->peer.qpn;
		wr->wr.ud.remote_qkey = number("qkey", end->conf.qkey);
	} else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = number("add", 1);
		wr->wr.atomic.swap = number("swap", 0);
	} else {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = rkey;
	}
	if (wr->opcode == IBV_WR_SEND_WITH_INV)
		wr->invalidate_rkey = rkey;
}

/*
 * post op= [n=] [id=] [len=] [off=] [roff=] [rkey=] [imm=] [signal=0] ...
 * good=N: from the byte N on with a wrong local key
 */
static void do_post(void)
{
	long long n = number("n", 1), id = number("id", 0);
	uint32_t length = number("len", 0), good = number("good", length);
	uint32_t lkey = number("lkey", end->mr->lkey);
	struct ibv_sge sge[] = {
		{ (uintptr_t)place(), good, lkey },
		{ (uintptr_t)place() + good, length - good, lkey ^ 0x5a5a00 },
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode(),
		.sg_list = sge,
		.num_sge = good < length ? 2 : !!length,
		.send_flags = (number("signal", 1) ? IBV_SEND_SIGNALED : 0) |
			      (number("solicited", 0) ? IBV_SEND_SOLICITED : 0) |
			      (number("fence", 0) ? IBV_SEND_FENCE : 0),
		.imm_data = htonl(number("imm", 0)),
	};
	int err = 0;

	set_remote(&wr);
	while (n-- && !err) {
		wr.wr_id = id++;
		err = ibv_post_send(end->qp, &wr, &bad);
	}
	answer(err);
}

/* recv [n=] [id=] [len=] [off=] */
static void do_recv(void)
{
	long long n = number("n", 1), id = number("id", 0);
	struct ibv_sge sge = {
		.addr = (uintptr_t)place(),
		.length = number("len", 0),
		.lkey = number("lkey", end->mr->lkey),
	};
	struct ibv_recv_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = sge.length ? 1 : 0,
	};
	int err = 0;

	while (n-- && !err) {
		wr.wr_id = id++;
		err = ibv_post_recv(end->qp, &wr, &bad);
	}
	answer(err);
}

/* As rc_poll(); when that is refused, the command is answered. */
static int try_poll(struct ibv_wc *wc, int ms)
{
	int got = rc_poll(end, wc, ms);

	if (got < 0)
		answer(-got);
	return got;
}

/* One completion: poll [ms=] */
static void do_poll(void)
{
	struct ibv_wc wc;
	int got = try_poll(&wc, number("ms", 0));

	if (got < 0)
		return;
	if (!got) {
		printf("ok none=1\n");
		return;
	}
	printf("ok id=%llu status=%d opcode=%d len=%u flags=%u imm=%u qpn=%u vendor=%u\n",
	       (unsigned long long)wc.wr_id, wc.status, wc.opcode, wc.byte_len,
	       wc.wc_flags, ntohl(wc.imm_data), wc.qp_num, wc.vendor_err);
}

/* So many completions in order, from wr_id id= on: drain n= [id=] [ms=] */
static void do_drain(void)
{
	long long n = number("n", 1), id = number("id", 0);

	for (long long i = 0; i < n; i++) {
		struct ibv_wc wc;
		int got = try_poll(&wc, number("ms", RC_PATIENCE_MS));

		if (got < 0)
			return;
		if (!got) {
			printf("ok got=%lld status=-1\n", i);
			return;
		}
		if (wc.status || wc.wr_id != (uint64_t)(id + i)) {
			printf("ok got=%lld status=%d id=%llu\n", i, wc.status,
			       (unsigned long long)wc.wr_id);
			return;
		}
	}
	printf("ok got=%lld status=0\n", n);
}

/* Requests without end, 16 under way: pump op= len= [ms=] */
static void do_pump(void)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)place(),
		.length = number("len", 0),
		.lkey = end->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode(),
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {
			.remote_addr = end->peer.va,
			.rkey = end->peer.rkey,
		},
	};
	struct pollfd input = { .fd = 0, .events = POLLIN };
	unsigned long long posted = 0, done = 0;
	bool quiet = false;

	printf("ok\n");
	fflush(stdout);
	/* Until the next command comes, which then is carried out. */
	while (!quiet || done < posted) {
		struct ibv_wc wc;
		int got;

		quiet = quiet || poll(&input, 1, 0) > 0;
		if (!quiet && posted - done < 16) {
			int err = ibv_post_send(end->qp, &wr, &bad);

			if (err) {
				answer(err);
				return;
			}
			posted++;
			continue;
		}
		got = try_poll(&wc, RC_PATIENCE_MS);
		if (got < 0)
			return;
		if (!got) {
			printf("ok done=%llu status=-1\n", done);
			return;
		}
		if (wc.status) {
			printf("ok done=%llu status=%d\n", done, wc.status);
			return;
		}
		done++;
	}
	printf("ok done=%llu status=0\n", done);
}

static const char *const states[] = {
	"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR",
};

static void do_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
			       IBV_QP_RQ_PSN, &init);

	if (err)
		answer(err);
	else
		printf("ok state=%s sq_psn=%u rq_psn=%u\n",
		       states[attr.qp_state], attr.sq_psn, attr.rq_psn);
}

/* The same address vector with another traffic class. */
static int change_class(int tclass)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(end->qp, &attr, IBV_QP_AV, &init);

	attr.ah_attr.grh.traffic_class = tclass;
	return err ?: ibv_modify_qp(end->qp, &attr, IBV_QP_AV);
}

/* modify state=, or tclass= in SQD */
static void do_modify(void)
{
	struct ibv_qp_attr attr = {};
	const char *name = text("state", "");
	long long tclass = number("tclass", -1);

	if (tclass >= 0) {
		answer(change_class(tclass));
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (!strcmp(name, states[i]))
			attr.qp_state = i;
	answer(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE));
}

/* One asynchronous event: event [ms=] */
static void do_event(void)
{
	struct pollfd fd = { .fd = end->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, number("ms", 0)) <= 0) {
		printf("ok none=1\n");
		return;
	}
	if (ibv_get_async_event(end->ctx, &event)) {
		answer(errno);
		return;
	}
	printf("ok event=%d\n", event.event_type);
	ibv_ack_async_event(&event);
}

static void do_peek(void)
{
	const uint8_t *from = place();
	long long len = number("len", 0);

	printf("ok hex=");
	for (long long i = 0; i < len; i++)
		printf("%02x", from[i]);
	printf("\n");
}

static void do_poke(void)
{
	const char *hex = text("hex", "");
	uint8_t *to = place();

	while (isxdigit(hex[0]) && isxdigit(hex[1])) {
		const char byte[] = { hex[0], hex[1], 0 };

		*to++ = strtol(byte, NULL, 16);
		hex += 2;
	}
	answer(0);
}

/* Are all bytes of a stretch the same as this one? same byte= off= len= */
static void do_same(void)
{
	const uint8_t *from = place();
	long long len = number("len", 0), byte = number("byte", 0), i = 0;

	while (i < len && from[i] == byte)
		i++;
	printf("ok same=%d at=%lld\n", i == len, i);
}

static void do_set(void)
{
	memset(place(), number("byte", 0), number("len", 0));
	answer(0);
}

/* The QP only; the rest stays for its completions. */
static void do_destroy(void)
{
	int err = ibv_destroy_qp(end->qp);

	if (!err)
		end->qp = NULL;
	answer(err);
}

/* What peers still ask of the region has no place any more. */
static void do_dereg(void)
{
	int err = ibv_dereg_mr(end->mr);

	if (!err)
		end->mr = NULL;
	answer(err);
}

static void do_close(void)
{
	rc_close(end);
	free(end);
	ends[number("q", 0)] = NULL;
	answer(0);
}

static const struct {
	const char *name;
	void (*run)(void);
} commands[] = {
	{ "open", do_open }, { "connect", do_connect }, { "post", do_post },
	{ "recv", do_recv }, { "poll", do_poll }, { "drain", do_drain },
	{ "pump", do_pump }, { "state", do_state }, { "modify", do_modify },
	{ "event", do_event }, { "peek", do_peek }, { "poke", do_poke },
	{ "same", do_same }, { "set", do_set }, { "destroy", do_destroy },
	{ "dereg", do_dereg }, { "close", do_close }, { "join", do_join },
	{ "leave", do_leave },
};

static void obey(void)
{
	long long q = number("q", 0);

	if (q < 0 || q >= ENDS)
		die("there are only %d ends", ENDS);
	end = ends[q];
	if (!end && strcmp(words[0], "open"))
		die("end %lld is not open", q);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(words[0], commands[i].name)) {
			commands[i].run();
			fflush(stdout);
			return;
		}
	}
	die("'%s' is no command", words[0]);
}

/* Unbuffered, so that poll(2) tells whether there is another command. */
static bool read_line(char *line, size_t size)
{
	size_t n = 0;

	for (;;) {
		ssize_t got = read(0, line + n, 1);

		if (got <= 0)
			return false;
		if (line[n] == '\n')
			break;
		if (++n == size)
			die("a line is too long");
	}
	line[n] = 0;
	return true;
}

int main(void)
{
	static char line[65536];

	srandom(getpid());
	while (read_line(line, sizeof(line))) {
		char *word = strtok(line, " ");

		for (count = 0; word && count < (int)ARRAY_SIZE(words);
		     word = strtok(NULL, " "))
			words[count++] = word;
		if (count)
			obey();
	}
	return 0;
}
