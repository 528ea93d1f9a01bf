"""The ``labkit`` command: doctor, demo, bench, analyse, labs, shell, clean, progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from labkit.cli.output import error_object, print_json, usage_object
from labkit.cli.parser import UsageError, build_parser
from labkit.errors import LabError

__all__ = ["main"]

_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_NOBODY_READS = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 1 failed, 2 used wrongly, 130 interrupted.

    With ``--json`` standard output gets exactly one JSON object, whatever happens; words go to standard error.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run(words, "--json" in words)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read our output is gone. Python flushes once more at exit: give it somewhere to flush to.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return _NOBODY_READS


def _run(words: list[str], json: bool) -> int:
    try:
        arguments = build_parser().parse_args(words)
        status: int = arguments.command(arguments)
        return status
    except UsageError as error:
        print(error, file=sys.stderr)
        if json:
            print_json(usage_object(error))
        return 2
    except LabError as error:
        print(f"labkit: {error}", file=sys.stderr)
        if json:
            print_json(error_object(error))
        return 1
    except KeyboardInterrupt:
        print("labkit: interrupted; everything it made is gone", file=sys.stderr)
        if json:
            print_json({"error": {"type": "KeyboardInterrupt", "message": "interrupted"}})
        return _INTERRUPTED
    except SystemExit as end:  # argparse has printed its help
        return int(end.code or 0)
