// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/mm.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "device.h"
#include "ring.h"
#include "ucontext.h"

/**
 * rxng_udata_check - may a verb be answered the way its caller asks?
 * @udata: private part of the call, or NULL from kernel consumers
 * @resp_len: bytes that the caller has to have room for
 *
 * No verb takes private input yet. Input that is not all zero asks for
 * something that would silently not happen.
 *
 * Return: 0, -EINVAL when the answer would not fit, -EOPNOTSUPP for input.
 * Context: process, may sleep.
 */
int rxng_udata_check(struct ib_udata *udata, size_t resp_len)
{
	if (!udata)
		return 0;
	if (udata->outlen < resp_len)
		return -EINVAL;
	if (udata->inlen && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EOPNOTSUPP;
	return 0;
}

/**
 * rxng_udata_respond - answer in the private part of a verb
 * @udata: private part of the call, or NULL from kernel consumers
 * @resp: answer
 * @resp_len: bytes of @resp
 *
 * A newer caller with more room finds the rest zeroed; an older one gets as
 * much as it knows of.
 *
 * Return: 0 or -EFAULT.
 * Context: process, may sleep.
 */
int rxng_udata_respond(struct ib_udata *udata, const void *resp,
		       size_t resp_len)
{
	size_t len;

	if (!udata || !udata->outlen)
		return 0;
	len = min(resp_len, udata->outlen);
	if (copy_to_user(udata->outbuf, resp, len) ||
	    clear_user(udata->outbuf + len, udata->outlen - len))
		return -EFAULT;
	return 0;
}

/**
 * rxng_udata_unused - a verb neither takes nor gives anything private
 * @udata: private part of the call, or NULL from kernel consumers
 *
 * Return: 0, -EOPNOTSUPP for input, -EFAULT.
 * Context: process, may sleep.
 */
int rxng_udata_unused(struct ib_udata *udata)
{
	return rxng_udata_check(udata, 0) ?: rxng_udata_respond(udata, NULL, 0);
}

/**
 * rxng_alloc_ucontext - a process opens the device
 * @ibuc: context to set up
 * @udata: private part of the call
 *
 * Return: 0 or an error code.
 * Context: process, may sleep.
 */
int rxng_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	struct rxng_dev *dev = to_rxng_dev(ibuc->device);
	int err;

	err = rxng_udata_unused(udata);
	if (err)
		return err;
	return rxng_take(&dev->num_ucontext, RXNG_MAX_UCONTEXT, &ibuc->res) ?
		       0 : -ENOMEM;
}

/**
 * rxng_dealloc_ucontext - a process is through with the device
 * @ibuc: context without objects
 *
 * Context: process, may sleep.
 */
void rxng_dealloc_ucontext(struct ib_ucontext *ibuc)
{
	rxng_give(&to_rxng_dev(ibuc->device)->num_ucontext, &ibuc->res);
}

/**
 * rxng_disassociate_ucontext - the device goes while a process has it open
 * @ibuc: context
 *
 * That this operation exists lets the core remove the device at once,
 * instead of waiting for all processes to close it. Mapped rings are plain
 * memory that outlives the device, so there is nothing to revoke.
 *
 * Context: process, may sleep.
 */
void rxng_disassociate_ucontext(struct ib_ucontext *ibuc)
{
}

/**
 * rxng_mmap - map a ring into a process
 * @ibuc: context of the process
 * @vma: mapping to fill; its offset came from rxng_ring_map()
 *
 * Return: 0 or an error code.
 * Context: process, the mmap lock is held for writing.
 */
int rxng_mmap(struct ib_ucontext *ibuc, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	unsigned long addr;
	void *memory;
	int err = 0;

	entry = rdma_user_mmap_entry_get(ibuc, vma);
	if (!entry)
		return -EINVAL;

	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	memory = to_rxng_mmap(entry)->memory;
	for (addr = vma->vm_start; addr < vma->vm_end; addr += PAGE_SIZE) {
		err = vm_insert_page(vma, addr, vmalloc_to_page(memory));
		if (err)
			break;
		memory += PAGE_SIZE;
	}
	rdma_user_mmap_entry_put(entry);
	return err;
}

/**
 * rxng_mmap_free - the last user of a mapping offset is gone
 * @entry: part of a struct rxng_mmap
 *
 * Context: process, may sleep.
 */
void rxng_mmap_free(struct rdma_user_mmap_entry *entry)
{
	rxng_ring_unmap(to_rxng_mmap(entry));
}
