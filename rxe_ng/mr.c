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
#include <linux/random.h>
#include <linux/slab.h>

#include "mr.h"
#include "mw.h"
#include "proto/key.h"

#define REMOTE_RIGHTS (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		       IB_ACCESS_REMOTE_ATOMIC)
#define PEER_RIGHTS (REMOTE_RIGHTS | RXNG_ACCESS_FLUSH_GLOBAL | \
		     RXNG_ACCESS_FLUSH_PERSISTENT)
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

/**
 * rxng_mr_check_access - may a region have these rights?
 * @access: rights
 * @more: rights that it may have beyond those that every kind of region may
 *
 * Return: 0; -EOPNOTSUPP for what does not exist here; -EINVAL for what
 * contradicts itself.
 * Context: any.
 */
int rxng_mr_check_access(int access, int more)
{
	access &= ~IB_ACCESS_OPTIONAL;
	if (access & ~(SUPPORTED_ACCESS | more))
		return -EOPNOTSUPP;
	if (access & IB_ACCESS_ON_DEMAND && access & NOT_ON_DEMAND)
		return -EOPNOTSUPP;
	/* IBTA 10.6.3.1: a peer cannot write what the owner cannot. */
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

/**
 * rxng_mr_set_access - a region gets rights, and the keys that it shows with them
 * @mr: region that no access is under way to
 * @access: rights that were checked
 */
void rxng_mr_set_access(struct rxng_mr *mr, int access)
{
	mr->access = access & ~IB_ACCESS_OPTIONAL;
	mr->ibmr.lkey = mr->key;
	mr->ibmr.rkey = access & PEER_RIGHTS ? mr->key : 0;
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
	 * it away sees the reference. Also pairs with rxng_mr_resume().
	 */
	smp_mb__after_atomic();
	return mr;
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
	return rxng_mr_covers(mr, iova, len) ? 0 : -ERANGE;
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
 * Making regions, and taking them away.
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

/**
 * rxng_mr_alloc - a region that nobody knows of yet
 * @pd: protection domain
 *
 * Return: the region, to be freed by rxng_mr_release(), or an error pointer.
 * Context: process, may sleep.
 */
struct rxng_mr *rxng_mr_alloc(struct ib_pd *pd)
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
		rxng_mr_set_access(mr, access);
		err = xa_insert(&dev->mrs, rxng_key_index(key), mr,
				GFP_KERNEL);
	}
	return err;
}

/**
 * rxng_mr_unmap - let go of memory that no access can reach any more
 * @map: where the bytes are
 * @umem: pinned user memory, or NULL
 *
 * Context: process, may sleep.
 */
void rxng_mr_unmap(struct rxng_mr_map *map, struct ib_umem *umem)
{
	rxng_odp_destroy(map->odp);
	kvfree(map->pages);
	rxng_dmabuf_put(map->dmabuf);
	ib_umem_release(umem);
}

/**
 * rxng_mr_release - free a region that no access can reach any more
 * @mr: region, whatever there is of it
 *
 * Context: process, may sleep.
 */
void rxng_mr_release(struct rxng_mr *mr)
{
	rxng_mr_unmap(&mr->map, mr->umem);
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

/**
 * rxng_mr_keep_windows_off - let no window be bound to a region
 * @mr: region
 *
 * Windows show a region as it is: with any bound to it, it cannot change.
 *
 * Return: false when a window is bound to it, or another caller had this first.
 * Context: any.
 */
bool rxng_mr_keep_windows_off(struct rxng_mr *mr)
{
	return !atomic_cmpxchg(&mr->windows, 0, -1);
}

/**
 * rxng_mr_let_windows_in - end what rxng_mr_keep_windows_off() began
 * @mr: region
 */
void rxng_mr_let_windows_in(struct rxng_mr *mr)
{
	atomic_set_release(&mr->windows, 0);
}

/**
 * rxng_mr_suspend - turn accesses away from a region that stays
 * @mr: region; no access is under way afterwards
 *
 * Context: process, may sleep.
 */
void rxng_mr_suspend(struct rxng_mr *mr)
{
	/* Who finds it from now on lets go of it at once. */
	WRITE_ONCE(mr->state, RXNG_MR_BUSY);
	quiesce(mr);
}

/**
 * rxng_mr_resume - let accesses in again after rxng_mr_suspend()
 * @mr: region
 *
 * Context: process.
 */
void rxng_mr_resume(struct rxng_mr *mr)
{
	reinit_completion(&mr->idle);
	WRITE_ONCE(mr->state, RXNG_MR_VALID);
	/* Pairs with rxng_mr_find(): who gets a reference sees the change. */
	smp_wmb();
	refcount_set(&mr->refs, 1);
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

	err = rxng_mr_check_access(access, 0);
	if (err)
		return ERR_PTR(err);
	mr = rxng_mr_alloc(ibpd);
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
	rxng_mr_release(mr);
	return ERR_PTR(err);
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
	while (!rxng_mr_keep_windows_off(mr)) {
		if (atomic_read(&mr->windows) > 0)
			return -EBUSY;
		cpu_relax();
	}
	rxng_mr_unpublish(mr);
	rxng_mr_release(mr);
	return 0;
}

static int invalidate_region(struct rxng_mr *mr, bool remote)
{
	int err = -EINVAL;

	if (!rxng_mr_is_fast_reg(mr) ||
	    (remote && !(mr->access & PEER_RIGHTS)) ||
	    !rxng_mr_keep_windows_off(mr))
		return err;
	err = rxng_mr_claim(mr, RXNG_MR_VALID);
	if (!err)
		smp_store_release(&mr->state, RXNG_MR_FREE);
	rxng_mr_let_windows_in(mr);
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
