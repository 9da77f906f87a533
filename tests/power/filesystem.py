"""
A file system that records when each byte becomes durable. Only its own process imports it: libfuse.

It passes every call through to a folder, and appends each change and each sync to a log. `images`
builds from that log what a disk holds after its power failed at any moment.

It also fails single calls. A line on standard input arms it: the number of the call, counted from
now, and an error (`3 ENOSPC`; `SHORT` writes half; `0 -` only counts). It answers each line with
the number of calls since the line before.

    python -m tests.power.filesystem FOLDER MOUNT_POINT LOG
"""

import errno
import os
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

import mfusepy  # type: ignore[import-untyped]

HANDLE_FLAGS = os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_DIRECT
"""Flags that are not for the folder below: the kernel passes offsets and has resolved the rest."""


class Faults:
    def __init__(self) -> None:
        self._calls = 0
        self._fails_at = 0
        self._error = ""

    def arm(self, number: int, error: str) -> int:
        """Fail the call of a number, counted from now; return the calls since the last request."""
        calls, self._calls = self._calls, 0
        self._fails_at, self._error = number, error
        return calls

    def count(self, size: int = 0) -> int:
        """Count a call. Raise its error, or return how many of its bytes are written."""
        self._calls += 1
        if self._calls != self._fails_at:
            return size
        if self._error == "SHORT":
            return max(1, size // 2)
        raise OSError(getattr(errno, self._error), "a fault of the sweep")


class RecordingFiles(mfusepy.Operations):  # type: ignore[misc]
    """The calls of the kernel; `folder` holds the files, `log` receives the changes."""

    use_ns = True

    def __init__(self, folder: Path, log: BinaryIO) -> None:
        self._root = str(folder)
        self._log = log
        self.faults = Faults()
        self._lock = threading.Lock()
        self._numbers: dict[int, int] = {}  # inode below -> number of the file
        self._next = 1
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                self._record("initial", file=self._new(path.stat().st_ino), path=self._short(path))

    def _short(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    def _new(self, inode: int) -> int:
        self._numbers[inode] = self._next
        self._next += 1
        return self._next - 1

    def _record(self, kind: str, **values: Any) -> None:
        pickle.dump((time.monotonic_ns(), kind, values), self._log, protocol=5)

    def _below(self, path: str) -> str:
        return self._root + path

    def _number(self, handle: int) -> int:
        inode = os.fstat(handle).st_ino
        return self._numbers.get(inode) or self._new(inode)

    def _give(self, below: str) -> None:
        user, group, _ = mfusepy.fuse_get_context()
        os.lchown(below, user, group)

    # Reading

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.fstat(fh) if fh is not None else os.lstat(self._below(path))
        names = ("mode", "nlink", "uid", "gid", "size", "ino", "blocks")
        values: dict[str, Any] = {f"st_{name}": getattr(found, f"st_{name}") for name in names}
        return values | {f"st_{name}": getattr(found, f"st_{name}_ns") for name in _TIMES}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._below(path))]

    def readlink(self, path: str) -> str:
        return os.readlink(self._below(path))

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._below(path))
        names = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "frsize")
        return {f"f_{name}": getattr(found, f"f_{name}") for name in (*names, "namemax")}

    def open(self, path: str, flags: int) -> int:
        self.faults.count()
        handle = os.open(self._below(path), _writable(flags & ~HANDLE_FLAGS & ~os.O_TRUNC))
        if flags & os.O_TRUNC:
            self._resize(handle, 0)
        return handle

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        self.faults.count()
        return os.pread(fh, size, offset)

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    # Changing contents

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        with self._lock:
            self.faults.count()
            handle = os.open(self._below(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
            self._give(self._below(path))
            number = self._new(os.fstat(handle).st_ino)
            self._record("create", file=number, path=path[1:], offset=mode)
        return handle

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        with self._lock:
            allowed = len(data) if _is_shared_memory(path) else self.faults.count(len(data))
            written = os.pwrite(fh, data[:allowed], offset)
            part = bytes(data[:written])
            self._record("write", file=self._number(fh), offset=offset, data=part)
        return written

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        handle = os.open(self._below(path), os.O_RDWR) if fh is None else fh
        try:
            self._resize(handle, length)
        finally:
            if fh is None:
                os.close(handle)
        return 0

    def _resize(self, handle: int, length: int) -> None:
        with self._lock:
            self.faults.count()
            os.ftruncate(handle, length)
            self._record("resize", file=self._number(handle), offset=length)

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        """Make the contents of a file durable; the folder below need not be synced for that."""
        with self._lock:
            self.faults.count()
            self._record("sync", file=self._number(fh))
        return 0

    def flush(self, path: str, fh: int) -> int:
        """Do nothing: closing a file makes nothing durable."""
        return 0

    # Changing names

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        with self._lock:
            self.faults.count()
            self._record("sync names", path=path[1:])
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        with self._lock:
            self.faults.count()
            os.mkdir(self._below(path), mode)
            self._give(self._below(path))
            self._record("mkdir", path=path[1:], offset=mode)
        return 0

    def rmdir(self, path: str) -> int:
        with self._lock:
            os.rmdir(self._below(path))
            self._record("rmdir", path=path[1:])
        return 0

    def unlink(self, path: str) -> int:
        with self._lock:
            self.faults.count()
            os.unlink(self._below(path))
            self._record("unlink", path=path[1:])
        return 0

    def rename(self, old: str, new: str) -> int:
        with self._lock:
            self.faults.count()
            os.rename(self._below(old), self._below(new))
            self._record("rename", path=old[1:], target=new[1:])
        return 0

    def link(self, target: str, source: str) -> int:
        with self._lock:
            os.link(self._below(source), self._below(target))
            self._record("link", path=source[1:], target=target[1:])
        return 0

    def symlink(self, target: str, source: str) -> int:
        with self._lock:
            os.symlink(source, self._below(target))
            self._record("symlink", path=target[1:], target=source)
        return 0

    def mknod(self, path: str, mode: int, dev: int) -> int:
        """Make a socket; it does not outlive a power failure."""
        os.mknod(self._below(path), mode, dev)
        self._give(self._below(path))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        """Set the mode; it is durable at once."""
        with self._lock:
            os.chmod(self._below(path), mode)
            self._record("chmod", path=path[1:], offset=mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.lchown(self._below(path), uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        options = {} if times is None else {"ns": times}
        os.utime(self._below(path), **options, follow_symlinks=False)  # type: ignore[arg-type]
        return 0


_TIMES = ("atime", "mtime", "ctime")


def _is_shared_memory(path: str) -> bool:
    """
    True if SQLite maps a file into memory, and keeps nothing in it.

    When the kernel fails to write a mapped page, a disk's file system keeps the page in memory.
    FUSE can drop it, and SQLite would go on with an old page.
    """
    return path.endswith("-shm")


def _writable(flags: int) -> int:
    """Return flags that let the kernel read a page before it writes a part of it."""
    return flags & ~os.O_ACCMODE | os.O_RDWR if flags & os.O_ACCMODE == os.O_WRONLY else flags


def read_commands(faults: Faults) -> None:
    for line in sys.stdin:
        number, error = line.split()
        print(faults.arm(int(number), error), flush=True)  # noqa: T201 - the answer


def main() -> None:
    """Serve until the mount point is unmounted."""
    folder, mount_point, log = sys.argv[1:]
    with open(log, "wb", buffering=1 << 20) as opened:
        files = RecordingFiles(Path(folder), opened)
        threading.Thread(target=read_commands, args=(files.faults,), daemon=True).start()
        options = {"allow_other": True, "default_permissions": True, "hard_remove": True}
        mfusepy.FUSE(files, mount_point, foreground=True, **options)


if __name__ == "__main__":
    main()
