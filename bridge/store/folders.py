"""Folders whose names must outlast a power cut, as a database's own files do. Blocking."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder: those of new, renamed and removed files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
