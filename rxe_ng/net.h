/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RoCEv2 over UDP: sockets of each namespace, routes, sending, receiving. */
#ifndef RXNG_NET_H
#define RXNG_NET_H

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/skbuff.h>
#include <net/dst.h>
#include <net/sock.h>
#include <rdma/ib_verbs.h>

#include "device.h"
#include "proto/packet.h"

/*
 * A received packet or burst: parsed headers; skb->data is its payload, without
 * pad and ICRC. The buffer holds no netdev, route or socket.
 */
static inline struct rxng_pkt *rxng_skb_pkt(struct sk_buff *skb)
{
	static_assert(sizeof(struct rxng_pkt) <= sizeof(skb->cb));
	return (struct rxng_pkt *)skb->cb;
}

/**
 * struct rxng_path - where a QP's packets go
 * @net: namespace of the device
 * @ifindex: netdev of the source GID: the device's own or a VLAN above it
 * @v6: addresses are IPv6
 * @saddr: source address; IPv4 in its mapped form (::ffff:a.b.c.d)
 * @daddr: destination address, likewise
 * @traffic_class: becomes DSCP; ECN bits are ours
 * @hop_limit: TTL or hop limit, never zero
 * @flow_label: IPv6 flow label
 * @sport: UDP source port (annex A17.3.1), the same for all packets
 * @dst: cached route or NULL; owned by whoever owns the QP
 * @cookie: validates @dst for IPv6
 */
struct rxng_path {
	struct net *net;
	int ifindex;
	bool v6;
	struct in6_addr saddr;
	struct in6_addr daddr;
	u8 traffic_class;
	u8 hop_limit;
	u32 flow_label;
	__be16 sport;
	struct dst_entry *dst;
	u32 cookie;
};

/* path.c */
int rxng_path_init(struct rxng_path *path, struct rxng_dev *dev,
		   const struct rdma_ah_attr *attr, u32 sqpn, u32 dqpn);
void rxng_path_drop_route(struct rxng_path *path);
struct dst_entry *rxng_path_route(struct rxng_path *path, struct sock *sk);

/**
 * rxng_path_is_local - does a route end on this host?
 * @dst: a route
 *
 * Return: true when the destination is an address of this namespace, so that
 * the peer QP is one of ours and needs no network in between.
 */
static inline bool rxng_path_is_local(const struct dst_entry *dst)
{
	return dst->dev->flags & IFF_LOOPBACK;
}

struct sk_buff *rxng_skb_alloc(const struct rxng_path *path,
			       const struct dst_entry *dst, u32 len,
			       struct sock *sk);
int rxng_net_send(struct rxng_path *path, struct dst_entry *dst,
		  struct sk_buff *skb, struct sock *sk);

/* net.c */
struct sock *rxng_qp_sock_create(struct rxng_dev *dev, void *owner,
				 void (*write_space)(struct sock *sk));
void rxng_qp_sock_release(struct sock *sk);

int rxng_net_get(struct rxng_dev *dev, struct net *net);
void rxng_net_put(struct rxng_dev *dev);
int rxng_net_init(void);
void rxng_net_exit(void);

#endif
