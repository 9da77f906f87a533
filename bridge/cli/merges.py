"""`bridge merges`: merged patient numbers, and undoing a wrong merge."""

from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home, Limit
from bridge.cli.output import print_rows, with_times

group = typer.Typer(help="Merged patient numbers.", no_args_is_help=True)

_COLUMNS = ("site", "prior_mrn", "mrn", "merged_into", "merged_at", "reference")
_Site = Annotated[str, typer.Option("--site", metavar="SITE_ID", help="Only this site.")]


@group.command("list")
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


@group.command()
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
