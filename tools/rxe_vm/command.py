# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A command in a guest, seen from the host."""

import collections
import dataclasses
import re
import shlex
import threading
import time

from . import frames
from .errors import CommandFailed, Failed, TimedOut

# So much standard input may be on its way to a command that has not taken it.
WINDOW = 1 << 18


@dataclasses.dataclass
class Result:
    """How a command ended.

    status: as a shell has it: 128 + N when killed by signal N, 127 when not found.
    error: why it was not started at all, else empty.
    """

    command: str
    status: int
    out: bytes
    err: bytes
    seconds: float
    error: str = ""

    @property
    def stdout(self):
        """Standard output as text."""
        return self.out.decode(errors="replace")

    @property
    def stderr(self):
        """Standard error as text."""
        return self.err.decode(errors="replace")

    @property
    def ok(self):
        """Whether it exited with 0."""
        return self.status == 0


class Command:
    """A command that runs, or ran. Made by ``Host.spawn``."""

    def __init__(self, host, number, words):
        self.host = host
        self.number = number
        self.words = words
        self.start = time.monotonic()
        self.seconds = None
        self.status = None
        self.error = ""
        self.changed = threading.Condition()
        self._events = collections.deque()
        self._out = {frames.STDOUT: bytearray(), frames.STDERR: bytearray()}
        self._sent = self._taken = 0
        self._dead = None

    def __str__(self):
        return shlex.join(self.words)

    # What the channel's thread calls.

    def on_frame(self, kind, payload):
        """Take a frame from the guest."""
        with self.changed:
            if kind in self._out:
                self._out[kind] += payload
                self._events.append((kind, payload))
            elif kind == frames.TAKEN:
                self._taken += frames.json.loads(payload)["bytes"]
            elif kind == frames.EXIT:
                word = frames.json.loads(payload)
                self.error = word.get("error", "")
                self.seconds = time.monotonic() - self.start
                self.status = word["status"]
            self.changed.notify_all()

    def on_death(self, why):
        """The host died."""
        with self.changed:
            self._dead = why
            self.changed.notify_all()

    # What users call.

    @property
    def running(self):
        """Whether it still runs."""
        return self.status is None and self._dead is None

    @property
    def output(self):
        """Standard output so far, as text."""
        with self.changed:
            return self._out[frames.STDOUT].decode(errors="replace")

    def age(self):
        """Return the seconds since its start."""
        return time.monotonic() - self.start

    def write(self, data):
        """Give it standard input (of a command started with stdin=True or a terminal)."""
        for at in range(0, len(data), 4096):
            part = data[at:at + 4096]
            with self.changed:
                self.changed.wait_for(
                    lambda: self._sent - self._taken < WINDOW or not self.running)
                if not self.running:
                    return
                self._sent += len(part)
            self.host.send(frames.STDIN, self.number, part)

    def close_stdin(self):
        """End its standard input."""
        if self.running:
            self.host.send(frames.STDIN, self.number)

    def resize(self, rows, columns):
        """Tell it the size of its terminal."""
        if self.running:
            self.host.send(frames.RESIZE, self.number, {"rows": rows, "columns": columns})

    def kill(self, number=0):
        """Send a signal to its process group; without one: end it with all that it started."""
        if self.running:
            self.host.send(frames.KILL, self.number, {"signal": number})

    def events(self, timeout=None):
        """Yield (frames.STDOUT or STDERR, bytes) as it arrives, until the end.

        Raises TimedOut when the command runs for longer than timeout seconds; it is killed.
        """
        end = None if timeout is None else self.start + timeout
        while True:
            with self.changed:
                left = None if end is None else end - time.monotonic()
                self.changed.wait_for(lambda: self._events or not self.running, left)
                if self._events:
                    event = self._events.popleft()
                elif not self.running:
                    self._check_alive()
                    return
                else:
                    event = None
            if event:
                yield event
            if end is not None and time.monotonic() > end and self.running:
                self._time_out(timeout)

    def wait(self, timeout=None, check=False):
        """Wait for its end and return a Result.

        timeout: seconds from its start; past it the command is killed and TimedOut raised.
        check: raise CommandFailed unless it exits with 0.
        """
        end = None if timeout is None else self.start + timeout
        with self.changed:
            left = None if end is None else max(0, end - time.monotonic())
            self.changed.wait_for(lambda: not self.running, left)
        if self.running:
            self._time_out(timeout)
        self._check_alive()
        result = self.result()
        if check and result.status:
            raise CommandFailed(self._complaint(result), result)
        return result

    def wait_output(self, pattern, timeout=30):
        """Wait until its standard output matches a regular expression; return the match.

        Raises Failed if it ends without, TimedOut (and kills it) if that takes too long.
        """
        expression = re.compile(pattern, re.MULTILINE)
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                match = expression.search(self._out[frames.STDOUT].decode(errors="replace"))
                if match:
                    return match
                if not self.running:
                    break
                if not self.changed.wait(max(0, end - time.monotonic())):
                    break
        self._check_alive()
        if self.running:
            self._time_out(timeout, f"its output did not match {pattern!r}")
        raise Failed(f"{self} ended with status {self.status} and did not say {pattern!r}; "
                     f"it said: {self.output.strip()[-500:]!r}")

    def result(self):
        """Return what there is so far as a Result."""
        return Result(str(self), -1 if self.status is None else self.status,
                      bytes(self._out[frames.STDOUT]), bytes(self._out[frames.STDERR]),
                      self.seconds or time.monotonic() - self.start, self.error)

    def _check_alive(self):
        if self.status is None and self._dead:
            raise Failed(f"{self._dead}, while it ran: {self}")

    def _time_out(self, timeout, why="it did not end"):
        self.kill()
        with self.changed:
            gone = self.changed.wait_for(lambda: not self.running, 10)
        stuck = "" if gone else "; it cannot be killed"
        raise TimedOut(f"host {self.host.number}: {self}: {why} within {timeout:g} s{stuck}",
                       self.result())

    def _complaint(self, result):
        if result.error:
            return f"host {self.host.number}: {result.error}"
        said = (result.stderr.strip() or result.stdout.strip())[-2000:]
        return (f"host {self.host.number}: {result.command}: exit status {result.status}"
                + (f"\n{said}" if said else ""))
