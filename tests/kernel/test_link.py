"""Attaching: read back, replaced atomically, refused with the cause, gone when closed."""

from __future__ import annotations

import os

import pytest

import labkit as lk
from labkit.compile.diagnose import verifier_error
from labkit.kernel import bpf
from labkit.program.program import load_program
from labkit.uapi import AttachType, XdpFlag


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_attach_is_read_back_and_detach_too(lab: lk.Lab, verdicts: lk.ProgramSpec, mode: str) -> None:
    server = lab["server"]["eth0"]
    assert server.xdp() is None
    program = lab.load(verdicts, "drop")
    link = program.attach(server, mode=mode)
    found = server.xdp()
    assert found is not None
    assert (found.mode, found.program_id, found.program_name) == (mode, program.id, "drop")
    link.close()
    link.close()
    assert server.xdp() is None
    assert lab.attached == []


def test_attaching_again_takes_our_own_program_off_first(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    server = lab["server"]["eth0"]
    first = lab.load(verdicts, "drop").attach(server)
    second = lab.load(verdicts, "pass").attach(server, mode="generic")
    assert first.closed
    found = server.xdp()
    assert found is not None
    assert found.mode == "generic"
    assert lab.attached == [second]


def test_a_foreign_program_is_named_and_left_alone(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    server = lab["server"]["eth0"]
    foreign = load_program(verdicts, "silent_drop", explain=verifier_error)
    fd = server.run(bpf.link_create, foreign.fd, server.ifindex, AttachType.XDP, int(XdpFlag.DRV_MODE))
    try:
        for mode in ("native", "generic"):
            with pytest.raises(lk.AttachError, match=rf"silent_drop, id {foreign.id}, native mode"):
                lab.load(verdicts, "drop").attach(server, mode=mode)
        found = server.xdp()
        assert found is not None
        assert found.program_id == foreign.id
        lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), 1009)
        ledger = lab.ledger()
        assert ledger.losses == {"XDP drop (driver)": 1009}
        assert ledger.unaccounted == 0
    finally:
        os.close(fd)
        foreign.close()


def test_replace_is_atomic_and_keeps_the_link(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    server = lab["server"]["eth0"]
    link = lab.load(verdicts, "drop").attach(server)
    other = lab.load(verdicts, "pass")
    ident = link.id
    assert link.replace(other) is link
    found = server.xdp()
    assert found is not None
    assert found.program_id == other.id
    assert link.id == ident
    link.close()
    with pytest.raises(lk.StateError, match="closed"):
        link.replace(other)


def test_the_peers_mtu_is_what_matters(verdicts: lk.ProgramSpec) -> None:
    with lk.Lab(lk.Topology.pair(), name="test") as lab:
        server = lab["server"]["eth0"]
        lab["client"]["eth0"].set_mtu(9000)
        program = lab.load(verdicts, "drop")
        with pytest.raises(lk.AttachError, match="client eth0 has MTU 9000") as caught:
            program.attach(server)
        most = int(caught.value.remedy.split("MTU to ")[1].split()[0])
        program.attach(server, mode="generic").close()
        lab["client"]["eth0"].set_mtu(most)
        program.attach(server).close()
        lab["client"]["eth0"].set_mtu(9000)
        lab.load(verdicts, "drop", frags=True).attach(server).close()


@pytest.mark.parametrize("mode", ["", "fast", None, 4])
def test_an_unknown_mode_is_refused(lab: lk.Lab, verdicts: lk.ProgramSpec, mode: object) -> None:
    with pytest.raises(lk.AttachError, match="no XDP mode"):
        lab.load(verdicts, "drop").attach(lab["server"]["eth0"], mode=mode)


def test_only_interfaces_of_the_lab(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    with lk.Lab(lk.Topology.pair(), name="other") as other, pytest.raises(lk.TopologyError, match="not an interface"):
        lab.load(verdicts, "drop").attach(other["server"]["eth0"])
    with pytest.raises(lk.TopologyError, match="not an interface"):
        lab.load(verdicts, "drop").attach("eth0")


def test_unknown_function_names_the_choices(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    with pytest.raises(lk.LabError, match=r"no function 'drp'.*drop"):
        lab.load(verdicts, "drp")
