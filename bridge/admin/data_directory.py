"""
The data directory: created with example settings, definitions, a service token and keys.

Existing files are never overwritten. Only the owner can read the files.
"""

import base64
import secrets
from collections.abc import Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from bridge.wiring.secrets import new_index_key
from config.example import fresh
from config.private_files import FOLDER_MODE, make_folder, write_new
from config.settings import FILE_NAME


def create(
    home: Path, mappings: Mapping[str, bytes], secrets: Mapping[str, Callable[[], bytes]]
) -> tuple[list[Path], list[Path]]:
    """
    Create HOME with its files; return (written, kept) paths.

    `mappings` has names and contents of files in HOME/mappings. `secrets` has names of files in
    HOME/secrets and functions that return their content, called only for new files.
    """
    written: list[Path] = []
    kept: list[Path] = []
    wanted: dict[Path, Callable[[], bytes]] = {home / FILE_NAME: lambda: fresh().encode()}
    wanted |= {home / "mappings" / name: _constant(data) for name, data in mappings.items()}
    for folder in (home, home / "secrets"):
        make_folder(folder)
        folder.chmod(FOLDER_MODE)  # the operator may have created it
    for path, make in wanted.items():
        make_folder(path.parent)
        (written if _write_new(path, make) else kept).append(path)
    for name, make in secrets.items():
        path = home / "secrets" / name
        (written if _write_new(path, make) else kept).append(path)
    return written, kept


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data


def _write_new(path: Path, make: Callable[[], bytes]) -> bool:
    return False if path.exists() else write_new(path, make())


_TOKEN_BYTES: Final = 32
_KEY_BYTES: Final = 32
_KEY_ID_BYTES: Final = 4


def create_data_directory(home: Path) -> tuple[list[Path], list[Path]]:
    """Create HOME or its missing files; return (written, kept) paths."""
    made = {"engine.token": _service_token, "link.keys": _link_keys, "index.key": new_index_key}
    return create(home, dict(_definitions(files("mappings") / "definitions", "")), made)


def _definitions(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
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
