// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ATOMIC WRITE and FLUSH (annex A19), through the library's own functions. */
#include <errno.h>

#include "matrix.h"

uint32_t placing_ops(void)
{
	uint32_t ops = 0;

	if (rc.send_ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ops |= 1u << OP_ATOMIC_WRITE;
	if (rc.send_ops & RC_WITH_FLUSH)
		ops |= 1u << OP_FLUSH;
	return ops;
}

static void flush(struct ibv_qp_ex *qp, uint64_t addr, uint32_t length)
{
#ifdef HAVE_IBV_WR_FLUSH
	ibv_wr_flush(qp, rc.peer.rkey, addr, length, IBV_FLUSH_GLOBAL,
		     IBV_FLUSH_RANGE);
#else
	(void)qp;
	die("this library cannot flush %u bytes at 0x%llx", length,
	    (unsigned long long)addr);
#endif
}

void post_placing(const struct step *step)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(rc.qp);
	uint64_t addr = rc.peer.va + step->offset;

	ibv_wr_start(qp);
	qp->wr_id = step->seed;
	qp->wr_flags = IBV_SEND_SIGNALED;
	if (step->op == OP_ATOMIC_WRITE)
		ibv_wr_atomic_write(qp, rc.peer.rkey, addr,
				    rc.mem + step->offset);
	else
		flush(qp, addr, step->length);
	errno = ibv_wr_complete(qp);
	if (errno)
		die("ibv_wr_complete: %m");
}
