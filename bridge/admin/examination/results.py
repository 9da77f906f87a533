"""The results of an examination. They contain codes and counts, and no value of a patient."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """`note`: permitted, but good to know; `fault`: against the standard, or a result is lost."""

    OK = "ok"
    NOTE = "note"
    FAULT = "fault"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """
    The result of one probe.

    `title` says what was tried, `words` what happened. `expected` is what the standard or Report
    Bridge wants. `advice` is what to ask for, or why `settings` fit: settings of the destination or
    listener, as in bridge.toml, with which messages arrive.
    """

    name: str
    title: str
    verdict: Verdict
    words: str
    expected: str = ""
    advice: str = ""
    took_ms: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Examination:
    """
    An examination of a target such as `his.test:2575`; times are in ms since 1970.

    `sent` is the number of messages, None if the examination was stopped.
    """

    target: str
    role: str
    began_at: int
    ended_at: int
    sent: int | None
    results: tuple[ProbeResult, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict is verdict for result in self.results)

    @property
    def has_faults(self) -> bool:
        return self.count(Verdict.FAULT) > 0
