"""
The name of a process among all that share a queue. It survives a restart.

Each running process of a data directory holds one numbered slot by a file lock. The file contains a
random name. A process that gets the slot after a crash owns the claims of the previous holder.
"""

import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.private_files import make_folder, open_private

_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class NodeSlot:
    """A slot of the data directory, held until the process ends."""

    name: str
    descriptor: int

    def release(self) -> None:
        """Release the slot."""
        os.close(self.descriptor)


def take_slot(home: Path) -> NodeSlot:
    """Take the first free slot of a data directory."""
    folder = home / "run"
    make_folder(folder)
    for number in range(_MOST):
        descriptor = open_private(folder / f"node-{number}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return NodeSlot(_name(descriptor), descriptor)
    raise OSError(f"more than {_MOST} processes in {folder}")


def _name(descriptor: int) -> str:
    kept = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip()
    if kept:
        return kept
    name = secrets.token_hex(8)
    os.pwrite(descriptor, name.encode(), 0)
    os.fsync(descriptor)
    return name
