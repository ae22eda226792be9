# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A host with ours and a host with rdma_rxe: every RC operation, asked by either, payloads checked."""

from runner import VmTestCase, limit

from interop import puppet
from interop.puppet import Puppet

PORT = 18600
BAD_NETWORK = "loss 1% duplicate 1% delay 1ms reorder 10% 25%"


class Cases:
    """The tests; a class for each arrangement follows."""

    def matrix(self, asker, other, *options, six=False):
        """Run rc_matrix, asker being the one that posts the requests."""
        address = other.ipv6 if six else other.ipv4

        def words(host):
            ways = ["-f", "-i"] if self.driver(other) == "rdma_rxe" else ["-f"]
            return [self.program(host, "interop", "rc_matrix"), "-d", "rxe0", *ways, *map(str, options),
                    "-g", self.gid(host, host.ipv6 if six else None)]
        server = other.spawn(words(other))
        other.wait_port(PORT)
        self.run_tap(asker, [*words(asker), address])
        self.together(server, timeout=None)

    def bad_network(self):
        for host in self.cluster[0], self.cluster[1]:
            host.run(f"tc qdisc add dev eth0 root netem limit 10000 {BAD_NETWORK}", check=True)

    def test_first_asks(self):
        self.matrix(self.a, self.b)

    def test_second_asks(self):
        self.matrix(self.b, self.a)

    def test_ipv6(self):
        self.matrix(self.a, self.b, "-n", 500, six=True)
        self.matrix(self.b, self.a, "-n", 500, six=True)

    def test_mtu_256(self):
        """As many packets as can be, across the end of the PSNs."""
        self.matrix(self.a, self.b, "-m", 256, "-n", 500, "-P", 0xffffe0)
        self.matrix(self.b, self.a, "-m", 256, "-n", 500, "-P", 0xffffe0)

    def test_mtu_4096(self):
        for host in self.a, self.b:
            host.run("ip link set eth0 mtu 4500", check=True)
        self.matrix(self.a, self.b, "-m", 4096, "-n", 500)
        self.matrix(self.b, self.a, "-m", 4096, "-n", 500)

    @limit(300)
    def test_bad_network(self):
        """Ours asks: rdma_rxe as the asker loses completions and WARNs (rxe_comp.c) on such a network."""
        asker, other = (self.b, self.a) if self.driver(self.a) == "rdma_rxe" else (self.a, self.b)
        self.bad_network()
        self.matrix(asker, other, "-x", "-z", "-n", 3000)

    def errors(self, asker, other):
        """What the two say of requests that fail: a QP each, since it does not survive."""
        one, two = Puppet(self, asker), Puppet(self, other)
        # rdma_rxe calls a SEND that is too long an operational error, where adapters say invalid request.
        theirs = self.driver(other) == "rdma_rxe"
        refused = {
            "write": puppet.REM_ACCESS, "read": puppet.REM_ACCESS, "fetch_add": puppet.REM_ACCESS,
            "send": puppet.REM_OP if theirs else puppet.REM_INV_REQ,
        }
        for q, (op, status) in enumerate(refused.items()):
            puppet.pair(self, one, two, q=q)
            two.do("recv", q=q, len=16, id=5)
            one.do("post", q=q, op=op, len=8 if op == "fetch_add" else 64, id=7,
                   rkey=one.ends[q]["rkey"] ^ 0x5a5a00)
            wc = one.do("poll", q=q, ms=60000)
            self.assertEqual((wc.get("id"), wc.get("status")), (7, status), op)
            self.assertEqual(one.state(q), "ERR", op)
            wc = two.do("poll", q=q, ms=60000)
            self.assertEqual(wc.get("id"), 5, op)
            if not theirs:
                self.assertEqual(wc.get("status"), puppet.LOC_LEN if op == "send" else puppet.FLUSH, op)
                self.assertEqual(two.state(q), "ERR", op)
        q = len(refused)
        puppet.pair(self, one, two, q=q, rnr=1)
        one.do("post", q=q, op="send", len=64)
        self.assertEqual(one.do("poll", q=q, ms=60000).get("status"), puppet.RNR_RETRY_EXC)
        self.assertEqual(two.state(q), "RTS")
        q += 1
        puppet.pair(self, one, two, q=q, timeout=10, retry=2)
        two.do("destroy", q=q)
        one.do("post", q=q, op="write", len=64)
        self.assertEqual(one.do("poll", q=q, ms=60000).get("status"), puppet.RETRY_EXC)
        for each in one, two:
            self.assertEqual(each.quit().status, 0)

    def test_errors_first_asks(self):
        self.errors(self.a, self.b)

    def test_errors_second_asks(self):
        self.errors(self.b, self.a)


class RxeSecond(Cases, VmTestCase):
    """Ours on the first host."""

    drivers = ("rxe_ng", "rdma_rxe")
    releases = ("bookworm", "backports", ("bookworm", "backports"))
    limit = 200

    def test_reader_without_end(self):
        """Eight long READs at any time: what this side has to say leaves all the same, and what it asks."""
        one, other = Puppet(self, self.a), Puppet(self, self.b)
        puppet.pair(self, one, other, size=1 << 20)
        # The wire is slower than either host, so that answers stand in its queue.
        self.a.run("tc qdisc replace dev eth0 root tbf rate 100mbit burst 64kb limit 8mb", check=True)
        other.tell("pump", op="read", len=1 << 18)
        self.assertEqual(other.answer(), {})
        self.a.wait_for("tc -s qdisc show dev eth0 | grep -Eq 'backlog ([0-9]{3,}K|[0-9]{6,})b'",
                        timeout=60 * self.slow)
        puppet.get_a_word_in(self, one, other)


class RxeFirst(Cases, VmTestCase):
    """Ours on the second host: what the mixed hosts of RxeSecond leave out."""

    drivers = ("rdma_rxe", "rxe_ng")
    releases = (("bookworm", "backports"),)
    limit = 200
