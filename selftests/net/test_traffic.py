# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Links, netdevs and namespaces that go under traffic, and networks that are bad or slow."""

import errno
import time

import perftest
from runner import VmTestCase

import links
from interop import puppet
from interop.puppet import Puppet
from links import add, counters, script, wait_gone

# 'link del' under traffic returns within that many seconds.
PATIENCE = 5

# A netdev of its own beside eth0, in the first namespace or in ns1, with a link t1 on it.
MACVLAN = """
ip link add link eth0 name m0 type macvlan mode bridge
{move}
{ip} link set m0 up
{ip} addr add 10.79.0.{n}/24 dev m0
"""


class Traffic(VmTestCase):
    """Two hosts with a stream between them, both ways."""

    debug = True
    limit = 180

    def setUp(self):
        self.puppets = []

    def pump(self, device, *indices):
        """Connect an end on each host and let both write to each other without end."""
        ends = []
        for host, index in zip(self.cluster, indices):
            one = Puppet(self, host)
            one.open(dev=device, gid=index, size=1 << 20)
            ends.append(one)
        ends[0].connect(ends[1].ends[0])
        ends[1].connect(ends[0].ends[0])
        for one in ends:
            one.do("pump", op="write", len=65536)
        for host in self.cluster[0], self.cluster[1]:
            path = f"{links.SYSFS}/{device}/ports/1/hw_counters/rx_bytes"
            host.run(f"start=$(cat {path}); until [ $(cat {path}) -gt $((start + 2000000)) ]; "
                     "do sleep 0.05; done", check=True, timeout=60 * self.slow)
        self.puppets += ends
        return ends

    def add_macvlan(self, netns=""):
        """Give each host a netdev m0 and a link t1 on it, perhaps in a namespace; return the GIDs."""
        for host in self.cluster[0], self.cluster[1]:
            move = f"ip netns add {netns}; ip link set m0 netns {netns}" if netns else ""
            script(host, MACVLAN.format(n=host.number, move=move,
                                        ip=f"ip -n {netns}" if netns else "ip"))
            add(host, "t1", "m0", netns=netns)
        return [self.gid(host, f"10.79.0.{host.number}", "t1")
                for host in (self.cluster[0], self.cluster[1])]

    def timed(self, host, command):
        """Run a command that has to end soon."""
        start = time.monotonic()
        host.run(command, check=True, timeout=60 * self.slow)
        self.assertLess(time.monotonic() - start, PATIENCE * self.slow, command)

    def test_link_delete(self):
        for host in self.a, self.b:
            ends = self.pump("rxe0", self.gid(self.a), self.gid(self.b))
            self.timed(host, "rdma link delete rxe0")
            self.assertNotIn("rxe0", links.links(host))
            # The peer finds out by its retries.
            peer = ends[1] if host is self.a else ends[0]
            self.assertEqual(peer.answer()["status"], puppet.RETRY_EXC)
            for one in ends:
                one.command.kill()
                one.command.wait(60 * self.slow)
            script(host, "rmmod rxe_ng; load-rxe_ng; rdma link add rxe0 type rxe netdev eth0")

    def test_program_outlives_its_link(self):
        """It holds the device open: it gets the event and errors, and no crash."""
        waiting = Puppet(self, self.a)
        waiting.open(dev="rxe0", gid=self.gid(self.a))
        waiting.tell("drain", ms=60000)     # asleep at its completion channel
        one, _ = self.pump("rxe0", self.gid(self.a), self.gid(self.b))
        self.a.run("rdma link delete rxe0", check=True)
        with self.assertRaises(puppet.Refused) as refused:
            waiting.answer()
        self.assertEqual(refused.exception.errno, errno.EIO)
        self.assertEqual(waiting.quit().status, 0)
        one.tell("event", ms=60000)
        try:
            self.assertNotEqual(one.answer()["status"], 0, "the stream noticed nothing")
        except puppet.Refused:
            pass                            # it was refused to post or to wait: as good
        # Port and GIDs go first, of which there may be events too.
        name = puppet.EVENTS[one.answer()["event"]]
        while name != "DEVICE_FATAL":
            self.assertIn(name, ("PORT_ERR", "GID_CHANGE"))
            name = puppet.EVENTS[one.do("event", ms=60000)["event"]]
        one.command.close_stdin()
        result = one.command.wait(60 * self.slow)
        self.assertIn(result.status, (0, 1), result.stderr)
        script(self.a, "rmmod rxe_ng; load-rxe_ng")

    def test_netdev_goes(self):
        self.pump("t1", *self.add_macvlan())
        self.timed(self.a, "ip link del m0")
        wait_gone(self.a, "t1")
        self.assertEqual(self.puppets[1].answer()["status"], puppet.RETRY_EXC)

    def test_namespace_goes(self):
        """The programs are in the first namespace: they do not keep the other one alive."""
        self.pump("t1", *self.add_macvlan("ns1"))
        self.a.run("ip netns del ns1", check=True)
        wait_gone(self.a, "t1")
        self.assertEqual(self.puppets[1].answer()["status"], puppet.RETRY_EXC)

    def test_killed(self):
        """kill -9 of a program in mid-transfer; module unload at once."""
        for _ in range(5):
            one, _ = self.pump("rxe0", self.gid(self.a), self.gid(self.b))
            one.command.kill(9)
            one.command.wait(60 * self.slow)
            script(self.a, "rdma link delete rxe0; rmmod rxe_ng; load-rxe_ng; "
                           "rdma link add rxe0 type rxe netdev eth0")


class BadNetwork(VmTestCase):
    """Loss, duplicates, reordering, full queues, breaks: nothing gets lost, no QP fails."""

    limit = 300

    def setUp(self):
        self.before = {host: counters(host) for host in (self.a, self.b)}

    def moved(self, host):
        """Return how far each counter of a host went since the test began."""
        return {name: value - self.before[host][name] for name, value in counters(host).items()}

    def wait_moved(self, host, name, least):
        """Wait until a counter went so far since the test began."""
        least += self.before[host][name]
        host.wait_for(f"[ $(cat {links.SYSFS}/rxe0/ports/1/hw_counters/{name}) -gt {least} ]",
                      timeout=60 * self.slow)

    def pingpong(self, *options, address=None):
        """ibv_rc_pingpong with its own check of the data."""
        words = ["ibv_rc_pingpong", "-c", "-d", "rxe0", *map(str, options)]
        server = self.a.spawn([*words, "-g", self.gid(self.a)])
        self.a.wait_port(18515)
        client = self.b.spawn([*words, "-g", self.gid(self.b), self.a.ipv4])
        for result in self.together(client, server, timeout=200 * self.slow):
            self.assertNotRegex(result.stdout + result.stderr, "(?i)invalid|fail")
            self.assertIn("iters", result.stdout)

    def qdisc(self, words, both=True):
        """Put a queueing discipline on eth0."""
        for host in self.cluster[:2] if both else self.cluster[:1]:
            script(host, f"modprobe -a sch_netem sch_tbf sch_plug 2>/dev/null || true; "
                         f"tc qdisc replace dev eth0 root {words}")

    def matrix(self, *options):
        """A stream of all operations, each completion counted."""
        program = {host: self.program(host, "interop", "rc_matrix") for host in (self.a, self.b)}
        server = self.a.spawn([program[self.a], "-d", "rxe0", "-x", "-g", self.gid(self.a),
                               *map(str, options)])
        self.a.wait_port(18600)
        self.run_tap(self.b, [program[self.b], "-d", "rxe0", "-x", "-g", self.gid(self.b),
                              *map(str, options), self.a.ipv4])
        self.together(server)

    def test_depths(self):
        """A clean link: whatever is posted at once, nothing is sent twice."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        # A time-out of 4 s, which a slow machine keeps.
        puppet.pair(self, one, other, size=1 << 20, depth=256, timeout=20)
        for length in 8, 5000:
            for exponent in range(9):
                depth = 1 << exponent
                one.do("post", op="write", len=length, n=depth)
                self.assertEqual(one.do("drain", n=depth), {"got": depth, "status": 0})
        for host in self.a, self.b:
            moved = self.moved(host)
            self.assertEqual([moved[name] for name in ("retransmit", "rx_nak_seq", "dup_request", "retry_exceeded")],
                             [0] * 4)

    def test_loss(self):
        """No pingpong: its ends do not wait for each other, and it may be the last acknowledgement that is lost."""
        self.qdisc("netem limit 10000 loss 1%")
        self.matrix("-n", 1000, "-S", 5)
        ends = [perftest.End(host, self.gid(host), host.ipv4) for host in (self.a, self.b)]
        for program in "ib_send_lat", "ib_write_bw", "ib_read_bw":
            found, _ = perftest.run(program, *ends, ["-n", 200], timeout=100 * self.slow)
            self.assertGreaterEqual(found[0]["iterations"], 200)
        found = [self.moved(host) for host in (self.a, self.b)]
        self.assertGreater(sum(c["retransmit"] for c in found), 0)
        self.assertEqual(sum(c["retry_exceeded"] for c in found), 0)

    def test_duplicates(self):
        self.qdisc("netem limit 10000 duplicate 1%")
        self.pingpong("-n", 1000)
        self.pingpong("-n", 100, "-s", 65536)
        self.assertGreater(sum(self.moved(h)["dup_request"] for h in (self.a, self.b)), 0)

    def test_reordering(self):
        self.qdisc("netem limit 10000 delay 2ms reorder 10% 25%")
        self.pingpong("-n", 300)
        self.pingpong("-n", 100, "-s", 65536)
        self.assertGreater(sum(self.moved(h)["out_of_seq_request"] for h in (self.a, self.b)), 0)

    def test_all_of_it(self):
        self.qdisc("netem limit 10000 loss 1% duplicate 1% delay 1ms reorder 10% 25%")
        self.matrix("-n", 3000, "-S", 77)

    def test_tiny_queue(self):
        """A queue of two packets refuses most of a burst: they go later, and no retry is counted.

        What a fast NIC takes at once never stands in it, so that there is a slow one before the NIC.
        """
        self.qdisc("handle 1: tbf rate 100mbit burst 10000 limit 100000", both=False)
        script(self.a, "tc qdisc replace dev eth0 parent 1:1 pfifo limit 2")
        self.slow_queue()

    def test_token_bucket(self):
        self.qdisc("tbf rate 40mbit burst 5000 limit 6000", both=False)
        self.slow_queue()

    def slow_queue(self):
        """Writes from the host with the queue to the other one: nothing is lost on the way."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        # A time-out of 4 s: whatever is sent twice then was lost, and did not just take its time.
        puppet.pair(self, one, other, size=1 << 20, timeout=20)
        one.do("set", byte=0x3c, len=1 << 20)
        one.do("post", op="write", len=1 << 20, n=8)
        self.assertEqual(one.do("drain", n=8), {"got": 8, "status": 0})
        self.assertEqual(other.do("same", byte=0x3c, len=1 << 20)["same"], 1)
        self.assertEqual((one.state(), other.state()), ("RTS", "RTS"))
        found = self.moved(self.a)
        self.assertGreater(found["tx_congested"], 0, "the queue refused nothing")
        self.assertEqual((found["retransmit"], found["retry_exceeded"]), (0, 0), found)

    def refusing(self, then):
        """Connect two ends without time-outs; the second one's network refuses all, until it has refused
        something twice and a command there succeeds. Return the puppets and what waits for that."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        puppet.pair(self, one, other, timeout=0)
        # Neighbours are known from here on.
        puppet.exchange(self, one, other)
        refused = f"$(cat {links.SYSFS}/rxe0/ports/1/hw_counters/tx_congested)"
        command = self.b.spawn(
            f"set -e; enough=$(({refused} + 2)); tc qdisc replace dev eth0 root pfifo limit 0; echo shut; "
            f"until [ {refused} -ge $enough ] && {then}; do sleep 0.05; done; "
            # In its place: while another one is put in, packets vanish.
            "tc qdisc change dev eth0 root pfifo limit 1000")
        command.wait_output("shut", 60 * self.slow)
        return one, other, command

    def test_nak_that_is_refused(self):
        """What ended the connection the peer is told, though the network refuses to carry it at first."""
        one, _, opened = self.refusing("rdma resource show qp link rxe0/1 | grep -q 'state ERR'")
        one.do("post", op="write", len=64, rkey=1)
        opened.wait(60 * self.slow, check=True)
        self.assertEqual(one.do("poll", ms=60000).get("status"), puppet.REM_ACCESS)

    def test_not_ready_that_is_refused(self):
        """The sender that may not ask again hears that it may: the first RNR NAK was refused."""
        one, other, opened = self.refusing("true")
        one.do("post", op="send", len=64)
        opened.wait(60 * self.slow, check=True)
        other.do("recv", len=64)
        for end in one, other:
            self.assertEqual(end.do("drain", ms=60000), {"got": 1, "status": 0})
        self.assertGreater(self.moved(self.a)["rx_rnr"], 0)

    def test_reader_on_this_host(self):
        """It never stops reading: what the other QP of the host has to say is heard all the same."""
        one, other = Puppet(self, self.a), Puppet(self, self.a)
        puppet.pair(self, one, other, size=1 << 20)
        other.tell("pump", op="read", len=1 << 20)
        self.assertEqual(other.answer(), {})
        self.wait_moved(self.a, "loopback_pkts", 5000)
        puppet.get_a_word_in(self, one, other)

    def cut_short(self, kind, **arguments):
        """Bursts that stop at each page: the rest goes when it is there, without help of a timer."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        arguments.update(type=kind, dev="rxe0", size=1 << 20)
        one.open(gid=self.gid(self.a), on_demand=1, **arguments)
        # What comes to an unreliable one while a page is missing may be lost.
        other.open(gid=self.gid(self.b), on_demand=int(kind == "rc"), **arguments)
        one.connect(other.ends[0])
        other.connect(one.ends[0])
        one.do("set", byte=0x3c, len=1 << 20)
        other.do("recv", len=(1 << 20) - 99, off=99)
        one.do("post", op="send", len=(1 << 20) - 99, off=77)
        for end in one, other:
            self.assertEqual(end.do("drain", ms=30000 * self.slow), {"got": 1, "status": 0})
        self.assertEqual(other.do("same", byte=0x3c, off=99, len=(1 << 20) - 99)["same"], 1)

    def test_missing_pages(self):
        self.cut_short("rc", timeout=0)
        found = self.moved(self.a)
        self.assertEqual((found["retransmit"], found["retry_exceeded"]), (0, 0), found)

    def test_missing_pages_unreliable(self):
        self.cut_short("uc")

    def test_bad_key_behind_good_packets(self):
        """They have left, and are acknowledged: what was sent before does not suffer."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        puppet.pair(self, one, other, timeout=20)
        other.do("recv", n=2, len=65536)
        # They arrive together, so that one acknowledgement is for all.
        self.qdisc("plug limit 1000000", both=False)
        one.do("post", op="send", len=8, id=1)
        one.do("post", op="send", len=4096, good=2048, id=2)
        script(self.a, "tc qdisc change dev eth0 root plug release_indefinite")
        for number, status in (1, 0), (2, puppet.LOC_PROT):
            wc = one.do("poll", ms=60000)
            self.assertEqual((wc.get("id"), wc.get("status")), (number, status))
        self.assertEqual(self.moved(self.a)["retransmit"], 0)

    def perftest(self, break_it):
        """ib_write_bw with its default timeout and retries, while something happens.

        Long before its end: what its ends tell each other then may be cut by a TCP that has just lost its
        route, and they read it in one piece.
        """
        words = ["ib_write_bw", "-d", "rxe0", "-F", "-D", "8", "-s", "65536"]
        server = self.a.spawn([*words, "-x", self.gid(self.a)])
        self.a.wait_port(18515)
        client = self.b.spawn([*words, "-x", self.gid(self.b), self.a.ipv4])
        self.wait_moved(self.b, "tx_bytes", 300000)
        break_it()
        for result in self.together(client, server, timeout=120 * self.slow):
            self.assertNotRegex(result.stdout + result.stderr, "(?i)fail|error")
        self.assertRegex(client.output, r"(?m)^\s*65536\s+\d+")
        found = self.moved(self.b)
        self.assertGreater(found["retransmit"], 0, "the break was not felt")
        self.assertEqual(found["retry_exceeded"], 0)

    def test_break_on_the_way(self):
        """For 0.3 s nothing arrives."""
        self.perftest(lambda: self.b.run(
            "modprobe sch_netem; tc qdisc replace dev eth0 root netem limit 1000 loss 100%; sleep 0.3; "
            "tc qdisc del dev eth0 root", check=True))

    def test_break_of_the_cable(self):
        def unplug():
            self.b.set_link(False)
            time.sleep(0.3)         # the length of the break
            self.b.set_link(True)
        self.perftest(unplug)

    def test_break_of_the_link(self):
        """It is taken down and up again; routes and neighbours go meanwhile."""
        self.perftest(lambda: script(self.b, "ip link set eth0 down; sleep 0.3; ip link set eth0 up"))

    def test_skbs_outlive_qp_and_module(self):
        """Packets wait in a queue; QP, link and module are gone when they leave it."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        puppet.pair(self, one, other, size=1 << 20)
        waiting = "tc -s qdisc show dev eth0 | grep -q 'backlog [0-9]*b [1-9]'"
        self.qdisc("plug limit 1000000", both=False)
        one.do("post", op="write", len=65536)
        self.a.wait_for(waiting)
        one.do("destroy")
        self.assertEqual(one.quit().status, 0)
        script(self.a, f"rdma link delete rxe0; rmmod rxe_ng; {waiting}")
        script(self.a, "tc qdisc change dev eth0 root plug release_indefinite")
        self.a.wait_for("tc -s qdisc show dev eth0 | grep -q 'backlog 0b 0p'")
        script(self.a, "load-rxe_ng; rdma link add rxe0 type rxe netdev eth0")

    def test_neighbour_moves(self):
        """The peer gets another MAC address in mid-stream, and says so as a NIC would."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        puppet.pair(self, one, other, size=1 << 20, timeout=16)
        one.do("pump", op="write", len=32768)
        mac = "52:54:00:99:00:02"
        script(self.b, f"ip link set eth0 address {mac}")
        script(self.a, f"ip neigh replace {self.b.ipv4} lladdr {mac} dev eth0 nud stale")
        self.wait_moved(self.b, "rx_bytes", self.moved(self.b)["rx_bytes"] + 1000000)
        script(self.a, f"ip neigh del {self.b.ipv4} dev eth0")
        self.wait_moved(self.b, "rx_bytes", self.moved(self.b)["rx_bytes"] + 1000000)
        one.tell("state")
        self.assertEqual(one.answer()["status"], 0)
        self.assertEqual(one.answer()["state"], "RTS")
        script(self.b, "ip link set eth0 address 52:54:00:77:00:02")

    def test_peer_without_neighbour(self):
        """No ARP answer: the request ends with retries exceeded, and the next connection works."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        puppet.pair(self, one, other, timeout=10, retry=3)
        script(self.a, f"ip neigh replace {self.b.ipv4} lladdr 52:54:00:00:00:99 dev eth0 nud permanent")
        one.do("post", op="write", len=64)
        self.assertEqual(one.do("poll", ms=60000).get("status"), puppet.RETRY_EXC)
        script(self.a, f"ip neigh del {self.b.ipv4} dev eth0")
        puppet.pair(self, one, other, q=1)
        puppet.exchange(self, one, other, q=1)
