# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Devices in network namespaces: who sees them, whom they reach, how they move, and their UDP port."""

import re

from perftest import gid_text

import links
from addresses import Addresses
from apps.rping import rping
from interop.puppet import Puppet
from links import SYSFS, add, inside, script


class NamespaceTest(Addresses):
    """One host."""

    hosts = 1
    link = False

    def namespaces(self, exclusive=False, queues=1):
        """Two namespaces joined by a veth, a link in each, which is seen there alone if exclusive."""
        script(self.a, "ip netns add ns1; ip netns add ns2; "
                       f"ip link add v1 numtxqueues {queues} numrxqueues {queues} netns ns1 type veth "
                       f"peer name v2 numtxqueues {queues} numrxqueues {queues} netns ns2; "
                       "for n in 1 2; do ip -n ns$n link set lo up; ip -n ns$n link set v$n up; "
                       "ip -n ns$n addr add 10.79.0.$n/24 dev v$n; "
                       "ip -n ns$n addr add fd7a::$n/64 dev v$n nodad; done")
        for n in 1, 2:
            add(self.a, f"t{n}", f"v{n}", netns=f"ns{n}")
            if exclusive:
                links.enter(self.a, f"t{n}", f"ns{n}")
            self.a.wait_for(f"ip netns exec ns{n} rdma link show t{n}/1 | grep -q 'state ACTIVE'")

    def index(self, device, address):
        """Return the index of an address' RoCEv2 GID.

        sysfs shows whose netdev a GID is only to those in its namespace: ask the table itself.
        """
        found = self.a.wait_for(f"cd {SYSFS}/{device}/ports/1/gids && grep -l ^{gid_text(address)} *")
        return max(map(int, found.stdout.split()))

    def test_two_namespaces(self):
        self.namespaces()
        ends = [(self.a, f"t{n}", self.index(f"t{n}", f"10.79.0.{n}")) for n in (1, 2)]
        self.connect(*ends, namespaces=("ns1", "ns2"))
        self.pingpong(*ends, "10.79.0.1", namespaces=("ns1", "ns2"))
        # Over the veth, not by a short way that knows no namespaces.
        for n in 1, 2:
            found = links.counters(self.a, f"t{n}")
            self.assertGreater(found["rx_pkts"], 1000)
            self.assertEqual(found["loopback_pkts"], 0)

    def test_same_addresses_in_two_namespaces(self):
        """10.79.0.1 in ns3 is nobody that ns1 could reach."""
        self.namespaces()
        script(self.a, "ip netns add ns3; ip -n ns3 link set lo up; ip -n ns3 link add d3 type dummy; "
                       "ip -n ns3 link set d3 up; ip -n ns3 addr add 10.79.0.2/24 dev d3")
        add(self.a, "t3", "d3", netns="ns3")
        one, other = Puppet(self, self.a, "ns1"), Puppet(self, self.a, "ns3")
        first = one.open(dev="t1", gid=self.index("t1", "10.79.0.1"), timeout=10, retry=2)
        second = other.open(dev="t3", gid=self.index("t3", "10.79.0.2"))
        one.connect(second)
        other.connect(first)
        one.do("post", op="write", len=64)
        self.assertEqual(one.do("poll", ms=60000).get("status"), 12, "RETRY_EXC_ERR")

    def test_one_queue(self):
        """All packets of a QP leave by one queue of its netdev, the first after a rest too."""
        self.namespaces(queues=4)
        script(self.a, "ip netns exec ns1 tc qdisc add dev v1 root mq")

        def sent():
            text = self.a.run("ip netns exec ns1 tc -s class show dev v1", check=True).stdout
            found = [int(number) for number in re.findall(r"Sent \d+ bytes (\d+) pkt", text)]
            self.assertEqual(len(found), 4, text)
            return found
        one, other = Puppet(self, self.a, "ns1"), Puppet(self, self.a, "ns2")
        for q in range(4):
            for n, end in (1, one), (2, other):
                end.open(q=q, dev=f"t{n}", gid=self.index(f"t{n}", f"10.79.0.{n}"), size=65536)
            one.connect(other.ends[q], q=q)
            other.connect(one.ends[q], q=q)
            before = sent()
            for _ in range(20):
                one.do("post", q=q, op="write", len=8000)
                self.assertEqual(one.do("drain", q=q, ms=60000), {"got": 1, "status": 0})
            least, most = sorted(after - start for start, after in zip(before, sent()))[-2:]
            self.assertGreaterEqual(most, 160)
            # Neighbours are looked for, now and then.
            self.assertLess(least, 10, f"QP {q}")

    def test_connection_manager(self):
        self.namespaces()
        for address in "10.79.0.1", "fd7a::1":
            rping(self, self.a, self.a, address, count=3, netns=("ns1", "ns2"))

    def test_connection_manager_exclusive(self):
        links.set_netns_mode(self.a, "exclusive")
        self.namespaces(exclusive=True)
        for address in "10.79.0.1", "fd7a::1":
            rping(self, self.a, self.a, address, count=3, netns=("ns1", "ns2"))

    def test_netns_exclusive(self):
        """A device is seen in its own namespace only, where RDMA's mode says so."""
        links.set_netns_mode(self.a, "exclusive")
        self.namespaces(exclusive=True)
        for n, others in (1, "t2"), (2, "t1"):
            seen = self.a.run(["ip", "netns", "exec", f"ns{n}", "rdma", "link"], check=True).stdout
            self.assertIn(f"t{n}/", seen)
            self.assertNotIn(f"{others}/", seen)
        self.assertEqual(links.links(self.a), {})
        self.a.run("ip netns del ns1; ip netns del ns2", check=True)
        self.a.wait_for("! ls /sys/class/infiniband | grep -q t")

    def devices(self, netns=None):
        """Return the devices that are seen in a namespace."""
        return set(links.links(self.a, netns))

    def dummies(self):
        """Two devices of the first namespace, and two more namespaces; each sees its own only."""
        links.set_netns_mode(self.a, "exclusive")
        script(self.a, "for n in 1 2; do ip netns add ns$n; ip link add d$n type dummy; ip link set d$n up; done")
        for n in 1, 2:
            add(self.a, f"t{n}", f"d{n}")

    def test_move(self):
        """A device goes where it is told, keeps its netdev, and comes back when the namespace ends."""
        self.dummies()
        script(self.a, "rdma dev set t1 netns ns1")
        self.assertEqual((self.devices(), self.devices("ns1")), ({"t2"}, {"t1"}))
        # Its netdev has stayed, and is still its own.
        result = self.a.run("rdma link add t3 type rxe netdev d1")
        self.assertNotEqual(result.status, 0)
        self.assertIn("File exists", result.stderr)
        script(self.a, "ip netns del ns1")
        self.a.wait_for("rdma link show t1/1")
        self.assertEqual(links.links(self.a)["t1"]["netdev"], "d1")
        script(self.a, "rdma link delete t1")
        self.assertEqual(self.devices(), {"t2"})

    def test_move_with_its_netdev(self):
        """Where the netdev goes the link cannot: it ends, wherever it is seen."""
        self.dummies()
        script(self.a, "rdma dev set t1 netns ns1; ip link set d1 netns ns1")
        self.a.wait_for([*inside("ns1"), "sh", "-c", "! rdma dev show t1"])
        self.assertEqual(self.devices(), {"t2"})

    def test_names(self):
        """A name is taken within its namespace only; who comes to one where it is taken stays out."""
        if self.a.release.root.name == "bookworm":
            self.skipTest("on Linux 6.1 a name is taken in all namespaces")
        self.dummies()
        script(self.a, "rdma dev set t2 netns ns1; ip netns exec ns1 rdma dev set t2 name t1")
        self.assertEqual((self.devices(), self.devices("ns1")), ({"t1"}, {"t1"}))
        result = self.a.run("rdma dev set t1 netns ns1")
        self.assertNotEqual(result.status, 0)
        self.assertEqual((self.devices(), self.devices("ns1")), ({"t1"}, {"t1"}))
        self.assertEqual(links.links(self.a)["t1"]["netdev"], "d1")
        # The one that has to leave gets another name.
        script(self.a, "ip netns del ns1")
        self.a.wait_for("[ $(rdma dev | wc -l) = 2 ]")
        found = links.links(self.a)
        other = (set(found) - {"t1"}).pop()
        self.assertEqual((found["t1"]["netdev"], found[other]["netdev"]), ("d1", "d2"))

    def sockets(self, netns=None):
        """Return how many UDP sockets of IPv4 and of IPv6 have the RoCEv2 port in a namespace."""
        text = self.a.run([*inside(netns), "cat", "/proc/net/udp", "/proc/net/udp6"], check=True).stdout
        owned = [line.split()[1] for line in text.splitlines() if line.split()[1].endswith(":12B7")]
        return sum(len(local) == 13 for local in owned), sum(len(local) > 13 for local in owned)

    def test_port(self):
        """UDP port 4791 is taken in a namespace while there is a device, by one socket for all of them."""
        none, both = (0, 0), (1, 1)
        self.assertEqual(self.sockets(), none)
        script(self.a, "for n in 1 2; do ip link add d$n type dummy; ip link set d$n up; done; "
                       "ip netns add ns1; ip -n ns1 link add n1 type dummy; ip -n ns1 link set n1 up")
        add(self.a, "t1", "d1")
        self.assertEqual((self.sockets(), self.sockets("ns1")), (both, none))
        add(self.a, "t2", "d2")
        add(self.a, "t3", "n1", netns="ns1")
        self.assertEqual((self.sockets(), self.sockets("ns1")), (both, both))
        script(self.a, "rdma link delete t1")
        self.assertEqual(self.sockets(), both)
        script(self.a, "ip link del d2")
        links.wait_gone(self.a, "t2")
        self.a.wait_for("! grep -q :12B7 /proc/net/udp")
        self.assertEqual((self.sockets(), self.sockets("ns1")), (none, both))
        script(self.a, "ip netns exec ns1 rdma link delete t3")
        self.assertEqual(self.sockets("ns1"), none)
