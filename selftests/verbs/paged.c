// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Regions that are paged in on demand. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "paged.h"

uint8_t *map_file(int fd, size_t size, int prot)
{
	uint8_t *mem = mmap(NULL, size, prot, MAP_SHARED, fd, 0);

	CHECK_ERRNO(mem != MAP_FAILED);
	return mem;
}

struct paged *paged_new(struct ibv_pd *pd, size_t size, unsigned int seed,
			int prot, int access)
{
	struct paged *p = calloc(1, sizeof(*p));

	CHECK(p);
	p->size = size;
	p->fd = memfd_create("paged", 0);
	CHECK_ERRNO(p->fd >= 0 && !ftruncate(p->fd, size));
	p->far = map_file(p->fd, size, PROT_READ | PROT_WRITE);
	for (size_t i = 0; i < size; i++)
		p->far[i] = i * 31 + i / 251 + seed;
	p->mem = map_file(p->fd, size, prot);
	p->mr = ibv_reg_mr(pd, p->mem, size, PAGED | access);
	CHECK_ERRNO(p->mr);
	return p;
}

void paged_free(struct paged *p)
{
	CHECK_RC(ibv_dereg_mr(p->mr));
	munmap(p->mem, p->size);
	munmap(p->far, p->size);
	close(p->fd);
	free(p);
}

struct ibv_sge paged_sge(const struct paged *p, size_t offset,
			 uint32_t length)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)p->mem + offset,
		.length = length,
		.lkey = p->mr->lkey,
	};
}
