# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What stands on rxe-vm: the demonstration and the benchmark."""

import json
import pathlib
import subprocess
import tempfile

from runner import REPO, TestCase

TOOLS = REPO / "tools"


class ToolsTest(TestCase):
    """That they run to their end and say what they should; not how good the figures are."""

    limit = 600

    def tool(self, name, *words):
        """Run a tool to its end; return what it said."""
        done = subprocess.run([str(TOOLS / name), *map(str, words)], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=self.limit, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def demo(self, release):
        said = self.tool("demo", "--release", release)
        for line in (r"ibv_rc_pingpong -c +64 KiB +500 messages each way, payload intact",
                     r"ib_write_bw +write, 64 KiB +\d+\.\d\d MiB/s", r"ib_read_bw +read, 64 KiB +\d+\.\d\d MiB/s",
                     r"ib_send_lat +send, 8 B, one way +\d+\.\d\d us", r"ib_atomic_lat .* \d+\.\d\d us",
                     r"kernel logs +clean; links deleted, module removed"):
            self.assertRegex(said, f"(?m)^{line}$")

    def test_demo_bookworm(self):
        self.demo("bookworm")

    def test_demo_backports(self):
        self.demo("backports")

    def test_bench(self):
        """One line in each place of 7.3, once for each driver; the table's figures are those of the file."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "bench.json"
            said = self.tool("bench", "--release", "backports", "--line", "send 8 B latency", "--repeat", 1,
                             "--json", file)
            lines = json.loads(file.read_text())["kernels"][0]["lines"]
        self.assertEqual([(line["line"], line["place"]) for line in lines],
                         [("send 8 B latency", "device"), ("send 8 B latency", "netns")])
        for line in lines:
            for driver in "ours", "theirs":
                self.assertEqual(len(line[driver]["values"]), 1)
                self.assertGreater(line[driver]["values"][0], 0)
            self.assertRegex(said, rf"send 8 B latency +us +{line['ours']['values'][0]:.4g}")
