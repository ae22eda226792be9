# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What sparse says of the module's sources: nothing."""

from runner import TestCase, builds


class Sparse(TestCase):
    """Its endianness, address spaces, locks; a warning is an error."""

    limit = 900

    def test_bookworm(self):
        builds.run("the module with sparse for bookworm", ["make", "-s", "sparse-bookworm"])

    def test_backports(self):
        builds.run("the module with sparse for backports", ["make", "-s", "sparse-backports"])
