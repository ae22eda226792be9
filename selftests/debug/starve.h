/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A verb when memory runs out at the first place where it can, then at the
 * second, and so on until it needs no more: it says so or does all the same,
 * nothing is lost, and nothing is left behind.
 */
#ifndef STARVE_H
#define STARVE_H

#include "../verbs/call.h"
#include "../verbs/states.h"
#include "inject.h"

#define PAGE 4096
#define LARGE (4 << 20)

/* What the verbs need and make. */
struct world {
	const struct verb *verb;
	struct pair *pair;		/* both ends in one context */
	struct host *host;		/* the pair's */
	struct buf *local;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t *mem;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_srq *srq;
	struct ibv_mw *mw;
	struct dmabuf_mr dmabuf_mr;
	int fd;
	struct states states;
	void *ring;
	off_t ring_offset;
	size_t ring_size;
	bool half;		/* the provider kept what the kernel has not */
};

/*
 * call: the verb; returns an error number.
 * open, close: around all of it. before: before each first call.
 * check: whether what a call without an error did is whole.
 * untouched: that a call with an error changed nothing, except EFAULT.
 * undo: take it back. ends: the call itself takes something away.
 * quiet: it needs no memory, or has no way to say that there is none.
 */
struct verb {
	const char *name;
	int (*call)(struct world *w);
	void (*check)(struct world *w);
	void (*undo)(struct world *w);
	void (*open)(struct world *w);
	void (*before)(struct world *w);
	void (*close)(struct world *w);
	void (*untouched)(struct world *w);
	bool ends, quiet;
	enum ibv_qp_state from, to;
	int flags;
	int size;
};

/* All of it for one verb. */
void starve(const struct verb *verb);

/* The error number of a call that returns an object or NULL. */
int got(const void *object);

/* LARGE bytes at w->mem. */
void need_memory(struct world *w);
void free_memory(struct world *w);
/* A WRITE arrives at the address. */
void use_memory(struct world *w, void *at, uint64_t addr, uint32_t rkey);

/* The verb: a QP with queues of the verb's size, and of w->srq if there is one. */
int create_qp(struct world *w);

#endif
