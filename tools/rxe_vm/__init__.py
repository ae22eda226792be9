# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Virtual hosts with a Linux kernel of choice on one Ethernet segment.

The command line is ``tools/rxe-vm``; tests use :class:`rxe_vm.cluster.Cluster`.
"""

from .errors import Failed, TimedOut, UsageError
from .release import RELEASES, Release

__all__ = ["Cluster", "Failed", "RELEASES", "Release", "TimedOut", "UsageError"]


def __getattr__(name):
    """Load the cluster machinery only for those who boot something."""
    if name == "Cluster":
        from .cluster import Cluster
        return Cluster
    raise AttributeError(name)
