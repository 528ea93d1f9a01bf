"""lk.explain: a frame is replayed by the kernel on a copy, and followed beside it: both agree, and nothing is counted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import until

import labkit as lk
from labkit.analysis.from_spec import code_of_spec
from labkit.follow import Replay
from labkit.follow.explaining import explained
from labkit.interface import Interface
from labkit.program.program import Program
from labkit.uapi import ProgType

ROOT = Path(__file__).resolve().parents[2]
N = 101  # a prime
TEXTS = (
    *sorted((ROOT / "bpf").glob("*.c")),
    *sorted((ROOT / "bpf" / "analysis").glob("*.c")),
    *sorted((ROOT / "notebooks" / "solutions").glob("*.c")),
)
# What the kernel can't be asked to run on a given frame.
NOT_REPLAYED = {"hints_hash", "hints_seen", "compose_bound"}


def frames_for(lab: lk.Lab, chance: random.Random) -> Iterator[bytes]:
    """Frames as they are, cut short, and with bytes changed by chance."""
    client, server = lab["client"], lab["server"]
    whole = [
        *(lk.udp(client, server), lk.tcp(client, server), lk.icmp(client, server), lk.arp(client, server)),
        *(lk.vlan(lk.udp(client, server), 10), lk.udp6(client, server), lk.udp(client, server, size=1514), bytes(14)),
    ]
    yield from whole
    for each in whole:
        yield each[: chance.randrange(14, len(each) + 1)]
        yield bytes(byte if chance.random() > 0.04 else chance.randrange(256) for byte in each)
        yield each[:14] + chance.randbytes(len(each) - 14)


def fill(program: Program, chance: random.Random, port: Interface) -> None:
    """Something in each map that decides: numbers by chance in arrays, and slots of ports."""
    for each in program.maps.values():
        kind = each.spec.type.name
        for slot in range(min(4, each.spec.max_entries)):
            if kind == "ARRAY" and chance.random() < 0.7:
                each[slot] = bytes(
                    chance.choice((0, 1, 2, 7)) if at % 4 == 0 else 0 for at in range(each.spec.value_size)
                )
            elif kind == "DEVMAP" and chance.random() < 0.5:
                each[slot] = port


def xdp_programs(lab: lk.Lab) -> Iterator[Program]:
    """Every XDP program of the lessons that this kernel takes."""
    for path in TEXTS:
        spec = lk.compile(path=path)
        for name in spec.functions:
            try:
                program = lab.load(spec, name)
            except lk.LabError:
                continue
            with program:
                yield program


def test_every_lesson_program_is_followed_to_its_end(lab: lk.Lab) -> None:
    """Verdict, bytes, metadata and every map's content of the follower are the kernel's, for all that loads."""
    chance, at = random.Random(N), lab["server"]["eth0"]
    followed = set()
    for program in xdp_programs(lab):
        fill(program, chance, at)
        replay = Replay(program, at)
        for frame in frames_for(lab, chance):
            found = replay.run(frame)
            said = (program.name, frame.hex(), found.stopped, found.differs, found.kernel_why)
            assert found.kernel is not None, said
            assert found.run is not None, said
            assert (found.stopped, found.differs) == ("", ""), said
        followed.add(program.name)
    assert len(followed) >= 60
    assert followed >= {
        "drop_by_protocol",
        "redirect_devmap",
        "router",
        "meta_read",
        "hand_out",
        "hold_back",
        "tx_back",
    }


def test_a_dropped_frame_is_told_by_the_test_that_decided(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with lab.load(lk.compile(path=ROOT / "notebooks/solutions/drop_udp_port.c")) as program:
        text = program.spec.source.splitlines()
        frame = lk.udp(client, server)  # to port 9999
        trace = lk.explain(program, frame)
        assert (trace.verdict, trace.verdict_name, trace.followed) == (1, "XDP_DROP", True)
        last = trace.last_branch
        assert last is not None
        assert "9999" in text[last.line - 1]
        assert last.words == "UDP dest (9999) = 9999"
        assert (
            trace.sentence
            == f"Dropped at line {last.line}: UDP dest (9999) = 9999. Had it gone the other way: XDP_PASS."
        )
        assert last.reads == ((36, 1), (37, 1)) or last.reads == ((36, 2),)
        assert any(at <= 36 and at + length >= 38 for at, length in trace.reads)
        other = lk.explain(program, frame[:36] + b"\x00\x35" + frame[38:])
        assert other.verdict_name == "XDP_PASS"
        assert "UDP dest (53) ≠ 9999" in other.sentence
        assert "Had it gone the other way: XDP_DROP." in other.sentence


def test_a_replay_counts_nothing_and_changes_no_map(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    program = lab.load(lk.compile(path=ROOT / "bpf/drop_by_protocol.c"))
    program.attach(server["eth0"])
    lk.send_frames(client["eth0"], [lk.udp(client, server)] * N)
    until(lambda: program.maps["verdicts"][1] == N, "all frames to be dropped")
    before = {name: each.read() for name, each in program.maps.items()}
    assert before["packets_by_protocol"][17] == before["verdicts"][1] == N
    trace = lk.explain(program, lk.udp(client, server))
    assert {name: each.read() for name, each in program.maps.items()} == before
    assert lab.ledger().sent == N
    assert [str(each).partition(":")[0] for each in trace.changes] == ["packets_by_protocol[17]", "verdicts[1]"]
    assert trace.place == "server eth0"
    assert "keep_protocol[17] (0) = 0, the key being IPv4 protocol" in trace.sentence
    program.maps["keep_protocol"][17] = 1  # a replay sees the maps as they are
    assert lk.explain(program, lk.udp(client, server)).verdict_name == "XDP_PASS"


def test_a_way_that_the_kernel_did_not_take_is_not_shown(lab: lk.Lab) -> None:
    with lab.load(lk.compile(path=ROOT / "bpf/drop_all.c")) as program:
        replay = Replay(program)
        replay.code = code_of_spec(lk.compile(path=ROOT / "bpf/pass.c"))
        replay.line_of = {slot: replay.code.line_at(slot) for slot in replay.code.instructions}
        frame = bytes(64)
        trace = explained(replay, frame, replay.run(frame))
    assert (trace.verdict_name, trace.steps, trace.marks, trace.last_branch) == ("XDP_DROP", (), (), None)
    assert not trace.followed
    assert "the kernel's verdict is 1, the follower's 2" in str(trace)


def test_a_question_to_the_driver_ends_the_marks_or_is_answered_with_silence(lab: lk.Lab) -> None:
    at = lab["server"]["eth0"]
    try:
        program = lab.load(lk.compile(path=ROOT / "bpf/hints_hash.c"), device=at)
    except lk.FeatureError as error:
        pytest.skip(str(error))
    trace = lk.explain(program, lk.udp(lab["client"], lab["server"]))
    assert (trace.verdict, trace.last_branch, trace.followed) == (None, None, False)
    assert "bpf_xdp_metadata_rx_hash asks the driver" in trace.sentence
    line = next(n for n, text in enumerate(program.spec.source.splitlines(), 1) if "metadata_rx_hash(ctx" in text)
    assert max(mark.line for mark in trace.marks) == line
    silent = lk.explain(program, lk.udp(lab["client"], lab["server"]), silent_driver=True)
    assert silent.followed
    assert silent.verdict is not None
    assert any("-ENODATA" in note for note in silent.notes)


HELPERS = """\
#include "common/maps.h"
#include "common/verdict.h"

BPF_LPM_TRIE(nets, struct { u32 bits; u32 address; }, u64, 16);
BPF_TABLE("lru_hash", u32, u64, recent, 64);
LAB_HASH(counts, u32, u64, 8);
LAB_PERCPU_HASH(each_cpu, u32, u64, 8);
LAB_RINGBUF(lines, 1);

struct line { u64 time; u32 chance; u32 cpu; };
struct net { u32 bits; u32 address; };

int helpers(struct xdp_md *ctx)
{
	u8 *at = (void *)(long)ctx->data;
	struct net net = { .bits = 32 };
	struct line line = {};
	u64 one = 1, *found;
	u32 key;

	if ((void *)(at + 32) > (void *)(long)ctx->data_end)
		return verdict(ctx, XDP_ABORTED);
	net.address = *(u32 *)(at + 26);
	key = at[14] & 15;
	found = nets.lookup((void *)&net);
	if (found)
		return verdict(ctx, *found & 3);
	line.time = bpf_ktime_get_ns();
	line.chance = bpf_get_prandom_u32();
	line.cpu = bpf_get_smp_processor_id();
	if (line.chance & 1)
		recent.update(&key, &line.time);
	if (at[15] & 1)
		counts.update(&key, &line.time);
	if (at[15] & 2)
		counts.delete(&key);
	found = counts.lookup(&key);
	if (found)
		__sync_fetch_and_add(found, 3);
	found = each_cpu.lookup_or_try_init(&key, &one);
	if (found)
		*found += 5;
	lines.ringbuf_output(&line, sizeof(line), 0);
	bpf_trace_printk("never %d", key);
	__builtin_memcpy(at, &line, 12);
	return verdict(ctx, at[16] & 4 ? XDP_TX : XDP_DROP);
}
"""


def test_time_chance_and_every_kind_of_map_are_followed(lab: lk.Lab) -> None:
    chance = random.Random(N)
    with lab.load(lk.compile(text=HELPERS)) as program:
        for prefix, verdict in ((8, 1), (16, 2), (24, 3), (32, 1)):
            key = prefix.to_bytes(4, "little") + bytes((10, 1, 2, 3))[: prefix // 8].ljust(4, b"\0")
            program.maps["nets"][key] = verdict
        for key in range(5):
            program.maps["counts"][key] = program.maps["each_cpu"][key] = program.maps["recent"][key] = key
        replay = Replay(program, lab["server"]["eth0"])
        verdicts = set()
        for _ in range(N):
            address = (
                bytes((10, 1, 2, 3)) if chance.random() < 0.2 else bytes(chance.choice((9, 10, 1, 2)) for _ in range(4))
            )
            found = replay.run(chance.randbytes(26) + address + bytes(4))
            assert (found.stopped, found.differs, found.kernel_why) == ("", "", "")
            assert found.kernel is not None
            verdicts.add(found.kernel.verdict)
    assert verdicts == {1, 2, 3}
    assert len(replay.notes) == 3  # time, chance, print


MOVES = """\
#include "common/verdict.h"

int moves(struct xdp_md *ctx)
{
	u8 *at = (void *)(long)ctx->data;
	int head, tail, i;

	if ((void *)(at + 16) > (void *)(long)ctx->data_end)
		return verdict(ctx, XDP_ABORTED);
	head = *(short *)(at + 12);
	tail = *(short *)(at + 14);
	i = bpf_xdp_adjust_head(ctx, head) ? 1 : 0;
	i += bpf_xdp_adjust_tail(ctx, tail) ? 2 : 0;
	at = (void *)(long)ctx->data;
	if ((void *)(at + 14) > (void *)(long)ctx->data_end)
		return verdict(ctx, XDP_ABORTED);
	at[0] = i;
	*(u16 *)(at + 2) = (long)ctx->data - (long)ctx->data_meta;
	return verdict(ctx, i);
}
"""


def test_moved_ends_give_the_kernels_answers(lab: lk.Lab) -> None:
    chance = random.Random(N)
    answers = set()
    with lab.load(lk.compile(text=MOVES)) as program:
        replay = Replay(program, lab["server"]["eth0"])
        for _ in range(2 * N):
            head, tail = (
                chance.choice((0, 4, -4, 40, -200, -215, -216, -217, -257, 49, 51)),
                chance.randrange(-60, 3600),
            )
            frame = chance.randbytes(12) + b"".join(each.to_bytes(2, "little", signed=True) for each in (head, tail))
            metadata = chance.randbytes(
                4 * chance.choice((0, 0, 1, 8, 54))
            )  # the kernel takes 216 bytes before a frame
            found = replay.run(frame + bytes(50), metadata)
            assert (found.stopped, found.differs, found.kernel_why) == ("", "", ""), (head, tail, len(metadata))
            assert found.kernel is not None
            answers.add(found.kernel.verdict)
    assert answers == {0, 1, 2, 3}


def test_metadata_is_moved_as_the_kernel_moves_it(lab: lk.Lab) -> None:
    try:
        program = lab.load(lk.compile(path=ROOT / "bpf/meta_write.c"))
    except lk.VerifierError as error:
        pytest.skip(f"this kernel takes no bpf_xdp_adjust_meta from XDP programs: {error.said}")
    program.maps["plan"][0] = {"mark": 7, "way": 0}
    trace = lk.explain(program, lk.udp(lab["client"], lab["server"]))
    assert trace.followed
    assert len(trace.result_metadata) == 8


def test_a_route_is_asked_of_the_kernel() -> None:
    with lk.Lab(lk.Topology.router(), name="routed") as lab:
        names = list(lab.hosts)
        router = next(lab[name] for name in names if len(lab[name].interfaces) > 1)
        ends = [each for name in names if name != router.name for each in lab[name].interfaces.values()]
        program = lab.load(lk.compile(path=ROOT / "bpf/router.c"))
        for each in router.interfaces.values():
            program.maps["ports"][each.ifindex] = each
        trace = lk.explain(program, lk.udp(ends[0].host, ends[1].host), interface=ends[0].peer)
        assert (trace.verdict_name, trace.followed) == ("XDP_REDIRECT", True), str(trace)
        assert trace.result[:6].hex(":") == ends[1].mac
        assert "TTL" not in trace.problem


def test_loops_and_strangers_are_told_plainly(lab: lk.Lab) -> None:
    text = """
#include "common/verdict.h"
int asks(struct xdp_md *ctx) { return verdict(ctx, bpf_get_numa_node_id() ? XDP_DROP : XDP_PASS); }
"""
    with lab.load(lk.compile(text=text)) as program:
        trace = lk.explain(program, bytes(64))
    assert trace.verdict_name in ("XDP_PASS", "XDP_DROP")  # the kernel's
    assert not trace.followed
    assert "bpf_get_numa_node_id is not one that can be followed" in trace.sentence
    assert trace.last_branch is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"frame": b"x" * 13}, "13 bytes"),
        ({"frame": bytes(65536)}, "65,536 bytes"),
        ({"frame": "text"}, "not str"),
        ({"interface": 7}, "no interface"),
        ({"queue": -1}, "queue"),
        ({"queue": True}, "queue"),
        ({"metadata": b"abc"}, "3 bytes of metadata"),
        ({"program": None}, "None is no program"),
    ],
)
def test_what_can_not_be_meant_is_refused(lab: lk.Lab, given: dict[str, object], said: str) -> None:
    with lab.load(lk.compile(path=ROOT / "bpf/pass.c")) as program:
        wanted: dict[str, object] = {"program": program, "frame": bytes(64), **given}
        with pytest.raises(lk.LabError, match=said):
            lk.explain(**wanted)  # type: ignore[arg-type]


def test_closed_and_foreign_programs_are_refused(lab: lk.Lab) -> None:
    program = lab.load(lk.compile(path=ROOT / "bpf/pass.c"))
    program.close()
    with pytest.raises(lk.StateError, match="closed"):
        lk.explain(program, bytes(64))
    with (
        lab.load(lk.compile(path=ROOT / "bpf/meta_read.c"), "meta_read_tc", type=ProgType.SCHED_CLS) as classifier,
        pytest.raises(lk.StateError, match="no loaded XDP program"),
    ):
        lk.explain(classifier, bytes(64))


def test_odd_frames_are_answered_too(lab: lk.Lab) -> None:
    with lab.load(lk.compile(path=ROOT / "bpf/drop_by_protocol.c")) as program:
        long = lk.explain(program, bytes(4001))
        assert long.verdict_name == "XDP_PASS"
        assert "comes in pieces" in long.sentence
        queue = lk.explain(program, bytes(64), interface=lab["server"]["eth0"], queue=99)
        assert (queue.verdict, queue.followed) == (None, False)
        shown = lk.explain(program, bytes(64))._repr_html_()
        assert "&quot;common/parse.h&quot;" in shown  # the text is text, not markup
