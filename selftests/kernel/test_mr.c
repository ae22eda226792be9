// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory regions of kernel consumers. */
#include <linux/slab.h>

#include "ktest.h"

#define PAGES 16
#define ACCESS_ALL (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | \
		    IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)

static bool write_to(struct kt *t, u32 len, u64 raddr, u32 rkey,
		     enum ib_wc_status status)
{
	return kt_post_rdma(t, 0, IB_WR_RDMA_WRITE, 50, kt_sge(t, 0, 0, len),
			    raddr, rkey) &&
	       kt_expect(t, 0, 50, status, NULL);
}

static bool read_from(struct kt *t, u32 len, u64 raddr, u32 rkey,
		      enum ib_wc_status status)
{
	return kt_post_rdma(t, 0, IB_WR_RDMA_READ, 51, kt_sge(t, 0, 0, len),
			    raddr, rkey) &&
	       kt_expect(t, 0, 51, status, NULL);
}

static bool fast_reg(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	const u32 len = 3 * PAGE_SIZE + 100, off = PAGE_SIZE + 300;

	if (!mr || !kt_map(t, mr, 1, off, len) || !kt_reg(t, mr, 1, ACCESS_ALL))
		return false;

	kt_fill(t->side[0].buf, len, 1);
	if (!write_to(t, len, mr->iova, mr->rkey, IB_WC_SUCCESS) ||
	    !kt_check_fill(t, t->side[1].buf + off, len, 1))
		return false;
	KT_REQUIRE(t, !t->side[1].buf[off - 1] && !t->side[1].buf[off + len],
		   "wrote beside the region");

	kt_fill(t->side[1].buf + off, len, 2);
	return read_from(t, len - 11, mr->iova + 11, mr->rkey, IB_WC_SUCCESS) &&
	       !memcmp(t->side[0].buf, t->side[1].buf + off + 11, len - 11) &&
	       kt_inv(t, 1, mr->rkey, IB_WC_SUCCESS);
}

/* The region as the local end of sends and receives. */
static bool fast_reg_lkey(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	const u32 len = 2 * PAGE_SIZE + 9, off = 1234;
	struct ib_sge sge;

	if (!mr || !kt_map(t, mr, 0, off, len) ||
	    !kt_reg(t, mr, 0, IB_ACCESS_LOCAL_WRITE))
		return false;
	sge = (struct ib_sge) { mr->iova, len, mr->lkey };
	kt_fill(t->side[0].buf + off, len, 6);
	if (!kt_post_rdma(t, 0, IB_WR_RDMA_WRITE, 1, sge, t->side[1].dma,
			  t->pd->unsafe_global_rkey) ||
	    !kt_expect(t, 0, 1, IB_WC_SUCCESS, NULL) ||
	    !kt_check_fill(t, t->side[1].buf, len, 6))
		return false;
	kt_fill(t->side[1].buf, len, 7);
	return kt_post_rdma(t, 0, IB_WR_RDMA_READ, 2, sge, t->side[1].dma,
			    t->pd->unsafe_global_rkey) &&
	       kt_expect(t, 0, 2, IB_WC_SUCCESS, NULL) &&
	       kt_check_fill(t, t->side[0].buf + off, len, 7);
}

/* Pages in reverse, so that none follows its neighbour in memory. */
static bool map_reversed(struct kt *t, struct ib_mr *mr, u32 pages,
			 unsigned int page_size)
{
	struct scatterlist *sg = kcalloc(pages, sizeof(*sg), GFP_KERNEL);
	int i, n;

	KT_REQUIRE(t, sg, "no memory");
	sg_init_table(sg, pages);
	for (i = 0; i < pages; i++)
		sg_set_buf(&sg[i], t->side[1].buf +
			   (pages - 1 - i) * page_size, page_size);
	n = ib_dma_map_sg(t->dev, sg, pages, DMA_BIDIRECTIONAL);
	if (n)
		n = ib_map_mr_sg(mr, sg, n, NULL, page_size);
	ib_dma_unmap_sg(t->dev, sg, pages, DMA_BIDIRECTIONAL);
	kfree(sg);
	KT_REQUIRE(t, n == pages, "mapped %d of %u pages", n, pages);
	return true;
}

static bool page_list(struct kt *t, unsigned int page_size)
{
	const u32 pages = 5, len = pages * page_size;
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, pages);
	u32 i;

	if (!mr || !map_reversed(t, mr, pages, page_size) ||
	    !kt_reg(t, mr, 1, ACCESS_ALL))
		return false;
	kt_fill(t->side[0].buf, len, 5);
	if (!write_to(t, len, mr->iova, mr->rkey, IB_WC_SUCCESS))
		return false;
	for (i = 0; i < pages; i++)
		KT_REQUIRE(t, !memcmp(t->side[0].buf + i * page_size,
				      t->side[1].buf +
				      (pages - 1 - i) * page_size, page_size),
			   "page %u of %u bytes", i, page_size);
	return kt_inv(t, 1, mr->rkey, IB_WC_SUCCESS);
}

static bool scattered_pages(struct kt *t)
{
	return page_list(t, PAGE_SIZE) && page_list(t, 4 * PAGE_SIZE);
}

static bool too_many_pages(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, 4);
	struct scatterlist sg[6];
	int i, n;

	if (!mr)
		return false;
	sg_init_table(sg, 6);
	for (i = 0; i < 6; i++)
		sg_set_buf(&sg[i], t->side[1].buf + 2 * i * PAGE_SIZE,
			   PAGE_SIZE);
	n = ib_dma_map_sg(t->dev, sg, 6, DMA_BIDIRECTIONAL);
	KT_REQUIRE(t, n == 6, "DMA mapping: %d", n);
	n = ib_map_mr_sg(mr, sg, 6, NULL, PAGE_SIZE);
	ib_dma_unmap_sg(t->dev, sg, 6, DMA_BIDIRECTIONAL);
	KT_REQUIRE(t, n == 4 && mr->length == 4 * PAGE_SIZE,
		   "%d entries, %llu bytes into 4 pages", n, mr->length);
	return true;
}

static bool new_key(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	u32 old;

	if (!mr || !kt_map(t, mr, 1, 0, 8192) || !kt_reg(t, mr, 1, ACCESS_ALL))
		return false;
	old = mr->rkey;
	if (!kt_inv(t, 1, old, IB_WC_SUCCESS))
		return false;
	/* Not mapped anew: the pages are those of the first time. */
	ib_update_fast_reg_key(mr, ib_inc_rkey(old));
	KT_REQUIRE(t, mr->rkey != old, "key did not change");
	if (!kt_reg(t, mr, 1, ACCESS_ALL) ||
	    !write_to(t, 8192, mr->iova, mr->rkey, IB_WC_SUCCESS))
		return false;
	return write_to(t, 8, mr->iova, old, IB_WC_REM_ACCESS_ERR);
}

static bool stale_key(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);

	return mr && kt_map(t, mr, 1, 0, 8192) &&
	       kt_reg(t, mr, 1, ACCESS_ALL) &&
	       kt_inv(t, 1, mr->rkey, IB_WC_SUCCESS) &&
	       write_to(t, 8, mr->iova, mr->rkey, IB_WC_REM_ACCESS_ERR);
}

static bool never_registered(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);

	return mr && kt_map(t, mr, 1, 0, 8192) &&
	       write_to(t, 8, mr->iova, mr->rkey, IB_WC_REM_ACCESS_ERR);
}

/* What the region does not allow is refused, and the memory untouched. */
static bool refused(struct kt *t, int access, enum ib_wr_opcode op, s64 offset,
		    u32 len)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);

	memset(t->side[1].buf, 0, 16384);
	kt_fill(t->side[0].buf, 8192, 3);
	if (!mr || !kt_connect(t) || !kt_map(t, mr, 1, 4096, 4096) ||
	    !kt_reg(t, mr, 1, access) ||
	    !kt_post_rdma(t, 0, op, 1, kt_sge(t, 0, 0, len), mr->iova + offset,
			  mr->rkey) ||
	    !kt_expect(t, 0, 1, IB_WC_REM_ACCESS_ERR, NULL))
		return false;
	KT_REQUIRE(t, !memchr_inv(t->side[1].buf, 0, 16384),
		   "memory was written");
	return true;
}

static bool rights_and_range(struct kt *t)
{
	return refused(t, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ,
		       IB_WR_RDMA_WRITE, 0, 8) &&
	       refused(t, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
		       IB_WR_RDMA_READ, 0, 8) &&
	       refused(t, ACCESS_ALL, IB_WR_RDMA_WRITE, 4090, 7) &&
	       refused(t, ACCESS_ALL, IB_WR_RDMA_WRITE, -1, 4) &&
	       refused(t, ACCESS_ALL, IB_WR_RDMA_READ, 1, 4096);
}

static bool wrapping_range(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);

	return mr && kt_map(t, mr, 1, 4096, 4096) &&
	       kt_reg(t, mr, 1, ACCESS_ALL) &&
	       write_to(t, 16, (u64)-8, mr->rkey, IB_WC_REM_ACCESS_ERR);
}

static bool other_pd_remote(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->other_pd, PAGES);
	struct ib_reg_wr wr;
	struct ib_wc wc;
	int err;

	if (!mr || !kt_map(t, mr, 1, 0, 4096))
		return false;
	kt_reg_wr(&wr, mr, 1, ACCESS_ALL);
	err = ib_post_send(t->side[1].qp, &wr.wr, NULL);
	if (err)
		return true;
	if (!kt_poll(t, 1, &wc))
		return false;
	KT_REQUIRE(t, wc.status, "registered a region of another PD");
	return true;
}

static bool other_pd_local(struct kt *t)
{
	struct ib_sge sge = kt_sge(t, 0, 0, 16);

	sge.lkey = t->other_pd->local_dma_lkey;
	if (sge.lkey == t->pd->local_dma_lkey)
		return kt_skip(t, "the device has one local key for all PDs");
	return kt_post_rdma(t, 0, IB_WR_RDMA_WRITE, 1, sge, t->side[1].dma,
			    t->pd->unsafe_global_rkey) &&
	       kt_expect(t, 0, 1, IB_WC_LOC_PROT_ERR, NULL);
}

static bool register_twice(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	struct ib_reg_wr wr;
	struct ib_wc wc;
	int err;

	if (!mr || !kt_map(t, mr, 1, 0, 4096) || !kt_reg(t, mr, 1, ACCESS_ALL))
		return false;
	kt_reg_wr(&wr, mr, 1, ACCESS_ALL);
	err = ib_post_send(t->side[1].qp, &wr.wr, NULL);
	KT_REQUIRE(t, !err, "post: %d", err);
	if (!kt_poll(t, 1, &wc))
		return false;
	KT_REQUIRE(t, wc.status && wc.status != IB_WC_WR_FLUSH_ERR,
		   "second registration: %s", ib_wc_status_msg(wc.status));
	return true;
}

static bool invalidate_twice(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	struct ib_send_wr wr;
	struct ib_wc wc;

	if (!mr || !kt_map(t, mr, 1, 0, 4096) ||
	    !kt_reg(t, mr, 1, ACCESS_ALL) ||
	    !kt_inv(t, 1, mr->rkey, IB_WC_SUCCESS))
		return false;
	kt_inv_wr(&wr, mr->rkey, 2);
	KT_REQUIRE(t, !ib_post_send(t->side[1].qp, &wr, NULL), "post");
	if (!kt_poll(t, 1, &wc))
		return false;
	KT_REQUIRE(t, wc.status && wc.status != IB_WC_WR_FLUSH_ERR,
		   "second invalidate: %s", ib_wc_status_msg(wc.status));
	return true;
}

/* The way of most consumers: all in one list, mapped while still valid. */
static bool chained(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	int i, err;

	if (!mr || !kt_map(t, mr, 0, 0, 4096) || !kt_reg(t, mr, 0, ACCESS_ALL))
		return false;
	for (i = 0; i < 20; i++) {
		struct ib_send_wr inv, send = {
			.wr_id = 3,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		};
		struct ib_reg_wr reg;

		kt_inv_wr(&inv, mr->rkey, 1);
		ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
		if (!kt_map(t, mr, 0, 100 * i, 4096) ||
		    !kt_post_recv(t, 1, 4, 0, 16))
			return false;
		kt_reg_wr(&reg, mr, 2, ACCESS_ALL);
		inv.next = &reg.wr;
		reg.wr.next = &send;
		err = ib_post_send(t->side[0].qp, &inv, NULL);
		KT_REQUIRE(t, !err, "post: %d", err);
		if (!kt_expect(t, 0, 1, IB_WC_SUCCESS, NULL) ||
		    !kt_expect(t, 0, 2, IB_WC_SUCCESS, NULL) ||
		    !kt_expect(t, 0, 3, IB_WC_SUCCESS, NULL) ||
		    !kt_expect(t, 1, 4, IB_WC_SUCCESS, NULL))
			return false;
		/* The peer sees the new pages under the new key. */
		kt_fill(t->side[1].buf, 4096, i);
		if (!kt_post_rdma(t, 1, IB_WR_RDMA_WRITE, 5,
				  kt_sge(t, 1, 0, 4096), mr->iova, mr->rkey) ||
		    !kt_expect(t, 1, 5, IB_WC_SUCCESS, NULL) ||
		    !kt_check_fill(t, t->side[0].buf + 100 * i, 4096, i))
			return false;
	}
	return true;
}

static bool post_send_inv(struct kt *t, int side, u64 wr_id, u32 rkey)
{
	struct ib_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IB_WR_SEND_WITH_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = rkey,
	};
	int err = ib_post_send(t->side[side].qp, &wr, NULL);

	KT_REQUIRE(t, !err, "post SEND with invalidate: %d", err);
	return true;
}

static bool send_with_inv(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	struct ib_wc wc;
	int i;

	if (!mr)
		return false;
	for (i = 0; i < 3; i++) {
		if (!kt_map(t, mr, 1, 8192, 4096) ||
		    !kt_reg(t, mr, 1, ACCESS_ALL) ||
		    !kt_post_recv(t, 1, 1, 0, 64) ||
		    !post_send_inv(t, 0, 2, mr->rkey) ||
		    !kt_expect(t, 1, 1, IB_WC_SUCCESS, &wc) ||
		    !kt_expect(t, 0, 2, IB_WC_SUCCESS, NULL))
			return false;
		KT_REQUIRE(t, wc.wc_flags & IB_WC_WITH_INVALIDATE &&
			   wc.ex.invalidate_rkey == mr->rkey,
			   "flags %#x key %#x, not %#x", wc.wc_flags,
			   wc.ex.invalidate_rkey, mr->rkey);
	}
	return write_to(t, 8, mr->iova, mr->rkey, IB_WC_REM_ACCESS_ERR);
}

/* A peer that names a wrong key gets an error, not an acknowledgement. */
static bool send_with_bad_inv(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	struct ib_wc wc;

	if (!mr || !kt_map(t, mr, 1, 8192, 4096) ||
	    !kt_reg(t, mr, 1, ACCESS_ALL) || !kt_post_recv(t, 1, 1, 0, 64) ||
	    !post_send_inv(t, 0, 2, mr->rkey ^ 1) || !kt_poll(t, 0, &wc))
		return false;
	KT_REQUIRE(t, wc.status == IB_WC_REM_ACCESS_ERR ||
		   wc.status == IB_WC_REM_OP_ERR ||
		   wc.status == IB_WC_REM_INV_REQ_ERR, "sender got %s",
		   ib_wc_status_msg(wc.status));
	if (!kt_poll(t, 1, &wc))
		return false;
	KT_REQUIRE(t, wc.status, "the receiver saw a success");
	return true;
}

/* A region of the second side, which the first one's QP may not touch. */
static struct ib_mr *region_apart(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);

	return mr && kt_map(t, mr, 1, 8192, 4096) &&
	       kt_reg(t, mr, 1, ACCESS_ALL) ? mr : NULL;
}

/* Whoever may can still take it back. */
static bool still_there(struct kt *t, const struct ib_mr *mr)
{
	return kt_connect(t) && kt_inv(t, 1, mr->rkey, IB_WC_SUCCESS);
}

static bool other_pd_invalidates(struct kt *t)
{
	struct ib_mr *mr = region_apart(t);

	return mr && kt_inv(t, 0, mr->rkey, IB_WC_LOC_QP_OP_ERR) &&
	       still_there(t, mr);
}

static bool other_pd_is_told_to(struct kt *t)
{
	struct ib_mr *mr = region_apart(t);
	struct ib_recv_wr recv = { .wr_id = 1 };
	int err;

	if (!mr)
		return false;
	err = ib_post_recv(t->side[0].qp, &recv, NULL);
	KT_REQUIRE(t, !err, "post receive: %d", err);
	return post_send_inv(t, 1, 2, mr->rkey) &&
	       kt_expect(t, 1, 2, IB_WC_REM_ACCESS_ERR, NULL) &&
	       still_there(t, mr);
}

static bool read_with_inv(struct kt *t)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	struct ib_rdma_wr wr;
	struct ib_sge sge;
	int err;

	if (!mr || !kt_map(t, mr, 0, 0, 4096) ||
	    !kt_reg(t, mr, 0, IB_ACCESS_LOCAL_WRITE))
		return false;
	sge = (struct ib_sge) { mr->iova, 4096, mr->lkey };
	wr = (struct ib_rdma_wr) {
		.wr.wr_id = 1,
		.wr.opcode = IB_WR_RDMA_READ_WITH_INV,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.wr.ex.invalidate_rkey = mr->lkey,
		.remote_addr = t->side[1].dma,
		.rkey = t->pd->unsafe_global_rkey,
	};
	kt_fill(t->side[1].buf, 4096, 8);
	err = ib_post_send(t->side[0].qp, &wr.wr, NULL);
	if (err == -EINVAL || err == -EOPNOTSUPP)
		return kt_skip(t, "RDMA READ with invalidate is refused");
	KT_REQUIRE(t, !err, "post: %d", err);
	if (!kt_expect(t, 0, 1, IB_WC_SUCCESS, NULL) ||
	    !kt_check_fill(t, t->side[0].buf, 4096, 8))
		return false;
	/* It is free again, so it can be registered. */
	return kt_reg(t, mr, 0, IB_ACCESS_LOCAL_WRITE);
}

static bool alloc_limits(struct kt *t)
{
	static const struct {
		enum ib_mr_type type;
		u32 pages;
	} bad[] = {
		{ IB_MR_TYPE_MEM_REG, 0 },
		{ IB_MR_TYPE_MEM_REG, 0x10000000 },
		{ IB_MR_TYPE_SG_GAPS, 4 },
		{ IB_MR_TYPE_DM, 4 },
	};
	struct ib_mr *mr;
	int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		mr = ib_alloc_mr(t->pd, bad[i].type, bad[i].pages);
		if (!IS_ERR(mr)) {
			ib_dereg_mr(mr);
			return kt_fail(t, "bad arguments %d taken", i);
		}
	}
	mr = ib_alloc_mr(t->pd, IB_MR_TYPE_MEM_REG,
			 t->dev->attrs.max_fast_reg_page_list_len + 1);
	if (!IS_ERR(mr)) {
		ib_dereg_mr(mr);
		return kt_fail(t, "more pages than the maximum taken");
	}
	return true;
}

/**
 * struct page_list - single pages, wherever there are some
 * @sg: a list entry for each
 * @num: how many
 */
struct page_list {
	struct scatterlist *sg;
	u32 num;
};

static void free_pages_of(struct page_list *list)
{
	while (list->num)
		__free_page(sg_page(&list->sg[--list->num]));
	kvfree(list->sg);
}

static bool alloc_pages_of(struct kt *t, struct page_list *list, u32 num)
{
	list->num = 0;
	list->sg = kvcalloc(num, sizeof(*list->sg), GFP_KERNEL);
	KT_REQUIRE(t, list->sg, "no memory");
	sg_init_table(list->sg, num);
	while (list->num < num) {
		struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

		KT_REQUIRE(t, page, "no memory");
		sg_set_page(&list->sg[list->num++], page, PAGE_SIZE, 0);
	}
	return true;
}

static bool map_pages_of(struct kt *t, struct ib_mr *mr,
			 const struct page_list *list, u32 want)
{
	int n = ib_dma_map_sg(t->dev, list->sg, list->num, DMA_BIDIRECTIONAL);

	KT_REQUIRE(t, n == list->num, "DMA mapping: %d", n);
	n = ib_map_mr_sg(mr, list->sg, n, NULL, PAGE_SIZE);
	ib_dma_unmap_sg(t->dev, list->sg, list->num, DMA_BIDIRECTIONAL);
	KT_REQUIRE(t, n == want && mr->length == (u64)want * PAGE_SIZE,
		   "%d pages of %u, %llu bytes", n, want, mr->length);
	return true;
}

/* A buffer's worth at a time: written by the peer, looked at, and read back. */
static bool use_pages_of(struct kt *t, struct ib_mr *mr,
			 const struct page_list *list, u32 pages)
{
	const u32 step = KT_BUF_SIZE / PAGE_SIZE;
	u8 *buf = t->side[0].buf;
	u32 i, first;

	for (first = 0; first < pages; first += step) {
		u32 num = min(step, pages - first), len = num * PAGE_SIZE;
		u64 addr = mr->iova + (u64)first * PAGE_SIZE;

		kt_fill(buf, len, first);
		if (!write_to(t, len, addr, mr->rkey, IB_WC_SUCCESS))
			return false;
		for (i = 0; i < num; i++)
			KT_REQUIRE(t, !memcmp(buf + i * PAGE_SIZE,
					      sg_virt(&list->sg[first + i]),
					      PAGE_SIZE), "page %u", first + i);
	}
	for (first = 0; first < pages; first += step) {
		u32 len = min(step, pages - first) * PAGE_SIZE;
		u64 addr = mr->iova + (u64)first * PAGE_SIZE;

		memset(buf, 0, len);
		if (!read_from(t, len, addr, mr->rkey, IB_WC_SUCCESS) ||
		    !kt_check_fill(t, buf, len, first))
			return false;
	}
	return true;
}

static bool fill_mr(struct kt *t, struct page_list *list, u32 pages)
{
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, pages);
	u64 end;

	/* One page more than fits, which is left out. */
	if (!mr || !alloc_pages_of(t, list, pages + 1) ||
	    !map_pages_of(t, mr, list, pages) ||
	    !kt_reg(t, mr, 1, ACCESS_ALL) || !use_pages_of(t, mr, list, pages))
		return false;
	end = mr->iova + mr->length;
	if (!write_to(t, 8, end - 7, mr->rkey, IB_WC_REM_ACCESS_ERR))
		return false;
	KT_REQUIRE(t, !memchr_inv(sg_virt(&list->sg[pages]), 0, PAGE_SIZE),
		   "the page after the last one was written");
	return true;
}

/* As many pages as a region can have, none of which need be neighbours. */
static bool most_pages(struct kt *t)
{
	u32 pages = t->dev->attrs.max_fast_reg_page_list_len;
	struct page_list list = {};
	bool good = fill_mr(t, &list, pages);

	free_pages_of(&list);
	return good;
}

static bool keys_are_new(struct kt *t)
{
	u32 last = 0;
	int i;

	for (i = 0; i < 200; i++) {
		struct ib_mr *mr = ib_alloc_mr(t->pd, IB_MR_TYPE_MEM_REG, 1);

		KT_REQUIRE(t, !IS_ERR(mr), "alloc MR %d: %ld", i, PTR_ERR(mr));
		if (mr->rkey >> 8 == last >> 8) {
			ib_dereg_mr(mr);
			return kt_fail(t, "key %#x came back at once", last);
		}
		last = mr->rkey;
		ib_dereg_mr(mr);
	}
	return true;
}

/*
 * After an invalidate has completed nothing is written any more, however
 * many writes are under way.
 */
static bool invalidate_under_fire(struct kt *t)
{
	const u32 len = PAGES * PAGE_SIZE;
	struct ib_mr *mr = kt_alloc_mr(t, t->pd, PAGES);
	struct ib_wc wc;
	int i, round;

	if (!mr)
		return false;
	for (round = 0; round < 20; round++) {
		memset(t->side[0].buf, 0xff, len);
		memset(t->side[1].buf, 0, len);
		if (!kt_connect(t) || !kt_map(t, mr, 1, 0, len) ||
		    !kt_reg(t, mr, 1, ACCESS_ALL))
			return false;
		for (i = 0; i < 16; i++)
			if (!kt_post_rdma(t, 0, IB_WR_RDMA_WRITE, i,
					  kt_sge(t, 0, 0, len), mr->iova,
					  mr->rkey))
				return false;
		if (!kt_inv(t, 1, mr->rkey, IB_WC_SUCCESS))
			return false;
		memset(t->side[1].buf, 0, len);
		for (i = 0; i < 16; i++)
			if (!kt_poll(t, 0, &wc))
				return false;
		KT_REQUIRE(t, !memchr_inv(t->side[1].buf, 0, len),
			   "written after the invalidate, round %d", round);
	}
	return true;
}

const struct kt_case kt_mr_cases[] = {
	{ "fast registration, used by a peer", fast_reg },
	{ "fast registration, used locally", fast_reg_lkey },
	{ "scattered pages, and larger ones", scattered_pages },
	{ "more pages than fit", too_many_pages },
	{ "a new key on old pages", new_key },
	{ "a stale key", stale_key },
	{ "a region that was not registered", never_registered },
	{ "rights and range of a region", rights_and_range },
	{ "a range that wraps around", wrapping_range },
	{ "registering a region of another PD", other_pd_remote },
	{ "a local key of another PD", other_pd_local },
	{ "registering twice", register_twice },
	{ "invalidating twice", invalidate_twice },
	{ "invalidate, register and send in one list", chained },
	{ "SEND with invalidate", send_with_inv },
	{ "SEND with invalidate of a wrong key", send_with_bad_inv },
	{ "invalidating a region of another PD", other_pd_invalidates,
	  { .apart = true } },
	{ "SEND with invalidate to a QP of another PD", other_pd_is_told_to,
	  { .apart = true } },
	{ "RDMA READ with invalidate", read_with_inv },
	{ "regions that cannot be", alloc_limits },
	{ "as many pages as there can be", most_pages },
	{ "keys do not come back", keys_are_new },
	{ "invalidate under fire", invalidate_under_fire },
	{}
};
