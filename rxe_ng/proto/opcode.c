// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "opcode.h"
#include "wire.h"

#define BTH ((u8)sizeof(struct rxng_bth))
#define RETH ((u8)sizeof(struct rxng_reth))
#define DETH ((u8)sizeof(struct rxng_deth))
#define AETH ((u8)sizeof(struct rxng_aeth))
#define WORD 4

#define START RXNG_PKT_START
#define END RXNG_PKT_END
#define ONLY (START | END)
#define DATA RXNG_PKT_PAYLOAD

/* Reliable connections; unreliable ones have them up to the last WRITE. */
static const struct rxng_opcode_info rc_opcodes[] = {
	[RXNG_RC_SEND_FIRST] = { RXNG_KIND_SEND, START | DATA, BTH },
	[RXNG_RC_SEND_MIDDLE] = { RXNG_KIND_SEND, DATA, BTH },
	[RXNG_RC_SEND_LAST] = { RXNG_KIND_SEND, END | DATA, BTH },
	[RXNG_RC_SEND_LAST_IMM] = { RXNG_KIND_SEND, END | DATA | RXNG_PKT_IMM,
				    BTH + WORD },
	[RXNG_RC_SEND_ONLY] = { RXNG_KIND_SEND, ONLY | DATA, BTH },
	[RXNG_RC_SEND_ONLY_IMM] = { RXNG_KIND_SEND, ONLY | DATA | RXNG_PKT_IMM,
				    BTH + WORD },
	[RXNG_RC_SEND_LAST_INV] = { RXNG_KIND_SEND, END | DATA | RXNG_PKT_INV,
				    BTH + WORD },
	[RXNG_RC_SEND_ONLY_INV] = { RXNG_KIND_SEND, ONLY | DATA | RXNG_PKT_INV,
				    BTH + WORD },
	[RXNG_RC_WRITE_FIRST] = { RXNG_KIND_WRITE,
				  START | DATA | RXNG_PKT_RETH, BTH + RETH },
	[RXNG_RC_WRITE_MIDDLE] = { RXNG_KIND_WRITE, DATA, BTH },
	[RXNG_RC_WRITE_LAST] = { RXNG_KIND_WRITE, END | DATA, BTH },
	[RXNG_RC_WRITE_LAST_IMM] = { RXNG_KIND_WRITE,
				     END | DATA | RXNG_PKT_IMM, BTH + WORD },
	[RXNG_RC_WRITE_ONLY] = { RXNG_KIND_WRITE, ONLY | DATA | RXNG_PKT_RETH,
				 BTH + RETH },
	[RXNG_RC_WRITE_ONLY_IMM] = { RXNG_KIND_WRITE,
				     ONLY | DATA | RXNG_PKT_RETH | RXNG_PKT_IMM,
				     BTH + RETH + WORD },
	[RXNG_RC_READ_REQUEST] = { RXNG_KIND_READ, ONLY | RXNG_PKT_RETH,
				   BTH + RETH },
	[RXNG_RC_READ_RESP_FIRST] = { RXNG_KIND_READ_RESP,
				      START | DATA | RXNG_PKT_AETH, BTH + AETH },
	[RXNG_RC_READ_RESP_MIDDLE] = { RXNG_KIND_READ_RESP, DATA, BTH },
	[RXNG_RC_READ_RESP_LAST] = { RXNG_KIND_READ_RESP,
				     END | DATA | RXNG_PKT_AETH, BTH + AETH },
	[RXNG_RC_READ_RESP_ONLY] = { RXNG_KIND_READ_RESP,
				     ONLY | DATA | RXNG_PKT_AETH, BTH + AETH },
	[RXNG_RC_ACK] = { RXNG_KIND_ACK, ONLY | RXNG_PKT_AETH, BTH + AETH },
	[RXNG_RC_ATOMIC_ACK] = { RXNG_KIND_ATOMIC_ACK,
				 ONLY | RXNG_PKT_AETH | RXNG_PKT_ATOMICACK,
				 BTH + AETH + 8 },
	[RXNG_RC_CMP_SWAP] = { RXNG_KIND_ATOMIC, ONLY | RXNG_PKT_ATOMICETH,
			       BTH + 28 },
	[RXNG_RC_FETCH_ADD] = { RXNG_KIND_ATOMIC, ONLY | RXNG_PKT_ATOMICETH,
				BTH + 28 },
	[RXNG_RC_FLUSH] = { RXNG_KIND_FLUSH,
			    ONLY | RXNG_PKT_FETH | RXNG_PKT_RETH,
			    BTH + WORD + RETH },
	[RXNG_RC_ATOMIC_WRITE] = { RXNG_KIND_ATOMIC_WRITE,
				   ONLY | DATA | RXNG_PKT_RETH, BTH + RETH },
};

static const struct rxng_opcode_info ud_send = {
	RXNG_KIND_SEND, ONLY | DATA | RXNG_PKT_DETH, BTH + DETH
};

static const struct rxng_opcode_info ud_send_imm = {
	RXNG_KIND_SEND, ONLY | DATA | RXNG_PKT_DETH | RXNG_PKT_IMM,
	BTH + DETH + WORD
};

static const struct rxng_opcode_info none;

/**
 * rxng_opcode_info - look up an opcode
 * @opcode: any value of the BTH's opcode field
 *
 * Return: its description; one of kind RXNG_KIND_NONE when it is reserved or
 * of a service that is not spoken here. Never NULL.
 */
const struct rxng_opcode_info *rxng_opcode_info(u8 opcode)
{
	unsigned int op = opcode & (BIT(RXNG_SERVICE_SHIFT) - 1);

	switch (rxng_opcode_service(opcode)) {
	case RXNG_SERVICE_RC:
		return op < ARRAY_SIZE(rc_opcodes) ? &rc_opcodes[op] : &none;
	case RXNG_SERVICE_UC:
		return op <= RXNG_RC_WRITE_ONLY_IMM ? &rc_opcodes[op] : &none;
	case RXNG_SERVICE_UD:
		if (op == RXNG_RC_SEND_ONLY)
			return &ud_send;
		return op == RXNG_RC_SEND_ONLY_IMM ? &ud_send_imm : &none;
	default:
		return &none;
	}
}

static int find_operation(enum rxng_kind kind, u16 flags, bool cmp_swap)
{
	const u16 mask = ONLY | RXNG_PKT_IMM | RXNG_PKT_INV;
	unsigned int op;

	if (kind == RXNG_KIND_ATOMIC)
		return cmp_swap ? RXNG_RC_CMP_SWAP : RXNG_RC_FETCH_ADD;
	for (op = 0; op < ARRAY_SIZE(rc_opcodes); op++)
		if (rc_opcodes[op].kind == kind &&
		    (rc_opcodes[op].flags & mask) == (flags & mask))
			return op;
	return -1;
}

/**
 * rxng_opcode_find - the opcode for a packet to be built
 * @service: service of the QP
 * @kind: what the packet is about
 * @flags: its RXNG_PKT_START, END, IMM and INV bits
 * @cmp_swap: for atomics: compare-and-swap, else fetch-and-add
 *
 * Return: an opcode, or -1 when there is none of that description.
 */
int rxng_opcode_find(enum rxng_service service, enum rxng_kind kind, u16 flags,
		     bool cmp_swap)
{
	int op = find_operation(kind, flags, cmp_swap);
	u8 opcode = service << RXNG_SERVICE_SHIFT | op;

	if (op < 0 || kind == RXNG_KIND_NONE ||
	    rxng_opcode_info(opcode)->kind != kind)
		return -1;
	return opcode;
}
