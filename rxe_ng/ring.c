// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory of rings, and their mapping into a process. */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
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
 * zeroed, and charged to the control group of the calling process. What a
 * process maps also counts as its locked memory (rxng_ring_map()).
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

/*
 * Like the queues of an adapter, which are pinned memory of the process: what
 * all of a process' rings and regions have is limited by RLIMIT_MEMLOCK.
 */
static int pin(struct rxng_mmap *map, size_t size)
{
	s64 limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	unsigned long pages = size >> PAGE_SHIFT;
	struct mm_struct *mm = current->mm;

	if (atomic64_add_return(pages, &mm->pinned_vm) > limit &&
	    !capable(CAP_IPC_LOCK)) {
		atomic64_sub(pages, &mm->pinned_vm);
		return -ENOMEM;
	}
	mmgrab(mm);
	map->mm = mm;
	map->pages = pages;
	return 0;
}

static void unpin(struct rxng_mmap *map)
{
	atomic64_sub(map->pages, &map->mm->pinned_vm);
	mmdrop(map->mm);
}

/**
 * rxng_ring_map - let a process map a ring
 * @ring: a ring that no process has yet
 * @ibuc: context of the process
 * @info: filled with what the process passes to mmap()
 *
 * Return: 0, or -ENOMEM, also when the process may not lock that much memory;
 * the ring is the caller's to destroy in both cases.
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

	err = pin(map, size);
	if (err)
		goto err_free;
	err = rdma_user_mmap_entry_insert(ibuc, &map->entry, size);
	if (err)
		goto err_unpin;
	ring->entry = &map->entry;

	*info = (struct rxng_mminfo) {
		.offset = rdma_user_mmap_get_offset(&map->entry),
		.size = size,
	};
	return 0;

err_unpin:
	unpin(map);
err_free:
	kfree(map);
	return err;
}

/**
 * rxng_ring_unmap - the last user of a ring's mapping offset is gone
 * @map: offset, freed with the ring's memory
 *
 * Context: process, may sleep.
 */
void rxng_ring_unmap(struct rxng_mmap *map)
{
	unpin(map);
	vfree(map->memory);
	kfree(map);
}

/**
 * rxng_ring_copy - copy slots from one ring to another
 * @to: ring with slots of the same size, whose indices stay
 * @dst: where the first one goes
 * @from: ring
 * @src: the first one
 * @num: how many
 *
 * Context: any; the caller keeps both from changing where it matters.
 */
void rxng_ring_copy(struct rxng_ring *to, u32 dst,
		    const struct rxng_ring *from, u32 src, u32 num)
{
	while (num--)
		memcpy(rxng_ring_slot(to, dst++), rxng_ring_slot(from, src++),
		       (size_t)1 << to->shift);
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
