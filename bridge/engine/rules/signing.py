"""
Rules of signing and of preliminary reads.

The fingerprint of the signed text reveals a later change. Times are in milliseconds of the server's
clock. Prelim groups are configured by the site. A site without configured groups accepts any group
and tag. A group with members accepts only their reads. A group without reviewers is reviewed by all
users who are in no group.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.engine.rules.site_roles import SiteRole


def fingerprint(
    report_id: str,
    orders: Sequence[OrderKey],
    content: Mapping[str, Any],
    signer_email: str,
    signed_at: int,
) -> str:
    """Return the hexadecimal SHA-256 of the canonical JSON of the signed content."""
    signed = {
        "reportId": report_id,
        "orders": sorted([order.site, order.mrn, order.accession] for order in orders),
        "content": content,
        "signer": signer_email,
        "signedAt": signed_at,
    }
    canonical = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def cooling_end(signed_at: int, sign_delay: int, *, ignore_delay: bool) -> int | None:
    """Return when a signature becomes final; None: at once. `sign_delay` is in seconds, 0: none."""
    return None if ignore_delay or sign_delay <= 0 else signed_at + sign_delay * 1000


def is_cooling(cooling_until: int | None, now: int) -> bool:
    """True if a report or addendum can still be unsigned."""
    return cooling_until is not None and now < cooling_until


@dataclass(frozen=True, slots=True)
class PrelimGroupPolicy:
    """The members, reviewers and tags of a prelim group."""

    name: str
    tags: frozenset[str]
    configured: bool
    members: frozenset[str] = frozenset()
    reviewers: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class PrelimReader:
    """A user: canonical e-mail address and role on the site, None after leaving the site."""

    email: str
    role: SiteRole | None


def refuse_reader(
    groups: Mapping[str, PrelimGroupPolicy], group: str, reader: PrelimReader
) -> ErrorCode | None:
    """Return why a user may not read for a group; administrators may read for any group."""
    known = groups.get(group)
    if known is None or not known.members or reader.role is SiteRole.ADMINISTRATOR:
        return None
    return None if reader.email in known.members else ErrorCode.NOT_PRELIM_MEMBER


def may_review(groups: Mapping[str, PrelimGroupPolicy], group: str, reader: PrelimReader) -> bool:
    """
    True if a user may review a read of a group.

    A group without reviewers is reviewed by users who are in no group and whose role permits
    signing.
    """
    if reader.role is None:
        return False
    known = groups.get(group)
    if known is not None and known.reviewers is not None:
        return reader.email in known.reviewers
    in_a_group = any(reader.email in policy.members for policy in groups.values())
    return reader.role is not SiteRole.PRELIM and not in_a_group


def refuse_prelim(
    groups: Mapping[str, PrelimGroupPolicy], group: str, tag: str
) -> ErrorCode | None:
    """Return why a group and tag are refused; a site without groups accepts any."""
    if not any(policy.configured for policy in groups.values()):
        return None
    known = groups.get(group)
    if known is None or not known.configured:
        return ErrorCode.UNKNOWN_PRELIM_GROUP
    return None if tag in known.tags else ErrorCode.UNKNOWN_PRELIM_TAG


@dataclass(frozen=True, slots=True)
class ReadState:
    read_at: int
    read_by_id: int | None
    reviewed: bool
    withdrawn: bool


def reviewed_by(reads: Iterable[ReadState], reviewer_id: int | None) -> list[int]:
    """Return the indexes of the open reads of other users, which the reviewer reviews."""
    return [
        index
        for index, read in enumerate(reads)
        if not (read.reviewed or read.withdrawn) and read.read_by_id != reviewer_id
    ]
