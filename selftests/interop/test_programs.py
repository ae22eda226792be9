# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs between a host with ours and a host with rdma_rxe: what the operations of RC leave out."""

from apps import test_cm, test_pingpong
from runner import only


class RxeAnswers:
    """Ours on the first host."""

    drivers = ("rxe_ng", "rdma_rxe")
    releases = ("bookworm", "backports", ("bookworm", "backports"))


class RxeAsks:
    """Ours on the second host."""

    drivers = ("rdma_rxe", "rxe_ng")
    releases = ("bookworm", "backports")


PINGPONG = ("test_polling", "test_ipv6_events", "test_one_byte")


@only(*PINGPONG, "test_one_megabyte")
class UcPingpong(RxeAnswers, test_pingpong.UcPingpong):
    """Unreliable connections."""


@only(*PINGPONG)
class SrqPingpong(RxeAnswers, test_pingpong.SrqPingpong):
    """Shared receive queues."""


@only(*PINGPONG)
class UdPingpong(RxeAnswers, test_pingpong.UdPingpong):
    """Datagrams."""


CM = ("test_rping", "test_rping_ipv6", "test_ucmatose", "test_udaddy", "test_udaddy_ipv6", "test_mckey")


@only(*CM)
class CmRxeAsks(RxeAsks, test_cm.Cm):
    """Connections that rdma_rxe's host asks for, its datagrams, what it sends to a group."""


@only(*CM)
class CmRxeAnswers(RxeAnswers, test_cm.Cm):
    """The same from ours."""
