// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Page faults of a QP. Memory that is paged in on demand may be missing when a
 * QP, which may not sleep, comes to copy. It stands still then, with the packet
 * back in its inbox or the request not sent, until a worker has brought the
 * pages in, and does the same once more. What the peer sends meanwhile waits.
 */
#include "qp.h"

static struct workqueue_struct *workers;

static void work(struct work_struct *work)
{
	struct rxng_fault *fault = container_of(work, struct rxng_fault, work);
	struct rxng_qp *qp = container_of(fault, struct rxng_qp, fault);

	fault->err = rxng_mr_page_in(rxng_qp_dev(qp), fault->key, fault->iova,
				     fault->len, fault->want);
	/* Pairs with rxng_qp_stands_still(). */
	smp_store_release(&fault->pending, false);
	rxng_qp_wake(qp, RXNG_WAKE_WORK);
}

/*
 * A fault that failed was told to the QP by nothing but its end: in the turns
 * after it the same copy comes and misses the same page again.
 */
static bool has_failed(const struct rxng_fault *fault, u32 key, u64 iova,
		       enum rxng_odp_want want)
{
	return fault->asked && fault->err && fault->key == key &&
	       fault->iova == iova && fault->want == want;
}

static int page_in(struct rxng_qp *qp, u32 key, u64 iova, u32 len, bool write)
{
	enum rxng_odp_want want = write ? RXNG_ODP_WRITE_FAULT :
					  RXNG_ODP_READ_FAULT;
	struct rxng_fault *fault = &qp->fault;
	bool failed = has_failed(fault, key, iova, want);

	lockdep_assert_held(&qp->lock);
	if (WARN_ON_ONCE(fault->pending))
		return -EAGAIN;
	fault->asked = !failed;
	if (failed)
		return -EFAULT;
	fault->key = key;
	fault->iova = iova;
	fault->len = len;
	fault->want = want;
	fault->missed = true;
	WRITE_ONCE(fault->pending, true);
	rxng_qp_count(qp, RXNG_STAT_PAGE_FAULT, 1);
	return -EAGAIN;
}

static int page_in_at(struct rxng_qp *qp, const struct rxng_cursor *cur)
{
	const struct rxng_sge *sge = &cur->sge[cur->idx];

	return page_in(qp, sge->lkey, sge->addr + cur->offset, cur->missing,
		       cur->access & (IB_ACCESS_LOCAL_WRITE |
				      IB_ACCESS_REMOTE_WRITE));
}

/**
 * rxng_qp_end_copy - end a cursor; what it missed is brought in
 * @qp: QP that the caller owns
 * @cur: cursor, ended
 * @ret: what the copy returned
 *
 * Return: @ret; where that is -EAGAIN: -EAGAIN when the QP stands still until
 * the pages are there, -EFAULT when they cannot be had.
 * Context: bottom halves off.
 */
int rxng_qp_end_copy(struct rxng_qp *qp, struct rxng_cursor *cur, int ret)
{
	if (ret == -EAGAIN)
		ret = page_in_at(qp, cur);
	rxng_cursor_end(cur);
	return ret;
}

/**
 * rxng_qp_page_in_cell - likewise, for eight bytes of a peer's request
 * @qp: QP that the caller owns
 * @key: key of the region
 * @iova: address of the bytes, which are going to be written
 *
 * Return: -EAGAIN or -EFAULT, as rxng_qp_end_copy().
 * Context: bottom halves off.
 */
int rxng_qp_page_in_cell(struct rxng_qp *qp, u32 key, u64 iova)
{
	return page_in(qp, key, iova, sizeof(u64), true);
}

/**
 * rxng_qp_start_page_in - let the worker bring in what a turn missed
 * @qp: QP that the caller owns, at the end of its turn
 * @whole: the turn came to all that there was to do
 *
 * Context: bottom halves off.
 */
void rxng_qp_start_page_in(struct rxng_qp *qp, bool whole)
{
	struct rxng_fault *fault = &qp->fault;

	if (fault->missed)
		queue_work(workers, &fault->work);
	else if (whole)
		fault->asked = false;
	fault->missed = false;
}

/**
 * rxng_qp_init_fault - set up a new QP's page faults
 * @qp: QP
 */
void rxng_qp_init_fault(struct rxng_qp *qp)
{
	INIT_WORK(&qp->fault.work, work);
}

/**
 * rxng_fault_init - make what brings pages in
 *
 * Return: 0 or -ENOMEM.
 */
int rxng_fault_init(void)
{
	workers = alloc_workqueue("rxe_ng", WQ_UNBOUND, 0);
	return workers ? 0 : -ENOMEM;
}

/**
 * rxng_fault_exit - the end of it; there is no QP any more
 */
void rxng_fault_exit(void)
{
	destroy_workqueue(workers);
}
