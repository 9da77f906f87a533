"""
The content of a disk after a power failure.

The rules are those of a journaling file system in ordered mode (ext4, XFS):

* A sync of a file makes durable what was written to it before, its length, and its first name
  (POSIX does not promise the name: with `posix` only a sync of the folder makes it durable).
* A sync of a folder makes its names durable.
* Changes of names reach the disk in their order: a durable one makes all earlier ones durable.
* Each unsynced sector of 512 bytes may be on the disk or not, in any order.
"""

import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.power.change_log import Change

SECTOR = 512
NAMES = {"create", "mkdir", "rmdir", "unlink", "rename", "link", "symlink"}


@dataclass
class _Contents:
    """One file: durable bytes, and the writes since the last sync."""

    durable: bytearray
    pending: list[Change] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change.kind, change.offset, change.data)
        self.pending.clear()


def _apply(into: bytearray, kind: str, offset: int, data: bytes) -> None:
    if kind == "resize":
        del into[offset:]
        into.extend(bytes(offset - len(into)))
        return
    if len(into) < offset:
        into.extend(bytes(offset - len(into)))
    into[offset : offset + len(data)] = data


class Disk:
    """
    The state of a disk while a log is replayed.

    `replay` goes forward only, so that many images of one log cost one pass. `write` builds an
    image of the moment that has been reached.
    """

    def __init__(self, initial: Path, log: Sequence[Change], *, posix: bool = False) -> None:
        """`initial` is a copy of the folder as it was when the log began."""
        self._initial = initial
        self._posix = posix
        self._log = log
        self._at = 0
        self._files: dict[int, _Contents] = {}
        self._folders = {str(p.relative_to(initial)) for p in initial.rglob("*") if p.is_dir()}
        self._names: dict[str, int | str] = {}  # durable names; a string is a symbolic link
        self._modes: dict[str, int] = {}
        self._pending: list[Change] = []  # changes of names

    def replay(self, until: int) -> None:
        """Go on to the last change before `until`, in nanoseconds of the monotonic clock."""
        while self._at < len(self._log) and self._log[self._at].at < until:
            self._take(self._log[self._at])
            self._at += 1

    def _take(self, change: Change) -> None:
        if change.kind == "initial":
            contents = (self._initial / change.path).read_bytes()
            self._files[change.file] = _Contents(bytearray(contents))
            self._names[change.path] = change.file
        elif change.kind in {"write", "resize"}:
            self._file(change.file).pending.append(change)
        elif change.kind == "sync":
            self._file(change.file).sync()
            if not self._posix:
                self._make_durable(lambda item: item.kind == "create" and item.file == change.file)
        elif change.kind == "sync names":
            folders = {change.path}
            self._make_durable(
                lambda item: bool({_folder(item.path), _folder(item.target)} & folders)
            )
        elif change.kind == "chmod":
            self._modes[change.path] = change.offset
        else:
            self._pending.append(change)

    def _file(self, number: int) -> _Contents:
        return self._files.setdefault(number, _Contents(bytearray()))

    def _make_durable(self, concerned: Callable[[Change], bool]) -> None:
        last = max((n for n, item in enumerate(self._pending) if concerned(item)), default=-1)
        for change in self._pending[: last + 1]:
            _rename(self._names, self._folders, change)
        del self._pending[: last + 1]

    def write(self, target: Path, chance: random.Random) -> None:
        """Write the image of a power failure now; `chance` selects the unsynced changes."""
        names, folders = dict(self._names), set(self._folders)
        for change in self._pending[: chance.randint(0, len(self._pending))]:
            _rename(names, folders, change)
        target.mkdir()
        for folder in sorted(folders):
            (target / folder).mkdir(parents=True, exist_ok=True)
        for name, value in names.items():
            path = target / name
            if isinstance(value, str):
                path.symlink_to(value)
            else:
                path.write_bytes(self._survived(self._file(value), chance))
        shutil.copymode(self._initial, target)
        for name in [*names, *folders]:
            self._restore_mode(target / name, name)

    def _restore_mode(self, path: Path, name: str) -> None:
        original = self._initial / name
        if path.is_symlink():
            return
        if name in self._modes:
            path.chmod(self._modes[name])
        elif original.exists():
            shutil.copymode(original, path)
        else:
            path.chmod(0o700 if path.is_dir() else 0o600)
        while not original.exists():
            original = original.parent
        os.chown(path, original.stat().st_uid, original.stat().st_gid)

    def _survived(self, file: _Contents, chance: random.Random) -> bytes:
        contents = bytearray(file.durable)
        pieces = []
        for change in file.pending:
            if change.kind == "resize":
                pieces.append((change.kind, change.offset, b""))
            for start in range(0, len(change.data), SECTOR):
                piece = change.data[start : start + SECTOR]
                pieces.append((change.kind, change.offset + start, piece))
        share = chance.choice([0.0, 0.3, 0.7, 1.0])
        for kind, offset, data in pieces:
            if chance.random() < share:
                _apply(contents, kind, offset, data)
        return bytes(contents)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _rename(names: dict[str, int | str], folders: set[str], change: Change) -> None:
    if change.kind == "create":
        names[change.path] = change.file
    elif change.kind == "symlink":
        names[change.path] = change.target
    elif change.kind == "mkdir":
        folders.add(change.path)
    elif change.kind == "rmdir":
        folders.discard(change.path)
    elif change.kind == "unlink":
        names.pop(change.path, None)
    elif change.kind == "link" and change.path in names:
        names[change.target] = names[change.path]
    elif change.kind == "rename" and change.path in folders:
        _move_folder(names, folders, change)
    elif change.kind == "rename" and change.path in names:
        names[change.target] = names.pop(change.path)


def _move_folder(names: dict[str, int | str], folders: set[str], change: Change) -> None:
    for folder in [item for item in folders if (item + "/").startswith(change.path + "/")]:
        folders.discard(folder)
        folders.add(change.target + folder[len(change.path) :])
    for name in [text for text in names if text.startswith(change.path + "/")]:
        names[change.target + name[len(change.path) :]] = names.pop(name)
