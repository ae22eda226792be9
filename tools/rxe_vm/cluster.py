# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hosts on one Ethernet segment::

    with Cluster(["bookworm", "backports"]) as c:
        server = c[0].spawn("ibv_rc_pingpong -d rxe0 -g 1")
        c[0].wait_port(18515)
        c[1].run(["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", c[0].ipv4], timeout=60, check=True)
        server.wait(timeout=60, check=True)

Leaving the block ends everything, checks each kernel's log and raises Failed if one has a
report. Start a cluster from a thread that lives as long as it: QEMU dies with that thread.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

from . import accel, kernel, paths, release
from .errors import Failed, UsageError
from .host import Host
from .image import Image
from .progress import say

MOST_HOSTS = 4
KEEP_LOGS = 10


class Cluster:
    """1 to 4 hosts, numbered from 1, as a sequence from 0.

    releases: a name, or a list with one for each host (the last one serves for the rest).
    hosts: how many; by default as many as there are releases.
    name: folder under build/vm/ that keeps the logs; by default one that goes when all is well.
    shares: (folder here, path in the guest) of further shared folders.
    packages: further Debian packages in the image.
    allow: expression of kernel reports that do not count.
    capture: folder for a capture of each host's packets (host-N.pcap).
    arguments: more arguments for the kernels.
    pmem: persistent memory of each host, an NVDIMM of that size ("64M").
    """

    def __init__(self, releases=release.DEFAULT, hosts=None, *, name=None, cpus=2, memory="3G",
                 mtu=1500, shares=(), packages=(), allow=None, capture=None, arguments="", pmem=None):
        names = [releases] if isinstance(releases, str) else list(releases)
        count = len(names) if hosts is None else hosts
        if not 1 <= count <= MOST_HOSTS:
            raise UsageError(f"{count} hosts: there can be 1 to {MOST_HOSTS}")
        if len(names) > count:
            raise UsageError(f"{len(names)} releases for {count} hosts")
        names += [names[-1]] * (count - len(names))
        self.releases = [release.find(n) for n in names]
        without = [r.name for r in self.releases if pmem and r.config]
        if without:
            raise UsageError(f"the kernel of {without[0]} has no ACPI, so no persistent memory")
        self.name = name
        self.allow = allow
        self.packages = tuple(packages)
        self.options = {"cpus": cpus, "memory": memory, "mtu": mtu, "arguments": arguments, "pmem": pmem,
                        "shares": [_share(*s) for s in shares]}
        self.capture = pathlib.Path(capture).absolute() if capture else None
        self.hosts = []
        self.folder = None
        self._switch = None
        self._failed = False

    def __len__(self):
        return len(self.hosts)

    def __getitem__(self, index):
        return self.hosts[index]

    def __iter__(self):
        return iter(self.hosts)

    def host(self, number):
        """Return the host of a number (from 1), or raise UsageError."""
        if not 1 <= number <= len(self.hosts):
            raise UsageError(f"no host {number}: there are hosts 1 to {len(self.hosts)}")
        return self.hosts[number - 1]

    def start(self):
        """Boot all hosts and return when they can run commands."""
        accel.qemu()
        made = []
        for each in self.releases:
            image = Image(each, self.packages).ensure()
            made.append((each, image, kernel.of(each, image)))
        kind = accel.choose(made[0][2])
        self._open_folder()
        if self.capture:
            self.capture.mkdir(parents=True, exist_ok=True)
        try:
            for number, (each, image, its_kernel) in enumerate(made, 1):
                capture = self.capture / f"host-{number}.pcap" if self.capture else None
                self.hosts.append(Host(number, each, its_kernel, image, self.folder, kind=kind,
                                       capture=capture, **self.options))
            self._boot()
        except BaseException:
            self._failed = True
            self.stop()
            raise
        how = "KVM" if kind == "kvm" else "emulated, TCG"
        for host in self.hosts:
            say(f"host {host.number} is up: {host.release.name}, Linux {host.kernel.version}, "
                f"{host.ipv4} {host.ipv6} ({how}; {host.boot_seconds:.1f} s)")
        return self

    def _boot(self):
        ends = self._cables()
        try:
            for host, end in zip(self.hosts, ends):
                host.start(end)
            for host, end in zip(self.hosts, ends):
                try:
                    host.wait_ready()
                except Failed:
                    if not host.emulator_slipped():
                        raise
                    say(f"QEMU's emulation slipped while {host} booted; booting it again")
                    host.restart(end)
                    host.wait_ready()
        finally:
            for end in ends:
                if end is not None:
                    end.close()

    def _cables(self):
        """Return each host's end of its cable: none, a direct one, or one to a switch."""
        count = len(self.hosts)
        if count == 1:
            return [None]
        if count == 2:
            return list(socket.socketpair())
        pairs = [socket.socketpair() for _ in self.hosts]
        fds = [theirs.fileno() for _, theirs in pairs]
        setpriv = shutil.which("setpriv")
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        self._switch = subprocess.Popen(
            [*prefix, sys.executable, "-B", "-m", "rxe_vm.switch", *map(str, fds)], pass_fds=fds,
            cwd=paths.PACKAGE.parent, stdin=subprocess.DEVNULL, start_new_session=True)
        for _, theirs in pairs:
            theirs.close()
        return [ours for ours, _ in pairs]

    def _open_folder(self):
        top = paths.clusters()
        top.mkdir(parents=True, exist_ok=True)
        if self.name:
            self.folder = top / self.name
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            return
        old = sorted((p for p in top.glob("run-*") if not (p / "running").exists()),
                     key=lambda p: p.stat().st_mtime)
        for path in old[:-KEEP_LOGS]:
            shutil.rmtree(path, ignore_errors=True)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=top))

    def stop(self):
        """End everything; nothing is checked."""
        for host in self.hosts:
            host._ending = True
        for host in self.hosts:
            host.stop()
        if self._switch:
            self._switch.kill()
            self._switch.wait()
            self._switch = None

    def reports(self):
        """Return [(host, report)] of what the kernels reported since the last call."""
        return [(host, report) for host in self.hosts for report in host.reports(self.allow)]

    def check_logs(self):
        """Raise Failed, showing the lines, if a kernel reported something since the last call."""
        found = self.reports()
        if found:
            self._failed = True
            raise Failed("\n".join(
                f"the kernel of {host} reported (line {report.number} of {host.console}):\n"
                f"{report.text()}" for host, report in found))

    def finish(self):
        """Search for leaks where kmemleak is, check that all hosts live and the logs; end everything."""
        try:
            for host in self.hosts:
                if host.alive and host.release.config:
                    host.scan_leaks()
            for host in self.hosts:
                host.check_alive()
            self.check_logs()
        except BaseException:
            self._failed = True
            raise
        finally:
            self.stop()
            self._tidy()

    def _tidy(self):
        if self.name or self.folder is None:
            return
        if self._failed:
            say(f"logs: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.finish()
            return
        self._failed = True
        if issubclass(kind, Exception):
            # What the kernels say explains more than what the test saw.
            with contextlib.suppress(Exception):
                for host, report in self.reports():
                    say(f"the kernel of {host} reported:\n{report.text()}")
        self.stop()
        self._tidy()


def _share(folder, where):
    """Check a shared folder; return it with its path in the guest."""
    folder = pathlib.Path(folder).absolute()
    if not folder.is_dir():
        raise UsageError(f"no folder {folder} to share")
    if not where.startswith("/") or any(c.isspace() for c in where) or "," in str(folder):
        raise UsageError(f"cannot share {folder} at '{where}': an absolute path without blanks is needed")
    return folder, os.path.normpath(where)
