"""Which structures of a program's type information are formats: found, checked, and given their slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from labkit.errors import HintError
from labkit.hints.layout import Layout
from labkit.kernel.btf import Btf, Kind

__all__ = ["LOADING", "META_MOST", "declared"]

LOADING = "to load formats of metadata"
META_MOST = 252  # bytes of metadata: xdp_metalen_invalid(), include/net/xdp.h
_STANDARD = ("meta_generic", "meta_flow", "meta_latency")  # enum meta_slot, bpf/common/meta.h
# LAB_META_FORMAT declares a map that nobody makes: BCC describes each map's types by a struct of this name.
_PREFIX = "____btf_map_describes_"


def declared(btf: Btf, names: Sequence[str] | None, where: str) -> list[tuple[int, Layout]]:
    """(slot, layout) of each format: those of ``names``, by default all that LAB_META_FORMAT names in ``btf``.

    The formats of bpf/common/meta.h have slots of their own, further ones follow in their order. Raises HintError where
    one isn't there or is no format; ``where`` is the program's name, for the error.
    """
    layouts = [Layout.from_btf(btf, each) for each in _wanted(btf, names)]
    for each in layouts:
        _check(each)
    if not layouts:
        raise HintError(
            f"{where} declares no format.",
            tried=LOADING,
            on=where,
            remedy='include "common/meta.h", and below each struct of your own write LAB_META_FORMAT(name)',
        )
    own = [each.name for each in layouts if each.name not in _STANDARD]
    slots = {name: slot for slot, name in enumerate((*_STANDARD, *own))}
    return sorted(((slots[each.name], each) for each in layouts), key=lambda pair: pair[0])


def _wanted(btf: Btf, names: object) -> list[str]:
    if names is None:
        found = (btf.type(ident) for ident in range(1, len(btf) + 1))
        return [each.name.removeprefix(_PREFIX) for each in found if each.kind is Kind.STRUCT and _names(each.name)]
    if isinstance(names, Iterable) and not isinstance(names, (str, bytes)):
        given = list(names)
        if all(isinstance(each, str) for each in given):
            return list(dict.fromkeys(given))
    raise HintError(f"names can't be {names!r}.", tried=LOADING, remedy='give a list, as names=["meta_flow"]')


def _names(name: str) -> bool:
    return name.startswith(_PREFIX)


def _check(layout: Layout) -> None:
    if layout.generic_at is None:
        why, remedy = "does not end in struct meta_generic", "make it the last member, and the struct packed"
    elif layout.size_bytes > META_MOST:
        why, remedy = f"has {layout.size_bytes} bytes", f"metadata has {META_MOST} at the most"
    elif layout.size_bytes % 4:
        why, remedy = f"has {layout.size_bytes} bytes", "metadata is a multiple of 4 bytes: pad the struct on the left"
    else:
        return
    raise HintError(f"struct {layout.name} is no format: it {why}.", tried=LOADING, on=layout.name, remedy=remedy)
