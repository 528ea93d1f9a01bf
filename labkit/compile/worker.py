"""The compiling child process, started by client.py: C text in, bytecode and map shapes out.

It is a process of its own as LLVM may end the process it runs in, and prints to file descriptor 2.
The main thread waits for requests, and for the end of its parent; one thread compiles, under the
recorder.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import queue
import select
import signal
import socket
import struct
import sys
import threading
from typing import Any

from labkit.compile import protocol
from labkit.compile.recorder import BtfBlob, CreatedMap, LoadedProgram, Recorder

__all__ = ["main"]

_PROG_TYPE_XDP = 6  # any type does: only the recorder sees it
_PSEUDO_MAP_FD = 1  # BPF_PSEUDO_MAP_FD, include/uapi/linux/bpf.h
_LD_IMM64 = 0x18


def main(connection_fd: int, parent_pid: int) -> None:
    """Serves requests until the parent closes the connection or ends."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a host's thread, which blocks all, may start us
    _leave_the_lab(parent_pid)
    connection = socket.socket(fileno=connection_fd)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_compile_all, args=(connection, requests), daemon=True).start()
    # Another process may hold a copy of the parent's end (a fork), so its closing alone is not
    # enough. The death signal of prctl(2) is of no use: it comes when the thread that started us
    # ends.
    try:
        parent = os.pidfd_open(parent_pid)
    except OSError:
        os._exit(0)
    watch = select.poll()
    watch.register(connection, select.POLLIN)
    watch.register(parent, select.POLLIN)
    while True:
        ready = {fd for fd, _ in watch.poll()}
        if parent in ready:
            os._exit(0)
        try:
            requests.put(protocol.receive(connection))
        except (protocol.Closed, ValueError, OSError):
            os._exit(0)  # at once, even while LLVM is busy


def _leave_the_lab(parent_pid: int) -> None:
    """Goes to the parent's own network namespace: started by a host's thread, this process would
    keep that host's.

    Where that is not permitted, nothing is lost but a namespace that lives as long as this process.
    """
    libc = ctypes.CDLL(None)
    with contextlib.suppress(OSError):
        if os.readlink("/proc/self/ns/net") == os.readlink(f"/proc/{parent_pid}/ns/net"):
            return
        namespace = os.open(f"/proc/{parent_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        libc.setns(namespace, 0)
        os.close(namespace)


def _compile_all(connection: socket.socket, requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    setup: dict[str, Any] = {}
    compiler: Compiler | None = None
    try:
        compiler = Compiler()
    except Unusable as problem:
        setup = {"failure": problem.kind, "detail": problem.detail}
    while True:
        request = requests.get()
        try:
            answer = compiler.compile(request) if compiler else setup
        except Exception as error:
            answer = {"failure": "internal", "detail": f"{type(error).__name__}: {error}"}
        try:
            protocol.send(connection, answer)
        except (protocol.Closed, OSError):
            os._exit(0)


class Unusable(Exception):
    """This process can't compile at all."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class Compiler:
    """BCC on the calling thread."""

    def __init__(self) -> None:
        self.lib = _bcc()
        self.recorder = Recorder()
        try:
            self.recorder.install()
        except OSError as error:
            raise Unusable("recorder", str(error)) from error

    def compile(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request: ``text``, ``cflags``, ``headers`` (the header tree)."""
        self.recorder.forget()
        os.environ["BCC_KERNEL_SOURCE"] = request["headers"]
        os.ftruncate(2, 0)
        flags = [flag.encode() for flag in request["cflags"]]
        module = self.lib.bpf_module_create_c_from_string(
            request["text"].encode(),
            0,
            (ctypes.c_char_p * len(flags))(*flags),
            len(flags),
            True,
            None,
        )
        said = _said()
        if not module:
            kind = "pinned" if self.recorder.wanted_pinned else "text"
            return {"failure": kind, "said": said}
        try:
            return {"said": said, **self._describe(module)}
        finally:
            self.lib.bpf_module_destroy(module)

    def _describe(self, module: int) -> dict[str, Any]:
        lib, given = self.lib, self.recorder.given
        tables: dict[int, str] = {}
        maps: dict[str, dict[str, Any]] = {}
        for index in range(lib.bpf_num_tables(module)):
            fd, name = (
                lib.bpf_table_fd_id(module, index),
                lib.bpf_table_name(module, index).decode(),
            )
            shape = given.get(fd)
            if isinstance(shape, CreatedMap):
                tables[fd] = name
                maps[name] = vars(shape)
        license_text = lib.bpf_module_license(module) or b"GPL"
        functions: dict[str, dict[str, Any]] = {}
        btf = b""
        for index in range(lib.bpf_num_functions(module)):
            name = lib.bpf_function_name(module, index)
            program = self._load(module, name, license_text)
            if program is None:
                return {"failure": "load", "detail": name.decode()}
            blob = given.get(program.btf_fd)
            if isinstance(blob, BtfBlob):
                btf = blob.data
            functions[name.decode()] = _function(program, tables)
        return {
            "functions": functions,
            "maps": maps,
            "btf": base64.b64encode(btf).decode(),
            "license": license_text.decode(),
        }

    def _load(self, module: int, name: bytes, license_text: bytes) -> LoadedProgram | None:
        lib = self.lib
        fd = lib.bcc_func_load(
            module,
            _PROG_TYPE_XDP,
            name,
            lib.bpf_function_start(module, name),
            lib.bpf_function_size(module, name),
            license_text,
            0,
            0,
            None,
            0,
            None,
            0,
            -1,
        )
        program = self.recorder.given.get(fd)
        if fd >= 0:
            os.close(fd)
        return program if isinstance(program, LoadedProgram) else None


def _function(program: LoadedProgram, tables: dict[int, str]) -> dict[str, Any]:
    """A function's bytecode without map numbers; where each map was, and each reference to a
    global.

    BCC leaves such a reference at 0 plus an offset, or puts in an address of this process.
    """
    code = bytearray(program.instructions)
    references: list[tuple[int, str]] = []
    globals_used: list[int] = []
    mapped: list[tuple[int, int]] | None = None
    index = 0
    while index * 8 < len(code):
        opcode, registers, _, low = struct.unpack_from("=BBhI", code, index * 8)
        if opcode != _LD_IMM64:
            index += 1
            continue
        (high,) = struct.unpack_from("=I", code, index * 8 + 12)
        # struct bpf_insn has two four-bit fields: source above destination, or the other way round
        # on big-endian
        source = registers >> 4 if sys.byteorder == "little" else registers & 0x0F
        if source == _PSEUDO_MAP_FD and low in tables:
            references.append((index, tables[low]))
            struct.pack_into("=I", code, index * 8 + 4, 0)
        elif source == 0 and high:
            mapped = _mapped() if mapped is None else mapped
            if any(start <= high << 32 | low < end for start, end in mapped):
                globals_used.append(index)
        elif source == 0 and low < 1 << 31:  # LLVM takes the short move for a number this small
            globals_used.append(index)
        index += 2
    return {
        "instructions": base64.b64encode(code).decode(),
        "map_references": references,
        "globals_used": globals_used,
        "func_info": base64.b64encode(program.func_info).decode(),
        "func_info_rec_size": program.func_info_rec_size,
        "line_info": base64.b64encode(program.line_info).decode(),
        "line_info_rec_size": program.line_info_rec_size,
    }


def _mapped() -> list[tuple[int, int]]:
    """The address ranges in use by this process."""
    with open("/proc/self/maps") as lines:
        ranges = (line.split(" ", 1)[0].split("-") for line in lines)
        return [(int(start, 16), int(end, 16)) for start, end in ranges]


def _said() -> str:
    """What was printed to descriptor 2 (a memory file of the parent's) since the request began."""
    size = os.fstat(2).st_size
    return os.pread(2, min(size, 1 << 20), 0).decode(errors="replace")


def _bcc() -> Any:
    """BCC's library with its argument types set. Raises Unusable."""
    try:
        import bcc
    except ImportError as error:
        raise Unusable("bcc-missing", str(error)) from error
    except Exception as error:  # a package that is not ours may raise anything
        raise Unusable("bcc-broken", f"{type(error).__name__}: {error}") from error
    if not hasattr(bcc, "BPF"):
        raise Unusable("bcc-wrong", str(getattr(bcc, "__file__", "?")))
    from bcc.libbcc import lib

    lib.bpf_num_tables.argtypes = [ctypes.c_void_p]
    lib.bpf_table_name.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    lib.bpf_table_name.restype = ctypes.c_char_p
    lib.bpf_table_fd_id.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    lib.bpf_table_fd_id.restype = ctypes.c_int
    return lib
