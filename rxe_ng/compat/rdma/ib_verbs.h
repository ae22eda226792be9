/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <rdma/ib_verbs.h>

/*
 * The kernel's header comes back to itself through others: add to it when its
 * end was reached, which a macro defined there tells.
 */
#if defined(IB_GRH_FLOWLABEL_MASK) && !defined(RXNG_COMPAT_RDMA_IB_VERBS_H)
#define RXNG_COMPAT_RDMA_IB_VERBS_H

#include "rxng_probes.h"

/* Older kernels have all devices in the first namespace, or in all of them. */
#ifndef ib_alloc_device_with_net
#define ib_alloc_device_with_net(drv_struct, member, net) \
	((void)(net), ib_alloc_device(drv_struct, member))
#endif

#ifndef RXNG_HAVE_CURR_PORT_STATE
static inline enum ib_port_state ib_get_curr_port_state(struct net_device *ndev)
{
	return netif_running(ndev) && netif_carrier_ok(ndev) ?
		IB_PORT_ACTIVE : IB_PORT_DOWN;
}
#endif

static inline void rxng_dispatch_speed_change(struct ib_device *ibdev)
{
#ifdef RXNG_HAVE_SPEED_EVENT
	struct ib_event event = {
		.device = ibdev,
		.element.port_num = 1,
		.event = IB_EVENT_DEVICE_SPEED_CHANGE,
	};

	ib_dispatch_event(&event);
#endif
}

#ifndef RXNG_HAVE_NAME_ASSIGNED
static inline void ib_mark_name_assigned_by_user(struct ib_device *ibdev)
{
}
#endif

#endif
