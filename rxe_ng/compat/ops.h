/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Entries of struct ib_device_ops whose name or signature differs between
 * kernels, as designated initialisers. Our functions have the newest shape.
 */
#ifndef RXNG_COMPAT_OPS_H
#define RXNG_COMPAT_OPS_H

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "../counter.h"
#include "../cq.h"
#include "../mr.h"
#include "../res.h"
#include "rxng_probes.h"

#ifdef RXNG_HAVE_CREATE_CQ_ATTRS
#define RXNG_OP_CREATE_CQ .create_cq = rxng_create_cq
#else
static inline int rxng_op_create_cq(struct ib_cq *ibcq,
				    const struct ib_cq_init_attr *attr,
				    struct ib_udata *udata)
{
	return rxng_create_cq(ibcq, attr, udata ?
			      rdma_udata_to_uverbs_attr_bundle(udata) : NULL);
}

#define RXNG_OP_CREATE_CQ .create_cq = rxng_op_create_cq
#endif

#ifdef RXNG_HAVE_RESIZE_USER_CQ
#define RXNG_OP_RESIZE_CQ .resize_user_cq = rxng_resize_cq
#else
static inline int rxng_op_resize_cq(struct ib_cq *ibcq, int cqe,
				    struct ib_udata *udata)
{
	return cqe < 0 ? -EINVAL : rxng_resize_cq(ibcq, cqe, udata);
}

#define RXNG_OP_RESIZE_CQ .resize_cq = rxng_op_resize_cq
#endif

#ifdef RXNG_HAVE_REG_USER_MR_DMAH
/* A DMA handle steers caches by a PCI device's hints: there is none here. */
static inline struct ib_mr *rxng_op_reg_user_mr(struct ib_pd *ibpd, u64 start,
						u64 length, u64 iova,
						int access,
						struct ib_dmah *dmah,
						struct ib_udata *udata)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return rxng_reg_user_mr(ibpd, start, length, iova, access, udata);
}

#define RXNG_OP_REG_USER_MR .reg_user_mr = rxng_op_reg_user_mr
#else
#define RXNG_OP_REG_USER_MR .reg_user_mr = rxng_reg_user_mr
#endif

/* This call has no private part, whatever the last argument points to. */
#ifdef RXNG_HAVE_REG_DMABUF_DMAH
static inline struct ib_mr *
rxng_op_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
			   int fd, int access, struct ib_dmah *dmah,
			   struct uverbs_attr_bundle *attrs)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return rxng_reg_user_mr_dmabuf(ibpd, offset, length, iova, fd, access);
}
#elif defined(RXNG_HAVE_REG_DMABUF_ATTRS)
static inline struct ib_mr *
rxng_op_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
			   int fd, int access, struct uverbs_attr_bundle *attrs)
{
	return rxng_reg_user_mr_dmabuf(ibpd, offset, length, iova, fd, access);
}
#else
static inline struct ib_mr *
rxng_op_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
			   int fd, int access, struct ib_udata *udata)
{
	return rxng_reg_user_mr_dmabuf(ibpd, offset, length, iova, fd, access);
}
#endif

#define RXNG_OP_REG_USER_MR_DMABUF \
	.reg_user_mr_dmabuf = rxng_op_reg_user_mr_dmabuf

#ifdef RXNG_HAVE_COUNTER_PORT
/* The core calls it without asking; there is nothing to prepare. */
static inline void rxng_op_counter_init(struct rdma_counter *counter)
{
}

#define RXNG_OP_COUNTER_BIND_QP					\
	.size_rdma_counter = sizeof(struct rdma_counter),	\
	.counter_init = rxng_op_counter_init,			\
	.counter_bind_qp = rxng_counter_bind_qp,		\
	.counter_unbind_qp = rxng_counter_unbind_qp,
#else
static inline int rxng_op_counter_bind_qp(struct rdma_counter *counter,
					  struct ib_qp *ibqp)
{
	return rxng_counter_bind_qp(counter, ibqp, 1);
}

static inline int rxng_op_counter_unbind_qp(struct ib_qp *ibqp)
{
	return rxng_counter_unbind_qp(ibqp, 1);
}

#define RXNG_OP_COUNTER_BIND_QP					\
	.counter_bind_qp = rxng_op_counter_bind_qp,		\
	.counter_unbind_qp = rxng_op_counter_unbind_qp,
#endif

/* Older kernels do not ask for the inside of shared receive queues. */
#ifdef RXNG_HAVE_FILL_RES_SRQ
#define RXNG_OP_FILL_RES_SRQ .fill_res_srq_entry = rxng_fill_res_srq_entry,
#else
#define RXNG_OP_FILL_RES_SRQ
#endif

/*
 * Newer kernels watch the netdev and dispatch port events by themselves unless
 * the driver has this operation. Ours does it, on all kernels alike.
 */
#ifdef RXNG_HAVE_REPORT_PORT_EVENT
static inline void rxng_op_report_port_event(struct ib_device *ibdev,
					     struct net_device *ndev,
					     unsigned long event)
{
}

#define RXNG_OP_REPORT_PORT_EVENT .report_port_event = rxng_op_report_port_event,
#else
#define RXNG_OP_REPORT_PORT_EVENT
#endif

#endif
