"""The compiling child keeps no namespace of a lab alive, whichever thread it was started by."""

from __future__ import annotations

import os

from labkit.compile import client, compile_source, shut_down
from labkit.kernel.netns import NamespaceThread


def test_child_is_not_in_a_hosts_namespace() -> None:
    shut_down()

    def compile_there() -> str:
        compile_source(text=f"int f(void *ctx)\n{{\n\treturn 1;\n}}\n// {os.getpid()}\n")
        return os.readlink("/proc/thread-self/ns/net")

    host = NamespaceThread("compile-test")
    try:
        inside = host.run(compile_there)
        child = os.readlink(f"/proc/{client.child_pid()}/ns/net")
    finally:
        host.close()
    assert child != inside
    assert child == os.readlink("/proc/self/ns/net")
