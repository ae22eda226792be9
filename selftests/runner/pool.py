# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The hosts that tests run on: one cluster at a time, kept while it fits what is asked for."""

import contextlib
import dataclasses

from rxe_vm import Cluster, Failed, release

BASE = "/repo/selftests/runner/base.sh"


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a class asks for."""

    releases: tuple
    cpus: int
    memory: str
    pmem: str
    mtu: int
    arguments: str

    @classmethod
    def of(cls, case):
        """Return what a test class asks for."""
        return cls(tuple(case.host_releases), case.cpus, case.memory, case.pmem, case.mtu,
                   case.arguments)

    def serves(self, wish):
        """Whether hosts of this shape can be used for a wish: more hosts do no harm."""
        return (self.releases[:len(wish.releases)] == wish.releases
                and dataclasses.replace(self, releases=()) == dataclasses.replace(wish, releases=()))

    def __str__(self):
        counts = {name: self.releases.count(name) for name in self.releases}
        hosts = ", ".join(f"{n} x {name}" for name, n in counts.items())
        return hosts + (f", MTU {self.mtu}" if self.mtu != 1500 else "")


class Pool:
    """The running hosts, or none."""

    def __init__(self, driver):
        self.driver = driver
        self.shape = None
        self.cluster = None
        self.case = None
        self._fresh = False
        self._marks = {}

    def drivers_of(self, case):
        """Return the drivers that a class wants, one for each host, the last one for the rest."""
        drivers = case.drivers or (self.driver,)
        return (drivers,) if isinstance(drivers, str) else tuple(drivers)

    def take(self, case):
        """Give a test class its hosts, in the state in which a test begins."""
        wish = Shape.of(case)
        if self.shape is None or not self.shape.serves(wish):
            self.close()
        if self.cluster is None:
            self._boot(wish)
        changed = self.case is not case
        self.case = case
        case.cluster = self.cluster
        case._pool = self
        case._drivers = self.drivers_of(case)
        if changed or self._fresh:
            self._fresh = False
            self.bring_to_base()
            self.check_logs()

    def _boot(self, wish):
        cluster = Cluster(list(wish.releases), cpus=wish.cpus, memory=wish.memory, pmem=wish.pmem,
                          mtu=wish.mtu, arguments=wish.arguments)
        cluster.start()
        self.cluster, self.shape, self._fresh, self._marks = cluster, wish, True, {}

    def bring_to_base(self):
        """Undo what a test left; return one line for each thing. Raises Failed if it cannot be."""
        drivers = self.case._drivers
        running = []
        for n, host in enumerate(self.cluster):
            driver = drivers[min(n, len(drivers) - 1)] if n < len(self.case.host_releases) else "none"
            link = "yes" if self.case.link else "no"
            running.append(host.spawn([BASE, driver, link, host.mtu]))
        return self._await(running)

    def _await(self, running):
        results = [command.wait(120 * command.host.release.slow) for command in running]
        for command, result in zip(running, results):
            if not result.ok:
                raise Failed(f"{command.host} cannot be brought back to the beginning: "
                             f"{(result.error or result.stderr or result.stdout).strip()}")
        return [f"{command.host}: {line}" for command, result in zip(running, results)
                for line in result.stdout.splitlines()]

    def check_logs(self):
        """Raise Failed if a kernel reported something since the last time."""
        self.cluster.check_logs()

    def healthy(self):
        """Whether all hosts live."""
        return self.cluster is not None and all(host.alive for host in self.cluster)

    def mark_logs(self):
        """Remember where the kernels' logs are now."""
        if self.cluster:
            self._marks = {host.number: len(host.log()) for host in self.cluster}

    def log_tails(self, lines=25):
        """Return what the kernels said since mark_logs(), the last lines of it."""
        said = []
        for host in self.cluster or ():
            new = [line for line in host.log()[self._marks.get(host.number, 0):].splitlines()
                   if line.strip() and "rxe-vm: mark" not in line]
            if new:
                said.append(f"the kernel of {host} said last:")
                said += ["  " + line.rstrip() for line in new[-lines:]]
        return said

    def show_blocked(self):
        """After a hang: let the kernels log where tasks are stuck and what runs."""
        for host in self.cluster or ():
            with contextlib.suppress(Failed):
                host.run("echo w >/proc/sysrq-trigger; echo l >/proc/sysrq-trigger",
                         timeout=20 * host.release.slow)
                host.sync_log()

    def drop(self):
        """End the hosts at once: they are spoiled."""
        cluster, self.cluster, self.shape, self.case = self.cluster, None, None, None
        if cluster:
            cluster.stop()

    def close(self):
        """End the hosts in order: the modules go at the first try, nothing leaks. Raises Failed."""
        cluster = self.cluster
        if cluster is None:
            return
        try:
            if self.healthy():
                self._await([host.spawn([BASE, "none", "no", host.mtu]) for host in cluster])
                for host in cluster:
                    if release.find(host.release.name).config:
                        host.scan_leaks()
                self.check_logs()
        finally:
            self.drop()
