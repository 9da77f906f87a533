"""
The files of pages and web apps, those that each page loads first, and the host SDK.

`web/build.py` writes them with hashes in their names, so browsers can cache them without expiry.
"""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from starlette.responses import Response

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError

router = APIRouter(include_in_schema=False)

PAGE_FILES = {
    "notice.css": "text/css; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "again.js": "text/javascript; charset=utf-8",
}
_ASSET_HEADERS = {"Cross-Origin-Resource-Policy": "cross-origin"}
_BUILT_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "woff2": "font/woff2",
    "wasm": "application/wasm",
}

_FIRST_FONT = "inter-latin-wght-normal.woff2"
"""The font of every page; others load when a text needs them."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True, slots=True)
class AppEntry:
    """The names of the files that a page of an app loads first."""

    script: str
    preloads: tuple[str, ...]
    styles: tuple[str, ...]
    fonts: tuple[str, ...] = ()


@cache
def entry(source: str) -> AppEntry:
    """Return the files of an entry point ('src/report/main.ts'); raise `app_not_built`."""
    manifest = _folder() / f"{source.split('/')[1]}.manifest.json"
    if not manifest.is_file():
        raise EngineError(ErrorCode.APP_NOT_BUILT)
    chunks = json.loads(manifest.read_text("utf-8"))
    seen = _with_imports(chunks, source)
    styles = [style for name in seen for style in chunks[name].get("css", [])]
    preloads = tuple(chunks[name]["file"] for name in seen if name != source)
    fonts = tuple(chunk["file"] for name, chunk in chunks.items() if name.endswith(_FIRST_FONT))
    return AppEntry(chunks[source]["file"], preloads, tuple(dict.fromkeys(styles)), fonts)


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


def _media_type(name: str) -> str | None:
    """Return the media type of a built file; None if the name cannot be that of a built file."""
    if name.endswith("manifest.json") or not _NAME.fullmatch(name):
        return None
    return _BUILT_TYPES.get(name.rpartition(".")[2])


def content(name: str, encoding: str = "") -> bytes | None:
    """Return a built file, `gzip` or `br` encoded; None if it does not exist in that encoding."""
    try:
        return _read(name, encoding)
    except FileNotFoundError:
        return None


@cache  # of the built files only: anonymous requests can name any number of other files
def _read(name: str, encoding: str) -> bytes:
    if encoding == "br":  # the build writes them
        return (_folder() / f"{name}.br").read_bytes()
    data = (_folder() / name).read_bytes()
    return gzip.compress(data, 9, mtime=0) if encoding == "gzip" else data


def _folder() -> Traversable:
    return files("bridge.engine.app").joinpath("assets", "built")


@cache
def asset(name: str) -> bytes:
    return files("bridge.engine.app").joinpath("assets", name).read_bytes()


@router.get("/reporting/assets/{name}")
async def assets(name: str, request: Request) -> Response:
    """Return a file of the pages; built files have a hash in their name and are immutable."""
    if name in PAGE_FILES:
        headers = _ASSET_HEADERS | {"Cache-Control": "no-cache"}
        return Response(asset(name), headers=headers, media_type=PAGE_FILES[name])
    kind = _media_type(name)
    if kind is None:
        raise EngineError(ErrorCode.NO_SUCH_PATH, "no such file")
    immutable = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    headers = _ASSET_HEADERS | immutable
    for encoding in _accepted(request):
        found = content(name, encoding)
        if found is not None:
            named = {"Content-Encoding": encoding} if encoding else {}
            return Response(found, headers=headers | named, media_type=kind)
    raise EngineError(ErrorCode.NO_SUCH_PATH, "no such file")


def _accepted(request: Request) -> Iterator[str]:
    """Yield the encodings that the client accepts, best first; the last is none."""
    accepted = request.headers.get("accept-encoding", "")
    yield from (encoding for encoding in ("br", "gzip") if encoding in accepted)
    yield ""


_SDK_TYPES = {
    "index.js": "text/javascript; charset=utf-8",
    "index.d.ts": "text/plain; charset=utf-8",
    "protocol.d.ts": "text/plain; charset=utf-8",
}
# The SDK is public: pages of any origin import it as a module.
_SDK_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "public, max-age=300",
}


@router.get("/reporting/host-sdk/{name}")
async def host_sdk(name: str) -> Response:
    """Return a file of the SDK."""
    if name not in _SDK_TYPES:
        raise EngineError(ErrorCode.NO_SUCH_PATH, "no such file")
    path = _folder().joinpath("host-sdk", name)
    if not path.is_file():
        raise EngineError(ErrorCode.APP_NOT_BUILT)
    return Response(path.read_bytes(), headers=_SDK_HEADERS, media_type=_SDK_TYPES[name])
