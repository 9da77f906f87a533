"""`bridge init`, `bridge check`, `bridge migrate`: a home folder before anything runs in it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import Home


def init(
    home: Annotated[Path, typer.Argument(metavar="HOME", help="The folder to make.")],
) -> None:
    """Make a home: settings, mappings, secrets. Never overwrites."""
    from bridge.wiring.homes import make_home

    written, kept = make_home(home)
    for path in written:
        print(f"wrote {path}")
    for path in kept:
        print(f"kept  {path}")


def check(
    home: Home,
    live: Annotated[
        bool, typer.Option("--live", help="Ask every peer: connections, TLS, folders, service.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Correct files that other accounts can access.")
    ] = False,
) -> None:
    """Check settings, mappings, keys, database and destinations; name every mistake at once."""
    from bridge.wiring.checks import check_home, fix_home
    from bridge.wiring.findings import Severity
    from bridge.wiring.protections import protections

    if fix:
        fix_home(home)  # the check below names what is left
    findings = check_home(home, reach=not live) + protections()
    if live:
        from bridge.wiring.live import check_live

        findings += check_live(home)
    for finding in findings:
        print(f"{finding.severity:<7} {finding.place}: {finding.message}")
    if any(finding.severity is Severity.ERROR for finding in findings):
        sys.exit(1)
    print("ok")


def migrate(home: Home) -> None:
    """Bring the databases of a home to the schema of this release."""
    from bridge.wiring.console_access import resolve_grants
    from bridge.wiring.stores import bridge_database, migrate_all
    from config import load

    settings = load(home)
    for name, revisions in migrate_all(settings).items():
        print(f"{name}: {', '.join(revisions)}")
    with bridge_database(home) as database:
        resolve_grants(settings, database)
