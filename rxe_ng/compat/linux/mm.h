/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <linux/mm.h>

#ifndef RXNG_COMPAT_LINUX_MM_H
#define RXNG_COMPAT_LINUX_MM_H

#include "rxng_probes.h"

#ifndef RXNG_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}
#endif

#endif
