// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>

#include "device.h"
#include "link.h"
#include "mcast.h"

/* One link at a time: makes "is there one on this netdev?" a valid question. */
static DEFINE_MUTEX(newlink_mutex);

/*
 * All devices of the driver id are ours, since rdma_rxe is not here (main.c).
 * The caller owes an ib_device_put().
 */
static struct rxng_dev *get_by_netdev(struct net_device *ndev)
{
	struct ib_device *ibdev;

	ibdev = ib_device_get_by_netdev(ndev, RDMA_DRIVER_RXE);
	return ibdev ? to_rxng_dev(ibdev) : NULL;
}

/*
 * Whatever carries IP and is known to the core as Ethernet will do; the core
 * also lets this driver id sit on netdevs without link-layer addresses. Not a
 * VLAN: the core lists its addresses as GIDs of the device on the netdev below,
 * where the GID chooses the VLAN, and a link on the VLAN itself gets none.
 *
 * Return: why a netdev will not do, or NULL. The operation has no way to
 * explain itself but the kernel's log.
 */
static const char *unfit(const struct net_device *ndev)
{
	if (is_vlan_dev(ndev))
		return "add the link to the netdev below this VLAN, and use its GIDs";
	if (ndev->type != ARPHRD_ETHER && ndev->type != ARPHRD_LOOPBACK &&
	    ndev->type != ARPHRD_NONE)
		return "not an Ethernet-like netdev, cannot carry RoCE";
	if (!rxng_device_fits(ndev))
		return "its MTU is too small for RoCE";
	return NULL;
}

/*
 * A netdev that went, or left the namespace, while its device was being
 * registered: its NETDEV_UNREGISTER found no device, so end it here. One that
 * goes later finds it. The caller holds @net.
 */
static int settle(struct net_device *ndev, const struct net *net)
{
	struct rxng_dev *dev;
	bool gone;

	dev = get_by_netdev(ndev);
	if (!dev)
		return -ENODEV;
	rtnl_lock();
	gone = ndev->reg_state != NETREG_REGISTERED ||
	       !net_eq(dev_net(ndev), net);
	if (!gone)
		rxng_device_update_port(dev);
	rtnl_unlock();
	if (gone) {
		ib_unregister_device_and_put(&dev->ibdev);
		return -ENODEV;
	}
	ib_device_put(&dev->ibdev);
	return 0;
}

static int add(const char *name, struct net_device *ndev, struct net *net)
{
	struct rxng_dev *other;
	int err;

	mutex_lock(&newlink_mutex);
	other = get_by_netdev(ndev);
	if (other) {
		netdev_err(ndev, "has an RDMA link already: %s\n",
			   dev_name(&other->ibdev.dev));
		ib_device_put(&other->ibdev);
		err = -EEXIST;
		goto out;
	}
	err = rxng_device_create(name, ndev, net);
	if (!err)
		err = settle(ndev, net);
out:
	mutex_unlock(&newlink_mutex);
	return err;
}

/* The netdev may leave for a namespace that is ending, all the while. */
static struct net *get_namespace(const struct net_device *ndev)
{
	struct net *net;

	rcu_read_lock();
	net = maybe_get_net(dev_net(ndev));
	rcu_read_unlock();
	return net;
}

static int newlink(const char *name, struct net_device *ndev)
{
	const char *why = unfit(ndev);
	struct net *net;
	int err;

	if (why) {
		netdev_err(ndev, "%s\n", why);
		return -EINVAL;
	}
	net = get_namespace(ndev);
	if (!net)
		return -ENODEV;
	err = add(name, ndev, net);
	put_net(net);
	return err;
}

static int netdev_event(struct notifier_block *nb, unsigned long event,
			void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct rxng_dev *dev;

	/*
	 * MTU and name are read from the netdev when somebody asks; GIDs
	 * follow addresses in the core; the node GUID stays, since a node's
	 * identity must not change under its peers.
	 */
	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEMTU:
	case NETDEV_UNREGISTER:
		break;
	default:
		return NOTIFY_DONE;
	}
	dev = get_by_netdev(ndev);
	if (!dev)
		return NOTIFY_DONE;
	if (event == NETDEV_UNREGISTER || event == NETDEV_CHANGEMTU)
		rxng_mcast_follow(dev);
	else
		rxng_device_update_port(dev);
	if (event == NETDEV_UNREGISTER)
		ib_unregister_device_queued(&dev->ibdev);
	ib_device_put(&dev->ibdev);
	return NOTIFY_DONE;
}

/* After the stack, of which it looks at what is left. */
static struct notifier_block netdev_nb = {
	.notifier_call = netdev_event,
	.priority = -1,
};

static struct rdma_link_ops link_ops = {
	.type = "rxe_ng",
	.newlink = newlink,
};

static struct rdma_link_ops alias_ops = {
	.type = "rxe",
	.newlink = newlink,
};

/**
 * rxng_link_init - begin to offer links
 *
 * Return: 0 or an error code.
 * Context: module init.
 */
int __init rxng_link_init(void)
{
	int err;

	err = register_netdevice_notifier(&netdev_nb);
	if (err)
		return err;
	rdma_link_register(&link_ops);
	rdma_link_register(&alias_ops);
	return 0;
}

/**
 * rxng_link_exit - end all links
 *
 * No new link can come once the first lines are through; then every device is
 * unregistered, and those that are on their way out already are waited for.
 *
 * Context: module exit or a failed init.
 */
void rxng_link_exit(void)
{
	rdma_link_unregister(&alias_ops);
	rdma_link_unregister(&link_ops);
	unregister_netdevice_notifier(&netdev_nb);
	ib_unregister_driver(RDMA_DRIVER_RXE);
}
