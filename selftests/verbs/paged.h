/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Regions that are paged in on demand. */
#ifndef PAGED_H
#define PAGED_H

#include "verbs.h"

#define PAGE 4096
#define PAGED (ALL_ACCESS | IBV_ACCESS_ON_DEMAND)

/* Memory of which @far shows what is in it without touching pages of @mem. */
struct paged {
	int fd;
	size_t size;
	uint8_t *far, *mem;
	struct ibv_mr *mr;
};

uint8_t *map_file(int fd, size_t size, int prot);

/* @seed decides what is in it, @access are rights beside PAGED. */
struct paged *paged_new(struct ibv_pd *pd, size_t size, unsigned int seed,
			int prot, int access);
void paged_free(struct paged *p);
struct ibv_sge paged_sge(const struct paged *p, size_t offset,
			 uint32_t length);

#endif
