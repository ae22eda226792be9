# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Sockets over SMC-R, the kernel's own consumer of RDMA devices beneath TCP programs."""

from net import links
from runner import VmTestCase

SCRIPT = "/repo/selftests/apps/smc.py"
PORT, CHUNKS, CHUNK = 18700, 32, 65536
EID = "RXE-NG.TEST"


class Smc(VmTestCase):
    """An echo between two hosts, and what carried it."""

    def setUp(self):
        for host in self.cluster:
            if host.run(["modinfo", "smc"]).status:
                self.skipTest("this kernel has no SMC")
            host.run(["modprobe", "-a", "smc", "smc_diag"], check=True)
            self.addCleanup(host.wait_for, "modprobe -r smc_diag smc", timeout=30 * self.slow)

    def smc(self, host, *words):
        """Run the script on a host."""
        return host.run(["python3", SCRIPT, *words], timeout=60 * self.slow, check=True).stdout

    def prepare(self, *eid):
        """Let SMC use the link on each host."""
        for host in self.cluster:
            self.smc(host, "prepare", "eth0", "rxe0", *eid)
            self.addCleanup(self.smc, host, "forget")

    def echo(self):
        """Let bytes go to and fro; return what carried them."""
        one = self.a.spawn(["python3", SCRIPT, "serve", self.a.ipv4, PORT])
        self.addCleanup(one.kill)
        self.a.wait_port(PORT)
        two = self.b.spawn(["python3", SCRIPT, "ask", self.a.ipv4, PORT, CHUNKS])
        said = self.together(two, one, timeout=60 * self.slow)[0].stdout
        self.assertIn(f"{CHUNKS * CHUNK} bytes by ", said)
        return said.split()[-1]

    def test_echo(self):
        self.prepare(EID)
        before = links.counters(self.b)
        self.assertEqual(self.echo(), "SMC-R")
        after = links.counters(self.b)
        for name in "tx_bytes", "rx_bytes":
            self.assertGreaterEqual(after[name] - before[name], CHUNKS * CHUNK, name)

    def test_without_eid(self):
        """Version 1 wants a GID of RoCE v1, so TCP does it."""
        self.prepare()
        before = links.counters(self.b)
        self.assertEqual(self.echo(), "TCP")
        self.assertEqual(links.counters(self.b)["tx_bytes"], before["tx_bytes"])
