# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Reading the Test Anything Protocol as it arrives."""

import re
import time

RESULT = re.compile(r"^(not )?ok\b *(\d+)? *(?:- )?(.*?)(?: # *(SKIP|TODO)\b *(.*))?$", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d+)(?: *# *(.*))?$")


class Reader:
    """Turns text into results.

    report(name, outcome, reason, seconds): called for each case; outcome is "passed",
        "failed" or "skipped", seconds the time since the one before.
    """

    def __init__(self, report):
        self.report = report
        self.plan = None
        self.plan_comment = ""
        self.seen = 0
        self.failed = 0
        self.bailed = None
        self.last_words = []
        self._rest = ""
        self._open = None           # [name, reason lines, seconds] of a failed case
        self._time = time.monotonic()

    def feed(self, text):
        """Take a piece of output."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self.line(line.rstrip("\r"))

    def line(self, line):
        """Take one line."""
        match = RESULT.match(line)
        if match:
            self._flush()
            self._result(*match.groups())
            return
        match = PLAN.match(line)
        if match:
            self.plan = int(match[1])
            self.plan_comment = match[2] or ""
            return
        if line.startswith("Bail out!"):
            self.bailed = line[len("Bail out!"):].strip() or "no reason given"
        text = line[1:].strip() if line.startswith("#") else line.rstrip()
        if not text:
            return
        self.last_words = [*self.last_words[-19:], text]
        if self._open and not text.startswith("took "):
            self._open[1].append(text)

    def end(self):
        """The output is complete. Return what is wrong with it as a whole, or None."""
        if self._rest:
            self.line(self._rest)
            self._rest = ""
        self._flush()
        if self.bailed:
            return f"it gave up: {self.bailed}"
        if self.plan is not None and self.seen != self.plan:
            return f"it ended after {self.seen} of {self.plan} cases"
        if self.plan is None and not self.seen:
            return "it had no case"
        return None

    def _result(self, bad, _number, name, directive, comment):
        now = time.monotonic()
        seconds, self._time = now - self._time, now
        self.seen += 1
        name = name.strip() or f"case {self.seen}"
        directive = (directive or "").upper()
        if directive == "SKIP":
            self.report(name, "skipped", comment or "no reason given", seconds)
        elif not bad:
            self.report(name, "passed", "", seconds)
        else:
            self.failed += 1
            self._open = [name, [comment] if comment else [], seconds]

    def _flush(self):
        if self._open:
            name, lines, seconds = self._open
            self._open = None
            self.report(name, "failed", "\n".join(lines) or "no reason given", seconds)
