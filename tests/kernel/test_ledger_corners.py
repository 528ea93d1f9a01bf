"""The ledger in the corners: what is refused, stuck, in pieces, malformed, forwarded, or of no IP at all."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from patience import until

import labkit as lk

N = 10_007  # prime
FEW = 1_009  # prime


@pytest.fixture
def router() -> Iterator[lk.Lab]:
    with lk.Lab(lk.Topology.router(), name="corner") as made:
        yield made


def udp(lab: lk.Lab, **how: int) -> bytes:
    return lk.udp(lab["client"], lab["server"], **how)


def exact(ledger: lk.Ledger) -> bool:
    return ledger.unaccounted == 0 and all(check.agrees for check in ledger.checks)


def test_generated_frames_stay_as_they_are_though_a_router_edits_them(router: lk.Lab) -> None:
    """Pages come back as the receiver's stack left them: with a lower TTL and other addresses, unless restored."""
    for flows in (1, 16):
        router.reset()
        with lk.UdpSink(router["server"]) as sink:
            lk.generate(router["client"]["eth0"], udp(router), N, rate_pps=50_000, flows=flows)
            ledger = router.ledger()
            assert sink.received == ledger.delivered == N
        assert exact(ledger)
        assert [(row.where, row.packets) for row in ledger.rows if row.kind == "sent"] == [("client eth0", N)]


def test_a_short_frame_is_restored_header_by_header(lab: lk.Lab) -> None:
    with lk.UdpSink(lab["server"]) as sink:
        lk.generate(lab["client"]["eth0"], udp(lab, size=42), FEW, rate_pps=50_000)
        ledger = lab.ledger()
        assert sink.received == FEW
    assert exact(ledger)


def test_a_tag_that_the_stack_takes_off_is_put_back(lab: lk.Lab) -> None:
    lk.generate(lab["client"]["eth0"], lk.vlan(udp(lab), 10), FEW)
    ledger = lab.ledger()
    assert exact(ledger)
    assert sum(ledger.losses.values()) == FEW
    assert len(ledger.losses) == 1, "every frame had the same fate"


@pytest.mark.parametrize("end", ["client", "server"])
def test_nothing_is_generated_towards_an_interface_that_is_down(lab: lk.Lab, end: str) -> None:
    lab[end]["eth0"].set_down()
    with pytest.raises(lk.TrafficError, match=f"{end} eth0 is down"):
        lk.generate(lab["client"]["eth0"], udp(lab), 7)
    assert lab.ledger().sent == 0


def test_nothing_is_generated_that_the_mtu_forbids(lab: lk.Lab) -> None:
    with pytest.raises(lk.TrafficError, match="1519 bytes does not fit client eth0, MTU 1500"):
        lk.generate(lab["client"]["eth0"], udp(lab), 7, size=1519)
    lk.generate(lab["client"]["eth0"], udp(lab), 7, size=1518)
    assert exact(lab.ledger())


def test_a_receiver_that_stops_taking_frames_is_named(lab: lk.Lab) -> None:
    generator = lk.Generator(lab["client"]["eth0"], udp(lab), seconds=20).start()
    until(lambda: lab.ledger(0.01).sent >= N)
    lab["server"]["eth0"].set_feature("gro", False)
    until(lambda: "redirect EOPNOTSUPP" in lab.ledger(0.01).losses)
    report = generator.stop()
    ledger = lab.ledger()
    assert exact(ledger), ledger
    assert [row.packets for row in ledger.rows if row.where == "client eth0" and row.kind == "sent"] == [report.sent]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_peer_that_goes_down_in_the_midst_is_named(lab: lk.Lab, threads: int) -> None:
    generator = lk.Generator(lab["client"]["eth0"], udp(lab), seconds=20, threads=threads).start()
    until(lambda: lab.ledger(0.01).sent >= N)
    lab["server"]["eth0"].set_down()
    until(lambda: {"redirect ENXIO", "redirect ENETDOWN", "redirect EOPNOTSUPP"} & set(lab.ledger(0.01).losses))
    report = generator.stop()
    ledger = lab.ledger()
    assert ledger.unaccounted == 0, ledger
    assert [row.packets for row in ledger.rows if row.where == "client eth0" and row.kind == "sent"] == [report.sent]


def test_frames_sent_back_into_a_ring_that_nobody_empties(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    """XDP_TX to a peer that has GRO but no program: the kernel fills its ring and never wakes it."""
    lab.load(verdicts, "tx").attach(lab["server"]["eth0"])
    lab["client"]["eth0"].set_feature("gro", True)
    lk.generate(lab["client"]["eth0"], udp(lab), FEW)
    ledger = lab.ledger()
    assert ledger.sent == FEW
    assert ledger.unaccounted == 0
    assert ledger.in_flight + ledger.losses.get("XDP_TX ring full", 0) + ledger.losses.get("OTHERHOST", 0) == FEW
    assert exact(ledger)


def test_arp_is_counted_on_its_way_in(lab: lk.Lab) -> None:
    lk.send_frames(lab["client"]["eth0"], lk.arp(lab["client"], lab["server"]), 11)
    ledger = lab.ledger()
    answers = lab["server"]["eth0"].statistics()["tx_packets"]
    assert (ledger.sent, ledger.delivered) == (11 + answers, 11 + answers)
    assert exact(ledger)


def test_fragments_that_are_joined(lab: lk.Lab) -> None:
    with lk.UdpSink(lab["server"]) as sink:
        for piece in lk.fragments(udp(lab, size=3000), 1500):
            lk.send_frames(lab["client"]["eth0"], piece, 1)
        sink.wait(1)
        ledger = lab.ledger()
    assert (ledger.sent, ledger.delivered) == (3, 3)
    assert exact(ledger)
    assert lk.ping(lab["client"], lab["server"], 3, size=4000).received == 3
    assert exact(lab.ledger())


def test_a_fragment_without_the_rest_waits(lab: lk.Lab) -> None:
    lk.send_frames(lab["client"]["eth0"], lk.fragments(udp(lab, size=3000), 1500)[0], 1)
    ledger = lab.ledger()
    assert (ledger.sent, ledger.delivered, ledger.in_flight) == (1, 0, 1)
    assert exact(ledger)


@pytest.mark.parametrize("size", [14, 15, 33, 34, 41])
def test_frames_cut_short(lab: lk.Lab, size: int) -> None:
    lk.generate(lab["client"]["eth0"], udp(lab), FEW, size=size)
    ledger = lab.ledger()
    assert exact(ledger), ledger
    assert ledger.delivered == 0
    assert sum(ledger.losses.values()) == FEW


@pytest.mark.parametrize("first", [0x00, 0x25, 0x42, 0x55, 0xFF])
def test_a_header_that_is_no_ipv4_header(lab: lk.Lab, first: int) -> None:
    frame = bytearray(udp(lab))
    frame[14] = first
    lk.generate(lab["client"]["eth0"], bytes(frame), FEW)
    ledger = lab.ledger()
    assert exact(ledger), ledger
    assert sum(ledger.losses.values()) == FEW


def test_a_header_checksum_that_is_wrong(lab: lk.Lab) -> None:
    frame = bytearray(udp(lab))
    frame[24] ^= 0xFF
    lk.generate(lab["client"]["eth0"], bytes(frame), FEW)
    assert lab.ledger().losses == {"IP_CSUM": FEW}
    assert exact(lab.ledger())


def test_ipv6_and_unknown_types(lab: lk.Lab) -> None:
    lk.generate(lab["client"]["eth0"], lk.udp6(lab["client"], lab["server"]), FEW)
    assert exact(lab.ledger())
    odd = bytes(udp(lab)[:12]) + b"\x88\xb5" + bytes(50)  # an Ethernet type for experiments, IEEE 802
    lk.generate(lab["client"]["eth0"], odd, FEW)
    ledger = lab.ledger()
    assert exact(ledger)
    assert ledger.lost == 2 * FEW


def test_tcp_and_ping_across_a_forwarding_kernel(router: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    router.load(verdicts, "pass").attach(router["router"]["eth0"])
    assert lk.ping(router["client"], router["server"], 7).received == 7
    report = lk.tcp_transfer(router["client"], router["server"], 500_009)
    assert report.intact
    ledger = router.ledger(settle_s=2)
    assert ledger.unaccounted == 0, ledger
    assert all(row.packets >= 0 for row in ledger.rows), ledger
    assert not any(row.where == "router TCP" for row in ledger.rows)


def test_a_firewall_rule_has_its_name(lab: lk.Lab) -> None:
    rules = "table ip t { chain c { type filter hook prerouting priority raw; udp dport 9999 drop\n }\n }"
    lab["server"].run(lambda: subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True))
    lk.generate(lab["client"]["eth0"], udp(lab), N)
    ledger = lab.ledger()
    assert ledger.losses == {"NETFILTER_DROP": N}
    assert exact(ledger)


def test_an_interface_deleted_behind_the_labs_back(lab: lk.Lab) -> None:
    lk.generate(lab["client"]["eth0"], udp(lab), FEW)
    assert lab.ledger().sent >= FEW
    lab["client"].run(lambda: subprocess.run(["ip", "link", "del", "eth0"], check=True))
    ledger = lab.ledger(settle_s=0.05)
    assert ledger.sent >= FEW
    assert any("client eth0 is gone" in note for note in ledger.notes)
