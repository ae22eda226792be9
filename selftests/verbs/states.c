// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A queue pair that is put in one state after the other, and its peer. */
#include "states.h"

void states_open(struct states *s, enum ibv_qp_type type)
{
	memset(s, 0, sizeof(*s));
	s->param = param_default();
	s->param.type = type;
	end_create(&s->end, host_open(0), &s->param);
	end_create(&s->peer, host_open(1), &s->param);
}

void states_close(struct states *s)
{
	end_destroy(&s->end);
	end_destroy(&s->peer);
	host_close(s->end.host);
	host_close(s->peer.host);
}

void states_reach(struct states *s, enum ibv_qp_state state)
{
	CHECK_RC(end_modify_state(&s->end, IBV_QPS_RESET));
	if (state == IBV_QPS_RESET)
		return;
	end_to_init(&s->end);
	if (state == IBV_QPS_INIT)
		return;
	end_to_rtr(&s->end, &s->peer);
	if (state == IBV_QPS_RTR)
		return;
	end_to_rts(&s->end);
	if (state == IBV_QPS_RTS)
		return;
	CHECK_RC(end_modify_state(&s->end, state));
	CHECK_EQ(end_state(&s->end), state);
}
