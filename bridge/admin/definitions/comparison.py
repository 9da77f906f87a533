"""Compare what two versions of a definition make of the same messages.

A stored message is read by the version that it was stored with. Other messages are read by what
their listener reads with now: the first of its definitions that accepts the message.

Used by `bridge mapping diff` and by the console. Patient data: for a screen and no log.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bridge.admin.definitions.problems import checked
from bridge.admin.definitions.samples import Sample
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.wiring import active_settings
from bridge.wiring.active_definitions import Find, files_of, in_force, recaller
from config import Settings
from config import load as load_settings
from config.settings import FILE_NAME
from mappings.authoring.comparison import FieldDifference, compare
from mappings.authoring.sample_results import compare_results, render_samples
from mappings.compiler import Compiled, load
from mappings.hl7.header import peek
from mappings.hl7.refusals import MalformedMessage
from mappings.inbound.definition import InboundMapping
from mappings.language.errors import MappingError, MappingErrors
from mappings.outbound.definition import OutboundMapping

OrderReader = Callable[[Sample], InboundMapping | None]
"""Returns the definition that reads a message's orders; None where there is none."""

_USUAL = "orders"
Recall = Callable[[str, str], InboundMapping | None]


class NotReading(BridgeError):  # noqa: N818  # named for what happened
    """The definition that is to read orders writes messages."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} does not read messages: --orders names a definition that does")


class OrderReaders:
    """Finds readers; raises MappingErrors for a definition that has mistakes."""

    def __init__(self, settings: Settings, find: Find, recall: Recall) -> None:
        """Find sources with `find`, among the listeners of the active `settings`."""
        self._settings = settings
        self._find = find
        self._recall = recall

    def __call__(self, sample: Sample) -> InboundMapping | None:
        """Return the definition that reads a message's orders."""
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
        """List the definitions of a message's listener; of every listener where it has none."""
        known = self._settings.listener
        chosen = [each for each in known if each.name == listener] or known
        return list(dict.fromkeys(name for each in chosen for name in each.mappings))

    def _compiled(self, name: str) -> InboundMapping | None:
        found = checked(self._find(name), name)
        if found.made is None:
            raise MappingErrors(found.issues)
        return found.made if isinstance(found.made, InboundMapping) else None


def reader_of(
    settings: Settings, database: Database, samples: Sequence[Sample], orders: str = ""
) -> OrderReader:
    """Find the readers of these messages, or take `orders`, a definition among the files."""
    if orders:
        return _named(settings.home, orders)
    # The reader is used after the database is closed: the versions are recalled now.
    recall = recaller(database)
    stored_with = {(each.mapping, each.version) for each in samples if each.mapping}
    kept = {key: recall(*key) for key in stored_with}
    current, find = active_settings.current(settings, database), in_force(settings, database)
    return OrderReaders(current, find, lambda name, version: kept.get((name, version)))


def reader_of_files(home: Path, orders: str = "") -> OrderReader:
    """Find readers among the files of a data directory; without settings, take `orders`."""
    if orders or not (home / FILE_NAME).exists():
        return _named(home, orders or _USUAL)
    settings = load_settings(home)
    return OrderReaders(settings, files_of(settings), lambda name, version: None)


def _named(home: Path, name: str) -> OrderReader:
    made = load(home / "mappings", name)
    if not isinstance(made, InboundMapping):
        raise NotReading(name)
    return lambda sample: made


Comparing = Callable[[Sample], Sequence[FieldDifference]]


class NotComparable(BridgeError):  # noqa: N818  # named for what happened
    """Two versions do not do the same kind of thing."""

    def __init__(self, why: str) -> None:
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Compared:
    """How many messages were compared, and those that differ; `left` were not reached in time."""

    count: int
    differing: tuple[tuple[Sample, Sequence[FieldDifference]], ...]
    left: int = 0


def comparing(before: Compiled, after: Compiled, reader: OrderReader) -> Comparing:
    """
    Compare what is read; of definitions that write, what they write for each order.

    `reader` gives the definition that reads a message's orders. Raises NotComparable.
    """
    if isinstance(before, InboundMapping) and isinstance(after, InboundMapping):
        return lambda each: compare(before, after, each.payload, each.defaults, each.charset)
    if isinstance(before, InboundMapping) or isinstance(after, InboundMapping):
        raise NotComparable("one version reads messages, the other writes them")

    def written(each: Sample) -> list[FieldDifference]:
        orders = reader(each)
        if orders is None:
            return []
        return compare_results(_written(before, orders, each), _written(after, orders, each))

    return written


def _written(mapping: OutboundMapping, reader: InboundMapping, sample: Sample) -> list[bytes]:
    try:
        return render_samples(mapping, reader, sample.payload, sample.defaults, sample.charset)
    except MappingError:
        return []


def compared(
    samples: Iterable[Sample], look: Comparing, late: Callable[[], bool] = lambda: False
) -> Compared:
    """Compare message by message, until it is late."""
    every = list(samples)
    differing: list[tuple[Sample, Sequence[FieldDifference]]] = []
    for count, sample in enumerate(every):
        if late():
            return Compared(count, tuple(differing), len(every) - count)
        if found := look(sample):
            differing.append((sample, found))
    return Compared(len(every), tuple(differing))
