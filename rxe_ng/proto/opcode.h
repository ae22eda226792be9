/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* BTH opcodes and what each says of its packet (IBTA 9.2, table 38). */
#ifndef RXNG_OPCODE_H
#define RXNG_OPCODE_H

#include "proto_env.h"

/* Transport services: the upper three bits of an opcode. */
enum rxng_service {
	RXNG_SERVICE_RC = 0,
	RXNG_SERVICE_UC = 1,
	RXNG_SERVICE_UD = 3,
};

#define RXNG_SERVICE_SHIFT 5

/*
 * Opcodes of reliable connections, whose service is zero. The other services
 * have some of the same operations in their lower five bits.
 */
enum rxng_rc_opcode {
	RXNG_RC_SEND_FIRST = 0x00,
	RXNG_RC_SEND_MIDDLE = 0x01,
	RXNG_RC_SEND_LAST = 0x02,
	RXNG_RC_SEND_LAST_IMM = 0x03,
	RXNG_RC_SEND_ONLY = 0x04,
	RXNG_RC_SEND_ONLY_IMM = 0x05,
	RXNG_RC_WRITE_FIRST = 0x06,
	RXNG_RC_WRITE_MIDDLE = 0x07,
	RXNG_RC_WRITE_LAST = 0x08,
	RXNG_RC_WRITE_LAST_IMM = 0x09,
	RXNG_RC_WRITE_ONLY = 0x0a,
	RXNG_RC_WRITE_ONLY_IMM = 0x0b,
	RXNG_RC_READ_REQUEST = 0x0c,
	RXNG_RC_READ_RESP_FIRST = 0x0d,
	RXNG_RC_READ_RESP_MIDDLE = 0x0e,
	RXNG_RC_READ_RESP_LAST = 0x0f,
	RXNG_RC_READ_RESP_ONLY = 0x10,
	RXNG_RC_ACK = 0x11,
	RXNG_RC_ATOMIC_ACK = 0x12,
	RXNG_RC_CMP_SWAP = 0x13,
	RXNG_RC_FETCH_ADD = 0x14,
	RXNG_RC_SEND_LAST_INV = 0x16,
	RXNG_RC_SEND_ONLY_INV = 0x17,
	RXNG_RC_FLUSH = 0x1c,
	RXNG_RC_ATOMIC_WRITE = 0x1d,
};

/* What a packet is about. */
enum rxng_kind {
	RXNG_KIND_NONE,
	RXNG_KIND_SEND,
	RXNG_KIND_WRITE,
	RXNG_KIND_READ,
	RXNG_KIND_ATOMIC,
	RXNG_KIND_FLUSH,
	RXNG_KIND_ATOMIC_WRITE,
	RXNG_KIND_READ_RESP,
	RXNG_KIND_ACK,
	RXNG_KIND_ATOMIC_ACK,
};

/* Place of a packet in its message, and the extended headers it carries. */
#define RXNG_PKT_START BIT(0)
#define RXNG_PKT_END BIT(1)
#define RXNG_PKT_IMM BIT(2)
#define RXNG_PKT_INV BIT(3)
#define RXNG_PKT_RETH BIT(4)
#define RXNG_PKT_ATOMICETH BIT(5)
#define RXNG_PKT_AETH BIT(6)
#define RXNG_PKT_ATOMICACK BIT(7)
/* May carry payload. */
#define RXNG_PKT_PAYLOAD BIT(8)
#define RXNG_PKT_DETH BIT(9)
#define RXNG_PKT_FETH BIT(10)

/**
 * struct rxng_opcode_info - what an opcode says of its packet
 * @kind: enum rxng_kind; RXNG_KIND_NONE when the opcode is not spoken here
 * @flags: RXNG_PKT_* bits
 * @hdr_len: bytes of BTH and extended headers
 */
struct rxng_opcode_info {
	u8 kind;
	u16 flags;
	u8 hdr_len;
};

const struct rxng_opcode_info *rxng_opcode_info(u8 opcode);
int rxng_opcode_find(enum rxng_service service, enum rxng_kind kind, u16 flags,
		     bool cmp_swap);

static inline enum rxng_service rxng_opcode_service(u8 opcode)
{
	return opcode >> RXNG_SERVICE_SHIFT;
}

static inline bool rxng_kind_is_request(enum rxng_kind kind)
{
	return kind >= RXNG_KIND_SEND && kind <= RXNG_KIND_ATOMIC_WRITE;
}

/* Requests that are answered by a response of their own, and recorded for it. */
static inline bool rxng_kind_has_response(enum rxng_kind kind)
{
	return kind >= RXNG_KIND_READ && kind <= RXNG_KIND_ATOMIC_WRITE;
}

#endif
