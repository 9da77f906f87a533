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
    Show the orders with a number: their state, report, reader, messages and deliveries.

    Letter case makes no difference. Exit status 1 if nothing has the number.
    """
    from bridge.admin.search.order_overview import show_orders

    found = show_orders(home, number.strip())
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False, default=str))
    else:
        _print(found)
    if not found["orders"] and not found["messages"]:
        sys.exit(1)


def _print(found: Mapping[str, Any]) -> None:
    for order in found["orders"]:
        print_line(f"order {order['accession']} of patient {order['mrn']}, site {order['site']}")
        print_line(f"  placer {order['placer'] or '-'}, filler {order['filler'] or '-'}")
        print_line(f"  order    {order['state']}")
        report = order["report"]
        if report is None:
            print_line("  report   none yet")
        else:
            reader = f", {report['reader']}" if report["reader"] else ", no reader"
            print_line(f"  report   {report['status'] or 'unknown'}{reader} ({report['id']})")
        for delivery in order["deliveries"]:
            reason = " ".join(filter(None, (delivery["code"], delivery["detail"])))
            attempts = f"{delivery['attempts']} attempts"
            print_line(
                f"  result   {delivery['event']} to {delivery['destination']}: "
                f"{delivery['state']}, {attempts}{f', {reason}' if reason else ''} "
                f"(delivery {delivery['id']})"
            )
        if not order["deliveries"]:
            print_line("  result   nothing sent")
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
    if found["orders"] and not found["is_current"]:
        print_line("the report service does not answer: states are as last seen")


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
    from bridge.admin import merges

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

    Orders that the merge moved stay with the survivor and become exceptions: check whose they
    are. Messages that waited for this are processed.
    """
    from bridge.admin import merges

    done = merges.undo(home, number, site, reason)
    print(f"merge {done.reference} of site {done.site} is undone")
    if done.orders:
        print(f"check {done.orders} moved orders: bridge exceptions list")
