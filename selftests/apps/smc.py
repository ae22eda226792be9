# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs in a guest: sockets over SMC-R, without the tools that Debian does not have.

    smc.py prepare NETDEV DEVICE [EID]      let SMC-R use a device for a netdev, among all that have this EID
    smc.py forget                           undo that
    smc.py serve ADDRESS PORT               echo what comes on one connection
    smc.py ask ADDRESS PORT CHUNKS          compare what comes back, print what carried it
"""

import ctypes
import hashlib
import os
import socket
import struct
import sys
import threading

AF_SMC = 43
CHUNK = 65536

# <linux/netlink.h>, <linux/genetlink.h>
NETLINK_SOCK_DIAG, NETLINK_GENERIC = 4, 16
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
# <linux/smc.h>, <linux/sock_diag.h>, <linux/smc_diag.h>
SMC_NETLINK_ADD_UEID, SMC_NETLINK_FLUSH_UEID, SMC_NLA_EID_TABLE_ENTRY, SMC_MAX_EID_LEN = 10, 12, 1, 32
SMC_PNETID_ADD, SMC_PNETID_FLUSH = 2, 4
SMC_PNETID_NAME, SMC_PNETID_ETHNAME, SMC_PNETID_IBNAME, SMC_PNETID_IBPORT = 1, 2, 3, 4
SOCK_DIAG_BY_FAMILY = 20
MODES = ("SMC-R", "TCP", "SMC-D")

libc = ctypes.CDLL(None, use_errno=True)


def request(protocol, kind, flags, body):
    """Send a netlink request; return the bodies of the answers, raise OSError if it is refused."""
    answers = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags, 1, 0) + body)
        while True:
            data = netlink.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                body, data = data[16:length], data[(length + 3) & ~3:]
                if kind == NLMSG_ERROR:
                    error = -struct.unpack_from("=i", body)[0]
                    if error:
                        raise OSError(error, "netlink")
                    return answers
                if kind == NLMSG_DONE:
                    return answers
                answers.append(body)


def attribute(kind, value):
    """Return a netlink attribute."""
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def generic(family, command, *attributes):
    """Send a generic netlink request; return the answers' attributes as bytes."""
    body = struct.pack("=BBH", command, 1, 0) + b"".join(attributes)
    return [answer[4:] for answer in request(NETLINK_GENERIC, family, NLM_F_ACK, body)]


def family_id(name):
    """Return the number of a generic netlink family."""
    answer, = generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, attribute(CTRL_ATTR_FAMILY_NAME, name + b"\0"))
    while answer:
        length, kind = struct.unpack_from("=HH", answer)
        if kind == CTRL_ATTR_FAMILY_ID:
            return struct.unpack_from("=H", answer, 4)[0]
        answer = answer[(length + 3) & ~3:]
    raise LookupError(name)


def prepare(netdev, device, eid=None):
    """Put both into one physical network; without an EID there is no version 2, the one for RoCE v2."""
    family, name = family_id(b"SMC_PNETID"), attribute(SMC_PNETID_NAME, b"NET\0")
    generic(family, SMC_PNETID_ADD, name, attribute(SMC_PNETID_ETHNAME, netdev.encode() + b"\0"))
    generic(family, SMC_PNETID_ADD, name, attribute(SMC_PNETID_IBNAME, device.encode() + b"\0"),
            attribute(SMC_PNETID_IBPORT, b"\1"))
    if eid:
        generic(family_id(b"SMC_GEN_NETLINK"), SMC_NETLINK_ADD_UEID,
                attribute(SMC_NLA_EID_TABLE_ENTRY, eid.encode().ljust(SMC_MAX_EID_LEN) + b"\0"))


def forget():
    """Empty both tables."""
    generic(family_id(b"SMC_PNETID"), SMC_PNETID_FLUSH)
    generic(family_id(b"SMC_GEN_NETLINK"), SMC_NETLINK_FLUSH_UEID)


def mode(port):
    """Return what carries the data of the connection to a port: one of MODES."""
    body = struct.pack("=BBBB", AF_SMC, 0, 0, 0) + b"\0" * 48
    for answer in request(NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, body):
        if struct.unpack_from("!H", answer, 6)[0] == port:
            return MODES[answer[2]]
    return "gone"


def call(function, connection, *arguments):
    """Call a function of the C library on a socket: Python's own refuse addresses of this family."""
    result = getattr(libc, function)(connection.fileno(), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), function)
    return result


def sockaddr(address, port):
    """Return the arguments for an IPv4 address."""
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", int(port)) + socket.inet_aton(address) + b"\0" * 8, 16


def serve(address, port):
    """Echo."""
    with socket.socket(AF_SMC) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        call("bind", listener, *sockaddr(address, port))
        listener.listen()
        with socket.socket(fileno=call("accept", listener, None, None)) as connection:
            while data := connection.recv(CHUNK):
                connection.sendall(data)


def pattern(number):
    """Return a chunk of bytes that differ from those of any other number."""
    return b"".join(hashlib.sha256(struct.pack("=II", number, i)).digest() for i in range(CHUNK // 32))


def ask(address, port, count):
    """Send so many chunks and compare."""
    chunks = [pattern(number) for number in range(int(count))]
    with socket.socket(AF_SMC) as connection:
        call("connect", connection, *sockaddr(address, port))
        sender = threading.Thread(target=lambda: [connection.sendall(chunk) for chunk in chunks], daemon=True)
        sender.start()
        for number, chunk in enumerate(chunks):
            back = bytearray()
            while len(back) < len(chunk):
                data = connection.recv(len(chunk) - len(back))
                if not data:
                    sys.exit(f"the connection ended in chunk {number}")
                back += data
            if back != chunk:
                sys.exit(f"chunk {number} differs")
        sender.join()
        print(f"{len(chunks) * CHUNK} bytes by {mode(int(port))}")


VERBS = {"prepare": prepare, "forget": forget, "serve": serve, "ask": ask}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
