# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A bad wire between the hosts."""


def plug_in(host):
    """Take a host's NIC up again, with the IPv6 address that it lost when it went down."""
    host.run(f"ip link set eth0 up; ip addr replace {host.ipv6}/64 dev eth0 nodad", check=True)


def make_bad(test, loss="1%"):
    """Let both hosts' NICs lose, reorder and repeat packets; it is undone after the test."""
    for host in test.cluster:
        host.run(f"tc qdisc add dev eth0 root netem limit 100000 delay 300us loss {loss} reorder 2% "
                 "duplicate 0.5%", check=True)
