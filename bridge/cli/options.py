"""Options and arguments that several commands share, and the values that they are read into."""

import base64
import json
import mimetypes
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bridge.admin.items.queue_entries import RowQuery, Selection
    from bridge.admin.report_engine import CommandEngine

Home = Annotated[
    Path, typer.Option("--home", metavar="HOME", envvar="BRIDGE_HOME", help="The data directory.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Maximum number of rows.")]
Tls = Annotated[bool, typer.Option("--tls", help="Use TLS 1.2 or newer.")]
Authorities = Annotated[
    Path | None, typer.Option(help="Authorities that the server's certificate must have; PEM.")
]
OwnCertificate = Annotated[
    Path | None, typer.Option(help="Our certificate for mutual TLS, and its chain; PEM.")
]
OwnKey = Annotated[Path | None, typer.Option(help="The key of our certificate; PEM.")]
ServerName = Annotated[
    str | None, typer.Option(help="The name in the server's certificate; else HOST.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Accept any certificate, with a warning.")
]
Before = Annotated[int | None, typer.Option(metavar="ID", help="Only rows with a lower id.")]


def milliseconds(text: str) -> int:
    """Parse an ISO 8601 date or time, UTC without an offset, to milliseconds."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter("write a date or time such as 2026-11-21T08:30") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


Since = Annotated[
    int | None,
    typer.Option(
        parser=milliseconds, metavar="TIME", help="Only since this time, ISO 8601; UTC by default."
    ),
]


ControlId = Annotated[
    str | None, typer.Option(metavar="MSH-10", help="Only with this message control id.")
]
Patient = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Only of the patient with this identifier.")
]
Order = Annotated[
    str | None,
    typer.Option(
        "--order",
        "--accession",
        "--placer",
        "--filler",
        metavar="NUMBER",
        help="Only of the order with this accession, placer or filler number.",
    ),
]


Id = Annotated[int, typer.Argument(metavar="ID")]
Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID…]")]
State = Annotated[str | None, typer.Option(help="All rows in this state: parked, refused, …")]
Until = Annotated[
    int | None,
    typer.Option(
        parser=milliseconds, metavar="TIME", help="Only until this time, ISO 8601; UTC by default."
    ),
]
Code = Annotated[str | None, typer.Option(help="Only with this error code, such as 101 or AE.")]
MaxCount = Annotated[
    int | None, typer.Option("--limit", min=1, help="At most this many, oldest first.")
]
Rate = Annotated[float, typer.Option(min=0, help="Maximum number per second; 0: no limit.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print the ids.")]


def row_query(
    state: str | None,
    source: str | None,
    since: int | None,
    before: int | None,
    limit: int,
    *,
    control_id: str | None,
    patient: str | None,
    order: str | None,
    report: str | None = None,
    more: Mapping[str, str | None] = MappingProxyType({}),
) -> "RowQuery":
    """
    Return the query of a list command; `source` is a listener or a destination.

    `more` are further filters of the list.
    """
    from bridge.admin.items.queue_entries import RowQuery

    numbers = {"control": control_id, "patient": patient, "order": order}
    chosen = [(kind, number) for kind, number in numbers.items() if number is not None]
    if len(chosen) > 1 or any(not number.strip() for _, number in chosen):
        raise typer.BadParameter("give one of --control-id, --patient and --order, with a value")
    _require_state(state)
    number = chosen[0] if chosen else None
    filters = {name: value for name, value in more.items() if value is not None}
    return RowQuery(state, source, number, report, since, before, limit, filters)


def selection(
    ids: Sequence[int] | None,
    state: str | None,
    source: str | None,
    since: int | None,
    until: int | None,
    code: str | None,
    limit: int | None,
) -> "Selection":
    """Return the selection of a replay or retry command, which takes either ids or filters."""
    from bridge.admin.items.queue_entries import Selection

    _require_state(state)
    selected = Selection(state, source, since, until, code, limit)
    if bool(ids) == selected.is_filtered:
        raise typer.BadParameter("give either ids, or filters such as --state, --since and --code")
    return selected


def _require_state(text: str | None) -> None:
    from bridge.admin.items.queue_entries import STATES

    if text is not None and text not in STATES:
        raise typer.BadParameter(f"--state must be one of {', '.join(STATES)}")


_TEXTS = frozenset({"name", "timeZone", "headerImgType"})
"""Settings of a site whose values are texts, even if a value is valid JSON."""


def read_assignments(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE arguments; `settings.NAME=VALUE` becomes a member of `settings`."""
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
    """Return the data URI of a file, with the media type of its extension."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def open_engine(home: Path) -> "AbstractContextManager[CommandEngine]":
    """Open the internal engine for a command."""
    from bridge.admin.report_engine import internal_engine
    from config import load

    return internal_engine(load(home))
