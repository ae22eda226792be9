# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Run commands on virtual hosts with a Linux kernel of choice, joined by one Ethernet segment.

A command is given after '--': words, or one word with blanks for the guest's shell. Exit status:
the command's; 124 when it ran out of time; 125 when a host failed or its kernel reported
something; 127 when the command is not there; 2 for bad use.
"""

import argparse
import os
import signal
import sys

from . import chroot, cluster, control, kernel, progress, release, terminal
from .errors import Error, UsageError
from .image import Image


class Stopped(BaseException):
    """SIGTERM or SIGHUP arrived; ends everything as Ctrl-C does."""


def _words(arguments, usage):
    """Return the command after ``--``; one word with blanks is a shell's line."""
    words = arguments.command
    if not words:
        raise UsageError(f"no command given: rxe-vm {usage} -- COMMAND [ARGUMENT...]")
    if len(words) == 1 and any(c.isspace() for c in words[0].strip()):
        words = ["sh", "-c", words[0]]
    return words


def _releases(text):
    """Return the releases of a comma-separated list."""
    names = [name for name in text.split(",") if name]
    for name in names:
        release.find(name)
    return names or [release.DEFAULT]


def _shares(wishes):
    """Return (folder, path in the guest) of each DIR[:PATH]."""
    for wish in wishes:
        folder, _, where = wish.partition(":")
        yield folder, where or "/" + os.path.basename(os.path.abspath(folder))


def _cluster(arguments, name=None):
    """Return the cluster, not started, that the options ask for."""
    made = cluster.Cluster(
        _releases(arguments.release), arguments.hosts, name=name, cpus=arguments.cpus,
        memory=arguments.memory, mtu=arguments.mtu, shares=list(_shares(arguments.share)),
        packages=arguments.package, allow=arguments.allow, capture=arguments.capture,
        arguments=arguments.kernel_arguments, pmem=arguments.pmem)
    on = getattr(arguments, "on", 1)
    if not 1 <= on <= len(made.releases):
        raise UsageError(f"no host {on}: there are hosts 1 to {len(made.releases)}; see --hosts")
    return made


def do_prepare(arguments):
    for name in arguments.release or release.RELEASES:
        each = release.find(name)
        image = Image(each, arguments.package).ensure()
        its_kernel = kernel.of(each, image)
        progress.say(f"{each.name} is ready: Linux {its_kernel.version}, "
                     f"rdma-core {image.facts['rdma_core']}")
    return 0


def do_releases(_arguments):
    for each in release.RELEASES.values():
        made = "prepared" if kernel.there(each, Image(each)) else "not prepared"
        print(f"{each.name:10} {each.title} ({made})")
    return 0


def do_chroot(arguments):
    which = release.find(arguments.release)
    words = _words(arguments, "chroot RELEASE")
    image = Image(which, arguments.package).ensure()
    its_kernel = kernel.of(which, image)
    return chroot.run(image.root, words, its_kernel.mounts,
                      {"KERNEL": its_kernel.version, "KDIR": its_kernel.build})


def do_run(arguments):
    words = _words(arguments, "run")
    with _cluster(arguments) as hosts:
        host = hosts.host(arguments.on)
        command = host.spawn(words, stdin=arguments.stdin)
        if arguments.stdin:
            terminal.feed_from_thread(command)
        for kind, data in command.events(arguments.timeout):
            terminal.show(kind, data)
        result = command.wait()
        if result.error:
            progress.complain(result.error)
    return result.status


def do_shell(arguments):
    words = ["bash", "-l"]
    if arguments.command:
        words = _words(arguments, "shell")
    with _cluster(arguments) as hosts:
        return terminal.shell(hosts.host(arguments.on), words)


def do_up(arguments):
    return control.up(arguments.name, _cluster(arguments, arguments.name))


def do_exec(arguments):
    words = ["bash", "-l"] if arguments.tty and not arguments.command else \
        _words(arguments, "exec NAME HOST")
    return control.execute(arguments.name, {
        "verb": "exec", "host": arguments.host, "argv": words, "timeout": arguments.timeout,
        "stdin": arguments.stdin, "background": arguments.background, "pty": arguments.tty})


def do_wait(arguments):
    return control.execute(arguments.name, {"verb": "wait", "job": arguments.job,
                                            "timeout": arguments.timeout})


def do_kill(arguments):
    return control.execute(arguments.name, {"verb": "kill", "job": arguments.job})


def do_check(arguments):
    return control.execute(arguments.name, {"verb": "check", "leaks": arguments.leaks})


def do_down(arguments):
    return control.down(arguments.name)


def do_list(_arguments):
    for line in control.running():
        print(line)
    return 0


COMMAND_HELP = "The command follows after '--'."


def _add_options(one):
    one.add_argument("--hosts", type=int, metavar="N", help="1 to 4 hosts (default: as many as releases)")
    one.add_argument("--release", default=release.DEFAULT, metavar="R[,R...]",
                     help=f"one for each host (default: {release.DEFAULT}); see 'rxe-vm releases'")
    one.add_argument("--cpus", type=int, default=2, metavar="N", help="per host (default: 2)")
    one.add_argument("--memory", default="3G", metavar="SIZE", help="per host (default: 3G)")
    one.add_argument("--pmem", metavar="SIZE", help="persistent memory per host, as an NVDIMM (default: none)")
    one.add_argument("--mtu", type=int, default=1500, metavar="BYTES", help="of eth0 (default: 1500)")
    one.add_argument("--share", action="append", default=[], metavar="DIR[:PATH]",
                     help="share a folder with the hosts, there at PATH (default: /NAME)")
    one.add_argument("--package", action="append", default=[], metavar="NAME",
                     help="a further Debian package for the image (makes another image)")
    one.add_argument("--allow", metavar="REGEX", help="kernel reports that do not count")
    one.add_argument("--capture", metavar="DIR", help="write each host's packets to DIR/host-N.pcap")
    one.add_argument("--kernel-arguments", default="", metavar="TEXT", help="for the kernels' command line")


def _add_run_options(one):
    one.add_argument("--timeout", type=float, metavar="SECONDS", help="kill the command after so long")
    one.add_argument("--stdin", action="store_true", help="pass standard input on to the command")


def parser():
    """Return the argument parser."""
    top = argparse.ArgumentParser(prog="rxe-vm", description=__doc__,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--quiet", "-q", action="store_true", help="say nothing about progress")
    sub = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name, do, text):
        one = sub.add_parser(name, help=text, description=text)
        one.set_defaults(do=do)
        return one

    one = verb("run", do_run, "boot hosts, run a command on one, end all and check the kernels' logs")
    _add_options(one)
    _add_run_options(one)
    one.add_argument("--on", type=int, default=1, metavar="HOST", help="host to run it on (default: 1)")
    one.epilog = COMMAND_HELP

    one = verb("shell", do_shell, "boot hosts and give an interactive shell on one")
    _add_options(one)
    one.add_argument("--on", type=int, default=1, metavar="HOST", help="host of the shell (default: 1)")
    one.epilog = COMMAND_HELP

    one = verb("up", do_up, "boot hosts that stay until 'rxe-vm down NAME'")
    one.add_argument("name")
    _add_options(one)

    one = verb("exec", do_exec, "run a command on a host that is up")
    one.add_argument("name")
    one.add_argument("host", type=int)
    _add_run_options(one)
    one.add_argument("--background", "-b", action="store_true",
                     help="print a job number and return; see 'rxe-vm wait' and 'kill'")
    one.add_argument("--tty", "-t", action="store_true", help="give it a terminal")
    one.epilog = COMMAND_HELP

    one = verb("wait", do_wait, "wait for a job: print its output and exit with its status")
    one.add_argument("name")
    one.add_argument("job", type=int)
    one.add_argument("--timeout", type=float, metavar="SECONDS", help="kill it after so long")

    one = verb("kill", do_kill, "end a job with all that it started")
    one.add_argument("name")
    one.add_argument("job", type=int)

    one = verb("check", do_check, "check the kernels' logs of hosts that are up")
    one.add_argument("name")
    one.add_argument("--leaks", action="store_true", help="let kmemleak search first (debug kernel)")

    one = verb("down", do_down, "end hosts; fails if a kernel reported something")
    one.add_argument("name")

    verb("list", do_list, "list the hosts that are up")
    verb("releases", do_releases, "list the releases that hosts can run")

    one = verb("prepare", do_prepare, "make what releases need (all, if none is named); later no network is needed")
    one.add_argument("release", nargs="*")
    one.add_argument("--package", action="append", default=[], metavar="NAME",
                     help="a further Debian package for the image")

    one = verb("chroot", do_chroot, "run a command in a release's root without booting, to compile; "
               "the repository is at /repo, $KERNEL and $KDIR tell the kernel")
    one.add_argument("release")
    one.add_argument("--package", action="append", default=[], metavar="NAME",
                     help="a further Debian package for the image")
    one.epilog = COMMAND_HELP
    return top


def _stop(number, _frame):
    raise Stopped(number)


def main(argv=None):
    """Entry point; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    at = words.index("--") if "--" in words else len(words)
    arguments = parser().parse_args(words[:at])
    arguments.command = words[at + 1:]
    progress.quiet = arguments.quiet
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        return arguments.do(arguments)
    except Error as problem:
        progress.complain(problem)
        return problem.status
    except KeyboardInterrupt:
        progress.complain("interrupted")
        return 130
    except Stopped as stopped:
        progress.complain("stopped")
        return 128 + stopped.args[0]
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as problem:
        progress.complain(f"{problem.strerror}: {problem.filename}" if problem.filename else problem)
        return 125
