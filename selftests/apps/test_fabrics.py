# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Libraries that programs of high-performance computing stand on: libfabric, UCX."""

from net.links import counters
from runner import VmTestCase

FI_PORT, UCX_PORT = 47592, 13337
UNITS = {"1k": 1 << 10, "64k": 1 << 16, "1m": 1 << 20}
ROUNDS, COUNT = 20, 100


class Fabric(VmTestCase):
    """A server on the first host, a client on the second; no setting but the transport's name."""

    limit = 300

    def serve(self, port, words, least, env=()):
        """Run a program with the server's address on the client; return the client's output.

        least: bytes that have to go by the device, to the server or from it.
        """
        words = ["env", *env, *map(str, words)]
        before = self.moved()
        one = self.a.spawn(words)
        self.a.wait_port(port)
        two = self.b.spawn([*words, self.a.ipv4])
        said = self.together(two, one, timeout=120 * self.slow)[0].stdout
        self.assertGreaterEqual(self.moved() - before, least, "it went another way")
        return said

    def moved(self):
        """Return how many bytes the server's device sent and got."""
        found = counters(self.a)
        return found["tx_bytes"] + found["rx_bytes"]


class Libfabric(Fabric):
    """fi_pingpong over the endpoints that the verbs provider has, and over those made of them."""

    def test_info(self):
        said = self.a.run(["fi_info", "-p", "verbs"], check=True).stdout
        self.assertIn("domain: rxe0", said)
        self.assertIn("FI_EP_MSG", said)

    def pingpong(self, provider, endpoint, *options, largest="1m"):
        """Go through all sizes that there are, the data verified."""
        said = self.serve(FI_PORT, ["fi_pingpong", "-p", provider, "-e", endpoint, "-I", ROUNDS, "-c", *options],
                          ROUNDS * UNITS[largest])
        self.assertRegex(said, rf"{largest}\s+{ROUNDS}\s+={ROUNDS}")

    def test_msg(self):
        self.pingpong("verbs", "msg")

    def test_rxm(self):
        self.pingpong("verbs;ofi_rxm", "rdm")

    def test_datagram(self):
        self.pingpong("verbs", "dgram", largest="1k")

    def test_rxd(self):
        """It sends more than the peer has receives for, and later again: large messages take long."""
        self.pingpong("verbs;ofi_rxd", "rdm", "-S", 65536, largest="64k")


class Ucx(Fabric):
    """ucx_perftest; UD with its check of the receiver's address on, as it is by default."""

    def perftest(self, test, size, transports=None):
        env = [f"UCX_TLS={transports}"] if transports else []
        # Newer ones think that without a terminal they are started by MPI.
        alone = [] if self.a.release.root.name == "bookworm" else ["-P", 0]
        said = self.serve(UCX_PORT, ["ucx_perftest", *alone, "-t", test, "-n", COUNT, "-s", size],
                          COUNT * size, env)
        self.assertIn("Final:", said)

    def test_info(self):
        said = self.a.run(["ucx_info", "-d"], check=True).stdout
        self.assertIn("Transport: rc_verbs", said)
        self.assertIn("Transport: ud_verbs", said)

    def test_default(self):
        self.perftest("tag_lat", 8)

    def test_rc(self):
        self.perftest("tag_bw", 8192, transports="rc_verbs,ud_verbs:aux")

    def test_rc_large(self):
        self.perftest("tag_bw", 1 << 20, transports="rc_verbs,ud_verbs:aux")

    def test_rc_put(self):
        self.perftest("ucp_put_lat", 64, transports="rc_verbs,ud_verbs:aux")

    def test_rc_get(self):
        self.perftest("ucp_get", 65536, transports="rc_verbs,ud_verbs:aux")

    def test_rc_atomics(self):
        self.perftest("ucp_fadd", 8, transports="rc_verbs,ud_verbs:aux")

    def test_ud(self):
        self.perftest("tag_bw", 8192, transports="ud_verbs")

    def test_ud_small(self):
        self.perftest("tag_lat", 8, transports="ud_verbs")
