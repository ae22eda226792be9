// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Links and the module itself when memory runs out: what cannot be made is not
 * there, what is there can be removed, and the next try succeeds.
 */
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject.h"

OPTION(netdev, "d1", "netdev for a link of the tests' own")
OPTION(ko, NULL, "file of the module, to load it")
OPTION(all, "0", "1: every place, not a choice of them where there are many")

#define LINK "starve0"
#define MODULE "rxe_ng"

/*
 * Where there are thousands of places, most are the core's: each of the first
 * and of the last ones is tried, and some between.
 */
#define FIRST 60
#define BETWEEN 40
#define LAST 30

/* Result of a request whose answer was lost. */
#define UNKNOWN (-1)

static unsigned int step(unsigned int n, unsigned int places)
{
	unsigned int middle = (places - FIRST - LAST) / BETWEEN;

	if (atoi(OPT(all)) || places < FIRST + BETWEEN + LAST ||
	    n < FIRST || n >= places - LAST)
		return 1;
	return n + middle > places - LAST ? places - LAST - n : middle;
}

/* ---- netlink ----------------------------------------------------------- */

struct request {
	struct nlmsghdr head;
	char attrs[256];
};

static void put(struct request *r, int type, const void *value, size_t len)
{
	struct nlattr *attr = (void *)r + NLMSG_ALIGN(r->head.nlmsg_len);

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	memcpy((void *)attr + NLA_HDRLEN, value, len);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) +
			    NLA_ALIGN(attr->nla_len);
}

static void put_text(struct request *r, int type, const char *text)
{
	put(r, type, text, strlen(text) + 1);
}

static struct request request(int command)
{
	return (struct request) {
		.head = {
			.nlmsg_len = NLMSG_HDRLEN,
			.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		},
	};
}

/* Send a request, with a failure at the nth place; *left: was it to come? */
static int ask(struct request *r, unsigned int nth, unsigned int *left)
{
	int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		char rest[512];
	} answer;
	ssize_t sent, n;
	int err;

	CHECK_ERRNO(s >= 0);
	inject_arm(nth);
	sent = sendto(s, r, r->head.nlmsg_len, 0, (void *)&kernel,
		      sizeof(kernel));
	err = errno;
	*left = inject_disarm();
	if (sent < 0) {
		close(s);
		return err;
	}
	/* The request is served within the call. */
	n = recv(s, &answer, sizeof(answer), MSG_DONTWAIT);
	err = UNKNOWN;
	if (n >= (ssize_t)NLMSG_LENGTH(sizeof(answer.err)) &&
	    answer.head.nlmsg_type == NLMSG_ERROR)
		err = -answer.err.error;
	close(s);
	return err;
}

static bool is_there(void)
{
	return !access("/sys/class/infiniband/" LINK, F_OK);
}

static int add_link(unsigned int nth, unsigned int *left)
{
	struct request r = request(RDMA_NLDEV_CMD_NEWLINK);

	put_text(&r, RDMA_NLDEV_ATTR_DEV_NAME, LINK);
	put_text(&r, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
	put_text(&r, RDMA_NLDEV_ATTR_NDEV_NAME, OPT(netdev));
	return ask(&r, nth, left);
}

static uint32_t link_index(void)
{
	FILE *f = popen("rdma dev show " LINK, "re");
	uint32_t index;

	CHECK_ERRNO(f);
	CHECK_EQ(fscanf(f, "%u:", &index), 1);
	pclose(f);
	return index;
}

static int delete_link(unsigned int nth, unsigned int *left)
{
	struct request r = request(RDMA_NLDEV_CMD_DELLINK);
	uint32_t index = link_index();

	put(&r, RDMA_NLDEV_ATTR_DEV_INDEX, &index, sizeof(index));
	return ask(&r, nth, left);
}

static void must_add(void)
{
	unsigned int left;

	CHECK_RC(add_link(0, &left));
	CHECK(is_there());
}

static void must_delete(void)
{
	unsigned int left;

	CHECK_RC(delete_link(0, &left));
	CHECK(!is_there());
}

static void check_cause(int err, unsigned int left, unsigned int n)
{
	if (err == UNKNOWN && !left)
		return;
	if (left)
		FAIL("%s, and nothing was made to fail", strerror(err));
	if (!inject_is_cause(err))
		FAIL("place %u: %d (%s)", n, err, strerror(err));
}

/* As many places as one run passes that does not fail. */
static unsigned int places(int (*run)(unsigned int nth, unsigned int *left))
{
	const unsigned int much = 1000000;
	unsigned int left;

	CHECK_RC(run(much, &left));
	CHECK(left && left < much);
	return much - left;
}

TEST_LIMIT(link_add, 600)
{
	unsigned int n, all, tried = 0, left = 0;

	inject_open();
	all = places(add_link);
	must_delete();
	for (n = 1; !left && n < 2 * all; n += step(n, all)) {
		int err = add_link(n, &left);

		tried++;
		if (err)
			check_cause(err, left, n);
		if (err > 0 && is_there())
			FAIL("place %u: %s, and the link is there", n,
			     strerror(err));
		if (!err && !is_there())
			FAIL("place %u: the link is not there", n);
		if (!is_there())
			must_add();
		must_delete();
	}
	CHECK(left);
	tap_note("link_add: %u of %u places", tried, all);
}

TEST_LIMIT(link_delete, 600)
{
	unsigned int n, all, left = 0, tried = 0;

	inject_open();
	must_add();
	all = places(delete_link);
	for (n = 1; !left && n < 2 * all; n += step(n, all)) {
		int err;

		must_add();
		err = delete_link(n, &left);
		tried++;
		if (err)
			check_cause(err, left, n);
		if (!err && is_there())
			FAIL("place %u: the link is still there", n);
		if (is_there())
			must_delete();
	}
	CHECK(left);
	tap_note("link_delete: %u of %u places", tried, all);
}

/* ---- the module -------------------------------------------------------- */

static int load(unsigned int nth, unsigned int *left)
{
	int fd = open(OPT(ko), O_RDONLY | O_CLOEXEC), err = 0;

	CHECK_ERRNO(fd >= 0);
	inject_arm(nth);
	if (syscall(SYS_finit_module, fd, "", 0))
		err = errno;
	*left = inject_disarm();
	close(fd);
	return err;
}

static bool is_loaded(void)
{
	return !access("/sys/module/" MODULE "/refcnt", F_OK);
}

static int unload(unsigned int nth, unsigned int *left)
{
	int err = 0;

	inject_arm(nth);
	if (syscall(SYS_delete_module, MODULE, O_NONBLOCK))
		err = errno;
	*left = inject_disarm();
	return err;
}

static void must_load(void)
{
	unsigned int left;

	CHECK_RC(load(0, &left));
	CHECK(is_loaded());
}

static void must_unload(void)
{
	unsigned int left;

	CHECK_RC(unload(0, &left));
	CHECK(!is_loaded());
}

/* Its own start comes last; what is before that is the kernel's loader. */
TEST_LIMIT(module_load, 600)
{
	unsigned int n, all, left = 0, tried = 0;

	if (!OPT(ko))
		SKIP("--ko does not name the module's file");
	inject_open();
	must_unload();
	all = places(load);
	must_unload();
	n = atoi(OPT(all)) || all <= LAST ? 1 : all - LAST;
	for (; !left && n < 2 * all; n++) {
		int err = load(n, &left);

		tried++;
		if (err)
			check_cause(err, left, n);
		if (!err != is_loaded())
			FAIL("place %u: %s, and it is %sloaded", n,
			     strerror(err), is_loaded() ? "" : "not ");
		if (!is_loaded())
			must_load();
		must_unload();
	}
	CHECK(left);
	must_load();
	tap_note("module_load: %u of %u places", tried, all);
}

TEST_LIMIT(module_unload, 600)
{
	unsigned int n, left = 0;

	if (!OPT(ko))
		SKIP("--ko does not name the module's file");
	inject_open();
	for (n = 1; !left && n < 1000; n++) {
		int err = unload(n, &left);

		if (err)
			check_cause(err, left, n);
		if (is_loaded())
			must_unload();
		must_load();
	}
	CHECK(left);
	tap_note("module_unload: %u places", n - 2);
}
