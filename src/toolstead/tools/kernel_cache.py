"""Opens and reads what the kernel has in its caches, and never waits for a disk or a network.

An event loop may use it: whatever is not in the caches is an `OSError` at once, and a worker thread reads
it then. Three things keep it from waiting. `openat2` with RESOLVE_CACHED looks names up in the
cache alone; a read with RWF_NOWAIT takes bytes from the page cache alone; and only file systems are
used whose own `open` asks nobody (that of NFS or FUSE does), on which no mount point is crossed. All
this is of Linux; elsewhere, and on other file systems, nothing is ever available here.

Nothing here decides what may be read: that is `confinement`, which is above.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

_AT_FDCWD = -100
_OPENAT2 = 437
_SAME_NUMBER = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x", "i686", "armv7l"})
"""Machines on which `openat2` has this number; on few others it has another one."""
_NO_XDEV, _NO_MAGICLINKS, _BENEATH, _CACHED = 0x01, 0x02, 0x08, 0x20
_READ_AT_ONCE = frozenset({"ext3", "ext4", "xfs", "btrfs", "f2fs"})
"""File systems whose `open` asks nobody and that know RWF_NOWAIT."""


def open_folder(path: bytes) -> int:
    """Open a folder by its path, as a place to start from.

    Raises:
        OSError: There is none, or the cache does not tell.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # with O_PATH no file system is asked
    return _open_cached(_AT_FDCWD, path, flags, _CACHED)


def open_below(folder: int, path: bytes) -> int:
    """Open a file below a folder for reading, on the folder's own mount; links that stay below are followed.

    Raises:
        OSError: There is none, it leads out, or the cache does not tell.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    return _open_cached(folder, path, flags, _BENEATH | _NO_XDEV | _NO_MAGICLINKS | _CACHED)


def read_file(descriptor: int, size: int) -> bytes:
    """The first bytes of an open file.

    Raises:
        BlockingIOError: Not all of them are in the page cache, or there are fewer.
        OSError: The file system cannot tell.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    buffer = bytearray(size)
    if os.preadv(descriptor, [buffer], 0, os.RWF_NOWAIT) != size:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return bytes(buffer)


def find_device(folder: Path) -> int | None:
    """The device number of a folder's file system, if files on it can be had at once. May wait, so not for a loop.

    Raises:
        OSError: The folder cannot be opened.
    """
    if sys.platform != "linux" or _load_openat2() is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        facts = dict(line.split(b":", 1) for line in Path(f"/proc/self/fdinfo/{descriptor}").read_bytes().splitlines())
        mounts = (line.partition(b" - ") for line in Path("/proc/self/mountinfo").read_bytes().splitlines())
        kinds = {before.split(b" ")[0]: after.split(b" ")[0].decode() for before, _, after in mounts}
        kind = kinds.get(facts.get(b"mnt_id", b"").strip())
        return os.fstat(descriptor).st_dev if kind in _READ_AT_ONCE else None
    finally:
        os.close(descriptor)


def _open_cached(folder: int, path: bytes, flags: int, resolve: int) -> int:
    openat2 = _load_openat2()
    if openat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return openat2(folder, path, struct.pack("=QQQ", flags, 0, resolve))


@cache
def _load_openat2() -> Callable[[int, bytes, bytes], int] | None:
    """The system call, which Python has no function for; None where there is none."""
    if sys.platform != "linux" or os.uname().machine not in _SAME_NUMBER:
        return None
    try:
        import ctypes  # only a call that reads pays for it
    except ImportError:
        return None
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)

    def openat2(folder: int, path: bytes, how: bytes) -> int:
        if b"\0" in path:  # the path would end there
            raise ValueError("a path has no null byte")
        descriptor = syscall(_OPENAT2, folder, path, how, len(how))
        if descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return descriptor

    return openat2
