"""
Migration: upgrades the databases in a child process before the service starts.

A child process frees the memory of Alembic and its dependencies when it ends. No child process is
started if the databases are up to date.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread
from types import FrameType
from typing import Final, NoReturn

import structlog
from sqlalchemy.exc import ArgumentError

from bridge.errors import BridgeError
from bridge.redaction import describe, stack_frames
from bridge.roles import Role
from bridge.store import databases
from bridge.store.database import Database
from config import Settings

BRIDGE_ROLES: Final = frozenset({Role.INTAKE, Role.DELIVERY, Role.CONSOLE, Role.DICOM})
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_FAILED: Final = 1
_DEFECT: Final = 70  # EX_SOFTWARE of sysexits.h

Migration = tuple[str, Callable[[], Database], Callable[[Database], object]]
"""A database's name, and the functions that open and migrate it."""


class MigrationFailed(BridgeError):
    """The migration of a database failed; the text is the error of the migration."""


def migrate_in_child_process(settings: Settings, roles: frozenset[Role]) -> bool:
    """
    Migrate the databases that the roles need; return False after a signal to stop.

    Raises MigrationFailed. A database that cannot be reached is skipped: opening it fails later.
    """
    needed = list(_needed(settings, roles))
    if not needed:
        return True
    for name, _, _ in needed:
        structlog.get_logger("service").info(
            "migrating, or waiting for another process that migrates", place=name
        )
    if not hasattr(os, "fork"):
        return True  # `assemble` migrates them
    return _run_in_child(partial(_migrate, needed))


def _needed(settings: Settings, roles: frozenset[Role]) -> Iterator[Migration]:
    if Role.ENGINE in roles and settings.engine.is_internal:
        engine = partial(databases.open_engine_database, settings)
        if _is_behind(engine, databases.engine_is_ready):
            yield "engine database", engine, databases.migrate_engine
    if roles & BRIDGE_ROLES:
        bridge = partial(databases.open_bridge_database, settings)
        if _is_behind(bridge, databases.bridge_is_ready):
            yield "database", bridge, databases.migrate_bridge


def _is_behind(open_database: Callable[[], Database], is_ready: Callable[[Database], bool]) -> bool:
    try:
        database = open_database()
    except (BridgeError, ArgumentError):
        return False
    try:
        return not is_ready(database)
    except BridgeError:
        return False
    finally:
        database.dispose()


def _migrate(needed: list[Migration]) -> None:
    for _, open_database, migrate in needed:
        database = open_database()
        try:
            migrate(database)
        finally:
            database.dispose()


def _run_in_child(work: Callable[[], None]) -> bool:
    """Run `work` in a child process; return False after a signal, which the child gets, too."""
    sys.stdout.flush()
    sys.stderr.flush()
    (error_read, error_write), (parent_read, parent_write) = os.pipe(), os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    child = os.fork()
    if child == 0:
        os.close(error_read)
        os.close(parent_write)
        _run_child(work, error_write, parent_read)
    os.close(error_write)
    os.close(parent_read)
    with _signals_forwarded_to(child) as signals:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        with os.fdopen(error_read, "rb") as errors:
            message = errors.read().decode()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(parent_write)
    if signals:
        return False
    if status < 0:
        name = signal.Signals(-status).name
        message = f"the migration was ended by {name} and rolled back: start again"
    if status:
        raise MigrationFailed(message or f"the migration failed with status {status}")
    return True


@contextmanager
def _signals_forwarded_to(child: int) -> Iterator[list[int]]:
    """Forward our signals to the child; yield the list of those that arrived."""
    arrived: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        arrived.append(number)
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(child, number)

    before = {number: signal.signal(number, forward) for number in _SIGNALS}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_child(work: Callable[[], None], error_write: int, parent_read: int) -> NoReturn:
    status = _DEFECT
    try:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        Thread(target=_exit_with_parent, args=(parent_read,), daemon=True).start()
        work()
        status = 0
    except (BridgeError, OSError) as error:
        os.write(error_write, str(error).encode())
        status = _FAILED
    except BaseException as error:  # noqa: BLE001  # a defect, whose text may quote a row
        found = f"{describe(error)} ({', '.join(stack_frames(error))})"
        os.write(error_write, found.encode())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # without the exit handlers of the parent


def _exit_with_parent(parent_read: int) -> None:
    """Exit when the parent has ended: its end of the pipe is closed then, even after SIGKILL."""
    os.read(parent_read, 1)
    os._exit(_FAILED)
