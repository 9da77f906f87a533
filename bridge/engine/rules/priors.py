"""
Which earlier reports of a patient come first to compare with: like studies, then the newest.

Pure. Only a study that is certainly later is no prior; dates that cannot be read go last (V96).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.engine.rules.patients import certain_date

COMPARED = 3
"""So many priors are compared by themselves."""


@dataclass(frozen=True, slots=True)
class Study:
    """A report's anchor order: its tags, and when the report was signed (ms since the epoch)."""

    tags: Mapping[str, Any]
    signed_at: int = 0

    @property
    def day(self) -> str:
        """The study date as ISO 8601, empty where it is missing or not certain."""
        found = certain_date(str(self.tags.get("StudyDate", "")))
        return found.isoformat() if found else ""

    def like(self, other: "Study") -> int:
        """Count what two studies have in common: modality and body part."""
        return sum(
            bool(_word(self, name)) and _word(self, name) == _word(other, name)
            for name in ("Modality", "BodyPartExamined")
        )


def _word(study: Study, name: str) -> str:
    return str(study.tags.get(name, "")).strip().casefold()


def ranked(present: Study, others: Sequence[Study]) -> list[int]:
    """Return the indexes of the priors among `others`, the best to compare with first."""
    earlier = [
        index
        for index, other in enumerate(others)
        if not (present.day and other.day and other.day > present.day)
    ]
    return sorted(
        earlier,
        key=lambda index: (
            present.like(others[index]),
            others[index].day,
            others[index].signed_at,
            index,
        ),
        reverse=True,
    )
