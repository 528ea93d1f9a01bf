"""A pair lab with a small counting program for each verdict."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import labkit as lk

VERDICT_SOURCE = """\
#include <uapi/linux/bpf.h>
#include "common/verdict.h"

int aborted(struct xdp_md *ctx) { return verdict(ctx, XDP_ABORTED); }
int drop(struct xdp_md *ctx) { return verdict(ctx, XDP_DROP); }
int pass(struct xdp_md *ctx) { return verdict(ctx, XDP_PASS); }
int tx(struct xdp_md *ctx) { return verdict(ctx, XDP_TX); }
int strange(struct xdp_md *ctx) { return verdict(ctx, 42); }
int silent_drop(struct xdp_md *ctx) { return XDP_DROP; }
"""


@pytest.fixture(scope="session")
def verdicts() -> lk.ProgramSpec:
    """One function for each verdict, each counting, and ``silent_drop``, which keeps no count."""
    return lk.compile(text=VERDICT_SOURCE)


@pytest.fixture
def lab() -> Iterator[lk.Lab]:
    """client ── server."""
    with lk.Lab(lk.Topology.pair(), name="test") as made:
        yield made
