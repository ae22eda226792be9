/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The provider's own mappings of a device, caught as it makes them: the
 * program's mmap() stands before the C library's. What a hostile process has
 * in its address space anyway.
 */
#ifndef CAPTURE_H
#define CAPTURE_H

#include "verbs.h"
#include "../../uapi/rxe_ng_abi.h"

struct ring {
	volatile struct rxng_ring_hdr *hdr;
	uint8_t *slots;
	size_t size;			/* of the mapping */
	uint32_t mask, elem;		/* as the kernel first told them */
	int fd;
	off_t offset;
};

struct rings {
	struct ring scq, rcq, rq, sq;
};

/* A pair whose first end's rings are in hand. */
struct pair *rings_pair(const struct param *param, struct rings *rings);

/* A shared receive queue whose ring is in hand. */
struct ibv_srq *ring_srq(struct ibv_pd *pd, uint32_t wr, uint32_t sge,
			 struct ring *ring);

/* From now on munmap() of a caught mapping does nothing. */
void keep_mappings(void);

void *ring_slot(const struct ring *ring, uint32_t index);
/* Put a request at the producer's place and move it on; no doorbell. */
void ring_put(struct ring *ring, const void *wqe, size_t bytes);

/* The system call by which the provider tells of new requests. */
int doorbell(struct end *end);

#endif
