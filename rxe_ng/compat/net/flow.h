/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <net/flow.h>

#ifndef RXNG_COMPAT_NET_FLOW_H
#define RXNG_COMPAT_NET_FLOW_H

#include <net/inet_dscp.h>

#include "rxng_probes.h"

/**
 * rxng_flow_set_dscp - the DSCP that a route is chosen by
 * @fl4: flow
 * @tos: type of service of its packets
 */
static inline void rxng_flow_set_dscp(struct flowi4 *fl4, u8 tos)
{
#ifdef RXNG_HAVE_FLOWI4_DSCP
	fl4->flowi4_dscp = inet_dsfield_to_dscp(tos);
#else
	fl4->flowi4_tos = tos & INET_DSCP_MASK;
#endif
}

#endif
