/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the parts of rc_matrix share. */
#ifndef MATRIX_H
#define MATRIX_H

#include "rc.h"

enum op {
	OP_SEND, OP_SEND_IMM, OP_SEND_INV, OP_WRITE, OP_WRITE_IMM, OP_READ,
	OP_CMP_SWAP, OP_FETCH_ADD, OP_ATOMIC_WRITE, OP_FLUSH, OP_COUNT,
};

extern const char *const op_names[];
extern const enum ibv_wr_opcode op_wr[];
extern const int op_wc[];	/* enum ibv_wc_opcode, those of later libraries too */

/* One operation at a time: the place of the bytes, and what lies around. */
#define GUARD 128u
#define PLACE 8192u
#define BIGGEST (1u << 20)

/*
 * Streams. WINDOW requests are under way; SLOTS targets are not used again
 * before the server has looked at them (see stream.c).
 */
#define WINDOW 256u
#define SLOTS (2 * WINDOW)
#define RECVS 16u
#define RECV_EVERY 8u
#define SLOT 16384u

#define COUNTER 0u		/* two cells, in front of all else */
#define CELL 8u
#define TARGETS PLACE
#define RECV_AREA (TARGETS + SLOTS * SLOT)
#define SOURCE_AREA (RECV_AREA + RECVS * SLOT)
#define SOURCE_SIZE (1u << 20)
#define MEMORY (SOURCE_AREA + SOURCE_SIZE)

/* What the client tells the server. */
enum verb { V_PREPARE, V_CHECK, V_STREAM, V_FINISH, V_BYE };

struct step {
	uint32_t verb, op, length, offset, pieces, seed, count;
};

/* And what it answers: an empty word when all is well. */
struct answer {
	char word[200];
	uint32_t rkey;
	uint64_t cells[2];
};

extern struct rc rc;
extern int control;
extern unsigned int failures;

/* ---- rc_matrix.c ------------------------------------------------------- */

uint64_t mix(uint64_t x);
void fill(uint8_t *at, size_t length, uint64_t seed);
/* The first byte that is not what fill() makes, or -1. */
long differs(const uint8_t *at, size_t length, uint64_t seed);

/* The first complaint counts. Always false. */
bool complain(char *word, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* One case; a word that begins with # says that it was skipped. */
void report(const char *word, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A completion without an error, or a complaint and false. */
bool wait_wc(char *word, struct ibv_wc *wc, const char *what);
/* The client tells the server, and hears what it says. */
void tell(uint32_t verb, const struct step *step, struct answer *answer);

/* Cut a stretch of memory into so many pieces, none of them empty. */
int cut(uint64_t addr, uint32_t length, uint32_t pieces, struct ibv_sge *sge);
void post_recv(uint64_t id, struct ibv_sge *sge, int n);
void post_send(struct ibv_send_wr *wr);

static inline bool takes_recv(enum op op)
{
	return op <= OP_SEND_INV || op == OP_WRITE_IMM;
}

static inline bool is_atomic(enum op op)
{
	return op == OP_CMP_SWAP || op == OP_FETCH_ADD;
}

static inline bool is_placing(enum op op)
{
	return op == OP_ATOMIC_WRITE || op == OP_FLUSH;
}

static inline uint64_t at(uint32_t offset)
{
	return (uintptr_t)rc.mem + offset;
}

/* ---- single.c ---------------------------------------------------------- */

/* rdma_rxe gives users the kernel's value of the flag, which means another. */
extern unsigned int inv_flag;

/* A region to be invalidated from afar; false where the device has none. */
bool make_window(void);
void destroy_window(void);
void prepare(const struct step *step, struct answer *answer);
void check(const struct step *step, struct answer *answer);
/* @can: the operations, as bits, that both ends have. */
void run_singles(uint32_t can, uint32_t longest);

/* ---- placement.c ------------------------------------------------------- */

/* The operations of annex A19, as bits, that device and library have. */
uint32_t placing_ops(void);
/* Post the one of a step to the peer's memory, signalled. */
void post_placing(const struct step *step);

/* ---- stream.c ---------------------------------------------------------- */

void serve_stream(const struct step *step, char *word);
void finish_stream(struct answer *answer);
void run_stream(uint32_t seed, uint32_t count, uint32_t shortest,
		uint32_t longest);

#endif
