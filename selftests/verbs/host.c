// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* An opened device, one of its GIDs, its events. */
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "verbs.h"

#define PORT 1

OPTION(dev, NULL, "device of the first end (the first with a RoCEv2 IPv4 GID)")
OPTION(gid, NULL, "its GID index (the first RoCEv2 IPv4 GID)")
OPTION(dev2, NULL, "device of the second end (the same device)")
OPTION(gid2, NULL, "its GID index")
OPTION(wait, "20", "seconds after which an expected thing is called lost")

extern char **environ;

static unsigned int wait_s(void)
{
	return atoi(OPT(wait)) * tap_slow();
}

uint64_t deadline(void)
{
	return tap_now_ns() + wait_s() * 1000000000ull;
}

bool deadline_over(uint64_t end)
{
	return tap_now_ns() > end;
}

bool is_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) > 0;
}

bool wait_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&pfd, 1, wait_s() * 1000);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

int run(const char *const argv[])
{
	int status, rc;
	pid_t pid;

	rc = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv,
			  environ);
	if (rc)
		FAIL("%s: %s", argv[0], strerror(rc));
	CHECK_ERRNO(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool gid_is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

/* Take the GID of that index, or with -1 the first RoCEv2 IPv4 one. */
static bool find_gid(struct host *host, int index)
{
	struct ibv_gid_entry *table;
	ssize_t n, i;

	table = calloc(host->port.gid_tbl_len, sizeof(*table));
	CHECK(table);
	n = ibv_query_gid_table(host->ctx, table, host->port.gid_tbl_len, 0);
	if (n < 0)
		FAIL("ibv_query_gid_table: %s", strerror(-n));
	for (i = 0; i < n; i++) {
		if (table[i].port_num != PORT)
			continue;
		if (index >= 0 ? (int)table[i].gid_index == index :
		    table[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    gid_is_ipv4(&table[i].gid))
			break;
	}
	if (i < n) {
		host->gid = table[i].gid;
		host->gid_index = table[i].gid_index;
		if_indextoname(table[i].ndev_ifindex, host->netdev);
	}
	free(table);
	return i < n;
}

static struct host *try_open(struct ibv_device *device, int gid_index)
{
	struct host *host = calloc(1, sizeof(*host));

	CHECK(host);
	host->ctx = ibv_open_device(device);
	if (!host->ctx)
		FAIL("cannot open %s: %s", ibv_get_device_name(device),
		     strerror(errno));
	CHECK_RC(ibv_query_device(host->ctx, &host->dev));
	CHECK_RC(ibv_query_port(host->ctx, PORT, &host->port));
	if (!find_gid(host, gid_index)) {
		ibv_close_device(host->ctx);
		free(host);
		return NULL;
	}
	host->pd = ibv_alloc_pd(host->ctx);
	CHECK_ERRNO(host->pd);
	CHECK_ERRNO(!fcntl(host->ctx->async_fd, F_SETFL, O_NONBLOCK));
	return host;
}

struct host *host_open(unsigned int end)
{
	const char *name = end && OPT(dev2) ? OPT(dev2) : OPT(dev);
	const char *gid = end && OPT(dev2) ? OPT(gid2) : OPT(gid);
	struct ibv_device **list, **d;
	struct host *host = NULL;

	list = ibv_get_device_list(NULL);
	CHECK_ERRNO(list);
	for (d = list; *d && !host; d++) {
		if (name && strcmp(ibv_get_device_name(*d), name))
			continue;
		host = try_open(*d, gid ? atoi(gid) : -1);
	}
	ibv_free_device_list(list);
	if (!host)
		FAIL("no device %s with GID %s", name ? name : "(any)",
		     gid ? gid : "of RoCEv2 and IPv4");
	return host;
}

void host_close(struct host *host)
{
	CHECK_RC(ibv_dealloc_pd(host->pd));
	CHECK_RC(ibv_close_device(host->ctx));
	free(host);
}

void host_event(struct host *host, struct ibv_async_event *event)
{
	if (!wait_readable(host->ctx->async_fd))
		FAIL("no asynchronous event");
	CHECK_ERRNO(!ibv_get_async_event(host->ctx, event));
	ibv_ack_async_event(event);
}

void host_expect_event_(struct host *host, enum ibv_event_type type,
			const void *element)
{
	struct ibv_async_event event;

	host_event(host, &event);
	if (event.event_type != type)
		FAIL("event \"%s\", not \"%s\"",
		     ibv_event_type_str(event.event_type),
		     ibv_event_type_str(type));
	if (element && event.element.qp != element)
		FAIL("event \"%s\" of another object",
		     ibv_event_type_str(type));
}

void host_expect_quiet_(struct host *host)
{
	struct ibv_async_event event;

	if (!is_readable(host->ctx->async_fd))
		return;
	CHECK_ERRNO(!ibv_get_async_event(host->ctx, &event));
	ibv_ack_async_event(&event);
	FAIL("unexpected event \"%s\"", ibv_event_type_str(event.event_type));
}

static FILE *open_counter(const struct host *host, const char *name,
			  const char *mode)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path),
		 "/sys/class/infiniband/%s/ports/%d/hw_counters/%s",
		 ibv_get_device_name(host->ctx->device), PORT, name);
	file = fopen(path, mode);
	if (!file)
		FAIL("%s: %s", path, strerror(errno));
	return file;
}

/* A counter of the port now, not as the core remembers it of a moment ago. */
uint64_t host_counter(const struct host *host, const char *name)
{
	FILE *file = open_counter(host, "lifespan", "w");
	unsigned long long value;

	fputs("0", file);
	CHECK_RC(fclose(file));
	/* It counts its memory's age in ticks of at most 10 ms. */
	usleep(20000);
	file = open_counter(host, name, "r");
	CHECK_EQ(fscanf(file, "%llu", &value), 1);
	fclose(file);
	return value;
}

void host_wait_counter(const struct host *host, const char *name,
		       uint64_t above)
{
	uint64_t until = deadline();

	while (host_counter(host, name) <= above)
		if (deadline_over(until))
			FAIL("%s does not count", name);
}
