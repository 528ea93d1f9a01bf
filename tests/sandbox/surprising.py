"""Runs inside a sandbox: what its student may do, though one might think not. Prints one JSON object.

surprising.py FACTS         as for hostile.py
"""

from __future__ import annotations

import json
import sys

import bpfcalls as b
from attempts import ATTEMPTS, Facts, attempt, outcomes
from hostile_bpf import READ_KERNEL
from hostile_network import machines_proc

OTHERS = set(ATTEMPTS)  # of the modules that are imported for their tools


@attempt()
def read_kernel_memory_by_a_tracepoint(facts: Facts) -> object:
    return b.load(b.RAW_TRACEPOINT, b.eight_bytes_from(facts["address"], READ_KERNEL), by_gate=True)


@attempt()
def see_the_machines_processes(facts: Facts) -> object:
    machines_proc()
    with open(f"/proc/{facts['root_pid']}/cmdline") as file:
        return file.read().replace("\0", " ")


@attempt()
def set_a_limit_of_its_own_namespace(_: Facts) -> object:
    with open("/proc/sys/user/max_net_namespaces", "w") as file:
        return file.write("1000")


if __name__ == "__main__":
    print(json.dumps(outcomes([name for name in ATTEMPTS if name not in OTHERS], json.loads(sys.argv[1]))))
