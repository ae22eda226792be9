# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Allocation failures, and ends of all kinds: only on the debug kernel.

KASAN, lockdep and the other checkers look on, and so does kmemleak when the hosts end.
"""

from runner import TestCase, VmTestCase, builds, limit
from rxe_vm import Cluster

DUMMY = "ip link add {0} type dummy; ip link set {0} up; ip addr add 10.78.{1}.1/24 dev {0}; "

# Two devices whose packets pass a wire: each end of a pair in a namespace of its own.
WIRE = """set -e
ip netns add w1; ip netns add w2
ip link add v1 netns w1 type veth peer name v2 netns w2
for n in 1 2; do
	ip -n w$n link set lo up
	ip -n w$n link set v$n up
	ip -n w$n addr add 10.78.0.$n/24 dev v$n
	ip netns exec w$n rdma link add t$n type rxe netdev v$n
done
"""


# Faults that the kernel's own lkdtm provokes, and how the report of each begins.
CRASHES = (
    ("WARNING", "WARNING: "), ("READ_AFTER_FREE", "BUG: KASAN: slab-use-after-free"),
    ("WRITE_AFTER_FREE", "BUG: KASAN: slab-use-after-free"), ("ARRAY_BOUNDS", "UBSAN: array-index-out-of-bounds"),
    ("REFCOUNT_DEC_ZERO", "refcount_t: "), ("CORRUPT_LIST_ADD", "list_add corruption"))
# The same for rxng_provoke; lockdep ends at the first report of any kind.
FAULTS = (
    ("inversion", "WARNING: possible circular locking dependency"),
    ("sleep", "BUG: sleeping function called from invalid context"))


class Checkers(TestCase):
    """Those of the debug kernel report what they are there for."""

    limit = 1800

    def found(self, cluster, word):
        """Fail unless a report begins like that."""
        first = [report.line for _, report in cluster.reports()]
        self.assertTrue(any(word in line for line in first), (word, first))

    def test_reports(self):
        provoke = f"{builds.kernel_module('debug', 'debug/provoke')}/rxng_provoke.ko"
        with Cluster("debug") as cluster:
            host = cluster[0]
            host.run("test -e /sys/kernel/debug/failslab/probability && test -e /proc/self/fail-nth", check=True)
            self.assertEqual(host.run("nproc").stdout, "2\n")
            host.run(f"insmod {provoke} what=leak", check=True)
            host.scan_leaks()
            self.found(cluster, "unreferenced object")
            host.run("rmmod rxng_provoke", check=True)
            for fault, word in FAULTS:
                host.run(f"insmod {provoke} what={fault} && rmmod rxng_provoke", check=True)
                self.found(cluster, word)
            host.run("modprobe lkdtm", check=True)
            for crash, word in CRASHES:
                host.run(f"echo {crash} > /sys/kernel/debug/provoke-crash/DIRECT", timeout=100)
                self.found(cluster, word)


class Starve(VmTestCase):
    """Memory runs out at each point."""

    releases = ("debug",)
    hosts = 1

    def test_verbs(self):
        """Both ends on one device; messages do not leave the host."""
        self.run_program(self.a, "debug", "starve", "--dev", "rxe0")

    @limit(600)
    def test_links(self):
        """Adding and deleting a link, loading and unloading the module."""
        self.a.run(DUMMY.format("d1", 1), check=True)
        self.run_program(self.a, "debug", "starve_link", "--netdev", "d1",
                         "--ko", "/repo/build/module/debug/rxe_ng.ko")


class StarveWire(VmTestCase):
    """Memory runs out while messages leave the host.

    On one CPU: each has a queue of its own for what a veth takes, and packets could change their places.
    """

    releases = ("debug",)
    hosts = 1
    cpus = 1

    def test_all(self):
        self.a.run(WIRE, check=True)
        for n in 1, 2:
            self.gid(self.a, f"10.78.0.{n}", f"t{n}")
        self.run_program(self.a, "debug", "starve", "--dev", "t1", "--dev2", "t2", "stock*", "rain*")


class Ends(VmTestCase):
    """What goes while somebody uses it, with the checkers looking on; the rest of it is in net."""

    releases = ("debug",)
    hosts = 1
    link = False
    limit = 180

    def script(self, text):
        """Run commands; the first one that fails ends them."""
        self.a.run("set -e\n" + text, check=True, timeout=self.limit * self.slow)

    def use(self, device):
        """Keep a program going that uses a device in a loop, as far as it is there."""
        return self.a.spawn(f"while :; do ibv_devinfo -v -d {device}; ibv_rc_pingpong -d {device} -n 1 & "
                            "sleep 0.2; kill $!; wait; done >/dev/null 2>&1")

    def test_netdev(self):
        """A netdev goes under an open device, three times."""
        for _ in range(3):
            self.script(DUMMY.format("d1", 1) + "rdma link add t1 type rxe netdev d1")
            users = [self.use("t1"), self.a.spawn(["ibv_rc_pingpong", "-d", "t1", "-p", "18516"])]
            self.a.wait_for("rdma resource show pd dev t1 | grep -q pid", timeout=60 * self.slow)
            self.script("ip link del d1; while [ -e /sys/class/infiniband/t1 ]; do sleep 0.05; done")
            for one in users:
                one.kill()
                one.wait(30 * self.slow)

    def test_namespace(self):
        """A namespace goes with its devices; the first one's device stays."""
        self.script(DUMMY.format("d1", 1) + "rdma link add t1 type rxe netdev d1\n"
                    "for i in 1 2 3; do ip netns add ns1\n"
                    "ip -n ns1 link add n1 type dummy; ip -n ns1 link set n1 up\n"
                    "ip -n ns1 addr add 10.79.0.1/24 dev n1\n"
                    "ip netns exec ns1 rdma link add t2 type rxe netdev n1\n"
                    "ip netns del ns1\n"
                    "while [ -e /sys/class/infiniband/t2 ]; do sleep 0.05; done; done\n"
                    "[ -e /sys/class/infiniband/t1 ]")

    def test_unload(self):
        """With links, at the first try, while their ports are being read."""
        reader = self.a.spawn("while :; do cat /sys/class/infiniband/t*/ports/1/state "
                              "/sys/class/infiniband/t*/ports/1/hw_counters/*; done >/dev/null 2>&1")
        self.script(DUMMY.format("d1", 1) + DUMMY.format("d2", 2) +
                    "for i in 1 2 3; do rdma link add t1 type rxe netdev d1\n"
                    "rdma link add t2 type rxe_ng netdev d2; rmmod rxe_ng\n"
                    "[ ! -e /sys/class/infiniband/t1 ]; load-rxe_ng; done")
        reader.kill()
        reader.wait(30 * self.slow)
