/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sending bursts: over the network, or to a QP on this host. */
#ifndef RXNG_TX_H
#define RXNG_TX_H

#include "cursor.h"
#include "qp.h"

/* Most packets, and bytes of payload, in one burst. */
#define RXNG_BURST_PKTS 256
#define RXNG_BURST_BYTES (64 * 1024)

/**
 * rxng_burst_pkts - longest burst at a QP's MTU
 * @qp: QP
 */
static inline u32 rxng_burst_pkts(const struct rxng_qp *qp)
{
	return min_t(u32, RXNG_BURST_PKTS, RXNG_BURST_BYTES / qp->req.mtu);
}

bool rxng_tx_room(struct rxng_qp *qp);
int rxng_tx_burst(struct rxng_qp *qp, struct rxng_pkt *burst,
		  struct rxng_cursor *payload, u64 now);

#endif
