"""The words of the ``labkit`` command."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from labkit.bench.registry import BENCHMARKS, DEFAULT_RUNS
from labkit.cli import commands
from labkit.demo.registry import DEMOS, MOST_PACKETS

__all__ = ["UsageError", "build_parser"]

_XSK_PACKETS = 300_007


class UsageError(Exception):
    """The command was used wrongly; the text says how it is used."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"labkit: {message}\n{self.format_usage().rstrip()}\n(more: {self.prog} --help)")


def build_parser() -> argparse.ArgumentParser:
    """The parser; ``arguments.command(arguments)`` runs what was asked for and returns an exit status."""
    parser = _Parser(prog="labkit", description="XDP Lab: real XDP programs, real packets, every one accounted for.")

    def no_word(_: argparse.Namespace) -> int:
        parser.print_help()
        return 2

    parser.set_defaults(command=no_word)
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    json = _Parser(add_help=False)
    json.add_argument("--json", action="store_true", help="print one JSON object and nothing else")

    verb = verbs.add_parser("doctor", parents=[json], help="what this machine has of what the lab needs")
    verb.set_defaults(command=commands.doctor)

    names = "\n".join(f"  {demo.name:<12} {demo.summary}" for demo in DEMOS.values())
    verb = verbs.add_parser(
        "demo",
        parents=[json],
        help="run a lesson's heart once and print where every packet went",
        epilog=f"demos:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("lesson", type=_demo, metavar="LESSON", help=", ".join(DEMOS))
    verb.add_argument("--packets", type=_whole("packets", MOST_PACKETS), metavar="N", help="how many packets to send")
    verb.set_defaults(command=commands.demo)

    verb = verbs.add_parser(
        "xsk", parents=[json], help="take packets into a program by AF_XDP, forward or send them, and print the ledger"
    )
    verb.add_argument("application", choices=("drop", "forward", "send"), metavar="WHAT", help="drop, forward or send")
    verb.add_argument(
        "--packets",
        type=_whole("packets", MOST_PACKETS),
        default=_XSK_PACKETS,
        metavar="N",
        help=f"how many packets to send (default: {_XSK_PACKETS:,})",
    )
    verb.set_defaults(command=commands.xsk)

    names = "\n".join(f"  {bench.name:<12} {bench.summary}" for bench in BENCHMARKS.values())
    verb = verbs.add_parser(
        "bench",
        parents=[json],
        help="measure the lab against the usual tools, side by side",
        epilog=f"benchmarks (default: all):\n{names}\n\nA ratio is how many times better the lab is than the baseline.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("names", nargs="*", type=_benchmark, metavar="NAME", help=", ".join(BENCHMARKS))
    verb.add_argument(
        "--runs",
        type=_whole("runs", 1000),
        default=DEFAULT_RUNS,
        metavar="N",
        help=f"paired runs of each, of which the median is told (default: {DEFAULT_RUNS})",
    )
    verb.set_defaults(command=commands.bench)

    verb = verbs.add_parser(
        "analyse", parents=[json], help="tell of each bpf_redirect_map of a program whether it is a tail call"
    )
    verb.add_argument("file", metavar="FILE", help="a C file as the lessons have them, or an object file of clang's")
    verb.add_argument("--function", metavar="NAME", help="look at this one alone (default: every program in the file)")
    verb.set_defaults(command=commands.analyse)

    verb = verbs.add_parser("labs", parents=[json], help="list the labs of this machine and how to enter their hosts")
    verb.set_defaults(command=commands.labs)

    verb = verbs.add_parser("shell", help="open a shell, or run a command, in a host of a lab")
    verb.add_argument("lab", metavar="LAB", help="name of a lab, as `labkit labs` shows it (or NAME.PROCESS)")
    verb.add_argument("host", metavar="HOST", help="name of one of its hosts")
    verb.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD", help="command and arguments (default: a shell)")
    verb.set_defaults(command=commands.shell)

    verb = verbs.add_parser(
        "sandbox", help="run a command (default: a shell) as a user without root, in a lab of its own"
    )
    verb.add_argument("--user", metavar="U", help="as whom (for root only; default: who called sudo, else nobody)")
    verb.add_argument(
        "--without-tracing", action="store_true", help="withhold programs on tracepoints, which see the whole machine"
    )
    verb.add_argument(
        "--listen",
        type=_port,
        metavar="PORT[+]",
        help="give CMD, as descriptor 3, a socket at 127.0.0.1:PORT of the machine (+: or the next free port)",
    )
    verb.add_argument("--browse", default="", metavar="PAGE", help="open this page there once CMD answers")
    verb.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD", help="command and arguments, after --")
    verb.set_defaults(command=commands.sandbox)

    verb = verbs.add_parser("clean", parents=[json], help="remove what labs of killed processes left")
    verb.set_defaults(command=commands.clean)

    verb = verbs.add_parser("progress", help="what you predicted, measured and solved")
    what = verb.add_subparsers(metavar="export", required=True, parser_class=_Parser)
    export = what.add_parser("export", parents=[json], help="print it as one JSON object")
    export.set_defaults(command=commands.progress_export)
    return parser


def _demo(text: str) -> str:
    if text not in DEMOS:
        raise argparse.ArgumentTypeError(f"there is no demo {text!r}; the demos are: {', '.join(DEMOS)}")
    return text


def _benchmark(text: str) -> str:
    if text not in BENCHMARKS:
        raise argparse.ArgumentTypeError(f"there is no benchmark {text!r}; the benchmarks are: {', '.join(BENCHMARKS)}")
    return text


def _port(text: str) -> tuple[int, bool]:
    """The port, and whether a later one will do."""
    number = _whole("the port", 65535)(text.removesuffix("+"))
    return number, text.endswith("+")


def _whole(what: str, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = 0
        if not 1 <= number <= most:
            raise argparse.ArgumentTypeError(f"{what} must be a whole number from 1 to {most:,}, not {text}")
        return number

    return read
