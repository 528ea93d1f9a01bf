"""Code of what the lab's own compiler made."""

from __future__ import annotations

from labkit.analysis.code import Code, Line, Origin, build
from labkit.compile.lines import places
from labkit.errors import AnalysisError
from labkit.program.spec import ProgramSpec

__all__ = ["code_of_spec"]


def code_of_spec(spec: ProgramSpec, function: str | None = None) -> Code:
    """One function of a compiled C text, None: the only one. Raises LabError, AnalysisError."""
    if not isinstance(spec, ProgramSpec):
        raise AnalysisError(
            f"{type(spec).__name__} is not a compiled program.",
            tried="to analyse a program",
            remedy="give what lk.compile(…) returned",
        )
    chosen = spec.function(function)
    lines = {place.index: Line(place.file, place.line, place.text) for place in places(chosen, spec.btf) if place.line}
    return build(
        chosen.name,
        chosen.instructions,
        origin=Origin.SPEC,
        maps=dict(chosen.map_references),
        lines=lines,
    )
