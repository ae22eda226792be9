# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Open MPI over UCX, one rank on each of two hosts, started by ssh."""

from net.links import counters
from runner import VmTestCase

# Debian's settings leave both components out.
UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx"]
# What each rank gets from the other one, at least: in all, and in messages alone.
EXCHANGED, IN_MESSAGES = 16 << 20, 4 << 20


class Mpi(VmTestCase):
    """``ranks.c``, which checks each byte."""

    limit = 300

    def setUp(self):
        for host in self.cluster:
            host.run("mkdir -p /run/sshd && /usr/sbin/sshd", check=True)
            host.wait_port(22)
        key = self.a.run("mkdir -p -m 700 ~/.ssh && cd ~/.ssh && rm -f id_ed25519 && "
                         "ssh-keygen -q -t ed25519 -N '' -f id_ed25519 && cat id_ed25519.pub", check=True).stdout
        self.b.run(f"mkdir -p -m 700 ~/.ssh && echo '{key.strip()}' >~/.ssh/authorized_keys", check=True)
        self.a.run(["ssh", "-o", "StrictHostKeyChecking=accept-new", "host2", "true"], check=True)

    def run_ranks(self, *options, only=(), least=EXCHANGED):
        """Run the program on both hosts; what it exchanges has to go by the device."""
        before = counters(self.a)
        said = self.a.run(["mpirun", "--allow-run-as-root", "-np", 2, "--host", "host1,host2", *UCX, *options,
                           self.program(self.a, "apps", "ranks"), *only], timeout=240 * self.slow, check=True).stdout
        for rank in 0, 1:
            self.assertRegex(said, rf"rank {rank} checked \d+ bytes")
        after = counters(self.a)
        for name in "tx_bytes", "rx_bytes":
            self.assertGreaterEqual(after[name] - before[name], least, name)

    def weak_fence(self):
        """UCX 1.18 chooses a fence that its rc_verbs does not have; older ones have no such setting."""
        return [] if self.a.release.root.name == "bookworm" else ["-x", "UCX_FENCE_MODE=weak"]

    def test_default(self):
        self.run_ranks(*self.weak_fence())

    def test_messages(self):
        """Without the one-sided operations no setting is needed."""
        self.run_ranks(only=["messages"], least=IN_MESSAGES)

    def test_ud(self):
        self.run_ranks("-x", "UCX_TLS=ud_verbs,self")
