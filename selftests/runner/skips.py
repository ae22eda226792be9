# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Which tests may leave themselves out: those of ``selftests/skips.txt``."""

import functools
import re

from . import SELFTESTS


@functools.cache
def _allowed():
    """Return one expression for all lines of the file: a test's name, a colon, what it says."""
    lines = (SELFTESTS / "skips.txt").read_text().splitlines()
    patterns = [line for line in lines if line.strip() and not line.startswith("#")]
    return re.compile("|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns))


def why_not(name, reason):
    """Return why a test may not leave itself out for this reason, or an empty text."""
    if _allowed().fullmatch(f"{name}: {reason}"):
        return ""
    return f"it left itself out, which selftests/skips.txt does not allow: {reason}"
