# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Carries what a tun or tap netdev sends to the other host, in UDP, and what comes from there: NAME KIND PEER."""

import fcntl
import os
import select
import socket
import struct
import sys

PORT = 5555
TUNSETIFF = 0x400454ca          # linux/if_tun.h
IFF_TUN, IFF_TAP, IFF_NO_PI = 1, 2, 0x1000

name, kind, peer = sys.argv[1:]
tunnel = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tunnel, TUNSETIFF,
            struct.pack("16sH22x", name.encode(), (IFF_TAP if kind == "tap" else IFF_TUN) | IFF_NO_PI))
wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wire.bind(("", PORT))
wire.connect((peer, PORT))
print("open", flush=True)
while True:
    for ready in select.select([tunnel, wire], [], [])[0]:
        try:
            if ready is wire:
                os.write(tunnel, wire.recv(65536))
            else:
                wire.send(os.read(tunnel, 65536))
        except OSError as problem:
            # The netdev is not up yet, or the other end does not listen yet.
            print(problem, file=sys.stderr, flush=True)
