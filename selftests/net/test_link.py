# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Links on one host: adding and deleting them, what they say, and what becomes of them."""

import re

from runner import VmTestCase, limit

import links
from interop.puppet import Puppet, exchange
from links import SYSFS, Watch, add, gids, script, sysfs, wait_gone, wait_state

DUMMY = "ip link add {0} type dummy; ip link set {0} up; ip addr add 10.78.{1}.1/24 dev {0};"


class OneHost(VmTestCase):
    """Without a link to begin with."""

    hosts = 1
    link = False
    limit = 180

    def refused(self, words, why):
        """A command has to fail and to say why."""
        result = self.a.run(words)
        self.assertNotEqual(result.status, 0, " ".join(words))
        self.assertRegex(result.stderr + result.stdout, why)

    def dummy(self, *names):
        """Make dummy netdevs with addresses 10.78.N.1."""
        script(self.a, "".join(DUMMY.format(name, n) for n, name in enumerate(names, 1)))

    def loop_back(self, device, netns=None):
        """Let two QPs of a device exchange bytes."""
        index = min((i for i, (gid, _) in gids(self.a, device).items() if ":ffff:" in gid),
                    default=None) if netns is None else None
        if index is None:
            index = min(gids(self.a, device))
        one, other = Puppet(self, self.a, netns), Puppet(self, self.a, netns)
        first = one.open(dev=device, gid=index, size=65536)
        second = other.open(dev=device, gid=index, size=65536)
        one.connect(second)
        other.connect(first)
        exchange(self, one, other)
        for each in one, other:
            self.assertEqual(each.quit().status, 0)


class LinkTest(OneHost):
    """The command ``rdma link``."""

    def test_add_and_delete(self):
        self.dummy("d1")
        for kind in "rxe", "rxe_ng":
            add(self.a, "t1", "d1", kind)
            link = links.links(self.a)["t1"]
            self.assertEqual((link["netdev"], link["state"]), ("d1", "ACTIVE"))
            self.assertEqual(sysfs(self.a, "t1", "parent"), "d1")
            self.a.run(["rdma", "link", "delete", "t1"], check=True)
            self.assertEqual(links.links(self.a), {})
        self.refused(["rdma", "link", "delete", "t1"], "(?i)wrong|no such|not found")

    def test_names(self):
        self.dummy("d1")
        for name in "r", "rdma-0", "rocep0s31f6.10", "eth0", "Rxe_0+x", "x" * 63:
            add(self.a, name, "d1")
            self.assertEqual(list(links.links(self.a)), [name])
            self.loop_back(name)
            self.a.run(["rdma", "link", "delete", name], check=True)
        for name in "with%d", "":
            result = self.a.run(["rdma", "link", "add", name, "type", "rxe", "netdev", "d1"])
            self.assertNotEqual(result.status, 0, name)
            self.assertEqual(links.links(self.a), {}, name)

    def test_name_taken(self):
        self.dummy("d1", "d2")
        add(self.a, "t1", "d1")
        result = self.a.run("rdma link add t1 type rxe netdev d2")
        self.assertNotEqual(result.status, 0)
        self.assertEqual({name: link["netdev"] for name, link in links.links(self.a).items()}, {"t1": "d1"})
        self.loop_back("t1")

    def test_second_link_on_a_netdev(self):
        self.dummy("d1")
        add(self.a, "t1", "d1")
        mark = links.mark_log(self.a)
        for kind in "rxe", "rxe_ng":
            self.refused(["rdma", "link", "add", "t2", "type", kind, "netdev", "d1"], "File exists")
        self.assertRegex("\n".join(links.new_log(self.a, mark)), "d1.*t1")
        self.assertEqual(list(links.links(self.a)), ["t1"])
        self.loop_back("t1")
        self.a.run("rdma link delete t1", check=True)
        add(self.a, "t2", "d1")

    def test_no_such_netdev(self):
        self.refused(["rdma", "link", "add", "t1", "type", "rxe", "netdev", "nowhere0"], "No such device")
        self.assertEqual(links.links(self.a), {})

    def test_netdev_too_small(self):
        script(self.a, "ip link add d1 mtu 300 type dummy; ip link set d1 up")
        mark = links.mark_log(self.a)
        self.refused(["rdma", "link", "add", "t1", "type", "rxe", "netdev", "d1"], "Invalid argument")
        self.assertRegex("\n".join(links.new_log(self.a, mark)), "d1.*MTU")
        script(self.a, "ip link set d1 mtu 340")
        add(self.a, "t1", "d1")

    def test_port_taken(self):
        """Somebody else has UDP port 4791."""
        self.dummy("d1")
        server = self.a.spawn(["python3", "-S", "-c", "import socket\n"
                               "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                               "s.bind(('', 4791))\nprint('bound', flush=True)\n"
                               "s.recv(1)"])
        server.wait_output("bound")
        self.refused(["rdma", "link", "add", "t1", "type", "rxe", "netdev", "d1"], "in use")
        server.kill()
        server.wait(30)
        add(self.a, "t1", "d1")


# Bits of enum ib_uverbs_device_cap_flags.
CAPABILITIES = {
    "BAD_PKEY_CNTR": 1, "BAD_QKEY_CNTR": 2, "CURR_QP_STATE_MOD": 7, "PORT_ACTIVE_EVENT": 10, "SYS_IMAGE_GUID": 11,
    "RC_RNR_NAK_GEN": 12, "SRQ_RESIZE": 13, "MEM_WINDOW": 17, "MEM_MGT_EXTENSIONS": 21, "MEM_WINDOW_TYPE_2B": 24,
    "ATOMIC_WRITE": 40}
FLUSHES = {"FLUSH_GLOBAL": 38, "FLUSH_PERSISTENT": 39}


class PortTest(OneHost):
    """What a port says of itself, and when."""

    def active_mtu(self, device):
        """Return active_mtu in bytes as ibv_devinfo tells it."""
        said = self.a.run(["ibv_devinfo", "-d", device], check=True).stdout
        return int(re.search(r"active_mtu:\s+(\d+)", said)[1])

    def test_mtu_follows_the_netdev(self):
        """The largest path MTU of which any packet fits: 84 bytes of headers and ICRC."""
        self.dummy("d1")
        add(self.a, "t1", "d1")
        for mtu, wanted in ((1500, 1024), (9000, 4096), (4180, 4096), (4179, 2048), (2132, 2048),
                            (2131, 1024), (1108, 1024), (1107, 512), (596, 512), (595, 256), (340, 256)):
            self.a.run(["ip", "link", "set", "d1", "mtu", mtu], check=True)
            self.assertEqual(self.active_mtu("t1"), wanted, f"netdev MTU {mtu}")

    def test_rate(self):
        add(self.a, "t1", "eth0")
        for speed, wanted in ((1000, "2.5 Gb/sec (1X SDR)"), (10000, "10 Gb/sec (1X FDR10)"),
                              (25000, "25 Gb/sec (1X EDR)"), (40000, "40 Gb/sec (4X FDR10)"),
                              (50000, "50 Gb/sec (2X EDR)"), (100000, "100 Gb/sec (4X EDR)"),
                              (200000, "200 Gb/sec (4X HDR)"), (400000, "400 Gb/sec (4X NDR)")):
            self.a.run(["ethtool", "-s", "eth0", "speed", speed, "duplex", "full"], check=True)
            self.assertEqual(sysfs(self.a, "t1", "ports/1/rate"), wanted, f"{speed} Mb/s")

    def test_attributes(self):
        """ibv_devinfo -v as a whole."""
        self.dummy("d1")
        add(self.a, "t1", "d1")
        said = self.a.run(["ibv_devinfo", "-v", "-d", "t1"], check=True).stdout
        for name, wanted in {
                "phys_port_cnt": "1", "state": r"PORT_ACTIVE \(4\)", "max_mtu": r"4096 \(5\)",
                "active_mtu": r"1024 \(3\)", "link_layer": "Ethernet", "max_msg_sz": "0x80000000",
                "phys_state": r"LINK_UP \(5\)", "atomic_cap": r"ATOMIC_GLOB \(2\)",
                # Of the port's own flags IP_BASED_GIDS alone.
                "port_cap_flags": "0x04010000", "max_vl_num": r"1 \(1\)"}.items():
            self.assertRegex(said, rf"(?m)^\s*{name}:\s+{wanted}\s*$")
        guid = re.search(r"node_guid:\s+(\S+)", said)[1]
        self.assertNotEqual(guid, "0000:0000:0000:0000")
        self.assertEqual(guid, re.search(r"sys_image_guid:\s+(\S+)", said)[1])
        mac = self.a.run("cat /sys/class/net/d1/address", check=True).stdout.strip().split(":")
        mac[0] = f"{int(mac[0], 16) ^ 2:02x}"
        for form in mac, [f"{int(mac[0], 16) ^ 2:02x}", *mac[1:]]:
            if guid.replace(":", "") == "".join([*form[:3], "ff", "fe", *form[3:]]):
                break
        else:
            self.fail(f"node GUID {guid} is not made of the MAC {':'.join(mac)}")

    def test_capabilities(self):
        """Each flag that is told, and no other one; what they stand for is in verbs, kernel and net."""
        add(self.a, "t1", "eth0")
        said = self.a.run(["ibv_devinfo", "-v", "-d", "t1"], check=True).stdout
        # Linux 6.1 lets no process ask for a FLUSH.
        flushes = {} if self.a.release.root.name == "bookworm" else FLUSHES
        wanted = sum(1 << bit for bit in [*CAPABILITIES.values(), *flushes.values()])
        told = int(re.search(r"device_cap_flags_ex:\s+0x([0-9A-Fa-f]+)", said)[1], 16)
        self.assertEqual(f"{told:#x}", f"{wanted:#x}", said)
        version = self.a.run("cat /sys/module/rxe_ng/version", check=True).stdout.strip()
        self.assertRegex(said, rf"(?m)^\s*fw_ver:\s+{re.escape(version)}$")
        self.assertIn(f" fw {version} ", self.a.run(["rdma", "dev", "show", "t1"], check=True).stdout)

    def test_speed_change(self):
        """Told once, when the netdev tells of a change; libibverbs has no name for it yet."""
        if self.a.release.root.name == "bookworm":
            self.skipTest("Linux 6.1 has no such event")
        self.a.run("ethtool -s eth0 speed 10000 duplex full", check=True)
        add(self.a, "t1", "eth0")
        watch = Watch(self.a, "t1")
        self.a.run("ip link set eth0 dynamic on", check=True)
        self.a.run("ethtool -s eth0 speed 25000; ip link set eth0 dynamic off", check=True)
        watch.command.wait_output(r"\(20\), port 1", 30 * self.slow)
        self.a.run("ip link set eth0 dynamic on; ip link set eth0 dynamic off", check=True)
        self.a.run("ip link set eth0 down", check=True)
        watch.wait("PORT_ERR")
        watch.end()
        self.assertEqual(watch.command.output.count("(20)"), 1, watch.command.output)

    def test_adaptive_moderation(self):
        """Of the CQs of kernel consumers: the switch; what it does is in kernel and apps."""
        self.dummy("d1")
        add(self.a, "t1", "d1")
        for wanted in "on", "off":
            self.a.run(["rdma", "dev", "set", "t1", "adaptive-moderation", wanted], check=True)
            said = self.a.run(["rdma", "-d", "dev", "show", "t1"], check=True).stdout
            self.assertRegex(said, rf"adaptive-moderation {wanted}\b")

    def test_up_and_down(self):
        self.dummy("d1")
        add(self.a, "t1", "d1")
        wait_state(self.a, "t1", "ACTIVE")
        watch = Watch(self.a, "t1")
        cycle = (("ip link set d1 down", "DOWN", "Disabled"), ("ip link set d1 up", "ACTIVE", "LinkUp"),
                 ("ip link set d1 carrier off", "DOWN", "Polling"),
                 ("ip link set d1 carrier on", "ACTIVE", "LinkUp"))
        for round in range(2):
            for n, (command, state, physical) in enumerate(cycle):
                self.a.run(command, check=True)
                watch.wait("PORT_ACTIVE" if state == "ACTIVE" else "PORT_ERR", 2 * round + n // 2 + 1)
                wait_state(self.a, "t1", state)
                self.assertIn(physical, sysfs(self.a, "t1", "ports/1/phys_state"))
        events = [name for name in watch.end() if name.startswith("PORT")]
        self.assertEqual(events, ["PORT_ERR", "PORT_ACTIVE"] * 4)

    def test_cable(self):
        """The NIC loses its carrier, and gets it back."""
        add(self.a, "t1", "eth0")
        wait_state(self.a, "t1", "ACTIVE")
        watch = Watch(self.a, "t1")
        self.a.set_link(False)
        watch.wait("PORT_ERR")
        wait_state(self.a, "t1", "DOWN")
        self.a.set_link(True)
        watch.wait("PORT_ACTIVE")
        wait_state(self.a, "t1", "ACTIVE")
        self.assertEqual([n for n in watch.end() if n.startswith("PORT")], ["PORT_ERR", "PORT_ACTIVE"])

    def test_added_while_down(self):
        script(self.a, "ip link add d1 type dummy")
        add(self.a, "t1", "d1")
        self.assertIn("DOWN", sysfs(self.a, "t1", "ports/1/state"))
        watch = Watch(self.a, "t1")
        self.a.run("ip link set d1 up", check=True)
        watch.wait("PORT_ACTIVE")
        wait_state(self.a, "t1", "ACTIVE")
        watch.end()

    def test_address(self):
        """Another MAC: the node is still the same one, and the default GID is made of the new MAC."""
        self.dummy("d1")
        add(self.a, "t1", "d1")
        guid = sysfs(self.a, "t1", "node_guid")
        script(self.a, "ip link set d1 down; ip link set d1 address 02:00:00:aa:bb:cc; ip link set d1 up")
        self.a.wait_for(f"grep -q '^fe80.*:0000:00ff:feaa:bbcc$' {SYSFS}/t1/ports/1/gids/0")
        self.assertEqual(sysfs(self.a, "t1", "node_guid"), guid)
        self.a.wait_for("ip -6 addr show dev d1 scope link | grep inet6 | grep -qv tentative")
        self.assertEqual(len([gid for gid, _ in gids(self.a, "t1").values() if gid.startswith("fe80")]), 1)
        self.loop_back("t1")

    def test_rename(self):
        self.dummy("d1")
        add(self.a, "t1", "d1")
        script(self.a, "ip link set d1 down; ip link set d1 name renamed0; ip link set renamed0 up")
        self.assertEqual(links.links(self.a)["t1"]["netdev"], "renamed0")
        self.assertEqual(sysfs(self.a, "t1", "parent"), "renamed0")
        wait_state(self.a, "t1", "ACTIVE")
        self.a.run("ip addr add 10.78.9.1/24 dev renamed0", check=True)
        self.a.wait_for(f"grep -q '^0000.*:ffff:0a4e:0901' {SYSFS}/t1/ports/1/gids/*")
        self.assertEqual({netdev for _, netdev in gids(self.a, "t1").values()}, {"renamed0"})
        self.refused(["rdma", "link", "add", "t2", "type", "rxe", "netdev", "renamed0"], "File exists")
        self.loop_back("t1")


class EndTest(OneHost):
    """What becomes of links whose netdev, namespace or module goes."""

    def test_netdev_goes(self):
        self.dummy("d1", "d2")
        add(self.a, "t1", "d1")
        add(self.a, "t2", "d2")
        self.a.run("ip link del d1", check=True)
        wait_gone(self.a, "t1")
        self.assertEqual(list(links.links(self.a)), ["t2"])
        self.loop_back("t2")

    def test_netdev_goes_under_an_open_device(self):
        self.dummy("d1")
        add(self.a, "t1", "d1")
        watch = Watch(self.a, "t1")
        self.a.run("ip link del d1", check=True)
        wait_gone(self.a, "t1")
        watch.wait("DEVICE_FATAL")
        self.assertEqual(watch.end().count("DEVICE_FATAL"), 1)
        self.a.run("rmmod rxe_ng", check=True)

    def test_namespace_goes(self):
        self.dummy("d1")
        add(self.a, "t1", "d1")
        script(self.a, "ip netns add ns1; ip -n ns1 link set lo up; "
                       "ip -n ns1 link add n1 type dummy; ip -n ns1 link set n1 up; "
                       "ip -n ns1 addr add 10.79.0.1/24 dev n1")
        add(self.a, "t2", "n1", netns="ns1")
        wait_state(self.a, "t2", "ACTIVE")
        self.a.run("ip netns del ns1", check=True)
        wait_gone(self.a, "t2")
        self.loop_back("t1")

    def test_netdev_moves_to_a_namespace(self):
        """It leaves the namespace of its link: the link goes, and may be made there."""
        self.dummy("d1")
        add(self.a, "t1", "d1")
        script(self.a, "ip netns add ns1; ip link set d1 netns ns1")
        wait_gone(self.a, "t1")
        script(self.a, "ip -n ns1 link set d1 up; ip -n ns1 addr add 10.78.1.1/24 dev d1")
        add(self.a, "t1", "d1", netns="ns1")
        self.loop_back("t1", netns="ns1")

    @limit(300)
    def test_polled_while_its_namespace_goes(self):
        """Somebody reads the port at every moment of its end."""
        poller = self.a.spawn(
            "trap 'echo polled $n; exit' TERM; n=0; while :; do "
            f"cat {SYSFS}/t1/ports/1/state {SYSFS}/t1/ports/1/rate {SYSFS}/t1/ports/1/phys_state "
            f"{SYSFS}/t1/ports/1/gids/* {SYSFS}/t1/ports/1/gid_attrs/ndevs/* "
            ">/dev/null 2>&1; n=$((n + 1)); done")
        asker = self.a.spawn("trap 'echo asked $n; exit' TERM; n=0; while :; do "
                             "ibv_devinfo -v -d t1 2>/dev/null | grep -q active_mtu && n=$((n + 1)) && "
                             "touch /tmp/asked; done")
        # Ten times, and until the slower one of them has once come at the right moment.
        script(self.a, "rm -f /tmp/asked; i=0; until [ $i -ge 10 ] && [ -e /tmp/asked ]; do i=$((i + 1)); "
                       "ip netns add ns1; "
                       "ip -n ns1 link add n1 type dummy; ip -n ns1 link set n1 up; "
                       "ip -n ns1 addr add 10.79.0.1/24 dev n1; "
                       "ip netns exec ns1 rdma link add t1 type rxe netdev n1; "
                       "ip netns del ns1; "
                       f"while [ -e {SYSFS}/t1 ]; do sleep 0.02; done; done", timeout=200 * self.slow)
        for command, word in (poller, "polled"), (asker, "asked"):
            command.kill(15)
            count = int(command.wait_output(rf"{word} (\d+)", 30 * self.slow)[1])
            self.assertGreater(count, 0, word)

    def test_unload_at_first_try(self):
        self.dummy("d1")
        for round in range(3):
            add(self.a, "t1", "d1")
            self.loop_back("t1")
            script(self.a, "rdma link delete t1; rmmod rxe_ng; load-rxe_ng")

    def test_unload_with_links(self):
        """As rdma_rxe does: links that nobody uses go with the module."""
        self.dummy("d1", "d2")
        add(self.a, "t1", "d1")
        add(self.a, "t2", "d2")
        script(self.a, f"rmmod rxe_ng; [ ! -e {SYSFS}/t1 ]; [ ! -e {SYSFS}/t2 ]; load-rxe_ng")

    @limit(400)
    def test_load_and_unload_20_times(self):
        script(self.a, "ip link add d1 type dummy; ip link set d1 up; rmmod rxe_ng; "
                       "for i in $(seq 20); do load-rxe_ng; rdma link add t1 type rxe netdev d1; "
                       "rdma link delete t1; rmmod rxe_ng; done; load-rxe_ng", timeout=300 * self.slow)


class Exclusion(OneHost):
    """rdma_rxe and ours are not loaded together."""

    drivers = "none"

    def excluded(self, first, second, gone):
        host = self.a
        script(host, "ip link add d1 type dummy; ip link set d1 up; ip addr add 10.78.1.1/24 dev d1;"
               + first)
        add(host, "t1", "d1")
        mark = links.mark_log(host)
        result = host.run(second)
        self.assertNotEqual(result.status, 0)
        said = "\n".join(links.new_log(host, mark))
        self.assertRegex(said, "rxe_ng: .*rdma_rxe.*")
        self.assertNotIn(gone, host.run("ls /sys/module", check=True).stdout.split())
        self.loop_back("t1")
        return said

    def test_ours_first(self):
        self.excluded("load-rxe_ng", "modprobe rdma_rxe", "rdma_rxe")
        script(self.a, "rmmod rxe_ng; modprobe rdma_rxe; rmmod rdma_rxe")

    def test_theirs_first(self):
        said = self.excluded("modprobe -a rdma_rxe ib_uverbs", "load-rxe_ng", "rxe_ng")
        self.assertRegex(said, "modprobe -r rdma_rxe|rmmod rdma_rxe|remove it")
        script(self.a, "rmmod rdma_rxe; load-rxe_ng; rmmod rxe_ng")
