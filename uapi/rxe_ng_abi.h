/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the module and a user-space provider share: the rings and the work
 * requests in them. It is the layout that the distribution's own provider
 * of Soft-RoCE speaks (driver id RDMA_DRIVER_RXE, ABI version 2), so that an
 * unmodified rdma-core drives the module. All integers are in host byte
 * order unless their type says otherwise.
 */
#ifndef RXE_NG_ABI_H
#define RXE_NG_ABI_H

#include <linux/types.h>
#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/stddef.h>
#else
#include <stddef.h>
#endif

#define RXNG_UVERBS_ABI_VERSION 2
/* Value of ib_uverbs_post_send.wqe_size in a doorbell. */
#define RXNG_DOORBELL_WQE_SIZE 128

/*
 * Start of a mapped ring; slots follow at offset 384. Indices run from 0 to
 * index_mask; producer == consumer means empty, so that one slot is unused.
 */
struct rxng_ring_hdr {
	__u32 log2_elem_size;
	__u32 index_mask;
	__u32 pad_1[30];
	__u32 producer_index;
	__u32 pad_2[31];
	__u32 consumer_index;
	__u32 pad_3[31];
};

/* Where to mmap() a ring. */
struct rxng_mminfo {
	__aligned_u64 offset;
	__u32 size;
	__u32 pad;
};

struct rxng_create_cq_resp {
	struct rxng_mminfo mi;
};

struct rxng_create_qp_resp {
	struct rxng_mminfo rq_mi;
	struct rxng_mminfo sq_mi;
};

struct rxng_create_srq_resp {
	struct rxng_mminfo mi;
	__u32 srq_num;
	__u32 reserved;
};

struct rxng_modify_srq_cmd {
	/* Where the kernel writes a struct rxng_mminfo when the ring is new. */
	__aligned_u64 mmap_info_addr;
};

struct rxng_create_ah_resp {
	/* What names the handle in rxng_send_wqe.wr.ud.ah_num; never zero. */
	__u32 ah_num;
	__u32 reserved;
};

struct rxng_sge {
	__aligned_u64 addr;
	__u32 length;
	__u32 lkey;
};

/* Work request opcodes, as in enum ib_wr_opcode. */
enum rxng_wr_opcode {
	RXNG_WR_RDMA_WRITE = 0,
	RXNG_WR_RDMA_WRITE_WITH_IMM = 1,
	RXNG_WR_SEND = 2,
	RXNG_WR_SEND_WITH_IMM = 3,
	RXNG_WR_RDMA_READ = 4,
	RXNG_WR_ATOMIC_CMP_AND_SWP = 5,
	RXNG_WR_ATOMIC_FETCH_AND_ADD = 6,
	RXNG_WR_LOCAL_INV = 7,
	RXNG_WR_BIND_MW = 8,
	RXNG_WR_SEND_WITH_INV = 9,
	RXNG_WR_RDMA_READ_WITH_INV = 11,
	RXNG_WR_FLUSH = 14,
	RXNG_WR_ATOMIC_WRITE = 15,
	RXNG_WR_REG_MR = 32,
};

/* Bits of send_flags, as in enum ib_send_flags. */
#define RXNG_SEND_FENCE (1 << 0)
#define RXNG_SEND_SIGNALED (1 << 1)
#define RXNG_SEND_SOLICITED (1 << 2)
#define RXNG_SEND_INLINE (1 << 3)

/*
 * A send work request in a slot of the send ring. Only the named fields are
 * read, each once; the padding is scratch space of the provider.
 */
struct rxng_send_wqe {
	__aligned_u64 wr_id;
	__u32 reserved;
	__u32 opcode;
	__u32 send_flags;
	union {
		__be32 imm_data;
		__u32 invalidate_rkey;
	} ex;
	union {
		struct {
			__aligned_u64 remote_addr;
			__u32 rkey;
			__u32 reserved;
		} rdma;
		struct {
			__aligned_u64 remote_addr;
			__aligned_u64 compare_add;
			__aligned_u64 swap;
			__u32 rkey;
			__u32 reserved;
		} atomic;
		struct {
			__aligned_u64 remote_addr;
			__u32 reserved_1;
			__u32 rkey;
			__u8 type;
			__u8 level;
			__u8 reserved_2[6];
		} flush;
		struct {
			__u32 remote_qpn;
			__u32 remote_qkey;
			__u16 pkey_index;
			__u16 reserved;
			__u32 ah_num;
		} ud;
		struct {
			__aligned_u64 addr;
			__aligned_u64 length;
			__u32 mr_lkey;
			__u32 mw_rkey;
			__u32 rkey;
			__u32 access;
		} mw;
		__u8 size[120];
	} wr;
	__u8 scratch[40];
	struct {
		__u32 length;
		__u32 resid;
		__u32 cur_sge;
		__u32 num_sge;
		__u32 sge_offset;
		__u32 reserved;
	} dma;
	/* struct rxng_sge[num_sge], or dma.length bytes of inline data. */
	__u8 data[];
};

struct rxng_recv_wqe {
	__aligned_u64 wr_id;
	__u32 reserved;
	__u32 pad;
	struct {
		__u32 length;
		__u32 resid;
		__u32 cur_sge;
		__u32 num_sge;
		__u32 sge_offset;
		__u32 reserved;
	} dma;
	struct rxng_sge sge[];
};

/* A completion at the start of a slot of a CQ's ring. */
struct rxng_cqe {
	__aligned_u64 wr_id;
	__u32 status;
	__u32 opcode;
	__u32 vendor_err;
	__u32 byte_len;
	union {
		__be32 imm_data;
		__u32 invalidate_rkey;
	} ex;
	__u32 qp_num;
	__u32 src_qp;
	__u32 wc_flags;
	__u16 pkey_index;
	__u16 slid;
	__u8 sl;
	__u8 dlid_path_bits;
	__u8 port_num;
	__u8 reserved;
};

/*
 * What `rdma resource show qp -r` gives as RES_RAW: a QP's transport state, as
 * one look at it found it. PSNs and MSNs have 24 bits.
 */
struct rxng_raw_qp {
	/* Requester: send requests not retired, and those that have PSNs. */
	__u32 posted;
	__u32 started;
	/* Next to be given out; oldest not acknowledged; one past those sent. */
	__u32 psn;
	__u32 una_psn;
	__u32 sent_psn;
	/* Packets: allowed, sent and not acknowledged, READ's to be received. */
	__u32 window;
	__u32 under_way;
	__u32 reading;
	/* READ and atomic requests outstanding. */
	__u32 rd_used;
	__u32 retry_left;
	__u32 rnr_left;
	/* Round trip as measured; 0 when not known. */
	__u32 srtt_ns;
	/* Responder: next PSN, messages completed, bytes of the one under way. */
	__u32 expected_psn;
	__u32 msn;
	__u32 message_bytes;
	/* 0, or what the peer was told of a gap: 1 NAK, 2 RNR NAK. */
	__u32 gap;
	/* An answer to a READ is being sent. */
	__u32 replying;
	/* Packets or bursts that wait, and bytes that have not left the host. */
	__u32 requests_queued;
	__u32 responses_queued;
	__u32 bytes_under_way;
	/* CPU that runs it when requests are posted without a wait for each. */
	__u32 home_cpu;
};

#ifdef __KERNEL__
#define RXNG_ABI_ASSERT(cond) static_assert(cond)
#else
#define RXNG_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#endif

RXNG_ABI_ASSERT(offsetof(struct rxng_ring_hdr, producer_index) == 128);
RXNG_ABI_ASSERT(offsetof(struct rxng_ring_hdr, consumer_index) == 256);
RXNG_ABI_ASSERT(sizeof(struct rxng_ring_hdr) == 384);
RXNG_ABI_ASSERT(sizeof(struct rxng_mminfo) == 16);
RXNG_ABI_ASSERT(sizeof(struct rxng_create_cq_resp) == 16);
RXNG_ABI_ASSERT(sizeof(struct rxng_create_qp_resp) == 32);
RXNG_ABI_ASSERT(sizeof(struct rxng_create_srq_resp) == 24);
RXNG_ABI_ASSERT(sizeof(struct rxng_modify_srq_cmd) == 8);
RXNG_ABI_ASSERT(sizeof(struct rxng_sge) == 16);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, opcode) == 12);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, ex) == 20);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, wr) == 24);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, wr.rdma.rkey) == 32);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, wr.atomic.rkey) == 48);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, wr.flush.rkey) == 36);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, wr.flush.level) == 41);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, wr.ud.ah_num) == 36);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, wr.mw.access) == 52);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, dma) == 184);
RXNG_ABI_ASSERT(offsetof(struct rxng_send_wqe, data) == 208);
RXNG_ABI_ASSERT(sizeof(struct rxng_send_wqe) == 208);
RXNG_ABI_ASSERT(offsetof(struct rxng_recv_wqe, dma) == 16);
RXNG_ABI_ASSERT(sizeof(struct rxng_recv_wqe) == 40);
RXNG_ABI_ASSERT(sizeof(struct rxng_cqe) == 48);
RXNG_ABI_ASSERT(offsetof(struct rxng_cqe, wc_flags) == 36);

#endif
