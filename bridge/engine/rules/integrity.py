"""
The fingerprint of what was signed: content, identity, signer and moment in one SHA-256.

It shows a later alteration; it does not prevent one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.engine.rules.identity import Triple


def fingerprint(
    report_id: str,
    orders: Sequence[Triple],
    content: Mapping[str, Any],
    signer_email: str,
    signed_at: int,
) -> str:
    """Return the hexadecimal SHA-256 over the canonical JSON of what is signed."""
    signed = {
        "reportId": report_id,
        "orders": sorted([each.site_id, each.mrn, each.accession] for each in orders),
        "content": content,
        "signer": signer_email,
        "signedAt": signed_at,
    }
    canonical = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
