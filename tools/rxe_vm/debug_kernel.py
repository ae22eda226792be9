# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The debug kernel: Debian's source, our configuration, built once in the release's root.

Kept: the image, a squashfs of the modules, and as much of the tree as modules are built against.
"""

import hashlib
import json
import os
import shutil
import subprocess

from . import archive, chroot, initrd, paths
from .errors import UsageError
from .image import Image, squash
from .kernel import Kernel
from .progress import say, step

FORMAT = 1
TREE = "/usr/src/linux-debug"
# ACPI's interpreter never finishes under emulation with all the checkers. KASAN would report
# nothing after its first report.
ARGUMENTS = "acpi=off kasan_multi_shot"

BUILD = rf"""
set -e
cd {TREE}
export KBUILD_BUILD_USER=rxe-vm KBUILD_BUILD_HOST=rxe-vm KBUILD_BUILD_TIMESTAMP="$STAMP"
case $1 in
configure)
	KCONFIG_ALLCONFIG=debug.config make -s allnoconfig
	make -s olddefconfig
	;;
build)
	nice -n 10 make -j"$(nproc)" bzImage modules
	make modules_install INSTALL_MOD_PATH={TREE}/installed INSTALL_MOD_STRIP=1 DEPMOD=/sbin/depmod
	make -s kernelrelease >release.txt
	;;
esac
"""

# What is left of the tree after the build: enough for 'make M=...'.
KEPT_TOPS = {"Kbuild", "Kconfig", "Makefile", ".config", "Module.symvers", "System.map", "vmlinux",
             "modules.order", "modules.builtin", "modules.builtin.modinfo", "arch", "include",
             "scripts", "tools"}


def _folder(release):
    image = Image(release)
    config = paths.KERNEL / release.config
    recipe = [FORMAT, BUILD, image.facts["gcc"], image.facts["kernel_version"], config.read_text()]
    key = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]
    return paths.cache() / "kernels" / f"{release.name}-{key}"


def there(release, _image):
    """Say whether the kernel is built."""
    return (_folder(release) / "facts.json").exists()


def ensure(release, _image):
    """Return the kernel, built if need be. It is built with the plain root's compiler."""
    image = Image(release).ensure()
    folder = _folder(release)
    name = folder.name
    if not (folder / "facts.json").exists():
        with paths.locked(name, lambda: say(f"waiting for another rxe-vm that builds {name}")):
            if not (folder / "facts.json").exists():
                _make(release, image, folder)
    facts = json.loads((folder / "facts.json").read_text())
    its_initrd = folder / "initrd"
    if not its_initrd.exists():
        temporary = folder / f"initrd.{os.getpid()}"
        temporary.write_bytes(initrd.base(None, facts["release"]))
        temporary.replace(its_initrd)
    return Kernel(facts["release"], folder / "vmlinuz", its_initrd, folder / "modules.squashfs",
                  TREE, ((folder / "tree", TREE),), ARGUMENTS)


def _make(release, image, folder):
    paths.need_room(paths.cache(), 8, "building the debug kernel")
    temporary = folder.with_name("tmp." + folder.name)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    tree = temporary / "tree"
    log = paths.cache() / "logs" / f"{folder.name}.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("")

    with step(f"{release.name}: fetching and unpacking the source of Linux {release.linux}"):
        version = _fetch(release, image, temporary)
    (tree / "debug.config").write_bytes((paths.KERNEL / release.config).read_bytes())

    def build(verb):
        with open(log, "ab") as handle:
            status = chroot.run(image.root, ["sh", "-c", BUILD, "sh", verb], [(tree, TREE)],
                                {"STAMP": "Thu Jan  1 00:00:00 UTC 1970"},
                                stdin=subprocess.DEVNULL, stdout=handle, stderr=handle)
        if status:
            bad = [line for line in log.read_text(errors="replace").splitlines() if "rror" in line]
            raise UsageError(f"building the debug kernel failed: {(bad or ['no word'])[0]} "
                             f"(all of it in {log})")

    with step(f"{release.name}: configuring Linux {version}"):
        build("configure")
        check_config(tree)
    with step(f"{release.name}: building Linux {version} (about 10 minutes on two cores)",
              lambda: f"{_compiled(log)} files compiled"):
        build("build")
    kernel_release = (tree / "release.txt").read_text().strip()
    (tree / "arch/x86/boot/bzImage").rename(temporary / "vmlinuz")
    with step(f"{release.name}: packing its modules"):
        modules = tree / "installed/lib/modules" / kernel_release
        for link in ("build", "source"):
            (modules / link).unlink(missing_ok=True)
        squash(modules, temporary / "modules.squashfs", log)
        _prune(tree)
    (temporary / "facts.json").write_text(json.dumps(
        {"release": kernel_release, "source": version}, indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def _compiled(log):
    """Return how many files were compiled so far."""
    with open(log, "rb") as handle:
        return sum(line.startswith((b"  CC ", b"  AS ")) for line in handle)


def _fetch(release, image, folder):
    """Put the source into folder/tree; return its version, the root's kernel's if it can be had."""
    index = archive.Index(release)
    index.update()
    package = f"linux-source-{release.linux}"
    offered = index.versions(package)
    if not offered:
        raise UsageError(f"the archive has no package {package}")
    wish = image.facts["kernel_version"]
    version = wish if wish in offered else offered[0]
    deb = index.download(package, version, folder / "source")
    subprocess.run(["dpkg-deb", "-x", str(deb), str(folder / "source")], check=True)
    tarball = next((folder / "source/usr/src").glob("linux-source-*.tar.xz"))
    (folder / "tree").mkdir()
    subprocess.run(["tar", "-xf", str(tarball), "-C", str(folder / "tree"), "--strip-components=1"],
                   check=True)
    shutil.rmtree(folder / "source")
    return version


def check_config(tree):
    """Raise UsageError unless every line of debug.config is in force."""
    there_now = set((tree / ".config").read_text().splitlines())
    wrong = []
    for line in (tree / "debug.config").read_text().splitlines():
        option, _, value = line.partition("=")
        if not line.startswith("CONFIG_"):
            continue
        if value == "n":
            if any(other.startswith(option + "=") for other in there_now):
                wrong.append(line)
        elif line not in there_now:
            wrong.append(line)
    if wrong:
        raise UsageError(f"the kernel's configuration does not have {', '.join(wrong)}; "
                         "see tools/kernel/debug.config")


def _prune(tree):
    """Remove what modules are not built against."""
    for entry in tree.iterdir():
        if entry.name not in KEPT_TOPS:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for entry in (tree / "arch").iterdir():
        if entry.name not in ("Kconfig", "x86"):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for entry in (tree / "tools").iterdir():
        if entry.name not in ("objtool", "include", "lib", "build", "scripts", "arch", "bpf"):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for top in ("arch", "include", "tools"):
        for suffix in ("*.o", "*.a", "*.cmd"):
            for path in (tree / top).rglob(suffix):
                path.unlink()
