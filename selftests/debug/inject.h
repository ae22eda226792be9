/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Making the kernel's allocations fail. Two ways: the Nth one of the calls that
 * this thread makes, or each one below the module with a probability, wherever
 * it runs. Wants CONFIG_FAILSLAB, and uses FAIL_PAGE_ALLOC where it is there.
 */
#ifndef INJECT_H
#define INJECT_H

#include "../verbs/verbs.h"

/* First of all in a case; skips it where the kernel cannot do this. */
void inject_open(void);

/*
 * From now on count the places in this thread's system calls where something
 * can fail, and let the nth one fail. The kernel's copies from and to user
 * space are such places, too: they fail with EFAULT.
 */
void inject_arm(unsigned int nth);
/* No more; how many were left to come: 0 when the failure has happened. */
unsigned int inject_disarm(void);

/* Each allocation below a function of the module fails, percent of them. */
void inject_rain(unsigned int percent);
/* The next one of each kind fails. */
void inject_drop(void);
void inject_rain_end(void);

/* Whether an error number is one that a failure inside may have. */
bool inject_is_cause(int err);

/* The objects of all devices, as `rdma resource` counts them. */
char *resources(void);

/* A counter of a device's port. */
unsigned long counter(const char *device, const char *name);

#endif
