"""
Preliminary reads: which group and tag a site accepts, who may read and who may review.

Groups come from the site's settings, or, where it has set up none, from their first use. A group
with members accepts their reads only. Reviewers are those of the group, or, where it names none,
everybody who is a member of no group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bridge.engine.rules.reasons import Reason
from bridge.engine.rules.site_roles import SiteRole


@dataclass(frozen=True, slots=True)
class PrelimGroupPolicy:
    """A prelim group as a rule sees it."""

    name: str
    tags: frozenset[str]
    configured: bool
    members: frozenset[str] = frozenset()
    reviewers: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class PrelimReader:
    """A person on the site: canonical e-mail address and role, None for who has left it."""

    email: str
    role: SiteRole | None


def refuse_reader(
    groups: Mapping[str, PrelimGroupPolicy], group: str, reader: PrelimReader
) -> Reason | None:
    """Say why a person may not read for a group; administrators read for every group."""
    known = groups.get(group)
    if known is None or not known.members or reader.role is SiteRole.ADMINISTRATOR:
        return None
    return None if reader.email in known.members else Reason.NOT_PRELIM_MEMBER


def may_review(groups: Mapping[str, PrelimGroupPolicy], group: str, reader: PrelimReader) -> bool:
    """
    Tell whether a person may take a read of a group for review.

    Without reviewers of its own, a group is reviewed by everybody who is in no group and whose role
    permits to sign.
    """
    if reader.role is None:
        return False
    known = groups.get(group)
    if known is not None and known.reviewers is not None:
        return reader.email in known.reviewers
    in_a_group = any(reader.email in each.members for each in groups.values())
    return reader.role is not SiteRole.PRELIM and not in_a_group


def refuse_prelim(groups: Mapping[str, PrelimGroupPolicy], group: str, tag: str) -> Reason | None:
    """Say why a group and tag cannot be used; a site without groups of its own takes any."""
    if not any(each.configured for each in groups.values()):
        return None
    known = groups.get(group)
    if known is None or not known.configured:
        return Reason.UNKNOWN_PRELIM_GROUP
    return None if tag in known.tags else Reason.UNKNOWN_PRELIM_TAG


@dataclass(frozen=True, slots=True)
class ReadState:
    """A preliminary read as a rule sees it."""

    read_at: int
    read_by_id: int | None
    reviewed: bool
    withdrawn: bool


def active(reads: Sequence[ReadState]) -> int | None:
    """Return the index of the newest read that was not withdrawn, oldest first given."""
    standing = [index for index, read in enumerate(reads) if not read.withdrawn]
    return standing[-1] if standing else None


def reviewed_by(reads: Iterable[ReadState], reviewer_id: int | None) -> list[int]:
    """Return the indexes of the reads that a reviewer's deed reviews: others', and still open."""
    return [
        index
        for index, read in enumerate(reads)
        if not (read.reviewed or read.withdrawn) and read.read_by_id != reviewer_id
    ]
