# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Verbs for kernel consumers, tried by a kernel module."""

from runner import VmTestCase, builds


class KernelVerbs(VmTestCase):
    """The module rxng_ktest, whose loading runs its tests."""

    hosts = 1
    debug = True

    def run_module(self, *parameters):
        release = self.a.release.name
        self.run_tap(self.a, ["sh", "/repo/selftests/kernel/run.sh",
                              f"{builds.kernel_module(release, 'kernel')}/rxng_ktest.ko",
                              f"timeout_ms={20000 * self.slow}", *parameters])

    def test_all(self):
        self.run_module()

    def test_ipv6(self):
        self.run_module(f"gid_index={self.gid(self.a, self.a.ipv6)}", "only=sizes")
