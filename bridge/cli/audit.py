"""`bridge audit`: verify, list and export the audit trail."""

import json
import sys
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home, Limit, Since
from bridge.cli.output import print_rows

group = typer.Typer(help="The audit trail.", no_args_is_help=True)

_COLUMNS = ("sequence", "at", "SiteID", "action", "outcome", "actor", "tokenId", "subject")
_Site = Annotated[str | None, typer.Option("--site", metavar="SITE_ID", help="Only this site.")]
_Action = Annotated[str | None, typer.Option(help="Only this action, such as sign or export.")]
_Report = Annotated[str | None, typer.Option(metavar="REPORT_ID", help="Only this report.")]


@group.command()
def verify(
    home: Home,
    head: Annotated[
        str | None,
        typer.Option(metavar="HEAD", help="A stored head that must be part of the chain."),
    ] = None,
) -> None:
    """Verify the hash chain: print its head, or the first broken entry and exit 1."""
    from bridge.admin import audit_events

    found = audit_events.verify(home, head)
    verdict = found.verdict
    if verdict.broken is not None:
        print(f"broken at entry {verdict.broken}; {verdict.events} before it are intact")
        sys.exit(1)
    if not found.has_head:
        print("the stored head is not part of the chain: events were removed or replaced")
        sys.exit(1)
    if found.pending:
        print(f"pending: {found.pending} events are not in the chain yet")
    print(f"ok: {verdict.events} entries, head {verdict.head}")


@group.command("head")
def head_(home: Home) -> None:
    """Print `SEQUENCE HASH` of the newest event, to be stored and passed to `audit verify`."""
    from bridge.admin import audit_events

    sequence, value = audit_events.head(home)
    print(f"{sequence} {value}")


@group.command("list")
def list_(
    home: Home,
    site: _Site = None,
    since: Since = None,
    action: _Action = None,
    report: _Report = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List events, newest first; no patient data."""
    from bridge.admin import audit_events

    found = audit_events.list_events(
        home, audit_events.make_query(site, since, action, report), limit
    )
    if not as_json:
        found = [{**entry, "subject": " ".join(entry["target"].values())} for entry in found]
    print_rows(found, _COLUMNS, as_json=as_json)


@group.command()
def export(
    home: Home,
    site: _Site = None,
    since: Since = None,
    action: _Action = None,
    report: _Report = None,
    patients: Annotated[
        bool, typer.Option("--patients", help="Include the MRN of the patients.")
    ] = False,
) -> None:
    """Write FHIR R4 AuditEvent resources (IHE BALP) to standard output, one a line."""
    from bridge.admin import audit_events

    query = audit_events.make_query(site, since, action, report)
    for resource in audit_events.export(home, query, patients=patients):
        print(json.dumps(resource, ensure_ascii=False, separators=(",", ":")))
