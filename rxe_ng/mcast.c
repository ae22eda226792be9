// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A group's GID is its IP address (annex A17.4.3). A member's netdev joins that
 * group as any host would, so that filters, snooping switches and the host's
 * own stack let its packets through; the stack counts how often.
 */
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/jhash.h>
#include <linux/rculist.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/ipv6.h>

#include "mcast.h"
#include "qp.h"

/**
 * struct rxng_member - a QP's membership in a group
 * @entry: in its bucket of the device's members; RCU, changed under RTNL
 * @rcu: it goes when no packet looks at it any more
 * @gid: the group
 * @qp: the member; the core does not destroy it before it is detached
 * @times: how often it was attached, and has to be detached
 * @joined: the stack counts it among the netdev's users of the group
 */
struct rxng_member {
	struct hlist_node entry;
	struct rcu_head rcu;
	struct in6_addr gid;
	struct rxng_qp *qp;
	u32 times;
	bool joined;
};

/* Is the netdev still in the device's namespace? Under RTNL. */
static bool is_at_home(const struct rxng_dev *dev)
{
	return net_eq(dev_net(dev->ndev), dev->net);
}

static struct hlist_head *bucket(struct rxng_dev *dev,
				 const struct in6_addr *gid)
{
	u32 hash = jhash(gid, sizeof(*gid), dev->mcast_seed);

	return &dev->members[hash % RXNG_MCAST_BUCKETS];
}

static struct rxng_member *find(struct rxng_dev *dev, const struct rxng_qp *qp,
				const struct in6_addr *gid)
{
	struct rxng_member *m;

	ASSERT_RTNL();
	hlist_for_each_entry(m, bucket(dev, gid), entry)
		if (m->qp == qp && ipv6_addr_equal(&m->gid, gid))
			return m;
	return NULL;
}

static bool group_is_full(struct rxng_dev *dev, const struct in6_addr *gid)
{
	unsigned int num = 0;
	struct rxng_member *m;

	hlist_for_each_entry(m, bucket(dev, gid), entry)
		num += ipv6_addr_equal(&m->gid, gid);
	return num >= RXNG_MAX_MCAST_QP;
}

static int join(struct net_device *ndev, const struct in6_addr *gid)
{
	struct in_device *in_dev;

#if IS_ENABLED(CONFIG_IPV6)
	if (!ipv6_addr_v4mapped(gid))
		return ipv6_dev_mc_inc(ndev, gid);
#endif
	if (!ipv6_addr_v4mapped(gid))
		return -EAFNOSUPPORT;
	in_dev = __in_dev_get_rtnl(ndev);
	if (!in_dev)
		return -ENODEV;
	ip_mc_inc_group(in_dev, gid->s6_addr32[3]);
	return 0;
}

static void leave(struct net_device *ndev, const struct in6_addr *gid)
{
	struct in_device *in_dev;

	if (ipv6_addr_v4mapped(gid)) {
		in_dev = __in_dev_get_rtnl(ndev);
		if (in_dev)
			ip_mc_dec_group(in_dev, gid->s6_addr32[3]);
		return;
	}
#if IS_ENABLED(CONFIG_IPV6)
	ipv6_dev_mc_dec(ndev, gid);
#endif
}

/* Whether the stack keeps groups of this kind for a netdev. */
static bool keeps_groups(const struct net_device *ndev,
			 const struct in6_addr *gid)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (!ipv6_addr_v4mapped(gid))
		return __in6_dev_get(ndev);
#endif
	return ipv6_addr_v4mapped(gid) && __in_dev_get_rtnl(ndev);
}

static void follow(struct rxng_dev *dev, struct rxng_member *m)
{
	if (!keeps_groups(dev->ndev, &m->gid))
		m->joined = false;
	else if (!m->joined)
		m->joined = !join(dev->ndev, &m->gid);
}

/**
 * rxng_mcast_follow - the stack may have dropped a netdev's groups
 * @dev: device
 *
 * While the MTU is too small for IPv6 or IPv4 (RFC 8200, 5; RFC 791) it keeps
 * none, and afterwards it knows of none; neither does it when the netdev leaves
 * the namespace, which may come back.
 *
 * Context: RTNL.
 */
void rxng_mcast_follow(struct rxng_dev *dev)
{
	struct rxng_member *m;
	int i;

	ASSERT_RTNL();
	if (!is_at_home(dev))
		return;
	for (i = 0; i < RXNG_MCAST_BUCKETS; i++)
		hlist_for_each_entry(m, &dev->members[i], entry)
			follow(dev, m);
}

static int attach(struct rxng_dev *dev, struct rxng_qp *qp,
		  const struct in6_addr *gid)
{
	struct rxng_member *m = find(dev, qp, gid);
	int err;

	if (m) {
		m->times++;
		return 0;
	}
	/* It moves to another namespace, and the device is about to end. */
	if (!is_at_home(dev))
		return -ENODEV;
	if (group_is_full(dev, gid) ||
	    !rxng_take(&dev->num_mcast, RXNG_MAX_MCAST, &qp->ibqp.pd->res))
		return -ENOMEM;
	m = kzalloc_obj(*m);
	err = m ? join(dev->ndev, gid) : -ENOMEM;
	if (err) {
		kfree(m);
		rxng_give(&dev->num_mcast, &qp->ibqp.pd->res);
		return err;
	}
	m->gid = *gid;
	m->qp = qp;
	m->times = 1;
	m->joined = true;
	hlist_add_head_rcu(&m->entry, bucket(dev, gid));
	return 0;
}

static int detach(struct rxng_dev *dev, struct rxng_qp *qp,
		  const struct in6_addr *gid)
{
	struct rxng_member *m = find(dev, qp, gid);

	if (!m)
		return -EINVAL;
	if (--m->times)
		return 0;
	hlist_del_rcu(&m->entry);
	/* What was joined before the netdev left for another one is gone. */
	if (m->joined && is_at_home(dev))
		leave(dev->ndev, gid);
	kfree_rcu(m, rcu);
	rxng_give(&dev->num_mcast, &qp->ibqp.pd->res);
	return 0;
}

static bool is_group(const struct in6_addr *gid)
{
	if (ipv6_addr_v4mapped(gid))
		return ipv4_is_multicast(gid->s6_addr32[3]);
	return ipv6_addr_is_multicast(gid);
}

/**
 * rxng_attach_mcast - let a QP hear a group; see struct ib_device_ops
 * @ibqp: UD QP
 * @gid: the group: a multicast address, IPv4 mapped
 * @lid: ignored: Ethernet has none
 *
 * Return: 0, also when it does so already, and then it has to leave as often;
 * -EINVAL for another QP or address; -ENOMEM at a limit or without memory;
 * -ENODEV when the netdev is in another namespace; what it says to a join.
 * Context: process.
 */
int rxng_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	const struct in6_addr *group = (const struct in6_addr *)gid;
	int err;

	if (ibqp->qp_type != IB_QPT_UD || !is_group(group))
		return -EINVAL;
	rtnl_lock();
	err = attach(to_rxng_dev(ibqp->device), to_rxng_qp(ibqp), group);
	rtnl_unlock();
	return err;
}

/**
 * rxng_detach_mcast - let a QP leave a group; see struct ib_device_ops
 * @ibqp: QP
 * @gid: the group
 * @lid: ignored
 *
 * Return: 0, or -EINVAL when it is no member.
 * Context: process.
 */
int rxng_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	int err;

	rtnl_lock();
	err = detach(to_rxng_dev(ibqp->device), to_rxng_qp(ibqp),
		     (const struct in6_addr *)gid);
	rtnl_unlock();
	return err;
}

/**
 * rxng_mcast_deliver - hand a datagram to the members of its group
 * @dev: device on the netdev that it came in by
 * @skb: packet, as for rxng_qp_receive(); stays the caller's
 * @saddr: source address
 * @daddr: the group
 *
 * The sender hears itself when it is a member, as adapters do it.
 *
 * Return: whether there is a member.
 * Context: bottom halves off, RCU read-side section.
 */
bool rxng_mcast_deliver(struct rxng_dev *dev, struct sk_buff *skb,
			const struct in6_addr *saddr,
			const struct in6_addr *daddr)
{
	struct rxng_member *m;
	bool any = false;

	hlist_for_each_entry_rcu(m, bucket(dev, daddr), entry) {
		struct sk_buff *copy;

		if (!ipv6_addr_equal(&m->gid, daddr))
			continue;
		any = true;
		copy = skb_clone(skb, GFP_ATOMIC | __GFP_NOWARN);
		if (!copy) {
			rxng_qp_drop(m->qp, RXNG_STAT_RX_QUEUE_FULL);
			continue;
		}
		rxng_qp_receive(m->qp, copy, saddr, daddr);
	}
	if (!any)
		return false;
	rxng_stat_inc(dev, RXNG_STAT_RX_PKTS);
	rxng_stat_inc(dev, RXNG_STAT_RX_MCAST_PKTS);
	rxng_stat_add(dev, RXNG_STAT_RX_BYTES, rxng_skb_pkt(skb)->payload_len);
	return true;
}
