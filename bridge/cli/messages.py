"""`bridge messages`: list, show and replay received messages."""

from dataclasses import asdict
from typing import Annotated

import typer

from bridge.cli.listing import Code, DryRun, Ids, Listing, Most, Rate, State, Until
from bridge.cli.options import (
    AsJson,
    Before,
    ControlId,
    Home,
    Limit,
    Order,
    Patient,
    Since,
)

group = typer.Typer(help="Received messages.", no_args_is_help=True)

_COLUMNS = (
    *("id", "received_at", "listener", "message_type", "ack_code", "state", "attempts"),
    *("error_code", "error_place", "code"),
)
_Id = Annotated[int, typer.Argument(metavar="ID")]


@group.command("list")
def list_(
    home: Home,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only in this state: queued, done, parked, refused, …")
    ] = None,
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
    List received messages, newest first, without patient data.

    A search by a number is recorded in the audit trail.
    """
    from bridge.monitoring.channels import Kind

    listing = Listing(
        home,
        state=state,
        source=listener,
        control_id=control_id,
        patient=patient,
        order=order,
        since=since,
        before=before,
        limit=limit,
        as_json=as_json,
    )
    listing.show(Kind.LISTENER, _COLUMNS)


@group.command()
def show(message_id: _Id, home: Home, as_json: AsJson = False) -> None:
    """Show one message and its acknowledgment. The output contains patient data."""
    from bridge.admin.audit_events import audited
    from bridge.admin.channels import charset_of
    from bridge.cli.output import one, times
    from bridge.console.message_view import message_text
    from bridge.queue import queries
    from bridge.wiring.stores import bridge_database
    from config import load

    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("message", str(message_id))),
    ):
        detail = queries.message(database, message_id)
        charset = charset_of(load(home), database, detail.row.listener)
    shown = times(asdict(detail.row)) | {"notes": detail.notes}
    texts = {
        "payload": message_text(detail.payload, charset),
        "ack": message_text(detail.ack, charset),
    }
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
    """Queue messages to be applied again, oldest first; unfinished ones keep their order."""
    from bridge.admin.audit_events import recorded, relayed
    from bridge.admin.channels import must_be_known
    from bridge.admin.replay import Replaying
    from bridge.admin.selection import chosen, one_by_one
    from bridge.cli.listing import choice, report
    from bridge.monitoring.channels import Kind
    from bridge.queue.queries import messages
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
