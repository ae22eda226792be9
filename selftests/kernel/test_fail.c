// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Verbs when memory runs out: the first allocation of a verb fails, then the
 * second and so on, until one run of it needs no more. Wants a kernel with
 * CONFIG_FAILSLAB and failslab/ignore-gfp-wait set to N, as run.sh does.
 */
#include <linux/sched.h>

#include "ktest.h"

/* No verb makes that many allocations. */
#define MANY 1000

/* The objects that the verbs make, and undo takes back. */
struct made {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_mr *mr;
	struct ib_qp *qp;
	struct ib_ah *ah;
};

/**
 * struct verb - a verb under test
 * @name: what it is called
 * @make: do it; returns an error code
 * @undo: take back what it made
 */
struct verb {
	const char *name;
	long (*make)(struct kt *t, struct made *m);
	void (*undo)(struct made *m);
};

static long make_pd(struct kt *t, struct made *m)
{
	m->pd = ib_alloc_pd(t->dev, 0);
	return PTR_ERR_OR_ZERO(m->pd);
}

static void undo_pd(struct made *m)
{
	ib_dealloc_pd(m->pd);
}

static long make_cq(struct kt *t, struct made *m)
{
	struct ib_cq_init_attr attr = { .cqe = 1000 };

	m->cq = ib_create_cq(t->dev, NULL, NULL, NULL, &attr);
	return PTR_ERR_OR_ZERO(m->cq);
}

static void undo_cq(struct made *m)
{
	ib_destroy_cq(m->cq);
}

static long make_mr(struct kt *t, struct made *m)
{
	m->mr = ib_alloc_mr(t->pd, IB_MR_TYPE_MEM_REG, 256);
	return PTR_ERR_OR_ZERO(m->mr);
}

static void undo_mr(struct made *m)
{
	ib_dereg_mr(m->mr);
}

static long make_qp(struct kt *t, struct made *m)
{
	struct ib_qp_init_attr attr = {
		.send_cq = t->side[0].cq,
		.recv_cq = t->side[0].cq,
		.cap.max_send_wr = 100,
		.cap.max_recv_wr = 100,
		.cap.max_send_sge = 4,
		.cap.max_recv_sge = 4,
		.qp_type = IB_QPT_RC,
	};

	m->qp = ib_create_qp(t->pd, &attr);
	return PTR_ERR_OR_ZERO(m->qp);
}

static void undo_qp(struct made *m)
{
	ib_destroy_qp(m->qp);
}

static long make_ah(struct kt *t, struct made *m)
{
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_ROCE };

	rdma_ah_set_port_num(&attr, 1);
	rdma_ah_set_grh(&attr, &t->gid, 0, t->gid_index, 64, 0);
	m->ah = rdma_create_ah(t->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	return PTR_ERR_OR_ZERO(m->ah);
}

static void undo_ah(struct made *m)
{
	rdma_destroy_ah(m->ah, RDMA_DESTROY_AH_SLEEPABLE);
}

static const struct verb verbs[] = {
	{ "alloc PD", make_pd, undo_pd },
	{ "create CQ", make_cq, undo_cq },
	{ "alloc MR", make_mr, undo_mr },
	{ "create QP", make_qp, undo_qp },
	{ "create AH", make_ah, undo_ah },
};

#ifdef CONFIG_FAULT_INJECTION
static void fail_at(unsigned int nth)
{
	current->fail_nth = nth;
}

/* Returns whether the failure that was asked for has not come. */
static bool failure_is_left(void)
{
	bool left = current->fail_nth;

	current->fail_nth = 0;
	return left;
}
#else
static void fail_at(unsigned int nth)
{
}

static bool failure_is_left(void)
{
	return true;
}
#endif

/* Returns how many allocations were made to fail, or a negative number. */
static int starve(struct kt *t, const struct verb *v)
{
	struct made m;
	long err;
	int n;

	for (n = 1; n < MANY; n++) {
		bool left;

		fail_at(n);
		err = v->make(t, &m);
		left = failure_is_left();
		if (!err)
			v->undo(&m);
		if (left && err)
			kt_fail(t, "%s: %ld without a failure", v->name, err);
		else if (err && err != -ENOMEM)
			kt_fail(t, "%s: %ld at allocation %d", v->name, err, n);
		if (t->failed)
			return -1;
		if (left)
			return n - 1;
	}
	kt_fail(t, "%s: allocates without end", v->name);
	return -1;
}

static bool out_of_memory(struct kt *t)
{
	int i, n, total = 0;

	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		n = starve(t, &verbs[i]);
		if (n < 0)
			return false;
		total += n;
	}
	return total || kt_skip(t, "this kernel has no failslab");
}

/* Messages get through, whatever could not be allocated meanwhile. */
static bool messages_out_of_memory(struct kt *t)
{
	int n;

	for (n = 1; n < 200; n++) {
		bool ok;

		kt_fill(t->side[0].buf, 5000, n);
		fail_at(n % 20 + 1);
		ok = kt_post_recv(t, 1, n, 0, 8192) &&
		     kt_post_send(t, 0, n, 0, 5000);
		failure_is_left();
		if (!ok || !kt_expect(t, 1, n, IB_WC_SUCCESS, NULL) ||
		    !kt_expect(t, 0, n, IB_WC_SUCCESS, NULL) ||
		    !kt_check_fill(t, t->side[1].buf, 5000, n))
			return false;
	}
	return true;
}

const struct kt_case kt_fail_cases[] = {
	{ "each allocation of each verb fails", out_of_memory },
	{ "messages while allocations fail", messages_out_of_memory },
	{}
};
