// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Asynchronous events, each once per cause, and completion events. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "states.h"

/* ---- of a queue pair --------------------------------------------------- */

/* The first packets find the responder in RTR. */
TEST(comm_est_once)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct states s;
	int i;

	states_open(&s, IBV_QPT_RC);
	states_reach(&s, IBV_QPS_RTR);
	for (i = 0; i < 10; i++)
		end_recv(&s.end, i, NULL, 0);
	end_connect(&s.peer, &s.end);
	host_expect_quiet(s.end.host);
	for (i = 0; i < 5; i++) {
		end_send(&s.peer, &wr);
		wc_expect(s.peer.scq, 1, IBV_WC_SUCCESS);
		wc_expect(s.end.rcq, i, IBV_WC_SUCCESS);
	}
	host_expect_event(s.end.host, IBV_EVENT_COMM_EST, s.end.qp);
	host_expect_quiet(s.end.host);
	end_to_rts(&s.end);
	for (; i < 10; i++) {
		end_send(&s.peer, &wr);
		wc_expect(s.peer.scq, 1, IBV_WC_SUCCESS);
		wc_expect(s.end.rcq, i, IBV_WC_SUCCESS);
	}
	end_ping(&s.end, &s.peer);
	host_expect_quiet(s.end.host);
	host_expect_quiet(s.peer.host);
	states_close(&s);
}

/* Of an RDMA operation too, that takes no receive. */
TEST(comm_est_by_write)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct states s;

	states_open(&s, IBV_QPT_RC);
	states_reach(&s, IBV_QPS_RTR);
	end_connect(&s.peer, &s.end);
	end_send(&s.peer, &wr);
	wc_expect(s.peer.scq, 1, IBV_WC_SUCCESS);
	host_expect_event(s.end.host, IBV_EVENT_COMM_EST, s.end.qp);
	host_expect_quiet(s.end.host);
	states_close(&s);
}

/* In RTS there is no such event, and after a reset there is again. */
TEST(comm_est_after_reset)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct states s;
	int i;

	states_open(&s, IBV_QPT_RC);
	for (i = 0; i < 5; i++) {
		states_reach(&s, IBV_QPS_RTS);
		CHECK_RC(end_modify_state(&s.peer, IBV_QPS_RESET));
		end_connect(&s.peer, &s.end);
		end_send(&s.peer, &wr);
		wc_expect(s.peer.scq, 1, IBV_WC_SUCCESS);
		host_expect_quiet(s.end.host);

		states_reach(&s, IBV_QPS_RTR);
		CHECK_RC(end_modify_state(&s.peer, IBV_QPS_RESET));
		end_connect(&s.peer, &s.end);
		end_send(&s.peer, &wr);
		wc_expect(s.peer.scq, 1, IBV_WC_SUCCESS);
		host_expect_event(s.end.host, IBV_EVENT_COMM_EST, s.end.qp);
		host_expect_quiet(s.end.host);
	}
	states_close(&s);
}

/* A connection's end by its consumer is no event. */
TEST_F(pair, no_event_for_modify)
{
	CHECK_RC(end_modify_state(&pair->a, IBV_QPS_ERR));
	CHECK_RC(end_modify_state(&pair->b, IBV_QPS_ERR));
	pair_reconnect(pair);
	end_ping(&pair->a, &pair->b);
	host_expect_quiet(pair->a.host);
	host_expect_quiet(pair->b.host);
}

/* An event that nobody has read goes with its queue pair. */
TEST(unread_event_goes_with_object)
{
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, 1, NULL, 0,
					IBV_SEND_SIGNALED);
	struct states s;

	states_open(&s, IBV_QPT_RC);
	states_reach(&s, IBV_QPS_RTR);
	end_connect(&s.peer, &s.end);
	end_send(&s.peer, &wr);
	wc_expect(s.peer.scq, 1, IBV_WC_SUCCESS);
	CHECK(wait_readable(s.end.host->ctx->async_fd));
	CHECK_RC(ibv_destroy_qp(s.end.qp));
	s.end.qp = NULL;
	host_expect_quiet(s.end.host);
	states_close(&s);
}

/* ---- of the port ------------------------------------------------------- */

static void ip(const char *a, const char *b, const char *c, const char *d,
	       const char *e)
{
	const char *const argv[] = { "ip", a, b, c, d, e, NULL };

	if (run(argv))
		FAIL("ip %s %s %s %s %s fails", a, b, c, d, e ? e : "");
}

/* Down, and yet the IPv6 addresses stay, for the tests that come after. */
static void link_down(const struct host *host)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path),
		 "/proc/sys/net/ipv6/conf/%s/keep_addr_on_down", host->netdev);
	fd = open(path, O_WRONLY);
	if (fd >= 0) {
		CHECK_ERRNO(write(fd, "1", 1) == 1);
		close(fd);
	}
	ip("link", "set", "dev", host->netdev, "down");
}

static void link_up(const struct host *host)
{
	ip("link", "set", "dev", host->netdev, "up");
}

/* The next event that is not about GIDs, which follow the addresses. */
static void expect_port_event(struct host *host, enum ibv_event_type type)
{
	struct ibv_async_event event;

	do
		host_event(host, &event);
	while (event.event_type == IBV_EVENT_GID_CHANGE);
	if (event.event_type != type)
		FAIL("event \"%s\", not \"%s\"",
		     ibv_event_type_str(event.event_type),
		     ibv_event_type_str(type));
	CHECK_EQ(event.element.port_num, 1);
}

static void wait_port_state(struct host *host, enum ibv_port_state state)
{
	uint64_t until = deadline();
	struct ibv_port_attr port;

	do {
		CHECK_RC(ibv_query_port(host->ctx, 1, &port));
		if (deadline_over(until))
			FAIL("port state is %d, not %d", port.state, state);
	} while (port.state != state);
}

static void need_netdev(const struct host *host)
{
	if (!host->netdev[0])
		SKIP("the netdev of the GID is not known");
}

static void no_port_event(struct host *host)
{
	struct ibv_async_event event;

	while (is_readable(host->ctx->async_fd)) {
		host_event(host, &event);
		if (event.event_type != IBV_EVENT_GID_CHANGE)
			FAIL("one more event: \"%s\"",
			     ibv_event_type_str(event.event_type));
	}
}

TEST(port_down_and_up)
{
	struct host *host = host_open(0);
	int i;

	need_netdev(host);
	for (i = 0; i < 3; i++) {
		link_down(host);
		expect_port_event(host, IBV_EVENT_PORT_ERR);
		wait_port_state(host, IBV_PORT_DOWN);
		no_port_event(host);
		link_up(host);
		expect_port_event(host, IBV_EVENT_PORT_ACTIVE);
		wait_port_state(host, IBV_PORT_ACTIVE);
		no_port_event(host);
	}
	host_close(host);
}

/* Every opened context hears of it. */
TEST(port_event_to_all)
{
	struct host *h0 = host_open(0), *h1 = host_open(0);

	need_netdev(h0);
	link_down(h0);
	expect_port_event(h0, IBV_EVENT_PORT_ERR);
	expect_port_event(h1, IBV_EVENT_PORT_ERR);
	link_up(h0);
	expect_port_event(h0, IBV_EVENT_PORT_ACTIVE);
	expect_port_event(h1, IBV_EVENT_PORT_ACTIVE);
	host_close(h0);
	host_close(h1);
}

/* ---- of GIDs ----------------------------------------------------------- */

static bool has_gid(struct host *host, const union ibv_gid *gid)
{
	struct ibv_gid_entry *table;
	ssize_t n, i;

	table = calloc(host->port.gid_tbl_len, sizeof(*table));
	CHECK(table);
	n = ibv_query_gid_table(host->ctx, table, host->port.gid_tbl_len, 0);
	CHECK(n >= 0);
	for (i = 0; i < n; i++)
		if (!memcmp(&table[i].gid, gid, sizeof(*gid)))
			break;
	free(table);
	return i < n;
}

static void expect_gid_change(struct host *host, const union ibv_gid *gid,
			      bool there)
{
	uint64_t until = deadline();

	host_expect_event(host, IBV_EVENT_GID_CHANGE, NULL);
	while (has_gid(host, gid) != there)
		if (deadline_over(until))
			FAIL("the GID is %s", there ? "missing" : "still there");
}

struct address {
	const char *name, *text, *gid;
};

/* Of the ranges for benchmarks and documentation. */
static const struct address addresses[] = {
	{ "ipv4", "198.18.77.9/32", "::ffff:198.18.77.9" },
	{ "ipv6", "2001:db8:77::9/128", "2001:db8:77::9" },
};

TEST_EACH(gid_change, addresses)
{
	struct host *host = host_open(0);
	union ibv_gid gid;
	int i;

	need_netdev(host);
	CHECK(inet_pton(AF_INET6, arg->gid, gid.raw) == 1);
	for (i = 0; i < 3; i++) {
		ip("address", "add", arg->text, "dev", host->netdev);
		expect_gid_change(host, &gid, true);
		ip("address", "del", arg->text, "dev", host->netdev);
		expect_gid_change(host, &gid, false);
	}
	host_close(host);
}

/* ---- completion events ------------------------------------------------- */

static struct pair *channel_pair(void)
{
	struct param param = param_default();

	param.channel = true;
	param.timeout = 8;
	param.retry_cnt = 1;
	return pair_new(&param);
}

/* An error wakes a consumer that asked only for solicited completions. */
TEST(send_error_wakes_solicited)
{
	struct pair *pair = channel_pair();
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, NULL, 0, 0);

	CHECK_RC(end_modify_state(&pair->b, IBV_QPS_RESET));
	CHECK_RC(ibv_req_notify_cq(pair->a.scq, 1));
	end_send(&pair->a, &wr);
	end_take_event(&pair->a, pair->a.scq);
	wc_expect(pair->a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	pair_teardown(pair);
}

TEST(flush_wakes_solicited)
{
	struct pair *pair = channel_pair();

	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 1));
	end_recv(&pair->b, 1, NULL, 0);
	CHECK_RC(end_modify_state(&pair->b, IBV_QPS_ERR));
	end_take_event(&pair->b, pair->b.rcq);
	wc_expect(pair->b.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	pair_teardown(pair);
}

TEST(receive_error_wakes_solicited)
{
	struct pair *pair = channel_pair();
	struct ibv_sge sge = { 0x1000, 64, 0x1234 };
	struct buf *buf = buf_new(pair->a.host->pd, 64, ALL_ACCESS);
	struct ibv_sge from = buf_sge(buf, 0, 64);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, 1, &from, 1, 0);

	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 1));
	end_recv(&pair->b, 2, &sge, 1);
	end_send(&pair->a, &wr);
	end_take_event(&pair->b, pair->b.rcq);
	wc_expect(pair->b.rcq, 2, IBV_WC_LOC_PROT_ERR);
	wc_expect(pair->a.scq, 1, IBV_WC_REM_OP_ERR);
	buf_free(buf);
	pair_teardown(pair);
}

/* One event however many completions come, and a queue of events for two. */
TEST(one_event_per_arm)
{
	struct pair *pair = channel_pair();
	int i;

	for (i = 0; i < 50; i++) {
		CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 0));
		CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 0));
		end_ping(&pair->a, &pair->b);
		end_ping(&pair->a, &pair->b);
		end_take_event(&pair->b, pair->b.rcq);
		if (is_readable(pair->b.channel->fd))
			FAIL("a second event in round %d", i);
	}
	pair_teardown(pair);
}

/*
 * The consumer's loop as everybody writes it: arm, poll until empty, sleep. A
 * sender runs beside it. A wake-up that is lost leaves it asleep for ever.
 */
struct race {
	struct pair *pair;
	unsigned int total;
};

static void *race_sender(void *arg)
{
	struct race *r = arg;
	unsigned int i, out = 0;
	struct ibv_wc wc;

	for (i = 0; i < r->total; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, i, NULL, 0,
						IBV_SEND_SIGNALED);

		CHECK_RC(end_try_send(&r->pair->a, &wr));
		out++;
		/* Sometimes one at a time, sometimes a burst. */
		while (out > i % 17) {
			int n = ibv_poll_cq(r->pair->a.scq, 1, &wc);

			CHECK(n >= 0);
			if (n)
				CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			out -= n;
		}
	}
	return NULL;
}

static unsigned int race_poll(struct end *end, unsigned int seen)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(end->rcq, 1, &wc)) > 0) {
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, seen);
		seen++;
		end_recv(end, seen + 31, NULL, 0);
	}
	CHECK_EQ(n, 0);
	return seen;
}

TEST_LIMIT(arm_race, 300)
{
	struct race r = { channel_pair(), tap_rounds(50000) };
	unsigned int seen = 0, i, sleeps = 0;
	struct end *b = &r.pair->b;
	pthread_t sender;

	for (i = 0; i < 32; i++)
		end_recv(b, i, NULL, 0);
	CHECK_RC(ibv_req_notify_cq(b->rcq, 0));
	CHECK_RC(pthread_create(&sender, NULL, race_sender, &r));
	while (seen < r.total) {
		end_take_event(b, b->rcq);
		sleeps++;
		CHECK_RC(ibv_req_notify_cq(b->rcq, 0));
		seen = race_poll(b, seen);
	}
	CHECK_RC(pthread_join(sender, NULL));
	CHECK(sleeps > 1);
	CHECK_RC(end_modify_state(b, IBV_QPS_RESET));
	pair_teardown(r.pair);
}

/* Two queues on one channel: the event names the right one. */
TEST(channel_shared)
{
	struct pair *pair = channel_pair();
	int i;

	for (i = 0; i < 20; i++) {
		CHECK_RC(ibv_req_notify_cq(pair->a.rcq, 0));
		end_ping(&pair->b, &pair->a);
		end_take_event(&pair->a, pair->a.rcq);
		CHECK_RC(ibv_req_notify_cq(pair->a.scq, 0));
		end_ping(&pair->a, &pair->b);
		end_take_event(&pair->a, pair->a.scq);
	}
	pair_teardown(pair);
}

/* Destroying a queue takes its unread events along. */
TEST(destroy_with_unread_event)
{
	struct pair *pair = channel_pair();
	int i;

	CHECK_RC(ibv_req_notify_cq(pair->b.rcq, 0));
	end_ping(&pair->a, &pair->b);
	CHECK(wait_readable(pair->b.channel->fd));
	CHECK_RC(ibv_destroy_qp(pair->b.qp));
	pair->b.qp = NULL;
	CHECK_RC(ibv_destroy_cq(pair->b.rcq));
	CHECK(!is_readable(pair->b.channel->fd));
	pair->b.rcq = ibv_create_cq(pair->b.host->ctx, 4, NULL,
				    pair->b.channel, 0);
	CHECK_ERRNO(pair->b.rcq);
	i = ibv_destroy_comp_channel(pair->b.channel);
	CHECK_EQ(i, EBUSY);
	pair_teardown(pair);
}
