# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The initial file system of a guest: busybox, the modules that find the root, our own files."""

import os
import shutil
import subprocess

from . import paths
from .errors import UsageError
from .image import unpack_module

MODULES = ("virtio_pci", "virtio_blk", "squashfs", "overlay", "9pnet_virtio", "9p")


def _entry(name, mode, data=b""):
    """Return one member of a cpio archive in the newc format."""
    name = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + name
    head += b"\0" * (-len(head) % 4)
    return head + data + b"\0" * (-len(data) % 4)


class Archive:
    """A cpio archive in the making."""

    def __init__(self):
        self.parts = []
        self.folders = set()

    def folder(self, name):
        """Add a folder and those above it."""
        at = ""
        for step in name.strip("/").split("/"):
            at = f"{at}/{step}".lstrip("/")
            if at not in self.folders:
                self.folders.add(at)
                self.parts.append(_entry(at, 0o040755))

    def file(self, name, data, mode=0o644):
        """Add a file."""
        if "/" in name:
            self.folder(name.rpartition("/")[0])
        self.parts.append(_entry(name, 0o100000 | mode, data))

    def bytes(self):
        """Return the archive, padded so that another one can follow."""
        data = b"".join(self.parts) + _entry("TRAILER!!!", 0)
        return data + b"\0" * (-len(data) % 512)


def _module_files(modules, version):
    """Yield the paths of the modules that a guest's root needs, in the order of loading."""
    seen = set()
    for module in MODULES:
        done = subprocess.run(
            [shutil.which("modprobe", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") or "modprobe",
             "-d", str(modules), "-S", version, "--show-depends", module],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise UsageError(f"kernel {version} has no module {module}: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            verb, _, path = line.strip().partition(" ")
            if verb == "insmod" and path not in seen:
                seen.add(path)
                yield path.strip()


def base(modules, version):
    """Return the part that is the same for each boot of a kernel.

    modules: folder above lib/modules/, or None for a kernel that has everything built in.
    """
    busybox = shutil.which("busybox")
    if not busybox:
        raise UsageError("busybox is missing: apt-get install busybox-static, or 'make deps'")
    archive = Archive()
    archive.folder("dev")
    archive.file("bin/busybox", open(busybox, "rb").read(), 0o755)
    order = []
    for path in _module_files(modules, version) if modules else ():
        name = os.path.basename(path).partition(".ko")[0] + ".ko"
        archive.file(f"modules/{name}", unpack_module(path))
        order.append(name)
    archive.file("modules/order", "".join(f"{n}\n" for n in order).encode())
    return archive.bytes()


def guest(config, shares=()):
    """Return the part that belongs to one host of one boot.

    config: what the scripts in the guest read, as shell variables.
    shares: (tag, path in the guest) of each shared folder.
    """
    archive = Archive()
    archive.file("init", (paths.GUEST / "init").read_bytes(), 0o755)
    archive.file("rxe-vm/boot", (paths.GUEST / "boot").read_bytes(), 0o755)
    archive.file("rxe-vm/agent.py", (paths.GUEST / "agent.py").read_bytes())
    archive.file("rxe-vm/frames.py", (paths.PACKAGE / "frames.py").read_bytes())
    for tool in sorted((paths.GUEST / "bin").iterdir()):
        archive.file(f"rxe-vm/bin/{tool.name}", tool.read_bytes(), 0o755)
    archive.file("rxe-vm/config", "".join(f"{k}={v}\n" for k, v in config.items()).encode())
    archive.file("rxe-vm/shares", "".join(f"{t} {p}\n" for t, p in shares).encode())
    return archive.bytes()
