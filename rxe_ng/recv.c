// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Receive requests come in here, of receive queues and of shared ones. */
#include "recv.h"

/**
 * rxng_copy_user_sges - take over a list that a process may write meanwhile
 * @to: copy
 * @from: list in a ring
 * @num: entries
 *
 * Return: bytes that the copy describes.
 */
u64 rxng_copy_user_sges(struct rxng_sge *to, const struct rxng_sge *from,
			u32 num)
{
	u64 length = 0;
	u32 i;

	for (i = 0; i < num; i++) {
		to[i].addr = READ_ONCE(from[i].addr);
		to[i].length = READ_ONCE(from[i].length);
		to[i].lkey = READ_ONCE(from[i].lkey);
		length += to[i].length;
	}
	return length;
}

/**
 * rxng_copy_kernel_sges - take over a kernel consumer's list
 * @to: copy
 * @from: list
 * @num: entries
 *
 * Return: bytes that it describes.
 */
u64 rxng_copy_kernel_sges(struct rxng_sge *to, const struct ib_sge *from,
			  u32 num)
{
	u64 length = 0;
	u32 i;

	for (i = 0; i < num; i++) {
		to[i] = (struct rxng_sge){
			.addr = from[i].addr,
			.length = from[i].length,
			.lkey = from[i].lkey,
		};
		length += from[i].length;
	}
	return length;
}

/**
 * rxng_recv_load - copy a receive request out of its slot
 * @recv: filled in, and in use from now on
 * @wqe: slot, which is not read again
 * @max_sge: entries that fit into a slot
 *
 * Return: 0; -EINVAL when it is malformed: it is in use all the same, to be
 * completed in error.
 */
int rxng_recv_load(struct rxng_recv *recv, const struct rxng_recv_wqe *wqe,
		   u32 max_sge)
{
	recv->taken = true;
	recv->wr_id = READ_ONCE(wqe->wr_id);
	recv->num_sge = READ_ONCE(wqe->dma.num_sge);
	recv->length = 0;
	if (recv->num_sge > max_sge) {
		recv->num_sge = 0;
		return -EINVAL;
	}
	recv->length = rxng_copy_user_sges(recv->sge, wqe->sge, recv->num_sge);
	return 0;
}

static int post_one(struct rxng_ring *ring, u32 max_sge,
		    const struct ib_recv_wr *wr)
{
	u32 producer = ring->shared->producer_index;
	struct rxng_recv_wqe *wqe = rxng_ring_slot(ring, producer);
	u32 next = rxng_ring_next(ring, producer);

	if (wr->num_sge < 0 || wr->num_sge > max_sge)
		return -EINVAL;
	if (next == smp_load_acquire(&ring->shared->consumer_index))
		return -ENOMEM;
	wqe->wr_id = wr->wr_id;
	wqe->dma.num_sge = wr->num_sge;
	rxng_copy_kernel_sges(wqe->sge, wr->sg_list, wr->num_sge);
	smp_store_release(&ring->shared->producer_index, next);
	return 0;
}

/**
 * rxng_recv_post - put a kernel consumer's receive requests into a ring
 * @ring: ring; the caller holds the lock of its producer side
 * @max_sge: entries that fit into a slot
 * @wr: list
 * @bad_wr: first one that was not posted
 *
 * Return: 0; -EINVAL for a malformed request; -ENOMEM when the ring is full.
 * Context: any.
 */
int rxng_recv_post(struct rxng_ring *ring, u32 max_sge,
		   const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr)
{
	for (; wr; wr = wr->next) {
		int err = post_one(ring, max_sge, wr);

		if (err) {
			*bad_wr = wr;
			return err;
		}
	}
	return 0;
}
