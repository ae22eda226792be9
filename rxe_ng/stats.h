/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Counters of a device, as `rdma statistic show link` prints them. */
#ifndef RXNG_STATS_H
#define RXNG_STATS_H

#include <linux/percpu.h>
#include <linux/types.h>

struct ib_device;
struct rdma_hw_stats;
struct rxng_dev;

enum rxng_stat {
	RXNG_STAT_TX_PKTS,
	RXNG_STAT_TX_BYTES,
	RXNG_STAT_RX_PKTS,
	RXNG_STAT_RX_BYTES,
	/* Of the packets those to a group, however many hear one. */
	RXNG_STAT_TX_MCAST_PKTS,
	RXNG_STAT_RX_MCAST_PKTS,
	/* Of the packets those handed over on this host, without the network. */
	RXNG_STAT_LOOPBACK_PKTS,
	RXNG_STAT_RX_ICRC_ERR,
	RXNG_STAT_RX_MALFORMED,
	RXNG_STAT_RX_NO_QP,
	RXNG_STAT_RX_BAD_PKEY,
	RXNG_STAT_RX_BAD_QKEY,
	/* Source or destination is not that of the QP's path. */
	RXNG_STAT_RX_BAD_ADDR,
	RXNG_STAT_RX_QUEUE_FULL,
	/* Lost to an unreliable QP: no receive, too small a one. */
	RXNG_STAT_OUT_OF_BUFFER,
	RXNG_STAT_RX_TOO_LONG,
	/* A request that is refused, or dropped; RC mostly ends with it. */
	RXNG_STAT_RX_BAD_ACCESS,
	RXNG_STAT_RX_INVALID_REQUEST,
	/* Datagrams beyond the MTU, which are not sent (C10-93.1.1). */
	RXNG_STAT_TX_TOO_LONG,
	/* Packets that the network refused for now and that are sent later. */
	RXNG_STAT_TX_CONGESTED,
	RXNG_STAT_TX_NO_ROUTE,
	RXNG_STAT_DUP_REQUEST,
	RXNG_STAT_OUT_OF_SEQ_REQUEST,
	RXNG_STAT_RX_RNR,
	RXNG_STAT_TX_RNR,
	RXNG_STAT_RX_NAK_SEQ,
	RXNG_STAT_RETRANSMIT,
	RXNG_STAT_RETRY_EXCEEDED,
	RXNG_STAT_RNR_RETRY_EXCEEDED,
	RXNG_STAT_LOCAL_ERR,
	RXNG_STAT_REMOTE_ERR,
	RXNG_STAT_CQ_OVERFLOW,
	RXNG_STAT_PAGE_FAULT,
	RXNG_STAT_COUNT,
};

/**
 * struct rxng_stats - one CPU's share of a device's counters
 * @count: value of each enum rxng_stat
 */
struct rxng_stats {
	u64 count[RXNG_STAT_COUNT];
};

#define rxng_stat_add(dev, stat, n) this_cpu_add((dev)->stats->count[stat], n)
#define rxng_stat_inc(dev, stat) rxng_stat_add(dev, stat, 1)

u64 rxng_stat_total(struct rxng_dev *dev, enum rxng_stat stat);
u64 rxng_stats_sum(const struct rxng_stats __percpu *stats, enum rxng_stat stat);
struct rdma_hw_stats *rxng_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port_num);
int rxng_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index);

#endif
