# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Kernels that guests boot: the packaged one of a root, or a debug kernel that we build."""

import dataclasses
import pathlib
import typing

from . import initrd
from .errors import UsageError


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What QEMU needs of a kernel.

    version: ``uname -r``.
    vmlinuz: the image.
    initrd: the common part of the initial file system.
    modules: squashfs of its modules folder, if they are not in the root image.
    build: the folder to compile modules against, as seen in the root's chroot.
    mounts: what the chroot needs for that: (folder here, path there).
    arguments: more of the kernel's command line.
    """

    version: str
    vmlinuz: pathlib.Path
    initrd: pathlib.Path
    modules: typing.Optional[pathlib.Path] = None
    build: str = ""
    mounts: tuple = ()
    arguments: str = ""


def of(release, image):
    """Return the kernel of a release, made if need be."""
    if release.config:
        from . import debug_kernel
        return debug_kernel.ensure(release, image)
    return packaged(image)


def there(release, image):
    """Say whether of() would have nothing to make."""
    if not image.there():
        return False
    if release.config:
        from . import debug_kernel
        return debug_kernel.there(release, image)
    return True


def packaged(image):
    """Return the kernel that is installed in a root."""
    version = image.kernel
    if not image.vmlinuz.exists():
        raise UsageError(f"{image.vmlinuz} is gone: remove {image.folder} and run rxe-vm prepare")
    path = image.folder / "initrd"
    if not path.exists():
        temporary = path.with_name(f"initrd.{id(path)}")
        temporary.write_bytes(initrd.base(image.root, version))
        temporary.replace(path)
    return Kernel(version, image.vmlinuz, path, build=f"/lib/modules/{version}/build")
