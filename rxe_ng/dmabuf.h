/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory of a dma-buf that the CPU can map. */
#ifndef RXNG_DMABUF_H
#define RXNG_DMABUF_H

#include <linux/mm_types.h>

struct rxng_dmabuf;

struct rxng_dmabuf *rxng_dmabuf_get(int fd);
void rxng_dmabuf_put(struct rxng_dmabuf *dmabuf);
size_t rxng_dmabuf_size(const struct rxng_dmabuf *dmabuf);
struct page *rxng_dmabuf_page(const struct rxng_dmabuf *dmabuf, size_t offset);

#endif
