/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A place in a scatter-gather list. It holds a reference on the memory region
 * it is in, so that a burst looks each region up once.
 */
#ifndef RXNG_CURSOR_H
#define RXNG_CURSOR_H

#include "mr.h"
#include "../uapi/rxe_ng_abi.h"

/**
 * struct rxng_cursor - a place in a scatter-gather list or in inline data
 * @dev: device of the keys
 * @pd: protection domain that the keys have to be of
 * @qp: whose peer's request names the keys; NULL for our own requests
 * @sge: list, or NULL when @data is used
 * @num_sge: entries of @sge
 * @access: rights that the copy needs
 * @idx: current entry
 * @offset: bytes into it, or into @data
 * @mr: region of the current entry, once it was needed
 * @data: inline data
 * @missing: bytes from here on of the current entry of which a page is missing,
 *	when a copy returned -EAGAIN
 */
struct rxng_cursor {
	struct rxng_dev *dev;
	const struct ib_pd *pd;
	const struct ib_qp *qp;
	const struct rxng_sge *sge;
	u32 num_sge;
	u32 access;
	u32 idx;
	u32 offset;
	struct rxng_mr *mr;
	const u8 *data;
	u32 missing;
};

void rxng_cursor_init(struct rxng_cursor *cur, struct rxng_dev *dev,
		      const struct ib_pd *pd, const struct rxng_sge *sge,
		      u32 num_sge, u32 access, u32 offset);
void rxng_cursor_init_remote(struct rxng_cursor *cur, const struct ib_qp *ibqp,
			     const struct rxng_sge *sge, u32 access,
			     u32 offset);
void rxng_cursor_init_inline(struct rxng_cursor *cur, const void *data,
			     u32 offset);
int rxng_cursor_read(struct rxng_cursor *cur, void *buf, u32 len);
int rxng_cursor_write(struct rxng_cursor *cur, void *buf, u32 len);
int rxng_cursor_write_skb(struct rxng_cursor *cur, const struct sk_buff *skb,
			  u32 offset, u32 len);
void rxng_cursor_end(struct rxng_cursor *cur);

#endif
