# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The verbs tests in C, with both ends on one device of one host."""

import re

from runner import SELFTESTS, VmTestCase


# Under KASAN and lockdep, in a time that one waits for.
ON_DEBUG = ("rings", "stress", "mr", "odp", "cq", "rc_events", "rc_states", "uc", "ud", "srq", "mw", "placement")


class Verbs(VmTestCase):
    """One test for each program of the Makefile."""

    hosts = 1
    debug = True


def _add_tests():
    text = (SELFTESTS / "verbs" / "Makefile").read_text()
    for name in re.search(r"^programs := (.*)$", text, re.MULTILINE)[1].split():
        def test(self, program=name):
            if self.variant == "debug" and program not in ON_DEBUG:
                self.skipTest("it takes too long under emulation and the checkers")
            self.run_program(self.a, "verbs", program, "--dev", "rxe0")
        setattr(Verbs, f"test_{name}", test)


_add_tests()
