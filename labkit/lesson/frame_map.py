"""A real frame in its buffer, byte by byte, before and after a program moves its ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from labkit.errors import StateError
from labkit.kernel.btf import Kind, kernel_btf
from labkit.lesson.frame_map_drawing import Drawing, draw_frame
from labkit.lesson.frame_map_fields import Field, fields_of
from labkit.lesson.frame_map_style import FRAME_MAP_CSS
from labkit.lesson.frame_map_words import answer, asked, sender_in_words
from labkit.lesson.page import Table, block
from labkit.lesson.pictures import Picture, svg_of
from labkit.observe.adjusting import Adjusted, Adjuster, Finding, steps_of

if TYPE_CHECKING:
    from labkit.interface import Interface
    from labkit.lab import Lab

__all__ = ["FrameMap", "frame_map", "map_of"]

_SHOWN = 16  # bytes of metadata and of the frame's beginning in the table


@dataclass(frozen=True)
class FrameMap(Picture):
    """The picture of a frame's buffer after each step, its table, and the table of the frame's fields.

    ``findings`` are the numbers behind it, the first as the frame came; ``notes`` say what is measured and what is not.
    """

    findings: tuple[Finding, ...] = ()
    fields: Table = field(default_factory=lambda: Table((), ()))
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((self.title, str(self.table), *self.notes))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<p class='soft' style='margin:.3em 0'>{escape(note)}</p>" for note in self.notes)
        return block(
            f"<style>{FRAME_MAP_CSS}</style><figure style='margin:0'>{self.svg}"
            f"<figcaption class='soft' style='margin:.3em 0'>{escape(self.title)}</figcaption></figure>{notes}"
            f"<details open><summary>The same as a table</summary>{self.table.html()}</details>"
            f"<details><summary>The fields of the frame</summary>{self.fields.html()}</details>"
        )


def frame_map(
    lab: Lab,
    frame: bytes,
    steps: Sequence[Any] = (("meta", -8), "write", ("head", -4)),
    mode: str = "native",
    interface: Interface | None = None,
    *,
    sender: str = "socket",
) -> FrameMap:
    """Send ``frame`` once through bpf/adjust.c, which does ``steps``, and draw its buffer before and after each.

    A step is ("meta", bytes), ("head", bytes) or ("tail", bytes), as the kernel's bpf_xdp_adjust_…() takes them, or
    "write", which fills the metadata with a0 a1 a2 …; eight at the most. The frame goes to ``interface`` (by default
    the far end of the lab's first link) from its peer, by ``sender``: "socket" or "generator". The program drops it.
    Refused steps are shown with the kernel's answer. A program at the interface is put back afterwards.

    Raises StateError, AttachError, TrafficError.
    """
    wanted = steps_of(steps)
    with Adjuster(lab) as adjuster:
        at: Any = interface if interface is not None else far_end(lab)
        given: Any = mode
        return map_of(adjuster.run(frame, wanted, mode=given, interface=at, sender=sender), at.peer.host.name)


def far_end(lab: Lab) -> Interface:
    """The second end of the lab's first link. Raises StateError where it has none."""
    if not lab.topology.links:
        raise StateError("This lab has no link.", tried="to map a frame", remedy="use a topology with links")
    end = lab.topology.links[0].b
    return lab[end.host][end.interface]


def map_of(adjusted: Adjusted, host: str) -> FrameMap:
    """The picture of what was found; ``host`` sent the frame."""
    drawing = draw_frame(adjusted)
    size = len(adjusted.frame)
    title = f"A frame of {size:,} bytes in its buffer at {adjusted.where}, {adjusted.mode} mode, step by step"
    said = description(adjusted)
    return FrameMap(
        title,
        said,
        svg(drawing, title, said),
        _table(adjusted),
        findings=adjusted.findings,
        fields=_fields(adjusted.frame),
        notes=notes_of(adjusted, host),
    )


def svg(drawing: Drawing, title: str, said: str) -> str:
    """The drawing as an SVG element with its title and description."""
    text = svg_of(title, said, round(drawing.width), round(drawing.height), drawing.svg())
    return text.replace("<svg ", '<svg class="fm-art" ', 1)


def description(adjusted: Adjusted) -> str:
    """What the picture shows, in a sentence a step."""
    return " ".join(f"{number}: {_state(each)}." for number, each in enumerate(adjusted.findings))


def _state(each: Finding) -> str:
    what = "as it came" if each.step is None else asked(each.step) + (" refused" if each.code else "")
    return (
        f"{what}, headroom {each.data_meta}, metadata {each.meta_bytes}, frame {each.frame_bytes}, "
        f"tailroom {each.right_bytes} bytes"
    )


def notes_of(adjusted: Adjusted, host: str) -> tuple[str, ...]:
    """How the frame was sent, what is measured, and what is known otherwise."""
    found = [
        f"Sent {sender_in_words(adjusted.sender, host)}.",
        "A byte's two digits stand one over the other where there is no room for them side by side. A number between two "
        "zigzag lines counts bytes that are folded away; all others are to one scale.",
        "Measured: every byte, and how far each end could go. No program can read that: this one tries it, and goes back.",
    ]
    sizes = _kernel_sizes()
    if sizes is not None:
        found.append(
            f"Not measured: the kernel keeps struct xdp_frame ({sizes[0]} bytes) in front of the headroom and "
            f"struct skb_shared_info ({sizes[1]} bytes, rounded up to a cache line) behind the tailroom. "
            "These are the sizes that its type information gives."
        )
    first = adjusted.findings[0]
    if len(first.memory) < first.data_end:
        found.append(f"Of the buffer only the first {len(first.memory):,} bytes were copied.")
    return tuple(found)


@cache
def _kernel_sizes() -> tuple[int, int] | None:
    """Bytes of struct xdp_frame and struct skb_shared_info; None where the kernel shows no type information."""
    try:
        btf = kernel_btf()
        frame, shared = (btf.size(btf.find(name, Kind.STRUCT)) for name in ("xdp_frame", "skb_shared_info"))
    except (OSError, KeyError):
        return None
    return frame, shared


def _table(adjusted: Adjusted) -> Table:
    head = (
        "step",
        "asked",
        "answer",
        "headroom",
        "metadata",
        "frame",
        "tailroom",
        "metadata bytes",
        "frame's first bytes",
    )
    rows: list[tuple[object, ...]] = []
    marks = []
    for number, each in enumerate(adjusted.findings):
        call = "–" if each.step is None else asked(each.step)
        said = "as it came" if each.step is None else answer(each, adjusted.findings[number - 1])
        if each.code:
            marks.append((number, 2, "bad"))
        sizes = (each.data_meta, each.meta_bytes, each.frame_bytes, each.right_bytes)
        rows.append((number, call, said, *sizes, _hex(each.metadata) or "–", _hex(each.frame)))
    return Table(head, tuple(rows), "Sizes in bytes", tuple(marks))


def _hex(content: bytes) -> str:
    return content[:_SHOWN].hex(" ") + (" …" if len(content) > _SHOWN else "")


def _fields(frame: bytes) -> Table:
    rows = [_row(each, frame) for each in fields_of(frame)]
    head = ("header", "field", "offset", "bytes", "in the frame", "value", "meaning")
    return Table(head, tuple(rows), "Offsets from data as the frame came")


def _row(each: Field, frame: bytes) -> tuple[object, ...]:
    content = _hex(frame[each.offset : each.offset + each.length])
    return (each.part, each.name, each.offset, each.length, content, each.value, each.meaning)
