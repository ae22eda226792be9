// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "device.h"
#include "pd.h"
#include "ucontext.h"

/**
 * rxng_alloc_pd - make a protection domain
 * @ibpd: domain to set up
 * @udata: private part of a user's call, else NULL
 *
 * Return: 0 or an error code.
 * Context: process, may sleep.
 */
int rxng_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct rxng_dev *dev = to_rxng_dev(ibpd->device);
	int err;

	err = rxng_udata_unused(udata);
	if (err)
		return err;
	return rxng_take(&dev->num_pd, RXNG_MAX_PD, &ibpd->res) ? 0 : -ENOMEM;
}

/**
 * rxng_dealloc_pd - a protection domain goes
 * @ibpd: domain without objects; the core counts them
 * @udata: private part of a user's call, else NULL
 *
 * Return: 0.
 * Context: process, may sleep.
 */
int rxng_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	rxng_give(&to_rxng_dev(ibpd->device)->num_pd, &ibpd->res);
	return 0;
}
