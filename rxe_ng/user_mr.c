// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory regions of processes: pinned, paged in on demand, or of a dma-buf. */
#include <linux/ioport.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "mr.h"
#include "ucontext.h"

/* So many pages are listed before others may run. */
#define RESCHED_PAGES 0x10000

/* Of memory that is pinned, that it is persistent can be checked. */
static int check_user_access(int access)
{
	return rxng_mr_check_access(access, RXNG_ACCESS_FLUSH_PERSISTENT);
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
		if (!(n % RESCHED_PAGES))
			cond_resched();
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

/* A region that its owner's rights were checked for, with no memory yet. */
static struct rxng_mr *alloc_range(struct ib_pd *pd, u64 length, u64 iova,
				   int access)
{
	struct rxng_mr *mr = rxng_mr_alloc(pd);

	if (IS_ERR(mr))
		return mr;
	mr->iova = access & IB_ZERO_BASED ? 0 : iova;
	mr->length = length;
	mr->state = RXNG_MR_VALID;
	return mr;
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
	mr = alloc_range(ibpd, length, iova, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);

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
	rxng_mr_release(mr);
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
		if (!(i % RESCHED_PAGES))
			cond_resched();
	}
	map->num_pages = num;
	map->page_shift = PAGE_SHIFT;
	map->page_offset = offset_in_page(offset);
	return 0;
}

/* What it did is undone by rxng_mr_unmap(), however far it came. */
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

	err = rxng_mr_check_access(access, 0);
	if (!err && access & (IB_ACCESS_ON_DEMAND | IB_ACCESS_HUGETLB))
		err = -EOPNOTSUPP;
	if (err)
		return ERR_PTR(err);
	mr = alloc_range(ibpd, length, iova, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	err = map_dmabuf(&mr->map, offset, length, mr->iova, fd);
	if (!err)
		err = rxng_mr_publish(mr, access);
	if (err) {
		rxng_mr_release(mr);
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

	if (!rxng_mr_keep_windows_off(mr))
		return ERR_PTR(-EBUSY);
	umem = repin(mr, flags, start, length, iova, access, &map);
	err = IS_ERR(umem) ? PTR_ERR(umem) :
			     check_persistent(umem ? &map : &mr->map, access);
	if (err) {
		rxng_mr_let_windows_in(mr);
		if (!IS_ERR(umem))
			rxng_mr_unmap(&map, umem);
		return ERR_PTR(err);
	}

	rxng_mr_suspend(mr);
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
	rxng_mr_set_access(mr, access);
	rxng_mr_resume(mr);
	rxng_mr_let_windows_in(mr);

	rxng_mr_unmap(&map, umem);
	return NULL;
}
