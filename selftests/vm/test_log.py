# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What counts as a report in a kernel's log."""

from runner import TestCase
from rxe_vm import logcheck

BAD = """
[   12.345678] WARNING: CPU: 1 PID: 77 at drivers/net/foo.c:12 foo+0x1/0x2 [rxe_ng]
[   12.345678] WARNING: drivers/net/foo.c:12 at foo+0x1/0x2, CPU#1: insmod/77
[   12.345678][  T77] WARNING: possible circular locking dependency detected
[   12.345678] WARNING: suspicious RCU usage
[   12.345678] WARNING: inconsistent lock state
[   12.345678] BUG: unable to handle page fault for address: 0000000000001000
[   12.345678] BUG: KASAN: slab-use-after-free in foo+0x1/0x2
[   12.345678] BUG: sleeping function called from invalid context at mm/slab.h:1
[   12.345678] BUG: scheduling while atomic: foo/77/0x00000002
[   12.345678] BUG kmalloc-64 (Tainted: G O): Redzone overwritten
[   12.345678] ==== BUG: something
[   12.345678] kernel BUG at foo.c:12!
[   12.345678] Oops: 0002 [#1] PREEMPT SMP
[   12.345678] general protection fault, probably for non-canonical address
[   12.345678] Kernel panic - not syncing: sysrq triggered crash
[   12.345678] UBSAN: shift-out-of-bounds in foo.c:12:3
[   12.345678] refcount_t: underflow; use-after-free.
[   12.345678] ODEBUG: free active (active state 0) object: timer_list
[   12.345678] INFO: task foo:77 blocked for more than 120 seconds.
[   12.345678] INFO: trying to register non-static key.
[   12.345678] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[   12.345678] watchdog: BUG: soft lockup - CPU#0 stuck for 26s!
[   12.345678] list_del corruption. prev->next should be 1 but was 2
[   12.345678] kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
[   12.345678] unreferenced object 0xffff888012345678 (size 64):
[   12.345678] unregister_netdevice: waiting for eth0 to become free. Usage count = 2
""".strip().splitlines()

GOOD = """
[   12.345678] rxe_ng: loading out-of-tree module taints kernel.
[   12.345678] Warning: unable to open an initial console.
[   12.345678] NMI watchdog: Perf NMI watchdog permanently disabled
[   12.345678] FAULT_INJECTION: forcing a failure.
[   12.345678] Call Trace:
[   12.345678] kmemleak: Kernel memory leak detector initialized
[   12.345678] foo: no BUG: here
[   12.345678] eth0: link becomes ready
""".strip().splitlines()


class LogTest(TestCase):
    """rxe_vm.logcheck"""

    def test_each_kind_of_report_is_found(self):
        for line in BAD:
            with self.subTest(line=line):
                self.assertEqual([r.line for r in logcheck.find(line + "\n")], [line])

    def test_other_messages_are_none(self):
        self.assertEqual(logcheck.find("\n".join(GOOD)), [])

    def test_a_report_has_its_trace_and_number(self):
        log = "\n".join(["[ 1.0] fine", BAD[0], "[ 1.0] Call Trace:", "[ 1.0]  foo+0x1/0x2",
                         "[ 1.0] ---[ end trace 0 ]---", "[ 1.0] fine"])
        (report,) = logcheck.find(log)
        self.assertEqual((report.number, len(report.lines)), (2, 4))

    def test_an_allowed_report_does_not_hide_the_next_one(self):
        log = "\n".join([BAD[0], BAD[6]])
        self.assertEqual([r.line for r in logcheck.find(log, allow=r"at drivers/net/foo\.c")], [BAD[6]])
