/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <linux/timer.h>

#ifndef timer_container_of
#define timer_container_of(var, callback_timer, timer_fieldname) \
	from_timer(var, callback_timer, timer_fieldname)
#endif
