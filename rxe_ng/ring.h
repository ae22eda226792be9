/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A ring of fixed-size slots with one producer and one consumer. A user ring
 * is mapped into the process: the process owns one index and may write
 * anything at any time, so the kernel keeps its own index and geometry here
 * and reads the other one only through the accessors below.
 */
#ifndef RXNG_RING_H
#define RXNG_RING_H

#include <rdma/ib_verbs.h>

#include "device.h"
#include "../uapi/rxe_ng_abi.h"

/* The process's side of a ring wrote an index that no provider writes. */
#define RXNG_RING_BAD (~0u)

/**
 * struct rxng_mmap - offset at which a process may map a ring
 * @entry: the core's part; counts the ring and each mmap() call under way
 * @memory: the ring's memory, which goes with the last of them. A mapping
 *	that is established needs no count: its page table holds the pages.
 * @mm: whose locked memory it counts as
 * @pages: how much that is
 */
struct rxng_mmap {
	struct rdma_user_mmap_entry entry;
	void *memory;
	struct mm_struct *mm;
	unsigned long pages;
};

static inline struct rxng_mmap *to_rxng_mmap(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct rxng_mmap, entry);
}

/**
 * struct rxng_ring - kernel's view of a ring
 * @shared: header and slots, from vmalloc space; a process may map it
 * @slots: the first slot
 * @mask: number of slots minus one; one slot stays empty, so also the capacity
 * @shift: log2 of a slot's bytes
 * @index: the index that the kernel's side owns, in [0, @mask]
 * @entry: part of a struct rxng_mmap that owns the memory when a process has
 *	the ring, else NULL
 */
struct rxng_ring {
	struct rxng_ring_hdr *shared;
	void *slots;
	u32 mask;
	u32 shift;
	u32 index;
	struct rdma_user_mmap_entry *entry;
};

int rxng_ring_create(struct rxng_ring *ring, u32 capacity, size_t slot_size);
int rxng_ring_map(struct rxng_ring *ring, struct ib_ucontext *ibuc,
		  struct rxng_mminfo *info);
void rxng_ring_unmap(struct rxng_mmap *map);
void rxng_ring_copy(struct rxng_ring *to, u32 dst,
		    const struct rxng_ring *from, u32 src, u32 num);
void rxng_ring_destroy(struct rxng_ring *ring);

static inline void *rxng_ring_slot(const struct rxng_ring *ring, u32 index)
{
	return ring->slots + ((size_t)(index & ring->mask) << ring->shift);
}

static inline u32 rxng_ring_next(const struct rxng_ring *ring, u32 index)
{
	return (index + 1) & ring->mask;
}

/**
 * rxng_ring_ready - slots that the other side produced
 * @ring: a ring whose consumer is the kernel
 * @from: consumer position to count from
 *
 * Pairs with the producer's store-release of its index.
 *
 * Return: number of slots from @from on that may be read, or RXNG_RING_BAD
 * when the producer index is outside the ring.
 * Context: any; the caller owns the consumer side.
 */
static inline u32 rxng_ring_ready(const struct rxng_ring *ring, u32 from)
{
	u32 producer = smp_load_acquire(&ring->shared->producer_index);

	if (producer & ~ring->mask)
		return RXNG_RING_BAD;
	return (producer - from) & ring->mask;
}

/**
 * rxng_ring_retire - tell the producer that slots are free again
 * @ring: a ring whose consumer is the kernel
 * @index: new consumer index
 */
static inline void rxng_ring_retire(struct rxng_ring *ring, u32 index)
{
	ring->index = index & ring->mask;
	smp_store_release(&ring->shared->consumer_index, ring->index);
}

/**
 * rxng_ring_publish - tell the consumer that slots are filled
 * @ring: a ring whose producer is the kernel
 * @index: new producer index
 */
static inline void rxng_ring_publish(struct rxng_ring *ring, u32 index)
{
	ring->index = index & ring->mask;
	smp_store_release(&ring->shared->producer_index, ring->index);
}

#endif
