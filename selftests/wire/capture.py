# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Captures made in a guest, and frames sent from one."""

import shutil
import struct
import tempfile
import time

from runner import BUILD, REPO

import roce

# A datagram to this port closes a capture: all before it is in the file.
MARK_PORT = 9


class Folder:
    """A folder that this machine and the guests share, for one test."""

    def __init__(self, test):
        BUILD.mkdir(parents=True, exist_ok=True)
        self.path = tempfile.mkdtemp(prefix="wire-", dir=BUILD)
        test.addCleanup(shutil.rmtree, self.path, ignore_errors=True)

    def here(self, name):
        """Return a file's path on this machine."""
        return f"{self.path}/{name}"

    def there(self, name):
        """Return a file's path in the guests."""
        return "/repo" + self.here(name)[len(str(REPO)):]


class Capture:
    """What passes a host's eth0: RoCEv2, and what belongs to it.

    It is written to the guest's memory; the shared folder is too slow for a stream of packets.
    """

    def __init__(self, folder, host, name="capture.pcap"):
        self.host = host
        self.file, self.guest_file = folder.here(name), folder.there(name)
        self.live = f"/run/{name}"
        self.command = host.spawn(
            # Of the snapshot length so many packets fit into the buffer: room for 8000 of them.
            f"exec tcpdump -i eth0 -U --immediate-mode -B 65536 -s 8000 -w {self.live} "
            f"'udp port {roce.PORT} or udp port {MARK_PORT} or icmp "
            f"or (vlan and udp port {roce.PORT})' 2>&1")
        self.command.wait_output("listening on", 60 * host.release.slow)

    def fetch(self):
        """Return the packets that were captured until now."""
        self.host.run(["cp", self.live, self.guest_file], check=True)
        return roce.read(self.file)

    def wait(self, wanted, timeout=60, count=1):
        """Wait for so many packets for which wanted(packet) is true; return the packets so far."""
        end = time.monotonic() + timeout * self.host.release.slow
        while True:
            packets = self.fetch()
            if sum(map(bool, map(wanted, packets))) >= count:
                return packets
            if time.monotonic() > end:
                raise AssertionError("the awaited packet did not come; there were: "
                                     + "; ".join(map(str, packets[-20:])))
            time.sleep(0.1)

    def stop(self, peer):
        """Wait until all that the host, and its peer, sent up to now is in the file, and end; return the packets."""
        peer.run(["python3", "-S", "-c",
                  "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
                  f".sendto(b'end of capture', ('{self.host.ipv4}', {MARK_PORT}))"], check=True)
        self.host.wait_for(f"grep -q 'end of capture' {self.live}", timeout=60 * self.host.release.slow)
        self.command.kill(2)
        said = self.command.wait(60 * self.host.release.slow).stdout
        if "\n0 packets dropped by kernel" not in said:
            raise AssertionError(f"tcpdump lost packets: {said}")
        packets = self.fetch()
        self.host.run(["rm", self.live], check=True)
        return packets


def send(folder, host, frames, times=1, name="frames", check=True, interface="eth0"):
    """Put frames on the wire from a host's eth0, or from another interface of it."""
    with open(folder.here(name), "wb") as handle:
        for frame in frames:
            handle.write(struct.pack(">H", len(frame)) + frame)
    return host.run(["python3", "-S", "/repo/selftests/wire/inject.py", interface, folder.there(name), times],
                    timeout=120 * host.release.slow, check=check)
