"""Slips in a call are LabErrors that say what was given and what is wanted, never Python's own complaint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import labkit as lk

RUBBISH: list[Any] = [None, 5, -1, "x", b"x", [], {}, object(), 1.5]


def _ids(value: object) -> str:
    return type(value).__name__ if not isinstance(value, (int, str)) else repr(value)


@pytest.mark.parametrize("topology", [*RUBBISH, lk.Topology], ids=_ids)
def test_a_lab_wants_a_topology(topology: Any) -> None:
    with pytest.raises(lk.TopologyError, match=r"is not a topology[\s\S]*Topology\.pair"):
        lk.Lab(topology, name="rubbish")


@pytest.mark.parametrize("key", RUBBISH, ids=_ids)
def test_look_ups(lab: lk.Lab, key: Any) -> None:
    with pytest.raises(lk.TopologyError, match=r"no host[\s\S]*client, server"):
        lab[key]
    with pytest.raises(lk.TopologyError, match=r"no interface[\s\S]*eth0"):
        lab["client"][key]


@pytest.mark.parametrize("value", RUBBISH, ids=_ids)
@pytest.mark.parametrize(
    "call",
    [
        lambda lab, spec, x: lab.load(x),
        lambda lab, spec, x: lab.load(spec, "nothing" if x is None else x),
        lambda lab, spec, x: lab.load(spec, "drop", replaces=5 if x is None else x),
        lambda lab, spec, x: lab.load(spec, "drop", device=5 if x is None else x),
        lambda lab, spec, x: lab.load(spec, "drop", type=77 if x == 5 else x),
        lambda lab, spec, x: lab.load(spec, "drop", expected_attach_type=1 << 32 if x == 5 else x),
        lambda lab, spec, x: lab.load(spec, "drop").attach(lab["server"]["eth0"], mode=x),
        lambda lab, spec, x: lab.load(spec, "drop").attach(x),
        lambda lab, spec, x: lab.load(spec, "drop").attach(lab["server"]["eth0"]).replace(x),
        lambda lab, spec, x: lab["server"]["eth0"].set_feature(x, True),
        lambda lab, spec, x: lab["server"]["eth0"].set_mtu(x),
    ],
    ids=[
        "spec",
        "function",
        "replaces",
        "device",
        "type",
        "attach type",
        "mode",
        "interface",
        "replace",
        "feature",
        "mtu",
    ],
)
def test_programs(
    lab: lk.Lab, verdicts: lk.ProgramSpec, call: Callable[[lk.Lab, lk.ProgramSpec, Any], object], value: Any
) -> None:
    with pytest.raises(lk.LabError) as caught:
        call(lab, verdicts, value)
    assert caught.value.remedy
    assert caught.value.tried


def test_a_program_of_another_lab_is_not_taken(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    link = lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
    with lk.Lab(lk.Topology.pair(), name="other") as other:
        theirs = other.load(verdicts, "drop")
        with pytest.raises(lk.AttachError, match=r"not a program of this lab[\s\S]*same lab"):
            link.replace(theirs)
        with pytest.raises(lk.LabError, match="not a program of the lab test"):
            lab.load(verdicts, "drop", replaces=theirs)
        with pytest.raises(lk.TopologyError, match="not an interface of the lab test"):
            lab.load(verdicts, "drop", device=other["server"]["eth0"])
    assert not link.closed


def test_offloads_are_switched_in_one_step(lab: lk.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    client = lab["client"]
    calls: list[dict[str, bool]] = []
    real = client.ethtool.set_features
    monkeypatch.setattr(
        client.ethtool, "set_features", lambda name, wanted: (calls.append(wanted), real(name, wanted))[1]
    )
    client["eth0"].set_features({"tx-checksum": True, "gro": True})
    assert len(calls) == 1
    features = client["eth0"].features()
    assert features["tx-checksum-ip-generic"]
    assert features["rx-gro"]
    with pytest.raises(lk.TopologyError, match="no feature 'warp'"):
        client["eth0"].set_features({"gro": False, "warp": True})
    assert client["eth0"].features()["rx-gro"]  # all or nothing
    client["eth0"].set_features({"rx-gro": False})
    assert not client["eth0"].features()["rx-gro"]
