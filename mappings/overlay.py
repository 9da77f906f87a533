"""
Words of a destination's settings, laid over the definition it names.

They become a definition of their own that includes the other: so they are compiled, checked
and hashed like everything an administrator writes.
"""

import json
from collections.abc import Mapping

from mappings.nodes import Sources

PLACES: Mapping[str, tuple[str, ...]] = {
    "layout": ("text", "layout"),
    "sections": ("text", "sections"),
    "addenda": ("text", "addenda"),
    "metadata": ("metadata", "targets"),
}
"""Where a word stands in a definition, if not on its top level under its own name."""


def laid_over(
    sources: Sources, name: str, words: Mapping[str, object], owner: str
) -> tuple[Sources, str]:
    """Give sources with one more definition, and its name; `owner` names it in mistakes."""
    if not words:
        return sources, name
    definition: dict[str, object] = {"include": f"{name}.yaml"}
    for word, value in words.items():
        first, *rest = PLACES.get(word, (word,))
        if not rest:
            definition[first] = value
            continue
        within = definition.setdefault(first, {})
        if isinstance(within, dict):
            within[rest[0]] = value
    return {**sources, f"{owner}.yaml": json.dumps(definition, ensure_ascii=False)}, owner
