# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The other services on the wire: UC, datagrams to a host and to groups, the connection manager's."""

import struct

from runner import limit

import roce
from apps.rping import rping
from capture import Capture, send
from interop.puppet import Puppet
from test_capture import Captured

MTU = 1024
# Of nobody's payload: zeros or text could be taken for another protocol.
BYTE = 0x5a
# Bits that a group's MAC address leaves out are set in these.
GROUP, GROUP6 = "239.129.2.3", "ff15::a1:b2c3:d4e5"
# Attributes of the CM (12.6): of a connection that is made and ended.
REQ, REP, RTU, DREQ, DREP = 0x10, 0x13, 0x14, 0x15, 0x16
MAD_BYTES = 256
# Of the performance agent (16.1): a question for the port's counters, an answer, an answer that refuses.
PERFORMANCE, PORT_COUNTERS, GET, SET, GET_RESP, UNSUPPORTED = 4, 0x12, 1, 2, 0x81, 0x000c
# The upper half of a transaction's number is the asker's, here that of nobody.
TRANSACTIONS = 0xfffeed << 32


def mad_header(method, status, number):
    """Return the header of a MAD of the performance agent (13.4.2)."""
    return struct.pack(">BBBBHHQHHI", 1, PERFORMANCE, 1, method, status, 0, TRANSACTIONS | number, PORT_COUNTERS, 0, 0)


class ServiceTest(Captured):
    """Each packet by our own reader, tshark and, where it can, scapy; its MAC addresses too."""

    def setUp(self):
        super().setUp()
        self.macs = {}
        for host in self.a, self.b:
            mac = host.run(["cat", "/sys/class/net/eth0/address"], check=True).stdout.strip()
            self.macs |= {host.ipv4: mac, host.ipv6: mac}

    def end(self, host, kind, six=False, **arguments):
        """Return a puppet with one end of a service."""
        one = Puppet(self, host)
        one.open(dev="rxe0", gid=self.gid(host, host.ipv6 if six else None), type=kind, mtu=MTU,
                 size=65536, **arguments)
        one.do("set", byte=BYTE, off=0, len=8192)
        return one

    def stop(self, capture):
        """End a capture; check its packets and return them."""
        packets = capture.stop(self.a)
        self.assertTrue(packets)
        for packet in packets:
            roce.check(packet, MTU)
            target = roce.group_mac(packet.daddr) if packet.is_multicast else self.macs[packet.daddr]
            self.assertEqual((packet.smac, packet.dmac), (self.macs[packet.saddr], target), packet)
            self.assertEqual(packet.is_multicast, packet.qpn == roce.GROUP_QPN, packet)
        self.check_tshark("capture.pcap", packets)
        if self.a.release.name != "bookworm" or all("." in packet.saddr for packet in packets):
            self.check_scapy("capture.pcap", packets)
        return packets

    def check_all_came(self, end, count):
        """The end has received so many messages, in the order of their receives."""
        self.assertEqual(end.do("drain", n=count), {"got": count, "status": 0})

    # Unreliable connections.

    def uc(self, six):
        """All that a UC QP sends, in one packet, in two and in more."""
        lengths = (0, 1, 5, MTU, MTU + 1, 3 * MTU - 3)
        takes_receive = ("send", "send_imm", "write_imm")
        one, other = self.end(self.a, "uc", six, psn=0xfffff0), self.end(self.b, "uc", six)
        one.connect(other.ends[0])
        other.connect(one.ends[0])
        count = len(lengths) * len(takes_receive)
        other.do("recv", n=count, len=4096)
        capture = Capture(self.folder, self.b)
        for length in lengths:
            for op in (*takes_receive, "write"):
                one.do("post", op=op, len=length, off=0, roff=8192, imm=0x1234)
                self.check_all_came(one, 1)
        self.check_all_came(other, count)
        packets = self.stop(capture)
        self.check_requests(packets, MTU)
        self.assertEqual(packets[0].psn, 0xfffff0)
        self.assertEqual({p.qpn for p in packets}, {other.ends[0]["qpn"]})
        wanted = {opcode for opcode in roce.UNRELIABLE if roce.SERVICES[opcode >> 5] == "UC"}
        self.assertEqual({p.opcode for p in packets}, wanted)

    def test_uc(self):
        self.uc(six=False)

    def test_uc_ipv6(self):
        self.uc(six=True)

    # Datagrams.

    def datagrams(self, six, group=None):
        """Send datagrams, with immediate data and without, to the other host or to a group."""
        lengths = (0, 1, 5, MTU - 1, MTU)
        one, other = self.end(self.a, "ud", six, psn=0xfffffc), self.end(self.b, "ud", six)
        other.connect(one.ends[0])
        if group:
            other.do("join", gid=group if six else f"::ffff:{group}")
            one.connect({"qpn": roce.GROUP_QPN, "psn": 0, "gid": group if six else f"::ffff:{group}"})
        else:
            one.connect(other.ends[0])
        other.do("recv", n=2 * len(lengths), len=40 + MTU)
        capture = Capture(self.folder, self.b)
        for length in lengths:
            for op in "send", "send_imm":
                one.do("post", op=op, len=length, off=0, imm=0x1234)
                self.check_all_came(one, 1)
        self.check_all_came(other, 2 * len(lengths))
        packets = self.stop(capture)
        self.check_datagrams(packets, one.ends[0], [n for n in lengths for _ in range(2)])
        wanted = group or (self.b.ipv6 if six else self.b.ipv4)
        self.assertEqual({p.daddr for p in packets}, {wanted})
        self.assertEqual({p.qpn for p in packets}, {roce.GROUP_QPN if group else other.ends[0]["qpn"]})

    def check_datagrams(self, packets, sender, lengths):
        """Each is there once, of its length, and says whose it is."""
        self.assertEqual([len(p.payload) for p in packets], lengths)
        self.assertEqual([p.psn for p in packets], [0xfffffc + n & 0xffffff for n in range(len(packets))])
        kinds = 2 * [roce.UD_SEND_ONLY, roce.UD_SEND_ONLY + 1]
        self.assertEqual([p.opcode for p in packets], (kinds * len(packets))[:len(packets)])
        self.assertEqual({p.qkey for p in packets}, {0x11111111})
        self.assertEqual({p.source_qpn for p in packets}, {sender["qpn"]})
        self.assertTrue(all(set(p.payload) <= {BYTE} for p in packets))

    def test_datagrams(self):
        self.datagrams(six=False)

    def test_datagrams_ipv6(self):
        self.datagrams(six=True)

    def test_group(self):
        self.datagrams(six=False, group=GROUP)

    def test_group_ipv6(self):
        self.datagrams(six=True, group=GROUP6)

    # What rdma_cm brings.

    def connection(self, address):
        """A connection of rping: MADs to QP 1 and back, then RC, then MADs again."""
        capture = Capture(self.folder, self.b)
        rping(self, self.a, self.b, address, count=3)
        packets = self.stop(capture)
        mads = [p for p in packets if p.qpn == roce.GSI_QPN]
        for mad in mads:
            self.assertEqual((mad.opcode, mad.qkey, mad.source_qpn, len(mad.payload)),
                             (roce.UD_SEND_ONLY, roce.GSI_QKEY, roce.GSI_QPN, MAD_BYTES), mad)
            # Base version 1, class 7 (communication management) of version 2, Send.
            self.assertEqual(mad.payload[:4], bytes((1, 7, 2, 3)), mad)
        said = [(p.saddr == address, int.from_bytes(p.payload[16:18], "big")) for p in mads]
        self.assertEqual(said[:3], [(False, REQ), (True, REP), (False, RTU)])
        self.assertLessEqual({DREQ, DREP}, {attribute for _, attribute in said[3:]})
        self.assertGreater(len([p for p in packets if p.opcode in roce.FORM]), 3 * 3)

    @limit(300)
    def test_connection_manager(self):
        self.connection(self.a.ipv4)

    @limit(300)
    def test_connection_manager_ipv6(self):
        self.connection(self.a.ipv6)

    # The performance agent.

    def agent(self, six):
        """Questions made by hand: an answer to each, of QP 1 to QP 1, to a second one after the first."""
        ends = (self.b.ipv6, self.a.ipv6) if six else (self.b.ipv4, self.a.ipv4)
        wire = roce.Wire(self.macs[self.b.ipv4], self.macs[self.a.ipv4], *ends)
        methods = (GET, SET, GET)
        capture = Capture(self.folder, self.b)
        for number, method in enumerate(methods):
            send(self.folder, self.b, [wire.frame(roce.transport(
                roce.UD_SEND_ONLY, roce.GSI_QPN, number, struct.pack(">II", roce.GSI_QKEY, roce.GSI_QPN),
                mad_header(method, 0, number).ljust(MAD_BYTES, b"\0")))])
            capture.wait(lambda p: p.saddr == ends[1], count=number + 1)
        answers = [p for p in self.stop(capture) if p.saddr == ends[1]]
        self.assertEqual(len(answers), len(methods))
        for number, (packet, method) in enumerate(zip(answers, methods)):
            self.assertEqual((packet.daddr, packet.opcode, packet.qpn, packet.qkey, packet.source_qpn),
                             (ends[0], roce.UD_SEND_ONLY, roce.GSI_QPN, roce.GSI_QKEY, roce.GSI_QPN))
            wanted = mad_header(GET_RESP, UNSUPPORTED if method == SET else 0, number)
            self.assertEqual((packet.payload[:24], len(packet.payload)), (wanted, MAD_BYTES))
        # PortRcvData: the second question and the third came in between.
        first, _, last = (struct.unpack_from(">I", p.payload, 64 + 28)[0] for p in answers)
        self.assertEqual(last - first, 2 * MAD_BYTES // 4)

    def test_agent(self):
        self.agent(six=False)

    def test_agent_ipv6(self):
        self.agent(six=True)

    def test_group_of_the_connection_manager(self):
        """mckey, whose group rdma_cm joins."""
        capture = Capture(self.folder, self.b)
        one = self.a.spawn(["stdbuf", "-oL", "mckey", "-m", GROUP, "-b", self.a.ipv4])
        one.wait_output("receiving data transfers", 60 * self.slow)
        two = self.b.spawn(["stdbuf", "-oL", "mckey", "-m", GROUP, "-b", self.b.ipv4, "-s"])
        self.together(two, one, timeout=60 * self.slow)
        packets = self.stop(capture)
        self.assertEqual({(p.saddr, p.daddr, p.dmac) for p in packets},
                         {(self.b.ipv4, GROUP, "01:00:5e:01:02:03")})
