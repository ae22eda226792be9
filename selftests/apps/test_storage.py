# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Storage of the first host over RDMA, by kernel users other than NVMe: iSER, SRP, NFS."""

import time

from apps import disk, wire
from runner import VmTestCase

TARGET = "/sys/kernel/config/target"
NAME = "iqn.2026-01.test:disk"

BACKSTORE = """
set -e
modprobe -a target_core_mod target_core_file {module}
truncate -s 96M /tmp/disk
cd {target}
mkdir -p core/fileio_0/disk
echo fd_dev_name=/tmp/disk,fd_dev_size=$((96 << 20)) >core/fileio_0/disk/control
echo 1 >core/fileio_0/disk/enable
"""

ISER = BACKSTORE + """
tpg=iscsi/{name}/tpgt_1
mkdir -p $tpg/lun/lun_0
ln -s {target}/core/fileio_0/disk $tpg/lun/lun_0/disk
mkdir "$tpg/np/{portal}"
echo 1 >"$tpg/np/{portal}/iser"
echo 0 >$tpg/attrib/authentication
echo 1 >$tpg/attrib/generate_node_acls
echo 1 >$tpg/attrib/cache_dynamic_acls
echo 0 >$tpg/attrib/demo_mode_write_protect
echo 1 >$tpg/enable
"""

# The initiator's port is its GUID with an extension of zero.
SRP = BACKSTORE + """
mkdir srpt
echo {port} >srpt/discovery_auth/rdma_cm_port
tpg=srpt/{gid}/{gid}
mkdir -p $tpg/lun/lun_0
ln -s {target}/core/fileio_0/disk $tpg/lun/lun_0/disk
acl=$tpg/acls/0x0000000000000000{initiator}
mkdir -p $acl/lun_0
ln -s {target}/$tpg/lun/lun_0 $acl/lun_0/lun_0
echo 1 >$tpg/enable
"""

# From the leaves to the root; configfs removes what it made itself.
REMOVE = """
cd {target} 2>/dev/null || exit 0
{{
for tpg in {tpgs}; do
	[ -e $tpg/enable ] && echo 0 >$tpg/enable
	rm -f $tpg/acls/*/lun_0/lun_0 $tpg/lun/lun_0/disk
	rmdir $tpg/acls/*/lun_0 $tpg/acls/* $tpg/lun/lun_0 $tpg/np/* $tpg $(dirname $tpg)
done
rmdir {fabric} core/fileio_0/disk core/fileio_0
rm -f /tmp/disk
cd /
modprobe -r {module}
}} >/dev/null 2>&1
[ ! -e {target}/{fabric} ]
"""


class Block(VmTestCase):
    """What makes and removes the target; the initiator's disk is /dev/sda."""

    limit = 240
    module = None
    fabric = None
    tpgs = None

    def serve(self, script, **values):
        """Make the first host a target."""
        self.a.run(script.format(module=self.module, target=TARGET, **values), check=True,
                   timeout=60 * self.slow)

    def remove(self):
        """Make it none."""
        self.a.run(REMOVE.format(target=TARGET, tpgs=self.tpgs, fabric=self.fabric, module=self.module),
                   check=True, timeout=60 * self.slow)

    def use(self):
        """What is written is there when it is read again."""
        self.b.wait_for("[ -b /dev/sda ]", timeout=30 * self.slow)
        self.assertEqual(disk.make_data(self, "/dev/sda"), disk.read_back(self, "/dev/sda"))


class Iser(Block):
    """iSCSI over RDMA."""

    module = "ib_isert iscsi_target_mod"
    fabric = "iscsi"
    tpgs = "iscsi/iqn*/tpgt_1"

    def tearDown(self):
        self.b.run("umount /mnt; iscsiadm -m node -u; iscsiadm -m node -o delete; pkill iscsid; "
                   "modprobe -r ib_iser; true", timeout=60 * self.slow)
        self.remove()

    def login(self, portal):
        """Start the initiator and let it log in."""
        node = f"iscsiadm -m node -T {NAME} -p {portal}"
        self.b.run("set -e\nmodprobe -a ib_iser sd_mod\n"
                   "echo InitiatorName=iqn.2026-01.test:initiator >/etc/iscsi/initiatorname.iscsi\n"
                   f"iscsid\n{node} -o new -I iser\n{node} -l", check=True, timeout=90 * self.slow)
        self.assertIn("iser:", self.b.run("iscsiadm -m session", check=True).stdout)

    def test_file_system(self):
        self.serve(ISER, name=NAME, portal=f"{self.a.ipv4}:3260")
        self.login(f"{self.a.ipv4}:3260")
        self.use()

    def test_file_system_ipv6(self):
        self.serve(ISER, name=NAME, portal=f"[{self.a.ipv6}]:3260")
        self.login(f"[{self.a.ipv6}]:3260")
        self.use()


class Srp(Block):
    """SCSI RDMA protocol, connected by rdma_cm."""

    module = "ib_srpt"
    fabric = "srpt"
    tpgs = "srpt/0x*/0x*"
    port = 5555

    def tearDown(self):
        self.b.run("umount /mnt; modprobe -r ib_srp; true", timeout=60 * self.slow)
        self.a.run(f"echo 0 >{TARGET}/srpt/discovery_auth/rdma_cm_port; true")
        self.remove()

    def guid(self, host):
        """Return a device's GUID, as srp writes it."""
        return host.run("cat /sys/class/infiniband/rxe0/node_guid", check=True).stdout.strip().replace(":", "")

    def test_file_system(self):
        gid = self.a.run("cat /sys/class/infiniband/rxe0/ports/1/gids/0", check=True).stdout.strip()
        self.serve(SRP, gid="0x" + gid.replace(":", ""), port=self.port, initiator=self.guid(self.b))
        target = self.guid(self.a)
        self.b.run(["modprobe", "-a", "ib_srp", "sd_mod"], check=True)
        self.b.run(f"echo id_ext={target},ioc_guid={target},dest={self.a.ipv4}:{self.port} "
                   ">/sys/class/infiniband_srp/srp-rxe0-1/add_target", check=True, timeout=60 * self.slow)
        self.use()


EXPORT = """
set -e
modprobe -a nfsd rpcrdma
mkdir -p /run/export
mount -t tmpfs tmpfs /run/export
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
exportfs -i -o rw,no_root_squash,insecure,fsid=1 '*:/run/export'
rpcbind
rpc.mountd
rpc.nfsd --rdma=20049 4
"""

UNEXPORT = """
rpc.nfsd 0
pkill rpc.mountd
exportfs -ua
umount /run/export /proc/fs/nfsd
pkill rpcbind
modprobe -r rpcrdma
true
"""


class Nfs(VmTestCase):
    """NFS over RDMA, version 3: a server of version 4 makes clients wait for its grace period."""

    limit = 300

    def tearDown(self):
        self.b.run("umount -f /mnt; modprobe -r rpcrdma; true", timeout=90 * self.slow)
        self.a.run(UNEXPORT, timeout=60 * self.slow)

    def mount(self, address):
        """Export a folder and mount it on the second host."""
        self.a.run(EXPORT, check=True, timeout=60 * self.slow)
        self.b.run(["modprobe", "-a", "nfs", "rpcrdma"], check=True)
        server, proto = (f"[{address}]", "rdma6") if ":" in address else (address, "rdma")
        self.b.run(["mount", "-t", "nfs", "-o", f"vers=3,proto={proto},port=20049,nolock",
                    f"{server}:/run/export", "/mnt"], check=True, timeout=90 * self.slow)
        self.assertIn(f"proto={proto},", self.b.run("grep ' /mnt ' /proc/mounts", check=True).stdout)

    def compare(self, path):
        """What the server has as data is what the client has there."""
        sums = [host.run(f"sha256sum <{name}", check=True, timeout=90 * self.slow).stdout
                for host, name in ((self.a, "/run/export/data"), (self.b, path))]
        self.assertEqual(*sums)

    def test_files(self):
        """One that is large, and many at once."""
        self.mount(self.a.ipv4)
        self.b.run("set -e; head -c 10000000 /dev/urandom >/tmp/data; cp /tmp/data /mnt/data\n"
                   "for i in 1 2 3; do cp -r /usr/share/zoneinfo/America /mnt/copy$i & done; wait\n"
                   "umount /mnt", check=True, timeout=120 * self.slow)
        self.compare("/tmp/data")
        lists = [host.run(f"cd {path} && find . -type f | sort | xargs sha256sum", check=True).stdout
                 for host, path in ((self.a, "/run/export/copy2"), (self.b, "/usr/share/zoneinfo/America"))]
        self.assertEqual(*lists)

    def test_files_ipv6(self):
        self.mount(self.a.ipv6)
        self.b.run("head -c 3000000 /dev/urandom >/mnt/data; sync; echo 3 >/proc/sys/vm/drop_caches",
                   check=True, timeout=90 * self.slow)
        self.compare("/mnt/data")

    def test_link_down_under_io(self):
        """After 12 s without a link it goes on by itself, and nothing is lost."""
        self.mount(self.a.ipv4)
        self.b.run("head -c 3000000 /dev/urandom >/tmp/data", check=True)
        writer = self.b.spawn("until [ -e /tmp/enough ]; do dd if=/tmp/data of=/mnt/data bs=64k oflag=sync || exit 1; "
                              "done; rm /tmp/enough")
        self.a.wait_for("[ $(stat -c %s /run/export/data) -gt 100000 ]", timeout=30 * self.slow)
        self.b.run("ip link set eth0 down", check=True)
        self.assertTrue(writer.running)
        time.sleep(12)
        wire.plug_in(self.b)
        self.b.run("touch /tmp/enough", check=True)
        writer.wait(200 * self.slow, check=True)
        self.compare("/tmp/data")
