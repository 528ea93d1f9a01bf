"""Feature probes on the running kernel. What is asserted, every supported kernel (Linux 6.1 or later) has."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import until

from labkit.doctor import doctor
from labkit.errors import StateError
from labkit.kernel import bpf, features
from labkit.kernel.features import Feature
from labkit.kernel.netdev import DeviceFeatures, NetdevSocket, XdpFeature
from labkit.kernel.probes import device, objects
from labkit.uapi import AttachType, BpfCmd, MapType, ProgType, XdpAction, XdpFlag


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    features.forget()
    yield
    features.forget()


def leftovers() -> tuple[set[str], list[str], int]:
    """What a probe could leave in this process: threads, descriptors (by what they point to), namespaces."""
    threads = {thread.name for thread in threading.enumerate()}
    descriptors = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            descriptors.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue  # the listing's own
    namespaces = {os.readlink(f"/proc/self/task/{task}/ns/net") for task in os.listdir("/proc/self/task")}
    return threads, sorted(descriptors), len(namespaces)


def probe_programs() -> set[int]:
    """Ids of loaded programs of the probes' name."""
    found = set()
    for ident in bpf.object_ids(BpfCmd.PROG_GET_NEXT_ID):
        try:
            fd = bpf.prog_fd_by_id(ident)
        except OSError:
            continue  # gone meanwhile
        with os.fdopen(fd, "rb", closefd=True):
            if bpf.prog_info(fd).name == "lab_probe":
                found.add(ident)
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("bpf_syscall", "btf", "network_namespaces", "veth", "native_xdp", "generic_xdp", "af_xdp"),
        *("drop_reasons", "user_notification"),
    ],
)
def test_what_every_supported_kernel_has(name: str) -> None:
    found: Feature = getattr(features, name)()
    assert found, found
    assert found.detail
    assert found.errno is None


@pytest.mark.parametrize("kind", list(objects._SHAPES))
def test_map_types(kind: MapType) -> None:
    assert features.has_map_type(kind), features.map_type(kind)


def test_a_map_type_that_takes_more_than_a_shape() -> None:
    with pytest.raises(ValueError, match="ARRAY_OF_MAPS can't be probed alone"):
        features.map_type(MapType.ARRAY_OF_MAPS)


@pytest.mark.parametrize(
    "name", ["xdp_exception", "xdp_redirect", "xdp_redirect_err", "xdp_devmap_xmit", "xdp_bulk_tx", "kfree_skb"]
)
def test_tracepoints(name: str) -> None:
    assert features.has_tracepoint(name)


def test_a_tracepoint_that_no_kernel_has() -> None:
    found = features.tracepoint("xdp_no_such_event")
    assert not found
    assert not found.refused
    assert found.detail


def test_newer_features_answer_yes_or_no() -> None:
    for probe in (features.tcx, features.xdp_features, features.rx_metadata, features.jit):
        found = probe()
        assert found.present or found.errno, found


def test_nothing_is_left_behind() -> None:
    doctor(strict=False)  # what Python opens once is open now
    features.forget()
    before = leftovers()
    doctor(strict=False)
    assert leftovers() == before
    before_it = probe_programs()
    doctor(strict=False)
    more = probe_programs() - before_it
    # A neighbour's probes, too, have this name: they go in a moment, and what we left would stay.
    until(lambda: not more & probe_programs(), "probes to go")


def test_a_probe_is_tried_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    original = device.namespace

    def counted() -> object:
        tried.append(1)
        return original()

    monkeypatch.setattr(device, "namespace", counted)
    threads = [threading.Thread(target=features.native_xdp) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert features.native_xdp()
    assert features.af_xdp()
    assert len(tried) == 1
    features.forget()
    assert features.veth()
    assert len(tried) == 2


def test_one_device_probe_that_fails_leaves_the_others_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> str:
        raise OSError(95, "Operation not supported")

    monkeypatch.setitem(device.ON_DEVICE, "native_xdp", refused)
    assert features.native_xdp() == Feature(False, "Operation not supported", 95)
    assert features.generic_xdp()
    assert features.af_xdp()


def test_no_namespace_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from labkit.kernel import netns

    def refused(_: int) -> int:
        import ctypes

        ctypes.set_errno(1)
        return -1

    monkeypatch.setattr(netns._libc, "unshare", refused, raising=False)
    found = features.native_xdp()
    assert not found
    assert found.refused
    assert "network namespace" in found.detail


def test_the_doctor_finds_this_machine_fit() -> None:
    report = doctor()
    assert report.ok
    assert report["native XDP"].state == "ok"
    assert "BCC" in report["BCC"].found


def in_pair() -> DeviceFeatures:
    """The features of a veth, read in a namespace of its own."""
    with device.namespace() as thread:

        def ask() -> DeviceFeatures:
            with device.veth_pair() as ifindex:
                return device.device_features(ifindex)

        return thread.run(ask)


def has_netdev() -> bool:
    return Path("/proc/sys/net").exists() and bool(features.xdp_features())


def test_netdev_names_what_a_veth_can_do() -> None:
    if not has_netdev():
        pytest.skip("the kernel has no netdev netlink family (Linux 6.3); run on a newer one to force it")
    found = in_pair()
    assert XdpFeature.BASIC in found.xdp
    assert found.zero_copy_segments in (0, 1)


def test_a_veth_can_send_redirected_frames_once_its_peer_has_a_program() -> None:
    if not has_netdev():
        pytest.skip("the kernel has no netdev netlink family (Linux 6.3); run on a newer one to force it")

    def ask() -> tuple[XdpFeature, XdpFeature]:
        with device.veth_pair() as ifindex, NetdevSocket() as netdev:
            before = netdev.features(ifindex).xdp
            program = objects.constant_program(ProgType.XDP, XdpAction.PASS)
            peer = socket.if_nametoindex("probe1")
            link = bpf.link_create(program, peer, AttachType.XDP, int(XdpFlag.DRV_MODE))
            try:
                return before, netdev.features(ifindex).xdp
            finally:
                os.close(link)
                os.close(program)

    with device.namespace() as thread:
        before, after = thread.run(ask)
    assert before in after
    assert XdpFeature.NDO_XMIT in after
    assert XdpFeature.NDO_XMIT not in before


def test_netdev_says_when_there_is_no_such_device() -> None:
    if not has_netdev():
        pytest.skip("the kernel has no netdev netlink family (Linux 6.3); run on a newer one to force it")

    def ask() -> None:
        with NetdevSocket() as netdev, pytest.raises(OSError, match="No such device"):
            netdev.features(9999)

    with device.namespace() as thread:
        thread.run(ask)
        ident = thread.inode
    assert ident
    with pytest.raises(StateError):
        thread.run(ask)
