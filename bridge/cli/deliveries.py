"""`bridge deliveries`: list, show, retry and skip results sent to destinations."""

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
    from bridge.admin.queue.deliveries import list_deliveries
    from bridge.cli.output import print_rows, with_times

    query = row_query(
        *(state, destination, since, before, limit),
        control_id=control_id,
        patient=patient,
        order=order,
        report=report,
    )
    found = [with_times(each) for each in list_deliveries(home, query)]
    print_rows(found, _COLUMNS, as_json=as_json)


@group.command()
def show(delivery_id: _Id, home: Home, as_json: AsJson = False) -> None:
    """Show one delivery, its message and the last reply. The output contains patient data."""
    from bridge.admin.queue.deliveries import show_delivery
    from bridge.cli.output import print_record, with_times

    row, texts = show_delivery(home, delivery_id)
    print_record(with_times(row), texts, as_json=as_json)


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
    from bridge.admin.queue.deliveries import retry_deliveries, select_deliveries
    from bridge.cli.output import print_requeue_results

    chosen = selection(delivery_ids, state, destination, since, until, code, limit)
    ids, notes = select_deliveries(home, delivery_ids, chosen)
    if dry_run:
        print(*ids, sep="\n", end="\n" if ids else "")
        return
    for each in notes:
        print(f"note: {each}", file=sys.stderr)
    print_requeue_results(retry_deliveries(home, ids, chosen, rate), "delivery")


@group.command()
def skip(delivery_id: _Id, home: Home) -> None:
    """Cancel one delivery. Other deliveries of its report are still sent."""
    from bridge.admin.queue.deliveries import skip_delivery

    skip_delivery(home, delivery_id)
    print(f"delivery {delivery_id} will not be sent")
