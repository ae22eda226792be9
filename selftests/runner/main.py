# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The command ``selftests/check``: run the tests and say what became of them.

Tests are chosen by kind (the folders of selftests/), by kernel and by name. Without a kind all run
but those of the debug kernel; "debug" is everything that is for that kernel, "all" both. Exit
status: 0 all passed, 1 something failed, 2 bad use, 130 interrupted.
"""

import argparse
import contextlib
import signal
import sys
import time
import unittest

from rxe_vm import RELEASES, Failed, UsageError
from rxe_vm.errors import Error

from . import builds, discover
from .case import VmTestCase
from .limits import TimeLimit, clock
from .pool import Pool, Shape
from .report import Reports, Verdict

# Boot, build and clean-up of a test are limited too, far above what they take.
SETUP_SECONDS = 1200
AFTER_SECONDS = 180


class Interrupted(KeyboardInterrupt):
    """Somebody wants this run to end."""


class Runner:
    """Runs chosen tests one after the other."""

    def __init__(self, options, reports):
        self.options = options
        self.reports = reports
        self.pool = Pool(options.driver)
        self.built = {}             # release -> None, or why its module could not be built

    def run(self, chosen):
        """Run [(class, tests)]."""
        try:
            for cls, tests in chosen:
                start = time.monotonic()
                try:
                    self.run_class(cls, tests)
                finally:
                    spent = self.reports.spent
                    spent[cls.level] = spent.get(cls.level, 0) + time.monotonic() - start
            self.end_hosts()
        finally:
            self.pool.drop()

    def run_class(self, cls, tests):
        """Run the tests of a class."""
        if not clock.may_start():
            self.leave_out(cls, tests)
            return
        cls._reports = self.reports
        cls._options = self.options
        cls.slow = max((RELEASES[name].slow for name in cls.host_releases), default=1)
        verdict = Verdict()
        began = False
        with self.guarded(verdict, SETUP_SECONDS * cls.slow):
            self.prepare(cls)
            cls.setUpClass()
            began = True
        why = self.why_failed(verdict)
        if why:
            self.pool.drop()
        for n, test in enumerate(tests):
            if not clock.may_start():
                self.leave_out(cls, tests[n:])
                break
            if clock.run_is_over():
                self.reports.add(test.name, cls.level, "failed", "not run: the time of the whole run is over")
            elif verdict.skipped_why is not None:
                self.reports.add(test.name, cls.level, "skipped", verdict.skipped_why)
            elif why:
                self.reports.add(test.name, cls.level, "failed", f"its class could not be set up: {why}")
            else:
                self.run_test(test)
        verdict = Verdict()
        with self.guarded(verdict, AFTER_SECONDS * cls.slow):
            if began:
                cls.tearDownClass()
            cls.doClassCleanups()
            for problem in cls.tearDown_exceptions:
                raise problem[1]
        why = self.why_failed(verdict)
        if why:
            self.reports.add(f"{cls.title}.tearDownClass", cls.level, "failed", why)

    def leave_out(self, cls, tests):
        """Skip tests for which --start-within leaves no time."""
        for test in tests:
            self.reports.add(test.name, cls.level, "left out", "no time to start it")

    def prepare(self, cls):
        """Build what a class needs and boot its hosts."""
        if not issubclass(cls, VmTestCase):
            self.end_hosts()
            return
        if "rxe_ng" in self.pool.drivers_of(cls) and not self.options.no_build:
            for name in dict.fromkeys(cls.host_releases):
                self.build(name)
        if self.pool.shape is not None and not self.pool.shape.serves(Shape.of(cls)):
            self.end_hosts()
        self.pool.take(cls)

    def build(self, release):
        """Build the module for a release, once."""
        if release not in self.built:
            try:
                seconds = builds.module(release)
                self.reports.say(f"built the module for {release} in {seconds:.0f} s")
                self.built[release] = None
            except Failed as problem:
                self.built[release] = problem
        if self.built[release]:
            raise self.built[release]

    def run_test(self, test):
        """Run one test with all that goes with it."""
        verdict = Verdict()
        vm = isinstance(test, VmTestCase)
        start = time.monotonic()
        seconds = getattr(getattr(test, test._testMethodName), "limit", None) or \
            getattr(test, "limit", 120)
        ready = not vm
        if vm:
            with self.guarded(verdict, SETUP_SECONDS * test.slow):
                self.pool.take(type(test))
                self.pool.mark_logs()
                ready = True
        if ready:
            with self.guarded(verdict, seconds * getattr(test, "slow", 1)):
                test.run(verdict)
            if vm:
                self.after_test(test, verdict)
        elif vm:
            self.pool.drop()
        taken = time.monotonic() - start
        why = self.why_failed(verdict)
        if why:
            self.reports.add(test.name, test.level, "failed", why, taken)
        elif verdict.skipped_why is not None:
            self.reports.add(test.name, test.level, "skipped", verdict.skipped_why, taken)
        elif not getattr(test, "_parts", 0):
            self.reports.add(test.name, test.level, "passed", "", taken)

    def after_test(self, test, verdict):
        """Look into the kernels' logs and clean up; end the hosts if they are spoiled."""
        spoiled = verdict.spoiled
        failures = len(verdict.failed)
        with self.guarded(verdict, AFTER_SECONDS * test.slow):
            if spoiled:
                self.pool.show_blocked()
            self.pool.check_logs()
        if not spoiled and len(verdict.failed) == failures and self.pool.healthy():
            with self.guarded(verdict, AFTER_SECONDS * test.slow):
                self.pool.bring_to_base()
                self.pool.check_logs()
        spoiled = spoiled or len(verdict.failed) > failures or not self.pool.healthy()
        if verdict.failed:
            verdict.failed += self.pool.log_tails()
        if spoiled:
            self.pool.drop()

    def end_hosts(self):
        """End the hosts; what goes wrong with that is a result of its own."""
        if self.pool.cluster is None:
            return
        name, level = f"{self.pool.case.title}.end_of_hosts", self.pool.case.level
        verdict = Verdict()
        start = time.monotonic()
        with self.guarded(verdict, 600 * self.pool.case.slow):
            self.pool.close()
        why = self.why_failed(verdict)
        if why:
            self.reports.add(name, level, "failed", why, time.monotonic() - start)

    @contextlib.contextmanager
    def guarded(self, verdict, seconds):
        """Run a block under a time limit; what it raises goes to the verdict."""
        try:
            with clock.within(seconds):
                yield
        except unittest.SkipTest as skip:
            verdict.skipped_why = str(skip)
        except KeyboardInterrupt:
            raise
        except (Exception, TimeLimit) as problem:
            verdict.fail(problem)

    @staticmethod
    def why_failed(verdict):
        """Return all reasons in one text."""
        return "\n".join(verdict.failed)


def parser():
    """Return the argument parser."""
    top = argparse.ArgumentParser(prog="selftests/check", description=__doc__,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("kinds", nargs="*", metavar="KIND", help=f"one of: {', '.join(discover.KINDS)}, all")
    top.add_argument("--release", action="append", default=[], metavar="R[,R...]",
                     help="only on these kernels (and what needs no kernel)")
    top.add_argument("-k", action="append", default=[], metavar="PATTERN",
                     help="only tests with this in their name; * is any text; may be given again")
    top.add_argument("--case", action="append", default=[], metavar="GLOB",
                     help="only these cases of our own TAP programs")
    top.add_argument("--list", action="store_true", help="print the names of the tests, run nothing")
    top.add_argument("--driver", default="rxe_ng", choices=("rxe_ng", "rdma_rxe"),
                     help="driver of hosts for which a test does not name one (default: rxe_ng)")
    top.add_argument("--no-build", action="store_true", help="take the module as it was built last")
    top.add_argument("--repeat", type=int, default=1, metavar="N", help="run all of it N times")
    top.add_argument("--time-limit", type=float, metavar="SECONDS",
                     help="for the whole run; tests that are left then have failed")
    top.add_argument("--start-within", type=float, metavar="SECONDS",
                     help="start no test later; tests that are left then are skipped")
    return top


def _choose(options):
    """Return the chosen classes with their tests; raise NoSuch for a choice of nothing."""
    for kind in options.kinds:
        if kind != "all" and kind not in discover.KINDS:
            raise discover.NoSuch(f"no kind '{kind}': there are {', '.join(discover.KINDS)}")
    releases = [name for each in options.release for name in each.split(",") if name]
    for name in releases:
        if name not in RELEASES:
            raise discover.NoSuch(f"no release '{name}': there are {', '.join(RELEASES)}")
    kinds = discover.KINDS if "all" in options.kinds else \
        options.kinds or [kind for kind in discover.KINDS if kind != "debug"]
    chosen = discover.choose(discover.find(kinds, "debug" in releases), releases, options.k)
    if not chosen:
        raise discover.NoSuch("no test fits that choice; see --list")
    return chosen


def _stop(number, _frame):
    raise Interrupted(signal.Signals(number).name)


def main(argv=None):
    """Entry point; return the exit status."""
    options = parser().parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        chosen = _choose(options)
    except (discover.NoSuch, UsageError) as problem:
        print(f"selftests/check: {problem}", file=sys.stderr)
        return 2
    if options.list:
        for _, tests in chosen:
            for test in tests:
                print(test.name)
        return 0
    clock.limit_run(options.time_limit)
    clock.limit_starts(options.start_within)
    reports = Reports(may_skip=options.driver != "rxe_ng")
    runner = Runner(options, reports)
    try:
        for _ in range(options.repeat):
            runner.run(chosen)
    except KeyboardInterrupt as problem:
        reports.say(f"interrupted {problem}".rstrip())
        reports.close()
        return 130
    except Error as problem:
        reports.add("runner", "runner", "failed", str(problem))
    return reports.close()
