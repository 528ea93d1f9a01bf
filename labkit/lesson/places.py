"""Where to drop: the same rule at five places along the way of a received packet."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.errors import FeatureError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.lesson.race import Race, race, runs_scaled, scaled
from labkit.program.classifier import at_tc
from labkit.program.link import Mode
from labkit.topology import Topology
from labkit.traffic.frames import udp
from labkit.traffic.sink import UdpSink
from labkit.uapi import AttachType, ProgType

__all__ = ["NATIVE", "PLACES", "at_tc", "firewall_drop", "tc_drop", "where_to_drop"]

NATIVE, GENERIC, TC, FIREWALL, SOCKET = (
    "native XDP",
    "generic XDP",
    "TC ingress",
    "nftables prerouting",
    "socket nobody reads",
)
PLACES = (NATIVE, GENERIC, TC, FIREWALL, SOCKET)

# The 2016 early-drop thread, in the review of the sample program: one core, one flow, i7-4790K at 4 GHz, a card of mlx4
# at 40 Gbit/s. With the JIT the first became 10.8; the firewall was iptables' raw table.
_THREAD_MPPS = {NATIVE: 9.7, FIREWALL: 3.7, SOCKET: 1.7}
_PORT = 9999
_RULES = (
    "table ip lab {\n chain early {\n type filter hook prerouting priority raw;\n"
    f" udp dport {_PORT} counter drop\n }}\n}}\n"
)


@contextlib.contextmanager
def tc_drop(lab: Lab, interface: Interface) -> Iterator[None]:
    """While it lasts, ``bpf/tc_drop.c`` drops everything at the interface's TC ingress (a TCX link, Linux 6.6 or later)."""
    spec = compile_source(path=lesson_directory() / "tc_drop.c")
    loaded = lab.load(spec, type=ProgType.SCHED_CLS, expected_attach_type=AttachType.TCX_INGRESS)
    with loaded as program, at_tc(program, interface):
        yield


@contextlib.contextmanager
def firewall_drop(interface: Interface) -> Iterator[None]:
    """While it lasts, an nftables rule of the host drops UDP to port 9999 in prerouting, priority raw."""
    interface.run(_nft, _RULES)
    try:
        yield
    finally:
        interface.run(_nft, "delete table ip lab\n")


def _nft(rules: str) -> None:
    """Runs on the host's thread: the command inherits its namespace."""
    try:
        done = subprocess.run(["nft", "-f", "-"], input=rules, capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError as error:
        raise FeatureError(
            "There is no nft command here.", tried="to set a firewall rule", remedy="apt-get install nftables"
        ) from error
    if done.returncode:
        raise FeatureError(
            "The firewall rule was refused.",
            tried="nft -f -",
            detail=done.stderr.strip(),
            remedy="labkit doctor shows whether this kernel has nftables",
        )


def where_to_drop(*, packets: int | None = None, runs: int | None = None) -> Race:
    """The same frames dropped at each of the five places, in a lab of its own called "where".

    By default 300,000 packets and 5 runs a place, less where ``$LAB_SCALE`` says so. Raises FeatureError
    where the kernel lacks one of the places.
    """
    with Lab(Topology.pair(), name="where") as lab:
        server = lab["server"]["eth0"]
        program = lab.load(compile_source(path=lesson_directory() / "drop_by_protocol.c"))

        def attached(mode: Mode) -> Callable[[], AbstractContextManager[object]]:
            return lambda: program.attach(server, mode=mode)

        return race(
            lab,
            {
                NATIVE: attached("native"),
                GENERIC: attached("generic"),
                TC: lambda: tc_drop(lab, server),
                FIREWALL: lambda: firewall_drop(server),
                SOCKET: lambda: UdpSink(lab["server"], _PORT, read=False),
            },
            udp(lab["client"], lab["server"], dport=_PORT),
            packets=packets or scaled(300_000),
            runs=runs or runs_scaled(5),
            title="Where to drop",
            elsewhere=_THREAD_MPPS,
            source="2016 thread",
            notes=(
                "Here one CPU makes each packet and receives it, and the rates are of both together; in the thread "
                "another machine sent.",
                "2016 thread: the early-drop thread, one core, i7-4790K, a Mellanox card (mlx4), no JIT; "
                "iptables raw for the firewall.",
            ),
        )
