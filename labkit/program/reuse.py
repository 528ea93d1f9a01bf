"""Which maps a program takes over from the one it replaces: those of the same name and shape, so that counters go on."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.kernel.btf import Btf
from labkit.program.layout import Layout, layout_of
from labkit.program.program import Program
from labkit.program.spec import FunctionSpec, MapSpec, ProgramSpec

__all__ = ["Handover", "difference", "handover"]


@dataclass(frozen=True)
class Handover:
    """What becomes of the maps in a swap: ``kept`` go on, ``fresh`` are new and empty, ``lost`` names each with the reason."""

    kept: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()


def handover(old: Program | None, spec: ProgramSpec, function: FunctionSpec) -> Handover:
    """What becomes of the maps of ``old`` when ``function`` of ``spec`` is loaded in its place."""
    used = list(dict.fromkeys(name for _, name in function.map_references))
    if old is None:
        return Handover(fresh=tuple(used))
    kept: list[str] = []
    lost: list[tuple[str, str]] = []
    for name, each in old.maps.items():
        if name not in spec.maps:
            lost.append((name, "the new text has no map of this name"))
        elif name not in used:
            lost.append((name, f"{function.name} does not use it any more"))
        elif why := difference(each.spec, old.spec, spec.maps[name], spec):
            lost.append((name, why))
        else:
            kept.append(name)
    return Handover(tuple(kept), tuple(name for name in used if name not in kept), tuple(lost))


def difference(old: MapSpec, before: ProgramSpec, new: MapSpec, after: ProgramSpec) -> str:
    """Why ``old`` (a map of ``before``) can't be the map ``new`` of ``after``, in words; "" where it can.

    Shape is type, sizes, entries and flags, and the C types of key and value as far as both are known: another meaning of
    the same bytes is another map.
    """
    pairs = (
        ("it was of type {} and is {} now", old.type.name.lower(), new.type.name.lower()),
        ("its key had {} bytes and has {} now", old.key_size, new.key_size),
        ("its value had {} bytes and has {} now", old.value_size, new.value_size),
        ("it had {:,} entries and has {:,} now", old.max_entries, new.max_entries),
        ("its flags were {:#x} and are {:#x} now", old.flags, new.flags),
    )
    for words, was, now in pairs:
        if was != now:
            return words.format(was, now)
    if not (before.btf and after.btf) or before.btf == after.btf:
        return ""
    btfs = Btf(before.btf), Btf(after.btf)
    for what, types, size in (
        ("key", (old.key_type, new.key_type), old.key_size),
        ("value", (old.value_type, new.value_type), old.value_size),
    ):
        if not all(types):
            continue
        layout, other = (layout_of(btf, ident, size) for btf, ident in zip(btfs, types, strict=True))
        if layout != other:
            return f"its {what} was {_described(layout)} and is {_described(other)} now"
    return ""


def _described(layout: Layout) -> str:
    if layout.fields:
        return "a structure of " + ", ".join(name for name, _, _ in layout.fields)
    if layout.element is not None:
        return f"an array of {layout.count}"
    return (
        f"{'a signed' if layout.signed else 'an unsigned'} number" if layout.kind == "int" else f"{layout.size} bytes"
    )
