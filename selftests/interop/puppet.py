# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Ends of connections, or of datagrams, in a guest that do what a test tells them (``rc_puppet.c``)."""

from rxe_vm import Failed

SUCCESS, LOC_LEN, LOC_QP_OP, LOC_PROT, FLUSH = 0, 1, 2, 4, 5
REM_INV_REQ, REM_ACCESS, REM_OP, RETRY_EXC, RNR_RETRY_EXC = 9, 10, 11, 12, 13

# Asynchronous events (enum ibv_event_type).
EVENTS = ("CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG",
          "PATH_MIG_ERR", "DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE",
          "SM_CHANGE", "SRQ_ERR", "SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER",
          "GID_CHANGE", "WQ_FATAL")


class Refused(Failed):
    """A verb said no. ``errno`` says why."""

    def __init__(self, message, errno):
        super().__init__(message)
        self.errno = errno


class Puppet:
    """A process with up to 64 ends, numbered by ``q``.

    The numbers of what an end told about itself are in ``ends[q]``: qpn, psn, mtu, rkey, va, size,
    gid and cqe.
    """

    def __init__(self, test, host, netns=None):
        self.host = host
        self.ends = {}
        enter = ["ip", "netns", "exec", netns] if netns else []
        self.command = host.spawn([*enter, test.program(host, "interop", "rc_puppet")], stdin=True)
        self._answers = 0

    def tell(self, verb, **arguments):
        """Send a command without waiting for its answer."""
        words = [verb] + [f"{name}={value}" for name, value in arguments.items()]
        self.command.write((" ".join(words) + "\n").encode())

    def answer(self, timeout=130):
        """Wait for the answer to the oldest unanswered command; return it as a dict."""
        timeout *= self.host.release.slow
        line = self.command.wait_output(rf"\A(?:.*\n){{{self._answers}}}(.*)\n", timeout)[1]
        self._answers += 1
        kind, _, rest = line.partition(" ")
        if kind != "ok":
            number, _, text = rest.partition(" ")
            raise Refused(f"{self.host}: {text}", int(number))
        pairs = (word.split("=", 1) for word in rest.split())
        return {name: int(value) if value.lstrip("-").isdigit() and name != "hex" else value
                for name, value in pairs}

    def do(self, verb, **arguments):
        """Send a command and return its answer, or raise Refused."""
        self.tell(verb, **arguments)
        return self.answer()

    def open(self, q=0, **arguments):
        """Open a device (dev=, gid=) and make a QP (type= rc, uc or ud) with its memory; return what it is."""
        self.ends[q] = self.do("open", q=q, **arguments)
        return self.ends[q]

    def connect(self, peer, q=0):
        """Connect an end to a peer: a dict with qpn, psn, gid and perhaps mtu, rkey, va.

        An end of datagrams may be connected to another peer, also to a group, later.
        """
        wanted = {name: peer[name] for name in ("qpn", "psn", "gid", "mtu", "rkey", "va") if name in peer}
        self.do("connect", q=q, **wanted)

    def state(self, q=0):
        """Return the name of the QP's state."""
        return self.do("state", q=q)["state"]

    def events(self, q=0):
        """Return the names of the asynchronous events that are there."""
        found = []
        while True:
            word = self.do("event", q=q)
            if "none" in word:
                return found
            found.append(EVENTS[word["event"]])

    def quit(self):
        """Let it end by itself; return its Result."""
        self.command.close_stdin()
        return self.command.wait(60 * self.host.release.slow)


def pair(test, first, second, q=0, **arguments):
    """Open an end on rxe0 of each of two puppets with the same arguments and connect them."""
    arguments.setdefault("size", 65536)
    one = first.open(q=q, dev="rxe0", gid=test.gid(first.host), **arguments)
    other = second.open(q=q, dev="rxe0", gid=test.gid(second.host), **arguments)
    first.connect(other, q=q)
    second.connect(one, q=q)


def exchange(test, one, other, q=0, length=3001):
    """Let both ends WRITE, READ and SEND; fail the test unless the bytes come, and no other."""
    for first, second in (one, other), (other, one):
        def complete(end, count=1):
            test.assertEqual(end.do("drain", q=q, n=count), {"got": count, "status": 0})

        def holds(end, byte, off):
            inside = end.do("same", q=q, byte=byte, off=off, len=length)
            test.assertEqual(inside["same"], 1, f"{end.host}: byte {inside['at']}")
            test.assertEqual(end.do("same", q=q, byte=0, off=off + length, len=1)["same"], 1)
        for end in first, second:
            end.do("set", q=q, byte=0, off=0, len=16384)
        first.do("set", q=q, byte=0x5a, off=1, len=length)
        first.do("post", q=q, op="write", off=1, roff=2, len=length)
        complete(first)
        holds(second, 0x5a, 2)
        second.do("set", q=q, byte=0xa7, off=4097, len=length)
        first.do("post", q=q, op="read", off=8195, roff=4097, len=length)
        complete(first)
        holds(first, 0xa7, 8195)
        second.do("recv", q=q, off=8197, len=length)
        first.do("post", q=q, op="send", off=1, len=length)
        complete(first)
        complete(second)
        holds(second, 0x5a, 8197)


def get_a_word_in(test, one, other):
    """While the other end pumps READs without end, one WRITEs and READs; then the pump ends, in order."""
    for op in "write", "read":
        one.do("post", op=op, len=64, n=10)
        test.assertEqual(one.do("drain", n=10, ms=60000), {"got": 10, "status": 0})
    other.tell("state")
    test.assertEqual(other.answer()["status"], 0)
    test.assertEqual(other.answer()["state"], "RTS")
