/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Encoded times and credit counts of the transport. */
#ifndef RXNG_TIMER_H
#define RXNG_TIMER_H

#include "proto_env.h"

u64 rxng_rnr_ns(u8 code);
u64 rxng_ack_timeout_ns(u8 code);
u32 rxng_credits_decode(u8 code);
u8 rxng_credits_encode(u32 credits);

#endif
