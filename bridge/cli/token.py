"""`bridge token`: access tokens of the internal report engine."""

from typing import Annotated

import typer

from bridge.cli.options import Home

group = typer.Typer(help="Access tokens of the internal report engine.", no_args_is_help=True)


@group.callback()
def _tokens() -> None:
    """Keep `create` a command of its own."""


@group.command()
def create(
    home: Home,
    user: Annotated[str, typer.Option(metavar="EMAIL", help="Whose token it is.")],
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    expires_days: Annotated[int | None, typer.Option(min=1, max=3650)] = None,
) -> None:
    """Make an access token; prints the token and nothing else."""
    from bridge.wiring.administration import administer
    from config import load

    with administer(load(home)) as engine:
        print(engine.create_token(user, label=label, expires_days=expires_days))
