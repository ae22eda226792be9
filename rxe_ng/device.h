/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The RDMA device: one on each netdev that a link was added to. */
#ifndef RXNG_DEVICE_H
#define RXNG_DEVICE_H

#include <linux/netdevice.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "limits.h"
#include "stats.h"

/**
 * struct rxng_dev - one RDMA device
 * @ibdev: the core's part; first, so that ib_alloc_device() can size it
 * @ndev: netdev below; held from newlink until dealloc_driver
 * @tracker: reference tracker of @ndev
 * @net: namespace of @ndev when the link was added; the device goes before
 *	the namespace does, and when @ndev leaves it. NULL until the namespace's
 *	sockets are taken
 * @net_entry: in the list of the namespace's devices; RCU
 * @port_state: port state that consumers were told last; protected by RTNL
 * @mrs: memory regions by key index (rxng_key_index()); looked up under RCU
 * @num_qp: QPs that exist, against RXNG_MAX_QP
 * @num_cq: likewise CQs
 * @num_pd: likewise PDs
 * @num_mr: likewise MRs
 * @num_ah: likewise AHs
 * @num_ucontext: likewise user contexts
 * @stats: per-CPU counters
 */
struct rxng_dev {
	struct ib_device ibdev;
	struct net_device *ndev;
	netdevice_tracker tracker;
	struct net *net;
	struct list_head net_entry;
	enum ib_port_state port_state;
	struct xarray mrs;
	atomic_t num_qp;
	atomic_t num_cq;
	atomic_t num_pd;
	atomic_t num_mr;
	atomic_t num_ah;
	atomic_t num_ucontext;
	struct rxng_stats __percpu *stats;
};

static inline struct rxng_dev *to_rxng_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct rxng_dev, ibdev);
}

/**
 * rxng_take - count one more object against a limit
 * @count: objects that exist
 * @limit: how many may
 *
 * Return: true when it was counted; give it back with atomic_dec().
 * Context: any.
 */
static inline bool rxng_take(atomic_t *count, int limit)
{
	return atomic_add_unless(count, 1, limit);
}

/* device.c */
int rxng_device_create(const char *name, struct net_device *ndev,
		       struct net *net);
void rxng_device_update_port(struct rxng_dev *dev);
bool rxng_device_fits(const struct net_device *ndev);
enum ib_mtu rxng_device_mtu(const struct rxng_dev *dev);

#endif
