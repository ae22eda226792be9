# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""ibv_rc_pingpong between two hosts."""

from runner import VmTestCase

PORT = 18515


class RcPingpong(VmTestCase):
    """Polling, with events, and with the payload checked."""

    debug = True

    def pingpong(self, *options, address=None):
        """Run it on both hosts; return the client's output."""
        a, b = self.a, self.b
        six = ":" in (address or "")
        words = ["ibv_rc_pingpong", "-d", "rxe0", *options]
        server = a.spawn([*words, "-g", self.gid(a, a.ipv6 if six else None)])
        a.wait_port(PORT)
        client = b.spawn([*words, "-g", self.gid(b, b.ipv6 if six else None), address or a.ipv4])
        return self.together(client, server, timeout=self.limit * self.slow)[0].stdout

    def test_polling(self):
        self.assertIn("1000 iters", self.pingpong("-c"))

    def test_events(self):
        self.assertIn("1000 iters", self.pingpong("-c", "-e"))

    def test_ipv6(self):
        self.assertIn("1000 iters", self.pingpong("-c", address=self.a.ipv6))

    def test_large(self):
        self.assertIn("50 iters", self.pingpong("-c", "-s", "1000000", "-n", "50", "-m", "1024"))

    def test_many_receives(self):
        self.assertIn("5000 iters", self.pingpong("-c", "-s", "16", "-r", "1000", "-n", "5000"))
