/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Protection domains: only their identity counts. */
#ifndef RXNG_PD_H
#define RXNG_PD_H

#include <rdma/ib_verbs.h>

/**
 * struct rxng_pd - a protection domain
 * @ibpd: the core's part
 */
struct rxng_pd {
	struct ib_pd ibpd;
};

/* Device operations, pd.c; see struct ib_device_ops. */
int rxng_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int rxng_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

#endif
