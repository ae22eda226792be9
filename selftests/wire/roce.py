# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""RoCEv2 packets, made and taken apart without any of the module's code.

Written from the InfiniBand Architecture Specification (volume 1, chapter 9 and annex A17), so
that the module's own idea of the wire is checked by somebody else's. Standard library only:
it runs on this machine and in a guest.
"""

import dataclasses
import ipaddress
import struct
import zlib

PORT = 4791
PKEY = 0xffff

# BTH opcodes of RC (table 38).
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(6, 12)
READ_REQUEST, READ_RESP_FIRST, READ_RESP_MIDDLE, READ_RESP_LAST, READ_RESP_ONLY = range(12, 17)
ACK, ATOMIC_ACK, CMP_SWAP, FETCH_ADD = range(17, 21)
SEND_LAST_INV, SEND_ONLY_INV = 0x16, 0x17
FLUSH, ATOMIC_WRITE = 0x1c, 0x1d
UD_SEND_ONLY, CNP = 0x64, 0x81

# Bytes of extended headers, and whether payload may follow.
BTH = 12
RETH, ATOMICETH, AETH, ATOMICACKETH, IMMDT, IETH, DETH, FETH = 16, 28, 4, 8, 4, 4, 8, 4
FORM = {
    SEND_FIRST: (0, True), SEND_MIDDLE: (0, True), SEND_LAST: (0, True),
    SEND_LAST_IMM: (IMMDT, True), SEND_ONLY: (0, True), SEND_ONLY_IMM: (IMMDT, True),
    WRITE_FIRST: (RETH, True), WRITE_MIDDLE: (0, True), WRITE_LAST: (0, True),
    WRITE_LAST_IMM: (IMMDT, True), WRITE_ONLY: (RETH, True), WRITE_ONLY_IMM: (RETH + IMMDT, True),
    READ_REQUEST: (RETH, False), READ_RESP_FIRST: (AETH, True), READ_RESP_MIDDLE: (0, True),
    READ_RESP_LAST: (AETH, True), READ_RESP_ONLY: (AETH, True),
    ACK: (AETH, False), ATOMIC_ACK: (AETH + ATOMICACKETH, False),
    CMP_SWAP: (ATOMICETH, False), FETCH_ADD: (ATOMICETH, False),
    SEND_LAST_INV: (IETH, True), SEND_ONLY_INV: (IETH, True),
    FLUSH: (FETH + RETH, False), ATOMIC_WRITE: (RETH, True),
}
# Those of the unreliable services: UC has RC's first twelve.
UNRELIABLE = {0x20 | opcode: FORM[opcode] for opcode in range(WRITE_ONLY_IMM + 1)}
UNRELIABLE |= {UD_SEND_ONLY: (DETH, True), UD_SEND_ONLY + 1: (DETH + IMMDT, True)}
EVERY = FORM | UNRELIABLE
SERVICES = {1: "UC", 3: "UD"}
NAMES = {
    SEND_FIRST: "SEND first", SEND_MIDDLE: "SEND middle", SEND_LAST: "SEND last",
    SEND_LAST_IMM: "SEND last imm", SEND_ONLY: "SEND only", SEND_ONLY_IMM: "SEND only imm",
    WRITE_FIRST: "WRITE first", WRITE_MIDDLE: "WRITE middle", WRITE_LAST: "WRITE last",
    WRITE_LAST_IMM: "WRITE last imm", WRITE_ONLY: "WRITE only", WRITE_ONLY_IMM: "WRITE only imm",
    READ_REQUEST: "READ request", READ_RESP_FIRST: "READ response first",
    READ_RESP_MIDDLE: "READ response middle", READ_RESP_LAST: "READ response last",
    READ_RESP_ONLY: "READ response only", ACK: "ACK", ATOMIC_ACK: "atomic ACK",
    CMP_SWAP: "CmpSwap", FETCH_ADD: "FetchAdd", SEND_LAST_INV: "SEND last inv",
    SEND_ONLY_INV: "SEND only inv", FLUSH: "FLUSH", ATOMIC_WRITE: "ATOMIC WRITE",
}
NAMES |= {opcode: f"{SERVICES[opcode >> 5]} {NAMES[opcode & 0x1f]}" for opcode in UNRELIABLE}
REQUESTS = frozenset(range(READ_REQUEST + 1)) | {CMP_SWAP, FETCH_ADD, SEND_LAST_INV, SEND_ONLY_INV,
                                              FLUSH, ATOMIC_WRITE}
FIRSTS = {SEND_FIRST, WRITE_FIRST, READ_RESP_FIRST}
MIDDLES = {SEND_MIDDLE, WRITE_MIDDLE, READ_RESP_MIDDLE}

# What all know of datagrams: the QP of the CM and other agents, its Q_Key, the QP that stands for a group.
GSI_QPN, GSI_QKEY, GROUP_QPN = 1, 0x80010000, 0xffffff

# AETH syndromes (9.7.5.2).
ACK_NO_CREDITS, RNR, NAK_PSN, NAK_INVALID, NAK_ACCESS, NAK_OPERATION = 0x1f, 0x20, 0x60, 0x61, 0x62, 0x63


def icrc(ip):
    """Compute the invariant CRC of an IP packet that ends before it (A17.3.3, 7.8.1).

    What routers may change counts as ones: ToS, TTL and header checksum of IPv4; traffic class,
    flow label and hop limit of IPv6; the UDP checksum; FECN, BECN and what is reserved beside
    them in the BTH. Eight bytes of ones stand for the LRH.
    """
    masked = bytearray(ip)
    if ip[0] >> 4 == 4:
        udp = (ip[0] & 15) * 4
        masked[1] = masked[8] = masked[10] = masked[11] = 0xff
    else:
        udp = 40
        masked[0] |= 0x0f
        masked[1] = masked[2] = masked[3] = masked[7] = 0xff
    masked[udp + 6] = masked[udp + 7] = 0xff
    masked[udp + 8 + 4] = 0xff
    return struct.pack("<I", zlib.crc32(bytes(masked), zlib.crc32(b"\xff" * 8)))


def checksum(data):
    """Compute the Internet checksum."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def group_mac(address):
    """Return the MAC address of a multicast group (RFC 1112, 6.4; RFC 2464, 7)."""
    group = ipaddress.ip_address(address)
    if group.version == 6:
        return (b"\x33\x33" + group.packed[12:]).hex(":")
    return (b"\x01\x00\x5e" + (int(group) & 0x7fffff).to_bytes(3, "big")).hex(":")


# Making packets.

def bth(opcode, qpn, psn, *, pad=0, pkey=PKEY, version=0, solicited=False, migrated=True,
        ack_req=False, fecn=0):
    """Return a base transport header."""
    flags = solicited << 7 | migrated << 6 | pad << 4 | version
    return struct.pack(">BBHII", opcode, flags, pkey, fecn << 24 | qpn, ack_req << 31 | psn & 0xffffff)


def reth(va, rkey, length):
    """Return an RDMA extended transport header."""
    return struct.pack(">QII", va, rkey, length)


def aeth(syndrome, msn):
    """Return an ACK extended transport header."""
    return struct.pack(">I", syndrome << 24 | msn & 0xffffff)


def transport(opcode, qpn, psn, headers=b"", payload=b"", **options):
    """Return a packet from its BTH to the end of its padding, without the ICRC."""
    pad = -len(payload) % 4
    options.setdefault("pad", pad)
    return bth(opcode, qpn, psn, **options) + headers + payload + bytes(pad)


@dataclasses.dataclass
class Wire:
    """How to get from here to there: what stands around a transport packet."""

    smac: str
    dmac: str
    saddr: str
    daddr: str
    sport: int = 0xc123
    ttl: int = 64
    tos: int = 0

    def frame(self, body, *, crc=None, options=b"", flags=0x4000, udp_length=None, ip_length=None,
              udp_checksum=0, dport=PORT, extension=b"", next_header=17, **other):
        """Return an Ethernet frame.

        body: bytes from the BTH on, without the ICRC; crc: what stands in its place.
        options: of IPv4; extension, next_header: extension headers of IPv6. Lengths that are given
        are told instead of the true ones. Further arguments replace fields of this object.
        """
        self = dataclasses.replace(self, **other)
        source, target = ipaddress.ip_address(self.saddr), ipaddress.ip_address(self.daddr)
        size = 8 + len(body) + (4 if crc is None else len(crc))
        udp = struct.pack(">HHHH", self.sport, dport, size if udp_length is None else udp_length,
                          udp_checksum)
        if source.version == 4:
            words = 5 + len(options) // 4
            length = words * 4 + size
            head = struct.pack(">BBHHHBBH", 4 << 4 | words, self.tos,
                               length if ip_length is None else ip_length, 0, flags, self.ttl, 17, 0)
            head += source.packed + target.packed + options
            head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
            kind = 0x0800
        else:
            head = struct.pack(">IHBB", 6 << 28 | self.tos << 20,
                               size + len(extension) if ip_length is None else ip_length,
                               next_header, self.ttl)
            head += source.packed + target.packed
            kind = 0x86dd
        if crc is None:
            crc = icrc(head + udp + body)
        return _mac(self.dmac) + _mac(self.smac) + struct.pack(">H", kind) \
            + head + extension + udp + body + crc


def _mac(text):
    return bytes.fromhex(text.replace(":", ""))


# Taking packets apart.

class Malformed(Exception):
    """A packet is not as it should be."""


@dataclasses.dataclass
class Packet:
    """One RoCEv2 packet of a capture."""

    number: int             # of the frame in the capture, from 1 as tshark counts
    time: float
    smac: str
    dmac: str
    vlan: int               # -1: no tag
    saddr: str
    daddr: str
    tos: int
    ttl: int
    flow_label: int
    dont_fragment: bool
    sport: int
    udp_checksum: int
    opcode: int
    solicited: bool
    pad: int
    version: int
    pkey: int
    qpn: int
    ack_req: bool
    psn: int
    headers: bytes          # extended ones
    payload: bytes
    padding: bytes
    icrc: bytes
    icrc_wanted: bytes
    ip_checksum_ok: bool

    @property
    def name(self):
        """The opcode's name."""
        return NAMES.get(self.opcode, f"opcode 0x{self.opcode:02x}")

    @property
    def is_request(self):
        """Whether it goes from requester to responder."""
        return self.opcode in REQUESTS or self.opcode in UNRELIABLE

    @property
    def operation(self):
        """The opcode without the service: that of RC."""
        return self.opcode & 0x1f if self.opcode in UNRELIABLE else self.opcode

    @property
    def is_multicast(self):
        """Whether it goes to a group."""
        return ipaddress.ip_address(self.daddr).is_multicast

    @property
    def qkey(self):
        """Q_Key of the DETH."""
        return int.from_bytes(self.headers[:4], "big")

    @property
    def source_qpn(self):
        """Source QP of the DETH, with the reserved byte before it."""
        return int.from_bytes(self.headers[4:8], "big")

    @property
    def syndrome(self):
        """Syndrome of the AETH."""
        return self.headers[0]

    @property
    def msn(self):
        """Message sequence number of the AETH."""
        return int.from_bytes(self.headers[1:4], "big")

    @property
    def dma_length(self):
        """Length in the RETH."""
        return struct.unpack(">I", self.headers[12:16])[0]

    def psns(self, mtu):
        """Return how many sequence numbers it takes: a READ takes one for each response."""
        if self.opcode != READ_REQUEST:
            return 1
        return max(1, (self.dma_length + mtu - 1) // mtu)

    def __str__(self):
        return f"frame {self.number}: {self.name}, QP {self.qpn}, PSN {self.psn}"


def records(data):
    """Yield (number, seconds, frame) of a pcap file, also one that is being written."""
    if len(data) < 24:
        return
    magic = data[:4]
    order = "<" if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    parts = 1e9 if magic in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1e6
    if struct.unpack(order + "I", data[20:24])[0] != 1:
        raise Malformed("the capture is not of Ethernet frames")
    at, number = 24, 0
    while at + 16 <= len(data):
        seconds, part, kept, size = struct.unpack_from(order + "IIII", data, at)
        if at + 16 + kept > len(data):
            return
        if kept != size:
            raise Malformed(f"frame {number + 1} was cut when it was captured")
        number += 1
        yield number, seconds + part / parts, data[at + 16:at + 16 + kept]
        at += 16 + kept


def dissect(number, time, frame):
    """Return the Packet in a frame, None if it is not RoCEv2; raise Malformed."""
    kind, at, vlan = struct.unpack_from(">H", frame, 12)[0], 14, -1
    if kind == 0x8100:
        vlan, kind = struct.unpack_from(">HH", frame, 14)
        vlan, at = vlan & 0xfff, 18
    ip = frame[at:]
    flow_label, dont_fragment, good = 0, True, True
    if kind == 0x0800:
        if ip[9] != 17:
            return None
        ip = ip[:struct.unpack_from(">H", ip, 2)[0]]
        head = (ip[0] & 15) * 4
        tos, ttl, source, target = ip[1], ip[8], ip[12:16], ip[16:20]
        flags = struct.unpack_from(">H", ip, 6)[0]
        if flags & 0x3fff:
            raise Malformed(f"frame {number} is a fragment")
        dont_fragment, good = bool(flags & 0x4000), checksum(ip[:head]) == 0
    elif kind == 0x86dd:
        if ip[6] != 17:
            return None
        head = 40
        word, length, _, ttl = struct.unpack_from(">IHBB", ip)
        tos, flow_label = word >> 20 & 0xff, word & 0xfffff
        source, target, ip = ip[8:24], ip[24:40], ip[:40 + length]
    else:
        return None
    sport, dport, length, udp_checksum = struct.unpack_from(">HHHH", ip, head)
    if dport != PORT:
        return None
    if length != len(ip) - head:
        raise Malformed(f"frame {number}: UDP length {length} in {len(ip) - head} bytes")
    data = ip[head + 8:]
    if len(data) < BTH + 4:
        raise Malformed(f"frame {number}: {len(data)} bytes of UDP payload")
    opcode, flags, pkey, qpn, psn = struct.unpack_from(">BBHII", data)
    if opcode not in EVERY:
        raise Malformed(f"frame {number}: opcode 0x{opcode:02x}")
    extended, _ = EVERY[opcode]
    pad = flags >> 4 & 3
    end = len(data) - 4 - pad
    if end < BTH + extended:
        raise Malformed(f"frame {number}: {NAMES[opcode]} of {len(data)} bytes with {pad} of padding")
    return Packet(
        number=number, time=time, smac=frame[6:12].hex(":"), dmac=frame[:6].hex(":"), vlan=vlan,
        saddr=str(ipaddress.ip_address(source)), daddr=str(ipaddress.ip_address(target)), tos=tos,
        ttl=ttl, flow_label=flow_label, dont_fragment=dont_fragment, sport=sport, udp_checksum=udp_checksum,
        opcode=opcode, solicited=bool(flags & 0x80), pad=pad, version=flags & 15, pkey=pkey, qpn=qpn & 0xffffff,
        ack_req=bool(psn >> 31), psn=psn & 0xffffff, headers=data[BTH:BTH + extended],
        payload=data[BTH + extended:end], padding=data[end:-4], icrc=data[-4:],
        icrc_wanted=icrc(ip[:-4]), ip_checksum_ok=good)


def read(path):
    """Return the RoCEv2 packets of a capture."""
    with open(path, "rb") as handle:
        data = handle.read()
    found = (dissect(*record) for record in records(data))
    return [packet for packet in found if packet]


def check(packet, mtu):
    """Raise Malformed unless a packet is as one of this path MTU has to be (9.2, 9.7.4, 9.8.2, 9.8.3)."""
    def need(condition, what):
        if not condition:
            raise Malformed(f"{packet}: {what}")
    need(packet.icrc == packet.icrc_wanted,
         f"ICRC {packet.icrc.hex()} instead of {packet.icrc_wanted.hex()}")
    need(packet.ip_checksum_ok, "IP header checksum")
    need(packet.dont_fragment, "may be fragmented")
    need(packet.version == 0, f"transport version {packet.version}")
    need(packet.pkey == PKEY, f"P_Key 0x{packet.pkey:04x}")
    need(packet.pad == -len(packet.payload) % 4, f"{packet.pad} bytes of padding")
    need(not any(packet.padding), "padding is not zero")
    need(packet.sport >= 0xc000, f"UDP source port {packet.sport}")
    need(packet.opcode in FORM or not packet.ack_req, "asks for an acknowledge")
    size, operation = len(packet.payload), packet.operation
    if operation in FIRSTS | MIDDLES:
        need(size == mtu, f"{size} bytes of payload")
    elif packet.opcode in FORM and not FORM[packet.opcode][1]:
        need(size == 0, f"{size} bytes of payload")
    elif operation in (SEND_LAST, SEND_LAST_IMM, SEND_LAST_INV, WRITE_LAST, WRITE_LAST_IMM,
                       READ_RESP_LAST):
        need(1 <= size <= mtu, f"{size} bytes of payload")
    else:
        need(size <= mtu, f"{size} bytes of payload")
    if operation in (WRITE_ONLY, WRITE_ONLY_IMM):
        need(packet.dma_length == size, f"{size} bytes of {packet.dma_length}")
    if operation == WRITE_FIRST:
        need(packet.dma_length > mtu, f"DMA length {packet.dma_length}")
