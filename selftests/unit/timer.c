// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "../lib/tap.h"
#include "timer.h"

/* Table 45, in units of 10 us, as the specification prints it in ms. */
TEST(rxng_rnr_ns__table)
{
	static const double ms[32] = {
		655.36, 0.01,  0.02,  0.03,  0.04,   0.06,   0.08,   0.12,
		0.16,	0.24,  0.32,  0.48,  0.64,   0.96,   1.28,   1.92,
		2.56,	3.84,  5.12,  7.68,  10.24,  15.36,  20.48,  30.72,
		40.96,	61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	};
	int code;

	for (code = 0; code < 32; code++)
		CHECK_EQ(rxng_rnr_ns(code), (uint64_t)(ms[code] * 1e6 + 0.5));
}

TEST(rxng_rnr_ns__five_bits)
{
	CHECK_EQ(rxng_rnr_ns(0x20), rxng_rnr_ns(0));
	CHECK_EQ(rxng_rnr_ns(0xff), rxng_rnr_ns(31));
}

TEST(rxng_ack_timeout_ns__formula)
{
	uint64_t ns = 4096;
	int code;

	CHECK_EQ(rxng_ack_timeout_ns(0), 0);
	for (code = 1; code < 32; code++) {
		ns *= 2;
		CHECK_EQ(rxng_ack_timeout_ns(code), ns);
	}
	CHECK_EQ(rxng_ack_timeout_ns(32), 0);
}

/* Table 47. */
TEST(rxng_credits_decode__table)
{
	static const uint32_t credits[31] = {
		0,    1,    2,	  3,	4,    6,    8,	   12,
		16,   24,   32,	  48,	64,   96,   128,   192,
		256,  384,  512,  768,	1024, 1536, 2048,  3072,
		4096, 6144, 8192, 12288, 16384, 24576, 32768,
	};
	int code;

	for (code = 0; code < 31; code++)
		CHECK_EQ(rxng_credits_decode(code), credits[code]);
}

TEST(rxng_credits_encode__never_too_many)
{
	uint32_t n;
	int code;

	for (n = 0; n < 40000; n++) {
		code = rxng_credits_encode(n);
		CHECK(code <= 30);
		CHECK(rxng_credits_decode(code) <= n);
		CHECK(code == 30 || rxng_credits_decode(code + 1) > n);
	}
	CHECK_EQ(rxng_credits_encode(~0u), 30);
}
