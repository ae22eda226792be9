// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cursor.h"

/**
 * rxng_cursor_init - stand some bytes into a scatter-gather list
 * @cur: cursor; to be ended with rxng_cursor_end()
 * @dev: device of the keys
 * @pd: protection domain
 * @sge: list that outlives the cursor
 * @num_sge: its entries
 * @access: IB_ACCESS_* rights that each region must give
 * @offset: where to stand; at most the list's length
 */
void rxng_cursor_init(struct rxng_cursor *cur, struct rxng_dev *dev,
		      const struct ib_pd *pd, const struct rxng_sge *sge,
		      u32 num_sge, u32 access, u32 offset)
{
	*cur = (struct rxng_cursor){
		.dev = dev,
		.pd = pd,
		.sge = sge,
		.num_sge = num_sge,
		.access = access,
	};
	while (cur->idx < num_sge && offset >= sge[cur->idx].length) {
		offset -= sge[cur->idx].length;
		cur->idx++;
	}
	cur->offset = offset;
}

/**
 * rxng_cursor_init_remote - stand some bytes into what a peer's request names
 * @cur: cursor; to be ended with rxng_cursor_end()
 * @ibqp: QP that the request came to
 * @sge: address, length and rkey; outlives the cursor
 * @access: IB_ACCESS_REMOTE_* rights that it must give
 * @offset: where to stand; at most the length
 */
void rxng_cursor_init_remote(struct rxng_cursor *cur, const struct ib_qp *ibqp,
			     const struct rxng_sge *sge, u32 access, u32 offset)
{
	rxng_cursor_init(cur, to_rxng_dev(ibqp->device), ibqp->pd, sge, 1,
			 access, offset);
	cur->qp = ibqp;
}

/**
 * rxng_cursor_init_inline - stand some bytes into inline data
 * @cur: cursor; to be ended with rxng_cursor_end()
 * @data: the data, which outlives the cursor
 * @offset: where to stand
 */
void rxng_cursor_init_inline(struct rxng_cursor *cur, const void *data,
			     u32 offset)
{
	*cur = (struct rxng_cursor){ .data = data, .offset = offset };
}

static void next_sge(struct rxng_cursor *cur)
{
	if (cur->mr)
		rxng_mr_put(cur->mr);
	cur->mr = NULL;
	cur->offset = 0;
	cur->idx++;
}

static struct rxng_mr *look_up(const struct rxng_cursor *cur,
			       const struct rxng_sge *sge)
{
	if (cur->qp)
		return rxng_mr_get_remote(cur->qp, sge->lkey, sge->addr,
					  sge->length, cur->access);
	return rxng_mr_get(cur->dev, cur->pd, sge->lkey, sge->addr,
			   sge->length, cur->access);
}

/* The region of the current entry; entries without bytes need none. */
static struct rxng_mr *here(struct rxng_cursor *cur, u32 *room)
{
	const struct rxng_sge *sge;

	while (cur->idx < cur->num_sge &&
	       cur->offset == cur->sge[cur->idx].length)
		next_sge(cur);
	if (cur->idx == cur->num_sge)
		return ERR_PTR(-EMSGSIZE);
	sge = &cur->sge[cur->idx];
	*room = sge->length - cur->offset;
	if (!cur->mr) {
		struct rxng_mr *mr = look_up(cur, sge);

		if (IS_ERR(mr))
			return mr;
		cur->mr = mr;
	}
	return cur->mr;
}

static int copy(struct rxng_cursor *cur, void *buf, u32 len,
		enum rxng_mr_dir dir)
{
	while (len) {
		struct rxng_mr *mr;
		u32 room, n;
		int err;

		mr = here(cur, &room);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		n = min(room, len);
		err = rxng_mr_copy(mr, cur->sge[cur->idx].addr + cur->offset,
				   buf, n, dir);
		if (err) {
			cur->missing = n;
			return err;
		}
		cur->offset += n;
		buf += n;
		len -= n;
	}
	return 0;
}

/**
 * rxng_cursor_read - copy out of the list and move on
 * @cur: cursor
 * @buf: destination
 * @len: bytes
 *
 * Return: 0; -EAGAIN when a page of memory has to be brought in first, by
 * rxng_qp_end_copy(), and then all of it has to be copied again; another errno
 * when a key, range, right or the list's length forbids it.
 * Context: any with bottom halves off.
 */
int rxng_cursor_read(struct rxng_cursor *cur, void *buf, u32 len)
{
	if (!cur->data)
		return copy(cur, buf, len, RXNG_FROM_MR);
	memcpy(buf, cur->data + cur->offset, len);
	cur->offset += len;
	return 0;
}

/**
 * rxng_cursor_write - copy into the list and move on
 * @cur: cursor, not on inline data
 * @buf: source
 * @len: bytes
 *
 * Return: as rxng_cursor_read().
 */
int rxng_cursor_write(struct rxng_cursor *cur, void *buf, u32 len)
{
	return copy(cur, buf, len, RXNG_TO_MR);
}

/**
 * rxng_cursor_write_skb - copy a packet's payload into the list and move on
 * @cur: cursor, not on inline data
 * @skb: packet
 * @offset: where in its data the payload starts
 * @len: bytes
 *
 * Return: as rxng_cursor_read().
 */
int rxng_cursor_write_skb(struct rxng_cursor *cur, const struct sk_buff *skb,
			  u32 offset, u32 len)
{
	while (len) {
		struct rxng_mr *mr;
		u32 room, n;
		int err;

		mr = here(cur, &room);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		n = min(room, len);
		err = rxng_mr_from_skb(mr,
				       cur->sge[cur->idx].addr + cur->offset,
				       skb, offset, n);
		if (err) {
			cur->missing = n;
			return err;
		}
		cur->offset += n;
		offset += n;
		len -= n;
	}
	return 0;
}

/**
 * rxng_cursor_end - let go of the region that the cursor is in
 * @cur: cursor
 */
void rxng_cursor_end(struct rxng_cursor *cur)
{
	if (cur->mr)
		rxng_mr_put(cur->mr);
	cur->mr = NULL;
}
