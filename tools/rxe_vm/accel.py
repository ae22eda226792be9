# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How QEMU runs the guest's processors: KVM where a probe boot showed that it works, else TCG."""

import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

from . import initrd, paths
from .errors import UsageError
from .progress import say, step

QEMU = "qemu-system-x86_64"
TOKEN = "rxe-vm-probe-ok"
PROBE_SECONDS = 20


def qemu():
    """Return the path of QEMU, or raise UsageError."""
    path = shutil.which(QEMU)
    if not path:
        raise UsageError(f"{QEMU} is missing: apt-get install qemu-system-x86, or 'make deps'")
    return path


def arguments(kind):
    """Return QEMU's arguments for kind 'kvm' or 'tcg'."""
    if kind == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    # TCG does rep movsb byte by byte: without ERMS and FSRM nobody uses it. With five levels of
    # page tables KASAN cries wolf when an interrupt meets the boot's look at the processor.
    return ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,-erms,-fsrm,-la57"]


def kernel_arguments(kind):
    """Return the kernel's arguments: under TCG, the host's clock rate, which it mismeasures
    where the host is busy."""
    if kind == "kvm":
        return ""
    khz = _clock_khz()
    return "tsc=reliable" + (f" tsc_early_khz={khz}" if khz else "")


def _clock_khz():
    """Return the rate of this machine's time stamp counter, or None if it is not known."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    # Where the processor's clock changes, its nominal rate is that of the counter.
    nominal = re.search(r"^model name.*@ ([0-9.]+)GHz", text, re.MULTILINE)
    actual = re.search(r"^cpu MHz\s*: ([0-9.]+)", text, re.MULTILINE)
    if os.path.exists("/sys/devices/system/cpu/cpu0/cpufreq"):
        return round(float(nominal.group(1)) * 1e6) if nominal else None
    return round(float(actual.group(1)) * 1000) if actual else None


def choose(kernel):
    """Return 'kvm' or 'tcg'. RXE_VM_ACCEL decides if set; else what a probe said, kept in the cache."""
    wish = os.environ.get("RXE_VM_ACCEL")
    if wish in ("kvm", "tcg"):
        return wish
    if wish:
        raise UsageError(f"RXE_VM_ACCEL is '{wish}': it may be kvm or tcg")
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    with paths.locked("accel"):
        return _remembered_probe(kernel)


def _remembered_probe(kernel):
    stat = os.stat("/dev/kvm")
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    model = [line for line in cpuinfo.splitlines() if line.startswith("model name")][:1]
    facts = [platform.release(), platform.version(), model, stat.st_rdev,
             os.path.getmtime(qemu())]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    note = paths.cache() / "accel.json"
    try:
        known = json.loads(note.read_text())
        if known["key"] == key:
            return known["kind"]
    except (OSError, ValueError, KeyError):
        pass
    with step(f"trying whether KVM works here (at most {PROBE_SECONDS} s, once)"):
        kind = "kvm" if _probe(kernel) else "tcg"
    say("KVM works" if kind == "kvm" else "KVM does not boot a kernel here; QEMU emulates (TCG)")
    note.write_text(json.dumps({"key": key, "kind": kind}) + "\n")
    return kind


def _probe(kernel):
    """Boot a kernel under KVM that does nothing but say a word."""
    with tempfile.TemporaryDirectory(prefix="rxe-vm.") as folder:
        path = pathlib.Path(folder) / "initrd"
        path.write_bytes(kernel.initrd.read_bytes() + initrd.guest({"PROBE": TOKEN}))
        command = [qemu(), *arguments("kvm"), "-smp", "2", "-m", "512M", "-nodefaults",
                   "-display", "none", "-no-reboot", "-serial", f"file:{folder}/console",
                   "-kernel", str(kernel.vmlinuz), "-initrd", str(path),
                   "-append", "console=ttyS0 panic=-1 quiet rdinit=/init"]
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=PROBE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            pass
        try:
            return TOKEN in (pathlib.Path(folder) / "console").read_text(errors="replace")
        except OSError:
            return False
