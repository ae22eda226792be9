# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The performance management agent of a port (16.1), asked by MADs: by a peer, and by its own host.

Over IPv6: with IPv4, Linux's own MAD layer (rcv_has_same_gid() in drivers/infiniband/core/mad.c) compares
an answer's destination with the asker's GID as if it were an IPv6 header, and drops it. That such a
question is answered is for wire.ServiceTest.
"""

import struct

from runner import VmTestCase

from interop import puppet
from interop.puppet import Puppet

GET, SET, GET_RESP = 0x01, 0x02, 0x81
BAD_VERSION, UNSUPPORTED = 0x0004, 0x000c
CLASS_PORT_INFO, PORT_SAMPLES_CONTROL, PORT_COUNTERS, PORT_COUNTERS_EXT = 0x0001, 0x0010, 0x0012, 0x001d
PERFORMANCE_CLASS, MAD_BYTES = 4, 256
# Where an attribute begins, and the words that data is counted in.
DATA, WORD = 64, 4
COUNT, LENGTH, MTU = 8, 4096, 1024
GROUP, GROUP_QPN = "::ffff:239.1.2.3", 0xffffff


def port_counters(mad):
    """Return the counters of an attribute PortCounters (16.1.3.5)."""
    names = ("xmit_data", "rcv_data", "xmit_packets", "rcv_packets")
    return dict(zip(names, struct.unpack_from(">4I", mad, DATA + 24)))


def port_counters_ext(mad):
    """Return the counters of an attribute PortCountersExtended (16.1.4.11)."""
    names = ("xmit_data", "rcv_data", "xmit_packets", "rcv_packets", "unicast_xmit_packets",
             "unicast_rcv_packets", "multicast_xmit_packets", "multicast_rcv_packets")
    return dict(zip(names, struct.unpack_from(">8Q", mad, DATA + 8)))


def difference(before, after):
    """Return how far each counter went."""
    return {name: after[name] - before[name] for name in after}


class PerformanceAgentTest(VmTestCase):
    """The second host's agent, asked by the first host unless a test says otherwise."""

    def ask(self, *attributes, host=None, method=GET, version=1, status=0):
        """Return the answers to a question for each attribute; host asks, by default the first one."""
        host = host or self.a
        said = host.run([self.program(host, "net", "ask_agent"), "rxe0", self.gid(host, host.ipv6), self.b.ipv6,
                         method, version, *attributes], check=True, timeout=120 * self.slow).stdout
        answers = [bytes.fromhex(line) for line in said.split()]
        self.assertEqual(len(answers), len(attributes))
        for attribute, mad in zip(attributes, answers):
            found = struct.unpack_from(">BBBBH", mad) + struct.unpack_from(">H", mad, 16)
            self.assertEqual(found, (1, PERFORMANCE_CLASS, version, GET_RESP, status, attribute))
            if status:
                self.assertFalse(any(mad[24:]), "data beside an error")
        return answers

    def counters(self, **options):
        """Return what PortCounters and PortCountersExtended say, in this order."""
        short, extended = self.ask(PORT_COUNTERS, PORT_COUNTERS_EXT, **options)
        return port_counters(short), port_counters_ext(extended)

    def write(self):
        """The first host writes to the second one."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        # Without a timeout: what is slow is not sent twice.
        puppet.pair(self, one, other, mtu=MTU, timeout=0)
        for _ in range(COUNT):
            one.do("post", op="write", len=LENGTH)
            self.assertEqual(one.do("drain"), {"got": 1, "status": 0})

    def check_data(self, ways, **options):
        """What was written moves the counters, as do the MADs, which pass the port so many times."""
        before = self.counters(**options)
        self.write()
        mads = 2 * ways             # from one question for an attribute to the next for the same
        for found in map(difference, before, self.counters(**options)):
            self.assertEqual(found["rcv_data"], (COUNT * LENGTH + mads * MAD_BYTES) // WORD, found)
            self.assertEqual(found["rcv_packets"], COUNT * LENGTH // MTU + mads, found)
            self.assertEqual(found["xmit_data"], mads * MAD_BYTES // WORD, found)
            # An acknowledge of each.
            self.assertGreaterEqual(found["xmit_packets"], COUNT + mads, found)

    def test_data(self):
        self.check_data(1)

    def test_data_asked_by_itself(self):
        """The port sends and receives both question and answer, past the network."""
        self.check_data(2, host=self.b)

    def test_class_port_info(self):
        """Version 1 of the class, and of all that an agent may have the extended counters alone."""
        mad = self.ask(CLASS_PORT_INFO)[0]
        self.assertEqual(struct.unpack_from(">BBH", mad, DATA), (1, 1, 0x0200))

    def test_multicast(self):
        """What goes to a group is counted apart, on both sides."""
        one, other = (Puppet(self, host) for host in (self.a, self.b))
        for end in one, other:
            end.open(dev="rxe0", gid=self.gid(end.host), type="ud", size=65536)
        other.connect(one.ends[0])
        other.do("join", gid=GROUP)
        other.do("recv", n=COUNT, len=40 + 64)
        one.connect({"qpn": GROUP_QPN, "psn": 0, "gid": GROUP})
        before = self.counters()[1]
        one.do("post", op="send", len=64, n=COUNT)
        self.assertEqual(one.do("drain", n=COUNT)["got"], COUNT)
        self.assertEqual(other.do("drain", n=COUNT), {"got": COUNT, "status": 0})
        after = self.counters()[1]
        found = difference(before, after)
        self.assertEqual((found["multicast_xmit_packets"], found["multicast_rcv_packets"]), (0, COUNT))
        self.assertEqual((found["unicast_xmit_packets"], found["unicast_rcv_packets"]), (2, 2))
        for way in "xmit", "rcv":
            self.assertEqual(after[f"unicast_{way}_packets"] + after[f"multicast_{way}_packets"],
                             after[f"{way}_packets"])

    def test_set(self):
        """Refused, and nothing is reset."""
        self.write()
        before = self.counters()
        self.ask(PORT_COUNTERS, PORT_COUNTERS_EXT, CLASS_PORT_INFO, method=SET, status=UNSUPPORTED)
        for found in map(difference, before, self.counters()):
            # Two questions that were answered, three that were refused.
            self.assertEqual(found["rcv_data"], 5 * MAD_BYTES // WORD, found)

    def test_unknown_attribute(self):
        self.ask(PORT_SAMPLES_CONTROL, 0xff00, status=UNSUPPORTED)

    def test_wrong_version(self):
        for version in 0, 2, 255:
            for method in GET, SET:
                self.ask(PORT_COUNTERS, CLASS_PORT_INFO, version=version, method=method, status=BAD_VERSION)
