/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packet sequence numbers: 24 bits, compared as if on a circle
 * (IBTA 9.7.2 "Packet Sequence Numbers"). MSNs use the same arithmetic.
 */
#ifndef RXNG_PSN_H
#define RXNG_PSN_H

#include "proto_env.h"

#define RXNG_PSN_MASK 0xffffffu

/**
 * rxng_psn_add - a PSN some packets on
 * @psn: where to start
 * @n: packets to go forward
 *
 * Return: @psn + @n on the 24-bit circle.
 */
static inline u32 rxng_psn_add(u32 psn, u32 n)
{
	return (psn + n) & RXNG_PSN_MASK;
}

/**
 * rxng_psn_diff - signed distance between two PSNs
 * @a: first PSN
 * @b: second PSN
 *
 * Return: @a - @b, from -2^23 to 2^23 - 1: negative when @a is the older.
 */
static inline s32 rxng_psn_diff(u32 a, u32 b)
{
	return (s32)((a - b) << 8) >> 8;
}

#endif
