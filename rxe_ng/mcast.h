/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Multicast groups: which QPs hear what is sent to an address. */
#ifndef RXNG_MCAST_H
#define RXNG_MCAST_H

#include <linux/skbuff.h>
#include <rdma/ib_verbs.h>

#include "device.h"

struct rxng_qp;

bool rxng_mcast_deliver(struct rxng_dev *dev, struct sk_buff *skb,
			const struct in6_addr *saddr,
			const struct in6_addr *daddr);
void rxng_mcast_follow(struct rxng_dev *dev);

/* Device operations, mcast.c; see struct ib_device_ops. */
int rxng_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int rxng_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

#endif
