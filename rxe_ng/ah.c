// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "ah.h"
#include "device.h"
#include "ucontext.h"
#include "../uapi/rxe_ng_abi.h"

/**
 * rxng_av_get - find the address vector that a process names
 * @dev: device
 * @pd: domain that the handle has to be of (10.2.2.1)
 * @num: number of the handle
 *
 * Return: vector, to be given back with rxng_av_put(); NULL when there is none.
 * Context: any.
 */
struct rxng_av *rxng_av_get(struct rxng_dev *dev, const struct ib_pd *pd,
			    u32 num)
{
	struct rxng_av *av;

	rcu_read_lock();
	av = xa_load(&dev->avs, num);
	if (av && (av->pd != pd || !refcount_inc_not_zero(&av->refs)))
		av = NULL;
	rcu_read_unlock();
	return av;
}

/**
 * rxng_av_put - let go of an address vector
 * @av: vector, or NULL
 *
 * Context: any.
 */
void rxng_av_put(struct rxng_av *av)
{
	if (!av || !refcount_dec_and_test(&av->refs))
		return;
	rxng_path_drop_route(&av->path);
	kfree_rcu(av, rcu);
}

/* Consumers in the kernel make handles anywhere, so the lock is for anywhere. */
static int publish(struct rxng_dev *dev, struct rxng_av *av, u32 *num)
{
	unsigned long flags;
	int err;

	xa_lock_irqsave(&dev->avs, flags);
	err = __xa_alloc_cyclic(&dev->avs, num, av, xa_limit_31b,
				&dev->next_av, GFP_ATOMIC | __GFP_NOWARN);
	xa_unlock_irqrestore(&dev->avs, flags);
	return err < 0 ? -ENOMEM : 0;
}

static void unpublish(struct rxng_dev *dev, u32 num)
{
	unsigned long flags;

	xa_lock_irqsave(&dev->avs, flags);
	__xa_erase(&dev->avs, num);
	xa_unlock_irqrestore(&dev->avs, flags);
}

static struct rxng_av *create_av(struct rxng_dev *dev, const struct ib_pd *pd,
				 const struct rdma_ah_attr *attr, gfp_t gfp)
{
	struct rxng_av *av = kzalloc_obj(*av, gfp);
	int err;

	if (!av)
		return ERR_PTR(-ENOMEM);
	refcount_set(&av->refs, 1);
	spin_lock_init(&av->lock);
	av->pd = pd;
	err = rxng_path_init(&av->path, dev, attr, 0, 0);
	if (err) {
		kfree(av);
		return ERR_PTR(err);
	}
	return av;
}

static int create(struct rxng_dev *dev, struct rxng_ah *ah,
		  struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	gfp_t gfp = init->flags & RDMA_CREATE_AH_SLEEPABLE ? GFP_KERNEL :
							     GFP_ATOMIC;
	struct rxng_create_ah_resp resp = {};
	int err;

	ah->av = create_av(dev, ah->ibah.pd, init->ah_attr, gfp);
	if (IS_ERR(ah->av))
		return PTR_ERR(ah->av);
	ah->attr = *init->ah_attr;
	ah->attr.grh.sgid_attr = NULL;
	err = publish(dev, ah->av, &ah->num);
	if (err)
		goto err_av;
	resp.ah_num = ah->num;
	err = rxng_udata_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_publish;
	return 0;

err_publish:
	unpublish(dev, ah->num);
err_av:
	rxng_av_put(ah->av);
	return err;
}

/**
 * rxng_create_ah - make an address handle
 * @ibah: handle to set up
 * @init: destination, and the source by its index in the GID table
 * @udata: private part of a user's call, else NULL
 *
 * Serves as create_ah and as create_user_ah. A process gets a number to put
 * into its requests, so that it cannot choose its source address there.
 *
 * Return: 0 or an error code.
 * Context: any for kernel consumers, process for a user's call.
 */
int rxng_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		   struct ib_udata *udata)
{
	struct rxng_dev *dev = to_rxng_dev(ibah->device);
	int err;

	err = rxng_udata_check(udata, sizeof(struct rxng_create_ah_resp));
	if (err)
		return err;
	if (init->ah_attr->type != RDMA_AH_ATTR_TYPE_ROCE ||
	    !(rdma_ah_get_ah_flags(init->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	if (!rxng_take(&dev->num_ah, RXNG_MAX_AH, &ibah->pd->res))
		return -ENOMEM;
	err = create(dev, to_rxng_ah(ibah), init, udata);
	if (err)
		rxng_give(&dev->num_ah, &ibah->pd->res);
	return err;
}

/**
 * rxng_query_ah - what an address handle was made from
 * @ibah: handle
 * @attr: filled in, without the pointer to the source GID
 *
 * Return: 0.
 * Context: any.
 */
int rxng_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	*attr = to_rxng_ah(ibah)->attr;
	return 0;
}

/**
 * rxng_destroy_ah - an address handle goes
 * @ibah: handle
 * @flags: RDMA_DESTROY_AH_*
 *
 * Return: 0.
 * Context: any.
 */
int rxng_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct rxng_dev *dev = to_rxng_dev(ibah->device);
	struct rxng_ah *ah = to_rxng_ah(ibah);

	unpublish(dev, ah->num);
	rxng_av_put(ah->av);
	rxng_give(&dev->num_ah, &ibah->pd->res);
	return 0;
}
