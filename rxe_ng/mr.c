// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions. All that a region is to an access stays as it is while a
 * reference is held (see struct rxng_mr). Who changes a region first turns new
 * accesses away and then waits for those under way: asleep in process context
 * (rereg, dereg), spinning where a QP runs (invalidate). The latter is why a
 * reference is held no longer than a burst takes, with bottom halves off, and
 * never by who invalidates.
 */
#include <linux/atomic.h>
#include <linux/ioport.h>
#include <linux/libnvdimm.h>
#include <linux/lockdep.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "mr.h"
#include "mw.h"
#include "proto/key.h"
#include "ucontext.h"

#define REMOTE_RIGHTS (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		       IB_ACCESS_REMOTE_ATOMIC)
/* What a region may be asked for; that its pages are huge makes no difference. */
#define SUPPORTED_ACCESS (IB_ACCESS_LOCAL_WRITE | REMOTE_RIGHTS | \
			  IB_ACCESS_MW_BIND | IB_ZERO_BASED | \
			  RXNG_ACCESS_FLUSH_GLOBAL | IB_ACCESS_HUGETLB | \
			  IB_ACCESS_ON_DEMAND)
/*
 * Windows show pages that stay, huge ones are not paged in as such, and whether
 * memory is persistent is looked at when it is registered.
 */
#define NOT_ON_DEMAND (IB_ACCESS_MW_BIND | IB_ACCESS_HUGETLB | \
		       RXNG_ACCESS_FLUSH_PERSISTENT)

static int check_rights(int access, int supported)
{
	access &= ~IB_ACCESS_OPTIONAL;
	if (access & ~supported)
		return -EOPNOTSUPP;
	if (access & IB_ACCESS_ON_DEMAND && access & NOT_ON_DEMAND)
		return -EOPNOTSUPP;
	/* IBTA 10.6.3.1: a peer cannot write what the owner cannot. */
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

static int check_access(int access)
{
	return check_rights(access, SUPPORTED_ACCESS);
}

/* Of memory that is pinned for a process, that it is persistent can be checked. */
static int check_user_access(int access)
{
	return check_rights(access, SUPPORTED_ACCESS |
				    RXNG_ACCESS_FLUSH_PERSISTENT);
}

static bool is_fast_reg(const struct rxng_mr *mr)
{
	return mr->max_pages;
}

static void set_access(struct rxng_mr *mr, int access)
{
	mr->access = access & ~IB_ACCESS_OPTIONAL;
	mr->ibmr.lkey = mr->key;
	mr->ibmr.rkey = access & REMOTE_RIGHTS ? mr->key : 0;
}

/*
 * Accesses.
 */

/**
 * rxng_mr_find - a region or window by its index, whatever its state
 * @dev: device
 * @key: key; only its index counts
 *
 * Return: region with a reference as of rxng_mr_get(), or NULL.
 * Context: as rxng_mr_get().
 */
struct rxng_mr *rxng_mr_find(struct rxng_dev *dev, u32 key)
{
	struct rxng_mr *mr;

	/* invalidate() spins for references: nobody sleeps on one. */
	lockdep_assert_in_softirq();

	rcu_read_lock();
	mr = xa_load(&dev->mrs, rxng_key_index(key));
	if (mr && !refcount_inc_not_zero(&mr->refs))
		mr = NULL;
	rcu_read_unlock();
	/*
	 * Either the caller sees a state that is not valid, or whoever took
	 * it away sees the reference. Also pairs with resume().
	 */
	smp_mb__after_atomic();
	return mr;
}

static bool covers(const struct rxng_mr *mr, u64 iova, u64 len)
{
	u64 offset = iova - mr->iova;

	return offset <= mr->length && len <= mr->length - offset;
}

/*
 * @ibqp: QP on whose peer's behalf this is, NULL for an access of our own, for
 * which windows do not exist (10.6.7).
 */
static int check(const struct rxng_mr *mr, const struct ib_pd *pd,
		 const struct ib_qp *ibqp, u32 key, u64 iova, u64 len,
		 u32 access)
{
	if (smp_load_acquire(&mr->state) != RXNG_MR_VALID || mr->key != key)
		return -ENOENT;
	if (mr->mw && !ibqp)
		return -ENOENT;
	if (mr->pd != pd || (mr->qpn && mr->qpn != ibqp->qp_num))
		return -EPERM;
	if ((mr->access & access) != access)
		return -EACCES;
	return covers(mr, iova, len) ? 0 : -ERANGE;
}

static struct rxng_mr *get(struct rxng_dev *dev, const struct ib_pd *pd,
			   const struct ib_qp *ibqp, u32 key, u64 iova, u64 len,
			   u32 access)
{
	struct rxng_mr *mr = rxng_mr_find(dev, key);
	int err;

	if (!mr)
		return ERR_PTR(-ENOENT);
	err = check(mr, pd, ibqp, key, iova, len, access);
	if (err) {
		rxng_mr_put(mr);
		return ERR_PTR(err);
	}
	return mr;
}

/**
 * rxng_mr_get - look a region up for an access
 * @dev: device
 * @pd: protection domain of the QP, or of the shared receive queue
 * @key: lkey or rkey; all 32 bits count
 * @iova: first address
 * @len: bytes; for an access of no bytes no key need be valid (IBTA 9.7.4.1.4),
 *	so that the caller does without
 * @access: IB_ACCESS_* rights that the access needs; zero to read locally
 *
 * The reference is for one burst: put it before anything that waits for a
 * peer or calls a consumer's handler, since rxng_dereg_mr() waits for it and
 * rxng_mr_invalidate() spins for it.
 *
 * Return: the region with a reference, to be given to rxng_mr_put(), or an
 * error pointer: -ENOENT for a key that is no valid region's, -EPERM for
 * another protection domain, -EACCES for missing rights, -ERANGE for bytes
 * that are not the region's. Never NULL.
 * Context: softirq, or process with bottom halves off, until the put.
 */
struct rxng_mr *rxng_mr_get(struct rxng_dev *dev, const struct ib_pd *pd,
			    u32 key, u64 iova, u64 len, u32 access)
{
	return get(dev, pd, NULL, key, iova, len, access);
}

/**
 * rxng_mr_get_remote - look up what a peer's request names
 * @ibqp: QP that the request came to
 * @key: rkey of a region or of a window
 * @iova: first address
 * @len: bytes, not zero
 * @access: IB_ACCESS_REMOTE_* rights that the access needs
 *
 * Return: as rxng_mr_get().
 * Context: as rxng_mr_get().
 */
struct rxng_mr *rxng_mr_get_remote(const struct ib_qp *ibqp, u32 key, u64 iova,
				   u64 len, u32 access)
{
	return get(to_rxng_dev(ibqp->device), ibqp->pd, ibqp, key, iova, len,
		   access);
}

/**
 * rxng_mr_put - an access is over
 * @mr: region from rxng_mr_get()
 *
 * Context: any.
 */
void rxng_mr_put(struct rxng_mr *mr)
{
	if (refcount_dec_and_test(&mr->refs))
		complete(&mr->idle);
}

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

/**
 * rxng_mr_flush - a FLUSH: what peers wrote is seen by all
 * @ibqp: QP that it came to
 * @pkt: the request
 *
 * Copies are made by the processor, so that a barrier does it. Whether it is
 * also to be safe from a loss of power is for the caller to see to, with
 * rxng_mr_write_back().
 *
 * Return: 0, or as rxng_mr_get() says why the range is not the peer's to flush.
 * Context: softirq, or process with bottom halves off.
 */
int rxng_mr_flush(const struct ib_qp *ibqp, const struct rxng_pkt *pkt)
{
	struct rxng_mr *mr = rxng_mr_find(to_rxng_dev(ibqp->device), pkt->rkey);
	bool all = rxng_flush_level(pkt->feth) == RXNG_FLUSH_REGION;
	int err;

	if (!mr)
		return -ENOENT;
	err = check(mr, ibqp->pd, ibqp, pkt->rkey, all ? mr->iova : pkt->va,
		    all ? 0 : pkt->dma_len, rxng_flush_rights(pkt->feth));
	rxng_mr_put(mr);
	/* Pairs with whatever the program reads the data behind. */
	smp_mb();
	return err;
}

/*
 * Making regions.
 */

/**
 * rxng_mr_init - begin to set up a region or window
 * @mr: zeroed
 * @pd: protection domain
 */
void rxng_mr_init(struct rxng_mr *mr, struct ib_pd *pd)
{
	mr->ibmr.device = pd->device;
	mr->pd = pd;
	refcount_set(&mr->refs, 1);
	init_completion(&mr->idle);
}

/* A region that nobody knows of yet. */
static struct rxng_mr *alloc(struct ib_pd *pd)
{
	struct rxng_dev *dev = to_rxng_dev(pd->device);
	struct rxng_mr *mr;

	if (!rxng_take(&dev->num_mr, RXNG_MAX_MR, &pd->res))
		return ERR_PTR(-ENOMEM);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr) {
		rxng_give(&dev->num_mr, &pd->res);
		return ERR_PTR(-ENOMEM);
	}
	rxng_mr_init(mr, pd);
	return mr;
}

/**
 * rxng_mr_publish - give a region or window a key and let accesses find it
 * @mr: region
 * @access: its rights
 *
 * Return: 0 or -ENOMEM.
 * Context: process, may sleep.
 */
int rxng_mr_publish(struct rxng_mr *mr, int access)
{
	struct rxng_dev *dev = to_rxng_dev(mr->ibmr.device);
	int err = -EBUSY;

	while (err == -EBUSY) {
		u32 key = get_random_u32();

		if (!rxng_key_index(key))
			continue;
		mr->key = key;
		set_access(mr, access);
		err = xa_insert(&dev->mrs, rxng_key_index(key), mr,
				GFP_KERNEL);
	}
	return err;
}

static void unmap(struct rxng_mr_map *map, struct ib_umem *umem)
{
	rxng_odp_destroy(map->odp);
	kvfree(map->pages);
	rxng_dmabuf_put(map->dmabuf);
	ib_umem_release(umem);
}

/* Free a region that no access can reach any more. */
static void release(struct rxng_mr *mr)
{
	unmap(&mr->map, mr->umem);
	kvfree(mr->staged.pages);
	rxng_give(&to_rxng_dev(mr->ibmr.device)->num_mr, &mr->pd->res);
	kfree_rcu(mr, rcu);
}

/* Turn new accesses away and wait for those under way. */
static void quiesce(struct rxng_mr *mr)
{
	rxng_mr_put(mr);
	wait_for_completion(&mr->idle);
}

/**
 * rxng_mr_unpublish - let no access find a region or window any more
 * @mr: region; none is under way afterwards
 *
 * Context: process, may sleep.
 */
void rxng_mr_unpublish(struct rxng_mr *mr)
{
	xa_erase(&to_rxng_dev(mr->ibmr.device)->mrs, rxng_key_index(mr->key));
	quiesce(mr);
}

/* Windows show a region as it is: with any bound to it, it cannot change. */
static bool keep_windows_off(struct rxng_mr *mr)
{
	return !atomic_cmpxchg(&mr->windows, 0, -1);
}

static void let_windows_in(struct rxng_mr *mr)
{
	atomic_set_release(&mr->windows, 0);
}

/* Turn accesses away from a region that stays, and wait for those under way. */
static void suspend(struct rxng_mr *mr)
{
	/* Who finds it from now on lets go of it at once. */
	WRITE_ONCE(mr->state, RXNG_MR_BUSY);
	quiesce(mr);
}

/* Let accesses in again after suspend(). */
static void resume(struct rxng_mr *mr)
{
	reinit_completion(&mr->idle);
	WRITE_ONCE(mr->state, RXNG_MR_VALID);
	/* Pairs with rxng_mr_find(): who gets a reference sees the change. */
	smp_wmb();
	refcount_set(&mr->refs, 1);
}

/**
 * rxng_get_dma_mr - a region that is all of the kernel's memory
 * @ibpd: protection domain of a kernel consumer
 * @access: rights
 *
 * Return: the region or an error pointer.
 * Context: process, may sleep.
 */
struct ib_mr *rxng_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct rxng_mr *mr;
	int err;

	err = check_access(access);
	if (err)
		return ERR_PTR(err);
	mr = alloc(ibpd);
	if (IS_ERR(mr))
		return ERR_CAST(mr);

	mr->length = U64_MAX;
	mr->map.linear = true;
	mr->state = RXNG_MR_VALID;
	err = rxng_mr_publish(mr, access);
	if (err)
		goto err_mr;
	return &mr->ibmr;

err_mr:
	release(mr);
	return ERR_PTR(err);
}

static int map_umem(struct rxng_mr_map *map, struct ib_umem *umem)
{
	size_t num = ib_umem_num_pages(umem);
	struct sg_page_iter iter;
	size_t n = 0;

	if (num > U32_MAX)
		return -EINVAL;
	map->pages = kvmalloc_array(num, sizeof(*map->pages),
				    GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!map->pages)
		return -ENOMEM;
	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		if (WARN_ON_ONCE(n == num))
			break;
		map->pages[n++] = page_address(sg_page_iter_page(&iter));
	}
	map->num_pages = n;
	map->page_shift = PAGE_SHIFT;
	map->page_offset = ib_umem_offset(umem);
	return 0;
}

/* IBTA 11.2.8.2: neither empty nor wrapping, at either address. */
static bool range_ok(u64 start, u64 length, u64 iova)
{
	return length && iova + length - 1 >= iova &&
	       start + length - 1 >= start;
}

/* Pin a user's memory and list its pages. */
static struct ib_umem *pin(struct ib_device *ibdev, u64 start, u64 length,
			   u64 iova, int access, struct rxng_mr_map *map)
{
	struct ib_umem *umem;
	int err;

	if (!range_ok(start, length, iova))
		return ERR_PTR(-EINVAL);

	umem = ib_umem_get_va(ibdev, start, length, access);
	if (IS_ERR(umem))
		return umem;
	err = map_umem(map, umem);
	if (err) {
		ib_umem_release(umem);
		return ERR_PTR(err);
	}
	return umem;
}

/* Pages one after the other in memory, of which @from is the first. */
static u32 end_of_run(const struct rxng_mr_map *map, u32 from)
{
	u32 i = from + 1;

	while (i < map->num_pages &&
	       map->pages[i] == map->pages[i - 1] + PAGE_SIZE)
		i++;
	return i;
}

/* Not what the kernel was given as common memory, wherever it comes from. */
static bool is_persistent(void *start, size_t bytes)
{
	return is_zone_device_page(virt_to_page(start)) &&
	       is_zone_device_page(virt_to_page(start + bytes - 1)) &&
	       region_intersects(__pa(start), bytes, IORESOURCE_MEM,
				 IORES_DESC_PERSISTENT_MEMORY) ==
		       REGION_INTERSECTS;
}

/* Whether @access may be given: that memory keeps its bytes without power. */
static int check_persistent(const struct rxng_mr_map *map, int access)
{
	u32 i, end;

	if (!(access & RXNG_ACCESS_FLUSH_PERSISTENT))
		return 0;
	if (!IS_ENABLED(CONFIG_ARCH_HAS_PMEM_API))
		return -EOPNOTSUPP;
	for (i = 0; i < map->num_pages; i = end) {
		end = end_of_run(map, i);
		if (!is_persistent(map->pages[i],
				   (size_t)(end - i) << PAGE_SHIFT))
			return -EINVAL;
	}
	return 0;
}

/* All of the address space, by its own addresses, is one region too. */
static int mirror(struct rxng_mr *mr, u64 start, int access)
{
	struct rxng_odp *odp;

	if (!range_ok(start, mr->length, mr->iova))
		return -EINVAL;
	odp = rxng_odp_create(mr->ibmr.device, start, access);
	if (IS_ERR(odp))
		return PTR_ERR(odp);
	mr->map.odp = odp;
	return 0;
}

static int pin_or_mirror(struct rxng_mr *mr, u64 start, int access)
{
	struct ib_umem *umem;

	if (access & IB_ACCESS_ON_DEMAND)
		return mirror(mr, start, access);
	umem = pin(mr->ibmr.device, start, mr->length, mr->iova, access,
		   &mr->map);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	mr->umem = umem;
	return check_persistent(&mr->map, access);
}

/**
 * rxng_reg_user_mr - register memory of a process
 * @ibpd: protection domain
 * @start: address in the process
 * @length: bytes
 * @iova: address that accesses will use for @start, unless it is zero-based
 * @access: rights
 * @udata: private part of the call
 *
 * Return: the region or an error pointer; -EINVAL also when a peer is to flush
 * to persistence what is not all persistent memory.
 * Context: process, may sleep.
 */
struct ib_mr *rxng_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 iova, int access, struct ib_udata *udata)
{
	struct rxng_mr *mr;
	int err;

	err = check_user_access(access);
	if (err)
		return ERR_PTR(err);
	err = rxng_udata_check(udata, 0);
	if (err)
		return ERR_PTR(err);
	mr = alloc(ibpd);
	if (IS_ERR(mr))
		return ERR_CAST(mr);

	mr->iova = access & IB_ZERO_BASED ? 0 : iova;
	mr->length = length;
	mr->state = RXNG_MR_VALID;
	err = pin_or_mirror(mr, start, access);
	if (err)
		goto err_mr;
	err = rxng_mr_publish(mr, access);
	if (err)
		goto err_mr;
	err = rxng_udata_respond(udata, NULL, 0);
	if (err)
		goto err_publish;
	return &mr->ibmr;

err_publish:
	rxng_mr_unpublish(mr);
err_mr:
	release(mr);
	return ERR_PTR(err);
}

static int list_dmabuf(struct rxng_mr_map *map, u64 offset, u64 length)
{
	u64 num = PAGE_ALIGN(offset_in_page(offset) + length) >> PAGE_SHIFT;
	u64 i;

	map->pages = kvmalloc_array(num, sizeof(*map->pages),
				    GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!map->pages)
		return -ENOMEM;
	for (i = 0; i < num; i++) {
		struct page *page = rxng_dmabuf_page(map->dmabuf,
						     (offset & PAGE_MASK) +
						     i * PAGE_SIZE);

		if (!page)
			return -EOPNOTSUPP;
		map->pages[i] = page_address(page);
	}
	map->num_pages = num;
	map->page_shift = PAGE_SHIFT;
	map->page_offset = offset_in_page(offset);
	return 0;
}

/* What it did is undone by unmap(), however far it came. */
static int map_dmabuf(struct rxng_mr_map *map, u64 offset, u64 length, u64 iova,
		      int fd)
{
	struct rxng_dmabuf *dmabuf;
	size_t size;

	if (!range_ok(offset, length, iova))
		return -EINVAL;
	dmabuf = rxng_dmabuf_get(fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	map->dmabuf = dmabuf;
	size = rxng_dmabuf_size(dmabuf);
	if (offset > size || length > size - offset)
		return -EINVAL;
	return list_dmabuf(map, offset, length);
}

/**
 * rxng_reg_user_mr_dmabuf - register memory of a dma-buf
 * @ibpd: protection domain
 * @offset: first byte in the buffer
 * @length: bytes
 * @iova: address that accesses will use for it, unless it is zero-based
 * @fd: the buffer
 * @access: rights
 *
 * The region keeps the buffer, and keeps it mapped.
 *
 * Return: the region or an error pointer, as rxng_dmabuf_get(); -EINVAL for
 * bytes that are not the buffer's.
 * Context: process, may sleep.
 */
struct ib_mr *rxng_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 iova, int fd, int access)
{
	struct rxng_mr *mr;
	int err;

	err = check_access(access);
	if (!err && access & (IB_ACCESS_ON_DEMAND | IB_ACCESS_HUGETLB))
		err = -EOPNOTSUPP;
	if (err)
		return ERR_PTR(err);
	mr = alloc(ibpd);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->iova = access & IB_ZERO_BASED ? 0 : iova;
	mr->length = length;
	mr->state = RXNG_MR_VALID;
	err = map_dmabuf(&mr->map, offset, length, mr->iova, fd);
	if (!err)
		err = rxng_mr_publish(mr, access);
	if (err) {
		release(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/*
 * The memory that a changed region needs pinned: other memory, or the same
 * again when it has to become writable. NULL when what is pinned will do.
 */
static struct ib_umem *repin(struct rxng_mr *mr, int flags, u64 start,
			     u64 length, u64 iova, int access,
			     struct rxng_mr_map *map)
{
	struct ib_umem *umem = mr->umem;

	if (!(flags & IB_MR_REREG_TRANS)) {
		if (umem->writable || !ib_access_writable(access))
			return NULL;
		/* The addresses are those of the process that registered. */
		if (umem->owning_mm != current->mm)
			return ERR_PTR(-EACCES);
		start = umem->address;
		length = umem->length;
		iova = mr->iova;
	}
	return pin(mr->ibmr.device, start, length, iova, access, map);
}

/**
 * rxng_rereg_user_mr - change a region of a process
 * @ibmr: region
 * @flags: IB_MR_REREG_*: what to change; the rest stays
 * @start: address in the process
 * @length: bytes
 * @iova: address that accesses will use for @start, unless it is zero-based
 * @access: rights
 * @pd: protection domain
 * @udata: private part of the call
 *
 * Accesses fail while the change is made. The key stays the same.
 *
 * Return: NULL, which says that the region was changed in place, or an error
 * pointer, and then the region is what it was. Memory that is paged in on demand
 * cannot be exchanged: -EOPNOTSUPP.
 * Context: process, may sleep.
 */
struct ib_mr *rxng_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				 u64 length, u64 iova, int access,
				 struct ib_pd *pd, struct ib_udata *udata)
{
	struct rxng_mr *mr = to_rxng_mr(ibmr);
	struct rxng_mr_map map = {};
	struct ib_umem *umem;
	int err;

	if (flags & ~IB_MR_REREG_SUPPORTED || !mr->umem)
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	if (access & IB_ACCESS_ON_DEMAND)
		return ERR_PTR(-EOPNOTSUPP);
	if (access & IB_ZERO_BASED)
		iova = 0;
	err = check_user_access(access);
	if (!err)
		err = rxng_udata_unused(udata);
	if (err)
		return ERR_PTR(err);

	if (!keep_windows_off(mr))
		return ERR_PTR(-EBUSY);
	umem = repin(mr, flags, start, length, iova, access, &map);
	err = IS_ERR(umem) ? PTR_ERR(umem) :
			     check_persistent(umem ? &map : &mr->map, access);
	if (err) {
		let_windows_in(mr);
		if (!IS_ERR(umem))
			unmap(&map, umem);
		return ERR_PTR(err);
	}

	suspend(mr);
	if (umem) {
		swap(mr->umem, umem);
		swap(mr->map, map);
	}
	if (flags & IB_MR_REREG_TRANS) {
		mr->iova = iova;
		mr->length = length;
	}
	if (flags & IB_MR_REREG_PD)
		mr->pd = pd;
	set_access(mr, access);
	resume(mr);
	let_windows_in(mr);

	unmap(&map, umem);
	return NULL;
}

/**
 * rxng_dereg_mr - a region goes
 * @ibmr: region of any kind
 * @udata: private part of a user's call, else NULL
 *
 * Return: 0, or -EBUSY while a window is bound to it (10.6.7.2.6).
 * Context: process, may sleep: waits for accesses under way.
 */
int rxng_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct rxng_mr *mr = to_rxng_mr(ibmr);

	/* Whoever invalidates the region is through with it soon. */
	while (!keep_windows_off(mr)) {
		if (atomic_read(&mr->windows) > 0)
			return -EBUSY;
		cpu_relax();
	}
	rxng_mr_unpublish(mr);
	release(mr);
	return 0;
}

/*
 * Fast registration, for kernel consumers.
 */

/**
 * rxng_alloc_mr - make a region for fast registration
 * @ibpd: protection domain
 * @type: only IB_MR_TYPE_MEM_REG
 * @max_num_sg: pages that a registration may have
 *
 * Return: the region or an error pointer.
 * Context: process, may sleep.
 */
struct ib_mr *rxng_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg)
{
	struct rxng_mr *mr;
	int err;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > RXNG_MAX_FAST_REG_PAGES)
		return ERR_PTR(-EINVAL);
	mr = alloc(ibpd);
	if (IS_ERR(mr))
		return ERR_CAST(mr);

	err = -ENOMEM;
	mr->max_pages = max_num_sg;
	mr->map.pages = kvcalloc(max_num_sg, sizeof(void *), GFP_KERNEL);
	mr->staged.pages = kvcalloc(max_num_sg, sizeof(void *), GFP_KERNEL);
	if (!mr->map.pages || !mr->staged.pages)
		goto err_mr;
	mr->state = RXNG_MR_FREE;
	err = rxng_mr_publish(mr, 0);
	if (err)
		goto err_mr;
	/* The consumer may give out the key before it registers. */
	mr->ibmr.rkey = mr->key;
	return &mr->ibmr;

err_mr:
	release(mr);
	return ERR_PTR(err);
}

static int stage_page(struct ib_mr *ibmr, u64 addr)
{
	struct rxng_mr *mr = to_rxng_mr(ibmr);
	struct rxng_mr_map *map = &mr->staged;

	if (map->num_pages == mr->max_pages)
		return -ENOMEM;
	map->pages[map->num_pages++] = (void *)(uintptr_t)addr;
	return 0;
}

/**
 * rxng_map_mr_sg - lay memory out for the next fast registration
 * @ibmr: region; its page_size is what the list is cut into
 * @sg: list of kernel memory, mapped for this device, whose DMA addresses are
 *	kernel addresses
 * @sg_nents: entries of @sg
 * @sg_offset: bytes of the first entry to leave out, or NULL
 *
 * What is registered now stays so until the next registration.
 *
 * Return: entries of @sg that are used completely, or an error code.
 * Context: process or softirq; the consumer does not register meanwhile.
 */
int rxng_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		   unsigned int *sg_offset)
{
	struct rxng_mr *mr = to_rxng_mr(ibmr);
	int num;

	if (!is_fast_reg(mr) || !is_power_of_2(ibmr->page_size))
		return -EINVAL;

	mr->fresh = false;
	mr->staged.num_pages = 0;
	num = ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, stage_page);
	if (num < 0)
		return num;
	mr->staged.page_shift = ilog2(ibmr->page_size);
	mr->staged.page_offset = ibmr->iova & (ibmr->page_size - 1);
	mr->fresh = true;
	return num;
}

static bool map_covers(const struct rxng_mr_map *map, u64 length)
{
	u64 bytes = (u64)map->num_pages << map->page_shift;

	return length && map->page_offset < bytes &&
	       length <= bytes - map->page_offset;
}

/**
 * rxng_mr_fast_reg - carry out an IB_WR_REG_MR request
 * @dev: device of the QP
 * @pd: protection domain of the QP
 * @ibmr: region; its iova and length are taken from here
 * @key: new key, of which the lower 8 bits are the consumer's
 * @access: rights
 *
 * Return: 0; -EINVAL when the region is not free, not the QP's, or was not
 * given memory for its length; -EOPNOTSUPP for rights that do not exist here.
 * Context: any.
 */
int rxng_mr_fast_reg(struct rxng_dev *dev, const struct ib_pd *pd,
		     struct ib_mr *ibmr, u32 key, u32 access)
{
	struct rxng_mr *mr = to_rxng_mr(ibmr);
	int err;

	if (ibmr->device != &dev->ibdev || !is_fast_reg(mr) || mr->pd != pd ||
	    rxng_key_index(key) != rxng_key_index(mr->key))
		return -EINVAL;
	err = check_access(access);
	if (err)
		return err;
	if (cmpxchg(&mr->state, RXNG_MR_FREE, RXNG_MR_BUSY) != RXNG_MR_FREE)
		return -EINVAL;

	if (mr->fresh) {
		swap(mr->map, mr->staged);
		mr->fresh = false;
	}
	if (!map_covers(&mr->map, ibmr->length)) {
		smp_store_release(&mr->state, RXNG_MR_FREE);
		return -EINVAL;
	}
	mr->key = key;
	mr->access = access & ~IB_ACCESS_OPTIONAL;
	mr->iova = access & IB_ZERO_BASED ? 0 : ibmr->iova;
	mr->length = ibmr->length;
	smp_store_release(&mr->state, RXNG_MR_VALID);
	return 0;
}

/**
 * rxng_mr_claim - take a region or window out of use, to change it
 * @mr: region that the caller has one reference on, as of rxng_mr_get()
 * @state: state that it is thought to be in
 *
 * Nobody else changes it, and no access is under way, until the caller sets
 * another state (smp_store_release()).
 *
 * Return: 0, or -EINVAL when its state is another one.
 * Context: as rxng_mr_get(); the caller has no reference on another region,
 * since two that claim what the other refers to would wait for ever.
 */
int rxng_mr_claim(struct rxng_mr *mr, u32 state)
{
	if (cmpxchg(&mr->state, state, RXNG_MR_BUSY) != state)
		return -EINVAL;
	/*
	 * The table's reference and the caller's. The others are copying, with
	 * bottom halves off, and new ones look at the state and go away.
	 */
	while (refcount_read(&mr->refs) > 2)
		cpu_relax();
	return 0;
}

static int invalidate_region(struct rxng_mr *mr, bool remote)
{
	int err = -EINVAL;

	if (!is_fast_reg(mr) || (remote && !(mr->access & REMOTE_RIGHTS)) ||
	    !keep_windows_off(mr))
		return err;
	err = rxng_mr_claim(mr, RXNG_MR_VALID);
	if (!err)
		smp_store_release(&mr->state, RXNG_MR_FREE);
	let_windows_in(mr);
	return err;
}

/**
 * rxng_mr_invalidate - take a fast registration or a type 2 binding back
 * @ibqp: QP that is told to
 * @key: the whole key
 * @remote: a peer asks for it, by SEND with invalidate (IBTA 9.4.1.1.2);
 *	then a region has to have rights for peers
 *
 * When it returns 0 no access by the key is under way. Regions of processes
 * cannot be invalidated, nor type 1 windows.
 *
 * Return: 0, or -EINVAL when there is no such registration or binding.
 * Context: as rxng_mr_claim().
 */
int rxng_mr_invalidate(const struct ib_qp *ibqp, u32 key, bool remote)
{
	struct rxng_mr *mr = rxng_mr_find(to_rxng_dev(ibqp->device), key);
	int err;

	if (!mr)
		return -EINVAL;
	if (check(mr, ibqp->pd, ibqp, key, mr->iova, 0, 0))
		err = -EINVAL;
	else if (mr->mw)
		err = rxng_mw_invalidate(mr);
	else
		err = invalidate_region(mr, remote);
	rxng_mr_put(mr);
	return err;
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
	if (mr->map.odp && covers(mr, iova, len))
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
	if (!mr->map.odp && covers(mr, iova, len)) {
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
