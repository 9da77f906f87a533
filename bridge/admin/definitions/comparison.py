"""
Comparison of two versions of a definition on the same messages.

The results that an outbound definition writes depend on the orders of a message. The version with
which a stored message was stored reads its orders. The orders of another message are read by the
first definition of its listener that accepts it.

`bridge mapping diff` and the console use it. Results contain patient data and are never logged.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from bridge import active_settings
from bridge.active_settings import SourceFinder, active_sources, file_sources, version_finder
from bridge.admin.definitions.drafts import check_cached
from bridge.errors import BridgeError
from bridge.intake.receive.listener_policy import VersionFinder
from bridge.queue import queries
from bridge.queue.listing_rows import MessageRow
from bridge.store.database import Database
from config import Settings
from config import load as load_settings
from config.listeners import ListenerSettings
from config.settings import FILE_NAME
from mappings.authoring.trial import FieldDifference, compare, compare_results, render_samples
from mappings.compiler import Compiled, load
from mappings.hl7.batch import messages_in
from mappings.hl7.header import peek
from mappings.hl7.refusals import MalformedMessage
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import MappingError, MappingErrors
from mappings.language.scope import ListenerDefaults
from mappings.outbound.definition import OutboundMapping

_PAGE = 500
_WINDOW = 20_000  # rows
MAX_SAMPLE_BYTES = 32 * 2**20
"""Bytes of stored messages that are read for a comparison. A message may have 16 MiB."""
_CHARSET = "utf-8"
_MESSAGE_STARTS = (b"MSH", b"FHS", b"BHS")


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
    defaults, charset, name = ListenerDefaults(site, "UTC", datetime.now(UTC)), _CHARSET, ""
    if listener is not None:
        defaults = ListenerDefaults(listener.site, listener.time_zone, datetime.now(UTC))
        charset, name = listener.charset, listener.name
    found = []
    for file, is_named in _files(paths):
        messages = messages_in(file.read_bytes())
        if not is_named:
            messages = [each for each in messages if each.startswith(_MESSAGE_STARTS)]
        for number, message in enumerate(messages, start=1):
            label = str(file) if len(messages) == 1 else f"{file}#{number}"
            found.append(MessageSample(label, message, defaults, charset, name))
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
    settings: Settings, database: Database, name: str, limit: int
) -> list[MessageSample]:
    """
    Return the latest messages of the listeners that use a definition, newest first.

    If no listener uses it, messages of all listeners. Only the newest `_WINDOW` rows are searched,
    and fewer messages are returned if they are large.
    """
    settings = active_settings.current(settings, database)
    users = [each for each in settings.listener if name in each.mappings] or settings.listener
    listeners = {user.name: user for user in users}
    newest = islice(_newest_rows(database), _WINDOW)
    wanted = (row for row in newest if row.listener in listeners)
    return samples_of(database, listeners, islice(wanted, limit))


def samples_of(
    database: Database, listeners: Mapping[str, ListenerSettings], rows: Iterable[MessageRow]
) -> list[MessageSample]:
    """Return stored messages with the defaults of their listeners, until `MAX_SAMPLE_BYTES`."""
    found: list[MessageSample] = []
    size = 0
    for row in rows:
        found.append(_stored_sample(database, listeners[row.listener], row))
        size += len(found[-1].payload)
        if size >= MAX_SAMPLE_BYTES:
            break
    return found


def _stored_sample(
    database: Database, listener: ListenerSettings, row: MessageRow
) -> MessageSample:
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


def _newest_rows(database: Database) -> Iterator[MessageRow]:
    filter_ = queries.Filter(limit=_PAGE)
    while rows := queries.messages(database, filter_):
        yield from rows
        filter_ = replace(filter_, before=rows[-1].id)


OrderReader = Callable[[MessageSample], InboundMapping | None]
"""Returns the definition that reads the orders of a message, or None."""

_DEFAULT_ORDERS = "orders"


class NotAnOrderReader(BridgeError):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name} does not read messages: --orders names a definition that does")


class OrderReaders:
    """Finds the definition that reads a message. Raises MappingErrors if it has mistakes."""

    def __init__(self, settings: Settings, find: SourceFinder, find_version: VersionFinder) -> None:
        """`find` returns sources, `find_version` versions; `settings` are the active settings."""
        self._settings = settings
        self._find = find
        self._find_version = find_version

    def __call__(self, sample: MessageSample) -> InboundMapping | None:
        if sample.mapping:
            kept = self._find_version(sample.mapping, sample.version)
            return kept or self._compiled(sample.mapping)
        try:
            header = peek(sample.payload)
        except MalformedMessage:
            return None
        compiled = (self._compiled(name) for name in self._names(sample.listener))
        charset = sample.charset
        return next((each for each in compiled if each and each.accepts(header, charset)), None)

    def _names(self, listener: str) -> Sequence[str]:
        known = self._settings.listener
        chosen = [each for each in known if each.name == listener] or known
        return list(dict.fromkeys(name for each in chosen for name in each.mappings))

    def _compiled(self, name: str) -> InboundMapping | None:
        found = check_cached(self._find(name), name)
        if found.compiled is None:
            raise MappingErrors(found.issues)
        return found.compiled if isinstance(found.compiled, InboundMapping) else None


def order_reader(
    settings: Settings, database: Database, samples: Sequence[MessageSample], orders: str = ""
) -> OrderReader:
    """Return a reader for these messages, or the definition `orders` of the files."""
    if orders:
        return _reader_of_file(settings.home, orders)
    # The reader is used after the database is closed, so the versions are loaded now.
    find_version = version_finder(database)
    stored_with = {(sample.mapping, sample.version) for sample in samples if sample.mapping}
    kept = {key: find_version(*key) for key in stored_with}
    current, find = active_settings.current(settings, database), active_sources(settings, database)
    return OrderReaders(current, find, lambda name, version: kept.get((name, version)))


def file_order_reader(home: Path, orders: str = "") -> OrderReader:
    """Return a reader among the files of a data directory, or the definition `orders`."""
    if orders or not (home / FILE_NAME).exists():
        return _reader_of_file(home, orders or _DEFAULT_ORDERS)
    settings = load_settings(home)
    return OrderReaders(settings, file_sources(settings), lambda name, version: None)


def _reader_of_file(home: Path, name: str) -> OrderReader:
    compiled = load(home / "mappings", name)
    if not isinstance(compiled, InboundMapping):
        raise NotAnOrderReader(name)
    return lambda sample: compiled


SampleComparison = Callable[[MessageSample], Sequence[FieldDifference]]


class NotComparable(BridgeError):
    """One version is an inbound definition and the other an outbound one."""


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """
    The number of compared messages, and those that the versions map differently.

    `left` messages were not compared, because the time was over.
    """

    count: int
    differing: tuple[tuple[MessageSample, Sequence[FieldDifference]], ...]
    left: int = 0


def make_comparison(before: Compiled, after: Compiled, reader: OrderReader) -> SampleComparison:
    """
    Return a function that compares the events that two versions read, or the messages they write.

    `reader` returns the definition that reads the orders of a message. Raises NotComparable.
    """
    if isinstance(before, InboundMapping) and isinstance(after, InboundMapping):
        return lambda each: compare(before, after, each.payload, each.defaults, each.charset)
    if isinstance(before, InboundMapping) or isinstance(after, InboundMapping):
        raise NotComparable("one version is inbound, the other outbound")

    def compare_written(each: MessageSample) -> list[FieldDifference]:
        orders = reader(each)
        if orders is None:
            return []
        return compare_results(_render(before, orders, each), _render(after, orders, each))

    return compare_written


def _render(mapping: OutboundMapping, reader: InboundMapping, sample: MessageSample) -> list[bytes]:
    try:
        return render_samples(mapping, reader, sample.payload, sample.defaults, sample.charset)
    except MappingError:
        return []


def compare_samples(
    samples: Iterable[MessageSample],
    compare: SampleComparison,
    expired: Callable[[], bool] = lambda: False,
) -> ComparisonResult:
    """Compare each message until `expired` returns True."""
    all_samples = list(samples)
    differing: list[tuple[MessageSample, Sequence[FieldDifference]]] = []
    for count, sample in enumerate(all_samples):
        if expired():
            return ComparisonResult(count, tuple(differing), len(all_samples) - count)
        if found := compare(sample):
            differing.append((sample, found))
    return ComparisonResult(len(all_samples), tuple(differing))
