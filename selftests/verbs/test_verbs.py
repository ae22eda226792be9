# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The verbs tests in C, with both ends on one device of one host."""

import re

from interop.puppet import Puppet
from runner import SELFTESTS, VmTestCase


# Under KASAN and lockdep, in a time that one waits for.
ON_DEBUG = ("rings", "stress", "mr", "odp", "cq", "rc_events", "rc_states", "uc", "ud", "srq", "mw", "placement")


TRACING = "/sys/kernel/tracing"


class Verbs(VmTestCase):
    """One test for each program of the Makefile; each case of it has a limit of its own."""

    limit = 700
    hosts = 1
    debug = True


def _add_tests():
    text = (SELFTESTS / "verbs" / "Makefile").read_text()
    for name in re.search(r"^programs := (.*)$", text, re.MULTILINE)[1].split():
        def test(self, program=name):
            if self.variant == "debug" and program not in ON_DEBUG:
                self.skipTest("it takes too long under emulation and the checkers")
            self.run_program(self.a, "verbs", program, "--dev", "rxe0")
        setattr(Verbs, f"test_{name}", test)


_add_tests()


class Jumbo(VmTestCase):
    """What the largest path MTUs need: a port that has them."""

    hosts = 1
    debug = True

    def test_rc_ops(self):
        self.a.run("ip link set eth0 mtu 4500", check=True)
        self.run_program(self.a, "verbs", "rc_ops", "--dev", "rxe0", "*_mtu2048", "*mtu4096")


class OneCpu(VmTestCase):
    """64 busy connections leave the only processor to others too, for a minute: the kernel's watchdog looks on."""

    hosts = 1
    cpus = 1
    limit = 400

    def test_streams(self):
        self.run_program(self.a, "verbs", "rc_ops", "--dev", "rxe0", "--seconds", "60", "both_ways", "many_queue_pairs")


class Charged(VmTestCase):
    """What a process makes the kernel use of memory counts in its control group."""

    hosts = 1
    SPANS = 400

    def setUp(self):
        control = "/sys/fs/cgroup/cgroup.subtree_control"
        self.a.run(f"echo +memory >{control}", check=True)
        self.addCleanup(self.a.run, f"echo -memory >{control}")

    def kernel(self, group):
        """Return the bytes of the kernel's memory that a control group has."""
        text = self.a.run(["cat", f"{group}/memory.stat"], check=True).stdout
        return int(re.search(r"(?m)^kernel (\d+)$", text)[1])

    def group(self):
        """Return the control group of the puppet that runs."""
        return self.a.run("for g in /sys/fs/cgroup/command-*; do for p in $(cat $g/cgroup.procs); do "
                          "! grep -q rc_puppet /proc/$p/comm || echo $g; done; done", check=True).stdout.strip()

    def test_queues(self):
        one = Puppet(self, self.a)
        where = {"dev": "rxe0", "gid": self.gid(self.a), "size": 4096}
        one.open(**where)
        group = self.group()
        before = self.kernel(group)
        one.open(q=1, cqe=1 << 16, **where)
        # A completion takes 64 bytes.
        self.assertGreater(self.kernel(group) - before, 64 << 16)
        one.do("close", q=1)
        self.assertLess(self.kernel(group) - before, 32 << 16)

    def test_page_faults(self):
        """The module's workers take them: one in each 2 MiB, of memory that needs no page of its own."""
        one = Puppet(self, self.a)
        one.open(dev="rxe0", gid=self.gid(self.a), size=self.SPANS << 21, on_demand=1)
        one.connect(one.ends[0])
        group = self.group()
        before = self.kernel(group)
        for n in range(self.SPANS):
            one.do("post", op="write", len=1, off=n << 21, roff=0)
            one.do("drain")
        # Each has a table of 8 bytes for a page, and something besides.
        self.assertGreater(self.kernel(group) - before, self.SPANS * 8192)


class Persistent(VmTestCase):
    """FLUSH to persistence, of memory that a process maps of an NVDIMM."""

    releases = ("backports",)       # older kernels let no process ask for the right
    hosts = 1
    pmem = "32M"                    # some of which describes the rest

    def setUp(self):
        self.a.run("modprobe -a nfit dax_pmem && ndctl create-namespace -f -e namespace0.0 -m devdax", check=True)
        self.a.wait_for("test -c /dev/dax0.0")
        self.a.run(f"cd {TRACING} && echo >trace && echo 'p:written_back arch_wb_cache_pmem bytes=%si:u64' "
                   ">kprobe_events && echo 1 >events/kprobes/enable", check=True)
        self.addCleanup(self.a.run, f"cd {TRACING}; echo 0 >events/kprobes/enable; echo >kprobe_events; echo >trace")

    def written_back(self, case):
        """Run a case; return how many bytes of memory the kernel wrote back meanwhile."""
        self.run_tap(self.a, [self.program(self.a, "verbs", "placement"), "--dev", "rxe0", case])
        text = self.a.run(["cat", f"{TRACING}/trace"], check=True).stdout
        return sum(map(int, re.findall(r"written_back: .* bytes=(\d+)", text)))

    def test_forms(self):
        """A range, all of the region, its last byte, and nothing."""
        self.assertEqual(self.written_back("persistent_forms"), 5000 + (16 << 20) + 1)

    def test_again(self):
        self.assertEqual(self.written_back("persistent_again"), 3 * 64)

    def test_refused(self):
        self.assertEqual(self.written_back("persistent_bad/*"), 0)

    def test_changed_rights(self):
        self.assertEqual(self.written_back("persistent_by_rereg"), 16 << 20)

    def test_reset(self):
        """What the QP asked for before the reset is no answer to what it asks for after it."""
        self.assertEqual(self.written_back("persistent_after_reset"), 2 * (16 << 20))

    def test_goes(self):
        """The region or the QP, meanwhile."""
        self.written_back("persistent_*_goes")

    def test_changes(self):
        """The region, all the time: rereg is not held up, and no FLUSH succeeds for nothing."""
        self.written_back("persistent_changes")
