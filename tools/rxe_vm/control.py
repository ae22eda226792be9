# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Clusters that stay: a background process owns one and serves a Unix socket.

A client sends one request as a START frame; the answer is the command's output and at last an
EXIT frame. Who wants to know whether a cluster is up tries its lock.
"""

import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading

from . import frames, paths, terminal
from .errors import Error, Failed, TimedOut, UsageError
from .progress import complain


def _lock_path(name):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name.startswith("run-"):
        raise UsageError(f"'{name}' cannot be a cluster's name: letters, digits, '_', '.', '-'")
    return paths.clusters() / f".{name}.lock"


def _take_lock(name):
    """Return the lock's open file, or None if the cluster is up."""
    path = _lock_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open(path, "w", encoding="ascii")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return handle
    except BlockingIOError:
        handle.close()
        return None


# The client's side.

def _facts(name):
    """Return what a running cluster wrote about itself, or raise UsageError."""
    lock = _take_lock(name)
    if lock:
        lock.close()
        _lock_path(name).unlink(missing_ok=True)
        names = [line.split()[0] for line in running()]
        there = f"there are {', '.join(names)}" if names else f"start it: rxe-vm up {name}"
        raise UsageError(f"no cluster '{name}' is up: {there}")
    try:
        return json.loads((paths.clusters() / name / "cluster.json").read_text())
    except (OSError, ValueError):
        raise UsageError(f"cluster '{name}' is still booting") from None


def running():
    """Return a line for each cluster that is up."""
    lines = []
    for path in sorted(paths.clusters().glob(".*.lock")):
        name = path.name[1:-len(".lock")]
        lock = _take_lock(name)
        if lock:
            lock.close()
            continue
        with contextlib.suppress(OSError, ValueError):
            facts = json.loads((paths.clusters() / name / "cluster.json").read_text())
            lines.append(f"{name:12} {', '.join(facts['hosts'])}")
    return lines


class Client:
    """A connection to a running cluster; looks like a Command to the terminal."""

    def __init__(self, name):
        facts = _facts(name)
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(facts["socket"])
        except OSError:
            raise Failed(f"cluster '{name}' does not answer; its log: "
                         f"{paths.clusters() / name / 'daemon.log'}") from None
        self.lock = threading.Lock()
        self.status = None

    def send(self, kind, payload=b""):
        with self.lock:
            self.socket.sendall(frames.pack(kind, 0, payload))

    def write(self, data):
        self.send(frames.STDIN, data)

    def close_stdin(self):
        self.send(frames.STDIN)

    def resize(self, rows, columns):
        self.send(frames.RESIZE, {"rows": rows, "columns": columns})

    def events(self):
        """Yield (kind, bytes) of output; set status at the end."""
        splitter = frames.Splitter()
        while self.status is None:
            data = self.socket.recv(1 << 16)
            if not data:
                raise Failed("the cluster went down")
            for kind, _, payload in splitter.feed(data):
                if kind == frames.EXIT:
                    word = json.loads(payload)
                    if word.get("error"):
                        complain(word["error"])
                    self.status = word["status"]
                else:
                    yield kind, payload


def execute(name, request):
    """Send a request to a running cluster, show the output, return the exit status."""
    client = Client(name)
    at_terminal = request.get("pty") and os.isatty(0)
    if request.get("pty"):
        request["pty"] = terminal.size()
        request["env"] = terminal.environment()
        request["stdin"] = True
    client.send(frames.START, request)
    with terminal.raw(client) if at_terminal else contextlib.nullcontext():
        if request.get("stdin"):
            terminal.feed_from_thread(client)
        for kind, data in client.events():
            terminal.show(kind, data)
    return client.status


def down(name):
    """End a cluster, and return when it is gone; the status is not 0 if a kernel reported something."""
    _facts(name)
    with open(_lock_path(name), "a", encoding="ascii") as lock:
        status = execute(name, {"verb": "down"})
        fcntl.flock(lock, fcntl.LOCK_EX)    # the cluster's process lets go of it last
    return status


# The server's side.

def up(name, cluster):
    """Boot a cluster in a background process; return when it is up."""
    lock = _take_lock(name)
    if not lock:
        raise UsageError(f"cluster '{name}' is up already: rxe-vm down {name}")
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os._exit(_serve(name, cluster, theirs, lock))
    os.close(theirs)
    lock.close()
    try:
        with open(ours, "rb") as pipe:
            word = pipe.read()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    if word == b"up":
        return 0
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) or 125


def _serve(name, cluster, pipe, lock):
    """The background process: boot, tell the parent, serve until 'down' or a signal."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rxe-vm."))
    try:
        cluster.start()
        server = Server(cluster, folder / "control")
        facts = {"pid": os.getpid(), "socket": str(folder / "control"),
                 "hosts": [f"host {h.number}: {h.release.name}" for h in cluster]}
        temporary = cluster.folder / "cluster.json.new"
        temporary.write_text(json.dumps(facts) + "\n")
        temporary.replace(cluster.folder / "cluster.json")
        _detach(cluster.folder / "daemon.log")
        os.write(pipe, b"up")
        os.close(pipe)
        server.serve()
    except Error as problem:
        complain(problem)
        status = problem.status
    except BaseException as problem:        # a signal; or a mistake of ours, told all the same
        complain(f"cluster '{name}' ends: {problem!r}")
        status = 125
    finally:
        cluster.stop()
        if cluster.folder:
            (cluster.folder / "cluster.json").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        _lock_path(name).unlink(missing_ok=True)
        lock.close()
    return status


def _detach(log):
    """Let go of the terminal and of the caller's pipes."""
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)


class Server:
    """Serves the requests of clients, each in a thread; the main thread waits for them."""

    def __init__(self, cluster, path):
        self.cluster = cluster
        self.reported = False
        self.jobs = {}
        self.job_numbers = itertools.count(1)
        self.over = threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)

    def serve(self):
        """Serve until a client sent 'down'."""
        self.listener.settimeout(0.2)
        while not self.over.is_set():
            try:
                client, _ = self.listener.accept()
            except TimeoutError:
                continue
            threading.Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client):
        """Thread: serve one client."""
        client.settimeout(None)
        incoming = self.incoming(client)
        over = False
        try:
            kind, payload = next(incoming)
            request = json.loads(payload)
            call = getattr(self, "do_" + request["verb"])
            over = request["verb"] == "down"
            try:
                status, error = call(request, client, incoming)
            except Error as problem:
                status, error = problem.status, str(problem)
            client.sendall(frames.pack(frames.EXIT, 0, {"status": status, "error": error}))
        except (OSError, StopIteration):
            pass                            # the client went away
        finally:
            client.close()
            if over:
                self.over.set()

    @staticmethod
    def incoming(client):
        """Yield (kind, payload) of what a client sends, until it goes."""
        splitter = frames.Splitter()
        while True:
            try:
                data = client.recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            for kind, _, payload in splitter.feed(data):
                yield kind, payload

    def do_exec(self, request, client, incoming):
        """Run a command: in the foreground for the client, or as a job."""
        host = self.cluster.host(request["host"])
        command = host.spawn(request["argv"], stdin=request["stdin"], pty=request.get("pty") or None,
                             env=request.get("env"))
        if request["background"]:
            number = next(self.job_numbers)
            self.jobs[number] = command
            if request["timeout"]:
                timer = threading.Timer(request["timeout"], self.expire, (command,))
                timer.daemon = True
                timer.start()
            client.sendall(frames.pack(frames.STDOUT, 0, f"{number}\n".encode()))
            return 0, ""
        threading.Thread(target=self.listen, args=(incoming, command), daemon=True).start()
        return self.follow(command, request["timeout"], client)

    @staticmethod
    def expire(command):
        """Timer: a job ran out of time."""
        if command.running:
            command.expired = True
            command.kill()

    @staticmethod
    def listen(incoming, command):
        """Thread: pass a client's input on to its command; without a client, kill it."""
        with contextlib.suppress(Failed):
            for kind, payload in incoming:
                if kind == frames.STDIN and payload:
                    command.write(payload)
                elif kind == frames.STDIN:
                    command.close_stdin()
                elif kind == frames.RESIZE:
                    size = json.loads(payload)
                    command.resize(size["rows"], size["columns"])
            command.kill()

    @staticmethod
    def follow(command, timeout, client):
        """Send a command's output to a client; return its status and what went wrong."""
        for kind, data in command.events(timeout):
            client.sendall(frames.pack(kind, 0, data))
        result = command.wait()
        if getattr(command, "expired", False):
            return TimedOut.status, f"{command}: it did not end in time and was killed"
        return result.status, result.error

    def job(self, number):
        """Return the command of a job."""
        if number not in self.jobs:
            raise UsageError(f"no job {number}: there are {sorted(self.jobs) or 'none'}")
        return self.jobs[number]

    def do_wait(self, request, client, incoming):
        """Wait for a job."""
        command = self.job(request["job"])
        timeout = request["timeout"]
        if timeout is not None:             # counts from now, a command's from its start
            timeout += command.age()
        status = self.follow(command, timeout, client)
        del self.jobs[request["job"]]
        return status

    def do_kill(self, request, client, incoming):
        """End a job."""
        self.job(request["job"]).kill()
        return 0, ""

    def do_check(self, request, client, incoming):
        """Check the logs."""
        if request["leaks"]:
            for host in self.cluster:
                host.scan_leaks()
        for host in self.cluster:
            host.check_alive()
        try:
            self.cluster.check_logs()
        except Failed:
            self.reported = True
            raise
        return 0, ""

    def do_down(self, request, client, incoming):
        """Check the logs and end the hosts."""
        self.cluster.finish()
        if self.reported:
            return Failed.status, f"a kernel reported something before; logs: {self.cluster.folder}"
        return 0, ""
