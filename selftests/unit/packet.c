// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>

#include "../lib/tap.h"
#include "packet.h"

/*
 * Parse from a block of exactly @hdr_bytes, so that the sanitizer sees each
 * byte that is read too far.
 */
static enum rxng_parse parse(const uint8_t *data, size_t hdr_bytes, size_t len,
			     struct rxng_pkt *pkt)
{
	uint8_t *copy = malloc(hdr_bytes ? hdr_bytes : 1);
	enum rxng_parse verdict;
	uint16_t pkey;

	CHECK(copy);
	memcpy(copy, data, hdr_bytes);
	verdict = rxng_parse(copy, hdr_bytes, len, pkt, &pkey);
	free(copy);
	return verdict;
}

/* A packet with each field distinct, as far as its opcode has them. */
static struct rxng_pkt sample(uint8_t opcode, uint32_t payload)
{
	const struct rxng_opcode_info *info = rxng_opcode_info(opcode);
	struct rxng_pkt pkt = {
		.opcode = opcode,
		.kind = info->kind,
		.flags = info->flags,
		.psn = 0xfedcba,
		.npkts = 1,
		.bits = RXNG_PKT_SOLICITED | RXNG_PKT_ACK_REQ,
		.payload_len = payload,
		.qpn = 0x123456,
	};

	if (info->flags & RXNG_PKT_DETH) {
		pkt.qkey = 0x81828384;
		pkt.sqpn = 0x919293;
	}
	if (info->flags & RXNG_PKT_FETH)
		pkt.feth = 0x12;
	if (info->flags & RXNG_PKT_RETH) {
		pkt.va = 0x8877665544332211;
		pkt.rkey = 0xaabbccdd;
		pkt.dma_len = 0x80000000;
	}
	if (info->flags & RXNG_PKT_ATOMICETH) {
		pkt.va = 0x0102030405060708;
		pkt.rkey = 0x11121314;
		pkt.compare = 0x2122232425262728;
		pkt.swap_add = 0x3132333435363738;
	}
	if (info->flags & RXNG_PKT_AETH) {
		pkt.syndrome = 0x7f;
		pkt.msn = 0x414243;
	}
	if (info->flags & RXNG_PKT_ATOMICACK)
		pkt.orig = 0x5152535455565758;
	if (info->flags & RXNG_PKT_IMM)
		pkt.imm = htobe32(0x61626364);
	if (info->flags & RXNG_PKT_INV)
		pkt.inv_rkey = 0x71727374;
	return pkt;
}

static size_t wire_len(const struct rxng_pkt *pkt)
{
	return rxng_hdr_len(pkt) + pkt->payload_len +
	       rxng_pad(pkt->payload_len) + RXNG_ICRC_LEN;
}

static bool spoken(unsigned int opcode)
{
	return rxng_opcode_info(opcode)->kind != RXNG_KIND_NONE;
}

TEST(rxng_parse__inverts_build)
{
	static const uint32_t lengths[] = { 0, 1, 2, 3, 4, 255, 256, 1023, 4095,
					    4096 };
	unsigned int opcode;
	size_t i;

	for (opcode = 0; opcode < 256; opcode++) {
		bool data = rxng_opcode_info(opcode)->flags & RXNG_PKT_PAYLOAD;

		for (i = 0; spoken(opcode) && i < (data ? 10 : 1); i++) {
			struct rxng_pkt pkt = sample(opcode, lengths[i]), back;
			uint8_t bytes[RXNG_MAX_HDR];
			size_t hdr = rxng_build(bytes, &pkt);
			uint16_t pkey = 0;

			CHECK_EQ(hdr, rxng_hdr_len(&pkt));
			memset(&back, 0xa5, sizeof(back));
			CHECK_EQ(rxng_parse(bytes, hdr, wire_len(&pkt), &back,
					    &pkey), RXNG_PARSE_OK);
			CHECK(!memcmp(&pkt, &back, sizeof(pkt)));
			CHECK_EQ(pkey, RXNG_PKEY_DEFAULT);
		}
	}
}

TEST(rxng_parse__fields)
{
	/* RDMA WRITE only with immediate, made by hand. */
	static const uint8_t bytes[] = {
		0x0b, 0xf0, 0x12, 0x34, 0xff, 0x00, 0x01, 0x02,
		0x80, 0x03, 0x04, 0x05, 0x11, 0x22, 0x33, 0x44,
		0x55, 0x66, 0x77, 0x88, 0xde, 0xad, 0xbe, 0xef,
		0x00, 0x00, 0x00, 0x01, 0x0a, 0x0b, 0x0c, 0x0d,
	};
	struct rxng_pkt pkt;
	uint16_t pkey;

	CHECK_EQ(rxng_parse(bytes, sizeof(bytes), sizeof(bytes) + 8, &pkt,
			    &pkey), RXNG_PARSE_OK);
	CHECK_EQ(pkey, 0x1234);
	CHECK_EQ(pkt.qpn, 0x000102);
	CHECK_EQ(pkt.psn, 0x030405);
	CHECK_EQ(pkt.bits, RXNG_PKT_SOLICITED | RXNG_PKT_ACK_REQ);
	CHECK_EQ(pkt.va, 0x1122334455667788);
	CHECK_EQ(pkt.rkey, 0xdeadbeef);
	CHECK_EQ(pkt.dma_len, 1);
	CHECK_EQ(pkt.imm, htobe32(0x0a0b0c0d));
	CHECK_EQ(pkt.payload_len, 1);
	CHECK_EQ(pkt.npkts, 1);
}

/* Each truncation of each opcode, with each pad count. */
TEST(rxng_parse__truncated)
{
	unsigned int opcode, pad;
	size_t len, hdr_bytes;

	for (opcode = 0; opcode < 256; opcode++) {
		const struct rxng_opcode_info *info = rxng_opcode_info(opcode);
		bool data = info->flags & RXNG_PKT_PAYLOAD;
		struct rxng_pkt pkt = sample(opcode, 0), out;
		uint8_t bytes[RXNG_MAX_HDR + 8] = { 0 };

		if (spoken(opcode))
			rxng_build(bytes, &pkt);
		bytes[0] = opcode;
		for (pad = 0; pad < 4; pad++) {
			bytes[1] = pad << 4;
			for (len = 0; len < 60; len++) {
				size_t tail = info->hdr_len + pad + 4;
				bool good = spoken(opcode) && len >= tail &&
					    len % 4 == 0 &&
					    (data || (!pad && len == tail));

				hdr_bytes = min(len, sizeof(bytes));
				CHECK_EQ(parse(bytes, hdr_bytes, len, &out) ==
						 RXNG_PARSE_OK, good);
				if (good)
					CHECK_EQ(out.payload_len, len - tail);
			}
		}
	}
}

/* The headers that may be read are shorter than the packet. */
TEST(rxng_parse__headers_not_at_hand)
{
	unsigned int opcode;
	size_t n;

	for (opcode = 0; opcode < 256; opcode++) {
		struct rxng_pkt pkt = sample(opcode, 0), out;
		uint8_t bytes[RXNG_MAX_HDR];
		size_t hdr;

		if (!spoken(opcode))
			continue;
		hdr = rxng_build(bytes, &pkt);
		for (n = 0; n < hdr; n++)
			CHECK_EQ(parse(bytes, n, wire_len(&pkt), &out),
				 RXNG_PARSE_SHORT);
	}
}

TEST(rxng_parse__verdicts)
{
	struct rxng_pkt pkt = sample(RXNG_RC_SEND_ONLY, 4), out;
	uint8_t bytes[RXNG_MAX_HDR] = { 0 };
	unsigned int version;

	rxng_build(bytes, &pkt);
	CHECK_EQ(parse(bytes, 12, 20, &out), RXNG_PARSE_OK);
	CHECK_EQ(parse(bytes, 12, 15, &out), RXNG_PARSE_SHORT);
	CHECK_EQ(parse(bytes, 12, 21, &out), RXNG_PARSE_LENGTH);
	CHECK_EQ(parse(bytes, 12, 12 + 4096 + 4, &out), RXNG_PARSE_OK);
	CHECK_EQ(parse(bytes, 12, 12 + 4100 + 4, &out), RXNG_PARSE_LENGTH);
	CHECK_EQ(parse(bytes, 12, 1u << 31, &out), RXNG_PARSE_LENGTH);
	for (version = 1; version < 16; version++) {
		bytes[1] = version;
		CHECK_EQ(parse(bytes, 12, 20, &out), RXNG_PARSE_VERSION);
	}
	bytes[1] = 0;
	bytes[0] = 0x15;
	CHECK_EQ(parse(bytes, 12, 20, &out), RXNG_PARSE_OPCODE);
	bytes[0] = 0xff;
	CHECK_EQ(parse(bytes, 12, 20, &out), RXNG_PARSE_OPCODE);
	bytes[0] = RXNG_RC_ACK;
	CHECK_EQ(parse(bytes, 16, 24, &out), RXNG_PARSE_LENGTH);
}

TEST(rxng_build__reserved_bits)
{
	struct rxng_pkt pkt = sample(RXNG_RC_SEND_ONLY, 5);
	uint8_t bytes[RXNG_MAX_HDR];

	rxng_build(bytes, &pkt);
	CHECK_EQ(bytes[0], 0x04);
	CHECK_EQ(bytes[1], 0x80 | 0x40 | 3 << 4);
	CHECK_EQ(bytes[4], 0);
	CHECK_EQ(bytes[8], 0x80);
	pkt.bits = 0;
	rxng_build(bytes, &pkt);
	CHECK_EQ(bytes[1], 0x40 | 3 << 4);
	CHECK_EQ(bytes[8], 0);
}

TEST(rxng_pad__lengths)
{
	CHECK_EQ(rxng_pad(0), 0);
	CHECK_EQ(rxng_pad(1), 3);
	CHECK_EQ(rxng_pad(2), 2);
	CHECK_EQ(rxng_pad(3), 1);
	CHECK_EQ(rxng_pad(4), 0);
}
