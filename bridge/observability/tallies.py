"""
Counters for what happens with every message: plain numbers, written by one thread.

The library's own take a lock for each step, which costs more than what is counted. Shown by
the same registry, under the same names and in the same form.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

_INFINITE = "+Inf"


class Count:
    """One number that grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        """Let it grow."""
        self.value += amount


class Counts(Collector):
    """A counter with labels."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        """Show itself in a registry."""
        self._name, self._text, self._labels = name, text, labels
        self._counts: dict[tuple[str, ...], Count] = {}
        registry.register(self)

    def labels(self, *values: str) -> Count:
        """Give the number for these values of the labels; the same one each time."""
        return self._counts.setdefault(values, Count())

    @override
    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for values, count in list(self._counts.items()):
            family.add_metric(values, count.value)
        yield family


class Spread:
    """How many values fell between which bounds, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Take a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Give how many values are at most each bound, as Prometheus wants them."""
        so_far, buckets = 0, []
        for bound, count in zip((*map(str, self.bounds), _INFINITE), self.counts, strict=True):
            so_far += count
            buckets.append((bound, float(so_far)))
        return buckets


class Spreads(Collector):
    """A histogram with labels; `bounds` ascend."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
        bounds: Sequence[float],
    ) -> None:
        """Show itself in a registry."""
        self._name, self._text, self._labels = name, text, labels
        self._bounds = bounds
        self._spreads: dict[tuple[str, ...], Spread] = {}
        registry.register(self)

    def labels(self, *values: str) -> Spread:
        """Give the histogram for these values of the labels; the same one each time."""
        return self._spreads.setdefault(values, Spread(self._bounds))

    @override
    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, spread in list(self._spreads.items()):
            family.add_metric(values, buckets=spread.buckets(), sum_value=spread.total)
        yield family
