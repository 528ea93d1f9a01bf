"""Python around the kernel: event loops, namespaces, descriptors, and what scapy thinks it knows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from jupyter_client.manager import KernelManager

import labkit as lk
from labkit.kernel.netns import namespace_inode

N = 101  # prime
ROOT = Path(lk.__file__).resolve().parent.parent

Gained = Callable[[Callable[[], dict[str, int]]], Callable[[], dict[str, int]]]


def held() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("static int counter;\nint f(struct xdp_md *ctx) { counter++; return counter & 1; }", "global"),
        ("int f(struct xdp_md *ctx) { u64 x[4] = {1, 2, 1, 2}; return x[ctx->rx_queue_index & 3]; }", "constant"),
    ],
    ids=["a global", "a table"],
)
def test_py_04_what_bcc_has_no_section_for(lab: lk.Lab, text: str, said: str) -> None:
    """PY-04, iovisor/bcc#3451: globals compile, and the verifier then speaks of a scalar nobody wrote."""
    with pytest.raises((lk.CompileError, lk.VerifierError), match=said) as refused:
        lab.load(lk.compile(text='#include "common/verdict.h"\n' + text))
    error = refused.value
    assert isinstance(error, (lk.CompileError, lk.VerifierError))
    assert error.line is not None
    assert "map" in str(error) or "field" in str(error)


CELL = """\
import labkit as lk
lab = lk.Lab(lk.Topology.pair(), name="cell")
spec = lk.compile(text='#include "common/verdict.h"\\nint drop(struct xdp_md *ctx) { return verdict(ctx, XDP_DROP); }')
lab.load(spec).attach(lab["server"]["eth0"])
lk.generate(lab["client"]["eth0"], lk.udp(lab["client"], lab["server"]), 1009)
ledger = lab.ledger()
print(ledger.losses, ledger.unaccounted, lab["server"]["eth0"].mtu, lab["server"]["eth0"].up)
"""


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Runs a cell in a real ipykernel, whose main thread has a running loop; gives what the cell printed."""
    context = zmq.Context()
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(tmp_path / "k"), context=context)
    manager.start_kernel(cwd=str(ROOT), env=os.environ | {"IPYTHONDIR": str(tmp_path)})
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=30)

    def run(code: str) -> str:
        printed: list[str] = []

        def note(message: dict[str, object]) -> None:
            content = message["content"]
            assert isinstance(content, dict)
            printed.append(content.get("text", "") or "\n".join(content.get("traceback", [])))

        client.execute_interactive(code, output_hook=note, timeout=30)
        return "".join(printed)

    try:
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
        context.destroy()


@pytest.mark.leaks("jupyter_client keeps an event loop, and its pair of sockets, for the thread that used it")
def test_py_05_a_lab_in_a_cell(notebook: Callable[[str], str]) -> None:
    """PY-05, svinota/pyroute2#1342: in a cell, the netlink library says "This event loop is already running"."""
    assert notebook(CELL).strip() == "{'XDP_DROP': 1009} 0 1500 True"
    assert notebook(CELL).strip() == "{'XDP_DROP': 1009} 0 1500 True", "the cell can be run again"
    awaited = "import asyncio\nprint(await asyncio.to_thread(lambda: lab.ledger().sent), lab.ledger().sent)"
    assert notebook(awaited).strip() == "1009 1009"


def test_py_06_a_wrong_name_makes_nothing(lab: lk.Lab) -> None:
    """PY-06, svinota/pyroute2#501: a mistyped namespace is created; each one not closed keeps descriptors."""
    before = held()
    for wrong in ("serve", "Server", "", "server "):
        with pytest.raises(lk.TopologyError, match="has no host"):
            lab[wrong]
        with pytest.raises(lk.TopologyError, match="has no interface"):
            lab["server"][wrong]
    assert set(lab.hosts) == {"client", "server"}
    assert held() == before
    for _ in range(5):
        lk.Lab(lk.Topology.chain(3), name="other").close()
    assert held() == before


def test_py_07_nobody_is_left_in_the_wrong_namespace(lab: lk.Lab) -> None:
    """PY-07, larsks/python-netns#4: a thread started inside a namespace stays there; the caller must not."""
    home, inside = namespace_inode(), lab["server"].inode
    assert home != inside
    assert lab["server"].run(namespace_inode) == inside
    assert namespace_inode() == home
    found: list[int] = []
    ours = threading.Thread(target=lambda: found.append(namespace_inode()))
    ours.start()
    ours.join()
    theirs = lab["server"].thread.spawn(lambda: found.append(namespace_inode()), "visitor")
    theirs.join()
    assert found == [home, inside]
    with pytest.raises(ZeroDivisionError):
        lab["server"].run(lambda: 1 // 0)
    assert namespace_inode() == home
    assert lab["server"].run(namespace_inode) == inside


def test_py_08_frames_do_not_ask_scapys_tables() -> None:
    """PY-08, secdev/scapy#3467: scapy reads interfaces and routes once, and leaves the MAC out where it finds none."""
    for _ in range(2):  # the second lab's interfaces were not there when scapy was imported
        with lk.Lab(lk.Topology.router(), name="case") as lab:
            client, server = lab["client"], lab["server"]
            frame = lk.udp(client, server)
            assert frame[0:6].hex(":") == lab["router"]["eth0"].mac, "the next hop's"
            assert frame[6:12].hex(":") == client["eth0"].mac
            assert ".".join(map(str, frame[26:34])) == f"{client.ip}.{server.ip}"
            with lk.UdpSink(server) as sink:
                lk.send_frames(client["eth0"], frame, N)
                assert sink.wait(N) == N


def test_py_09_what_one_sends_is_not_what_one_receives(lab: lk.Lab, gained: Gained) -> None:
    """PY-09, secdev/scapy#1702: a sniffer on the sending end counts the sender's own frames."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    near, far = gained(client.statistics), gained(server.statistics)
    with lk.UdpSink(lab["server"]):
        lk.send_frames(client, lk.udp(lab["client"], lab["server"]), N)
        lab.ledger()
    assert near().get("tx_packets") == N
    assert near().get("rx_packets", 0) == 0
    assert far().get("rx_packets") == N


@pytest.mark.parametrize(
    ("what", "said"),
    [("own", "interface client eth0 is down"), ("peer", "peer server eth0 is down"), ("size", "longer than the MTU")],
)
def test_py_09_an_errno_means_a_link(lab: lk.Lab, gained: Gained, what: str, said: str) -> None:
    """PY-09, secdev/scapy#724: errors 100, 105 and 90 of a send say which link is down, or that the frame is long."""
    client, server = lab["client"]["eth0"], lab["server"]["eth0"]
    arrived = gained(server.statistics)
    if what == "own":
        client.set_down()
    elif what == "peer":
        server.set_down()
    frame = lk.udp(lab["client"], lab["server"], size=1600 if what == "size" else 64)
    report = lk.send_frames(client, frame, N)
    assert (report.sent, report.failed) == (0, N)
    [(name, count)] = report.failures.items()
    assert said in name
    assert count == N
    assert arrived().get("rx_packets", 0) == 0
