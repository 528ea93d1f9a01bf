"""Which program runs at one interface, and in which mode: the panel's two controls for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labkit.compile import compile_source
from labkit.errors import AttachError, StateError
from labkit.interface import Interface
from labkit.lab import Lab
from labkit.program.link import MODES, Link, Mode
from labkit.program.program import Program

__all__ = ["NO_PROGRAM", "ProgramChoice"]

NO_PROGRAM = "none"


class ProgramChoice:
    """The programs to choose from at ``target``, by label, and the one that is there.

    A path of a C file is compiled and loaded when it is chosen for the first time.
    A program that a cell attached there is offered by its own name from then on.
    """

    def __init__(self, lab: Lab, target: Interface | None, programs: Mapping[str, Program | str | Path]) -> None:
        self.lab = lab
        self.target = target
        self.programs: dict[str, Program | str | Path] = dict(programs)
        self.wanted_mode: Mode = "native"

    @property
    def link(self) -> Link | None:
        """What is attached at the target now."""
        if self.target is None:
            return None
        links = list(self.lab.attached)
        return next((link for link in links if link.interface.where == self.target.where), None)

    @property
    def program(self) -> str:
        """The label of the program at the target, or "none"."""
        link = self.link
        if link is None:
            return NO_PROGRAM
        labels = (label for label, each in self.programs.items() if each is link.program)
        return next(labels, link.program.name)

    @property
    def mode(self) -> Mode:
        """The mode of the program at the target, or else of the next one attached."""
        link = self.link
        return link.mode if link is not None else self.wanted_mode

    @property
    def labels(self) -> list[str]:
        """Everything to choose from."""
        link = self.link
        if link is not None:
            self._remember(link)
        return [*self.programs, NO_PROGRAM]

    def choose(self, label: str | None = None, mode: str | None = None) -> None:
        """Attach the program called ``label`` in ``mode``; what isn't given stays as it is.

        In the same mode the swap is atomic. Raises AttachError, StateError.
        """
        label = self.program if label is None else label
        mode = self.mode if mode is None else mode
        if mode not in MODES:
            raise AttachError(
                f"There is no XDP mode {mode!r}.",
                tried="to set the mode",
                remedy="use native or generic",
            )
        self.wanted_mode = mode
        link = self.link
        if link is not None:
            self._remember(link)
        if label == NO_PROGRAM:
            if link is not None:
                link.close()
            return
        program = self._named(label)
        if link is not None and link.mode == mode:
            if link.program is not program:
                link.replace(program)
        elif self.target is not None:
            program.attach(self.target, mode=mode)

    def _named(self, label: str) -> Program:
        program = self.programs.get(label)
        if program is None:
            raise AttachError(
                f"The panel has no program {label!r}.",
                tried="to choose a program",
                remedy="choose one of " + ", ".join(self.labels),
            )
        if isinstance(program, (str, Path)):
            program = self.programs[label] = self.lab.load(compile_source(path=program))
        if program.closed:
            raise StateError(
                f"The program {program.name} is closed.",
                tried="to attach it",
                remedy="load it again: run the cell that calls lab.load(…)",
            )
        return program

    def _remember(self, link: Link) -> None:
        if all(each is not link.program for each in self.programs.values()):
            self.programs[link.program.name] = link.program
