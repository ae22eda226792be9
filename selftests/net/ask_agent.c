// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Ask a port's performance agent, by MADs between QPs 1 that have a global
 * route header, as RoCE has no LIDs:
 *
 *	ask_agent DEVICE GID-INDEX PEER-GID METHOD CLASS-VERSION ATTRIBUTE...
 *
 * prints a line for each attribute: the answer's MAD in hexadecimal digits, or
 * "none" when none comes.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/umad.h>
#include <infiniband/umad_types.h>

#define PORT 1
#define MAD_BYTES 256
#define PERFORMANCE_CLASS 4
#define GSI_QPN 1
#define GSI_QKEY 0x80010000
#define TIMEOUT_MS 10000
#define RETRIES 3

struct asker {
	int port, agent;
	struct ib_user_mad *mad;
	int gid_index;
	uint8_t peer[16];
	uint8_t method, class_version;
	uint64_t tid;
};

static unsigned long number(const char *word)
{
	char *rest;
	unsigned long value = strtoul(word, &rest, 0);

	if (!*word || *rest)
		errx(2, "'%s' is no number", word);
	return value;
}

static void open_port(struct asker *asker, const char *device)
{
	if (umad_init() < 0)
		errx(1, "umad_init fails");
	asker->port = umad_open_port(device, PORT);
	if (asker->port < 0)
		errx(1, "umad_open_port: %s", strerror(-asker->port));
	asker->agent = umad_register(asker->port, PERFORMANCE_CLASS, 1, 0, NULL);
	if (asker->agent < 0)
		errx(1, "umad_register: %s", strerror(-asker->agent));
	asker->mad = umad_alloc(1, umad_size() + MAD_BYTES);
	if (!asker->mad)
		errx(1, "no memory");
}

static void address(struct asker *asker)
{
	ib_mad_addr_t *addr = &asker->mad->addr;

	umad_set_addr(asker->mad, 0, GSI_QPN, 0, GSI_QKEY);
	umad_set_pkey(asker->mad, 0);
	addr->grh_present = 1;
	addr->gid_index = asker->gid_index;
	addr->hop_limit = 64;
	memcpy(addr->gid, asker->peer, sizeof(addr->gid));
}

/* The data that follows the header names the port, where the attribute has it. */
static void fill(struct asker *asker, uint16_t attribute)
{
	struct umad_hdr *hdr = umad_get_mad(asker->mad);
	uint8_t *mad = (uint8_t *)hdr;

	memset(asker->mad, 0, umad_size() + MAD_BYTES);
	address(asker);
	hdr->base_version = UMAD_BASE_VERSION;
	hdr->mgmt_class = PERFORMANCE_CLASS;
	hdr->class_version = asker->class_version;
	hdr->method = asker->method;
	hdr->tid = htobe64(++asker->tid);
	hdr->attr_id = htons(attribute);
	/* 40 bytes are reserved. */
	mad[sizeof(*hdr) + 40 + 1] = PORT;
}

static void ask(struct asker *asker, uint16_t attribute)
{
	const uint8_t *mad = umad_get_mad(asker->mad);
	int err, length = MAD_BYTES;

	fill(asker, attribute);
	err = umad_send(asker->port, asker->agent, asker->mad, MAD_BYTES,
			TIMEOUT_MS, RETRIES);
	if (err < 0)
		errx(1, "umad_send: %s", strerror(-err));
	err = umad_recv(asker->port, asker->mad, &length, -1);
	if (err < 0)
		errx(1, "umad_recv: %s", strerror(-err));
	err = umad_status(asker->mad);
	if (err == ETIMEDOUT) {
		puts("none");
		return;
	}
	if (err)
		errx(1, "the MAD comes back: %s", strerror(err));
	for (int i = 0; i < length; i++)
		printf("%02x", mad[i]);
	puts("");
}

int main(int argc, char **argv)
{
	struct asker asker = {};

	if (argc < 7)
		errx(2, "DEVICE GID-INDEX PEER-GID METHOD CLASS-VERSION ATTRIBUTE...");
	asker.gid_index = number(argv[2]);
	if (inet_pton(AF_INET6, argv[3], asker.peer) != 1)
		errx(2, "'%s' is no GID", argv[3]);
	asker.method = number(argv[4]);
	asker.class_version = number(argv[5]);
	open_port(&asker, argv[1]);
	for (int i = 6; i < argc; i++)
		ask(&asker, number(argv[i]));
	umad_unregister(asker.port, asker.agent);
	umad_close_port(asker.port);
	umad_free(asker.mad);
	return 0;
}
