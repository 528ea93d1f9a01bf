"""The last hand laid on bytecode before it is loaded: maps and kernel functions are put where the C text names them."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from labkit.errors import FeatureError
from labkit.kernel.btf import Kind, kernel_btf
from labkit.program.map import Map
from labkit.program.spec import INSTRUCTION_BYTES, FunctionSpec

__all__ = ["kernel_function", "relocated", "resolve_functions"]

_PSEUDO_MAP_FD, _PSEUDO_KFUNC_CALL = 1, 2  # include/uapi/linux/bpf.h
_CALL = 0x85  # BPF_JMP | BPF_CALL

# Placeholder numbers in the C text stand for kernel functions: bpf/common/hints.h declares them by these numbers. Another
# function is a line here and a declaration in a header.
_KFUNC_PLACEHOLDERS = {
    1000001: "bpf_xdp_metadata_rx_timestamp",
    1000002: "bpf_xdp_metadata_rx_hash",
    1000003: "bpf_xdp_metadata_rx_vlan_tag",
}


def kernel_function(number: int) -> str | None:
    """The kernel function that a placeholder of the C text stands for; None for the number of a helper."""
    return _KFUNC_PLACEHOLDERS.get(number)


def relocated(function: FunctionSpec, maps: Mapping[str, Map]) -> bytes:
    """The instructions with each map's descriptor and each kernel function's BTF id in place. Raises FeatureError."""
    code = bytearray(function.instructions)
    for index, name in function.map_references:
        at = index * INSTRUCTION_BYTES
        code[at + 1] = (code[at + 1] & 0x0F) | _PSEUDO_MAP_FD << 4
        struct.pack_into("=i", code, at + 4, maps[name].fd)
    resolve_functions(code, function.name)
    return bytes(code)


def resolve_functions(code: bytearray, caller: str) -> None:
    """Bind calls of kernel functions to their BTF ids, in place (BCC knows helpers only). Raises FeatureError."""
    for at in range(0, len(code), INSTRUCTION_BYTES):
        number = struct.unpack_from("=i", code, at + 4)[0]
        if code[at] != _CALL or code[at + 1] >> 4 or number not in _KFUNC_PLACEHOLDERS:
            continue
        name = _KFUNC_PLACEHOLDERS[number]
        try:
            ident = kernel_btf().find(name, Kind.FUNC)
        except (KeyError, OSError) as error:
            raise FeatureError(
                f"This kernel has no function {name} for XDP programs.",
                tried="to load a program that calls it",
                on=caller,
                remedy="metadata hints need Linux 6.3 or later (6.8 for the VLAN tag), with BTF",
            ) from error
        code[at + 1] = (code[at + 1] & 0x0F) | _PSEUDO_KFUNC_CALL << 4
        struct.pack_into("=i", code, at + 4, ident)
