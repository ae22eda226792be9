# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Root file systems: made once with mmdebstrap, kept as a folder and as a squashfs image.

The folder (``Image.root``) is where modules and tests are compiled, in a chroot; the
image (``Image.squashfs``) is what guests boot from, under an overlay.
"""

import hashlib
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import tarfile

from . import archive, paths
from .errors import UsageError
from .progress import run_logged, say, step
from .release import RELEASES

# Raise it when the way a root is made changes, so that the cached ones are made anew.
FORMAT = 1

PACKAGES = """
    udev kmod procps iproute2 ethtool iputils-ping less psmisc strace
    tcpdump tshark iperf3 socat nftables nvme-cli ndctl open-iscsi nfs-kernel-server
    rdma-core ibverbs-utils rdmacm-utils infiniband-diags perftest
    ibverbs-providers libibverbs-dev librdmacm-dev libibumad-dev
    python3 python3-pyverbs python3-scapy libfabric-bin ucx-utils
    openmpi-bin libopenmpi-dev openssh-server
    gcc libc6-dev make sparse bc bison flex libelf-dev libssl-dev cpio xz-utils
""".split()

RDMA_TESTS = "usr/share/rdma-core-tests"


class Image:
    """The root of one release with a list of packages."""

    def __init__(self, release, extra=()):
        self.release = release.root
        self.extra = tuple(sorted(set(extra)))
        recipe = [FORMAT, self.release.debian, self.release.suite, self.release.linux,
                  sorted(PACKAGES), self.extra]
        key = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]
        self.folder = paths.cache() / "roots" / f"{self.release.name}-{key}"
        self.root = self.folder / "root"
        self.squashfs = self.folder / "root.squashfs"
        self._facts = None

    @property
    def facts(self):
        """What was found while it was made: kernel, rdma_core, source versions."""
        if self._facts is None:
            self._facts = json.loads((self.folder / "facts.json").read_text())
        return self._facts

    @property
    def kernel(self):
        """``uname -r`` of the packaged kernel."""
        return self.facts["kernel"]

    @property
    def vmlinuz(self):
        """The packaged kernel's image."""
        return self.root / "boot" / f"vmlinuz-{self.kernel}"

    def there(self):
        """Say whether it is made."""
        return (self.folder / "facts.json").exists()

    def ensure(self):
        """Make it unless it is there; return self."""
        if self.there():
            return self
        name = self.folder.name
        with paths.locked(name, lambda: say(f"waiting for another rxe-vm that makes {name}")):
            if not self.there():
                self._make()
        if not self.extra:
            _point(self.folder.parent / self.release.name, name)
        return self

    def _make(self):
        if os.geteuid():
            raise UsageError("making a root image needs root; run rxe-vm as root")
        for tool, package in (("mmdebstrap", "mmdebstrap"), ("mksquashfs", "squashfs-tools")):
            if not shutil.which(tool):
                raise UsageError(f"{tool} is missing: apt-get install {package}, or 'make deps'")
        paths.need_room(paths.cache(), 8, f"the {self.release.name} root")
        temporary = self.folder.with_name("tmp." + self.folder.name)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        log = paths.cache() / "logs" / f"{self.folder.name}.log"
        log.unlink(missing_ok=True)

        index = archive.Index(self.release)
        with step(f"{self.release.name}: reading the archive's index"):
            index.update()
            kernel = index.newest_kernel()
            missing = index.unknown(self.extra)
        if missing:
            raise UsageError(f"Debian {self.release.debian} has no package {' '.join(missing)}")
        with step(f"{self.release.name}: installing Debian {self.release.debian} "
                  f"with Linux {kernel}"):
            self._bootstrap(temporary / "root", kernel, log)
        facts = {"kernel": kernel,
                 "kernel_version": _installed(temporary / "root", f"linux-image-{kernel}"),
                 "rdma_core": _installed(temporary / "root", "rdma-core"),
                 "gcc": _installed(temporary / "root", "gcc")}
        with step(f"{self.release.name}: adding the tests of rdma-core"):
            facts["rdma_tests"] = _add_rdma_tests(self.release, facts["rdma_core"], temporary)
        with step(f"{self.release.name}: packing the image"):
            squash(temporary / "root", temporary / "root.squashfs", log)
        (temporary / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
        shutil.rmtree(self.folder, ignore_errors=True)
        temporary.rename(self.folder)

    def _bootstrap(self, root, kernel, log):
        suite = self.release.kernel_suite
        pin = f"/{suite}" if suite else ""
        packages = PACKAGES + list(self.extra) + [
            f"{p}{pin}" for p in ("linux-base", f"linux-image-{kernel}", f"linux-headers-{kernel}")]
        sources = root.parent / "sources.list"
        sources.write_text("\n".join(archive.sources(self.release)) + "\n")
        hooks = [
            # Nobody boots this kernel with an initramfs of its own.
            'mkdir -p "$1/etc/kernel/postinst.d" "$1/etc/dpkg/dpkg.cfg.d"',
            'printf "path-exclude=/usr/share/man/*\\npath-exclude=/usr/share/locale/*\\n'
            'path-exclude=/usr/share/doc/*\\n" > "$1/etc/dpkg/dpkg.cfg.d/lean"',
        ]
        command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--architectures=amd64",
                   "--include=" + ",".join(packages),
                   *[f"--setup-hook={h}" for h in hooks],
                   self.release.debian, str(root), str(sources)]
        environment = dict(os.environ, INITRD="No", DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8")
        if run_logged(command, log, env=environment):
            raise UsageError(f"mmdebstrap failed: {_complaint(log)} (all of it in {log})")


def squash(root, image, log):
    """Pack a folder; /proc, /sys and /boot stay as empty folders."""
    command = ["mksquashfs", str(root), str(image), "-comp", "zstd", "-Xcompression-level", "1",
               "-noappend", "-no-progress", "-wildcards", "-e", "proc/*", "sys/*", "boot/*",
               "dev/*", "var/cache/apt/*", "var/lib/apt/lists/*"]
    if run_logged(command, log):
        raise UsageError(f"mksquashfs failed: {_complaint(log)} (all of it in {log})")


def _installed(root, package):
    """Return the version of a package in a root."""
    done = subprocess.run(["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-f", "${Version}",
                           "-W", package], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def _add_rdma_tests(release, version, folder):
    """Put the tests from rdma-core's source package into a root; return their version.

    The archive may lack the sources of an old release: then a newer release's tests are
    taken, and whoever runs them has to expect failing imports. None: there are none at all.
    """
    others = [r for r in RELEASES.values() if r.root is r and r.debian != release.debian]
    for candidate in [release, *reversed(others)]:
        index = archive.Index(candidate)
        index.update()
        if candidate is not release:
            version = index.version("rdma-core")
        tarball = index.upstream_tarball("rdma-core", version, folder / "source")
        if tarball and _extract_tests(tarball, folder / "root" / RDMA_TESTS):
            shutil.rmtree(folder / "source")
            return version
        say(f"{release.name}: the archive does not have the source of rdma-core {version}")
    shutil.rmtree(folder / "source")
    return None


def _extract_tests(tarball, target):
    """Extract tests/ of an rdma-core source tarball; say whether there was one."""
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(tarball) as tar:
        for member in tar:
            _, _, name = member.name.partition("/")
            if member.isfile() and name.startswith("tests/"):
                path = target / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(tar.extractfile(member).read())
    return (target / "tests").is_dir()


def _complaint(log):
    """Return the line of a log that says best what went wrong."""
    lines = pathlib.Path(log).read_text(errors="replace").splitlines()
    bad = [line for line in lines if line.startswith(("E:", "FATAL", "Err:"))]
    return (bad or lines or ["no word"])[0]


def _point(link, name):
    """Make a symbolic link point to name, atomically."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.symlink_to(name)
    temporary.replace(link)


def unpack_module(path):
    """Return the bytes of a kernel module, decompressed."""
    data = pathlib.Path(path).read_bytes()
    if str(path).endswith(".xz"):
        return lzma.decompress(data)
    if str(path).endswith(".zst"):
        return subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE,
                              check=True).stdout
    return data
