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

from bridge.admin.progress import NOT_SHOWN, Report
from bridge.admin.report_engine import CommandEngine, internal_engine
from bridge.audit import outbox
from bridge.audit.events import command_event
from bridge.errors import BridgeError
from bridge.store.databases import bridge_database_of
from config import Settings
from config.secret_files import KEY_BYTES, read_link_keys, write_link_keys

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
    with _exclusive(path):
        old = read_link_keys(path)
        new = (secrets.token_hex(_KEY_ID_BYTES), secrets.token_bytes(KEY_BYTES))
        write_link_keys(path, (new, *old))
        sleep(_SETTLE_SECONDS)
        with internal_engine(settings) as engine:
            resealed, unreadable = _reseal(engine, report)
        if drop_old:
            write_link_keys(path, (new,))
        dropped = len(old) if drop_old else 0
        result = RotationResult(new[0], resealed, unreadable, 1 + len(old) - dropped, dropped)
        _record(settings, result, [key_id for key_id, _ in old])
    return result


def _reseal(engine: CommandEngine, report: Report) -> tuple[int, int]:
    """Seal links in small transactions, so that launches are not delayed; then the rest."""
    resealed, unreadable, total = 0, 0, 0
    after: int | None = 0
    while after is not None:
        step = engine.call("POST", "operator", "reseal", "links", body={"after": after})
        total = total or step["older"]
        after = step["last"]
        resealed += step["moved"]
        unreadable += step["unreadable"]
        report("sealing links", resealed + unreadable, total)
    others = engine.call("POST", "operator", "reseal", "secrets")
    return resealed + others["moved"], unreadable + others["unreadable"]


def _record(settings: Settings, result: RotationResult, known: list[str]) -> None:
    event = command_event(
        "keys-rotate",
        target=("link-keys", result.key_id),
        details={
            "links": result.links,
            "unreadable": result.unreadable,
            "dropped": result.dropped,
        },
        before={"keys": known},
        after={"keys": [result.key_id, *([] if result.dropped else known)]},
    )
    with bridge_database_of(settings) as database, database.write() as connection:
        outbox.add(connection, event, time.time_ns() // 1_000_000)


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
