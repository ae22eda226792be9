# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The Linux systems that a host can run: one table row each."""

import dataclasses
import re

from .errors import UsageError


@dataclasses.dataclass(frozen=True)
class Release:
    """One system: a Debian release and the kernel that runs under it.

    name: what the user calls it.
    debian: Debian's code name, the suite that the root comes from.
    linux: kernel series, the newest version of which is taken.
    rdma_core: version of rdma-core in that suite (told to the user only).
    kernel_suite: suite that the kernel comes from, where it is not ``debian``.
    root_of: release whose root image is shared; empty: its own.
    config: kernel configuration (in ``tools/kernel/``) of a kernel that we build
        ourselves from the distribution's source; empty: the packaged kernel.
    slow: factor on the tool's own time limits.
    """

    name: str
    debian: str
    linux: str
    rdma_core: str
    kernel_suite: str = ""
    root_of: str = ""
    config: str = ""
    slow: int = 1

    @property
    def root(self):
        """The release that owns the root image."""
        return RELEASES[self.root_of] if self.root_of else self

    @property
    def suite(self):
        """The suite that the kernel packages come from."""
        return self.kernel_suite or self.debian

    @property
    def title(self):
        """One line for people."""
        made = ", debug kernel" if self.config else ""
        return (f"Debian {self.debian}, Linux {self.linux}{made}, "
                f"rdma-core {self.rdma_core}")

    def kernel_pattern(self):
        """Regular expression for the kernel's packages, without their prefix."""
        series = re.escape(self.linux)
        # Image names: 6.1.0-44-amd64, 6.12.48+deb13-amd64; but not ...-cloud-amd64, ...-rt-amd64.
        return rf"{series}\.[0-9][0-9.]*([+-][a-z]*[0-9][a-z0-9.]*)*-amd64"


RELEASES = {r.name: r for r in (
    Release("bookworm", "bookworm", "6.1", "44"),
    Release("trixie", "trixie", "6.12", "56"),
    Release("backports", "trixie", "7.3", "56", kernel_suite="trixie-backports"),
    Release("debug", "trixie", "7.3", "56", kernel_suite="trixie-backports",
            root_of="backports", config="debug.config", slow=4),
)}

DEFAULT = "backports"


def find(name):
    """Return the release of that name, or raise UsageError naming those there are."""
    try:
        return RELEASES[name]
    except KeyError:
        raise UsageError(f"no release '{name}': there are {', '.join(RELEASES)}") from None
