// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What parses, and is built again, parses to the same. */
#include "input.h"
#include "packet.h"
#include "requester.h"

static enum rxng_parse parse(const u8 *data, size_t hdr_bytes, size_t len,
			     struct rxng_pkt *pkt, u16 *pkey)
{
	/* A block of its own, so that the sanitizer sees its end. */
	u8 *copy = malloc(hdr_bytes ? hdr_bytes : 1);
	enum rxng_parse verdict;

	MUST(copy);
	memcpy(copy, data, hdr_bytes);
	verdict = rxng_parse(copy, hdr_bytes, len, pkt, pkey);
	free(copy);
	return verdict;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct input in = { data, size };
	struct rxng_pkt pkt, back, slice;
	u8 bytes[RXNG_MAX_HDR];
	size_t hdr_bytes, len, hdr;
	u16 pkey;

	len = take16(&in) & 0x3fff;
	hdr_bytes = take8(&in);
	hdr_bytes = min(min(hdr_bytes, in.left), len);
	memset(&pkt, 0xa5, sizeof(pkt));
	if (parse(in.data, hdr_bytes, len, &pkt, &pkey) != RXNG_PARSE_OK)
		return 0;

	hdr = rxng_hdr_len(&pkt);
	MUST(hdr <= hdr_bytes && hdr <= sizeof(bytes));
	MUST(pkt.payload_len <= RXNG_MAX_PAYLOAD);
	MUST(len == hdr + pkt.payload_len + rxng_pad(pkt.payload_len) +
			    RXNG_ICRC_LEN);
	MUST(pkt.psn <= RXNG_PSN_MASK && pkt.qpn <= RXNG_QPN_MASK);
	MUST(pkt.npkts == 1 && pkt.kind != RXNG_KIND_NONE);
	MUST(pkt.payload_len == 0 || pkt.flags & RXNG_PKT_PAYLOAD);

	MUST(rxng_build(bytes, &pkt) == hdr);
	memset(&back, 0x5a, sizeof(back));
	MUST(parse(bytes, hdr, len, &back, &pkey) == RXNG_PARSE_OK);
	MUST(!memcmp(&pkt, &back, sizeof(pkt)));
	MUST(pkey == RXNG_PKEY_DEFAULT);
	rxng_pkt_slice(&pkt, 0, 1024, &slice);
	MUST(!memcmp(&pkt, &slice, sizeof(pkt)));
	return 0;
}
