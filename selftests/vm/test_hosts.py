# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rxe-vm with hosts that boot."""

import contextlib
import fcntl
import os
import pathlib
import pty
import signal
import struct
import subprocess
import tempfile
import termios
import time
from unittest import mock

from runner import REPO, TestCase
from rxe_vm import Cluster, Failed, TimedOut
from rxe_vm.errors import CommandFailed

RXE_VM = REPO / "tools" / "rxe-vm"
BOOT = 300      # seconds that a boot may take on a machine with other work


def processes(token):
    """Return the process IDs with a word in their command line, but for our own."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):      # it has ended meanwhile
            if token.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return [pid for pid in found if pid != os.getpid()]


def _said(log):
    """Return what is in a log file."""
    log.seek(0)
    return log.read()


class TwoHostsTest(TestCase):
    """Two hosts of different releases; they stay for all tests of this class."""

    limit = BOOT

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.shared.cleanup)
        cls.cluster = Cluster(["bookworm", "backports"], shares=[(cls.shared.name, "/shared")], mtu=4200)
        cls.cluster.start()
        cls.addClassCleanup(cls.cluster.stop)
        cls.a, cls.b = cls.cluster

    def tearDown(self):
        self.cluster.check_logs()

    def test_each_has_the_kernel_of_its_release(self):
        self.assertRegex(self.a.run("uname -r").stdout, r"^6\.1\.")
        self.assertRegex(self.b.run("uname -r").stdout, r"^7\.3\.")

    def test_they_reach_each_other_by_ipv4_and_ipv6(self):
        for host, other in ((self.a, self.b), (self.b, self.a)):
            for address in (other.ipv4, other.ipv6):
                host.run(["ping", "-c", "2", "-i", "0.2", "-s", "4000", "-M", "do", address], check=True)
        self.assertEqual(self.a.run("cat /sys/class/net/eth0/mtu").stdout, "4200\n")

    def test_exit_status(self):
        for command, status in (("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137),
                                (["/etc/passwd"], 126), (["/tmp"], 126), (["nosuch"], 127),
                                (["/nosuch"], 127), (["true"], 0)):
            with self.subTest(command=command):
                self.assertEqual(self.a.run(command).status, status)
        self.assertIn("command not found in the guest: nosuch", self.a.run(["nosuch"]).error)

    def test_check_raises_with_what_the_command_said(self):
        with self.assertRaisesRegex(CommandFailed, "exit status 3\nwhy not"):
            self.a.run("echo why not >&2; exit 3", check=True)

    def test_output_is_clean_and_both_streams_are_apart(self):
        data = os.urandom(1 << 20)
        result = self.b.run("cat; echo other >&2", input=data)
        self.assertEqual((result.out, result.err), (data, b"other\n"))

    def test_environment_and_folder(self):
        result = self.a.run("echo $WORD $RXE_HOST $RXE_RELEASE; pwd; ulimit -l", env={"WORD": "yes"}, cwd="/usr")
        self.assertEqual(result.stdout, "yes 1 bookworm\n/usr\nunlimited\n")

    def test_many_commands_at_once(self):
        commands = [host.spawn(f"sleep 0.{n}; echo {n}; exit {n}") for n in range(1, 9) for host in (self.a, self.b)]
        for command in commands:
            result = command.wait(timeout=60)
            self.assertEqual(result.stdout, f"{result.status}\n")

    def test_time_limit_kills_all_that_was_started(self):
        with self.assertRaisesRegex(TimedOut, "did not end within 2 s") as caught:
            self.a.run("echo begun; setsid sleep 4711 & setsid sleep 4711", timeout=2)
        self.assertEqual(caught.exception.result.stdout, "begun\n")
        self.a.wait_for("! pgrep -f 'sleep 471[1]'")

    def test_background(self):
        server = self.a.spawn("echo hello; exec socat -u TCP-LISTEN:4000 STDOUT")
        server.wait_output("hello")
        self.a.wait_port(4000)
        self.b.run(f"echo word | socat -u STDIN TCP:{self.a.ipv4}:4000", check=True)
        self.assertEqual(server.wait(timeout=30, check=True).stdout, "hello\nword\n")
        sleeper = self.a.spawn(["sleep", "1000"])
        sleeper.kill()
        self.assertEqual(sleeper.wait(timeout=30).status, 137)

    def test_waiting_for_what_does_not_come(self):
        with self.assertRaises(TimedOut):
            self.a.wait_port(4001, timeout=1)
        with self.assertRaises(TimedOut):
            self.a.spawn(["sleep", "100"]).wait_output("never", timeout=1)
        with self.assertRaisesRegex(Failed, "ended with status 0"):
            self.a.spawn(["echo", "other"]).wait_output("never", timeout=20)

    def test_folders_are_shared_both_ways(self):
        path = pathlib.Path(self.shared.name)
        (path / "here").write_text("from here\n")
        self.assertEqual(self.a.run("cat /shared/here; echo from there > /shared/there").stdout, "from here\n")
        self.assertEqual((path / "there").read_text(), "from there\n")
        self.assertEqual(self.b.run("test -x /repo/tools/rxe-vm && echo yes").stdout, "yes\n")

    def test_cable(self):
        self.a.run("test $(cat /sys/class/net/eth0/carrier) = 1", check=True)
        self.a.set_link(False)
        self.a.wait_for("test $(cat /sys/class/net/eth0/carrier) = 0")
        self.a.set_link(True)
        self.a.wait_for("test $(cat /sys/class/net/eth0/carrier) = 1")

    def test_a_report_of_a_kernel_is_noticed_once(self):
        self.b.run("echo 'WARNING: CPU: 0 PID: 1 at nowhere.c:1' >/dev/kmsg", check=True)
        with self.assertRaisesRegex(Failed, r"(?s)kernel of host 2 \(backports\) reported .*nowhere\.c:1"):
            self.cluster.check_logs()
        self.cluster.check_logs()

    def test_terminal(self):
        shell = self.a.spawn(["bash", "--norc"], pty={"rows": 33, "columns": 99})
        shell.write(b"stty size; exit 5\n")
        result = shell.wait(timeout=60)
        self.assertIn("33 99", result.stdout)
        self.assertEqual(result.status, 5)

    def test_rdma(self):
        for host in self.cluster:
            host.run("modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0", check=True)
            host.wait_for("ibv_devinfo -d rxe0 && test -e /dev/infiniband/uverbs0")
        server = self.a.spawn("ibv_rc_pingpong -d rxe0 -g 1 -n 20 -c")
        self.a.wait_port(18515)
        self.b.run(f"ibv_rc_pingpong -d rxe0 -g 1 -n 20 -c {self.a.ipv4}", check=True, timeout=100)
        server.wait(timeout=100, check=True)
        for host in self.cluster:
            host.run("rdma link del rxe0 && modprobe -r rdma_rxe", check=True)


class DyingHostTest(TestCase):
    """A host that dies or hangs is a failed run, and the others live on."""

    limit = 2 * BOOT

    def test_panic(self):
        cluster = Cluster("backports", hosts=3).start()
        try:
            with self.assertRaisesRegex(Failed, r"(?s)host 2 \(backports\) died; its last words:.*Kernel panic"):
                cluster[1].run("echo c > /proc/sysrq-trigger", timeout=60)
            with self.assertRaisesRegex(Failed, "host 2 .* died"):
                cluster[1].run("true")
            cluster[0].run(["ping", "-c", "1", cluster[2].ipv6], check=True)
            with self.assertRaisesRegex(Failed, "host 2 .* died"):
                cluster.finish()
        finally:
            cluster.stop()

    def test_hang(self):
        """Its processors stand still; it is waited for less long than usual."""
        with mock.patch("rxe_vm.host.SILENCE_SECONDS", 20):
            cluster = Cluster("backports", hosts=2).start()
            try:
                command = cluster[0].spawn("sleep 1000")
                cluster[0].monitor("stop")
                with self.assertRaisesRegex(Failed, r"host 1 \(backports\) hangs: no answer for 20 s"):
                    command.wait(timeout=BOOT)
                cluster[1].run("true", check=True)
                with self.assertRaisesRegex(Failed, "host 1 .* hangs"):
                    cluster.finish()
            finally:
                cluster.stop()


class CommandLineTest(TestCase):
    """rxe-vm itself."""

    limit = 2 * BOOT

    def setUp(self):
        self.token = f"rxevmtest{os.getpid()}.{time.monotonic_ns()}"
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in processes(self.token)])

    def rxe_vm(self, *words, **options):
        """Run the tool to its end."""
        return subprocess.run([str(RXE_VM), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=BOOT, check=False, **options)

    def test_run_passes_output_and_status_on(self):
        done = self.rxe_vm("run", "--release", "bookworm", "--", "uname -r; echo other >&2; exit 7")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stdout, r"^6\.1\.\S+\n$")
        self.assertIn("\nother\n", done.stderr)
        self.assertRegex(done.stderr, r"host 1 is up: .*(TCG|KVM)")

    def test_shell(self):
        """At a terminal, whose size it has; its exit status is the tool's."""
        leader, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 31, 97, 0, 0))
        with tempfile.TemporaryFile("w+") as log, subprocess.Popen(
                [str(RXE_VM), "shell"], stdin=terminal, stdout=terminal, stderr=log) as child:
            os.close(terminal)
            os.write(leader, b"stty size; exit 9\n")
            said = b""
            with contextlib.suppress(OSError):      # the terminal's other end is closed
                while piece := os.read(leader, 4096):
                    said += piece
            self.assertEqual(child.wait(BOOT), 9, _said(log))
        os.close(leader)
        self.assertIn(b"31 97", said)

    def test_packets_of_a_lone_host(self):
        """They go to nobody, and do not stand in the NIC's way."""
        done = self.rxe_vm("run", "--", "ping -qc 2 -i 0.1 10.77.0.9; cat /sys/class/net/eth0/statistics/tx_packets")
        self.assertGreater(int(done.stdout.split()[-1]), 0, done.stderr)

    def test_time_stamps_change_no_code(self):
        """The kernel does not rewrite its receive path when ping comes and goes."""
        done = self.rxe_vm("run", "--", "set -e; cd /sys/kernel/tracing; echo p:rewritten netstamp_clear >kprobe_events; "
                           "echo 1 >events/kprobes/enable; for i in 1 2 3; do ping -qc 2 -i 0.1 127.0.0.1; "
                           "done >/dev/null; sleep 1; cat kprobe_profile; grep rewritten: trace || true")
        self.assertRegex(done.stdout, r"^\s*rewritten\s+0\s+0\n$", done.stderr)

    def test_persistent_memory(self):
        done = self.rxe_vm("run", "--pmem", "32M", "--", "modprobe nfit; cat /sys/bus/nd/devices/region0/size")
        self.assertEqual(int(done.stdout), 32 << 20, done.stderr)

    def test_run_fails_for_a_report(self):
        done = self.rxe_vm("run", "--", "echo 'BUG: none really' >/dev/kmsg")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("BUG: none really", done.stderr)

    def interrupted(self, number, status):
        """Send a signal to a run: it ends with that status and leaves no process behind."""
        with tempfile.TemporaryFile("w+") as log, subprocess.Popen(
                [str(RXE_VM), "run", "--hosts", "3", "--kernel-arguments", self.token, "--",
                 "echo running; sleep 1000"], stdout=subprocess.PIPE, stderr=log, text=True) as child:
            self.assertEqual(child.stdout.readline(), "running\n", _said(log))
            self.assertGreaterEqual(len(processes(self.token)), 4)
            child.send_signal(number)
            self.assertEqual(child.wait(30), status)
        end = time.monotonic() + 10
        while processes(self.token) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(processes(self.token), [])

    def test_interrupt_leaves_nothing(self):
        self.interrupted(signal.SIGINT, 130)

    def test_termination_leaves_nothing(self):
        self.interrupted(signal.SIGTERM, 143)

    def test_being_killed_leaves_nothing(self):
        self.interrupted(signal.SIGKILL, -9)

    def test_hosts_that_stay(self):
        name = f"test{os.getpid()}"
        done = self.rxe_vm("up", name, "--release", "bookworm", "--kernel-arguments", self.token)
        self.assertEqual(done.returncode, 0, done.stderr)
        try:
            self.assertIn(name, self.rxe_vm("list").stdout)
            self.assertIn("is up already", self.rxe_vm("up", name).stderr)
            done = self.rxe_vm("exec", name, "1", "--", "echo yes; exit 4")
            self.assertEqual((done.stdout, done.returncode), ("yes\n", 4))
            self.assertEqual(self.rxe_vm("exec", name, "1", "--", "nosuch").returncode, 127)
            self.assertEqual(self.rxe_vm("exec", name, "2", "--", "true").returncode, 2)
            self.assertEqual(self.rxe_vm("exec", name, "1", "--timeout", "1", "--", "sleep", "99").returncode, 124)
            job = self.rxe_vm("exec", name, "1", "--background", "--", "sleep 1; echo late; exit 6").stdout.strip()
            done = self.rxe_vm("wait", name, job)
            self.assertEqual((done.stdout, done.returncode), ("late\n", 6))
            self.assertEqual(self.rxe_vm("check", name).returncode, 0)
            self.rxe_vm("exec", name, "1", "--", "echo 'BUG: none really' >/dev/kmsg")
        finally:
            done = self.rxe_vm("down", name)
        self.assertEqual(done.returncode, 125)
        self.assertIn("BUG: none really", done.stderr)
        self.assertNotIn(name, self.rxe_vm("list").stdout)
        self.assertEqual(processes(self.token), [])
