"""
Rules of signing: the fingerprint of the signed text, and the sign delay.

The fingerprint reveals a later change of the text. Times are in milliseconds of the server's clock.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.engine.rules.identity import OrderId


def fingerprint(
    report_id: str,
    orders: Sequence[OrderId],
    content: Mapping[str, Any],
    signer_email: str,
    signed_at: int,
) -> str:
    """Return the hexadecimal SHA-256 of the canonical JSON of the signed content."""
    signed = {
        "reportId": report_id,
        "orders": sorted([each.site_id, each.mrn, each.accession] for each in orders),
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
    """Tell whether a signature can still be recalled."""
    return cooling_until is not None and now < cooling_until
