"""XDP Lab: real XDP programs on real interfaces of this kernel, with every packet accounted for.

    import labkit as lk

    lk.doctor()
    with lk.Lab(lk.Topology.pair(), name="drop") as lab:
        client, server = lab["client"], lab["server"]
        program = lab.load(lk.compile(path="bpf/drop_by_protocol.c"), function="drop_by_protocol")
        program.attach(server["eth0"], mode="native")
        lk.generate(client["eth0"], frame=lk.udp(client, server), packets=1_000_000)
        print(lab.ledger())

Names are imported when first used: ``import labkit`` alone takes no time worth mentioning.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit import buffers, hints, lesson, widgets, xsk
    from labkit.analysis import analyse
    from labkit.analysis.listing import listing
    from labkit.compile import compile_source as compile
    from labkit.doctor import doctor
    from labkit.errors import (
        AnalysisError,
        AttachError,
        CaptureError,
        CompileError,
        FeatureError,
        HintError,
        LabError,
        LessonError,
        MapError,
        PrivilegeError,
        StateError,
        TopologyError,
        TrafficError,
        VerifierError,
        XskError,
    )
    from labkit.follow import Trace, explain
    from labkit.host import Host
    from labkit.interface import Interface
    from labkit.lab import Event, Lab
    from labkit.lesson import check, compare, draw, hint, predict
    from labkit.lesson.life import Life, life
    from labkit.lesson.progress import progress
    from labkit.lesson.source import source
    from labkit.observe.ledger import Ledger, Row
    from labkit.observe.sample import Sample
    from labkit.observe.statistics import what_changed
    from labkit.program.link import Link
    from labkit.program.map import Map
    from labkit.program.program import Program
    from labkit.program.spec import FunctionSpec, MapSpec, ProgramSpec
    from labkit.topology import End, LinkSpec, Route, Topology
    from labkit.traffic.capture import Capture, CapturedFrame, capture
    from labkit.traffic.frame import Frame
    from labkit.traffic.frames import arp, fragments, icmp, tcp, udp, udp6, vlan
    from labkit.traffic.generator import Generator, generate
    from labkit.traffic.pcap import read_pcap, write_pcap
    from labkit.traffic.ping import PingReport, ping
    from labkit.traffic.raw import send_frames
    from labkit.traffic.replay import replay
    from labkit.traffic.report import TrafficReport
    from labkit.traffic.sink import UdpSink
    from labkit.traffic.tcp import TcpReport, tcp_transfer
    from labkit.traffic.udp import send_udp

__version__ = "0.1.0"

__all__ = [
    "AnalysisError",
    "AttachError",
    "Capture",
    "CaptureError",
    "CapturedFrame",
    "CompileError",
    "End",
    "Event",
    "FeatureError",
    "Frame",
    "FunctionSpec",
    "Generator",
    "HintError",
    "Host",
    "Interface",
    "Lab",
    "LabError",
    "Ledger",
    "LessonError",
    "Life",
    "Link",
    "LinkSpec",
    "Map",
    "MapError",
    "MapSpec",
    "PingReport",
    "PrivilegeError",
    "Program",
    "ProgramSpec",
    "Route",
    "Row",
    "Sample",
    "StateError",
    "TcpReport",
    "Topology",
    "TopologyError",
    "Trace",
    "TrafficError",
    "TrafficReport",
    "UdpSink",
    "VerifierError",
    "XskError",
    "analyse",
    "arp",
    "buffers",
    "capture",
    "check",
    "compare",
    "compile",
    "doctor",
    "draw",
    "explain",
    "fragments",
    "generate",
    "hint",
    "hints",
    "icmp",
    "lesson",
    "life",
    "listing",
    "ping",
    "predict",
    "progress",
    "read_pcap",
    "replay",
    "send_frames",
    "send_udp",
    "source",
    "tcp",
    "tcp_transfer",
    "udp",
    "udp6",
    "vlan",
    "what_changed",
    "widgets",
    "write_pcap",
    "xsk",
]

# Where each name lives that is imported only when somebody uses it.
_HOMES = {
    name: home
    for home, names in {
        "labkit.analysis": "analyse",
        "labkit.analysis.listing": "listing",
        "labkit.errors": (
            "AnalysisError AttachError CaptureError CompileError FeatureError HintError LabError LessonError MapError "
            "PrivilegeError StateError TopologyError TrafficError VerifierError XskError"
        ),
        "labkit.follow": "Trace explain",
        "labkit.host": "Host",
        "labkit.interface": "Interface",
        "labkit.lab": "Event Lab",
        "labkit.lesson": "check compare draw hint predict progress source",
        "labkit.lesson.life": "Life life",
        "labkit.observe.ledger": "Ledger Row",
        "labkit.observe.sample": "Sample",
        "labkit.observe.statistics": "what_changed",
        "labkit.program.link": "Link",
        "labkit.program.map": "Map",
        "labkit.program.program": "Program",
        "labkit.program.spec": "FunctionSpec MapSpec ProgramSpec",
        "labkit.topology": "End LinkSpec Route Topology",
        "labkit.traffic.capture": "Capture CapturedFrame capture",
        "labkit.traffic.frame": "Frame",
        "labkit.traffic.frames": "arp fragments icmp tcp udp udp6 vlan",
        "labkit.traffic.generator": "Generator generate",
        "labkit.traffic.pcap": "read_pcap write_pcap",
        "labkit.traffic.ping": "PingReport ping",
        "labkit.traffic.raw": "send_frames",
        "labkit.traffic.replay": "replay",
        "labkit.traffic.report": "TrafficReport",
        "labkit.traffic.sink": "UdpSink",
        "labkit.traffic.tcp": "TcpReport tcp_transfer",
        "labkit.traffic.udp": "send_udp",
    }.items()
    for name in names.split()
}

_MODULES = ("buffers", "hints", "lesson", "widgets", "xsk")
# Two functions share their names with packages.
_FUNCTIONS = {"compile": ("labkit.compile", "compile_source"), "doctor": ("labkit.doctor", "doctor")}


class _Package(ModuleType):
    """Keeps the names of those functions: importing a package would bind its module to the same name here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _FUNCTIONS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"labkit.{name}")
    if name not in _HOMES and name not in _FUNCTIONS:
        raise AttributeError(f"labkit has no {name!r}; it has {', '.join(__all__)}")
    home, attribute = _FUNCTIONS.get(name) or (_HOMES[name], name)
    found = getattr(importlib.import_module(home), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
