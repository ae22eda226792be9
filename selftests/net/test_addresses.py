# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""GIDs: which are listed, and that each one connects; VLANs, two devices on one host."""

import errno

from perftest import gid_text

import links
from addresses import Addresses
from interop.puppet import Puppet, Refused, exchange
from links import SYSFS, Watch, add, gids, script, wait_state


class GidTest(Addresses):
    """Two hosts."""

    def test_each_gid_connects(self):
        """Every listed GID of one host works with the one of the same kind of the other host."""
        for host in self.a, self.b:
            script(host, f"ip addr add 10.77.1.{host.number}/24 dev eth0; "
                         f"ip addr add fd78::{host.number}/64 dev eth0 nodad; "
                         f"ip link add link eth0 name eth0.10 type vlan id 10; ip link set eth0.10 up; "
                         f"ip addr add 10.77.10.{host.number}/24 dev eth0.10; "
                         f"ip addr add fd79::{host.number}/64 dev eth0.10 nodad")
            # The link-local addresses come late, with the carrier.
            host.wait_for(f"[ $(grep -l ^fe80 {SYSFS}/rxe0/ports/1/gids/* | wc -l) = 2 ]")
            host.wait_for("! ip -6 addr show tentative | grep -q inet6")
            for gid in gid_text(f"10.77.1.{host.number}"), gid_text(f"10.77.10.{host.number}"), \
                    f"fd79:0000:0000:0000:0000:0000:0000:000{host.number}":
                self.wait_gid(host, "rxe0", gid)

        def kind(entry):
            gid, netdev = entry
            return netdev, gid[:4] if gid[:4] == "fe80" else gid[:-4]
        tables = [gids(host, "rxe0") for host in (self.a, self.b)]
        self.assertEqual(sorted(map(kind, tables[0].values())), sorted(map(kind, tables[1].values())))
        # eth0: 2 of IPv4, 2 of IPv6, link-local; eth0.10: 1, 1, link-local.
        self.assertGreaterEqual(len(tables[0]), 8)
        for index, entry in tables[0].items():
            name = f"{entry[0]} on {entry[1]}"
            same = [i for i, other in tables[1].items() if kind(other) == kind(entry)]
            self.assertEqual(len(same), len(set(same)))
            try:
                self.connect((self.a, "rxe0", index), (self.b, "rxe0", same[0]))
            except Exception as problem:
                self.report(name, "failed", str(problem))
            else:
                self.report(name, "passed")

    def test_vlan(self):
        for host in self.a, self.b:
            script(host, "ip link add link eth0 name eth0.10 type vlan id 10; ip link set eth0.10 up; "
                         f"ip addr add 10.77.10.{host.number}/24 dev eth0.10")
        ends = [(host, "rxe0", self.gid(host, f"10.77.10.{host.number}")) for host in (self.a, self.b)]
        dump = self.b.spawn("exec tcpdump -c 20 -e -n -i eth0 'vlan 10 and udp port 4791' 2>&1")
        dump.wait_output("listening on")
        self.pingpong(*ends, "10.77.10.1")
        self.assertRegex(dump.wait(60 * self.slow).stdout, "vlan 10, .*10.77.10.[12].*4791")

    def test_ipv6(self):
        """Global and link-local."""
        self.pingpong((self.a, "rxe0", self.gid(self.a, self.a.ipv6)),
                      (self.b, "rxe0", self.gid(self.b, self.b.ipv6)), self.a.ipv4)
        local = []
        for host in self.a, self.b:
            host.wait_for("ip -6 addr show dev eth0 scope link | grep -q inet6 && "
                          "! ip -6 addr show dev eth0 tentative | grep -q inet6")
            local.append(next((host, "rxe0", i) for i, (gid, _) in gids(host, "rxe0").items()
                              if gid.startswith("fe80")))
        self.pingpong(*local, self.a.ipv4)

    def test_address_goes(self):
        """A GID whose address is removed: not listed; a connection over it ends with an error."""
        script(self.a, "ip addr add 10.77.1.1/24 dev eth0")
        script(self.b, "ip addr add 10.77.1.2/24 dev eth0")
        indices = [self.gid(host, f"10.77.1.{host.number}") for host in (self.a, self.b)]
        ends = []
        for host, index in zip((self.a, self.b), indices):
            one = Puppet(self, host)
            one.open(dev="rxe0", gid=index, timeout=14, retry=3)
            ends.append(one)
        ends[0].connect(ends[1].ends[0])
        ends[1].connect(ends[0].ends[0])
        exchange(self, *ends)
        script(self.a, "ip addr del 10.77.1.1/24 dev eth0")
        self.a.wait_for(f"! ip addr show dev eth0 | grep -q 10.77.1.1")
        ends[0].do("post", op="write", len=64)
        self.assertEqual(ends[0].do("poll", ms=60000).get("status"), 12, "RETRY_EXC_ERR")
        # It cannot be chosen again.
        other = Puppet(self, self.a)
        other.open(dev="rxe0", gid=indices[0])
        with self.assertRaises(Refused):
            other.connect({"qpn": 1, "psn": 0, "gid": "::ffff:10.77.1.2"})
        self.connect((self.a, "rxe0", self.gid(self.a)), (self.b, "rxe0", self.gid(self.b)))


class WithoutIpv6Test(Addresses):
    """The core lists a GID of IPv6 all the same."""

    hosts = 1
    arguments = "ipv6.disable=1"

    def test_connect(self):
        table = gids(self.a, "rxe0")
        local = next(index for index, (gid, _) in table.items() if gid.startswith("fe80"))
        one = Puppet(self, self.a)
        one.open(dev="rxe0", gid=local)
        with self.assertRaises(Refused) as refused:
            one.connect(one.ends[0])
        self.assertIn(refused.exception.errno, (errno.ENODEV, errno.EAFNOSUPPORT))
        end = self.a, "rxe0", self.gid(self.a)
        self.pingpong(end, end, "127.0.0.1")


class OneHostTest(Addresses):
    """Tables, and two ends on one host."""

    hosts = 1
    link = False

    def dummies(self, count, netdev="d"):
        for n in range(1, count + 1):
            script(self.a, f"ip link add {netdev}{n} type dummy; ip link set {netdev}{n} up; "
                           f"ip addr add 10.78.{n}.1/24 dev {netdev}{n}; "
                           f"ip addr add fd78:{n}::1/64 dev {netdev}{n} nodad")

    def test_table_follows_addresses(self):
        self.dummies(1)
        add(self.a, "t1", "d1")
        first = self.wait_gid(self.a, "t1", gid_text("10.78.1.1"))
        watch = Watch(self.a, "t1")
        for address, gid in (("10.78.1.2/24", gid_text("10.78.1.2")),
                             ("10.88.0.1/16", gid_text("10.88.0.1")),
                             ("fd78:1::2/64", "fd78:0001:0000:0000:0000:0000:0000:0002")):
            self.a.run(f"ip addr add {address} dev d1 {'nodad' if ':' in address else ''}", check=True)
            self.wait_gid(self.a, "t1", gid)
            self.a.run(f"ip addr del {address} dev d1", check=True)
            self.wait_gid(self.a, "t1", gid, there=False)
            self.assertEqual(self.wait_gid(self.a, "t1", gid_text("10.78.1.1")), first)
        # One for each that came and each that went.
        watch.wait("GID_CHANGE", 6)
        self.assertEqual(watch.end().count("GID_CHANGE"), 6)

    def test_order_survives_flaps(self):
        """What stays keeps its index, whatever comes and goes beside it."""
        self.dummies(1)
        add(self.a, "t1", "d1")
        script(self.a, "for i in 2 3 4; do ip addr add 10.78.1.$i/24 dev d1; done")
        for n in 2, 3, 4:
            self.wait_gid(self.a, "t1", gid_text(f"10.78.1.{n}"))
        before = gids(self.a, "t1")
        for _ in range(3):
            script(self.a, "ip addr del 10.78.1.3/24 dev d1")
            self.wait_gid(self.a, "t1", gid_text("10.78.1.3"), there=False)
            script(self.a, "ip addr add 10.78.1.3/24 dev d1")
            self.wait_gid(self.a, "t1", gid_text("10.78.1.3"))
        self.assertEqual(gids(self.a, "t1"), before)

    def test_full_table(self):
        """Each place is used; an address too many has none, and one again when another has gone."""
        self.dummies(1)
        add(self.a, "t1", "d1")
        self.wait_gid(self.a, "t1", gid_text("10.78.1.1"))
        places = int(self.a.run(f"ls {SYSFS}/t1/ports/1/gids | wc -l", check=True).stdout)
        self.assertEqual(places, 1024)
        more = places - len(gids(self.a, "t1"))
        script(self.a, f"for i in $(seq 0 {more}); do "
                       "echo addr add 10.90.$((i / 250)).$((i % 250 + 1))/32 dev d1; done | ip -batch -")
        last = gid_text(f"10.90.{more // 250}.{more % 250 + 1}")
        # The kernel takes them in turn: with the first one gone again all have been tried.
        script(self.a, "ip addr del 10.90.0.1/32 dev d1")
        self.wait_gid(self.a, "t1", gid_text(f"10.90.{(more - 1) // 250}.{(more - 1) % 250 + 1}"))
        self.wait_gid(self.a, "t1", gid_text("10.90.0.1"), there=False)
        found = gids(self.a, "t1")
        self.assertEqual(len(found), places - 1)
        self.assertNotIn(last, [gid for gid, _ in found.values()])
        # The largest index that a process can name.
        self.connect((self.a, "t1", 255), (self.a, "t1", 255))
        script(self.a, f"ip addr del 10.90.{more // 250}.{more % 250 + 1}/32 dev d1; "
                       f"ip addr add 10.90.{more // 250}.{more % 250 + 1}/32 dev d1")
        self.wait_gid(self.a, "t1", last)
        self.assertEqual(len(gids(self.a, "t1")), places)

    def test_one_address_on_two_netdevs(self):
        """As unnumbered links have it: datagrams to either device arrive."""
        for n in 1, 2:
            script(self.a, f"ip link add d{n} type dummy; ip link set d{n} up; ip addr add 10.79.0.1/32 dev d{n}")
            add(self.a, f"t{n}", f"d{n}")
        for device in "t1", "t2":
            end = self.a, device, self.wait_gid(self.a, device, gid_text("10.79.0.1"))
            self.pingpong(end, end, "127.0.0.1", program="ibv_ud_pingpong", options=["-s", 1000])

    def test_two_devices(self):
        """Of one namespace; whichever interface the kernel delivers on."""
        self.dummies(2)
        for n in 1, 2:
            add(self.a, f"t{n}", f"d{n}")
        for gid in (gid_text("10.78.1.1"), gid_text("10.78.2.1")), \
                ("fd78:0001:0000:0000:0000:0000:0000:0001", "fd78:0002:0000:0000:0000:0000:0000:0001"):
            ends = [(self.a, f"t{n}", self.wait_gid(self.a, f"t{n}", gid[n - 1])) for n in (1, 2)]
            self.connect(*ends)
        self.pingpong(*ends, "10.78.1.1")
        for n in 1, 2:
            self.assertGreater(links.counters(self.a, f"t{n}")["loopback_pkts"], 0)

    def test_two_ends_of_a_veth_in_one_namespace(self):
        # The core looks for the peer's MAC on the GID's own netdev, and is to find that it is local.
        script(self.a, "ip link add v1 type veth peer name v2; ip link set v1 up; ip link set v2 up; "
                       "ip addr add 10.78.1.1/24 dev v1; ip addr add 10.78.2.1/24 dev v2; "
                       "ip route append local 10.78.2.1 dev v1 table local; "
                       "ip route append local 10.78.1.1 dev v2 table local")
        for n in 1, 2:
            add(self.a, f"t{n}", f"v{n}")
        self.connect(*[(self.a, f"t{n}", self.wait_gid(self.a, f"t{n}", gid_text(f"10.78.{n}.1")))
                       for n in (1, 2)])

    def test_link_local_of_two_devices(self):
        """Two links of one host: fe80 addresses belong to one link each, these two are joined."""
        script(self.a, "ip link add v1 type veth peer name v2; ip link set v1 up; ip link set v2 up")
        for n in 1, 2:
            self.a.wait_for(f"ip -6 addr show dev v{n} scope link | grep -q inet6 && "
                            f"! ip -6 addr show dev v{n} tentative | grep -q inet6")
            add(self.a, f"t{n}", f"v{n}")
            wait_state(self.a, f"t{n}", "ACTIVE")
        ends = [(self.a, f"t{n}", next(i for i, (gid, _) in gids(self.a, f"t{n}").items()
                                       if gid.startswith("fe80"))) for n in (1, 2)]
        self.connect(*ends)
