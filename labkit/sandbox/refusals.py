"""What the launcher refused, in words with the remedy."""

from __future__ import annotations

from typing import Any

from labkit.errors import FeatureError, LabError, PrivilegeError

__all__ = ["refusal"]

_ROOT_MODE = "./env/lab --root runs the lab as root instead; what runs then may do everything root may"
_USER_NAMESPACES = (
    "This machine forbids user namespaces, which a sandbox is made of.",
    f"allow them (sysctl user.max_user_namespaces, or the container's settings); or {_ROOT_MODE}",
)
# By step of env/sandbox: what it means, and what to do.
_STEPS = {
    "delegate": (
        "This kernel has no BPF tokens: they came with Linux 6.9.",
        f"use a newer kernel; or {_ROOT_MODE}",
    ),
    "token": ("This kernel would not give the sandbox a BPF token.", _ROOT_MODE),
    "bpffs": ("This kernel would not mount a BPF file system for the sandbox.", _ROOT_MODE),
    "namespaces": _USER_NAMESPACES,
    "map ids": _USER_NAMESPACES,
    "user": (
        "The sandbox can't run as this user.",
        "name an existing user that is not root and not in root's group: labkit sandbox --user U -- CMD",
    ),
    "sysfs": (
        "The kernel would not show the sandbox its own /sys; some of the machine's is hidden, as in a container.",
        f"start the container with its /sys whole (docker run --privileged); or {_ROOT_MODE}",
    ),
    "proc": (
        "The kernel would not show the sandbox its own /proc; some of the machine's is hidden, as in a container.",
        f"start the container with its /proc whole (docker run --privileged); or {_ROOT_MODE}",
    ),
}


def refusal(answer: dict[str, Any]) -> LabError:
    """The error for an answer ``{"refused": step, "errno": number}``."""
    step, number = str(answer["refused"]), int(answer.get("errno") or 0)
    message, remedy = _STEPS.get(step, (f"The sandbox could not be made (at: {step}).", _ROOT_MODE))
    if step == "user":
        return PrivilegeError(message, tried="to open a sandbox", remedy=remedy)
    return FeatureError(
        message,
        tried="to open a sandbox",
        errno=number or None,
        detail="" if number else str(answer.get("detail", "")),
        remedy=remedy,
    )
