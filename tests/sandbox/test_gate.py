"""The gate itself: rubbish is answered and harms nobody, and what it makes is what the kernel would have made."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from helpers import CHECKOUT, DEADLINE_S, ENVIRONMENT, LABKIT, PYTHON, run_inside

# What labkit makes by the gate, told by the kernel: in a sandbox and as root it must be the same.
MAKES = """
import json, os, struct
import labkit as lk
from labkit.kernel import bpf
from labkit.uapi import AttachType, MapType, ProgFlag

found = {}
with lk.Lab(lk.Topology.router(), name="made") as lab:
    spec = lk.compile(path="bpf/drop_by_protocol.c")
    program = lab.load(spec)
    info = bpf.prog_info(program.fd)
    found["program"] = [info.type, info.tag, info.name]
    found["maps"] = sorted([m.name, m.spec.type.name, m.spec.key_size, m.spec.value_size] for m in program.maps.values())
    program.attach(lab["server"]["eth0"])
    lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["router"]), packets=101)
    try:
        lab.load(lk.compile(path="bpf/rejected/no_bounds_check.c"))
    except lk.VerifierError as error:
        found["verifier"] = error.message
        found["log"] = len(error.log) > 200
    try:
        lab.load(lk.compile(path="bpf/rejected/hint_unbound.c"))
    except lk.LabError as error:
        found["unbound"] = error.message
    egress = lab.load(lk.compile(path="bpf/egress.c"), "egress", expected_attach_type=AttachType.XDP_DEVMAP)
    sends = lab.load(lk.compile(path="bpf/egress.c"), "to_port", maps=egress.maps)
    sends.maps["ports"][0] = (lab["router"]["eth1"], egress)
    found["port"] = sends.maps["ports"][0]["id"] == egress.id
    found["unaccounted"] = lab.ledger().unaccounted
print(json.dumps(found))
"""
BOUND = """
import labkit as lk
HINT = r'''
#include "common/verdict.h"
static int (*bpf_xdp_metadata_rx_timestamp)(const struct xdp_md *ctx, u64 *when) = (void *)1000001;
int hint(struct xdp_md *ctx)
{
	u64 when = 0;
	return verdict(ctx, bpf_xdp_metadata_rx_timestamp(ctx, &when) ? XDP_PASS : XDP_DROP);
}
'''
with lk.Lab(lk.Topology.pair(), name="bound") as lab:
    server = lab["server"]["eth0"]
    try:
        lab.load(lk.compile(text=HINT), device=server).attach(server)
        print("attached")
    except lk.FeatureError as error:
        print(error.message)
"""


def test_rubbish_is_answered_and_harms_nobody(scripts: Path) -> None:
    ended = run_inside([PYTHON, str(scripts / "knocking.py")])
    assert ended.status == 0, ended
    found = json.loads(ended.out)
    assert found["made"] == 2
    assert (found["tracing"], found["refused"]) == ("tracing", "EACCES")
    assert set(found["answers"]) <= {"EINVAL", "EPERM", "EBADF", "EACCES", "E2BIG", "ENOTSUPP", "ESPIPE", "silence"}
    assert found["answers"]["EINVAL"] > 500


def result(words: list[str]) -> str:
    done = subprocess.run(
        words, cwd=CHECKOUT, env={**ENVIRONMENT, "PATH": f"{CHECKOUT}/.venv/bin:/usr/bin:/usr/sbin:/bin"},
        capture_output=True, text=True, timeout=DEADLINE_S * 2, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("without", [[], ["--without-tracing"]], ids=["with tracing", "without tracing"])
def test_what_is_made_by_the_gate_is_what_root_makes(without: list[str]) -> None:
    python = str(CHECKOUT / ".venv" / "bin" / "python")
    by_root = json.loads(result([python, "-c", MAKES]))
    by_gate = json.loads(result([str(LABKIT), "sandbox", *without, "--", python, "-c", MAKES]))
    assert by_gate == by_root
    assert by_gate["unaccounted"] == 0


def test_metadata_hints_are_for_root_and_the_lab_says_so() -> None:
    """The kernel (6.18) takes no program that names a device and a token both, whatever the program: EINVAL."""
    python = str(CHECKOUT / ".venv" / "bin" / "python")
    assert result([python, "-c", BOUND]) == "attached\n"
    found = result([str(LABKIT), "sandbox", "--", python, "-c", BOUND])
    assert found == "In a sandbox the kernel binds no program to a device, so there are no metadata hints.\n"
    assert "outside: metadata hints" in result([str(LABKIT), "sandbox", "--", str(LABKIT), "doctor"])
