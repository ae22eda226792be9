// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Where packets go, and putting them on their way. */
#include <linux/if_vlan.h>
#include <linux/udp.h>
#include <net/addrconf.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/route.h>
#include <rdma/ib_cache.h>

#include "net.h"
#include "proto/icrc.h"

/* IP time to live of an address vector that does not say (RFC 1700). */
#define DEFAULT_HOP_LIMIT 64
/* Packets that are smaller get memory of their own. */
#define SMALL_BYTES 1024

/* The netdev of the GID: the device's own one, a VLAN of it or another upper. */
static int take_netdev(struct rxng_path *path, const struct ib_gid_attr *sgid)
{
	const struct net_device *ndev;
	int err = -ENODEV;

	rcu_read_lock();
	ndev = rcu_dereference(sgid->ndev);
	/* Sockets are in the device's namespace: one of another hears nothing. */
	if (ndev && net_eq(dev_net(ndev), path->net)) {
		path->ifindex = ndev->ifindex;
		path->vlan = is_vlan_dev(ndev) ? vlan_dev_vlan_id(ndev) :
						 RXNG_NO_VLAN;
		err = 0;
	}
	rcu_read_unlock();
	return err;
}

/**
 * rxng_path_sport - source port of what two QPs say to each other
 * @path: where it goes
 * @sqpn: our QP
 * @dqpn: peer's QP
 *
 * Return: port, so that flows spread over queues and links (annex A17.3.1).
 */
__be16 rxng_path_sport(const struct rxng_path *path, u32 sqpn, u32 dqpn)
{
	return htons(rdma_get_udp_sport(path->flow_label, sqpn, dqpn));
}

/**
 * rxng_path_init - take over an address vector
 * @path: path to set up: zeroed or initialised before; its route is dropped
 *	and it is left alone on failure
 * @dev: device
 * @attr: address vector; its source GID is held by the core
 * @sqpn: our QP, for the source port
 * @dqpn: peer's QP, likewise
 *
 * Return: 0; -EINVAL when there is no global route header, the source GID is
 * not of RoCEv2 or the two addresses differ in their kind; -ENODEV when the
 * GID's netdev is gone or in another namespace, or the host has no IPv6.
 * Context: any; the caller owns @path.
 */
int rxng_path_init(struct rxng_path *path, struct rxng_dev *dev,
		   const struct rdma_ah_attr *attr, u32 sqpn, u32 dqpn)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);
	const struct ib_gid_attr *sgid = grh->sgid_attr;
	struct rxng_path new = { .net = dev->net };
	int err;

	if (!(rdma_ah_get_ah_flags(attr) & IB_AH_GRH) || !sgid ||
	    sgid->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP)
		return -EINVAL;
	memcpy(&new.saddr, &sgid->gid, sizeof(new.saddr));
	memcpy(&new.daddr, &grh->dgid, sizeof(new.daddr));
	new.v6 = !ipv6_addr_v4mapped(&new.saddr);
	if (new.v6 == ipv6_addr_v4mapped(&new.daddr) ||
	    ipv6_addr_any(&new.daddr))
		return -EINVAL;
	/* The core lists the default GID whether or not there is IPv6. */
	err = new.v6 && !ipv6_mod_enabled() ? -ENODEV :
					      take_netdev(&new, sgid);
	if (err)
		return err;
	new.traffic_class = grh->traffic_class & ~INET_ECN_MASK;
	new.hop_limit = grh->hop_limit ?: DEFAULT_HOP_LIMIT;
	new.flow_label = grh->flow_label & IB_GRH_FLOWLABEL_MASK;
	new.sport = rxng_path_sport(&new, sqpn, dqpn);
	rxng_path_drop_route(path);
	*path = new;
	return 0;
}

/**
 * rxng_path_drop_route - forget the cached route
 * @path: path; also one without a route
 *
 * Context: any; the caller owns @path.
 */
void rxng_path_drop_route(struct rxng_path *path)
{
	dst_release(path->dst);
	path->dst = NULL;
}

/*
 * Is it an address of this namespace (and VRF)? An IPv6 address counts from
 * the moment it is assigned, as the GID does, and a link-local one belongs to
 * its link.
 */
static bool is_own(const struct rxng_path *path, const struct in6_addr *addr,
		   const struct net_device *ndev)
{
	if (!path->v6)
		return inet_addr_type_dev_table(path->net, ndev,
						addr->s6_addr32[3]) == RTN_LOCAL;
#if IS_ENABLED(CONFIG_IPV6)
	return ipv6_chk_addr_and_flags(path->net, addr, ndev,
				       !(ipv6_addr_type(addr) &
					 IPV6_ADDR_LINKLOCAL), 1, 0);
#else
	return false;
#endif
}

/*
 * Interface that the route is bound to: the GID's, except for an address of
 * this host. That may sit on another interface, and asked for by this one it
 * would be looked for on the wire.
 *
 * Return: interface, or -ENETUNREACH when the source address is not here.
 */
static int route_oif(const struct rxng_path *path)
{
	const struct net_device *ndev;
	int oif = path->ifindex;

	rcu_read_lock();
	ndev = dev_get_by_index_rcu(path->net, oif);
	if (!ndev || !is_own(path, &path->saddr, ndev))
		oif = -ENETUNREACH;
	else if (is_own(path, &path->daddr, ndev) &&
		 !(path->v6 && ipv6_addr_type(&path->daddr) &
		   IPV6_ADDR_LINKLOCAL))
		oif = l3mdev_master_ifindex_rcu(ndev);
	rcu_read_unlock();
	return oif;
}

static struct dst_entry *lookup4(const struct rxng_path *path, int oif,
				 struct sock *sk)
{
	struct flowi4 fl4 = {
		.flowi4_oif = oif,
		.flowi4_proto = IPPROTO_UDP,
		.flowi4_uid = sock_net_uid(path->net, sk),
		.saddr = path->saddr.s6_addr32[3],
		.daddr = path->daddr.s6_addr32[3],
		.fl4_sport = path->sport,
		.fl4_dport = htons(RXNG_UDP_PORT),
	};
	struct rtable *rt;

	rxng_flow_set_dscp(&fl4, path->traffic_class);
	rt = ip_route_output_flow(path->net, &fl4, sk);
	return IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
}

static struct dst_entry *lookup6(const struct rxng_path *path, int oif,
				 struct sock *sk, u32 *cookie)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 fl6 = {
		.flowi6_oif = oif,
		.flowi6_proto = IPPROTO_UDP,
		.flowi6_uid = sock_net_uid(path->net, sk),
		.saddr = path->saddr,
		.daddr = path->daddr,
		.flowlabel = ip6_make_flowinfo(path->traffic_class,
					       htonl(path->flow_label)),
		.fl6_sport = path->sport,
		.fl6_dport = htons(RXNG_UDP_PORT),
	};
	struct dst_entry *dst;

	dst = ip6_dst_lookup_flow(path->net, sk, &fl6, NULL);
	if (!IS_ERR(dst))
		*cookie = rt6_get_cookie(container_of(dst, struct rt6_info,
						      dst));
	return dst;
#else
	return ERR_PTR(-EAFNOSUPPORT);
#endif
}

/**
 * rxng_path_route - find the route, or the cached one again
 * @path: path
 * @sk: socket that packets are accounted to
 *
 * Return: route, which stays the path's; NULL when there is none now;
 * -ENOMEM or -ENOBUFS without memory, which over IPv6 the network does not
 * tell from a missing route.
 * Context: bottom halves off; the caller owns @path.
 */
struct dst_entry *rxng_path_route(struct rxng_path *path, struct sock *sk)
{
	struct dst_entry *dst;
	int oif;

	if (likely(path->dst)) {
		if (likely(dst_check(path->dst, path->cookie)))
			return path->dst;
		rxng_path_drop_route(path);
	}
	oif = route_oif(path);
	if (oif < 0)
		return NULL;
	dst = path->v6 ? lookup6(path, oif, sk, &path->cookie) :
			 lookup4(path, oif, sk);
	if (dst == ERR_PTR(-ENOMEM) || dst == ERR_PTR(-ENOBUFS))
		return dst;
	if (!IS_ERR(dst))
		path->dst = dst;
	return path->dst;
}

static unsigned int ip_len(const struct rxng_path *path)
{
	return path->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

/*
 * Memory for a packet of @size linear bytes; NULL without. Most comes from pages
 * that this CPU cuts up. A page lives until its last piece is freed, so small
 * pieces that wait could hold many times what they count as.
 */
static struct sk_buff *new_skb(u32 size)
{
	u32 whole = SKB_DATA_ALIGN(size) +
		    SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	struct sk_buff *skb;
	void *data;

	if (size <= SMALL_BYTES || whole > PAGE_SIZE)
		return alloc_skb(size, GFP_ATOMIC | __GFP_NOWARN);
	data = napi_alloc_frag(whole);
	if (!data)
		return NULL;
	skb = napi_build_skb(data, whole);
	if (!skb)
		skb_free_frag(data);
	return skb;
}

/**
 * rxng_skb_alloc - make a packet
 * @path: where it will go
 * @dst: its route
 * @len: bytes from the BTH to the end of the ICRC
 * @sk: socket that it is accounted to
 *
 * Return: empty packet with room for headers in front, or NULL without memory.
 * Context: bottom halves off.
 */
struct sk_buff *rxng_skb_alloc(const struct rxng_path *path,
			       const struct dst_entry *dst, u32 len,
			       struct sock *sk)
{
	unsigned int head = LL_RESERVED_SPACE(dst->dev) + dst->header_len +
			    ip_len(path) + sizeof(struct udphdr);
	struct sk_buff *skb;

	skb = new_skb(head + len + dst->trailer_len);
	if (unlikely(!skb))
		return NULL;
	skb_reserve(skb, head);
	skb_set_owner_w(skb, sk);
	/* The queue that the socket says is for its first packet too (tx.c). */
	skb->ooo_okay = 0;
	return skb;
}

static void push_udp(const struct rxng_path *path, struct sk_buff *skb)
{
	struct udphdr *uh = skb_push(skb, sizeof(*uh));

	skb_reset_transport_header(skb);
	uh->source = path->sport;
	uh->dest = htons(RXNG_UDP_PORT);
	uh->len = htons(skb->len);
	/* None: the ICRC does its work (annex A17.3.1). */
	uh->check = 0;
}

/* @len: bytes behind the header. */
static void fill_ipv4(const struct rxng_path *path, u32 len, struct iphdr *iph)
{
	*iph = (struct iphdr){
		.version = IPVERSION,
		.ihl = sizeof(*iph) / 4,
		.tos = path->traffic_class,
		.tot_len = htons(sizeof(*iph) + len),
		.frag_off = htons(IP_DF),
		.ttl = path->hop_limit,
		.protocol = IPPROTO_UDP,
		.saddr = path->saddr.s6_addr32[3],
		.daddr = path->daddr.s6_addr32[3],
	};
}

static void fill_ipv6(const struct rxng_path *path, u32 len,
		      struct ipv6hdr *ip6h)
{
	ip6_flow_hdr(ip6h, path->traffic_class, htonl(path->flow_label));
	ip6h->payload_len = htons(len);
	ip6h->nexthdr = IPPROTO_UDP;
	ip6h->hop_limit = path->hop_limit;
	ip6h->saddr = path->saddr;
	ip6h->daddr = path->daddr;
}

static void push_ip(const struct rxng_path *path, struct sk_buff *skb)
{
	u32 len = skb->len;
	void *header = skb_push(skb, ip_len(path));

	skb_reset_network_header(skb);
	if (path->v6) {
		skb->protocol = htons(ETH_P_IPV6);
		memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
		fill_ipv6(path, len, header);
	} else {
		skb->protocol = htons(ETH_P_IP);
		memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
		fill_ipv4(path, len, header);
	}
}

/**
 * rxng_path_grh - what a datagram's receiver finds in front of it
 * @path: where the datagram goes
 * @len: bytes from the BTH to the end of the ICRC
 * @grh: RXNG_GRH_LEN bytes: the IPv6 header, or the IPv4 header in the last 20
 *	of them (annex A17.4.5.1), as they would be on the wire
 */
void rxng_path_grh(const struct rxng_path *path, u32 len, void *grh)
{
	struct iphdr *iph = grh + RXNG_GRH_LEN - sizeof(*iph);

	static_assert(sizeof(struct ib_grh) == sizeof(struct ipv6hdr));
	len += sizeof(struct udphdr);
	if (path->v6) {
		fill_ipv6(path, len, grh);
		return;
	}
	memset(grh, 0, RXNG_GRH_LEN - sizeof(*iph));
	fill_ipv4(path, len, iph);
	ip_send_check(iph);
}

static void put_icrc(const struct rxng_path *path, struct sk_buff *skb)
{
	u8 *bth = skb_transport_header(skb) + sizeof(struct udphdr);
	u8 *payload = bth + sizeof(struct rxng_bth);
	u8 *tail = skb_tail_pointer(skb) - RXNG_ICRC_LEN;
	__le32 icrc;
	u32 crc;

	crc = rxng_icrc_headers(skb_network_header(skb), path->v6,
				skb_transport_header(skb), bth,
				sizeof(struct rxng_bth));
	icrc = rxng_icrc_final(rxng_icrc_update(crc, payload, tail - payload));
	memcpy(tail, &icrc, sizeof(icrc));
}

static int local_out(const struct rxng_path *path, struct sk_buff *skb,
		     struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (path->v6)
		return ip6_local_out(path->net, sk, skb);
#endif
	return ip_local_out(path->net, sk, skb);
}

/**
 * rxng_net_send - put a packet on its way
 * @path: where it goes
 * @dst: its route, from rxng_path_route() in the same ownership of its path
 * @skb: packet from rxng_skb_alloc(), from the BTH to an ICRC yet to be
 *	computed, all of it linear; consumed
 * @sk: socket that it is accounted to
 *
 * Return: 0 when it left or was lost, and the transport's timers are to see to
 * it; -ENOBUFS when it certainly did not leave and may be sent again soon: a
 * queue is full, or memory short. What a packet filter drops looks like that
 * too, so that a refusal may last.
 * Context: bottom halves off.
 */
int rxng_net_send(const struct rxng_path *path, struct dst_entry *dst,
		  struct sk_buff *skb, struct sock *sk)
{
	int err;

	push_udp(path, skb);
	push_ip(path, skb);
	put_icrc(path, skb);
	skb->priority = rt_tos2priority(path->traffic_class);

	rcu_read_lock();
	/* The path keeps the route; who queues the packet takes a reference. */
	skb_dst_set_noref(skb, dst);
	err = local_out(path, skb, sk);
	rcu_read_unlock();
	switch (err) {
	case NET_XMIT_DROP:
	case -ENOBUFS:
	case -ENOMEM:
	case -EAGAIN:
		return -ENOBUFS;
	default:
		/*
		 * With NET_XMIT_CN this one is queued and some other packet was
		 * dropped for it.
		 */
		return 0;
	}
}
