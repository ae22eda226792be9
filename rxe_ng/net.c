// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Sockets of network namespaces and of QPs, and what arrives on them. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/udp.h>
#include <linux/wait.h>
#include <net/addrconf.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#include "mcast.h"
#include "net.h"
#include "proto/icrc.h"
#include "qp.h"
#include "trace.h"

/**
 * struct rxng_net - a network namespace
 * @devs: its devices; changed under net_mutex, read under RCU
 * @sk4: IPv4 socket on the RoCEv2 port, while there are devices
 * @sk6: IPv6 socket, NULL where the host has no IPv6
 */
struct rxng_net {
	struct list_head devs;
	struct sock *sk4;
	struct sock *sk6;
};

static unsigned int net_id;
/* Protects members of struct rxng_net. Outside of it: nothing; RTNL inside. */
static DEFINE_MUTEX(net_mutex);
/* Woken when a namespace lost its last device. */
static DECLARE_WAIT_QUEUE_HEAD(net_wait);

/*
 * A packet that belongs to no QP counts with the device that it came in by, or
 * else with the namespace's first one.
 */
static void count_stray(const struct net *net, const struct net_device *ndev,
			u32 qpn, enum rxng_stat stat)
{
	const struct rxng_net *rn = net_generic(net, net_id);
	struct rxng_dev *dev, *found = NULL;

	trace_rxng_drop(qpn, stat);
	list_for_each_entry_rcu(dev, &rn->devs, net_entry) {
		if (dev->ndev == ndev) {
			found = dev;
			break;
		}
		if (!found)
			found = dev;
	}
	if (found)
		rxng_stat_inc(found, stat);
}

/* The CRC over bytes of a packet, wherever they lie. */
static u32 icrc_skb(struct sk_buff *skb, u32 crc, unsigned int from,
		    unsigned int to)
{
	unsigned int head = min(skb_headlen(skb), to);
	struct skb_seq_state seq;
	unsigned int done = 0;
	const u8 *data;
	unsigned int n;

	if (from < head) {
		crc = rxng_icrc_update(crc, skb->data + from, head - from);
		from = head;
	}
	if (likely(from == to))
		return crc;
	skb_prepare_seq_read(skb, from, to, &seq);
	while ((n = skb_seq_read(done, &data, &seq))) {
		/* The last block goes on to the end of its fragment. */
		n = min(n, to - from - done);
		crc = rxng_icrc_update(crc, data, n);
		done += n;
	}
	return crc;
}

/* @skb starts at its UDP header, and ends with the ICRC. */
static bool icrc_ok(struct sk_buff *skb, bool v6)
{
	const unsigned int bth = sizeof(struct udphdr);
	const unsigned int tail = skb->len - RXNG_ICRC_LEN;
	__le32 icrc;
	u32 crc;

	crc = rxng_icrc_headers(skb_network_header(skb), v6, skb->data,
				skb->data + bth, sizeof(struct rxng_bth));
	crc = icrc_skb(skb, crc, bth + sizeof(struct rxng_bth), tail);
	return !skb_copy_bits(skb, tail, &icrc, sizeof(icrc)) &&
	       icrc == rxng_icrc_final(crc);
}

/*
 * Check a datagram's form and take it apart. Options and extension headers
 * have no place under the ICRC.
 *
 * Return: true when rxng_skb_pkt() is filled in.
 */
static bool parse(struct sk_buff *skb, bool v6, u16 *pkey)
{
	const int ip_len = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	unsigned int hdr;

	hdr = min_t(unsigned int, skb->len, sizeof(struct udphdr) + RXNG_MAX_HDR);
	if (hdr < sizeof(struct udphdr) || !pskb_may_pull(skb, hdr))
		return false;
	if (skb_network_offset(skb) != -ip_len ||
	    ntohs(((struct udphdr *)skb->data)->len) != skb->len)
		return false;
	return rxng_parse(skb->data + sizeof(struct udphdr),
			  hdr - sizeof(struct udphdr),
			  skb->len - sizeof(struct udphdr),
			  rxng_skb_pkt(skb), pkey) == RXNG_PARSE_OK;
}

/**
 * struct arrival - what the network says of a packet
 * @v6: it came over IPv6
 * @pkey: its partition key
 * @saddr: source address, IPv4 mapped
 * @daddr: destination address, likewise
 * @ndev: netdev that it came in by, that below a VLAN
 */
struct arrival {
	bool v6;
	u16 pkey;
	struct in6_addr saddr;
	struct in6_addr daddr;
	const struct net_device *ndev;
};

static void take_addresses(const struct sk_buff *skb, struct arrival *from)
{
	if (from->v6) {
		from->saddr = ipv6_hdr(skb)->saddr;
		from->daddr = ipv6_hdr(skb)->daddr;
	} else {
		ipv6_addr_set_v4mapped(ip_hdr(skb)->saddr, &from->saddr);
		ipv6_addr_set_v4mapped(ip_hdr(skb)->daddr, &from->daddr);
	}
}

/* The packet's IP header becomes what stands before a datagram's payload. */
static bool put_grh(struct sk_buff *skb, bool v6)
{
	u8 grh[RXNG_GRH_LEN] = {};

	if (v6)
		memcpy(grh, ipv6_hdr(skb), sizeof(struct ipv6hdr));
	else
		memcpy(grh + sizeof(grh) - sizeof(struct iphdr), ip_hdr(skb),
		       sizeof(struct iphdr));
	/* Others may look at the headers in its place. */
	if (skb_cow_head(skb, sizeof(grh)))
		return false;
	memcpy(skb_push(skb, sizeof(grh)), grh, sizeof(grh));
	return true;
}

/*
 * Leave the payload only, and let go of all that the packet brought along: it
 * may wait in a queue for longer than a netdev, route or namespace lives.
 */
static bool strip(struct sk_buff *skb, bool v6)
{
	const struct rxng_pkt *pkt = rxng_skb_pkt(skb);

	__skb_pull(skb, sizeof(struct udphdr) + rxng_hdr_len(pkt));
	if (pskb_trim(skb, pkt->payload_len))
		return false;
	if (pkt->flags & RXNG_PKT_DETH && !put_grh(skb, v6))
		return false;
	skb_orphan(skb);
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	skb_ext_reset(skb);
	skb->dev = NULL;
	return true;
}

static bool has_ipv4(const struct net_device *ndev, __be32 addr)
{
	const struct in_device *in = __in_dev_get_rcu(ndev);
	const struct in_ifaddr *ifa;

	if (!in)
		return false;
	in_dev_for_each_ifa_rcu(ifa, in)
		if (ifa->ifa_local == addr)
			return true;
	return false;
}

struct sought {
	const struct net *net;
	const struct in6_addr *addr;
};

/*
 * An address counts from the moment it is assigned, as its GID does, and in
 * the device's namespace, which a netdev above its own may have left.
 */
static int is_on(struct net_device *ndev, struct netdev_nested_priv *priv)
{
	const struct sought *sought = priv->data;
	const struct in6_addr *addr = sought->addr;

	if (!net_eq(dev_net(ndev), sought->net))
		return 0;
	if (ipv6_addr_v4mapped(addr))
		return has_ipv4(ndev, addr->s6_addr32[3]);
	return IS_ENABLED(CONFIG_IPV6) &&
	       ipv6_chk_addr_and_flags(dev_net(ndev), addr, ndev, false, 1, 0);
}

/*
 * Is it an address of the device: of its netdev, or of one above it? Another
 * netdev may have the same address.
 */
static bool has_address(struct rxng_dev *dev, const struct in6_addr *addr)
{
	struct sought sought = { .net = dev->net, .addr = addr };
	struct netdev_nested_priv priv = { .data = &sought };

	return is_on(dev->ndev, &priv) ||
	       netdev_walk_all_upper_dev_rcu(dev->ndev, is_on, &priv);
}

/*
 * Each device has a QP 1: the address says which one is meant, and where two
 * have the same one, the netdev that the packet came in by.
 */
static struct rxng_qp *find_gsi(const struct net *net,
				const struct net_device *ndev,
				const struct in6_addr *daddr)
{
	const struct rxng_net *rn = net_generic(net, net_id);
	struct rxng_qp *found = NULL;
	struct rxng_dev *dev;

	list_for_each_entry_rcu(dev, &rn->devs, net_entry) {
		struct rxng_qp *qp = READ_ONCE(dev->gsi);

		if (!qp || !has_address(dev, daddr))
			continue;
		if (dev->ndev == ndev)
			return qp;
		if (!found)
			found = qp;
	}
	return found;
}

/**
 * rxng_net_find_qp - find the QP that a packet is for
 * @net: namespace that it is in
 * @ndev: netdev that it came in by; NULL for one of this host
 * @qpn: destination QP, not that of multicast
 * @daddr: destination address, IPv4 mapped
 *
 * Return: QP, which stays until rcu_read_unlock(), or NULL.
 * Context: RCU read-side section.
 */
struct rxng_qp *rxng_net_find_qp(const struct net *net,
				 const struct net_device *ndev, u32 qpn,
				 const struct in6_addr *daddr)
{
	struct rxng_qp *qp;

	if (qpn == RXNG_GSI_QPN)
		return find_gsi(net, ndev, daddr);
	qp = rxng_qp_lookup(qpn);
	if (!qp || !net_eq(rxng_qp_net(qp), net))
		return NULL;
	/* Connected ones know their addresses themselves. */
	if (qp->req.service == RXNG_SERVICE_UD &&
	    !has_address(rxng_qp_dev(qp), daddr))
		return NULL;
	return qp;
}

/* Return: what to count @skb as and drop it, or -1 when it may be taken. */
static int check(struct sk_buff *skb, const struct arrival *from)
{
	/* Full and limited members may talk to a full one (10.9.3). */
	if ((from->pkey ^ RXNG_PKEY_DEFAULT) & 0x7fff)
		return RXNG_STAT_RX_BAD_PKEY;
	return icrc_ok(skb, from->v6) ? -1 : RXNG_STAT_RX_ICRC_ERR;
}

/* What a datagram's completion tells that is not in its headers. */
static void note_origin(struct sk_buff *skb, const struct arrival *from)
{
	struct rxng_pkt *pkt = rxng_skb_pkt(skb);

	if (!(pkt->flags & RXNG_PKT_DETH))
		return;
	pkt->bits |= from->v6 ? RXNG_PKT_IPV6 : 0;
	pkt->vlan = is_vlan_dev(skb->dev) ? vlan_dev_vlan_id(skb->dev) :
					    RXNG_NO_VLAN;
}

/* Return: what to count @skb as and drop it, or -1 when it was passed on. */
static int receive_qp(struct rxng_qp *qp, struct sk_buff *skb,
		      const struct arrival *from)
{
	int stat = check(skb, from);

	if (stat >= 0)
		return stat;
	if (!strip(skb, from->v6))
		return RXNG_STAT_RX_QUEUE_FULL;
	rxng_qp_count(qp, RXNG_STAT_RX_PKTS, 1);
	rxng_qp_count(qp, RXNG_STAT_RX_BYTES, rxng_skb_pkt(skb)->payload_len);
	rxng_qp_receive(qp, skb, &from->saddr, &from->daddr);
	return -1;
}

/* To the members on the netdev that it came in by. */
static int receive_multicast(struct net *net, struct sk_buff *skb,
			     const struct arrival *from)
{
	const struct rxng_net *rn = net_generic(net, net_id);
	int stat = check(skb, from);
	struct rxng_dev *dev;
	bool heard = false;

	if (stat >= 0)
		return stat;
	if (!strip(skb, from->v6))
		return RXNG_STAT_RX_QUEUE_FULL;
	list_for_each_entry_rcu(dev, &rn->devs, net_entry)
		if (dev->ndev == from->ndev)
			heard |= rxng_mcast_deliver(dev, skb, &from->saddr,
						    &from->daddr);
	if (!heard)
		return RXNG_STAT_RX_NO_QP;
	consume_skb(skb);
	return -1;
}

/* To a QP of ours; else it counts with no QP. Return: as receive_qp(). */
static int receive_unicast(struct net *net, struct sk_buff *skb,
			   const struct arrival *from, u32 qpn)
{
	struct rxng_qp *qp = rxng_net_find_qp(net, from->ndev, qpn,
					      &from->daddr);
	int stat;

	if (!qp) {
		count_stray(net, from->ndev, qpn, RXNG_STAT_RX_NO_QP);
		return RXNG_STAT_RX_NO_QP;
	}
	stat = receive_qp(qp, skb, from);
	if (stat >= 0)
		rxng_qp_drop(qp, stat);
	return stat;
}

/* Return: 0 or more when @skb is to be dropped, which was counted. */
static int receive(struct net *net, struct sk_buff *skb, bool v6)
{
	struct arrival from = { .v6 = v6, .ndev = rxng_real_dev(skb->dev) };
	u32 qpn;
	int stat;

	if (!parse(skb, v6, &from.pkey)) {
		count_stray(net, from.ndev, 0, RXNG_STAT_RX_MALFORMED);
		return RXNG_STAT_RX_MALFORMED;
	}
	take_addresses(skb, &from);
	note_origin(skb, &from);
	qpn = rxng_skb_pkt(skb)->qpn;
	if (qpn != RXNG_MULTICAST_QPN)
		return receive_unicast(net, skb, &from, qpn);
	stat = receive_multicast(net, skb, &from);
	if (stat >= 0)
		count_stray(net, from.ndev, qpn, stat);
	return stat;
}

/* A datagram for the RoCEv2 port; UDP has checked its length and checksum. */
static int encap_rcv(struct sock *sk, struct sk_buff *skb)
{
	/* UDP calls us so already; this says it to lockdep. */
	rcu_read_lock();
	if (receive(sock_net(sk), skb, sk->sk_family == AF_INET6) >= 0)
		kfree_skb(skb);
	rcu_read_unlock();
	return 0;
}

static int open_socket(struct net *net, sa_family_t family, struct sock **skp)
{
	struct udp_tunnel_sock_cfg tunnel = {
		/* Any type: it only says that there is a receiver. */
		.encap_type = 1,
		.encap_rcv = encap_rcv,
	};
	struct udp_port_cfg port = {
		.family = family,
		.local_udp_port = htons(RXNG_UDP_PORT),
		.ipv6_v6only = family == AF_INET6,
	};
	struct socket *sock;
	int err;

	err = udp_sock_create(net, &port, &sock);
	if (err)
		return err;
	setup_udp_tunnel_sock(net, sock->sk, &tunnel);
	*skp = sock->sk;
	return 0;
}

static void close_socket(struct sock **skp)
{
	if (*skp)
		udp_tunnel_sock_release(*skp);
	*skp = NULL;
}

static int open_sockets(struct net *net, struct rxng_net *rn)
{
	int err;

	err = open_socket(net, AF_INET, &rn->sk4);
	if (err)
		goto err_port;
	err = open_socket(net, AF_INET6, &rn->sk6);
	if (err && err != -EAFNOSUPPORT && err != -EPFNOSUPPORT)
		goto err_sk4;
	return 0;

err_sk4:
	close_socket(&rn->sk4);
err_port:
	if (err == -EADDRINUSE)
		pr_err("UDP port %d is taken in this network namespace\n",
		       RXNG_UDP_PORT);
	return err;
}

/**
 * rxng_net_get - bring a device into a network namespace
 * @dev: device
 * @net: namespace of its netdev; the first device opens the sockets
 *
 * Return: 0 or an error code, -EADDRINUSE when somebody else has the port.
 * Context: process.
 */
int rxng_net_get(struct rxng_dev *dev, struct net *net)
{
	struct rxng_net *rn = net_generic(net, net_id);
	int err = 0;

	mutex_lock(&net_mutex);
	if (list_empty(&rn->devs))
		err = open_sockets(net, rn);
	if (!err) {
		dev->net = net;
		list_add_tail_rcu(&dev->net_entry, &rn->devs);
	}
	mutex_unlock(&net_mutex);
	return err;
}

/**
 * rxng_net_put - take a device out of its namespace
 * @dev: device, also one that rxng_net_get() failed for; afterwards the receive
 *	side does not use it any more
 *
 * Context: process.
 */
void rxng_net_put(struct rxng_dev *dev)
{
	struct rxng_net *rn;

	if (!dev->net)
		return;
	rn = net_generic(dev->net, net_id);
	mutex_lock(&net_mutex);
	list_del_rcu(&dev->net_entry);
	if (list_empty(&rn->devs)) {
		close_socket(&rn->sk6);
		close_socket(&rn->sk4);
		wake_up_all(&net_wait);
	}
	mutex_unlock(&net_mutex);
	synchronize_net();
}

static struct rxng_dev *get_any(struct rxng_net *rn)
{
	struct rxng_dev *dev, *found = NULL;

	mutex_lock(&net_mutex);
	list_for_each_entry(dev, &rn->devs, net_entry) {
		if (ib_device_try_get(&dev->ibdev)) {
			found = dev;
			break;
		}
	}
	mutex_unlock(&net_mutex);
	return found;
}

static int __net_init init_net_ns(struct net *net)
{
	struct rxng_net *rn = net_generic(net, net_id);

	INIT_LIST_HEAD(&rn->devs);
	return 0;
}

/* The namespace goes: so do its links, before netdevs and sockets do. */
static void __net_exit pre_exit_net_ns(struct net *net)
{
	struct rxng_net *rn = net_generic(net, net_id);
	struct rxng_dev *dev;

	/*
	 * Those that cannot be had are being unregistered, or are moved between
	 * RDMA namespaces and can be had later.
	 */
	while (!list_empty_careful(&rn->devs)) {
		dev = get_any(rn);
		if (dev)
			ib_unregister_device_and_put(&dev->ibdev);
		else
			wait_event_timeout(net_wait,
					   list_empty_careful(&rn->devs),
					   HZ / 10);
	}
	/* Who woke us up is done with @rn. */
	mutex_lock(&net_mutex);
	mutex_unlock(&net_mutex);
}

static struct pernet_operations net_ops = {
	.init = init_net_ns,
	.pre_exit = pre_exit_net_ns,
	.id = &net_id,
	.size = sizeof(struct rxng_net),
};

/**
 * rxng_net_init - begin to follow network namespaces
 *
 * Return: 0 or an error code.
 * Context: module init.
 */
int __init rxng_net_init(void)
{
	/* A pernet device is taken down before those registered earlier. */
	return register_pernet_device(&net_ops);
}

/**
 * rxng_net_exit - stop following network namespaces
 *
 * Context: module exit or a failed init; there is no device any more.
 */
void rxng_net_exit(void)
{
	unregister_pernet_device(&net_ops);
}

/**
 * struct qp_waiter - what wakes a QP when its packets were freed
 * @wait: in the socket's wait queue as its only entry
 * @sk: the socket
 * @write_space: whom to call
 */
struct qp_waiter {
	struct wait_queue_entry wait;
	struct sock *sk;
	void (*write_space)(struct sock *sk);
};

static int wake_qp(struct wait_queue_entry *wait, unsigned int mode, int flags,
		   void *key)
{
	struct qp_waiter *waiter = container_of(wait, struct qp_waiter, wait);

	waiter->write_space(waiter->sk);
	return 0;
}

/**
 * rxng_qp_sock_create - make the socket that a QP's packets are accounted to
 * @dev: device of the QP
 * @owner: becomes the socket's sk_user_data
 * @write_space: called after packets were freed while less than half of
 *	RXNG_QP_SNDBUF is in use; interrupts are off, and it must not sleep
 *
 * The socket is not bound and receives nothing. The core's own destructor of
 * packets looks after it, and wakes the socket's wait queue as for any writer:
 * packets that outlive the QP run no code of this module.
 *
 * Return: socket or ERR_PTR().
 * Context: process.
 */
struct sock *rxng_qp_sock_create(struct rxng_dev *dev, void *owner,
				 void (*write_space)(struct sock *sk))
{
	struct qp_waiter *waiter;
	struct socket *sock;
	struct sock *sk;
	int err;

	waiter = kzalloc_obj(*waiter);
	if (!waiter)
		return ERR_PTR(-ENOMEM);
	err = sock_create_kern(dev->net, AF_INET, SOCK_DGRAM, IPPROTO_UDP,
			       &sock);
	if (err) {
		kfree(waiter);
		/* What a socket without memory is called. */
		return ERR_PTR(err == -ENFILE ? -ENOMEM : err);
	}
	sk = sock->sk;
	/* The destructor's short way: one atomic operation for each packet. */
	sock_set_flag(sk, SOCK_RCU_FREE);
	WRITE_ONCE(sk->sk_sndbuf, RXNG_QP_SNDBUF);
	/* Spreads QPs over queues without a look into each packet. */
	sk_set_txhash(sk);
	sk->sk_user_data = owner;
	waiter->sk = sk;
	waiter->write_space = write_space;
	init_waitqueue_func_entry(&waiter->wait, wake_qp);
	add_wait_queue(&sock->wq.wait, &waiter->wait);
	return sk;
}

/**
 * rxng_qp_sock_release - let go of a QP's socket
 * @sk: from rxng_qp_sock_create()
 *
 * Packets may still be under way, and free the socket when they are done. The
 * callback is not running when this returns, and never runs again.
 *
 * Context: process.
 */
void rxng_qp_sock_release(struct sock *sk)
{
	struct wait_queue_head *head = &sk->sk_socket->wq.wait;
	struct qp_waiter *waiter;

	waiter = list_first_entry(&head->head, struct qp_waiter, wait.entry);
	remove_wait_queue(head, &waiter->wait);
	kfree(waiter);
	sk->sk_user_data = NULL;
	sock_release(sk->sk_socket);
}
