# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Results: printed as they come, summed up at the end."""

import json
import os
import sys
import time
import traceback
import unittest

from rxe_vm.errors import Error

from . import BUILD, REPO, skips
from .limits import TimeLimit

REASON_LINES = 60
SUMMARY_LINES = 6


class Reports:
    """All results of a run."""

    def __init__(self, out=None, may_skip=False):
        """may_skip: any test may leave itself out, as with a driver that has less."""
        self.out = out or sys.stdout
        self.may_skip = may_skip
        self.results = []           # dicts: name, level, outcome, reason, seconds
        self.start = time.monotonic()
        self.spent = {}             # level -> seconds, boots and builds included

    def say(self, text):
        """Print a comment."""
        print(f"# {text}", file=self.out, flush=True)

    def add(self, name, level, outcome, reason="", seconds=0.0):
        """Take a result and print it.

        outcome: "passed", "failed", "skipped" by the test itself, which has failed if it may not, or
        "left out" by who runs it.
        """
        if outcome == "skipped" and not self.may_skip:
            unwanted = skips.why_not(name, reason)
            outcome, reason = ("failed", unwanted) if unwanted else (outcome, reason)
        outcome = outcome.replace("left out", "skipped")
        self.results.append({"name": name, "level": level, "outcome": outcome, "reason": reason,
                             "seconds": round(seconds, 2)})
        verdict = "not ok" if outcome == "failed" else "ok"
        skip = f" # SKIP {reason}" if outcome == "skipped" else ""
        print(f"{verdict} {len(self.results)} - {name} ({seconds:.1f} s){skip}", file=self.out)
        if outcome == "failed":
            lines = reason.splitlines() or ["no reason given"]
            if len(lines) > REASON_LINES:
                half = REASON_LINES // 2
                lines = [*lines[:half], f"... {len(lines) - 2 * half} lines ...", *lines[-half:]]
            for line in lines:
                print(f"#   {line}", file=self.out)
        self.out.flush()

    def part(self, case, name, outcome, reason, seconds):
        """Take the result of a part of a test."""
        case._parts = getattr(case, "_parts", 0) + 1
        self.add(f"{case.name}/{name}", case.level, outcome, reason, seconds)

    def count(self, outcome):
        """Return how many results have that outcome."""
        return sum(each["outcome"] == outcome for each in self.results)

    def close(self):
        """Print the summary and write it as JSON; return the exit status."""
        passed, failed, skipped = map(self.count, ("passed", "failed", "skipped"))
        total = time.monotonic() - self.start
        if self.spent:
            self.say("")
            for level, seconds in self.spent.items():
                count = sum(each["level"] == level for each in self.results)
                self.say(f"{level:10} {count:5} tests {seconds:7.0f} s")
            self.say(f"{'all':10} {len(self.results):5} tests {total:7.0f} s, CPU {sum(os.times()[:4]):.0f} s")
        BUILD.mkdir(parents=True, exist_ok=True)
        (BUILD / "results.json").write_text(json.dumps(
            {"passed": passed, "failed": failed, "skipped": skipped, "seconds": round(total, 1),
             "levels": {k: round(v, 1) for k, v in self.spent.items()}, "results": self.results},
            indent=1) + "\n")
        if failed:
            self.say("")
            self.say("failed:")
            for each in self.results:
                if each["outcome"] == "failed":
                    first, *more = each["reason"].strip().splitlines() or ["no reason given"]
                    self.say(f"  {each['name']}: {first}")
                    for line in more[:SUMMARY_LINES]:
                        self.say(f"      {line}")
        more = f", {skipped} skipped" if skipped else ""
        print(f"{passed} passed, {failed} failed{more}", file=self.out, flush=True)
        return 1 if failed or not passed else 0


class Verdict(unittest.TestResult):
    """What unittest says about one test method."""

    def __init__(self):
        super().__init__()
        self.failed = []            # texts
        self.skipped_why = None
        self.spoiled = False        # the hosts cannot be used any more

    def addError(self, test, err):
        self._fail(err)

    def addFailure(self, test, err):
        self._fail(err)

    def addSubTest(self, test, subtest, err):
        if err:
            words = subtest._subDescription() if hasattr(subtest, "_subDescription") else ""
            self._fail(err, words)

    def addSkip(self, test, reason):
        self.skipped_why = reason

    def addUnexpectedSuccess(self, test):
        self.failed.append("it passed although a failure was expected")

    def fail(self, problem, where=""):
        """Take an exception."""
        self._fail((type(problem), problem, problem.__traceback__), where)

    def _fail(self, err, where=""):
        kind, problem, trace = err
        if issubclass(kind, KeyboardInterrupt):
            raise problem
        if issubclass(kind, (TimeLimit, Error)):
            self.spoiled = self.spoiled or issubclass(kind, TimeLimit)
            text = str(problem)
        elif issubclass(kind, AssertionError):
            text = str(problem) or "assertion failed"
        else:
            text = "".join(traceback.format_exception_only(kind, problem)).strip()
        places = _places(trace)
        parts = [f"{where}: {text}" if where else text]
        parts += [f"  at {place}" for place in places]
        self.failed.append("\n".join(parts))


def _places(trace):
    """Return where in our files an exception was raised, the innermost place last."""
    places = []
    for frame in traceback.extract_tb(trace):
        if "/unittest/" in frame.filename or not frame.filename.startswith(str(REPO)):
            continue
        path = frame.filename[len(str(REPO)) + 1:]
        if not path.startswith("selftests/runner/main"):
            places.append(f"{path}:{frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": "))
    return places[-6:]
