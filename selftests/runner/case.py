# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The classes that tests derive from."""

import shlex
import subprocess
import unittest

import perftest
from rxe_vm import Failed, frames, release

from . import builds, tap
from .limits import clock


def limit(seconds):
    """Give a test method a time limit of its own (on a slow kernel it is multiplied)."""
    def mark(method):
        method.limit = seconds
        return method
    return mark


def only(*names):
    """Leave out the tests that a class inherits but for these: a decorator of the class."""
    def mark(cls):
        for name in unittest.defaultTestLoader.getTestCaseNames(cls):
            if name not in names and name not in vars(cls):
                setattr(cls, name, None)
        return cls
    return mark


class TestCase(unittest.TestCase):
    """A test that runs on this machine.

    limit: seconds for each test, and for each case of a TAP program.
    """

    limit = 120
    variant = ""                # label of the kernel it runs on; set by the runner
    slow = 1
    longMessage = True
    maxDiff = 4000

    def report(self, name, outcome, reason="", seconds=0.0):
        """Report a result of its own below this test: see ``Reports.add`` for the outcomes."""
        self._reports.part(self, name, outcome, reason, seconds)
        clock.again()

    def run_tap_here(self, argv, env=None, cwd=None):
        """Run a program on this machine that prints TAP; each of its cases becomes a result."""
        reader = tap.Reader(self.report)
        words = [str(word) for word in argv]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=env, cwd=cwd, start_new_session=True) as child:
            try:
                for line in child.stdout:
                    reader.feed(line.decode(errors="replace"))
                status = child.wait()
            except BaseException:
                builds.kill_group(child)
                raise
        self._end_tap(reader, shlex.join(words), status)

    def _end_tap(self, reader, what, status=0, error=""):
        wrong = reader.end()
        if wrong is None and status and not reader.failed:
            wrong = f"exit status {status} though no case failed"
        if wrong:
            said = error.strip() or "\n".join(reader.last_words)
            self.fail(f"{what}: {wrong}" + (f"; it said:\n{said[-2000:]}" if said else ""))


class VmTestCase(TestCase):
    """A test on virtual hosts. Class attributes say what it needs:

    releases: run it once for each of these: a release's name for all hosts, or a tuple with one
        name per host (the label is then "bookworm+backports").
    debug: run it also on the debug kernel, where "check debug" asks for it.
    hosts: how many at least (those of a class before are used again, so there may be more).
    mtu, cpus, memory, pmem, arguments: as ``rxe_vm.Cluster`` has them.
    drivers: for each host "rxe_ng", "rdma_rxe" or "none", the last one for the rest; by default
        what the command line's --driver says, and that is rxe_ng.
    link: whether there is a link rxe0 on eth0 when a test begins.

    Each test begins in that state, with GIDs for both addresses there. After it everything is
    ended or removed that it left (commands, namespaces, links, netdevs, netem, addresses, fault
    injection), the module is loaded again if it is not, and the kernels' logs are checked: a
    report fails the test. A host that dies or hangs costs one test; the next one gets new hosts.
    So state that a class needs beyond that is made in setUp, not in setUpClass.
    """

    releases = ("bookworm", "backports")
    debug = False
    hosts = 2
    mtu = 1500
    cpus = 2
    memory = "3G"
    pmem = None
    arguments = ""
    drivers = None
    link = True

    host_releases = ()          # one for each host; set by the runner
    cluster = None              # set by the runner

    @property
    def a(self):
        """The first host."""
        return self.cluster[0]

    @property
    def b(self):
        """The second host."""
        return self.cluster[1]

    def driver(self, host):
        """Return the driver that a host has when a test begins."""
        return self._drivers[min(host.number - 1, len(self._drivers) - 1)]

    def bring_to_base(self):
        """Bring all hosts to the state in which a test begins (it is done after each test)."""
        self._pool.bring_to_base()

    def gid(self, host, address=None, device="rxe0"):
        """Return the index of the GID of an address (10.77.0.N without one), once it is there."""
        return perftest.gid_index(host, address or host.ipv4, device)

    def program(self, host, folder, name):
        """Return the path in the guest of a program made by ``selftests/FOLDER/Makefile``."""
        return builds.program(host.release.root.name, folder, name)

    def run_program(self, host, folder, name, *options, timeout=None):
        """Run a test program made with ``selftests/lib/tap.h`` in a guest."""
        slow = ["--slow", self.slow] if self.slow > 1 else []
        self.run_tap(host, [self.program(host, folder, name), *slow, *options, *self._options.case],
                     timeout=timeout)

    def run_tap(self, host, argv, timeout=None, **options):
        """Run a program in a guest that prints TAP; each of its cases becomes a result.

        The time limit of the test counts for each case; timeout is for all of them together.
        """
        reader = tap.Reader(self.report)
        command = host.spawn(argv, **options)
        for kind, data in command.events(timeout):
            if kind == frames.STDOUT:
                reader.feed(data.decode(errors="replace"))
        result = command.wait()
        self._end_tap(reader, str(command), result.status, result.error or result.stderr)

    def together(self, *commands, timeout=60, check=True):
        """Wait until all of these spawned commands have ended; return their Results.

        If one fails, the others are ended at once; its failure is raised, with what they said.
        """
        results = []
        try:
            for command in commands:
                results.append(command.wait(timeout, check))
        except Failed as problem:
            others = [each for each in commands if each is not command]
            for each in others:
                each.kill()
            raise Failed("\n".join([str(problem), *map(_last_words, others)])) from problem
        return results


def _last_words(command):
    """Return how far a command got, and what it said at last."""
    result = command.result()
    how = "went on" if command.running else f"exit status {result.status}"
    said = f"{result.stdout.strip()}\n{result.stderr.strip()}".strip()[-1000:]
    return f"host {command.host.number}: {result.command}: {how}" + (f"\n{said}" if said else "")


def variants(cls, with_debug):
    """Return (label, releases of the hosts) of each kernel that a class is run on."""
    chosen = list(cls.releases) + (["debug"] if with_debug and cls.debug else [])
    for each in dict.fromkeys(chosen):
        names = [each] if isinstance(each, str) else list(each)
        label = "+".join(names)
        hosts = names + [names[-1]] * (cls.hosts - len(names))
        for name in hosts:
            release.find(name)
        yield label, tuple(hosts)
