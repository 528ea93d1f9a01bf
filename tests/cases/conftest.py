"""Labs and small programs for the cases that people reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import labkit as lk

VERDICTS = """\
#include "common/verdict.h"

int aborted(struct xdp_md *ctx) { return verdict(ctx, XDP_ABORTED); }
int drop(struct xdp_md *ctx) { return verdict(ctx, XDP_DROP); }
int pass(struct xdp_md *ctx) { return verdict(ctx, XDP_PASS); }
int tx(struct xdp_md *ctx) { return verdict(ctx, XDP_TX); }
int strange(struct xdp_md *ctx) { return verdict(ctx, 42); }
"""


@pytest.fixture(scope="session")
def verdicts() -> lk.ProgramSpec:
    """One function for each verdict, each counting."""
    return lk.compile(text=VERDICTS)


@pytest.fixture
def lab() -> Iterator[lk.Lab]:
    """client ── server."""
    with lk.Lab(lk.Topology.pair(), name="case") as made:
        yield made


@pytest.fixture
def router() -> Iterator[lk.Lab]:
    """client ── router ── server."""
    with lk.Lab(lk.Topology.router(), name="case") as made:
        yield made


@pytest.fixture
def gained() -> Callable[[Callable[[], dict[str, int]]], Callable[[], dict[str, int]]]:
    """``change = gained(counters)`` now; ``change()`` later gives what each counter gained."""

    def start(read: Callable[[], dict[str, int]]) -> Callable[[], dict[str, int]]:
        before = read()

        def change() -> dict[str, int]:
            return {name: value - before.get(name, 0) for name, value in read().items() if value != before.get(name)}

        return change

    return start
