"""The frame: what the panel shows of two readings, number by number."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

import pytest

from labkit.observe.ledger import Ledger, Row
from labkit.observe.sample import InterfaceCounters, Sample
from labkit.observe.verdicts import Tally
from labkit.observe.words import Role
from labkit.topology import Topology
from labkit.widgets.frame import Badge, Reading, Shown, build_frame, describe_topology, verdicts_at

T = TypeVar("T")
PAIR = Topology.pair()
BADGE = Badge("server", "eth0", "drop_all", "native", 412, "f0e1d2c3b4a59687")
ROLES: dict[str, Role] = {"delivered": "pass", "loss": "drop", "in_flight": "muted"}


def filled(kind: type[T], **known: Any) -> T:
    """An instance with every field that the frame doesn't look at empty."""
    empty = {field.name: {} for field in fields(kind) if field.default is field.default_factory is MISSING}  # type: ignore[arg-type]
    return kind(**{**empty, **known})


def counters(received: int, driver: Mapping[str, int] | None = None, host: str = "server") -> InterfaceCounters:
    known = {"link": {"rx_packets": received}, "driver": driver or {}, "mode": "native"}
    return filled(InterfaceCounters, host=host, netns=1, ifindex=2, **known)


def sample(time_s: float, received: int = 0, counts: Mapping[str, int] | None = None, **driver: int) -> Sample:
    interfaces = {
        "client eth0": counters(0, host="client"),
        "server eth0": counters(received, driver),
    }
    tally = {} if counts is None else {7: Tally("drop_all", ("server eth0",), "native", counts)}
    return filled(Sample, time_s=time_s, interfaces=interfaces, verdicts=tally)


def ledger(sent: int, *rows: tuple[Any, str, str, int], notes: tuple[str, ...] = ()) -> Ledger:
    made = [Row("sent", "sent", "sent", "client eth0", sent, "generator")]
    for kind, key, where, packets in rows:
        made.append(Row(kind, key, key, where, packets, "test", ROLES[kind], f"Why {key}."))
    return Ledger(made, notes=notes)


def frame(present: Reading, past: Reading | None = None, topology: Topology = PAIR, **shown: Any) -> dict[str, Any]:
    made = build_frame(3, topology, present, past, sample(0), Shown(**shown))
    json.dumps(made, allow_nan=False)  # it travels as JSON
    return made


def test_the_first_frame_has_counts_and_no_rates() -> None:
    made = frame(Reading(sample(5, 1009), ledger(1009, ("loss", "XDP_DROP", "server eth0", 1009))))
    assert (made["seq"], made["state"], made["error"]) == (3, "idle", None)
    assert made["links"] == [{"pps_ab": 0.0, "pps_ba": 0.0}]
    assert made["ledger"]["unaccounted"] == 0
    assert [row["packets"] for row in made["ledger"]["rows"]] == [1009, 1009]
    assert all(line["pps"] == 0 for line in made["series"])


def test_rates_are_differences_over_the_samples_own_time() -> None:
    past = Reading(sample(10.0, 1000), ledger(1000, ("delivered", "delivered", "server :9999", 1000)))
    present = Reading(
        sample(10.5, 3000),
        ledger(
            3000,
            ("delivered", "delivered", "server :9999", 2000),
            ("loss", "socket buffer full", "server :9999", 1000),
        ),
    )
    made = frame(present, past)
    assert made["links"] == [{"pps_ab": 4000.0, "pps_ba": 0.0}]
    assert {line["label"]: line["pps"] for line in made["series"]} == {
        "sent": 4000.0,
        "delivered": 2000.0,
        "socket buffer full": 2000.0,
    }
    assert made["losses"] == [{"host": "server", "name": "socket buffer full", "packets": 1000, "pps": 2000.0}]


def test_a_counter_that_went_back_gives_no_negative_rate() -> None:
    past = Reading(sample(10.0, 3000), ledger(3000))
    assert frame(Reading(sample(10.5, 0), ledger(0)), past)["links"][0]["pps_ab"] == 0


def test_readings_at_the_same_moment_give_no_rate() -> None:
    reading = Reading(sample(10.0, 3000), ledger(3000))
    assert frame(reading, reading)["links"][0]["pps_ab"] == 0


def test_shares_are_parts_of_what_was_sent() -> None:
    made = frame(Reading(sample(1), ledger(8, ("loss", "XDP_DROP", "server eth0", 2))))
    assert [row["share"] for row in made["ledger"]["rows"]] == [1.0, 0.25]
    assert frame(Reading(sample(1), ledger(0)))["ledger"]["rows"][0]["share"] is None


def test_what_is_missing_is_said_and_settles_when_sending_ends() -> None:
    moving = frame(Reading(sample(2), ledger(17)), Reading(sample(1), ledger(11)))["ledger"]
    assert (moving["unaccounted"], moving["settled"]) == (17, False)
    still = frame(Reading(sample(2), ledger(17, notes=("No drop reasons.",))), Reading(sample(1), ledger(17)))["ledger"]
    assert (still["unaccounted"], still["settled"], still["why"]) == (17, True, "No drop reasons.")


def test_what_a_program_dropped_is_in_its_badge_and_not_marked_again() -> None:
    present = Reading(
        sample(2, 100, {"XDP_DROP": 90, "XDP_PASS": 10}),
        ledger(100, ("loss", "XDP_DROP", "server eth0", 90)),
    )
    past = Reading(sample(1, 0, {"XDP_DROP": 40, "XDP_PASS": 10}), ledger(0))
    made = frame(present, past, badges=[BADGE])
    assert made["losses"] == []
    (program,) = made["programs"]
    assert (program["name"], program["mode"], program["id"]) == ("drop_all", "native", 412)
    assert program["verdicts"] == {"DROP": 90, "PASS": 10}
    assert program["verdict_pps"] == {"DROP": 50.0}


def test_verdicts_count_from_the_reset() -> None:
    baseline = sample(0, 0, {"XDP_DROP": 80})
    reading = Reading(sample(2, 100, {"XDP_DROP": 90}), ledger(10))
    made = build_frame(1, PAIR, reading, None, baseline, Shown(badges=[BADGE]))
    assert made["programs"][0]["verdicts"] == {"DROP": 10}


def test_verdicts_of_a_program_that_changed_its_mode_are_its_own_of_all_stretches() -> None:
    def held(time_s: float, *stretches: tuple[str, int]) -> Sample:
        tallies = {n: Tally(name, ("server eth0",), "native", {"XDP_DROP": c}) for n, (name, c) in enumerate(stretches)}
        return filled(Sample, time_s=time_s, interfaces={"server eth0": counters(0)}, verdicts=tallies)

    baseline = held(0, ("drop_all", 80), ("other", 7))
    present = Reading(held(2, ("drop_all", 90), ("other", 8), ("drop_all", 30)), ledger(41))
    made = build_frame(1, PAIR, present, None, baseline, Shown(badges=[BADGE]))
    assert made["programs"][0]["verdicts"] == {"DROP": 40}


def test_a_program_that_counts_nothing_is_told_by_the_driver() -> None:
    now = sample(
        1,
        rx_queue_0_xdp_packets=100,
        rx_queue_0_xdp_drops=60,
        rx_queue_0_xdp_tx=5,
        rx_queue_1_xdp_packets=7,
    )
    assert verdicts_at(BADGE, now) == {"PASS": 42, "DROP": 60, "REDIRECT": 0, "TX": 5}
    generic = Badge("server", "eth0", "drop_all", "generic", 412, "")
    assert verdicts_at(generic, now) == {}


def test_another_programs_count_at_the_same_place_is_not_taken() -> None:
    other = Badge("server", "eth0", "other", "generic", 413, "")
    assert verdicts_at(other, sample(1, 0, {"XDP_DROP": 90})) == {}


def test_a_loss_on_a_link_is_drawn_on_the_link() -> None:
    reading = Reading(sample(1), ledger(5, ("loss", "ring full", "after router eth1", 5)))
    made = frame(reading, topology=Topology.router())
    assert [(loss.get("link"), loss["name"]) for loss in made["losses"]] == [(1, "ring full")]
    assert frame(Reading(sample(1), ledger(5, ("loss", "lost", "elsewhere", 5))))["losses"] == []


def test_the_chart_keeps_to_the_greatest_and_sums_over_places() -> None:
    rows = [("loss", f"reason {n}", "server eth0", n) for n in range(1, 12)]
    rows += [("loss", "reason 11", "client eth0", 100)]
    made = frame(Reading(sample(1), ledger(200, *rows)))
    assert [line["label"] for line in made["series"]] == [
        "sent",
        "reason 11",
        "reason 10",
        "reason 9",
        "reason 8",
        "reason 7",
    ]
    assert made["series"][0]["role"] == "sent"


def test_events_are_bounded_and_an_error_has_a_remedy() -> None:
    events = [(float(n), "info", f"event {n}") for n in range(40)]
    made = frame(Reading(sample(1), ledger(0)), events=events, error=("It broke.", "Mend it."))
    assert made["events"][-1] == {"t_s": 39.0, "level": "info", "text": "event 39"}
    assert len(made["events"]) <= 8
    assert made["error"] == {"text": "It broke.", "remedy": "Mend it."}


@pytest.mark.parametrize(
    ("topology", "title"),
    [
        (PAIR, "client – server"),
        (Topology.router(), "client – router – server"),
        (Topology.chain(7), "chain of 7 hosts"),
        (Topology.fanout(9), "fanout of 10 hosts"),
    ],
)
def test_the_topology_in_json(topology: Topology, title: str) -> None:
    made = describe_topology(topology, "lab")
    json.dumps(made)
    assert (made["name"], made["title"]) == ("lab", title)
    assert [host["name"] for host in made["hosts"]] == list(topology.hosts)
    assert len(made["links"]) == len(topology.links)
    assert made["links"][0]["a"] == {"host": topology.links[0].a.host, "interface": "eth0"}
