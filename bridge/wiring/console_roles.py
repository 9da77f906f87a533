"""The console's roles for the engine: suspended while an account is disabled."""

from collections.abc import Iterator
from contextlib import contextmanager

from bridge.console import grants
from bridge.console.errors import GrantRefused
from bridge.engine.service.system_accounts import LastAdministrator
from bridge.store.database import Database
from bridge.wiring.stores import migrate_bridge, open_bridge_database
from config import Settings


class GrantedRoles:
    """
    See `bridge.engine.service.system_accounts.ConsoleRoles`.

    Opens the bridge's database for each call: accounts are disabled rarely, and an engine may run
    without one.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def suspend(self, account_id: int, *, force: bool = False) -> None:
        """Take a role out of use, before its account is disabled. Raises LastAdministrator."""
        with self._opened() as database:
            try:
                grants.suspend(database, str(account_id), force=force)
            except GrantRefused:
                raise LastAdministrator from None

    def resume(self, account_id: int) -> None:
        """Let a role count again, after its account was enabled."""
        with self._opened() as database:
            grants.resume(database, str(account_id))

    @contextmanager
    def _opened(self) -> Iterator[Database]:
        database = open_bridge_database(self._settings)
        try:
            migrate_bridge(database)
            yield database
        finally:
            database.dispose()
