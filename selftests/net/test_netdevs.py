# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every kind of netdev: a link on it, and packets across it."""

import links
from addresses import Addresses
from apps.rping import rping
from links import SYSFS, add, counters, script, sysfs, wait_state
from test_link import OneHost

TUN = "modprobe tun; mkdir -p /dev/net; [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200; "

# Ways to make a netdev n0 that should carry RoCE; those with a star have no carrier.
NETDEVS = {
    "dummy": "ip link add n0 type dummy",
    "veth": "ip link add n0 type veth peer name n1; ip link set n1 up",
    "bridge": "ip link add n1 type dummy; ip link set n1 up; ip link add n0 type bridge; "
              "ip link set n1 master n0",
    "vlan parent": "ip link add n0 type dummy; ip link add link n0 name n0.10 type vlan id 10",
    "macvlan": "ip link add n1 type dummy; ip link set n1 up; ip link add link n1 name n0 type macvlan",
    "ipvlan": "ip link add n1 type dummy; ip link set n1 up; ip link add link n1 name n0 type ipvlan",
    "bond": "ip link add n0 type bond mode active-backup; ip link add n1 type dummy; "
            "ip link set n1 master n0; ip link set n1 up",
    "vxlan": "ip link add n0 type vxlan id 7 local 10.77.0.1 dev eth0 dstport 4789",
    "tap*": TUN + "ip tuntap add n0 mode tap",
    "tun*": TUN + "ip tuntap add n0 mode tun",
    "wireguard": "ip link add n0 type wireguard",
}
# Where the connection manager of Linux 6.1 finds no GID.
WITHOUT_MAC = ("tun*", "wireguard")
# Those that cannot, and what the kernel's log says of it: no Ethernet, and no exception for them
# in the core; or a VLAN, whose addresses are GIDs of the device on the netdev below.
REFUSED = {
    "ipip": ("ip link add n0 type ipip local 10.77.0.1 remote 10.77.0.9", "Ethernet"),
    "gre": ("ip link add n0 type gre local 10.77.0.1 remote 10.77.0.9", "Ethernet"),
    "vlan": ("ip link add n1 type dummy; ip link set n1 up; "
             "ip link add link n1 name n0 type vlan id 10", "VLAN"),
}


class NetdevTest(OneHost):
    """Every kind of netdev."""

    def carries(self, name, recipe):
        """A link on this netdev works and tells the truth."""
        host = self.a
        script(host, recipe + "\nip link set n0 up; ip addr add 10.78.1.1/24 dev n0")
        add(host, "t1", "n0")
        wait_state(host, "t1", "DOWN" if name.endswith("*") else "ACTIVE")
        guid = sysfs(host, "t1", "node_guid")
        self.assertNotEqual(guid, "0000:0000:0000:0000", name)
        host.wait_for(f"grep -q '^0000.*:ffff:0a4e:0101' {SYSFS}/t1/ports/1/gids/*")
        # Whatever the carrier: the other end is on this host.
        self.loop_back("t1")
        if name not in WITHOUT_MAC or host.release.root.name != "bookworm":
            rping(self, host, host, "10.78.1.1", count=3)
        script(host, "rdma link delete t1; ip link del n0; ip link del n1 2>/dev/null || true")
        return guid

    def test_kinds(self):
        guids = []
        for name, recipe in NETDEVS.items():
            try:
                guids.append(self.carries(name, recipe))
            except Exception as problem:
                self.report(name, "failed", str(problem))
                self.bring_to_base()
            else:
                self.report(name, "passed")
        self.assertEqual(len(set(guids)), len(guids), "node GUIDs are not each its own")

    def test_refused(self):
        for name, (recipe, why) in REFUSED.items():
            script(self.a, recipe + "; ip link set n0 up")
            mark = links.mark_log(self.a)
            result = self.a.run("rdma link add t1 type rxe netdev n0")
            self.assertNotEqual(result.status, 0, name)
            self.assertRegex(result.stderr, "Invalid argument|not supported")
            self.assertRegex("\n".join(links.new_log(self.a, mark)), f"n0.*{why}")
            script(self.a, "ip link del n0")

    def test_loopback_netdev(self):
        self.a.run("rdma link add t1 type rxe netdev lo", check=True)
        self.a.wait_for(f"grep -q '^0000.*:ffff:7f00:0001' {SYSFS}/t1/ports/1/gids/*")
        self.loop_back("t1")


TUNNEL = "python3 -S /repo/selftests/net/tunnel.py n0"
VXLAN = "ip link add {0} mtu 1400 type vxlan id 7 local {1} remote {2} dev eth0 dstport 4789"

# Ways to make a netdev n0 that leads to the other host: of this host's address and the other one's.
ACROSS = {
    "vxlan": VXLAN.format("n0", "{me}", "{peer}"),
    "bridge": VXLAN.format("n1", "{me}", "{peer}") + "; ip link add n0 mtu 1400 type bridge; "
              "ip link set n1 master n0; ip link set n1 up",
    "bond": VXLAN.format("n1", "{me}", "{peer}") + "; ip link add n0 mtu 1400 type bond mode active-backup; "
            "ip link set n1 master n0; ip link set n1 up",
    "macvlan": "ip link add link eth0 name n0 type macvlan mode bridge",
    "ipvlan": "ip link add link eth0 name n0 type ipvlan mode l2",
    "tap": TUN + "ip tuntap add n0 mode tap; ip link set n0 mtu 1400",
    "tun": TUN + "ip tuntap add n0 mode tun; ip link set n0 mtu 1400",
}


class AcrossTest(Addresses):
    """Packets that pass every kind of netdev, from host to host."""

    link = False

    def across(self, name, recipe):
        """Connections over this netdev carry all operations, and none of it goes another way."""
        ends = []
        for host, peer in (self.a, self.b), (self.b, self.a):
            script(host, recipe.format(me=host.ipv4, peer=peer.ipv4))
            if name in ("tap", "tun"):
                host.spawn(f"exec {TUNNEL} {name} {peer.ipv4}").wait_output("open", 30 * self.slow)
            script(host, f"ip link set n0 up; ip addr add 10.78.9.{host.number}/24 dev n0")
            add(host, "t1", "n0")
            wait_state(host, "t1", "ACTIVE")
            ends.append((host, "t1", self.gid(host, f"10.78.9.{host.number}", "t1")))
        self.connect(*ends)
        for host in self.a, self.b:
            found = counters(host, "t1")
            self.assertGreaterEqual(found["tx_pkts"], 10)
            self.assertGreaterEqual(found["rx_pkts"], 10)
            self.assertEqual((found["loopback_pkts"], found["rx_malformed"], found["rx_icrc_err"]), (0, 0, 0))


def _add_tests():
    for name, recipe in ACROSS.items():
        def test(self, name=name, recipe=recipe):
            self.across(name, recipe)
        setattr(AcrossTest, f"test_{name}", test)


_add_tests()
