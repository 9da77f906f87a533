"""
Preliminary reads: which group and tag a site accepts, and which reads still wait for a review.

Groups come from the site's settings, or, where it has set up none, from their first use.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bridge.engine.rules.reasons import Reason


@dataclass(frozen=True, slots=True)
class Group:
    """A prelim group as a rule sees it."""

    name: str
    tags: frozenset[str]
    configured: bool


def refuse_prelim(groups: Mapping[str, Group], group: str, tag: str) -> Reason | None:
    """Say why a group and tag cannot be used; a site without groups of its own takes any."""
    if not any(each.configured for each in groups.values()):
        return None
    known = groups.get(group)
    if known is None or not known.configured:
        return Reason.UNKNOWN_PRELIM_GROUP
    return None if tag in known.tags else Reason.UNKNOWN_PRELIM_TAG


@dataclass(frozen=True, slots=True)
class Read:
    """A preliminary read as a rule sees it."""

    read_at: int
    read_by_id: int | None
    reviewed: bool
    withdrawn: bool


def active(reads: Sequence[Read]) -> int | None:
    """Return the index of the newest read that was not withdrawn, oldest first given."""
    standing = [index for index, read in enumerate(reads) if not read.withdrawn]
    return standing[-1] if standing else None


def reviewed_by(reads: Iterable[Read], reviewer_id: int | None) -> list[int]:
    """Return the indexes of the reads that a reviewer's deed reviews: others', and still open."""
    return [
        index
        for index, read in enumerate(reads)
        if not (read.reviewed or read.withdrawn) and read.read_by_id != reviewer_id
    ]
