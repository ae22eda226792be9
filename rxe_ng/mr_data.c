// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The bytes of memory regions: copies, atomic operations, pages that are missing. */
#include <linux/atomic.h>
#include <linux/bottom_half.h>
#include <linux/libnvdimm.h>
#include <linux/sched.h>

#include "mr.h"

/*
 * Kernel address of @iova; cuts @len down to what lies beside it in memory.
 * NULL when the page has to be brought in. RCU read-side section.
 */
static void *address(const struct rxng_mr *mr, u64 iova, size_t *len,
		     bool write)
{
	const struct rxng_mr_map *map = &mr->map;
	u64 offset, page_bytes, in_page;

	if (map->linear)
		return (void *)(uintptr_t)iova;
	if (map->odp)
		return rxng_odp_address(map->odp, iova - mr->iova, len, write);

	offset = iova - mr->iova + map->page_offset;
	page_bytes = 1ull << map->page_shift;
	in_page = offset & (page_bytes - 1);
	*len = min_t(u64, *len, page_bytes - in_page);
	return map->pages[offset >> map->page_shift] + in_page;
}

/**
 * rxng_mr_copy - copy between a region and a buffer
 * @mr: region, with a reference from rxng_mr_get() that covers the range
 * @iova: first address in the region
 * @buf: kernel memory
 * @len: bytes
 * @dir: which way
 *
 * Return: 0, or -EAGAIN when a page has to be brought in by rxng_mr_page_in();
 * some of the bytes may have been copied then.
 * Context: any.
 */
int rxng_mr_copy(struct rxng_mr *mr, u64 iova, void *buf, size_t len,
		 enum rxng_mr_dir dir)
{
	int err = 0;

	rcu_read_lock();
	while (len) {
		size_t chunk = len;
		void *addr = address(mr, iova, &chunk, dir == RXNG_TO_MR);

		if (unlikely(!addr)) {
			err = -EAGAIN;
			break;
		}
		if (dir == RXNG_TO_MR)
			memcpy(addr, buf, chunk);
		else
			memcpy(buf, addr, chunk);
		iova += chunk;
		buf += chunk;
		len -= chunk;
	}
	rcu_read_unlock();
	return err;
}

/**
 * rxng_mr_from_skb - copy from a packet into a region
 * @mr: region, with a reference from rxng_mr_get() that covers the range
 * @iova: first address in the region
 * @skb: packet
 * @offset: where in the packet's data to begin
 * @len: bytes
 *
 * Return: 0, -EFAULT when the packet is shorter than that, or -EAGAIN as
 * rxng_mr_copy().
 * Context: any.
 */
int rxng_mr_from_skb(struct rxng_mr *mr, u64 iova, const struct sk_buff *skb,
		     int offset, size_t len)
{
	int err = 0;

	rcu_read_lock();
	while (len && !err) {
		size_t chunk = len;
		void *addr = address(mr, iova, &chunk, true);

		err = likely(addr) ? skb_copy_bits(skb, offset, addr, chunk) :
				     -EAGAIN;
		iova += chunk;
		offset += chunk;
		len -= chunk;
	}
	rcu_read_unlock();
	return err;
}

/**
 * rxng_mr_aligned - can an atomic operation be done here?
 * @mr: region
 * @iova: address in the region
 *
 * IBTA 9.4.5 wants the address aligned; the processor wants the memory to
 * be, which is something else when the region's first address was chosen
 * freely.
 *
 * Return: true when both are multiples of 8.
 * Context: any.
 */
bool rxng_mr_aligned(const struct rxng_mr *mr, u64 iova)
{
	const struct rxng_mr_map *map = &mr->map;
	u64 first = map->odp ? map->odp->start : map->page_offset;

	return IS_ALIGNED(iova, sizeof(u64)) &&
	       (map->linear || IS_ALIGNED(iova - mr->iova + first, sizeof(u64)));
}

/**
 * rxng_mr_atomic - compare and swap, or fetch and add, of 8 bytes
 * @mr: region, with a reference from rxng_mr_get() that covers them
 * @iova: their address, for which rxng_mr_aligned() is true
 * @cmp_swap: compare and swap; else fetch and add
 * @compare: value to compare with
 * @swap_add: value to put in, or to add
 * @orig: what was there before
 *
 * The processor's own operation, hence atomic against all devices of the
 * host and its programs. Values are in host byte order.
 *
 * Return: 0, or -EAGAIN as rxng_mr_copy(), and then nothing was done.
 * Context: any.
 */
int rxng_mr_atomic(struct rxng_mr *mr, u64 iova, bool cmp_swap, u64 compare,
		   u64 swap_add, u64 *orig)
{
	size_t len = sizeof(u64);
	atomic64_t *addr;

	rcu_read_lock();
	addr = address(mr, iova, &len, true);
	if (addr)
		*orig = cmp_swap ? atomic64_cmpxchg(addr, compare, swap_add) :
				   atomic64_fetch_add(swap_add, addr);
	rcu_read_unlock();
	return addr ? 0 : -EAGAIN;
}

/**
 * rxng_mr_store - an ATOMIC WRITE: 8 bytes, seen all at once
 * @mr: region, with a reference from rxng_mr_get_remote() that covers them
 * @iova: their address, for which rxng_mr_aligned() is true
 * @value: the bytes as they came
 *
 * What was written before it is seen before it (annex A19).
 *
 * Return: 0, or -EAGAIN as rxng_mr_copy(), and then nothing was done.
 * Context: any.
 */
int rxng_mr_store(struct rxng_mr *mr, u64 iova, u64 value)
{
	size_t len = sizeof(u64);
	u64 *addr;

	rcu_read_lock();
	addr = address(mr, iova, &len, true);
	if (addr)
		smp_store_release(addr, value);
	rcu_read_unlock();
	return addr ? 0 : -EAGAIN;
}

/*
 * Work on a region that takes long.
 */

static bool may_be_kept(const struct rxng_mr *mr, u32 key)
{
	return READ_ONCE(mr->state) == RXNG_MR_VALID && mr->key == key &&
	       (mr->map.odp || mr->access & RXNG_ACCESS_FLUSH_PERSISTENT);
}

/*
 * Nobody spins for a reference on memory of a process that is paged in or
 * persistent, since such a region is not invalidated: this one may be kept while
 * pages are brought in, or written back.
 */
static struct rxng_mr *get_to_keep(struct rxng_dev *dev, u32 key)
{
	struct rxng_mr *mr;

	local_bh_disable();
	mr = rxng_mr_find(dev, key);
	if (mr && !may_be_kept(mr, key)) {
		rxng_mr_put(mr);
		mr = NULL;
	}
	local_bh_enable();
	return mr;
}

/**
 * rxng_mr_page_in - bring in the pages that an access missed
 * @dev: device
 * @key: key of the region; who asks has looked at rights and domain
 * @iova: first address
 * @len: bytes
 * @want: what for
 *
 * Return: 0, also when there is no such region any more, which the access finds
 * out for itself; or why the pages cannot be had, as rxng_odp_page_in().
 * Context: process, may sleep.
 */
int rxng_mr_page_in(struct rxng_dev *dev, u32 key, u64 iova, u64 len,
		    enum rxng_odp_want want)
{
	struct rxng_mr *mr = get_to_keep(dev, key);
	int err = 0;

	if (!mr)
		return 0;
	if (mr->map.odp && rxng_mr_covers(mr, iova, len))
		err = rxng_odp_page_in(mr->map.odp, iova - mr->iova, len, want);
	rxng_mr_put(mr);
	return err;
}

static void write_back(const struct rxng_mr *mr, u64 iova, u64 len)
{
	while (len) {
		size_t chunk = len;
		void *addr = address(mr, iova, &chunk, false);

		arch_wb_cache_pmem(addr, chunk);
		cond_resched();
		iova += chunk;
		len -= chunk;
	}
	pmem_wmb();
}

/**
 * rxng_mr_write_back - what peers wrote becomes safe from a loss of power
 * @dev: device
 * @key: key of the region; who asks has looked at rights and domain
 * @iova: first address
 * @len: bytes, or RXNG_WHOLE_REGION, and then @iova means nothing
 *
 * Return: 0; -ENOENT when they are not the persistent bytes of a region any
 * more, or not while it is being changed, and then nothing was done.
 * Context: process, may sleep.
 */
int rxng_mr_write_back(struct rxng_dev *dev, u32 key, u64 iova, u64 len)
{
	struct rxng_mr *mr = get_to_keep(dev, key);
	int err = -ENOENT;

	if (!mr)
		return err;
	if (len == RXNG_WHOLE_REGION) {
		iova = mr->iova;
		len = mr->length;
	}
	if (!mr->map.odp && rxng_mr_covers(mr, iova, len)) {
		write_back(mr, iova, len);
		err = 0;
	}
	rxng_mr_put(mr);
	return err;
}

static int advise_one(struct ib_pd *ibpd, const struct ib_sge *sge,
		      enum rxng_odp_want want)
{
	struct rxng_dev *dev = to_rxng_dev(ibpd->device);
	struct rxng_mr *mr;
	int err;

	/* Kept as get_to_keep() does it. */
	local_bh_disable();
	mr = rxng_mr_get(dev, ibpd, sge->lkey, sge->addr, sge->length,
			 want == RXNG_ODP_WRITE_FAULT ? IB_ACCESS_LOCAL_WRITE :
							0);
	if (!IS_ERR(mr) && !mr->map.odp) {
		rxng_mr_put(mr);
		mr = ERR_PTR(-EINVAL);
	}
	local_bh_enable();
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	err = rxng_odp_page_in(mr->map.odp, sge->addr - mr->iova, sge->length,
			       want);
	rxng_mr_put(mr);
	return err;
}

/**
 * rxng_advise_mr - a process is about to use some of its regions' memory
 * @ibpd: protection domain of the regions
 * @advice: to bring pages in to be read, or written, or what needs no fault
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: the caller wants to know what came of
 *	it; pages are there when this returns in either case
 * @sges: what to bring in
 * @num_sge: entries of @sges
 * @attrs: ignored
 *
 * Return: 0; -EOPNOTSUPP for other advice; -ENOENT, -EPERM, -EACCES, -ERANGE
 * as rxng_mr_get(); -EINVAL for a region that is not paged in; with the flag
 * also why pages cannot be had.
 * Context: process, may sleep.
 */
int rxng_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice,
		   u32 flags, struct ib_sge *sges, u32 num_sge,
		   struct uverbs_attr_bundle *attrs)
{
	static const enum rxng_odp_want wants[] = {
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH] = RXNG_ODP_READ_FAULT,
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE] =
			RXNG_ODP_WRITE_FAULT,
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT] =
			RXNG_ODP_PRESENT,
	};
	u32 i;

	if (advice >= ARRAY_SIZE(wants) ||
	    flags & ~IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return -EOPNOTSUPP;
	for (i = 0; i < num_sge; i++) {
		int err = advise_one(ibpd, &sges[i], wants[advice]);

		if (err == -EFAULT && !(flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH))
			err = 0;
		if (err)
			return err;
	}
	return 0;
}
