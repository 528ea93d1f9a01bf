"""The exercises: stubs fail, solutions pass, and each plausible mistake is seen and named."""

from __future__ import annotations

from pathlib import Path

import pytest

import labkit as lk
from labkit import lesson
from labkit.errors import CompileError, LessonError, StateError, VerifierError
from labkit.lesson.trial import Trial

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = ROOT / "notebooks" / "solutions"
ALL = [each.id for each in lesson.exercises()]


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDP_LAB_PROGRESS", str(tmp_path / "progress.json"))


def solution(id: str) -> str:
    return (SOLUTIONS / lesson.exercise(id).file_name).read_text()


def edited(id: str, old: str, new: str) -> str:
    text = solution(id)
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize("id", ALL)
def test_the_stub_fails(id: str) -> None:
    result = lk.check(id)
    assert not result.passed
    assert result.looks or result.error
    assert f'lk.hint("{id}")' in str(result)
    assert f"lk.hint(&quot;{id}&quot;)" not in result._repr_html_()
    assert lesson.progress().checks[id] | {"time": ""} == {"passed": False, "last": False, "attempts": 1, "time": ""}


@pytest.mark.parametrize("id", ALL)
def test_the_solution_passes(id: str) -> None:
    result = lk.check(id, solution(id), strict=True)
    assert result.passed
    assert result.rows
    assert lesson.progress().solved == (id,)


@pytest.mark.parametrize(
    ("id", "old", "new", "row"),
    [
        ("drop-udp-port", "htons(9999)", "9999", "UDP to port 9999"),
        ("drop-udp-port", " || is_later_fragment(ip)", "", "later fragment"),
        ("drop-udp-port", "ip->protocol != IPPROTO_UDP || ", "", "TCP to port 9999"),
        ("drop-udp-port", "udp->dest", "udp->source", "UDP from port 9999"),
        (
            "drop-udp-port",
            "if (!eth ||",
            "if (eth && eth->h_proto == htons(ETH_P_8021Q) && at.at + 4 <= at.end)\n\t\tat.at += 4; else if (!eth ||",
            "in VLAN 10",
        ),
        (
            "drop-udp-port",
            "ip = next_ipv4(&at);",
            "ip = at.at;\n\tif ((void *)(ip + 1) > at.end)\n\t\treturn verdict(ctx, XDP_PASS);\n\tat.at = ip + 1;",
            "9999 among IPv4 options",
        ),
        ("drop-udp-port", " || eth->h_proto != htons(ETH_P_IP)", "", "IPv6, 17"),
        ("drop-udp-port", "return verdict(ctx, XDP_DROP)", "return verdict(ctx, XDP_ABORTED)", "UDP to port 9999"),
        ("drop-udp-port", "return verdict(ctx, XDP_DROP)", "return verdict(ctx, 42)", "UDP to port 9999"),
        ("drop-udp-port", "return verdict(ctx, XDP_DROP)", "return verdict(ctx, XDP_TX)", "UDP to port 9999"),
        (
            "drop-udp-port",
            "if (!ip || ",
            "if (!ip)\n\t\treturn verdict(ctx, XDP_DROP);\n\tif (",
            "bare Ethernet header",
        ),
        ("drop-udp-port", "if (!udp || ", "if (!udp)\n\t\treturn verdict(ctx, XDP_DROP);\n\tif (", "UDP cut off"),
        ("low-ttl", "(void *)(ip + 1) > end", "(void *)eth + 60 > end", "header only"),
        ("low-ttl", "ip->ttl < 2", "ip->ttl < 1", "TTL 1"),
        ("low-ttl", "ip->ttl < 2", "ip->ttl <= 2", "TTL 2"),
        ("low-ttl", " || eth->h_proto != htons(ETH_P_IP)", "", "IPv6"),
        ("source-budget", "*packets > 100", "*packets >= 100", "101 from"),
        ("source-budget", "source = ip->saddr", "source = ntohl(ip->saddr)", "the map's entry for 10.0.1.77"),
        ("source-budget", "source = ip->saddr", "source = ip->daddr", "257 from"),
        ("source-budget", "packets_by_source", "sources", "the map packets_by_source"),
        (
            "source-budget",
            "return verdict(ctx, XDP_PASS);\n\tsource",
            "return verdict(ctx, XDP_DROP);\n\tsource",
            "ARP",
        ),
    ],
)
def test_a_mistake_is_seen(id: str, old: str, new: str, row: str) -> None:
    result = lk.check(id, edited(id, old, new))
    assert result.error is None, str(result)
    assert any(row in wrong.what for wrong in result.rows if not wrong.good), str(result)


@pytest.mark.parametrize(
    ("id", "old", "new", "look"),
    [
        ("low-ttl", "htons(ETH_P_IP)", "ETH_P_IP", "nothing at all is dropped"),
        ("drop-udp-port", "htons(ETH_P_IP)", "ETH_P_IP", "nothing at all is dropped"),
        ("drop-udp-port", "XDP_PASS", "XDP_DROP", "everything is dropped"),
        ("source-budget", "lookup_or_try_init(&source, &none)", "lookup(&source)", "the lookup gave NULL"),
        ("source-budget", "1024", "1", "the map has no room"),
        ("source-budget", "LAB_HASH", "LAB_PERCPU_HASH", "every CPU would have a budget of its own"),
    ],
)
def test_where_to_look_leads_to_the_cause(id: str, old: str, new: str, look: str) -> None:
    result = lk.check(id, edited(id, old, new))
    assert result.error is None
    assert look in result.looks[0], result.looks
    assert len(result.looks) < 4


def test_aborted_is_told_from_dropped() -> None:
    result = lk.check("drop-udp-port", edited("drop-udp-port", "XDP_DROP)", "XDP_ABORTED)"))
    assert "dropped, but as XDP_ABORTED" in str(result)


def test_a_frame_that_passes_must_stay_as_it_is() -> None:
    text = """
    #include <uapi/linux/bpf.h>
    int cut(struct xdp_md *ctx) { bpf_xdp_adjust_tail(ctx, -1); return XDP_PASS; }
    """
    result = lk.check("low-ttl", text)
    assert "passed, 7 of them altered" in str(result)
    assert "what passes must stay as it is" in str(result)


def test_byte_order_of_the_key_is_named() -> None:
    result = lk.check("source-budget", edited("source-budget", "= ip->saddr", "= ntohl(ip->saddr)"))
    assert any("converted; use ip->saddr as it is" in look for look in result.looks)


def test_a_syntax_error_is_shown_not_raised() -> None:
    result = lk.check("low-ttl", solution("low-ttl").replace("return", "retrun", 1))
    assert isinstance(result.error, CompileError)
    assert not result.passed
    assert "does not compile yet" in result.sentence
    assert "retrun" in str(result)
    assert "retrun" in result._repr_html_()


def test_a_refused_program_is_shown_not_raised() -> None:
    result = lk.check("low-ttl")
    assert isinstance(result.error, VerifierError)
    assert "off=22" in str(result)


def test_strict_raises() -> None:
    with pytest.raises(LessonError, match=r"low-ttl: Not yet"):
        lk.check("low-ttl", strict=True)


@pytest.mark.parametrize("answer", ["", "  ", 7, "no/such/file.c"])
def test_what_is_no_program(answer: object) -> None:
    assert not lk.check("low-ttl", answer).passed  # type: ignore[arg-type]


def test_an_answer_may_be_a_path_or_compiled() -> None:
    path = SOLUTIONS / "low_ttl.c"
    assert lk.check("low-ttl", path).passed
    assert lk.check("low-ttl", lk.compile(path=path)).passed


def test_solved_stays_solved() -> None:
    lk.check("low-ttl", SOLUTIONS / "low_ttl.c")
    lk.check("low-ttl")
    assert lesson.progress().checks["low-ttl"] | {"time": ""} == {
        "passed": True,
        "last": False,
        "attempts": 2,
        "time": "",
    }


def test_a_trial_counts_exactly() -> None:
    """Against an independent counter: the interface's own."""
    with Trial(lk.compile(path=ROOT / "bpf" / "drop_all.c")) as trial:
        before = trial.server.statistics()["rx_packets"]
        seen = trial.send(lk.udp(trial.client, trial.server), 31)
        assert (seen.sent, seen.passed, seen.dropped, seen.answer) == (31, 0, 31, "XDP_DROP")
        assert trial.server.statistics()["rx_packets"] - before == 31


def test_where_to_drop_accounts_for_every_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    places = lesson.where_to_drop(packets=10_007, runs=2)
    assert places.unaccounted == 0
    found = {lane.name: max(lane.ledger.losses, key=lane.ledger.losses.__getitem__) for lane in places.lanes}
    assert found == {
        "native XDP": "XDP_DROP",
        "generic XDP": "XDP_DROP",
        "TC ingress": "TC_INGRESS",
        "nftables prerouting": "NETFILTER_DROP",
        "socket nobody reads": "SOCKET_RCVBUFF",
    }
    for lane in places.lanes:
        assert lane.ledger.sent == 10_007
        assert len(lane.runs_mpps) == 2


def test_return_codes(lab: lk.Lab) -> None:
    program = lab.load(lk.compile(path=ROOT / "bpf" / "return_codes.c"))
    program.attach(lab["server"]["eth0"])
    table = lesson.return_codes(program, lab["server"]["eth0"])
    assert [(row[0], row[3], row[4]) for row in table.rows] == [
        ("0", 101, 0),
        ("1", 101, 0),
        ("2", 0, 0),
        ("3", 0, 0),
        ("4", 0, 0),
        ("42", 101, 0),
    ]
    assert "unknown return code" in str(table)
    assert "delivered to sockets" in str(table)


def test_linear_part_of_a_frame_in_several_buffers() -> None:
    spec = lk.compile(path=ROOT / "bpf" / "linear_part.c")
    with lk.Lab(lk.Topology.pair(mtu=9000), name="test") as lab:
        client, server = lab["client"], lab["server"]
        with pytest.raises(lk.AttachError, match="client eth0 has MTU 9000"):
            lab.load(spec).attach(server["eth0"])
        program = lab.load(spec, frags=True)
        program.attach(server["eth0"])
        lk.send_frames(client["eth0"], lk.udp(client, server, size=9014), 7)
        assert lab.ledger().unaccounted == 0
        assert program.maps["bytes"][0] == 9014
        assert 14 <= program.maps["bytes"][1] < 9014


def test_live_rates_follow_the_map_and_end_with_the_lab(lab: lk.Lab) -> None:
    program = lab.load(lk.compile(path=ROOT / "bpf" / "drop_by_protocol.c"))
    program.attach(lab["server"]["eth0"])
    counters, kept = program.maps["packets_by_protocol"], program.maps["keep_protocol"]
    table = lesson.live_rates(lab, counters, kept=kept)
    assert "nothing counted yet" in table.value
    lk.send_frames(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), 31)
    lab.ledger()
    table._show()
    assert "UDP (17)" in table.value
    assert ">31<" in table.value
    assert "drops/s" in table.value
    assert "let through" not in table.value
    kept[17] = 1
    table._show()
    assert "let through" in table.value, "what passes is no drop"
    again = lesson.live_rates(lab, counters)
    assert not table._thread.is_alive()
    lab.close()
    assert not again._thread.is_alive()


def test_live_rates_of_a_closed_map_leave_nothing_behind(lab: lk.Lab) -> None:
    program = lab.load(lk.compile(path=ROOT / "bpf" / "drop_by_protocol.c"))
    counters = program.maps["packets_by_protocol"]
    program.close()
    with pytest.raises(StateError, match="packets_by_protocol is closed"):
        lesson.live_rates(lab, counters)
    lab.close()  # the table that never was has no part in it
