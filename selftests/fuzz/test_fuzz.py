# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The fuzzers of rxe_ng/proto, each for a short while."""

import os

from runner import BUILD, SELFTESTS, TestCase, builds

SECONDS = os.environ.get("FUZZ_SECONDS", "20")


class Fuzzers(TestCase):
    """FUZZ_SECONDS=N in the environment gives each more time."""

    limit = int(SECONDS) * 4 + 120

    def test_short(self):
        builds.run("fuzzers", ["make", "-s", "-j2", "-C", SELFTESTS / "fuzz"])
        self.run_tap_here(["make", "-s", "-C", SELFTESTS / "fuzz", "fuzz", f"SECONDS={SECONDS}",
                           f"OUT={BUILD / 'fuzz'}"])
