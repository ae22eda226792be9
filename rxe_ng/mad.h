/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Management datagrams that the device answers itself. */
#ifndef RXNG_MAD_H
#define RXNG_MAD_H

#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

/* Device operation; see struct ib_device_ops. */
int rxng_process_mad(struct ib_device *ibdev, int flags, u32 port,
		     const struct ib_wc *wc, const struct ib_grh *grh,
		     const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *out_pkey_index);

#endif
