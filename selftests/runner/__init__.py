# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What runs the tests, and what tests are made of; see ``case`` for the classes.

A test is a method ``test_*`` of a class in ``selftests/KIND/test_*.py``::

    from runner import VmTestCase, limit

    class PingTest(VmTestCase):
        hosts = 2

        @limit(60)
        def test_ping(self):
            self.a.run(["ping", "-c", "1", self.b.ipv4], check=True)

It is run once for each kernel, here as ``net.PingTest.test_ping[bookworm]`` and
``net.PingTest.test_ping[backports]``. The command is ``selftests/check``.
"""

import pathlib
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent.parent
SELFTESTS = REPO / "selftests"
BUILD = REPO / "build" / "selftests"

if str(REPO / "tools") not in sys.path:
    sys.path.insert(0, str(REPO / "tools"))

from . import builds  # noqa: E402
from .case import TestCase, VmTestCase, limit, only  # noqa: E402

__all__ = ["BUILD", "REPO", "SELFTESTS", "TestCase", "VmTestCase", "builds", "limit", "only"]
