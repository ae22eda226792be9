# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Unit tests of rxe_ng/proto, under the sanitizers."""

import subprocess

from runner import BUILD, SELFTESTS, TestCase, builds


class Proto(TestCase):
    """The program that the Makefile makes."""

    def test_all(self):
        builds.run("unit", ["make", "-s", "-j2", "-C", SELFTESTS / "unit"])
        self.run_tap_here([BUILD / "unit" / "unit"])

    def test_mutants_have_their_places(self):
        """Or ``mutants`` would break nothing, and so find no test that notices."""
        done = subprocess.run([SELFTESTS / "unit" / "mutants", "--places"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
