# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Finding in a kernel's log what no kernel should have to say."""

import dataclasses
import re

# Matched at the beginning of a message, behind its time stamp.
REPORTS = re.compile(r"""
    (?:
      BUG: | BUG\ \S+ | kernel\ BUG\ at | WARNING: | Oops | UBSAN: | KASAN: | KFENCE: | KCSAN:
    | =*\ *BUG: | Kernel\ panic | general\ protection | divide\ error | invalid\ opcode | int3:
    | stack\ segment | double\ fault | traps:\ PANIC | Unable\ to\ handle | Internal\ error
    | refcount_t: | ODEBUG: | DEBUG_LOCKS_WARN_ON | INFO:\ task\ .*\ blocked\ for
    | INFO:\ trying\ to\ register\ non-static\ key | INFO:\ lockdep\ is\ turned\ off
    | INFO:\ rcu | rcu:\ INFO: | INFO:\ Slab | INFO:\ Object | INFO:\ possible
    | watchdog:\ | NMI\ watchdog:\ | list_(?:add|del)\ corruption | Bad\ page\ state
    | kmemleak:\ [1-9][0-9]*\ new\ suspected | unreferenced\ object | unregister_netdevice:\ waiting
    | unregister_netdev.*waiting\ for | kmem_cache_destroy | \S+:\ refcount\ .*leak
    | .*:\ unexpected\ IRQ\ trap | huh,\ entered | slab\ error | Corrupted | usercopy:
    | Attempted\ to\ kill\ init | rxe-vm:\ cannot | rxe-vm:\ no\ disk
    )""", re.VERBOSE)
# What looks like a report and is none.
HARMLESS = re.compile(r"""
      watchdog:\ Delayed\ init | NMI\ watchdog:\ (?:Enabled|Perf|disabled)
    | NMI\ watchdog:\ Perf\ NMI\ watchdog\ permanently
    """, re.VERBOSE)
STAMP = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\](?:\[\s*[TC]\d+\])?\s?")
FOLLOWS = 40


@dataclasses.dataclass
class Report:
    """One report: its first line, its number in the log, and the lines that belong to it."""

    number: int
    line: str
    lines: list

    def text(self):
        """The lines of the report, for people."""
        return "\n".join(self.lines)


def find(text, allow=None, before=0):
    """Return the reports in a log, without those whose first line matches the expression allow.

    before: lines of the log that come before the text.
    """
    lines = text.replace("\r", "").split("\n")
    reports = []
    skip = 0
    for number, line in enumerate(lines):
        message = STAMP.sub("", line, count=1)
        if number < skip or not REPORTS.match(message) or HARMLESS.match(message):
            continue
        if allow and re.search(allow, line):
            continue
        last = min(number + FOLLOWS, len(lines))
        for at in range(number + 1, last):
            if "---[ end" in lines[at] or (lines[at].strip().endswith("=" * 20) and at > number + 3):
                last = at + 1
                break
        skip = last
        reports.append(Report(before + number + 1, line, lines[number:last]))
    return reports
