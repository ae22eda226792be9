# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rdma-core's own tests, of which those have to pass that ``expected.txt`` says."""

import pathlib
import re

from runner import VmTestCase

HERE = pathlib.Path(__file__).parent
RUN = "/repo/selftests/rdma_core/run_class.py"
RESULT = re.compile(r"^(ok|not ok) \d+ - (\S+)(?: # SKIP (.*))?$")

# How a test may end that does not pass, by the word that expected.txt has for it.
OUTCOMES = {"skip": ("skipped",), "fail": ("failed",), "pass, but on bookworm": ("skipped", "failed")}


def read_expected():
    """Return {test: {"bookworm": word, "backports": word, "ours": word}} and check its form.

    A word is "pass", "pass, but on bookworm: " with a reason, or "skip: " or "fail: " with one.
    """
    found = {}
    for line in (HERE / "expected.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, old, new, ours = line.split(None, 3)
        if name in found or not re.fullmatch(r"pass(, but on bookworm: .+)?|(skip|fail): .+", ours):
            raise ValueError(f"expected.txt: {line}")
        found[name] = {"bookworm": old, "backports": new, "ours": ours}
    return found


class RdmaCoreTest(VmTestCase):
    """One process for each class of tests."""

    hosts = 1
    limit = 900

    def test_all(self):
        expected = read_expected()
        classes = {}
        for name in expected:
            module, cls, _ = name.split(".")
            classes.setdefault(f"{module}.{cls}", []).append(name)
        gid = self.gid(self.a)
        for cls, names in classes.items():
            results = self.run_class(gid, cls)
            for name in names:
                self.judge(name, expected[name], *results.get(name, ("missing", "")))
            for name in set(results) - set(names):
                self.report(name, "failed", "expected.txt does not know it")

    def run_class(self, gid, cls):
        """Run a class; should it crash, what is left of it one by one. Return {test: (outcome, reason)}."""
        results, crashed = self.run_tests(gid, cls)
        results.update(crashed)
        if crashed:
            for name in self.names_of(cls):
                if name not in results:
                    for found in self.run_tests(gid, cls, [name.rsplit(".", 1)[1]]):
                        results.update(found)
        return results

    def names_of(self, cls):
        """Return the tests of a class that the file lists."""
        return [name for name in read_expected() if name.rsplit(".", 1)[0] == cls]

    def run_tests(self, gid, cls, tests=()):
        """Run tests in one process; return {test: (outcome, reason)}, and the same of one that crashed."""
        result = self.a.run(["python3", RUN, "rxe0", gid, cls, *tests], timeout=300 * self.slow)
        results, running, open_ = {}, None, None
        for line in result.stdout.splitlines():
            match = RESULT.match(line)
            if match:
                outcome = "skipped" if match[3] is not None else "passed" if match[1] == "ok" else "failed"
                results[match[2]] = (outcome, match[3] or "")
                open_, running = match[2] if outcome == "failed" else None, None
            elif line.startswith("# runs "):
                running = line.removeprefix("# runs ")
            elif line.startswith("# ") and open_:
                results[open_] = (results[open_][0], results[open_][1] + line[2:] + "\n")
        if running:
            return results, {running: ("crashed", f"exit status {result.status}: {result.stderr[-500:]}")}
        if "\n1.." not in "\n" + result.stdout:
            self.fail(f"{cls}: {result.stderr[-1000:]}")
        return results, {}

    def judge(self, name, words, outcome, reason):
        """Report a test as what it is, measured by what it should be."""
        driver = self.driver(self.a)
        wanted = words["ours"] if driver == "rxe_ng" else words[self.a.release.name]
        if wanted.startswith("pass, ") and self.a.release.name != "bookworm":
            wanted = "pass"
        word, _, why = wanted.partition(": ")
        if outcome == "passed":
            self.report(name, "passed")
        elif outcome in OUTCOMES.get(word, ()):
            self.report(name, "left out", why)
        else:
            self.report(name, "failed", f"{outcome}, where expected.txt has '{wanted}': {reason}")
