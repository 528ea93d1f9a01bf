"""What each word of the ``labkit`` command does. Heavy modules are imported where they are used: help comes at once."""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING

from labkit.cli.output import print_json, table, tell

if TYPE_CHECKING:
    from labkit.demo import DemoResult

__all__ = ["analyse", "bench", "clean", "demo", "doctor", "labs", "progress_export", "sandbox", "shell", "xsk"]


def doctor(arguments: argparse.Namespace) -> int:
    """``labkit doctor``: 0 where nothing needed is missing, else 1."""
    from labkit.doctor import doctor

    report = doctor(strict=False)
    if arguments.json:
        print_json(report.as_dict())
    else:
        print(report)
    return 0 if report.ok else 1


def demo(arguments: argparse.Namespace) -> int:
    """``labkit demo LESSON``: 0 where every packet is accounted for, else 1."""
    from labkit.demo import run_demo

    return _told(run_demo(arguments.lesson, packets=arguments.packets), arguments.json)


def xsk(arguments: argparse.Namespace) -> int:
    """``labkit xsk drop|forward|send``: 0 where every packet is accounted for, else 1."""
    from labkit.demo.xsk import APPLICATIONS

    return _told(APPLICATIONS[arguments.application](arguments.packets), arguments.json)


def _told(result: DemoResult, as_json: bool) -> int:
    if as_json:
        print_json(result.as_dict())
    else:
        print(result)
    return 0 if result.ledger.unaccounted == 0 else 1


def bench(arguments: argparse.Namespace) -> int:
    """``labkit bench [NAME…]``."""
    from labkit.bench import run_benchmarks

    results = run_benchmarks(arguments.names, runs=arguments.runs, progress=tell)
    if arguments.json:
        print_json({name: result.as_dict() for name, result in results.items()})
    else:
        print("\n\n".join(f"{name}: {result}" for name, result in results.items()))
    return 0


def analyse(arguments: argparse.Namespace) -> int:
    """``labkit analyse FILE``: 0 for every answer; what can't be analysed is an error."""
    from labkit.analysis import analyse

    reports = analyse(arguments.file, arguments.function)
    if arguments.json:
        print_json({"file": arguments.file, "programs": [report.as_dict() for report in reports]})
    else:
        print(reports)
    return 0


def clean(arguments: argparse.Namespace) -> int:
    """``labkit clean``: by the registry, never by name."""
    from labkit import registry

    done = registry.clean()
    if arguments.json:
        print_json({"done": done})
    else:
        print("\n".join(done) or "Nothing to clean: no lab has left anything.")
    return 0


def labs(arguments: argparse.Namespace) -> int:
    """``labkit labs``: labs of this machine's registry, and how to enter each host."""
    from labkit.cli.places import all_labs

    found = all_labs()
    if arguments.json:
        print_json({"labs": [lab.as_dict() for lab in found]})
        return 0
    if not found:
        print("No lab is up.")
        return 0
    rows = [(lab.name, str(lab.pid), host, command) for lab in found for host, command in lab.hosts.items()]
    print(table(("LAB", "PROCESS", "HOST", "SHELL IN IT"), rows))
    if any(not lab.alive for lab in found):
        print("\nLabs marked “gone” belong to processes that ended; `labkit clean` removes their records.")
    return 0


def shell(arguments: argparse.Namespace) -> int:
    """``labkit shell LAB HOST [CMD…]``: the exit status is the command's."""
    from labkit.cli.places import enter

    return enter(arguments.lab, arguments.host, arguments.words)


def sandbox(arguments: argparse.Namespace) -> int:
    """``labkit sandbox [-- CMD…]``: the exit status is the command's."""
    from labkit.sandbox.run import listen, run

    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    listener = None
    if arguments.listen is not None:
        port, more = arguments.listen
        listener = listen(port, exactly=not more)
    return run(
        words, user=arguments.user, tracing=not arguments.without_tracing, listener=listener, browse=arguments.browse
    )


def progress_export(arguments: argparse.Namespace) -> int:
    """``labkit progress export``: always JSON, as there is nothing else to export to."""
    from labkit.lesson.progress import progress

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        print_json(progress().as_dict())
    for warning in told:
        tell(f"labkit: {warning.message}")
    return 0
