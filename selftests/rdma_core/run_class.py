# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""In a guest: run one class of rdma-core's own tests and print TAP.

    run_class.py DEVICE GID MODULE.CLASS [TEST...]
"""

import ctypes
import importlib
import mmap
import sys
import types
import unittest

FOLDER = "/usr/share/rdma-core-tests/tests"


def fake_package():
    """Make ``tests.*`` importable without the package's own file, which imports all vendors' tests."""
    package = types.ModuleType("tests")
    package.__path__ = [FOLDER]
    sys.modules["tests"] = package
    sys.path.insert(0, FOLDER)


def madvise(address, length):
    """Give memory back, as newer versions of pyverbs.mem_alloc do."""
    if ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), mmap.MADV_DONTNEED):
        raise OSError("madvise")


def fill_gaps():
    """Give an older pyverbs the names that newer tests import; those of operations equal no other one."""
    from pyverbs import enums, mem_alloc
    if not hasattr(mem_alloc, "madvise"):
        mem_alloc.madvise = madvise
    for number, name in enumerate(("IBV_WR_FLUSH", "IBV_WR_ATOMIC_WRITE")):
        if not hasattr(enums, name):
            setattr(enums, name, -1 - number)
    for name in ("IBV_FLUSH_GLOBAL", "IBV_FLUSH_PERSISTENT", "IBV_FLUSH_RANGE", "IBV_FLUSH_MR",
                 "IBV_QP_EX_WITH_FLUSH", "IBV_QP_EX_WITH_ATOMIC_WRITE", "IBV_ACCESS_FLUSH_GLOBAL",
                 "IBV_ACCESS_FLUSH_PERSISTENT", "IBV_WC_FLUSH", "IBV_WC_ATOMIC_WRITE"):
        if not hasattr(enums, name):
            setattr(enums, name, 0)


class Result(unittest.TestResult):
    """Prints each result as it comes; what crashes afterwards does not take it away."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def say(self, test, good, comment="", why=""):
        """Print one result."""
        self.count += 1
        name = test.id().removeprefix("tests.")
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}{comment}")
        for line in why.splitlines():
            print(f"# {line}")
        sys.stdout.flush()

    def startTest(self, test):
        """Say what is under way: a crash then has a name."""
        super().startTest(test)
        print(f"# runs {test.id().removeprefix('tests.')}", flush=True)

    def addSuccess(self, test):
        """It passed."""
        super().addSuccess(test)
        self.say(test, True)

    def addSkip(self, test, reason):
        """It was skipped."""
        super().addSkip(test, reason)
        self.say(test, True, f" # SKIP {' '.join(reason.split())}")

    def addFailure(self, test, err):
        """It failed."""
        super().addFailure(test, err)
        self.say(test, False, "", self.failures[-1][1])

    def addError(self, test, err):
        """It raised something."""
        super().addError(test, err)
        self.say(test, False, "", self.errors[-1][1])


def main(device, gid, name, *tests):
    """Run the class, or only those tests of it."""
    fake_package()
    fill_gaps()
    sys.argv = ["run", "--dev", device, "--gid", gid]
    from args_parser import parser
    parser.parse_args()
    module, _, cls = name.partition(".")
    loader = unittest.defaultTestLoader
    cls = getattr(importlib.import_module(f"tests.{module}"), cls)
    suite = unittest.TestSuite(map(cls, tests)) if tests else loader.loadTestsFromTestCase(cls)
    result = Result()
    suite.run(result)
    print(f"1..{result.count}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
