"""`bridge orders` and `bridge merges`: where an order is, and merged patient numbers."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from bridge.cli.options import AsJson, Home, Limit
from bridge.cli.output import iso, print_line, print_rows, with_times

orders = typer.Typer(help="Orders with their reports, messages and results.", no_args_is_help=True)


@orders.callback()
def _group() -> None:
    """Orders with their reports, messages and results."""


@orders.command()
def show(
    number: Annotated[
        str,
        typer.Argument(
            metavar="NUMBER",
            help="Accession, placer, filler or patient number, MSH-10, or the id of a report.",
        ),
    ],
    home: Home,
    as_json: AsJson = False,
) -> None:
    """
    Show the orders with a number: what each waits for, and its timeline.

    The timeline has the order's messages, the changes of its report, and its results. Letter case
    makes no difference. Exit status 1 if nothing has the number.
    """
    from bridge.admin.orders.commands import show_orders

    found = show_orders(home, number.strip())
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False, default=str))
    else:
        _print(found)
    if not found["orders"] and not found["messages"]:
        sys.exit(1)


@orders.command("return-to-unread")
def return_to_unread(
    number: Annotated[
        str, typer.Argument(metavar="NUMBER", help="Accession, placer or filler number.")
    ],
    home: Home,
    reason: Annotated[str, typer.Option(help="Why; without patient data. It is audited.")],
    site: Annotated[str, typer.Option("--site", metavar="SITE_ID", help="Only this site.")] = "",
) -> None:
    """
    Return an order that is reported elsewhere to the list of unread orders.

    A later message that it is reported takes it off the list again.
    """
    from bridge.admin.orders import unread

    row = unread.return_to_unread(home, number.strip(), site, reason)
    print(f"order {row} is on the list of unread orders again")


@orders.command()
def steps(
    home: Home,
    *,
    day: Annotated[str, typer.Option(metavar="DATE", help="Only of this day: 2026-11-30.")] = "",
    status: Annotated[
        str,
        typer.Option(
            metavar="STATUS",
            help="Only in this status: SCHEDULED, ARRIVED, READY, STARTED, COMPLETED, "
            "DISCONTINUED, CANCELLED. Default: those on the worklist.",
        ),
    ] = "",
    modality: Annotated[str, typer.Option(help="Only of this modality, such as CT.")] = "",
    station: Annotated[
        str, typer.Option(metavar="AE_TITLE", help="Only of this scheduled station.")
    ] = "",
    site: Annotated[str, typer.Option("--site", metavar="SITE_ID", help="Only this site.")] = "",
    accession: Annotated[
        str, typer.Option(metavar="NUMBER", help="Only of the order with this accession.")
    ] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List scheduled procedure steps, the latest start first, as modalities see them."""
    from bridge.admin.lists.steps import list_steps

    given = {
        "day": day,
        "status": status.upper(),
        "modality": modality,
        "station": station,
        "site": site,
        "number": accession,
    }
    rows = list_steps(home, {name: value for name, value in given.items() if value}, limit)
    for row in rows:
        row["stations"] = ", ".join(row["stations"])
    print_rows(rows, _STEP_COLUMNS, as_json=as_json)


_STEP_COLUMNS = (
    *("start", "status", "modality", "stations", "location", "accession", "step_id"),
    *("site", "order_id"),
)


def _print(found: Mapping[str, Any]) -> None:
    for page in found["orders"]:
        _print_order(page)
    for message in found["messages"]:
        print_line(
            f"message {message['id']} {iso(message['received_at'])} {message['listener']} "
            f"{message['message_type']}: {message['ack_code']}, {message['state']}"
            f"{' ' + message['code'] if message['code'] else ''}"
        )
    if found["similar"]:
        print_line(f"no order has this number; these begin with it: {', '.join(found['similar'])}")
    elif not found["orders"] and not found["messages"]:
        print_line("nothing has this number")


def _print_order(page: Mapping[str, Any]) -> None:
    order, report = page["order"], page["report"]
    print_line(f"order {order['accession']} of patient {order['mrn']}, site {order['site']}")
    print_line(f"  {page['sentence']['text']}")
    print_line(f"  placer {order['placer'] or '-'}, filler {order['filler'] or '-'}")
    print_line(f"  order    {order['state']}")
    if report is None:
        print_line("  report   none yet")
    else:
        reader = f", {report['reader']}" if report["reader"] else ", no reader"
        print_line(f"  report   {report['status'] or 'unknown'}{reader} ({report['id']})")
    if page["worklist"] and page["worklist"]["place"]:
        total = page["worklist"]["total"] or "many"
        print_line(f"  worklist place {page['worklist']['place']} of {total}")
    for linked in page["linked"]:
        print_line(f"  linked   {linked['accession']} ({linked['state']})")
    for step in page["steps"]:
        _print_step(step)
    if not page["is_current"]:
        print_line("  the report engine does not answer: states are as last seen")


def _print_step(step: Mapping[str, Any]) -> None:
    since = step["since_previous"]
    after = "" if since is None else f"+{short_duration(since)}"
    count = f" ({step['count']} times)" if step["count"] > 1 else ""
    took = "" if step["took"] is None else f" in {short_duration(step['took'])}"
    detail = f": {step['detail']}" if step["detail"] else ""
    row = f" ({step['link']['page']} {step['link']['id']})" if step["link"] else ""
    print_line(f"  {iso(step['at'])} {after:>8} {step['text']}{count}{took}{detail}{row}")


def short_duration(milliseconds: int) -> str:
    """Format a duration below a second in milliseconds, else in its largest unit."""
    from bridge.monitoring.conditions import format_duration

    return f"{milliseconds} ms" if milliseconds < _SECOND else format_duration(milliseconds)


_SECOND = 1_000


merges_group = typer.Typer(help="Merged patient numbers.", no_args_is_help=True)

_COLUMNS = ("site", "prior_mrn", "mrn", "merged_into", "merged_at", "reference")
_Site = Annotated[str, typer.Option("--site", metavar="SITE_ID", help="Only this site.")]


@merges_group.command("list")
def list_(
    home: Home,
    site: _Site = "",
    number: Annotated[str, typer.Option(metavar="MRN", help="Only merges with this number.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """
    List merged numbers and their survivors, newest first. The output contains patient data.

    `reference` is the name of the merge in the audit trail.
    """
    from bridge.admin.orders import merges

    found = [with_times(merge) for merge in merges.list_merges(home, site, number, limit)]
    print_rows(found, _COLUMNS, as_json=as_json)


@merges_group.command()
def undo(
    number: Annotated[str, typer.Argument(metavar="MRN", help="The number that was merged.")],
    home: Home,
    reason: Annotated[str, typer.Option(help="Why; without patient data. It is audited.")],
    site: _Site = "",
) -> None:
    """
    Undo a wrong merge: the number is that of its own patient again.

    Orders that the merge moved return, with their reports. Those stay with the survivor whose text
    was signed or read preliminarily since the merge, or also belongs to another order; they become
    exceptions: check whose they are. Messages that waited for this are processed.
    """
    from bridge.admin.orders import merges

    done = merges.undo(home, number, site, reason)
    print(f"merge {done.reference} of site {done.site} is undone")
    if done.moved:
        print(f"orders that returned: {done.moved}")
    if done.kept:
        print(f"check {done.kept} orders that stay with the survivor: bridge exceptions list")
