"""The header tree that BCC compiles against: a few generated files over the UAPI headers of the C
library.

BCC wants a kernel source tree. It needs very little of it, and a lesson needs only the user-space
API (UAPI), which every machine with a C compiler's headers has (Debian: linux-libc-dev). No kernel
headers, no configuration.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from labkit.errors import CompileError

__all__ = ["cache_directory", "fingerprint", "tree"]

UAPI = Path("/usr/include/linux")
LAYOUT = 1  # raise on any change of what this module writes

_KCONFIG = """\
#ifndef LAB_KCONFIG_H
#define LAB_KCONFIG_H
#define __always_inline inline __attribute__((__always_inline__))
#define __user
#define __kernel
#define __force
#define __iomem
#define CONFIG_BPF_SYSCALL 1
#define CONFIG_BPF_JIT 1
#endif
"""

_TYPES = """\
#ifndef LAB_TYPES_H
#define LAB_TYPES_H
#include <uapi/linux/types.h>
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
typedef __kernel_size_t size_t;
typedef __kernel_ssize_t ssize_t;
typedef unsigned long uintptr_t;
#define true 1
#define false 0
#ifndef NULL
#define NULL ((void *)0)
#endif
%(byte_order)s
#endif
"""

_SWAP = """\
#define htons(x) ((__be16)__builtin_bswap16(x))
#define ntohs(x) ((__u16)__builtin_bswap16((__u16)(x)))
#define htonl(x) ((__be32)__builtin_bswap32(x))
#define ntohl(x) ((__u32)__builtin_bswap32((__u32)(x)))"""

_NO_SWAP = """\
#define htons(x) ((__be16)(x))
#define ntohs(x) ((__u16)(x))
#define htonl(x) ((__be32)(x))
#define ntohl(x) ((__u32)(x))"""

_FILES = {
    "include/linux/kconfig.h": _KCONFIG,
    "include/linux/types.h": _TYPES % {"byte_order": _SWAP if sys.byteorder == "little" else _NO_SWAP},
    "include/linux/log2.h": (
        "#define ilog2(n) (31 - __builtin_clz(n))\n#define is_power_of_2(n) ((n) && !((n) & ((n) - 1)))\n"
    ),
    # Programs of the lab ask the running kernel, never its version; BCC's own headers want the
    # macro.
    "include/linux/version.h": (
        "#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))\n"
        "#define LINUX_VERSION_CODE KERNEL_VERSION(6, 1, 0)\n"
    ),
    "include/asm/page.h": "#define PAGE_SHIFT 12\n#define PAGE_SIZE (1UL << PAGE_SHIFT)\n",
    # linux/if.h, and by it linux/icmp.h, want the C library's struct sockaddr.
    "include/sys/socket.h": (
        "#ifndef LAB_SYS_SOCKET_H\n#define LAB_SYS_SOCKET_H\n#include <uapi/linux/socket.h>\n"
        "struct sockaddr {\n\t__kernel_sa_family_t sa_family;\n\tchar sa_data[14];\n};\n#endif\n"
    ),
    # BCC brings its own copy of bpf.h under this guard.
    "include/uapi/linux/bpf.h": (
        "#ifndef _UAPI__LINUX_BPF_H__\n#define _UAPI__LINUX_BPF_H__\n#include_next <linux/bpf.h>\n#endif\n"
    ),
}
_OWN = {"bpf.h", "version.h", "types.h", "kconfig.h", "log2.h"}


def cache_directory() -> Path:
    """The per-user directory for generated headers and compiled programs; made, private, writable.

    ``$XDG_CACHE_HOME/xdp-lab`` or ``~/.cache/xdp-lab``; where neither can be written, one directory
    per user under the temporary directory, used only when it belongs to this user and to nobody
    else.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # In a directory of someone else (sudo without -H) files would be left that their owner can't
    # replace.
    for path in (Path(base) / "xdp-lab", Path(tempfile.gettempdir()) / f"xdp-lab-{os.geteuid()}"):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = path.stat(follow_symlinks=False)
        except OSError:
            continue
        private = status.st_uid == os.geteuid() and not status.st_mode & 0o022
        if private and os.access(path, os.W_OK | os.X_OK):
            return path
    return _private_directory(os.getpid())


@functools.cache
def _private_directory(pid: int) -> Path:
    """Last resort: a directory of this process alone, gone when it ends."""
    path = Path(tempfile.mkdtemp(prefix="xdp-lab-"))

    def remove() -> None:
        if os.getpid() == pid:  # not in a forked child
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def fingerprint() -> str:
    """Names the headers on this machine: changes with the architecture, their release, or this
    module.
    """
    try:
        status = (UAPI / "bpf.h").stat()
    except OSError as cause:
        raise CompileError(
            "the kernel's user-space headers are missing",
            tried=f"to read {UAPI / 'bpf.h'}",
            errno=cause.errno,
            remedy="sudo apt-get install linux-libc-dev",
        ) from cause
    parts = (LAYOUT, platform.machine(), status.st_mtime_ns, status.st_size, sorted(_FILES.items()))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def tree() -> Path:
    """The header tree to give to BCC as its kernel source; built on first use, in one step, and
    then kept.

    Raises CompileError where the UAPI headers are not installed.
    """
    cache = cache_directory()
    target = cache / f"headers-{fingerprint()}"
    if target.is_dir():
        return target
    building = Path(tempfile.mkdtemp(prefix="headers-", suffix=".tmp", dir=cache))
    try:
        _fill(building)
        os.rename(building, target)
    except OSError as cause:
        shutil.rmtree(building, ignore_errors=True)
        if not target.is_dir():  # else another process was first: theirs is the same
            raise CompileError(
                "the header tree could not be written",
                tried=f"to write {target}",
                errno=cause.errno,
                remedy="free some space, or set XDG_CACHE_HOME to a directory you can write",
            ) from cause
    return target


def _fill(root: Path) -> None:
    for directory in ("include/linux", "include/asm", "include/sys", "include/uapi/linux"):
        (root / directory).mkdir(parents=True)
    for header in UAPI.iterdir():
        if header.name != "bpf.h":
            (root / "include/uapi/linux" / header.name).symlink_to(header)
        if header.name not in _OWN:
            (root / "include/linux" / header.name).symlink_to(header)
    for header in _architecture_headers().glob("*.h"):
        if header.name != "page.h":
            (root / "include/asm" / header.name).symlink_to(header)
    (root / "include/asm-generic").symlink_to(UAPI.parent / "asm-generic")
    (root / "include/uapi/asm").symlink_to("../asm")
    (root / "include/uapi/asm-generic").symlink_to("../asm-generic")
    (root / "include/linux/bpf.h").symlink_to("../uapi/linux/bpf.h")
    (root / "include/uapi/linux/version.h").unlink(missing_ok=True)
    for name, text in _FILES.items():
        (root / name).write_text(text)


def _architecture_headers() -> Path:
    """Debian keeps asm/ under the multiarch name, other systems directly under /usr/include."""
    multiarch = UAPI.parent / f"{platform.machine()}-linux-gnu/asm"
    return multiarch if multiarch.is_dir() else UAPI.parent / "asm"
