// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/cpumask.h>
#include <rdma/ib_verbs.h>

#include "counter.h"
#include "device.h"
#include "stats.h"

static const struct rdma_stat_desc descs[] = {
	[RXNG_STAT_TX_PKTS] = { .name = "tx_pkts" },
	[RXNG_STAT_TX_BYTES] = { .name = "tx_bytes" },
	[RXNG_STAT_RX_PKTS] = { .name = "rx_pkts" },
	[RXNG_STAT_RX_BYTES] = { .name = "rx_bytes" },
	[RXNG_STAT_TX_MCAST_PKTS] = { .name = "tx_mcast_pkts" },
	[RXNG_STAT_RX_MCAST_PKTS] = { .name = "rx_mcast_pkts" },
	[RXNG_STAT_LOOPBACK_PKTS] = { .name = "loopback_pkts" },
	[RXNG_STAT_RX_ICRC_ERR] = { .name = "rx_icrc_err" },
	[RXNG_STAT_RX_MALFORMED] = { .name = "rx_malformed" },
	[RXNG_STAT_RX_NO_QP] = { .name = "rx_no_qp" },
	[RXNG_STAT_RX_BAD_PKEY] = { .name = "rx_bad_pkey" },
	[RXNG_STAT_RX_BAD_QKEY] = { .name = "rx_bad_qkey" },
	[RXNG_STAT_RX_BAD_ADDR] = { .name = "rx_bad_addr" },
	[RXNG_STAT_RX_QUEUE_FULL] = { .name = "rx_queue_full" },
	[RXNG_STAT_OUT_OF_BUFFER] = { .name = "out_of_buffer" },
	[RXNG_STAT_RX_TOO_LONG] = { .name = "rx_too_long" },
	[RXNG_STAT_RX_BAD_ACCESS] = { .name = "rx_bad_access" },
	[RXNG_STAT_RX_INVALID_REQUEST] = { .name = "rx_invalid_request" },
	[RXNG_STAT_TX_TOO_LONG] = { .name = "tx_too_long" },
	[RXNG_STAT_TX_CONGESTED] = { .name = "tx_congested" },
	[RXNG_STAT_TX_NO_ROUTE] = { .name = "tx_no_route" },
	[RXNG_STAT_DUP_REQUEST] = { .name = "dup_request" },
	[RXNG_STAT_OUT_OF_SEQ_REQUEST] = { .name = "out_of_seq_request" },
	[RXNG_STAT_RX_RNR] = { .name = "rx_rnr" },
	[RXNG_STAT_TX_RNR] = { .name = "tx_rnr" },
	[RXNG_STAT_RX_NAK_SEQ] = { .name = "rx_nak_seq" },
	[RXNG_STAT_RETRANSMIT] = { .name = "retransmit" },
	[RXNG_STAT_RETRY_EXCEEDED] = { .name = "retry_exceeded" },
	[RXNG_STAT_RNR_RETRY_EXCEEDED] = { .name = "rnr_retry_exceeded" },
	[RXNG_STAT_LOCAL_ERR] = { .name = "local_err" },
	[RXNG_STAT_REMOTE_ERR] = { .name = "remote_err" },
	[RXNG_STAT_CQ_OVERFLOW] = { .name = "cq_overflow" },
	[RXNG_STAT_PAGE_FAULT] = { .name = "page_faults" },
};

static_assert(ARRAY_SIZE(descs) == RXNG_STAT_COUNT);

/**
 * rxng_stats_sum - value of a counter over all CPUs
 * @stats: counters of a device, or those that chosen QPs count by themselves
 * @stat: which counter
 *
 * Context: any.
 */
u64 rxng_stats_sum(const struct rxng_stats __percpu *stats, enum rxng_stat stat)
{
	unsigned int cpu;
	u64 sum = 0;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(stats, cpu)->count[stat]);
	return sum;
}

/**
 * rxng_stat_total - value of a counter, with what QPs count by themselves
 * @dev: device
 * @stat: which counter
 *
 * Context: process, may sleep.
 */
u64 rxng_stat_total(struct rxng_dev *dev, enum rxng_stat stat)
{
	return rxng_stats_sum(dev->stats, stat) +
	       rxng_counter_sum(dev, stat);
}

/**
 * rxng_alloc_hw_port_stats - describe the counters of a port
 * @ibdev: device
 * @port_num: its only port
 *
 * Return: what the core shows and frees, or NULL without memory.
 * Context: process; at registration.
 */
struct rdma_hw_stats *rxng_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port_num)
{
	return rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/**
 * rxng_get_hw_stats - read the counters of a port
 * @ibdev: device
 * @stats: takes the values
 * @port: port, or 0 for the device's own counters, of which there are none
 * @index: the counter that is asked for; all are filled in
 *
 * Return: number of counters, or -EINVAL.
 * Context: process.
 */
int rxng_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index)
{
	const struct rxng_dev *dev = to_rxng_dev(ibdev);
	unsigned int i;

	if (!port || !stats)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(descs); i++)
		stats->value[i] = rxng_stats_sum(dev->stats, i);
	return ARRAY_SIZE(descs);
}
