# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Telling the user what is going on, on standard error."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

quiet = False


def say(text):
    """Print one line about what the tool does."""
    if not quiet:
        print(f"rxe-vm: {text}", file=sys.stderr, flush=True)


def complain(text):
    """Print what went wrong."""
    with contextlib.suppress(OSError):
        print(f"rxe-vm: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text, detail=None):
    """Announce a step, say every 20 s that it still runs, and how long it took.

    detail: called for a word about how far it is.
    """
    start = time.monotonic()
    over = threading.Event()

    def tick():
        while not over.wait(20):
            far = f", {detail()}" if detail else ""
            say(f"  ... {text} ({time.monotonic() - start:.0f} s{far})")

    say(f"{text} ...")
    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        over.set()
        ticker.join()
    say(f"{text}: {time.monotonic() - start:.0f} s")


def run_logged(command, log, **options):
    """Run a long command with its output in a log file; return its exit status.

    It has a process group of its own, which is killed when this process is interrupted.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as handle:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=handle,
                                 stderr=subprocess.STDOUT, start_new_session=True, **options)
        try:
            return child.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            raise
