"""How long it takes from C text to a program in the kernel."""

from __future__ import annotations

import itertools
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit.bench.measure import Measure, Progress, elapsed_ms, paired
from labkit.bench.result import BenchResult
from labkit.compile import compile_source, shut_down
from labkit.compile.diagnose import verifier_error
from labkit.compile.source import lesson_directory
from labkit.errors import LabError
from labkit.program.program import load_program

__all__ = ["private_cache", "run"]

_CACHED_TIMES = 10

# The same as bpf/drop_by_protocol.c, in the C that clang compiles alone.
_PLAIN = """\
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#define SEC(name) __attribute__((section(name), used))
struct { int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY]; __u32 *key; __u64 *value; int (*max_entries)[256]; } packets SEC(".maps");
struct { int (*type)[BPF_MAP_TYPE_ARRAY]; __u32 *key; __u32 *value; int (*max_entries)[256]; } keep SEC(".maps");
struct { int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY]; __u32 *key; __u64 *value; int (*max_entries)[6]; } verdicts SEC(".maps");
static void *(*lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static __inline __attribute__((always_inline)) int verdict(int action)
{
	__u32 slot = action;
	__u64 *count = lookup(&verdicts, &slot);
	if (count)
		(*count)++;
	return action;
}
SEC("xdp") int drop_by_protocol(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	__u32 protocol, *kept;
	__u64 *count;
	if ((void *)(ip + 1) > end || eth->h_proto != (__be16)__builtin_bswap16(ETH_P_IP))
		return verdict(XDP_PASS);
	protocol = ip->protocol;
	count = lookup(&packets, &protocol);
	kept = lookup(&keep, &protocol);
	if (!count || !kept)
		return verdict(XDP_ABORTED);
	(*count)++;
	return verdict(*kept ? XDP_PASS : XDP_DROP);
}
char _license[] SEC("license") = "GPL";
"""


def run(runs: int, progress: Progress) -> BenchResult:
    """Milliseconds of a text never seen before, compiled and loaded; an unchanged text, and the first of a process, beside."""
    source = (lesson_directory() / "drop_by_protocol.c").read_text()
    unseen = (f"{source}/* {os.getpid()}.{number} */\n" for number in itertools.count())
    with private_cache() as directory:
        baselines: dict[str, Measure] = {}
        notes = ["clang_command compiles alone, without loading; the lab's figures are with loading"]
        clang = _clang()
        if clang:
            baselines["clang_command"] = _by_command(clang, directory)
        else:
            notes = ["no clang command on this machine to compare with: sudo apt-get install clang"]

        def first() -> float:
            shut_down()
            return elapsed_ms(lambda: _to_kernel(next(unseen)))

        return paired(
            lambda: elapsed_ms(lambda: _to_kernel(next(unseen))),
            baselines,
            unit="ms",
            better="less",
            runs=runs,
            progress=progress,
            also={
                "cached_ms": lambda: elapsed_ms(lambda: _to_kernel(source), _CACHED_TIMES),
                "with_start_of_compiler_ms": first,
            },
            notes=tuple(notes),
        )


def _to_kernel(text: str) -> None:
    spec = compile_source(text=text, name="drop_by_protocol")
    load_program(spec, "drop_by_protocol", explain=verifier_error).close()


def _clang() -> str | None:
    names = ["clang", *(f"clang-{release}" for release in range(25, 10, -1))]
    return next((found for name in names if (found := shutil.which(name))), None)


def _by_command(clang: str, directory: Path) -> Measure:
    text = directory / "plain.c"
    text.write_text(_PLAIN)
    command = [clang, "-O2", "-g", "-target", "bpf", f"-I/usr/include/{platform.machine()}-linux-gnu"]
    command += ["-c", str(text), "-o", str(directory / "plain.o")]

    def compile_once() -> None:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise LabError(
                "The clang command failed.", tried="to compile", on=clang, detail=done.stderr.strip()[-2000:]
            )

    return lambda: elapsed_ms(compile_once)


@contextmanager
def private_cache() -> Iterator[Path]:
    """Texts compiled once and never again have no place in the user's cache."""
    before = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory(prefix="xdp-lab-bench-") as directory:
        os.environ["XDG_CACHE_HOME"] = directory
        try:
            yield Path(directory)
        finally:
            if before is None:
                del os.environ["XDG_CACHE_HOME"]
            else:
                os.environ["XDG_CACHE_HOME"] = before
