"""The map browser without a browser: what it shows is what the kernel has, what is written arrives, nothing stays."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import until

import labkit as lk
from labkit.errors import MapError, StateError
from labkit.kernel import bpf
from labkit.kernel.btf import Btf
from labkit.kernel.cpus import possible_cpus
from labkit.program.spec import MapSpec
from labkit.program.targets import map_class
from labkit.uapi import MapType
from labkit.widgets import MapBrowser
from labkit.widgets.map_browser_entries import PAGE_ROWS
from labkit.widgets.map_browser_maps import Known
from labkit.widgets.map_browser_view import Viewed

N = 1_009  # a prime
BPF = Path(__file__).parents[2] / "bpf"
SOURCE = """\
#include <uapi/linux/bpf.h>
#include "common/verdict.h"
struct mac { u8 bytes[6]; };
struct flow { __be32 saddr; u32 daddr; __be16 sport; u16 dport; };
struct seen { u64 packets; struct mac from; u16 pad; s32 last; u32 spare; };
LAB_HASH(flows, struct flow, struct seen, 7);
LAB_PERCPU_HASH(wide, u32, struct seen, 64);
LAB_HASH(large, u32, u64, 100003);
LAB_ARRAY(long_array, u32, 5003);
LAB_ARRAY(action, u32, 1);
BPF_LPM_TRIE(routes, u64, u32, 64);
LAB_DEVMAP_PROGRAMS(ports, 8);
LAB_CPUMAP(cpus, 8);
LAB_XSKMAP(sockets, 4);
LAB_RINGBUF(lines, 8);
BPF_PROG_ARRAY(onward, 4);

int decides(struct xdp_md *ctx)
{
	u32 only = 0, *wanted = action.lookup(&only);
	struct flow flow = {};
	u64 none = 0;

	flows.lookup(&flow);
	wide.lookup(&only);
	large.lookup(&only);
	long_array.lookup(&only);
	routes.lookup(&none);
	lines.ringbuf_output(&none, sizeof(none), 0);
	if (ctx->rx_queue_index == 77) {
		onward.call(ctx, 1);
		if (ports.redirect_map(0, XDP_PASS) == XDP_PASS && cpus.redirect_map(0, XDP_PASS) == XDP_PASS)
			sockets.redirect_map(0, XDP_PASS);
	}
	return verdict(ctx, wanted && *wanted ? XDP_DROP : XDP_PASS);
}
"""


@pytest.fixture(scope="module")
def spec() -> lk.ProgramSpec:
    return lk.compile(text=SOURCE)


@pytest.fixture
def program(lab: lk.Lab, spec: lk.ProgramSpec) -> lk.Program:
    made = lab.load(spec)
    made.attach(lab["server"]["eth0"])
    return made


@pytest.fixture
def view(program: lk.Program) -> Iterator[MapBrowser]:
    made = MapBrowser(program)
    yield made
    assert not made.errors, list(made.errors)
    made.close()


def say(view: MapBrowser, kind: str, **more: Any) -> dict[str, Any]:
    view._heard(view, {"type": kind, **more}, [])
    return view.state


def read(view: MapBrowser) -> list[list[str]]:
    """Each row's cells, the first text of each line."""
    view._tick(view._ticker.seq)
    return [["; ".join(line[0] for line in cell) for cell in row["cells"]] for row in view.state["rows"]]


def send(lab: lk.Lab, packets: int) -> None:
    client, server = lab["client"], lab["server"]
    lk.send_frames(client["eth0"], bytes(lk.udp(client, server)), packets)


def test_a_prime_number_of_packets_shows_up_and_the_ledger_agrees(lab: lk.Lab) -> None:
    program = lab.load(lk.compile(path=BPF / "drop_by_protocol.c"))
    program.attach(lab["server"]["eth0"])
    view = MapBrowser(program)
    assert view.state["maps"][0][1].startswith("verdicts of ")
    send(lab, N)
    assert lab.ledger().sent == N
    rows = read(view)
    assert rows[17] == ["UDP", f"{N:,}"]
    assert (view.state["rows"][17]["change"], view.state["rows"][17]["moves"]) == ([f"+{N:,}"], True)
    assert view.state["rows"][6]["change"] == []
    view.show("verdicts")
    assert read(view)[1] == ["XDP_DROP", f"{N:,}"]
    assert "ledger counts" in view.state["locked"]
    view.close()


def test_per_cpu_values_add_up(view: MapBrowser, program: lk.Program) -> None:
    cpus = possible_cpus()
    wide = program.maps["wide"]
    wide[5] = [{"packets": 7 + i, "from": {"bytes": [2, 0, 0, 0, 0, 9]}, "last": -i} for i in range(cpus)]
    view.show("wide")
    total = sum(7 + i for i in range(cpus))
    assert read(view) == [["5", f"{total}", "02:00:00:00:00:09", "0", str(-sum(range(cpus))), "0"]]
    if cpus > 1:
        say(view, "choose", id="cpus", value="one by one")
        names = [column["name"] for column in view.state["columns"]]
        assert names == ["key", "field", "all CPUs", *(f"CPU {i}" for i in range(cpus)), "change"]
        (row,) = read(view)
        assert [cell.split("; ")[0] for cell in row[2:]] == [str(total), *(str(7 + i) for i in range(cpus))]


def test_only_what_is_certain_is_called_an_address(view: MapBrowser, program: lk.Program) -> None:
    address = int.from_bytes(socket.inet_aton("10.0.0.2"), "little")
    key = {"saddr": address, "daddr": address, "sport": socket.htons(53), "dport": socket.htons(53)}
    program.maps["flows"][key] = {"packets": N}
    view.show("flows")
    assert read(view)[0][:5] == ["10.0.0.2", str(address), "53", str(socket.htons(53)), f"{N:,}"]
    assert view.state["rows"][0]["cells"][0] == [("10.0.0.2", f"raw {address:,}")]
    say(view, "choose", id="numbers", value="network order")
    assert read(view)[0][1] == "10.0.0.2"
    for query, found in (("10.0.0.2", 1), (f"{N:#x}", 1), (f"{N:,}", 1), ("53", 1), ("54", 0), ("10.0.0.3", 0)):
        assert len(say(view, "search", text=query)["rows"]) == found, query
    assert len(say(view, "search", text=str(N), where="keys")["rows"]) == 0


def test_a_program_sees_what_was_written(view: MapBrowser, program: lk.Program, lab: lk.Lab) -> None:
    view.show("action")
    send(lab, 101)
    row = view.state["rows"][0]["id"]
    say(view, "open", row=row)
    state = say(view, "write", fields={"0": "1"}, cpus="")
    assert (program.maps["action"][0], state["said"]) == (1, "action[0] was written.")
    send(lab, 103)
    lab.ledger()
    assert program.verdicts() is not None
    assert {name: n for name, n in (program.verdicts() or {}).items() if n} == {"XDP_PASS": 101, "XDP_DROP": 103}
    assert "as it was before" in say(view, "undo")["said"]
    assert program.maps["action"][0] == 0


def test_what_does_not_fit_is_refused_in_words_and_nothing_changes(program: lk.Program) -> None:
    view = MapBrowser(program, name="action")
    say(view, "open", row="00000000")
    for text in ("-1", "4294967296", "one", "", "1.5", "0x1_ff_ff_ff_ff"):
        state = say(view, "write", fields={"0": text}, cpus="")
        assert "a whole number from 0 to 4,294,967,295" in state["form"]["refused"], text
    assert "Nothing was changed" in say(view, "write", fields={}, cpus="")["form"]["refused"]
    assert program.maps["action"][0] == 0
    assert len(view.errors) == 7
    view.show("verdicts")
    say(view, "open", row="01000000")
    assert "ledger counts" in view.state["error"]
    say(view, "write", fields={"0": "5"}, cpus="sum")
    assert sum((program.verdicts() or {}).values()) == 0
    view.close()


def test_entries_come_and_go(program: lk.Program) -> None:
    view, flows = MapBrowser(program, name="flows"), program.maps["flows"]
    new = {"0": "10.0.0.2", "1": "7", "2": "53", "3": "0x35"}
    value = {"0": str(N), "1": "02:00:00:00:00:01", "2": "0", "3": "-5", "4": "0"}
    say(view, "open")
    assert say(view, "write", keys=new, fields=value)["form"] is None
    ((key, seen),) = flows.items()
    assert (key["sport"], key["dport"], seen["packets"], seen["last"]) == (socket.htons(53), 53, N, -5)
    assert view.state["rows"][0]["new"]
    say(view, "open")
    assert "is there already" in say(view, "write", keys=new, fields=value)["form"]["refused"]
    for number in range(6):
        flows[{"saddr": number}] = {}
    new["1"] = "8"
    assert "is full: it has room for 7" in say(view, "write", keys=new, fields=value)["form"]["refused"]
    row = next(row["id"] for row in view.state["rows"] if row["cells"][4][0][0] == f"{N:,}")
    say(view, "open", row=row)
    say(view, "delete")
    assert len(flows) == 6
    say(view, "undo")
    assert flows[key]["packets"] == N
    say(view, "open", row=row)
    del flows[key]
    assert "isn't there any more" in say(view, "write", fields={"0": "1"}, cpus="")["form"]["refused"]
    assert len(flows) == 6
    view.close()


def test_one_cpu_each_cpu_or_the_sum(view: MapBrowser, program: lk.Program) -> None:
    cpus, wide = possible_cpus(), program.maps["wide"]
    wide[3] = {"packets": 5}
    view.show("wide")
    row = view.state["rows"][0]["id"]
    for meant, expected in (
        ("0", [11] + [5] * (cpus - 1)),
        ("each", [11] * cpus),
        ("sum", [11] + [0] * (cpus - 1)),
    ):
        wide[3] = {"packets": 5}
        say(view, "open", row=row)
        say(view, "write", fields={"0": "11"}, cpus=meant)
        assert [part["packets"] for part in wide.per_cpu(3)] == expected, meant


def test_a_large_hash_costs_a_bounded_amount_each_tick(view: MapBrowser, program: lk.Program, monkeypatch: Any) -> None:
    entries = 20_011
    for number in range(entries):
        bpf.map_update(program.maps["large"].fd, struct.pack("=I", number), struct.pack("=Q", number * 3))
    asked: list[int] = []
    batch, lookup = bpf.map_lookup_on, bpf.map_lookup

    def counted(fd: int, at: bytes | None, count: int, *sizes: int) -> Any:
        asked.append(count)
        return batch(fd, at, count, *sizes)

    def counted_one(fd: int, key: bytes, size: int) -> bytes:
        asked.append(1)
        return lookup(fd, key, size)

    monkeypatch.setattr(bpf, "map_lookup_on", counted)
    monkeypatch.setattr(bpf, "map_lookup", counted_one)
    view._ticker.stop()
    view.show("large")

    def tick() -> str:
        asked.clear()
        rows = read(view)
        assert sum(asked) <= 4_096 + PAGE_ROWS
        assert len(rows) <= PAGE_ROWS
        return str(view.state["span"])

    assert "so far" in tick()
    until(lambda: f"of the first 2,048 of {entries:,} entries" in tick())
    say(view, "sort", by="value 0")
    until(lambda: "so far" not in tick())
    assert read(view)[0] == [str(entries - 1), f"{3 * (entries - 1):,}"]
    say(view, "search", text="30,000")
    until(lambda: "so far" not in tick())
    assert ["10000", "30,000"] in read(view)


def test_a_long_array_is_paged_through_to_its_end(view: MapBrowser, program: lk.Program) -> None:
    program.maps["long_array"][5_002] = N
    view.show("long_array")
    assert read(view)[0] == ["0", "0"]
    state = say(view, "page", to=10**9)
    assert state["page"] == [5_003 // PAGE_ROWS, 5_003 // PAGE_ROWS + 1]
    assert read(view)[-1] == ["5002", f"{N:,}"]
    say(view, "choose", id="show", value="not 0")
    until(lambda: read(view) == [["5002", f"{N:,}"]])


def test_slots_are_told_by_name_and_take_names(view: MapBrowser, program: lk.Program, lab: lk.Lab) -> None:
    for name, fields, expected in (
        ("ports", {"0": "server eth0", "1": "none"}, ["3", lab["server"]["eth0"].where, "none"]),
        ("cpus", {"0": "192", "1": ""}, ["0", "192", "none"]),
        ("onward", {"0": str(program.id)}, ["1", "decides"]),
    ):
        view.show(name)
        say(view, "open")
        say(view, "write", keys={"0": expected[0]}, fields=fields)
        assert not view.errors, list(view.errors)
        (row,) = read(view)
        assert [row[0], row[-1]] == [expected[0], expected[-1]]
        assert expected[1] in row[1]
        say(view, "open", row=view.state["rows"][0]["id"])
        say(view, "delete")
        assert read(view) == []
    assert program.maps["ports"].read() == {}


def test_prefixes_rings_and_sockets(view: MapBrowser, program: lk.Program, lab: lk.Lab) -> None:
    view.show("routes")
    say(view, "open")
    say(view, "write", keys={"0": "10.1.0.0/16"}, fields={"0": "7"})
    raw = bpf.map_lookup(program.maps["routes"].fd, struct.pack("=I", 32) + socket.inet_aton("10.1.2.3"), 4)
    assert struct.unpack("=I", raw) == (7,)
    assert read(view) == [["10.1.0.0/16", "7"]]
    view.show("lines")
    send(lab, 103)
    lab.ledger()
    read(view)
    assert view.state["fill"] == [103 * 16, 8 * os.sysconf("SC_PAGE_SIZE"), 103 * 16]
    assert not view.state["readable"]
    view.show("sockets")
    with lk.xsk.XskSocket(lab["server"]["eth0"]) as xsk:
        program.maps["sockets"][2] = xsk
        assert read(view)[0][0] == "2"
        assert lab["server"]["eth0"].where in read(view)[0][1]
        assert not view.state["can_add"]


def test_every_map_of_the_lessons_programs_is_shown(lab: lk.Lab, program: lk.Program) -> None:
    """Maps alone: what a program needs to be loaded (a device, a hook) differs, how a map is shown doesn't."""
    kinds = set()
    for path in sorted((*BPF.glob("*.c"), *(BPF / "exercises").glob("*.c"), *(BPF / "lab").glob("*.c"))):
        program.spec = spec = lk.compile(path=path)  # whose types these are
        btf = Btf(spec.btf) if spec.btf else None
        for each in spec.maps.values():
            one = map_class(each.type).create(each, btf)
            shown = shown_of(Known(one, (program,)), lab)
            one.close()
            kinds.add(each.type)
            assert (shown["refused"], len(shown["rows"]) <= PAGE_ROWS) == ("", True), (path, each)
            assert "doesn't know" not in shown["about"]
    assert kinds >= {MapType.HASH, MapType.ARRAY, MapType.PERCPU_HASH, MapType.DEVMAP, MapType.CPUMAP, MapType.RINGBUF}


def shown_of(known: Known, lab: lk.Lab) -> dict[str, Any]:
    viewed = Viewed(known, lab)
    viewed.tick(known)
    shown = viewed.shown()
    viewed.close()
    if shown["locked"] or shown["refused"]:
        with pytest.raises(MapError, match="read-only"):
            viewed.check_open_to_writing()
    return shown


def test_maps_for_programs_alone_say_so(lab: lk.Lab, program: lk.Program) -> None:
    for flags, told in ((1 << 3, "BPF_F_RDONLY"), (1 << 4, "would not be read")):
        one = lk.Map.create(MapSpec("plain", MapType.ARRAY, 4, 4, 3, flags))
        shown = shown_of(Known(one, (program,)), lab)
        one.close()
        assert told in shown["locked"] + shown["refused"]


def test_it_goes_on_with_a_map_that_was_handed_on(program: lk.Program, lab: lk.Lab, spec: lk.ProgramSpec) -> None:
    view = MapBrowser(program, name="action")
    link = lab.attached[0]
    again = lab.load(spec, replaces=program)
    link.replace(again)
    program.close()
    again.maps["action"][0] = 7
    assert read(view) == [["0", "7"]]
    assert (view.ended, view.map) == (None, again.maps["action"])
    again.close()
    view._tick(view._ticker.seq)
    assert view.ended == "gone"
    assert "last moment" in view.state["ended"]
    assert view.state["rows"]
    say(view, "open", row="00000000")
    say(view, "mark")
    assert "<table" in view._picture()
    view.close()
    view.close()


def test_shown_fifty_times_and_nothing_more_than_one(program: lk.Program) -> None:
    threads = threading.active_count()
    views = [MapBrowser(program)]
    open_now = len(os.listdir("/proc/self/fd"))
    views += [MapBrowser(program) for _ in range(50)]
    assert threading.active_count() <= threads + 1
    assert len(os.listdir("/proc/self/fd")) <= open_now + 1
    assert [view.ended for view in views] == ["replaced"] * 50 + [None]
    other = MapBrowser(program, name="wide")
    assert views[-1].ended is None
    for view in (*views, other):
        view.close()
    assert threading.active_count() == threads


def test_rubbish_from_a_page_does_no_harm(view: MapBrowser, program: lk.Program) -> None:
    view.show("action")
    before = dict(program.maps["action"].items())
    for rubbish in (
        *(None, 7, {}, [], {"type": None}, {"type": ["write"]}, {"type": "write"}, {"type": "delete"}),
        *({"type": "choose", "id": "map", "value": 1}, {"type": "choose", "id": [], "value": {}}),
        *({"type": "sort", "by": "value 99"}, {"type": "sort", "by": {"a": 1}}, {"type": "sort", "by": "key 0"}),
        *({"type": "page", "to": -5}, {"type": "search", "text": "<b>" * 100, "where": 5}, {"type": "undo"}),
    ):
        view._heard(view, rubbish, [])
    assert not view.errors, list(view.errors)
    say(view, "search", text="")
    for wrong in ({"type": "page", "to": "x"}, {"type": "open", "row": "zz"}, {"type": "open", "row": "00"}):
        view._heard(view, wrong, [])
    say(view, "open", row="00000000")
    for fields in ("x", {"9": "1"}, {"x": "1"}, {str(i): "1" for i in range(99)}):
        say(view, "write", fields=fields)
    assert len(view.errors) >= 5
    view.errors.clear()
    assert dict(program.maps["action"].items()) == before
    assert read(view) == [["0", "0"]]


def test_what_is_no_map_is_refused_by_name(lab: lk.Lab, program: lk.Program) -> None:
    with pytest.raises(StateError, match="no lab, program or map"):
        MapBrowser(7)  # type: ignore[arg-type]
    with pytest.raises(StateError, match=r"no map 'nothing' here"):
        MapBrowser(program, name="nothing")
    one, whole = MapBrowser(program.maps["wide"]), MapBrowser(lab)
    assert [label for _, label in one.state["maps"]] == ["wide of decides"]
    assert len(whole.state["maps"]) == len(program.maps)
    program.close()
    for view in (one, whole):
        view._tick(view._ticker.seq)
    assert (one.ended, whole.ended, whole.state["map"]) == ("gone", None, None)
    with pytest.raises(StateError, match="belongs to no open lab"):
        MapBrowser(program)
    lab.close()
    assert whole.ended == "gone"
    with pytest.raises(StateError, match="is closed"):
        MapBrowser(lab)
    for view in (one, whole):
        view.close()


def test_entries_vanish_while_they_are_read(program: lk.Program) -> None:
    view, wide = MapBrowser(program, name="flows", interval_s=0.005), program.maps["flows"]
    view.observe(lambda change: view._heard(view, {"type": "ack", "seq": change["new"]["seq"]}, []), "state")
    for turn in range(300):
        wide[{"saddr": turn % 5}] = {"packets": turn}
        if turn % 3 == 0:
            del wide[{"saddr": turn % 5}]
    assert (view.ended, list(view.errors)) == (None, [])
    view.close()
