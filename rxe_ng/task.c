// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Who runs a QP: its tasklet, or a doorbell that finds it idle. Whoever gets
 * the QP's lock is its owner for one turn; who does not get it leaves a bit in
 * @wake, and the owner looks at the bits once more after letting go, so that
 * no wake-up is lost. Nobody waits for the end of a turn, but a doorbell for a
 * moment (run_posted()).
 */
#include <linux/skbuff.h>

#include "qp.h"

/* Bounds of the look for work posted to a QP in ERROR without a doorbell. */
#define RECHECK_MIN_NS (1 * NSEC_PER_MSEC)
#define RECHECK_MAX_NS (1 * NSEC_PER_SEC)

static void earlier(u64 *at, u64 other)
{
	if (other && (!*at || other < *at))
		*at = other;
}

/*
 * The timer is not moved back when a deadline moves away: it fires, finds
 * nothing due and is set anew. So a stream of messages costs no timer at all.
 */
static void set_timer(struct rxng_qp *qp, u64 now)
{
	u64 at = 0;

	earlier(&at, qp->req.deadline);
	earlier(&at, qp->req.rnr_until);
	earlier(&at, qp->resp.nak_at);
	earlier(&at, qp->blocked_until);
	earlier(&at, qp->recheck_at);
	if (!at || (qp->timer_at && qp->timer_at <= at))
		return;
	qp->timer_at = at;
	hrtimer_start(&qp->timer, ns_to_ktime(at > now ? at - now : 1),
		      HRTIMER_MODE_REL_SOFT);
}

static enum hrtimer_restart timer_fired(struct hrtimer *timer)
{
	struct rxng_qp *qp = container_of(timer, struct rxng_qp, timer);

	rxng_qp_wake(qp, RXNG_WAKE_TIMER);
	return HRTIMER_NORESTART;
}

/* In ERROR everything that is posted is flushed, also without a doorbell. */
static void run_error(struct rxng_qp *qp, u64 now, int *budget)
{
	rxng_qp_purge_inbox(qp);
	rxng_responder_pay_nak(qp, now);
	if (rxng_qp_flush(qp, budget) || !qp->recheck_ns)
		qp->recheck_ns = RECHECK_MIN_NS;
	else
		qp->recheck_ns = min_t(u64, 2 * qp->recheck_ns, RECHECK_MAX_NS);
	qp->recheck_at = qp->user ? now + qp->recheck_ns : 0;
}

/*
 * Each part has a share in the turn: answers that never end keep the peer's
 * requests from being carried out no more than these keep ours from leaving.
 */
static void run_share(struct rxng_qp *qp, u64 now, int *budget,
		      void (*run)(struct rxng_qp *qp, u64 now, int *budget))
{
	int lent = max(RXNG_SURE_SHARE - *budget, 0);

	*budget += lent;
	run(qp, now, budget);
	*budget -= lent;
}

static void flush_sends(struct rxng_qp *qp, u64 now, int *budget)
{
	rxng_qp_flush_sends(qp, budget);
}

static void run_working(struct rxng_qp *qp, u64 now, int *budget)
{
	rxng_completer_run(qp, now, budget);
	if (rxng_qp_stands_still(qp))
		return;
	rxng_completer_timer(qp, now);
	run_share(qp, now, budget, rxng_responder_run);
	if (rxng_qp_stands_still(qp))
		return;
	run_share(qp, now, budget, rxng_requester_run);
	if (qp->attr.qp_state == IB_QPS_SQE)
		run_share(qp, now, budget, flush_sends);
}

/**
 * rxng_qp_run_owned - one turn: completer, responder, requester
 * @qp: QP that the caller owns
 *
 * Context: bottom halves off. Afterwards, without the lock, the caller calls
 * rxng_qp_deliver().
 */
void rxng_qp_run_owned(struct rxng_qp *qp)
{
	int budget = RXNG_RUN_BUDGET;
	u64 now = ktime_get_ns();
	unsigned long wake;
	bool stood_still;

	lockdep_assert_held(&qp->lock);
	wake = xchg(&qp->wake, 0);
	/* Not before: the worker's bit, taken just now, comes after its flag. */
	stood_still = rxng_qp_stands_still(qp);
	if (wake & BIT(RXNG_WAKE_TIMER))
		qp->timer_at = 0;
	if (wake & BIT(RXNG_WAKE_POST))
		qp->rung = true;
	if (qp->blocked_until && now >= qp->blocked_until)
		qp->blocked_until = 0;

	switch (qp->attr.qp_state) {
	case IB_QPS_RESET:
	case IB_QPS_INIT:
		rxng_qp_purge_inbox(qp);
		break;
	case IB_QPS_ERR:
		run_error(qp, now, &budget);
		break;
	default:
		if (!stood_still)
			run_working(qp, now, &budget);
		if (qp->attr.qp_state == IB_QPS_ERR)
			run_error(qp, now, &budget);
		break;
	}
	rxng_qp_start_errand(qp, !stood_still && budget > 0);
	/* Nothing is done before the worker wakes it, whatever is due. */
	if (rxng_qp_stands_still(qp) && qp->attr.qp_state != IB_QPS_ERR)
		return;
	if (budget <= 0)
		set_bit(RXNG_WAKE_WORK, &qp->wake);
	set_timer(qp, now);
}

/**
 * rxng_qp_unlock - let go of a QP
 * @qp: QP that the caller owns
 *
 * Who failed to get it meanwhile has left a bit in @wake.
 *
 * Context: bottom halves off.
 */
void rxng_qp_unlock(struct rxng_qp *qp) __releases(&qp->lock)
{
	spin_unlock(&qp->lock);
	/* Pairs with the one in rxng_qp_wake(): see its bit, or it sees us. */
	smp_mb();
	if (READ_ONCE(qp->wake))
		tasklet_schedule(&qp->task);
}

static void try_run(struct rxng_qp *qp)
{
	if (!spin_trylock(&qp->lock))
		return;
	rxng_qp_run_owned(qp);
	rxng_qp_unlock(qp);
}

static void task_run(struct tasklet_struct *task)
{
	struct rxng_qp *qp = from_tasklet(qp, task, task);

	try_run(qp);
	rxng_qp_deliver(qp);
}

/* What the owner is to find is there before the bit, and it before a look. */
static void leave_word(struct rxng_qp *qp, enum rxng_wake why)
{
	smp_mb__before_atomic();
	set_bit(why, &qp->wake);
	smp_mb__after_atomic();
}

/**
 * rxng_qp_wake - let a QP run soon
 * @qp: QP that will not go away meanwhile
 * @why: reason
 *
 * Context: any.
 */
void rxng_qp_wake(struct rxng_qp *qp, enum rxng_wake why)
{
	leave_word(qp, why);
	tasklet_schedule(&qp->task);
}

/* On the other CPU, with interrupts off; the bit is the last access. */
static void kicked(void *data)
{
	struct rxng_qp *qp = data;

	tasklet_schedule(&qp->task);
	clear_bit_unlock(0, &qp->kicked);
}

/* A call that is on its way may have done its work already. */
static void kick(struct rxng_qp *qp, unsigned int cpu)
{
	if (test_and_set_bit_lock(0, &qp->kicked)) {
		tasklet_schedule(&qp->task);
		return;
	}
	if (smp_call_function_single_async(cpu, &qp->kick)) {
		clear_bit_unlock(0, &qp->kicked);
		tasklet_schedule(&qp->task);
	}
}

static const struct rxng_swqe *last_posted(const struct rxng_qp *qp)
{
	return rxng_req_wqe(&qp->req, READ_ONCE(qp->req.tail) - 1);
}

/*
 * It posts one after the other, and no message of the peer is what lets it go
 * on; and its requests or completions pile up, or it does not ask to be told.
 */
static bool consumer_is_ahead(struct rxng_qp *qp)
{
	u32 streak = READ_ONCE(qp->streak) + 1;

	if (!qp->user)
		return false;
	WRITE_ONCE(qp->streak, streak);
	if (streak < RXNG_AHEAD)
		return false;
	if (!qp->sq_sig_all &&
	    !(READ_ONCE(last_posted(qp)->flags) & RXNG_SWQE_SIGNALED))
		return true;
	return READ_ONCE(qp->req.tail) - READ_ONCE(qp->req.head) >= RXNG_AHEAD ||
	       rxng_cq_backlog(to_rxng_cq(qp->ibqp.send_cq)) >= RXNG_AHEAD;
}

/*
 * A QP at home stays there when the work is the copying. With short messages
 * posting them is work enough for one CPU.
 */
static unsigned int better_cpu(const struct rxng_qp *qp, unsigned int here)
{
	if (qp->home != here)
		return qp->home;
	return READ_ONCE(last_posted(qp)->length) <= RXNG_SHORT_BYTES ?
		       qp->away : here;
}

/*
 * An owner that handles what came from the peer is about to let go: waiting
 * for it costs less than leaving the posted requests to another CPU.
 */
static void run_posted(struct rxng_qp *qp)
{
	int i;

	for (i = 0; i < RXNG_OWNER_SPINS && spin_is_locked(&qp->lock); i++)
		cpu_relax();
	leave_word(qp, RXNG_WAKE_POST);
	try_run(qp);
}

/*
 * A process that posts without looking at completions wants many messages, not
 * the next one soon. Then another CPU does the work, for many posts at a time,
 * and QPs are spread over all CPUs.
 *
 * Returns whether somebody else runs the QP, or will.
 */
static bool leave_to_other(struct rxng_qp *qp)
{
	unsigned int here = smp_processor_id();
	unsigned int cpu;

	if (!consumer_is_ahead(qp))
		return false;
	cpu = better_cpu(qp, here);
	if (cpu == here)
		return false;
	leave_word(qp, RXNG_WAKE_POST);
	/* An owner looks at @wake when it lets go. */
	if (!spin_is_locked(&qp->lock) &&
	    !test_bit(TASKLET_STATE_SCHED, &qp->task.state))
		kick(qp, cpu);
	return true;
}

/**
 * rxng_qp_doorbell - work was posted: run the QP here if nobody else does
 * @qp: QP
 *
 * A kernel consumer may hold locks of its own that its handlers take, so its
 * events are left to the tasklet.
 *
 * Context: any; runs in place only where bottom halves may be turned off.
 */
void rxng_qp_doorbell(struct rxng_qp *qp)
{
	if (in_hardirq() || irqs_disabled()) {
		rxng_qp_wake(qp, RXNG_WAKE_POST);
		return;
	}
	local_bh_disable();
	if (!leave_to_other(qp))
		run_posted(qp);
	if (!qp->user && rxng_qp_has_news(qp))
		tasklet_schedule(&qp->task);
	local_bh_enable();
	if (qp->user)
		rxng_qp_deliver(qp);
}

/**
 * rxng_qp_write_space - packets of a QP's socket were freed
 * @sk: the socket; its user data is the QP
 *
 * Context: any; the caller keeps the QP from going away.
 */
void rxng_qp_write_space(struct sock *sk)
{
	struct rxng_qp *qp = sk->sk_user_data;
	u32 want = READ_ONCE(qp->want_space);

	if (!want || refcount_read(&sk->sk_wmem_alloc) > want)
		return;
	WRITE_ONCE(qp->want_space, 0);
	rxng_qp_wake(qp, RXNG_WAKE_WORK);
}

/* One after the other of those that the process may use itself. */
static unsigned int choose_home(void)
{
	unsigned int here = get_cpu();
	unsigned int cpu = cpumask_any_and_distribute(current->cpus_ptr,
						      cpu_online_mask);

	put_cpu();
	return cpu < nr_cpu_ids ? cpu : here;
}

/* The next one, where there is; a second turn would skip every other home. */
static unsigned int choose_away(unsigned int home)
{
	unsigned int cpu = cpumask_next_and(home, current->cpus_ptr,
					    cpu_online_mask);

	if (cpu >= nr_cpu_ids)
		cpu = cpumask_first_and(current->cpus_ptr, cpu_online_mask);
	return cpu < nr_cpu_ids ? cpu : home;
}

/**
 * rxng_qp_init_task - set up what runs a QP
 * @qp: new QP
 *
 * Context: process, the one that will use the QP.
 */
void rxng_qp_init_task(struct rxng_qp *qp)
{
	spin_lock_init(&qp->lock);
	spin_lock_init(&qp->inbox_lock);
	__skb_queue_head_init(&qp->requests);
	__skb_queue_head_init(&qp->responses);
	tasklet_setup(&qp->task, task_run);
	rxng_qp_init_fault(qp);
	qp->home = choose_home();
	qp->away = choose_away(qp->home);
	INIT_CSD(&qp->kick, kicked, qp);
	hrtimer_setup(&qp->timer, timer_fired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
}

/**
 * rxng_qp_stop_task - wait until nothing runs the QP any more
 * @qp: QP in RESET, which starts no timer, that cannot be looked up and whose
 *	socket is released
 *
 * Context: process; may sleep.
 */
void rxng_qp_stop_task(struct rxng_qp *qp)
{
	/* It may wake the tasklet, which starts nothing in RESET. */
	rxng_qp_stop_fault(qp);
	hrtimer_cancel(&qp->timer);
	while (test_bit_acquire(0, &qp->kicked))
		cpu_relax();
	tasklet_kill(&qp->task);
	rxng_qp_purge_inbox(qp);
}
