// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "../lib/tap.h"
#include "opcode.h"
#include "wire.h"

#define S RXNG_PKT_START
#define E RXNG_PKT_END
#define DATA RXNG_PKT_PAYLOAD

/* Table 38 of the specification, written down a second time. */
static const struct {
	uint8_t opcode;
	uint8_t kind;
	uint16_t flags;
	uint8_t extended;	/* bytes of extended headers */
} table[] = {
	{ 0x00, RXNG_KIND_SEND, S | DATA, 0 },
	{ 0x01, RXNG_KIND_SEND, DATA, 0 },
	{ 0x02, RXNG_KIND_SEND, E | DATA, 0 },
	{ 0x03, RXNG_KIND_SEND, E | DATA | RXNG_PKT_IMM, 4 },
	{ 0x04, RXNG_KIND_SEND, S | E | DATA, 0 },
	{ 0x05, RXNG_KIND_SEND, S | E | DATA | RXNG_PKT_IMM, 4 },
	{ 0x06, RXNG_KIND_WRITE, S | DATA | RXNG_PKT_RETH, 16 },
	{ 0x07, RXNG_KIND_WRITE, DATA, 0 },
	{ 0x08, RXNG_KIND_WRITE, E | DATA, 0 },
	{ 0x09, RXNG_KIND_WRITE, E | DATA | RXNG_PKT_IMM, 4 },
	{ 0x0a, RXNG_KIND_WRITE, S | E | DATA | RXNG_PKT_RETH, 16 },
	{ 0x0b, RXNG_KIND_WRITE, S | E | DATA | RXNG_PKT_RETH | RXNG_PKT_IMM,
	  20 },
	{ 0x0c, RXNG_KIND_READ, S | E | RXNG_PKT_RETH, 16 },
	{ 0x0d, RXNG_KIND_READ_RESP, S | DATA | RXNG_PKT_AETH, 4 },
	{ 0x0e, RXNG_KIND_READ_RESP, DATA, 0 },
	{ 0x0f, RXNG_KIND_READ_RESP, E | DATA | RXNG_PKT_AETH, 4 },
	{ 0x10, RXNG_KIND_READ_RESP, S | E | DATA | RXNG_PKT_AETH, 4 },
	{ 0x11, RXNG_KIND_ACK, S | E | RXNG_PKT_AETH, 4 },
	{ 0x12, RXNG_KIND_ATOMIC_ACK, S | E | RXNG_PKT_AETH | RXNG_PKT_ATOMICACK,
	  12 },
	{ 0x13, RXNG_KIND_ATOMIC, S | E | RXNG_PKT_ATOMICETH, 28 },
	{ 0x14, RXNG_KIND_ATOMIC, S | E | RXNG_PKT_ATOMICETH, 28 },
	{ 0x16, RXNG_KIND_SEND, E | DATA | RXNG_PKT_INV, 4 },
	{ 0x17, RXNG_KIND_SEND, S | E | DATA | RXNG_PKT_INV, 4 },
	{ 0x1c, RXNG_KIND_FLUSH, S | E | RXNG_PKT_FETH | RXNG_PKT_RETH, 20 },
	{ 0x1d, RXNG_KIND_ATOMIC_WRITE, S | E | DATA | RXNG_PKT_RETH, 16 },
	{ 0x20, RXNG_KIND_SEND, S | DATA, 0 },
	{ 0x21, RXNG_KIND_SEND, DATA, 0 },
	{ 0x22, RXNG_KIND_SEND, E | DATA, 0 },
	{ 0x23, RXNG_KIND_SEND, E | DATA | RXNG_PKT_IMM, 4 },
	{ 0x24, RXNG_KIND_SEND, S | E | DATA, 0 },
	{ 0x25, RXNG_KIND_SEND, S | E | DATA | RXNG_PKT_IMM, 4 },
	{ 0x26, RXNG_KIND_WRITE, S | DATA | RXNG_PKT_RETH, 16 },
	{ 0x27, RXNG_KIND_WRITE, DATA, 0 },
	{ 0x28, RXNG_KIND_WRITE, E | DATA, 0 },
	{ 0x29, RXNG_KIND_WRITE, E | DATA | RXNG_PKT_IMM, 4 },
	{ 0x2a, RXNG_KIND_WRITE, S | E | DATA | RXNG_PKT_RETH, 16 },
	{ 0x2b, RXNG_KIND_WRITE, S | E | DATA | RXNG_PKT_RETH | RXNG_PKT_IMM,
	  20 },
	{ 0x64, RXNG_KIND_SEND, S | E | DATA | RXNG_PKT_DETH, 8 },
	{ 0x65, RXNG_KIND_SEND, S | E | DATA | RXNG_PKT_DETH | RXNG_PKT_IMM,
	  12 },
};

TEST(rxng_opcode_info__all_256)
{
	unsigned int opcode;
	size_t i;

	for (opcode = 0; opcode < 256; opcode++) {
		const struct rxng_opcode_info *info = rxng_opcode_info(opcode);

		for (i = 0; i < ARRAY_SIZE(table); i++)
			if (table[i].opcode == opcode)
				break;
		CHECK(info);
		if (i == ARRAY_SIZE(table)) {
			CHECK_EQ(info->kind, RXNG_KIND_NONE);
			continue;
		}
		CHECK_EQ(info->kind, table[i].kind);
		CHECK_EQ(info->flags, table[i].flags);
		CHECK_EQ(info->hdr_len, 12 + table[i].extended);
		CHECK(info->hdr_len <= RXNG_MAX_HDR);
	}
}

TEST(rxng_opcode_find__inverts_info)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		CHECK_EQ(rxng_opcode_find(table[i].opcode >> 5, table[i].kind,
					  table[i].flags,
					  table[i].opcode == 0x13),
			 table[i].opcode);
}

static int find(enum rxng_service service, enum rxng_kind kind, u16 flags)
{
	return rxng_opcode_find(service, kind, flags, false);
}

TEST(rxng_opcode_find__none)
{
	const enum rxng_service rc = RXNG_SERVICE_RC;

	CHECK_EQ(find(rc, RXNG_KIND_NONE, S | E), -1);
	CHECK_EQ(find(rc, RXNG_KIND_NONE, 0), -1);
	CHECK_EQ(find(rc, RXNG_KIND_SEND, S | RXNG_PKT_IMM), -1);
	CHECK_EQ(find(rc, RXNG_KIND_WRITE, E | RXNG_PKT_INV), -1);
	CHECK_EQ(find(rc, RXNG_KIND_READ, S), -1);
}

TEST(rxng_opcode_find__not_of_the_service)
{
	static const enum rxng_service other[] = { RXNG_SERVICE_UC,
						   RXNG_SERVICE_UD, 2, 4 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(other); i++) {
		CHECK_EQ(find(other[i], RXNG_KIND_READ, S | E), -1);
		CHECK_EQ(find(other[i], RXNG_KIND_ATOMIC, S | E), -1);
		CHECK_EQ(find(other[i], RXNG_KIND_ACK, S | E), -1);
		CHECK_EQ(find(other[i], RXNG_KIND_SEND, E | RXNG_PKT_INV), -1);
	}
	CHECK_EQ(find(RXNG_SERVICE_UD, RXNG_KIND_WRITE, S | E), -1);
	CHECK_EQ(find(RXNG_SERVICE_UD, RXNG_KIND_SEND, S), -1);
}

TEST(rxng_kind_is_request__kinds)
{
	CHECK(!rxng_kind_is_request(RXNG_KIND_NONE));
	CHECK(rxng_kind_is_request(RXNG_KIND_SEND));
	CHECK(rxng_kind_is_request(RXNG_KIND_WRITE));
	CHECK(rxng_kind_is_request(RXNG_KIND_READ));
	CHECK(rxng_kind_is_request(RXNG_KIND_ATOMIC));
	CHECK(rxng_kind_is_request(RXNG_KIND_FLUSH));
	CHECK(rxng_kind_is_request(RXNG_KIND_ATOMIC_WRITE));
	CHECK(!rxng_kind_is_request(RXNG_KIND_READ_RESP));
	CHECK(!rxng_kind_is_request(RXNG_KIND_ACK));
	CHECK(!rxng_kind_is_request(RXNG_KIND_ATOMIC_ACK));
}
