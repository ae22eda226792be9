# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Process 1 of a guest: runs commands for the host, many at a time, over a virtio-serial port.

Each command has a control group of its own, so that it can be killed with everything that it
started. One thread, one loop; nothing here may block but the wait for events.
"""

import errno
import fcntl
import glob
import json
import os
import platform
import pty
import resource
import select
import selectors
import shutil
import signal
import socket
import struct
import sys
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import frames  # noqa: E402

PORT = "rxe-vm.agent"
CGROUP = "/sys/fs/cgroup"
# Of <asm-generic/socket.h>; Python has no name for it.
SO_TIMESTAMP = 29
# Do not read more output of commands while this much waits for the host.
BACKLOG = 1 << 20


def find_port():
    """Open the serial port to the host; it may take a moment to appear."""
    for _ in range(500):
        for name in glob.glob("/sys/class/virtio-ports/*/name"):
            with open(name, encoding="ascii") as handle:
                if handle.read().strip() == PORT:
                    device = "/dev/" + os.path.basename(os.path.dirname(name))
                    return os.open(device, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        time.sleep(0.01)
    raise RuntimeError(f"no virtio port {PORT}")


class Command:
    """One running command."""

    def __init__(self, agent, number, wish):
        self.agent = agent
        self.number = number
        self.pid = None
        self.outputs = {}       # file descriptor -> frame kind
        self.stdin = None
        self.pending = bytearray()
        self.stdin_ends = False
        self.pty = bool(wish.get("pty"))
        self.group = f"{CGROUP}/command-{number}"
        self.start(wish)

    def start(self, wish):
        argv = wish["argv"]
        environment = dict(os.environ, **wish.get("env", {}))
        program = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=environment["PATH"])
        cwd = wish.get("cwd") or "/root"
        if not os.path.isdir(cwd):
            raise OSError(errno.ENOENT, f"no directory {cwd} in the guest")
        if program and "/" in argv[0]:
            program = os.path.join(cwd, program)
        if not program or not os.path.exists(program):
            raise FileNotFoundError(f"command not found in the guest: {argv[0]}")
        if not os.access(program, os.X_OK) or os.path.isdir(program):
            raise PermissionError(f"not executable in the guest: {argv[0]}")
        try:
            os.mkdir(self.group)
        except OSError:
            self.group = None

        if self.pty:
            ours, theirs = pty.openpty()
            resize(ours, wish["pty"])
            child_end = (theirs, theirs, theirs)
            self.outputs[ours] = frames.STDOUT
            self.stdin = ours
        else:
            out, child_out = os.pipe()
            err, child_err = os.pipe()
            if wish.get("stdin"):
                child_in, self.stdin = os.pipe()
            else:
                child_in = os.open("/dev/null", os.O_RDONLY)
            child_end = (child_in, child_out, child_err)
            self.outputs = {out: frames.STDOUT, err: frames.STDERR}

        self.pid = os.fork()
        if self.pid == 0:
            self.exec(child_end, cwd, program, argv, environment)
        for fd in set(child_end):
            os.close(fd)
        for fd in self.outputs:
            os.set_blocking(fd, False)
            self.agent.watch(fd, selectors.EVENT_READ, self.on_output)
        if self.stdin is not None and not self.pty:
            os.set_blocking(self.stdin, False)

    def exec(self, child_end, cwd, program, argv, environment):
        """Become the command; never returns."""
        try:
            os.setsid()
            for fd in range(3):
                os.dup2(child_end[fd], fd)
            os.closerange(3, 256)
            if self.pty:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if self.group:
                with open(f"{self.group}/cgroup.procs", "w", encoding="ascii") as handle:
                    handle.write("0")
            for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM,
                         signal.SIGCHLD, signal.SIGHUP):
                signal.signal(each, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.chdir(cwd)
            os.execve(program, argv, environment)
        except OSError as problem:
            os.write(2, f"cannot execute {program}: {problem.strerror}\n".encode())
        finally:
            os._exit(126)

    def on_output(self, fd, _events):
        """Pass on what the command wrote."""
        try:
            data = os.read(fd, frames.LARGEST)
        except BlockingIOError:
            return False
        except OSError:         # a pseudo-terminal without its other end
            data = b""
        if data:
            if self.pid is not None:
                self.agent.send(self.outputs[fd], self.number, data)
            return True
        if self.pty:
            # The command's end is closed; its exit is still to come.
            self.agent.unwatch(fd)
            return False
        self.agent.unwatch(fd)
        os.close(fd)
        del self.outputs[fd]
        return False

    def feed(self, data):
        """Take standard input from the host."""
        if self.stdin is None:
            return
        if data:
            self.pending += data
        else:
            self.stdin_ends = True
        self.flush()

    def flush(self, _fd=None, _events=None):
        """Give the command as much of its standard input as it takes."""
        taken = 0
        try:
            while self.pending:
                count = os.write(self.stdin, self.pending[:4096])
                taken += count
                del self.pending[:count]
        except BlockingIOError:
            pass
        except OSError:
            taken += len(self.pending)
            self.pending.clear()
        if taken:
            self.agent.send(frames.TAKEN, self.number, {"bytes": taken})
        if self.pty:
            if self.pending:
                self.agent.watch(self.stdin, selectors.EVENT_READ | selectors.EVENT_WRITE,
                                 self.on_terminal)
            else:
                self.agent.watch(self.stdin, selectors.EVENT_READ, self.on_output)
                if self.stdin_ends:
                    self.stdin_ends = False
                    os.write(self.stdin, b"\x04")
            return
        if self.pending:
            self.agent.watch(self.stdin, selectors.EVENT_WRITE, self.flush)
        else:
            self.agent.unwatch(self.stdin)
            if self.stdin_ends:
                os.close(self.stdin)
                self.stdin = None

    def on_terminal(self, fd, events):
        """The terminal has output, or takes more input."""
        if events & selectors.EVENT_READ:
            self.on_output(fd, events)
        if events & selectors.EVENT_WRITE and fd in self.agent.watched:
            self.flush()

    def kill(self, number):
        """Send a signal to the command's process group; 0: kill all that it started."""
        if number == 0 and self.group:
            try:
                with open(f"{self.group}/cgroup.kill", "w", encoding="ascii") as handle:
                    handle.write("1")
                return
            except OSError:
                pass
        if self.pid is not None:
            try:
                os.killpg(self.pid, number or signal.SIGKILL)
            except ProcessLookupError:
                pass

    def ended(self, status):
        """The process ended: pass on the rest of its output, then its status."""
        for fd in list(self.outputs):
            for _ in range(64):
                if fd not in self.outputs or not self.on_output(fd, 0):
                    break
        self.pid = None
        code = os.waitstatus_to_exitcode(status)
        self.agent.send(frames.EXIT, self.number, {"status": 128 - code if code < 0 else code})
        if self.pty:
            for fd in list(self.outputs):
                self.agent.unwatch(fd)
                os.close(fd)
            self.outputs.clear()
            self.stdin = None
        elif self.stdin is not None:
            self.agent.unwatch(self.stdin)
            os.close(self.stdin)
            self.stdin = None
        # Pipes that a daemon left by the command still holds are read and ignored.
        if self.group:
            try:
                os.rmdir(self.group)
            except OSError:
                pass


def resize(fd, size):
    """Set the size of a terminal."""
    if isinstance(size, dict):
        fcntl.ioctl(fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", size.get("rows", 24), size.get("columns", 80), 0, 0))


class Agent:
    """The loop between the host and the commands."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.watched = {}
        self.commands = {}
        self.by_pid = {}
        self.port = find_port()
        self.stamps = keep_timestamps()
        self.splitter = frames.Splitter()
        self.backlog = bytearray()
        self.wake, wake_end = os.pipe()
        for fd in (self.wake, wake_end):
            os.set_blocking(fd, False)
            os.set_inheritable(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        self.watch(self.port, selectors.EVENT_READ, self.on_port)
        self.watch(self.wake, selectors.EVENT_READ, self.on_child)

    def watch(self, fd, events, call):
        """Call call(fd, events) when something happens on a file descriptor."""
        if fd in self.watched:
            if self.watched[fd] != (events, call):
                self.selector.modify(fd, events, call)
        else:
            self.selector.register(fd, events, call)
        self.watched[fd] = (events, call)

    def unwatch(self, fd):
        """Undo watch()."""
        if self.watched.pop(fd, None):
            self.selector.unregister(fd)

    def send(self, kind, number=0, payload=b""):
        """Queue a frame for the host and send what can be sent."""
        self.backlog += frames.pack(kind, number, payload)
        self.flush()

    def flush(self):
        """Write to the host without blocking."""
        try:
            while self.backlog:
                count = os.write(self.port, self.backlog[:1 << 15])
                del self.backlog[:count]
        except BlockingIOError:
            pass
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.backlog else 0)
        self.watch(self.port, events, self.on_port)

    def on_port(self, _fd, events):
        """The host sent something, or can take more."""
        if events & selectors.EVENT_WRITE:
            self.flush()
        if not events & selectors.EVENT_READ:
            return
        try:
            data = os.read(self.port, 1 << 16)
        except BlockingIOError:
            return
        for kind, number, payload in self.splitter.feed(data):
            self.on_frame(kind, number, payload)

    def on_frame(self, kind, number, payload):
        """Do what the host asks for."""
        if kind == frames.START:
            try:
                command = Command(self, number, json.loads(payload))
            except OSError as problem:
                status = 126 if isinstance(problem, PermissionError) else 127
                self.send(frames.EXIT, number, {
                    "status": status, "error": problem.strerror or str(problem)})
                return
            self.commands[number] = command
            self.by_pid[command.pid] = command
        elif kind == frames.PING:
            self.send(frames.PONG, number)
        elif number in self.commands:
            command = self.commands[number]
            if kind == frames.STDIN:
                command.feed(payload)
            elif kind == frames.KILL:
                command.kill(json.loads(payload)["signal"])
            elif kind == frames.RESIZE and command.pty and command.stdin is not None:
                resize(command.stdin, json.loads(payload))

    def on_child(self, _fd, _events):
        """Reap whatever ended; orphans come here too."""
        try:
            while os.read(self.wake, 4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            command = self.by_pid.pop(pid, None)
            if command:
                command.ended(status)
                del self.commands[command.number]

    def run(self):
        """Serve for ever."""
        self.send(frames.READY, 0, {"kernel": platform.release()})
        while True:
            for key, events in self.selector.select():
                if key.fd not in self.watched:
                    continue
                key.data(key.fd, events)
                # Let commands wait while the host is slow to take their output.
                while len(self.backlog) > BACKLOG:
                    select.select([], [self.port], [], 1)
                    self.flush()


def keep_timestamps():
    """Have the kernel stamp packets from now on; returns what must stay open for that.

    The first socket that wants time stamps (ping, tcpdump) has the kernel rewrite its receive path
    in place while packets go through it, the last one has it rewritten back. QEMU before 8.1 may,
    on several emulated processors, keep its translation of the breakpoint that stands there in
    between, and the guest dies of "Oops: int3".
    """
    asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asks.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMP, 1)
    return asks


def main():
    """Set up what every command inherits, and serve."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))
    os.environ.setdefault("TERM", "linux")
    with open("/usr/local/lib/rxe-vm/config", encoding="utf-8") as handle:
        for line in handle:
            key, _, value = line.strip().partition("=")
            if key in ("HOST", "RELEASE"):
                os.environ["RXE_" + key] = value
    Agent().run()


main()
