"""Console roles of accounts that the engine disables and enables."""

from collections.abc import Iterator
from contextlib import contextmanager

from bridge.admin.access import grants
from bridge.admin.errors import GrantRefused
from bridge.engine.service.accounts.system_accounts import LastAdministrator
from bridge.store.database import Database
from bridge.wiring.stores import migrate_bridge, open_bridge_database
from config import Settings


class GrantedRoles:
    """
    Suspends and restores console roles (`ConsoleRoles` of the engine's system accounts).

    It opens the bridge's database for each call: accounts are rarely disabled, and an engine
    process may run without that database.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def suspend(self, account_id: int, *, force: bool = False) -> None:
        """Suspend the role of an account that is being disabled. Raises LastAdministrator."""
        with self._opened() as database:
            try:
                grants.suspend_grant(database, str(account_id), force=force)
            except GrantRefused:
                raise LastAdministrator from None

    def resume(self, account_id: int) -> None:
        """Restore the role of an account that was enabled."""
        with self._opened() as database:
            grants.resume_grant(database, str(account_id))

    @contextmanager
    def _opened(self) -> Iterator[Database]:
        database = open_bridge_database(self._settings)
        try:
            migrate_bridge(database)
            yield database
        finally:
            database.dispose()
