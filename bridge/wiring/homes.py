"""Fill a new home: our mapping definitions, a service token, the first key that seals links."""

import base64
import secrets
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from bridge.wiring.secret_files import new_index_key
from config.home import create

_TOKEN_BYTES: Final = 32
_KEY_BYTES: Final = 32
_KEY_ID_BYTES: Final = 4


def make_home(home: Path) -> tuple[list[Path], list[Path]]:
    """Make what is missing of HOME; return (written, kept) paths."""
    made = {
        "engine.token": _service_token,
        "link.keys": _link_keys,
        "index.key": new_index_key,
    }
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
