/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <linux/slab.h>

#ifndef RXNG_COMPAT_LINUX_SLAB_H
#define RXNG_COMPAT_LINUX_SLAB_H

/* The flags may be left out, and then are GFP_KERNEL. */
#define rxng_gfp(first, gfp, ...) gfp

#ifndef kzalloc_obj
#define kzalloc_obj(P, ...) \
	((typeof(P) *)kzalloc(sizeof(P), \
			      rxng_gfp(0, ##__VA_ARGS__, GFP_KERNEL)))
#endif

#endif
