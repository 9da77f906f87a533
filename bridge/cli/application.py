"""The command tree of `bridge`, and the exit status of errors."""

import os
import sys
from typing import Annotated

import typer

from bridge import __version__
from bridge.cli import (
    administration,
    audit,
    backups,
    channels,
    examine,
    jobs,
    mapping,
    mirth,
    mllp,
    orders,
    peers,
    queues,
    service,
)
from bridge.commit import running_commit
from bridge.errors import BridgeError
from config.toml_text import SettingsError
from mappings.language.diagnostics import MappingErrors
from mllp.errors import MLLPError

application = typer.Typer(
    name="bridge",
    help="HL7 v2 orders in, finished imaging reports out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: importing rich takes a third of a second
)


def _print_version(requested: bool) -> None:  # called by typer
    if requested:
        commit = running_commit()
        build = f"build {commit}" if commit else "unknown build"
        typer.echo(f"Report Bridge {__version__} ({build})")
        raise typer.Exit


@application.callback()
def _common(
    version: Annotated[  # handled by its callback
        bool,
        typer.Option(
            "--version",
            help="Print the version and the build, and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    os.umask(0o077)  # as config.private_files does, which is slow to import


application.command("init")(service.init)
application.command("serve")(service.serve)
application.command("first-steps")(channels.first_steps)
application.command("check")(service.check)
application.command("migrate")(service.migrate)
application.command("send")(mllp.send)
application.command("receive")(mllp.receive)
application.command("examine")(examine.examine)
application.command("rotate-keys")(service.rotate_keys)
application.command("prune")(service.prune)
application.command("backup")(backups.backup)
application.command("restore")(backups.restore)
application.command("compare")(backups.compare)
application.add_typer(administration.sites, name="site")
application.add_typer(administration.users, name="user")
application.add_typer(administration.tokens, name="token")
application.add_typer(queues.messages, name="messages")
application.add_typer(queues.deliveries, name="deliveries")
application.add_typer(jobs.group, name="jobs")
application.command("channels")(channels.overview)
application.command("attention")(channels.attention)
application.add_typer(channels.listeners, name="listeners")
application.add_typer(channels.destinations, name="destinations")
application.add_typer(peers.group, name="peers")
application.add_typer(channels.alerts, name="alerts")
application.add_typer(queues.exceptions, name="exceptions")
application.add_typer(queues.exceptions, name="concerns", hidden=True)  # the former name
application.add_typer(orders.orders, name="orders")
application.add_typer(orders.merges_group, name="merges")
application.add_typer(mapping.group, name="mapping")
application.add_typer(channels.interfaces, name="interface")
application.command("import-mirth")(mirth.import_mirth)
application.add_typer(audit.group, name="audit")
application.add_typer(administration.console, name="console")


USAGE = 2
FAILED = 1


def explain(error: Exception) -> int:
    """Print a known error and return the exit status; raise an unknown error again."""
    if isinstance(error, SettingsError):
        print("\n".join(str(mistake) for mistake in error.mistakes), file=sys.stderr)
        return USAGE
    if isinstance(error, BridgeError | MappingErrors | MLLPError | OSError):
        print(f"bridge: {error}", file=sys.stderr)
        return FAILED
    raise error
