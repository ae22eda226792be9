# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""An Ethernet switch for more than two hosts: python3 -m rxe_vm.switch FD...

Each file descriptor is a stream socket to a QEMU, which puts the length of a frame before it
(4 bytes, big-endian). Addresses are learnt; a frame to an unknown or group address goes to all
others. A receiver that is slow loses frames beyond a bound, as with a real switch.
"""

import selectors
import socket
import struct
import sys

BACKLOG = 4 << 20


class Port:
    """One cable."""

    def __init__(self, fd):
        self.socket = socket.socket(fileno=fd)
        self.socket.setblocking(False)
        self.rest = bytearray()
        self.backlog = bytearray()

    def frames(self):
        """Read; yield complete frames with their length; raise EOFError at the end."""
        try:
            data = self.socket.recv(1 << 17)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            raise EOFError
        self.rest += data
        at = 0
        while len(self.rest) - at >= 4:
            size = struct.unpack_from(">I", self.rest, at)[0]
            if len(self.rest) - at - 4 < size:
                break
            yield bytes(self.rest[at:at + 4 + size])
            at += 4 + size
        del self.rest[:at]

    def send(self, frame):
        """Queue a frame, unless the queue is full."""
        if len(self.backlog) + len(frame) <= BACKLOG:
            self.backlog += frame
            self.flush()

    def flush(self):
        """Write what can be written."""
        try:
            while self.backlog:
                count = self.socket.send(self.backlog[:1 << 17])
                del self.backlog[:count]
        except OSError:
            pass


def serve(ports):
    """Forward frames until all cables are unplugged."""
    selector = selectors.DefaultSelector()
    known = {}
    for port in ports:
        selector.register(port.socket, selectors.EVENT_READ, port)
    live = set(ports)
    while live:
        for key, events in selector.select():
            port = key.data
            if port not in live:
                continue
            try:
                if events & selectors.EVENT_READ:
                    for frame in port.frames():
                        known[frame[10:16]] = port
                        to = known.get(frame[4:10])
                        for other in (to,) if to else live:
                            if other is not port and other in live:
                                other.send(frame)
                port.flush()
            except EOFError:
                live.discard(port)
                selector.unregister(port.socket)
        for port in live:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if port.backlog else 0)
            if selector.get_key(port.socket).events != wanted:
                selector.modify(port.socket, wanted, port)


if __name__ == "__main__":
    serve([Port(int(fd)) for fd in sys.argv[1:]])
