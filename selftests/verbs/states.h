/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A queue pair that is put in one state after the other, and its peer. */
#ifndef STATES_H
#define STATES_H

#include "verbs.h"

struct states {
	struct param param;
	struct end end, peer;
};

void states_open(struct states *s, enum ibv_qp_type type);
void states_close(struct states *s);
/* From wherever it is, through RESET. */
void states_reach(struct states *s, enum ibv_qp_state state);

#endif
