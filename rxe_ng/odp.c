// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A region's memory is mirrored span by span, by what the core has for this
 * (Documentation/mm/hmm.rst): a span's umem follows the process' page tables,
 * and the span keeps what accesses need of it. Accesses copy under RCU. When
 * the page tables are about to change, the pages are taken out of the span,
 * and the change waits for the accesses under way.
 */
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/ib_umem_odp.h>

#include "odp.h"

#define SPAN_SHIFT 21
#define SPAN_BYTES (1ull << SPAN_SHIFT)
#define SPAN_PAGES (SPAN_BYTES >> PAGE_SHIFT)
/* So long a span may be without a page before it goes. */
#define SWEEP_AFTER HZ
/* Bits of an entry of a span: the page may be written, and may have been; */
#define WRITABLE 1ul
/* it is about to go. */
#define GOING 2ul

/**
 * struct rxng_span - an aligned part of a process' address space
 * @odp: memory that it is of
 * @umem: the core's part
 * @rcu: frees the structure after accesses are over
 * @present: pages that are there; under @umem's mutex
 * @pages: kernel address of each page that is there, with bits, else zero;
 *	written under @umem's mutex, read under RCU
 */
struct rxng_span {
	struct rxng_odp *odp;
	struct ib_umem_odp *umem;
	struct rcu_head rcu;
	unsigned int present;
	unsigned long pages[SPAN_PAGES];
};

static struct workqueue_struct *sweepers;

static unsigned int span_index(u64 addr)
{
	return (addr & (SPAN_BYTES - 1)) >> PAGE_SHIFT;
}

/* Accesses that begin now do not find the page; returns whether there is one. */
static bool hide_page(unsigned long *at)
{
	if (!*at)
		return false;
	WRITE_ONCE(*at, *at | GOING);
	return true;
}

/*
 * Through the kernel's own mapping a store leaves no trace in the page table of
 * the process: without this the page could be thrown away as never written.
 */
static void drop_page(struct rxng_span *span, unsigned long *at)
{
	void *page = (void *)(*at & PAGE_MASK);

	if (!*at)
		return;
	if (*at & WRITABLE)
		folio_mark_dirty(virt_to_folio(page));
	span->present--;
	WRITE_ONCE(*at, 0);
}

static void drop_pages(struct rxng_span *span, unsigned int first,
		       unsigned int num)
{
	unsigned int i;

	lockdep_assert_held(&span->umem->umem_mutex);
	for (i = 0; i < num; i++)
		drop_page(span, &span->pages[first + i]);
}

/* No access is under way to them afterwards. @end is the first byte not to go. */
static void forget_pages(struct rxng_span *span, u64 addr, u64 end)
{
	unsigned int first = span_index(addr), i;
	unsigned int num = PFN_UP(end) - PFN_DOWN(addr);
	bool any = false;

	lockdep_assert_held(&span->umem->umem_mutex);
	for (i = 0; i < num; i++)
		any |= hide_page(&span->pages[first + i]);
	if (!any)
		return;
	synchronize_rcu_expedited();
	drop_pages(span, first, num);
}

/* The process' pages change; see struct mmu_interval_notifier_ops. */
static bool invalidate(struct mmu_interval_notifier *notifier,
		       const struct mmu_notifier_range *range,
		       unsigned long seq)
{
	struct ib_umem_odp *umem = container_of(notifier, struct ib_umem_odp,
						notifier);
	u64 addr = max_t(u64, ib_umem_start(umem), range->start);
	u64 end = min_t(u64, ib_umem_end(umem), range->end);
	struct rxng_span *span;

	if (!mmu_notifier_range_blockable(range))
		return false;
	mutex_lock(&umem->umem_mutex);
	mmu_interval_set_seq(notifier, seq);
	/* Without a span it is being made, or it goes. */
	span = umem->private;
	if (span)
		forget_pages(span, addr, end);
	ib_umem_odp_unmap_dma_pages(umem, addr, end);
	if (span && !span->present)
		queue_delayed_work(sweepers, &span->odp->sweep, SWEEP_AFTER);
	mutex_unlock(&umem->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops notifier_ops = {
	.invalidate = invalidate,
};

/* Accesses find nothing in it before the core lets go of the pages. */
static void free_span(struct rxng_span *span)
{
	struct ib_umem_odp *umem = span->umem;

	xa_erase(&span->odp->spans, ib_umem_start(umem) >> SPAN_SHIFT);
	mutex_lock(&umem->umem_mutex);
	umem->private = NULL;
	forget_pages(span, ib_umem_start(umem), ib_umem_end(umem));
	mutex_unlock(&umem->umem_mutex);
	ib_umem_odp_release(umem);
	kvfree_rcu(span, rcu);
}

static bool is_empty(struct rxng_span *span)
{
	bool empty;

	mutex_lock(&span->umem->umem_mutex);
	empty = !span->present;
	mutex_unlock(&span->umem->umem_mutex);
	return empty;
}

/* Where pages were once, a process may have nothing for ever. */
static void sweep(struct work_struct *work)
{
	struct rxng_odp *odp = container_of(to_delayed_work(work),
					    struct rxng_odp, sweep);
	struct rxng_span *span;
	unsigned long index;

	/* A page fault holds it, which may last as long as a process likes. */
	if (!mutex_trylock(&odp->mutex)) {
		queue_delayed_work(sweepers, &odp->sweep, SWEEP_AFTER);
		return;
	}
	xa_for_each(&odp->spans, index, span) {
		if (is_empty(span))
			free_span(span);
		cond_resched();
	}
	mutex_unlock(&odp->mutex);
}

static struct rxng_span *make_span(struct rxng_odp *odp, u64 addr)
{
	struct rxng_span *span = kvzalloc(sizeof(*span), GFP_KERNEL_ACCOUNT);
	struct ib_umem_odp *umem;
	int err;

	if (!span)
		return ERR_PTR(-ENOMEM);
	umem = ib_umem_odp_alloc_child(odp->root, addr & ~(SPAN_BYTES - 1),
				       SPAN_BYTES, &notifier_ops);
	if (IS_ERR(umem)) {
		kvfree(span);
		return ERR_CAST(umem);
	}
	span->odp = odp;
	span->umem = umem;
	mutex_lock(&umem->umem_mutex);
	umem->private = span;
	mutex_unlock(&umem->umem_mutex);
	err = xa_err(xa_store(&odp->spans, addr >> SPAN_SHIFT, span,
			      GFP_KERNEL_ACCOUNT));
	if (err) {
		free_span(span);
		return ERR_PTR(err);
	}
	return span;
}

/*
 * Not each page of a process has a kernel address that works: memfd_secret()
 * takes its own out of the kernel's page tables before the process has them.
 */
static bool is_reachable(const void *page)
{
	u8 byte;

	return !copy_from_kernel_nofault(&byte, page, sizeof(byte));
}

/*
 * What the core has mapped, @pfn, becomes what accesses find. A page that is
 * there already is the same one, or it would have been forgotten.
 */
static int take_page(struct rxng_span *span, unsigned int i, unsigned long pfn,
		     bool write)
{
	unsigned long entry = span->pages[i];

	if (!(pfn & HMM_PFN_VALID))
		return 0;
	if (!entry) {
		void *page = page_address(hmm_pfn_to_page(pfn));

		if (!is_reachable(page))
			return -EFAULT;
		entry = (unsigned long)page;
		span->present++;
	}
	if (write && pfn & HMM_PFN_WRITE)
		entry |= WRITABLE;
	WRITE_ONCE(span->pages[i], entry);
	return 0;
}

/* What nobody asked to write stays clean, and is read only, here. */
static int take_pages(struct rxng_span *span, u64 addr, u64 end, bool write)
{
	unsigned int first = span_index(addr), i;
	unsigned int num = PFN_UP(end) - PFN_DOWN(addr);
	int err = 0;

	lockdep_assert_held(&span->umem->umem_mutex);
	for (i = first; i < first + num && !err; i++)
		err = take_page(span, i, rxng_odp_pfns(span->umem)[i], write);
	return err;
}

/* Within one span. */
static int page_in(struct rxng_span *span, u64 addr, u64 len,
		   enum rxng_odp_want want)
{
	bool write = want == RXNG_ODP_WRITE_FAULT;
	u64 rights = RXNG_ODP_READ;
	int ret;

	if (write)
		rights |= RXNG_ODP_WRITE;
	ret = ib_umem_odp_map_dma_and_lock(span->umem, addr, len, rights,
					   want != RXNG_ODP_PRESENT);
	if (ret < 0)
		return ret;
	ret = take_pages(span, addr, addr + len, write);
	mutex_unlock(&span->umem->umem_mutex);
	return ret;
}

/* A span in which nothing was found is not kept: a peer names the addresses. */
static int page_in_at(struct rxng_odp *odp, u64 addr, u64 len,
		      enum rxng_odp_want want)
{
	struct rxng_span *span = xa_load(&odp->spans, addr >> SPAN_SHIFT);
	bool fresh = !span;
	int err;

	lockdep_assert_held(&odp->mutex);
	if (fresh)
		span = make_span(odp, addr);
	if (IS_ERR(span))
		return PTR_ERR(span);
	err = page_in(span, addr, len, want);
	if (fresh && (err || is_empty(span)))
		free_span(span);
	return err;
}

/**
 * rxng_odp_page_in - let a region's pages be there
 * @odp: memory of a region that stays while this runs
 * @offset: bytes from the region's first one
 * @len: bytes; all of the region's
 * @want: what for
 *
 * They may be gone again when the caller looks. Whoever the caller is, the
 * memory that this takes is charged to the process whose region it is.
 *
 * Return: 0, or a negative errno when the process has no such memory or may
 * not use it so, when it or the caller is about to end, or without memory.
 * Context: process, may sleep; the process' mmap lock is not held.
 */
int rxng_odp_page_in(struct rxng_odp *odp, u64 offset, u64 len,
		     enum rxng_odp_want want)
{
	struct mem_cgroup *charged, *before;
	u64 addr = odp->start + offset;
	int err = 0;

	charged = get_mem_cgroup_from_mm(odp->mm);
	before = set_active_memcg(charged);
	mutex_lock(&odp->mutex);
	while (len && !err) {
		u64 part = min(len, SPAN_BYTES - (addr & (SPAN_BYTES - 1)));

		err = fatal_signal_pending(current) ? -EINTR :
			      page_in_at(odp, addr, part, want);
		addr += part;
		len -= part;
		cond_resched();
	}
	mutex_unlock(&odp->mutex);
	set_active_memcg(before);
	mem_cgroup_put(charged);
	return err;
}

/**
 * rxng_odp_address - where some bytes of a region are now
 * @odp: memory of the region
 * @offset: bytes from the region's first one
 * @len: how many are wanted; cut down to what lies in one page
 * @write: they are going to be written
 *
 * Return: kernel address, good until the end of the RCU read-side section;
 * NULL when the page has to be brought in.
 * Context: RCU read-side section.
 */
void *rxng_odp_address(const struct rxng_odp *odp, u64 offset, size_t *len,
		       bool write)
{
	u64 addr = odp->start + offset;
	struct rxng_span *span;
	unsigned long entry;

	span = xa_load((struct xarray *)&odp->spans, addr >> SPAN_SHIFT);
	if (!span)
		return NULL;
	entry = READ_ONCE(span->pages[span_index(addr)]);
	if (!entry || entry & GOING || (write && !(entry & WRITABLE)))
		return NULL;
	*len = min_t(size_t, *len, PAGE_SIZE - offset_in_page(addr));
	return (void *)(entry & PAGE_MASK) + offset_in_page(addr);
}

/**
 * rxng_odp_create - memory of the calling process, to be paged in on demand
 * @ibdev: device
 * @start: address of the first byte
 * @access: IB_ACCESS_* rights
 *
 * Return: the memory or an error pointer.
 * Context: process, may sleep.
 */
struct rxng_odp *rxng_odp_create(struct ib_device *ibdev, u64 start, int access)
{
	struct rxng_odp *odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);
	struct ib_umem_odp *root;

	if (!odp)
		return ERR_PTR(-ENOMEM);
	root = ib_umem_odp_alloc_implicit(ibdev, access);
	if (IS_ERR(root)) {
		kfree(odp);
		return ERR_CAST(root);
	}
	odp->root = root;
	odp->mm = root->umem.owning_mm;
	mmgrab(odp->mm);
	odp->start = start;
	xa_init_flags(&odp->spans, XA_FLAGS_ACCOUNT);
	mutex_init(&odp->mutex);
	INIT_DELAYED_WORK(&odp->sweep, sweep);
	return odp;
}

/**
 * rxng_odp_destroy - the end of a region's memory
 * @odp: memory that no access and no page fault uses; may be NULL
 *
 * Context: process, may sleep.
 */
void rxng_odp_destroy(struct rxng_odp *odp)
{
	struct rxng_span *span;
	unsigned long index;

	if (!odp)
		return;
	mutex_lock(&odp->mutex);
	xa_for_each(&odp->spans, index, span) {
		/* Nobody accesses it any more: there is nothing to wait for. */
		mutex_lock(&span->umem->umem_mutex);
		drop_pages(span, 0, SPAN_PAGES);
		mutex_unlock(&span->umem->umem_mutex);
		free_span(span);
		cond_resched();
	}
	mutex_unlock(&odp->mutex);
	/* There is nothing left that could schedule it. */
	cancel_delayed_work_sync(&odp->sweep);
	xa_destroy(&odp->spans);
	ib_umem_odp_release(odp->root);
	mmdrop(odp->mm);
	mutex_destroy(&odp->mutex);
	kfree(odp);
}

/**
 * rxng_odp_init - make what frees memory that nobody pages in any more
 *
 * Return: 0 or -ENOMEM.
 */
int rxng_odp_init(void)
{
	sweepers = alloc_workqueue("rxe_ng_sweep", WQ_UNBOUND, 0);
	return sweepers ? 0 : -ENOMEM;
}

/**
 * rxng_odp_exit - the end of it; there is no region any more
 */
void rxng_odp_exit(void)
{
	destroy_workqueue(sweepers);
}
