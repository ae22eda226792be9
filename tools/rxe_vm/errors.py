# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What can go wrong, by whose fault it is.

Each carries one line for the user; ``cli`` prints it and exits with ``status``.
"""


class Error(Exception):
    """Anything that ends a run with one clear line."""

    status = 125


class UsageError(Error):
    """The user asked for something that cannot be had, or a tool or room is missing."""

    status = 2


class Failed(Error):
    """A host did not boot, died, hung, or its kernel reported something."""

    status = 125


class CommandFailed(Failed):
    """A command run with ``check=True`` exited with another status than 0."""

    def __init__(self, message, result=None):
        super().__init__(message)
        self.result = result


class TimedOut(Failed):
    """A command in a guest did not end within its time limit; it was killed."""

    status = 124

    def __init__(self, message, result=None):
        super().__init__(message)
        self.result = result
