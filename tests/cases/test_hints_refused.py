"""Programs that ask a driver what it knows: refused with a word that helps, and the tag that XDP doesn't see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import labkit as lk
from labkit.kernel import bpf, rtnl
from labkit.lesson.hints_driver import asking
from labkit.lesson.hints_driver_origins import PRIORITY, TAG, pushed_tag
from labkit.lesson.hints_driver_refused import SLOTS, TOO_SMALL
from labkit.uapi import AttachType, ProgType

N = 101  # prime
ENODATA = -61


@pytest.fixture(scope="session")
def asks() -> lk.ProgramSpec:
    """Asks for the hash and counts the answers."""
    return lk.compile(path="bpf/hints_hash.c")


@pytest.fixture
def there(router: lk.Lab, asks: lk.ProgramSpec) -> Iterator[lk.Program]:
    """A program bound to the router's eth0: from then on the kernel takes any bound one there."""
    with router.load(asks, device=router["router"]["eth0"]) as program:
        yield program


def test_md_03_not_bound(lab: lk.Lab, asks: lk.ProgramSpec) -> None:
    """MD-03, cilium/ebpf#1841: the verifier refuses it, and the remedy is the one argument that is missing."""
    with pytest.raises(lk.VerifierError) as refused:
        lab.load(asks)
    assert refused.value.errno == 22
    assert refused.value.said == "metadata kfuncs require device-bound program"
    assert "must be bound to that device" in refused.value.meaning
    assert "device=" in refused.value.remedy
    assert lab.load(asks, device=lab["server"]["eth0"]).device is lab["server"]["eth0"]


def test_md_03_generic_mode(lab: lk.Lab, asks: lk.ProgramSpec) -> None:
    """MD-03: a bound program runs in the driver."""
    server = lab["server"]["eth0"]
    program = lab.load(asks, device=server)
    with pytest.raises(lk.AttachError, match="generic mode runs outside") as refused:
        program.attach(server, mode="generic")
    assert refused.value.errno == 22
    assert "Can't attach device-bound programs in generic mode" in refused.value.detail
    assert refused.value.remedy == 'attach with mode="native"'
    assert server.xdp() is None
    program.attach(server)


def test_md_03_another_device(router: lk.Lab, asks: lk.ProgramSpec) -> None:
    """MD-03: the kernel's own refusal, while no other bound program is at that device."""
    program, other = router.load(asks, device=router["server"]["eth0"]), router["router"]["eth0"]
    with pytest.raises(OSError, match="Invalid argument"):
        other.run(bpf.link_create, program.fd, other.ifindex, AttachType.XDP)
    with pytest.raises(lk.AttachError, match="bound to server eth0") as refused:
        program.attach(other)
    assert "Program bound to different device" in refused.value.detail
    assert "lab.load(spec, device=" in refused.value.remedy
    assert other.xdp() is None


def test_md_03_another_device_that_has_a_bound_program(router: lk.Lab, there: lk.Program, asks: lk.ProgramSpec) -> None:
    """The kernel takes a foreign bound program where some bound program was loaded, and at every swap. The lab doesn't."""
    other = router["router"]["eth0"]
    program = router.load(asks, device=router["server"]["eth0"])
    with pytest.raises(lk.AttachError, match="bound to server eth0"):
        program.attach(other)
    with there.attach(other) as link:
        with pytest.raises(lk.AttachError, match="bound to server eth0"):
            link.replace(program)
        assert link.program is there
        lk.generate(router["client"]["eth0"], lk.udp(router["client"], other), N)
        assert router.ledger().losses == {"XDP_DROP": N}
    assert there.maps["answers"].read() == {0: 0, 1: N, 2: 0}
    assert program.maps["answers"].read() == {0: 0, 1: 0, 2: 0}


def test_md_03_swapped_in_where_generic_mode_runs(lab: lk.Lab, asks: lk.ProgramSpec) -> None:
    """Nothing in the kernel checks a swap: the driver's function would read what generic mode never wrote."""
    server = lab["server"]["eth0"]
    plain = lab.load(lk.compile(path="bpf/pass.c"))
    with plain.attach(server, mode="generic") as link:
        with pytest.raises(lk.AttachError, match="generic mode runs outside"):
            link.replace(lab.load(asks, device=server))
        assert link.program is plain


def test_md_03_a_wrong_type(lab: lk.Lab) -> None:
    """MD-03: an answer of eight bytes into a variable of four; clang had warned of it."""
    with pytest.raises(lk.VerifierError) as refused:
        lab.load(lk.compile(text=TOO_SMALL), device=lab["server"]["eth0"])
    error = refused.value
    assert "should be the address of 8 bytes, and its variable has 4" in error.meaning
    assert "incompatible pointer types" in error.detail
    assert "bpf/common/hints.h" in error.remedy
    assert error.line == 7
    assert "&timestamp" in error.source_line


def test_md_03_in_the_slots_of_maps(router: lk.Lab, asks: lk.ProgramSpec) -> None:
    """A map's slot runs no bound program: the kernel says EINVAL, for a CPU map ENOMEM, and neither tells why."""
    server, port = router["server"]["eth0"], router["router"]["eth1"]
    slots = router.load(lk.compile(text=SLOTS)).maps
    for name, target, kind in (("ports", port, AttachType.XDP_DEVMAP), ("cpus", 64, AttachType.XDP_CPUMAP)):
        program = router.load(asks, device=server, expected_attach_type=kind)
        with pytest.raises(lk.MapError, match="bound to server eth0") as refused:
            slots[name][0] = target, program
        assert "without device=" in refused.value.remedy
    with pytest.raises(lk.MapError) as refused:
        slots["next"][0] = router.load(asks, device=server).fd
    assert refused.value.errno == 22
    assert "bound to no device" in refused.value.remedy


def test_md_03_not_an_xdp_program(lab: lk.Lab) -> None:
    """A TC program can't be bound; the kernel says EINVAL and keeps no log."""
    spec = lk.compile(text="#include <uapi/linux/bpf.h>\nint plain(struct __sk_buff *skb) { return 0; }\n")
    with pytest.raises(lk.LabError, match="not a type of program that can be bound") as refused:
        lab.load(spec, type=ProgType.SCHED_CLS, device=lab["server"]["eth0"])
    assert "only XDP programs" in refused.value.remedy


@pytest.mark.parametrize("offload", [True, False], ids=["offload on", "offload off"])
def test_md_05_the_driver_knows_the_tag_that_is_not_in_the_frame(lab: lk.Lab, offload: bool) -> None:
    """MD-05: the tag is beside the frame, where the kfunc finds it, or in the frame, where it doesn't."""
    client, server = lab["client"], lab["server"]
    with pushed_tag(client["eth0"], offload=offload), asking(server["eth0"]) as asked:
        assert lk.send_udp(client, server, N).sent == N
        (answer,) = asked.take(N)
        ledger = lab.ledger()
    assert ledger.losses == {"XDP_DROP": N}
    if offload:
        assert (answer.frame_proto, answer.vlan_code, answer.vlan_tci) == (0x0800, 0, PRIORITY << 13 | TAG)
        assert answer.words[2] == "tag 10, priority 3"
    else:
        assert (answer.frame_proto, answer.vlan_code) == (0x8100, ENODATA)


def test_md_05_a_tag_of_the_senders_own(lab: lk.Lab) -> None:
    """MD-05, secdev/scapy#969: what is sent with a tag keeps it in the frame, and the driver knows of none."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    client.set_feature("tx-vlan", True)
    with asking(server) as asked:
        lk.send_frames(client, lk.vlan(lk.udp(lab["client"], lab["server"]), TAG), N)
        (answer,) = asked.take(N)
    assert (answer.packets, answer.frame_proto, answer.vlan_code) == (N, 0x8100, ENODATA)


def test_what_a_driver_knows_needs_it_alive(lab: lk.Lab, asks: lk.ProgramSpec) -> None:
    """The device goes: its program stays loaded and runs nowhere, and a new one can't be bound to it."""
    client, server = lab["client"], lab["server"]["eth0"]
    program = lab.load(asks, device=server)
    link = program.attach(server)
    client.run(client.rtnl.send, [rtnl.delete_link(client["eth0"].name)])
    with pytest.raises(lk.FeatureError, match="hints_hash is to be bound to is gone") as refused:
        lab.load(asks, device=server)
    assert "make the lab again" in refused.value.remedy
    with pytest.raises(lk.TopologyError, match="server eth0 is gone"):
        program.attach(server)
    assert bpf.prog_info(program.fd).id == program.id
    link.close()
    assert link.closed
