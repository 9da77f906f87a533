"""The tree of commands, as DESIGN 5 spells it."""

import os
from typing import Annotated

import typer

from bridge import __version__
from bridge.cli import (
    audit,
    channels,
    concerns,
    console,
    deliveries,
    home,
    interface,
    keeping,
    mapping,
    messages,
    serve,
    site,
    token,
    user,
    wire,
)

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


application.command("init")(home.init)
application.command("serve")(serve.serve)
application.command("check")(home.check)
application.command("migrate")(home.migrate)
application.command("send")(wire.send)
application.command("receive")(wire.receive)
application.command("rotate-keys")(keeping.rotate_keys)
application.command("prune")(keeping.prune)
application.add_typer(site.group, name="site")
application.add_typer(user.group, name="user")
application.add_typer(token.group, name="token")
application.add_typer(messages.group, name="messages")
application.add_typer(deliveries.group, name="deliveries")
application.add_typer(channels.listeners, name="listeners")
application.add_typer(channels.destinations, name="destinations")
application.add_typer(channels.alerts, name="alerts")
application.add_typer(concerns.group, name="exceptions")
application.add_typer(concerns.group, name="concerns", hidden=True)  # its former name
application.add_typer(mapping.group, name="mapping")
application.add_typer(interface.group, name="interface")
application.add_typer(audit.group, name="audit")
application.add_typer(console.group, name="console")
