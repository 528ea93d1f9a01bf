"""Type information in the kernel: loaded, or found by its id; what the kernel refuses said in words."""

from __future__ import annotations

import errno
from collections.abc import Callable

from labkit.errors import FeatureError, HintError, PrivilegeError
from labkit.kernel import bpf
from labkit.kernel.gate import privilege_remedy

__all__ = ["load_types", "types_by_id"]


def load_types(blob: bytes, name: str) -> int:
    """A descriptor of a new BTF object. Raises FeatureError, PrivilegeError."""
    return _descriptor(lambda: bpf.btf_load(blob), "BPF_BTF_LOAD", name, privilege_remedy())


def types_by_id(ident: int) -> int:
    """A descriptor of the BTF object with this id, whoever loaded it. Raises HintError where there is none, PrivilegeError."""
    remedy = "read what this process loaded itself; only root of the machine is shown others' types"
    return _descriptor(lambda: bpf.btf_fd_by_id(ident), "BPF_BTF_GET_FD_BY_ID", f"BTF object {ident}", remedy)


def _descriptor(get: Callable[[], int], command: str, name: str, remedy: str) -> int:
    """What ``get`` gives; its refusal as an error that says what to do."""
    try:
        return get()
    except OSError as error:
        if error.errno == errno.EPERM:
            raise PrivilegeError(
                "This process may not have these types.", tried=command, on=name, errno=error.errno, remedy=remedy
            ) from error
        if error.errno == errno.ENOENT:
            raise HintError(
                f"The kernel has no {name}.",
                tried=command,
                errno=error.errno,
                remedy="it was closed, and no program holds it any more: its metadata is foreign to everybody",
            ) from error
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        raise FeatureError(
            f"The kernel would not take the type information of {name}.",
            tried=command,
            on=name,
            errno=error.errno,
            remedy="run labkit doctor: it tells what this kernel lacks",
        ) from error
