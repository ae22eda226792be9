# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The command line of rxe-vm."""

import argparse
import sys

from . import chroot, progress, release
from .errors import Error, UsageError
from .image import Image


def _words(arguments, what):
    """Return the command after ``--``."""
    words = arguments.command
    if words and words[0] == "--":
        words = words[1:]
    if not words:
        raise UsageError(f"no command given: rxe-vm {what} ... -- COMMAND [ARGUMENT...]")
    return words


def do_prepare(arguments):
    for name in arguments.release or release.RELEASES:
        Image(release.find(name), arguments.package).ensure()
    return 0


def do_releases(_arguments):
    for each in release.RELEASES.values():
        print(f"{each.name:10} {each.title}")
    return 0


def do_chroot(arguments):
    which = release.find(arguments.release)
    words = _words(arguments, "chroot RELEASE")
    image = Image(which, arguments.package).ensure()
    return chroot.run(image.root, words, extra={"KERNEL": image.kernel, "KDIR": f"/lib/modules/{image.kernel}/build"})


def parser():
    """Return the argument parser."""
    top = argparse.ArgumentParser(prog="rxe-vm", description=__doc__)
    sub = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    one = sub.add_parser("prepare", help="make what releases need, so that nothing has to be fetched later")
    one.add_argument("release", nargs="*")
    one.add_argument("--package", action="append", default=[])
    one.set_defaults(do=do_prepare)

    one = sub.add_parser("releases", help="list the releases")
    one.set_defaults(do=do_releases)

    one = sub.add_parser("chroot", help="run a command inside a release's root, for compiling")
    one.add_argument("release")
    one.add_argument("--package", action="append", default=[])
    one.add_argument("command", nargs=argparse.REMAINDER)
    one.set_defaults(do=do_chroot)
    return top


def main(argv=None):
    """Entry point; return the exit status."""
    try:
        arguments = parser().parse_args(argv)
        return arguments.do(arguments)
    except Error as problem:
        print(f"rxe-vm: {problem}", file=sys.stderr)
        return problem.status
