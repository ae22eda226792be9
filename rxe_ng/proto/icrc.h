/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The invariant CRC (IBTA 7.8.1, annex A17.3.3). */
#ifndef RXNG_ICRC_H
#define RXNG_ICRC_H

#include "wire.h"

u32 rxng_icrc_headers(const u8 *ip, bool v6, const u8 *udp, const u8 *bth,
		      size_t hdr_len);

/**
 * rxng_icrc_update - go on over payload and pad
 * @crc: running value, from rxng_icrc_headers() or an earlier call
 * @data: bytes
 * @len: how many
 *
 * Return: the new running value.
 */
static inline u32 rxng_icrc_update(u32 crc, const void *data, size_t len)
{
	return crc32_le(crc, data, len);
}

/**
 * rxng_icrc_final - what stands on the wire
 * @crc: running value over all that is covered
 *
 * Return: the CRC, to be stored least significant byte first.
 */
static inline __le32 rxng_icrc_final(u32 crc)
{
	return cpu_to_le32(~crc);
}

#endif
