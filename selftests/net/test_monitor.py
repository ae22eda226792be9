# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What ``rdma monitor`` tells of links, in the first network namespace and in another one."""

import json
import re

from runner import VmTestCase

from links import add, inside, script, set_netns_mode

NETLINK_RDMA = 20


class MonitorTest(VmTestCase):
    """Without a link to begin with."""

    hosts = 1
    link = False

    def setUp(self):
        if self.a.release.name == "bookworm":
            self.skipTest("Linux 6.1 does not tell of links, and its rdma does not listen")

    def monitor(self, netns=None):
        """Return the command that monitors, once it listens."""
        command = self.a.spawn([*inside(netns), "stdbuf", "-oL", "rdma", "-j", "monitor"])
        self.a.wait_for([*inside(netns), "awk", f"$2 == {NETLINK_RDMA} && $4 !~ /^0+$/ {{ found = 1 }} "
                         "END { exit !found }", "/proc/net/netlink"], timeout=30 * self.slow)
        return command

    def told(self, command, last):
        """Wait until a device went; return what was told: (event, device or None, netdev or None)."""
        command.wait_output(rf'UNREGISTER[^{{]*"{last}"}}', 30 * self.slow)
        events = [json.loads(text) for text in re.findall(r"\{.*?\}", command.output)]
        return [(event["event_type"].strip("[]"), event.get("rdma_dev"), event.get("netdev_name"))
                for event in events]

    def test_link(self):
        script(self.a, "ip link add d1 type dummy; ip link set d1 up")
        monitor = self.monitor()
        add(self.a, "t1", "d1")
        script(self.a, """
            rdma dev set t1 name t2
            ip link set d1 down
            ip link set d1 name d2
            rdma link delete t2
            """)
        self.assertEqual(self.told(monitor, "t2"), [
            ("REGISTER", "t1", None), ("NETDEV_ATTACH", "t1", "d1"), ("RENAME", "t2", None),
            ("NETDEV_RENAME", None, "d2"), ("UNREGISTER", "t2", None)])

    def test_netdev_that_goes(self):
        script(self.a, "ip link add d1 type dummy")
        add(self.a, "t1", "d1")
        monitor = self.monitor()
        script(self.a, "ip link delete d1")
        self.assertEqual(self.told(monitor, "t1"), [("UNREGISTER", "t1", None)])

    def test_in_a_namespace(self):
        """Devices of another namespace are told of there alone."""
        set_netns_mode(self.a, "exclusive")
        script(self.a, """
            ip netns add ns1
            ip link add d1 type dummy
            ip -n ns1 link add d2 type dummy
            """)
        here, there = self.monitor(), self.monitor("ns1")
        for name, netdev, netns in ("t2", "d2", "ns1"), ("t1", "d1", None):
            add(self.a, name, netdev, netns=netns)
            self.a.run([*inside(netns), "rdma", "link", "delete", name], check=True)
        for monitor, name, netdev in (here, "t1", "d1"), (there, "t2", "d2"):
            self.assertEqual(self.told(monitor, name), [
                ("REGISTER", name, None), ("NETDEV_ATTACH", name, netdev), ("UNREGISTER", name, None)])
