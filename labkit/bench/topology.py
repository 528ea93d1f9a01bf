"""How long it takes to make a chain of hosts: the lab, and the same by `ip` commands.

The commands work in a mount namespace with a /run of their own: the names of their namespaces are seen by nobody else,
and vanish with the shell, however it ends.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator

from labkit.bench.measure import Progress, elapsed_ms, paired
from labkit.bench.result import BenchResult
from labkit.errors import FeatureError
from labkit.lab import Lab
from labkit.topology import End, LinkSpec, Topology

__all__ = ["run"]

_TIMEOUT_S = 120.0
_PREPARE = "set -e\nmount -t tmpfs tmpfs /run\n"


def run(runs: int, progress: Progress, *, hosts: int = 20) -> BenchResult:
    """Milliseconds until a chain of ``hosts`` is up, addressed, routed, with fixed neighbours, IPv6 and offloads off."""
    topology = Topology.chain(hosts)
    for command in ("ip", "unshare", "mount"):
        if not shutil.which(command):
            raise FeatureError(
                f"The command {command} is missing.",
                tried="to measure",
                remedy="sudo apt-get install iproute2 util-linux mount",
            )
    one_by_one, in_batches = _script(topology, batches=False), _script(topology, batches=True)

    def by_lab() -> float:
        made: list[Lab] = []
        try:
            return elapsed_ms(lambda: made.append(Lab(topology, name="bench-topology")))
        finally:
            for lab in made:
                lab.close()

    return paired(
        by_lab,
        {"ip_commands": lambda: _timed(one_by_one), "ip_batches": lambda: _timed(in_batches)},
        unit="ms",
        better="less",
        runs=runs,
        progress=progress,
        notes=(
            f"{hosts} hosts, {len(topology.links)} veth pairs, {len(topology.routes)} routes; the lab's figure includes "
            "its ledger's probes",
            "ip_commands: one command each, as in a shell script; ip_batches: `ip -batch`, one for each host",
            "offloads switched off on both sides"
            if shutil.which("ethtool")
            else "no ethtool here: only the lab switches offloads off",
        ),
    )


def _timed(script: str) -> float:
    """Milliseconds between the two times the script prints."""
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh"],
        input=script,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    if done.returncode:
        raise FeatureError(
            "The `ip` commands failed.", tried="to make the topology by commands", detail=done.stderr.strip()[-2000:]
        )
    began, ended = map(int, done.stdout.split())
    return (ended - began) / 1e6


def _script(topology: Topology, *, batches: bool) -> str:
    lines = ["date +%s%N"]
    named = [f"netns add {host}" for host in topology.hosts]
    links = [_link(link) for link in topology.links]
    if batches:
        # Names first, in a batch of their own: `ip` looks a name up when it reads the line.
        lines += [_batch("", named)]
    else:
        lines += [f"ip {command}" for command in named]
    lines += [_switches(host, host in topology.forwarders) for host in topology.hosts]
    lines += [_batch("", links)] if batches else [f"ip {command}" for command in links]
    for host in topology.hosts:
        commands = list(_host(topology, host))
        lines += [_batch(f"-n {host} ", commands)] if batches else [f"ip -n {host} {command}" for command in commands]
        if shutil.which("ethtool"):
            lines += [
                f"ip netns exec {host} ethtool -K {end.interface} tx off txvlan off rxvlan off >&2 || true"
                for end in topology.ends_of(host)
            ]
    return _PREPARE + "\n".join([*lines, "date +%s%N", ""])


def _batch(options: str, commands: Iterable[str]) -> str:
    return f"printf '%s\\n' {' '.join(shlex.quote(command) for command in commands)} | ip {options}-batch -"


def _switches(host: str, forwards: bool) -> str:
    """IPv6 off before any link is there, and forwarding where wanted: one shell in the namespace."""
    settings = ["ipv6/conf/all/disable_ipv6", "ipv6/conf/default/disable_ipv6"] + ["ipv4/ip_forward"] * forwards
    written = "; ".join(f"[ ! -e /proc/sys/net/{each} ] || echo 1 >/proc/sys/net/{each}" for each in settings)
    return f"ip netns exec {host} sh -c '{written}'"


def _link(link: LinkSpec) -> str:
    def end(each: End, name: str) -> str:
        queues = f"numtxqueues {each.queues} numrxqueues {each.queues}"
        return f"{name} {each.interface} netns {each.host} address {each.mac} mtu {each.mtu} {queues}"

    return f"link add {end(link.a, 'name')} type veth peer {end(link.b, 'name')}"


def _host(topology: Topology, host: str) -> Iterator[str]:
    """The commands for one host, in the lab's order."""
    yield "link set lo up"
    for end in topology.ends_of(host):
        yield f"address add {end.address} dev {end.interface}"
        yield f"link set {end.interface} up"
    for link in topology.links:
        for near, far in (link.ends, link.ends[::-1]):
            if near.host == host:
                yield f"neighbour replace {far.ip} lladdr {far.mac} dev {near.interface} nud permanent"
    for route in topology.routes:
        if route.host == host:
            yield f"route add {route.network} via {route.via}"
