"""Layouts from type information, the generic fields, formats: any bytes are answered, and none is taken for what it isn't."""

from __future__ import annotations

import random
import struct
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import HintError
from labkit.hints import (
    CSUM_VERIFIED,
    GENERIC_BYTES,
    ID_BYTES,
    MAGIC,
    NO_QUEUE,
    Captured,
    Decoded,
    Field,
    Foreign,
    Format,
    Formats,
    GenericMeta,
    Layout,
    read,
)
from labkit.hints.declared import declared
from labkit.kernel.btf import Btf, Kind, kernel_btf

# Everything that a structure of C can have; own_format grows a format of common/meta.h to the left.
OWN = """\
#include "common/meta.h"

struct point { s16 x; s16 y; };

struct own_format {
	s32 offset;
	u8 mac[6];
	u16 magic;
	struct point from, to[2];
	__be32 address;
	union { u32 both; u16 halves[2]; };
	bool early;
	u8 pad[3];
	struct meta_flow flow;
} __attribute__((packed, aligned(4)));
LAB_META_FORMAT(own_format);

struct with_bits { u32 low : 3, high : 29; u64 whole; };
LAB_META_FORMAT(with_bits);

struct huge { u8 bytes[224]; struct meta_generic generic; } __attribute__((packed, aligned(4)));
LAB_META_FORMAT(huge);

struct odd { u8 one; struct meta_generic generic; } __attribute__((packed));
LAB_META_FORMAT(odd);

struct inside_out { struct meta_generic generic; u32 after; } __attribute__((packed, aligned(4)));
LAB_META_FORMAT(inside_out);

int none(struct xdp_md *ctx) { return XDP_PASS; }
"""
STANDARD = {"meta_generic": 32, "meta_flow": 40, "meta_latency": 44}
MANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
IDS = st.integers(0, 0xFFFFFFFF)


@pytest.fixture(scope="module")
def own() -> lk.ProgramSpec:
    return lk.compile(text=OWN)


@pytest.fixture(scope="module")
def btf(own: lk.ProgramSpec) -> Btf:
    return Btf(own.btf)


def format_of(btf: Btf, name: str) -> Format:
    return Format(Layout.from_btf(btf, name), 12, btf.find(name, Kind.STRUCT), 3)


def with_ids(data: bytes, type_id: int, btf_id: int, magic: int = MAGIC) -> bytes:
    return data + struct.pack("<IIH", type_id, btf_id, magic)


# ---- Layouts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STANDARD)
def test_the_formats_of_the_header(btf: Btf, name: str) -> None:
    layout = Layout.from_btf(btf, name)
    assert layout.size_bytes == STANDARD[name]
    assert layout.generic_at == layout.size_bytes - GENERIC_BYTES
    assert layout.unsupported == ()
    assert layout.before("type_id") == ID_BYTES
    assert layout["vlan_proto"].network_order
    assert not layout["vlan_tci"].network_order
    covered = sorted((each.offset, each.end) for each in layout.fields)
    assert [start for start, _ in covered] == [0, *(end for _, end in covered[:-1])], "no byte twice, none left out"
    assert covered[-1][1] == layout.size_bytes


def test_fields_of_a_format_of_ones_own(btf: Btf) -> None:
    layout = Layout.from_btf(btf, "own_format")
    assert [each.name for each in layout.fields] == [
        *("offset", "mac", "magic", "from.x", "from.y", "to", "address", "both", "halves", "early", "pad"),
        *("mark", "l4_offset", "protocol", "flow.pad", "timestamp_ns", "hash", "hash_type", "queue", "vlan_proto"),
        *("vlan_tci", "csum_status", "csum_level", "type_id", "btf_id", "flow.generic.id.magic"),
    ]
    assert layout["offset"] == Field("offset", 0, 4, signed=True)
    assert layout["mac"] == Field("mac", 4, 6, kind="array", count=6)
    assert layout["from.y"] == Field("from.y", 14, 2, signed=True)
    assert layout["to"].kind == "bytes"
    assert layout["both"].offset == layout["halves"].offset
    assert layout.before("mark") == STANDARD["meta_flow"]
    given = {"offset": -5, "mac": [1, 2, 3, 4, 5, 6], "from.x": -2, "address": 0x0A000102, "halves": [7, 8], "mark": 9}
    data = layout.encode(**given)
    assert data[:10] == struct.pack("<i6B", -5, 1, 2, 3, 4, 5, 6)
    assert data[layout["address"].offset :][:4] == bytes([10, 0, 1, 2])
    assert given.items() <= layout.decode(data).items()
    assert layout.decode(data)["both"] == 7 | 8 << 16


def test_bit_fields_are_named_as_what_cant_be_read(btf: Btf) -> None:
    layout = Layout.from_btf(btf, "with_bits")
    assert layout.unsupported == ("low", "high")
    assert [each.name for each in layout.fields] == ["whole"]
    assert layout.generic_at is None
    assert "low  (can't be read)" in str(layout)


def test_bit_fields_of_old_compilers_are_numbers_of_fewer_bits() -> None:
    """Documentation/bpf/btf.rst: without the kind's flag a bit field is an INT that says how many bits, and from where."""
    text = b"\0u32\0three_bits\0old\0whole\0part\0"

    def type_(name: bytes, info: int, size: int, *more: int) -> bytes:
        return struct.pack(f"=III{len(more)}I", text.index(name), info, size, *more)

    types = type_(b"u32", Kind.INT << 24, 4, 32) + type_(b"three_bits", Kind.INT << 24, 4, 3)
    members = (text.index(b"whole"), 1, 0, text.index(b"part"), 2, 32)
    types += type_(b"old", Kind.STRUCT << 24 | 2, 8, *members)
    header = struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(text))
    layout = Layout.from_btf(Btf(header + types + text), "old")
    assert [each.name for each in layout.fields] == ["whole"]
    assert layout.decode(bytes(range(8)))["whole"] == int.from_bytes(bytes(range(4)), sys.byteorder)
    assert layout.unsupported == ("part",)


@given(data=st.data())
@MANY
def test_what_is_encoded_is_decoded(btf: Btf, data: st.DataObject) -> None:
    form = format_of(btf, data.draw(st.sampled_from([*STANDARD, "own_format"])))
    values = {each.name: data.draw(values_of(each), each.name) for each in form.layout.fields if each.name != "both"}
    meta = form.encode(**values)
    assert len(meta) == form.size_bytes
    before = {name: value for name, value in values.items() if form.layout.before(name) > ID_BYTES}
    assert before.items() <= form.decode(meta).items()
    assert before.items() <= form.decode(b"what others put further left" + meta).items()
    assert meta[-ID_BYTES:] == struct.pack("<IIH", form.type_id, 12, MAGIC), "whatever was given for the ids"


def values_of(field: Field) -> st.SearchStrategy[Any]:
    """What fits a field."""
    if field.kind == "bytes":
        return st.binary(min_size=field.size_bytes, max_size=field.size_bytes)
    bits = 8 * field.size_bytes // field.count
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if field.signed else (0, (1 << bits) - 1)
    number = st.integers(low, high)
    return number if field.kind == "int" else st.lists(number, min_size=field.count, max_size=field.count)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"mark": -1}, "a whole number from 0 to 4294967295"),
        ({"mark": 1.5}, "a whole number"),
        ({"mark": "7"}, "a whole number"),
        ({"offset": 1 << 31}, "-2147483648 to 2147483647"),
        ({"mac": [1, 2]}, "a list of 6, each a whole number from 0 to 255"),
        ({"mac": 5}, "a list of 6"),
        ({"mac": b"12345"}, "a list of 6"),
        ({"to": b"1"}, "exactly 8 bytes"),
        ({"colour": 1}, "its fields are offset, mac"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(btf: Btf, values: dict[str, Any], words: str) -> None:
    with pytest.raises(HintError) as caught:
        format_of(btf, "own_format").encode(**values)
    assert words in caught.value.remedy
    assert next(iter(values)) in str(caught.value)


def test_structures_of_the_kernel_decode_any_bytes() -> None:
    btf, dice = kernel_btf(), random.Random(1009)
    tried = fields = 0
    while tried < 300:
        found = btf.type(dice.randint(1, len(btf)))
        if found.kind is not Kind.STRUCT or not found.size:
            continue
        layout = Layout.of(btf, found)
        names = [each.name for each in layout.fields]
        assert len(set(names)) == len(names), found.name
        assert all(each.offset >= 0 and each.end <= layout.size_bytes for each in layout.fields), found.name
        data = dice.randbytes(layout.size_bytes)
        values = layout.decode(data)
        again = layout.decode(layout.encode(**values))
        assert again == values, found.name
        tried, fields = tried + 1, fields + len(names)
    assert fields > 3000


def test_a_field_of_the_kernels_is_where_the_reader_of_types_finds_it() -> None:
    layout = Layout.from_btf(kernel_btf(), "sk_buff")
    for name in ("len", "data_len", "hash", "mac_header", "skb_iif"):
        assert layout[name].offset == kernel_btf().byte_offset("sk_buff", name)
    assert {"pkt_type", "ip_summed", "csum_level"} <= {each.rpartition(".")[2] for each in layout.unsupported}


# ---- Formats, as declared -----------------------------------------------------------------------------------------------


def test_formats_are_declared_in_c_and_have_slots(btf: Btf) -> None:
    found = declared(btf, ["own_format", "meta_latency", "own_format"], "here")
    assert [(slot, each.name) for slot, each in found] == [(2, "meta_latency"), (3, "own_format")]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["with_bits"], "does not end in struct meta_generic"),
        (["inside_out"], "does not end in struct meta_generic"),
        (["huge"], "has 256 bytes"),
        (["odd"], "has 33 bytes"),
        (["meta_flou"], "below the struct in the C text write LAB_META_FORMAT(meta_flou)"),
        (["xdp_md"], "does not end in struct meta_generic"),
        ([], "declares no format"),
        ("meta_flow", "names can't be 'meta_flow'"),
        ([7], r"names can't be \[7\]"),
        (7, "names can't be 7"),
        (None, "does not end in struct meta_generic|has 256 bytes|has 33 bytes"),
    ],
)
def test_what_is_no_format_is_said_so(btf: Btf, names: Any, words: str) -> None:
    with pytest.raises(HintError) as caught:
        declared(btf, names, "here")
    assert caught.match(words.replace("(meta_flou)", r"\(meta_flou\)"))
    assert caught.value.remedy


def test_a_program_without_formats() -> None:
    spec = lk.compile(text="#include <uapi/linux/bpf.h>\nint pass(struct xdp_md *ctx)\n{\n\treturn XDP_PASS;\n}\n")
    with pytest.raises(HintError, match="declares no format"):
        Formats.load(spec)
    for wrong in (5, "bpf/meta.c", b""):
        with pytest.raises(HintError, match="has no type information"):
            Formats.load(wrong)  # type: ignore[arg-type]


# ---- The generic fields -------------------------------------------------------------------------------------------------

GENERIC = st.builds(
    GenericMeta,
    st.integers(0, (1 << 64) - 1),
    IDS,
    *[st.integers(0, 0xFFFF)] * 4,
    *[st.integers(0, 0xFF)] * 2,
)


@given(generic=GENERIC, left=st.binary(max_size=60), type_id=IDS, btf_id=IDS)
@MANY
def test_generic_fields_are_read_whatever_the_format_is(
    generic: GenericMeta, left: bytes, type_id: int, btf_id: int
) -> None:
    meta = left + generic.encode(type_id, btf_id)
    assert GenericMeta.from_bytes(meta) == generic
    assert GenericMeta.from_bytes(memoryview(meta)) == generic
    found = read(meta, [])
    assert found == Foreign(f"unknown format {btf_id}:{type_id}", generic)


@given(generic=GENERIC)
@MANY
def test_the_layout_and_the_generic_reader_agree(btf: Btf, generic: GenericMeta) -> None:
    form = format_of(btf, "meta_generic")
    assert form.decode(generic.encode(form.type_id, 12)) == vars(generic)
    assert form.encode(**vars(generic)) == generic.encode(form.type_id, 12)


def test_what_is_not_given_is_not_known(btf: Btf) -> None:
    found = GenericMeta.from_bytes(format_of(btf, "meta_flow").encode(mark=7))
    assert found == GenericMeta()
    assert found.known() == {}
    assert set(found.describe().values()) == {"not known"}
    said = GenericMeta(5, 6, 1, 2, 0x8100, 0x2005, CSUM_VERIFIED, 1)
    assert list(said.known()) == list(vars(said))
    assert said.describe()["vlan_tci"] == "8197 (VLAN 5)"
    assert said.describe()["csum_status"] == "found right"
    assert GenericMeta(queue=NO_QUEUE - 1).known() == {"queue": NO_QUEUE - 1}
    for wrong in (GenericMeta(hash=-1), GenericMeta(queue=1 << 16), GenericMeta(csum_level="x")):  # type: ignore[arg-type]
        with pytest.raises(HintError, match="doesn't fit 32 bytes"):
            wrong.encode(1, 2)


# ---- Reading ------------------------------------------------------------------------------------------------------------


@given(meta=st.binary(max_size=300))
@example(b"")
@example(b"\xb5\x1a")
@example(bytes(8) + b"\xb5\x1a")
@MANY
def test_any_bytes_are_answered(meta: bytes) -> None:
    ours = len(meta) >= ID_BYTES and meta[-2:] == struct.pack("<H", MAGIC)
    found = read(meta, [])
    assert isinstance(found, Foreign)
    assert found.reason.startswith("unknown format" if ours else "no ")
    generic = GenericMeta.from_bytes(meta)
    assert (generic is not None) == (ours and len(meta) >= GENERIC_BYTES)
    assert found.generic == generic
    assert read(Captured("here", meta, lk.Frame(b""), 60), []) == found


@given(magic=st.integers(0, 0xFFFF), left=st.binary(min_size=22, max_size=80), type_id=IDS, btf_id=IDS)
@MANY
def test_a_wrong_magic_is_never_ours(magic: int, left: bytes, type_id: int, btf_id: int) -> None:
    assume(magic != MAGIC)
    meta = with_ids(left, type_id, btf_id, magic)
    assert GenericMeta.from_bytes(meta) is None
    assert read(meta) == Foreign(f"no magic: {magic:#06x} in place of 0x1ab5")


def test_reasons_in_words() -> None:
    assert read(b"") == Foreign("no metadata")
    assert read(b"abcd") == Foreign("no magic: 4 bytes are fewer than the last 10")
    assert read(with_ids(b"", 7, 12), []) == Foreign("unknown format 12:7")
    assert str(read(b"")) == "foreign: no metadata"


@pytest.mark.parametrize("wrong", [None, 7, "text", [b"1"], {}, object()])
def test_what_is_no_bytes_is_refused(wrong: Any) -> None:
    with pytest.raises(HintError, match="has no metadata to read"):
        read(wrong)
    with pytest.raises(HintError):
        GenericMeta.from_bytes(wrong)
    with pytest.raises(HintError, match="can't be a struct"):
        Layout("empty", 0, ()).decode(wrong)


def test_bytes_in_other_wrappings(btf: Btf) -> None:
    form = format_of(btf, "meta_flow")
    meta = form.encode(mark=7, hash=5)
    for same in (bytearray(meta), memoryview(meta), memoryview(meta).cast("I")):
        assert form.decode(same) == form.decode(meta)
        assert form.layout.decode(same) == form.layout.decode(meta)
        assert read(same, []) == read(meta, [])
    for wrong in (meta[1:], meta + b"\0", memoryview(meta + meta[:4]).cast("I")):
        with pytest.raises(HintError, match="bytes are no meta_flow"):
            form.layout.decode(wrong)
    for wrong in (meta[1:], None, 7, "text"):
        with pytest.raises(HintError, match=r"are no meta_flow|can't be a struct"):
            form.decode(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [7, "meta_flow", [7], [None]])
def test_what_are_no_formats_is_refused(wrong: Any) -> None:
    with pytest.raises(HintError, match="are no formats"):
        read(b"", wrong)


def test_what_was_captured_is_shown_from_the_packet_to_the_left() -> None:
    meta = bytes(range(44))
    packet = Captured("in XDP, server eth0", meta, lk.Frame(bytes(256)), 1514, cpu=1)
    lines = str(packet).splitlines()
    assert lines[0].split(maxsplit=1) == ["seen", "in XDP, server eth0, on CPU 1"]
    assert [line.split()[0] for line in lines[2:5]] == ["−44", "−32", "−16"]
    assert bytes.fromhex("".join(line.split(maxsplit=1)[1] for line in lines[2:5])) == meta
    assert lines[-1].split(maxsplit=1) == ["packet", "1,514 bytes, the first 256 of them here"]
    assert "<th scope" in packet._repr_html_()
    assert repr(packet) == "<captured in XDP, server eth0: 44 bytes of metadata, a packet of 1,514 bytes>"
    bare = Captured("here", b"", lk.Frame(b"x"), 1, has_room=False)
    assert "this driver keeps no room for it" in str(bare)


def test_decoded_metadata_is_shown_in_words(btf: Btf) -> None:
    form = format_of(btf, "meta_flow")
    generic = GenericMeta(hash=0xABC, hash_type=1)
    shown = Decoded(form, {**form.decode(form.encode(mark=7)), **vars(generic)}, generic)
    assert f"meta_flow: 12:{form.type_id}, 40 bytes" in str(shown)
    assert "mark          7" in str(shown)
    assert "hash          0x00000abc" in str(shown)
    assert "timestamp_ns  not known" in str(shown)
    assert ">meta_flow: 12:" in shown._repr_html_()
