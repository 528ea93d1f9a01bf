"""Capture files: written and read again, both formats, and every way a file can be broken."""

from __future__ import annotations

import os
import struct
import time
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.errors import CaptureError
from labkit.traffic.capture import CapturedFrame
from labkit.traffic.pcap import read_pcap, write_pcap

FRAMES = [bytes([number]) * (60 + number) for number in range(7)]


def classic(
    packets: list[bytes], *, order: str = "<", magic: int = 0xA1B2C3D4, link: int = 1, wire: int | None = None
) -> bytes:
    made = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for number, packet in enumerate(packets):
        size = len(packet)
        made += struct.pack(order + "IIII", 1000 + number, 5, size, wire or size) + packet
    return made


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(order: str = "<", link: int = 1, snapshot: int = 0, resolution: int | None = None) -> bytes:
    options = b"" if resolution is None else struct.pack(order + "HHB3xHH", 9, 1, resolution, 0, 0)
    return block(1, struct.pack(order + "HHI", link, 0, snapshot) + options, order)


def enhanced(packet: bytes, ticks: int, order: str = "<", origin: int = 0) -> bytes:
    head = struct.pack(order + "IIIII", origin, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    return block(6, head + packet, order)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "test.pcap"


def test_what_is_written_is_read_again(file: Path) -> None:
    frames = [CapturedFrame(FRAMES[0], 1_700_000_000_123_456_000, True), *FRAMES[1:]]
    assert write_pcap(file, frames) == 7
    found = list(read_pcap(file))
    assert [packet.data for packet in found] == FRAMES
    assert all(packet.whole for packet in found)
    assert found[0].time_ns == 1_700_000_000_123_456_000
    assert abs(found[1].time_ns - time.time_ns()) < 60_000_000_000
    assert [path.name for path in file.parent.iterdir()] == ["test.pcap"]


def test_scapy_reads_what_is_written(file: Path) -> None:
    write_pcap(file, FRAMES)
    from scapy.utils import rdpcap

    assert [bytes(packet) for packet in rdpcap(str(file))] == FRAMES


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit_ns"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_classic_files_of_both_byte_orders_and_both_units(file: Path, order: str, magic: int, unit_ns: int) -> None:
    found = list(read_pcap(written(file, classic(FRAMES, order=order, magic=magic))))
    assert [packet.data for packet in found] == FRAMES
    assert [packet.time_ns for packet in found] == [(1000 + n) * 10**9 + 5 * unit_ns for n in range(7)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("resolution", "ticks"), [(None, 10**6), (9, 10**9), (0x8A, 1024)])
def test_pcapng_of_both_byte_orders(file: Path, order: str, resolution: int | None, ticks: int) -> None:
    data = section(order) + block(0xBAD, b"unknown", order) + interface(order, resolution=resolution)
    for number, packet in enumerate(FRAMES):
        data += enhanced(packet, (1 << 33) + number * ticks, order)
    found = list(read_pcap(written(file, data)))
    assert [packet.data for packet in found] == FRAMES
    assert [packet.time_ns for packet in found] == [
        ((1 << 33) + number * ticks) * 10**9 // ticks for number in range(7)
    ]


def test_pcapng_simple_and_old_packets_and_a_second_section(file: Path) -> None:
    old = struct.pack("<HHIIII", 0, 0, 0, 9, 60, 60) + FRAMES[0]
    data = section() + interface(snapshot=61) + block(2, old)
    data += block(3, struct.pack("<I", 66) + FRAMES[6][:61])
    data += section(">") + interface(">") + enhanced(FRAMES[3], 1, ">")
    found = list(read_pcap(written(file, data)))
    assert [packet.data for packet in found] == [FRAMES[0], FRAMES[6][:61], FRAMES[3]]
    assert [packet.whole for packet in found] == [True, False, True]


def test_a_snapshot_length_leaves_packets_that_are_not_whole(file: Path) -> None:
    (found,) = read_pcap(written(file, classic([bytes(96)], wire=1514)))
    assert (found.whole, found.wire_bytes) == (False, 1514)


def refusal(file: Path, data: bytes) -> str:
    with pytest.raises(CaptureError) as caught:
        list(read_pcap(written(file, data)))
    assert "remedy:" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("cut", [1, 30, 65, 66, 81])
def test_a_classic_file_cut_short_tells_the_packet(file: Path, cut: int) -> None:
    text = refusal(file, classic(FRAMES)[:-cut])
    assert "cut short in " in text
    assert "packet 7" in text
    assert "The 6 before it are whole" in text
    assert "packets=6" in text
    assert len(list(islice(read_pcap(file), 6))) == 6


@pytest.mark.parametrize("cut", [1, 4, 20, 60, 95])
def test_a_pcapng_file_cut_short_tells_the_packet(file: Path, cut: int) -> None:
    data = section() + interface() + b"".join(enhanced(packet, 1) for packet in FRAMES)
    text = refusal(file, data[:-cut])
    assert "cut short in " in text
    assert "packet 7" in text
    assert "The 6 before it are whole" in text
    assert len(list(islice(read_pcap(file), 6))) == 6


def test_cut_in_the_first_or_second_packet(file: Path) -> None:
    assert "No packet before it is whole" in refusal(file, classic(FRAMES[:1])[:-1])
    assert "The one before it is whole" in refusal(file, classic(FRAMES[:2])[:-1])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (b"\xd4", "cut short in the file's first four bytes"),
        (b"hello, this is text", "it is no capture file"),
        (b"\x1f\x8b\x08\x00 and so on", "it is no capture file"),
        (classic([])[:10], "cut short in the file's header"),
        (classic(FRAMES, link=113), "Linux cooked"),
        (classic(FRAMES, link=101), "raw IP"),
        (classic(FRAMES, link=250), "link type 250"),
        (classic([]) + struct.pack("<IIII", 0, 0, 1 << 31, 60), "packet 1 claims 2,147,483,648 bytes"),
        (section()[:9], "cut short in the section's header"),
        (section()[:8] + bytes(20), "its section header is damaged"),
        (section() + interface(link=113) + enhanced(FRAMES[0], 1), "Linux cooked"),
        (section() + enhanced(FRAMES[0], 1), "packet 1 is damaged"),
        (section() + interface() + enhanced(FRAMES[0], 1)[:-4] + bytes(4), "packet 1 is damaged"),
        (section() + interface() + block(6, bytes(12)), "packet 1 is damaged"),
        (section() + interface() + block(6, struct.pack("<IIIII", 0, 0, 0, 99, 99)), "packet 1 is damaged"),
        (section() + interface() + struct.pack("<II", 6, 13) + bytes(20), "packet 1 is damaged"),
        (section() + block(1, b"\1\0\0\0"), "description of an interface is damaged"),
    ],
)
def test_what_is_no_capture_is_refused(file: Path, data: bytes, message: str) -> None:
    assert message in refusal(file, data)


def test_a_compressed_file_is_told_from_others(file: Path) -> None:
    assert "gunzip" in refusal(file, b"\x1f\x8b\x08\x00 and so on")


def test_what_can_not_be_opened_or_written_says_why(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="ENOENT"):
        list(read_pcap(tmp_path / "none.pcap"))
    with pytest.raises(CaptureError, match="EISDIR"):
        list(read_pcap(tmp_path))
    with pytest.raises(CaptureError, match="ENOENT"):
        write_pcap(tmp_path / "no" / "directory.pcap", FRAMES)


def test_writing_that_fails_leaves_the_old_file(file: Path) -> None:
    write_pcap(file, FRAMES)

    def failing() -> object:
        yield FRAMES[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_pcap(file, failing())  # type: ignore[arg-type]
    assert [packet.data for packet in read_pcap(file)] == FRAMES
    assert os.listdir(file.parent) == ["test.pcap"]


@given(st.binary(max_size=300), st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_broken_files_end_in_a_capture_error_or_not_at_all(file: Path, noise: bytes, newer: bool) -> None:
    start = section() + interface() + enhanced(FRAMES[0], 1) if newer else classic(FRAMES[:1])
    try:
        found = list(read_pcap(written(file, start + noise)))
    except CaptureError:
        return
    assert found[0].data == FRAMES[0]
