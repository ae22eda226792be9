// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Bytes to struct rxng_pkt and back. */
#include "packet.h"

static void parse_extended(const u8 *p, struct rxng_pkt *pkt)
{
	if (pkt->flags & RXNG_PKT_DETH) {
		const struct rxng_deth *deth = (const void *)p;

		pkt->qkey = be32_to_cpu(deth->qkey);
		pkt->sqpn = be32_to_cpu(deth->sqpn) & RXNG_QPN_MASK;
		p += sizeof(*deth);
	}
	if (pkt->flags & RXNG_PKT_FETH) {
		pkt->feth = be32_to_cpu(((const struct rxng_feth *)p)->feth);
		p += sizeof(struct rxng_feth);
	}
	if (pkt->flags & RXNG_PKT_RETH) {
		const struct rxng_reth *reth = (const void *)p;

		pkt->va = be64_to_cpu(reth->va);
		pkt->rkey = be32_to_cpu(reth->rkey);
		pkt->dma_len = be32_to_cpu(reth->len);
		p += sizeof(*reth);
	}
	if (pkt->flags & RXNG_PKT_ATOMICETH) {
		const struct rxng_atomiceth *eth = (const void *)p;

		pkt->va = be64_to_cpu(eth->va);
		pkt->rkey = be32_to_cpu(eth->rkey);
		pkt->swap_add = be64_to_cpu(eth->swap_add);
		pkt->compare = be64_to_cpu(eth->compare);
		p += sizeof(*eth);
	}
	if (pkt->flags & RXNG_PKT_AETH) {
		u32 smsn = be32_to_cpu(((const struct rxng_aeth *)p)->smsn);

		pkt->syndrome = smsn >> 24;
		pkt->msn = smsn & RXNG_PSN_MASK;
		p += sizeof(struct rxng_aeth);
	}
	if (pkt->flags & RXNG_PKT_ATOMICACK) {
		pkt->orig = be64_to_cpu(
			((const struct rxng_atomicacketh *)p)->orig);
		p += sizeof(struct rxng_atomicacketh);
	}
	if (pkt->flags & RXNG_PKT_IMM) {
		pkt->imm = ((const struct rxng_immdt *)p)->imm;
		p += sizeof(struct rxng_immdt);
	}
	if (pkt->flags & RXNG_PKT_INV)
		pkt->inv_rkey = be32_to_cpu(((const struct rxng_ieth *)p)->rkey);
}

/**
 * rxng_parse - check a received packet's form and take it apart
 * @data: transport headers, from the BTH on
 * @hdr_bytes: bytes that may be read at @data
 * @len: bytes from the BTH to the end of the ICRC
 * @pkt: filled in when the verdict is RXNG_PARSE_OK; its payload starts
 *	rxng_hdr_len() bytes after @data
 * @pkey: partition key of the packet
 *
 * After this nothing of the headers is read again (IBTA 9.6, 9.2).
 *
 * Return: RXNG_PARSE_OK, or what is wrong.
 */
enum rxng_parse rxng_parse(const u8 *data, size_t hdr_bytes, size_t len,
			   struct rxng_pkt *pkt, u16 *pkey)
{
	const struct rxng_bth *bth = (const void *)data;
	const struct rxng_opcode_info *info;
	unsigned int pad;
	size_t tail;
	u32 apsn;

	if (hdr_bytes < sizeof(*bth) || len < sizeof(*bth) + RXNG_ICRC_LEN)
		return RXNG_PARSE_SHORT;
	if (bth->flags & RXNG_BTH_TVER_MASK)
		return RXNG_PARSE_VERSION;
	info = rxng_opcode_info(bth->opcode);
	if (info->kind == RXNG_KIND_NONE)
		return RXNG_PARSE_OPCODE;
	pad = bth->flags >> RXNG_BTH_PAD_SHIFT & RXNG_BTH_PAD_MASK;
	tail = info->hdr_len + pad + RXNG_ICRC_LEN;
	if (hdr_bytes < info->hdr_len || len < tail)
		return RXNG_PARSE_SHORT;
	if (!(info->flags & RXNG_PKT_PAYLOAD) && len != tail - pad)
		return RXNG_PARSE_LENGTH;
	if ((len & 3) || len - tail > RXNG_MAX_PAYLOAD)
		return RXNG_PARSE_LENGTH;

	memset(pkt, 0, sizeof(*pkt));
	apsn = be32_to_cpu(bth->apsn);
	pkt->opcode = bth->opcode;
	pkt->kind = info->kind;
	pkt->flags = info->flags;
	pkt->psn = apsn & RXNG_PSN_MASK;
	pkt->npkts = 1;
	pkt->bits = (bth->flags & RXNG_BTH_SE ? RXNG_PKT_SOLICITED : 0) |
		    (apsn & RXNG_BTH_ACK_REQ ? RXNG_PKT_ACK_REQ : 0);
	pkt->payload_len = len - tail;
	pkt->qpn = be32_to_cpu(bth->qpn) & RXNG_QPN_MASK;
	*pkey = be16_to_cpu(bth->pkey);
	parse_extended(data + sizeof(*bth), pkt);
	return RXNG_PARSE_OK;
}

/**
 * rxng_hdr_len - bytes of a packet's transport headers
 * @pkt: a packet whose @opcode is set
 */
size_t rxng_hdr_len(const struct rxng_pkt *pkt)
{
	return rxng_opcode_info(pkt->opcode)->hdr_len;
}

static u8 *build_extended(u8 *p, const struct rxng_pkt *pkt, u16 flags)
{
	if (flags & RXNG_PKT_DETH) {
		*(struct rxng_deth *)p = (struct rxng_deth){
			.qkey = cpu_to_be32(pkt->qkey),
			.sqpn = cpu_to_be32(pkt->sqpn),
		};
		p += sizeof(struct rxng_deth);
	}
	if (flags & RXNG_PKT_FETH) {
		((struct rxng_feth *)p)->feth = cpu_to_be32(pkt->feth);
		p += sizeof(struct rxng_feth);
	}
	if (flags & RXNG_PKT_RETH) {
		*(struct rxng_reth *)p = (struct rxng_reth){
			.va = cpu_to_be64(pkt->va),
			.rkey = cpu_to_be32(pkt->rkey),
			.len = cpu_to_be32(pkt->dma_len),
		};
		p += sizeof(struct rxng_reth);
	}
	if (flags & RXNG_PKT_ATOMICETH) {
		*(struct rxng_atomiceth *)p = (struct rxng_atomiceth){
			.va = cpu_to_be64(pkt->va),
			.rkey = cpu_to_be32(pkt->rkey),
			.swap_add = cpu_to_be64(pkt->swap_add),
			.compare = cpu_to_be64(pkt->compare),
		};
		p += sizeof(struct rxng_atomiceth);
	}
	if (flags & RXNG_PKT_AETH) {
		((struct rxng_aeth *)p)->smsn =
			cpu_to_be32((u32)pkt->syndrome << 24 | pkt->msn);
		p += sizeof(struct rxng_aeth);
	}
	if (flags & RXNG_PKT_ATOMICACK) {
		((struct rxng_atomicacketh *)p)->orig = cpu_to_be64(pkt->orig);
		p += sizeof(struct rxng_atomicacketh);
	}
	if (flags & RXNG_PKT_IMM) {
		((struct rxng_immdt *)p)->imm = pkt->imm;
		p += sizeof(struct rxng_immdt);
	}
	if (flags & RXNG_PKT_INV) {
		((struct rxng_ieth *)p)->rkey = cpu_to_be32(pkt->inv_rkey);
		p += sizeof(struct rxng_ieth);
	}
	return p;
}

/**
 * rxng_build - write the transport headers of one packet
 * @data: room for rxng_hdr_len() bytes
 * @pkt: a single packet whose @opcode is valid
 *
 * Return: bytes written; payload, rxng_pad() bytes of pad and the ICRC follow.
 */
size_t rxng_build(u8 *data, const struct rxng_pkt *pkt)
{
	struct rxng_bth *bth = (struct rxng_bth *)data;
	u8 flags = rxng_pad(pkt->payload_len) << RXNG_BTH_PAD_SHIFT |
		   RXNG_BTH_MIG;
	u32 apsn = pkt->psn;

	if (pkt->bits & RXNG_PKT_SOLICITED)
		flags |= RXNG_BTH_SE;
	if (pkt->bits & RXNG_PKT_ACK_REQ)
		apsn |= RXNG_BTH_ACK_REQ;
	bth->opcode = pkt->opcode;
	bth->flags = flags;
	bth->pkey = cpu_to_be16(RXNG_PKEY_DEFAULT);
	bth->qpn = cpu_to_be32(pkt->qpn);
	bth->apsn = cpu_to_be32(apsn);
	return build_extended(data + sizeof(*bth), pkt,
			      rxng_opcode_info(pkt->opcode)->flags) - data;
}
