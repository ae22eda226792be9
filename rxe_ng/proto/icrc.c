// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "icrc.h"

#define IPV4_LEN 20
#define IPV6_LEN 40
#define UDP_LEN 8
/* Eight bytes of ones stand where InfiniBand has its local route header. */
#define LRH_LEN 8

/**
 * rxng_icrc_headers - begin the CRC over the headers of a packet
 * @ip: IPv4 header without options, or IPv6 header
 * @v6: which of them
 * @udp: UDP header
 * @bth: base transport header, followed by its extended headers
 * @hdr_len: bytes from @bth to the payload
 *
 * Fields that change on the way count as ones: TOS or traffic class, TTL or
 * hop limit, flow label, both checksums, and the BTH's FECN, BECN and reserved
 * byte (annex A17.3.3).
 *
 * Return: the running value, for rxng_icrc_update().
 */
u32 rxng_icrc_headers(const u8 *ip, bool v6, const u8 *udp, const u8 *bth,
		      size_t hdr_len)
{
	u8 buf[LRH_LEN + IPV6_LEN + UDP_LEN + sizeof(struct rxng_bth)];
	u8 *p = buf;

	memset(p, 0xff, LRH_LEN);
	p += LRH_LEN;
	if (v6) {
		memcpy(p, ip, IPV6_LEN);
		p[0] |= 0x0f;
		memset(p + 1, 0xff, 3);
		p[7] = 0xff;
		p += IPV6_LEN;
	} else {
		memcpy(p, ip, IPV4_LEN);
		p[1] = 0xff;
		p[8] = 0xff;
		memset(p + 10, 0xff, 2);
		p += IPV4_LEN;
	}
	memcpy(p, udp, UDP_LEN);
	memset(p + 6, 0xff, 2);
	p += UDP_LEN;
	memcpy(p, bth, sizeof(struct rxng_bth));
	p[4] = 0xff;
	p += sizeof(struct rxng_bth);
	return crc32_le(crc32_le(~0u, buf, p - buf),
			bth + sizeof(struct rxng_bth),
			hdr_len - sizeof(struct rxng_bth));
}
