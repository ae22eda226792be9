// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ah.h"
#include "device.h"
#include "ucontext.h"
#include "../uapi/rxe_ng_abi.h"

/**
 * rxng_create_ah - make an address handle
 * @ibah: handle to set up
 * @init: destination, and the source by its index in the GID table
 * @udata: private part of a user's call, else NULL
 *
 * Serves as create_ah and as create_user_ah.
 *
 * Return: 0 or an error code.
 * Context: any for kernel consumers, process for a user's call.
 */
int rxng_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		   struct ib_udata *udata)
{
	/* Number zero makes the provider write addresses into its requests. */
	static const struct rxng_create_ah_resp resp;
	struct rxng_dev *dev = to_rxng_dev(ibah->device);
	struct rxng_ah *ah = to_rxng_ah(ibah);
	int err;

	err = rxng_udata_check(udata, 0);
	if (err)
		return err;
	if (init->ah_attr->type != RDMA_AH_ATTR_TYPE_ROCE ||
	    !(rdma_ah_get_ah_flags(init->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	if (!rxng_take(&dev->num_ah, RXNG_MAX_AH))
		return -ENOMEM;

	/* Source port and queue pair numbers are those of each sender. */
	err = rxng_path_init(&ah->path, dev, init->ah_attr, 0, 0);
	if (err)
		goto err_count;
	ah->attr = *init->ah_attr;
	ah->attr.grh.sgid_attr = NULL;

	err = rxng_udata_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_path;
	return 0;

err_path:
	rxng_path_drop_route(&ah->path);
err_count:
	atomic_dec(&dev->num_ah);
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
 * @ibah: handle that no request under way refers to
 * @flags: RDMA_DESTROY_AH_*
 *
 * Return: 0.
 * Context: any.
 */
int rxng_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	rxng_path_drop_route(&to_rxng_ah(ibah)->path);
	atomic_dec(&to_rxng_dev(ibah->device)->num_ah);
	return 0;
}
