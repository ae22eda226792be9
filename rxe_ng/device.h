/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The RDMA device: one on each netdev that a link was added to. */
#ifndef RXNG_DEVICE_H
#define RXNG_DEVICE_H

#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/workqueue.h>
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
 * @port_mbps: likewise the speed, as verbs name it; 0 before the first time; only
 *	@speed_work writes it
 * @speed_work: tells consumers of another speed
 * @mrs: memory regions by key index (rxng_key_index()); looked up under RCU
 * @avs: address vectors by the number of their handle; looked up under RCU
 * @next_av: where the search for a free number begins
 * @gsi: QP 1, RCU; NULL without
 * @members: multicast members by group, see mcast.c
 * @mcast_seed: of the hash that chooses among @members
 * @num_mcast: memberships that exist, against RXNG_MAX_MCAST
 * @counter_mutex: protects @counters and @gone
 * @counters: counters of chosen QPs by number
 * @gone: what counters had counted that are gone
 * @num_qp: QPs of processes, against RXNG_MAX_QP
 * @num_srq: likewise SRQs
 * @num_cq: likewise CQs
 * @num_pd: likewise PDs
 * @num_mr: likewise MRs
 * @num_mw: likewise memory windows
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
	u32 port_mbps;
	struct work_struct speed_work;
	struct xarray mrs;
	struct xarray avs;
	u32 next_av;
	struct rxng_qp *gsi;
	struct mutex counter_mutex;
	struct xarray counters;
	struct rxng_stats gone;
	struct hlist_head members[RXNG_MCAST_BUCKETS];
	u32 mcast_seed;
	atomic_t num_mcast;
	atomic_t num_qp;
	atomic_t num_srq;
	atomic_t num_cq;
	atomic_t num_pd;
	atomic_t num_mr;
	atomic_t num_mw;
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
 * @count: objects that processes have
 * @limit: how many they may have
 * @res: the object, or the PD that it belongs to. What a kernel consumer makes
 *	is not counted, so that the CM's objects take nothing off the limit that
 *	query_device tells
 *
 * Return: true when it may be made; give it back with rxng_give().
 * Context: any.
 */
static inline bool rxng_take(atomic_t *count, int limit,
			     const struct rdma_restrack_entry *res)
{
	return rdma_is_kernel_res(res) || atomic_add_unless(count, 1, limit);
}

/**
 * rxng_give - an object that rxng_take() counted is gone
 * @count: as for rxng_take()
 * @res: as for rxng_take()
 *
 * Context: any.
 */
static inline void rxng_give(atomic_t *count,
			     const struct rdma_restrack_entry *res)
{
	if (!rdma_is_kernel_res(res))
		atomic_dec(count);
}

/* device.c */
int rxng_device_create(const char *name, struct net_device *ndev,
		       struct net *net);
void rxng_device_update_port(struct rxng_dev *dev);
bool rxng_device_fits(const struct net_device *ndev);
enum ib_mtu rxng_device_mtu(const struct rxng_dev *dev);

#endif
