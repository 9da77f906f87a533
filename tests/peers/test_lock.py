"""The peers from npm are pinned by their hashes alone."""

import json
from pathlib import Path

LOCK = Path(__file__).parent / "node" / "package-lock.json"


def test_the_lock_has_no_addresses() -> None:
    """Every package has a hash, and no package has a download address."""
    text = LOCK.read_text("utf-8")
    packages = json.loads(text)["packages"]

    assert "://" not in text
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []
