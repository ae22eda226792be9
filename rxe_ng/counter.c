// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a bound QP counts goes to its counter and not to the device: the core
 * adds the counters up where it shows the port's, and keeps what those had that
 * are gone. For our own eyes @gone of struct rxng_dev does the same.
 */
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "counter.h"
#include "qp.h"

/**
 * rxng_counter_sum - what all counters of a device have counted, ever
 * @dev: device
 * @stat: which statistic
 *
 * Context: process, may sleep.
 */
u64 rxng_counter_sum(struct rxng_dev *dev, enum rxng_stat stat)
{
	struct rxng_counter *c;
	unsigned long id;
	u64 total;

	mutex_lock(&dev->counter_mutex);
	total = dev->gone.count[stat];
	xa_for_each(&dev->counters, id, c)
		total += rxng_stats_sum(c->stats, stat);
	mutex_unlock(&dev->counter_mutex);
	return total;
}

/* Give the core's counter an identity, and memory that its QPs count in. */
static int set_up(struct rxng_dev *dev, struct rdma_counter *counter)
{
	struct rxng_counter *c = kzalloc_obj(*c);
	int err = -ENOMEM;

	if (!c)
		return err;
	c->stats = alloc_percpu(struct rxng_stats);
	if (!c->stats)
		goto err_counter;
	err = xa_alloc(&dev->counters, &counter->id, c, xa_limit_31b,
		       GFP_KERNEL);
	if (err)
		goto err_stats;
	return 0;

err_stats:
	free_percpu(c->stats);
err_counter:
	kfree(c);
	return err;
}

/**
 * rxng_counter_bind_qp - let a QP count by itself; see struct ib_device_ops
 * @counter: counter; new ones have no number yet
 * @ibqp: QP
 * @port: its only port
 *
 * Return: 0 or -ENOMEM.
 * Context: process; the core lets one caller in for each counter.
 */
int rxng_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp,
			 u32 port)
{
	struct rxng_dev *dev = to_rxng_dev(ibqp->device);
	int err = counter->id ? 0 : set_up(dev, counter);
	struct rxng_counter *c;

	if (err)
		return err;
	c = xa_load(&dev->counters, counter->id);
	WRITE_ONCE(to_rxng_qp(ibqp)->stats, c->stats);
	ibqp->counter = counter;
	return 0;
}

/**
 * rxng_counter_unbind_qp - let a QP count with the device again
 * @ibqp: QP
 * @port: its only port
 *
 * Return: 0.
 * Context: process.
 */
int rxng_counter_unbind_qp(struct ib_qp *ibqp, u32 port)
{
	WRITE_ONCE(to_rxng_qp(ibqp)->stats, to_rxng_dev(ibqp->device)->stats);
	ibqp->counter = NULL;
	return 0;
}

/**
 * rxng_counter_dealloc - a counter goes
 * @counter: counter that no QP is bound to any more
 *
 * Return: 0.
 * Context: process, may sleep.
 */
int rxng_counter_dealloc(struct rdma_counter *counter)
{
	struct rxng_dev *dev = to_rxng_dev(counter->device);
	struct rxng_counter *c;
	int i;

	if (!counter->id)
		return 0;
	/* Who counts has bottom halves off. */
	synchronize_rcu();
	mutex_lock(&dev->counter_mutex);
	c = xa_erase(&dev->counters, counter->id);
	for (i = 0; i < RXNG_STAT_COUNT; i++)
		dev->gone.count[i] += rxng_stats_sum(c->stats, i);
	mutex_unlock(&dev->counter_mutex);
	free_percpu(c->stats);
	kfree(c);
	return 0;
}

/**
 * rxng_counter_alloc_stats - describe what a counter counts
 * @counter: counter
 *
 * Return: what the core shows and frees, or NULL without memory.
 * Context: process.
 */
struct rdma_hw_stats *rxng_counter_alloc_stats(struct rdma_counter *counter)
{
	return rxng_alloc_hw_port_stats(counter->device, counter->port);
}

/**
 * rxng_counter_update_stats - read a counter
 * @counter: counter; its values are filled in
 *
 * Return: 0.
 * Context: process.
 */
int rxng_counter_update_stats(struct rdma_counter *counter)
{
	struct rxng_dev *dev = to_rxng_dev(counter->device);
	struct rxng_counter *c = xa_load(&dev->counters, counter->id);
	int i;

	for (i = 0; c && i < counter->stats->num_counters; i++)
		counter->stats->value[i] = rxng_stats_sum(c->stats, i);
	return 0;
}
