"""What the commands do to the internal engine's sites, users and tokens, without a server."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bridge.engine.errors import EngineError
from bridge.engine.rules.authority import Role
from bridge.engine.service import sites, tokens, users
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.wiring.stores import migrate_engine, open_engine_database
from config import Settings

_DAY: Final = 24 * 3600 * 1000


class Refused(BridgeError):  # noqa: N818  # named for what happened
    """The engine refused what an administrator asked."""


class Administration:
    """Each method is one transaction. Raises Refused with the engine's own words."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_site(
        self,
        site_id: str,
        *,
        name: str,
        time_zone: str,
        sign_delay: int,
        locations: tuple[str, ...],
        host_origins: tuple[str, ...],
    ) -> None:
        """Add a site; `sign_delay` in seconds."""
        site = sites.SiteSettings(site_id, name, time_zone, sign_delay, locations, host_origins)
        with _refusing(), self._database.write() as connection:
            sites.add_site(connection, site, _now())

    def add_user(
        self, email: str, *, name: str, site_id: str, administrator: bool, password: str | None
    ) -> None:
        """Add a user to a site, or change their name, role or password."""
        if not users.is_email(email):
            raise Refused("this is no e-mail address")
        role = Role.ADMINISTRATOR if administrator else Role.USER
        with _refusing(), self._database.write() as connection:
            sites.get_site(connection, site_id)
            account = users.register(connection, site_id, email, name, _now(), role=role)
            if password is not None:
                users.set_password(connection, account.id, password)

    def create_token(self, email: str, *, label: str, expires_days: int | None) -> str:
        """Make a token and return its secret, which nobody can read again."""
        now = _now()
        expires_at = None if expires_days is None else now + expires_days * _DAY
        with _refusing(), self._database.write() as connection:
            account = users.find_account(connection, email)
            if account is None:
                raise Refused("there is no such user")
            _, secret = tokens.create_token(
                connection,
                account.id,
                now=now,
                random_bytes=secrets.token_bytes,
                label=label,
                expires_at=expires_at,
            )
            return secret


@contextmanager
def administer(settings: Settings) -> Iterator[Administration]:
    """Open the internal engine's database for an administrator's command."""
    if not settings.engine.is_internal:
        raise Refused("sites, users and tokens belong to the service at engine.base_url")
    database = open_engine_database(settings)
    try:
        migrate_engine(database)
        yield Administration(database)
    finally:
        database.dispose()


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except EngineError as error:
        raise Refused(str(error)) from error


def _now() -> int:
    return time.time_ns() // 1_000_000
