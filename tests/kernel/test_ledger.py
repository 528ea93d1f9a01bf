"""The first promise: sent = delivered + every named loss, exactly."""

from __future__ import annotations

import socket
import threading

import pytest

import labkit as lk
from labkit.kernel.btf import kernel_btf

N = 100_003  # prime
FEW = 1_009  # prime


def has_drop_reasons() -> bool:
    return 3 in kernel_btf().enum("skb_drop_reason")


def frame(lab: lk.Lab, **how: int) -> bytes:
    return lk.udp(lab["client"], lab["server"], **how)


NATIVE = [
    ("drop", {"XDP_DROP": N}),
    ("aborted", {"XDP_ABORTED": N}),
    ("strange", {"unknown verdict": N}),
    ("silent_drop", {"XDP drop (driver)": N}),
    ("pass", {"NO_SOCKET": N}),
    ("tx", {"XDP_TX ENXIO": N}),
]


@pytest.mark.parametrize(("function", "losses"), NATIVE, ids=[name for name, _ in NATIVE])
def test_native(lab: lk.Lab, verdicts: lk.ProgramSpec, function: str, losses: dict[str, int]) -> None:
    server = lab["server"]["eth0"]
    program = lab.load(verdicts, function)
    program.attach(server)
    report = lk.generate(lab["client"]["eth0"], frame(lab), N)
    ledger = lab.ledger()
    assert report.sent == N
    assert ledger.losses == losses
    assert ledger.unaccounted == 0
    # Independent of the ledger's sources for the drop: the receiver's link statistics, and the driver's packet count.
    assert server.statistics()["rx_packets"] == N
    assert server.driver_statistics()["rx_queue_0_xdp_packets"] == N
    assert all(check.agrees for check in ledger.checks), ledger.checks


GENERIC = [
    ("drop", {"XDP_DROP": N}),
    ("aborted", {"XDP_ABORTED": N}),
    ("strange", {"unknown verdict": N}),
    ("silent_drop", {"XDP drop (generic)": N}),
    ("pass", {"NO_SOCKET": N}),
    ("tx", {"OTHERHOST": N}),
]


@pytest.mark.parametrize(("function", "losses"), GENERIC, ids=[name for name, _ in GENERIC])
def test_generic(lab: lk.Lab, verdicts: lk.ProgramSpec, function: str, losses: dict[str, int]) -> None:
    server = lab["server"]["eth0"]
    lab.load(verdicts, function).attach(server, mode="generic")
    lk.generate(lab["client"]["eth0"], frame(lab), N)
    ledger = lab.ledger()
    assert ledger.unaccounted == 0
    assert ledger.losses == losses
    assert server.statistics()["rx_packets"] == N


def test_without_a_program(lab: lk.Lab) -> None:
    lk.generate(lab["client"]["eth0"], frame(lab), N)
    ledger = lab.ledger()
    assert ledger.losses == {"NO_SOCKET": N}
    assert ledger.unaccounted == 0
    # The server's kernel answered some with ICMP, at a limited rate: these are packets too, and they arrived.
    answers = lab["server"]["eth0"].statistics()["tx_packets"]
    assert ledger.sent == N + answers
    assert ledger.delivered == answers


def test_a_sink_gets_every_datagram(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    lab.load(verdicts, "pass").attach(lab["server"]["eth0"])
    with lk.UdpSink(lab["server"]) as sink:
        report = lk.generate(lab["client"]["eth0"], frame(lab), FEW, rate_pps=50_000)
        ledger = lab.ledger()
        assert sink.received == ledger.delivered == report.sent == FEW
    assert ledger.losses == {}
    assert ledger.unaccounted == 0


def test_a_socket_that_nobody_reads(lab: lk.Lab) -> None:
    with lk.UdpSink(lab["server"], read=False) as sink:
        lk.generate(lab["client"]["eth0"], frame(lab), N)
        ledger = lab.ledger()
        assert ledger.in_flight == sink.queued() > 0
        assert ledger.losses == {"SOCKET_RCVBUFF": N - sink.queued()}
        assert sink.drops == N - sink.queued()
        assert ledger.unaccounted == 0
        waiting = sink.queued()
    ledger = lab.ledger()
    assert ledger.in_flight == 0
    assert ledger.losses["SOCKET_CLOSE"] == waiting
    assert ledger.unaccounted == 0


def test_a_socket_the_lab_does_not_know_is_named(lab: lk.Lab) -> None:
    with lab["server"].socket() as stranger:
        stranger.bind((lab["server"].ip, 9999))
        lk.generate(lab["client"]["eth0"], frame(lab), 7)
        ledger = lab.ledger(settle_s=0.05)
        assert ledger.unaccounted == 7  # shown, not hidden: nothing tells how many wait in there
        assert any("port 9999" in note for note in ledger.notes)
        stranger.setblocking(False)
        for _ in range(7):
            stranger.recv(2048)
    assert lab.ledger().unaccounted == 0


def test_a_frame_for_somebody_else(lab: lk.Lab) -> None:
    wrong = bytes.fromhex("020000000909") + bytes(frame(lab))[6:]
    lk.generate(lab["client"]["eth0"], wrong, FEW)
    ledger = lab.ledger()
    assert ledger.losses == {"OTHERHOST": FEW}
    assert ledger.unaccounted == 0
    assert lab["server"]["eth0"].statistics().get("rx_otherhost_dropped", FEW) == FEW


def test_ordinary_udp_and_ping(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    lab.load(verdicts, "pass").attach(lab["server"]["eth0"])
    with lk.UdpSink(lab["server"]) as sink:
        report = lk.send_udp(lab["client"], lab["server"], FEW, rate_pps=20_000)
        sink.wait(FEW)
        assert report.sent == sink.received == FEW
    pings = lk.ping(lab["client"], lab["server"], 7)
    assert pings.received == 7
    ledger = lab.ledger()
    assert ledger.sent == FEW + 2 * 7
    assert ledger.unaccounted == 0


def test_tcp_through_a_program_with_gro(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    lab.load(verdicts, "pass").attach(lab["server"]["eth0"])
    client, server = lab["client"], lab["server"]
    with server.socket(kind=socket.SOCK_STREAM) as listener, client.socket(kind=socket.SOCK_STREAM) as near:
        listener.bind((server.ip, 5001))
        listener.listen()
        near.connect((server.ip, 5001))
        far, _ = listener.accept()
        with far:
            sender = threading.Thread(target=near.sendall, args=(bytes(1 << 20),))
            sender.start()
            taken = 0
            while taken < 1 << 20:
                taken += len(far.recv(1 << 16))
            sender.join()
    assert taken == 1 << 20
    ledger = lab.ledger(settle_s=2)
    assert ledger.unaccounted == 0
    assert ledger.delivered > (1 << 20) // 1448
    assert ledger.lost <= 2  # a last segment may go down with its closed socket


def test_two_generators_fill_the_ring_and_every_loss_is_named(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
    many = 2_000_003
    report = lk.generate(lab["client"]["eth0"], frame(lab), many, threads=2)
    ledger = lab.ledger()
    assert report.sent == ledger.sent == many
    assert ledger.unaccounted == 0
    assert ledger.losses["XDP_DROP"] + ledger.losses.get("ring full", 0) == many


def test_it_is_exact_at_every_tick_of_running_traffic(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
    generator = lk.Generator(lab["client"]["eth0"], frame(lab), seconds=20, threads=2).start()
    sent = []
    for _ in range(30):
        ledger = lab.ledger()
        assert ledger.unaccounted == 0
        sent.append(ledger.sent)
    report = generator.stop()
    assert sent == sorted(sent)
    assert sent[-1] > sent[0]
    assert lab.ledger().sent == report.sent


def test_replacing_programs_under_traffic_loses_and_miscounts_nothing(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    first = lab.load(verdicts, "drop")
    link = first.attach(lab["server"]["eth0"])
    generator = lk.Generator(lab["client"]["eth0"], frame(lab), seconds=20).start()
    for name in ("aborted", "drop", "strange", "drop") * 3:
        link.replace(lab.load(verdicts, name))
        assert lab.ledger().unaccounted == 0
    generator.stop()
    ledger = lab.ledger()
    assert ledger.unaccounted == 0
    assert set(ledger.losses) == {"XDP_DROP", "XDP_ABORTED", "unknown verdict"}
    assert all(check.agrees for check in ledger.checks), ledger.checks


def test_a_program_that_changes_its_mode_is_counted_once(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    program = lab.load(verdicts, "drop")
    for mode in ("native", "generic", "native"):
        program.attach(lab["server"]["eth0"], mode=mode)
        lk.generate(lab["client"]["eth0"], frame(lab), FEW)
    ledger = lab.ledger()
    assert ledger.losses == {"XDP_DROP": 3 * FEW}
    assert ledger.unaccounted == 0
    assert all(check.agrees for check in ledger.checks), ledger.checks


def test_a_program_replaced_in_one_mode_and_swapped_in_in_the_other(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    dropping, passing = lab.load(verdicts, "drop"), lab.load(verdicts, "aborted")
    generator = lk.Generator(lab["client"]["eth0"], frame(lab), seconds=20, rate_pps=300_000).start()
    for mode in ("native", "generic") * 4:
        link = dropping.attach(lab["server"]["eth0"], mode=mode)
        link.replace(passing)
        link.replace(dropping).replace(passing)
    generator.stop()
    ledger = lab.ledger()
    assert ledger.unaccounted == 0, ledger


def test_counters_go_on_over_an_edit(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    old = lab.load(verdicts, "drop")
    link = old.attach(lab["server"]["eth0"])
    lk.generate(lab["client"]["eth0"], frame(lab), FEW)
    new = lab.load(verdicts, "drop", replaces=old)
    link.replace(new)
    old.close()
    lk.generate(lab["client"]["eth0"], frame(lab), FEW)
    counted = new.verdicts()
    assert counted is not None
    assert counted["XDP_DROP"] == 2 * FEW
    assert lab.ledger().losses == {"XDP_DROP": 2 * FEW}


def test_a_closed_program_stays_in_the_ledger(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    program = lab.load(verdicts, "drop")
    link = program.attach(lab["server"]["eth0"])
    lk.generate(lab["client"]["eth0"], frame(lab), FEW)
    link.close()
    program.close()
    assert lab.ledger().losses == {"XDP_DROP": FEW}


def test_reset_counts_from_zero(lab: lk.Lab, verdicts: lk.ProgramSpec) -> None:
    lab.load(verdicts, "drop").attach(lab["server"]["eth0"])
    lk.generate(lab["client"]["eth0"], frame(lab), FEW)
    lab.reset()
    assert lab.ledger().sent == 0
    lk.generate(lab["client"]["eth0"], frame(lab), 7)
    ledger = lab.ledger()
    assert (ledger.sent, ledger.losses, ledger.unaccounted) == (7, {"XDP_DROP": 7}, 0)


def test_silence_stays_silent(lab: lk.Lab) -> None:
    ledger = lab.ledger()
    assert ledger.sent == 0
    assert ledger.unaccounted == 0
    assert "sent" in str(ledger)
    assert "<table" in ledger._repr_html_()
