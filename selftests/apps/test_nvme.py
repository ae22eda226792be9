# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""NVMe over RDMA as the deployment guide has it: a target on one host, its disk on the other."""

import time

from apps import disk, wire
from net.links import SYSFS, mark_log, new_log
from runner import VmTestCase

NQN = "nqn.2026-01.test:disk"
CONFIG = "/sys/kernel/config/nvmet"

TARGET = """
modprobe -a nvmet nvmet-rdma
truncate -s 96M /tmp/disk
cd {config}
mkdir subsystems/{nqn} subsystems/{nqn}/namespaces/1 ports/1
echo 1 >subsystems/{nqn}/attr_allow_any_host
echo -n /tmp/disk >subsystems/{nqn}/namespaces/1/device_path
echo 1 >subsystems/{nqn}/namespaces/1/buffered_io
echo 1 >subsystems/{nqn}/namespaces/1/enable
echo rdma >ports/1/addr_trtype
echo {family} >ports/1/addr_adrfam
echo {address} >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
ln -s {config}/subsystems/{nqn} ports/1/subsystems/{nqn}
"""

REMOVE = """
cd {config} 2>/dev/null || exit 0
rm -f ports/1/subsystems/{nqn}
rmdir ports/1 subsystems/{nqn}/namespaces/1 subsystems/{nqn} 2>/dev/null
rm -f /tmp/disk
cd / && modprobe -r nvmet-rdma nvmet
true
"""

# Writes past the page cache, other bytes each time, until it is told that it is enough.
WRITER = """
set -e
n=0
while [ ! -e /tmp/enough ]; do
    head -c 4000000 /dev/urandom >/tmp/data
    dd if=/tmp/data of=/mnt/data bs=64k oflag=direct 2>/dev/null
    n=$((n + 1)); echo $n >/tmp/rounds
done
sha256sum </tmp/data
"""


class Nvme(VmTestCase):
    """The second host puts a file system on the first one's disk."""

    limit = 300

    def tearDown(self):
        self.b.run(f"umount /mnt; nvme disconnect -n {NQN}; modprobe -r nvme-rdma nvme-fabrics; true")
        self.a.run(REMOVE.format(config=CONFIG, nqn=NQN))
        for host in self.cluster:
            host.run("rdma dev set rxe0 adaptive-moderation off")

    def connect(self, address, family="ipv4", *options):
        self.a.run("set -e" + TARGET.format(config=CONFIG, nqn=NQN, address=address, family=family),
                   check=True)
        self.b.run(["modprobe", "nvme-rdma"], check=True)
        self.attach(address, *options)

    def attach(self, address, *options):
        """Connect to the target, and wait until its disk is there."""
        self.b.run(["nvme", "connect", "-t", "rdma", "-a", address, "-s", "4420", "-n", NQN, *options],
                   check=True, timeout=60 * self.slow)
        self.b.wait_for("[ -b /dev/nvme0n1 ]", timeout=30 * self.slow)

    def test_file_system(self):
        self.connect(self.a.ipv4)
        self.assertEqual(disk.make_data(self, "/dev/nvme0n1"), disk.read_back(self, "/dev/nvme0n1"))

    def test_file_system_ipv6(self):
        self.connect(self.a.ipv6, "ipv6")
        self.assertEqual(disk.make_data(self, "/dev/nvme0n1"), disk.read_back(self, "/dev/nvme0n1"))

    def test_queues(self):
        """More connections, smaller ones, written to the device itself; CQs whose moderation adapts."""
        for host in self.a, self.b:
            host.run(["rdma", "dev", "set", "rxe0", "adaptive-moderation", "on"], check=True)
        self.connect(self.a.ipv4, "ipv4", "--nr-io-queues=2", "--queue-size=16")
        self.b.run("head -c 8388608 /dev/urandom >/tmp/data; "
                   "dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct; "
                   "dd if=/dev/nvme0n1 bs=4k count=2048 iflag=direct | cmp - /tmp/data",
                   check=True, timeout=90 * self.slow)

    def test_link_down_under_io(self):
        """After 12 s without a link it connects again by itself, and nothing is lost."""
        self.connect(self.a.ipv4, "ipv4", "--keep-alive-tmo=5", "--reconnect-delay=2", "--ctrl-loss-tmo=120")
        disk.make_data(self, "/dev/nvme0n1")
        self.addCleanup(self.b.run, "rm -f /tmp/data /tmp/rounds /tmp/enough")
        mark = mark_log(self.b)
        writer = self.b.spawn(WRITER)
        self.b.wait_for("[ -s /tmp/rounds ]", timeout=60 * self.slow)
        self.b.run("ip link set eth0 down", check=True)
        time.sleep(12)
        rounds = self.b.run(["cat", "/tmp/rounds"], check=True).stdout.strip()
        wire.plug_in(self.b)
        self.b.wait_for(f"[ $(cat /tmp/rounds) -gt {rounds} ]", timeout=120 * self.slow)
        self.b.run("touch /tmp/enough", check=True)
        wrote = writer.wait(60 * self.slow, check=True).stdout
        self.assertRegex("\n".join(new_log(self.b, mark)), "(?i)nvme nvme0: Successfully reconnected")
        self.assertEqual(wrote, disk.read_back(self, "/dev/nvme0n1"))

    def link_goes(self, host):
        """While the kernel's own program uses it; then the module goes at the first try."""
        self.connect(self.a.ipv4)
        writer = self.b.spawn("dd if=/dev/zero of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null; true")
        self.b.wait_for(f"[ $(cat {SYSFS}/rxe0/ports/1/hw_counters/tx_bytes) -gt 100000 ]", timeout=60 * self.slow)
        host.run(["rdma", "link", "delete", "rxe0"], check=True, timeout=60 * self.slow)
        host.run(f"[ ! -e {SYSFS}/rxe0 ] && rmmod rxe_ng", check=True)
        self.b.run(["nvme", "disconnect", "-n", NQN], check=True, timeout=60 * self.slow)
        writer.wait(60 * self.slow)

    def test_link_goes(self):
        self.link_goes(self.b)

    def test_link_goes_at_the_target(self):
        self.link_goes(self.a)

    def test_disconnect(self):
        """The disk goes, and can come again."""
        self.connect(self.a.ipv4)
        for _ in range(3):
            self.b.run(["nvme", "disconnect", "-n", NQN], check=True, timeout=60 * self.slow)
            self.b.wait_for("[ ! -e /dev/nvme0n1 ]", timeout=30 * self.slow)
            self.attach(self.a.ipv4)
