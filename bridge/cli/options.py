"""Options that several commands share."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # a command that needs no queue does not load it
    from bridge.queue.states import State

Home = Annotated[
    Path, typer.Option("--home", metavar="HOME", envvar="BRIDGE_HOME", help="The home folder.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")]
Before = Annotated[int | None, typer.Option(metavar="ID", help="Only those before this id.")]


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
    typer.Option(parser=milliseconds, metavar="TIME", help="Only since then, ISO 8601, UTC."),
]


def state_option(text: str | None) -> "State | None":
    """Read a state by its name; say which there are."""
    from bridge.queue.states import State

    if text is None:
        return None
    if text not in set(State):
        raise typer.BadParameter(f"--state must be one of {', '.join(State)}")
    return State(text)
