"""`bridge deliveries`: list, show, retry and skip results sent to destinations."""

import sys
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

group = typer.Typer(help="Results sent to destinations.", no_args_is_help=True)

_COLUMNS = (
    *("id", "created_at", "destination", "event", "control_id", "state", "attempts"),
    *("code", "detail", "acknowledged_at"),
)
_Id = Annotated[int, typer.Argument(metavar="ID")]


@group.command("list")
def list_(
    home: Home,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only in this state: queued, done, parked, …")
    ] = None,
    destination: Annotated[str | None, typer.Option(help="Only to this destination.")] = None,
    report: Annotated[
        str | None, typer.Option(metavar="REPORT_ID", help="Only of this report.")
    ] = None,
    control_id: ControlId = None,
    patient: Patient = None,
    order: Order = None,
    since: Since = None,
    before: Before = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """
    List deliveries, newest first, without patient data.

    A search by a number is recorded in the audit trail. --control-id is the MSH-10 of the
    message that was sent.
    """
    from bridge.monitoring.channels import Kind

    listing = Listing(
        home,
        state=state,
        source=destination,
        control_id=control_id,
        patient=patient,
        order=order,
        since=since,
        before=before,
        limit=limit,
        as_json=as_json,
        report=report,
    )
    listing.show(Kind.DESTINATION, _COLUMNS)


@group.command()
def show(delivery_id: _Id, home: Home, as_json: AsJson = False) -> None:
    """Show one delivery, its message and the last reply. The output contains patient data."""
    from bridge.admin.audit_events import audited
    from bridge.cli.output import one, times
    from bridge.console.message_view import message_text
    from bridge.queue import queries
    from bridge.wiring.stores import bridge_database

    with (
        bridge_database(home) as database,
        audited(home, database, "read", ("delivery", str(delivery_id))),
    ):
        detail = queries.delivery(database, delivery_id)
    texts = {"payload": message_text(detail.payload), "reply": message_text(detail.reply)}
    one(times(asdict(detail.row)), texts, as_json=as_json)


@group.command()
def retry(
    home: Home,
    *,
    delivery_ids: Ids = None,
    state: State = None,
    destination: Annotated[str | None, typer.Option(help="Only to this destination.")] = None,
    since: Since = None,
    until: Until = None,
    code: Code = None,
    limit: Most = None,
    rate: Rate = 0.0,
    dry_run: DryRun = False,
) -> None:
    """Send deliveries now or again, oldest first, with the same bytes and control ids."""
    from bridge.admin.audit_events import recorded, relayed
    from bridge.admin.channels import must_be_known, waits
    from bridge.admin.selection import chosen, one_by_one
    from bridge.cli.listing import choice, report
    from bridge.monitoring.channels import Kind
    from bridge.queue.operations import retry_delivery
    from bridge.queue.queries import deliveries
    from bridge.wiring.stores import bridge_database

    made = choice(delivery_ids, state, destination, since, until, code, limit)
    with bridge_database(home) as database:
        ids = sorted(delivery_ids) if delivery_ids else chosen(database, made, deliveries)
        if not ids:
            must_be_known(home, Kind.DESTINATION, destination)
        if dry_run:
            print(*ids, sep="\n", end="\n" if ids else "")
            return
        for each in waits(home, database, ids):
            print(f"note: {each}", file=sys.stderr)

        def again(row_id: int) -> None:
            with recorded(database, "retry", ("delivery", str(row_id))):
                retry_delivery(database, row_id, expected_state=made.wanted.state)

        with relayed(home, database):
            report(one_by_one(ids, again, rate), "delivery")


@group.command()
def skip(delivery_id: _Id, home: Home) -> None:
    """Cancel one delivery. Other deliveries of its report are still sent."""
    from bridge.admin.audit_events import audited
    from bridge.queue.operations import skip_delivery
    from bridge.wiring.stores import bridge_database

    with (
        bridge_database(home) as database,
        audited(home, database, "skip", ("delivery", str(delivery_id))),
    ):
        skip_delivery(database, delivery_id)
    print(f"delivery {delivery_id} will not be sent")
