"""Metadata that says what it is: composed by a program, read in TC, on another CPU, by sockets and in Python; never wrongly."""

from __future__ import annotations

import ctypes
import json
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import until
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

import labkit as lk
from labkit import lesson
from labkit.demo import run_demo
from labkit.errors import HintError
from labkit.hints import CSUM_NONE, CSUM_VERIFIED, CSUM_WRONG, Capture, Decoded, Formats, GenericMeta, read
from labkit.kernel.btf import Kind, kernel_btf
from labkit.lesson.generic_hints_foreign import give_bytes
from labkit.lesson.generic_hints_path import FOREIGN, GenericPath, Tell, Want, taught
from labkit.lesson.generic_hints_route import GenericRoute
from labkit.lesson.generic_hints_spread import BY_HASH, BY_PARSING, load_spread
from labkit.lesson.workshop import LONGEST_QUEUE
from labkit.program.classifier import at_tc
from labkit.traffic.generator import Generator
from labkit.traffic.raw import frame_socket
from labkit.uapi import AttachType, ProgType, XdpAction

ROOT = Path(__file__).resolve().parents[2]
BPF = ROOT / "bpf"
N = 2_003  # a prime
MILLION = 1_000_003
PATIENCE_S = 20.0
ETHER = Ether(src="02:00:00:00:01:01", dst="02:00:00:00:01:02")
FLOW = {"src": "10.0.1.1", "dst": "10.0.1.2"}
# Bits of enum xdp_rss_hash_type, include/net/xdp.h
IPV4, IPV6, L4, L4_TCP, L4_UDP = 1, 2, 8, 16, 32
RIGHT = CSUM_VERIFIED


@pytest.fixture
def path() -> Iterator[GenericPath]:
    with GenericPath("test") as made:
        yield made


@pytest.fixture
def route() -> Iterator[GenericRoute]:
    with GenericRoute("test") as made:
        yield made


def composed(path: GenericPath, frames: list[bytes], fmt: str = "meta_flow") -> list[dict[str, int]]:
    """The fields that a consumer in TC finds before each frame."""
    path.choose(fmt)
    with Capture(path.lab, path.server, packets=len(frames)) as capture:
        lk.send_frames(path.client, frames)
        came = capture.take(len(frames), timeout_s=PATIENCE_S)
    found = [read(each, path.formats) for each in came]
    assert all(isinstance(each, Decoded) for each in found)
    return [each.fields for each in found]  # type: ignore[union-attr]


def test_what_is_composed_is_what_the_headers_say(path: GenericPath) -> None:
    ports = UDP(sport=1000, dport=9999)
    first = bytes(ETHER / IP(**FLOW, flags="MF") / ports / Raw(bytes(24)))
    later = bytes(ETHER / IP(**FLOW, frag=4, proto=17) / Raw(bytes(24)))
    kinds = {
        "udp": (bytes(ETHER / IP(**FLOW) / ports / Raw(b"x" * 31)), IPV4 | L4 | L4_UDP, 34, RIGHT, 17),
        "tcp": (bytes(ETHER / IP(**FLOW) / TCP(sport=1000) / Raw(b"y" * 9)), IPV4 | L4 | L4_TCP, 34, RIGHT, 6),
        "udp6": (bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2") / ports / Raw(b"z")), IPV6 | L4 | L4_UDP, 54, RIGHT, 17),
        "icmp": (bytes(ETHER / IP(**FLOW) / ICMP() / Raw(bytes(20))), IPV4, 0, CSUM_NONE, 1),
        "first fragment": (first, IPV4, 0, CSUM_NONE, 17),
        "later fragment": (later, IPV4, 0, CSUM_NONE, 17),
        "arp": (bytes(ETHER / ARP()), 0, 0, CSUM_NONE, 0),
        "tagged": (bytes(ETHER / Dot1Q(vlan=10, prio=3) / IP(**FLOW) / ports), IPV4 | L4 | L4_UDP, 38, RIGHT, 17),
        "no checksum": (bytes(ETHER / IP(**FLOW) / UDP(sport=1000, dport=9999, chksum=0)), IPV4 | L4 | L4_UDP, 34, CSUM_NONE, 17),
        "bare": (bytes(ETHER), 0, 0, CSUM_NONE, 0),
    }  # fmt: skip
    found = dict(zip(kinds, composed(path, [frame for frame, *_ in kinds.values()]), strict=True))
    for name, (_, hash_type, offset, status, protocol) in kinds.items():
        each = found[name]
        assert (each["hash_type"], each["l4_offset"], each["csum_status"]) == (hash_type, offset, status), name
        assert (each["protocol"], each["queue"], each["timestamp_ns"]) == (protocol, 0, 0), name
    assert found["first fragment"]["hash"] == found["later fragment"]["hash"]
    assert found["tagged"]["hash"] == found["udp"]["hash"] == found["no checksum"]["hash"]
    assert len({each["hash"] for each in found.values()}) == 6
    assert (found["tagged"]["vlan_proto"], found["tagged"]["vlan_tci"]) == (0x8100, 3 << 13 | 10)
    assert found["udp"]["vlan_proto"] == 0
    assert found["udp"]["mark"] == 1000


def test_checksums_of_every_length_are_judged_rightly(path: GenericPath) -> None:
    """Scapy's sums, and each of them with one bit wrong somewhere."""
    draw = random.Random(20220628)
    sizes = [0, 1, 2, 3, 4, 5, 503, 504, 505, 506, 507, 1015, 1016, 1017, 1472, *draw.sample(range(1472), 16)]
    right = [bytes(ETHER / IP(**FLOW) / UDP(sport=draw.randrange(65536)) / Raw(draw.randbytes(size))) for size in sizes]
    right += [
        bytes(ETHER / IP(**FLOW) / TCP(seq=draw.randrange(2**32)) / Raw(draw.randbytes(size))) for size in sizes[:9]
    ]
    wrong = []
    for frame in right:
        broken = bytearray(frame)
        broken[draw.randrange(34 + 8 if frame[23] == 17 and len(frame) > 42 else 34, len(frame))] ^= (
            1 << draw.randrange(8)
        )
        wrong.append(bytes(broken))
    padded = [right[0] + b"\xff" * 18]  # what Ethernet adds to a short frame isn't part of the sum
    found = [each["csum_status"] for each in composed(path, [*right, *wrong, *padded])]
    assert found[: len(right)] == [CSUM_VERIFIED] * len(right)
    for frame, status in zip(wrong, found[len(right) : 2 * len(right)], strict=True):
        # A bit of UDP's own length may make it longer than the packet, and a checksum become 0: nothing is known then.
        assert status == CSUM_WRONG or (
            frame[23] == 17 and (frame[38:40] != frame[16:18] or frame[40:42] == b"\0\0")
        ), frame.hex()
    assert found[-1] == CSUM_VERIFIED


def test_a_million_packets_of_mixed_formats(path: GenericPath) -> None:
    path.choose("meta_generic", "meta_flow", "meta_latency", None)
    seen = path.run(MILLION)
    assert seen.arrived == seen.report.sent == seen.ledger.sent == MILLION
    quarter = [len(range(each, MILLION, 4)) for each in range(4)]
    assert list(seen.decoded.values()) == quarter[:3]
    assert seen.foreign == {**dict.fromkeys(FOREIGN, 0), "no metadata": quarter[3]}
    assert path.composer.maps["composed"].read() == {**dict.fromkeys(range(16), 0), **dict(enumerate(quarter[:3]))}
    assert (seen.used["misread"], seen.used["compared"]) == (0, MILLION - quarter[3])
    assert seen.used["hashes"] == MILLION - quarter[3]
    assert (seen.used["marks"], seen.used["timed"]) == (quarter[1], quarter[2])
    assert seen.mean_us is not None
    assert 0 < seen.mean_us < 1e6
    assert (seen.ledger.unaccounted, seen.ledger.in_flight) == (0, 0)


def test_a_swap_of_formats_in_the_midst_of_a_million() -> None:
    seen = lesson.swapped_formats(MILLION)
    assert seen.arrived == seen.decoded_packets == seen.ledger.sent == MILLION
    assert seen.used["misread"] == 0
    assert seen.used["compared"] == MILLION
    assert seen.decoded["meta_generic"] > 0
    assert seen.decoded["new meta_flow"] > 0
    assert abs(seen.decoded["new meta_flow"] - seen.decoded["new meta_latency"]) <= 1
    assert seen.decoded["meta_flow"] == seen.decoded["new meta_generic"] == 0
    assert seen.ledger.unaccounted == 0


def test_a_threshold_moves_under_traffic(path: GenericPath) -> None:
    frame = lk.udp(path.lab["client"], path.lab["server"], size=200)

    def go() -> lk.TrafficReport:
        source = Generator(path.client, frame, 300_007, flows=16, rate_pps=600_000).start()
        flips = 0
        while source.running:
            flips += 1
            path.threshold = (200, 201)[flips % 2]
            time.sleep(0.001)
        return source.wait()

    seen = path.watched(go)
    assert seen.arrived == 300_007
    assert seen.decoded_packets > 0
    assert seen.foreign["no metadata"] == seen.foreign_packets > 0
    assert seen.used["misread"] == 0


def test_frames_below_the_threshold_have_none() -> None:
    table = lesson.composed_from((0, 65, 1_500), (64, 65, 1_499))
    counts = [row[1:] for row in table.rows]
    each = counts[0][0]
    assert counts == [(each,) * 3, (0, each, each), (0, 0, 0)]


def test_the_stack_believes_what_it_is_told() -> None:
    rows = lesson.believed_checksums(53).rows
    assert [row[2:] for row in rows] == [(0, 53, 0), (53, 53, 0), (53, 53, 0), (0, 0, 53), (0, 0, 53), (53, 53, 0)]


# Classic BPF: load the skb's hash, or its mark; accept where it is K. include/uapi/linux/filter.h
LOAD, EQUAL, ACCEPT = 0x20, 0x15, 0x06
AD_OFF, AD_MARK, AD_RXHASH = 0xFFFFF000, 20, 32
SO_ATTACH_FILTER = 26


def accepting(path: GenericPath, place: int, value: int) -> socket.socket:
    """A UDP socket of the server that takes only packets of which the stack knows this."""
    code = struct.pack("=HBBI", LOAD, 0, 0, AD_OFF + place) + struct.pack("=HBBI", EQUAL, 0, 1, value)
    code += struct.pack("=HBBI", ACCEPT, 0, 0, 0xFFFF) + struct.pack("=HBBI", ACCEPT, 0, 0, 0)
    held = ctypes.create_string_buffer(code, len(code))
    made = path.lab["server"].socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("=HxxxxxxQ", 4, ctypes.addressof(held)))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    made.bind(("10.0.1.2", 9999))
    made.setblocking(False)
    return made


@pytest.mark.parametrize(("place", "tell"), [(AD_RXHASH, Tell.HASH), (AD_MARK, Tell.MARK)], ids=["hash", "mark"])
def test_sockets_see_what_the_consumer_told(path: GenericPath, place: int, tell: Tell) -> None:
    frame = bytes(lk.udp(path.lab["client"], path.lab["server"], sport=1234))
    [fields] = composed(path, [frame])
    value = fields["hash"] if place == AD_RXHASH else 1234
    maps, sent = path.consumer.maps, 0
    for told, expected in ((tell, 53), (Tell.COMPARE, 0), (tell, 53)):
        maps["plan"][0] = {"wanted": told, "action": 0}
        before = maps["tc_verdicts"][0]
        with accepting(path, place, value) as filtered:
            lk.send_frames(path.client, [frame] * 53)
            sent += 53
            until(lambda before=before: maps["tc_verdicts"][0] == before + 53, "the packets")
            until(lambda expected=expected: not expected or filtered.recv(2048, socket.MSG_PEEK), "the socket")
            found = 0
            for _ in range(53):
                try:
                    found += len(filtered.recv(2048)) > 0
                except BlockingIOError:
                    break
            assert found == expected


def test_who_is_foreign_two_readers_agree() -> None:
    rows = {row[0]: row[1:] for row in lesson.foreign_cases(31).rows}
    assert all(row[3] == 31 for row in rows.values())
    unknown = rows.pop("meta_flow of another lab")
    assert unknown[0] == "foreign: unknown format"
    assert unknown[1].startswith("foreign: unknown format ")  # type: ignore[attr-defined]
    assert unknown[2] == 31, "the generic part is of use all the same"
    assert [row[0] for row in rows.values()] == [
        "foreign: no metadata",
        *["foreign: no magic"] * 2,
        *["foreign: cut short"] * 2,
        *["meta_flow"] * 2,
    ]
    for tc, python, hashes, _ in rows.values():
        assert str(python).startswith(str(tc))
        assert hashes == (31 if tc == "meta_flow" else 0)


def test_random_bytes_are_never_taken_for_a_format(path: GenericPath) -> None:
    """Bytes by chance, lengths by chance, and what is nearly right: known ids with every other magic of two bits changed."""
    draw = random.Random(5)
    writer = path.lab.load(lk.compile(path=BPF / "lab" / "meta_bytes.c"))
    path.link.replace(writer)
    flow = path.formats["meta_flow"].encode(hash=1, hash_type=1)
    near = [flow[:-2] + struct.pack("<H", 0x1AB5 ^ 1 << a ^ 1 << b) for a in range(16) for b in range(a)]
    given = [draw.randbytes(4 * draw.randrange(55)) for _ in range(61)] + draw.sample(near, 40)
    frame = bytes(lk.udp(path.lab["client"], path.lab["server"]))
    before = list(path.consumer.maps["outcomes"].read().values())
    with Capture(path.lab, path.server, packets=len(given)) as capture, frame_socket(path.client) as out:
        for content in given:
            give_bytes(writer, content)
            out.send(frame)
            [came] = capture.take(1, timeout_s=PATIENCE_S)
            assert came.meta == content
            assert not isinstance(read(came, path.formats), Decoded)
    until(lambda: sum(path.consumer.maps["outcomes"].read().values()) - sum(before) == len(given), "the consumer")
    after = [new - old for new, old in zip(path.consumer.maps["outcomes"].read().values(), before, strict=True)]
    empty = sum(not content for content in given)
    assert after[:16] == [0] * 16
    assert after[16:] == [empty, len(given) - empty, 0, 0]


CHILD = """
import sys
from labkit.hints import Formats
with Formats.load() as formats:
    print(formats["meta_flow"].full_id, flush=True)
    sys.stdin.read()
"""


def test_labs_and_processes_have_ids_of_their_own(path: GenericPath) -> None:
    """A format with the same fields, of another process: foreign while that lives, and afterwards."""
    writer = path.lab.load(lk.compile(path=BPF / "lab" / "meta_bytes.c"))
    path.link.replace(writer)
    frame = bytes(lk.udp(path.lab["client"], path.lab["server"]))
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        full_id = int(child.stdout.readline())  # type: ignore[union-attr]
        theirs = GenericMeta(hash=7, hash_type=41).encode(full_id & 0xFFFFFFFF, full_id >> 32)
        give_bytes(writer, bytes(8) + theirs)
        assert path.formats.by_id(full_id) is None
        assert path.send([frame] * 53).foreign["unknown format"] == 53
    finally:
        child.communicate("")
    seen = path.send([frame] * 53)
    assert (seen.foreign["unknown format"], seen.used["hashes"]) == (53, 53)
    with GenericPath("test2") as other:
        give_bytes(writer, other.formats["meta_flow"].encode(mark=10_000))
        assert path.send([frame] * 53).foreign["unknown format"] == 53
        path.know(other.formats, "their ")
        assert path.send([frame] * 53).decoded["their meta_flow"] == 53
        assert other.run(53).decoded["meta_generic"] == 53


def test_formats_that_were_forgotten_are_foreign(path: GenericPath) -> None:
    path.choose("meta_latency")
    with Capture(path.lab, path.server, packets=1) as capture:
        assert path.run(53).decoded["meta_latency"] == 53
        [came] = capture.take(1, timeout_s=PATIENCE_S)
    path.forget(path.formats)
    seen = path.run(53)
    assert (seen.foreign["unknown format"], seen.used["timed"], seen.used["hashes"]) == (53, 0, 53)
    assert seen.mean_us is None
    assert isinstance(read(came), Decoded)
    path.formats.close()
    said = read(came)
    assert not isinstance(said, Decoded)
    assert said.reason.startswith("unknown format")
    assert said.generic is not None
    assert said.generic.hash_type == IPV4 | L4 | L4_UDP


def test_generic_xdp_composes_as_well(path: GenericPath) -> None:
    path.link.close()
    path.composer.attach(path.server, mode="generic")
    path.choose("meta_flow", None)
    seen = path.run(N)
    assert (seen.decoded["meta_flow"], seen.foreign["no metadata"]) == (N // 2 + 1, N // 2)
    assert (seen.used["misread"], seen.ledger.unaccounted) == (0, 0)


def test_a_tag_beside_the_frame_is_what_the_driver_says() -> None:
    with GenericPath("test", bound=True) as path:
        push = path.lab.load(
            lk.compile(path=BPF / "hints_push_vlan.c"),
            type=ProgType.SCHED_CLS,
            expected_attach_type=AttachType.TCX_EGRESS,
        )
        push.maps["tag"][0] = 3 << 13 | 10
        path.client.set_feature("tx-vlan", True)
        with at_tc(push, path.client, AttachType.TCX_EGRESS):
            [fields] = composed(path, [bytes(lk.udp(path.lab["client"], path.lab["server"]))])
    assert (fields["vlan_proto"], fields["vlan_tci"]) == (0x8100, 3 << 13 | 10)
    assert (fields["mark"], fields["hash_type"] & L4) == (10_000, L4)


def test_the_kernel_has_no_such_structure_of_its_own() -> None:
    """What the lesson says of the proposal: it was not merged."""
    with pytest.raises(KeyError):
        kernel_btf().find("xdp_meta_generic", Kind.STRUCT)


def test_the_driver_removes_what_came_along(route: GenericRoute) -> None:
    """A packet's metadata of the hop before is not this driver's, also where it composes none."""
    second = route.lab.load(lk.compile(path=BPF / "generic_composer.c"), "compose")
    second.maps["plan"][0] = {"wanted": 0, "action": XdpAction.PASS}
    frame = lk.udp(route.lab["client"], route.router["eth0"])
    for threshold, expected in ((0, b""), (1_500, b"")):
        route.attach(second)
        second.maps["meta_threshold"][0] = threshold
        with Capture(route.lab, route.server, packets=53) as capture:
            lk.generate(route.client, frame, 53)
            assert [each.meta for each in capture.take(53, timeout_s=PATIENCE_S)] == [expected] * 53


def test_metadata_passes_a_cpu_map_and_goes_on_to_tc(route: GenericRoute) -> None:
    reader = route.lab.load(lk.compile(path=BPF / "generic_on_cpu.c"), expected_attach_type=AttachType.XDP_CPUMAP)
    taught(reader, route.formats)
    reader.maps["action"][0] = XdpAction.PASS
    program = route.lab.load(lk.compile(path=BPF / "to_cpu.c"))
    cpu = lesson.usable_cpus()[-1]
    program.maps["cpus"][cpu] = LONGEST_QUEUE, reader
    program.maps["target"][0] = cpu
    route.attach(program)
    with Capture(route.lab, route.server, packets=53) as capture:
        lk.generate(route.client, lk.udp(route.lab["client"], route.router["eth0"]), 53, flows=16)
        came = capture.take(53, timeout_s=PATIENCE_S)
    assert [isinstance(read(each, route.formats), Decoded) for each in came] == [True] * 53
    assert {each.cpu for each in came} == {cpu}
    assert reader.maps["outcomes"][0] == reader.maps["verdicts"].per_cpu(XdpAction.PASS)[cpu] == 53
    assert sum(reader.maps["by_hash"].read().values()) - reader.maps["by_hash"][16] == 53


def test_on_another_cpu_every_packet_is_found_again() -> None:
    rows = dict(lesson.read_on_another_cpu(N).rows)
    counts = [rows[f"decoded: {name}"] for name in ("meta_generic", "meta_flow", "meta_latency")]
    counts.append(rows["foreign: no metadata"])
    assert sum(counts) + rows["queue or ring full, by the ledger"] == N  # type: ignore[arg-type,operator]
    if sum(counts) == N:  # type: ignore[arg-type]
        assert counts == [len(range(each, N, 4)) for each in range(4)]


def test_hash_and_parsing_spread_alike() -> None:
    spreading = lesson.spread_alike(N)
    by_hash, by_parsing = spreading.ways
    assert (by_hash.name, by_parsing.name) == (BY_HASH, BY_PARSING)
    assert spreading.alike == len(by_hash.cpu_of) == 64
    assert by_hash.torn == by_parsing.torn == 0
    for way in spreading.ways:
        assert sum(way.by_cpu.values()) + way.ledger.losses.get("ring full", 0) == way.ledger.sent == N
    assert by_hash.parsed == 0
    assert by_parsing.parsed == sum(by_parsing.by_cpu.values())


def test_a_flow_stays_whole_across_the_threshold(route: GenericRoute) -> None:
    """Its small packets have no metadata and are parsed; they go to the CPU of its large ones."""
    program = load_spread(route, BY_HASH)
    route.attach(program)
    route.composer.maps["meta_threshold"][0] = 128
    places, meant = [], program.maps["packets_to_cpu"]
    with frame_socket(route.client) as out:
        for port in range(10_000, 10_037):
            frames = [
                bytes(lk.udp(route.lab["client"], route.router["eth0"], sport=port, size=size)) for size in (64, 1_000)
            ]
            before = meant.read()
            for frame in frames:
                out.send(frame)
            until(lambda before=before: sum(meant.read().values()) == sum(before.values()) + 2, "both")
            places.append([cpu for cpu, count in meant.read().items() if count > before[cpu]])
    assert [len(found) for found in places] == [1] * 37
    assert (program.maps["hashes"][0], program.maps["hashes"][1]) == (37, 37)
    assert len({found[0] for found in places}) == program.maps["cpus_in_use"][0]


def test_a_socket_takes_old_metadata_for_new_unless_its_memory_is_wiped() -> None:
    assert [row[2:] for row in lesson.read_by_socket(67).rows] == [(67, 0, 0), (0, 67, 0), (67, 0, 0), (67, 0, 67)]


def test_what_the_driver_gives() -> None:
    table = lesson.what_the_driver_gives()
    found = {row[:2]: row[2:] for row in table.rows}
    assert all(row[1] == "0x29" for key, row in found.items() if key[0] == "the headers")
    assert found["the driver", "a socket"][1:] == ("0x8", "not known")
    assert found["the driver", "the generator"] == ("not known",) * 3


@pytest.mark.parametrize("packets", [7, 1_009, None], ids=["7", "1009", "default"])
def test_the_demo(packets: int | None) -> None:
    found = run_demo("generic-hints", packets=packets).as_dict()
    count = packets or MILLION
    foreign = len(range(3, count, 4))
    assert (found["sent"], found["decoded"], found["foreign"]) == (count, count - foreign, foreign)
    assert found["losses"] == {"TC_INGRESS": count}
    assert (found["unaccounted"], found["in_flight"], found["delivered"]) == (0, 0, 0)


def test_the_demo_in_a_sandbox_without_tracing(tmp_path: Path) -> None:
    labkit = Path(sys.prefix) / "bin" / "labkit"
    words = [
        labkit,
        "sandbox",
        "--without-tracing",
        "--",
        labkit,
        "demo",
        "generic-hints",
        "--packets",
        "1009",
        "--json",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["sent"], found["decoded"], found["foreign"], found["unaccounted"]) == (1_009, 757, 252, 0)


def test_pictures_say_the_same_in_words(path: GenericPath) -> None:
    drawn = lesson.standard_formats()
    assert "−44" in drawn.svg
    assert drawn.svg.count("the packet …") == 3
    assert "meta_latency, 44 bytes, from left to right: sent_ns (8)" in drawn.description
    places = {row[1]: row[0] for row in drawn.table.rows}
    assert (places["magic"], places["btf_id"], places["hash"], places["mark"], places["sent_ns"]) == (2, 6, 24, 40, 44)
    path.choose("meta_flow", None)
    with Capture(path.lab, path.server, packets=4) as capture:
        path.run(4)
        came = capture.take(4, timeout_s=PATIENCE_S)
    seen = lesson.captured_formats(came, path.formats)
    assert next(row[4] for row in seen.table.rows if row[1] == "mark") in range(10_000, 10_016)
    assert came[0].meta.hex() in seen.svg
    with pytest.raises(HintError, match="known format"), Formats.load() as others:
        lesson.captured_formats(came, others)


def test_what_cannot_be_chosen_is_named(path: GenericPath) -> None:
    with pytest.raises(HintError, match="no format 'meta_other'"):
        path.choose("meta_other")
    with pytest.raises(HintError, match="no format to choose"):
        path.choose()
    assert path.consumer.type is ProgType.SCHED_CLS
    path.want(Want.HASH | Want.TIME)
    [fields] = composed(path, [bytes(lk.udp(path.lab["client"], path.lab["server"]))], "meta_generic")
    assert fields["csum_status"] == CSUM_NONE
    assert 0 < fields["timestamp_ns"] <= time.monotonic_ns()
