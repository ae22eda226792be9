# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian's archive: the mirrors that this machine uses, and what they offer for a release."""

import functools
import re
import subprocess

from . import paths
from .errors import UsageError

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def _targets():
    """Yield (address, suite) of each binary index that this machine's apt knows."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    for line in done.stdout.splitlines():
        address, _, suite = line.partition(" ")
        yield address.rstrip("/"), suite


@functools.lru_cache(maxsize=None)
def mirrors():
    """Return (main mirror, security mirror or None), taken from apt's configuration."""
    main = security = None
    for address, suite in _targets():
        if suite.endswith("-security"):
            security = security or address
        elif address.endswith("/debian"):
            main = main or address
    if not main:
        raise UsageError("apt knows no Debian mirror here: rxe-vm takes the mirror from "
                         "/etc/apt/sources.list*, which must name one whose path ends in /debian")
    return main, security


def sources(release):
    """Return the lines of sources.list for a release's root."""
    main, security = mirrors()
    suites = [(main, release.debian), (main, release.debian + "-updates")]
    if security:
        suites.append((security, release.debian + "-security"))
    if release.kernel_suite:
        suites.append((main, release.kernel_suite))
    return [f"{kind} [signed-by={KEYRING}] {address} {suite} main"
            for address, suite in suites for kind in ("deb", "deb-src")]


class Index:
    """apt's view of a release's archive, in a folder of its own."""

    def __init__(self, release):
        self.release = release
        self.folder = paths.cache() / "apt" / (release.kernel_suite or release.debian)
        self.options = []

    def update(self):
        """Fetch the lists."""
        for sub in ("etc/preferences.d", "etc/apt.conf.d", "state/lists/partial",
                    "cache/archives/partial"):
            (self.folder / sub).mkdir(parents=True, exist_ok=True)
        (self.folder / "etc/sources.list").write_text("\n".join(sources(self.release)) + "\n")
        (self.folder / "status").write_text("")
        self.options = []
        for key, value in (("Dir::Etc::sourcelist", "etc/sources.list"),
                           ("Dir::Etc::sourceparts", "/dev/null"),
                           ("Dir::Etc::preferencesparts", "etc/preferences.d"),
                           ("Dir::State", "state"), ("Dir::State::status", "status"),
                           ("Dir::Cache", "cache")):
            value = value if value.startswith("/") else str(self.folder / value)
            self.options += ["-o", f"{key}={value}"]
        self.options += ["-o", "APT::Architecture=amd64", "-o", "APT::Architectures=amd64",
                         "-o", "APT::Sandbox::User=root"]
        done = subprocess.run(["apt-get", "update", "-q", *self.options],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if done.returncode or "\nErr:" in done.stdout:
            raise UsageError(f"cannot read the archive's index for {self.release.name}: "
                             + (done.stdout.strip().splitlines() or ["no word from apt-get"])[-1])

    def _ask(self, *words):
        done = subprocess.run(["apt-cache", *self.options, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        return done.stdout

    def newest_kernel(self):
        """Return the newest ``uname -r`` of the release's series."""
        pattern = re.compile(r"linux-image-(" + self.release.kernel_pattern() + r")")
        found = [m.group(1) for m in map(pattern.fullmatch, self._ask("pkgnames").split()) if m]
        for version in sorted(found, key=_version_key, reverse=True):
            if self.version(f"linux-headers-{version}"):
                return version
        raise UsageError(f"the archive has no Linux {self.release.linux} kernel "
                         f"in {self.release.suite}")

    def versions(self, package):
        """Return the versions of a package that the archive offers, newest first."""
        fields = [[f.strip() for f in line.split("|")]
                  for line in self._ask("madison", package).splitlines()]
        return [f[1] for f in fields if len(f) == 3 and not f[2].endswith("Sources")]

    def version(self, package):
        """Return the newest version of a package, or None."""
        return next(iter(self.versions(package)), None)

    def unknown(self, packages):
        """Return those of the packages that the release does not have."""
        known = set(self._ask("pkgnames").split())
        return [p for p in packages if p.split("=")[0].split("/")[0] not in known]

    def download(self, package, version, folder):
        """Fetch one binary package into a folder and return its path."""
        self._fetch(["download", f"{package}={version}"], folder)
        return next(folder.glob(f"{package}_*.deb"))

    def upstream_tarball(self, package, version, folder):
        """Fetch a source package's upstream tarball; return its path, or None.

        apt checks each file against the signed index, so one file of a source package is
        good even where the archive lacks another one.
        """
        try:
            self._fetch(["source", "--download-only", f"{package}={version}"], folder)
        except UsageError:
            pass
        return next(folder.glob(f"{package}_*.orig.tar.*"), None)

    def _fetch(self, words, folder):
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["apt-get", "-q", *self.options, *words], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if done.returncode:
            last = (done.stdout.strip().splitlines() or ["no word from apt-get"])[-1]
            raise UsageError(f"cannot fetch {words[-1]} for {self.release.name}: {last}")


def _version_key(version):
    """Order versions numerically, field by field."""
    return [int(n) for n in re.findall(r"\d+", version)]
