"""`bridge messages`: what came in, what became of it, and once more from there."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from bridge.cli.bulk import Code, DryRun, Ids, Most, Rate, State, Until
from bridge.cli.options import (
    AsJson,
    Before,
    ControlId,
    Home,
    Limit,
    Order,
    Patient,
    Since,
    number_option,
    state_option,
)

group = typer.Typer(help="Messages that came in.", no_args_is_help=True)

_COLUMNS = (
    *("id", "received_at", "listener", "message_type", "ack_code", "state", "attempts"),
    *("error_code", "error_place", "code"),
)
_Id = Annotated[int, typer.Argument(metavar="ID")]


@group.command("list")
def list_(
    home: Home,
    *,
    state: Annotated[str | None, typer.Option(help="queued, done, parked, refused, …")] = None,
    listener: Annotated[str | None, typer.Option(help="Only of this listener.")] = None,
    control_id: ControlId = None,
    patient: Patient = None,
    order: Order = None,
    since: Since = None,
    before: Before = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """
    List messages, newest first; no patient data.

    A search by a number is recorded in the audit trail.
    """
    from bridge.cli.show import rows, times
    from bridge.operations.channels import Kind
    from bridge.queue import browse
    from bridge.wiring import numbered
    from bridge.wiring.channels import must_be_known
    from bridge.wiring.commanding import audited
    from bridge.wiring.stores import bridge_database

    wanted = browse.Filter(state_option(state), listener, None, since, before, limit)
    number = number_option(control_id, patient, order)
    with bridge_database(home) as database:
        if number is None:
            found = [times(asdict(row)) for row in browse.messages(database, wanted)]
        else:
            with audited(home, database, "search", ("messages", f"by {number[0]} number")):
                rows_found = numbered.messages(database, *number, wanted)
            found = [times(asdict(row)) for row in rows_found]
            if behind := numbered.not_indexed(database):
                print(f"note: the newest {behind} messages are not indexed yet", file=sys.stderr)
    if not found:
        must_be_known(home, Kind.LISTENER, listener)
    rows(found, _COLUMNS, as_json=as_json)


@group.command()
def show(message_id: _Id, home: Home, as_json: AsJson = False) -> None:
    """Show one message with its acknowledgment. Patient data: for your eyes only."""
    from bridge.cli.show import one, times
    from bridge.console.tree import readable
    from bridge.queue import browse
    from bridge.wiring.channels import charset_of
    from bridge.wiring.commanding import audited
    from bridge.wiring.stores import bridge_database
    from config import load

    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("message", str(message_id))),
    ):
        detail = browse.message(database, message_id)
        charset = charset_of(load(home), database, detail.row.listener)
    shown = times(asdict(detail.row)) | {"notes": detail.notes}
    texts = {"payload": readable(detail.payload, charset), "ack": readable(detail.ack, charset)}
    one(shown, texts, as_json=as_json)


@group.command()
def replay(
    home: Home,
    *,
    message_ids: Ids = None,
    state: State = None,
    listener: Annotated[str | None, typer.Option(help="Only of this listener.")] = None,
    since: Since = None,
    until: Until = None,
    code: Code = None,
    limit: Most = None,
    rate: Rate = 0.0,
    dry_run: DryRun = False,
) -> None:
    """Apply messages again, oldest first, each in its place among what is unfinished."""
    from bridge.cli.bulk import choice, report
    from bridge.operations.channels import Kind
    from bridge.queue.browse import messages
    from bridge.wiring.bulk import chosen, one_by_one
    from bridge.wiring.channels import must_be_known
    from bridge.wiring.commanding import recorded, relayed
    from bridge.wiring.replaying import Replaying
    from bridge.wiring.stores import bridge_database
    from config import load

    made = choice(message_ids, state, listener, since, until, code, limit)
    with bridge_database(home) as database:
        ids = sorted(message_ids) if message_ids else chosen(database, made, messages)
        if not ids:
            must_be_known(home, Kind.LISTENER, listener)
        if dry_run:
            print(*ids, sep="\n", end="\n" if ids else "")
            return
        replay = Replaying(load(home), database, made.wanted.state)

        def again(row_id: int) -> int | None:
            with recorded(database, "replay", ("message", str(row_id))):
                return replay(row_id)

        with relayed(home, database):
            report(one_by_one(ids, again, rate), "message")
