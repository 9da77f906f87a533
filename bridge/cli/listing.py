"""Lists of messages and deliveries: filters, the search by a number, the selection of many."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import milliseconds, number_option, state_option

if TYPE_CHECKING:
    from bridge.admin.selection import Choice, Done
    from bridge.monitoring.channels import Kind
    from bridge.queue.queries import Filter


@dataclass(frozen=True, slots=True)
class Listing:
    """The options of one list command; `source` is a listener or a destination."""

    home: Path
    state: str | None
    source: str | None
    control_id: str | None
    patient: str | None
    order: str | None
    since: int | None
    before: int | None
    limit: int
    as_json: bool
    report: str | None = None

    def show(self, kind: "Kind", columns: Sequence[str]) -> None:
        """Print messages of listeners, or deliveries to destinations. Audit a search by number."""
        from bridge.admin import selection
        from bridge.admin.audit_events import audited
        from bridge.admin.channels import must_be_known
        from bridge.cli.output import rows, times
        from bridge.monitoring.channels import Kind
        from bridge.queue import queries
        from bridge.wiring.stores import bridge_database
        from config import load

        of_messages = kind is Kind.LISTENER
        wanted = self._filter()
        number = number_option(self.control_id, self.patient, self.order)
        with bridge_database(self.home) as database:
            if number is None:
                browsed = queries.messages if of_messages else queries.deliveries
                found = [times(asdict(row)) for row in browsed(database, wanted)]
            else:
                what = "messages" if of_messages else "deliveries"
                with audited(self.home, database, "search", (what, f"by {number[0]} number")):
                    rows_found = (
                        selection.messages(database, *number, wanted)
                        if of_messages
                        else selection.deliveries(load(self.home), database, *number, wanted)
                    )
                found = [times(asdict(row)) for row in rows_found]
                if of_messages and (behind := selection.not_indexed(database)):
                    print(
                        f"note: the newest {behind} messages are not indexed yet", file=sys.stderr
                    )
        if not found:
            must_be_known(self.home, kind, self.source)
        rows(found, columns, as_json=self.as_json)

    def _filter(self) -> "Filter":
        from bridge.queue.queries import Filter

        state = state_option(self.state)
        return Filter(state, self.source, self.report, self.since, self.before, self.limit)


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
    from bridge.admin.selection import Choice
    from bridge.queue.queries import Filter

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
