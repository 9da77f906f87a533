"""
Rotation of the keys that seal links, with or without a running service.

The new key is written to the file first, and running services read the file again. Then all links
are sealed with it, and the stored answers and secrets of one-time codes. Finally the old keys are
dropped, if requested.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge.admin.audit_events import append_event
from bridge.admin.progress import NOT_SHOWN, Report
from bridge.engine.links import KeyRing
from bridge.engine.service import idempotency
from bridge.engine.service.accounts import second_factor
from bridge.engine.service.launch import links
from bridge.engine.service.launch.links import LinkKeys
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.wiring.secrets import KEY_BYTES, read_link_keys, write_link_keys
from bridge.wiring.stores import migrate_engine, open_engine_database
from config import Settings

_KEY_ID_BYTES: Final = 4
_SETTLE_SECONDS: Final = 2.0
"""After this time all links sealed with the old key are committed."""


class NotRotated(BridgeError):
    """The keys were not rotated."""


@dataclass(frozen=True, slots=True)
class RotationResult:
    """
    Result of a rotation.

    `links` and `unreadable` count links, stored answers and secrets of one-time codes. `kept` and
    `dropped` count keys.
    """

    key_id: str
    links: int
    unreadable: int
    kept: int
    dropped: int


def rotate_keys(
    settings: Settings,
    *,
    drop_old: bool,
    sleep: Callable[[float], None] = time.sleep,
    report: Report = NOT_SHOWN,
) -> RotationResult:
    """Add a new key, seal all links with it, and drop the old keys if requested."""
    if not settings.engine.is_internal:
        raise NotRotated("links are sealed by the service at engine.base_url")
    path = settings.path(settings.engine.link_keys_file)
    database = open_engine_database(settings)
    try:
        migrate_engine(database)
        with _exclusive(path):
            return _rotate(path, database, sleep, report, drop_old=drop_old)
    finally:
        database.dispose()


def _rotate(
    path: Path,
    database: Database,
    sleep: Callable[[float], None],
    report: Report,
    *,
    drop_old: bool,
) -> RotationResult:
    old = read_link_keys(path)
    new = (secrets.token_hex(_KEY_ID_BYTES), secrets.token_bytes(KEY_BYTES))
    write_link_keys(path, (new, *old))
    sleep(_SETTLE_SECONDS)
    link_keys = LinkKeys(KeyRing((new, *old), secrets.token_bytes), secrets.token_bytes)
    resealed, unreadable = _reseal_links(database, link_keys, report)
    with database.write() as connection:
        answers = idempotency.reseal(connection, link_keys.keys)
        codes = second_factor.reseal(connection, link_keys.keys)
    resealed = resealed + answers[0] + codes[0]
    unreadable = unreadable + answers[1] + codes[1]
    if drop_old:
        write_link_keys(path, (new,))
    dropped = len(old) if drop_old else 0
    result = RotationResult(new[0], resealed, unreadable, 1 + len(old) - dropped, dropped)
    now = _now()
    with database.write() as connection:
        counts = {"links": result.links, "unreadable": unreadable, "dropped": dropped}
        known = [key_id for key_id, _ in old]
        changes = {
            "before": {"keys": known},
            "after": {"keys": [new[0]] if drop_old else [new[0], *known]},
        }
        target = ("link-keys", new[0])
        append_event(
            connection, database, now, "keys-rotate", None, counts, target=target, **changes
        )
    return result


def _reseal_links(database: Database, link_keys: LinkKeys, report: Report) -> tuple[int, int]:
    """Seal links in small transactions, so that launches are not delayed."""
    resealed, unreadable, after = 0, 0, 0
    with database.read() as connection:
        total = links.count_older(connection, link_keys, _now())
    while True:
        with database.write() as connection:
            step = links.reseal(connection, link_keys, _now(), after)
        resealed += step.moved
        unreadable += step.unreadable
        report("sealing links", resealed + unreadable, total)
        if step.last is None:
            return resealed, unreadable
        after = step.last


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Prevent a concurrent rotation of the same file."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise NotRotated("another rotation is in progress") from None
    finally:
        os.close(folder)


def _now() -> int:
    return time.time_ns() // 1_000_000
