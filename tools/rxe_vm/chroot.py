# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Running a command inside a release's root, without booting: this is where things are compiled.

The root is read-only, /tmp and /run are fresh, the repository is at /repo, and each further
mount is a pair (folder here, path there). Mounts and processes end with the command.
"""

import os
import shutil
import signal
import subprocess

from . import paths
from .errors import UsageError

SCRIPT = r"""
set -e
root=$1 count=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/run"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero full random urandom tty; do
	: > "$root/dev/$node"
	mount --bind "/dev/$node" "$root/dev/$node"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm"
mount -t tmpfs tmpfs "$root/dev/shm"
while [ "$count" -gt 0 ]; do
	mount --bind "$1" "$root$2"
	count=$((count - 1)); shift 2
done
exec chroot "$root" /bin/sh -c 'cd /repo && exec "$@"' sh "$@"
"""


def command_for(root, command, mounts=()):
    """Return the command line that runs a command in a root."""
    if os.geteuid():
        raise UsageError("a chroot needs root; run rxe-vm as root")
    if not shutil.which("unshare"):
        raise UsageError("unshare is missing: apt-get install util-linux")
    mounts = [(str(paths.REPO), "/repo"), *((str(a), b) for a, b in mounts)]
    for _, path in mounts:
        (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    flat = [word for pair in mounts for word in pair]
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "/bin/sh", "-c", SCRIPT,
            "sh", str(root), str(len(mounts)), *flat, *command]


def environment(extra=()):
    """Return the environment of a command in a root: nothing from outside but the terminal."""
    kept = {key: os.environ[key] for key in ("TERM",) if key in os.environ}
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
            "LC_ALL": "C.UTF-8", **kept, **dict(extra)}


def run(root, command, mounts=(), extra=(), **options):
    """Run a command in a root; return its exit status as a shell would."""
    child = subprocess.Popen(command_for(root, command, mounts), env=environment(extra), **options)
    try:
        status = child.wait()
    except BaseException:
        child.send_signal(signal.SIGTERM)
        child.kill()
        child.wait()
        raise
    return 128 - status if status < 0 else status
