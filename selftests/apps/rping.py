# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rping of rdma-core: connections by the connection manager, with SEND, READ and WRITE."""

from net.links import inside, wait_listen

# When all is done, rping of older rdma-core closes the channel of events on which a thread of its own
# is about to wait; if that thread comes late, it ends the program as a failure.
LATE = "rdma_get_cm_event: Bad file descriptor"


class Rping:
    """A server and a client that validate what comes back.

    netns: names of the namespaces of the server and the client, None for the first one.
    """

    def __init__(self, test, address, *options, count=50, netns=(None, None)):
        self.test = test
        self.count = count
        self.words = ["stdbuf", "-oL", "rping", "-a", address, "-C", count, "-V", "-v", *options]
        self.netns = netns
        self.server = self.client = None

    def listen(self, host):
        """Start the server, and wait until it listens."""
        self.server = host.spawn([*inside(self.netns[0]), *self.words, "-s"])
        wait_listen(host, self.netns[0])

    def connect(self, host):
        """Start the client."""
        self.client = host.spawn([*inside(self.netns[1]), *self.words, "-c"])

    def end(self):
        """Wait until both have ended; each went through all rounds."""
        ended = self.test.together(self.client, self.server, timeout=60 * self.test.slow, check=False)
        for result in ended:
            said = result.stdout + result.stderr
            self.test.assertEqual(result.stdout.count("ping data"), self.count, said)
            self.test.assertTrue(result.ok or LATE in result.stderr, f"exit status {result.status}\n{said}")


def rping(test, server, client, address, *options, **more):
    """Let a client connect to a server, and go through all rounds (arguments as of ``Rping``)."""
    pair = Rping(test, address, *options, **more)
    pair.listen(server)
    pair.connect(client)
    pair.end()
