// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "timer.h"

#define CREDIT_CODES 31

/* Table 45 of IBTA 9.7.5.2.8, in units of 10 microseconds. */
static const u16 rnr_10us[32] = {
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
	16384, 24576, 32768, 49152,
};

/**
 * rxng_rnr_ns - time to wait after an RNR NAK
 * @code: five-bit timer field of the syndrome
 *
 * Return: nanoseconds; code 0 is the longest, 655.36 ms.
 */
u64 rxng_rnr_ns(u8 code)
{
	code &= 31;
	return code ? rnr_10us[code] * 10000ull : 655360000ull;
}

/**
 * rxng_ack_timeout_ns - local ACK timeout (IBTA 9.9.2.1)
 * @code: the QP attribute, 0 to 31
 *
 * Return: 4.096 us * 2^code in nanoseconds; 0 when the timer is off.
 */
u64 rxng_ack_timeout_ns(u8 code)
{
	code &= 31;
	return code ? 4096ull << code : 0;
}

/**
 * rxng_credits_decode - receive requests that a credit field stands for
 * @code: 0 to 30; 31 has no count (IBTA 9.7.7.2, table 47)
 *
 * The codes are 0, 1, 2, 3, then each power of two and the step half-way to
 * the next.
 */
u32 rxng_credits_decode(u8 code)
{
	if (code < 2)
		return code;
	return (code & 1 ? 3u : 2u) << ((code - 2) >> 1);
}

/**
 * rxng_credits_encode - largest code that promises no more than there is
 * @credits: receive requests that are posted
 *
 * Return: 0 to 30.
 */
u8 rxng_credits_encode(u32 credits)
{
	u8 code = 0;

	while (code + 1 < CREDIT_CODES &&
	       rxng_credits_decode(code + 1) <= credits)
		code++;
	return code;
}
