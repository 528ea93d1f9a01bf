"""Maps as Python mappings, over the real kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import labkit as lk
from labkit.kernel.cpus import possible_cpus
from labkit.uapi import AttachType

SOURCE = """\
#include <uapi/linux/bpf.h>
struct pair { u32 left; u16 right; u16 pad; u64 sum; };
BPF_ARRAY(numbers, u32, 11);
BPF_HASH(table, u32, u64, 13);
BPF_HASH(pairs, struct pair, struct pair, 7);
BPF_PERCPU_ARRAY(counts, u64, 5);
BPF_PERCPU_HASH(wide, u32, struct pair, 5);

int touch(struct xdp_md *ctx)
{
	u32 key = 0;
	struct pair p = {};

	numbers.lookup(&key);
	table.lookup(&key);
	pairs.lookup(&p);
	counts.lookup(&key);
	wide.lookup(&key);
	return XDP_PASS;
}
"""


@pytest.fixture
def maps(lab: lk.Lab) -> dict[str, lk.Map]:
    return dict(lab.load(lk.compile(text=SOURCE)).maps)


def test_arrays_read_whole_in_one_call(maps: dict[str, lk.Map]) -> None:
    numbers = maps["numbers"]
    numbers[3] = 7
    assert numbers[3] == 7
    assert numbers.read() == {i: 7 if i == 3 else 0 for i in range(11)}
    assert len(numbers) == 11
    with pytest.raises(KeyError):
        numbers[11]
    with pytest.raises(lk.MapError, match="11 entries"):
        numbers[11] = 1


def test_hashes_grow_and_shrink(maps: dict[str, lk.Map]) -> None:
    table = maps["table"]
    for key in range(13):
        table[key] = key * key
    assert dict(table.items()) == {key: key * key for key in range(13)}
    with pytest.raises(lk.MapError, match="E2BIG"):
        table[99] = 1
    del table[5]
    assert 5 not in table
    with pytest.raises(KeyError):
        del table[5]


def test_structs_are_dicts(maps: dict[str, lk.Map]) -> None:
    pairs = maps["pairs"]
    key = {"left": 1, "right": 2, "pad": 0, "sum": 3}
    pairs[key] = {"sum": 5}
    assert pairs[key] == {"left": 0, "right": 0, "pad": 0, "sum": 5}
    assert list(pairs.read()) == [(1, 2, 0, 3)]
    with pytest.raises(lk.MapError, match="a dict with left, right"):
        pairs[key] = {"wrong": 1}


def test_per_cpu_values_are_summed_or_listed(maps: dict[str, lk.Map]) -> None:
    counts = maps["counts"]
    cpus = len(counts.per_cpu(0))
    counts[2] = list(range(cpus))
    assert counts.per_cpu(2) == list(range(cpus))
    assert counts[2] == sum(range(cpus))
    counts[2] = 3
    assert counts[2] == 3 * cpus
    wide = maps["wide"]
    wide[1] = {"left": 1, "sum": 2}
    assert wide[1] == {"left": cpus, "right": 0, "pad": 0, "sum": 2 * cpus}


@pytest.mark.parametrize("value", [-1, 1 << 32, "one", None, b"abc", [1]])
def test_values_that_do_not_fit_are_refused(maps: dict[str, lk.Map], value: object) -> None:
    with pytest.raises(lk.MapError, match=r"whole number from 0 to 4294967295|does not fit"):
        maps["numbers"][0] = value
    assert maps["numbers"][0] == 0


def test_a_closed_map_says_so(lab: lk.Lab) -> None:
    program = lab.load(lk.compile(text=SOURCE))
    program.close()
    with pytest.raises(lk.StateError, match="closed"):
        program.maps["numbers"][0]
    assert "closed" in repr(program.maps["numbers"])


TARGETS = """\
#include "common/verdict.h"

LAB_DEVMAP(ports, 8);
LAB_DEVMAP_PROGRAMS(doors, 8);
LAB_CPUMAP(cpus, 64);
LAB_XSKMAP(sockets, 4);

int sends(struct xdp_md *ctx)
{
	if (ports.redirect_map(0, XDP_PASS) == XDP_PASS && doors.redirect_map(0, XDP_PASS) == XDP_PASS)
		cpus.redirect_map(0, XDP_PASS);
	return verdict(ctx, sockets.redirect_map(0, XDP_PASS));
}

int meets(struct xdp_md *ctx) { return verdict(ctx, XDP_PASS); }
"""


@pytest.fixture(scope="module")
def targets() -> lk.ProgramSpec:
    return lk.compile(text=TARGETS)


@pytest.fixture
def router() -> Iterator[lk.Lab]:
    """client ── router ── server."""
    with lk.Lab(lk.Topology.router(), name="test") as made:
        yield made


def test_a_slot_takes_an_interface_of_any_host(router: lk.Lab, targets: lk.ProgramSpec) -> None:
    """The kernel looks an index up where the writer is: the map sees to it that this is the interface's own host."""
    ports = router.load(targets, "sends").maps["ports"]
    middle = router["router"]
    ports[3], ports[0] = middle["eth1"], router["server"]["eth0"]
    assert ports.read() == {0: router["server"]["eth0"].ifindex, 3: middle["eth1"].ifindex}
    assert ports[3] == 3, "the client has no such index"
    middle.run(ports.__setitem__, 1, middle["eth0"].ifindex)
    assert ports[1] == middle["eth0"].ifindex
    del ports[3]
    assert list(ports) == [0, 1]
    with pytest.raises(KeyError):
        ports[3]


def test_a_slot_takes_a_program_too(router: lk.Lab, targets: lk.ProgramSpec) -> None:
    maps = router.load(targets, "sends").maps
    port = router["router"]["eth1"]
    out = router.load(targets, "meets", expected_attach_type=AttachType.XDP_DEVMAP)
    there = router.load(targets, "meets", expected_attach_type=AttachType.XDP_CPUMAP)
    for given in ((port, out), {"ifindex": port, "fd": out}):
        maps["doors"][0] = given
        assert maps["doors"][0] == {"ifindex": port.ifindex, "id": out.id}
    for alone in (port, (port, None), {"ifindex": port}):
        maps["doors"][0] = alone
        assert maps["doors"][0] == {"ifindex": port.ifindex, "id": 0}
    for with_program in ((192, there), {"qsize": 192, "fd": there}):
        maps["cpus"][0] = with_program
        assert maps["cpus"][0] == {"qsize": 192, "id": there.id}
    maps["cpus"][0] = 16_384
    assert maps["cpus"].read() == {0: {"qsize": 16_384, "id": 0}}


Wrong = Callable[[lk.Lab, lk.ProgramSpec], Any]


def loaded_for(attach_type: int) -> Wrong:
    return lambda lab, spec: lab.load(spec, "meets", expected_attach_type=attach_type)


def with_frags(lab: lk.Lab, spec: lk.ProgramSpec) -> lk.Program:
    return lab.load(spec, "meets", expected_attach_type=AttachType.XDP_DEVMAP, frags=True)


@pytest.mark.parametrize(
    ("name", "slot", "program", "words"),
    [
        ("doors", 0, loaded_for(0), r"meets was not loaded for XDP_DEVMAP.*expected_attach_type=AttachType.XDP_DEVMAP"),
        ("doors", 0, loaded_for(AttachType.XDP_CPUMAP), r"not loaded for XDP_DEVMAP"),
        ("doors", 0, with_frags, r"would not put router eth1 into the map doors.*EINVAL.*frags="),
        ("doors", 0, lambda *_: 7, r"7 does not fit.*lab\.load"),
        ("doors", 8, loaded_for(AttachType.XDP_DEVMAP), r"no slot 8.*0 to 7"),
        ("ports", 0, loaded_for(AttachType.XDP_DEVMAP), r"holds no programs.*LAB_DEVMAP_PROGRAMS"),
        ("cpus", 0, loaded_for(0), r"meets was not loaded for XDP_CPUMAP"),
        ("cpus", 0, loaded_for(AttachType.XDP_DEVMAP), r"not loaded for XDP_CPUMAP"),
    ],
)
def test_a_slot_names_what_is_wrong_with_a_program(
    router: lk.Lab, targets: lk.ProgramSpec, name: str, slot: int, program: Wrong, words: str
) -> None:
    targeted = router.load(targets, "sends").maps[name]
    target = 192 if name == "cpus" else router["router"]["eth1"]
    with pytest.raises(lk.MapError, match=f"(?s){words}"):
        targeted[slot] = target, program(router, targets)
    assert targeted.read() == {}


@pytest.mark.parametrize(
    ("name", "slot", "value", "words"),
    [
        ("ports", 0, 2, r"outside every lab.*ports\[0\] = lab"),
        ("ports", 0, 0, r"0 does not fit.*del ports\[0\]"),
        ("ports", 0, "eth1", r"'eth1' does not fit.*give an interface"),
        ("doors", 0, {"index": 2}, r"does not fit.*ifindex"),
        ("cpus", 0, 0, r"0 does not fit.*1 to 16384.*del cpus\[0\]"),
        ("cpus", 0, -1, r"-1 does not fit"),
        ("cpus", 0, 16_385, r"16385 packets is too long.*EOVERFLOW.*16384"),
        ("cpus", 63, 192, r"no CPU 63.*ENODEV"),
        ("cpus", 64, 192, r"no slot 64.*0 to 63"),
    ],
)
def test_a_slot_names_what_is_wrong_with_a_target(
    router: lk.Lab, targets: lk.ProgramSpec, name: str, slot: int, value: object, words: str
) -> None:
    if name == "cpus" and slot == 63 and possible_cpus() > 63:
        pytest.skip("this machine has a CPU 63")
    targeted = router.load(targets, "sends").maps[name]
    with pytest.raises(lk.MapError, match=f"(?s){words}"):
        targeted[slot] = value
    assert targeted.read() == {}


def test_a_slot_names_an_interface_that_is_not_there(router: lk.Lab, targets: lk.ProgramSpec) -> None:
    ports = router.load(targets, "sends").maps["ports"]
    with pytest.raises(lk.MapError, match=r"(?s)no ifindex 77.*EINVAL"):
        router["router"].run(ports.__setitem__, 0, 77)


def test_a_program_for_a_slot_is_attached_nowhere_else(router: lk.Lab, targets: lk.ProgramSpec) -> None:
    program = router.load(targets, "meets", expected_attach_type=AttachType.XDP_DEVMAP)
    with pytest.raises(lk.AttachError, match=r"(?s)loaded for XDP_DEVMAP.*ports\[0\] = interface, program"):
        program.attach(router["router"]["eth0"])


def test_programs_share_maps_and_count_their_own_verdicts(lab: lk.Lab, targets: lk.ProgramSpec) -> None:
    first = lab.load(targets, "sends")
    second = lab.load(targets, "sends", maps=first.maps)
    same = {name for name, each in second.maps.items() if each.id == first.maps[name].id}
    assert same == {"ports", "doors", "cpus", "sockets"}
    assert not second.shares_counters_with(first)
    first.close()
    second.maps["ports"][0] = lab["server"]["eth0"]
    other = lab.load(lk.compile(text=SOURCE), maps=second.maps)
    assert not set(other.maps) & set(second.maps), "it declares none of them"
    with pytest.raises(lk.LabError, match="is not the map numbers that"):
        lab.load(lk.compile(text=SOURCE), maps={"numbers": second.maps["ports"]})
    with pytest.raises(lk.LabError, match=r"maps=program\.maps"):
        lab.load(targets, "sends", maps=[second])  # type: ignore[arg-type]
