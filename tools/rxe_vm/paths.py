# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Where things are: the repository, the cache, the running clusters; and room on the disk."""

import contextlib
import fcntl
import os
import pathlib
import shutil

from .errors import UsageError

PACKAGE = pathlib.Path(__file__).resolve().parent
REPO = PACKAGE.parent.parent
GUEST = PACKAGE / "guest"
KERNEL = PACKAGE.parent / "kernel"
BUILD = REPO / "build"


def cache():
    """The folder of what is expensive to make; survives ``make clean``."""
    return pathlib.Path(os.environ.get("RXE_VM_CACHE") or BUILD / "cache").absolute()


def clusters():
    """The folder of the running clusters (logs, sockets)."""
    return BUILD / "vm"


def need_room(folder, gigabytes, what):
    """Raise UsageError unless the disk of a folder has that much room."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free / 2**30
    if free < gigabytes:
        raise UsageError(
            f"no disk room for {what}: {folder} has {free:.1f} GiB free, {gigabytes} GiB are needed; "
            "make room or set RXE_VM_CACHE to a folder on another disk")


@contextlib.contextmanager
def locked(name, waiting=None):
    """Hold a lock of that name in the cache; call waiting() if somebody else has it."""
    folder = cache() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / name, "w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
