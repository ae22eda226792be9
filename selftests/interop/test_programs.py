# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs between a host with ours and a host with rdma_rxe: what the operations of RC leave out."""

from apps import test_cm, test_pingpong
from runner import only


class RxeAsks:
    """Ours on the first host, which serves."""

    drivers = ("rxe_ng", "rdma_rxe")
    releases = ("bookworm", "backports", ("bookworm", "backports"))


class RxeAnswers:
    """Ours on the second host."""

    drivers = ("rdma_rxe", "rxe_ng")
    releases = ("bookworm", "backports")


PINGPONG = ("test_polling", "test_ipv6_events", "test_one_byte")


@only(*PINGPONG, "test_one_megabyte")
class UcPingpong(RxeAsks, test_pingpong.UcPingpong):
    """Unreliable connections."""


@only(*PINGPONG)
class SrqPingpong(RxeAsks, test_pingpong.SrqPingpong):
    """Shared receive queues."""


@only(*PINGPONG)
class UdPingpong(RxeAsks, test_pingpong.UdPingpong):
    """Datagrams."""


CM = ("test_rping", "test_rping_ipv6", "test_ucmatose", "test_udaddy", "test_udaddy_ipv6")


@only(*CM)
class CmRxeAsks(RxeAsks, test_cm.Cm):
    """Connections that rdma_rxe's host asks for, and its datagrams; not to a group: a sender that ends at once,
    as mckey does, may leave with all but one of its datagrams unsent.
    """


@only(*CM, "test_mckey")
class CmRxeAnswers(RxeAnswers, test_cm.Cm):
    """Those that ours asks for, and what it sends to a group."""
