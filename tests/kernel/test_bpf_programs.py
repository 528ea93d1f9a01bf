"""What the C programs do with one packet at a time: BPF_PROG_TEST_RUN, no interface involved."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

from labkit.compile import compile_source
from labkit.compile.diagnose import verifier_error
from labkit.kernel.gate import system_call
from labkit.program import Program, load_program
from labkit.uapi import BpfCmd, ProgType, XdpAction

BPF = Path(__file__).resolve().parents[2] / "bpf"
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
ADDRESSES = {"src": "10.1.0.1", "dst": "10.1.0.2"}


@pytest.fixture
def load() -> Iterator[object]:
    with ExitStack() as stack:

        def load_one(file: str, function: str | None = None, type: ProgType = ProgType.XDP) -> Program:
            spec = compile_source(path=BPF / file)
            return stack.enter_context(load_program(spec, function, explain=verifier_error, type=type))

        yield load_one


def run(program: Program, frame: bytes) -> tuple[int, bytes]:
    """What the program returned for ``frame``, and the frame as it left it."""
    given = ctypes.create_string_buffer(frame, len(frame))
    left = ctypes.create_string_buffer(4096)
    # union bpf_attr.test, include/uapi/linux/bpf.h
    attr = ctypes.create_string_buffer(
        struct.pack(
            "=IIIIQQIIIIQQIII4x",
            *(program.fd, 0, len(frame), len(left)),
            *(ctypes.addressof(given), ctypes.addressof(left)),
            *(1, 0, 0, 0, 0, 0, 0, 0, 0),
        ),
        80,
    )
    system_call(BpfCmd.PROG_TEST_RUN, attr)
    (retval,) = struct.unpack_from("=I", attr, 4)
    (size,) = struct.unpack_from("=I", attr, 12)
    return retval, left.raw[:size]


def verdict(program: Program, frame: bytes) -> XdpAction:
    return XdpAction(run(program, bytes(frame))[0])


UDP_FRAME = bytes(ETHER / IP(**ADDRESSES) / UDP(sport=1000, dport=9999))  # 42 bytes
TCP_FRAME = bytes(ETHER / IP(**ADDRESSES) / TCP(sport=1000, dport=80))
OPTIONS = bytes(ETHER / IP(**ADDRESSES, options=[IPOption_Router_Alert()]) / UDP() / Raw(b"x" * 20))
ARP_FRAME = bytes(ETHER / ARP())
IPV6_FRAME = bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2") / UDP())
VLAN_FRAME = bytes(ETHER / Dot1Q(vlan=10) / IP(**ADDRESSES) / UDP())
FRAGMENT = bytes(ETHER / IP(**ADDRESSES, frag=100, proto=17) / Raw(b"y" * 40))


def test_drop_by_protocol(load) -> None:  # type: ignore[no-untyped-def]
    program = load("drop_by_protocol.c")
    for _ in range(7):
        assert verdict(program, UDP_FRAME) == XdpAction.DROP
    assert verdict(program, OPTIONS) == XdpAction.DROP
    for frame in (ARP_FRAME, IPV6_FRAME, VLAN_FRAME, UDP_FRAME[:14], UDP_FRAME[:33]):
        assert verdict(program, frame) == XdpAction.PASS
    program.maps["keep_protocol"][6] = 1
    assert verdict(program, TCP_FRAME) == XdpAction.PASS
    assert verdict(program, UDP_FRAME) == XdpAction.DROP
    assert program.maps["packets_by_protocol"][17] == 9
    assert program.maps["packets_by_protocol"][6] == 1
    assert program.maps["packets_by_protocol"][1] == 0
    assert program.verdicts() == {
        "XDP_ABORTED": 0,
        "XDP_DROP": 9,
        "XDP_PASS": 6,
        "XDP_TX": 0,
        "XDP_REDIRECT": 0,
        "unknown": 0,
    }


def test_count_only(load) -> None:  # type: ignore[no-untyped-def]
    program = load("count_only.c")
    frames = [UDP_FRAME, TCP_FRAME, ARP_FRAME, UDP_FRAME[:14], OPTIONS, IPV6_FRAME, VLAN_FRAME]
    assert {verdict(program, frame) for frame in frames} == {XdpAction.PASS}
    assert program.maps["packets_by_protocol"][17] == 2


@pytest.mark.parametrize("file", ["drop_all.c", "touch_nothing.c", "touch_data.c"])
@pytest.mark.parametrize("frame", [UDP_FRAME, ARP_FRAME, UDP_FRAME[:14]])
def test_drops_all(file: str, frame: bytes, load) -> None:  # type: ignore[no-untyped-def]
    program = load(file)
    assert verdict(program, frame) == XdpAction.DROP
    assert program.verdicts()["XDP_DROP"] == 1


def test_touch_data_reads_the_packet() -> None:
    """The read is not optimised away: one byte, 23 bytes into the packet."""
    code = compile_source(path=BPF / "touch_data.c").function().instructions
    loads = [code[at : at + 8] for at in range(0, len(code), 8) if code[at] == 0x71]
    assert any(struct.unpack_from("=h", insn, 2)[0] in (9, 23) for insn in loads)
    code = compile_source(path=BPF / "touch_nothing.c").function().instructions
    assert not [at for at in range(0, len(code), 8) if code[at] == 0x71]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 42, 0xFFFFFFFF])
def test_return_codes(number: int, load) -> None:  # type: ignore[no-untyped-def]
    program = load("return_codes.c")
    program.maps["action"][0] = number
    for _ in range(3):
        assert run(program, UDP_FRAME)[0] == number
    names = list(program.verdicts())
    expected = names[number] if number < 5 else "unknown"
    assert program.verdicts() == {name: 3 * (name == expected) for name in names}


def test_shared_counter(load) -> None:  # type: ignore[no-untyped-def]
    program = load("shared_counter.c")
    for _ in range(11):
        assert verdict(program, UDP_FRAME) == XdpAction.DROP
    for name in ("shared", "shared_atomic", "per_cpu"):
        assert program.maps[name][0] == 11


def test_tc_drop(load) -> None:  # type: ignore[no-untyped-def]
    program = load("tc_drop.c", type=ProgType.SCHED_CLS)
    assert run(program, UDP_FRAME)[0] == 2  # TC_ACT_SHOT, include/uapi/linux/pkt_cls.h
    assert program.maps["tc_verdicts"][2] == 1
    assert program.maps["tc_verdicts"][0] == 0


def complete(frame: bytes) -> bytes:
    """The frame with its checksums computed anew."""
    packet = Ether(frame)
    for layer in (IP, UDP, TCP):
        if layer in packet:
            del packet[layer].chksum
    return bytes(packet)


def want(program: Program, frame: bytes) -> None:
    """What the generator tells its program: how each frame begins."""
    program.maps["wanted"][0] = frame[:64].ljust(64, b"\0")


@pytest.mark.parametrize("layer", [UDP, TCP])
def test_generate_flows(layer: type, load) -> None:  # type: ignore[no-untyped-def]
    """Ports go round, and the checksum holds though each frame starts from the last one's edits."""
    program = load("lab/generator.c", "generate_flows")
    program.maps["flow_config"][0] = {"flows": 5, "base": 65530}
    frame = bytes(ETHER / IP(**ADDRESSES) / layer(sport=77, dport=9999) / Raw(b"payload"))
    want(program, frame)
    ports = []
    for _ in range(13):
        _, frame = run(program, frame)
        assert complete(frame) == frame
        ports.append(Ether(frame)[layer].sport)
    assert set(ports) == {65530, 65531, 65532, 65533, 65534}


def test_generate_flows_leaves_no_checksum_alone(load) -> None:  # type: ignore[no-untyped-def]
    program = load("lab/generator.c", "generate_flows")
    program.maps["flow_config"][0] = {"flows": 3, "base": 2000}
    frame = bytes(ETHER / IP(**ADDRESSES) / UDP(sport=77, dport=9999, chksum=0) / Raw(b"payload"))
    want(program, frame)
    _, left = run(program, frame)
    assert Ether(left)[UDP].chksum == 0
    assert Ether(left)[UDP].sport in (2000, 2001, 2002)


@pytest.mark.parametrize(
    "frame",
    [
        ARP_FRAME,
        IPV6_FRAME,
        VLAN_FRAME,
        FRAGMENT,
        bytes(ETHER / IP(**ADDRESSES) / ICMP()),
        UDP_FRAME[:14],
        UDP_FRAME[:41],
        TCP_FRAME[:50],
    ],
)
def test_generate_flows_leaves_other_frames_alone(frame: bytes, load) -> None:  # type: ignore[no-untyped-def]
    program = load("lab/generator.c", "generate_flows")
    program.maps["flow_config"][0] = {"flows": 3, "base": 2000}
    want(program, frame)
    assert run(program, frame)[1] == frame


@pytest.mark.parametrize("function", ["generate", "generate_flows"])
@pytest.mark.parametrize("frame", [UDP_FRAME, UDP_FRAME + bytes(64), UDP_FRAME[:14], UDP_FRAME[:34]])
def test_generate_restores_the_headers(frame: bytes, function: str, load) -> None:  # type: ignore[no-untyped-def]
    program = load("lab/generator.c", function)
    want(program, frame)
    kept = frame[64:]
    assert run(program, bytes(255 - byte for byte in frame[:64]) + kept)[1] == frame
