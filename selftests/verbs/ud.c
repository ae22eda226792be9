// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Datagrams: address handles, route headers, Q_Keys, groups. */
#include <arpa/inet.h>
#include <linux/if_link.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs.h"

#define GRH 40
#define BYTES 8192
#define PORT 1
#define TRAFFIC_CLASS 0x68
#define FLOW_LABEL 0x54321
#define HOP_LIMIT 37

struct ud {
	struct pair *pair;
	struct buf *from, *to;
	struct ibv_ah *ah;		/* from a to b */
	struct ibv_ah_attr attr;	/* of it */
	uint32_t mtu;
};

static struct ibv_ah_attr to_gid(const struct host *host,
				 const union ibv_gid *gid)
{
	return (struct ibv_ah_attr) {
		.is_global = 1,
		.port_num = PORT,
		.grh = {
			.dgid = *gid,
			.sgid_index = host->gid_index,
			.traffic_class = TRAFFIC_CLASS,
			.flow_label = FLOW_LABEL,
			.hop_limit = HOP_LIMIT,
		},
	};
}

static struct ud *ud_new(bool channel)
{
	struct param param = param_default();
	struct ud *ud = calloc(1, sizeof(*ud));

	CHECK(ud);
	param.type = IBV_QPT_UD;
	param.mtu = IBV_MTU_256;
	param.channel = channel;
	ud->pair = pair_new(&param);
	ud->from = buf_new(ud->pair->a.host->pd, BYTES, ALL_ACCESS);
	ud->to = buf_new(ud->pair->b.host->pd, BYTES, ALL_ACCESS);
	ud->mtu = mtu_bytes(ud->pair->a.host->port.active_mtu);
	ud->attr = to_gid(ud->pair->a.host, &ud->pair->b.host->gid);
	ud->ah = ibv_create_ah(ud->pair->a.host->pd, &ud->attr);
	CHECK_ERRNO(ud->ah);
	return ud;
}

static struct ud *ud_setup(void)
{
	return ud_new(false);
}

/* A GID of IPv6 that is not bound to the link; its index. */
static int global_ipv6(const struct host *host, union ibv_gid *gid)
{
	struct ibv_gid_entry table[64];
	ssize_t n, i;

	n = ibv_query_gid_table(host->ctx, table, ARRAY_SIZE(table), 0);
	for (i = 0; i < n; i++) {
		if (table[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    !table[i].gid.raw[0] || table[i].gid.raw[0] == 0xfe)
			continue;
		*gid = table[i].gid;
		return table[i].gid_index;
	}
	SKIP("the device has no global IPv6 GID");
}

/* The same, but over IPv6. */
static struct ud *ud6_setup(void)
{
	struct ud *ud = ud_setup();
	struct host *a = ud->pair->a.host;
	union ibv_gid source, target;

	CHECK_RC(ibv_destroy_ah(ud->ah));
	global_ipv6(ud->pair->b.host, &target);
	ud->attr = to_gid(a, &target);
	ud->attr.grh.sgid_index = global_ipv6(a, &source);
	ud->ah = ibv_create_ah(a->pd, &ud->attr);
	CHECK_ERRNO(ud->ah);
	return ud;
}

static void ud_teardown(struct ud *ud)
{
	if (ud->ah)
		CHECK_RC(ibv_destroy_ah(ud->ah));
	buf_free(ud->from);
	buf_free(ud->to);
	pair_teardown(ud->pair);
	free(ud);
}

static struct ibv_send_wr datagram(struct ud *ud, uint64_t id,
				   struct ibv_sge *sge, int num_sge)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, id, sge, num_sge,
					IBV_SEND_SIGNALED);

	wr.wr.ud.ah = ud->ah;
	wr.wr.ud.remote_qpn = ud->pair->b.qp->qp_num;
	wr.wr.ud.remote_qkey = ud->pair->param.qkey;
	return wr;
}

/* An empty datagram to b, and its receipt. */
static void ping(struct ud *ud)
{
	struct ibv_send_wr wr = datagram(ud, 0x99, NULL, 0);
	struct ibv_sge sink = buf_sge(ud->to, BYTES - GRH, GRH);

	end_recv(&ud->pair->b, 0x99, &sink, 1);
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 0x99, IBV_WC_SUCCESS);
	wc_expect(ud->pair->b.rcq, 0x99, IBV_WC_SUCCESS);
	memcpy(ud->to->shadow + BYTES - GRH, ud->to->mem + BYTES - GRH, GRH);
}

#define PING() AT(ping(ud))

/* ---- payload, route header, completion --------------------------------- */

struct length {
	const char *name;
	uint32_t length;		/* ~0: the port's MTU */
};

static const struct length lengths[] = {
	{ "0", 0 }, { "1", 1 }, { "255", 255 }, { "256", 256 }, { "mtu", ~0u },
};

/* What is in front of a datagram, as it is on the wire. */
struct route {
	const union ibv_gid *from, *to;
	uint8_t hop_limit;
	uint32_t length;		/* of the payload, if the rest is usual */
	bool immediate;
};

/* UDP, BTH, DETH, immediate, payload with pad, ICRC. */
static uint32_t udp_bytes(const struct route *r)
{
	return 8 + 12 + 8 + (r->immediate ? 4 : 0) + (r->length + 3) / 4 * 4 + 4;
}

/* All of it, with the checksum's own field, sums up to nothing (RFC 1071). */
static uint16_t checksum(const uint8_t *header)
{
	uint32_t i, sum = 0;

	for (i = 0; i < 20; i += 2)
		sum += header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/* A17.4.5.1: in the last 20 bytes; the others are zero here. */
static void check_ipv4(const uint8_t *grh, const struct route *r)
{
	const struct ip *ip = (const void *)(grh + 20);
	uint8_t zero[20] = { 0 };

	CHECK(!memcmp(grh, zero, sizeof(zero)));
	CHECK_EQ(ip->ip_v, 4);
	CHECK_EQ(ip->ip_hl, 5);
	CHECK_EQ(ip->ip_tos, TRAFFIC_CLASS);
	CHECK_EQ(ntohs(ip->ip_len), 20 + udp_bytes(r));
	CHECK_EQ(ntohs(ip->ip_off), IP_DF);
	CHECK_EQ(ip->ip_ttl, r->hop_limit);
	CHECK_EQ(ip->ip_p, IPPROTO_UDP);
	CHECK_EQ(checksum(grh + 20), 0);
	CHECK(!memcmp(&ip->ip_src, r->from->raw + 12, 4));
	CHECK(!memcmp(&ip->ip_dst, r->to->raw + 12, 4));
}

static void check_ipv6(const uint8_t *grh, const struct route *r)
{
	const struct ip6_hdr *ip = (const void *)grh;

	CHECK_EQ(ntohl(ip->ip6_flow),
		 6u << 28 | TRAFFIC_CLASS << 20 | FLOW_LABEL);
	CHECK_EQ(ntohs(ip->ip6_plen), udp_bytes(r));
	CHECK_EQ(ip->ip6_nxt, IPPROTO_UDP);
	CHECK_EQ(ip->ip6_hlim, r->hop_limit);
	CHECK(!memcmp(&ip->ip6_src, r->from->raw, 16));
	CHECK(!memcmp(&ip->ip6_dst, r->to->raw, 16));
}

static void check_grh(const uint8_t *grh, const struct route *r)
{
	if (gid_is_ipv4(r->to))
		check_ipv4(grh, r);
	else
		check_ipv6(grh, r);
}

static void source_gid(struct ud *ud, const struct ibv_ah_attr *attr,
		       union ibv_gid *gid)
{
	CHECK(!ibv_query_gid(ud->pair->a.host->ctx, PORT, attr->grh.sgid_index,
			     gid));
}

/* The core puts the route's hop limit in the place of the handle's. */
#define ROUTE_HOP_LIMIT 64

static void check_unicast_grh(struct ud *ud, const uint8_t *grh,
			      uint32_t length)
{
	union ibv_gid from;
	struct route route = {
		.from = &from,
		.to = &ud->attr.grh.dgid,
		.hop_limit = ROUTE_HOP_LIMIT,
		.length = length,
		.immediate = true,
	};

	source_gid(ud, &ud->attr, &from);
	check_grh(grh, &route);
}

static void transfer(struct ud *ud, uint32_t length)
{
	struct ibv_sge source[2], sink = buf_sge(ud->to, 64, GRH + length);
	struct ibv_sge body = buf_sge(ud->to, 64 + GRH, length);
	int n = length > 2 ? buf_cut(ud->from, 5, length, 2, source) : 1;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	if (n == 1)
		source[0] = buf_sge(ud->from, 5, length);
	wr = datagram(ud, 1, source, length ? n : 0);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htonl(0x12345678);
	end_recv(&ud->pair->b, 2, &sink, 1);
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	wc = wc_expect(ud->pair->b.rcq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, GRH + length);
	CHECK_EQ(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	CHECK_EQ(wc.imm_data, htonl(0x12345678));
	/* UDP over IPv4 or IPv6, where adapters tell it. */
	CHECK_EQ(wc.sl, gid_is_ipv4(&ud->attr.grh.dgid) ? 0xa : 0x9);
	CHECK_EQ(wc.src_qp, ud->pair->a.qp->qp_num);
	CHECK_EQ(wc.qp_num, ud->pair->b.qp->qp_num);
	check_unicast_grh(ud, ud->to->mem + 64, length);
	memcpy(ud->to->shadow + 64, ud->to->mem + 64, GRH);
	buf_move(ud->to, &body, ud->from, source, length);
	buf_check(ud->to);
}

TEST_EACH(transfer_ipv4, lengths)
{
	struct ud *ud = ud_setup();

	transfer(ud, arg->length == ~0u ? ud->mtu : arg->length);
	ud_teardown(ud);
}

TEST_EACH(transfer_ipv6, lengths)
{
	struct ud *ud = ud6_setup();

	transfer(ud, arg->length == ~0u ? ud->mtu : arg->length);
	ud_teardown(ud);
}

TEST_F(ud, inline_data)
{
	struct ibv_sge source = { (uintptr_t)"inline", 6, 0 };
	struct ibv_sge sink = buf_sge(ud->to, 0, GRH + 6);
	struct ibv_send_wr wr = datagram(ud, 1, &source, 1);

	if (ud->pair->a.cap.max_inline_data < 6)
		SKIP("the QP has no room for inline data");
	wr.send_flags |= IBV_SEND_INLINE;
	end_recv(&ud->pair->b, 2, &sink, 1);
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	wc_expect(ud->pair->b.rcq, 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(ud->to->mem + GRH, "inline", 6));
}

static const struct {
	const char *name;
	struct ud *(*open)(void);
} families[] = {
	{ "ipv4", ud_setup }, { "ipv6", ud6_setup },
};

/* Who got a datagram can answer it. */
TEST_EACH(answer, families)
{
	struct ud *ud = arg->open();
	struct end *a = &ud->pair->a, *b = &ud->pair->b;
	struct ibv_sge sink = buf_sge(ud->to, 0, GRH + 8), back;
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);
	struct ibv_ah *ah;
	struct ibv_wc wc;

	end_recv(b, 2, &sink, 1);
	end_send(a, &wr);
	wc_expect(a->scq, 1, IBV_WC_SUCCESS);
	wc = wc_expect(b->rcq, 2, IBV_WC_SUCCESS);
	ah = ibv_create_ah_from_wc(b->host->pd, &wc, (void *)ud->to->mem, PORT);
	CHECK_ERRNO(ah);
	back = buf_sge(ud->from, 0, GRH);
	end_recv(a, 3, &back, 1);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = wc.src_qp;
	end_send(b, &wr);
	wc_expect(b->scq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc_expect(a->rcq, 3, IBV_WC_SUCCESS).src_qp, b->qp->qp_num);
	CHECK_RC(ibv_destroy_ah(ah));
	ud_teardown(ud);
}

TEST_F(ud, many)
{
	struct end *a = &ud->pair->a, *b = &ud->pair->b;
	struct ibv_sge source = buf_sge(ud->from, 0, 64), sink;
	struct ibv_send_wr wr = datagram(ud, 0, &source, 1);
	unsigned int i, round;

	for (round = 0; round < 100; round++) {
		for (i = 0; i < 32; i++) {
			sink = buf_sge(ud->to, i * 128, GRH + 64);
			end_recv(b, i, &sink, 1);
		}
		for (i = 0; i < 32; i++) {
			wr.wr_id = i;
			source = buf_sge(ud->from, i * 64, 64);
			end_send(a, &wr);
		}
		for (i = 0; i < 32; i++) {
			wc_expect(a->scq, i, IBV_WC_SUCCESS);
			wc_expect(b->rcq, i, IBV_WC_SUCCESS);
			CHECK(!memcmp(ud->to->mem + i * 128 + GRH,
				      ud->from->mem + i * 64, 64));
		}
	}
}

/* ---- what is lost ------------------------------------------------------ */

/* C10-93.1.1: nothing is sent, nothing is said, the QP stays up. */
TEST_F(ud, longer_than_the_mtu)
{
	struct ibv_sge source = buf_sge(ud->from, 0, ud->mtu + 1);
	struct ibv_sge sink = buf_sge(ud->to, 0, BYTES);
	struct ibv_send_wr wr = datagram(ud, 1, &source, 1);

	end_recv(&ud->pair->b, 2, &sink, 1);
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(end_state(&ud->pair->a), IBV_QPS_RTS);
	wr = datagram(ud, 3, NULL, 0);
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(wc_expect(ud->pair->b.rcq, 2, IBV_WC_SUCCESS).byte_len, GRH);
}

TEST_F(ud, no_receive)
{
	uint64_t before = host_counter(ud->pair->b.host, "out_of_buffer");
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);

	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	host_wait_counter(ud->pair->b.host, "out_of_buffer", before);
	PING();
	wc_none(ud->pair->b.rcq);
}

/* The route header counts; the receive stays for the next one. */
TEST_F(ud, receive_too_short)
{
	uint64_t before = host_counter(ud->pair->b.host, "rx_too_long");
	struct ibv_sge source = buf_sge(ud->from, 0, 8);
	struct ibv_sge sink = buf_sge(ud->to, 0, GRH + 7);
	struct ibv_send_wr wr = datagram(ud, 1, &source, 1);

	end_recv(&ud->pair->b, 2, &sink, 1);
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	host_wait_counter(ud->pair->b.host, "rx_too_long", before);
	buf_check(ud->to);
	source.length = 7;
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(wc_expect(ud->pair->b.rcq, 2, IBV_WC_SUCCESS).byte_len,
		 GRH + 7);
}

TEST_F(ud, wrong_qkey)
{
	uint64_t before = host_counter(ud->pair->b.host, "rx_bad_qkey");
	struct ibv_sge sink = buf_sge(ud->to, 0, GRH);
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);
	struct ibv_port_attr port;

	wr.wr.ud.remote_qkey ^= 1;
	end_recv(&ud->pair->b, 2, &sink, 1);
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	host_wait_counter(ud->pair->b.host, "rx_bad_qkey", before);
	CHECK_RC(ibv_query_port(ud->pair->b.host->ctx, PORT, &port));
	CHECK(port.qkey_viol_cntr > before);
	wc_none(ud->pair->b.rcq);
	buf_check(ud->to);
}

/* 10.2.5: with the top bit set the QP's own key is sent. */
TEST_F(ud, own_qkey)
{
	struct ibv_sge sink = buf_sge(ud->to, 0, GRH);
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);

	wr.wr.ud.remote_qkey = 0x80010000;
	end_recv(&ud->pair->b, 2, &sink, 1);
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	wc_expect(ud->pair->b.rcq, 2, IBV_WC_SUCCESS);
}

/* A new one counts from the moment it is set: in RTS, then in SQD. */
TEST_F(ud, qkey_changes)
{
	struct end *a = &ud->pair->a, *b = &ud->pair->b;
	struct ibv_qp_attr attr = { .qkey = ud->pair->param.qkey };
	struct ibv_sge sink = buf_sge(ud->to, 0, GRH);
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);
	int i;

	wr.opcode = IBV_WR_SEND_WITH_IMM;
	for (i = 0; i < 2; i++) {
		attr.qkey++;
		CHECK_RC(ibv_modify_qp(b->qp, &attr, IBV_QP_QKEY));
		end_recv(b, 2, &sink, 1);
		wr.imm_data = htonl(1);
		end_send(a, &wr);
		wc_expect(a->scq, 1, IBV_WC_SUCCESS);
		wr.wr.ud.remote_qkey = attr.qkey;
		wr.imm_data = htonl(2);
		end_send(a, &wr);
		wc_expect(a->scq, 1, IBV_WC_SUCCESS);
		CHECK_EQ(wc_expect(b->rcq, 2, IBV_WC_SUCCESS).imm_data, htonl(2));
		if (i == 0)
			CHECK_RC(end_drain(b, false));
	}
}

/* What is posted while drained waits for RTS. */
TEST_F(ud, drained)
{
	struct end *a = &ud->pair->a, *b = &ud->pair->b;
	struct ibv_sge sink = buf_sge(ud->to, 0, GRH);
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);

	PING();
	CHECK_RC(end_drain(a, true));
	host_expect_event(a->host, IBV_EVENT_SQ_DRAINED, a->qp);
	end_recv(b, 2, &sink, 1);
	end_send(a, &wr);
	end_expect_held(a, b);
}

TEST(solicited)
{
	struct ud *ud = ud_new(true);
	struct end *a = &ud->pair->a, *b = &ud->pair->b;
	struct ibv_sge sink = buf_sge(ud->to, 0, GRH);
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);

	CHECK_RC(ibv_req_notify_cq(b->rcq, 1));
	PING();
	PING();
	if (is_readable(b->channel->fd))
		FAIL("an unsolicited datagram woke a solicited-only consumer");
	wr.send_flags |= IBV_SEND_SOLICITED;
	end_recv(b, 2, &sink, 1);
	end_send(a, &wr);
	end_take_event(b, b->rcq);
	wc_expect(b->rcq, 2, IBV_WC_SUCCESS);
	wc_expect(a->scq, 1, IBV_WC_SUCCESS);
	ud_teardown(ud);
}

TEST_F(ud, no_such_qp)
{
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);

	wr.wr.ud.remote_qpn = 0xfffffe;
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	PING();
}

/* QP 1 is not for everybody: its Q_Key keeps them out. */
TEST_F(ud, not_to_the_gsi)
{
	uint64_t before = host_counter(ud->pair->b.host, "rx_bad_qkey");
	struct ibv_sge source = buf_sge(ud->from, 0, 256);
	struct ibv_send_wr wr = datagram(ud, 1, &source, 1);

	wr.wr.ud.remote_qpn = 1;
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	host_wait_counter(ud->pair->b.host, "rx_bad_qkey", before);
	wr.wr.ud.remote_qkey = 0x80010000;
	before = host_counter(ud->pair->b.host, "rx_bad_qkey");
	end_send(&ud->pair->a, &wr);
	wc_expect(ud->pair->a.scq, 1, IBV_WC_SUCCESS);
	host_wait_counter(ud->pair->b.host, "rx_bad_qkey", before);
}

/* 10.2.5: those with the upper bit set are not for everybody, as QP 1's. */
TEST_F(ud, privileged_qkey)
{
	struct ibv_qp_attr attr = { .qkey = 0x80010000 };

	if (setresuid(65534, 65534, 65534))
		SKIP("cannot become another user");
	CHECK_EQ(ibv_modify_qp(ud->pair->a.qp, &attr, IBV_QP_QKEY), EPERM);
}

/* ---- send errors, address handles -------------------------------------- */

static void expect_send_error(struct ud *ud, struct ibv_send_wr *wr,
			      enum ibv_wc_status status)
{
	struct ibv_send_wr next = datagram(ud, 2, NULL, 0);

	end_send(&ud->pair->a, wr);
	wc_expect(ud->pair->a.scq, wr->wr_id, status);
	end_wait_state(&ud->pair->a, IBV_QPS_SQE);
	end_send(&ud->pair->a, &next);
	wc_expect(ud->pair->a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK_RC(end_modify_state(&ud->pair->a, IBV_QPS_RTS));
	PING();
}

TEST_F(ud, bad_local_key)
{
	struct ibv_sge source = buf_sge(ud->from, 0, 8);
	struct ibv_send_wr wr = datagram(ud, 1, &source, 1);

	source.lkey ^= 0x100;
	expect_send_error(ud, &wr, IBV_WC_LOC_PROT_ERR);
}

/* 10.2.2.1: handle and QP have to be of one domain. */
TEST_F(ud, handle_of_another_domain)
{
	struct ibv_ah_attr attr = to_gid(ud->pair->a.host,
					 &ud->pair->b.host->gid);
	struct ibv_pd *pd = ibv_alloc_pd(ud->pair->a.host->ctx);
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);

	CHECK_ERRNO(pd);
	wr.wr.ud.ah = ibv_create_ah(pd, &attr);
	CHECK_ERRNO(wr.wr.ud.ah);
	expect_send_error(ud, &wr, IBV_WC_LOC_QP_OP_ERR);
	CHECK_RC(ibv_destroy_ah(wr.wr.ud.ah));
	CHECK_RC(ibv_dealloc_pd(pd));
}

/* A process may go on naming a handle that is gone. */
TEST_F(ud, handle_that_is_gone)
{
	struct ibv_ah_attr attr = to_gid(ud->pair->a.host,
					 &ud->pair->b.host->gid);
	struct ibv_ah *ah = ibv_create_ah(ud->pair->a.host->pd, &attr);
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);
	uint8_t copy[256];

	CHECK_ERRNO(ah);
	/* The provider's private part of it is small. */
	memcpy(copy, ah, 192);
	CHECK_RC(ibv_destroy_ah(ah));
	wr.wr.ud.ah = (struct ibv_ah *)copy;
	expect_send_error(ud, &wr, IBV_WC_LOC_QP_OP_ERR);
}

/* What was posted goes out though the handle is destroyed at once. */
TEST_F(ud, handle_destroyed_under_way)
{
	struct ibv_sge source = buf_sge(ud->from, 0, 64), sink;
	struct ibv_send_wr wr[32];
	unsigned int i;

	for (i = 0; i < 32; i++) {
		sink = buf_sge(ud->to, i * 128, GRH + 64);
		end_recv(&ud->pair->b, i, &sink, 1);
		wr[i] = datagram(ud, i, &source, 1);
		wr[i].next = i < 31 ? &wr[i + 1] : NULL;
	}
	end_send(&ud->pair->a, wr);
	CHECK_RC(ibv_destroy_ah(ud->ah));
	ud->ah = NULL;
	for (i = 0; i < 32; i++) {
		wc_expect(ud->pair->a.scq, i, IBV_WC_SUCCESS);
		wc_expect(ud->pair->b.rcq, i, IBV_WC_SUCCESS);
	}
}

TEST_F(ud, refused)
{
	struct ibv_sge source = buf_sge(ud->from, 0, 8);
	struct ibv_send_wr wr = datagram(ud, 1, &source, 1);

	wr.opcode = IBV_WR_RDMA_WRITE;
	/* The provider may say so itself. */
	if (end_try_send(&ud->pair->a, &wr))
		return;
	wc_expect(ud->pair->a.scq, 1, IBV_WC_LOC_QP_OP_ERR);
	end_wait_state(&ud->pair->a, IBV_QPS_SQE);
}

/* ---- groups ------------------------------------------------------------ */

struct group {
	const char *name;
	uint8_t gid[16];
};

static const struct group groups[] = {
	{ "ipv4", { [10] = 0xff, 0xff, 239, 1, 2, 3 } },
	{ "ipv6", { 0xff, 0x15, [13] = 1, 2, 3 } },
};

/* The source for a group: for IPv6 one that is not bound to the link. */
static int source_for(const struct host *host, const union ibv_gid *group)
{
	union ibv_gid gid;

	return group->raw[0] == 0xff ? global_ipv6(host, &gid) :
				       host->gid_index;
}

/* Groups' datagrams go through the host's stack: this is the packet's header. */
static void check_group_grh(struct ud *ud, const struct ibv_ah_attr *attr)
{
	union ibv_gid from;
	struct route route = {
		.from = &from,
		.to = &attr->grh.dgid,
		.hop_limit = HOP_LIMIT,
		.length = 100,
	};

	source_gid(ud, attr, &from);
	check_grh(ud->to->mem, &route);
}

/* Send to the group; @heard: both ends hear it, or the first alone. */
static void send_to_group(struct ud *ud, const union ibv_gid *gid, bool heard)
{
	struct end *a = &ud->pair->a, *b = &ud->pair->b;
	struct ibv_ah_attr attr = to_gid(a->host, gid);
	struct ibv_sge source = buf_sge(ud->from, 0, 100), sink;
	struct ibv_send_wr wr = datagram(ud, 1, &source, 1);

	attr.grh.sgid_index = source_for(a->host, gid);
	wr.wr.ud.ah = ibv_create_ah(a->host->pd, &attr);
	CHECK_ERRNO(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = 0xffffff;
	sink = buf_sge(ud->to, 0, GRH + 100);
	end_recv(b, 2, &sink, 1);
	end_send(a, &wr);
	wc_expect(a->scq, 1, IBV_WC_SUCCESS);
	/* Through the host's stack, where a datagram of the QPs' is quicker. */
	if (heard) {
		CHECK_EQ(wc_expect(b->rcq, 2, IBV_WC_SUCCESS).byte_len,
			 GRH + 100);
		CHECK(!memcmp(ud->to->mem + GRH, ud->from->mem, 100));
		check_group_grh(ud, &attr);
	}
	CHECK_RC(ibv_destroy_ah(wr.wr.ud.ah));
}

TEST_EACH(group, groups)
{
	struct ud *ud = ud_setup();
	struct end *a = &ud->pair->a, *b = &ud->pair->b;
	struct ibv_sge sink = buf_sge(ud->from, 4096, GRH + 100);
	union ibv_gid gid;

	memcpy(gid.raw, arg->gid, sizeof(gid));
	CHECK_RC(ibv_attach_mcast(a->qp, &gid, 0));
	CHECK_RC(ibv_attach_mcast(b->qp, &gid, 0));
	/* The sender is a member too. */
	end_recv(a, 3, &sink, 1);
	send_to_group(ud, &gid, true);
	CHECK_EQ(wc_expect(a->rcq, 3, IBV_WC_SUCCESS).src_qp, a->qp->qp_num);

	/* Only who has not left hears the next one. */
	CHECK_RC(ibv_detach_mcast(b->qp, &gid, 0));
	end_recv(a, 4, &sink, 1);
	send_to_group(ud, &gid, false);
	wc_expect(a->rcq, 4, IBV_WC_SUCCESS);
	wc_none(b->rcq);
	CHECK_RC(ibv_detach_mcast(a->qp, &gid, 0));
	ud_teardown(ud);
}

/* Under two LIDs, which Ethernet does not have: it leaves as often. */
TEST_F(ud, attached_twice)
{
	struct end *b = &ud->pair->b;
	union ibv_gid gid;

	memcpy(gid.raw, groups[0].gid, sizeof(gid));
	CHECK_RC(ibv_attach_mcast(b->qp, &gid, 1));
	CHECK_RC(ibv_attach_mcast(b->qp, &gid, 2));
	send_to_group(ud, &gid, true);
	wc_none(b->rcq);
	CHECK_RC(ibv_detach_mcast(b->qp, &gid, 1));
	CHECK_EQ(ibv_destroy_qp(b->qp), EBUSY);
	send_to_group(ud, &gid, true);
	CHECK_RC(ibv_detach_mcast(b->qp, &gid, 2));
}

/* A handle that was used before anybody on this host was a member. */
TEST_F(ud, joined_after_the_first_datagram)
{
	struct end *a = &ud->pair->a, *b = &ud->pair->b;
	struct ibv_sge sink = buf_sge(ud->to, 0, GRH);
	struct ibv_send_wr wr = datagram(ud, 1, NULL, 0);
	struct ibv_ah_attr attr;
	union ibv_gid gid;

	memcpy(gid.raw, groups[0].gid, sizeof(gid));
	attr = to_gid(a->host, &gid);
	wr.wr.ud.ah = ibv_create_ah(a->host->pd, &attr);
	CHECK_ERRNO(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = 0xffffff;
	end_send(a, &wr);
	wc_expect(a->scq, 1, IBV_WC_SUCCESS);
	CHECK_RC(ibv_attach_mcast(b->qp, &gid, 0));
	end_recv(b, 2, &sink, 1);
	end_send(a, &wr);
	wc_expect(a->scq, 1, IBV_WC_SUCCESS);
	wc_expect(b->rcq, 2, IBV_WC_SUCCESS);
	CHECK_RC(ibv_detach_mcast(b->qp, &gid, 0));
	CHECK_RC(ibv_destroy_ah(wr.wr.ud.ah));
}

TEST_F(ud, group_of_another_address)
{
	union ibv_gid gid = ud->pair->b.host->gid;

	CHECK_EQ(ibv_attach_mcast(ud->pair->b.qp, &gid, 0), EINVAL);
}

TEST_F(ud, group_left_twice)
{
	union ibv_gid gid;

	memcpy(gid.raw, groups[0].gid, sizeof(gid));
	CHECK_RC(ibv_attach_mcast(ud->pair->b.qp, &gid, 0));
	CHECK_RC(ibv_detach_mcast(ud->pair->b.qp, &gid, 0));
	CHECK(ibv_detach_mcast(ud->pair->b.qp, &gid, 0));
}

TEST_F(ud, member_is_busy)
{
	union ibv_gid gid;

	memcpy(gid.raw, groups[0].gid, sizeof(gid));
	CHECK_RC(ibv_attach_mcast(ud->pair->b.qp, &gid, 0));
	CHECK(ibv_destroy_qp(ud->pair->b.qp) == EBUSY);
	CHECK_RC(ibv_detach_mcast(ud->pair->b.qp, &gid, 0));
}

TEST(group_needs_datagrams)
{
	struct pair *pair = pair_setup();
	union ibv_gid gid;

	memcpy(gid.raw, groups[0].gid, sizeof(gid));
	CHECK_EQ(ibv_attach_mcast(pair->a.qp, &gid, 0), EINVAL);
	pair_teardown(pair);
}

/* ---- groups and the netdev's MTU: the last case, since addresses go ------ */

static void shell(const char *format, const char *netdev)
{
	char command[400];

	snprintf(command, sizeof(command), format, netdev, netdev);
	CHECK_EQ(run((const char *const[]){ "sh", "-ec", command, NULL }), 0);
}

static bool netdev_hears(const char *netdev, const char *group)
{
	char line[200], name[IF_NAMESIZE], address[33];
	FILE *f = fopen("/proc/net/igmp6", "r");
	bool found = false;

	CHECK_ERRNO(f);
	while (fgets(line, sizeof(line), f))
		found |= sscanf(line, "%*d %15s %32s", name, address) == 2 &&
			 !strcmp(name, netdev) && !strcmp(address, group);
	fclose(f);
	return found;
}

/* One too small for IPv6 ends all memberships; and none of others is taken. */
TEST_F(ud, group_outlives_a_small_mtu)
{
	static const char group[] = "ff050000000000000000000042424242";
	const char *netdev = ud->pair->b.host->netdev;
	struct ipv6_mreq mreq = { .ipv6mr_interface = if_nametoindex(netdev) };
	int s = socket(AF_INET6, SOCK_DGRAM, 0);
	union ibv_gid gid;

	CHECK_ERRNO(s >= 0);
	CHECK_EQ(inet_pton(AF_INET6, "ff05::4242:4242", &gid), 1);
	memcpy(&mreq.ipv6mr_multiaddr, &gid, sizeof(gid));
	CHECK_RC(ibv_attach_mcast(ud->pair->b.qp, &gid, 0));
	CHECK(netdev_hears(netdev, group));

	shell("ip -6 addr save dev %s scope global >/tmp/addresses\n"
	      "ip link set %s mtu 1200", netdev);
	CHECK(!netdev_hears(netdev, group));
	shell("ip link set %s mtu 1500; ip addr restore </tmp/addresses",
	      netdev);
	CHECK(netdev_hears(netdev, group));

	CHECK_ERRNO(!setsockopt(s, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &mreq,
				sizeof(mreq)));
	CHECK_RC(ibv_detach_mcast(ud->pair->b.qp, &gid, 0));
	CHECK(netdev_hears(netdev, group));
	close(s);
	CHECK(!netdev_hears(netdev, group));
}
