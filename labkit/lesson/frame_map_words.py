"""What the kernel answered to a step, in words."""

from __future__ import annotations

import errno

from labkit.errors import kernel_word
from labkit.observe.adjusting import Finding, Step

__all__ = ["answer", "asked", "sender_in_words", "signed"]

_ENOTSUPP = 524  # include/linux/errno.h
_ETHERNET_HEADER = 14
_SENDERS = {
    "socket": "by a socket of the client (the kernel had it in an sk_buff)",
    "generator": "by the generator (no sk_buff)",
}


def signed(number: int) -> str:
    """``−8``, ``+4``, ``0``: with a minus as wide as the plus."""
    return f"{number:+d}".replace("-", "−") if number else "0"


def sender_in_words(sender: str, host: str) -> str:
    """How the frame was sent."""
    return _SENDERS[sender].replace("the client", host)


def asked(step: Step) -> str:
    """The step as it stands in C."""
    if step.kind == "write":
        return "data_meta[…] = a0 a1 a2 …"
    return f"bpf_xdp_adjust_{step.kind}(ctx, {step.by_bytes})"


def answer(finding: Finding, before: Finding) -> str:
    """What became of the step: what moved, or why the kernel refused."""
    step = finding.step
    assert step is not None
    if finding.code == 0:
        return _done(step, finding)
    if step.kind == "write":
        return "nothing written: there are no metadata"
    name = "ENOTSUPP" if finding.code == -_ENOTSUPP else errno.errorcode.get(-finding.code, "")
    return f"refused with {signed(finding.code)} ({name}): {_refused(step, finding, before)}"


def _bytes(number: int) -> str:
    return f"{abs(number)} byte{'s' if abs(number) != 1 else ''}"


def _done(step: Step, now: Finding) -> str:
    size, where = step.by_bytes, "left" if step.by_bytes < 0 else "right"
    if step.kind == "write":
        return f"{_bytes(now.meta_bytes)} of metadata written"
    if not size:
        return "nothing moves"
    if step.kind == "meta":
        return f"data_meta moves {_bytes(size)} to the {where}: {_bytes(now.meta_bytes)} of metadata now"
    if step.kind == "tail":
        what = "cut off behind" if size < 0 else "more behind, all zero"
        return f"data_end moves {_bytes(size)} to the {where}: {_bytes(size)} {what}"
    what = "more in front, with what lay there" if size < 0 else "cut off in front"
    moved = ", and the metadata are copied along" if now.meta_bytes else ""
    return f"data moves {_bytes(size)} to the {where}: {_bytes(size)} {what}{moved}"


def _refused(step: Step, now: Finding, before: Finding) -> str:
    size, code = step.by_bytes, -now.code
    if step.kind == "meta" and code == _ENOTSUPP:
        return "this driver carries no metadata"
    if step.kind == "meta" and code == errno.EACCES:
        return f"metadata come in multiples of 4 bytes, up to 252; these would be {before.meta_bytes - size}"
    if step.kind == "meta" and code == errno.EINVAL:
        if size > before.meta_bytes:
            return "data_meta can't lie behind data"
        return f"the headroom is {_bytes(before.data_meta)}"
    if step.kind == "head" and code == errno.EINVAL:
        if size < 0:
            return f"the headroom is {_bytes(before.data_meta)}"
        return _too_short(before.frame_bytes - size)
    if step.kind == "tail" and code == errno.EINVAL:
        if size > 0:
            return f"the tailroom is {_bytes(before.right_bytes)}"
        return _too_short(before.frame_bytes + size)
    return kernel_word(code)


def _too_short(left: int) -> str:
    return f"a frame keeps at least an Ethernet header, {_ETHERNET_HEADER} bytes; {max(left, 0)} would be left"
