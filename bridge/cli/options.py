"""Options and arguments that several commands share."""

import base64
import json
import mimetypes
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bridge.console.message_index import NumberKind
    from bridge.queue.states import QueueState


Home = Annotated[
    Path, typer.Option("--home", metavar="HOME", envvar="BRIDGE_HOME", help="The data directory.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Maximum number of rows.")]
Before = Annotated[int | None, typer.Option(metavar="ID", help="Only rows with a lower id.")]


def milliseconds(text: str) -> int:
    """Read a date or a time, ISO 8601; UTC where no zone is written."""
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
        parser=milliseconds,
        metavar="TIME",
        help="Only since this time, ISO 8601; UTC by default.",
    ),
]


ControlId = Annotated[
    str | None, typer.Option(metavar="MSH-10", help="Only with this message control id.")
]
Patient = Annotated[
    str | None,
    typer.Option(metavar="NUMBER", help="Only of the patient with this identifier."),
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


def number_option(
    control_id: str | None, patient: str | None, order: str | None
) -> "tuple[NumberKind, str] | None":
    """Read the one number to find by, and its kind; None where none is given."""
    from bridge.console.message_index import NumberKind

    given = {NumberKind.CONTROL: control_id, NumberKind.PATIENT: patient, NumberKind.ORDER: order}
    found = [(kind, number) for kind, number in given.items() if number is not None]
    if len(found) > 1 or any(not number.strip() for _, number in found):
        raise typer.BadParameter("give one of --control-id, --patient and --order, with a value")
    return found[0] if found else None


def state_option(text: str | None) -> "QueueState | None":
    """Read a state by its name; say which there are."""
    from bridge.queue.states import QueueState

    if text is None:
        return None
    if text not in set(QueueState):
        raise typer.BadParameter(f"--state must be one of {', '.join(QueueState)}")
    return QueueState(text)


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
