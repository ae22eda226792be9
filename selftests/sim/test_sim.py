# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The simulation of two ends of a connection, under the sanitizers."""

from runner import BUILD, SELFTESTS, TestCase, builds, limit


class Schedules(TestCase):
    """A hundred thousand schedules; a failing one is printed with its seed."""

    @limit(600)
    def test_seeds(self):
        builds.run("sim", ["make", "-s", "-j2", "-C", SELFTESTS / "sim"])
        self.run_tap_here([BUILD / "sim" / "sim", "--start", "0", "--count", "100000"])
