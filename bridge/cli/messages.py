"""`bridge messages`: list, show and replay received messages."""

import sys
from typing import Annotated

import typer

from bridge.cli.options import (
    AsJson,
    Before,
    Code,
    ControlId,
    DryRun,
    Home,
    Ids,
    Limit,
    Most,
    Order,
    Patient,
    Rate,
    Since,
    State,
    Until,
    row_query,
    selection,
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
    from bridge.admin.queue.messages import list_messages
    from bridge.cli.output import print_rows, with_times

    query = row_query(
        state, listener, since, before, limit, control_id=control_id, patient=patient, order=order
    )
    found, not_indexed = list_messages(home, query)
    if not_indexed:
        print(f"note: the newest {not_indexed} messages are not indexed yet", file=sys.stderr)
    print_rows([with_times(each) for each in found], _COLUMNS, as_json=as_json)


@group.command()
def show(message_id: _Id, home: Home, as_json: AsJson = False) -> None:
    """Show one message and its acknowledgment. The output contains patient data."""
    from bridge.admin.queue.messages import show_message
    from bridge.cli.output import print_record, with_times

    row, texts = show_message(home, message_id)
    print_record(with_times(row), texts, as_json=as_json)


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
    """Process messages again, oldest first; unfinished messages keep their order."""
    from bridge.admin.queue.messages import replay_messages, select_messages
    from bridge.cli.output import print_requeue_results

    chosen = selection(message_ids, state, listener, since, until, code, limit)
    ids = select_messages(home, message_ids, chosen)
    if dry_run:
        print(*ids, sep="\n", end="\n" if ids else "")
        return
    print_requeue_results(replay_messages(home, ids, chosen, rate), "message")
