// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/ethtool.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/udp.h>
#include <net/addrconf.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_verbs.h>

#include "ah.h"
#include "compat/ops.h"
#include "cq.h"
#include "device.h"
#include "mad.h"
#include "mcast.h"
#include "mr.h"
#include "mw.h"
#include "net.h"
#include "pd.h"
#include "qp.h"
#include "res.h"
#include "srq.h"
#include "stats.h"
#include "ucontext.h"

/* Vendor id of software, which has no OUI. */
#define VENDOR_ID 0xffffffu
/* As the core's consumers see an unscheduled host: 4.096 us << 15 = 134 ms. */
#define CA_ACK_DELAY 15

/* Capabilities that older kernels have no names for. */
#define CAP_FLUSH_GLOBAL BIT_ULL(38)
#define CAP_FLUSH_PERSISTENT BIT_ULL(39)
#define CAP_ATOMIC_WRITE BIT_ULL(40)
#define ODP_FLUSH BIT(6)
#define ODP_ATOMIC_WRITE BIT(7)

/* All that stands around the payload of a packet of the longest kind. */
#define OVERHEAD (sizeof(struct ipv6hdr) + sizeof(struct udphdr) + \
		  sizeof(struct rxng_bth) + sizeof(struct rxng_reth) + \
		  sizeof(struct rxng_immdt) + RXNG_ICRC_LEN)

static unsigned int packet_size(enum ib_mtu mtu)
{
	return ib_mtu_enum_to_int(mtu) + OVERHEAD;
}

/**
 * rxng_device_fits - does the smallest path MTU fit a netdev?
 * @ndev: netdev
 *
 * Context: any.
 */
bool rxng_device_fits(const struct net_device *ndev)
{
	return READ_ONCE(ndev->mtu) >= packet_size(IB_MTU_256);
}

/**
 * rxng_device_mtu - what the port carries now
 * @dev: device
 *
 * Return: the largest path MTU that fits the netdev with any headers.
 * Context: any.
 */
enum ib_mtu rxng_device_mtu(const struct rxng_dev *dev)
{
	unsigned int max = READ_ONCE(dev->ndev->mtu);
	enum ib_mtu mtu = IB_MTU_4096;

	while (mtu > IB_MTU_256 && packet_size(mtu) > max)
		mtu--;
	return mtu;
}

static void set_odp_caps(struct ib_odp_caps *caps)
{
	const u32 two_sided = IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV |
			      IB_ODP_SUPPORT_SRQ_RECV;

	caps->general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.rc_odp_caps = two_sided |
					       IB_ODP_SUPPORT_WRITE |
					       IB_ODP_SUPPORT_READ |
					       IB_ODP_SUPPORT_ATOMIC |
					       ODP_ATOMIC_WRITE;
	if (IB_ACCESS_SUPPORTED & RXNG_ACCESS_FLUSH_GLOBAL)
		caps->per_transport_caps.rc_odp_caps |= ODP_FLUSH;
	caps->per_transport_caps.uc_odp_caps = IB_ODP_SUPPORT_SEND |
					       IB_ODP_SUPPORT_RECV |
					       IB_ODP_SUPPORT_WRITE;
	caps->per_transport_caps.ud_odp_caps = two_sided;
}

static int query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			struct ib_udata *udata)
{
	struct rxng_dev *dev = to_rxng_dev(ibdev);
	int err;

	err = rxng_udata_check(udata, 0);
	if (err)
		return err;
	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = RXNG_FW_VER;
	attr->sys_image_guid = dev->ibdev.node_guid;
	attr->vendor_id = VENDOR_ID;
	attr->device_cap_flags = IB_DEVICE_BAD_PKEY_CNTR |
				 IB_DEVICE_BAD_QKEY_CNTR |
				 IB_DEVICE_CURR_QP_STATE_MOD |
				 IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_RC_RNR_NAK_GEN |
				 IB_DEVICE_SRQ_RESIZE |
				 IB_DEVICE_MEM_MGT_EXTENSIONS |
				 IB_DEVICE_MEM_WINDOW |
				 IB_DEVICE_MEM_WINDOW_TYPE_2B |
				 CAP_ATOMIC_WRITE;
	/* Older kernels let no process ask for the rights. */
	if (IB_ACCESS_SUPPORTED & RXNG_ACCESS_FLUSH_GLOBAL)
		attr->device_cap_flags |= CAP_FLUSH_GLOBAL;
	if (IB_ACCESS_SUPPORTED & RXNG_ACCESS_FLUSH_PERSISTENT &&
	    IS_ENABLED(CONFIG_ARCH_HAS_PMEM_API))
		attr->device_cap_flags |= CAP_FLUSH_PERSISTENT;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_ON_DEMAND_PAGING;
	set_odp_caps(&attr->odp_caps);
	attr->page_size_cap = 0xfffff000u;
	attr->max_mr_size = RXNG_MAX_MR_SIZE;
	attr->max_qp = RXNG_MAX_QP;
	attr->max_qp_wr = RXNG_MAX_QP_WR;
	attr->max_send_sge = RXNG_MAX_SGE;
	attr->max_recv_sge = RXNG_MAX_SGE;
	attr->max_sge_rd = RXNG_MAX_SGE;
	attr->max_srq = RXNG_MAX_SRQ;
	attr->max_srq_wr = RXNG_MAX_SRQ_WR;
	attr->max_srq_sge = RXNG_MAX_SGE;
	attr->max_cq = RXNG_MAX_CQ;
	attr->max_cqe = RXNG_MAX_CQE;
	attr->cq_caps.max_cq_moderation_count = U16_MAX;
	attr->cq_caps.max_cq_moderation_period = U16_MAX;
	attr->max_mr = RXNG_MAX_MR;
	attr->max_mw = RXNG_MAX_MW;
	attr->max_pd = RXNG_MAX_PD;
	attr->max_ah = RXNG_MAX_AH;
	attr->max_qp_rd_atom = RXNG_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = RXNG_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = RXNG_MAX_RD_ATOMIC * RXNG_MAX_QP;
	attr->max_fast_reg_page_list_len = RXNG_MAX_FAST_REG_PAGES;
	attr->max_mcast_grp = RXNG_MAX_MCAST;
	attr->max_mcast_qp_attach = RXNG_MAX_MCAST_QP;
	attr->max_total_mcast_qp_attach = RXNG_MAX_MCAST;
	attr->max_pkeys = RXNG_MAX_PKEYS;
	attr->local_ca_ack_delay = CA_ACK_DELAY;
	/* The CPU's own instructions do it, so it holds for all accesses. */
	attr->atomic_cap = IB_ATOMIC_GLOB;
	return 0;
}

struct rate {
	u32 mbps;
	u16 speed;
	u8 width;
};

static const struct rate rates[] = {
	{ 2500, IB_SPEED_SDR, IB_WIDTH_1X },
	{ 5000, IB_SPEED_DDR, IB_WIDTH_1X },
	{ 10000, IB_SPEED_FDR10, IB_WIDTH_1X },
	{ 20000, IB_SPEED_DDR, IB_WIDTH_4X },
	{ 25000, IB_SPEED_EDR, IB_WIDTH_1X },
	{ 40000, IB_SPEED_FDR10, IB_WIDTH_4X },
	{ 50000, IB_SPEED_EDR, IB_WIDTH_2X },
	{ 56000, IB_SPEED_FDR, IB_WIDTH_4X },
	{ 100000, IB_SPEED_EDR, IB_WIDTH_4X },
	{ 200000, IB_SPEED_HDR, IB_WIDTH_4X },
	{ 400000, IB_SPEED_NDR, IB_WIDTH_4X },
	{ 800000, IB_SPEED_NDR, IB_WIDTH_8X },
};

/* The fastest rate that verbs can name and the netdev has, or the slowest. */
static const struct rate *rate_of(u32 mbps)
{
	unsigned int i = ARRAY_SIZE(rates);

	while (--i && rates[i].mbps > mbps)
		;
	return &rates[i];
}

/* Not by ib_get_eth_speed(), which logs a line for each netdev that has none. */
static const struct rate *current_rate(struct net_device *ndev)
{
	struct ethtool_link_ksettings link = {};
	u32 mbps = SPEED_UNKNOWN;

	ASSERT_RTNL();
	if (ndev->reg_state == NETREG_REGISTERED && netif_device_present(ndev) &&
	    !__ethtool_get_link_ksettings(ndev, &link))
		mbps = link.base.speed;
	return rate_of(mbps == (u32)SPEED_UNKNOWN ? 0 : mbps);
}

/* Asked for each time, since ethtool may change it without an event. */
static void query_speed(struct net_device *ndev, struct ib_port_attr *attr)
{
	const struct rate *rate;

	rtnl_lock();
	rate = current_rate(ndev);
	rtnl_unlock();
	attr->active_speed = rate->speed;
	attr->active_width = rate->width;
}

static enum ib_port_phys_state phys_state(const struct net_device *ndev)
{
	if (!netif_running(ndev))
		return IB_PORT_PHYS_STATE_DISABLED;
	return netif_carrier_ok(ndev) ? IB_PORT_PHYS_STATE_LINK_UP :
					IB_PORT_PHYS_STATE_POLLING;
}

static int query_port(struct ib_device *ibdev, u32 port,
		      struct ib_port_attr *attr)
{
	struct rxng_dev *dev = to_rxng_dev(ibdev);

	memset(attr, 0, sizeof(*attr));
	attr->state = ib_get_curr_port_state(dev->ndev);
	attr->phys_state = phys_state(dev->ndev);
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = rxng_device_mtu(dev);
	attr->ip_gids = true;
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->gid_tbl_len = RXNG_GID_TABLE_LEN;
	attr->pkey_tbl_len = RXNG_MAX_PKEYS;
	attr->max_msg_sz = RXNG_MAX_MSG_SIZE;
	attr->max_vl_num = 1;
	attr->bad_pkey_cntr = rxng_stat_total(dev, RXNG_STAT_RX_BAD_PKEY);
	attr->qkey_viol_cntr = rxng_stat_total(dev, RXNG_STAT_RX_BAD_QKEY);
	query_speed(dev->ndev, attr);
	return 0;
}

static int get_port_immutable(struct ib_device *ibdev, u32 port,
			      struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	immutable->gid_tbl_len = RXNG_GID_TABLE_LEN;
	immutable->pkey_tbl_len = RXNG_MAX_PKEYS;
	return 0;
}

static int query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index >= RXNG_MAX_PKEYS)
		return -EINVAL;
	*pkey = RXNG_PKEY_DEFAULT;
	return 0;
}

static enum rdma_link_layer get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static void get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%s", RXNG_VERSION);
}

/* udev's and other people's scripts read which netdev is below. */
static ssize_t parent_show(struct device *device, struct device_attribute *attr,
			   char *buf)
{
	struct rxng_dev *dev = rdma_device_to_drv_device(device,
							 struct rxng_dev, ibdev);

	return sysfs_emit(buf, "%s\n", netdev_name(dev->ndev));
}
static DEVICE_ATTR_RO(parent);

static struct attribute *device_attrs[] = {
	&dev_attr_parent.attr,
	NULL,
};

static const struct attribute_group device_group = {
	.attrs = device_attrs,
};

/* Last call for a device, registered or not: nobody uses it any more. */
static void dealloc_driver(struct ib_device *ibdev)
{
	struct rxng_dev *dev = to_rxng_dev(ibdev);

	cancel_work_sync(&dev->speed_work);
	rxng_net_put(dev);
	WARN_ON(!xa_empty(&dev->mrs));
	xa_destroy(&dev->mrs);
	WARN_ON(!xa_empty(&dev->avs));
	xa_destroy(&dev->avs);
	WARN_ON(!xa_empty(&dev->counters));
	xa_destroy(&dev->counters);
	mutex_destroy(&dev->counter_mutex);
	free_percpu(dev->stats);
	netdev_put(dev->ndev, &dev->tracker);
}

static const struct ib_device_ops device_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_RXE,
	.uverbs_abi_ver = RXNG_UVERBS_ABI_VERSION,
	.device_group = &device_group,

	.query_device = query_device,
	.query_port = query_port,
	.query_pkey = query_pkey,
	.get_port_immutable = get_port_immutable,
	.get_link_layer = get_link_layer,
	.get_dev_fw_str = get_dev_fw_str,
	.dealloc_driver = dealloc_driver,
	RXNG_OP_REPORT_PORT_EVENT
	.alloc_hw_port_stats = rxng_alloc_hw_port_stats,
	.get_hw_stats = rxng_get_hw_stats,
	RXNG_OP_COUNTER_BIND_QP
	.counter_dealloc = rxng_counter_dealloc,
	.counter_alloc_stats = rxng_counter_alloc_stats,
	.counter_update_stats = rxng_counter_update_stats,
	.fill_res_qp_entry = rxng_fill_res_qp_entry,
	.fill_res_qp_entry_raw = rxng_fill_res_qp_entry_raw,
	.fill_res_cq_entry = rxng_fill_res_cq_entry,
	.fill_res_mr_entry = rxng_fill_res_mr_entry,
	RXNG_OP_FILL_RES_SRQ

	.alloc_ucontext = rxng_alloc_ucontext,
	.dealloc_ucontext = rxng_dealloc_ucontext,
	.disassociate_ucontext = rxng_disassociate_ucontext,
	.mmap = rxng_mmap,
	.mmap_free = rxng_mmap_free,

	.alloc_pd = rxng_alloc_pd,
	.dealloc_pd = rxng_dealloc_pd,

	.create_ah = rxng_create_ah,
	.create_user_ah = rxng_create_ah,
	.query_ah = rxng_query_ah,
	.destroy_ah = rxng_destroy_ah,

	RXNG_OP_CREATE_CQ,
	RXNG_OP_RESIZE_CQ,
	.destroy_cq = rxng_destroy_cq,
	.modify_cq = rxng_modify_cq,
	.poll_cq = rxng_poll_cq,
	.req_notify_cq = rxng_req_notify_cq,

	.get_dma_mr = rxng_get_dma_mr,
	RXNG_OP_REG_USER_MR,
	.rereg_user_mr = rxng_rereg_user_mr,
	.alloc_mr = rxng_alloc_mr,
	.map_mr_sg = rxng_map_mr_sg,
	.dereg_mr = rxng_dereg_mr,
	.advise_mr = rxng_advise_mr,
	RXNG_OP_REG_USER_MR_DMABUF,
	.alloc_mw = rxng_alloc_mw,
	.dealloc_mw = rxng_dealloc_mw,

	.create_srq = rxng_create_srq,
	.modify_srq = rxng_modify_srq,
	.query_srq = rxng_query_srq,
	.destroy_srq = rxng_destroy_srq,
	.post_srq_recv = rxng_post_srq_recv,

	.create_qp = rxng_create_qp,
	.modify_qp = rxng_modify_qp,
	.query_qp = rxng_query_qp,
	.destroy_qp = rxng_destroy_qp,
	.post_send = rxng_post_send,
	.post_recv = rxng_post_recv,
	.attach_mcast = rxng_attach_mcast,
	.detach_mcast = rxng_detach_mcast,

	.process_mad = rxng_process_mad,

	INIT_RDMA_OBJ_SIZE(ib_ucontext, rxng_ucontext, ibuc),
	INIT_RDMA_OBJ_SIZE(ib_pd, rxng_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_ah, rxng_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_mw, rxng_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_cq, rxng_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_srq, rxng_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_qp, rxng_qp, ibqp),
};

/*
 * From the MAC address where there is one. Tunnels and the loopback have none,
 * and get an identity that is unique among nodes all the same.
 */
static void set_node_guid(struct rxng_dev *dev)
{
	u8 mac[ETH_ALEN];

	if (dev->ndev->addr_len == ETH_ALEN &&
	    is_valid_ether_addr(dev->ndev->dev_addr))
		ether_addr_copy(mac, dev->ndev->dev_addr);
	else
		eth_random_addr(mac);
	addrconf_addr_eui48((u8 *)&dev->ibdev.node_guid, mac);
}

/*
 * A port that is down has no speed, and the first one is no news. A work of its
 * own, since a notifier cannot know which locks of the netdev are held, and its
 * driver is asked here.
 */
static void look_at_speed(struct work_struct *work)
{
	struct rxng_dev *dev = container_of(work, struct rxng_dev, speed_work);
	u32 before = dev->port_mbps;

	if (!ib_device_try_get(&dev->ibdev))
		return;
	rtnl_lock();
	if (dev->port_state == IB_PORT_ACTIVE)
		dev->port_mbps = current_rate(dev->ndev)->mbps;
	rtnl_unlock();
	if (before && dev->port_mbps != before)
		rxng_dispatch_speed_change(&dev->ibdev);
	ib_device_put(&dev->ibdev);
}

static void init_device(struct rxng_dev *dev, struct net_device *ndev)
{
	struct ib_device *ibdev = &dev->ibdev;

	/* dealloc_driver undoes what follows, from here on. */
	ib_set_device_ops(ibdev, &device_ops);
	dev->ndev = ndev;
	netdev_hold(ndev, &dev->tracker, GFP_KERNEL);
	xa_init_flags(&dev->mrs, XA_FLAGS_ACCOUNT);
	xa_init_flags(&dev->avs, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	dev->mcast_seed = get_random_u32();
	mutex_init(&dev->counter_mutex);
	xa_init_flags(&dev->counters, XA_FLAGS_ALLOC1);
	INIT_LIST_HEAD(&dev->net_entry);
	dev->port_state = ib_get_curr_port_state(ndev);
	INIT_WORK(&dev->speed_work, look_at_speed);

	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = num_possible_cpus();
	ibdev->local_dma_lkey = 0;
	/* Doorbell and arming come by write(2) from the stock provider. */
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				  BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	strscpy(ibdev->node_desc, "rxe_ng", sizeof(ibdev->node_desc));
	set_node_guid(dev);
}

/**
 * rxng_device_create - make and register the device of a link
 * @name: its name
 * @ndev: netdev below
 * @net: namespace that the netdev is in; the caller looks whether it left
 *
 * The device may be unregistered and freed by others as soon as it is
 * registered, so no pointer is returned.
 *
 * Return: 0 or an error code.
 * Context: process; RTNL is not held.
 */
int rxng_device_create(const char *name, struct net_device *ndev,
		       struct net *net)
{
	struct rxng_dev *dev;
	int err;

	dev = ib_alloc_device_with_net(rxng_dev, ibdev, net);
	if (!dev)
		return -ENOMEM;
	init_device(dev, ndev);
	dev->stats = alloc_percpu(struct rxng_stats);
	if (!dev->stats) {
		err = -ENOMEM;
		goto err_dealloc;
	}
	err = rxng_net_get(dev, net);
	if (err)
		goto err_dealloc;
	err = ib_device_set_netdev(&dev->ibdev, ndev, 1);
	if (err)
		goto err_dealloc;
	ib_mark_name_assigned_by_user(&dev->ibdev);
	err = ib_register_device(&dev->ibdev, name, NULL);
	if (err)
		goto err_dealloc;
	return 0;

err_dealloc:
	ib_dealloc_device(&dev->ibdev);
	return err;
}

static void tell_state(struct rxng_dev *dev, enum ib_port_state state)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.element.port_num = 1,
		.event = state == IB_PORT_ACTIVE ? IB_EVENT_PORT_ACTIVE :
						   IB_EVENT_PORT_ERR,
	};

	if (state == dev->port_state)
		return;
	dev->port_state = state;
	ib_dispatch_event(&event);
}

/**
 * rxng_device_update_port - tell consumers what became of the port
 * @dev: device
 *
 * That it went up or down, and another speed on kernels that have an event for
 * it.
 *
 * Context: RTNL is held, which makes each change one event.
 */
void rxng_device_update_port(struct rxng_dev *dev)
{
	ASSERT_RTNL();
	tell_state(dev, ib_get_curr_port_state(dev->ndev));
	schedule_work(&dev->speed_work);
}
