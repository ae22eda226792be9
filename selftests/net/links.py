# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the tests of links share."""

import json
import re

SYSFS = "/sys/class/infiniband"


def script(host, text, **options):
    """Run a script in a guest to its end; the first command that fails ends it."""
    return host.run("set -e\n" + text, check=True, **options)


def inside(netns):
    """Return the words that run a command in a network namespace; none for the first one."""
    return ["ip", "netns", "exec", netns] if netns else []


def links(host, netns=None):
    """Return the RDMA links as ``rdma link`` shows them in a namespace, by their devices' names."""
    found = json.loads(host.run([*inside(netns), "rdma", "-j", "link", "show"], check=True).stdout or "[]")
    return {link["ifname"]: link for link in found}


def add(host, name, netdev, kind="rxe", netns=None):
    """Add an RDMA link."""
    host.run([*inside(netns), "rdma", "link", "add", name, "type", kind, "netdev", netdev], check=True)


def set_netns_mode(host, mode):
    """Set RDMA's mode of namespaces, "shared" or "exclusive".

    The kernel refuses while there is any namespace but the first, also one that was deleted and is
    about to go.
    """
    host.wait_for(["rdma", "system", "set", "netns", mode], timeout=30 * host.release.slow)


def enter(host, name, netns):
    """Let a device belong to the namespace that it was made in; older kernels make all in the first one."""
    host.run(f"rdma dev show {name} 2>/dev/null && rdma dev set {name} netns {netns}; true", check=True)


def wait_gone(host, name, timeout=30):
    """Wait until a device is gone."""
    host.wait_for(f"[ ! -e {SYSFS}/{name} ]", timeout=timeout * host.release.slow)


def sysfs(host, device, path):
    """Return what a file below a device's folder says."""
    return host.run(["cat", f"{SYSFS}/{device}/{path}"], check=True).stdout.strip()


def wait_state(host, device, state):
    """Wait until a port has a state: "ACTIVE" or "DOWN"."""
    host.wait_for(f"grep -q ' {state}' {SYSFS}/{device}/ports/1/state", timeout=30 * host.release.slow)


def gids(host, device):
    """Return the GIDs of a device: {index: (gid, netdev)}."""
    text = host.run(
        f"cd {SYSFS}/{device}/ports/1 && for g in gids/*; do i=${{g#*/}}; read -r gid <$g || continue; "
        "[ $gid != 0000:0000:0000:0000:0000:0000:0000:0000 ] || continue; "
        "read -r dev 2>/dev/null <gid_attrs/ndevs/$i && "
        "read -r type 2>/dev/null <gid_attrs/types/$i || continue; echo $i $gid $dev $type; done; true",
        check=True).stdout
    found = {}
    for line in text.splitlines():
        index, gid, netdev, kind = line.split(" ", 3)
        if kind != "RoCE v2":
            raise AssertionError(f"{device}: GID {index} is of type {kind}")
        found[int(index)] = (gid, netdev)
    return found


def counters(host, device="rxe0"):
    """Return the counters of a device."""
    found = json.loads(host.run(["rdma", "-j", "statistic", "show", "link", f"{device}/1"],
                                check=True).stdout)
    return {name: value for name, value in found[0].items() if name not in ("ifname", "port")}


class Watch:
    """The asynchronous events of a device, as ``ibv_asyncwatch`` tells them."""

    def __init__(self, host, device):
        self.host = host
        self.command = host.spawn(["stdbuf", "-oL", "ibv_asyncwatch", "-d", device])
        self.command.wait_output("async event FD", 30 * host.release.slow)

    def names(self):
        """Return the events so far, without "IBV_EVENT_"."""
        return re.findall(r"event_type (?:IBV_EVENT_)?([A-Z_]+)", self.command.output)

    def wait(self, name, count=1):
        """Wait until an event came so many times."""
        self.command.wait_output(rf"(?:event_type (?:IBV_EVENT_)?{name}\b[\s\S]*?){{{count}}}",
                                 30 * self.host.release.slow)

    def end(self):
        """Stop it; return all events."""
        self.command.kill()
        self.command.wait(30 * self.host.release.slow)
        return self.names()


def wait_listen(host, netns=None):
    """Wait until a program of a namespace listens by the connection manager."""
    host.wait_for([*inside(netns), "sh", "-c", "rdma resource show cm_id | grep -q LISTEN"],
                  timeout=30 * host.release.slow)


def mark_log(host):
    """Return the place where the kernel's log ends now."""
    return int(host.run("dmesg | grep -vc 'rxe-vm: mark'").stdout)


def new_log(host, mark):
    """Return what the kernel logged since ``mark_log()``, of any level, without the test-bed's marks."""
    return host.run(f"dmesg | grep -v 'rxe-vm: mark' | tail -n +{mark + 1}", check=True).stdout.splitlines()
