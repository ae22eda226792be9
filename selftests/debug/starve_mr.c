// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Running out of memory: memory regions and windows. */
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "starve.h"

/* ---- pinned ------------------------------------------------------------ */

static int reg_mr(struct world *w)
{
	w->mr = ibv_reg_mr(w->host->pd, w->mem, w->verb->size,
			   ALL_ACCESS | w->verb->flags);
	return got(w->mr);
}

/* Its last bytes are there. */
static void use_mr(struct world *w)
{
	uint8_t *last = w->mem + w->mr->length - 64;

	use_memory(w, last, (uintptr_t)last, w->mr->rkey);
}

static int dereg_mr(struct world *w)
{
	return ibv_dereg_mr(w->mr);
}

static void undo_mr(struct world *w)
{
	CHECK_RC(dereg_mr(w));
}

static void need_mr(struct world *w)
{
	CHECK_RC(reg_mr(w));
}

/* A region without rights of another domain: each change has work to do. */
static void need_poor_mr(struct world *w)
{
	int flags = w->verb->flags;

	w->mr = ibv_reg_mr(flags & IBV_REREG_MR_CHANGE_PD ? w->pd :
			   w->host->pd, w->mem, PAGE,
			   flags & IBV_REREG_MR_CHANGE_ACCESS ? 0 :
			   ALL_ACCESS);
	CHECK_ERRNO(w->mr);
}

static void need_memory_and_pd(struct world *w)
{
	need_memory(w);
	w->pd = ibv_alloc_pd(w->host->ctx);
	CHECK_ERRNO(w->pd);
}

static void free_memory_and_pd(struct world *w)
{
	free_memory(w);
	CHECK_RC(ibv_dealloc_pd(w->pd));
}

static int rereg_mr(struct world *w)
{
	return call_rereg_mr(w->mr, w->verb->flags, w->host->pd, w->mem,
			     w->verb->size, ALL_ACCESS);
}

/* ---- paged in on demand ------------------------------------------------ */

/* All of the address space. */
static int reg_implicit(struct world *w)
{
	w->mr = ibv_reg_mr(w->host->pd, NULL, SIZE_MAX,
			   ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	return got(w->mr);
}

static void use_implicit(struct world *w)
{
	uint8_t *last = w->mem + LARGE - 64;

	use_memory(w, last, (uintptr_t)last, w->mr->rkey);
}

static int prefetch(struct world *w)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)w->mem,
		.length = w->verb->size,
		.lkey = w->mr->lkey,
	};

	return call_advise_mr(w->host->pd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			      IB_UVERBS_ADVISE_MR_FLAG_FLUSH, &sge);
}

/* ---- of a dma-buf ------------------------------------------------------ */

static void need_dmabuf(struct world *w)
{
	struct udmabuf_create create = {
		.memfd = memfd_create("dmabuf", MFD_ALLOW_SEALING),
		.size = LARGE,
	};
	int maker = open("/dev/udmabuf", O_RDWR);

	CHECK_ERRNO(maker >= 0 && (int)create.memfd >= 0 &&
		    !ftruncate(create.memfd, LARGE) &&
		    !fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	w->fd = ioctl(maker, UDMABUF_CREATE, &create);
	CHECK_ERRNO(w->fd >= 0);
	w->mem = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED,
		      create.memfd, 0);
	CHECK_ERRNO(w->mem != MAP_FAILED);
	close(create.memfd);
	close(maker);
}

static void free_dmabuf(struct world *w)
{
	free_memory(w);
	close(w->fd);
}

static int dereg_dmabuf(struct world *w)
{
	return call_dereg_dmabuf_mr(w->host->pd, &w->dmabuf_mr);
}

/*
 * That memory runs out meanwhile is not tried: where the CPU's mapping fails the
 * kernel's dma-buf core warns.
 */
static void need_dmabuf_mr(struct world *w)
{
	CHECK_RC(call_reg_dmabuf_mr(w->host->pd, w->fd, 0, LARGE, 0, ALL_ACCESS,
				    &w->dmabuf_mr));
}

/* ---- windows ----------------------------------------------------------- */

static int alloc_mw(struct world *w)
{
	w->mw = ibv_alloc_mw(w->host->pd, w->verb->flags);
	return got(w->mw);
}

static int dealloc_mw(struct world *w)
{
	return ibv_dealloc_mw(w->mw);
}

static void undo_mw(struct world *w)
{
	CHECK_RC(dealloc_mw(w));
}

static void need_mw(struct world *w)
{
	CHECK_RC(alloc_mw(w));
}

/* ---- all of them ------------------------------------------------------- */

#define MR_CASE(label, bytes)						\
	{ "reg_mr_" label, reg_mr, use_mr, undo_mr, need_memory, NULL,	\
	  free_memory, .size = (bytes) },				\
	{ "dereg_mr_" label, dereg_mr, NULL, NULL, need_memory, need_mr, \
	  free_memory, .size = (bytes), .ends = true }

#define REREG_CASE(label, what, bytes)					\
	{ "rereg_mr_" label, rereg_mr, use_mr, undo_mr,			\
	  need_memory_and_pd, need_poor_mr, free_memory_and_pd,		\
	  .flags = (what), .size = (bytes) }

static const struct verb regions[] = {
	MR_CASE("small", 100),
	MR_CASE("large", LARGE),
	REREG_CASE("access", IBV_REREG_MR_CHANGE_ACCESS, PAGE),
	REREG_CASE("pd", IBV_REREG_MR_CHANGE_PD, PAGE),
	REREG_CASE("memory", IBV_REREG_MR_CHANGE_TRANSLATION, LARGE),
	REREG_CASE("all", IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_PD |
		   IBV_REREG_MR_CHANGE_TRANSLATION, 2 * PAGE),
	{ "reg_mr_on_demand", reg_mr, use_mr, undo_mr, need_memory, NULL,
	  free_memory, .flags = IBV_ACCESS_ON_DEMAND, .size = LARGE },
	{ "dereg_mr_on_demand", dereg_mr, NULL, NULL, need_memory, need_mr,
	  free_memory, .flags = IBV_ACCESS_ON_DEMAND, .size = LARGE,
	  .ends = true },
	{ "reg_mr_implicit", reg_implicit, use_implicit, undo_mr, need_memory,
	  .close = free_memory },
	{ "advise_mr", prefetch, use_mr, undo_mr, need_memory, need_mr,
	  free_memory, .flags = IBV_ACCESS_ON_DEMAND, .size = LARGE },
	{ "dereg_dmabuf_mr", dereg_dmabuf, NULL, NULL, need_dmabuf,
	  need_dmabuf_mr, free_dmabuf, .ends = true },
	{ "alloc_mw_1", alloc_mw, .undo = undo_mw, .flags = IBV_MW_TYPE_1 },
	{ "alloc_mw_2", alloc_mw, .undo = undo_mw, .flags = IBV_MW_TYPE_2 },
	{ "dealloc_mw", dealloc_mw, .before = need_mw, .flags = IBV_MW_TYPE_2,
	  .ends = true },
};

TEST_EACH_LIMIT(verb, regions, 300)
{
	starve(arg);
}
