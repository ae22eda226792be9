# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Tracepoints tell what happened: transitions, packets, retries, drops, completions."""

import re

from runner import VmTestCase

from interop import puppet
from interop.puppet import Puppet
from links import script

TRACING = "/sys/kernel/tracing"


class TraceTest(VmTestCase):
    """Two QPs on one device."""

    hosts = 1

    def setUp(self):
        script(self.a, f"cd {TRACING}; echo >trace; echo 1 >events/rxe_ng/enable")
        self.addCleanup(self.a.run, f"cd {TRACING}; echo 0 >events/rxe_ng/enable; echo >trace")
        self.asker, self.answerer = Puppet(self, self.a), Puppet(self, self.a)

    def told(self, event, end):
        """Return what a tracepoint told of an end's QP, without the QP's number."""
        text = self.a.run(["cat", f"{TRACING}/trace"], check=True).stdout
        return re.findall(rf" rxng_{event}: qpn=0x{end.ends[0]['qpn']:06x} (.*)", text)

    def connect(self, **arguments):
        """Connect the two."""
        puppet.pair(self, self.asker, self.answerer, **arguments)

    def test_states(self):
        self.connect()
        self.assertEqual(self.told("qp_state", self.asker), ["RESET -> INIT", "INIT -> RTR", "RTR -> RTS"])
        self.asker.do("post", op="write", len=8, rkey=1)
        self.assertEqual(self.asker.do("drain")["status"], 10)
        for end in self.asker, self.answerer:
            self.assertEqual(self.told("qp_state", end)[3:], ["RTS -> ERR"])

    def test_packets_and_completions(self):
        self.connect(psn=7)
        self.asker.do("post", op="write", len=3000)
        self.asker.do("drain")
        sent, received = self.told("tx", self.asker), self.told("rx", self.answerer)
        self.assertEqual(sent, received)
        self.assertTrue(sent[0].startswith("WRITE_"), sent)
        self.assertRegex(sent[0], r"packets=3 bytes=3000", "on one host a burst goes in one piece")
        self.assertEqual(sum(int(re.search(r"bytes=(\d+)", each)[1]) for each in sent), 3000)
        self.assertRegex(sent[0], r"psn=7 ")
        self.assertRegex(self.told("tx", self.answerer)[-1], r"^ACK psn=\d+ packets=1 bytes=0 .* msn=1$")
        self.assertEqual(self.told("rx", self.asker), self.told("tx", self.answerer))
        self.assertEqual(len(self.told("completion", self.asker)), 1)
        self.assertRegex(self.told("completion", self.asker)[0], r"status=0 opcode=1 ")

    def test_retry(self):
        """A SEND that meets no receive, with two tries."""
        self.connect(rnr=2, psn=5)
        self.asker.do("post", op="send", len=8)
        self.assertEqual(self.asker.do("drain")["status"], 13)
        told = self.told("retry", self.asker)
        self.assertEqual([each.rpartition(" ")[2] for each in told], ["rnr_left=1", "rnr_left=0"])
        self.assertTrue(all(each.startswith("RNR psn=5 ") for each in told), told)

    def test_drop(self):
        script(self.a, "python3 -S -c 'import socket; s = socket.socket(2, 2); "
               f"s.sendto(b\"nonsense\", (\"{self.a.ipv4}\", 4791))'")
        self.a.wait_for(f"grep -q 'rxng_drop: qpn=0x000000 rx_malformed' {TRACING}/trace")
