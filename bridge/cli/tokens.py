"""`bridge token`: access tokens of the internal report engine."""

from dataclasses import asdict
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home

group = typer.Typer(help="Access tokens of the internal report engine.", no_args_is_help=True)

_COLUMNS = (
    *("id", "email", "label", "service", "scopes"),
    *("created_at", "expires_at", "last_used_at", "revoked_at"),
)


@group.command()
def create(
    home: Home,
    user: Annotated[str, typer.Option(metavar="EMAIL", help="Whose token it is.")],
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    expires_days: Annotated[int | None, typer.Option(min=1, max=3650)] = None,
) -> None:
    """Make an access token; prints the token and nothing else."""
    from bridge.admin.engine_administration import administer
    from config import load

    with administer(load(home)) as engine:
        print(engine.create_token(user, label=label, expires_days=expires_days))


@group.command("list")
def list_(
    home: Home,
    site: Annotated[str | None, typer.Option(metavar="SITE_ID", help="Only of its users.")] = None,
    as_json: AsJson = False,
) -> None:
    """List tokens, newest first; their secrets are nowhere."""
    from bridge.admin.engine_administration import administer
    from bridge.cli.output import rows, times
    from config import load

    with administer(load(home)) as engine:
        found = [times(asdict(each)) for each in engine.tokens(site)]
    rows(found, _COLUMNS, as_json=as_json)


@group.command()
def revoke(
    token_id: Annotated[int, typer.Argument(metavar="ID", help="As `bridge token list` has it.")],
    home: Home,
) -> None:
    """End a token, and the links that were made with it."""
    from bridge.admin.engine_administration import administer
    from config import load

    with administer(load(home)) as engine:
        engine.revoke_token(token_id)
    print(f"revoked token {token_id}")
