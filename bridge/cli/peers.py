"""`bridge peers`: the applications that may use the DICOM port."""

from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home
from bridge.cli.output import iso, print_rows, with_times

group = typer.Typer(
    help="Applications that may use the DICOM port, such as modalities.", no_args_is_help=True
)
_Title = Annotated[str, typer.Argument(metavar="TITLE", help="The AE title of the peer.")]
_Reason = Annotated[str, typer.Option("--reason", "-m", help="Reason, for the history.")]
_COLUMNS = ("ae_title", "enabled", "addresses", "may", "address", "associated_at", "request")
_MORE = ("requested_at", "answers", "refused", "source")
_REFUSALS = ("last_at", "count", "reason", "title", "address")
_VERSIONS = ("version", "at", "actor", "origin", "reason")


@group.command("list")
def list_(home: Home, as_json: AsJson = False) -> None:
    """List them with their last association and request, and their refusals of the last hour."""
    from bridge.admin.dicom_peers import list_peers

    rows = [with_times(peer) for peer in list_peers(home)]
    if not as_json:
        rows = [
            {**row, "addresses": ", ".join(row["addresses"]), "may": ", ".join(row["may"])}
            for row in rows
        ]
    print_rows(rows, (*_COLUMNS, *_MORE), as_json=as_json)


@group.command()
def refused(home: Home, as_json: AsJson = False) -> None:
    """List whom the port refused within the last hour, and why: unknown AE titles, addresses, …"""
    from bridge.admin.dicom_peers import list_refusals

    print_rows([with_times(row) for row in list_refusals(home)], _REFUSALS, as_json=as_json)


@group.command()
def history(title: _Title, home: Home, as_json: AsJson = False) -> None:
    """List the settings of a peer that were activated, newest first."""
    from bridge.admin.dicom_peers import list_versions

    rows = [{**version, "at": iso(version["at"])} for version in list_versions(home, title)]
    print_rows(rows, _VERSIONS, as_json=as_json)


@group.command("set")
def set_(
    title: _Title,
    home: Home,
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE…]",
            help="Settings of [[dicom.peer]]; lists with commas; an empty value is the default.",
        ),
    ] = None,
    reason: _Reason = "",
) -> None:
    """
    Add a peer, or change its settings; all nodes follow within two seconds.

    An example: `bridge peers set CT1 addresses=10.1.7.9 may=worklist,performed`.
    """
    from bridge.admin.dicom_peers import set_peer

    print(f"dicom-peer {title} has version {set_peer(home, title, values or [], reason)}")


@group.command()
def remove(title: _Title, home: Home, reason: _Reason = "") -> None:
    """Remove a peer and end its associations, or return to its settings in bridge.toml."""
    from bridge.admin.dicom_peers import remove_peer

    remove_peer(home, title, reason)
    print(f"dicom-peer {title}: what was saved is removed")


@group.command()
def rollback(title: _Title, home: Home, reason: _Reason = "") -> None:
    """Activate the previous settings of a peer."""
    from bridge.admin.dicom_peers import roll_back_peer

    print(f"dicom-peer {title} has version {roll_back_peer(home, title, reason)}")
