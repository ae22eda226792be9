# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Many messages, each of which arrives once, intact and in order, with one completion at each end."""

from apps import wire
from runner import VmTestCase, limit

PORT = 18600


class ExactlyOnce(VmTestCase):
    """``exactly_once.c`` between two hosts."""


    def exchange(self, count, six=False, qps=4):
        """Send so many messages (fewer on a slow kernel) and check that none is lost or repeated."""
        a, b = self.a, self.b
        options = ["--count", count // (self.slow * self.slow), "--qps", qps, "--slow", self.slow]
        server = a.spawn([self.program(a, "apps", "exactly_once"), *options,
                          "--gid", self.gid(a, a.ipv6 if six else a.ipv4)])
        a.wait_port(PORT)
        client = b.spawn([self.program(b, "apps", "exactly_once"), *options,
                          "--gid", self.gid(b, b.ipv6 if six else b.ipv4), a.ipv4])
        self.together(client, server, timeout=None)

    def test_good_wire(self):
        self.exchange(20000)

    def test_good_wire_ipv6_one_connection(self):
        self.exchange(5000, six=True, qps=1)

    @limit(600)
    def test_100000_with_loss_and_reordering(self):
        wire.make_bad(self)
        self.exchange(100000)

    @limit(300)
    def test_many_connections_with_loss_ipv6(self):
        wire.make_bad(self, "2%")
        self.exchange(20000, six=True, qps=32)
