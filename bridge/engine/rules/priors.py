"""
Ranking of prior reports for comparison: similar studies first, then the newest.

A study is excluded only if it is certainly later. Studies without a readable date come last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.engine.rules.patients import certain_date

AUTO_COMPARED = 3
"""Number of priors that the app opens for comparison."""


@dataclass(frozen=True, slots=True)
class Study:
    """The anchor order of a report: tags, and the time of signing (ms since the epoch)."""

    tags: Mapping[str, Any]
    signed_at: int = 0

    @property
    def day(self) -> str:
        """The study date in ISO 8601, empty if it is missing or ambiguous."""
        found = certain_date(str(self.tags.get("StudyDate", "")))
        return found.isoformat() if found else ""

    def similarity(self, other: "Study") -> int:
        """Return the number of equal attributes: modality and body part."""
        return sum(
            bool(_word(self, name)) and _word(self, name) == _word(other, name)
            for name in ("Modality", "BodyPartExamined")
        )


def _word(study: Study, name: str) -> str:
    return str(study.tags.get(name, "")).strip().casefold()


def rank_priors(present: Study, others: Sequence[Study]) -> list[int]:
    """Return the indexes of the priors among `others`, the best comparison first."""
    earlier = [
        index
        for index, other in enumerate(others)
        if not (present.day and other.day and other.day > present.day)
    ]
    return sorted(
        earlier,
        key=lambda index: (
            present.similarity(others[index]),
            others[index].day,
            others[index].signed_at,
            index,
        ),
        reverse=True,
    )
