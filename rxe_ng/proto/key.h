/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Keys of memory regions and windows (IBTA 10.6.3.3): the upper 24 bits are
 * the object's index in the device's table, the lower 8 belong to the
 * consumer of a fast registration or a type 2 window. Both parts are drawn at
 * random, so that a key is hard to guess and does not come back soon.
 */
#ifndef RXNG_KEY_H
#define RXNG_KEY_H

#include "proto_env.h"

/**
 * rxng_key_index - where a key's object stands in the device's table
 * @key: lkey or rkey
 *
 * Return: 24 bits.
 */
static inline u32 rxng_key_index(u32 key)
{
	return key >> 8;
}

#endif
