/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Address handles: where a datagram goes. */
#ifndef RXNG_AH_H
#define RXNG_AH_H

#include <rdma/ib_verbs.h>

#include "net.h"

/**
 * struct rxng_ah - an address handle
 * @ibah: the core's part; holds a reference on the source GID
 * @attr: what it was made from; the source GID's pointer is @ibah's to keep
 * @path: the same, checked and in the terms of the network; without a route
 */
struct rxng_ah {
	struct ib_ah ibah;
	struct rdma_ah_attr attr;
	struct rxng_path path;
};

static inline struct rxng_ah *to_rxng_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct rxng_ah, ibah);
}

/* Device operations, ah.c; see struct ib_device_ops. */
int rxng_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		   struct ib_udata *udata);
int rxng_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int rxng_destroy_ah(struct ib_ah *ibah, u32 flags);

#endif
