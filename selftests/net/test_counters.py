# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What makes the counters of a port go, how far, and that no other one goes with them."""

import re
import struct
import sys
import time

from runner import SELFTESTS, VmTestCase

from interop import puppet
from interop.puppet import Puppet
from links import SYSFS, add, counters, script

# Packets made by hand are made as those of the wire's tests.
sys.path.append(str(SELFTESTS / "wire"))
import roce  # noqa: E402
from capture import Folder, send  # noqa: E402
sys.path.pop()

MTU = 1024
GRH = 40
QKEY = 0x11111111
# No QP ever has this number.
NOBODY = 2
# First PSNs of a peer that is not there, and of the QP that believes to have it.
EPSN, SPSN = 1000, 500
# Packets that a QP's inbox holds (rxe_ng/inbox.c).
INBOX = 1024
GROUP, GROUP6 = "::ffff:239.1.2.3", "ff15::1:2:3"

# Those that go with every packet, or with a queue that is full for a moment.
TRAFFIC = {"tx_pkts", "tx_bytes", "rx_pkts", "rx_bytes", "tx_congested", "port_xmit_data", "port_rcv_data",
           "port_xmit_packets", "port_rcv_packets", "unicast_xmit_packets", "unicast_rcv_packets"}


def read(host, device="rxe0"):
    """Return all counters of a device: the module's own, sysfs' and the port's attributes."""
    found = counters(host, device)
    text = host.run(f"cd {SYSFS}/{device}/ports/1/counters && grep . * && ibv_devinfo -v -d {device}",
                    check=True).stdout
    found |= {name: int(value) for name, value in re.findall(r"(?m)^(\w+):(\d+)$", text)}
    return found | {name: int(value, 16) for name, value in
                    re.findall(r"\b(bad_pkey_cntr|qkey_viol_cntr):\s*(0x[0-9a-f]+)", text)}


class Cause:
    """What causes something, and which counters it moves how far on the first host and on the second."""

    def __init__(self, run, here, there):
        self.run, self.here, self.there = run, here, there


def connected(test, kind="rc", six=False, **arguments):
    """Return an end on each host, the two connected; nothing is sent twice because it took long."""
    ends = [Puppet(test, host) for host in (test.a, test.b)]
    for one in ends:
        one.open(dev="rxe0", gid=test.gid(one.host, one.host.ipv6 if six else None), type=kind,
                 **{"timeout": 0, "size": 65536, "mtu": MTU, **arguments})
    ends[0].connect(ends[1].ends[0])
    ends[1].connect(ends[0].ends[0])
    return ends


def ends_as(test, one, status):
    """The only request of an end completes so."""
    test.assertEqual(one.do("poll", ms=60000).get("status"), status)


# Errors of a request.

def bad_lkey(test):
    one, _ = connected(test)
    one.do("post", op="write", len=64, lkey=one.ends[0]["rkey"] ^ 0x5a5a00)
    ends_as(test, one, puppet.LOC_PROT)


def bad_rkey(test):
    one, other = connected(test)
    one.do("post", op="write", len=64, rkey=other.ends[0]["rkey"] ^ 0x5a5a00)
    ends_as(test, one, puppet.REM_ACCESS)


def receive_too_short(test):
    one, other = connected(test)
    other.do("recv", len=32)
    one.do("post", op="send", len=64)
    ends_as(test, one, puppet.REM_INV_REQ)


def no_receive(test):
    one, _ = connected(test, rnr=1)
    one.do("post", op="send", len=64)
    ends_as(test, one, puppet.RNR_RETRY_EXC)


def peer_is_gone(test):
    one, other = connected(test, timeout=10, retry=2)
    other.do("destroy")
    one.do("post", op="write", len=64)
    ends_as(test, one, puppet.RETRY_EXC)


def own_address_is_gone(test):
    """Of an address of its own: eth0's others stay."""
    ends = []
    for host in test.a, test.b:
        host.run(f"ip addr add 10.77.1.{host.number}/24 dev eth0", check=True)
        one = Puppet(test, host)
        one.open(dev="rxe0", gid=test.gid(host, f"10.77.1.{host.number}"), timeout=0, size=65536)
        ends.append(one)
    ends[0].connect(ends[1].ends[0])
    test.a.run("ip addr del 10.77.1.1/24 dev eth0", check=True)
    ends[0].do("post", op="write", len=64)


def completions_pile_up(test):
    """One more than the CQ holds; it is the last request, so that nothing is flushed into the CQ."""
    one, _ = connected(test, depth=64, cqe=4)
    one.do("post", op="write", len=64, n=one.ends[0]["cqe"] + 1)


# Messages of unreliable QPs.

def uc_bad_rkey(test):
    one, other = connected(test, "uc")
    one.do("post", op="write", len=64, rkey=other.ends[0]["rkey"] ^ 0x5a5a00)
    ends_as(test, one, puppet.SUCCESS)


def uc_no_receive(test):
    one, _ = connected(test, "uc")
    one.do("post", op="send", len=64)
    ends_as(test, one, puppet.SUCCESS)


def datagram(test, length=64, room=None, **options):
    """Send a datagram; room: bytes of the receive that awaits it."""
    one, other = connected(test, "ud")
    if room:
        other.do("recv", len=room)
    one.do("post", op="send", len=length, **options)
    ends_as(test, one, puppet.SUCCESS)


def group(test, gid, six=False):
    """Send three datagrams to a group that the second host is in."""
    one, other = connected(test, "ud", six)
    other.do("join", gid=gid)
    other.do("recv", n=3, len=GRH + 64)
    one.connect({"qpn": roce.GROUP_QPN, "psn": 0, "gid": gid})
    one.do("post", op="send", len=64, n=3)
    for end in one, other:
        test.assertEqual(end.do("drain", n=3), {"got": 3, "status": 0})


# Packets that a peer should not send.

def victim(test):
    """Return an end on the first host whose peer is nobody on the second one."""
    one = Puppet(test, test.a)
    one.open(dev="rxe0", gid=test.gid(test.a), psn=SPSN, timeout=0, size=65536, mtu=MTU)
    one.connect({"qpn": NOBODY, "psn": EPSN, "gid": f"::ffff:{test.b.ipv4}"})
    return one


def attack(test, one, opcode, psn, headers=b"", payload=b"", times=1, crc=None, **options):
    """Send a packet to a victim from the second host, made by hand."""
    wire = roce.Wire("52:54:00:77:00:02", "52:54:00:77:00:01", test.b.ipv4, test.a.ipv4)
    body = roce.transport(opcode, one.ends[0]["qpn"], psn, headers, payload, **options)
    send(Folder(test), test.b, [wire.frame(body, crc=crc)], times)


def write_to(one, length):
    """Return the RETH of a WRITE that a victim allows."""
    return roce.reth(one.ends[0]["va"], one.ends[0]["rkey"], length)


def nak_sequence(test):
    one = victim(test)
    one.do("post", op="write", len=64)
    test.wait(test.b, {"rx_no_qp": 1})
    attack(test, one, roce.ACK, SPSN, roce.aeth(roce.NAK_PSN, 1))


def past(test):
    """Acknowledged again, to nobody."""
    one = victim(test)
    attack(test, one, roce.WRITE_ONLY, EPSN - 1, write_to(one, 8), bytes(8))


def future(test):
    """Answered by a NAK, once more after a while since nobody sends what is missing."""
    one = victim(test)
    attack(test, one, roce.WRITE_ONLY, EPSN + 1, write_to(one, 8), bytes(8))


def bad_pkey(test):
    attack(test, victim(test), roce.SEND_ONLY, EPSN, payload=bytes(8), pkey=0x8001, times=4)


def damaged(test):
    """The ICRC of some, the transport's version of others."""
    one = victim(test)
    attack(test, one, roce.SEND_ONLY, EPSN, payload=bytes(8), crc=b"wrng", times=3)
    attack(test, one, roce.SEND_ONLY, EPSN, payload=bytes(8), version=1, times=2)


CAUSES = {
    "bad_lkey": Cause(bad_lkey, {"local_err": 1}, {}),
    "bad_rkey": Cause(bad_rkey, {"remote_err": 1}, {"rx_bad_access": 1}),
    "receive_too_short": Cause(receive_too_short, {"remote_err": 1}, {"local_err": 1}),
    "no_receive": Cause(no_receive, {"rx_rnr": 1, "rnr_retry_exceeded": 1}, {"tx_rnr": 2}),
    "peer_is_gone": Cause(peer_is_gone, {"retransmit": 2, "retry_exceeded": 1}, {"rx_no_qp": 3}),
    "own_address_is_gone": Cause(own_address_is_gone, {"tx_no_route": 1, "port_xmit_discards": 1}, {}),
    "completions_pile_up": Cause(completions_pile_up, {"cq_overflow": 1}, {}),
    "uc_bad_rkey": Cause(uc_bad_rkey, {}, {"rx_bad_access": 1}),
    "uc_no_receive": Cause(uc_no_receive, {}, {"out_of_buffer": 1}),
    "datagram_no_receive": Cause(datagram, {}, {"out_of_buffer": 1}),
    "datagram_too_long": Cause(lambda test: datagram(test, MTU + 1), {"tx_too_long": 1}, {}),
    "datagram_too_long_for_its_receive":
        Cause(lambda test: datagram(test, room=GRH + 63), {}, {"rx_too_long": 1}),
    "datagram_bad_qkey":
        Cause(lambda test: datagram(test, room=GRH + 64, qkey=QKEY + 1), {},
              {"rx_bad_qkey": 1, "qkey_viol_cntr": 1}),
    "group": Cause(lambda test: group(test, GROUP), {"tx_mcast_pkts": 3, "multicast_xmit_packets": 3},
                   {"rx_mcast_pkts": 3, "multicast_rcv_packets": 3}),
    "group_ipv6": Cause(lambda test: group(test, GROUP6, True), {"tx_mcast_pkts": 3, "multicast_xmit_packets": 3},
                        {"rx_mcast_pkts": 3, "multicast_rcv_packets": 3}),
    "nak_sequence": Cause(nak_sequence, {"rx_nak_seq": 1, "retransmit": 1}, {"rx_no_qp": 2}),
    "past": Cause(past, {"dup_request": 1}, {"rx_no_qp": 1}),
    "future": Cause(future, {"out_of_seq_request": 1}, {"rx_no_qp": 2}),
    "bad_pkey": Cause(bad_pkey, {"rx_bad_pkey": 4, "bad_pkey_cntr": 4}, {}),
    "damaged": Cause(damaged, {"rx_icrc_err": 3, "rx_malformed": 2, "port_rcv_errors": 5}, {}),
}


class CounterTest(VmTestCase):
    """One test for each of CAUSES."""

    def setUp(self):
        self.before = {host: read(host) for host in (self.a, self.b)}

    def moved(self, host):
        """Return how far counters of a host went since the test began, without those of any traffic."""
        before = self.before[host]
        return {name: value - before[name] for name, value in read(host).items()
                if value != before[name] and name not in TRAFFIC}

    def wait(self, host, wanted):
        """Wait until counters of a host went so far; if they never do, who compares them says so."""
        end = time.monotonic() + 30 * self.slow
        while time.monotonic() < end:
            moved = self.moved(host)
            if all(moved.get(name, 0) >= value for name, value in wanted.items()):
                break
            time.sleep(0.1)

    def check(self, cause):
        """Let something happen, and compare."""
        cause.run(self)
        self.wait(self.a, cause.here)
        self.wait(self.b, cause.there)
        # Whatever is still on its way is there before these.
        for host, peer in (self.a, self.b), (self.b, self.a):
            host.run(["ping", "-c", "2", "-i", "0.1", "-W", "20", peer.ipv4], check=True, timeout=60 * self.slow)
        self.assertEqual((self.moved(self.a), self.moved(self.b)), (cause.here, cause.there))


def _add_tests():
    for name, cause in CAUSES.items():
        def test(self, cause=cause):
            self.check(cause)
        setattr(CounterTest, f"test_{name}", test)


_add_tests()


class WhoseTest(VmTestCase):
    """Devices t1 and t2 on v2 and v4, which have one address; packets come by v1 and v3."""

    hosts = 1
    ADDRESS = "10.79.0.2"

    def setUp(self):
        for n in 1, 2:
            here, there = f"v{2 * n}", f"v{2 * n - 1}"
            script(self.a, f"ip link add {there} type veth peer name {here}; ip link set {there} up; "
                           f"ip link set {here} up; ip addr add {self.ADDRESS}/32 dev {here}")
            add(self.a, f"t{n}", here)

    def mac(self, netdev):
        return self.a.run(["cat", f"/sys/class/net/{netdev}/address"], check=True).stdout.strip()

    def send(self, n, frame_of, mac, address):
        """Send five packets to device t1 or t2, and tell which counters of which device moved how far."""
        before = {name: counters(self.a, name) for name in ("t1", "t2")}
        wire = roce.Wire(self.mac(f"v{2 * n - 1}"), mac, "10.79.0.1", address)
        send(Folder(self), self.a, [wire.frame(frame_of)], 5, interface=f"v{2 * n - 1}")
        moved = {}
        end = time.monotonic() + 30 * self.slow
        # Of the five the first one may have come alone: its bytes do not tell.
        while all(each.endswith("_bytes") for _, each in moved) and time.monotonic() < end:
            after = {name: counters(self.a, name) for name in ("t1", "t2")}
            moved = {(name, each): after[name][each] - before[name][each] for name in after for each in after[name]
                     if after[name][each] - before[name][each] >= 5}
        return moved

    def test_stray_of_a_group(self):
        """It counts with the device that it came in by, which here is not the first one."""
        for n in 1, 2:
            script(self.a, f"ip addr add 239.1.2.{n}/32 dev v{2 * n} autojoin")
            stray = roce.transport(roce.UD_SEND_ONLY, roce.GROUP_QPN, 1, struct.pack(">II", QKEY, NOBODY))
            moved = self.send(n, stray, roce.group_mac(f"239.1.2.{n}"), f"239.1.2.{n}")
            self.assertEqual(moved, {(f"t{n}", "rx_no_qp"): 5})

    def test_qp_1(self):
        """That of the device that it came in by is meant."""
        for n in 1, 2:
            mad = roce.transport(roce.UD_SEND_ONLY, 1, 1, struct.pack(">II", 0x80010000, 1), bytes(256))
            moved = self.send(n, mad, self.mac(f"v{2 * n}"), self.ADDRESS)
            self.assertEqual(moved.pop((f"t{n}", "rx_pkts")), 5)
            self.assertEqual({name for name, _ in moved}, {f"t{n}"})


class Plugged(VmTestCase):
    """A device t1 on v2, to which v1 brings packets all at once when the plug is drawn."""

    hosts = 1
    # So that a CPU takes all of them before it turns to a QP.
    KNOBS = {"dev_weight": 4096, "netdev_budget": 100000, "netdev_budget_usecs": 10000000,
             "netdev_max_backlog": 40000, "wmem_default": 1 << 28}

    def setUp(self):
        for name, value in self.KNOBS.items():
            path = f"/proc/sys/net/core/{name}"
            old = self.a.run(["cat", path], check=True).stdout.strip()
            self.addCleanup(self.a.run, f"echo {old} >{path}")
            self.a.run(f"echo {value} >{path}", check=True)
        script(self.a, "modprobe sch_plug; ip link add v1 mtu 9000 type veth peer name v2 mtu 9000; "
                       "ip link set v1 up; ip link set v2 up; ip addr add 10.79.0.2/24 dev v2; "
                       "tc qdisc add dev v1 root handle 1: plug limit 1000000000")
        add(self.a, "t1", "v2")

    def macs(self):
        return [self.a.run(["cat", f"/sys/class/net/v{n}/address"], check=True).stdout.strip() for n in (1, 2)]

    def open(self, puppet, q=0):
        """Return a frame for a new QP of datagrams, with a payload of its maximum."""
        puppet.open(q=q, dev="t1", gid=self.gid(self.a, "10.79.0.2", "t1"), type="ud", size=65536)
        puppet.connect(puppet.ends[q], q=q)
        return roce.Wire(*self.macs(), "10.79.0.1", "10.79.0.2").frame(roce.transport(
            roce.UD_SEND_ONLY, puppet.ends[q]["qpn"], 1, struct.pack(">II", QKEY, NOBODY), bytes(4096)))

    def deliver(self, frames, times, received=0):
        """Bring each frame so many times, in order; return how far which counters moved.

        So many of them find a receive.
        """
        self.a.run("tc qdisc change dev v1 root handle 1: plug block", check=True)
        before = counters(self.a, "t1")
        for frame in frames:
            send(Folder(self), self.a, [frame], times, interface="v1")
        self.assertEqual(counters(self.a, "t1"), before, "they do not wait")
        self.a.run("tc qdisc change dev v1 root handle 1: plug release_indefinite", check=True)
        folder, total = f"{SYSFS}/t1/ports/1/hw_counters", len(frames) * times
        self.a.wait_for(f"cd {folder} && [ $(cat rx_pkts) -ge {before['rx_pkts'] + total} ]",
                        timeout=60 * self.slow)
        # Those that find a place wait for their QP's turn.
        lost = before["rx_queue_full"] + before["out_of_buffer"] + total - received
        self.a.wait_for(f"cd {folder} && [ $(($(cat rx_queue_full) + $(cat out_of_buffer))) -ge {lost} ]",
                        timeout=60 * self.slow)
        after = counters(self.a, "t1")
        return {name: after[name] - before[name] for name in after if after[name] != before[name]}


class InboxTest(Plugged):
    """More packets in one go than a QP's inbox holds."""

    PACKETS = 1500

    def test_full(self):
        moved = self.deliver([self.open(Puppet(self, self.a))], self.PACKETS)
        moved.pop("rx_bytes")
        self.assertEqual(moved, {"rx_pkts": self.PACKETS, "rx_queue_full": self.PACKETS - INBOX,
                                 "out_of_buffer": INBOX})


class InboxMemoryTest(Plugged):
    """More packets for many QPs, each of which has room, than all inboxes may hold."""

    memory = "768M"
    limit = 300
    QPS = 32

    def test_bound(self):
        one = Puppet(self, self.a)
        frames = [self.open(one, q) for q in range(self.QPS)]
        # Those that come when there is no memory left, and who still gets some.
        one.do("recv", q=self.QPS - 1, len=GRH + 4096)
        total = self.QPS * INBOX
        moved = self.deliver(frames, INBOX, received=1)
        self.assertEqual(moved["out_of_buffer"] + moved["rx_queue_full"] + 1, total)
        memory = int(self.a.run("awk '/MemTotal/ { print $2 }' /proc/meminfo", check=True).stdout) * 1024
        # An eighth of what is the network's to use, which is less than all; each takes more than its bytes.
        self.assertLess((moved["out_of_buffer"] + 1) * 4096, memory / 8)
        self.assertGreater(moved["out_of_buffer"], self.QPS // 8 * INBOX)
        self.assertEqual(one.do("drain", q=self.QPS - 1), {"got": 1, "status": 0})
        # All of it is free again.
        moved = self.deliver(frames[:1], INBOX)
        self.assertEqual(moved["out_of_buffer"], INBOX)
