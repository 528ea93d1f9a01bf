"""Formats that the kernel knows, metadata as each consumer sees it, decoded by its last ten bytes alone."""

from __future__ import annotations

import itertools
import json
import os
import random
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.hints import (
    ID_BYTES,
    MAGIC,
    NO_QUEUE,
    Capture,
    Captured,
    Decoded,
    Foreign,
    Formats,
    GenericMeta,
    open_formats,
    read,
)
from labkit.kernel import bpf
from labkit.uapi import AttachType, ProgType

PACKETS = 13
DEADLINE_S = 20.0
HASH = 0xDEC0DE05

# Writes meta_latency with a number of its own for each packet, and sends the packet on its way.
WRITER = """\
#include "common/verdict.h"
#include "common/meta.h"

LAB_CPUMAP(cpus, 64);
LAB_DEVMAP_PROGRAMS(ports, 1);
LAB_ARRAY(numbers, u32, 1);

static __always_inline void compose(struct xdp_md *ctx)
{
	u32 only = 0, *number = numbers.lookup(&only);
	struct meta_latency *latency;

	if (!number || !meta_pays(ctx))
		return;
	latency = meta_compose(ctx, META_LATENCY, sizeof(*latency));
	if (!latency)
		return;
	latency->sent_ns = bpf_ktime_get_ns();
	latency->sequence = (*number)++;
	latency->generic.hash = 0xdec0de05;
	latency->generic.hash_type = 2;
	latency->generic.vlan_proto = htons(0x8100);
	latency->generic.vlan_tci = 0x2007;
	latency->generic.csum_status = META_CSUM_VERIFIED;
	latency->generic.csum_level = 1;
}

int on_pass(struct xdp_md *ctx) { compose(ctx); return verdict(ctx, XDP_PASS); }
int on_to_cpu(struct xdp_md *ctx) { compose(ctx); return verdict(ctx, cpus.redirect_map(0, 0)); }
int on_to_port(struct xdp_md *ctx) { compose(ctx); return verdict(ctx, ports.redirect_map(0, 0)); }

/* Bytes of nobody's format, and then, in their place, a format's: what was there is replaced, not prepended to. */
int over_old(struct xdp_md *ctx)
{
	u8 *old = meta_prepend(ctx, 128);

	if (!old)
		return verdict(ctx, XDP_ABORTED);
	__builtin_memset(old, 0xee, 128);
	compose(ctx);
	return verdict(ctx, XDP_PASS);
}

/* All as it should be, but one bit of the magic. */
int wrong_magic(struct xdp_md *ctx)
{
	struct meta_latency *latency = meta_compose(ctx, META_LATENCY, sizeof(*latency));

	if (!latency)
		return verdict(ctx, XDP_ABORTED);
	latency->generic.hash = 0xdec0de05;
	latency->generic.hash_type = 2;
	latency->generic.id.magic = META_MAGIC ^ 0x0100;
	return verdict(ctx, XDP_PASS);
}

/* The ids of a format, and nothing of its fields. */
int cut_short(struct xdp_md *ctx)
{
	u32 slot = META_LATENCY;
	struct meta_format_ids *ids = meta_formats.lookup(&slot);
	u8 *meta = meta_prepend(ctx, 12);
	struct meta_id *id;

	if (!meta || !ids)
		return verdict(ctx, XDP_ABORTED);
	id = (void *)meta + 2;
	id->type_id = ids->type_id;
	id->btf_id = ids->btf_id;
	id->magic = META_MAGIC;
	return verdict(ctx, XDP_PASS);
}

int only_bytes(struct xdp_md *ctx)
{
	u32 *old = meta_prepend(ctx, 216);

	if (!old)
		return verdict(ctx, XDP_ABORTED);
	old[0] = 1;
	old[53] = 54;
	return verdict(ctx, XDP_PASS);
}
"""

# A format that no reader here was compiled with: the field is elsewhere, and of half the size.
STRANGER = """\
#include "common/verdict.h"
#include "common/meta.h"

struct meta_stranger {
	u8 colour[7];
	u8 pad;
	u16 sequence;
	u16 more;
	struct meta_flow flow;
} __attribute__((packed, aligned(4)));
LAB_META_FORMAT(meta_stranger);

LAB_ARRAY(numbers, u32, 1);

int on_stranger(struct xdp_md *ctx)
{
	struct meta_stranger *meta = meta_compose(ctx, META_OWN, sizeof(*meta));
	u32 only = 0, *number = numbers.lookup(&only);

	if (!meta || !number)
		return verdict(ctx, XDP_ABORTED);
	meta->sequence = (*number)++;
	meta->more = 0xffff;
	meta->flow.generic.hash = 0xdec0de05;
	meta->flow.generic.hash_type = 2;
	return verdict(ctx, XDP_PASS);
}
"""

# Knows the generic fields and what a map tells; compiled without any of the formats' structures in use.
READER = """\
#include "common/verdict.h"
#include "common/meta.h"

struct found { u64 decoded, foreign, sum, hashes; };

LAB_HASH(places, u64, struct meta_field, 8);
LAB_ARRAY(found, struct found, 1);

static __always_inline void look(void *meta, void *data, struct meta_id *id, struct meta_generic *generic)
{
	u32 only = 0;
	struct found *all = found.lookup(&only);
	struct meta_field *at;
	u64 full, value = 0;

	if (!all)
		return;
	if (generic && generic->hash == 0xdec0de05 && generic->hash_type == 2)
		__sync_fetch_and_add(&all->hashes, 1);
	full = id ? meta_full_id(id) : 0;
	at = places.lookup(&full);
	if (at && meta_field(meta, data, at, &value)) {
		__sync_fetch_and_add(&all->decoded, 1);
		__sync_fetch_and_add(&all->sum, value);
	} else {
		__sync_fetch_and_add(&all->foreign, 1);
	}
}

int read_xdp(struct xdp_md *ctx)
{
	look((void *)(long)ctx->data_meta, (void *)(long)ctx->data, META_ID(ctx), META_GENERIC_OF(ctx));
	return verdict(ctx, XDP_PASS);
}

int read_tc(struct __sk_buff *skb)
{
	look((void *)(long)skb->data_meta, (void *)(long)skb->data, META_ID(skb), META_GENERIC_OF(skb));
	return -1;	/* the next one decides */
}
"""


@pytest.fixture(scope="module")
def writer() -> lk.ProgramSpec:
    return lk.compile(text=WRITER)


@pytest.fixture(scope="module")
def reader() -> lk.ProgramSpec:
    return lk.compile(text=READER)


@pytest.fixture(scope="module")
def stranger() -> lk.ProgramSpec:
    return lk.compile(text=STRANGER)


@pytest.fixture
def router() -> Iterator[lk.Lab]:
    with lk.Lab(lk.Topology.router(), name="test") as made:
        yield made


@pytest.fixture
def formats(writer: lk.ProgramSpec) -> Iterator[Formats]:
    with Formats.load(writer) as made:
        yield made


def writing(lab: lk.Lab, spec: lk.ProgramSpec, function: str, formats: Formats) -> lk.Program:
    program = lab.load(spec, function)
    formats.tell(program)
    return program


def send(lab: lk.Lab, packets: int = PACKETS, size: int = 64) -> None:
    client = lab["client"]
    report = lk.generate(client["eth0"], lk.udp(client, lab["server"], size=size), packets=packets)
    assert report.sent == packets


def check_decoded(got: list[Captured], formats: Formats) -> None:
    """All there, each once, every field as written."""
    found = [read(each) for each in got]
    assert all(isinstance(each, Decoded) for each in found), found
    decoded = [each for each in found if isinstance(each, Decoded)]
    assert sorted(each.fields["sequence"] for each in decoded) == list(range(PACKETS))
    for each, packet in zip(decoded, got, strict=True):
        assert each.format is formats["meta_latency"]
        assert len(packet.meta) == each.format.size_bytes
        assert each.generic == GenericMeta(0, HASH, 2, NO_QUEUE, 0x8100, 0x2007, 1, 1)
        assert vars(each.generic).items() <= each.fields.items()
        assert 0 < each.fields["sent_ns"] <= packet.time_ns
        assert packet.length_bytes == len(packet.frame) == 64


# ---- Ids ------------------------------------------------------------------------------------------------------------------


def test_each_load_has_an_id_of_its_own_until_it_is_closed(writer: lk.ProgramSpec) -> None:
    with Formats.load(writer) as one, Formats.load(writer) as two:
        assert one.btf_id != two.btf_id
        assert one["meta_flow"].type_id == two["meta_flow"].type_id, "of one C text"
        assert {one, two} <= set(open_formats())
        meta = one["meta_flow"].encode(mark=7)
        found = read(meta)
        assert isinstance(found, Decoded)
        assert found.format is one["meta_flow"]
        assert found.fields["mark"] == 7
        assert found.fields["queue"] == NO_QUEUE
        assert read(meta, two) == Foreign(f"unknown format {one.btf_id}:{one['meta_flow'].type_id}", GenericMeta())
        assert isinstance(read(meta, [two, one]), Decoded)
        fd = bpf.btf_fd_by_id(one.btf_id)  # the kernel knows these types by this id
        try:
            assert bpf.btf_of(fd) == writer.btf
        finally:
            os.close(fd)
    assert one.closed
    assert one not in open_formats()
    assert isinstance(read(meta), Foreign)
    assert isinstance(read(meta, one), Foreign)
    with pytest.raises(OSError, match="No such file"):
        bpf.btf_fd_by_id(one["meta_flow"].btf_id)
    one.close()
    for use in (lambda: one.btf_id, lambda: one.offsets("mark"), lambda: one.tell(None)):  # type: ignore[arg-type]
        with pytest.raises(lk.StateError, match="are closed"):
            use()


def test_formats_that_nobody_holds_are_let_go(writer: lk.ProgramSpec) -> None:
    ident = Formats.load(writer).btf_id
    assert ident not in [each.btf_id for each in open_formats()]
    with pytest.raises(OSError, match="No such file"):
        bpf.btf_fd_by_id(ident)


def test_a_reader_that_knows_nothing_asks_the_kernel_for_the_types(stranger: lk.ProgramSpec) -> None:
    with Formats.load(stranger) as theirs:
        meta = theirs["meta_stranger"].encode(sequence=5, hash=HASH, hash_type=2)
        type_id, btf_id, _magic = struct.unpack("<IIH", meta[-ID_BYTES:])
        with Formats.of_kernel(btf_id) as found:
            assert found.names == ("meta_generic", "meta_flow", "meta_latency", "meta_stranger")
            theirs.close()
            decoded = read(meta, found)
            assert isinstance(decoded, Decoded)
            assert (decoded.format.name, decoded.format.type_id) == ("meta_stranger", type_id)
            assert decoded.fields["sequence"] == 5
            assert decoded.generic == GenericMeta(hash=HASH, hash_type=2)
    with pytest.raises(lk.HintError, match=f"The kernel has no BTF object {btf_id}"):
        Formats.of_kernel(btf_id)
    for wrong in (0, -1, 1 << 32, True, "12", None):
        with pytest.raises(lk.HintError, match="btf_id can't be"):
            Formats.of_kernel(wrong)  # type: ignore[arg-type]


def test_the_formats_of_the_header_need_no_program() -> None:
    with Formats.load() as formats:
        assert formats.names == ("meta_generic", "meta_flow", "meta_latency")
        assert [each.slot for each in formats] == [0, 1, 2]
        assert len(formats) == 3
        assert "meta_flow" in formats
        assert "meta_flow" in formats._repr_html_()
        with pytest.raises(lk.HintError, match="no format 'meta_flou'"):
            formats["meta_flou"]
        assert formats.by_id("text") is None  # type: ignore[arg-type]


def check_reading(meta: bytes, formats: Formats) -> type:
    """What ``read`` must say of these bytes, by their last ten and their length alone; what it said."""
    type_id, btf_id, magic = struct.unpack("<IIH", meta[-ID_BYTES:])
    known = next((f for f in formats if (f.type_id, f.btf_id) == (type_id, btf_id)), None)
    found = read(meta, formats)
    if isinstance(found, Decoded):
        assert magic == MAGIC
        assert found.format is known
        assert len(meta) >= found.format.size_bytes
        assert meta.endswith(found.format.encode(**found.fields))
    else:
        assert magic != MAGIC or known is None or len(meta) < known.size_bytes
        assert (found.generic is not None) == (magic == MAGIC and len(meta) >= 32)
    return type(found)


def test_nothing_is_taken_for_what_it_is_not(formats: Formats) -> None:
    """Bytes that are nearly right: ids known, known in part or none, the magic right or not, of any length."""
    known = [(each.type_id, each.btf_id) for each in formats]
    numbers = sorted({number for pair in known for number in pair} | {0})
    number = st.one_of(st.sampled_from(numbers), st.integers(0, 0xFFFFFFFF))

    @given(
        left=st.binary(max_size=60),
        ids=st.one_of(st.sampled_from(known), st.tuples(number, number)),
        magic=st.one_of(st.just(MAGIC), st.integers(0, 0xFFFF)),
    )
    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def attempt(left: bytes, ids: tuple[int, int], magic: int) -> None:
        check_reading(left + struct.pack("<IIH", *ids, magic), formats)

    attempt()
    dice, said = random.Random(503), {Decoded: 0, Foreign: 0}
    for _ in range(2003):
        pair = dice.choice(known) if dice.random() < 0.5 else (dice.choice(numbers), dice.choice(numbers))
        end = struct.pack("<IIH", *pair, dice.choice((MAGIC, MAGIC, MAGIC ^ 1 << dice.randrange(16))))
        said[check_reading(dice.randbytes(dice.randrange(61)) + end, formats)] += 1
    assert min(said.values()) > 100


# ---- As each consumer sees it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_at_tc_ingress(lab: lk.Lab, writer: lk.ProgramSpec, formats: Formats, mode: str) -> None:
    program = writing(lab, writer, "on_pass", formats)
    server = lab["server"]["eth0"]
    program.attach(server, mode)
    with Capture(lab, server) as capture, lk.UdpSink(lab["server"]):
        send(lab)
        got = capture.take(PACKETS, DEADLINE_S)
        assert capture.seen == PACKETS
        assert capture.lost == 0
    check_decoded(got, formats)
    assert (program.verdicts() or {})["XDP_PASS"] == PACKETS
    ledger = lab.ledger()
    assert (ledger.sent, ledger.delivered, ledger.unaccounted) == (PACKETS, PACKETS, 0)


def test_in_xdp_behind_a_redirect_and_in_a_slot_of_the_device_map(
    router: lk.Lab, writer: lk.ProgramSpec, formats: Formats
) -> None:
    program = writing(router, writer, "on_to_port", formats)
    far, near = router["server"]["eth0"], router["router"]["eth1"]
    with (
        Capture(router, at="devmap", packets=PACKETS) as leaving,
        Capture(router, far, at="xdp") as arriving,
        Capture(router, far) as later,
    ):
        program.maps["ports"][0] = near, leaving.program
        program.attach(router["router"]["eth0"])
        send(router)
        for capture in (arriving, later, leaving):
            check_decoded(capture.take(PACKETS, DEADLINE_S), formats)
            assert capture.seen == PACKETS
        assert (arriving.program.verdicts() or {})["XDP_PASS"] == PACKETS
    assert (program.verdicts() or {})["XDP_REDIRECT"] == PACKETS
    assert router.ledger().unaccounted == 0


def test_in_a_slot_of_the_cpu_map(lab: lk.Lab, writer: lk.ProgramSpec, formats: Formats) -> None:
    program = writing(lab, writer, "on_to_cpu", formats)
    server = lab["server"]["eth0"]
    with Capture(lab, at="cpumap") as capture, Capture(lab, server) as later, lk.UdpSink(lab["server"]):
        program.maps["cpus"][0] = 192, capture.program
        program.attach(server)
        send(lab)
        got = capture.take(PACKETS, DEADLINE_S)
        check_decoded(got, formats)
        assert {each.cpu for each in got} == {0}
        check_decoded(later.take(PACKETS, DEADLINE_S), formats)
        assert capture.seen == (capture.program.verdicts() or {})["XDP_PASS"] == PACKETS
        assert lab.ledger().delivered == PACKETS


def test_only_the_first_packets_are_copied_and_all_go_on(lab: lk.Lab, writer: lk.ProgramSpec, formats: Formats) -> None:
    program = writing(lab, writer, "on_pass", formats)
    server = lab["server"]["eth0"]
    program.attach(server)
    with Capture(lab, server, packets=5) as capture, lk.UdpSink(lab["server"]):
        capture.program.maps["wanted"][0] = 7  # as if other CPUs had copied a packet each at the same moment
        send(lab)
        got = capture.take(5, DEADLINE_S)
        assert [read(each).fields["sequence"] for each in got] == list(range(5))  # type: ignore[union-attr]
        ledger = lab.ledger()
        assert capture.seen == PACKETS
        assert capture.take() == []
        assert "5 so far" in repr(capture)
    assert (capture.seen, capture.lost) == (PACKETS, 0)
    assert (ledger.sent, ledger.delivered) == (PACKETS, PACKETS)
    assert lab.ledger().unaccounted == 0


def test_what_came_is_kept_after_close_and_ends_with_the_lab(writer: lk.ProgramSpec, formats: Formats) -> None:
    with lk.Lab(lk.Topology.pair(), name="test") as lab:
        server = lab["server"]["eth0"]
        writing(lab, writer, "on_pass", formats).attach(server)
        capture = Capture(lab, server)
        with lk.UdpSink(lab["server"]) as sink:
            send(lab)
            lab.ledger()
            assert sink
    assert capture.closed
    check_decoded(capture.take(PACKETS, DEADLINE_S), formats)
    capture.close()


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_the_longest_metadata_arrives_whole(lab: lk.Lab, writer: lk.ProgramSpec, mode: str) -> None:
    """The kernel allows 252 bytes; veth's headroom of 256, less the 40 of a struct xdp_frame at its start, holds 216."""
    server = lab["server"]["eth0"]
    lab.load(writer, "only_bytes").attach(server, mode)
    with Capture(lab, server) as capture:
        send(lab, 1, size=1514)
        (got,) = capture.take(1, DEADLINE_S)
    assert len(got.meta) == 216
    assert got.meta[:4] == struct.pack("=I", 1)
    assert got.meta[-4:] == struct.pack("=I", 54)
    assert (len(got.frame), got.length_bytes) == (256, 1514)
    assert read(got) == Foreign("no magic: 0x0000 in place of 0x1ab5")


def test_a_packet_without_metadata_is_foreign(lab: lk.Lab) -> None:
    with Capture(lab, lab["server"]["eth0"]) as capture:
        send(lab)
        got = capture.take(PACKETS, DEADLINE_S)
    assert [read(each) for each in got] == [Foreign("no metadata")] * PACKETS
    assert all(each.has_room for each in got)


# ---- Writing ----------------------------------------------------------------------------------------------------------------


def test_without_ids_nothing_is_written(lab: lk.Lab, writer: lk.ProgramSpec) -> None:
    server = lab["server"]["eth0"]
    program = lab.load(writer, "on_pass")  # nobody told it
    program.attach(server)
    with Capture(lab, server) as capture:
        send(lab)
        assert {len(each.meta) for each in capture.take(PACKETS, DEADLINE_S)} == {0}
    assert (program.verdicts() or {})["XDP_PASS"] == PACKETS


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_old_metadata_is_replaced(lab: lk.Lab, writer: lk.ProgramSpec, formats: Formats, mode: str) -> None:
    server = lab["server"]["eth0"]
    writing(lab, writer, "over_old", formats).attach(server, mode)
    with Capture(lab, server) as capture:
        send(lab)
        check_decoded(capture.take(PACKETS, DEADLINE_S), formats)


def test_the_threshold_changes_while_packets_run(lab: lk.Lab, writer: lk.ProgramSpec, formats: Formats) -> None:
    server = lab["server"]["eth0"]
    program = writing(lab, writer, "on_pass", formats)
    program.attach(server)
    with Capture(lab, server, packets=64) as capture:
        seen = {}
        for threshold, size in itertools.product((0, 256, 257, 1514), (64, 256, 1514)):
            program.maps["meta_threshold"][0] = threshold
            send(lab, 1, size=size)
            (got,) = capture.take(1, DEADLINE_S)
            seen[threshold, size] = bool(got.meta)
        assert seen == {(threshold, size): size >= threshold for threshold, size in seen}


# ---- A reader that never saw the format -------------------------------------------------------------------------------------


def attach_tc(lab: lk.Lab, program: lk.Program, interface: lk.Interface) -> Callable[[], None]:
    link = interface.run(bpf.link_create, program.fd, interface.ifindex, AttachType.TCX_INGRESS)
    return lambda: os.close(link)


@pytest.mark.parametrize("where", ["tc", "cpumap"])
def test_one_program_reads_formats_it_was_not_compiled_with(
    lab: lk.Lab,
    writer: lk.ProgramSpec,
    reader: lk.ProgramSpec,
    stranger: lk.ProgramSpec,
    formats: Formats,
    where: str,
) -> None:
    server = lab["server"]["eth0"]
    if where == "tc":
        consumer = lab.load(reader, "read_tc", type=ProgType.SCHED_CLS, expected_attach_type=AttachType.TCX_INGRESS)
        end = attach_tc(lab, consumer, server)
        ours = writing(lab, writer, "on_pass", formats)
    else:
        consumer = lab.load(reader, "read_xdp", expected_attach_type=AttachType.XDP_CPUMAP)
        ours = writing(lab, writer, "on_to_cpu", formats)
        ours.maps["cpus"][0] = 192, consumer
        end = consumer.close
    try:
        with Formats.load(stranger) as others, Capture(lab, server, packets=64) as capture:
            formats.teach(consumer.maps["places"], "sequence")
            link = ours.attach(server)
            numbers = sum(range(PACKETS))

            def seen(packets: int) -> dict[str, int]:
                send(lab)
                assert len(capture.take(PACKETS, DEADLINE_S)) == PACKETS
                found = consumer.maps["found"][0]
                assert found["decoded"] + found["foreign"] == packets
                assert found["hashes"] == packets, "the generic fields are read in any case"
                return {name: found[name] for name in ("decoded", "foreign", "sum")}

            assert seen(PACKETS) == {"decoded": PACKETS, "foreign": 0, "sum": numbers}
            if where == "cpumap":
                return
            link.replace(writing(lab, stranger, "on_stranger", others))
            assert seen(2 * PACKETS) == {"decoded": PACKETS, "foreign": PACKETS, "sum": numbers}
            others.teach(consumer.maps["places"], "sequence")
            later = seen(3 * PACKETS)
            assert later["decoded"] == 2 * PACKETS
            assert later["sum"] == numbers + sum(range(PACKETS, 2 * PACKETS)), "two bytes of it, not those beside it"
            others.forget(consumer.maps["places"])
            others.forget(consumer.maps["places"])
            assert seen(4 * PACKETS)["decoded"] == 2 * PACKETS
    finally:
        end()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("wrong_magic", "no magic: 0x1bb5 in place of 0x1ab5"),
        ("cut_short", "cut short: meta_latency has 44 bytes, here are 12"),
        ("only_bytes", "no magic: 0x0000 in place of 0x1ab5"),
    ],
)
def test_programs_and_python_find_the_same_foreign(
    lab: lk.Lab, writer: lk.ProgramSpec, reader: lk.ProgramSpec, formats: Formats, function: str, reason: str
) -> None:
    server = lab["server"]["eth0"]
    consumer = lab.load(reader, "read_tc", type=ProgType.SCHED_CLS, expected_attach_type=AttachType.TCX_INGRESS)
    formats.teach(consumer.maps["places"], "sequence")
    end = attach_tc(lab, consumer, server)
    try:
        program = lab.load(writer, function)
        if "meta_formats" in program.maps:
            formats.tell(program)
        program.attach(server)
        with Capture(lab, server) as capture:
            send(lab)
            found = [read(each) for each in capture.take(PACKETS, DEADLINE_S)]
        assert [str(each) for each in found] == [f"foreign: {reason}"] * PACKETS
        assert [each.generic for each in found] == [None] * PACKETS
        lab.ledger()  # waits until all have come to rest
        assert consumer.maps["found"][0] == {"decoded": 0, "foreign": PACKETS, "sum": 0, "hashes": 0}
    finally:
        end()


def test_offsets_count_from_the_packet_to_the_left(formats: Formats, stranger: lk.ProgramSpec) -> None:
    latency = formats["meta_latency"].full_id
    assert formats.offsets("sequence") == {latency: {"before": 36, "bytes": 4}}
    assert formats.offsets("sent_ns") == {latency: {"before": 44, "bytes": 8}}
    assert formats.offsets("hash") == {each.full_id: {"before": 24, "bytes": 4} for each in formats}
    with Formats.load(stranger, names=["meta_stranger"]) as others:
        (only,) = others
        assert only.slot == 3
        assert others.offsets("sequence") == {only.full_id: {"before": 44, "bytes": 2}}
        for name, words in (
            ("colour", "no number that a program can be given"),
            ("magic", "no number that a program can be given"),
            ("color", "No format has a field 'color'"),
            (None, "No format has a field None"),
            ([], "No format has a field"),
        ):
            with pytest.raises(lk.HintError, match=words):
                others.offsets(name)  # type: ignore[arg-type]
        with pytest.raises(lk.HintError, match="is no map"):
            others.teach({}, "sequence")  # type: ignore[arg-type]


# ---- Used wrongly -------------------------------------------------------------------------------------------------------------


def test_a_program_that_writes_no_metadata_is_told_nothing(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    with Formats.load() as formats:
        with pytest.raises(lk.HintError, match="'pass' has no map meta_formats"):
            formats.tell(lab.load(verdicts, "pass"))
        with pytest.raises(lk.HintError, match="None has no map"):
            formats.tell(None)  # type: ignore[arg-type]


def test_captures_that_cant_be(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    server = lab["server"]["eth0"]
    with lk.Lab(lk.Topology.pair(), name="other") as other:
        theirs = other["server"]["eth0"]
        wrong: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
            ((lab, server), {"at": "tcp"}, "at can't be 'tcp'"),
            ((lab, server), {"at": []}, "at can't be"),
            ((lab, server), {"packets": 0}, "packets can't be 0"),
            ((lab, server), {"packets": 1025}, "packets can't be 1025"),
            ((lab, server), {"packets": True}, "packets can't be True"),
            ((lab, "eth0"), {}, "is no interface of this lab"),
            ((lab,), {}, "None is no interface of this lab"),
            ((lab, theirs), {}, "is no interface of this lab"),
            ((lab, server), {"at": "cpumap"}, "belongs to no interface"),
            ((server, server), {}, "is no lab"),
        ]
        for given_, named, words in wrong:
            with pytest.raises(lk.HintError, match=words):
                Capture(*given_, **named)
    with pytest.raises(lk.AttachError, match="no XDP mode 'offload'"):
        Capture(lab, server, at="xdp", mode="offload")  # type: ignore[arg-type]
    link = lab.load(verdicts, "pass").attach(server)
    with pytest.raises(lk.HintError, match="has an XDP program already: pass"):
        Capture(lab, server, at="xdp")
    assert not link.closed
    link.close()
    with Capture(lab, server, at="xdp") as capture:
        for packets, timeout_s in ((-1, 0), (1, -1), (1, "soon"), (1, True), (2000, 1)):
            with pytest.raises(lk.HintError, match="can't be"):
                capture.take(packets, timeout_s)  # type: ignore[arg-type]
        assert capture.take(1, 0.01) == []


def test_two_readers_and_a_writer_at_once(lab: lk.Lab, writer: lk.ProgramSpec, formats: Formats) -> None:
    """Formats come and go while another thread reads: each answer is the one or the other, and no error."""
    meta = formats["meta_latency"].encode(sequence=1)
    stop, failed = threading.Event(), []

    def read_on() -> None:
        try:
            while not stop.is_set():
                assert isinstance(read(meta), Decoded)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read_on) for _ in range(2)]
    for each in threads:
        each.start()
    dice = random.Random(7)
    kept: list[Formats] = []
    for _ in range(37):
        kept.append(Formats.load(writer))
        if len(kept) > 3:
            kept.pop(dice.randrange(3)).close()
    stop.set()
    for each in threads:
        each.join()
    for made in kept:
        made.close()
    assert not failed


# ---- In a sandbox -------------------------------------------------------------------------------------------------------------

SCRIPT = f"""
import json, sys
import labkit as lk
from labkit.errors import PrivilegeError
from labkit.hints import Capture, Decoded, Formats, read

WRITER = {WRITER!r}
spec = lk.compile(text=WRITER)
said = {{}}
with Formats.load(spec) as formats, Formats.load() as others:
    said["ids differ"] = formats.btf_id != others.btf_id
    try:
        Formats.of_kernel(others.btf_id)
    except PrivilegeError as error:
        said["of kernel"] = error.message
    with lk.Lab(lk.Topology.pair(), name="hints") as lab:
        server = lab["server"]["eth0"]
        program = lab.load(spec, "on_to_cpu")
        formats.tell(program)
        with Capture(lab, at="cpumap") as on_cpu, Capture(lab, server) as at_tc:
            program.maps["cpus"][0] = 192, on_cpu.program
            program.attach(server)
            lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), packets={PACKETS})
            for name, capture in (("cpumap", on_cpu), ("tc", at_tc)):
                found = [read(each) for each in capture.take({PACKETS}, {DEADLINE_S})]
                numbers = [each.fields["sequence"] for each in found if isinstance(each, Decoded)]
                said[name] = [sorted(numbers) == list(range({PACKETS})), capture.seen]
        said["redirected"] = program.verdicts()["XDP_REDIRECT"]
print(json.dumps(said))
"""


def test_the_same_in_a_sandbox(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "script.py").write_text(SCRIPT)
    ended = subprocess.run(
        [Path(sys.prefix) / "bin" / "labkit", "sandbox", "--", sys.executable, str(home / "script.py")],
        env={**os.environ, "XDP_LAB_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "ids differ": True,
        "of kernel": "This process may not have these types.",
        "cpumap": [True, PACKETS],
        "tc": [True, PACKETS],
        "redirected": PACKETS,
    }
