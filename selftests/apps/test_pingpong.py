# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ibv_rc_pingpong and its siblings between two hosts, which look at a byte of each page that they get."""

from apps import wire
from runner import VmTestCase

PORT = 18515


class RcPingpong(VmTestCase):
    """By polling, with events, over IPv4 and IPv6 GIDs, over a bad wire."""

    program_name = "ibv_rc_pingpong"

    def pingpong(self, size, count, *options, six=False):
        """Run it on both hosts and check that it went to the end."""
        a, b = self.a, self.b
        count = max(1, count // self.slow)
        words = [self.program_name, "-d", "rxe0", "-c", "-s", size, "-n", count, *options]
        server = a.spawn([*words, "-g", self.gid(a, a.ipv6 if six else a.ipv4)])
        a.wait_port(PORT)
        client = b.spawn([*words, "-g", self.gid(b, b.ipv6 if six else b.ipv4), a.ipv4])
        for result in self.together(client, server, timeout=None):
            self.assertIn(f"{count} iters", result.stdout)
            self.assertNotIn("invalid data", result.stdout + result.stderr)

    def test_polling(self):
        self.pingpong(4096, 1000)

    def test_events(self):
        self.pingpong(4096, 1000, "-e")

    def test_ipv6(self):
        self.pingpong(4096, 500, six=True)

    def test_ipv6_events(self):
        self.pingpong(100, 500, "-e", six=True)

    def test_one_byte(self):
        self.pingpong(1, 2000)

    def test_one_megabyte(self):
        self.pingpong(1 << 20, 20)

    def test_small_mtu(self):
        self.pingpong(5000, 200, "-m", "256")

    def test_many_receives(self):
        self.pingpong(16, 2000, "-r", "1000")

    # Nothing is lost: whoever has all it waits for ends at once, and cannot be asked again for an
    # acknowledgement that was lost.

    def test_bad_wire(self):
        wire.make_bad(self, loss="0%")
        self.pingpong(65536, 100)

    def test_bad_wire_events_ipv6(self):
        wire.make_bad(self, loss="0%")
        self.pingpong(20000, 200, "-e", six=True)


class UcPingpong(RcPingpong):
    """Unreliable connections: not over a bad wire, where the program waits for what is lost."""

    program_name = "ibv_uc_pingpong"
    test_bad_wire = test_bad_wire_events_ipv6 = None


class SrqPingpong(RcPingpong):
    """16 connections on one shared receive queue."""

    program_name = "ibv_srq_pingpong"
    test_bad_wire_events_ipv6 = None


class UdPingpong(RcPingpong):
    """Datagrams: no longer than the MTU."""

    program_name = "ibv_ud_pingpong"
    test_bad_wire = test_bad_wire_events_ipv6 = test_one_megabyte = test_small_mtu = None

    def pingpong(self, size, count, *options, six=False):
        super().pingpong(min(size, 1024), count, *options, six=six)
