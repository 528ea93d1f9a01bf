"""Three questions, many origins: the driver's answers as a picture whose rows are where packets come from."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

from labkit.kernel.netdev import RssHash
from labkit.lesson.hints_driver_origins import ORIGINS, ask_by_origin
from labkit.lesson.hints_driver_words import Answer, timestamp_of
from labkit.lesson.page import Table
from labkit.lesson.pictures import Picture, label_at, svg_of

__all__ = ["AskedByOrigin", "driver_knows", "hints_by_origin"]

_QUESTIONS = ("hash", "timestamp", "VLAN tag")
_LEFT, _STEP, _ROW = 330, 178, 27
_ANSWERED, _EMPTY, _NONE_HERE, _NONE_EVER = (
    "answered",
    "answered 0: none",
    "ENODATA: not for this packet",
    "EOPNOTSUPP: never",
)


@dataclass(frozen=True)
class AskedByOrigin:
    """The answers by origin, drawn. ``of(origin)`` is the answer that most of its packets got."""

    answers: Mapping[str, list[Answer]]
    picture: Picture

    def of(self, origin: str) -> Answer:
        """The answer for packets of this origin. Raises KeyError where it was not asked."""
        return self.answers[origin][0]

    def __str__(self) -> str:
        return str(self.picture)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.picture._repr_html_()


def hints_by_origin() -> AskedByOrigin:
    """Ask the server's driver about packets of every origin there is, and draw what it knew of them.

    101 packets each (of TCP as many as it sends), in a lab of its own called "hints". Raises FeatureError where no
    program may ask, as in a sandbox.
    """
    answers, left_out = ask_by_origin()
    return AskedByOrigin(answers, drawn(answers, left_out))


def drawn(answers: Mapping[str, list[Answer]], left_out: Mapping[str, str]) -> Picture:
    """The answers as a picture; what could not be asked about is named below it, with the reason."""
    title = "What the driver knows of a packet, by where the packet comes from"
    if left_out:
        title += ". Not to be had here: " + "; ".join(f"{name} ({why.rstrip('.')})" for name, why in left_out.items())
    parts = [label_at(_LEFT + i * _STEP, 18, name, "strong") for i, name in enumerate(_QUESTIONS)]
    with_skb = [origin.name for origin in ORIGINS if origin.skb and origin.name in answers]
    y = 44
    for heading, names in (("with an skb", with_skb), ("without one", [n for n in answers if n not in with_skb])):
        if names:
            parts.append(_heading(y, heading))
            parts += [_row(y + 22 + i * _ROW, name, answers[name][0]) for i, name in enumerate(names)]
            y += _ROW * len(names) + 32
    parts.append(_legend(y))
    said = "; ".join(f"{name}: {', '.join(found[0].words)}" for name, found in answers.items())
    svg = svg_of(title, said, _LEFT + 3 * _STEP, y + 12, "".join(parts))
    return Picture(title, said, svg, _table(answers), open=False)


def _heading(y: float, words: str) -> str:
    line = f'<path d="M4 {y + 5:g}H{_LEFT + 3 * _STEP - 12}" stroke="var(--lab-line)"/>'
    return label_at(4, y, words, "soft small") + line


def _row(y: float, name: str, answer: Answer) -> str:
    cells = (_cell(_LEFT + i * _STEP, y, *each) for i, each in enumerate(_cells(answer)))
    return label_at(14, y + 4, name) + "".join(cells)


def _table(answers: Mapping[str, list[Answer]]) -> Table:
    rows = [(name, each.packets, *each.words, each.in_the_frame) for name, found in answers.items() for each in found]
    return Table(("origin", "packets", *_QUESTIONS, "in the frame itself"), tuple(rows))


def _cells(answer: Answer) -> tuple[tuple[str, str], ...]:
    """Kind and a word or two for each question."""
    ports = "ports in it" if answer.hash_type & RssHash.L4 else "of unsaid parts"
    time = timestamp_of(answer.timestamp_code, answer.timestamp_ns)
    return (
        (_kind(answer.hash_code, True), ports if not answer.hash_code else _errno(answer.hash_code)),
        (
            _kind(answer.timestamp_code, time is not None),
            _errno(answer.timestamp_code) if answer.timestamp_code else "a time" if time else "0: no time",
        ),
        (
            _kind(answer.vlan_code, True),
            _errno(answer.vlan_code) if answer.vlan_code else f"tag {answer.vlan_tci & 0xFFF}",
        ),
    )


def _kind(code: int, filled: bool) -> str:
    if not code:
        return _ANSWERED if filled else _EMPTY
    return _NONE_EVER if code == -errno.EOPNOTSUPP else _NONE_HERE


def _errno(code: int) -> str:
    return {-errno.ENODATA: "ENODATA", -errno.EOPNOTSUPP: "EOPNOTSUPP"}.get(code, f"error {code}")


def _cell(x: float, y: float, kind: str, text: str) -> str:
    return _mark(x + 7, y, kind) + label_at(x + 22, y + 4, text, "" if kind == _ANSWERED else "soft")


def _mark(x: float, y: float, kind: str) -> str:
    """A full dot, a hollow one, a dash, a cross: told apart by shape."""
    if kind == _ANSWERED:
        return f'<circle cx="{x:g}" cy="{y:g}" r="6" fill="var(--lab-good)"/>'
    if kind == _EMPTY:
        return f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="none" stroke="var(--lab-soft)" stroke-width="2"/>'
    if kind == _NONE_HERE:
        return f'<path d="M{x - 6:g} {y:g}h12" stroke="var(--lab-soft)" stroke-width="2.5"/>'
    return f'<path d="M{x - 5:g} {y - 5:g}l10 10m0 -10l-10 10" stroke="var(--lab-bad)" stroke-width="2.5"/>'


def _legend(y: float) -> str:
    parts, x = [], 14.0
    for kind in (_ANSWERED, _EMPTY, _NONE_HERE, _NONE_EVER):
        parts.append(_mark(x, y - 4, kind) + label_at(x + 14, y, kind, "soft small"))
        x += 60 + 6.4 * len(kind)
    return "".join(parts)


_ASKED, _UNASKED, _GIVEN = "a kfunc asks the driver, Linux {}", "no kfunc up to Linux 6.18", "fields of struct xdp_md"
_DESCRIPTOR = (
    ("hash", "of addresses and ports: the same for a flow's packets", _ASKED.format("6.3 (2023)")),
    ("timestamp", "when the frame came, by the card's clock", _ASKED.format("6.3 (2023)")),
    ("VLAN tag", "taken out of the frame, if the card does that", _ASKED.format("6.8 (2024)")),
    ("checksum", "whether it was found right", _UNASKED),
    ("length, queue", "how many bytes, and from which ring", _GIVEN),
)


def driver_knows() -> Picture:
    """A frame and the descriptor that a card writes beside it, and how an XDP program comes to know what is in each."""
    title = "A card hands over two things: the frame, and what it found out about it"
    whole = ("the frame", "its bytes", "data to data_end of struct xdp_md, Linux 4.8 (2016)")
    parts = [
        label_at(4, 18, "the frame, in a buffer", "strong"),
        *_band(4, 28, (("Ethernet", 80), ("IP", 80), ("UDP", 60), ("payload", 230))),
        label_at(470, 49, whole[2]),
        label_at(4, 96, "its descriptor, in the receive ring", "strong"),
    ]
    for i, (name, what, how) in enumerate(_DESCRIPTOR):
        y = 108 + 30 * i
        parts += _band(4, y, ((name, 116),), 24)
        parts.append(label_at(132, y + 16, what, "soft"))
        parts.append(label_at(470, y + 16, how, "soft" if how == _UNASKED else ""))
    rows = (whole, *_DESCRIPTOR)
    said = "; ".join(f"{name} ({what}): {how}" for name, what, how in rows)
    table = Table(("what", "it says", "how an XDP program gets it"), rows)
    return Picture(title, said, svg_of(title, said, 790, 266, "".join(parts)), table, open=False)


def _band(x: float, y: float, pieces: tuple[tuple[str, int], ...], height: int = 32) -> list[str]:
    parts = []
    for name, width in pieces:
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width}" height="{height}" fill="var(--lab-card)" stroke="var(--lab-line)"/>'
        )
        parts.append(label_at(x + width / 2, y + height / 2 + 4, name, "small", "middle"))
        x += width
    return parts
