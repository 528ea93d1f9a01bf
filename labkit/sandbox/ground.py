"""What a sandbox of root's sees of the lab's folder, where no user is named and it runs as nobody.

Nobody may not enter root's folders. So the lab's folder is mounted a second time, in a mount namespace of the
launcher's, read-only and with its owner shown as nobody (an ID-mapped mount, Linux 5.12 or later). The home is nobody's
own. The notebooks are lent for writing only from behind a folder that is shut to everybody but root: what is written
there is root's on disk, and elsewhere another user could run it as root's (a set-user-ID program, for one).
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import FeatureError

__all__ = ["CHECKOUT", "HOMES", "Ground", "default_ground", "lay"]

CHECKOUT = Path(__file__).resolve().parents[2]
HOMES = Path("/var/lib/xdp-lab")  # of users who have none: nobody, and numbers without a name

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # include/uapi/asm-generic/unistd.h, the same everywhere
_CLONE, _CLOEXEC, _RECURSIVE, _EMPTY_PATH, _AT_FDCWD = 1, 0o2000000, 0x8000, 0x1000, -100
_FROM_EMPTY_PATH = 4  # MOVE_MOUNT_F_EMPTY_PATH, include/uapi/linux/mount.h
_READ_ONLY, _ID_MAPPED, _NOSUID = 0x1, 0x100000, 0x2  # MOUNT_ATTR_*, there too
_CLONE_NEWNS, _PRIVATE = 0x20000, 0x44000  # the latter: MS_REC | MS_PRIVATE
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Ground:
    """For a sandbox of this user: folders ``shown`` read-only, ``lent`` for writing, and the user's own ``home``."""

    uid: int
    gid: int
    shown: tuple[Path, ...]
    lent: tuple[Path, ...]
    home: Path


def default_ground(uid: int, gid: int) -> Ground:
    """The lab's folder, its notebooks for writing where that is safe, and the user's home, which is made."""
    notebooks = CHECKOUT / "notebooks"
    home = Path(os.environ.get("XDP_LAB_HOME") or HOMES / "home").resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chown(home, uid, gid)
    shut = any(_is_shut(above) for above in notebooks.parents)
    return Ground(uid, gid, (CHECKOUT,), (notebooks,) if shut else (), home)


def _is_shut(folder: Path) -> bool:
    """Whether nobody but root may enter."""
    status = folder.stat()
    return status.st_uid == 0 and not status.st_mode & 0o077


def lay(ground: Ground) -> None:
    """Enter a new mount namespace and mount the ground there: for a thread that then starts the launcher, and ends.

    Raises FeatureError where the kernel refuses such mounts.
    """
    _call("a mount namespace", _libc.unshare, _CLONE_NEWNS)
    _call("private mounts", _libc.mount, None, b"/", None, _PRIVATE, None)
    with _IdMaps(ground) as maps:
        trees = [(folder, _mapped(folder, _READ_ONLY, maps)) for folder in ground.shown]
        trees += [(folder, _mapped(folder, 0, maps)) for folder in ground.lent]
    trees.append((ground.home, _tree(ground.home)))
    hidden = {barrier for folder, _ in trees if (barrier := _barrier(folder))}
    for barrier in sorted(hidden):
        _call(barrier, _libc.mount, b"tmpfs", os.fsencode(barrier), b"tmpfs", 0, b"mode=755,size=1m")
    for folder, tree in trees:
        folder.mkdir(parents=True, exist_ok=True)  # in the tmpfs over what can't be entered; elsewhere it is there
        _call(folder, _libc.syscall, _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(folder), _FROM_EMPTY_PATH)
        os.close(tree)


def _barrier(folder: Path) -> Path | None:
    """The outermost folder on the way there that not everybody may enter."""
    for above in reversed(folder.parents):
        if not above.stat().st_mode & stat.S_IXOTH:
            return above
    return None


def _tree(folder: Path) -> int:
    """A descriptor of ``folder`` as a mount of its own, mounted nowhere yet."""
    return _call(folder, _libc.syscall, _OPEN_TREE, _AT_FDCWD, os.fsencode(folder), _CLONE | _CLOEXEC | _RECURSIVE)


def _mapped(folder: Path, attributes: int, maps: _IdMaps) -> int:
    """The same, with its owner shown as the ground's user.

    A file system without ID maps (overlayfs, as containers have it) is shown as it is: its files can be read where
    everybody may read them.
    """
    tree = _tree(folder)
    try:
        try:
            _set_attributes(folder, tree, _ID_MAPPED | _NOSUID | attributes, maps.of(folder.stat()))
        except FeatureError:
            _set_attributes(folder, tree, _NOSUID | _READ_ONLY, 0)
    except BaseException:
        os.close(tree)
        raise
    return tree


def _set_attributes(folder: Path, tree: int, attributes: int, names: int) -> None:
    packed = struct.pack(
        "=QQQQ", attributes, 0, 0, names
    )  # struct mount_attr: attr_set, attr_clr, propagation, userns_fd
    _call(folder, _libc.syscall, _MOUNT_SETATTR, tree, b"", _EMPTY_PATH, packed, len(packed))


class _IdMaps:
    """User namespaces that nobody is in, one for each owner: they map the owner to the ground's user."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self._made: dict[tuple[int, int], int] = {}

    def of(self, owner: os.stat_result) -> int:
        """The descriptor of the map for files of this owner."""
        key = (owner.st_uid, owner.st_gid)
        if key not in self._made:
            self._made[key] = _id_map((owner.st_uid, self.ground.uid), (owner.st_gid, self.ground.gid))
        return self._made[key]

    def __enter__(self) -> _IdMaps:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._made.values():
            os.close(descriptor)


def _id_map(uids: tuple[int, int], gids: tuple[int, int]) -> int:
    """A descriptor of a user namespace that maps the first of each pair to the second; no process stays in it."""
    # It takes a process to make one: a `cat` that waits.
    with subprocess.Popen(["unshare", "--user", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.write(b"?")
        holder.stdin.flush()
        holder.stdout.read(1)  # it answers: it is in its namespace
        try:
            Path(f"/proc/{holder.pid}/gid_map").write_text(f"{gids[0]} {gids[1]} 1")
            Path(f"/proc/{holder.pid}/uid_map").write_text(f"{uids[0]} {uids[1]} 1")
            return os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            holder.stdin.close()


def _call(on: object, function: object, *arguments: object) -> int:
    result = function(*(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))  # type: ignore[operator]
    if result < 0:
        number = ctypes.get_errno()
        raise FeatureError(
            "The lab's folder can't be lent to the sandbox, which runs as nobody.",
            tried="to mount it with its owner shown as nobody",
            on=str(on),
            errno=number,
            remedy="name a user whose folder it is: labkit sandbox --user U -- CMD",
        )
    return int(result)
