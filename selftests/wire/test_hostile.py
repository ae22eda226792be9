# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Packets that nobody should send: dropped and counted, or answered as the rules say.

The second host has no RDMA driver: whatever comes from there was made by hand.
"""

import random
import re
import struct

from runner import VmTestCase, limit

import roce
from capture import Capture, Folder, send
from interop import puppet
from interop.puppet import Puppet
from net.links import counters, mark_log, new_log

MTU = 256
PAGE = 4096
UC = 0x20           # the service in an opcode
# Of the forged peer: its first PSN, and that of ours.
EPSN, SPSN = 1000, 500
BAD_RESP = 7
CM_CLASS = 7
# What a slow machine says.
NOISE = re.compile("interrupt took|clocksource|rcu_sched|workqueue: .* hogged CPU")
PATTERN = bytes(range(1, 201))


class Attack(VmTestCase):
    """A victim on the first host, whose kernel keeps silent."""

    limit = 240

    def setUp(self):
        self.folder = Folder(self)
        self.mark = mark_log(self.a)
        self.before = counters(self.a)
        self.wire = roce.Wire("52:54:00:77:00:02", "52:54:00:77:00:01", self.b.ipv4, self.a.ipv4)
        self.wire6 = roce.Wire("52:54:00:77:00:02", "52:54:00:77:00:01", self.b.ipv6, self.a.ipv6)

    def check_silence(self):
        """Nothing was logged since the test began."""
        self.assertEqual([line for line in new_log(self.a, self.mark) if not NOISE.search(line)], [])

    def moved(self, *names):
        """Return how far counters went since the test began, or since the last call."""
        now = counters(self.a)
        moved = {name: now[name] - self.before[name] for name in now if now[name] != self.before[name]}
        self.before = now
        return tuple(moved.get(name, 0) for name in names) if names else moved

    def attack(self, frames, times=1):
        """Send frames and wait until the first host took them."""
        send(self.folder, self.b, frames, times)
        # A softirq that answers a ping has seen them, and the QPs' tasklets run at the end of it:
        # before the next one answers.
        self.b.run(["ping", "-c", "2", "-i", "0.1", "-W", "20", self.a.ipv4], check=True,
                   timeout=60 * self.slow)


class ForgedPeer(Attack):
    """QPs of the victim that believe to be connected to QPs of the second host."""

    drivers = ("rxe_ng", "none")

    def victim(self, count=1, six=False, connect=True, **arguments):
        """Make a puppet with ends that are connected to QP 0x1000 + q of the other host."""
        victim = Puppet(self, self.a)
        arguments = {"mtu": MTU, "psn": SPSN, "timeout": 0, "size": 65536, "depth": 16, **arguments}
        index = self.gid(self.a, self.a.ipv6 if six else None)
        peer = self.b.ipv6 if six else f"::ffff:{self.b.ipv4}"
        for q in range(count):
            victim.open(q=q, dev="rxe0", gid=index, **arguments)
            if connect:
                victim.connect({"qpn": 0x1000 + q, "psn": EPSN, "gid": peer}, q=q)
        # Ours must know the way back before it is asked to answer.
        self.a.run(["ping", "-c", "1", "-W", "20", self.b.ipv6 if six else self.b.ipv4], check=True)
        return victim

    def write(self, victim, q=0, psn=EPSN, payload=PATTERN, offset=0, **options):
        """Return a good WRITE for a victim."""
        end = victim.ends[q]
        return roce.transport(roce.WRITE_ONLY, end["qpn"], psn,
                              roce.reth(end["va"] + offset, end["rkey"], len(payload)), payload,
                              ack_req=True, **options)

    def check_alive(self, victim, q=0, psn=EPSN, wire=None):
        """The QP takes a good WRITE at this PSN, and answers it."""
        victim.do("set", q=q, byte=0, off=0, len=1024)
        capture = Capture(self.folder, self.b, "alive.pcap")
        self.attack([(wire or self.wire).frame(self.write(victim, q, psn, offset=64))])
        capture.wait(lambda p: p.qpn == 0x1000 + q)
        answers = [p for p in capture.stop(self.a) if p.qpn == 0x1000 + q]
        self.assertEqual(victim.do("peek", q=q, off=64, len=len(PATTERN))["hex"], PATTERN.hex())
        self.assertEqual([(p.opcode, p.syndrome >> 5, p.psn) for p in answers], [(roce.ACK, 0, psn)])
        self.assertEqual(victim.state(q), "RTS")

    def test_acknowledged_while_pages_come(self):
        """Each page that is written is missing: the peer hears of what is done, not of all at the end only."""
        pages = 64
        victim = self.victim(on_demand=1, size=(pages + 1) * PAGE)
        capture = Capture(self.folder, self.b)
        self.attack([self.wire.frame(self.write(victim, psn=EPSN + i, offset=i * PAGE)) for i in range(pages)])
        capture.wait(lambda p: p.opcode == roce.ACK and p.psn == EPSN + pages - 1)
        answers = [p for p in capture.stop(self.a) if p.qpn == 0x1000]
        self.assertEqual({(p.opcode, p.syndrome >> 5) for p in answers}, {(roce.ACK, 0)})
        self.assertGreater(len(answers), pages // 2)

    def test_every_known_opcode(self):
        """A QP for each; no receive is posted and no key is right."""
        missing, denied, rnr = roce.NAK_INVALID, roce.NAK_ACCESS, roce.RNR | 1
        wanted = {opcode: missing for opcode in roce.REQUESTS}
        wanted |= {opcode: denied for opcode in (
            roce.WRITE_FIRST, roce.WRITE_ONLY, roce.READ_REQUEST, roce.CMP_SWAP, roce.FETCH_ADD)}
        wanted |= {opcode: rnr for opcode in (
            roce.SEND_FIRST, roce.SEND_ONLY, roce.SEND_ONLY_IMM, roce.SEND_ONLY_INV, roce.WRITE_ONLY_IMM)}
        opcodes = sorted(roce.FORM)
        victim = self.victim(len(opcodes))
        frames = []
        for q, opcode in enumerate(opcodes):
            extended, may_carry = roce.FORM[opcode]
            size = MTU if opcode in roce.FIRSTS | roce.MIDDLES else 40 if may_carry else 0
            headers = roce.reth(victim.ends[q]["va"], 0xbad00, MTU + 1 if size == MTU else size or 40)
            headers = (headers + bytes(64))[:extended]
            frames.append(self.wire.frame(roce.transport(opcode, victim.ends[q]["qpn"], EPSN, headers,
                                                         bytes(size), ack_req=True)))
        capture = Capture(self.folder, self.b)
        self.moved()
        self.attack(frames)
        codes = list(wanted.values())
        self.assertEqual(self.moved("rx_invalid_request", "rx_bad_access"),
                         (codes.count(missing), codes.count(denied)))
        answers = {}
        for packet in capture.stop(self.a):
            answers.setdefault(packet.qpn - 0x1000, []).append(packet)
        for q, opcode in enumerate(opcodes):
            name = roce.NAMES[opcode]
            said = [(p.opcode, p.syndrome, p.psn) for p in answers.get(q, [])]
            code = wanted.get(opcode)
            self.assertEqual(said, [] if code is None else [(roce.ACK, code, EPSN)], name)
            self.assertEqual(victim.state(q), "ERR" if code in (missing, denied) else "RTS", name)
        self.check_silence()

    def test_repeated_read_of_a_region_that_is_gone(self):
        """Who asks again may have had the answer: no connection ends for it. Who asks afresh is refused."""
        victim = self.victim()
        end = victim.ends[0]

        def read(psn):
            return self.wire.frame(roce.transport(roce.READ_REQUEST, end["qpn"], psn,
                                                  roce.reth(end["va"], end["rkey"], 8)))
        capture = Capture(self.folder, self.b)
        self.attack([read(EPSN)])
        victim.do("dereg")
        self.attack([read(EPSN)], 3)
        self.assertEqual(victim.state(), "RTS")
        self.assertEqual(self.moved("dup_request", "rx_bad_access"), (3, 3))
        self.attack([read(EPSN + 1)])
        self.assertEqual([(p.opcode, p.syndrome) for p in capture.stop(self.a) if p.qpn == 0x1000],
                         [(roce.READ_RESP_ONLY, 0), (roce.ACK, roce.NAK_ACCESS)])
        self.assertEqual(victim.state(), "ERR")

    def test_stranger_to_an_unreliable_connection(self):
        """Packets of UC count from the address of the QP's own path only, too."""
        victim = self.victim(type="uc")
        end = victim.ends[0]
        body = roce.transport(UC | roce.WRITE_ONLY, end["qpn"], EPSN, roce.reth(end["va"], end["rkey"], 64), b"Z" * 64)
        self.moved()
        self.attack([self.wire.frame(body, saddr="10.77.0.9"), self.wire6.frame(body)])
        self.assertEqual(self.moved("rx_bad_addr"), (2,))
        self.assertEqual(victim.do("same", byte=0, len=64)["same"], 1)
        self.attack([self.wire.frame(body)])
        self.assertEqual(victim.do("same", byte=ord("Z"), len=64)["same"], 1)

    def test_credits(self):
        """An acknowledgement tells of the receives that are posted, rounded down to what its code can say."""
        codes = {0: 0, 1: 1, 5: 4, 100: 13}             # 96 is the 13th (9.7.5.1.2)
        victim = self.victim(len(codes), depth=128)
        for q, receives in enumerate(codes):
            if receives:
                victim.do("recv", q=q, n=receives, len=64)
        capture = Capture(self.folder, self.b)
        self.attack([self.wire.frame(self.write(victim, q)) for q in range(len(codes))])
        answers = {p.qpn - 0x1000: (p.opcode, p.syndrome) for p in capture.stop(self.a) if p.saddr == self.a.ipv4}
        self.assertEqual(answers, {q: (roce.ACK, code) for q, code in enumerate(codes.values())})

    def test_every_other_opcode(self):
        """Dropped and counted: by a QP, by none, by one that is not connected."""
        others = [opcode for opcode in range(256) if opcode not in roce.FORM]
        victim = self.victim()
        self.moved()
        body = bytes(60)
        self.attack([self.wire.frame(roce.transport(opcode, victim.ends[0]["qpn"], EPSN, body, b"x" * 32))
                     for opcode in others])
        # Of another service: not for this QP.
        strange = len(roce.UNRELIABLE)
        self.assertEqual(self.moved("rx_malformed", "rx_no_qp"), (len(others) - strange, strange))
        self.check_alive(victim)
        self.check_silence()

    def test_every_opcode_to_nobody(self):
        lonely = self.victim(connect=False)
        self.moved()
        known = roce.FORM | roce.UNRELIABLE
        for qpn in (0, 1, 0xffffff, 0x345678, lonely.ends[0]["qpn"]):
            frames = []
            for opcode in range(256):
                extended, may_carry = known.get(opcode, (28, True))
                frames.append(self.wire.frame(roce.transport(
                    opcode, qpn, EPSN, bytes(extended), bytes(32 if may_carry else 0))))
            self.attack(frames)
            moved = self.moved()
            counted = {name: moved.get(name, 0) for name in ("rx_malformed", "rx_no_qp", "rx_bad_qkey")}
            # QP 1 is there, and its Q_Key is another one.
            datagrams = 2 if qpn == 1 else 0
            self.assertEqual(counted, {"rx_malformed": 256 - len(known), "rx_no_qp": len(known) - datagrams,
                                       "rx_bad_qkey": datagrams},
                             f"QP {qpn:#x}: {moved}")
            self.assertEqual(moved.get("tx_pkts", 0), 0, "it answered")
        self.assertEqual(lonely.state(), "INIT")
        self.check_silence()

    @limit(600)
    def test_every_truncation_with_every_pad(self):
        """Each length of each opcode up to some payload, with each pad count, under a right ICRC."""
        victim = self.victim()
        self.moved()
        frames, malformed = [], 0
        for opcode, (extended, may_carry) in sorted(roce.FORM.items()):
            whole = roce.bth(opcode, victim.ends[0]["qpn"], EPSN - 1) + bytes(extended + 12)
            for size in range(len(whole) + 1):
                for pad in range(4):
                    body = bytearray(whole[:size])
                    if size > 1:
                        body[1] = body[1] & ~0x30 | pad << 4
                    if size < 12 and pad:
                        continue            # no pad count that could be read
                    left = size - 12 - extended - pad
                    if left < 0 or size % 4 or not may_carry and (left or pad):
                        malformed += 1
                    frames.append(self.bare(bytes(body)))
        self.attack(frames)
        moved = self.moved()
        self.assertEqual(moved.get("rx_malformed"), malformed, moved)
        self.assertEqual(moved.get("rx_icrc_err", 0), 0, moved)
        # What is well-formed was a duplicate: nothing happened.
        self.check_alive(victim)
        self.check_silence()

    def bare(self, body):
        """Return a frame around a body of any length, with a right ICRC if one can be computed."""
        if len(body) >= 5:
            return self.wire.frame(body)
        return self.wire.frame(body, crc=b"\x12\x34\x56\x78")

    def test_lengths_that_lie(self):
        """UDP's, IP's and the RETH's length."""
        victim = self.victim()
        good = self.write(victim)
        whole = 8 + len(good) + 4
        frames = []
        for wrong in (0, 7, 8, 11, whole - 5, whole - 4, whole - 1, whole + 1, whole + 4, 0xffff):
            frames.append(self.wire.frame(good, udp_length=wrong))
            frames.append(self.wire.frame(good, ip_length=min(0xffff, 20 + wrong)))
        self.moved()
        self.attack(frames)
        self.assertEqual(self.moved("rx_pkts"), (0,), "one of them was taken")
        self.check_alive(victim)
        self.check_silence()

    def test_dma_length_that_lies(self):
        """A WRITE whose RETH and payload do not agree, or that goes beyond its memory: NAK, QP in error."""
        def body(victim, q, opcode, length, payload, va=0):
            end = victim.ends[q]
            return roce.transport(opcode, end["qpn"], EPSN,
                                  roce.reth(end["va"] + va & 2**64 - 1, end["rkey"], length), payload,
                                  ack_req=True)
        victim = self.victim(11)
        top = 2**64 - 8 - victim.ends[7]["va"]
        cases = [
            (roce.WRITE_ONLY, 8, b"x" * 16, 0, roce.NAK_INVALID),
            (roce.WRITE_ONLY, 17, b"x" * 16, 0, roce.NAK_INVALID),
            (roce.WRITE_ONLY, 0x80000001, b"x" * 16, 0, roce.NAK_INVALID),
            (roce.WRITE_FIRST, MTU, b"x" * MTU, 0, roce.NAK_INVALID),
            (roce.WRITE_FIRST, MTU + 1, b"x" * (MTU - 4), 0, roce.NAK_INVALID),
            (roce.WRITE_FIRST, 65537, b"x" * MTU, 0, roce.NAK_ACCESS),
            (roce.WRITE_ONLY, 16, b"x" * 16, 65536 - 15, roce.NAK_ACCESS),
            (roce.WRITE_ONLY, 8, b"x" * 8, top, roce.NAK_ACCESS),
            (roce.READ_REQUEST, 16, b"", 65536 - 15, roce.NAK_ACCESS),
            (roce.READ_REQUEST, 0x80000001, b"", 0, roce.NAK_INVALID),
            (roce.READ_REQUEST, 16, b"", -1, roce.NAK_ACCESS),
        ]
        capture = Capture(self.folder, self.b)
        self.attack([self.wire.frame(body(victim, q, opcode, length, payload, va))
                     for q, (opcode, length, payload, va, _) in enumerate(cases)])
        answers = {p.qpn - 0x1000: p for p in capture.stop(self.a)}
        for q, case in enumerate(cases):
            name = f"{roce.NAMES[case[0]]} of {case[1]} bytes with {len(case[2])}, at {case[3]:#x}"
            self.assertIn(q, answers, name)
            self.assertEqual(answers[q].syndrome, case[4], name)
            self.assertEqual(victim.state(q), "ERR", name)
            self.assertEqual(victim.do("same", q=q, byte=0, off=0, len=65536)["same"], 1, name)
        self.check_silence()

    def test_lengths_that_lie_unreliable(self):
        """The message is dropped and counted, and the next one taken."""
        victim = self.victim(type="uc")
        end = victim.ends[0]

        def frame(opcode, psn, told, payload):
            return self.wire.frame(roce.transport(0x20 | opcode, end["qpn"], psn,
                                                  roce.reth(end["va"], end["rkey"], told), payload))
        self.moved()
        self.attack([
            frame(roce.WRITE_FIRST, EPSN, MTU + 1, bytes(MTU - 4)),
            frame(roce.WRITE_FIRST, EPSN, MTU, bytes(MTU)),
            frame(roce.WRITE_ONLY, EPSN, 41, bytes(40)),
            frame(roce.WRITE_ONLY, EPSN, MTU + 4, bytes(MTU + 4)),
            frame(roce.WRITE_ONLY, EPSN + 7, len(PATTERN), PATTERN)])
        self.assertEqual(self.moved("rx_pkts", "rx_invalid_request"), (5, 4))
        self.assertEqual(victim.do("peek", off=0, len=len(PATTERN))["hex"], PATTERN.hex())
        self.assertEqual(victim.state(), "RTS")
        self.check_silence()

    def test_psn_far_away(self):
        """Ahead: a NAK, told once more since nobody answers. Behind: an acknowledge again. Executed is neither."""
        victim = self.victim()
        capture = Capture(self.folder, self.b)
        ahead = [1, 2, 100, 1 << 22, (1 << 23) - 1]
        self.attack([self.wire.frame(self.write(victim, psn=EPSN + n)) for n in ahead])
        self.assertEqual(self.moved("dup_request", "local_err", "remote_err"), (0, 0, 0))
        capture.wait(lambda p: p.qpn == 0x1000, count=2)
        answers = [p for p in capture.stop(self.a) if p.qpn == 0x1000]
        self.assertEqual([(p.syndrome, p.psn) for p in answers], 2 * [(roce.NAK_PSN, EPSN)])
        capture = Capture(self.folder, self.b)
        behind = [1, 2, 100, 1 << 22, (1 << 23) - 1]
        self.attack([self.wire.frame(self.write(victim, psn=EPSN - n & 0xffffff)) for n in behind])
        self.assertEqual(self.moved("dup_request"), (len(behind),))
        answers = [p for p in capture.stop(self.a) if p.qpn == 0x1000]
        self.assertEqual({(p.opcode, p.syndrome >> 5, p.psn) for p in answers}, {(roce.ACK, 0, EPSN - 1)})
        self.assertEqual(victim.do("same", byte=0, off=0, len=65536)["same"], 1)
        self.check_alive(victim)
        self.check_silence()

    def test_oddities_that_are_legal(self):
        """What routers change, and bits that mean nothing here: the packet is taken."""
        victim = self.victim()
        psn = EPSN
        for options, wire in (
                ({}, {"ttl": 1}), ({}, {"ttl": 255}), ({}, {"tos": 0xff}), ({}, {"tos": 3}),
                ({}, {"sport": 1}), ({}, {"sport": 4791}), ({}, {"flags": 0}),
                ({"migrated": False}, {}), ({"solicited": True}, {}), ({"fecn": 0xff}, {}),
                ({"pkey": 0x7fff}, {})):
            victim.do("set", byte=0, off=0, len=256)
            self.attack([self.wire.frame(self.write(victim, psn=psn, **options), **wire)])
            got = victim.do("peek", off=0, len=len(PATTERN))["hex"]
            self.assertEqual(got, PATTERN.hex(), f"{options} {wire}")
            psn += 1
        # A UDP checksum that is right.
        body = self.write(victim, psn=psn)
        frame = self.wire.frame(body)
        udp = frame[34:]
        pseudo = frame[26:34] + struct.pack(">BBH", 0, 17, len(udp))
        right = roce.checksum(pseudo + udp)
        victim.do("set", byte=0, off=0, len=256)
        self.attack([self.wire.frame(body, udp_checksum=right ^ 0x5555)])
        self.assertEqual(victim.do("same", byte=0, off=0, len=256)["same"], 1, "wrong UDP checksum")
        self.attack([self.wire.frame(body, udp_checksum=right)])
        self.assertEqual(victim.do("peek", off=0, len=len(PATTERN))["hex"], PATTERN.hex(), "UDP checksum")
        self.check_silence()

    def test_ipv6_oddities(self):
        victim = self.victim(six=True)
        for tos, ttl in (0, 1), (0xff, 255):
            self.wire6.tos, self.wire6.ttl = tos, ttl
            self.check_alive(victim, psn=EPSN + (tos > 0), wire=self.wire6)
        good = self.write(victim, psn=EPSN + 2, payload=b"\xee" * 64)
        padding = bytes((17, 0, 1, 4, 0, 0, 0, 0))
        self.moved()
        self.attack([
            self.wire6.frame(good, extension=padding, next_header=0),       # hop by hop
            self.wire6.frame(good, extension=padding, next_header=60),      # destination
            self.wire6.frame(good, extension=bytes((17, 0, 0, 0, 0, 0, 0, 1)), next_header=44),
            self.wire6.frame(good, ip_length=7), self.wire6.frame(good, ip_length=0),
            self.wire6.frame(good, udp_length=0), self.wire6.frame(good, udp_length=9),
        ])
        self.assertEqual(self.moved("rx_pkts"), (0,))
        self.assertEqual(victim.do("same", byte=0xee, off=0, len=1)["same"], 0)
        self.check_alive(victim, psn=EPSN + 2, wire=self.wire6)
        self.check_silence()

    def test_ip_options_and_fragments(self):
        """Options have no place under the ICRC. Of fragments either the whole arrives or nothing."""
        victim = self.victim()
        self.moved()
        self.attack([self.wire.frame(self.write(victim), options=bytes((1, 1, 1, 0)))])
        self.assertEqual(self.moved("rx_malformed", "rx_pkts"), (1, 0))
        whole = self.wire.frame(self.write(victim, offset=1024), flags=0)
        head, data = whole[:34], whole[34:]
        for cut in 8, 16, 24, 64, 200:
            self.attack([self.fragment(head, data[:cut], 0, True),
                         self.fragment(head, data[cut:], cut, False)])
        # The last part without the first ones, and the first one alone.
        self.attack([self.fragment(head, data[200:], 200, False), self.fragment(head, data[:8], 0, True)])
        moved = self.moved("rx_pkts")[0]
        arrived = victim.do("peek", off=1024, len=len(PATTERN))["hex"]
        self.assertIn(arrived, (PATTERN.hex(), bytes(len(PATTERN)).hex()))
        self.assertEqual(arrived == PATTERN.hex(), moved > 0)
        self.check_alive(victim, psn=EPSN + (1 if moved else 0))
        self.check_silence()

    def fragment(self, head, data, offset, more):
        """Return a frame with a fragment of an IP packet."""
        ip = bytearray(head[14:])
        struct.pack_into(">HHH", ip, 2, 20 + len(data), 0x4242, more << 13 | offset // 8)
        struct.pack_into(">H", ip, 10, 0)
        struct.pack_into(">H", ip, 10, roce.checksum(bytes(ip)))
        return head[:14] + bytes(ip) + data

    def test_management_packets(self):
        """UD to QP 1 with any Q_Key, congestion notifications: silence."""
        frames = []
        for qpn in 0, 1, 0xffffff:
            for qkey in 0, 0x80010000, 0x11111111, 0xffffffff:
                headers = struct.pack(">II", qkey, 1)
                frames.append(self.wire.frame(roce.transport(roce.UD_SEND_ONLY, qpn, 1, headers, bytes(256))))
                frames.append(self.wire.frame(roce.transport(roce.UD_SEND_ONLY + 1, qpn, 1,
                                                             headers + bytes(4), bytes(256))))
        victim = self.victim()
        frames.append(self.wire.frame(roce.transport(roce.CNP, victim.ends[0]["qpn"], 0, bytes(16))))
        self.moved()
        self.attack(frames)
        moved = self.moved()
        self.assertEqual(moved.get("tx_pkts", 0), 0, moved)
        self.check_alive(victim)
        self.check_silence()

    def test_every_management_class(self):
        """Well-formed datagrams for QP 1: each class and method, each message of the CM, full of noise."""
        noise = random.Random(1)
        kinds = [(kind, 1, method, noise.randrange(0x40)) for kind in range(256) for method in (1, 2, 3, 0x81)]
        kinds += [(CM_CLASS, 2, 3, attribute) for attribute in range(0x10, 0x20) for _ in range(16)]
        frames = []
        for number, (kind, version, method, attribute) in enumerate(kinds):
            header = struct.pack(">BBBBHHQHHI", 1, kind, version, method, 0, 0, number, attribute, 0, 0)
            frames.append(self.wire.frame(roce.transport(
                roce.UD_SEND_ONLY, roce.GSI_QPN, number, struct.pack(">II", roce.GSI_QKEY, roce.GSI_QPN),
                header + noise.randbytes(256 - len(header)))))
        victim = self.victim()
        self.attack(frames)
        self.assertGreater(self.moved("rx_pkts")[0], 0)
        self.check_alive(victim)
        self.check_silence()

    def test_forged_acknowledges(self):
        """What a peer may say of a WRITE that it got, and what comes of it."""
        ack = roce.ACK
        cases = {
            "for a packet that was not sent": (ack, SPSN + 1, 0x1f, None),
            "for one long ago": (ack, SPSN - 100, 0x1f, None),
            "half the circle away": (ack, SPSN + (1 << 23) & 0xffffff, 0x1f, None),
            "NAK for a packet that was not sent": (ack, SPSN + 7, roce.NAK_ACCESS, None),
            "NAK sequence": (ack, SPSN, roce.NAK_PSN, None),
            "RNR NAK": (ack, SPSN, roce.RNR | 1, None),
            "NAK invalid": (ack, SPSN, roce.NAK_INVALID, puppet.REM_INV_REQ),
            "NAK access": (ack, SPSN, roce.NAK_ACCESS, puppet.REM_ACCESS),
            "NAK operation": (ack, SPSN, roce.NAK_OPERATION, puppet.REM_OP),
            "NAK of a reserved code": (ack, SPSN, 0x64, BAD_RESP),
            "reserved syndrome": (ack, SPSN, 0x40, BAD_RESP),
            "other reserved syndrome": (ack, SPSN, 0xe0, BAD_RESP),
            "an atomic's answer": (roce.ATOMIC_ACK, SPSN, 0x1f, BAD_RESP),
            "a READ's answer": (roce.READ_RESP_ONLY, SPSN, 0x1f, BAD_RESP),
            "acknowledge": (ack, SPSN, 0x1f, puppet.SUCCESS),
        }
        victim = self.victim(len(cases), rnr=7)
        frames = []
        for q, (opcode, psn, syndrome, _) in enumerate(cases.values()):
            victim.do("post", q=q, op="write", len=64, id=9)
            headers = roce.aeth(syndrome, 1)
            if opcode == roce.ATOMIC_ACK:
                headers += bytes(8)
            payload = b"y" * 64 if opcode == roce.READ_RESP_ONLY else b""
            frames.append(self.wire.frame(roce.transport(opcode, victim.ends[q]["qpn"], psn, headers, payload)))
        self.attack(frames)
        for q, (name, case) in enumerate(cases.items()):
            status = case[3]
            if status is None:
                self.assertEqual(victim.do("poll", q=q), {"none": 1}, name)
                self.assertEqual(victim.state(q), "RTS", name)
                continue
            wc = victim.do("poll", q=q, ms=30000)
            self.assertEqual((wc.get("id"), wc.get("status")), (9, status), name)
            self.assertEqual(victim.state(q), "ERR" if status else "RTS", name)
            self.assertEqual(victim.do("same", q=q, byte=0, off=0, len=65536)["same"], 1, name)
        self.check_silence()

    def test_forged_read_responses(self):
        """A READ of 600 bytes in packets of 256: what is not its answer ends it, and writes nowhere else."""
        first, middle, last, only = (roce.READ_RESP_FIRST, roce.READ_RESP_MIDDLE, roce.READ_RESP_LAST,
                                     roce.READ_RESP_ONLY)
        error = (puppet.LOC_LEN, BAD_RESP)
        good = [(first, 0, 256), (middle, 1, 256), (last, 2, 88)]
        cases = {
            "as it should be": (good, (puppet.SUCCESS,)),
            "one packet of all": ([(only, 0, 600)], error),
            "one packet of 1400": ([(only, 0, 1400)], error),
            "only, of one packet": ([(only, 0, 256)], error),
            "too short at first": ([(first, 0, 252)], error),
            "too long at first": ([(first, 0, 260)], error),
            "of nothing": ([(first, 0, 0)], error),
            "middle at first": ([(middle, 0, 256)], error),
            "last at first": ([(last, 0, 88)], error),
            "too long at last": (good[:2] + [(last, 2, 92)], error),
            "much too long at last": (good[:2] + [(last, 2, 1400)], error),
            "too short at last": (good[:2] + [(last, 2, 84)], error),
            "last of nothing": (good[:2] + [(last, 2, 0)], error),
            "middle at last": (good[:2] + [(middle, 2, 256)], error),
            "never ending": (good[:2] + [(middle, n, 256) for n in range(2, 200)], error),
            "first again": (good[:1] + [(first, 1, 256)], error),
            "beyond the end": (good[:2] + [(middle, 3, 256)], None),
            "an acknowledge of it": ([(roce.ACK, 0, 0)], None),
            "an atomic's answer": ([(roce.ATOMIC_ACK, 0, 0)], error),
            "far away": ([(middle, 1 << 22, 256)], None),
        }
        victim = self.victim(len(cases))
        frames = []
        for q, (packets, _) in enumerate(cases.values()):
            victim.do("post", q=q, op="read", off=8192, len=600, id=9)
            for opcode, n, size in packets:
                headers = b"" if opcode == middle else roce.aeth(0x1f, 1)
                if opcode == roce.ATOMIC_ACK:
                    headers += bytes(8)
                frames.append(self.wire.frame(roce.transport(
                    opcode, victim.ends[q]["qpn"], SPSN + n, headers, b"z" * size)))
        self.attack(frames)
        for q, (name, (_, statuses)) in enumerate(cases.items()):
            if statuses is None:
                self.assertEqual(victim.do("poll", q=q), {"none": 1}, name)
                self.assertEqual(victim.state(q), "RTS", name)
            else:
                wc = victim.do("poll", q=q, ms=30000)
                self.assertEqual(wc.get("id"), 9, name)
                self.assertIn(wc["status"], statuses, name)
                self.assertEqual(victim.state(q), "ERR" if wc["status"] else "RTS", name)
            for off, length in (0, 8192), (8792, 65536 - 8792):
                self.assertEqual(victim.do("same", q=q, byte=0, off=off, len=length)["same"], 1, name)
        self.assertEqual(victim.do("same", q=0, byte=ord("z"), off=8192, len=600)["same"], 1)
        self.check_silence()

    @limit(600)
    def test_flood(self):
        """Requests in heaps to one QP: memory stays where it is, and the QP can be used afterwards."""
        victim = self.victim(rd=8)
        end = victim.ends[0]
        victim.do("set", byte=7, off=0, len=65536)
        frames = [self.wire.frame(roce.transport(roce.SEND_ONLY, end["qpn"], EPSN, payload=bytes(256)))]
        # Without a receive; ahead of its turn; out of the past.
        for n in range(1, 400):
            frames.append(self.wire.frame(roce.transport(roce.SEND_MIDDLE, end["qpn"], EPSN + n,
                                                         payload=bytes(256))))
            frames.append(self.wire.frame(self.write(victim, psn=EPSN - n, payload=bytes(256))))
            frames.append(self.wire.frame(roce.transport(roce.ACK, end["qpn"], SPSN + n, roce.aeth(0x1f, n))))
        # READs of all that there is, more of them than may be under way, each answered at length.
        for n in range(64):
            frames.append(self.wire.frame(roce.transport(
                roce.READ_REQUEST, end["qpn"], EPSN + n * 256, roce.reth(end["va"], end["rkey"], 65536))))
        watch = self.a.spawn(
            "trap 'echo least $least; exit' TERM; least=999999999; echo watching; while :; do "
            "while read -r name value _; do case $name in MemAvailable:) "
            "[ $value -lt $least ] && least=$value; esac; done </proc/meminfo; done")
        watch.wait_output("watching")
        before = int(self.a.run("sed -n 's/MemAvailable: *//p' /proc/meminfo", check=True).stdout.split()[0])
        self.attack(frames, times=20)
        watch.kill(15)
        least = int(watch.wait_output(r"least (\d+)", 60 * self.slow)[1])
        self.assertLess(before - least, 64 << 10, "KiB of memory for one QP's packets")
        self.assertEqual(victim.state(), "RTS")
        # How many of the READs it took is told by the NAK to what is ahead of all of them.
        capture = Capture(self.folder, self.b)
        for _ in range(4):
            self.attack([self.wire.frame(self.write(victim, psn=EPSN + 0x10000))])
        naks = [p for p in capture.wait(lambda p: p.opcode == roce.ACK and p.syndrome == roce.NAK_PSN)
                if p.opcode == roce.ACK and p.syndrome == roce.NAK_PSN]
        capture.stop(self.a)
        self.check_alive(victim, psn=naks[-1].psn)
        self.check_silence()


class Beside(Attack):
    """Hostile packets in the name of a peer whose stream goes on."""

    def test_stream_survives(self):
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        puppet.pair(self, one, other, size=1 << 20)
        for each in one, other:
            each.do("pump", op="write", len=32768)
        qpn = one.ends[0]["qpn"]
        good = roce.transport(roce.WRITE_ONLY, qpn, 5, roce.reth(one.ends[0]["va"], one.ends[0]["rkey"], 64),
                              b"Z" * 64)
        stranger = "10.77.0.9"
        kinds = {
            "rx_icrc_err": [self.wire.frame(good, crc=bytes(4)), self.wire.frame(good[:-1] + b"!", crc=roce.icrc(
                self.wire.frame(good)[14:-4]))],
            "rx_malformed": [self.wire.frame(roce.transport(roce.SEND_ONLY, qpn, 5, version=v))
                             for v in range(1, 16)] + [self.wire.frame(roce.transport(0xff, qpn, 5)),
                                                       self.wire.frame(good[:20]), self.wire.frame(good[:-3])],
            "rx_bad_pkey": [self.wire.frame(roce.transport(roce.SEND_ONLY, qpn, 5, pkey=k))
                            for k in (0, 1, 0x8001, 0xfffe)],
            "rx_bad_addr": [self.wire.frame(good, saddr=stranger),
                            self.wire6.frame(good)],
            "rx_no_qp": [self.wire.frame(roce.transport(roce.SEND_ONLY, qpn ^ 0x400000, 5))],
        }
        self.moved()
        times = 50
        self.attack([frame for frames in kinds.values() for frame in frames], times)
        moved = self.moved()
        for name, frames in kinds.items():
            self.assertEqual(moved.get(name, 0), len(frames) * times, f"{name}: {moved}")
        self.assertGreater(moved["rx_pkts"], 0, "there was no stream beside")
        for each in one, other:
            each.tell("state")
        for each in one, other:
            done = each.answer()
            self.assertEqual(done["status"], 0)
            self.assertGreater(done["done"], 0)
            self.assertEqual(each.answer()["state"], "RTS")
            self.assertEqual(each.do("same", byte=ord("Z"), off=0, len=1)["same"], 0)
        self.check_silence()
