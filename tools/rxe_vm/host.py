# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One virtual host: a QEMU process, its kernel log, and the agent inside."""

import contextlib
import itertools
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time

from . import accel, frames, initrd, logcheck, paths
from .command import Command
from .errors import Failed, TimedOut
from .monitor import Monitor

# Generous: a host that builds something meanwhile is slow.
BOOT_SECONDS = 240
# An agent that does not answer for so long is called hung (times Release.slow).
SILENCE_SECONDS = 120
CONSOLE_TAIL = 15
# Room for addresses that a host with an NVDIMM has; it costs nothing.
MOST_MEMORY = "64G"


class Host:
    """A host of a cluster. ``number`` counts from 1; it is the last part of its addresses."""

    def __init__(self, number, release, kernel, image, folder, *, cpus=2, memory="3G", mtu=1500,
                 shares=(), kind="tcg", arguments="", capture=None, pmem=None):
        self.number = number
        self.release = release
        self.kernel = kernel
        self.image = image
        self.cpus = cpus
        self.memory = memory
        self.mtu = mtu
        self.shares = [(paths.REPO, "/repo"), *shares]
        self.kind = kind
        self.arguments = arguments
        self.capture = capture
        self.pmem = pmem
        self.folder = pathlib.Path(folder)
        self.console = self.folder / f"console-{number}.log"
        self.ipv4 = f"10.77.0.{number}"
        self.ipv6 = f"fd77::{number}"
        self.boot_seconds = None
        self._process = None
        self._channel = None
        self._monitor = None
        self._lock = threading.Lock()
        self._commands = {}
        self._numbers = itertools.count(1)
        self._ready = threading.Event()
        self._dead = None
        self._ending = False
        self._heard = time.monotonic()
        self._checked = 0

    def __str__(self):
        return f"host {self.number} ({self.release.name})"

    # Life.

    def start(self, network):
        """Start QEMU; network is the socket that leads to the segment, or None."""
        self.console.write_bytes(b"")
        path = self.folder / f"initrd-{self.number}"
        config = {"HOST": self.number, "RELEASE": self.release.name, "MTU": self.mtu,
                  "KERNEL": self.kernel.version, "MODULES": "/dev/vdb" if self.kernel.modules else ""}
        tags = [(f"share{n}", where) for n, (_, where) in enumerate(self.shares)]
        path.write_bytes(self.kernel.initrd.read_bytes() + initrd.guest(config, tags))

        self._channel, agent_end = socket.socketpair()
        monitor, monitor_end = socket.socketpair()
        self._monitor = Monitor(monitor)
        ends = [agent_end, monitor_end]
        command = self._command(path, agent_end.fileno(), monitor_end.fileno(), network)
        if network is not None:
            ends.append(network)
        # setpriv: QEMU dies with the thread that starts it, whatever happens to that one.
        setpriv = shutil.which("setpriv")
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        self._start = time.monotonic()
        log = open(self.folder / f"qemu-{self.number}.log", "wb")
        with log:
            self._process = subprocess.Popen(
                prefix + command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[s.fileno() for s in ends], start_new_session=True)
        for end in (agent_end, monitor_end):
            end.close()
        threading.Thread(target=self._read, name=f"host-{self.number}", daemon=True).start()

    def _command(self, initrd_path, agent, monitor, network):
        line = ["console=ttyS0", "loglevel=5", "panic=-1", "oops=panic", "mitigations=off",
                "net.ifnames=0", "printk.devkmsg=on", "rdinit=/init",
                # A busy machine starves a virtual processor now and then: neither the timer check
                # of the boot nor the stall detectors may take that for a fault.
                "no_timer_check",
                "rcupdate.rcu_cpu_stall_timeout=60", "watchdog_thresh=30",
                accel.kernel_arguments(self.kind), self.kernel.arguments, self.arguments]
        # The BIOS lists one processor of each socket for a kernel without ACPI.
        smp = f"{self.cpus},sockets={self.cpus}" if self.release.config else str(self.cpus)
        command = [
            accel.qemu(), "-name", f"rxe-vm-host{self.number}", *accel.arguments(self.kind),
            "-smp", smp, *self._memory(), "-nodefaults", "-no-user-config",
            "-display", "none", "-no-reboot", "-serial", f"file:{self.console}",
            "-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control",
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent}",
            "-device", "virtserialport,chardev=agent,name=rxe-vm.agent",
            "-drive", f"if=virtio,format=raw,readonly=on,file={self.image.squashfs}",
            "-kernel", str(self.kernel.vmlinuz), "-initrd", str(initrd_path),
            "-append", " ".join(word for word in line if word)]
        if self.kernel.modules:
            command += ["-drive", f"if=virtio,format=raw,readonly=on,file={self.kernel.modules}"]
        for n, (folder, _) in enumerate(self.shares):
            model = "none" if os.geteuid() else "passthrough"
            command += ["-virtfs", f"local,path={folder},mount_tag=share{n},security_model={model},"
                                   "multidevs=remap"]
        if network is not None:
            command += ["-netdev", f"socket,id=eth,fd={network.fileno()}"]
        else:
            # A hub with one port takes no packet; what goes to a port without a NIC is gone.
            command += ["-netdev", "hubport,id=eth,hubid=0", "-netdev", "hubport,id=nowhere,hubid=0"]
        command += ["-device",
                    f"virtio-net-pci,id=nic,netdev=eth,mac=52:54:00:77:00:{self.number:02x},romfile="]
        if self.capture:
            command += ["-object", f"filter-dump,id=dump,netdev=eth,maxlen=65536,file={self.capture}"]
        return command

    def _memory(self):
        """Return QEMU's arguments for the memory, and for an NVDIMM if there is to be one."""
        if not self.pmem:
            return ["-m", str(self.memory)]
        backing = self.folder / f"pmem-{self.number}"
        return ["-machine", "pc,nvdimm=on", "-m", f"{self.memory},slots=1,maxmem={MOST_MEMORY}",
                "-object", f"memory-backend-file,id=pmem,share=on,mem-path={backing},size={self.pmem}",
                "-device", "nvdimm,memdev=pmem"]

    def wait_ready(self, timeout=None):
        """Wait until the agent answers."""
        timeout = timeout or BOOT_SECONDS * self.release.slow
        if not self._ready.wait(timeout) and not self._dead:
            self._die(f"{self} did not boot within {timeout} s")
        if self._dead:
            raise Failed(self._dead)
        threading.Thread(target=self._watch, name=f"watch-{self.number}", daemon=True).start()

    def emulator_slipped(self):
        """Whether the boot failed by a rare mistake of multi-threaded TCG: a breakpoint's trap
        in a kernel that has not loaded a module yet."""
        log = self.log()
        return (self.kind == "tcg" and self.boot_seconds is None and "int3" in log
                and "Modules linked in:" in log
                and not any("Modules linked in: " in line and line.split("Modules linked in:")[1].strip()
                            for line in log.splitlines()))

    def restart(self, network):
        """Start it again after a failed boot."""
        self.stop()
        self._ending = False
        self._dead = None
        self._ready.clear()
        self.start(network)

    @property
    def alive(self):
        """Whether it runs."""
        return self._dead is None and self._process is not None

    def check_alive(self):
        """Raise Failed if it died by itself."""
        if self._dead and not self._ending:
            raise Failed(self._dead)

    def stop(self):
        """End it; returns when QEMU is gone. Harmless when it is not running."""
        self._ending = True
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        (self.folder / f"initrd-{self.number}").unlink(missing_ok=True)

    def _read(self):
        """Thread: take what the agent says until QEMU is gone."""
        splitter = frames.Splitter()
        while True:
            try:
                data = self._channel.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                break
            self._heard = time.monotonic()
            for kind, number, payload in splitter.feed(data):
                if kind == frames.READY:
                    self.boot_seconds = time.monotonic() - self._start
                    self._ready.set()
                    continue
                with self._lock:
                    command = self._commands.get(number)
                if command:
                    command.on_frame(kind, payload)
                if kind == frames.EXIT:
                    with self._lock:
                        self._commands.pop(number, None)
        self._process.wait()
        if self._ending:
            self._die(f"{self} was stopped", tail=False)
        else:
            self._die(f"{self} died" if self._ready.is_set() else f"{self} did not boot")

    def _watch(self):
        """Thread: ask the agent now and then whether it is there."""
        limit = SILENCE_SECONDS * self.release.slow
        while self._dead is None and not self._ending:
            try:
                self.send(frames.PING)
            except Failed:
                return
            time.sleep(5)
            if time.monotonic() - self._heard > limit and not self._ending and self._dead is None:
                self._nudge()
                self._die(f"{self} hangs: no answer for {limit} s")
                self._process.kill()

    def _nudge(self):
        """Make a hanging kernel say where it is: a non-maskable interrupt."""
        with contextlib.suppress(Exception):
            self.monitor("inject-nmi")
            time.sleep(3)

    def _die(self, why, tail=True):
        if tail:
            why += self._last_words()
        with self._lock:
            if self._dead is None:
                self._dead = why
            commands = list(self._commands.values())
        self._ready.set()
        for command in commands:
            command.on_death(self._dead)

    def _last_words(self):
        said = []
        for name in (f"qemu-{self.number}.log",):
            with contextlib.suppress(OSError):
                said += (self.folder / name).read_text(errors="replace").splitlines()[-3:]
        log = self.log()
        reports = logcheck.find(log)
        said += reports[-1].lines if reports else log.replace("\r", "").splitlines()[-CONSOLE_TAIL:]
        return "; its last words:\n" + "\n".join("  " + line for line in said) if said else ""

    # Commands.

    def send(self, kind, number=0, payload=b""):
        """Send a frame to the agent."""
        if self._dead:
            raise Failed(self._dead)
        data = frames.pack(kind, number, payload)
        try:
            with self._lock:
                self._channel.sendall(data)
        except OSError:
            raise Failed(self._dead or f"{self} died") from None

    def spawn(self, command, *, env=None, cwd=None, stdin=False, pty=None):
        """Start a command and return a Command; it ends with the cluster at the latest.

        command: a list of words, or a string for the guest's sh.
        stdin: let it have standard input (``Command.write``, ``close_stdin``).
        pty: {"rows": R, "columns": C} for a terminal of that size.
        """
        words = ["sh", "-c", command] if isinstance(command, str) else [str(w) for w in command]
        number = next(self._numbers)
        made = Command(self, number, words)
        with self._lock:
            self._commands[number] = made
        self.send(frames.START, number, {
            "argv": words, "env": {k: str(v) for k, v in (env or {}).items()}, "cwd": cwd,
            "stdin": bool(stdin), "pty": pty})
        if self._dead:
            made.on_death(self._dead)
        return made

    def run(self, command, *, timeout=60, check=False, input=None, **options):
        """Run a command to its end and return a Result.

        timeout: seconds, None for no limit; past it everything that the command started is
            killed and TimedOut is raised.
        check: raise CommandFailed unless its exit status is 0.
        input: bytes or str for its standard input.
        """
        made = self.spawn(command, stdin=input is not None, **options)
        if input is not None:
            data = input.encode() if isinstance(input, str) else input
            threading.Thread(target=_feed, args=(made, data), daemon=True).start()
        return made.wait(timeout, check)

    def wait_for(self, command, timeout=30, interval=0.2):
        """Run a command again and again until it exits with 0."""
        end = time.monotonic() + timeout
        while True:
            result = self.run(command, timeout=max(1, end - time.monotonic()))
            if result.ok:
                return result
            if time.monotonic() > end:
                raise TimedOut(f"{self}: {result.command} did not succeed within {timeout} s",
                               result)
            time.sleep(interval)

    def wait_port(self, port, timeout=30):
        """Wait until something in the guest listens on a TCP port of IPv4 or IPv6."""
        code = ("import sys,time\n"
                f"end=time.monotonic()+{timeout}\n"
                "while time.monotonic()<end:\n"
                " for f in ('/proc/net/tcp','/proc/net/tcp6'):\n"
                "  for l in open(f).readlines()[1:]:\n"
                "   w=l.split()\n"
                f"   if int(w[1].split(':')[1],16)=={port} and w[3]=='0A': sys.exit(0)\n"
                " time.sleep(0.05)\n"
                "sys.exit(1)\n")
        result = self.run(["python3", "-S", "-c", code], timeout=timeout + 20 * self.release.slow)
        if not result.ok:
            raise TimedOut(f"{self}: nobody listens on TCP port {port} after {timeout} s", result)

    # QEMU's monitor.

    def monitor(self, command, **arguments):
        """Run a command of QEMU's monitor protocol and return its answer."""
        return self._monitor.ask(command, **arguments)

    def set_link(self, up):
        """Plug its network cable in or out."""
        self.monitor("set_link", name="nic", up=bool(up))

    # The kernel's log.

    def log(self):
        """Return the kernel log so far."""
        try:
            return self.console.read_text(errors="replace")
        except OSError:
            return ""

    def sync_log(self):
        """Make sure that what the kernel said until now is in the log."""
        if not self.alive or self._ending:
            return
        mark = f"rxe-vm: mark {time.monotonic_ns()}"
        with contextlib.suppress(Failed):
            self.run(f"echo '{mark}' > /dev/kmsg", timeout=30 * self.release.slow)
            end = time.monotonic() + 10
            while mark not in self.log() and time.monotonic() < end:
                time.sleep(0.02)

    def reports(self, allow=None):
        """Return the reports in the kernel's log that were not returned before."""
        self.sync_log()
        text = self.log()
        old, new = text[:self._checked], text[self._checked:]
        self._checked = len(text)
        return logcheck.find(new, allow, old.count("\n"))

    def scan_leaks(self):
        """Let kmemleak search, so that what it finds is in the log. Nothing without kmemleak.

        Two scans: a fresh object counts as a leak only when it was there some seconds before.
        """
        return self.run(
            "f=/sys/kernel/debug/kmemleak; [ -w $f ] || exit 0; "
            "echo scan > $f; sleep 6; echo scan > $f; "
            "cat $f | while IFS= read -r line; do echo \"$line\" > /dev/kmsg; done",
            timeout=120 * self.release.slow, check=True)


def _feed(command, data):
    """Thread: write a command's standard input."""
    with contextlib.suppress(Failed):
        command.write(data)
        command.close_stdin()
