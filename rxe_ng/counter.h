/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Counters of chosen QPs: `rdma statistic qp bind`, `set link ... auto`. */
#ifndef RXNG_COUNTER_H
#define RXNG_COUNTER_H

#include <rdma/ib_verbs.h>

#include "device.h"

/**
 * struct rxng_counter - what the QPs that are bound to it count
 * @stats: per-CPU counters, in place of the device's own
 */
struct rxng_counter {
	struct rxng_stats __percpu *stats;
};

u64 rxng_counter_sum(struct rxng_dev *dev, enum rxng_stat stat);

/* Device operations, counter.c; see struct ib_device_ops. */
int rxng_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp,
			 u32 port);
int rxng_counter_unbind_qp(struct ib_qp *ibqp, u32 port);
int rxng_counter_dealloc(struct rdma_counter *counter);
struct rdma_hw_stats *rxng_counter_alloc_stats(struct rdma_counter *counter);
int rxng_counter_update_stats(struct rdma_counter *counter);

#endif
