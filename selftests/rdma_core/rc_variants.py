# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Tests of rdma-core over RC whose ends are UD there for no reason that matters to them."""

import tests.utils as u
from pyverbs.cq import CQ
from pyverbs.qp import QPCap
from tests.base import RCResources
from tests.test_cq import CQTest

# More than the test sends.
RECEIVES = 16


class CqRc(RCResources):
    """An end with a completion queue of a chosen depth."""

    def __init__(self, dev_name, ib_port, gid_index, cq_depth=None):
        self.cq_depth = cq_depth
        super().__init__(dev_name, ib_port, gid_index)

    def create_cq(self):
        """Make it as deep as the test wants."""
        self.cq = CQ(self.ctx, self.cq_depth or self.num_msgs, None, None, 0)

    def create_qp_cap(self):
        """The test sends some messages at once."""
        return QPCap(max_recv_wr=RECEIVES, max_send_wr=10)


class CQRcTest(CQTest):
    """Resizing, with a peer that takes all messages."""

    def create_players(self, resource, sync_attrs=True, **resource_arg):
        """Make RC ends; the server has room for all receives."""
        super().create_players(CqRc, sync_attrs, **resource_arg)
        self.server.cq.resize(2 * RECEIVES)
        u.post_recv(self.server, u.get_recv_wr(self.server), num_wqes=RECEIVES)
