// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The performance management agent (IBTA 16.1): port counters for sysfs and for
 * perfquery. All other classes go to their agents, the CM's above all.
 */
#include <rdma/ib_pma.h>

#include "device.h"
#include "mad.h"

/* The port's data counters count words of four bytes (16.1.3.5). */
#define WORD 4

static __be32 saturated(u64 value)
{
	return cpu_to_be32(min_t(u64, value, U32_MAX));
}

static u64 xmit_discards(struct rxng_dev *dev)
{
	return rxng_stat_total(dev, RXNG_STAT_TX_NO_ROUTE);
}

static u64 rcv_errors(struct rxng_dev *dev)
{
	return rxng_stat_total(dev, RXNG_STAT_RX_ICRC_ERR) +
	       rxng_stat_total(dev, RXNG_STAT_RX_MALFORMED);
}

static void tell_class_info(void *to)
{
	struct ib_class_port_info info = {
		.base_version = IB_MGMT_BASE_VERSION,
		.class_version = 1,
		.capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH,
	};

	memcpy(to, &info, sizeof(info));
}

static void tell_counters(struct rxng_dev *dev, void *to)
{
	struct ib_pma_portcounters counters = {
		.port_select = 1,
		.port_rcv_errors =
			cpu_to_be16(min_t(u64, rcv_errors(dev), U16_MAX)),
		.port_xmit_discards =
			cpu_to_be16(min_t(u64, xmit_discards(dev), U16_MAX)),
		.port_xmit_data =
			saturated(rxng_stat_total(dev, RXNG_STAT_TX_BYTES) / WORD),
		.port_rcv_data =
			saturated(rxng_stat_total(dev, RXNG_STAT_RX_BYTES) / WORD),
		.port_xmit_packets =
			saturated(rxng_stat_total(dev, RXNG_STAT_TX_PKTS)),
		.port_rcv_packets =
			saturated(rxng_stat_total(dev, RXNG_STAT_RX_PKTS)),
	};

	memcpy(to, &counters, sizeof(counters));
}

static void tell_counters_ext(struct rxng_dev *dev, void *to)
{
	/* Read before the sums that they are part of. */
	u64 tx_mcast = rxng_stat_total(dev, RXNG_STAT_TX_MCAST_PKTS);
	u64 rx_mcast = rxng_stat_total(dev, RXNG_STAT_RX_MCAST_PKTS);
	u64 tx = max(rxng_stat_total(dev, RXNG_STAT_TX_PKTS), tx_mcast);
	u64 rx = max(rxng_stat_total(dev, RXNG_STAT_RX_PKTS), rx_mcast);
	struct ib_pma_portcounters_ext counters = {
		.port_select = 1,
		.port_xmit_data = cpu_to_be64(
			rxng_stat_total(dev, RXNG_STAT_TX_BYTES) / WORD),
		.port_rcv_data = cpu_to_be64(
			rxng_stat_total(dev, RXNG_STAT_RX_BYTES) / WORD),
		.port_xmit_packets = cpu_to_be64(tx),
		.port_rcv_packets = cpu_to_be64(rx),
		.port_unicast_xmit_packets = cpu_to_be64(tx - tx_mcast),
		.port_unicast_rcv_packets = cpu_to_be64(rx - rx_mcast),
		.port_multicast_xmit_packets = cpu_to_be64(tx_mcast),
		.port_multicast_rcv_packets = cpu_to_be64(rx_mcast),
	};

	memcpy(to, &counters, sizeof(counters));
}

static bool tell(struct rxng_dev *dev, __be16 attribute, void *to)
{
	switch (attribute) {
	case IB_PMA_CLASS_PORT_INFO:
		tell_class_info(to);
		return true;
	case IB_PMA_PORT_COUNTERS:
		tell_counters(dev, to);
		return true;
	case IB_PMA_PORT_COUNTERS_EXT:
		tell_counters_ext(dev, to);
		return true;
	default:
		return false;
	}
}

/**
 * rxng_process_mad - answer a management datagram; see struct ib_device_ops
 * @ibdev: device
 * @flags: ignored: there are no keys to be checked
 * @port: its only port
 * @wc: ignored
 * @grh: ignored
 * @in: request
 * @out: answer
 * @out_size: ignored: an answer is as long as a request
 * @out_pkey_index: ignored: there is one P_Key
 *
 * Counters cannot be set: what the host's other statistics show would be lost.
 *
 * Return: IB_MAD_RESULT_SUCCESS, with IB_MAD_RESULT_REPLY when it was answered.
 * Context: process.
 */
int rxng_process_mad(struct ib_device *ibdev, int flags, u32 port,
		     const struct ib_wc *wc, const struct ib_grh *grh,
		     const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *out_pkey_index)
{
	struct ib_pma_mad *answer = (struct ib_pma_mad *)out;
	u8 method = in->mad_hdr.method;

	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    (method != IB_MGMT_METHOD_GET && method != IB_MGMT_METHOD_SET))
		return IB_MAD_RESULT_SUCCESS;
	*out = *in;
	answer->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	answer->mad_hdr.status = 0;
	memset(answer->data, 0, sizeof(answer->data));
	if (in->mad_hdr.class_version != 1)
		answer->mad_hdr.status =
			cpu_to_be16(IB_MGMT_MAD_STATUS_BAD_VERSION);
	else if (method == IB_MGMT_METHOD_SET ||
		 !tell(to_rxng_dev(ibdev), in->mad_hdr.attr_id, answer->data))
		answer->mad_hdr.status = cpu_to_be16(
			IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB);
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}
