"""Statistics, only what changed."""

from __future__ import annotations

import time

import pytest

import labkit as lk

PACKETS = 10_007


def test_only_what_changed_is_shown() -> None:
    with lk.Lab(lk.Topology.pair(), name="changed") as lab:
        client, server = lab["client"], lab["server"]
        program = lab.load(lk.compile(path="bpf/drop_by_protocol.c"))
        program.attach(server["eth0"])
        lk.generate(client["eth0"], lk.udp(client, server), packets=101)  # what came before doesn't count
        with lk.what_changed(lab) as changed:
            lk.generate(client["eth0"], lk.udp(client, server), packets=PACKETS)
        assert changed["server eth0", "rx_queue_0_xdp_drops"] == PACKETS
        assert changed["client eth0", "tx_packets"] == PACKETS
        assert program.maps["verdicts"][1] == PACKETS + 101
        assert changed["server eth0", "rx_dropped"] == 0
        counters = {row.counter for row in changed.rows}
        assert "rx_queue_0_xdp_drops" in counters
        assert "rx_queue_0_xdp_tx_errors" not in counters
        text = str(changed)
        assert f"{PACKETS:,}" in text
        assert "stood still" in text
        assert 'scope="col"' in changed._repr_html_()
        [row] = [row for row in changed.rows if row.counter == "rx_queue_0_xdp_drops"]
        assert row.per_second == pytest.approx(PACKETS / changed.seconds)


def test_nothing_moved_says_so() -> None:
    with lk.Lab(lk.Topology.pair(), name="changed") as lab:
        with lk.what_changed(lab) as changed:
            time.sleep(0.01)
        assert changed.rows == ()
        assert "stood still" in str(changed)


def test_a_closed_lab_is_named() -> None:
    with lk.Lab(lk.Topology.pair(), name="changed") as lab:
        changed = lk.what_changed(lab)
    with pytest.raises(lk.StateError, match="changed is closed"):
        changed.read()
