"""The slot of a process in a data directory: a locked file with the name of its node."""

import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.private_files import make_folder, open_private

_MAX_PROCESSES: Final = 1000


@dataclass(frozen=True, slots=True)
class NodeSlot:
    """A locked file `run/node-N` of the data directory, and the node name that it contains."""

    name: str
    descriptor: int


def take_slot(home: Path) -> NodeSlot:
    """Lock the first free slot of a data directory until the process ends."""
    folder = home / "run"
    make_folder(folder)
    for number in range(_MAX_PROCESSES):
        descriptor = open_private(folder / f"node-{number}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return NodeSlot(_name(descriptor), descriptor)
    raise OSError(f"more than {_MAX_PROCESSES} processes in {folder}")


def _name(descriptor: int) -> str:
    kept = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip()
    if kept:
        return kept
    name = secrets.token_hex(8)
    os.pwrite(descriptor, name.encode(), 0)
    os.fsync(descriptor)
    return name
