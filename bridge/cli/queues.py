"""`bridge messages`, `bridge deliveries`, `bridge exceptions`: queues, and what needs attention."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bridge.cli.options import (
    AsJson,
    Before,
    Code,
    ControlId,
    DryRun,
    Home,
    Id,
    Ids,
    Limit,
    MaxCount,
    Order,
    Patient,
    Rate,
    Since,
    State,
    Until,
    row_query,
    selection,
)
from bridge.cli.output import (
    interruptible,
    print_record,
    print_requeue_results,
    print_rows,
    shown_progress,
    with_times,
)

_Listener = Annotated[str | None, typer.Option(help="Only of this listener.")]
_Destination = Annotated[str | None, typer.Option(help="Only to this destination.")]

_Report = Annotated[
    str | None, typer.Option("--report", metavar="REPORT_ID", help="Only of this report.")
]
_Type = Annotated[str | None, typer.Option("--type", help="Only of this type, such as ORM^O01.")]
_Absent = Annotated[
    str | None,
    typer.Option("--absent", metavar="TAG", help="Only with an order that lacks this tag."),
]

_Raw = Annotated[
    bool, typer.Option("--raw", help="ZIP: the messages as received or sent, with patient data.")
]
_Csv = Annotated[bool, typer.Option("--csv", help="A table of the columns.")]
_Deidentify = Annotated[
    bool, typer.Option("--deidentify", help="ZIP: the messages without patient data.")
]
_Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAMES",
        help="Columns of the table, separated by commas; also accession, patient, name,"
        " tag:Modality, and of messages path:PV1-3.1, which contain patient data.",
    ),
]
_KeepText = Annotated[
    bool, typer.Option("--keep-text", help="De-identify: keep free text. Not safe.")
]
_Consistent = Annotated[
    bool, typer.Option("--consistent", help="De-identify: as other exports with this option.")
]

messages = typer.Typer(help="Received messages.", no_args_is_help=True)

_MESSAGE_COLUMNS = (
    *("id", "received_at", "listener", "message_type", "ack_code", "state", "attempts"),
    *("error_code", "error_place", "code"),
)


@messages.command("list")
def messages_list(
    home: Home,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only in this state: queued, done, parked, refused, …")
    ] = None,
    listener: _Listener = None,
    control_id: ControlId = None,
    patient: Patient = None,
    order: Order = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only of patients with these whole words.")
    ] = None,
    message_type: _Type = None,
    absent: _Absent = None,
    since: Since = None,
    before: Before = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """
    List received messages, newest first, without patient data.

    A search by a number or name is recorded in the audit trail.
    """
    from bridge.admin.items.queue_entries import list_messages

    query = row_query(
        *(state, listener, since, before, limit),
        control_id=control_id,
        patient=patient,
        order=order,
        more={"name": name, "type": message_type, "absent": absent},
    )
    found, not_indexed = list_messages(home, query)
    if not_indexed:
        print(f"note: the newest {not_indexed} messages are not indexed yet", file=sys.stderr)
    print_rows([with_times(row) for row in found], _MESSAGE_COLUMNS, as_json=as_json)


@messages.command("show")
def messages_show(
    message_id: Id,
    home: Home,
    *,
    trace: Annotated[
        bool, typer.Option("--trace", help="Also show which rule gave which value, and why.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """
    Show one message with the names of its fields, its acknowledgment, and the calls that it led to.

    `patients` are those whom it names, their survivors, and those who have its orders: what the
    message says, and what is known. The output contains patient data.
    """
    from bridge.admin.items.queue_entries import show_message
    from bridge.cli.item_output import print_message

    print_message(show_message(home, message_id, with_trace=trace), as_json=as_json)


@messages.command("replay")
def messages_replay(
    home: Home,
    *,
    message_ids: Ids = None,
    state: State = None,
    listener: _Listener = None,
    since: Since = None,
    until: Until = None,
    code: Code = None,
    limit: MaxCount = None,
    rate: Rate = 0.0,
    dry_run: DryRun = False,
) -> None:
    """Process messages again, oldest first; unfinished messages keep their order."""
    from bridge.admin.items.queue_entries import replay_messages, select_messages

    chosen = selection(message_ids, state, listener, since, until, code, limit)
    ids = select_messages(home, message_ids, chosen)
    if dry_run:
        print(*ids, sep="\n", end="\n" if ids else "")
        return
    print_requeue_results(replay_messages(home, ids, chosen, rate), "message", len(ids))


@messages.command("export")
def messages_export(
    home: Home,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A new file.")] = None,
    *,
    raw: _Raw = False,
    csv: _Csv = False,
    deidentify: _Deidentify = False,
    columns: _Columns = None,
    keep_text: _KeepText = False,
    consistent: _Consistent = False,
    as_examples: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="De-identify: add them to the examples of this definition, without FILE.",
        ),
    ] = None,
    state: State = None,
    listener: _Listener = None,
    message_type: _Type = None,
    absent: _Absent = None,
    order: Order = None,
    patient: Patient = None,
    since: Since = None,
    until: Until = None,
    code: Code = None,
    limit: MaxCount = None,
) -> None:
    """
    Export messages, oldest first: raw, as a table, or without patient data.

    The export is recorded in the audit trail.
    """
    chosen = _format(raw=raw, csv=csv, deidentify=deidentify)
    if (file is None) == (as_examples is None):
        raise typer.BadParameter("give a FILE, or --as-examples NAME")
    query = row_query(
        *(state, listener, since, None, 0),
        control_id=None,
        patient=patient,
        order=order,
        more={"type": message_type, "absent": absent, "cause": code},
    )
    filters = query.filters("channel") | ({} if until is None else {"until": until + 1})
    if query.number is not None:
        filters |= dict(zip(("kind", "number"), query.number, strict=True))
    options: dict[str, Any] = {"format": chosen, "keep_text": keep_text}
    options |= {"consistent": consistent, "limit": limit, "as_examples": as_examples}
    _export(home, "messages", filters, options, columns, file)


def _format(*, raw: bool, csv: bool, deidentify: bool) -> str:
    formats = {"raw": raw, "csv": csv, "deidentified": deidentify}
    chosen = [name for name, is_chosen in formats.items() if is_chosen]
    if len(chosen) != 1:
        raise typer.BadParameter("give one of --raw, --csv and --deidentify")
    return chosen[0]


def _export(
    home: Path,
    listed: str,
    filters: Mapping[str, Any],
    options: Mapping[str, Any],
    columns: str | None,
    file: Path | None,
) -> None:
    """Export rows of a list to a file, or to the examples of a definition."""
    from bridge.admin.background.commands import export
    from bridge.admin.background.jobs import Selection

    chosen = {} if not columns else {"columns": [name.strip() for name in columns.split(",")]}
    with interruptible("no file was written"), shown_progress() as report:
        job = export(home, Selection(listed, filters), {**options, **chosen}, file, report)
    to = file or f"the examples of {options['as_examples']}"
    print(f"{job.succeeded} {listed} exported to {to}")
    if job.failed:
        print(f"{job.failed} left out: see `bridge jobs show {job.id} --failed`", file=sys.stderr)


deliveries = typer.Typer(help="Results sent to destinations.", no_args_is_help=True)

_DELIVERY_COLUMNS = (
    *("id", "created_at", "destination", "event", "control_id", "state", "attempts"),
    *("code", "detail", "acknowledged_at", "reason"),
)


@deliveries.command("list")
def deliveries_list(
    home: Home,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only in this state: queued, done, parked, …")
    ] = None,
    destination: _Destination = None,
    report: _Report = None,
    control_id: ControlId = None,
    patient: Patient = None,
    order: Order = None,
    since: Since = None,
    before: Before = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """
    List deliveries, newest first, each with the reason why the receiver has not accepted it.

    The reason contains the texts of the receiver, and no other content. A search by a number is
    recorded in the audit trail. --control-id is the MSH-10 of the message that was sent.
    """
    from bridge.admin.items.queue_entries import list_deliveries

    query = row_query(
        *(state, destination, since, before, limit),
        control_id=control_id,
        patient=patient,
        order=order,
        report=report,
    )
    found = [with_times(delivery) for delivery in list_deliveries(home, query)]
    print_rows(found, _DELIVERY_COLUMNS, as_json=as_json)


@deliveries.command("show")
def deliveries_show(delivery_id: Id, home: Home, as_json: AsJson = False) -> None:
    """Show one delivery, its message, all attempts and replies. It contains patient data."""
    from bridge.admin.items.queue_entries import show_delivery
    from bridge.cli.item_output import print_delivery

    print_delivery(show_delivery(home, delivery_id), as_json=as_json)


@deliveries.command("retry")
def deliveries_retry(
    home: Home,
    *,
    delivery_ids: Ids = None,
    state: State = None,
    destination: _Destination = None,
    since: Since = None,
    until: Until = None,
    code: Code = None,
    limit: MaxCount = None,
    rate: Rate = 0.0,
    dry_run: DryRun = False,
) -> None:
    """Send deliveries now or again, oldest first, with the same bytes and control ids."""
    from bridge.admin.items.queue_entries import retry_deliveries, select_deliveries

    chosen = selection(delivery_ids, state, destination, since, until, code, limit)
    ids, notes = select_deliveries(home, delivery_ids, chosen)
    if dry_run:
        print(*ids, sep="\n", end="\n" if ids else "")
        return
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print_requeue_results(retry_deliveries(home, ids, chosen, rate), "delivery", len(ids))


@deliveries.command("export")
def deliveries_export(
    home: Home,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    *,
    raw: _Raw = False,
    csv: _Csv = False,
    deidentify: _Deidentify = False,
    columns: _Columns = None,
    keep_text: _KeepText = False,
    consistent: _Consistent = False,
    state: State = None,
    destination: _Destination = None,
    report: _Report = None,
    since: Since = None,
    until: Until = None,
    code: Code = None,
    limit: MaxCount = None,
) -> None:
    """
    Export results, oldest first: raw, as a table, or without patient data.

    The export is recorded in the audit trail.
    """
    query = row_query(
        *(state, destination, since, None, 0),
        control_id=None,
        patient=None,
        order=None,
        report=report,
        more={"cause": code},
    )
    filters = query.filters("destination") | ({} if until is None else {"until": until + 1})
    options = {
        "format": _format(raw=raw, csv=csv, deidentify=deidentify),
        "keep_text": keep_text,
        "consistent": consistent,
        "limit": limit,
    }
    _export(home, "deliveries", filters, options, columns, file)


@deliveries.command("skip")
def deliveries_skip(delivery_id: Id, home: Home) -> None:
    """Cancel one delivery. Other deliveries of its report are still sent."""
    from bridge.admin.items.queue_entries import skip_delivery

    skip_delivery(home, delivery_id)
    print(f"delivery {delivery_id} will not be sent")


exceptions = typer.Typer(
    help="Messages, orders and results that need attention.", no_args_is_help=True
)

_EXCEPTION_COLUMNS = ("kind", "row_id", "code", "noted_at", "reason")


@exceptions.command("list")
def exceptions_list(home: Home, limit: Limit = 50, as_json: AsJson = False) -> None:
    """
    List exceptions that are not marked as seen, newest first.

    The reason contains what a receiver wrote about a result that it refused after its first reply.
    """
    from bridge.admin.items.queue_entries import list_exceptions

    found = [with_times(exception) for exception in list_exceptions(home, limit)]
    print_rows(found, _EXCEPTION_COLUMNS, as_json=as_json)


@exceptions.command("report")
def exceptions_report(home: Home, as_json: AsJson = False) -> None:
    """
    Show what the reconcile job compared, what differs, and what it could not compare.

    The report covers the last complete round and the current one. No patient data.
    """
    from bridge.admin.items.queue_entries import NEVER_COMPARED, reconcile_report

    rounds = {
        name: None if found is None else with_times(found)
        for name, found in reconcile_report(home).items()
    }
    if as_json:
        print_record(rounds, {"never_compared": NEVER_COMPARED}, as_json=True)
        return
    for name, found in rounds.items():
        print(f"{name} round")
        print_record(found or {"began_at": "none yet"}, {}, as_json=False)
        print()
    print(f"never compared: {NEVER_COMPARED}")


@exceptions.command("reconcile")
def exceptions_reconcile(
    home: Home,
    wait: Annotated[float, typer.Option(help="Seconds to wait for it.", min=0)] = 120.0,
    as_json: AsJson = False,
) -> None:
    """
    Let the running service compare everything now, and show the report.

    Exit status 1 if it does not end in time. It continues in the background.
    """
    from bridge.admin.items.queue_entries import reconcile_now

    ended = reconcile_now(home, wait)
    exceptions_report(home, as_json)
    if not ended:
        typer.echo(
            "not finished: check that a node runs with the role delivery; later see"
            " `bridge exceptions report`",
            err=True,
        )
        raise typer.Exit(1)


@exceptions.command("seen")
def exceptions_seen(
    home: Home,
    message: Annotated[list[int] | None, typer.Option(help="A message, by its id.")] = None,
    order: Annotated[list[int] | None, typer.Option(help="An order, by its row.")] = None,
    feed: Annotated[list[int] | None, typer.Option(help="A replaced feed, by its row.")] = None,
    delivery: Annotated[list[int] | None, typer.Option(help="A delivery, by its id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All exceptions.")] = False,
) -> None:
    """Mark exceptions as seen, which ends their alert."""
    from bridge.admin.items.queue_entries import mark_as_seen

    rows = (message or (), order or (), feed or (), delivery or ())
    if not any(rows) and not everything:
        raise typer.BadParameter(
            "give --message ID, --order ROW, --feed ROW, --delivery ID or --all"
        )
    print(f"seen: {mark_as_seen(home, *(((), (), (), ()) if everything else rows))}")
