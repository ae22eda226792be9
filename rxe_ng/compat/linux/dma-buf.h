/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <linux/dma-buf.h>

#ifndef RXNG_COMPAT_LINUX_DMA_BUF_H
#define RXNG_COMPAT_LINUX_DMA_BUF_H

#include "rxng_probes.h"

/* Older kernels lock the buffer in these themselves. */
#ifndef RXNG_HAVE_DMA_BUF_VMAP_UNLOCKED
#define dma_buf_vmap_unlocked dma_buf_vmap
#define dma_buf_vunmap_unlocked dma_buf_vunmap
#endif

#endif
