"""
Dedicated connections to PostgreSQL: presence, leadership, session locks and notifications.

Presence and session locks are advisory locks. The server releases them when the process dies or is
silent for ten seconds. Session locks exclude other nodes during work that one transaction cannot
contain, such as calls to the report engine. A lock is only tried, never awaited, so there are no
deadlocks.

A notification only says that something changed, and it may be lost while the connection is down:
receivers also poll.

On SQLite there are no other nodes: every lock is held, and there are no notifications.
"""

import os
import select
import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final

import structlog
from sqlalchemy import Connection, text

from bridge.store.connections import close_driver
from bridge.store.database import Database
from bridge.store.errors import NameTaken, driver_errors, translate
from bridge.store.postgresql.connection import FAST_DISCONNECT_DETECTION, lock_key

_log = structlog.get_logger("database")

POLL_SECONDS = 2.0
"""Maximum seconds until a free leadership is taken, or its loss is noticed."""

GRACE_SECONDS = 4.0
"""Seconds in which a live node reconnects after its database connection was cut."""

START_TIMEOUT_SECONDS = 20.0
"""Seconds that a start waits for its name: a host that died is detected within ten seconds."""

_TRY_LOCK = "SELECT pg_try_advisory_lock(%s)"
_TIMELINE = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
_ADD_TIMELINE = f"""
    INSERT INTO server_timeline (timeline, seen_at)
    SELECT {_TIMELINE}, CASE WHEN EXISTS (SELECT FROM server_timeline)
        THEN (extract(epoch FROM clock_timestamp()) * 1000)::bigint ELSE 0 END
    ON CONFLICT DO NOTHING
"""  # noqa: S608  # our own expression
_AGE_OF_TIMELINE = f"""
    SELECT extract(epoch FROM clock_timestamp()) - seen_at / 1000.0 FROM server_timeline
    WHERE timeline = {_TIMELINE}
"""  # noqa: S608  # our own expression
_NOT_SUPPORTED = "0A000"  # SQLSTATE feature_not_supported
_HELD_LOCKS = text("""
    SELECT (CAST(classid AS bigint) << 32) | CAST(objid AS bigint) FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")


class Heartbeat:
    """
    What a process knows of its own heartbeat lock. Any thread may ask.

    Other nodes take over claims when the lock has been missing for `GRACE_SECONDS`. So a process
    may act on a claim only in the session in which it claimed, and only for `GRACE_SECONDS` after
    the server last confirmed that session. After a failover the session begins later (see
    `Presence`).
    """

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self._timer = timer
        self._number = 0
        self._from = self._until = float("-inf")

    def begin_session(self, valid_from: float = float("-inf")) -> None:
        """Begin a session that is not confirmed yet: an earlier one has lost its lock."""
        self._from, self._until = valid_from, float("-inf")
        self._number += 1

    def confirm(self, asked_at: float) -> None:
        """Note that the server, asked at this time, confirmed the session."""
        self._until = asked_at + GRACE_SECONDS

    def session(self) -> int | None:
        """Return the number of the session; None if it may have lost its lock."""
        return self._number if self._from <= self._timer() < self._until else None


class Presence:
    """
    Holds a lock for each name of this process, on a thread; with `jobs` also competes for
    leadership.

    A lost connection loses both until they are acquired again.

    A failover to a standby that lags loses claims, and their owners may still act on them. A
    standby that becomes the primary begins a timeline. So nobody claims for `late_seconds` after a
    process first saw a new timeline.
    """

    def __init__(
        self,
        database: Database,
        names: tuple[str, ...],
        jobs: str = "",
        *,
        late_seconds: float = 0.0,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        `jobs` names the leadership; empty if this process does not compete for it.

        At the latest `late_seconds` after the loss of a server, no process acts any more on a claim
        that it made on that server.
        """
        self._database = database
        self._late_seconds = late_seconds
        self._timer = timer
        self._names = [lock_key(lock_name(name)) for name in names]
        self._leader_key = lock_key(f"jobs {jobs}") if jobs else None
        self._heartbeat = Heartbeat(timer)
        self._is_leader = threading.Event()
        self._is_present = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    @property
    def is_leader(self) -> bool:
        """Whether this process runs the periodic jobs."""
        return self._database.dialect != "postgresql" or self._is_leader.is_set()

    def session(self) -> int | None:
        """Return the session of the heartbeat lock (see `Heartbeat`); on SQLite always 0."""
        return self._heartbeat.session() if self._database.dialect == "postgresql" else 0

    def start(self) -> None:
        """Acquire the names. Blocking. Raises NameTaken if another process has one."""
        if self._database.dialect != "postgresql":
            return
        self._thread.start()
        if not self._is_present.wait(START_TIMEOUT_SECONDS):
            self.stop()
            raise NameTaken

    def stop(self) -> None:
        """Release the names. Blocking."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with closing(_connect(self._database)) as driver:
                    self._hold_locks(driver)
            except driver_errors():
                self._stopped.wait(POLL_SECONDS)
            finally:
                self._is_leader.clear()

    def _hold_locks(self, driver: Any) -> None:
        wait = self._seconds_until_claims(driver)
        self._heartbeat.begin_session(self._timer() + wait)
        missing = list(self._names)
        while not self._stopped.is_set():
            asked_at = self._timer()
            missing = [key for key in missing if not _try_lock(driver, key)]
            if self._leader_key is None or self._is_leader.is_set():
                driver.execute("SELECT 1")  # raises if the connection is lost
            elif not missing and _try_lock(driver, self._leader_key):
                self._is_leader.set()
            if not missing:
                self._heartbeat.confirm(asked_at)
                self._is_present.set()  # last: a single node leads as soon as it is present
            self._stopped.wait(POLL_SECONDS)

    def _seconds_until_claims(self, driver: Any) -> float:
        """Return how long nobody may claim, because a failover may have lost claims."""
        if not self._late_seconds:
            return 0.0
        try:
            driver.execute(_ADD_TIMELINE)
            (age,) = driver.execute(_AGE_OF_TIMELINE).fetchone()
        except driver_errors() as error:
            if getattr(error, "sqlstate", "") == _NOT_SUPPORTED:
                return 0.0  # a server without timelines, whose standbys share its storage
            raise
        # A time in the future was stored by a clock that was ahead.
        wait = max(0.0, self._late_seconds - abs(float(age)))
        if wait:
            _log.warning("failover of the database server: no claims", seconds=round(wait))
        return wait


def lock_name(owner: str) -> str:
    """Return the name of the heartbeat lock of a claim owner."""
    return f"present {owner}"


def without_heartbeat(connection: Connection, owners: set[str]) -> set[str]:
    """Return the owners whose heartbeat lock no process holds."""
    held = set(connection.execute(_HELD_LOCKS).scalars())
    return {owner for owner in owners if lock_key(lock_name(owner)) not in held}


def _connect(database: Database) -> Any:
    """Open a connection whose loss both sides notice soon."""
    driver = database.dedicated_connection()
    try:
        driver.autocommit = True
        for setting in FAST_DISCONNECT_DETECTION:
            driver.execute(setting)
    except BaseException:
        driver.close()
        raise
    return driver


def _try_lock(driver: Any, key: int) -> bool:
    return bool(driver.execute(_TRY_LOCK, (key,)).fetchone()[0])


_PING_SECONDS = 2.0
_TRY_LOCKS = "SELECT k, pg_try_advisory_lock(k) FROM unnest(%s::bigint[]) AS k"
_UNLOCK = "SELECT pg_advisory_unlock(k) FROM unnest(%s::bigint[]) AS k"


@dataclass(frozen=True, slots=True)
class HeldLocks:
    names: frozenset[str] = frozenset()
    driver: Any = None


NOTHING_HELD: Final = HeldLocks()


class SessionLocks:
    """Session locks for all threads; a background thread releases them and keeps the connection."""

    def __init__(self, database: Database) -> None:
        """Connect to `database` when the first lock is taken."""
        self._database = database
        self._mutex = threading.Lock()
        self._driver: Any = None
        self._to_release: SimpleQueue[HeldLocks] = SimpleQueue()
        database.on_dispose(self.close)

    def take(self, names: Collection[str]) -> HeldLocks:
        """
        Lock the names that no other process has; return them. Blocking. Raises StoreError.

        Names that this process holds already are locked once more.
        """
        if self._database.dialect != "postgresql":
            return HeldLocks(frozenset(names))
        keys = {lock_key(name): name for name in names}
        if not keys:
            return NOTHING_HELD
        driver = None
        try:
            driver = self._connected()
            rows = driver.execute(_TRY_LOCKS, (sorted(keys),)).fetchall()
        except driver_errors() as error:
            self._disconnect(driver)
            raise translate(error) from None
        return HeldLocks(frozenset(keys[key] for key, taken in rows if taken), driver)

    def release(self, held: HeldLocks) -> None:
        """Release locks soon. Does not wait and does not fail."""
        if held.driver is not None and held.names:
            self._to_release.put(held)

    def close(self) -> None:
        """Close the connection; the next lock opens another."""
        self._disconnect(self._driver)

    def _connected(self) -> Any:
        with self._mutex:
            if self._driver is None:
                driver = self._driver = _connect(self._database)
                threading.Thread(
                    target=self._keep_alive, args=(driver,), name="session locks", daemon=True
                ).start()
            return self._driver

    def _disconnect(self, driver: Any) -> None:
        with self._mutex:
            if self._driver is driver:
                self._driver = None
        if driver is not None:
            close_driver(driver)

    def _keep_alive(self, driver: Any) -> None:
        while not driver.closed:
            held = NOTHING_HELD
            with suppress(Empty):
                held = self._to_release.get(timeout=_PING_SECONDS)
            try:
                if not held.names:
                    driver.execute("SELECT 1")
                elif held.driver is driver:  # otherwise the connection and its locks have ended
                    driver.execute(_UNLOCK, (sorted(map(lock_key, held.names)),))
            except driver_errors():
                self._disconnect(driver)


LISTEN_SECONDS = 30.0
"""Maximum seconds without a look at the connection; a notification and a stop end the wait."""

RETRY_SECONDS = 1.0


class NotificationListener:
    """Calls `callback` on its own thread when another process has notified a channel."""

    def __init__(self, database: Database, channel: str, callback: Callable[[], None]) -> None:
        self._database = database
        self._channel = channel
        self._callback = callback
        self._stopped = threading.Event()
        self._stop, self._to_stop = -1, -1  # a pipe
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    def start(self) -> None:
        if self._database.dialect == "postgresql":
            self._stop, self._to_stop = os.pipe()
            self._thread.start()

    def stop(self) -> None:
        """Stop and wait for the thread. Blocking."""
        self._stopped.set()
        if self._thread.ident is not None and self._stop >= 0:
            os.close(self._to_stop)  # ends the wait
            self._thread.join()
            os.close(self._stop)
            self._stop = -1

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with closing(self._database.dedicated_connection()) as driver:
                    self._listen(driver)
            except driver_errors():
                self._stopped.wait(RETRY_SECONDS)

    def _listen(self, driver: Any) -> None:
        driver.autocommit = True
        driver.execute(f"LISTEN {self._channel}")
        self._callback()  # notifications before LISTEN are lost
        files = select.poll()  # with a timeout, `notifies` wakes up ten times a second
        files.register(driver.fileno(), select.POLLIN)
        files.register(self._stop, select.POLLIN)
        while not self._stopped.is_set():
            files.poll(LISTEN_SECONDS * 1000)
            for notify in driver.notifies(timeout=0):
                if notify.payload != self._database.notification_id:
                    self._callback()
