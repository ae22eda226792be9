/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The fuzzer's bytes, taken one after the other; zeroes behind their end. */
#ifndef INPUT_H
#define INPUT_H

#include <stdio.h>
#include <stdlib.h>

#include "proto_env.h"

struct input {
	const u8 *data;
	size_t left;
};

static inline u8 take8(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->data++;
}

static inline u16 take16(struct input *in)
{
	u16 high = take8(in);

	return high << 8 | take8(in);
}

static inline u32 take32(struct input *in)
{
	u32 high = take16(in);

	return high << 16 | take16(in);
}

#define MUST(cond, ...) do {					\
	if (!(cond)) {						\
		fprintf(stderr, "not so: %s: ", #cond);		\
		fprintf(stderr, "" __VA_ARGS__);		\
		fprintf(stderr, "\n");				\
		abort();					\
	}							\
} while (0)

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

#endif
