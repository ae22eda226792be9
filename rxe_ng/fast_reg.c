// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Fast registration of memory, for kernel consumers. */
#include <linux/slab.h>

#include "mr.h"
#include "proto/key.h"

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
	mr = rxng_mr_alloc(ibpd);
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
	rxng_mr_release(mr);
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

	if (!rxng_mr_is_fast_reg(mr) || !is_power_of_2(ibmr->page_size))
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

	if (ibmr->device != &dev->ibdev || !rxng_mr_is_fast_reg(mr) ||
	    mr->pd != pd || rxng_key_index(key) != rxng_key_index(mr->key))
		return -EINVAL;
	err = rxng_mr_check_access(access, 0);
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
