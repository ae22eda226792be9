/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Address handles: where a datagram goes. */
#ifndef RXNG_AH_H
#define RXNG_AH_H

#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "net.h"

/**
 * struct rxng_av - address vector: what an address handle stands for
 * @refs: one of the handle, one of each request that is posted with it
 * @rcu: it goes when nobody looks it up any more
 * @pd: domain of the handle; compared only
 * @lock: ownership of @path; bottom halves are off, and of the module's locks
 *	only an inbox's is taken inside
 * @path: where datagrams go. Its source port is of no account: each pair of
 *	QPs has its own
 *
 * It lives on when the handle is destroyed under requests that are posted.
 */
struct rxng_av {
	refcount_t refs;
	struct rcu_head rcu;
	const struct ib_pd *pd;
	spinlock_t lock;
	struct rxng_path path;
};

/**
 * struct rxng_ah - an address handle
 * @ibah: the core's part; holds a reference on the source GID
 * @attr: what it was made from; the source GID's pointer is @ibah's to keep
 * @num: by which a process names it in its requests; never zero
 * @av: where it leads
 */
struct rxng_ah {
	struct ib_ah ibah;
	struct rdma_ah_attr attr;
	u32 num;
	struct rxng_av *av;
};

static inline struct rxng_ah *to_rxng_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct rxng_ah, ibah);
}

struct rxng_av *rxng_av_get(struct rxng_dev *dev, const struct ib_pd *pd,
			    u32 num);
void rxng_av_put(struct rxng_av *av);

/* Device operations, ah.c; see struct ib_device_ops. */
int rxng_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
		   struct ib_udata *udata);
int rxng_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int rxng_destroy_ah(struct ib_ah *ibah, u32 flags);

#endif
