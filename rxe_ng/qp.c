// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Creating, finding, querying and destroying queue pairs. */
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/xarray.h>
#include <rdma/uverbs_ioctl.h>

#include "qp.h"
#include "ucontext.h"

/* QP numbers 0 and 1 are special, the next few are kept free. */
#define FIRST_QPN 0x10

/*
 * QPs of all devices by number. The number alone finds a QP, so that a packet
 * needs no device to be found first; the QP's own addresses and namespace say
 * whether the packet is for it.
 */
static DEFINE_XARRAY_FLAGS(qps, XA_FLAGS_ALLOC);
static u32 next_qpn;

/**
 * rxng_qp_init_table - prepare the table of QPs when the module is loaded
 */
void rxng_qp_init_table(void)
{
	next_qpn = get_random_u32() & RXNG_QPN_MASK;
}

/**
 * rxng_qp_exit_table - give the table back when the module goes
 */
void rxng_qp_exit_table(void)
{
	xa_destroy(&qps);
}

/**
 * rxng_qp_lookup - find a QP by its number
 * @qpn: 24 bits
 *
 * Return: a QP of any device, or NULL. It stays until rcu_read_unlock().
 * Context: RCU read-side section.
 */
struct rxng_qp *rxng_qp_lookup(u32 qpn)
{
	return xa_load(&qps, qpn);
}

static int check_caps(const struct ib_qp_cap *cap)
{
	if (cap->max_send_wr > RXNG_MAX_QP_WR ||
	    cap->max_recv_wr > RXNG_MAX_QP_WR ||
	    cap->max_send_sge > RXNG_MAX_SGE ||
	    cap->max_recv_sge > RXNG_MAX_SGE ||
	    cap->max_inline_data > RXNG_MAX_INLINE)
		return -EINVAL;
	return 0;
}

/* Returns enum rxng_service, or a negative errno. */
static int service_of(enum ib_qp_type type)
{
	switch (type) {
	case IB_QPT_RC:
		return RXNG_SERVICE_RC;
	case IB_QPT_UC:
		return RXNG_SERVICE_UC;
	case IB_QPT_UD:
	case IB_QPT_GSI:
		return RXNG_SERVICE_UD;
	default:
		return -EOPNOTSUPP;
	}
}

static int check_init(const struct ib_qp_init_attr *init)
{
	if (service_of(init->qp_type) < 0 || init->create_flags ||
	    init->rwq_ind_tbl)
		return -EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	return check_caps(&init->cap);
}

/* Bytes behind a send request: a list, or inline data in its place. */
static u32 send_data_size(const struct ib_qp_cap *cap)
{
	return max_t(u32, cap->max_send_sge * sizeof(struct rxng_sge),
		     ALIGN(cap->max_inline_data, sizeof(struct rxng_sge)));
}

static int create_sends(struct rxng_qp *qp)
{
	struct ib_qp_cap *cap = &qp->cap;
	u32 data = send_data_size(cap);
	int err;

	qp->req.stride = sizeof(struct rxng_send) + data;
	qp->req.mask = roundup_pow_of_two(cap->max_send_wr + 1) - 1;
	qp->sends = kvcalloc(qp->req.mask + 1, qp->req.stride,
			     GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!qp->sends)
		return -ENOMEM;
	qp->req.wqes = qp->sends + offsetof(struct rxng_send, w);
	if (qp->user) {
		err = rxng_ring_create(&qp->sq, qp->req.mask,
				       sizeof(struct rxng_send_wqe) + data);
		if (err) {
			kvfree(qp->sends);
			return err;
		}
	}
	cap->max_send_wr = qp->req.mask;
	cap->max_send_sge = data / sizeof(struct rxng_sge);
	cap->max_inline_data = data;
	return 0;
}

static int create_recvs(struct rxng_qp *qp)
{
	struct ib_qp_cap *cap = &qp->cap;
	int err;

	if (qp->srq) {
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
		return 0;
	}
	err = rxng_ring_create(&qp->rq, cap->max_recv_wr,
			       rxng_recv_slot_size(cap->max_recv_sge));
	if (!err)
		cap->max_recv_wr = qp->rq.mask;
	return err;
}

static int create_queues(struct rxng_qp *qp)
{
	int err;

	err = create_sends(qp);
	if (err)
		return err;
	err = create_recvs(qp);
	if (err)
		goto err_free_sends;
	return 0;

err_free_sends:
	kvfree(qp->sends);
	rxng_ring_destroy(&qp->sq);
	return err;
}

static void destroy_queues(struct rxng_qp *qp)
{
	rxng_ring_destroy(&qp->rq);
	kvfree(qp->sends);
	rxng_ring_destroy(&qp->sq);
}

static int map_queues(struct rxng_qp *qp, struct ib_udata *udata)
{
	struct rxng_ucontext *uc =
		rdma_udata_to_drv_context(udata, struct rxng_ucontext, ibuc);
	struct rxng_create_qp_resp resp = {};
	int err;

	if (!qp->srq) {
		err = rxng_ring_map(&qp->rq, &uc->ibuc, &resp.rq_mi);
		if (err)
			return err;
	}
	err = rxng_ring_map(&qp->sq, &uc->ibuc, &resp.sq_mi);
	if (err)
		return err;
	return rxng_udata_respond(udata, &resp, sizeof(resp));
}

static void init_qp(struct rxng_qp *qp, const struct ib_qp_init_attr *init,
		    bool user)
{
	mutex_init(&qp->modify_mutex);
	spin_lock_init(&qp->post_lock);
	spin_lock_init(&qp->recv_lock);
	qp->user = user;
	qp->stats = rxng_qp_dev(qp)->stats;
	qp->cap = init->cap;
	qp->srq = init->srq ? to_rxng_srq(init->srq) : NULL;
	qp->req.service = service_of(init->qp_type);
	qp->resp.service = qp->req.service;
	qp->sq_sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	rxng_qp_init_task(qp);
}

/* QP 1 is one for each device, and is found by the device's addresses. */
static int publish(struct rxng_qp *qp)
{
	struct rxng_dev *dev = rxng_qp_dev(qp);
	int err;

	if (qp->ibqp.qp_type == IB_QPT_GSI) {
		qp->ibqp.qp_num = RXNG_GSI_QPN;
		return cmpxchg(&dev->gsi, NULL, qp) ? -EBUSY : 0;
	}
	err = xa_alloc_cyclic(&qps, &qp->ibqp.qp_num, qp,
			      XA_LIMIT(FIRST_QPN, RXNG_QPN_MASK - 1),
			      &next_qpn, GFP_KERNEL);
	return err < 0 ? err : 0;
}

static void unpublish(struct rxng_qp *qp)
{
	if (qp->ibqp.qp_type == IB_QPT_GSI)
		WRITE_ONCE(rxng_qp_dev(qp)->gsi, NULL);
	else
		xa_erase(&qps, qp->ibqp.qp_num);
	/* Receivers that found it are done after this. */
	synchronize_rcu_expedited();
}

/**
 * rxng_create_qp - create a QP; see struct ib_device_ops
 * @ibqp: QP to be filled in
 * @init: what is asked for; its capacities are updated to what is given
 * @udata: response of a process, or NULL for a kernel consumer
 *
 * Return: 0; -EOPNOTSUPP for a type or flag that is not there; -EINVAL for
 * capacities beyond the device's; -ENOMEM at a limit or without memory; -EBUSY
 * for a second QP 1.
 */
int rxng_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		   struct ib_udata *udata)
{
	struct rxng_dev *dev = to_rxng_dev(ibqp->device);
	struct rxng_qp *qp = to_rxng_qp(ibqp);
	int err;

	err = check_init(init);
	if (err)
		return err;
	err = rxng_udata_check(udata, sizeof(struct rxng_create_qp_resp));
	if (err)
		return err;
	if (!rxng_take(&dev->num_qp, RXNG_MAX_QP, &ibqp->pd->res))
		return -ENOMEM;
	init_qp(qp, init, udata);
	err = create_queues(qp);
	if (err)
		goto err_put_count;
	qp->sk = rxng_qp_sock_create(dev, qp, rxng_qp_write_space);
	if (IS_ERR(qp->sk)) {
		err = PTR_ERR(qp->sk);
		goto err_destroy_queues;
	}
	rxng_qp_reset(qp);
	if (udata) {
		err = map_queues(qp, udata);
		if (err)
			goto err_release_sock;
	}
	err = publish(qp);
	if (err)
		goto err_release_sock;
	init->cap = qp->cap;
	return 0;

err_release_sock:
	rxng_qp_sock_release(qp->sk);
err_destroy_queues:
	destroy_queues(qp);
err_put_count:
	rxng_give(&dev->num_qp, &ibqp->pd->res);
	return err;
}

/**
 * rxng_query_qp - tell the attributes as they are; see struct ib_device_ops
 * @ibqp: QP
 * @attr: filled in
 * @mask: ignored: everything is filled in
 * @init: filled in
 *
 * Return: 0.
 */
int rxng_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init)
{
	struct rxng_qp *qp = to_rxng_qp(ibqp);

	local_bh_disable();
	spin_lock(&qp->lock);
	*attr = qp->attr;
	rxng_qp_unlock(qp);
	local_bh_enable();
	attr->cur_qp_state = attr->qp_state;
	attr->cap = qp->cap;

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->cap;
	init->sq_sig_type = qp->sq_sig_all ? IB_SIGNAL_ALL_WR :
					     IB_SIGNAL_REQ_WR;
	init->qp_type = ibqp->qp_type;
	return 0;
}

/**
 * rxng_destroy_qp - destroy a QP; see struct ib_device_ops
 * @ibqp: QP that no consumer uses any more
 * @udata: ignored
 *
 * Packets that lie in a queue of the network stay there; they know the QP's
 * socket only, which outlives the QP.
 *
 * Return: 0.
 */
int rxng_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct rxng_qp *qp = to_rxng_qp(ibqp);

	unpublish(qp);
	spin_lock_bh(&qp->lock);
	rxng_qp_reset(qp);
	spin_unlock_bh(&qp->lock);
	rxng_qp_sock_release(qp->sk);
	rxng_qp_stop_task(qp);
	rxng_cq_settle(to_rxng_cq(ibqp->send_cq));
	rxng_cq_settle(to_rxng_cq(ibqp->recv_cq));
	rxng_path_drop_route(&qp->path);
	destroy_queues(qp);
	rxng_give(&to_rxng_dev(ibqp->device)->num_qp, &ibqp->pd->res);
	return 0;
}
