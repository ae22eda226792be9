/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One packet, or a burst of consecutive packets of one message, in host
 * terms: parsed from bytes, or on its way to become bytes.
 */
#ifndef RXNG_PACKET_H
#define RXNG_PACKET_H

#include "opcode.h"
#include "psn.h"
#include "wire.h"

/* Bits of struct rxng_pkt.bits. */
#define RXNG_PKT_SOLICITED BIT(0)
#define RXNG_PKT_ACK_REQ BIT(1)
/* A received datagram came over IPv6. */
#define RXNG_PKT_IPV6 BIT(2)

/* A VLAN id that is none. */
#define RXNG_NO_VLAN 0xffff

/**
 * struct rxng_pkt - a packet or burst
 * @opcode: BTH opcode; of a burst, that of its first packet
 * @kind: enum rxng_kind
 * @flags: RXNG_PKT_START from the first packet of a burst, RXNG_PKT_END with
 *	IMM and INV from the last, headers as the burst has them
 * @psn: PSN of the first packet
 * @npkts: packets in the burst, at least 1; PSNs are consecutive. A READ
 *	request is one packet, whatever the number of its responses
 * @syndrome: AETH syndrome
 * @bits: RXNG_PKT_SOLICITED, RXNG_PKT_ACK_REQ, RXNG_PKT_IPV6
 * @payload_len: bytes of payload without padding, all packets together
 * @va: virtual address of RETH or AtomicETH
 * @orig: original value in an atomic response
 * @qkey: of a datagram (DETH)
 * @sqpn: its source QP
 * @compare: AtomicETH
 * @swap_add: AtomicETH
 * @dma_len: RETH length of the whole message
 * @imm: immediate data, as on the wire
 * @inv_rkey: key to invalidate (IETH)
 * @feth: placement and level of a FLUSH
 * @msn: message sequence number of the AETH
 * @vlan: of a received datagram: its VLAN, RXNG_NO_VLAN without
 * @rkey: key of RETH or AtomicETH
 * @qpn: destination QP
 *
 * It lives in the 48 bytes that a socket buffer has for its owner.
 */
struct rxng_pkt {
	u8 opcode;
	u8 kind;
	u16 flags;
	u32 psn;
	u16 npkts;
	u8 syndrome;
	u8 bits;
	u32 payload_len;
	union {
		u64 va;
		u64 orig;
		struct {
			u32 qkey;
			u32 sqpn;
		};
	};
	union {
		struct {
			u64 compare;
			u64 swap_add;
		};
		struct {
			u32 dma_len;
			union {
				__be32 imm;
				u32 inv_rkey;
				u32 feth;
			};
			union {
				u32 msn;
				u32 vlan;
			};
		};
	};
	u32 rkey;
	u32 qpn;
};

static_assert(sizeof(struct rxng_pkt) <= 48);

/* Verdict on received bytes. */
enum rxng_parse {
	RXNG_PARSE_OK,
	/* Shorter than its headers, pad and ICRC. */
	RXNG_PARSE_SHORT,
	/* Transport header version that is not ours (9.2.5). */
	RXNG_PARSE_VERSION,
	/* Opcode that is reserved or of a service that is not spoken. */
	RXNG_PARSE_OPCODE,
	/* Payload or pad where the opcode has none. */
	RXNG_PARSE_LENGTH,
};

enum rxng_parse rxng_parse(const u8 *data, size_t hdr_bytes, size_t len,
			   struct rxng_pkt *pkt, u16 *pkey);
size_t rxng_hdr_len(const struct rxng_pkt *pkt);
size_t rxng_build(u8 *data, const struct rxng_pkt *pkt);

static inline unsigned int rxng_pad(u32 payload_len)
{
	return -payload_len & 3;
}

#endif
