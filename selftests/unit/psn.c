// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "../lib/tap.h"
#include "key.h"
#include "psn.h"

TEST(rxng_psn_add__wraps)
{
	CHECK_EQ(rxng_psn_add(0, 0), 0);
	CHECK_EQ(rxng_psn_add(0xffffff, 1), 0);
	CHECK_EQ(rxng_psn_add(0xfffff0, 0x20), 0x10);
	CHECK_EQ(rxng_psn_add(0x10, RXNG_PSN_MASK), 0xf);
	CHECK_EQ(rxng_psn_add(5, 1u << 24), 5);
}

TEST(rxng_psn_diff__signs)
{
	CHECK_EQ(rxng_psn_diff(5, 5), 0);
	CHECK_EQ(rxng_psn_diff(6, 5), 1);
	CHECK_EQ(rxng_psn_diff(5, 6), -1);
	CHECK_EQ(rxng_psn_diff(0, 0xffffff), 1);
	CHECK_EQ(rxng_psn_diff(0xffffff, 0), -1);
	CHECK_EQ(rxng_psn_diff(0x7fffff, 0), 0x7fffff);
	CHECK_EQ(rxng_psn_diff(0x800000, 0), -0x800000);
	CHECK_EQ(rxng_psn_diff(0, 0x800000), -0x800000);
}

/* Against the definition, at all distances that differ in kind. */
TEST(rxng_psn_diff__inverts_add)
{
	static const int32_t steps[] = { 0, 1, 255, 65536, 0x7ffffe, 0x7fffff,
					 -1, -256, -0x7fffff, -0x800000 };
	uint32_t psn;
	size_t i;

	for (psn = 0; psn <= RXNG_PSN_MASK; psn += 4093)
		for (i = 0; i < ARRAY_SIZE(steps); i++)
			CHECK_EQ(rxng_psn_diff(rxng_psn_add(psn, steps[i]),
					       psn),
				 steps[i]);
}

TEST(rxng_key_index__upper_bits)
{
	CHECK_EQ(rxng_key_index(0x12345678), 0x123456);
	CHECK_EQ(rxng_key_index(0xffffffff), 0xffffff);
}
