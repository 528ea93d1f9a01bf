"""What metadata costs and saves: every packet of every measurement found again; no figure is held against a bound."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import LessonError, TrafficError
from labkit.lesson import hints_cost_xdp, workshop
from labkit.lesson.hints_cost import NEVER, Burst, Composer, TimedWay
from labkit.lesson.hints_cost_pairs import Pairs
from labkit.lesson.hints_cost_table import ANOTHER, SAME
from labkit.traffic.generated import MOST_METADATA
from labkit.traffic.volleys import Volleys
from labkit.uapi import XdpAction

N = 2_003  # a prime
several = pytest.mark.skipif(len(workshop.usable_cpus()) < 2, reason="one CPU only: run it where there are two or more")

LOOK = r"""
#include "common/verdict.h"

struct words { u32 count; u32 of[54]; };
LAB_ARRAY(wanted, struct words, 1);
LAB_PERCPU_ARRAY(bytes, u64, 2);	/* of metadata, in all; and of frames whose words are others */

int look(struct xdp_md *ctx)
{
	u32 *meta = (void *)(long)ctx->data_meta, *data = (void *)(long)ctx->data;
	u32 i, zero = 0, one = 1, wrong = 0;
	struct words *words = wanted.lookup(&zero);
	u64 *sum = bytes.lookup(&zero), *others = bytes.lookup(&one);

	if (!words || !sum || !others)
		return verdict(ctx, XDP_ABORTED);
	*sum += (void *)data - (void *)meta;
	for (i = 0; i < 54; i++) {
		if (meta + i + 1 > data)
			break;
		wrong |= meta[i] ^ words->of[i];
		meta[i] = 0xdeadbeef;	/* the page comes round again */
	}
	*others += wrong || i != words->count;
	return verdict(ctx, XDP_DROP);
}
"""


@pytest.fixture
def way() -> Iterator[TimedWay]:
    with TimedWay("cost") as made:
        yield made


# ---- The generator's metadata ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flows", [1, 7])
@pytest.mark.parametrize("size", [0, 4, 32, 40, MOST_METADATA])
def test_generated_metadata_is_there_each_time_whatever_the_receiver_wrote(lab: lk.Lab, size: int, flows: int) -> None:
    metadata = os.urandom(size)
    words = [*struct.unpack(f"={size // 4}I", metadata), *[0] * (54 - size // 4)]
    program = lab.load(lk.compile(text=LOOK))
    program.maps["wanted"][0] = {"count": size // 4, "of": words}
    program.attach(lab["server"]["eth0"])
    frame = lk.udp(lab["client"], lab["server"])
    report = lk.generate(lab["client"]["eth0"], frame, 20_011, flows=flows, metadata=metadata)
    assert report.frame_bytes == 64
    assert lab.ledger().losses == {"XDP_DROP": 20_011}
    assert [program.maps["bytes"][slot] for slot in (0, 1)] == [20_011 * size, 0]


@pytest.mark.parametrize("metadata", [b"abc", bytes(MOST_METADATA + 4), "text", None, 4])
def test_what_can_be_no_metadata_is_refused(lab: lk.Lab, metadata: object) -> None:
    with pytest.raises(TrafficError, match=r"metadata|multiple of 4"):
        lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), 7, metadata=metadata)  # type: ignore[arg-type]


def test_the_receiver_is_left_as_it_is(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    server, frame = lab["server"]["eth0"], lk.udp(lab["client"], lab["server"])
    lab.load(verdicts, "drop").attach(server)
    lk.generate(lab["client"]["eth0"], frame, N, prepare=False)
    assert not server.features()["rx-gro"]
    lk.generate(lab["client"]["eth0"], frame, N)
    assert server.features()["rx-gro"]
    assert lab.ledger().losses == {"XDP_DROP": 2 * N}


def test_volleys_are_counted_and_end_with_the_lab(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
    before = os.sched_getaffinity(0)
    volleys = Volleys(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), cpu=min(before), prepare=False)
    assert all(volleys.send(packets) > 0 for packets in (1, 101, N))
    assert lab.ledger().losses == {"XDP_DROP": 1 + 101 + N}
    assert lab["client"].run(os.sched_getaffinity, 0) == before
    with pytest.raises(TrafficError, match="packets can't be 0"):
        volleys.send(0)
    lab.close()
    assert volleys.closed


# ---- The way -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gro", [False, True])
def test_every_packet_comes_to_the_end(way: TimedWay, gro: bool) -> None:
    """Counted in the driver, in TC and at the socket, and by the ledger."""
    for number, composer in enumerate(Composer):
        without, with_it = way.seen
        burst = Burst(N, (64, 1532)[number % 2], composer, other_cpu=number % 3 == 0, gro=gro)
        ledger = way.ledger(burst)
        assert ledger.losses == {"SOCKET_FILTER": N}, str(ledger)
        assert ledger.unaccounted == 0
        assert way.lab["server"]["eth0"].features()["rx-gro"] is gro
        expected = (N, 0) if composer is Composer.NOBODY else (0, N)
        assert (way.seen[0] - without, way.seen[1] - with_it) == expected
        assert way.run(burst) > 0


@several
def test_the_skb_is_made_where_it_should_be(way: TimedWay) -> None:
    for burst, cpu in ((Burst(N, 64), way.here), (Burst(N, 64, other_cpu=True), way.other)):
        done = way.done
        way.run(burst)
        assert way.done - done == N
        for pace, where in ((way.program.maps["came"], way.here), (way._told, cpu)):
            assert [at["packets"] for at in pace.per_cpu(0)][where] == N


def test_frames_below_the_threshold_get_none(way: TimedWay) -> None:
    for size, with_metadata in ((255, 0), (256, N), (257, N)):
        before = way.seen
        way.run(Burst(N, size, Composer.GIVEN, threshold=256))
        assert way.seen[1] - before[1] == with_metadata


def test_the_frames_carry_a_checksum_that_the_stack_verifies_or_believes(way: TimedWay) -> None:
    client, server = way.lab["client"], way.lab["server"]
    good = lk.udp(client, server, size=500)
    assert good[40:42] != b"\0\0"
    wrong = good[:40] + struct.pack("!H", struct.unpack("!H", good[40:42])[0] ^ 0x0101) + good[42:]
    way.run(Burst(101, 64))  # all on one CPU, GRO off
    for threshold, losses in ((NEVER, {"UDP_CSUM": N}), (0, {"SOCKET_FILTER": N})):
        way.open_for(threshold)
        way.lab.reset()
        lk.generate(client["eth0"], wrong, N, prepare=False)
        ledger = way.lab.ledger()
        assert (ledger.losses, ledger.unaccounted) == (losses, 0), str(ledger)


def test_the_composer_that_adds_up_tells_a_wrong_checksum(way: TimedWay) -> None:
    """It writes "wrong", so the stack looks for itself."""
    client, server = way.lab["client"], way.lab["server"]
    good = lk.udp(client, server, size=500)
    wrong = good[:-1] + b"\1"
    way.run(Burst(101, 64, Composer.CHECKSUM))
    way.lab.reset()
    lk.generate(client["eth0"], wrong, N, prepare=False)
    assert way.lab.ledger().losses == {"UDP_CSUM": N}


def test_a_run_that_loses_packets_is_no_measurement(way: TimedWay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.lesson.hints_cost._QUIET_S", 0.2)
    way.program.maps["cpus"][way.here] = 8
    with pytest.raises(TrafficError, match=r"Of 2,003 packets 2,003 came, [\d,]+ got to the end"):
        way.run(Burst(N, 64))


def test_pairs_take_turns(way: TimedWay) -> None:
    pairs = Pairs.of(way.in_turn(5, Burst(101, 64), Burst(101, 64, Composer.GIVEN)))
    assert len(pairs.gains_ns) == len(pairs.ratios) == 5
    assert min(*pairs.without_ns, *pairs.with_ns) > 0
    assert pairs.gain_spread_ns[0] <= pairs.gain_ns <= pairs.gain_spread_ns[1]
    assert pairs.ratio_spread[0] <= pairs.ratio <= pairs.ratio_spread[1]


# ---- The lesson's measurements -----------------------------------------------------------------------------------------


def test_the_table() -> None:
    table = lesson.metadata_table((64, 1532), packets=101, pairs=2)
    places = [SAME, ANOTHER] if len(workshop.usable_cpus()) > 1 else [SAME]
    assert [(c.gro, c.place, c.size) for c in table.cells] == [
        (gro, place, size) for gro in (False, True) for place in places for size in (64, 1532)
    ]
    assert table.unaccounted == 0
    assert table.ratio(64, gro=True) == table.cell(64, gro=True).pairs.ratio > 0
    assert len(table.table().rows) == 4 * len(places)
    assert table._repr_html_().count("<svg") == 2
    assert "2022, between nodes" in table._repr_html_()
    assert "memory node" in str(table) or len(places) == 1
    with pytest.raises(LessonError, match="no cell of 100 bytes"):
        table.ratio(100)


def test_one_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    only = workshop.usable_cpus()[:1]
    monkeypatch.setattr("labkit.lesson.hints_cost.usable_cpus", lambda: only)
    table = lesson.metadata_table((64,), packets=101, pairs=1)
    assert table.places == (SAME,)
    assert "one CPU only" in str(table)
    assert "another CPU" not in table._repr_html_()


def test_the_crossing() -> None:
    found = lesson.crossover(Composer.GIVEN, Composer.TIME, sizes=(64, 512), packets=101, pairs=3)
    assert found.unaccounted == 0
    assert [len(row) for row in found.measured.values()] == [2, 2]
    assert 0 <= found[Composer.TIME].threshold_bytes <= NEVER
    assert found[Composer.TIME].low <= found[Composer.TIME].high
    assert "finds the hash, and the time" in str(found)
    assert found._repr_html_().count("<svg") == 1
    with pytest.raises(LessonError, match="was not measured"):
        found[Composer.HASH]


@pytest.mark.parametrize("sizes", [(64,), (128, 64), (64, 64), (64, 9000), (40, 64), ("64", "65"), "64", 64, None])
def test_sizes_that_cant_be(sizes: tuple[int, ...]) -> None:
    with pytest.raises(LessonError, match="can't be the frame sizes"):
        lesson.crossover(sizes=sizes)


def test_counts_that_cant_be() -> None:
    for given in ({"packets": 0}, {"pairs": 0}, {"pairs": True}, {"packets": 16_385}, {"packets": "many"}):
        for measure in (lesson.metadata_table, lesson.crossover):
            with pytest.raises(LessonError, match=r"(packets|pairs) can't be"):
                measure(**given)  # type: ignore[arg-type]
    for measure in (lesson.cost_of_composing, lesson.hash_or_parse):
        with pytest.raises(LessonError, match="runs can't be -1"):
            measure(runs=-1)
        with pytest.raises(LessonError, match="can't be the frame sizes"):
            measure(size=10)


@pytest.mark.parametrize("composer", [Composer.NOBODY, "GIVEN", None])
def test_who_composes_nothing(composer: Composer) -> None:
    with pytest.raises(LessonError, match="no composer"):
        lesson.crossover(composer)
    with pytest.raises(LessonError, match="no composer"):
        lesson.threshold_at_work(64, composer=composer)


def test_the_threshold_at_work() -> None:
    table = lesson.threshold_at_work(128, sizes=(64, 128, 256), packets=101, pairs=2).table
    assert [row[:3] for row in table.rows] == [(64, 101, 0), (128, 101, 101), (256, 101, 101), ("all", 303, 202)]
    assert [row[-1] for row in table.rows] == [0, 0, 0, 0]


def test_the_threshold_changes_under_traffic() -> None:
    table = lesson.threshold_under_traffic(256, size=200, packets=211)
    every, some, none, again = table.rows
    for with_metadata, without in ((every[1], some[2]), (again[1], none[2])):
        assert with_metadata >= 211  # type: ignore[operator]
        assert without >= 211  # type: ignore[operator]
    assert every[2] == 0  # before any change
    total = sum(row[1] + row[2] for row in table.rows)  # type: ignore[operator]
    assert f"{total:,} frames of 200 bytes, none lost" in str(table)


@pytest.mark.parametrize("threshold", [-1, NEVER + 1, "64", True, None])
def test_thresholds_that_cant_be(threshold: int) -> None:
    for measure in (lesson.threshold_at_work, lesson.threshold_under_traffic):
        with pytest.raises(LessonError, match="threshold can't be"):
            measure(threshold)


def test_a_drop_and_a_choice() -> None:
    drop = lesson.cost_of_composing(packets=N, runs=2)
    choice = lesson.hash_or_parse(packets=N, runs=2)
    for race, lanes in ((drop, 5), (choice, 3)):
        assert len(race.lanes) == lanes
        assert race.unaccounted == 0
        for lane in race.lanes:
            assert lane.ledger.losses == {"XDP_DROP": N}
            assert len(lane.runs_mpps) == 2
    assert "15 Mpps" in str(drop)
    assert "spread_by_hash" in str(choice)


def test_both_choose_by_what_they_say() -> None:
    """The one by the metadata, whatever the headers are; the other by the headers, whatever the metadata is."""
    with hints_cost_xdp._Dropping("test", 64, with_metadata=True) as lab:
        for function in ("cost_by_hash", "cost_by_parsing"):
            chosen = set()
            program = lab.load(function)
            program.attach(lab.lab["server"]["eth0"])
            for sport in (10_000, 10_001):
                for hash_of in (0, 1 << 31):
                    before = program.maps["packets_to_cpu"].read()
                    metadata = lab.formats["meta_generic"].encode(hash=hash_of, hash_type=1)
                    frame = lk.udp(lab.lab["client"], lab.lab["server"], sport=sport)
                    lk.generate(lab.lab["client"]["eth0"], frame, 101, metadata=metadata, prepare=False)
                    after = program.maps["packets_to_cpu"].read()
                    (cpu,) = (cpu for cpu in after if after[cpu] - before[cpu] == 101)
                    chosen.add((sport if function == "cost_by_parsing" else hash_of, cpu))
            assert len(chosen) == len({cpu for _, cpu in chosen}) == 2
            assert program.maps["verdicts"][int(XdpAction.DROP)] == 4 * 101
