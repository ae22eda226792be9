/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A stream of requests with one bad among them: what is before it succeeds, it
 * completes with its own status even when it was not signalled, what is behind
 * it is flushed, and no memory changes.
 */
#ifndef FAULT_H
#define FAULT_H

#include "verbs.h"

#define FAULT_BYTES 8192
#define MID_AT 1024			/* the regions' place in the buffers */
#define MID_BYTES 4096

struct fault {
	struct pair *pair;
	struct buf *local, *remote;
	struct ibv_mr *local_mid, *remote_mid;
	struct ibv_pd *other_pd;	/* of whichever end needs one */
	struct ibv_mr *extra;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr;		/* the bad one */
};

struct fault_case {
	const char *name;
	enum ibv_wr_opcode opcode;
	void (*spoil)(struct fault *f);
	enum ibv_wc_status status;
	bool wr_api;			/* rdma-core refuses it in ibv_post_send */
};

void fault_open(struct fault *f, const struct fault_case *kind);
void fault_close(struct fault *f);
/* Post good, bad, good, good; check the requester's four completions. */
void fault_run(struct fault *f, const struct fault_case *kind, bool signalled);

#endif
