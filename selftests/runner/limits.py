# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Time limits: of one test, and of the whole run. An alarm interrupts whatever the main thread does."""

import contextlib
import signal
import time


class TimeLimit(BaseException):
    """The time of a test is over. Not an Exception, so that no test catches it by accident."""


class Clock:
    """The alarm. One test at a time is under it."""

    def __init__(self):
        self.run_end = None
        self.last_start = None
        self._seconds = None
        signal.signal(signal.SIGALRM, self._ring)

    def limit_run(self, seconds):
        """Let the whole run end after so many seconds."""
        self.run_end = time.monotonic() + seconds if seconds else None

    def limit_starts(self, seconds):
        """Let no test start after so many seconds."""
        self.last_start = time.monotonic() + seconds if seconds is not None else None

    def may_start(self):
        """Whether a test may start now."""
        return self.last_start is None or time.monotonic() < self.last_start

    def run_is_over(self):
        """Whether the time of the whole run is over."""
        return self.run_end is not None and time.monotonic() >= self.run_end

    @contextlib.contextmanager
    def within(self, seconds):
        """Raise TimeLimit in the block when it takes longer than that, or than the run has left."""
        outer = self._seconds
        self._seconds = seconds
        self.again()
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._seconds = outer
            if outer is not None:
                self.again()

    def again(self):
        """Start the present limit anew: a part of the test is done and the next one begins."""
        if self._seconds is None:
            return
        left = self._seconds
        if self.run_end is not None:
            left = min(left, max(0.001, self.run_end - time.monotonic()))
        signal.setitimer(signal.ITIMER_REAL, left)

    def _ring(self, _number, _frame):
        if self.run_is_over():
            raise TimeLimit("the time of the whole run is over")
        raise TimeLimit(f"no end after {self._seconds:g} s")


clock = Clock()
