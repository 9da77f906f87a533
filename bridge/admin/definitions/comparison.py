"""
Comparison of two versions of a definition on the same messages.

The orders of a stored message are read by the version that it was stored with. Those of other
messages are read by the first definition of their listener that accepts the message.

`bridge mapping diff` and the console use it. Results contain patient data and are never logged.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bridge.admin.definitions.problems import check_cached
from bridge.admin.definitions.samples import MessageSample
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.wiring import active_settings
from bridge.wiring.active_definitions import (
    SourceFinder,
    active_sources,
    file_sources,
    version_finder,
)
from config import Settings
from config import load as load_settings
from config.settings import FILE_NAME
from mappings.authoring.sample_results import compare_results, render_samples
from mappings.authoring.trial import FieldDifference, compare
from mappings.compiler import Compiled, load
from mappings.hl7.header import peek
from mappings.hl7.refusals import MalformedMessage
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import MappingError, MappingErrors
from mappings.outbound.definition import OutboundMapping

OrderReader = Callable[[MessageSample], InboundMapping | None]
"""Returns the definition that reads the orders of a message, or None."""

_USUAL = "orders"
Recall = Callable[[str, str], InboundMapping | None]


class NotAnOrderReader(BridgeError):  # noqa: N818  # named for what happened
    """The definition that was named as reader of orders is an outbound definition."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} does not read messages: --orders names a definition that does")


class OrderReaders:
    """Finds the definition that reads a message. Raises MappingErrors if it has mistakes."""

    def __init__(self, settings: Settings, find: SourceFinder, recall: Recall) -> None:
        """`find` returns sources, `recall` returns versions; `settings` are the active settings."""
        self._settings = settings
        self._find = find
        self._recall = recall

    def __call__(self, sample: MessageSample) -> InboundMapping | None:
        """Return the definition that reads the orders of a message."""
        if sample.mapping:
            kept = self._recall(sample.mapping, sample.version)
            return kept or self._compiled(sample.mapping)
        try:
            header = peek(sample.payload)
        except MalformedMessage:
            return None
        made = (self._compiled(name) for name in self._names(sample.listener))
        return next((each for each in made if each is not None and each.accepts(header)), None)

    def _names(self, listener: str) -> Sequence[str]:
        """List the definitions of a listener, or of all listeners if there is no such listener."""
        known = self._settings.listener
        chosen = [each for each in known if each.name == listener] or known
        return list(dict.fromkeys(name for each in chosen for name in each.mappings))

    def _compiled(self, name: str) -> InboundMapping | None:
        found = check_cached(self._find(name), name)
        if found.made is None:
            raise MappingErrors(found.issues)
        return found.made if isinstance(found.made, InboundMapping) else None


def order_reader(
    settings: Settings, database: Database, samples: Sequence[MessageSample], orders: str = ""
) -> OrderReader:
    """Return a reader for these messages, or the definition `orders` of the files."""
    if orders:
        return _named(settings.home, orders)
    # The reader is used after the database is closed, so the versions are loaded now.
    recall = version_finder(database)
    stored_with = {(each.mapping, each.version) for each in samples if each.mapping}
    kept = {key: recall(*key) for key in stored_with}
    current, find = active_settings.current(settings, database), active_sources(settings, database)
    return OrderReaders(current, find, lambda name, version: kept.get((name, version)))


def file_order_reader(home: Path, orders: str = "") -> OrderReader:
    """Return a reader among the files of a data directory, or the definition `orders`."""
    if orders or not (home / FILE_NAME).exists():
        return _named(home, orders or _USUAL)
    settings = load_settings(home)
    return OrderReaders(settings, file_sources(settings), lambda name, version: None)


def _named(home: Path, name: str) -> OrderReader:
    made = load(home / "mappings", name)
    if not isinstance(made, InboundMapping):
        raise NotAnOrderReader(name)
    return lambda sample: made


SampleComparison = Callable[[MessageSample], Sequence[FieldDifference]]


class NotComparable(BridgeError):  # noqa: N818  # named for what happened
    """One version is an inbound definition and the other an outbound one."""


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """The number of compared messages, those that differ, and `left`, not compared in time."""

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
        raise NotComparable("one version reads messages, the other writes them")

    def written(each: MessageSample) -> list[FieldDifference]:
        orders = reader(each)
        if orders is None:
            return []
        return compare_results(_written(before, orders, each), _written(after, orders, each))

    return written


def _written(
    mapping: OutboundMapping, reader: InboundMapping, sample: MessageSample
) -> list[bytes]:
    try:
        return render_samples(mapping, reader, sample.payload, sample.defaults, sample.charset)
    except MappingError:
        return []


def compare_samples(
    samples: Iterable[MessageSample],
    look: SampleComparison,
    late: Callable[[], bool] = lambda: False,
) -> ComparisonResult:
    """Compare each message until `late` returns True."""
    every = list(samples)
    differing: list[tuple[MessageSample, Sequence[FieldDifference]]] = []
    for count, sample in enumerate(every):
        if late():
            return ComparisonResult(count, tuple(differing), len(every) - count)
        if found := look(sample):
            differing.append((sample, found))
    return ComparisonResult(len(every), tuple(differing))
