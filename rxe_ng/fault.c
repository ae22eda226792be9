// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Page faults of a QP. Memory that is paged in on demand may be missing when a
 * QP, which may not sleep, comes to copy. It stands still then, with the packet
 * back in its inbox or the request not sent, until a worker has brought the
 * pages in, and does the same once more. What the peer sends meanwhile waits.
 *
 * A FLUSH to persistence, which may be of many GiB, is done by the worker too.
 */
#include "qp.h"

/* Two, so that page faults do not wait for many long write-backs. */
static struct workqueue_struct *pagers;
static struct workqueue_struct *writers;

static void end_errand(struct rxng_qp *qp, int err)
{
	qp->fault.err = err;
	/* Pairs with rxng_qp_stands_still(). */
	smp_store_release(&qp->fault.pending, false);
	rxng_qp_wake(qp, RXNG_WAKE_WORK);
}

static void page_in_work(struct work_struct *work)
{
	struct rxng_qp *qp = container_of(work, struct rxng_qp, fault.pager);
	const struct rxng_fault *fault = &qp->fault;

	end_errand(qp, rxng_mr_page_in(rxng_qp_dev(qp), fault->key, fault->iova,
				       fault->len,
				       fault->errand == RXNG_PAGE_IN_TO_WRITE ?
					       RXNG_ODP_WRITE_FAULT :
					       RXNG_ODP_READ_FAULT));
}

static void write_back_work(struct work_struct *work)
{
	struct rxng_qp *qp = container_of(work, struct rxng_qp, fault.writer);
	const struct rxng_fault *fault = &qp->fault;

	end_errand(qp, rxng_mr_write_back(rxng_qp_dev(qp), fault->key,
					  fault->iova, fault->len));
}

/*
 * The worker tells the QP nothing but that it has ended: in the turns after it
 * the same access comes, and misses the same page again if it failed.
 */
static bool was_asked(const struct rxng_fault *fault, enum rxng_errand errand,
		      u32 key, u64 iova)
{
	return fault->asked && fault->errand == errand && fault->key == key &&
	       fault->iova == iova;
}

static int ask(struct rxng_qp *qp, enum rxng_errand errand, u32 key, u64 iova,
	       u64 len)
{
	struct rxng_fault *fault = &qp->fault;

	lockdep_assert_held(&qp->lock);
	if (WARN_ON_ONCE(fault->pending))
		return -EAGAIN;
	fault->asked = true;
	fault->errand = errand;
	fault->key = key;
	fault->iova = iova;
	fault->len = len;
	fault->missed = true;
	WRITE_ONCE(fault->pending, true);
	return -EAGAIN;
}

static int page_in(struct rxng_qp *qp, u32 key, u64 iova, u32 len, bool write)
{
	enum rxng_errand errand = write ? RXNG_PAGE_IN_TO_WRITE :
					  RXNG_PAGE_IN_TO_READ;
	struct rxng_fault *fault = &qp->fault;

	if (was_asked(fault, errand, key, iova) && fault->err) {
		fault->asked = false;
		return -EFAULT;
	}
	rxng_qp_count(qp, RXNG_STAT_PAGE_FAULT, 1);
	return ask(qp, errand, key, iova, len);
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
 * rxng_qp_write_back - make what a FLUSH names safe from a loss of power
 * @qp: QP that the caller owns
 * @pkt: the FLUSH, which rxng_mr_flush() found right
 *
 * Return: 0 when it is; -EAGAIN when the QP stands still until then, and the
 * FLUSH is to come again; -EFAULT when the region went or was changed meanwhile.
 * Context: bottom halves off.
 */
int rxng_qp_write_back(struct rxng_qp *qp, const struct rxng_pkt *pkt)
{
	bool all = rxng_flush_level(pkt->feth) == RXNG_FLUSH_REGION;
	struct rxng_fault *fault = &qp->fault;
	u64 len = all ? RXNG_WHOLE_REGION : pkt->dma_len;

	if (was_asked(fault, RXNG_WRITE_BACK, pkt->rkey, pkt->va) &&
	    fault->len == len) {
		fault->asked = false;
		return fault->err ? -EFAULT : 0;
	}
	return ask(qp, RXNG_WRITE_BACK, pkt->rkey, pkt->va, len);
}

/**
 * rxng_qp_start_errand - let the worker do what a turn could not
 * @qp: QP that the caller owns, at the end of its turn
 * @whole: the turn came to all that there was to do
 *
 * Context: bottom halves off.
 */
void rxng_qp_start_errand(struct rxng_qp *qp, bool whole)
{
	struct rxng_fault *fault = &qp->fault;

	if (!fault->missed) {
		if (whole)
			fault->asked = false;
		return;
	}
	fault->missed = false;
	if (fault->errand == RXNG_WRITE_BACK)
		queue_work(writers, &fault->writer);
	else
		queue_work(pagers, &fault->pager);
}

/**
 * rxng_qp_init_fault - set up a new QP's page faults
 * @qp: QP
 */
void rxng_qp_init_fault(struct rxng_qp *qp)
{
	INIT_WORK(&qp->fault.pager, page_in_work);
	INIT_WORK(&qp->fault.writer, write_back_work);
}

/**
 * rxng_qp_stop_fault - wait for its errands
 * @qp: QP whose turns start no errand any more
 *
 * Context: process, may sleep.
 */
void rxng_qp_stop_fault(struct rxng_qp *qp)
{
	cancel_work_sync(&qp->fault.pager);
	cancel_work_sync(&qp->fault.writer);
}

/**
 * rxng_fault_init - make what does the errands
 *
 * Return: 0 or -ENOMEM.
 */
int rxng_fault_init(void)
{
	pagers = alloc_workqueue("rxe_ng", WQ_UNBOUND, 0);
	if (!pagers)
		return -ENOMEM;
	writers = alloc_workqueue("rxe_ng_flush", WQ_UNBOUND, 0);
	if (!writers) {
		destroy_workqueue(pagers);
		return -ENOMEM;
	}
	return 0;
}

/**
 * rxng_fault_exit - the end of it; there is no QP any more
 */
void rxng_fault_exit(void)
{
	destroy_workqueue(writers);
	destroy_workqueue(pagers);
}
