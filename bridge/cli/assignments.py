"""Read `name=value` arguments: JSON where it is JSON, `@FILE` for an image, text elsewhere."""

import base64
import json
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

_TEXTS = frozenset({"name", "timeZone", "headerImgType"})


def read_assignments(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the members that are assigned; `settings.NAME=VALUE` goes below `settings`."""
    changes: dict[str, Any] = {}
    for argument in arguments:
        name, mark, text = argument.partition("=")
        if not mark or not name:
            raise typer.BadParameter(f"write NAME=VALUE instead of {argument!r}")
        outer, _, inner = name.partition(".")
        value = _value(name, text)
        if inner:
            changes.setdefault(outer, {})[inner] = value
        else:
            changes[outer] = value
    return changes


def _value(name: str, text: str) -> Any:
    if text.startswith("@"):
        return data_uri(Path(text[1:]))
    if name in _TEXTS and text != "null":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def data_uri(path: Path) -> str:
    """Return a file as a data URI, of the kind that its name says."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
