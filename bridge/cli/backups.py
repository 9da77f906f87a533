"""`bridge backup`, `restore`, `compare`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import Home
from bridge.cli.output import interruptible, shown_progress


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")],
    home: Home,
    without_secrets: Annotated[
        bool,
        typer.Option(
            "--without-secrets", help="Leave out keys, tokens, certificates and passwords."
        ),
    ] = False,
) -> None:
    """
    Back up the databases and the data directory into one verified file.

    The service may run at the same time. The file contains patient data, and secrets unless they
    are left out; only its owner can read it.
    """
    from bridge.admin.backup.backup import back_up

    with interruptible(f"{file} was not written"), shown_progress() as report:
        done = back_up(home, file, secrets=not without_secrets, report=report)
    for name in done.left_out:
        print(f"left out: {name} is no regular file", file=sys.stderr)
    databases = " and ".join(done.databases)
    print(f"wrote {done.file}: {done.bytes:,} bytes, verified")
    print(f"databases: {databases}, {done.rows:,} rows; files of HOME: {done.files}")
    print("with secrets" if done.secrets else "without secrets")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    home: Annotated[Path, typer.Argument(metavar="HOME", help="New, or an empty folder.")],
    as_test_copy: Annotated[
        bool,
        typer.Option(
            "--as-test-copy", help="Other ports, nothing is sent, all pages say that it is a copy."
        ),
    ] = False,
    database_url: Annotated[
        str,
        typer.Option(metavar="URL", help="An empty PostgreSQL database instead of the old one."),
    ] = "",
    engine_database_url: Annotated[
        str, typer.Option(metavar="URL", help="The same for the report engine's own database.")
    ] = "",
) -> None:
    """Restore a backup into a new data directory, and into its databases."""
    from bridge.admin.backup.restore import restore as restore_backup

    state = f"{home} was not restored; nothing of the backup was kept"
    with interruptible(state), shown_progress() as report:
        done = restore_backup(
            file,
            home,
            as_test_copy=as_test_copy,
            database_url=database_url,
            engine_url=engine_database_url,
            report=report,
        )
    print(f"restored {done.home} of {done.made_at}: {done.files} files, {done.rows:,} rows")
    for note in done.notes:
        print(note)


def compare(
    first: Annotated[Path, typer.Argument(metavar="HOME_A", exists=False)],
    second: Annotated[Path, typer.Argument(metavar="HOME_B", exists=False)],
) -> None:
    """
    Compare two installations: settings, connections, definitions, code tables, sites, schema.

    Secrets are compared and not shown. Exit status 1 if there is a difference.
    """
    from bridge.admin.backup.compare import compare as differences

    found = differences(first, second)
    for line in found:
        print(line)
    if found:
        raise typer.Exit(1)
    print("no differences")
