"""Metadata and the ends of a packet: what the helpers refuse, with which errno, and what that means."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import labkit as lk
from labkit.lesson import metadata_adjust as adjust
from labkit.program.classifier import at_tc
from labkit.uapi import AttachType, ProgType

BPF = Path(__file__).resolve().parents[2] / "bpf"
N = 101  # prime

EACCES, EINVAL = f"-{errno.EACCES} EACCES", f"-{errno.EINVAL} EINVAL"
MISALIGNED, NO_ROOM, TOO_SHORT = "not a multiple of 4", "no room in front", "an Ethernet header"


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (
            "meta",  # MD-01, amzn/amzn-drivers#265
            {
                **dict.fromkeys((-1, -2, -3), (EACCES, MISALIGNED)),
                **dict.fromkeys((-4, -8, -32, -128), ("0", "more of metadata")),
                -256: (EINVAL, NO_ROOM),
                4: (EINVAL, "behind the packet's first byte"),
            },
        ),
        (
            "head",  # MD-06, xdp-project/BNG-router#10
            {-192: ("0", "192 bytes longer"), -250: (EINVAL, NO_ROOM), 48: ("0", "shorter"), 60: (EINVAL, TOO_SHORT)},
        ),
    ],
)
def test_md_01_and_06_room_in_front(bound: str, expected: dict[int, tuple[str, str]]) -> None:
    """Native and generic mode answer alike; each answer has its errno and its meaning in words."""
    table = adjust.adjust_answers(bound, tuple(expected))
    for row, (answer, meaning) in zip(table.rows, expected.values(), strict=True):
        assert row[1:4] == (answer,) * 3, row
        assert meaning in str(row[4])


def test_md_06_room_behind() -> None:
    """MD-06, compute-virtual-ethernet-linux#70: a frame keeps 14 bytes of 62; whether it may grow, its memory decides."""
    shrunk, too_much, grown, far = adjust.adjust_answers("tail", (-48, -49, 4, 4096)).rows
    assert shrunk[1:4] == ("0",) * 3
    assert too_much[1:4] == (EINVAL,) * 3
    assert TOO_SHORT in str(too_much[4])
    assert all("0" in str(each) or EINVAL in str(each) for each in grown[1:4])
    assert far[1:4] == (EINVAL,) * 3
    assert far[4] == "no room behind the packet in its buffer"


def test_md_01_252_bytes_are_the_most() -> None:
    """MD-01: with headroom enough, the length itself is the limit, and has another errno."""
    most, more = adjust.adjust_answers("meta", (-252, -256), after=("head", 48)).rows
    assert most[1:4] == ("0",) * 3
    assert more[1:4] == (EACCES,) * 3
    assert "252 bytes" in str(more[4])


@pytest.mark.parametrize(
    ("file", "said", "meaning"),
    [
        ("meta_not_checked", "invalid access to packet", "meta"),
        ("meta_against_data_end", "invalid access to packet", "meta"),
        ("stale_pointer", "invalid mem access 'scalar'", "again"),
    ],
)
def test_md_01_and_06_what_the_verifier_wants(lab: lk.Lab, file: str, said: str, meaning: str) -> None:
    """MD-01, p4lang/p4c#3187; MD-06: metadata needs its own check, and a pointer is stale after an adjustment."""
    with pytest.raises(lk.VerifierError) as refused:
        lab.load(lk.compile(path=BPF / "rejected" / f"{file}.c"))
    assert said in refused.value.said
    assert meaning in refused.value.meaning + refused.value.remedy, str(refused.value)


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_md_01_a_value_comes_from_xdp_to_tc(lab: lk.Lab, mode: str) -> None:
    """MD-01, xdp-project/xdp-project#33: the template with the right check carries each packet's value in both modes."""
    writer = lab.load(lk.compile(path=BPF / "meta_write.c"))
    writer.maps["plan"][0] = {"mark": 0xABCD, "way": 0, "cpu": 0, "same": 0}
    reader = lab.load(
        lk.compile(path=BPF / "meta_read.c"),
        "meta_read_tc",
        type=ProgType.SCHED_CLS,
        expected_attach_type=AttachType.TCX_INGRESS,
    )
    reader.maps["wanted"][0] = {"mark": 0xABCD, "take": 1}
    writer.attach(lab["server"]["eth0"], mode=mode)
    with at_tc(reader, lab["server"]["eth0"]):
        lk.send_frames(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), N)
        ledger = lab.ledger()
    assert reader.maps["found"][0] == {"right": N, "numbers": N * (N - 1) // 2, "none": 0, "other": 0}
    assert (ledger.losses, ledger.unaccounted) == ({"TC_INGRESS": N}, 0)
    assert writer.maps["written"][0] == N
