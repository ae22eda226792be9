# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What ours puts on the wire, read by programs that share no line with it."""

import collections
import json

from runner import VmTestCase, limit

import roce
from capture import Capture, Folder
from interop import puppet
from interop.puppet import Puppet

# What has to be in a capture of all operations.
ALL = set(roce.FORM) - {roce.SEND_LAST_INV, roce.SEND_ONLY_INV}
SCAPY = """
import json, sys
from scapy.all import rdpcap, UDP
from scapy.contrib.roce import BTH
found = {}
for number, packet in enumerate(rdpcap(sys.argv[1]), 1):
    if BTH not in packet:
        continue
    bth = packet[BTH]
    found[number] = bth.compute_icrc(bytes(bth)[:-4]).hex()
print(json.dumps(found))
"""


class Captured(VmTestCase):
    """Two hosts of ours; the capture is made on the second one."""

    limit = 240

    def setUp(self):
        self.folder = Folder(self)

    def matrix(self, *options, six=False):
        """All operations from the first host to the second."""
        program = {host: self.program(host, "interop", "rc_matrix") for host in (self.a, self.b)}

        def words(host):
            return [program[host], "-d", "rxe0", "-g", self.gid(host, host.ipv6 if six else None),
                    *map(str, options)]
        server = self.b.spawn(words(self.b))
        self.b.wait_port(18600)
        client = self.a.spawn([*words(self.a), self.b.ipv6 if six else self.b.ipv4])
        self.together(client, server, timeout=200 * self.slow)

    def check_packets(self, packets, mtu):
        """Each packet by itself, then the sequence of each direction of the connection."""
        for packet in packets:
            roce.check(packet, mtu)
        flows = collections.defaultdict(list)
        for packet in packets:
            flows[packet.saddr].append(packet)
        self.assertEqual(len(flows), 2, list(flows))
        self.check_requests([p for p in packets if p.is_request and p.saddr == self.asker], mtu)
        self.check_responses([p for p in packets if not p.is_request and p.saddr != self.asker])

    def check_requests(self, requests, mtu):
        """No PSN is left out, each message begins and ends, and asks for an acknowledge at its end."""
        expected, message = requests[0].psn, None
        for packet in requests:
            ahead = (packet.psn - expected) & 0xffffff
            if ahead >= 1 << 23:
                message = None          # sent again
                continue
            self.assertEqual(ahead, 0, f"{packet}: PSN {expected} was left out")
            operation = packet.operation
            first = operation in (roce.SEND_FIRST, roce.WRITE_FIRST)
            inside = operation in (roce.SEND_MIDDLE, roce.SEND_LAST, roce.SEND_LAST_IMM,
                                   roce.WRITE_MIDDLE, roce.WRITE_LAST, roce.WRITE_LAST_IMM)
            kind = "SEND" if operation <= roce.SEND_ONLY_IMM else "WRITE"
            if inside and message:
                self.assertEqual(message, kind, packet)
            if operation in roce.MIDDLES or first:
                message = kind
            else:
                message = None
            expected = (expected + packet.psns(mtu)) & 0xffffff

    def check_responses(self, responses):
        """MSNs never go back, but of answers that were asked for again, which are as they were."""
        msn = psn = None
        for packet in responses:
            if psn is not None and (packet.psn - psn) & 0xffffff >= 1 << 23:
                continue
            psn = packet.psn
            if packet.opcode == roce.READ_RESP_MIDDLE or packet.syndrome >> 5:
                continue
            if msn is not None:
                self.assertLess((packet.msn - msn) & 0xffffff, 1 << 23, f"{packet}: MSN {packet.msn} after {msn}")
            msn = packet.msn

    def check_tshark(self, name, packets):
        """tshark finds InfiniBand in each of them, with the same opcodes, and nothing malformed.

        It must not take payloads that look like something for RPC over RDMA, nor an empty datagram for
        Mellanox' Ethernet over InfiniBand.
        """
        said = self.b.run(
            ["tshark", "-n", "--disable-protocol", "rpcordma", "--disable-protocol", "infiniband.eoib",
             "-r", self.folder.there(name), "-Y", f"udp.dstport == {roce.PORT}", "-T", "fields",
             "-e", "frame.number", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn",
             "-e", "infiniband.bth.destqp", "-e", "_ws.malformed", "-e", "_ws.expert.message"],
            timeout=200 * self.slow, check=True).stdout
        rows = [line.split("\t") for line in said.splitlines()]
        self.assertEqual(len(rows), len(packets))
        for row, packet in zip(rows, packets):
            number, opcode, psn, qpn, malformed, expert = row + [""] * (6 - len(row))
            self.assertEqual((int(number), int(opcode, 0), int(psn, 0), int(qpn, 0)),
                             (packet.number, packet.opcode, packet.psn, packet.qpn), row)
            # RoCEv2 leaves out the UDP checksum over IPv6, too: the ICRC does its work.
            if ":" in packet.saddr and expert == "Illegal checksum value (0)":
                expert = ""
            self.assertEqual((malformed, expert), ("", ""), packet)

    def check_scapy(self, name, packets):
        """scapy's ICRC is the one in the packets (of IPv4 only: Debian 12's knows no other)."""
        said = self.b.run(["python3", "-c", SCAPY, self.folder.there(name)], timeout=200 * self.slow,
                          check=True).stdout
        found = {int(number): value for number, value in json.loads(said).items()}
        self.assertEqual(found, {p.number: p.icrc.hex() for p in packets})


class CaptureTest(Captured):
    """Captures of everything."""

    def capture(self, *options, mtu=1024, six=False):
        """Capture a run of rc_matrix; check it by our own reader and tshark."""
        self.asker = self.a.ipv6 if six else self.a.ipv4
        capture = Capture(self.folder, self.b)
        self.matrix(*options, six=six)
        packets = capture.stop(self.a)
        self.check_packets(packets, mtu)
        self.check_tshark("capture.pcap", packets)
        return packets

    @limit(600)
    def test_every_operation(self):
        packets = self.capture("-n", 0, "-b", 20000)
        # Neither the library nor the kernel of Debian 12 knows FLUSH.
        unknown = {roce.FLUSH} if self.a.release.name == "bookworm" else set()
        self.assertEqual(ALL - unknown - {packet.opcode for packet in packets}, set())
        self.check_scapy("capture.pcap", packets)

    @limit(600)
    def test_ipv6(self):
        packets = self.capture("-n", 200, "-b", 5000, six=True)
        self.assertTrue(all(packet.udp_checksum == 0 for packet in packets))

    @limit(600)
    def test_stream_across_the_end_of_psns(self):
        packets = self.capture("-x", "-n", 300, "-m", 256, "-l", 3000, "-P", 0xffff00, mtu=256)
        psns = [p.psn for p in packets if p.is_request and p.saddr == self.asker]
        self.assertLess(min(psns), 0x800)
        self.assertGreater(max(psns), 0xffff00)

    def test_group_macs(self):
        """What packets are measured by: the low 23 bits of IPv4, the low 32 of IPv6."""
        for group, mac in (("239.1.2.3", "01:00:5e:01:02:03"), ("224.128.64.32", "01:00:5e:00:40:20"),
                           ("ff15::1:2:3", "33:33:00:02:00:03"), ("ff02::1", "33:33:00:00:00:01")):
            self.assertEqual(roce.group_mac(group), mac)

    def test_read_of_the_reader(self):
        """The checks of this file fail on packets that are not right."""
        wire = roce.Wire("52:54:00:00:00:01", "52:54:00:00:00:02", "10.0.0.1", "10.0.0.2")
        good = roce.transport(roce.SEND_ONLY, 17, 5, payload=b"12345")
        roce.check(roce.dissect(1, 0, wire.frame(good)), 1024)
        for body, options in ((good, {"crc": bytes(4)}), (good, {"flags": 0}), (good, {"sport": 99}),
                              (roce.transport(roce.SEND_ONLY, 17, 5, payload=b"12345", version=1), {}),
                              (roce.transport(roce.SEND_ONLY, 17, 5, payload=b"12345", pkey=1), {}),
                              (good[:-3] + b"\x01\x02\x03", {}),
                              (roce.transport(roce.SEND_FIRST, 17, 5, payload=b"12345"), {}),
                              (roce.transport(roce.SEND_LAST, 17, 5), {}),
                              (roce.transport(roce.WRITE_ONLY, 17, 5, roce.reth(1, 2, 3), b"1234"), {})):
            with self.assertRaises(roce.Malformed):
                roce.check(roce.dissect(1, 0, wire.frame(body, **options)), 1024)
        for body in roce.transport(255, 17, 5), good[:12], roce.transport(roce.ACK, 17, 5)[:-1] + b"":
            with self.assertRaises(roce.Malformed):
                roce.dissect(1, 0, wire.frame(body[:13], crc=b""))


class FieldTest(Captured):
    """Fields that the consumer chooses."""

    def send_one(self, **arguments):
        """One WRITE over a new connection; return its packets as the second host sees them."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        capture = Capture(self.folder, self.b)
        puppet.pair(self, one, other, **arguments)
        one.do("post", op="write", len=3000, n=4)
        self.assertEqual(one.do("drain", n=4), {"got": 4, "status": 0})
        packets = capture.stop(self.a)
        mine = [p for p in packets if p.saddr == self.a.ipv4]
        self.assertGreaterEqual(len(mine), 12)
        for packet in packets:
            roce.check(packet, 1024)
        return mine, [p for p in packets if p.saddr != self.a.ipv4]

    def test_traffic_class(self):
        """DSCP is what was asked for, in both directions; ECN is not for users to set."""
        for tclass in 0, 0xb8, 0x68 | 3:
            requests, responses = self.send_one(tclass=tclass)
            self.assertEqual({p.tos & 0xfc for p in requests + responses}, {tclass & 0xfc})

    def test_traffic_class_changes(self):
        """A new address vector in SQD is for the next packet."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        capture = Capture(self.folder, self.b)
        puppet.pair(self, one, other)
        for tclass in 0, 0xb8:
            if tclass:
                one.do("modify", state="SQD")
                one.do("modify", tclass=tclass)
                one.do("modify", state="RTS")
            one.do("post", op="write", len=3000)
            self.assertEqual(one.do("drain"), {"got": 1, "status": 0})
        sent = [p.tos & 0xfc for p in capture.stop(self.a) if p.saddr == self.a.ipv4]
        self.assertEqual(sent, [0] * 3 + [0xb8] * 3)

    def test_routes_of_its_own(self):
        """Those by UDP port or traffic class count, as for any other packet: here they lead to nobody."""
        for ip, nobody, address in (("ip", "10.77.0.77", lambda host: host.ipv4),
                                    ("ip -6", "fd77::77", lambda host: host.ipv6)):
            self.a.run(f"{ip} neigh add {nobody} lladdr 02:00:00:00:00:77 dev eth0 nud permanent && "
                       f"{ip} route add default via {nobody} dev eth0 table 90", check=True)
            self.addCleanup(self.a.run, f"{ip} route flush table 90; {ip} neigh del {nobody} dev eth0; "
                                        f"{ip} rule del pref 90")
            self.assertEqual(self.write_by(address, 0x10), 0)
            self.a.run(f"{ip} rule add pref 90 tos 0x10 lookup 90", check=True)
            self.assertEqual([self.write_by(address, tclass) for tclass in (0x10, 0)], [puppet.RETRY_EXC, 0])
            self.a.run(f"{ip} rule del pref 90 && {ip} rule add pref 90 ipproto udp dport 4791 lookup 90", check=True)
            self.assertEqual(self.write_by(address, 0), puppet.RETRY_EXC)

    def write_by(self, address, tclass):
        """One WRITE with a traffic class; return its status."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        for each in one, other:
            each.open(dev="rxe0", gid=self.gid(each.host, address(each.host)), tclass=tclass, timeout=14, retry=2)
        one.connect(other.ends[0])
        other.connect(one.ends[0])
        one.do("post", op="write", len=64)
        status = one.do("poll", ms=60000)["status"]
        one.quit()
        other.quit()
        return status

    def test_hop_limit(self):
        """The route's: the kernel's RDMA core puts it into each address vector, whatever was asked for."""
        ttl = "/proc/sys/net/ipv4/ip_default_ttl"
        self.addCleanup(self.a.run, f"echo 64 >{ttl}")
        for wanted in 64, 33:
            self.a.run(f"echo {wanted} >{ttl}", check=True)
            self.assertEqual({p.ttl for p in self.send_one(hop=77)[0]}, {wanted})

    def test_dont_fragment(self):
        self.assertTrue(all(p.dont_fragment for p in self.send_one()[0]))

    def test_source_port_of_each_qp(self):
        """One port for each QP, the same for all its packets, not the same for all QPs."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        capture = Capture(self.folder, self.b)
        for q in range(8):
            puppet.pair(self, one, other, q=q)
            for _ in range(3):
                one.do("post", q=q, op="write", len=3000)
                self.assertEqual(one.do("drain", q=q)["status"], 0)
        ports = collections.defaultdict(set)
        for packet in capture.stop(self.a):
            if packet.saddr == self.a.ipv4:
                ports[packet.qpn].add(packet.sport)
        self.assertEqual(len(ports), 8)
        self.assertTrue(all(len(each) == 1 and min(each) >= 0xc000 for each in ports.values()), ports)
        self.assertGreaterEqual(len(set.union(*ports.values())), 4, ports)

    def test_flow_label_decides_the_source_port(self):
        requests, _ = self.send_one(flow=0x12345)
        # A17.3.1 leaves it open; rdma_flow_label_to_udp_sport() of the kernel folds 20 bits to 14.
        wanted = (0x12345 & 0x3fff ^ (0x12345 & 0xfc000) >> 14) | 0xc000
        self.assertEqual({p.sport for p in requests}, {wanted})

    def test_mtu_change_under_an_open_connection(self):
        """A netdev that became too small: nothing is fragmented, nothing crashes."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        puppet.pair(self, one, other, timeout=10, retry=2)
        self.a.run("ip link set eth0 mtu 700", check=True)
        capture = Capture(self.folder, self.b)
        one.do("post", op="write", len=3000)
        self.assertEqual(one.do("poll", ms=60000)["status"], puppet.RETRY_EXC)
        self.assertEqual([p for p in capture.stop(self.a) if p.saddr == self.a.ipv4], [])

    def test_reply_is_from_the_address_that_was_asked(self):
        """Several addresses on both hosts: the responder answers from its QP's own GID."""
        for host in self.a, self.b:
            host.run(f"ip addr add 10.77.0.{100 + host.number}/24 dev eth0", check=True)
        index = {host: self.gid(host, f"10.77.0.{100 + host.number}") for host in (self.a, self.b)}
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        capture = Capture(self.folder, self.b)
        first = one.open(dev="rxe0", gid=index[self.a])
        second = other.open(dev="rxe0", gid=index[self.b])
        one.connect(second)
        other.connect(first)
        puppet.exchange(self, one, other)
        pairs = {(p.saddr, p.daddr) for p in capture.stop(self.a)}
        self.assertEqual(pairs, {("10.77.0.101", "10.77.0.102"), ("10.77.0.102", "10.77.0.101")})
