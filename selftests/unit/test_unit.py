# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Unit tests of rxe_ng/proto, under the sanitizers."""

from runner import BUILD, SELFTESTS, TestCase, builds


class Proto(TestCase):
    """The program that the Makefile makes."""

    def test_all(self):
        builds.run("unit", ["make", "-s", "-j2", "-C", SELFTESTS / "unit"])
        self.run_tap_here([BUILD / "unit" / "unit"])
