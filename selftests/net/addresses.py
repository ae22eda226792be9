# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the tests of addresses and namespaces share."""

from runner import VmTestCase

from interop.puppet import Puppet, exchange
from links import SYSFS, gids, inside


class Addresses(VmTestCase):
    """What these tests share."""

    limit = 180

    def connect(self, first, second, namespaces=(None, None)):
        """Connect (host, device, GID index) to another one and let them exchange bytes."""
        ends = []
        for (host, device, index), netns in zip((first, second), namespaces):
            one = Puppet(self, host, netns)
            one.open(dev=device, gid=index, size=65536)
            ends.append(one)
        ends[0].connect(ends[1].ends[0])
        ends[1].connect(ends[0].ends[0])
        exchange(self, *ends)
        for one in ends:
            self.assertEqual(one.quit().status, 0)

    def wait_gid(self, host, device, gid, there=True):
        """Wait until a GID is in the table, or is not; return its index."""
        sign = "" if there else "! "
        host.wait_for(f"{sign}grep -q ^{gid} {SYSFS}/{device}/ports/1/gids/*")
        return next((i for i, (each, _) in gids(host, device).items() if each == gid), None)

    def pingpong(self, first, second, address, namespaces=(None, None), program="ibv_rc_pingpong", options=()):
        """ibv_rc_pingpong -c between two (host, device, GID index)."""
        def words(end, netns):
            return [*inside(netns), program, "-c", "-d", end[1], "-g", end[2], *options]
        server = first[0].spawn(words(first, namespaces[0]))
        first[0].run([*inside(namespaces[0]), "sh", "-c",
                      "until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done"],
                     check=True)
        client = second[0].spawn([*words(second, namespaces[1]), address])
        for result in self.together(client, server):
            self.assertIn("1000 iters", result.stdout)
            self.assertNotIn("invalid data", result.stdout + result.stderr)
