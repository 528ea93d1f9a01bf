"""Programs: as data (ProgramSpec), loaded (Program, Map), attached (Link)."""

from labkit.program.map import Map
from labkit.program.program import VERDICTS, Program, load_program
from labkit.program.spec import FunctionSpec, MapSpec, ProgramSpec

__all__ = ["VERDICTS", "FunctionSpec", "Map", "MapSpec", "Program", "ProgramSpec", "load_program"]
