# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The parts of rxe-vm that need no host: releases, bad use, frames, the switch."""

import collections
import io
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from unittest import mock

import perftest
from runner import REPO, TestCase, report
from rxe_vm import UsageError, accel, cluster, frames, paths, release

RXE_VM = REPO / "tools" / "rxe-vm"


def rxe_vm(*words, **options):
    """Run the tool and return what subprocess.run returns."""
    return subprocess.run([str(RXE_VM), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=100, check=False, **options)


class SkipTest(TestCase):
    """A test that leaves itself out has failed unless it may."""

    def outcomes(self, name, outcome, reason, **options):
        """Return what the runner makes of a result."""
        reports = report.Reports(io.StringIO(), **options)
        reports.add(name, "vm", outcome, reason)
        return [each["outcome"] for each in reports.results]

    def test_unknown(self):
        self.assertEqual(self.outcomes("verbs.Verbs.test_mw[backports]/bind", "skipped", "no windows"), ["failed"])

    def test_known(self):
        known = "apps.Smc.test_echo[backports]", "skipped", "this kernel has no SMC"
        self.assertEqual(self.outcomes(*known), ["skipped"])
        self.assertEqual(self.outcomes(known[0], "skipped", "no two hosts"), ["failed"])
        self.assertEqual(self.outcomes(known[0].replace("backports", "bookworm"), *known[1:]), ["failed"])

    def test_left_out(self):
        self.assertEqual(self.outcomes("verbs.Verbs.test_mw[backports]", "left out", "no time"), ["skipped"])

    def test_driver_that_has_less(self):
        self.assertEqual(self.outcomes("verbs.Verbs.test_mw[backports]/bind", "skipped", "no windows",
                                       may_skip=True), ["skipped"])


class ReleaseTest(TestCase):
    """The table of releases."""

    def test_each_is_listed_with_its_versions(self):
        done = rxe_vm("releases")
        self.assertEqual(done.returncode, 0)
        for name, words in (("bookworm", "Linux 6.1, rdma-core 44"),
                            ("backports", "Linux 7.3, rdma-core 56"), ("debug", "debug kernel")):
            (line,) = [one for one in done.stdout.splitlines() if one.startswith(name + " ")]
            self.assertIn(words, line)

    def test_kernel_names_are_told_from_flavours_and_other_series(self):
        import re
        for name, good, bad in (
                ("bookworm", ["6.1.0-44-amd64"], ["6.1.0-44-rt-amd64", "6.1.0-44-cloud-amd64", "6.12.1-amd64"]),
                ("trixie", ["6.12.48+deb13-amd64"], ["6.12.48+deb13-cloud-amd64", "6.1.0-44-amd64"]),
                ("backports", ["7.3.4+deb13-amd64", "7.3.10+deb13.1-amd64"], ["7.3.4+deb13-amd64-unsigned"])):
            pattern = release.find(name).kernel_pattern()
            for each in good:
                self.assertTrue(re.fullmatch(pattern, each), each)
            for each in bad:
                self.assertFalse(re.fullmatch(pattern, each), each)


class GidTest(TestCase):
    """Python's own long form of such an address changed with 3.13."""

    def test_text_is_that_of_sysfs(self):
        self.assertEqual(perftest.gid_text("10.77.0.1"), "0000:0000:0000:0000:0000:ffff:0a4d:0001")
        self.assertEqual(perftest.gid_text("fd77::1"), "fd77:0000:0000:0000:0000:0000:0000:0001")


class BadUseTest(TestCase):
    """Each mistake costs one clear line and a status that is not 0."""

    def refused(self, *words, says, status=2, **options):
        done = rxe_vm(*words, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("rxe-vm:")]
        self.assertNotIn("Traceback", done.stderr)
        self.assertIn(says, lines[-1])
        self.assertEqual(done.stdout, "")

    def test_no_such_release(self):
        self.refused("run", "--release", "nosuch", "--", "true", says="no release 'nosuch': there are bookworm,")
        self.refused("prepare", "nosuch", says="no release 'nosuch'")
        self.refused("chroot", "nosuch", "--", "true", says="no release 'nosuch'")

    def test_wrong_number_of_hosts(self):
        self.refused("run", "--hosts", "5", "--", "true", says="there can be 1 to 4")
        self.refused("run", "--hosts", "0", "--", "true", says="there can be 1 to 4")
        self.refused("run", "--hosts", "1", "--release", "bookworm,backports", "--", "true",
                     says="2 releases for 1 hosts")

    def test_no_such_host(self):
        self.refused("run", "--on", "2", "--", "true", says="no host 2: there are hosts 1 to 1")

    def test_no_command(self):
        self.refused("run", says="no command given")

    def test_no_such_folder_to_share(self):
        self.refused("run", "--share", "/nonexistent", "--", "true", says="no folder /nonexistent")

    def test_no_such_cluster(self):
        self.refused("exec", f"nosuch{os.getpid()}", "1", "--", "true", says="no cluster")
        self.refused("down", f"nosuch{os.getpid()}", says="no cluster")
        self.refused("up", "a/b", says="cannot be a cluster's name")

    def test_qemu_is_missing(self):
        with tempfile.TemporaryDirectory() as empty:
            os.symlink(sys.executable, f"{empty}/python3")
            self.refused("run", "--", "true", says="qemu-system-x86_64 is missing: apt-get install",
                         env={"PATH": empty})

    def test_no_disk_room(self):
        usage = collections.namedtuple("usage", "total used free")(1 << 40, 1 << 40, 1 << 20)
        with mock.patch.object(shutil, "disk_usage", return_value=usage), \
                tempfile.TemporaryDirectory() as folder, \
                self.assertRaisesRegex(UsageError, "no disk room for a test: .* 8 GiB are needed"):
            paths.need_room(pathlib.Path(folder), 8, "a test")

    def test_cluster_refuses_like_the_command_line(self):
        for releases, hosts in (("nosuch", 1), ("backports", 5), (["bookworm", "backports"], 1)):
            with self.assertRaises(UsageError):
                cluster.Cluster(releases, hosts)
        with self.assertRaisesRegex(UsageError, "the kernel of debug has no ACPI, so no persistent memory"):
            cluster.Cluster("debug", pmem="32M")


class RunnerTest(TestCase):
    """The command selftests/check."""

    def check(self, *words):
        """Run it; return its exit status and its last line."""
        done = subprocess.run([str(REPO / "selftests" / "check"), *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
        return done.returncode, done.stdout.strip().splitlines()[-1]

    def test_no_time_to_start(self):
        """Tests that may not start any more are skipped; a run of nothing is no success."""
        status, said = self.check("unit", "--start-within", "0")
        self.assertEqual(status, 1)
        self.assertRegex(said, r"^0 passed, 0 failed, [1-9]\d* skipped$")

    def test_no_such_test(self):
        self.assertEqual(self.check("-k", "nosuch")[0], 2)
        self.assertEqual(self.check("nosuch")[0], 2)


class AccelTest(TestCase):
    """rxe_vm.accel: KVM is used only where a probe boot showed that it works."""

    def choose(self, works, folder, wish=None):
        """Return what is chosen, and how often was probed."""
        env = {"RXE_VM_ACCEL": wish} if wish else {}
        real = os.stat

        def stat(path, *words, **options):
            return mock.Mock(st_rdev=1) if path == "/dev/kvm" else real(path, *words, **options)
        with mock.patch.dict(os.environ, {"RXE_VM_CACHE": str(folder), **env}), \
                mock.patch.object(accel.os, "access", return_value=True), \
                mock.patch.object(accel.os, "stat", stat), \
                mock.patch.object(accel, "qemu", return_value=sys.executable), \
                mock.patch.object(accel.os.path, "getmtime", return_value=1), \
                mock.patch.object(accel, "_probe", return_value=works) as probe:
            if not wish:
                os.environ.pop("RXE_VM_ACCEL", None)
            return accel.choose(None), probe.call_count

    def test_probed_once(self):
        for works, kind in (True, "kvm"), (False, "tcg"):
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(self.choose(works, folder), (kind, 1))
                self.assertEqual(self.choose(not works, folder), (kind, 0))

    def test_wish(self):
        with tempfile.TemporaryDirectory() as folder:
            for wish in "kvm", "tcg":
                self.assertEqual(self.choose(True, folder, wish), (wish, 0))
            with self.assertRaisesRegex(UsageError, "RXE_VM_ACCEL is 'xen': it may be kvm or tcg"):
                self.choose(True, folder, "xen")


class FramesTest(TestCase):
    """rxe_vm.frames"""

    def test_frames_survive_any_cut(self):
        sent = [(frames.STDOUT, 7, bytes(range(256))), (frames.EXIT, 8, b"{}"), (frames.STDIN, 9, b"")]
        stream = b"".join(frames.pack(*one) for one in sent)
        for size in (1, 2, 7, len(stream)):
            splitter = frames.Splitter()
            got = [frame for at in range(0, len(stream), size) for frame in splitter.feed(stream[at:at + size])]
            self.assertEqual(got, sent)


class SwitchTest(TestCase):
    """rxe_vm.switch"""

    limit = 30

    def setUp(self):
        pairs = [socket.socketpair() for _ in range(3)]
        fds = [theirs.fileno() for _, theirs in pairs]
        self.switch = subprocess.Popen([sys.executable, "-B", "-m", "rxe_vm.switch", *map(str, fds)],
                                       pass_fds=fds, cwd=REPO / "tools")
        self.addCleanup(self.switch.wait)
        self.addCleanup(self.switch.kill)
        for _, theirs in pairs:
            theirs.close()
        self.ports = [ours for ours, _ in pairs]
        for port in self.ports:
            self.addCleanup(port.close)
            port.settimeout(10)

    @staticmethod
    def frame(to, source, text):
        """Return an Ethernet frame as QEMU puts it on a stream."""
        data = bytes([2, 0, 0, 0, 0, to]) + bytes([2, 0, 0, 0, 0, source]) + text
        return struct.pack(">I", len(data)) + data

    def nothing(self, port):
        port.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            port.recv(1)
        port.settimeout(10)

    def test_unknown_addresses_are_flooded_and_known_ones_not(self):
        a, b, c = self.ports
        first, second = self.frame(2, 1, b"first"), self.frame(1, 2, b"second")
        a.sendall(first)
        self.assertEqual(b.recv(1000), first)
        self.assertEqual(c.recv(1000), first)
        b.sendall(second)
        self.assertEqual(a.recv(1000), second)
        self.nothing(c)

    def test_frames_in_pieces_and_in_crowds(self):
        a, b, _ = self.ports
        crowd = b"".join(self.frame(2, 1, bytes([n]) * 1500) for n in range(50))
        for at in range(0, len(crowd), 777):
            a.sendall(crowd[at:at + 777])
        got = b""
        while len(got) < len(crowd):
            got += b.recv(1 << 16)
        self.assertEqual(got, crowd)

    def test_it_ends_when_all_cables_are_out(self):
        for port in self.ports:
            port.close()
        self.assertEqual(self.switch.wait(10), 0)
