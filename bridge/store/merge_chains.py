"""Chains of merged patient identifiers: what an undone merge leaves to whom. Pure."""

from collections.abc import Mapping


def merged_through(identifier: str, merged_into: Mapping[str, str]) -> set[str]:
    """
    Return the identifiers that were merged into this one, directly or through others.

    `merged_into` has for each merged identifier the one that its merge named.
    """
    found: set[str] = set()
    added = {identifier}
    while added:
        added = {prior for prior, into in merged_into.items() if into in added}
        added -= found | {identifier}
        found |= added
    return found
