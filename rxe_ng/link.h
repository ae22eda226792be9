/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* `rdma link add` and `del`, and what happens to the netdev below a link. */
#ifndef RXNG_LINK_H
#define RXNG_LINK_H

int rxng_link_init(void);
void rxng_link_exit(void);

#endif
