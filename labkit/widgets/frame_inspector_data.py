"""What the browser needs of a frame and its way through a program. Pure: no kernel, no comm."""

from __future__ import annotations

from typing import Any

from labkit.follow import Step, Trace
from labkit.lesson.frame_map_fields import Field, fields_of

__all__ = ["MARKS", "detail_of", "summary_of", "verdict_mark"]

MARKS = {0: ("!", "abort"), 1: ("✗", "drop"), 2: ("✓", "pass"), 3: ("↩", "tx"), 4: ("→", "redirect")}
"""A sign and a role (of the panel's colours) for each XDP action."""
_MOST_LINES = 3_000
_MOST_REMARKS = 12  # by one line; a loop has more than anybody reads


def verdict_mark(verdict: int | None) -> tuple[str, str]:
    """Sign and role."""
    return MARKS.get(verdict if verdict is not None else -1, ("?", "plain"))


def summary_of(frame: bytes) -> str:
    """Who speaks to whom, in a line: "UDP 10.0.1.1:10000 → 10.0.1.2:9999"."""
    fields = fields_of(frame)
    values = {f"{each.part} {each.name}": each.value for each in fields}
    parts = list(dict.fromkeys(each.part for each in fields))
    tags = "VLAN " if "VLAN tag" in parts else ""
    last = next((part for part in reversed(parts) if part in ("UDP", "TCP", "ICMP", "ARP", "IPv4", "IPv6")), "")
    network = "IPv6" if "IPv6" in parts else "IPv4"
    ends = [values.get(f"{network} {name}", "") or values.get(f"{network} {short}", "") for name, short in _ADDRESSES]
    if last in ("UDP", "TCP"):
        ends = [f"{end}:{values.get(f'{last} {port}', '')}" for end, port in zip(ends, ("source", "dest"), strict=True)]
    if last == "ARP":
        ends = [values.get("ARP psrc", ""), values.get("ARP pdst", "")]
    if last and all(ends):
        flags = f" [{values['TCP flags']}]" if last == "TCP" and "TCP flags" in values else ""
        return f"{tags}{last} {ends[0]} → {ends[1]}{flags}"
    kind = values.get("Ethernet h_proto", "")
    return f"{tags}{last or 'Ethernet'}{f', {kind}' if kind and not last else ''}"


_ADDRESSES = (("saddr", "src"), ("daddr", "dst"))


def detail_of(trace: Trace) -> dict[str, Any]:
    """Everything about one frame: its fields and bytes, the verdict, the source with what happened at each line."""
    sign, role = verdict_mark(trace.verdict)
    last = trace.last_branch
    return {
        "program": trace.program,
        "place": trace.place,
        "file": trace.file,
        "verdict": trace.verdict_name,
        "sign": sign,
        "role": role,
        "sentence": trace.sentence,
        "problem": trace.problem if last is not None or trace.verdict is None else "",
        "followed": trace.followed,
        "hex": trace.frame.hex(),
        "reads": [list(each) for each in trace.reads],
        "decided": [list(each) for each in (last.reads if last is not None else ())],
        "changed": _changed(trace),
        "wrote": rewritten(trace),
        "fields": [_field(each, trace) for each in fields_of(trace.frame)],
        "lines": _lines(trace),
        "steps": [[str(cell) for cell in row] for row in trace.table().rows],
        "head": list(trace.table().head),
        "caption": trace.table().caption,
        "changes": [str(each) for each in trace.changes],
        "notes": list(trace.notes),
    }


def _field(field: Field, trace: Trace) -> list[Any]:
    end = field.offset + field.length
    read = any(at < end and field.offset < at + length for at, length in trace.reads)
    content = trace.frame[field.offset : end].hex(" ")
    return [field.part, field.name, field.offset, field.length, content, field.value, field.meaning, read]


def _lines(trace: Trace) -> list[dict[str, Any]]:
    """The text, a line each, with ``mark`` "decides", "way" or "", and the tests and calls that belong there."""
    times = {each.line: each.times for each in trace.marks}
    said: dict[int, list[Step]] = {}
    for each in trace.steps:
        said.setdefault(each.via, []).append(each)
    decides = trace.last_branch.via if trace.last_branch is not None else 0
    return [
        {
            "mark": "decides" if number == decides else "way" if number in times or number in said else "",
            "times": times.get(number, 0),
            "said": [_remark(each) for each in said.get(number, ())[:_MOST_REMARKS]],
            "more": max(0, len(said.get(number, ())) - _MOST_REMARKS),
            "text": text,
        }
        for number, text in enumerate(trace.source.splitlines()[:_MOST_LINES], 1)
    ]


def _remark(step: Step) -> list[Any]:
    inside = f"{step.inside}:{step.line}  {step.text.strip()}" if step.inside else ""
    taken = "" if step.taken is None else "yes" if step.taken else "no"
    return [step.words, taken, inside, step.decides]


def _changed(trace: Trace) -> list[int]:
    """Offsets of bytes that are others afterwards, where the frame begins and ends where it did."""
    if len(trace.result) != len(trace.frame):
        return []
    return [at for at, (one, two) in enumerate(zip(trace.frame, trace.result, strict=True)) if one != two]


def rewritten(trace: Trace) -> str:
    """What the program made of the frame's bytes, in words; "" for nothing."""
    if not trace.result:
        return ""
    said = []
    if len(trace.result) != len(trace.frame):
        said.append(f"It made {len(trace.frame):,} bytes {len(trace.result):,}.")
    elif changed := _changed(trace):
        said.append(f"It rewrote {len(changed):,} byte{'s' if len(changed) > 1 else ''} of the frame.")
    if trace.result_metadata and trace.result_metadata != trace.metadata:
        said.append(f"It left {len(trace.result_metadata)} bytes of metadata: {trace.result_metadata[:32].hex(' ')}.")
    return " ".join(said)
