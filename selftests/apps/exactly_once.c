// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Many messages between two hosts, each of which has to arrive once, intact
 * and in order, and each of which has to give one completion at each end that
 * is due one. Meant for a wire that loses and reorders.
 *
 *	exactly_once [options]			the server
 *	exactly_once [options] SERVER		the client
 *
 * What message number n of a connection is follows from n and the connection
 * alone: a SEND or an RDMA WRITE, both with immediate data; an RDMA READ; or a
 * fetch-and-add of 1 to a counter that nobody else touches, so that the value
 * found there says how often the additions before were done.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 1
#define SERVICE "18600"
#define MAX_QPS 64
#define DEPTH 64			/* receives, and requests in flight */
#define SLOTS (2 * DEPTH)		/* see check_arrival() */
#define SLOT_SIZE 8192
#define READ_AREA (1 << 20)
#define ATOMIC_AREA 64
#define QUIET_S 120			/* no completion for so long: lost */

enum kind { SEND, WRITE, READ, ADD };

static struct {
	const char *device;
	int gid_index;
	unsigned int count;		/* messages, all connections together */
	unsigned int qps;
	unsigned int largest;
	unsigned int slow;
} opt = { "rxe0", 1, 100000, 4, 6000, 1 };

struct conn {
	struct ibv_qp *qp;
	unsigned int number;
	unsigned int count;		/* messages of this connection */
	unsigned int posted, done;	/* client: requests */
	unsigned int arrivals_posted;	/* client: messages that take a receive */
	unsigned int adds;		/* client: additions completed */
	unsigned int next;		/* server: number of the next message */
	unsigned int arrivals;		/* server: messages that took a receive */
	uint8_t *memory;
	struct ibv_mr *mr;
	/* The peer's memory. */
	uint64_t remote;
	uint32_t rkey;
};

/* What each end tells the other about a connection. */
struct hello {
	uint32_t qpn, psn, rkey, mtu;
	uint64_t address;
	union ibv_gid gid;
};

/* Memory of a connection: the same layout at both ends. */
enum {
	RECEIVE_AT = 0,				/* DEPTH slots */
	WRITE_AT = RECEIVE_AT + DEPTH * SLOT_SIZE,	/* SLOTS slots */
	SOURCE_AT = WRITE_AT + SLOTS * SLOT_SIZE,	/* DEPTH slots */
	READ_AT = SOURCE_AT + DEPTH * SLOT_SIZE,
	ATOMIC_AT = READ_AT + READ_AREA,
	MEMORY = ATOMIC_AT + ATOMIC_AREA,
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_port_attr port;
static union ibv_gid gid;
static struct conn conns[MAX_QPS];
static bool is_client;

__attribute__((noreturn, format(printf, 1, 2)))
static void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", is_client ? "client" : "server");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(1);
}

#define NEED(cond) do {							\
	if (!(cond))							\
		die("%s:%d: %s: %s", __FILE__, __LINE__, #cond,		\
		    strerror(errno));					\
} while (0)

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* ---- what message n is ------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x7fb5d329728ea185ull;
	x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44dull;
	return x ^ (x >> 33);
}

static uint64_t seed(unsigned int conn, unsigned int n)
{
	return mix(((uint64_t)(conn + 1) << 32) + n + 1);
}

static enum kind kind_of(unsigned int conn, unsigned int n)
{
	static const enum kind kinds[16] = {
		SEND, WRITE, SEND, READ, SEND, ADD, SEND, WRITE,
		SEND, SEND, WRITE, SEND, SEND, ADD, SEND, READ,
	};

	return kinds[seed(conn, n) & 15];
}

/* Mostly small; some of several packets; some empty. */
static unsigned int size_of(unsigned int conn, unsigned int n)
{
	uint64_t random = seed(conn, n) >> 4;

	if (kind_of(conn, n) == ADD)
		return 8;
	if (random % 8)
		return (random >> 8) % 513;
	return (random >> 8) % (opt.largest + 1);
}

static bool takes_receive(enum kind kind)
{
	return kind == SEND || kind == WRITE;
}

static void fill(uint8_t *at, uint64_t random, unsigned int size)
{
	for (unsigned int i = 0; i < size; i++) {
		if (!(i & 7))
			random = mix(random + i + 1);
		at[i] = random >> (i & 7) * 8;
	}
}

static void check(const uint8_t *at, uint64_t random, unsigned int size,
		  const char *what, unsigned int conn, unsigned int n)
{
	static uint8_t want[READ_AREA];
	unsigned int i;

	fill(want, random, size);
	if (!memcmp(at, want, size))
		return;
	for (i = 0; at[i] == want[i]; i++)
		;
	die("connection %u, message %u: byte %u of %u of the %s is %02x, not %02x",
	    conn, n, i, size, what, at[i], want[i]);
}

/* ---- setting up -------------------------------------------------------- */

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **d;

	NEED(list);
	for (d = list; *d; d++)
		if (!strcmp(ibv_get_device_name(*d), opt.device))
			context = ibv_open_device(*d);
	if (!context)
		die("no device %s", opt.device);
	ibv_free_device_list(list);
	NEED(!ibv_query_port(context, PORT, &port));
	NEED(!ibv_query_gid(context, PORT, opt.gid_index, &gid));
	pd = ibv_alloc_pd(context);
	NEED(pd);
	send_cq = ibv_create_cq(context, opt.qps * DEPTH, NULL, NULL, 0);
	recv_cq = ibv_create_cq(context, opt.qps * DEPTH, NULL, NULL, 0);
	NEED(send_cq && recv_cq);
}

static void open_conn(struct conn *c, unsigned int number)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};

	c->number = number;
	c->count = opt.count / opt.qps + (number < opt.count % opt.qps);
	c->memory = aligned_alloc(4096, (MEMORY + 4095) & ~4095);
	NEED(c->memory);
	memset(c->memory, 0, MEMORY);
	fill(c->memory + READ_AT, number, READ_AREA);
	c->mr = ibv_reg_mr(pd, c->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_ATOMIC);
	NEED(c->mr);
	c->qp = ibv_create_qp(pd, &init);
	NEED(c->qp);
	NEED(!ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			    IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static struct hello introduce(struct conn *c)
{
	return (struct hello) {
		.qpn = c->qp->qp_num,
		/* Wraps around during the test, at another time for each. */
		.psn = 0xffffff - 4000 * (c->number + 1) - is_client,
		.rkey = c->mr->rkey,
		.mtu = port.active_mtu,
		.address = (uintptr_t)c->memory,
		.gid = gid,
	};
}

static void connect_conn(struct conn *c, const struct hello *mine,
			 const struct hello *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mine->mtu < peer->mtu ? mine->mtu : peer->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = PORT,
			.grh = {
				.dgid = peer->gid,
				.sgid_index = opt.gid_index,
				.hop_limit = 64,
			},
		},
	};

	NEED(!ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_AV |
			    IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = mine->psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 8,
	};
	NEED(!ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
			    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			    IBV_QP_MAX_QP_RD_ATOMIC));
	c->remote = peer->address;
	c->rkey = peer->rkey;
}

static int open_socket(const char *server)
{
	struct addrinfo hints = {
		.ai_family = server ? AF_UNSPEC : AF_INET6,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = server ? 0 : AI_PASSIVE,
	}, *where;
	int fd, listener, on = 1;

	if (getaddrinfo(server, SERVICE, &hints, &where))
		die("no address %s", server);
	fd = socket(where->ai_family, SOCK_STREAM, 0);
	NEED(fd >= 0);
	if (server) {
		NEED(!connect(fd, where->ai_addr, where->ai_addrlen));
		return fd;
	}
	NEED(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	NEED(!bind(fd, where->ai_addr, where->ai_addrlen));
	NEED(!listen(fd, 1));
	listener = fd;
	fd = accept(listener, NULL, NULL);
	NEED(fd >= 0);
	close(listener);
	return fd;
}

static void exchange(int fd, const void *mine, void *theirs, size_t size)
{
	if (write(fd, mine, size) != (ssize_t)size ||
	    recv(fd, theirs, size, MSG_WAITALL) != (ssize_t)size)
		die("the other end is gone");
}

/* ---- the run ----------------------------------------------------------- */

static void post_receive(struct conn *c, unsigned int arrival)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)c->memory + RECEIVE_AT +
			arrival % DEPTH * SLOT_SIZE,
		.length = SLOT_SIZE,
		.lkey = c->mr->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = (uint64_t)c->number << 32 | arrival,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad;

	NEED(!ibv_post_recv(c->qp, &wr, &bad));
}

static unsigned int read_offset(const struct conn *c, unsigned int n)
{
	return (seed(c->number, n) >> 40) % (READ_AREA - SLOT_SIZE);
}

static void post_request(struct conn *c)
{
	unsigned int n = c->posted++;
	enum kind kind = kind_of(c->number, n);
	unsigned int size = size_of(c->number, n);
	uint8_t *slot = c->memory + SOURCE_AT + n % DEPTH * SLOT_SIZE;
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot, .length = size, .lkey = c->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = (uint64_t)c->number << 32 | n,
		.sg_list = &sge,
		.num_sge = size ? 1 : 0,
		.imm_data = htonl(n),
	}, *bad;
	uint64_t where = 0;

	switch (kind) {
	case SEND:
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		break;
	case WRITE:
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		where = WRITE_AT + c->arrivals_posted % SLOTS * SLOT_SIZE;
		break;
	case READ:
		wr.opcode = IBV_WR_RDMA_READ;
		where = READ_AT + read_offset(c, n);
		break;
	case ADD:
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = c->remote + ATOMIC_AT;
		wr.wr.atomic.rkey = c->rkey;
		wr.wr.atomic.compare_add = 1;
		break;
	}
	if (kind == WRITE || kind == READ) {
		wr.wr.rdma.remote_addr = c->remote + where;
		wr.wr.rdma.rkey = c->rkey;
	}
	if (takes_receive(kind)) {
		fill(slot, seed(c->number, n), size);
		c->arrivals_posted++;
	} else {
		memset(slot, 0xee, size);
	}
	NEED(!ibv_post_send(c->qp, &wr, &bad));
}

static void check_request(struct conn *c, const struct ibv_wc *wc)
{
	static const enum ibv_wc_opcode codes[] = {
		[SEND] = IBV_WC_SEND, [WRITE] = IBV_WC_RDMA_WRITE,
		[READ] = IBV_WC_RDMA_READ, [ADD] = IBV_WC_FETCH_ADD,
	};
	unsigned int n = c->done++;
	enum kind kind = kind_of(c->number, n);
	uint8_t *slot = c->memory + SOURCE_AT + n % DEPTH * SLOT_SIZE;

	if ((uint32_t)wc->wr_id != n)
		die("connection %u: request %u completed where %u was due",
		    c->number, (uint32_t)wc->wr_id, n);
	if (wc->opcode != codes[kind])
		die("connection %u, request %u: completion opcode %d, not %d",
		    c->number, n, wc->opcode, codes[kind]);
	if (kind == READ) {
		static uint8_t area[MAX_QPS][READ_AREA];
		static bool made[MAX_QPS];

		if (!made[c->number])
			fill(area[c->number], c->number, READ_AREA);
		made[c->number] = true;
		if (memcmp(slot, area[c->number] + read_offset(c, n),
			   size_of(c->number, n)))
			die("connection %u, message %u: wrong bytes were read",
			    c->number, n);
	} else if (kind == ADD) {
		uint64_t found;

		memcpy(&found, slot, sizeof(found));
		if (found != c->adds)
			die("connection %u, message %u: the counter was %llu after %u additions",
			    c->number, n, (unsigned long long)found, c->adds);
		c->adds++;
	}
}

/*
 * A receive is posted again when the message in it was checked. So when the
 * first bytes of an RDMA WRITE arrive whose slot was used SLOTS arrivals ago,
 * the last of those has been checked: between them was one that took the same
 * receive as the former.
 */
static void check_arrival(struct conn *c, const struct ibv_wc *wc)
{
	unsigned int arrival = c->arrivals++;
	unsigned int n, size;
	enum kind kind;

	while (!takes_receive(kind_of(c->number, c->next)))
		c->next++;
	n = c->next++;
	kind = kind_of(c->number, n);
	size = size_of(c->number, n);

	if (n >= c->count)
		die("connection %u: a message after the last one", c->number);
	if ((uint32_t)wc->wr_id != arrival)
		die("connection %u: receive %u completed where %u was due",
		    c->number, (uint32_t)wc->wr_id, arrival);
	if (!(wc->wc_flags & IBV_WC_WITH_IMM) || ntohl(wc->imm_data) != n)
		die("connection %u: message %u arrived where %u was due",
		    c->number, ntohl(wc->imm_data), n);
	if (wc->opcode != (kind == SEND ? IBV_WC_RECV :
			   IBV_WC_RECV_RDMA_WITH_IMM))
		die("connection %u, message %u: completion opcode %d",
		    c->number, n, wc->opcode);
	if (wc->byte_len != size)
		die("connection %u, message %u: %u bytes, not %u", c->number, n,
		    wc->byte_len, size);
	check(c->memory + (kind == SEND ? RECEIVE_AT + arrival % DEPTH * SLOT_SIZE :
			   WRITE_AT + arrival % SLOTS * SLOT_SIZE),
	      seed(c->number, n), size, kind == SEND ? "SEND" : "RDMA WRITE",
	      c->number, n);
	post_receive(c, arrival + DEPTH);
}

/* Take what is there from a completion queue; how many that were. */
static int drain(struct ibv_cq *cq)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(cq, 16, wc);

	if (n < 0)
		die("ibv_poll_cq: %d", n);
	for (int i = 0; i < n; i++) {
		struct conn *c = &conns[wc[i].wr_id >> 32];

		if (wc[i].status)
			die("connection %llu: %s, vendor error %#x, id %u",
			    (unsigned long long)wc[i].wr_id >> 32,
			    ibv_wc_status_str(wc[i].status), wc[i].vendor_err,
			    (uint32_t)wc[i].wr_id);
		if (cq == send_cq)
			check_request(c, &wc[i]);
		else
			check_arrival(c, &wc[i]);
	}
	return n;
}

static unsigned int arrivals_of(const struct conn *c)
{
	unsigned int count = 0;

	for (unsigned int n = 0; n < c->count; n++)
		count += takes_receive(kind_of(c->number, n));
	return count;
}

static void post_more(void)
{
	for (unsigned int i = 0; i < opt.qps; i++)
		while (conns[i].posted < conns[i].count &&
		       conns[i].posted - conns[i].done < DEPTH)
			post_request(&conns[i]);
}

static void run(void)
{
	struct ibv_cq *cq = is_client ? send_cq : recv_cq;
	unsigned int left = 0, all;
	double start = now(), quiet = start;

	for (unsigned int i = 0; i < opt.qps; i++)
		left += is_client ? conns[i].count : arrivals_of(&conns[i]);
	all = left;
	if (is_client)
		post_more();
	while (left) {
		int n = drain(cq);

		left -= n;
		if (n) {
			quiet = now();
			if (is_client)
				post_more();
		} else if (now() - quiet > QUIET_S * opt.slow) {
			die("no completion for %u s: %u of %u are missing",
			    QUIET_S * opt.slow, left, all);
		}
	}
	printf("%s: %u completions in %.1f s\n", is_client ? "client" : "server",
	       all, now() - start);
}

/* Both ends are through: neither may find anything more. */
static void run_down(int fd)
{
	char word = 'd', answer;

	exchange(fd, &word, &answer, 1);
	if (ibv_poll_cq(send_cq, 1, &(struct ibv_wc){}) ||
	    ibv_poll_cq(recv_cq, 1, &(struct ibv_wc){}))
		die("a completion after the last one");
	for (unsigned int i = 0; i < opt.qps && !is_client; i++) {
		struct conn *c = &conns[i];
		uint64_t adds = 0, found;

		for (unsigned int n = 0; n < c->count; n++)
			adds += kind_of(i, n) == ADD;
		memcpy(&found, c->memory + ATOMIC_AT, sizeof(found));
		if (found != adds)
			die("connection %u: the counter is %llu after %llu additions",
			    i, (unsigned long long)found,
			    (unsigned long long)adds);
	}
	exchange(fd, &word, &answer, 1);
}

static void close_all(void)
{
	for (unsigned int i = 0; i < opt.qps; i++) {
		NEED(!ibv_destroy_qp(conns[i].qp));
		NEED(!ibv_dereg_mr(conns[i].mr));
		free(conns[i].memory);
	}
	NEED(!ibv_destroy_cq(send_cq));
	NEED(!ibv_destroy_cq(recv_cq));
	NEED(!ibv_dealloc_pd(pd));
	NEED(!ibv_close_device(context));
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "dev", required_argument, NULL, 'd' },
		{ "gid", required_argument, NULL, 'g' },
		{ "count", required_argument, NULL, 'n' },
		{ "qps", required_argument, NULL, 'q' },
		{ "largest", required_argument, NULL, 's' },
		{ "slow", required_argument, NULL, 'w' },
		{}
	};
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'd': opt.device = optarg; break;
		case 'g': opt.gid_index = atoi(optarg); break;
		case 'n': opt.count = atoi(optarg); break;
		case 'q': opt.qps = atoi(optarg); break;
		case 's': opt.largest = atoi(optarg); break;
		case 'w': opt.slow = atoi(optarg); break;
		default: exit(2);
		}
	}
	if (opt.qps < 1 || opt.qps > MAX_QPS || opt.largest > SLOT_SIZE || !opt.slow) {
		fprintf(stderr, "a number is out of range\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	parse(argc, argv);
	is_client = optind < argc;
	open_device();
	for (unsigned int i = 0; i < opt.qps; i++)
		open_conn(&conns[i], i);
	fd = open_socket(is_client ? argv[optind] : NULL);
	for (unsigned int i = 0; i < opt.qps; i++) {
		struct hello mine = introduce(&conns[i]), peer;

		for (unsigned int n = 0; n < DEPTH; n++)
			post_receive(&conns[i], n);
		exchange(fd, &mine, &peer, sizeof(mine));
		connect_conn(&conns[i], &mine, &peer);
	}
	exchange(fd, &(char){ 'g' }, &(char){ 0 }, 1);
	run();
	run_down(fd);
	close_all();
	close(fd);
	return 0;
}
