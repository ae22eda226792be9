/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * User-space stand-ins for what rxe_ng/proto takes from the kernel, so that
 * the same source compiles under the sanitizers and the fuzzer.
 */
#ifndef RXNG_PROTO_ENV_USER_H
#define RXNG_PROTO_ENV_USER_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef uint16_t __be16;
typedef uint32_t __be32;
typedef uint64_t __be64;
typedef uint32_t __le32;

#ifndef __packed
#define __packed __attribute__((packed))
#endif
#define fallthrough __attribute__((fallthrough))
#define BIT(n) (1UL << (n))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define swap(a, b) \
	do { __typeof__(a) t_ = (a); (a) = (b); (b) = t_; } while (0)
#define min3(a, b, c) min(min(a, b), c)
#define min_t(t, a, b) ((t)(a) < (t)(b) ? (t)(a) : (t)(b))
#define max_t(t, a, b) ((t)(a) > (t)(b) ? (t)(a) : (t)(b))
#define static_assert _Static_assert

#define cpu_to_be16(x) htobe16(x)
#define cpu_to_be32(x) htobe32(x)
#define cpu_to_be64(x) htobe64(x)
#define be16_to_cpu(x) be16toh(x)
#define be32_to_cpu(x) be32toh(x)
#define be64_to_cpu(x) be64toh(x)
#define cpu_to_le32(x) htole32(x)

/* The kernel's crc32_le(): reflected 0x04c11db7, no final inversion. */
static inline u32 crc32_le(u32 crc, const void *data, size_t len)
{
	const u8 *p = data;

	while (len--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return crc;
}

#endif
