"""
What is worth telling a person, from a look at the whole: silence, growth, parked, expiry.

Pure. Each condition has a key that stays the same while it lasts, so that it is told once;
texts bear names of ours, counts and durations, never what a message says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

DAY = 86_400_000  # ms


class Severity(StrEnum):
    """How soon somebody should look."""

    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that stands, until it is gone."""

    key: str
    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a condition stands; ms, and counts. 0 switches one off."""

    queue_depth: int = 1000
    queue_age: int = 600_000
    parked: int = 1
    certificate: int = 14 * DAY
    silence: Mapping[str, int] = field(default_factory=dict)
    """Listener to how long nothing may come."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits in one queue: how many, how many of them parked, and since when (ms)."""

    waiting: int
    parked: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at everything; times in ms."""

    now: int
    started_at: int
    queues: Mapping[str, Queue]
    last_message: Mapping[str, int | None]
    paused: Mapping[str, int]
    certificates: Mapping[str, int]
    """What shows a certificate, to when it expires."""


def conditions(sight: Sight, limits: Thresholds) -> list[Condition]:
    """Give all that stands."""
    return [
        *_queues(sight, limits),
        *_silence(sight, limits),
        *_paused(sight),
        *_certificates(sight, limits),
    ]


def _queues(sight: Sight, limits: Thresholds) -> Iterator[Condition]:
    for name, queue in sight.queues.items():
        if limits.queue_depth and queue.waiting >= limits.queue_depth:
            text = f"{queue.waiting} wait in {name}"
            yield Condition(f"depth:{name}", Severity.CRITICAL, text)
        age = 0 if queue.oldest is None else sight.now - queue.oldest
        if limits.queue_age and age >= limits.queue_age:
            text = f"the oldest in {name} has waited for {duration(age)}"
            yield Condition(f"age:{name}", Severity.CRITICAL, text)
        if limits.parked and queue.parked >= limits.parked:
            text = f"{queue.parked} parked in {name} wait for a person"
            yield Condition(f"parked:{name}", Severity.WARNING, text)


def _silence(sight: Sight, limits: Thresholds) -> Iterator[Condition]:
    for name, most in limits.silence.items():
        if not most or f"listener {name}" in sight.paused:
            continue
        last = sight.last_message.get(name)
        quiet = sight.now - max(last or 0, 0 if last else sight.started_at)
        if quiet >= most:
            text = f"nothing has come in at listener {name} for {duration(quiet)}"
            yield Condition(f"silence:{name}", Severity.WARNING, text)


def _paused(sight: Sight) -> Iterator[Condition]:
    for name in sight.paused:
        yield Condition(f"paused:{name}", Severity.WARNING, f"{name} is paused")


def _certificates(sight: Sight, limits: Thresholds) -> Iterator[Condition]:
    for name, expires in sight.certificates.items():
        left = expires - sight.now
        if left <= 0:
            text = f"the certificate of {name} has expired"
            yield Condition(f"certificate:{name}", Severity.CRITICAL, text)
        elif left < limits.certificate:
            text = f"the certificate of {name} expires in {duration(left)}"
            yield Condition(f"certificate:{name}", Severity.WARNING, text)


def duration(milliseconds: int) -> str:
    """Write a duration in its biggest unit: `3 d`, `2 h`, `5 min`, `10 s`."""
    for name, size in (("d", DAY), ("h", 3_600_000), ("min", 60_000)):
        if milliseconds >= size:
            return f"{milliseconds // size} {name}"
    return f"{milliseconds // 1000} s"
