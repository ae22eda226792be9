# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Finding the tests, once for each kernel that they run on, and choosing among them."""

import importlib.util
import re
import sys
import unittest

from . import SELFTESTS
from .case import VmTestCase, variants
from .pool import Shape

# In the order in which they run; those before "kernel" need no hosts that the runner boots.
KINDS = ("unit", "fuzz", "sim", "vm", "kernel", "verbs", "net", "wire", "rdma_core", "interop", "apps", "debug")


class NoSuch(Exception):
    """The user chose something that is not there."""


def _load(path, kind):
    """Import a test file; modules of the same name in other folders do not disturb it."""
    name = f"selftests_{kind}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _classes(kind):
    """Yield the test classes of a kind, in the order of their files."""
    seen = {}
    for path in sorted((SELFTESTS / kind).glob("test_*.py")):
        module = _load(path, kind)
        for value in vars(module).values():
            if (isinstance(value, type) and issubclass(value, unittest.TestCase)
                    and value.__module__ == module.__name__
                    and unittest.defaultTestLoader.getTestCaseNames(value)):
                if value.__name__ in seen:
                    raise NoSuch(f"two classes {kind}.{value.__name__}: in {seen[value.__name__]} and {path}")
                seen[value.__name__] = path
                yield value


def _variant(cls, kind, label, hosts):
    """Return a subclass that runs on one kernel."""
    level = "debug" if label == "debug" else kind
    suffix = f"[{label}]" if label else ""
    made = type(cls.__name__, (cls,), {
        "__module__": cls.__module__, "__doc__": cls.__doc__, "variant": label, "host_releases": hosts,
        "kind": kind, "level": level, "title": f"{kind}.{cls.__name__}{suffix}"})
    return made


def find(kinds, with_debug=False):
    """Return the test classes of these kinds, one for each kernel, in no order.

    Of the kind "debug" are also those of every kind that are for the debug kernel besides.
    with_debug: run the chosen kinds on the debug kernel too.
    """
    found = []
    for kind in KINDS:
        usual = kind in kinds
        debug = "debug" in kinds or usual and with_debug
        if not usual and not debug:
            continue
        for cls in _classes(kind):
            if not issubclass(cls, VmTestCase):
                if usual:
                    found.append(_variant(cls, kind, "", ()))
                continue
            for label, hosts in variants(cls, debug):
                if usual or label == "debug":
                    found.append(_variant(cls, kind, label, hosts))
    return found


def _matcher(patterns):
    """Return a function that says whether a name has one of the patterns in it; * is any text."""
    expressions = [re.compile(".*".join(map(re.escape, p.split("*")))) for p in patterns]
    return lambda name: not expressions or any(e.search(name) for e in expressions)


def choose(classes, releases, patterns):
    """Return [(class, [test instances])] of what the user chose, in the order of running."""
    matches = _matcher(patterns)
    chosen = []
    for cls in classes:
        if releases and cls.host_releases and not set(cls.host_releases) <= set(releases):
            continue
        tests = []
        for method in unittest.defaultTestLoader.getTestCaseNames(cls):
            suffix = f"[{cls.variant}]" if cls.variant else ""
            name = f"{cls.kind}.{cls.__name__}.{method}{suffix}"
            if matches(name):
                test = cls(method)
                test.name = name
                tests.append(test)
        if tests:
            chosen.append((cls, tests))
    return sorted(chosen, key=lambda pair: _order(pair[0]))


def _order(cls):
    """Sort key: without hosts first; then kernel by kernel, hosts of a shape together, most first."""
    if not cls.host_releases:
        return (0, KINDS.index(cls.kind))
    debug = "debug" in cls.host_releases
    mixed = len(set(cls.host_releases)) > 1
    shape = Shape.of(cls)
    usual = Shape.of(_variant(VmTestCase, "", "", ()))
    odd = shape.serves(usual) and 0 or 1
    return (1, debug, mixed, cls.host_releases[0], odd, str(shape.__dict__ if odd else ""),
            -len(shape.releases), KINDS.index(cls.kind))
