"""Maps that a redirect sends packets by: devices (devmap), CPUs (cpumap), each slot with a program if one wants; sockets."""

from __future__ import annotations

import contextlib
import errno
import socket
import weakref
from collections.abc import Callable, Mapping
from operator import index
from struct import Struct
from typing import Any, ClassVar, NoReturn, Protocol, runtime_checkable

from labkit.errors import MapError
from labkit.kernel.btf import Btf
from labkit.kernel.cpus import possible_cpus
from labkit.kernel.netns import namespace_inode
from labkit.program.layout import Layout
from labkit.program.map import Map
from labkit.program.ring import RingMap
from labkit.program.spec import MapSpec
from labkit.uapi import AttachType, MapType

__all__ = ["CpuMap", "DeviceMap", "SocketMap", "map_class"]

_MOST_WAITING = 16384  # cpu_map_alloc_elem's bound on qsize, kernel/bpf/cpumap.c
_U32 = Struct("=I")
_ENTRY = Struct("=Ii")  # struct bpf_devmap_val and struct bpf_cpumap_val, include/uapi/linux/bpf.h


@runtime_checkable
class Device(Protocol):
    """What a devmap needs of an interface."""

    where: str
    ifindex: int

    def run(self, function: Callable[..., Any], *args: Any) -> Any: ...


@runtime_checkable
class Loaded(Protocol):
    """What a slot needs of a program."""

    name: str
    fd: int
    expected_attach_type: int


@runtime_checkable
class Receiver(Protocol):
    """What a socket map needs of an AF_XDP socket: ``noted`` is told of each slot that it comes to be in."""

    @property
    def where(self) -> str: ...
    @property
    def fd(self) -> int: ...
    def noted(self, sockets: SocketMap, slot: int) -> None: ...


class _TargetMap(Map):
    """What devmap and cpumap have in common: a value is the target alone, or the target and a program.

    ``m[slot] = target``, ``= (target, program)`` or ``= {field: target, "fd": program}``; the program must have been
    loaded with the map's own ``expected_attach_type``. Read back, the target is a number and the program its ``id``
    (0: none). ``del m[slot]`` empties the slot.
    """

    _field: str
    _attach_type: AttachType
    _programs_macro: str

    def __init__(self, spec: MapSpec, fd: int, btf: Btf | None = None) -> None:
        super().__init__(spec, fd, btf)
        number = Layout(4, "int")
        self._takes_programs = spec.value_size == _ENTRY.size
        fields = ((self._field, 0, number), ("id", 4, number))  # the kernel takes a descriptor and gives an id
        self._value = Layout(_ENTRY.size, "struct", fields=fields) if self._takes_programs else number

    def _taken_apart(self, slot: Any, value: Any) -> tuple[Any, int]:
        """The target, and the descriptor of the program (0: none)."""
        if isinstance(value, Mapping):
            unknown = set(value) - {self._field, "fd"}
            if unknown or self._field not in value:
                raise self._unfit(
                    slot, value, f'give {{"{self._field}": …, "fd": program}}, the second if you want one'
                )
            return value[self._field], self._descriptor(slot, value.get("fd"))
        if isinstance(value, tuple) and len(value) == 2:
            return value[0], self._descriptor(slot, value[1])
        return value, 0

    def _descriptor(self, slot: Any, program: Any) -> int:
        if program is None or (program == 0 and not isinstance(program, bool)):
            return 0
        if not isinstance(program, Loaded):
            raise self._unfit(slot, program, "give a program as lab.load(…) returned it, or None")
        if not self._takes_programs:
            raise self._wrong(
                slot,
                f"The map {self.name} holds no programs.",
                f"declare it with {self._programs_macro}(name, entries)",
            )
        device = getattr(program, "device", None)
        if device is not None:
            raise self._wrong(
                slot,
                f"{program.name} is bound to {device.where}: it runs in that device's driver, not from a map.",
                "load it without device=; what the driver knows can be asked for at the entry alone, and put before "
                "the packet for those who come later (bpf_xdp_adjust_meta)",
            )
        if program.expected_attach_type != self._attach_type:
            wanted = f"AttachType.{self._attach_type.name}"
            raise self._wrong(
                slot,
                f"{program.name} was not loaded for {self._attach_type.name}: the kernel would not run it from a map.",
                f"load it with lab.load(spec, {program.name!r}, expected_attach_type={wanted})",
            )
        return program.fd

    def _slot(self, key: Any) -> Any:
        """``key``, where there is such a slot."""
        if isinstance(key, int) and key >= self.spec.max_entries:
            number = self.spec.max_entries
            raise self._wrong(key, f"The map {self.name} has no slot {key}.", f"it has {number}: 0 to {number - 1}")
        return key

    def _entry(self, number: int, descriptor: int) -> bytes:
        return _ENTRY.pack(number, descriptor) if self._takes_programs else _U32.pack(number)

    def _unfit(self, slot: Any, value: Any, remedy: str) -> MapError:
        return self._wrong(slot, f"{value!r} does not fit slot {slot!r} of the map {self.name}.", remedy)

    def _wrong(self, slot: Any, message: str, remedy: str, number: int | None = None) -> MapError:
        on = f"{self.name} ({self.spec.type.name.lower()}), slot {slot!r}"
        return MapError(message, tried="to write an entry", on=on, errno=number, remedy=remedy)


class DeviceMap(_TargetMap):
    """A devmap: ``ports[0] = host["eth0"]``, or ``ports[0] = host["eth0"], program``.

    The kernel looks an interface's index up in the namespace of the thread that writes, and indexes repeat across
    namespaces: the write is done on the interface's own host. A bare index is taken only on a host's thread, as in
    ``host.run(ports.__setitem__, 0, 3)``.
    """

    _field = "ifindex"
    _attach_type = AttachType.XDP_DEVMAP
    _programs_macro = "LAB_DEVMAP_PROGRAMS"

    def __setitem__(self, key: Any, value: Any) -> None:
        """Send what is redirected to ``key`` out of ``value``. Raises MapError."""
        target, descriptor = self._taken_apart(self._slot(key), value)
        if isinstance(target, Device):
            target.run(self._put, key, target.ifindex, descriptor, target.where)
            return
        number = self._ifindex(key, target)
        if namespace_inode() == namespace_inode("self"):
            raise self._wrong(
                key,
                f"{number} would be an interface of this machine, outside every lab.",
                f'give the interface itself, as {self.name}[{key}] = lab["router"]["eth1"]',
            )
        self._put(key, number, descriptor, f"ifindex {number}")

    def _ifindex(self, key: Any, target: Any) -> int:
        try:
            number = index(target)
        except TypeError:
            number = 0
        if not 0 < number < 1 << 31:  # 0 would empty the slot, and no one be told
            raise self._unfit(key, target, f'give an interface, as router["eth1"]; del {self.name}[{key}] empties')
        return number

    def _put(self, key: Any, ifindex: int, descriptor: int, where: str) -> None:
        """In the namespace that ``ifindex`` belongs to."""
        try:
            self._write(key, self._entry(ifindex, descriptor))
        except MapError as error:
            if error.errno == errno.EINVAL:
                self._refused_device(key, ifindex, where, error)
            raise

    def _refused_device(self, key: Any, ifindex: int, where: str, error: MapError) -> NoReturn:
        """EINVAL says too little: the interface is gone, or the program is of another kind than the map's readers."""
        try:
            socket.if_indextoname(ifindex)
        except OSError:
            message, remedy = f"There is no {where} in this namespace.", "make the lab again, or check the index"
        else:
            message = f"The kernel would not put {where} into the map {self.name}."
            remedy = "load the program of the slot with frags= as the program that redirects"
        raise self._wrong(key, message, remedy, errno.EINVAL) from error


class CpuMap(_TargetMap):
    """A cpumap: ``cpus[1] = 192`` queues up to 192 packets for CPU 1; ``cpus[1] = 192, program`` runs one there."""

    _field = "qsize"
    _attach_type = AttachType.XDP_CPUMAP
    _programs_macro = "LAB_CPUMAP"

    def __setitem__(self, key: Any, value: Any) -> None:
        """Queue what is redirected to CPU ``key``. Raises MapError."""
        target, descriptor = self._taken_apart(self._slot(key), value)
        try:
            waiting = index(target)
        except TypeError:
            waiting = 0
        if not 0 < waiting < 1 << 32:  # 0 would empty the slot, and no one be told
            remedy = f"give a queue of 1 to {_MOST_WAITING} packets; del {self.name}[{key}] empties the slot"
            raise self._unfit(key, target, remedy)
        try:
            self._write(key, self._entry(waiting, descriptor))
        except MapError as error:
            self._name_refusal(key, waiting, error)
            raise

    def _name_refusal(self, key: Any, waiting: int, error: MapError) -> None:
        if error.errno == errno.ENODEV:
            last = possible_cpus() - 1
            message, remedy = f"This machine has no CPU {key}.", f"its CPUs are 0 to {last}" if last else "it has CPU 0"
        elif error.errno == errno.EOVERFLOW:
            message, remedy = f"A queue of {waiting} packets is too long.", f"{_MOST_WAITING} is the most"
        elif error.errno == errno.EINVAL:
            message = f"The kernel would not take this program for CPU {key}."
            remedy = "load it with frags= as the program that redirects"
        else:
            return
        raise self._wrong(key, message, remedy, error.errno) from error


class SocketMap(Map):
    """An xskmap: ``sockets[0] = xsk`` gives what is redirected to slot 0 to an AF_XDP socket. It can't be read back.

    A socket takes packets of the interface and queue that it is bound to, and no others: the slot is the queue's number by
    custom only.
    """

    _held: ClassVar[dict[tuple[int, int], weakref.ref[Receiver]]] = {}  # by the map's id and the slot

    def __setitem__(self, key: Any, value: Any) -> None:
        """Give slot ``key`` to the socket ``value``. Raises MapError."""
        on = f"{self.name} (xskmap), slot {key!r}"
        if isinstance(key, int) and not 0 <= key < self.spec.max_entries:
            most = self.spec.max_entries
            message, remedy = f"The map {self.name} has no slot {key}.", f"it has {most}: 0 to {most - 1}"
            raise MapError(message, tried="to write an entry", on=on, remedy=remedy)
        if not isinstance(value, Receiver):
            message = f"{value!r} is no AF_XDP socket."
            remedy = f'give one, as in {self.name}[0] = lk.xsk.XskSocket(server["eth0"]); del {self.name}[0] empties'
            raise MapError(message, tried="to write an entry", on=on, remedy=remedy)
        self._write(key, _U32.pack(value.fd))
        self._held[self.id, key] = weakref.ref(value)
        value.noted(self, key)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self._held.pop((self.id, key), None)

    def held(self) -> dict[int, Receiver]:
        """Sockets by slot, as the lab put them there and as far as they exist; the kernel itself tells nobody."""
        found = {slot: socket() for (ident, slot), socket in list(self._held.items()) if ident == self.id}
        return {slot: socket for slot, socket in found.items() if socket is not None}

    def empty(self, slot: int, of: Receiver) -> bool:
        """Empty ``slot`` where it is still the socket ``of`` that has it: whether it was."""
        held = self._held.get((self.id, slot))
        if held is None or held() is not of:
            return False
        del self._held[self.id, slot]
        with contextlib.suppress(KeyError):
            del self[slot]
        return True


def map_class(kind: MapType) -> type[Map]:
    """The class for maps of this type."""
    if kind in (MapType.DEVMAP, MapType.DEVMAP_HASH):
        return DeviceMap
    return {MapType.CPUMAP: CpuMap, MapType.RINGBUF: RingMap, MapType.XSKMAP: SocketMap}.get(kind, Map)
