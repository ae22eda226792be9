// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory of rings, and their mapping into a process. */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ring.h"

static size_t ring_bytes(const struct rxng_ring *ring)
{
	return PAGE_ALIGN(sizeof(*ring->shared) +
			  ((size_t)ring->mask + 1) * ((size_t)1 << ring->shift));
}

/**
 * rxng_ring_create - allocate an empty ring
 * @ring: ring to set up
 * @capacity: slots that must be usable at the same time
 * @slot_size: bytes that a slot must hold, at least 1
 *
 * Both are rounded up to what the shared layout can express. The memory is
 * zeroed, and charged to the control group of the calling process.
 *
 * Return: 0, -EINVAL when no mapping could be that large, -ENOMEM.
 * Context: process, may sleep.
 */
int rxng_ring_create(struct rxng_ring *ring, u32 capacity, size_t slot_size)
{
	u64 slots = roundup_pow_of_two((u64)capacity + 1);
	u32 shift = order_base_2(slot_size);

	if (shift > 31 || (slots << shift) > U32_MAX / 2)
		return -EINVAL;

	memset(ring, 0, sizeof(*ring));
	ring->mask = slots - 1;
	ring->shift = shift;

	/*
	 * Not vmalloc_user(): that one cannot be told to charge the caller.
	 * A user chooses the size, so failure is no news for the log.
	 */
	ring->shared = __vmalloc(ring_bytes(ring), GFP_KERNEL_ACCOUNT |
				 __GFP_ZERO | __GFP_NOWARN);
	if (!ring->shared)
		return -ENOMEM;
	ring->slots = ring->shared + 1;
	ring->shared->log2_elem_size = shift;
	ring->shared->index_mask = ring->mask;
	return 0;
}

/**
 * rxng_ring_map - let a process map a ring
 * @ring: a ring that no process has yet
 * @ibuc: context of the process
 * @info: filled with what the process passes to mmap()
 *
 * Return: 0 or -ENOMEM; the ring is the caller's to destroy in both cases.
 * Context: process, may sleep.
 */
int rxng_ring_map(struct rxng_ring *ring, struct ib_ucontext *ibuc,
		  struct rxng_mminfo *info)
{
	size_t size = ring_bytes(ring);
	struct rxng_mmap *map;
	int err;

	map = kzalloc(sizeof(*map), GFP_KERNEL_ACCOUNT);
	if (!map)
		return -ENOMEM;
	map->memory = ring->shared;

	err = rdma_user_mmap_entry_insert(ibuc, &map->entry, size);
	if (err) {
		kfree(map);
		return err;
	}
	ring->entry = &map->entry;

	*info = (struct rxng_mminfo) {
		.offset = rdma_user_mmap_get_offset(&map->entry),
		.size = size,
	};
	return 0;
}

/**
 * rxng_ring_destroy - give a ring back
 * @ring: a ring from rxng_ring_create(), or one that is all zero
 *
 * A process that has it mapped keeps its pages until it unmaps them.
 *
 * Context: process, may sleep.
 */
void rxng_ring_destroy(struct rxng_ring *ring)
{
	if (ring->entry)
		rdma_user_mmap_entry_remove(ring->entry);
	else
		vfree(ring->shared);
	memset(ring, 0, sizeof(*ring));
}
