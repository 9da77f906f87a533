"""What `messages replay` and `deliveries retry` share: the selection, the rate, the result."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import milliseconds, state_option

if TYPE_CHECKING:
    from bridge.wiring.bulk import Choice, Done

Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID…]")]
State = Annotated[str | None, typer.Option(help="All rows in this state: parked, refused, …")]
Until = Annotated[
    int | None,
    typer.Option(
        parser=milliseconds, metavar="TIME", help="Only until this time, ISO 8601; UTC by default."
    ),
]
Code = Annotated[str | None, typer.Option(help="Only with this error code, such as 101 or AE.")]
Most = Annotated[
    int | None, typer.Option("--limit", min=1, help="At most this many, oldest first.")
]
Rate = Annotated[float, typer.Option(min=0, help="Maximum number per second; 0: no limit.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print the ids.")]


def choice(
    ids: Sequence[int] | None,
    state: str | None,
    source: str | None,
    since: int | None,
    until: int | None,
    code: str | None,
    limit: int | None,
) -> "Choice":
    """Make the choice that the options describe; ids or filters, and not neither."""
    from bridge.queue.browse import Filter
    from bridge.wiring.bulk import Choice

    made = Choice(Filter(state_option(state), source, None, since), until, code, limit)
    if bool(ids) == made.narrows:
        raise typer.BadParameter("give either ids, or filters such as --state, --since and --code")
    return made


def report(done: Iterable["Done"], what: str) -> None:
    """Print the result of each; exit 1 when one could not be queued."""
    queued = failed = 0
    for each in done:
        if each.trouble:
            failed += 1
            print(f"{what} {each.row_id}: {each.trouble}", file=sys.stderr)
            continue
        queued += 1
        print(f"queued {what} {each.row_id} again")
        if each.overtaken:
            later = f"{each.overtaken} later messages of this patient are already applied"
            print(f"note: {later}")
    if queued + failed != 1:
        print(f"{queued} queued, {failed} not")
    if failed:
        sys.exit(1)
