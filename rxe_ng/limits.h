/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What one device offers, as query_device reports it. */
#ifndef RXNG_LIMITS_H
#define RXNG_LIMITS_H

#define RXNG_VERSION "0.1.0"
#define RXNG_FW_VER (1ull << 16)

#define RXNG_MAX_QP 0x4000
#define RXNG_MAX_QP_WR 0x7fff
#define RXNG_MAX_SGE 32
#define RXNG_MAX_INLINE 512
#define RXNG_MAX_SRQ 0x4000
#define RXNG_MAX_SRQ_WR 0x7fff
#define RXNG_MAX_CQ 0x4000
#define RXNG_MAX_CQE 0x3fffff
#define RXNG_MAX_MR 0x40000
#define RXNG_MAX_MW 0x40000
#define RXNG_MAX_MR_SIZE (~0ull)
#define RXNG_MAX_FAST_REG_PAGES 512
#define RXNG_MAX_PD 0x8000
#define RXNG_MAX_AH 0x8000
#define RXNG_MAX_UCONTEXT 0x10000
/* Memberships of QPs in multicast groups, all groups together. */
#define RXNG_MAX_MCAST 0x1000
/* QPs in one group: each of its packets is handed to all at once. */
#define RXNG_MAX_MCAST_QP 256
#define RXNG_MCAST_BUCKETS 64
/* RDMA READ and atomic requests outstanding on one QP, each direction. */
#define RXNG_MAX_RD_ATOMIC 128
#define RXNG_MAX_MSG_SIZE 0x80000000u
#define RXNG_MAX_PKEYS 1
#define RXNG_GID_TABLE_LEN 1024
/* Bytes of packets that one QP may have under way before it waits. */
#define RXNG_QP_SNDBUF (1024 * 1024)

#endif
