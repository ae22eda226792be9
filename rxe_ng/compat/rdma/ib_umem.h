/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <rdma/ib_umem.h>

#ifndef RXNG_COMPAT_RDMA_IB_UMEM_H
#define RXNG_COMPAT_RDMA_IB_UMEM_H

#include "rxng_probes.h"

#ifndef RXNG_HAVE_UMEM_GET_VA
static inline struct ib_umem *ib_umem_get_va(struct ib_device *device,
					     unsigned long addr, size_t size,
					     int access)
{
	return ib_umem_get(device, addr, size, access);
}
#endif

#endif
