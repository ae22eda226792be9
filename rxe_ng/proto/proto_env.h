/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The one header that proto/ takes from outside: the kernel's types and byte
 * order helpers in the module, small stand-ins for them in user space (see
 * selftests/unit/proto_env_user.h).
 */
#ifndef RXNG_PROTO_ENV_H
#define RXNG_PROTO_ENV_H

#ifdef __KERNEL__
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/crc32.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/byteorder.h>
#else
#include "proto_env_user.h"
#endif

#endif
