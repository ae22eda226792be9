# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""perftest's programs on two virtual hosts, and the figures that they print.

``end`` says where one side runs and by which device: a host, perhaps a network namespace in it,
the device, the GID's index and the address of that side.
"""

import dataclasses
import ipaddress
import re
import shlex
import time

from rxe_vm import Failed, TimedOut

PORT = 18515


@dataclasses.dataclass
class End:
    """One side of a test."""

    host: object
    gid: int
    address: str
    device: str = "rxe0"
    netns: str = ""

    def words(self, program, options):
        """Return the command line of one side, without the server's address."""
        enter = ["ip", "netns", "exec", self.netns] if self.netns else []
        return [*enter, program, "-d", self.device, "-x", str(self.gid), "-F", *map(str, options)]


def gid_text(address):
    """Return the GID of an IP address as sysfs writes it: eight groups of four digits."""
    ip = ipaddress.ip_address(address)
    raw = ip.packed if ip.version == 6 else bytes(10) + b"\xff\xff" + ip.packed
    return raw.hex(":", 2)


def gid_index(host, address, device="rxe0", timeout=20, netns=""):
    """Return the index of the RoCEv2 GID of an address, once it is there, as a namespace sees it."""
    script = (
        f"cd /sys/class/infiniband/{device}/ports/1 && for g in gids/*; do "
        f"i=${{g#*/}}; read -r gid <$g && [ $gid = {gid_text(address)} ] && "
        "read -r type 2>/dev/null <gid_attrs/types/$i && [ \"$type\" = 'RoCE v2' ] && "
        "echo $i && exit; done; exit 1")
    if netns:
        script = f"ip netns exec {netns} sh -c {shlex.quote(script)}"
    found = host.wait_for(script, timeout=timeout * host.release.slow)
    return int(found.stdout)


# Columns of a line of figures, by the unit that the heading names.
BANDWIDTH = ("size", "iterations", "peak", "average", "rate")
LATENCY = ("size", "iterations", "min", "max", "typical", "average", "stdev", "p99", "p999")


def figures(output):
    """Return the lines of figures of a program's output, as dicts.

    Bandwidth: peak and average in MiB/s, rate in million messages per second. Latency: microseconds.
    """
    columns = LATENCY if "t_typical" in output else BANDWIDTH
    lines = []
    for line in output.splitlines():
        words = line.split()
        if len(words) == len(columns) and all(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|-?(inf|nan)", w) for w in words):
            lines.append(dict(zip(columns, map(float, words))))
    return lines


def run(program, server, client, options=(), *, port=PORT, timeout=120):
    """Run a program on both sides; return (the client's figures, the client's Result).

    The client starts when the server listens: on TCP, or with the option -R by the connection
    manager. Raises what ``Command.wait`` raises.
    """
    options = [*options, "-p", port]
    one = server.host.spawn(server.words(program, options))
    two = None
    try:
        wait_listening(server, one, port, "-R" in options)
        two = client.host.spawn([*client.words(program, options), server.address])
        result = two.wait(timeout, check=True)
        one.wait(timeout, check=True)
    finally:
        for command in (one, two):
            if command is not None and command.running:
                command.kill()
    return figures(result.stdout), result


def wait_listening(server, command, port, by_cm=False, timeout=120):
    """Wait until the server, which runs as that command, listens; raise Failed if it ends before."""
    end = time.monotonic() + timeout
    enter = ["ip", "netns", "exec", server.netns] if server.netns else []
    ask = ["rdma", "resource", "show", "cm_id"] if by_cm else ["ss", "-Hltn"]
    while True:
        heard = server.host.run([*enter, *ask], timeout=timeout, check=True)
        if re.search(rf"LISTEN .*:{port}\b", heard.stdout):
            return
        if not command.running:
            result = command.wait(check=True)
            raise Failed(f"{result.command} ended without listening; it said: {result.stdout.strip()[-500:]}")
        if time.monotonic() > end:
            raise TimedOut(f"{server.host}: {command} does not listen on port {port} after {timeout} s",
                           command.result())
        time.sleep(0.05)
