/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef RXNG_COMPAT_LINUX_UNALIGNED_H
#define RXNG_COMPAT_LINUX_UNALIGNED_H

#include "rxng_probes.h"

#ifdef RXNG_HAVE_LINUX_UNALIGNED_H
#include_next <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#endif
