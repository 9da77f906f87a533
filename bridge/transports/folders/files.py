"""
The files of one folder: what waits in it, what is put into it, what is moved aside.

Whatever appears under its final name is whole and on disk. Blocking: call it from a thread.
What files mean is not known here.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from bridge.store.folders import sync_folder

UNFINISHED: Final = (".tmp", ".part", ".partial", ".filepart", ".crdownload", "~")
"""Names under which senders write what they rename when it is whole."""

DONE, FAILED, ACKS = "done", "failed", "acks"
_PRIVATE: Final = 0o700
_LOCK: Final = ".lock"
_LONGEST: Final = 255  # bytes of a name, of all usual file systems


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file that waits; ordered by when it was last written, then by name."""

    written_at: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder with its `done`, `failed` and `acks`."""

    path: Path

    def prepare(self, *children: str) -> None:
        """Make the folder, and those inside it. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        for child in children:
            (self.path / child).mkdir(exist_ok=True, mode=_PRIVATE)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Be the only process that empties the folder, if nobody else is; tells which."""
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            yield False
            return
        try:
            yield True
        finally:
            os.close(descriptor)

    def waiting(self) -> list[Waiting]:
        """List the files that wait, in their order."""
        found = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(".") or name.lower().endswith(UNFINISHED):
                    continue
                try:
                    if entry.is_file(follow_symlinks=False):
                        seen = entry.stat(follow_symlinks=False)
                        found.append(Waiting(seen.st_mtime_ns, name, seen.st_size))
                except FileNotFoundError:  # its sender took it away again
                    continue
        return sorted(found, key=lambda each: (each.written_at, each.name))

    def read(self, name: str, most: int = -1) -> bytes:
        """Read a file that waits, or its first bytes."""
        with (self.path / name).open("rb") as file:
            return file.read(most)

    def move(self, name: str, child: str) -> None:
        """
        Move a file into `child`; one of the same name that lies there stays.

        `child` may lie on another file system: there it is whole before it is gone from here.
        """
        source, target = self.path / name, self.path / child / name
        target.parent.mkdir(exist_ok=True, mode=_PRIVATE)
        number = 1
        while target.exists():
            number += 1
            target = target.with_name(fitting(Path(name).stem, f".{number}{Path(name).suffix}"))
        try:
            source.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self.put(f"{child}/{target.name}", source.read_bytes())
            source.unlink()
        sync_folder(self.path / child)
        sync_folder(self.path)

    def put(self, name: str, data: bytes) -> None:
        """Write a file: under its name it is whole, and on disk; replaces one of this name."""
        target = self.path / name
        if target.parent != self.path:  # somebody may have tidied up; but never a folder unmounted
            target.parent.mkdir(exist_ok=True, mode=_PRIVATE)
        unfinished = target.with_name(fitting(f".{target.name}", ".tmp"))
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            unfinished.rename(target)
        except OSError:  # on a full disk the half that is written is in the way of the next try
            unfinished.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)

    def clear(self, ending: str) -> None:
        """Remove what a process that was killed has left of files with this ending."""
        for each in self.path.iterdir():
            if each.name.startswith(".") and each.name.endswith(f"{ending}.tmp"):
                each.unlink(missing_ok=True)


def fitting(name: str, ending: str) -> str:
    """Join a name and its ending; a digest stands for what no file system would take."""
    if len(os.fsencode(name + ending)) <= _LONGEST:
        return name + ending
    digest = blake2b(os.fsencode(name), digest_size=16).hexdigest()
    return f"{'.' if name.startswith('.') else ''}{digest}{ending[-64:]}"
