"""Loading: from a ProgramSpec to a program the kernel runs."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from labkit.errors import FeatureError, LabError, PrivilegeError, StateError, VerifierError, resources
from labkit.kernel import bpf
from labkit.kernel.btf import Btf
from labkit.kernel.gate import in_sandbox, privilege_remedy
from labkit.program.map import Map
from labkit.program.relocate import relocated
from labkit.program.spec import FunctionSpec, ProgramSpec
from labkit.program.targets import map_class
from labkit.program.watch import Watch, open_watch
from labkit.uapi import ProgFlag, ProgType, XdpAction

__all__ = ["VERDICTS", "Program", "load_program"]

VERDICTS = (*(f"XDP_{action.name}" for action in XdpAction), "unknown")
"""Names of the slots of the map ``verdicts`` that bpf/common/verdict.h counts in."""

_LOG_BYTES = 1 << 20
_NOT_THE_VERIFIER = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # says nothing about the program


class Explain(Protocol):
    """Turns a refusal of the verifier into an error a reader can use."""

    def __call__(self, spec: ProgramSpec, function: FunctionSpec, errno: int | None, log: str, /) -> VerifierError: ...


class Program:
    """One function of a ProgramSpec, loaded. ``maps`` by name; ``id`` and ``tag`` as the kernel shows them."""

    def __init__(
        self,
        spec: ProgramSpec,
        function: FunctionSpec,
        fd: int,
        maps: dict[str, Map],
        expected_attach_type: int = 0,
        flags: int = 0,
    ) -> None:
        info = bpf.prog_info(fd)
        self.spec = spec
        self.function = function
        self.maps: Mapping[str, Map] = maps
        self.id = info.id
        self.tag = info.tag
        self.type = ProgType(info.type)
        self.expected_attach_type = expected_attach_type
        self.flags = ProgFlag(flags)
        self.jited_bytes = info.jited_bytes
        self._fd: int | None = fd
        self._last_verdicts: dict[str, int] | None = None
        self._watches: list[Watch] = []
        self.attacher: Callable[[Program, Any, Any], Any] | None = None
        self.device: Any | None = None  # the interface that it is bound to

    @property
    def name(self) -> str:
        """The C function's name."""
        return self.function.name

    @property
    def fd(self) -> int:
        """The descriptor. Raises StateError after close."""
        if self._fd is None:
            raise StateError(
                f"The program {self.name} is closed.",
                tried="to use a program",
                on=self.name,
                remedy="load it again: run the cell that calls lab.load(…)",
            )
        return self._fd

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return self._fd is None

    def verdicts(self) -> dict[str, int] | None:
        """Packets by what the program returned, since it was loaded; None for a program that keeps no count.

        After close: the count at that moment.
        """
        if self.closed:
            return self._last_verdicts
        counts = self.maps.get("verdicts")
        if counts is None or counts.spec.max_entries < len(VERDICTS):
            return None
        found = counts.read()
        return {name: found[slot] for slot, name in enumerate(VERDICTS)}

    def verdicts_by_cpu(self) -> dict[str, list[int]]:
        """The same for CPU 0, 1, …: a list each. Empty after close, and where the map doesn't keep CPUs apart."""
        counts = None if self.closed else self.maps.get("verdicts")
        if counts is None or not counts.spec.type.per_cpu or counts.spec.max_entries < len(VERDICTS):
            return {}
        found = dict(counts.items_by_cpu())
        return {name: found[slot] for slot, name in enumerate(VERDICTS)}

    def shares_counters_with(self, other: Program) -> bool:
        """Whether both count their verdicts in the same map."""
        mine, theirs = self.maps.get("verdicts"), other.maps.get("verdicts")
        return mine is not None and theirs is not None and mine.id == theirs.id

    def attach(self, interface: Any, mode: str = "native") -> Any:
        """Attach to an interface of the lab that loaded the program; returns the Link.

        ``mode`` is "native" (in the driver, before any skb) or "generic" (in the stack, for every device). A program
        the lab had there is taken off first; anybody else's is left alone. Raises AttachError.
        """
        if self.attacher is None:
            raise StateError(
                f"The program {self.name} belongs to no lab.",
                tried="to attach it",
                on=self.name,
                remedy="load it with lab.load(…)",
            )
        return self.attacher(self, interface, mode)

    def watch(self, tracepoint: str) -> Watch:
        """Run at a raw tracepoint of the kernel, as "xdp_redirect", until the Watch or the program is closed.

        For programs loaded with ``type=ProgType.RAW_TRACEPOINT``. Raises FeatureError, AttachError, PrivilegeError.
        """
        made = open_watch(self, tracepoint)
        self._watches.append(made)
        return made

    def close(self) -> None:
        """Let go of the program and its maps, and end its watches. Safe to call again.

        Where the program is attached to an interface it goes on running.
        """
        for watch in self._watches:
            watch.close()
        if self._fd is not None:
            with contextlib.suppress(LabError):  # closed by another thread at the same time
                self._last_verdicts = self.verdicts()
            fd, self._fd = self._fd, None
            if fd is not None:
                os.close(fd)
            for each in self.maps.values():
                each.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"id {self.id}"
        maps = ", ".join(self.maps) or "none"
        return f"<program {self.name}: {self.type.name.lower()}, {state}, tag {self.tag}, maps: {maps}>"


@resources("to load a program")
def load_program(
    spec: ProgramSpec,
    function: str | None = None,
    *,
    explain: Explain,
    type: ProgType = ProgType.XDP,
    flags: int = 0,
    ifindex: int = 0,
    expected_attach_type: int = 0,
    reuse: Mapping[str, Callable[[], int]] | None = None,
) -> Program:
    """Make the maps of ``spec``, load one function, and return the Program.

    ``reuse`` names maps that exist already, as functions that give a descriptor of their own (so that counters
    go on over an edit). ``ifindex`` binds to a device with ProgFlag.XDP_DEV_BOUND_ONLY; it must be
    called in the namespace of that device then. Raises VerifierError, MapError, PrivilegeError, and LabError where
    descriptors or memory have run out.
    """
    chosen = spec.function(function)
    btf = Btf(spec.btf) if spec.btf else None
    maps: dict[str, Map] = {}
    try:
        for name in dict.fromkeys(name for _, name in chosen.map_references):
            again = (reuse or {}).get(name)
            kind = map_class(spec.maps[name].type)
            maps[name] = kind(spec.maps[name], again(), btf) if again else kind.create(spec.maps[name], btf)
        code = relocated(chosen, maps)
        fd = _load(spec, chosen, code, type, flags, ifindex, expected_attach_type, explain)
        return Program(spec, chosen, fd, maps, expected_attach_type, flags)
    except BaseException:
        for made in maps.values():
            made.close()
        raise


def _load(
    spec: ProgramSpec,
    function: FunctionSpec,
    code: bytes,
    type: ProgType,
    flags: int,
    ifindex: int,
    expected_attach_type: int,
    explain: Explain,
) -> int:
    debug = _debug_info(spec, function)

    def attempt(log: ctypes.Array[ctypes.c_char] | None, level: int) -> int:
        return bpf.prog_load(
            type,
            code,
            name=function.name,
            license=spec.license,
            flags=flags,
            ifindex=ifindex,
            expected_attach_type=expected_attach_type,
            debug=debug,
            log=log,
            log_level=level,
        )

    try:
        return attempt(None, 0)  # without a log first: writing one costs several times the verification
    except OSError as error:
        if error.errno == errno.EPERM:
            raise _no_privilege("BPF_PROG_LOAD", function) from error
        if error.errno in _NOT_THE_VERIFIER:
            raise
        log = ctypes.create_string_buffer(_LOG_BYTES)
        try:
            return attempt(log, 1)
        except OSError as again:
            if again.errno in _NOT_THE_VERIFIER:
                raise
            if ifindex and not log.value:
                raise _not_bound(function, ifindex, again.errno or 0) from again
            raise explain(spec, function, again.errno or 0, log.value.decode(errors="replace")) from again
    finally:
        if debug is not None:
            os.close(debug.btf_fd)


def _debug_info(spec: ProgramSpec, function: FunctionSpec) -> bpf.DebugInfo | None:
    """What ties instructions to lines of the C text, with a descriptor of its own; None where there is none."""
    if not spec.btf or not function.func_info:
        return None
    try:
        fd = bpf.btf_load(spec.btf)
    except OSError as error:
        if error.errno == errno.EPERM:
            raise _no_privilege("BPF_BTF_LOAD", function) from error
        if error.errno in _NOT_THE_VERIFIER:
            raise
        raise FeatureError(
            f"The kernel would not take the type information of {spec.name}.",
            tried="BPF_BTF_LOAD",
            on=function.name,
            errno=error.errno,
            remedy="run labkit doctor: it tells what this kernel lacks",
        ) from error
    return bpf.DebugInfo(
        fd, function.func_info, function.func_info_rec_size, function.line_info, function.line_info_rec_size
    )


def _no_privilege(command: str, function: FunctionSpec) -> LabError:
    return PrivilegeError(
        "This process may not load BPF programs.",
        tried=command,
        on=function.name,
        errno=errno.EPERM,
        remedy=f"{privilege_remedy()}; the C text is not the cause",
    )


def _not_bound(function: FunctionSpec, ifindex: int, number: int) -> LabError:
    """The kernel refused to bind a program to a device, before its verifier looked at it."""
    if in_sandbox():
        return FeatureError(
            "In a sandbox the kernel binds no program to a device, so there are no metadata hints.",
            tried="BPF_PROG_LOAD with a BPF token",
            on=function.name,
            errno=number,
            remedy="./env/lab --root can; labkit doctor tells what else stays outside a sandbox",
        )
    message, remedy = (
        "The kernel binds this program to no device.",
        "metadata hints need Linux 6.3 or later; labkit doctor tells whether they are there",
    )
    try:
        socket.if_indextoname(ifindex)
    except OSError:
        message = f"The device that {function.name} is to be bound to is gone."
        remedy = "make the lab again (run the cell that calls lk.Lab(…)), and load the program for the new one"
    return FeatureError(message, tried="to bind a program to a device", on=function.name, errno=number, remedy=remedy)
