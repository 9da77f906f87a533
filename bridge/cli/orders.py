"""`bridge orders` and `bridge merges`: where an order is, and merged patient numbers."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
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
            "DISCONTINUED, CANCELLED, HELD, EXPIRED. Default: those on the worklist.",
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
    *("start", "status", "modality", "stations", "location", "accession", "placer"),
    *("step_id", "site"),
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
    for report in page["outside"]:
        for version in report["versions"]:
            _print_outside(report, version)
    for report in page["structured"]:
        aside = ", set aside" if report["set_aside"] else ""
        print_line(f"  structured report: {report['title']}{aside}")
        _print_text(report["text"])
    for step in page["steps"]:
        _print_step(step)
    if not page["is_current"]:
        print_line("  the report engine does not answer: states are as last seen")


def _print_outside(report: Mapping[str, Any], version: Mapping[str, Any]) -> None:
    files = f", {version['pdfs']} PDF" if version["pdfs"] else ""
    print_line(
        f"  not made here: {report['sender']}, {iso(version['at'])}, {version['status']}{files}"
    )
    _print_text(version["text"])


def _print_text(text: str | None) -> None:
    for line in (text or "").split("\n"):
        print_line(f"    {line}".rstrip())


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
_UNDONE_COLUMNS = ("site", "prior_mrn", "mrn", "merged_at", "undone_at", "orders", "reference")
_PATIENT_COLUMNS = ("mrn", "name", "birth_date", "sex")
_ORDER_COLUMNS = ("accession", "state", "report_id", "status", "sent_since", "stays")
_RESULT_COLUMNS = (
    *("delivery_id", "destination", "accession", "event", "sent_at", "is_corrected"),
    "correction",
)
_Number = Annotated[str, typer.Argument(metavar="MRN", help="The number that was merged.")]
_Reason = Annotated[str, typer.Option(help="Why; without patient data. It is audited.")]
_Site = Annotated[str, typer.Option("--site", metavar="SITE_ID", help="Only this site.")]


@merges_group.command("list")
def list_(
    home: Home,
    site: _Site = "",
    number: Annotated[str, typer.Option(metavar="MRN", help="Only merges with this number.")] = "",
    undone: Annotated[bool, typer.Option(help="List merges that were undone.")] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """
    List merged numbers and their survivors, newest first. The output contains patient data.

    `reference` is the name of the merge in the audit trail.
    """
    from bridge.admin.orders import merges

    listed = merges.list_undone if undone else merges.list_merges
    found = [with_times(merge) for merge in listed(home, site, number, limit)]
    print_rows(found, _UNDONE_COLUMNS if undone else _COLUMNS, as_json=as_json)


@merges_group.command("show")
def show_merge(number: _Number, home: Home, site: _Site = "", as_json: AsJson = False) -> None:
    """
    Show what a merge moved, and what happens if it is undone. The output contains patient data.

    `stays` says why an order stays with the survivor: `unknown` (what it was before is not stored),
    `signed` (a text was released under the survivor's name), `shared` (its begun report has other
    orders). Results are those that receivers accepted, or get again, under the survivor's number.
    If the merge was undone, the orders are those that returned.
    """
    from bridge.admin.orders import merges

    found = merges.show(home, number, site)
    if as_json:
        print(json.dumps(asdict(found), indent=2))
        return
    undone = f", undone {iso(found.undone_at)}" if found.undone_at else ""
    print_line(
        f"{found.prior_mrn} into {found.mrn} of site {found.site}, {iso(found.merged_at)}{undone}"
    )
    print_line(
        f"orders: {len(found.orders)}, reports: {found.reports}, priors: {found.priors},"
        f" linked: {found.linked}, results: {len(found.results)}"
    )
    print_rows([asdict(patient) for patient in found.patients], _PATIENT_COLUMNS, as_json=False)
    print_rows([asdict(order) for order in found.orders], _ORDER_COLUMNS, as_json=False)
    if found.results:
        rows = [with_times(asdict(result)) for result in found.results]
        print_rows(rows, _RESULT_COLUMNS, as_json=False)


@merges_group.command()
def undo(
    number: _Number,
    home: Home,
    reason: _Reason,
    site: _Site = "",
    include_signed: Annotated[
        bool,
        typer.Option(help="Also orders whose text was signed under the survivor's name."),
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACCESSION", help="An order that stays with the survivor. Repeatable."
        ),
    ] = None,
) -> None:
    """
    Undo a wrong merge: the number is that of its own patient again.

    Orders that the merge moved return, with their reports. Those stay with the survivor whose text
    was signed or read preliminarily since the merge (without `--include-signed`), or also belongs
    to another order, and those that `--keep` names. All of them become exceptions: check whose they
    are. Messages about the patients wait until it is done.

    If a message has undone the merge and left signed orders with the survivor, the command with
    `--include-signed` returns these.
    """
    from bridge.admin.orders import merges

    done = merges.undo(home, number, site, reason, include_signed=include_signed, keep=keep or ())
    print(f"merge {done.reference} of site {done.site} is undone")
    if done.moved:
        print(f"orders that returned: {done.moved}")
    if done.kept:
        print(f"check {done.kept} orders that stay with the survivor: bridge exceptions list")


@merges_group.command()
def correct(number: _Number, home: Home, reason: _Reason, site: _Site = "") -> None:
    """
    Correct the results that went out under the survivor of an undone merge.

    Each receiver that accepted one gets a message that withdraws it under the survivor's number,
    and the result under the patient's own number, by the definition of its destination. If this has
    no message that withdraws a result, only the result is sent.
    """
    from bridge.admin.orders import merges

    done = merges.correct(home, number, site, reason)
    print(f"messages that are queued: {done.queued}" if done.queued else "nothing to correct")
    for name in done.result_only:
        print(f"{name} cannot withdraw a result: tell the receiver what is wrong")
    for name in done.nothing:
        print(f"{name} gets no message: it was removed, or its definition has none for this")
