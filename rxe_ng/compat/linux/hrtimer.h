/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <linux/hrtimer.h>

#ifndef RXNG_COMPAT_LINUX_HRTIMER_H
#define RXNG_COMPAT_LINUX_HRTIMER_H

#include "rxng_probes.h"

#ifndef RXNG_HAVE_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#endif

#endif
