"""The tree of commands, as DESIGN 5 spells it, and its exit statuses."""

import os
import sys
from typing import Annotated

import typer

from bridge import __version__
from bridge.cli import (
    audit,
    channels,
    console,
    deliveries,
    exceptions,
    interfaces,
    mapping,
    messages,
    mllp,
    service,
    sites,
    tokens,
    users,
)
from bridge.errors import BridgeError
from config.errors import SettingsError
from mappings.language.errors import MappingErrors
from mllp.errors import MLLPError

application = typer.Typer(
    name="bridge",
    help="HL7 v2 orders in, finished imaging reports out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich alone takes a third of a second to load
)


def _say_release(asked: bool) -> None:  # as typer calls it
    if asked:
        typer.echo(f"Report Bridge {__version__}")
        raise typer.Exit


@application.callback()
def _common(
    version: Annotated[  # its callback answers
        bool,
        typer.Option(
            "--version", help="Say which release this is.", callback=_say_release, is_eager=True
        ),
    ] = False,
) -> None:
    os.umask(0o077)  # as config.private_files, which takes too long to import here


application.command("init")(service.init)
application.command("serve")(service.serve)
application.command("check")(service.check)
application.command("migrate")(service.migrate)
application.command("send")(mllp.send)
application.command("receive")(mllp.receive)
application.command("rotate-keys")(service.rotate_keys)
application.command("prune")(service.prune)
application.add_typer(sites.group, name="site")
application.add_typer(users.group, name="user")
application.add_typer(tokens.group, name="token")
application.add_typer(messages.group, name="messages")
application.add_typer(deliveries.group, name="deliveries")
application.add_typer(channels.listeners, name="listeners")
application.add_typer(channels.destinations, name="destinations")
application.add_typer(channels.alerts, name="alerts")
application.add_typer(exceptions.group, name="exceptions")
application.add_typer(exceptions.group, name="concerns", hidden=True)  # its former name
application.add_typer(mapping.group, name="mapping")
application.add_typer(interfaces.group, name="interface")
application.add_typer(audit.group, name="audit")
application.add_typer(console.group, name="console")


USAGE = 2
FAILED = 1


def explain(error: Exception) -> int:
    """Print what is wrong and return the exit status; raise what nobody foresaw again."""
    if isinstance(error, SettingsError):
        print("\n".join(str(mistake) for mistake in error.mistakes), file=sys.stderr)
        return USAGE
    if isinstance(error, BridgeError | MappingErrors | MLLPError | OSError):
        print(f"bridge: {error}", file=sys.stderr)
        return FAILED
    raise error
