"""
What two versions of a definition make of the same messages: read, or written for their orders.

Used by `bridge mapping diff` and by the console. Patient data: for a screen and no log.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bridge.errors import BridgeError
from bridge.wiring.order_readers import OrderReader
from bridge.wiring.samples import Sample
from mappings.comparison import Difference, compare
from mappings.compiler import Compiled
from mappings.errors import MappingError
from mappings.inbound import InboundMapping
from mappings.outbound import OutboundMapping
from mappings.specimen import compare_written, specimens

Comparing = Callable[[Sample], Sequence[Difference]]


class NotComparable(BridgeError):  # noqa: N818  # named for what happened
    """Two versions do not do the same kind of thing."""

    def __init__(self, why: str) -> None:
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Compared:
    """How many messages were compared, and those that differ; `left` were not reached in time."""

    count: int
    differing: tuple[tuple[Sample, Sequence[Difference]], ...]
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

    def written(each: Sample) -> list[Difference]:
        orders = reader(each)
        if orders is None:
            return []
        return compare_written(_written(before, orders, each), _written(after, orders, each))

    return written


def _written(mapping: OutboundMapping, reader: InboundMapping, sample: Sample) -> list[bytes]:
    try:
        return specimens(mapping, reader, sample.payload, sample.defaults, sample.charset)
    except MappingError:
        return []


def compared(
    samples: Iterable[Sample], look: Comparing, late: Callable[[], bool] = lambda: False
) -> Compared:
    """Compare message by message, until it is late."""
    every = list(samples)
    differing: list[tuple[Sample, Sequence[Difference]]] = []
    for count, sample in enumerate(every):
        if late():
            return Compared(count, tuple(differing), len(every) - count)
        if found := look(sample):
            differing.append((sample, found))
    return Compared(len(every), tuple(differing))
