/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tracepoints (Documentation/trace/tracepoints.rst): what a QP does, event by
 * event, below events/rxe_ng of tracefs. QP numbers are unique over all
 * devices, so an event names no other thing.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rxe_ng

#if !defined(RXNG_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RXNG_TRACE_H

#include <linux/tracepoint.h>
#include <rdma/ib_verbs.h>

#include "proto/packet.h"
#include "stats.h"

#define rxng_show_state(state)				\
	__print_symbolic(state,				\
			 { IB_QPS_RESET, "RESET" },	\
			 { IB_QPS_INIT, "INIT" },	\
			 { IB_QPS_RTR, "RTR" },		\
			 { IB_QPS_RTS, "RTS" },		\
			 { IB_QPS_SQD, "SQD" },		\
			 { IB_QPS_SQE, "SQE" },		\
			 { IB_QPS_ERR, "ERR" })

#define rxng_show_service(opcode)					\
	__print_symbolic((opcode) >> RXNG_SERVICE_SHIFT,		\
			 { RXNG_SERVICE_RC, "RC" },			\
			 { RXNG_SERVICE_UC, "UC" },			\
			 { RXNG_SERVICE_UD, "UD" })

#define rxng_show_opcode(opcode)					\
	__print_symbolic((opcode) & (BIT(RXNG_SERVICE_SHIFT) - 1),	\
			 { RXNG_RC_SEND_FIRST, "SEND_FIRST" },		\
			 { RXNG_RC_SEND_MIDDLE, "SEND_MIDDLE" },	\
			 { RXNG_RC_SEND_LAST, "SEND_LAST" },		\
			 { RXNG_RC_SEND_LAST_IMM, "SEND_LAST_IMM" },	\
			 { RXNG_RC_SEND_ONLY, "SEND_ONLY" },		\
			 { RXNG_RC_SEND_ONLY_IMM, "SEND_ONLY_IMM" },	\
			 { RXNG_RC_WRITE_FIRST, "WRITE_FIRST" },	\
			 { RXNG_RC_WRITE_MIDDLE, "WRITE_MIDDLE" },	\
			 { RXNG_RC_WRITE_LAST, "WRITE_LAST" },		\
			 { RXNG_RC_WRITE_LAST_IMM, "WRITE_LAST_IMM" },	\
			 { RXNG_RC_WRITE_ONLY, "WRITE_ONLY" },		\
			 { RXNG_RC_WRITE_ONLY_IMM, "WRITE_ONLY_IMM" },	\
			 { RXNG_RC_READ_REQUEST, "READ_REQUEST" },	\
			 { RXNG_RC_READ_RESP_FIRST, "READ_RESP_FIRST" }, \
			 { RXNG_RC_READ_RESP_MIDDLE, "READ_RESP_MIDDLE" }, \
			 { RXNG_RC_READ_RESP_LAST, "READ_RESP_LAST" },	\
			 { RXNG_RC_READ_RESP_ONLY, "READ_RESP_ONLY" },	\
			 { RXNG_RC_ACK, "ACK" },			\
			 { RXNG_RC_ATOMIC_ACK, "ATOMIC_ACK" },		\
			 { RXNG_RC_CMP_SWAP, "CMP_SWAP" },		\
			 { RXNG_RC_FETCH_ADD, "FETCH_ADD" },		\
			 { RXNG_RC_SEND_LAST_INV, "SEND_LAST_INV" },	\
			 { RXNG_RC_SEND_ONLY_INV, "SEND_ONLY_INV" },	\
			 { RXNG_RC_FLUSH, "FLUSH" },			\
			 { RXNG_RC_ATOMIC_WRITE, "ATOMIC_WRITE" })

#define rxng_show_drop(why)						\
	__print_symbolic(why,						\
			 { RXNG_STAT_RX_ICRC_ERR, "rx_icrc_err" },	\
			 { RXNG_STAT_RX_MALFORMED, "rx_malformed" },	\
			 { RXNG_STAT_RX_NO_QP, "rx_no_qp" },		\
			 { RXNG_STAT_RX_BAD_PKEY, "rx_bad_pkey" },	\
			 { RXNG_STAT_RX_BAD_ADDR, "rx_bad_addr" },	\
			 { RXNG_STAT_RX_QUEUE_FULL, "rx_queue_full" },	\
			 { RXNG_STAT_RX_BAD_QKEY, "rx_bad_qkey" },	\
			 { RXNG_STAT_OUT_OF_BUFFER, "out_of_buffer" },	\
			 { RXNG_STAT_RX_TOO_LONG, "rx_too_long" },	\
			 { RXNG_STAT_RX_BAD_ACCESS, "rx_bad_access" },	\
			 { RXNG_STAT_RX_INVALID_REQUEST, "rx_invalid_request" })

TRACE_EVENT(rxng_qp_state,
	TP_PROTO(u32 qpn, int from, int to),
	TP_ARGS(qpn, from, to),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(int, from)
		__field(int, to)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("qpn=0x%06x %s -> %s", __entry->qpn,
		  rxng_show_state(__entry->from),
		  rxng_show_state(__entry->to))
);

/* A packet or burst; only one with an AETH has a syndrome and an MSN. */
DECLARE_EVENT_CLASS(rxng_packet,
	TP_PROTO(u32 qpn, const struct rxng_pkt *pkt),
	TP_ARGS(qpn, pkt),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, npkts)
		__field(u32, len)
		__field(u32, msn)
		__field(u8, opcode)
		__field(u8, syndrome)
	),
	TP_fast_assign(
		bool aeth = pkt->flags & RXNG_PKT_AETH;

		__entry->qpn = qpn;
		__entry->psn = pkt->psn;
		__entry->npkts = pkt->npkts;
		__entry->len = pkt->payload_len;
		__entry->opcode = pkt->opcode;
		__entry->syndrome = aeth ? pkt->syndrome : 0;
		__entry->msn = aeth ? pkt->msn : 0;
	),
	TP_printk("qpn=0x%06x %s psn=%u packets=%u bytes=%u service=%s syndrome=0x%02x msn=%u",
		  __entry->qpn, rxng_show_opcode(__entry->opcode),
		  __entry->psn, __entry->npkts, __entry->len,
		  rxng_show_service(__entry->opcode),
		  __entry->syndrome, __entry->msn)
);

DEFINE_EVENT(rxng_packet, rxng_tx,
	TP_PROTO(u32 qpn, const struct rxng_pkt *pkt),
	TP_ARGS(qpn, pkt)
);

/* When the QP takes it up, not when it arrives. */
DEFINE_EVENT(rxng_packet, rxng_rx,
	TP_PROTO(u32 qpn, const struct rxng_pkt *pkt),
	TP_ARGS(qpn, pkt)
);

TRACE_EVENT(rxng_drop,
	TP_PROTO(u32 qpn, int why),
	TP_ARGS(qpn, why),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(int, why)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->why = why;
	),
	TP_printk("qpn=0x%06x %s", __entry->qpn, rxng_show_drop(__entry->why))
);

/* Sends again from @psn on: at once, or after an RNR wait. */
TRACE_EVENT(rxng_retry,
	TP_PROTO(u32 qpn, u32 psn, bool rnr, u8 retry_left, u8 rnr_left),
	TP_ARGS(qpn, psn, rnr, retry_left, rnr_left),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(bool, rnr)
		__field(u8, retry_left)
		__field(u8, rnr_left)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->psn = psn;
		__entry->rnr = rnr;
		__entry->retry_left = retry_left;
		__entry->rnr_left = rnr_left;
	),
	TP_printk("qpn=0x%06x %s psn=%u retry_left=%u rnr_left=%u",
		  __entry->qpn, __entry->rnr ? "RNR" : "LOST", __entry->psn,
		  __entry->retry_left, __entry->rnr_left)
);

/* @status is enum ib_wc_status, @opcode enum ib_wc_opcode. */
TRACE_EVENT(rxng_completion,
	TP_PROTO(const struct ib_wc *wc),
	TP_ARGS(wc),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, len)
		__field(int, status)
		__field(int, opcode)
	),
	TP_fast_assign(
		__entry->wr_id = wc->wr_id;
		__entry->qpn = wc->qp->qp_num;
		__entry->len = wc->byte_len;
		__entry->status = wc->status;
		__entry->opcode = wc->opcode;
	),
	TP_printk("qpn=0x%06x wr_id=0x%llx status=%d opcode=%d bytes=%u",
		  __entry->qpn, __entry->wr_id, __entry->status,
		  __entry->opcode, __entry->len)
);

#endif

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH rxe_ng
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
