"""
The built files of the web apps, and the files that each page loads first.

`web/build.py` writes them with hashes in their names, so browsers can cache them without expiry.
"""

import gzip
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError

MEDIA_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "woff2": "font/woff2",
    "wasm": "application/wasm",
}


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True, slots=True)
class AppEntry:
    """The names of the files that a page of an app loads first."""

    script: str
    preloads: tuple[str, ...]
    styles: tuple[str, ...]


@cache
def entry(source: str) -> AppEntry:
    """Return the files of an entry point ('src/report/main.ts'); raise `app_not_built`."""
    manifest = _folder() / "manifest.json"
    if not manifest.is_file():
        raise EngineError(ErrorCode.APP_NOT_BUILT)
    chunks = json.loads(manifest.read_text("utf-8"))
    seen = _with_imports(chunks, source)
    styles = [style for name in seen for style in chunks[name].get("css", [])]
    preloads = tuple(chunks[name]["file"] for name in seen if name != source)
    return AppEntry(chunks[source]["file"], preloads, tuple(dict.fromkeys(styles)))


def _with_imports(chunks: dict[str, dict[str, list[str]]], source: str) -> list[str]:
    """Return an entry and its static imports, innermost first: the order of the style sheets."""
    seen: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in seen:
            return
        for imported in chunks[name].get("imports", []):
            visit(imported)
        seen[name] = None

    visit(source)
    return list(seen)


def media_type(name: str) -> str | None:
    """Return the media type of a built file; None if the name cannot be that of a built file."""
    if name == "manifest.json" or not _NAME.fullmatch(name):
        return None
    return MEDIA_TYPES.get(name.rpartition(".")[2])


def content(name: str, *, compressed: bool) -> bytes | None:
    """Return a built file, gzipped if `compressed`; None if it does not exist."""
    try:
        return _read(name, compressed=compressed)
    except FileNotFoundError:
        return None


@cache  # of the built files only: anonymous requests can name any number of other files
def _read(name: str, *, compressed: bool) -> bytes:
    data = (_folder() / name).read_bytes()
    return gzip.compress(data, 9, mtime=0) if compressed else data


def _folder() -> Traversable:
    return files("bridge.engine.app").joinpath("assets", "built")
