// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory of a dma-buf (Documentation/driver-api/dma-buf.rst). Packets are copied
 * by the CPU, so what is needed is the CPU's mapping: it keeps the buffer where
 * it is for as long as it stands.
 */
#include <linux/dma-buf.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "dmabuf.h"

/**
 * struct rxng_dmabuf - a mapped dma-buf
 * @buf: with a reference
 * @map: all of it, in the kernel's address space
 */
struct rxng_dmabuf {
	struct dma_buf *buf;
	struct iosys_map map;
};

/**
 * rxng_dmabuf_get - map a dma-buf for copies in both directions
 * @fd: file descriptor of the calling process
 *
 * Return: the buffer or an error pointer: -EBADF, -EINVAL when @fd is no
 * dma-buf, -EOPNOTSUPP when the CPU cannot copy from and to its memory, or what
 * its exporter says.
 * Context: process, may sleep.
 */
struct rxng_dmabuf *rxng_dmabuf_get(int fd)
{
	struct rxng_dmabuf *dmabuf = kzalloc(sizeof(*dmabuf),
					     GFP_KERNEL_ACCOUNT);
	int err;

	if (!dmabuf)
		return ERR_PTR(-ENOMEM);
	dmabuf->buf = dma_buf_get(fd);
	if (IS_ERR(dmabuf->buf)) {
		err = PTR_ERR(dmabuf->buf);
		goto err_free;
	}
	err = dma_buf_begin_cpu_access(dmabuf->buf, DMA_BIDIRECTIONAL);
	if (err)
		goto err_put;
	err = dma_buf_vmap_unlocked(dmabuf->buf, &dmabuf->map);
	if (err)
		goto err_end_access;
	/* Memory of a device has no page frames to copy to. */
	if (dmabuf->map.is_iomem) {
		err = -EOPNOTSUPP;
		goto err_unmap;
	}
	return dmabuf;

err_unmap:
	dma_buf_vunmap_unlocked(dmabuf->buf, &dmabuf->map);
err_end_access:
	dma_buf_end_cpu_access(dmabuf->buf, DMA_BIDIRECTIONAL);
err_put:
	dma_buf_put(dmabuf->buf);
err_free:
	kfree(dmabuf);
	return ERR_PTR(err);
}

/**
 * rxng_dmabuf_put - a region of a dma-buf is gone
 * @dmabuf: buffer that no access uses; may be NULL
 *
 * Context: process, may sleep.
 */
void rxng_dmabuf_put(struct rxng_dmabuf *dmabuf)
{
	if (!dmabuf)
		return;
	dma_buf_vunmap_unlocked(dmabuf->buf, &dmabuf->map);
	dma_buf_end_cpu_access(dmabuf->buf, DMA_BIDIRECTIONAL);
	dma_buf_put(dmabuf->buf);
	kfree(dmabuf);
}

/**
 * rxng_dmabuf_size - how long a dma-buf is
 * @dmabuf: buffer
 *
 * Return: bytes.
 */
size_t rxng_dmabuf_size(const struct rxng_dmabuf *dmabuf)
{
	return dmabuf->buf->size;
}

/**
 * rxng_dmabuf_page - a page of a dma-buf
 * @dmabuf: buffer
 * @offset: bytes from its beginning
 *
 * Return: the page, or NULL when no memory of the kernel stands behind it.
 */
struct page *rxng_dmabuf_page(const struct rxng_dmabuf *dmabuf, size_t offset)
{
	void *addr = dmabuf->map.vaddr + offset;
	struct page *page;

	if (!is_vmalloc_addr(addr))
		return virt_addr_valid(addr) ? virt_to_page(addr) : NULL;
	page = vmalloc_to_page(addr);
	return page && pfn_valid(page_to_pfn(page)) ? page : NULL;
}

/* MODULE_IMPORT_NS() takes a name on older kernels, a string on newer ones. */
MODULE_INFO(import_ns, "DMA_BUF");
