# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""In a guest: put frames on the wire as they are.

    inject.py INTERFACE FILE [TIMES]

FILE holds frames, each behind its length in two bytes, big-endian.
"""

import socket
import struct
import sys


def frames(path):
    """Yield the frames of a file."""
    with open(path, "rb") as handle:
        while head := handle.read(2):
            yield handle.read(struct.unpack(">H", head)[0])


def main(interface, path, times="1"):
    """Send them all, in order; the socket waits where the interface is full."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind((interface, 0))
    every = list(frames(path))
    for _ in range(int(times)):
        for frame in every:
            wire.send(frame)
    print(len(every) * int(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
