# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The user's terminal, joined to a command on a host."""

import contextlib
import os
import signal
import sys
import termios
import threading
import tty

from . import frames


def size():
    """Return the terminal's size as a guest's terminal wants it."""
    try:
        columns, rows = (n or d for n, d in zip(os.get_terminal_size(0), (80, 24)))
    except OSError:
        columns, rows = 80, 24
    return {"rows": rows, "columns": columns}


def show(kind, data):
    """Write a command's output to ours."""
    stream = sys.stdout.buffer if kind == frames.STDOUT else sys.stderr.buffer
    stream.write(data)
    stream.flush()


def feed(command):
    """Pass our standard input on to a command until either ends."""
    with contextlib.suppress(Exception):
        while True:
            data = os.read(0, 1 << 12)
            if not data:
                break
            command.write(data)
        command.close_stdin()


def feed_from_thread(command):
    """Do feed() in the background."""
    threading.Thread(target=feed, args=(command,), daemon=True).start()


@contextlib.contextmanager
def raw(command):
    """Hand the terminal to a command: every key goes there, and so does its size."""
    saved = termios.tcgetattr(0)
    old = signal.signal(signal.SIGWINCH,
                        lambda *_: command.resize(size()["rows"], size()["columns"]))
    try:
        tty.setraw(0, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, saved)
        signal.signal(signal.SIGWINCH, old)


def environment():
    """Return what a command at our terminal should know about it."""
    return {"TERM": os.environ.get("TERM", "linux")}


def shell(host, words):
    """Run a command on a host at our terminal, or with our standard input; return its status."""
    if not os.isatty(0):
        command = host.spawn(words, stdin=True)
        feed_from_thread(command)
        for kind, data in command.events():
            show(kind, data)
        return command.wait().status
    command = host.spawn(words, pty=size(), env=environment())
    with raw(command):
        feed_from_thread(command)
        for kind, data in command.events():
            show(kind, data)
    return command.wait().status
