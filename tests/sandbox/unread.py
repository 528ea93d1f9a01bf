"""Runs inside a sandbox: a lab in which so many datagrams go to a port that nobody opened. Prints the ledger.

unread.py PACKETS
"""

from __future__ import annotations

import json
import sys

import labkit as lk

with lk.Lab(lk.Topology.pair(), name="unread") as lab:
    client, server = lab["client"], lab["server"]
    frame = lk.udp(client, server)
    print("ready", flush=True)
    sys.stdin.readline()
    report = lk.generate(client["eth0"], frame=frame, packets=int(sys.argv[1]))
    ledger = lab.ledger()
    print(
        json.dumps(
            {
                "report": report.sent,
                "sent": ledger.sent,
                "delivered": ledger.delivered,
                "losses": ledger.losses,
                "in_flight": ledger.in_flight,
                "unaccounted": ledger.unaccounted,
            }
        ),
        flush=True,
    )
