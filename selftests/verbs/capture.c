// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The provider's mappings of a device, caught as it makes them. */
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "call.h"
#include "capture.h"

#define CAUGHT 64

static struct caught {
	void *addr;
	size_t size;
	int fd;
	off_t offset;
} caught[CAUGHT];
static unsigned int caught_n;
static bool keep;

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *mem = (void *)syscall(SYS_mmap, addr, size, prot, flags, fd,
				    offset);

	if (mem != MAP_FAILED && fd >= 0)
		caught[caught_n++ % CAUGHT] = (struct caught) {
			mem, size, fd, offset,
		};
	return mem;
}

void *mmap64(void *addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	return mmap(addr, size, prot, flags, fd, offset);
}

int munmap(void *addr, size_t size)
{
	unsigned int i;

	for (i = 0; keep && i < caught_n && i < CAUGHT; i++)
		if (caught[i].addr == addr)
			return 0;
	return syscall(SYS_munmap, addr, size);
}

void keep_mappings(void)
{
	keep = true;
}

static struct ring ring_of(const struct caught *c)
{
	struct ring ring = {
		.hdr = c->addr,
		.slots = (uint8_t *)c->addr + sizeof(struct rxng_ring_hdr),
		.size = c->size,
		.fd = c->fd,
		.offset = c->offset,
	};

	ring.mask = ring.hdr->index_mask;
	ring.elem = 1u << ring.hdr->log2_elem_size;
	CHECK(sizeof(struct rxng_ring_hdr) +
	      (ring.mask + 1ul) * ring.elem <= ring.size);
	return ring;
}

/* In the order in which end_create() makes objects and the provider maps. */
static void find_rings(struct end *end, struct rings *rings)
{
	struct ring *next[] = {
		&rings->scq, &rings->rcq, &rings->rq, &rings->sq,
	};
	unsigned int i, n = 0;

	CHECK(caught_n <= CAUGHT);
	for (i = 0; i < caught_n; i++) {
		if (caught[i].fd != end->host->ctx->cmd_fd)
			continue;
		if (n == ARRAY_SIZE(next))
			FAIL("the provider maps more than was thought");
		*next[n++] = ring_of(&caught[i]);
	}
	if (n < ARRAY_SIZE(next))
		FAIL("the provider maps %u rings only", n);
}

struct pair *rings_pair(const struct param *param, struct rings *rings)
{
	struct pair *pair;

	caught_n = 0;
	pair = pair_new(param);
	find_rings(&pair->a, rings);
	return pair;
}

struct ibv_srq *ring_srq(struct ibv_pd *pd, uint32_t wr, uint32_t sge,
			 struct ring *ring)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = wr, .max_sge = sge },
	};
	struct ibv_srq *srq;
	unsigned int i;

	caught_n = 0;
	srq = ibv_create_srq(pd, &init);
	CHECK_ERRNO(srq);
	for (i = 0; i < caught_n; i++)
		if (caught[i].fd == pd->context->cmd_fd)
			break;
	CHECK(i < caught_n);
	*ring = ring_of(&caught[i]);
	return srq;
}

void *ring_slot(const struct ring *ring, uint32_t index)
{
	return ring->slots + (size_t)(index & ring->mask) * ring->elem;
}

void ring_put(struct ring *ring, const void *wqe, size_t bytes)
{
	uint32_t index = ring->hdr->producer_index;

	CHECK(bytes <= ring->elem);
	memcpy(ring_slot(ring, index), wqe, bytes);
	__atomic_store_n(&ring->hdr->producer_index, (index + 1) & ring->mask,
			 __ATOMIC_RELEASE);
}

int doorbell(struct end *end)
{
	struct ib_uverbs_post_send_resp resp;
	struct ib_uverbs_post_send cmd = {
		.response = (uintptr_t)&resp,
		.qp_handle = end->qp->handle,
		.wqe_size = RXNG_DOORBELL_WQE_SIZE,
	};

	return call_command(end->host->ctx, IB_USER_VERBS_CMD_POST_SEND, &cmd,
			    sizeof(cmd), sizeof(resp));
}
