// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rc.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* Values of the kernel's interface that older libraries have no names for. */
#define DEVICE_FLUSH_GLOBAL (1ull << 38)
#define DEVICE_ATOMIC_WRITE (1ull << 40)
#define ACCESS_FLUSH_GLOBAL (1 << 8)

const struct rc_conf rc_conf_default = {
	.type = IBV_QPT_RC,
	.gid = -1,
	.timeout = 14,
	.retry = 7,
	.rnr = 7,
	.depth = 256,
	.rd_atomic = 8,
	.hop_limit = 64,
	.psn = -1,
	.qkey = 0x11111111,
};

void die(const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* ---- the device -------------------------------------------------------- */

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	if (!list || !list[0])
		die("there is no RDMA device");
	for (int i = 0; list[i] && !ctx; i++) {
		if (name && strcmp(ibv_get_device_name(list[i]), name))
			continue;
		ctx = ibv_open_device(list[i]);
		if (!ctx)
			die("cannot open %s: %m", ibv_get_device_name(list[i]));
	}
	if (!ctx)
		die("there is no RDMA device %s", name);
	ibv_free_device_list(list);
	return ctx;
}

/* The first GID of RoCEv2, of IPv4 if there is one. */
int rc_gid_index(struct ibv_context *ctx)
{
	struct ibv_gid_entry entries[64];
	ssize_t n = ibv_query_gid_table(ctx, entries, ARRAY_SIZE(entries), 0);
	int found = -1;

	for (ssize_t i = 0; i < n; i++) {
		const union ibv_gid *gid = &entries[i].gid;
		bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid);

		if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (v4)
			return entries[i].gid_index;
		if (found < 0)
			found = entries[i].gid_index;
	}
	return found;
}

void rc_gid_print(const union ibv_gid *gid, char *text, size_t size)
{
	if (!inet_ntop(AF_INET6, gid, text, size))
		die("inet_ntop: %m");
}

static enum ibv_mtu mtu_enum(uint32_t bytes)
{
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		if (128u << mtu == bytes)
			return mtu;
	die("%u is no path MTU", bytes);
}

/* What annex A19 of the specification adds, where device and library have it. */
static uint64_t find_send_ops(struct ibv_context *ctx)
{
	struct ibv_device_attr_ex attr;
	uint64_t ops = 0;

	if (ibv_query_device_ex(ctx, NULL, &attr))
		die("ibv_query_device_ex: %m");
	if (attr.device_cap_flags_ex & DEVICE_ATOMIC_WRITE)
		ops |= IBV_QP_EX_WITH_ATOMIC_WRITE;
	if (attr.device_cap_flags_ex & DEVICE_FLUSH_GLOBAL)
		ops |= RC_WITH_FLUSH;
	return ops;
}

static int access_rights(const struct rc *rc)
{
	return ACCESS | (rc->send_ops & RC_WITH_FLUSH ? ACCESS_FLUSH_GLOBAL : 0);
}

static void to_init(struct rc *rc)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = rc->conf.qkey,
		.qp_access_flags = rc->conf.type == IBV_QPT_RC ?
				   access_rights(rc) : IBV_ACCESS_REMOTE_WRITE,
	};

	errno = ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			      IBV_QP_PORT | (rc->conf.type == IBV_QPT_UD ?
					     IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	if (errno)
		die("ibv_modify_qp to INIT: %m");
}

static void make_qp(struct rc *rc)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = rc->cq,
		.recv_cq = rc->cq,
		.qp_type = rc->conf.type,
		.cap = {
			.max_send_wr = rc->conf.depth,
			.max_recv_wr = rc->conf.depth,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = 64,
		},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = rc->pd,
	};

	if (rc->send_ops) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = rc->send_ops;
	}
	rc->qp = ibv_create_qp_ex(rc->ctx, &init);
	if (!rc->qp)
		die("ibv_create_qp_ex: %m");
	to_init(rc);
}

void rc_open(struct rc *rc, const struct rc_conf *conf, size_t size)
{
	memset(rc, 0, sizeof(*rc));
	rc->conf = *conf;
	rc->ctx = open_device(conf->dev);
	if (ibv_query_port(rc->ctx, 1, &rc->port))
		die("ibv_query_port: %m");
	if (rc->conf.gid < 0)
		rc->conf.gid = rc_gid_index(rc->ctx);
	if (rc->conf.gid < 0)
		die("the device has no GID of RoCEv2");
	if (ibv_query_gid(rc->ctx, 1, rc->conf.gid, &rc->self.gid))
		die("ibv_query_gid: %m");
	rc->pd = ibv_alloc_pd(rc->ctx);
	if (!rc->pd)
		die("ibv_alloc_pd: %m");
	rc->channel = ibv_create_comp_channel(rc->ctx);
	if (!rc->channel)
		die("ibv_create_comp_channel: %m");
	rc->cq = ibv_create_cq(rc->ctx, conf->cqe ?: 2 * conf->depth, NULL,
			       rc->channel, 0);
	if (!rc->cq)
		die("ibv_create_cq: %m");
	rc->size = size;
	if (posix_memalign((void **)&rc->mem, 4096, size))
		die("no memory");
	/* Much of it comes fresh from the kernel, and may stay untouched. */
	if (!conf->on_demand)
		memset(rc->mem, 0, size);
	if (conf->type == IBV_QPT_RC)
		rc->send_ops = find_send_ops(rc->ctx);
	rc->mr = ibv_reg_mr(rc->pd, rc->mem, size, access_rights(rc) |
			    (conf->on_demand ? IBV_ACCESS_ON_DEMAND : 0));
	if (!rc->mr)
		die("ibv_reg_mr: %m");
	make_qp(rc);

	rc->self.qpn = rc->qp->qp_num;
	rc->self.psn = conf->psn >= 0 ? (uint32_t)conf->psn :
					(uint32_t)random() & 0xffffff;
	rc->self.mtu = conf->mtu ?: 128 << rc->port.active_mtu;
	rc->self.rkey = rc->mr->rkey;
	rc->self.va = (uintptr_t)rc->mem;
	rc->self.length = size;
}

void rc_close(struct rc *rc)
{
	if (rc->qp && ibv_destroy_qp(rc->qp))
		die("ibv_destroy_qp: %m");
	if (rc->ah && ibv_destroy_ah(rc->ah))
		die("ibv_destroy_ah: %m");
	if (rc->mr && ibv_dereg_mr(rc->mr))
		die("ibv_dereg_mr: %m");
	if (ibv_destroy_cq(rc->cq))
		die("ibv_destroy_cq: %m");
	if (ibv_destroy_comp_channel(rc->channel))
		die("ibv_destroy_comp_channel: %m");
	if (ibv_dealloc_pd(rc->pd))
		die("ibv_dealloc_pd: %m");
	if (ibv_close_device(rc->ctx))
		die("ibv_close_device: %m");
	free(rc->mem);
}

uint32_t rc_mtu(const struct rc *rc, const struct rc_addr *peer)
{
	return peer->mtu < rc->self.mtu ? peer->mtu : rc->self.mtu;
}

/* The QP itself knows no peer; for another one it stays as it is. */
static int address(struct rc *rc, struct ibv_qp_attr *attr)
{
	struct ibv_ah *old = rc->ah;
	int err;

	rc->ah = ibv_create_ah(rc->pd, &attr->ah_attr);
	if (!rc->ah)
		die("ibv_create_ah: %m");
	if (old)
		return ibv_destroy_ah(old);
	err = ibv_modify_qp(rc->qp, attr, IBV_QP_STATE);
	if (err)
		return err;
	attr->qp_state = IBV_QPS_RTS;
	attr->sq_psn = rc->self.psn;
	return ibv_modify_qp(rc->qp, attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int rc_connect(struct rc *rc, const struct rc_addr *peer)
{
	bool reliable = rc->conf.type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_enum(rc_mtu(rc, peer)),
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = rc->conf.rd_atomic,
		.min_rnr_timer = 1,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = peer->gid,
				.sgid_index = rc->conf.gid,
				.hop_limit = rc->conf.hop_limit,
				.traffic_class = rc->conf.tclass,
				.flow_label = rc->conf.flow_label,
			},
		},
	};
	int err;

	rc->peer = *peer;
	if (rc->conf.type == IBV_QPT_UD)
		return address(rc, &attr);
	err = ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE | IBV_QP_AV |
			    IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER : 0));
	if (err)
		return err;
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = rc->conf.timeout;
	attr.retry_cnt = rc->conf.retry;
	attr.rnr_retry = rc->conf.rnr;
	attr.sq_psn = rc->self.psn;
	attr.max_rd_atomic = rc->conf.rd_atomic;
	return ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
			     (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					 IBV_QP_RNR_RETRY |
					 IBV_QP_MAX_QP_RD_ATOMIC : 0));
}

/* ---- completions ------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

static bool poll_once(struct rc *rc, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(rc->cq, 1, wc);

	if (n < 0)
		die("ibv_poll_cq: %d", n);
	return n;
}

static int eat_event(struct rc *rc)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(rc->channel, &cq, &context))
		return -errno;
	ibv_ack_cq_events(cq, 1);
	return 0;
}

int rc_poll(struct rc *rc, struct ibv_wc *wc, int timeout_ms)
{
	struct pollfd fd = { .fd = rc->channel->fd, .events = POLLIN };
	int64_t end = now_ms() + timeout_ms;
	int err;

	if (poll_once(rc, wc))
		return 1;
	while (timeout_ms) {
		int64_t left = end - now_ms();

		if (left <= 0)
			return 0;
		err = ibv_req_notify_cq(rc->cq, 0);
		if (err)
			return -err;
		/* What came before it was armed. */
		if (poll_once(rc, wc))
			return 1;
		err = poll(&fd, 1, left) > 0 ? eat_event(rc) : 0;
		if (err)
			return err;
		if (poll_once(rc, wc))
			return 1;
	}
	return 0;
}

/* ---- TCP --------------------------------------------------------------- */

static struct addrinfo *resolve(const char *host, const char *port)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_family = host ? AF_UNSPEC : AF_INET6,
		.ai_flags = AI_NUMERICSERV | (host ? 0 : AI_PASSIVE),
	};
	struct addrinfo *info;
	int err = getaddrinfo(host, port, &hints, &info);

	if (err)
		die("%s: %s", host ?: "any address", gai_strerror(err));
	return info;
}

static int without_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int tcp_accept(const char *port)
{
	struct addrinfo *info = resolve(NULL, port);
	int fd, got, one = 1, zero = 0;

	fd = socket(info->ai_family, SOCK_STREAM, 0);
	if (fd < 0)
		die("socket: %m");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, 1))
		die("port %s: %m", port);
	freeaddrinfo(info);
	got = accept(fd, NULL, NULL);
	if (got < 0)
		die("accept: %m");
	close(fd);
	return without_delay(got);
}

int tcp_connect(const char *host, const char *port)
{
	struct addrinfo *info = resolve(host, port);
	int fd = socket(info->ai_family, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, info->ai_addr, info->ai_addrlen))
		die("%s port %s: %m", host, port);
	freeaddrinfo(info);
	return without_delay(fd);
}

void tcp_send(int fd, const void *data, size_t size)
{
	while (size) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

		if (n <= 0)
			die("the peer is gone: %m");
		data += n;
		size -= n;
	}
}

void tcp_recv(int fd, void *data, size_t size)
{
	while (size) {
		ssize_t n = recv(fd, data, size, 0);

		if (n <= 0)
			die("the peer is gone: %s", n ? strerror(errno) : "it hung up");
		data += n;
		size -= n;
	}
}
