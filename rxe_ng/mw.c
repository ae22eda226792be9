// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory windows. To an access a bound window is a region like any other, whose
 * pages belong to the region that it is bound to; that one cannot change while
 * it counts windows. Who changes a window claims it first (rxng_mr_claim()).
 */
#include <linux/slab.h>

#include "mw.h"
#include "proto/key.h"
#include "ucontext.h"

#define WINDOW_RIGHTS (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		       IB_ACCESS_REMOTE_ATOMIC)

/**
 * rxng_alloc_mw - make a window; see struct ib_device_ops
 * @ibmw: window to set up, its type is set
 * @udata: private part of a user's call
 *
 * Return: 0; -EOPNOTSUPP for another type; -ENOMEM.
 * Context: process.
 */
int rxng_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct rxng_dev *dev = to_rxng_dev(ibmw->device);
	struct rxng_mr *mr;
	int err;

	if (ibmw->type != IB_MW_TYPE_1 && ibmw->type != IB_MW_TYPE_2)
		return -EOPNOTSUPP;
	err = rxng_udata_unused(udata);
	if (err)
		return err;
	if (!rxng_take(&dev->num_mw, RXNG_MAX_MW, &ibmw->pd->res))
		return -ENOMEM;
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	err = -ENOMEM;
	if (!mr)
		goto err_count;
	rxng_mr_init(mr, ibmw->pd);
	mr->state = RXNG_MR_FREE;
	to_rxng_mw(ibmw)->mr = mr;
	mr->mw = to_rxng_mw(ibmw);
	err = rxng_mr_publish(mr, 0);
	if (err)
		goto err_mr;
	ibmw->rkey = mr->key;
	return 0;

err_mr:
	kfree(mr);
err_count:
	rxng_give(&dev->num_mw, &ibmw->pd->res);
	return err;
}

/* Of a claimed window, or one that nobody can find. */
static void unbind(struct rxng_mr *mr)
{
	if (mr->base)
		atomic_dec(&mr->base->windows);
	mr->base = NULL;
	mr->qpn = 0;
	mr->map.pages = NULL;
}

/* Bound or not, unless another one has it claimed. */
static int claim_any(struct rxng_mr *mr)
{
	return rxng_mr_claim(mr, RXNG_MR_FREE) ?
		       rxng_mr_claim(mr, RXNG_MR_VALID) : 0;
}

/*
 * Whoever binds or invalidates it meanwhile waits for the accesses under way;
 * so does this, and then for those who found the window to let go of it. No
 * reference is kept while another one has it claimed, who would wait for that.
 */
static void claim_for_good(struct rxng_mr *mr)
{
	bool claimed;

	do {
		local_bh_disable();
		/* The table's reference keeps it from going. */
		refcount_inc(&mr->refs);
		claimed = !claim_any(mr);
		rxng_mr_put(mr);
		local_bh_enable();
		cpu_relax();
	} while (!claimed);
}

/**
 * rxng_dealloc_mw - a window goes; see struct ib_device_ops
 * @ibmw: window, bound or not
 *
 * Return: 0.
 * Context: process, may sleep: waits for accesses under way.
 */
int rxng_dealloc_mw(struct ib_mw *ibmw)
{
	struct rxng_mr *mr = to_rxng_mw(ibmw)->mr;

	claim_for_good(mr);
	unbind(mr);
	rxng_mr_unpublish(mr);
	kfree_rcu(mr, rcu);
	rxng_give(&to_rxng_dev(ibmw->device)->num_mw, &ibmw->pd->res);
	return 0;
}

/* C10-73 and what follows it: what a region has to give for a window. */
static int check_base(const struct rxng_mr *base, const struct rxng_bind *bind)
{
	u64 offset = bind->addr - base->iova;

	/* A window of a window, or of all of the kernel's memory. */
	if (base->mw || base->map.linear)
		return -EINVAL;
	if (!(base->access & IB_ACCESS_MW_BIND))
		return -EACCES;
	if (bind->access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(base->access & IB_ACCESS_LOCAL_WRITE))
		return -EACCES;
	if (offset > base->length || bind->length > base->length - offset)
		return -ERANGE;
	return 0;
}

/*
 * The region that a bind names, counting the new window; NULL to take a window
 * back. No reference is held on it: it cannot go while it counts.
 */
static struct rxng_mr *take_base(const struct ib_qp *ibqp,
				 const struct rxng_bind *bind)
{
	struct rxng_mr *base;
	int err;

	if (!bind->length)
		return NULL;
	base = rxng_mr_get(to_rxng_dev(ibqp->device), ibqp->pd, bind->lkey,
			   bind->addr, 0, 0);
	if (IS_ERR(base))
		return base;
	err = check_base(base, bind);
	if (!err && !atomic_inc_unless_negative(&base->windows))
		err = -EBUSY;
	rxng_mr_put(base);
	return err ? ERR_PTR(err) : base;
}

/* @mr is claimed. */
static void show(struct rxng_mr *mr, struct rxng_mr *base,
		 const struct rxng_bind *bind)
{
	const struct rxng_mr_map *map = &base->map;
	u64 at = bind->addr - base->iova + map->page_offset;

	mr->base = base;
	mr->map = (struct rxng_mr_map){
		.pages = map->pages + (at >> map->page_shift),
		.page_shift = map->page_shift,
		.page_offset = at & ((1ull << map->page_shift) - 1),
	};
	mr->iova = bind->access & IB_ZERO_BASED ? 0 : bind->addr;
	mr->length = bind->length;
	mr->access = bind->access;
}

/* Type 1: bound or not; type 2: free (10.6.7.2.2, 10.6.7.2.3). */
static int claim(struct rxng_mr *mr)
{
	return mr->mw->ibmw.type == IB_MW_TYPE_1 ?
		       claim_any(mr) : rxng_mr_claim(mr, RXNG_MR_FREE);
}

static int check_window(const struct rxng_mr *mr, const struct ib_qp *ibqp,
			const struct rxng_bind *bind)
{
	bool type2 = mr->mw->ibmw.type == IB_MW_TYPE_2;

	if (mr->pd != ibqp->pd || mr->key != bind->window)
		return -EINVAL;
	/* Only the lower 8 bits are the consumer's (10.6.7.1). */
	if (rxng_key_index(bind->key) != rxng_key_index(mr->key))
		return -EINVAL;
	/* Of no account, but programs ask for it: a window has no local key. */
	if (bind->access & ~(WINDOW_RIGHTS | IB_ZERO_BASED |
			     IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	/* Only a type 2 window may start from zero, and it cannot be empty. */
	if (type2 ? !bind->length : bind->access & IB_ZERO_BASED)
		return -EINVAL;
	return 0;
}

static int rebind(struct rxng_mr *mr, const struct ib_qp *ibqp,
		  const struct rxng_bind *bind)
{
	struct rxng_mr *base;
	int err;

	err = check_window(mr, ibqp, bind);
	if (err)
		return err;
	base = take_base(ibqp, bind);
	if (IS_ERR(base))
		return PTR_ERR(base);
	err = claim(mr);
	if (err) {
		if (base)
			atomic_dec(&base->windows);
		return err;
	}
	unbind(mr);
	mr->key = bind->key;
	if (base) {
		show(mr, base, bind);
		if (mr->mw->ibmw.type == IB_MW_TYPE_2)
			mr->qpn = ibqp->qp_num;
	}
	smp_store_release(&mr->state, base ? RXNG_MR_VALID : RXNG_MR_FREE);
	return 0;
}

/**
 * rxng_mw_bind - carry out a bind request
 * @ibqp: QP that it was posted to
 * @bind: what it asks for
 *
 * Return: 0, or a negative errno when window, region, range or rights do not
 * allow it (10.6.7.2); nothing has changed then.
 * Context: as rxng_mr_claim().
 */
int rxng_mw_bind(const struct ib_qp *ibqp, const struct rxng_bind *bind)
{
	struct rxng_mr *mr = rxng_mr_find(to_rxng_dev(ibqp->device),
					  bind->window);
	int err;

	if (!mr)
		return -EINVAL;
	err = mr->mw ? rebind(mr, ibqp, bind) : -EINVAL;
	rxng_mr_put(mr);
	return err;
}

/**
 * rxng_mw_invalidate - take a type 2 binding back
 * @mr: window's part, with a reference as of rxng_mr_get()
 *
 * Return: 0, or -EINVAL when it is of type 1 or not bound.
 * Context: as rxng_mr_claim().
 */
int rxng_mw_invalidate(struct rxng_mr *mr)
{
	if (mr->mw->ibmw.type != IB_MW_TYPE_2 ||
	    rxng_mr_claim(mr, RXNG_MR_VALID))
		return -EINVAL;
	unbind(mr);
	smp_store_release(&mr->state, RXNG_MR_FREE);
	return 0;
}
