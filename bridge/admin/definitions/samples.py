"""Messages to try a definition on: from files and folders, or the last ones that came in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from bridge.queue import queries
from bridge.queue.listing_rows import MessageRow
from bridge.store.database import Database
from bridge.wiring import active_settings
from config import Settings
from config.listeners import Listener
from mappings.hl7.batch import messages_in
from mappings.language.scope import ListenerDefaults

_PAGE = 500
_WINDOW = 20_000  # rows
_CHARSET = "utf-8"
_BEGINNINGS = (b"MSH", b"FHS", b"BHS")


@dataclass(frozen=True, slots=True)
class Sample:
    """One message, what to call it, and what its listener knows where it is silent."""

    label: str
    payload: bytes
    defaults: ListenerDefaults
    charset: str = _CHARSET
    listener: str = ""
    mapping: str = ""
    """The definition that a stored message was read with, and its version."""
    version: str = ""


def from_files(paths: Sequence[Path], site: str, listener: Listener | None = None) -> list[Sample]:
    """
    Read files, and all files of folders; a file may hold several messages.

    Where messages are silent `listener` says the rest; without one `site`, UTC and UTF-8 hold.
    """
    defaults, charset = ListenerDefaults(site, "UTC", datetime.now(UTC)), _CHARSET
    if listener is not None:
        defaults = ListenerDefaults(listener.site, listener.time_zone, datetime.now(UTC))
        charset = listener.charset
    found = []
    for file, chosen in _files(paths):
        messages = messages_in(file.read_bytes())
        if not chosen:
            messages = [each for each in messages if each.startswith(_BEGINNINGS)]
        for number, message in enumerate(messages, start=1):
            label = str(file) if len(messages) == 1 else f"{file}#{number}"
            found.append(Sample(label, message, defaults, charset))
    return found


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Give each file, and whether it was named itself; folders hold other things too."""
    for path in paths:
        if not path.is_dir():
            yield path, True
            continue
        for each in sorted(path.rglob("*")):
            if each.is_file():
                yield each, False


def stored(settings: Settings, database: Database, name: str, most: int) -> list[Sample]:
    """
    Give the last messages of the listeners that read with a definition, the newest first.

    Where no listener does, those of all listeners. No more than the newest are looked through.
    """
    settings = active_settings.current(settings, database)
    users = [each for each in settings.listener if name in each.mappings] or settings.listener
    listeners = {each.name: each for each in users}
    newest = islice(_rows(database), _WINDOW)
    wanted = (row for row in newest if row.listener in listeners)
    found = []
    for row in islice(wanted, most):
        listener = listeners[row.listener]
        found.append(stored_one(database, listener, row))
    return found


def stored_one(database: Database, listener: Listener, row: MessageRow) -> Sample:
    """Give a stored message with what its listener knows."""
    received = datetime.fromtimestamp(row.received_at / 1000, UTC)
    defaults = ListenerDefaults(listener.site, listener.time_zone, received)
    payload = queries.message(database, row.id).payload
    return Sample(
        f"message {row.id}",
        payload,
        defaults,
        listener.charset,
        listener.name,
        row.mapping,
        row.mapping_version,
    )


def _rows(database: Database) -> Iterator[MessageRow]:
    wanted = queries.Filter(limit=_PAGE)
    while rows := queries.messages(database, wanted):
        yield from rows
        wanted = replace(wanted, before=rows[-1].id)
