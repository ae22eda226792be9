# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that connect by the connection manager: rdma_cm over QP 1, both port spaces."""

from apps import wire
from apps.rping import Rping, rping
from net.links import wait_listen
from runner import VmTestCase, limit

GROUP = "239.1.2.3"
POLLHUP = 16


class Cm(VmTestCase):
    """A server on the first host, a client on the second."""

    def wait_listen(self, command):
        """Wait until the first host's server listens."""
        wait_listen(self.a)
        self.assertTrue(command.running, command.result().stdout if not command.running else "")

    def serve(self, server, client, timeout=60):
        """Run a server and a client to their end, both successfully; return the client's output."""
        one = self.a.spawn(["stdbuf", "-oL", *map(str, server)])
        self.wait_listen(one)
        two = self.b.spawn(["stdbuf", "-oL", *map(str, client)])
        return self.together(two, one, timeout=timeout * self.slow)[0].stdout

    def rping(self, address, *options, **more):
        """SEND, READ and WRITE over a connection."""
        rping(self, self.a, self.b, address, *options, **more)

    def test_rping(self):
        self.rping(self.a.ipv4)

    def test_rping_ipv6(self):
        self.rping(self.a.ipv6)

    def test_rping_large(self):
        self.rping(self.a.ipv4, "-S", "60000", count=20)

    def add_vlan(self):
        """Give each host a VLAN above its NIC."""
        for host in self.cluster:
            host.run("ip link add link eth0 name eth0.10 type vlan id 10 && ip link set eth0.10 up && "
                     f"ip addr add 10.78.0.{host.number}/24 dev eth0.10 && "
                     f"ip addr add fd78::{host.number}/64 dev eth0.10 nodad", check=True)
        for host in self.cluster:
            self.gid(host, f"10.78.0.{host.number}")
            self.gid(host, f"fd78::{host.number}")

    def test_rping_vlan(self):
        self.add_vlan()
        self.rping("10.78.0.1", count=5)

    def test_rping_vlan_ipv6(self):
        self.add_vlan()
        self.rping("fd78::1", count=5)

    def test_ucmatose(self):
        said = self.serve(["ucmatose", "-b", self.a.ipv4, "-c", 4],
                          ["ucmatose", "-s", self.a.ipv4, "-c", 4])
        self.assertIn("return status 0", said)

    def test_ucmatose_ipv6(self):
        said = self.serve(["ucmatose", "-f", "ip", "-b", self.a.ipv6],
                          ["ucmatose", "-f", "ip", "-s", self.a.ipv6])
        self.assertIn("return status 0", said)

    def test_udaddy(self):
        said = self.serve(["udaddy", "-b", self.a.ipv4, "-c", 4], ["udaddy", "-s", self.a.ipv4, "-c", 4])
        self.assertIn("return status 0", said)

    def test_udaddy_ipv6(self):
        said = self.serve(["udaddy", "-b", self.a.ipv6], ["udaddy", "-s", self.a.ipv6])
        self.assertIn("return status 0", said)

    def test_mckey(self):
        """What one host sends to a group, the other one hears."""
        one = self.a.spawn(["stdbuf", "-oL", "mckey", "-m", GROUP, "-b", self.a.ipv4])
        one.wait_output("receiving data transfers", 60 * self.slow)
        two = self.b.spawn(["stdbuf", "-oL", "mckey", "-m", GROUP, "-b", self.b.ipv4, "-s"])
        for result in self.together(two, one, timeout=60 * self.slow):
            self.assertIn("return status 0", result.stdout)

    def test_cmtime(self):
        """20 connections; the server of rdma-core 44 does not end by itself."""
        one = self.a.spawn(["cmtime", "-b", self.a.ipv4, "-c", "20"])
        self.wait_listen(one)
        said = self.b.run(["cmtime", "-s", self.a.ipv4, "-c", "20"], timeout=60 * self.slow, check=True).stdout
        self.assertRegex(said, "disconnect")
        one.kill()

    def test_rcopy(self):
        self.a.run("mkdir -p /tmp/in", check=True)
        self.b.run("head -c 3000001 /dev/urandom >/tmp/data", check=True)
        one = self.a.spawn("cd /tmp/in && exec rcopy")
        self.wait_listen(one)
        self.b.run(["rcopy", "/tmp/data", f"{self.a.ipv4}:copied"], timeout=60 * self.slow, check=True)
        one.kill()
        sums = [host.run(f"sha256sum <{path}", check=True).stdout
                for host, path in ((self.a, "/tmp/in/copied"), (self.b, "/tmp/data"))]
        self.assertEqual(*sums)

    def stream(self, program, *options):
        """Sockets over RDMA, the data verified."""
        said = self.serve([program, "-b", self.a.ipv4, *options], [program, "-s", self.a.ipv4, *options])
        self.assertIn("time", said)

    @limit(300)
    def test_rstream(self):
        self.stream("rstream", "-I", 10, "-T", "v")

    @limit(300)
    def test_rstream_resolve(self):
        self.stream("rstream", "-I", 10, "-C", 10, "-S", 4096, "-f", "ip", "-T", "v")

    @limit(300)
    def test_rstream_async(self):
        """The client polls: what tells it that the server has gone may come with the last data, and
        rstream takes that for an error, though all has arrived; the server, which got its data back, does not."""
        options = ["-I", "10", "-C", "10", "-S", "4096", "-T", "a", "-T", "v"]
        one = self.a.spawn(["rstream", "-b", self.a.ipv4, *options])
        self.wait_listen(one)
        two = self.b.run(["rstream", "-s", self.a.ipv4, *options], timeout=60 * self.slow)
        self.assertIn(two.status, (0, POLLHUP), two.stdout + two.stderr)
        self.assertRegex(one.wait(60 * self.slow, check=True).stdout, r"custom +4k +10 +10 ")

    @limit(300)
    def test_riostream(self):
        self.stream("riostream", "-I", 10, "-C", 10, "-S", 4096, "-T", "v")

    def test_disconnect_while_down(self):
        """A CM message that cannot be sent costs that connection only: QP 1 goes on."""
        one = self.a.spawn(["rping", "-s", "-a", self.a.ipv4])
        self.wait_listen(one)
        two = self.b.spawn(["stdbuf", "-oL", "rping", "-c", "-a", self.a.ipv4, "-v"])
        two.wait_output("ping data", 60 * self.slow)
        asked = "cat /sys/class/infiniband/rxe0/ports/1/cm_tx_msgs/dreq"
        before = self.b.run(asked, check=True).stdout
        self.b.run("ip link set eth0 down", check=True)
        two.kill(9)
        self.b.wait_for(f"[ $({asked}) != {before.strip()} ]", timeout=60 * self.slow)
        self.b.wait_for("! rdma resource show cm_id | grep -q rping", timeout=60 * self.slow)
        one.kill()
        wire.plug_in(self.b)
        self.gid(self.b)
        self.rping(self.a.ipv4, count=5)

    def test_dropped_while_connecting(self):
        """The carrier stays, and what is sent is lost: the CM asks again."""
        pair = Rping(self, self.a.ipv4, count=5)
        pair.listen(self.a)
        # ARP does not go either.
        mac = self.a.run("cat /sys/class/net/eth0/address", check=True).stdout.strip()
        self.b.run(f"ip neigh replace {self.a.ipv4} lladdr {mac} dev eth0 nud permanent && "
                   "tc qdisc add dev eth0 root netem loss 100%", check=True)
        self.addCleanup(self.b.run, f"ip neigh del {self.a.ipv4} dev eth0")
        pair.connect(self.b)
        self.b.wait_for("rdma resource show cm_id | grep -q CONNECT && tc -s qdisc show dev eth0 | "
                        "grep -q 'dropped [1-9]'", timeout=60 * self.slow)
        self.b.run("tc qdisc del dev eth0 root", check=True)
        pair.end()
