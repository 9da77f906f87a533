"""The table at the end: what came in, what was answered, what stands, what went out, how fast."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from bridge.demo.cast import Cast
from bridge.demo.hospital import Result
from bridge.demo.radiologist import Report

_STATUSES: Mapping[str, str] = {"P": "preliminary", "F": "final", "C": "with addendum"}


def summary(cast: Cast, reports: Sequence[Report]) -> list[tuple[str, str, str]]:
    """Return the rows: what, how much, and of what it is made."""
    score, results = cast.score, cast.hospital.results
    senders = [
        f"{name} ({cast.systems[name].charset}) {count}" for name, count in score.senders.items()
    ]
    statuses = Counter(each.status for each in reports)
    return [
        ("Order messages in", str(score.orders.total()), _parts(score.orders)),
        ("Patient messages in", str(score.patients.total()), _parts(score.patients)),
        ("Senders", str(len(senders)), ", ".join(senders)),
        ("ACKs", str(score.acks.total()), _parts(score.acks)),
        ("Reports", str(len(reports)), _parts(statuses)),
        ("ORUs out", str(len(results)), _parts(_kinds(results))),
        ("Sign to ORU", _milliseconds(median(score.seconds)), _latency(score.seconds)),
    ]


def _kinds(results: Sequence[Result]) -> Counter[str]:
    return Counter(_STATUSES.get(each.status, each.status) for each in results)


def _parts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _latency(seconds: Sequence[float]) -> str:
    return (
        f"the median of {len(seconds)}, from the end of the sign delay; "
        f"the slowest {_milliseconds(max(seconds))}"
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
