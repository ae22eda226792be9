# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the tools show: counters of QPs and ports, the inside of objects, also in a namespace."""

import json
import re

import perftest
from runner import VmTestCase

from interop import puppet
from interop.puppet import Puppet
from links import SYSFS, add, enter, script, set_netns_mode, wait_listen

COUNT, LENGTH = 8, 4096


class StatisticTest(VmTestCase):
    """Two QPs on one device, and ``rdma``."""

    hosts = 1

    def setUp(self):
        self.asker, self.answerer = Puppet(self, self.a), Puppet(self, self.a)
        puppet.pair(self, self.asker, self.answerer)
        self.qpn = self.asker.ends[0]["qpn"]

    def write(self, times=COUNT):
        """Let the first QP write to the second one."""
        for _ in range(times):
            self.asker.do("post", op="write", len=LENGTH)
            self.asker.do("drain")

    def rdma(self, *words):
        """Run the RDMA tool; return what it says."""
        return self.a.run(["rdma", *words], check=True).stdout

    def bound(self):
        """Return the counters of QPs: [{cntn, lqpn, tx_pkts...}]."""
        return json.loads(self.rdma("-j", "statistic", "qp", "show") or "[]")

    def test_bind_by_hand(self):
        """From then on the QP counts by itself, and what it counted stays in the port's sum."""
        self.write()
        self.rdma("statistic", "qp", "bind", "link", "rxe0/1", "lqpn", str(self.qpn))
        self.write()
        found = [each for each in self.bound() if self.qpn in each["lqpn"]]
        self.assertEqual(len(found), 1, found)
        self.assertEqual(found[0]["tx_bytes"], COUNT * LENGTH)
        total = self.port_counter("tx_bytes")
        self.rdma("statistic", "qp", "unbind", "link", "rxe0/1", "cntn", str(found[0]["cntn"]),
                  "lqpn", str(self.qpn))
        self.assertEqual(self.bound(), [])
        self.assertEqual(self.port_counter("tx_bytes"), total)
        self.write(1)
        self.assertEqual(self.port_counter("tx_bytes"), total + LENGTH)

    def port_counter(self, name):
        """Return a counter of the port as the tool shows it, once the core reads it anew."""
        return json.loads(self.rdma("-j", "statistic", "show", "link", "rxe0/1"))[0][name]

    def test_two_on_one_counter(self):
        """The core wants both of one process."""
        one = Puppet(self, self.a)
        ends = [one.open(q=q, dev="rxe0", gid=self.gid(self.a), size=65536) for q in (0, 1)]
        one.connect(ends[1], q=0)
        one.connect(ends[0], q=1)
        first, second = (end["qpn"] for end in ends)
        self.rdma("statistic", "qp", "bind", "link", "rxe0/1", "lqpn", str(first))
        number = self.bound()[0]["cntn"]
        self.rdma("statistic", "qp", "bind", "link", "rxe0/1", "lqpn", str(second), "cntn", str(number))
        for _ in range(COUNT):
            one.do("post", q=0, op="write", len=LENGTH)
            one.do("drain", q=0)
        found = self.bound()
        self.assertEqual(len(found), 1, found)
        self.assertEqual(sorted(found[0]["lqpn"]), sorted([first, second]))
        self.assertEqual(found[0]["rx_bytes"], COUNT * LENGTH)
        self.assertEqual(found[0]["tx_bytes"], COUNT * LENGTH)

    def test_auto_mode(self):
        """QPs that are made from now on, by their type."""
        self.rdma("statistic", "qp", "set", "link", "rxe0/1", "auto", "type", "on")
        self.addCleanup(self.a.run, ["rdma", "statistic", "qp", "set", "link", "rxe0/1", "auto", "off"])
        one, two = Puppet(self, self.a), Puppet(self, self.a)
        puppet.pair(self, one, two)
        one.do("post", op="write", len=LENGTH)
        one.do("drain")
        found = [each for each in self.bound() if one.ends[0]["qpn"] in each["lqpn"]]
        self.assertEqual(len(found), 1, self.bound())
        self.assertEqual(found[0]["tx_bytes"], LENGTH)
        one.quit()
        two.quit()
        self.assertFalse([each for each in self.bound() if one.ends[0]["qpn"] in each["lqpn"]])

    def test_qp_that_ends_while_bound(self):
        self.rdma("statistic", "qp", "bind", "link", "rxe0/1", "lqpn", str(self.qpn))
        self.write()
        total = self.port_counter("tx_bytes")
        self.asker.quit()
        self.assertEqual(self.bound(), [])
        self.assertEqual(self.port_counter("tx_bytes"), total)

    def test_port_counters(self):
        """Those of the performance agent, in words of four bytes."""
        def read():
            text = self.a.run(f"cd {SYSFS}/rxe0/ports/1/counters && grep . *", check=True).stdout
            return {name: int(value) for name, value in re.findall(r"(\w+):(\d+)", text)}
        self.rdma("statistic", "qp", "bind", "link", "rxe0/1", "lqpn", str(self.qpn))
        before = read()
        self.write()
        after = read()
        self.assertEqual(after["port_xmit_data"] - before["port_xmit_data"], COUNT * LENGTH // 4)
        self.assertEqual(after["port_rcv_data"] - before["port_rcv_data"], COUNT * LENGTH // 4)
        self.assertGreaterEqual(after["port_xmit_packets"] - before["port_xmit_packets"], COUNT)
        for end in (before, after):
            self.assertEqual(end["unicast_xmit_packets"] + end["multicast_xmit_packets"], end["port_xmit_packets"])
        self.assertEqual(after["multicast_xmit_packets"], before["multicast_xmit_packets"])
        self.assertEqual(after["port_rcv_errors"], 0)

    def test_inside_of_objects(self):
        self.write()
        text = self.rdma("resource", "show", "qp", "-dd", "link", "rxe0/1", "lqpn", str(self.qpn))
        for name in ("una_psn", "expected_psn", "window", "retry_left"):
            self.assertRegex(text, rf"{name} \d+")
        self.assertRegex(text, r"posted 0 ")
        self.assertRegex(self.rdma("resource", "show", "cq", "-dd", "dev", "rxe0"), r"backlog 0 .*pushed \d+")
        self.assertRegex(self.rdma("resource", "show", "mr", "-dd", "dev", "rxe0"), r"windows 0")
        self.assertRegex(self.rdma("resource", "show", "pd", "dev", "rxe0"), "pdn")

    def test_homes_of_qps(self):
        """Those of one process are spread over the CPUs that it may use."""
        one = Puppet(self, self.a)
        mine = [one.open(q=q, dev="rxe0", gid=self.gid(self.a), size=4096)["qpn"] for q in range(8)]
        shown = json.loads(self.rdma("-j", "-dd", "resource", "show", "qp", "link", "rxe0/1"))
        homes = {qp["drv_home_cpu"] for qp in shown if qp["lqpn"] in mine}
        self.assertEqual(homes, {0, 1})

    def test_connection(self):
        """What the connection manager of a program says of its two ends."""
        server = self.a.spawn(["rping", "-s", "-a", self.a.ipv4])
        wait_listen(self.a)
        client = self.a.spawn(["stdbuf", "-oL", "rping", "-c", "-a", self.a.ipv4, "-v"])
        client.wait_output("ping data", 30 * self.slow)
        text = self.rdma("resource", "show", "cm_id", "-d", "link", "rxe0/1")
        ends = [line for line in text.splitlines() if "CONNECT" in line]
        self.assertEqual(len(ends), 2, text)
        for end in ends:
            self.assertRegex(end, rf"qp-type RC .*ps TCP .*comm rping .*src-addr {self.a.ipv4}:")
        for each in client, server:
            each.kill()

    def test_raw(self):
        text = self.rdma("resource", "show", "qp", "link", "rxe0/1", "lqpn", str(self.qpn), "-r", "-j")
        found = json.loads(text)
        self.assertEqual(len(found[0]["data"]), 21 * 4)

    def test_shared_receive_queue(self):
        """What the kernel of 6.1 has no operation for."""
        server = self.a.spawn(["ibv_srq_pingpong", "-d", "rxe0", "-g", self.gid(self.a), "-r", 300])
        self.a.wait_port(18515)
        text = self.rdma("resource", "show", "srq", "-dd", "dev", "rxe0")
        self.assertRegex(text, "type BASIC")
        if self.a.release.root.name != "bookworm":
            self.assertRegex(text, r"posted 300 drv_max \d+ drv_limit 0")
        server.kill()

    def test_in_a_namespace(self):
        """Counters and objects of a device that belongs to another namespace alone."""
        self.asker.quit()
        self.answerer.quit()
        set_netns_mode(self.a, "exclusive")
        script(self.a, """
            ip netns add ns1
            ip link add link eth0 name m0 type macvlan mode bridge
            ip link set m0 netns ns1
            ip -n ns1 link set m0 up
            ip -n ns1 addr add 10.79.0.1/24 dev m0
            """)
        add(self.a, "t1", "m0", netns="ns1")
        enter(self.a, "t1", "ns1")
        index = perftest.gid_index(self.a, "10.79.0.1", "t1", netns="ns1")
        one = Puppet(self, self.a, netns="ns1")
        one.open(dev="t1", gid=index, size=65536)
        one.connect(one.ends[0])
        one.do("post", op="write", len=LENGTH)
        one.do("drain")
        inside = ["ip", "netns", "exec", "ns1"]
        path = f"{SYSFS}/t1/ports/1"
        said = self.a.run([*inside, "cat", f"{path}/hw_counters/tx_bytes", f"{path}/counters/port_xmit_data"],
                          check=True).stdout.split()
        self.assertEqual(said, [str(LENGTH), str(LENGTH // 4)])
        text = self.a.run([*inside, "rdma", "resource", "show", "qp", "link", "t1/1"], check=True).stdout
        qpn = one.ends[0]["qpn"]
        self.assertIn(f"lqpn {qpn} ", text)
        text = self.a.run([*inside, "rdma", "resource", "show", "qp", "link", "t1/1", "lqpn", qpn, "-r", "-j"],
                          check=True).stdout
        self.assertEqual(len(json.loads(text)[0]["data"]), 21 * 4)
        self.a.run([*inside, "rdma", "statistic", "qp", "bind", "link", "t1/1", "lqpn", qpn], check=True)
        one.do("post", op="write", len=LENGTH)
        one.do("drain")
        text = self.a.run([*inside, "rdma", "-j", "statistic", "qp", "show"], check=True).stdout
        self.assertEqual([each["tx_bytes"] for each in json.loads(text) if qpn in each["lqpn"]], [LENGTH])
