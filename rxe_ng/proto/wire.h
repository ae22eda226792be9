/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Headers as they stand on the wire (IBTA chapter 9, annex A17). All fields
 * are big-endian; structures are packed and may lie at any address.
 */
#ifndef RXNG_WIRE_H
#define RXNG_WIRE_H

#include "proto_env.h"

/* UDP destination port of RoCEv2 (annex A17.3.1, IANA "roce"). */
#define RXNG_UDP_PORT 4791
/* Bytes of the invariant CRC that closes each packet. */
#define RXNG_ICRC_LEN 4
/* The only P_Key that a RoCE port must have: full member of the default. */
#define RXNG_PKEY_DEFAULT 0xffff
/* The largest path MTU (9.6.1.6.2): no packet carries more. */
#define RXNG_MAX_PAYLOAD 4096
#define RXNG_QPN_MASK 0xffffffu
/* Destination QP of multicast packets (9.2.4.1). */
#define RXNG_MULTICAST_QPN 0xffffffu
/* Number and Q_Key of the general service interface (C10-1, 10.2.5). */
#define RXNG_GSI_QPN 1
#define RXNG_GSI_QKEY 0x80010000u
/* A request's Q_Key with this bit asks for the QP's own one (10.2.5). */
#define RXNG_QKEY_OWN 0x80000000u

/* Base transport header (9.2). */
struct rxng_bth {
	u8 opcode;
	/* Solicited event, MigReq, 2 bits of pad count, 4 bits of version. */
	u8 flags;
	__be16 pkey;
	/* FECN, BECN, 6 reserved bits, 24 bits of destination QP. */
	__be32 qpn;
	/* AckReq, 7 reserved bits, 24 bits of PSN. */
	__be32 apsn;
} __packed;

#define RXNG_BTH_SE 0x80
#define RXNG_BTH_MIG 0x40
#define RXNG_BTH_PAD_SHIFT 4
#define RXNG_BTH_PAD_MASK 0x3
#define RXNG_BTH_TVER_MASK 0x0f
#define RXNG_BTH_ACK_REQ 0x80000000u

/* Datagram extended transport header (9.3.2). */
struct rxng_deth {
	__be32 qkey;
	/* 8 reserved bits, 24 bits of source QP. */
	__be32 sqpn;
} __packed;

/* RDMA extended transport header (9.3.3). */
struct rxng_reth {
	__be64 va;
	__be32 rkey;
	__be32 len;
} __packed;

/* Atomic extended transport header (9.3.4). */
struct rxng_atomiceth {
	__be64 va;
	__be32 rkey;
	__be64 swap_add;
	__be64 compare;
} __packed;

/* ACK extended transport header (9.3.5): syndrome and MSN. */
struct rxng_aeth {
	__be32 smsn;
} __packed;

/* Atomic ACK extended transport header (9.5.3). */
struct rxng_atomicacketh {
	__be64 orig;
} __packed;

/*
 * FLUSH extended transport header (annex A19): placement type in the lowest four
 * bits, selectivity level in the next two.
 */
struct rxng_feth {
	__be32 feth;
} __packed;

#define RXNG_FETH_TYPE_MASK 0xf
#define RXNG_FETH_LEVEL_SHIFT 4
#define RXNG_FETH_LEVEL_MASK 0x3
/* Placement: seen by all that may read it; safe from a loss of power. */
#define RXNG_FLUSH_GLOBAL BIT(0)
#define RXNG_FLUSH_PERSISTENT BIT(1)
/* Levels: a range, or all of the region. */
#define RXNG_FLUSH_RANGE 0
#define RXNG_FLUSH_REGION 1
static inline u32 rxng_flush_type(u32 feth)
{
	return feth & RXNG_FETH_TYPE_MASK;
}

/* With the reserved bits, so that what they may mean one day is refused. */
static inline u32 rxng_flush_level(u32 feth)
{
	return feth >> RXNG_FETH_LEVEL_SHIFT;
}

/* The rights that a FLUSH needs, as in IB_ACCESS_FLUSH_*: one for each placement. */
static inline u32 rxng_flush_rights(u32 feth)
{
	return rxng_flush_type(feth) << 8;
}

/* Bytes of an ATOMIC WRITE. */
#define RXNG_ATOMIC_WRITE_LEN 8

/* Immediate data (9.3.6) and invalidate (9.3.7) extended headers. */
struct rxng_immdt {
	__be32 imm;
} __packed;

struct rxng_ieth {
	__be32 rkey;
} __packed;

static_assert(sizeof(struct rxng_bth) == 12);
static_assert(sizeof(struct rxng_deth) == 8);
static_assert(sizeof(struct rxng_reth) == 16);
static_assert(sizeof(struct rxng_atomiceth) == 28);
static_assert(sizeof(struct rxng_aeth) == 4);
static_assert(sizeof(struct rxng_atomicacketh) == 8);

/* The longest transport header of the services that are spoken. */
#define RXNG_MAX_HDR (sizeof(struct rxng_bth) + sizeof(struct rxng_atomiceth))

/* AETH syndromes (9.7.5.2): type in the upper bits, value in the lower five. */
#define RXNG_AETH_TYPE_MASK 0xe0
#define RXNG_AETH_VALUE_MASK 0x1f
#define RXNG_AETH_ACK 0x00
#define RXNG_AETH_RNR 0x20
#define RXNG_AETH_NAK 0x60
/* ACK value that says that credits are not counted (9.7.7.2). */
#define RXNG_AETH_NO_CREDITS 0x1f

/* NAK codes (table 58). */
enum rxng_nak {
	RXNG_NAK_PSN = 0,
	RXNG_NAK_INV_REQ = 1,
	RXNG_NAK_REM_ACC = 2,
	RXNG_NAK_REM_OP = 3,
};

#endif
