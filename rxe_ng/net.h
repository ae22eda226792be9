/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RoCEv2 over UDP: sockets of each namespace, routes, sending, receiving. */
#ifndef RXNG_NET_H
#define RXNG_NET_H

#include <linux/if_vlan.h>
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
 * pad and ICRC, for a datagram behind the RXNG_GRH_LEN bytes of its global route
 * header. The buffer holds no netdev, route or socket.
 */
#define RXNG_GRH_LEN ((u32)sizeof(struct ib_grh))

static inline struct rxng_pkt *rxng_skb_pkt(struct sk_buff *skb)
{
	static_assert(sizeof(struct rxng_pkt) <= sizeof(skb->cb));
	return (struct rxng_pkt *)skb->cb;
}

/**
 * struct rxng_path - where packets go
 * @net: namespace of the device
 * @ifindex: netdev of the source GID: the device's own or a VLAN above it
 * @vlan: id of that VLAN, else RXNG_NO_VLAN
 * @v6: addresses are IPv6
 * @saddr: source address; IPv4 in its mapped form (::ffff:a.b.c.d)
 * @daddr: destination address, likewise
 * @traffic_class: becomes DSCP; ECN bits are ours
 * @hop_limit: TTL or hop limit, never zero
 * @flow_label: IPv6 flow label
 * @sport: UDP source port (annex A17.3.1), the same for all packets
 * @dst: cached route or NULL; owned by whoever owns the QP or address vector
 * @cookie: validates @dst for IPv6
 */
struct rxng_path {
	struct net *net;
	int ifindex;
	u16 vlan;
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
__be16 rxng_path_sport(const struct rxng_path *path, u32 sqpn, u32 dqpn);
void rxng_path_drop_route(struct rxng_path *path);
struct dst_entry *rxng_path_route(struct rxng_path *path, struct sock *sk);

/* The netdev that a VLAN is on, or a netdev itself. */
static inline const struct net_device *
rxng_real_dev(const struct net_device *ndev)
{
	return is_vlan_dev(ndev) ? vlan_dev_real_dev(ndev) : ndev;
}

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

/**
 * rxng_skb_done - a packet was taken up
 * @skb: packet, freed
 *
 * Context: bottom halves off, which is what the second argument says.
 */
static inline void rxng_skb_done(struct sk_buff *skb)
{
	napi_consume_skb(skb, 1);
}

struct sk_buff *rxng_skb_alloc(const struct rxng_path *path,
			       const struct dst_entry *dst, u32 len,
			       struct sock *sk);
int rxng_net_send(const struct rxng_path *path, struct dst_entry *dst,
		  struct sk_buff *skb, struct sock *sk);
void rxng_path_grh(const struct rxng_path *path, u32 len, void *grh);

/* net.c */
struct rxng_qp *rxng_net_find_qp(const struct net *net,
				 const struct net_device *ndev, u32 qpn,
				 const struct in6_addr *daddr);
struct sock *rxng_qp_sock_create(struct rxng_dev *dev, void *owner,
				 void (*write_space)(struct sock *sk));
void rxng_qp_sock_release(struct sock *sk);

int rxng_net_get(struct rxng_dev *dev, struct net *net);
void rxng_net_put(struct rxng_dev *dev);
int rxng_net_init(void);
void rxng_net_exit(void);

#endif
