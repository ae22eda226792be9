# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""perftest's programs between two hosts: that they run to the end and print what they should."""

import ipaddress

import perftest
from apps import wire
from runner import VmTestCase, limit, only

SIZES = 23          # that -a goes through: 2 bytes to 8 MiB


class Perftest(VmTestCase):
    """RC over IPv4 and IPv6."""

    def run_it(self, program, *options, six=False, lines=1, count=100, timeout=None):
        """Run a program and check the figures that it prints, not how good they are."""
        ends = [perftest.End(host, self.gid(host, host.ipv6 if six else host.ipv4), host.ipv4)
                for host in (self.a, self.b)]
        found, result = perftest.run(program, *ends, [*options, "-n", count], timeout=timeout)
        shown = f"{result.command}:\n{result.stdout}"
        self.assertEqual(len(found), lines, shown)
        for line in found:
            self.assertGreaterEqual(line["iterations"], count, shown)

    def test_write_bw(self):
        self.run_it("ib_write_bw")

    def test_read_bw(self):
        self.run_it("ib_read_bw")

    def test_send_bw(self):
        self.run_it("ib_send_bw")

    def test_atomic_bw(self):
        self.run_it("ib_atomic_bw", count=1000)

    def test_atomic_bw_compare_and_swap(self):
        self.run_it("ib_atomic_bw", "-A", "CMP_AND_SWAP", count=1000)

    def test_write_lat(self):
        self.run_it("ib_write_lat", count=1000)

    def test_read_lat(self):
        self.run_it("ib_read_lat", count=1000)

    def test_send_lat(self):
        self.run_it("ib_send_lat", count=1000)

    def test_atomic_lat(self):
        self.run_it("ib_atomic_lat", count=1000)

    # Over IPv6, and with completion events where the program has them: not for writes.

    def test_write_bw_ipv6(self):
        self.run_it("ib_write_bw", six=True)

    def test_read_bw_ipv6_events(self):
        self.run_it("ib_read_bw", "-e", six=True)

    def test_send_bw_ipv6_events(self):
        self.run_it("ib_send_bw", "-e", six=True)

    def test_atomic_bw_ipv6_events(self):
        self.run_it("ib_atomic_bw", "-e", six=True)

    def test_write_lat_ipv6(self):
        self.run_it("ib_write_lat", six=True)

    def test_read_lat_ipv6_events(self):
        self.run_it("ib_read_lat", "-e", six=True)

    def test_send_lat_ipv6_events(self):
        self.run_it("ib_send_lat", "-e", six=True)

    def test_atomic_lat_ipv6_events(self):
        self.run_it("ib_atomic_lat", "-e", six=True)

    # Every size; all at once; both ways; inline.

    @limit(300)
    def test_write_bw_all_sizes(self):
        self.run_it("ib_write_bw", "-a", lines=SIZES, count=5)

    @limit(300)
    def test_read_bw_all_sizes(self):
        self.run_it("ib_read_bw", "-a", lines=SIZES, count=5)

    @limit(300)
    def test_send_lat_all_sizes(self):
        self.run_it("ib_send_lat", "-a", lines=SIZES, count=5)

    @limit(300)
    def test_send_bw_all_sizes(self):
        self.run_it("ib_send_bw", "-a", lines=SIZES, count=5)

    @limit(300)
    def test_write_lat_all_sizes(self):
        self.run_it("ib_write_lat", "-a", lines=SIZES, count=5)

    @limit(300)
    def test_read_lat_all_sizes(self):
        self.run_it("ib_read_lat", "-a", lines=SIZES, count=5)

    def test_write_bw_16_qps(self):
        self.run_it("ib_write_bw", "-q", "16", "-s", "8192", count=20)

    def test_read_bw_16_qps(self):
        self.run_it("ib_read_bw", "-q", "16", "-s", "8192", count=20)

    def test_send_bw_16_qps(self):
        self.run_it("ib_send_bw", "-q", "16", "-s", "8192", count=20)

    def test_atomic_bw_16_qps(self):
        self.run_it("ib_atomic_bw", "-q", "16", count=50)

    def test_write_bw_both_ways(self):
        self.run_it("ib_write_bw", "-b")

    def test_read_bw_both_ways(self):
        self.run_it("ib_read_bw", "-b")

    def test_send_bw_both_ways(self):
        self.run_it("ib_send_bw", "-b")

    def test_atomic_bw_both_ways(self):
        self.run_it("ib_atomic_bw", "-b", count=200)

    def test_send_bw_both_ways_16_qps_events(self):
        self.run_it("ib_send_bw", "-b", "-q", "16", "-e", "-s", "8192", count=20)

    def test_write_lat_inline(self):
        self.run_it("ib_write_lat", "-I", "64", "-s", "64", count=500)

    def test_send_lat_inline(self):
        self.run_it("ib_send_lat", "-I", "64", "-s", "64", count=500)

    def test_send_bw_inline(self):
        self.run_it("ib_send_bw", "-I", "64", "-s", "64", count=1000)

    def test_write_bw_inline(self):
        self.run_it("ib_write_bw", "-I", "64", "-s", "64", count=1000)

    def test_write_bw_unsignalled(self):
        self.run_it("ib_write_bw", "-Q", "20", "-s", "64", count=2000)

    # Unreliable services, and a shared receive queue.

    def test_write_bw_uc(self):
        self.run_it("ib_write_bw", "-c", "UC")

    def test_write_lat_uc(self):
        self.run_it("ib_write_lat", "-c", "UC", count=500)

    def test_send_bw_uc_16_qps(self):
        self.run_it("ib_send_bw", "-c", "UC", "-q", "16", "-s", "2048", count=20)

    def test_write_bw_uc_both_ways(self):
        self.run_it("ib_write_bw", "-c", "UC", "-b", "-s", "8192", count=50)

    def test_send_lat_uc_events(self):
        self.run_it("ib_send_lat", "-c", "UC", "-e", count=500)

    def test_send_bw_ud(self):
        self.run_it("ib_send_bw", "-c", "UD", "-s", "1024", count=200)

    def test_send_lat_ud_ipv6_events(self):
        self.run_it("ib_send_lat", "-c", "UD", "-e", "-s", "64", six=True, count=500)

    def multicast(self, group, six=False):
        """The client sends to a group that the server's QP is in; perftest writes its bytes in decimal."""
        digits = ":".join(map(str, ipaddress.IPv6Address(group).packed))
        self.run_it("ib_send_bw", "-c", "UD", "-g", "-M", digits, "-s", "1024", six=six, count=200)

    def test_send_bw_multicast(self):
        self.multicast("::ffff:239.1.2.3")

    def test_send_bw_multicast_ipv6(self):
        self.multicast("ff15::1:2:3", six=True)

    # Connected by the connection manager.

    def by_cm(self, program, *options, **more):
        self.run_it(program, "-R", *options, **more)

    def test_write_bw_cm(self):
        self.by_cm("ib_write_bw")

    def test_read_bw_cm(self):
        self.by_cm("ib_read_bw")

    def test_atomic_bw_cm(self):
        self.by_cm("ib_atomic_bw", count=200)

    def test_write_lat_cm(self):
        self.by_cm("ib_write_lat", count=500)

    def test_send_lat_cm(self):
        self.by_cm("ib_send_lat", count=500)

    def test_read_lat_cm(self):
        self.by_cm("ib_read_lat", count=500)

    def test_send_bw_cm_ipv6(self):
        self.by_cm("ib_send_bw", six=True)

    def test_send_bw_cm_4_qps(self):
        self.by_cm("ib_send_bw", "-q", "4", "-s", "8192", count=50)

    def test_atomic_lat_cm(self):
        self.by_cm("ib_atomic_lat", count=500)

    def test_send_lat_cm_ud(self):
        self.by_cm("ib_send_lat", "-c", "UD", "-s", "64", count=500)

    def test_send_lat_uc(self):
        self.run_it("ib_send_lat", "-c", "UC", count=500)

    def test_send_bw_srq_4_qps(self):
        self.run_it("ib_send_bw", "--use-srq", "-q", "4", "-s", "8192", count=50)

    def test_send_lat_srq(self):
        self.run_it("ib_send_lat", "--use-srq", count=500)


@only("test_write_bw", "test_read_bw", "test_send_bw", "test_atomic_bw", "test_write_lat", "test_read_lat",
      "test_send_lat", "test_atomic_lat", "test_read_bw_16_qps", "test_send_bw_both_ways_16_qps_events",
      "test_write_bw_ipv6")
class PerftestBadWire(Perftest):
    """The same programs while packets are lost, reordered and repeated."""

    def setUp(self):
        wire.make_bad(self)
