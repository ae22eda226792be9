/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sending bursts: over the network, or to a QP on this host. */
#ifndef RXNG_TX_H
#define RXNG_TX_H

#include "ah.h"
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

/**
 * rxng_burst_cost - what a burst takes of a turn's budget
 * @npkts: packets of it
 *
 * A long burst is a long copy, and over the network many packets.
 */
static inline int rxng_burst_cost(int npkts)
{
	return 1 + npkts / 16;
}

bool rxng_tx_requests_left(const struct rxng_qp *qp);
bool rxng_tx_room(struct rxng_qp *qp, enum rxng_kind kind);
int rxng_tx_burst(struct rxng_qp *qp, struct rxng_pkt *burst,
		  struct rxng_cursor *payload, u64 now);
int rxng_tx_datagram(struct rxng_qp *qp, struct rxng_av *av,
		     struct rxng_pkt *pkt, struct rxng_cursor *payload, u64 now);

#endif
