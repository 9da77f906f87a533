"""
The data directory: created with example settings, definitions, a service token and keys.

Existing files are never overwritten. Only the owner can read the files.
"""

import base64
import secrets
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from config.example import render_new
from config.private_files import FOLDER_MODE, make_folder, write_new
from config.secret_files import new_index_key
from config.settings import FILE_NAME

_TOKEN_BYTES: Final = 32
_KEY_BYTES: Final = 32
_KEY_ID_BYTES: Final = 4


def create_data_directory(home: Path) -> tuple[list[Path], list[Path]]:
    """Create HOME or its missing files; return (written, kept) paths."""
    wanted: dict[Path, Callable[[], bytes]] = {home / FILE_NAME: lambda: render_new().encode()}
    for name, data in _definitions(files("mappings") / "definitions", ""):
        wanted[home / "mappings" / name] = partial(bytes, data)
    secret_files = {
        "engine.token": _service_token,
        "link.keys": _link_keys,
        "index.key": new_index_key,
    }
    wanted |= {home / "secrets" / name: make for name, make in secret_files.items()}
    for folder in (home, home / "secrets"):
        make_folder(folder)
        folder.chmod(FOLDER_MODE)  # the operator may have created it
    written: list[Path] = []
    kept: list[Path] = []
    for path, make in wanted.items():
        make_folder(path.parent)
        is_new = not path.exists() and write_new(path, make())
        (written if is_new else kept).append(path)
    return written, kept


def _definitions(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.is_dir() and not entry.name.startswith("_"):
            found += _definitions(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith((".yaml", ".csv", ".md")):
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


def _service_token() -> bytes:
    return f"rbt_{secrets.token_urlsafe(_TOKEN_BYTES)}\n".encode()


def _link_keys() -> bytes:
    key = base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
    return f"{secrets.token_hex(_KEY_ID_BYTES)} {key}\n".encode()
