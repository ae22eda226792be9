// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The table of a queue pair's states, by its type: each transition with the
 * attributes it must have, may have, and may not have (IBA volume 1, 11.2.5.2).
 */
#include "states.h"

#define PORT 1

/* What a type of queue pair has to be told, and may be. */
struct rule {
	int required, optional;
};

struct transition {
	const char *name;
	enum ibv_qp_state from, to;
	struct rule rc, uc, ud;
};

/* Alternate paths are not for Ethernet: the kernel's core refuses them there. */
#define PATH IBV_QP_PATH_MIG_STATE

static const struct transition transitions[] = {
	{ "reset_reset", IBV_QPS_RESET, IBV_QPS_RESET },
	{ "reset_init", IBV_QPS_RESET, IBV_QPS_INIT,
	  .rc = { IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	  .uc = { IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	  .ud = { IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY } },
	{ "init_reset", IBV_QPS_INIT, IBV_QPS_RESET },
	{ "init_error", IBV_QPS_INIT, IBV_QPS_ERR },
	{ "init_init", IBV_QPS_INIT, IBV_QPS_INIT,
	  .rc = { 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	  .uc = { 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	  .ud = { 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY } },
	{ "init_rtr", IBV_QPS_INIT, IBV_QPS_RTR,
	  .rc = { IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		  IBV_QP_MIN_RNR_TIMER,
		  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	  .uc = { IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		  IBV_QP_RQ_PSN,
		  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	  .ud = { 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY } },
	{ "rtr_reset", IBV_QPS_RTR, IBV_QPS_RESET },
	{ "rtr_error", IBV_QPS_RTR, IBV_QPS_ERR },
	{ "rtr_rts", IBV_QPS_RTR, IBV_QPS_RTS,
	  .rc = { IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		  IBV_QP_CUR_STATE | PATH | IBV_QP_ACCESS_FLAGS |
		  IBV_QP_MIN_RNR_TIMER },
	  .uc = { IBV_QP_SQ_PSN,
		  IBV_QP_CUR_STATE | PATH | IBV_QP_ACCESS_FLAGS },
	  .ud = { IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY } },
	{ "rts_reset", IBV_QPS_RTS, IBV_QPS_RESET },
	{ "rts_error", IBV_QPS_RTS, IBV_QPS_ERR },
	{ "rts_rts", IBV_QPS_RTS, IBV_QPS_RTS,
	  .rc = { 0, IBV_QP_CUR_STATE | PATH | IBV_QP_ACCESS_FLAGS |
		  IBV_QP_MIN_RNR_TIMER },
	  .uc = { 0, IBV_QP_CUR_STATE | PATH | IBV_QP_ACCESS_FLAGS },
	  .ud = { 0, IBV_QP_CUR_STATE | IBV_QP_QKEY } },
	{ "rts_sqd", IBV_QPS_RTS, IBV_QPS_SQD,
	  .rc = { 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	  .uc = { 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	  .ud = { 0, IBV_QP_EN_SQD_ASYNC_NOTIFY } },
	{ "sqd_reset", IBV_QPS_SQD, IBV_QPS_RESET },
	{ "sqd_error", IBV_QPS_SQD, IBV_QPS_ERR },
	{ "sqd_rts", IBV_QPS_SQD, IBV_QPS_RTS,
	  .rc = { 0, IBV_QP_CUR_STATE | PATH | IBV_QP_ACCESS_FLAGS |
		  IBV_QP_MIN_RNR_TIMER },
	  .uc = { 0, IBV_QP_CUR_STATE | PATH | IBV_QP_ACCESS_FLAGS },
	  .ud = { 0, IBV_QP_CUR_STATE | IBV_QP_QKEY } },
	/*
	 * An unreliable connection may be told another path by the kernel, but
	 * by no process: uverbs adds the port, which it may not be told.
	 */
	{ "sqd_sqd", IBV_QPS_SQD, IBV_QPS_SQD,
	  .rc = { 0, IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT |
		  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | PATH |
		  IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS |
		  IBV_QP_MIN_RNR_TIMER },
	  .uc = { 0, PATH | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS },
	  .ud = { 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY } },
	{ "error_reset", IBV_QPS_ERR, IBV_QPS_RESET },
	{ "error_error", IBV_QPS_ERR, IBV_QPS_ERR },
};

static const struct rule *rule_of(const struct states *s,
				  const struct transition *t)
{
	switch (s->param.type) {
	case IBV_QPT_UC:
		return &t->uc;
	case IBV_QPT_UD:
		return &t->ud;
	default:
		return &t->rc;
	}
}

struct attribute {
	const char *name;
	int bit;
};

static const struct attribute attributes[] = {
	{ "CUR_STATE", IBV_QP_CUR_STATE },
	{ "EN_SQD_ASYNC_NOTIFY", IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ "ACCESS_FLAGS", IBV_QP_ACCESS_FLAGS },
	{ "PKEY_INDEX", IBV_QP_PKEY_INDEX },
	{ "PORT", IBV_QP_PORT },
	{ "QKEY", IBV_QP_QKEY },
	{ "AV", IBV_QP_AV },
	{ "PATH_MTU", IBV_QP_PATH_MTU },
	{ "TIMEOUT", IBV_QP_TIMEOUT },
	{ "RETRY_CNT", IBV_QP_RETRY_CNT },
	{ "RNR_RETRY", IBV_QP_RNR_RETRY },
	{ "RQ_PSN", IBV_QP_RQ_PSN },
	{ "MAX_QP_RD_ATOMIC", IBV_QP_MAX_QP_RD_ATOMIC },
	{ "ALT_PATH", IBV_QP_ALT_PATH },
	{ "MIN_RNR_TIMER", IBV_QP_MIN_RNR_TIMER },
	{ "SQ_PSN", IBV_QP_SQ_PSN },
	{ "MAX_DEST_RD_ATOMIC", IBV_QP_MAX_DEST_RD_ATOMIC },
	{ "PATH_MIG_STATE", IBV_QP_PATH_MIG_STATE },
	{ "CAP", IBV_QP_CAP },
	{ "DEST_QPN", IBV_QP_DEST_QPN },
};

/* A good value for every attribute. */
static struct ibv_qp_attr all_attributes(const struct states *s,
					 const struct transition *t)
{
	struct ibv_qp_attr attr, more;

	end_rtr_attr(&s->end, &s->peer, &attr);
	end_rts_attr(&s->end, &more);
	attr.timeout = more.timeout;
	attr.retry_cnt = more.retry_cnt;
	attr.rnr_retry = more.rnr_retry;
	attr.sq_psn = more.sq_psn;
	attr.max_rd_atomic = more.max_rd_atomic;
	attr.qp_state = t->to;
	attr.cur_qp_state = t->from;
	attr.qp_access_flags = ALL_QP_ACCESS;
	attr.port_num = PORT;
	attr.qkey = 0x11111111;
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_port_num = PORT;
	attr.alt_timeout = 14;
	attr.path_mig_state = IBV_MIG_MIGRATED;
	attr.cap = s->end.cap;
	return attr;
}

/* The mask must be taken, and the new state be there. */
static void must_take(struct states *s, const struct transition *t, int mask,
		      const char *with)
{
	struct ibv_qp_attr attr = all_attributes(s, t);
	int rc;

	states_reach(s, t->from);
	rc = ibv_modify_qp(s->end.qp, &attr, mask);
	if (rc)
		FAIL("with %s: %s", with, strerror(rc));
	CHECK_EQ(end_state(&s->end), t->to);
}

static void must_refuse(struct states *s, const struct transition *t, int mask,
			const char *which, const char *name)
{
	struct ibv_qp_attr attr = all_attributes(s, t);
	int rc;

	states_reach(s, t->from);
	rc = ibv_modify_qp(s->end.qp, &attr, mask);
	if (rc != EINVAL)
		FAIL("%s %s: gives %d (%s), not EINVAL", which,
		     name ? name : "", rc, strerror(rc));
	if (end_state(&s->end) != t->from)
		FAIL("%s %s: refused, and yet the state is %d", which,
		     name ? name : "", end_state(&s->end));
}

/* Within a state the attributes go without the state's own, too. */
static bool stays(const struct transition *t)
{
	return t->from == t->to && t->from != IBV_QPS_RESET &&
	       t->from != IBV_QPS_ERR;
}

static void try_attribute(struct states *s, const struct transition *t,
			  const struct attribute *a)
{
	const struct rule *rule = rule_of(s, t);
	int mask = IBV_QP_STATE | rule->required;

	if (rule->required & a->bit) {
		must_refuse(s, t, mask & ~a->bit, "without", a->name);
	} else if (a->bit == IBV_QP_PATH_MIG_STATE && rule->optional & a->bit) {
		return;		/* without an alternate path it says nothing */
	} else if (rule->optional & a->bit) {
		must_take(s, t, mask | a->bit, a->name);
	} else {
		must_refuse(s, t, mask | a->bit, "with", a->name);
		if (stays(t))
			must_refuse(s, t, a->bit, "with nothing but", a->name);
	}
}

static void try_transition(enum ibv_qp_type type, const struct transition *t)
{
	const struct rule *rule;
	struct states s;
	size_t i;
	int all;

	states_open(&s, type);
	rule = rule_of(&s, t);
	all = IBV_QP_STATE | rule->required |
	      (rule->optional & ~IBV_QP_PATH_MIG_STATE);
	must_take(&s, t, IBV_QP_STATE | rule->required, "what is required");
	for (i = 0; i < ARRAY_SIZE(attributes); i++)
		try_attribute(&s, t, &attributes[i]);
	must_take(&s, t, all, "everything");
	if (stays(t))
		must_take(&s, t, all & ~IBV_QP_STATE, "everything");
	states_close(&s);
}

TEST_EACH(transition, transitions)
{
	try_transition(IBV_QPT_RC, arg);
}

TEST_EACH(uc_transition, transitions)
{
	try_transition(IBV_QPT_UC, arg);
}

TEST_EACH(ud_transition, transitions)
{
	try_transition(IBV_QPT_UD, arg);
}

/* What docs/limits.md says of paths: the one that there is does not migrate. */
TEST(no_path_migration)
{
	static const enum ibv_mig_state refused[] = {
		IBV_MIG_REARM, IBV_MIG_ARMED,
	};
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };
	struct states s;
	size_t i;

	states_open(&s, IBV_QPT_RC);
	states_reach(&s, IBV_QPS_RTS);
	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		attr.path_mig_state = refused[i];
		CHECK_EQ(ibv_modify_qp(s.end.qp, &attr, PATH), EOPNOTSUPP);
	}
	attr.path_mig_state = IBV_MIG_MIGRATED;
	CHECK_RC(ibv_modify_qp(s.end.qp, &attr, PATH));
	CHECK_EQ(end_state(&s.end), IBV_QPS_RTS);
	states_close(&s);
}

static const struct {
	const char *name;
	enum ibv_qp_state state;
} all_states[] = {
	{ "reset", IBV_QPS_RESET }, { "init", IBV_QPS_INIT },
	{ "rtr", IBV_QPS_RTR }, { "rts", IBV_QPS_RTS },
	{ "sqd", IBV_QPS_SQD }, { "error", IBV_QPS_ERR },
};

static bool in_table(enum ibv_qp_state from, enum ibv_qp_state to)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(transitions); i++)
		if (transitions[i].from == from && transitions[i].to == to)
			return true;
	return false;
}

/* Every pair of states that the table does not have; nobody may ask for SQE. */
static void try_others(enum ibv_qp_type type, enum ibv_qp_state from)
{
	struct states s;
	int to;

	states_open(&s, type);
	for (to = IBV_QPS_RESET; to <= IBV_QPS_UNKNOWN; to++) {
		struct ibv_qp_attr attr = { .qp_state = to };
		int rc;

		if (in_table(from, to))
			continue;
		states_reach(&s, from);
		rc = ibv_modify_qp(s.end.qp, &attr, IBV_QP_STATE);
		if (rc != EINVAL)
			FAIL("to state %d: gives %d (%s), not EINVAL", to, rc,
			     strerror(rc));
		CHECK_EQ(end_state(&s.end), from);
	}
	states_close(&s);
}

TEST_EACH(no_transition_from, all_states)
{
	try_others(IBV_QPT_RC, arg->state);
}

TEST_EACH(uc_no_transition_from, all_states)
{
	try_others(IBV_QPT_UC, arg->state);
}

TEST_EACH(ud_no_transition_from, all_states)
{
	try_others(IBV_QPT_UD, arg->state);
}

/* The attributes of a further step do not lead there in one. */
TEST(no_shortcut)
{
	struct transition to_rtr = { "", IBV_QPS_RESET, IBV_QPS_RTR };
	struct transition to_rts = { "", IBV_QPS_INIT, IBV_QPS_RTS };
	struct states s;

	states_open(&s, IBV_QPT_RC);
	must_refuse(&s, &to_rtr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
		    IBV_QP_PORT | IBV_QP_ACCESS_FLAGS | IBV_QP_AV |
		    IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		    "RESET to RTR", NULL);
	must_refuse(&s, &to_rts, IBV_QP_STATE | IBV_QP_TIMEOUT |
		    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		    IBV_QP_MAX_QP_RD_ATOMIC, "INIT to RTS", NULL);
	states_close(&s);
}

/* cur_qp_state is compared with the real state, and decides nothing. */
TEST(current_state_compared)
{
	static const struct {
		enum ibv_qp_state from, to;
		int required;
	} steps[] = {
		{ IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC },
		{ IBV_QPS_RTS, IBV_QPS_RTS, 0 },
		{ IBV_QPS_SQD, IBV_QPS_RTS, 0 },
		/* To say RTR in RESET must not make RTS of it. */
		{ IBV_QPS_RESET, IBV_QPS_RTS, IBV_QP_TIMEOUT |
		  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC },
		{ IBV_QPS_INIT, IBV_QPS_RTS, IBV_QP_TIMEOUT |
		  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC },
		{ IBV_QPS_ERR, IBV_QPS_RTS, 0 },
	};
	struct states s;
	size_t i;
	int cur;

	states_open(&s, IBV_QPT_RC);
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		struct transition t = { "", steps[i].from, steps[i].to };

		for (cur = IBV_QPS_RESET; cur <= IBV_QPS_ERR; cur++) {
			struct ibv_qp_attr attr = all_attributes(&s, &t);
			int rc;

			if (cur == (int)steps[i].from)
				continue;
			states_reach(&s, t.from);
			attr.cur_qp_state = cur;
			rc = ibv_modify_qp(s.end.qp, &attr, IBV_QP_STATE |
					   IBV_QP_CUR_STATE |
					   steps[i].required);
			if (rc != EINVAL)
				FAIL("from %d to %d, said to be %d: gives %d",
				     t.from, t.to, cur, rc);
			CHECK_EQ(end_state(&s.end), t.from);
		}
	}
	states_close(&s);
}
