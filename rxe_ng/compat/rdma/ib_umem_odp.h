/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <rdma/ib_umem_odp.h>

#ifndef RXNG_COMPAT_RDMA_IB_UMEM_ODP_H
#define RXNG_COMPAT_RDMA_IB_UMEM_ODP_H

#include <linux/hmm.h>

/* Older kernels keep DMA addresses beside the page frames, with rights of their own. */
#ifdef ODP_READ_ALLOWED_BIT
#define RXNG_ODP_READ ODP_READ_ALLOWED_BIT
#define RXNG_ODP_WRITE ODP_WRITE_ALLOWED_BIT
#define rxng_odp_pfns(umem_odp) ((umem_odp)->pfn_list)
#else
#define RXNG_ODP_READ 0
#define RXNG_ODP_WRITE HMM_PFN_WRITE
#define rxng_odp_pfns(umem_odp) ((umem_odp)->map.pfn_list)
#endif

#endif
