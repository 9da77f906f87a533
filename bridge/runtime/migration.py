"""Bring the databases to this release before anything else starts, in a process that ends.

What that loads, Alembic above all, a service would keep for good. Nothing is forked where there is
nothing to do.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread
from types import FrameType
from typing import Final, NoReturn

import structlog
from sqlalchemy.exc import ArgumentError

from bridge.errors import BridgeError
from bridge.roles import Role
from bridge.store.database import Database
from bridge.wiring import stores
from config import Settings

BRIDGE_ROLES: Final = frozenset({Role.INTAKE, Role.DELIVERY, Role.CONSOLE})
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_FAILED: Final = 1
_DEFECT: Final = 70

Migration = tuple[str, Callable[[], Database], Callable[[Database], object]]
"""A database's name, how it is opened, and how it is brought to this release."""


class MigrationFailed(BridgeError):  # noqa: N818  # named for what happened
    """The databases could not be brought to this release; says what the migration said."""


def migrate_in_child_process(settings: Settings, roles: frozenset[Role]) -> bool:
    """
    Migrate what the roles need; False where a signal to stop ended it, with nothing half done.

    Raises MigrationFailed. A database that cannot be asked is left to who opens it next.
    """
    needed = list(_needed(settings, roles))
    if not needed:
        return True
    for name, _, _ in needed:
        structlog.get_logger("service").info("migrating, or waiting for who does", place=name)
    if not hasattr(os, "fork"):
        return True  # whoever opens them migrates them
    return _run_in_child(partial(_migrate, needed))


def _needed(settings: Settings, roles: frozenset[Role]) -> Iterator[Migration]:
    if Role.ENGINE in roles and settings.engine.is_internal:
        engine = partial(stores.open_engine_database, settings)
        if _is_behind(engine, stores.engine_is_ready):
            yield "engine database", engine, stores.migrate_engine
    if roles & BRIDGE_ROLES:
        bridge = partial(stores.open_bridge_database, settings)
        if _is_behind(bridge, stores.bridge_is_ready):
            yield "database", bridge, stores.migrate_bridge


def _is_behind(opened: Callable[[], Database], is_ready: Callable[[Database], bool]) -> bool:
    try:
        database = opened()
    except (BridgeError, ArgumentError):
        return False
    try:
        return not is_ready(database)
    except BridgeError:
        return False
    finally:
        database.dispose()


def _migrate(needed: list[Migration]) -> None:
    for _, opened, migrate in needed:
        database = opened()
        try:
            migrate(database)
        finally:
            database.dispose()


def _run_in_child(work: Callable[[], None]) -> bool:
    """Do something in a child; False where we were told to stop, and told the child."""
    sys.stdout.flush()
    sys.stderr.flush()
    (said, say), (watched, held) = os.pipe(), os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    child = os.fork()
    if child == 0:
        os.close(said)
        os.close(held)
        _run_child(work, say, watched)
    os.close(say)
    os.close(watched)
    with _signals_forwarded_to(child) as told:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        with os.fdopen(said, "rb") as words:
            message = words.read().decode()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(held)
    if told:
        return False
    if status < 0:
        name = signal.Signals(-status).name
        message = f"migrating was ended by {name}: nothing is half done, start again"
    if status:
        raise MigrationFailed(message or "migrating failed, as said above")
    return True


@contextmanager
def _signals_forwarded_to(child: int) -> Iterator[list[int]]:
    """Let the child have the signals that are for us; give those that came."""
    came: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        came.append(number)
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(child, number)

    before = {number: signal.signal(number, pass_on) for number in _SIGNALS}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_child(work: Callable[[], None], say: int, watched: int) -> NoReturn:
    status = _DEFECT
    try:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        Thread(target=_exit_with_parent, args=(watched,), daemon=True).start()
        work()
        status = 0
    except (BridgeError, OSError) as error:
        os.write(say, str(error).encode())
        status = _FAILED
    except BaseException:  # noqa: BLE001  # a defect: all that is known of it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # nothing of the parent's is to be tidied up here


def _exit_with_parent(watched: int) -> None:
    """Who was killed cannot tell us: what it held is closed."""
    os.read(watched, 1)
    os._exit(_FAILED)
