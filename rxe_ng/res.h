/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What `rdma resource show -d` tells of an object's inside. */
#ifndef RXNG_RES_H
#define RXNG_RES_H

#include <linux/skbuff.h>
#include <rdma/ib_verbs.h>

/* Device operations, res.c; see struct ib_device_ops. */
int rxng_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
int rxng_fill_res_qp_entry_raw(struct sk_buff *msg, struct ib_qp *ibqp);
int rxng_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);
int rxng_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int rxng_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq);

#endif
