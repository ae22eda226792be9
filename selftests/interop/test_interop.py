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
            inv = ["-i"] if self.driver(other) == "rdma_rxe" else []
            return [self.program(host, "interop", "rc_matrix"), "-d", "rxe0", *inv, *map(str, options),
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
    def test_bad_network_first_asks(self):
        self.bad_network()
        self.matrix(self.a, self.b, "-x", "-n", 3000)

    @limit(300)
    def test_bad_network_second_asks(self):
        self.bad_network()
        self.matrix(self.b, self.a, "-x", "-n", 3000)


class RxeSecond(Cases, VmTestCase):
    """Ours on the first host."""

    drivers = ("rxe_ng", "rdma_rxe")
    releases = ("bookworm", "backports", ("bookworm", "backports"))
    limit = 200


class RxeFirst(Cases, VmTestCase):
    """Ours on the second host: what the mixed hosts of RxeSecond leave out."""

    drivers = ("rdma_rxe", "rxe_ng")
    releases = (("bookworm", "backports"),)
    limit = 200
