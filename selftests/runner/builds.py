# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What has to be built before tests run: the module and test programs, each in its release's root."""

import contextlib
import functools
import os
import signal
import subprocess
import time

from rxe_vm import Failed

from . import BUILD, REPO

WORDS = 40      # lines of a build's output that are shown when it fails


class BuildFailed(Failed):
    """Something could not be built."""


def kill_group(child):
    """End a process that has a group of its own, with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def run(what, argv):
    """Run a build with its output in a log; return the seconds it took, or raise BuildFailed."""
    log = BUILD / "logs" / f"{what.replace(' ', '-').replace('/', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with open(log, "wb") as handle:
        child = subprocess.Popen([str(word) for word in argv], cwd=REPO, stdin=subprocess.DEVNULL,
                                 stdout=handle, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = child.wait()
        except BaseException:
            kill_group(child)
            raise
    if status:
        lines = log.read_text(errors="replace").splitlines()
        raise BuildFailed(f"building {what} failed (all of it in {log}):\n"
                          + "\n".join(lines[-WORDS:]))
    return time.monotonic() - start


def module(release):
    """Build the module for a release."""
    return run(f"the module for {release}", ["make", "-s", f"module-{release}"])


@functools.cache
def folder(release, name):
    """Run ``selftests/NAME/Makefile`` in a release's root; return the path of its output there.

    The outcome is remembered for this run, a failure too.
    """
    path = f"/repo/build/selftests/{release}/{name}"
    (BUILD / release / name).mkdir(parents=True, exist_ok=True)
    try:
        run(f"{name} for {release}", ["tools/rxe-vm", "-q", "chroot", release, "--", "make", "-s", "-j2",
                                      "-C", f"selftests/{name}", f"OUT={path}"])
    except BuildFailed as problem:
        return problem
    return path


def kernel_module(release, name):
    """Build the kernel module of ``selftests/NAME/Kbuild`` for a release; return its folder in the guest."""
    run(f"the kernel module of {name} for {release}", ["selftests/lib/build-module.sh", name, release])
    return f"/repo/build/ktest/{release}/{name}"


def program(release, name, file):
    """Return the path in the guest of a program that ``selftests/NAME/Makefile`` makes."""
    path = folder(release, name)
    if isinstance(path, BuildFailed):
        raise path
    return f"{path}/{file}"
