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
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "mr.h"
#include "proto/key.h"
#include "ucontext.h"

#define REMOTE_RIGHTS (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		       IB_ACCESS_REMOTE_ATOMIC)
/* What a region may be asked for; that its pages are huge makes no difference. */
#define SUPPORTED_ACCESS (IB_ACCESS_LOCAL_WRITE | REMOTE_RIGHTS | \
			  IB_ZERO_BASED | IB_ACCESS_HUGETLB)

static int check_access(int access)
{
	access &= ~IB_ACCESS_OPTIONAL;
	if (access & ~SUPPORTED_ACCESS)
		return -EOPNOTSUPP;
	/* IBTA 10.6.3.1: a peer cannot write what the owner cannot. */
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
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

/* A region by its index, whatever its state, with a reference. */
static struct rxng_mr *find(struct rxng_dev *dev, u32 key)
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

static int check(const struct rxng_mr *mr, const struct ib_pd *pd, u32 key,
		 u64 iova, u64 len, u32 access)
{
	u64 offset = iova - mr->iova;

	if (smp_load_acquire(&mr->state) != RXNG_MR_VALID || mr->key != key)
		return -ENOENT;
	if (mr->pd != pd)
		return -EPERM;
	if ((mr->access & access) != access)
		return -EACCES;
	if (offset > mr->length || len > mr->length - offset)
		return -ERANGE;
	return 0;
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
	struct rxng_mr *mr = find(dev, key);
	int err;

	if (!mr)
		return ERR_PTR(-ENOENT);
	err = check(mr, pd, key, iova, len, access);
	if (err) {
		rxng_mr_put(mr);
		return ERR_PTR(err);
	}
	return mr;
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

/* Kernel address of @iova; cuts @len down to what lies beside it in memory. */
static void *address(const struct rxng_mr *mr, u64 iova, size_t *len)
{
	const struct rxng_mr_map *map = &mr->map;
	u64 offset, page_bytes, in_page;

	if (!map->pages)
		return (void *)(uintptr_t)iova;

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
 * Context: any.
 */
void rxng_mr_copy(struct rxng_mr *mr, u64 iova, void *buf, size_t len,
		  enum rxng_mr_dir dir)
{
	while (len) {
		size_t chunk = len;
		void *addr = address(mr, iova, &chunk);

		if (dir == RXNG_TO_MR)
			memcpy(addr, buf, chunk);
		else
			memcpy(buf, addr, chunk);
		iova += chunk;
		buf += chunk;
		len -= chunk;
	}
}

/**
 * rxng_mr_from_skb - copy from a packet into a region
 * @mr: region, with a reference from rxng_mr_get() that covers the range
 * @iova: first address in the region
 * @skb: packet
 * @offset: where in the packet's data to begin
 * @len: bytes
 *
 * Return: 0, or -EFAULT when the packet is shorter than that.
 * Context: any.
 */
int rxng_mr_from_skb(struct rxng_mr *mr, u64 iova, const struct sk_buff *skb,
		     int offset, size_t len)
{
	while (len) {
		size_t chunk = len;
		void *addr = address(mr, iova, &chunk);
		int err = skb_copy_bits(skb, offset, addr, chunk);

		if (err)
			return err;
		iova += chunk;
		offset += chunk;
		len -= chunk;
	}
	return 0;
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
	size_t len = sizeof(u64);

	return IS_ALIGNED(iova, sizeof(u64)) &&
	       IS_ALIGNED((uintptr_t)address(mr, iova, &len), sizeof(u64));
}

/**
 * rxng_mr_atomic - compare and swap, or fetch and add, of 8 bytes
 * @mr: region, with a reference from rxng_mr_get() that covers them
 * @iova: their address, for which rxng_mr_aligned() is true
 * @cmp_swap: compare and swap; else fetch and add
 * @compare: value to compare with
 * @swap_add: value to put in, or to add
 *
 * The processor's own operation, hence atomic against all devices of the
 * host and its programs. Values are in host byte order.
 *
 * Return: what was there before.
 * Context: any.
 */
u64 rxng_mr_atomic(struct rxng_mr *mr, u64 iova, bool cmp_swap, u64 compare,
		   u64 swap_add)
{
	size_t len = sizeof(u64);
	atomic64_t *addr = address(mr, iova, &len);

	if (cmp_swap)
		return atomic64_cmpxchg(addr, compare, swap_add);
	return atomic64_fetch_add(swap_add, addr);
}

/*
 * Making regions.
 */

/* A region that nobody knows of yet. */
static struct rxng_mr *alloc(struct ib_pd *pd)
{
	struct rxng_dev *dev = to_rxng_dev(pd->device);
	struct rxng_mr *mr;

	if (!rxng_take(&dev->num_mr, RXNG_MAX_MR))
		return ERR_PTR(-ENOMEM);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr) {
		atomic_dec(&dev->num_mr);
		return ERR_PTR(-ENOMEM);
	}
	mr->ibmr.device = pd->device;
	mr->pd = pd;
	refcount_set(&mr->refs, 1);
	init_completion(&mr->idle);
	return mr;
}

/* Give the region a key and let accesses find it. */
static int publish(struct rxng_mr *mr, int access)
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
	kvfree(map->pages);
	ib_umem_release(umem);
}

/* Free a region that no access can reach any more. */
static void release(struct rxng_mr *mr)
{
	unmap(&mr->map, mr->umem);
	kvfree(mr->staged.pages);
	atomic_dec(&to_rxng_dev(mr->ibmr.device)->num_mr);
	kfree_rcu(mr, rcu);
}

/* Turn new accesses away and wait for those under way. */
static void quiesce(struct rxng_mr *mr)
{
	rxng_mr_put(mr);
	wait_for_completion(&mr->idle);
}

/* Let accesses in again after quiesce(). */
static void resume(struct rxng_mr *mr)
{
	reinit_completion(&mr->idle);
	/* Pairs with find(): who gets a reference sees the change. */
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
	mr->state = RXNG_MR_VALID;
	err = publish(mr, access);
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

/* Pin a user's memory and list its pages. */
static struct ib_umem *pin(struct ib_device *ibdev, u64 start, u64 length,
			   u64 iova, int access, struct rxng_mr_map *map)
{
	struct ib_umem *umem;
	int err;

	/* IBTA 11.2.8.2: neither empty nor wrapping, at either address. */
	if (!length || iova + length - 1 < iova || start + length - 1 < start)
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

/**
 * rxng_reg_user_mr - register memory of a process
 * @ibpd: protection domain
 * @start: address in the process
 * @length: bytes
 * @iova: address that accesses will use for @start, unless it is zero-based
 * @access: rights
 * @udata: private part of the call
 *
 * Return: the region or an error pointer.
 * Context: process, may sleep.
 */
struct ib_mr *rxng_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 iova, int access, struct ib_udata *udata)
{
	struct rxng_mr *mr;
	int err;

	err = check_access(access);
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
	mr->umem = pin(ibpd->device, start, length, mr->iova, access, &mr->map);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		mr->umem = NULL;
		goto err_mr;
	}
	err = publish(mr, access);
	if (err)
		goto err_mr;
	err = rxng_udata_respond(udata, NULL, 0);
	if (err)
		goto err_publish;
	return &mr->ibmr;

err_publish:
	xa_erase(&to_rxng_dev(ibpd->device)->mrs, rxng_key_index(mr->key));
	quiesce(mr);
err_mr:
	release(mr);
	return ERR_PTR(err);
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
 * pointer, and then the region is what it was.
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
	if (access & IB_ZERO_BASED)
		iova = 0;
	err = check_access(access);
	if (!err)
		err = rxng_udata_unused(udata);
	if (err)
		return ERR_PTR(err);

	umem = repin(mr, flags, start, length, iova, access, &map);
	if (IS_ERR(umem))
		return ERR_CAST(umem);

	quiesce(mr);
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

	unmap(&map, umem);
	return NULL;
}

/**
 * rxng_dereg_mr - a region goes
 * @ibmr: region of any kind
 * @udata: private part of a user's call, else NULL
 *
 * Return: 0.
 * Context: process, may sleep: waits for accesses under way.
 */
int rxng_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct rxng_mr *mr = to_rxng_mr(ibmr);

	xa_erase(&to_rxng_dev(ibmr->device)->mrs, rxng_key_index(mr->key));
	quiesce(mr);
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
	err = publish(mr, 0);
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

/* Take a valid region's validity away; no access is under way afterwards. */
static int invalidate(struct rxng_mr *mr)
{
	if (cmpxchg(&mr->state, RXNG_MR_VALID, RXNG_MR_BUSY) != RXNG_MR_VALID)
		return -EINVAL;
	/*
	 * The table's reference and the caller's. The others are copying, with
	 * bottom halves off, and new ones look at the state and go away.
	 */
	while (refcount_read(&mr->refs) > 2)
		cpu_relax();
	smp_store_release(&mr->state, RXNG_MR_FREE);
	return 0;
}

/**
 * rxng_mr_invalidate - take a fast registration back
 * @dev: device of the QP
 * @pd: protection domain of the QP
 * @key: the whole key
 * @remote: a peer asks for it, by SEND with invalidate (IBTA 9.4.1.1.2);
 *	then the region has to have rights for peers
 *
 * When it returns 0 no access to the region is under way. Regions of
 * processes cannot be invalidated.
 *
 * Return: 0, or -EINVAL when there is no such registration.
 * Context: as rxng_mr_get(); the caller has no reference to a region, since
 * two that invalidate what the other refers to would wait for ever.
 */
int rxng_mr_invalidate(struct rxng_dev *dev, const struct ib_pd *pd, u32 key,
		       bool remote)
{
	struct rxng_mr *mr = find(dev, key);
	int err;

	if (!mr)
		return -EINVAL;
	err = check(mr, pd, key, mr->iova, 0, 0);
	if (err || !is_fast_reg(mr) ||
	    (remote && !(mr->access & REMOTE_RIGHTS)))
		err = -EINVAL;
	else
		err = invalidate(mr);
	rxng_mr_put(mr);
	return err;
}
