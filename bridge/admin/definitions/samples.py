"""Messages to try a definition on: from files and folders, or the most recent stored ones."""

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
from config.listeners import ListenerSettings
from mappings.hl7.batch import messages_in
from mappings.language.scope import ListenerDefaults

_PAGE = 500
_WINDOW = 20_000  # rows
_CHARSET = "utf-8"
_BEGINNINGS = (b"MSH", b"FHS", b"BHS")


@dataclass(frozen=True, slots=True)
class MessageSample:
    """A message with a label, and the defaults of its listener."""

    label: str
    payload: bytes
    defaults: ListenerDefaults
    charset: str = _CHARSET
    listener: str = ""
    mapping: str = ""
    """The definition that read a stored message; `version` is its version."""
    version: str = ""


def file_samples(
    paths: Sequence[Path], site: str, listener: ListenerSettings | None = None
) -> list[MessageSample]:
    """
    Read the messages of files and folders; a file may contain several messages.

    The defaults are those of `listener`; without a listener they are `site`, UTC and UTF-8.
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
            found.append(MessageSample(label, message, defaults, charset))
    return found


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each file, and whether it was named; a folder may contain other files too."""
    for path in paths:
        if not path.is_dir():
            yield path, True
            continue
        for each in sorted(path.rglob("*")):
            if each.is_file():
                yield each, False


def stored_samples(
    settings: Settings, database: Database, name: str, most: int
) -> list[MessageSample]:
    """
    Return the latest messages of the listeners that use a definition, newest first.

    If no listener uses it, messages of all listeners. Only the newest `_WINDOW` rows are searched.
    """
    settings = active_settings.current(settings, database)
    users = [each for each in settings.listener if name in each.mappings] or settings.listener
    listeners = {each.name: each for each in users}
    newest = islice(_rows(database), _WINDOW)
    wanted = (row for row in newest if row.listener in listeners)
    found = []
    for row in islice(wanted, most):
        listener = listeners[row.listener]
        found.append(stored_sample(database, listener, row))
    return found


def stored_sample(database: Database, listener: ListenerSettings, row: MessageRow) -> MessageSample:
    """Return a stored message with the defaults of its listener."""
    received = datetime.fromtimestamp(row.received_at / 1000, UTC)
    defaults = ListenerDefaults(listener.site, listener.time_zone, received)
    payload = queries.message(database, row.id).payload
    return MessageSample(
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
