# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Frames on a byte stream: how the host speaks with the agent in a guest.

A frame is a kind, the number of the command that it belongs to, and a payload. The guest gets
a copy of this file, so it uses nothing but the standard library.
"""

import json
import struct

HEADER = struct.Struct(">BII")
LARGEST = 1 << 16

# To the guest.
START = 1       # JSON: argv, env, cwd, stdin, pty
STDIN = 2       # bytes; empty: end of file
KILL = 3        # JSON: signal (number; 0: everything the command started, for good)
RESIZE = 4      # JSON: rows, columns
PING = 5
# From the guest.
READY = 16      # JSON: facts about the guest
STDOUT = 17
STDERR = 18
EXIT = 19       # JSON: status, or error (text)
TAKEN = 20      # JSON: bytes of standard input that the command has taken
PONG = 21


def pack(kind, number=0, payload=b""):
    """Return the bytes of a frame; a payload that is not bytes is sent as JSON."""
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        payload = json.dumps(payload).encode()
    return HEADER.pack(kind, number, len(payload)) + payload


class Splitter:
    """Turn what arrives into frames."""

    def __init__(self):
        self.rest = bytearray()

    def feed(self, data):
        """Take bytes; yield (kind, number, payload) of each complete frame."""
        self.rest += data
        at = 0
        while len(self.rest) - at >= HEADER.size:
            kind, number, size = HEADER.unpack_from(self.rest, at)
            if len(self.rest) - at - HEADER.size < size:
                break
            at += HEADER.size
            yield kind, number, bytes(self.rest[at:at + size])
            at += size
        del self.rest[:at]
