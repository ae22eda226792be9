/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include_next <net/udp_tunnel.h>

#ifndef RXNG_COMPAT_NET_UDP_TUNNEL_H
#define RXNG_COMPAT_NET_UDP_TUNNEL_H

#include "rxng_probes.h"

#ifndef RXNG_HAVE_UDP_TUNNEL_SOCK
static inline void rxng_setup_udp_tunnel_sock(struct net *net, struct sock *sk,
					      struct udp_tunnel_sock_cfg *cfg)
{
	setup_udp_tunnel_sock(net, sk->sk_socket, cfg);
}

static inline void rxng_udp_tunnel_sock_release(struct sock *sk)
{
	udp_tunnel_sock_release(sk->sk_socket);
}

#define setup_udp_tunnel_sock rxng_setup_udp_tunnel_sock
#define udp_tunnel_sock_release rxng_udp_tunnel_sock_release
#endif

#endif
