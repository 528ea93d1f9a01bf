"""The same over two hosts: metadata composed on one goes with the packet to the next, whatever program is there."""

from __future__ import annotations

import contextlib

from labkit.compile import compile_source
from labkit.compile.source import lesson_directory
from labkit.hints import Formats
from labkit.lab import Lab
from labkit.lesson.generic_hints_path import Want
from labkit.lesson.receiving import mac_value
from labkit.program.program import Program
from labkit.topology import Topology
from labkit.uapi import XdpAction

__all__ = ["GenericRoute"]


class GenericRoute:
    """``with GenericRoute("route") as route: route.attach(program)``: client, router, server.

    ``composer`` runs on the router, in the role of the server's card, and sends everything on by a native redirect. The
    program at the server's eth0 is the consumer; at first it is one that passes everything.
    """

    def __init__(self, name: str) -> None:
        self.lab = Lab(Topology.router(), name=name)
        self._ending = contextlib.ExitStack()
        self.lab.on_close(self._ending.close)
        try:
            self.client, self.server = self.lab["client"]["eth0"], self.lab["server"]["eth0"]
            self.router = self.lab["router"]
            self.formats = self._ending.enter_context(Formats.load())
            self.composer = self._compose()
            self.attach(self.lab.load(compile_source(path=lesson_directory() / "pass.c")))
        except BaseException:
            self.close()
            raise

    def _compose(self) -> Program:
        program = self.lab.load(compile_source(path=lesson_directory() / "generic_composer.c"), "compose")
        self.formats.tell(program)
        program.maps["plan"][0] = {"wanted": Want.HASH | Want.CHECKSUM | Want.VLAN, "action": XdpAction.REDIRECT}
        program.maps["ports"][0] = self.router["eth1"]
        program.maps["next_hop"][0] = mac_value(self.server)
        program.attach(self.router["eth0"])
        return program

    def attach(self, program: Program) -> None:
        """Put this program at the server's eth0, in place of the one there."""
        program.attach(self.server)

    def close(self) -> None:
        """Take the lab down, and let go of the formats. Safe to call again."""
        self.lab.close()

    def __enter__(self) -> GenericRoute:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
