"""What helpers answer to the follower: worked out here where the rules are plain, asked of the kernel where they aren't."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from labkit.analysis.arithmetic import MASK64, signed
from labkit.analysis.helpers import MAP_LOOKUP, REDIRECT, REDIRECT_MAP, TAIL_CALL, helper_name
from labkit.follow.asking import Argument, Asked, Bytes, Context, MapFd, ask
from labkit.follow.models import CannotFollow, MapModel
from labkit.uapi import XdpAction

if TYPE_CHECKING:
    from labkit.follow.follower import Follower

__all__ = ["FIXED", "FIXED_IN_WORDS", "Answers"]

# enum bpf_func_id, include/uapi/linux/bpf.h
_UPDATE, _DELETE, _CPU, _CSUM_DIFF, _HEAD, _META = 2, 3, 8, 28, 44, 54
_TAIL, _FIB, _LOCK, _UNLOCK = 65, 69, 93, 94
_RING_OUTPUT, _RING_RESERVE, _RING_SUBMIT, _RING_DISCARD = 130, 131, 132, 133
_LENGTH, _LOAD, _STORE = 188, 189, 190
_FIB_BYTES = 64  # struct bpf_fib_lookup

FIXED = {5: "time", 125: "time", 160: "time", 208: "time", 118: "ticks", 7: "chance", 6: "print", 177: "print"}
"""Helpers of which no two calls answer alike: ktime_get_ns and its kin, jiffies64, get_prandom_u32, trace_printk."""
FIXED_IN_WORDS = {
    "time": "Every question for the time is answered alike, with the time of the replay.",
    "ticks": "Every question for the kernel's ticks is answered with 0.",
    "chance": "Every question for a random number is answered with the same one.",
    "driver": "Every question to the driver is answered with -ENODATA, as for a packet that came without an skb.",
    "print": "bpf_trace_printk is left out: a replay writes nothing into the machine's trace.",
}


class Answers:
    """Answers for one program. ``maps`` are its copies' descriptors, ``run`` does a job in the interface's namespace."""

    def __init__(
        self,
        fixed: Mapping[int, int],
        maps: Mapping[str, int],
        cpu: int,
        place: tuple[int, int],
        run: Callable[[Callable[[], Asked]], Asked],
    ) -> None:
        self.fixed, self._maps, self._cpu, self._place, self._run = fixed, maps, cpu, place, run
        self._rules: dict[int, Callable[[Follower, tuple[int, ...]], int]] = {
            MAP_LOOKUP: self._lookup,
            _UPDATE: self._update,
            _DELETE: self._delete,
            _CPU: lambda _f, _a: self._cpu,
            REDIRECT: lambda _f, a: int(XdpAction.ABORTED if a[1] else XdpAction.REDIRECT),
            REDIRECT_MAP: self._redirect_map,
            _HEAD: lambda f, a: f.buffer.adjust_head(signed(a[1], 32)),
            _META: lambda f, a: f.buffer.adjust_meta(signed(a[1], 32)),
            _TAIL: lambda f, a: f.buffer.adjust_tail(signed(a[1], 32)),
            _LENGTH: lambda f, _a: f.buffer.end - f.buffer.data,
            _LOAD: self._load_bytes,
            _STORE: self._store_bytes,
            _CSUM_DIFF: self._csum_diff,
            _FIB: self._fib,
            _LOCK: lambda _f, _a: 0,
            _UNLOCK: lambda _f, _a: 0,
            _RING_OUTPUT: self._ring_output,
            _RING_RESERVE: self._ring_reserve,
            _RING_SUBMIT: lambda _f, _a: 0,
            _RING_DISCARD: lambda _f, _a: 0,
        }

    def answer(self, number: int, arguments: tuple[int, ...], asking: Follower) -> int:
        """r0 after the call. Raises CannotFollow for a helper that is not known here."""
        if number in self.fixed:
            return self.fixed[number]
        rule = self._rules.get(number)
        if rule is None:
            what = "goes on in another program" if number == TAIL_CALL else "is not one that can be followed"
            raise CannotFollow(f"{helper_name(number)} {what}")
        return rule(asking, arguments) & MASK64

    # Maps

    @staticmethod
    def _map(asking: Follower, pointer: int) -> MapModel:
        found = asking.map_at(pointer)
        if found is None:
            raise CannotFollow("it hands on a map that is not known here")
        return found

    def _lookup(self, asking: Follower, given: tuple[int, ...]) -> int:
        model = self._map(asking, given[0])
        key, region = model.lookup(asking.bytes_at(given[1], model.spec.key_size))
        asking.looked_up(model.spec.name, key, region, given[1])
        return region.address if region is not None else 0

    def _update(self, asking: Follower, given: tuple[int, ...]) -> int:
        model = self._map(asking, given[0])
        key, value = asking.bytes_at(given[1], model.spec.key_size), asking.bytes_at(given[2], model.spec.value_size)
        return model.update(key, value, given[3])

    def _delete(self, asking: Follower, given: tuple[int, ...]) -> int:
        model = self._map(asking, given[0])
        return model.delete(asking.bytes_at(given[1], model.spec.key_size))

    def _redirect_map(self, asking: Follower, given: tuple[int, ...]) -> int:
        name = self._map(asking, given[0]).spec.name
        asking.looked_up(name, struct.pack("=I", given[1] & 0xFFFFFFFF), None)
        return self._ask(REDIRECT_MAP, (MapFd(self._maps[name]), given[1] & 0xFFFFFFFF, given[2])).answer

    def _ring_reserve(self, asking: Follower, given: tuple[int, ...]) -> int:
        model = self._map(asking, given[0])
        return asking.memory.add("ring buffer", given[1]).address if model.reserve(given[1]) else 0

    def _ring_output(self, asking: Follower, given: tuple[int, ...]) -> int:
        model = self._map(asking, given[0])
        return 0 if model.reserve(given[2]) else -errno.EAGAIN

    # The packet

    def _load_bytes(self, asking: Follower, given: tuple[int, ...]) -> int:
        offset, length = given[1] & 0xFFFFFFFF, given[3] & 0xFFFFFFFF
        buffer = asking.buffer
        if offset + length > buffer.end - buffer.data:
            return -errno.EINVAL
        asking.copied(buffer.data + offset, length, given[2])
        return 0

    def _store_bytes(self, asking: Follower, given: tuple[int, ...]) -> int:
        offset, length = given[1] & 0xFFFFFFFF, given[3] & 0xFFFFFFFF
        buffer = asking.buffer
        if offset + length > buffer.end - buffer.data:
            return -errno.EINVAL
        at = buffer.data + offset
        buffer.memory[at : at + length] = asking.bytes_at(given[2], length)
        return 0

    # Asked of the kernel

    def _csum_diff(self, asking: Follower, given: tuple[int, ...]) -> int:
        def argument(pointer: int, size: int) -> Argument:
            return Bytes(asking.bytes_at(pointer, size)) if size else 0

        before, after = given[1] & 0xFFFFFFFF, given[3] & 0xFFFFFFFF
        if (before | after) % 4:
            return -errno.EINVAL
        seed = given[4] & 0xFFFFFFFF
        asked = (argument(given[0], before), before, argument(given[2], after), after, seed)
        return self._ask(_CSUM_DIFF, asked).answer

    def _fib(self, asking: Follower, given: tuple[int, ...]) -> int:
        if given[2] & 0xFFFFFFFF != _FIB_BYTES:
            raise CannotFollow("it asks the routing table in a form that is not known here")
        wanted = Bytes(asking.bytes_at(given[1], _FIB_BYTES))
        asked = self._ask(_FIB, (Context(), wanted, _FIB_BYTES, given[3] & 0xFFFFFFFF))
        asking.write(given[1], asked.memory[0])
        return asked.answer

    def _ask(self, helper: int, arguments: tuple[Any, ...]) -> Asked:
        ifindex, queue = self._place
        try:
            return self._run(lambda: ask(helper, arguments, ifindex=ifindex, queue=queue))
        except OSError as error:
            raise CannotFollow(
                f"the kernel did not say what {helper_name(helper)} answers: {error.strerror}"
            ) from error
