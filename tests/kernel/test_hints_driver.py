"""What a driver knows of packets, by their origin; the lesson's tables; the demo."""

from __future__ import annotations

import errno

import pytest

import labkit as lk
from labkit import lesson
from labkit.demo.registry import run_demo
from labkit.kernel.netdev import NetdevSocket, RssHash, RxMetadata
from labkit.lesson.hints_driver import asking, unhinted
from labkit.lesson.hints_driver_origins import ORIGINS, PACKETS, send_unconnected
from labkit.lesson.hints_driver_picture import AskedByOrigin, drawn
from labkit.lesson.hints_driver_tap import tap
from labkit.lesson.tracing import Unseen
from labkit.uapi import XdpAction

N = 1_009  # prime
ENODATA, EOPNOTSUPP = -errno.ENODATA, -errno.EOPNOTSUPP
NOTHING = (ENODATA, ENODATA, ENODATA)


@pytest.fixture(scope="module")
def asked() -> AskedByOrigin:
    return lesson.hints_by_origin()


def driver_drops(interface: lk.Interface) -> int:
    found = interface.driver_statistics()
    return sum(count for name, count in found.items() if name.startswith("rx_queue") and name.endswith("xdp_drops"))


def test_every_packet_of_a_socket_is_answered(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with asking(server["eth0"]) as asked:
        assert lk.send_udp(client, server, N).sent == N
        (answer,) = asked.take(N)
        counts = asked.program.verdicts()
        ledger = lab.ledger()
    assert (answer.packets, answer.codes) == (N, (0, 0, ENODATA))
    assert answer.hash_type == RssHash.L4
    assert answer.hash
    assert counts is not None
    assert counts["XDP_DROP"] == driver_drops(server["eth0"]) == N
    assert ledger.losses == {"XDP_DROP": N}
    assert ledger.unaccounted == 0


def test_no_packet_of_the_generator_is(lab: lk.Lab) -> None:
    client, server = lab["client"], lab["server"]
    with asking(server["eth0"]) as asked:
        lk.generate(client["eth0"], lk.udp(client, server), N)
        (answer,) = asked.take(N)
    assert (answer.packets, answer.codes, answer.hash, answer.timestamp_ns) == (N, NOTHING, 0, 0)
    assert driver_drops(server["eth0"]) == N


def test_by_origin(asked: AskedByOrigin) -> None:
    assert list(asked.answers) == [origin.name for origin in ORIGINS], "this kernel can make all of them"
    for origin in ORIGINS:
        (answer,) = asked.answers[origin.name]
        if origin.name == "a socket, TCP":
            assert answer.packets > 2, "handshake, data, farewell"
        else:
            assert answer.packets == PACKETS
        assert answer.timestamp_ns == 0
        if origin.skb:
            assert (answer.hash_code, answer.timestamp_code) == (0, 0)
            assert answer.words[1] == "no time (answered, with 0)"
        elif origin.name == "a tap: another driver":
            assert answer.codes == (EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP)
        else:
            assert answer.codes == NOTHING
    tags = {name: found[0].vlan_code for name, found in asked.answers.items() if found[0].vlan_code != ENODATA}
    assert tags == {"a socket, VLAN tag pushed by TC, offload on": 0, "a tap: another driver": EOPNOTSUPP}
    untyped = {name for name, found in asked.answers.items() if not found[0].hash_code and not found[0].hash_type}
    assert untyped == {"a packet socket, ARP", "a packet socket, VLAN tag in the frame"}


def test_the_picture_and_the_table_say_the_same(asked: AskedByOrigin) -> None:
    picture = asked.picture
    for (name, (answer,)), row in zip(asked.answers.items(), picture.table.rows, strict=True):
        assert row[:5] == (name, answer.packets, *answer.words)
        assert name in picture.description
    page = asked._repr_html_()
    assert page.count("0: no time") == sum(origin.skb for origin in ORIGINS)
    assert "role=" in page
    assert "<title" in page
    assert "a socket, UDP" in str(asked)


def test_what_could_not_be_asked_about_is_named(asked: AskedByOrigin) -> None:
    some = {name: found for name, found in asked.answers.items() if name.startswith("a socket")}
    picture = drawn(some, {"a tap: another driver": "There is no tap device to be had here."})
    assert "Not to be had here: a tap: another driver (There is no tap device to be had here)" in picture.title
    assert len(picture.table.rows) == len(some)
    assert "Not to be had" not in asked.picture.title


def test_a_hash_by_its_sender() -> None:
    table = lesson.hash_by_sender()
    once, again, other_port, raw, joined, joined_again, tagged, tagged_other = (row[3] for row in table.rows)
    assert once == again == raw == "A", "computed of addresses and ports, whoever sends"
    assert other_port != once
    assert joined != joined_again, "a connected socket draws a number of its own"
    assert tagged == tagged_other, "ports behind a tag in the frame make no difference"


def test_a_stamp_is_lost_before_a_native_program() -> None:
    plain, by_xdp, behind = (found for _, found in lesson.stamp_seen_by().rows)
    assert plain.startswith("received at ")
    assert by_xdp == behind == "no time (answered, with 0)"


def test_what_netlink_promises(asked: AskedByOrigin, lab: lk.Lab) -> None:
    server = lab["server"]
    with server.run(NetdevSocket) as netdev:
        assert netdev.features(server["eth0"].ifindex).rx_metadata == sum(RxMetadata)
    with tap(server) as device:
        assert device.features.rx_metadata == 0
        device.receive(bytes(lk.udp(lab["client"], server)), 7)
        assert device.program.verdicts()["XDP_DROP"] == 7  # type: ignore[index]
    rows = lesson.promised_hints(asked).rows
    assert [row[2] for row in rows] == ["yes"] * 6 + ["no"] * 3
    assert [row[4].startswith("no ") for row in rows] == [True, False, True] + [True] * 6


def test_every_refusal_is_one() -> None:
    rows = lesson.hints_refused().rows
    assert len(rows) >= 12
    for tried, _, meaning, remedy in rows:
        assert meaning != "it was taken", tried
        assert len(remedy) > 10, tried


def test_two_interfaces_with_a_program_each(lab: lk.Lab) -> None:
    """Two bound programs that share their maps, and a swap from one to another under traffic."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    spec = lk.compile(path="bpf/hints_hash.c")
    first = lab.load(spec, device=server)
    second = lab.load(spec, device=client, maps=first.maps)
    link = first.attach(server)
    with second.attach(client):
        lk.send_frames(client, lk.udp(client, server), N)
        lk.send_frames(server, lk.udp(server, client), 503)
        assert lab.ledger().losses == {"XDP_DROP": N + 503}
        assert first.maps["answers"][0] == N + 503
    third = lab.load(spec, device=server, replaces=first)
    traffic = lk.Generator(client, lk.udp(client, server), packets=100_003, rate_pps=200_000).start()
    for program in (third, first) * 5:
        link.replace(program)
    assert traffic.wait().sent == 100_003
    assert lab.ledger(settle_s=20).losses == {"XDP_DROP": N + 503 + 100_003}
    assert third.maps["answers"].read() == {0: N + 503, 1: 100_003, 2: 0}


def test_a_swap_between_asking_and_not(lab: lk.Lab) -> None:
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    plain, bound = (
        lab.load(lk.compile(path="bpf/drop_all.c")),
        lab.load(lk.compile(path="bpf/hints_hash.c"), device=server),
    )
    link = plain.attach(server)
    for program in (bound, plain):
        link.replace(program)
        found = server.xdp()
        assert found is not None
        assert found.program_id == program.id
        lk.send_frames(client, lk.udp(client, server), N)
        lab.ledger()
    assert bound.maps["answers"].read() == {0: N, 1: 0, 2: 0}
    assert lab.ledger().losses == {"XDP_DROP": 2 * N}


def test_counting_answers_by_sender(lab: lk.Lab) -> None:
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    program = lab.load(lk.compile(path="bpf/hints_hash.c"), device=server)
    program.attach(server)
    table = lesson.hash_answers(
        program,
        {
            "socket": lambda: send_unconnected(client, 7),
            "generator": lambda: lk.generate(client, lk.udp(client, server), 11),
        },
    )
    assert table.rows == (("socket", 7, 0, 0), ("generator", 0, 11, 0))
    with pytest.raises(lk.LessonError, match="asks no driver"):
        lesson.hash_answers(lab.load(lk.compile(path="bpf/drop_all.c")), {})


def test_more_packets_than_were_sent_are_an_error(lab: lk.Lab) -> None:
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    with asking(server, XdpAction.PASS) as asked:
        lk.send_frames(client, lk.udp(client, server), 7)
        lab.ledger()
        with pytest.raises(lk.TrafficError, match="5 packets were sent, and the driver was asked about 7"):
            asked.take(5)


def test_the_demo() -> None:
    found = run_demo("hints", packets=N).as_dict()
    assert (found["decoded"], found["foreign"]) == (N, 0)
    assert found["losses"] == {"XDP_DROP": N}
    assert (found["sent"], found["unaccounted"], found["in_flight"]) == (N, 0, 0)


def test_shown_where_one_may_ask() -> None:
    assert unhinted() == ""
    assert lesson.if_hints("a number", lambda: 5) == 5


def test_a_function_that_this_kernel_lacks_is_a_line() -> None:
    def show() -> int:
        raise lk.FeatureError("This kernel has no function x for XDP programs.")

    found = lesson.if_hints("a number", show)
    assert isinstance(found, Unseen)
    assert not found
    assert str(found) == "This kernel has no function x for XDP programs: a number can't be shown."
