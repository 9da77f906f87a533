r"""
Regular expressions with a limit to the time they take; letter case does not count.

Python's `re` cannot be interrupted. A pattern with one repetition of something simple costs at
most the square of a short text; any other is asked for in the sandbox.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from mappings import sandbox
from mappings.errors import PatternFailed
from mappings.nodes import Node
from mappings.notebook import Notebook

MAX_MATCHED = 4096
"""Only so many characters of a value meet a regular expression."""

Search = Callable[[str], str | None]
"""Gives the first group of a match, or all of it where there is no group; None without one."""

_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?|(\)?)([*+]|\?|\{(\d*)(,?)(\d*)\})[?+]?", re.DOTALL
)
_MOST_WAYS = 4096
"""In how many ways the bounded repetitions of a pattern may be taken, and still be cheap."""


def compile_pattern(node: Node, notebook: Notebook) -> Search:
    """Compile a pattern; after a mistake it matches nothing."""
    text = notebook.text(node)
    try:
        pattern = re.compile(text, re.IGNORECASE)
    except re.error as error:
        notebook.error(node, "pattern", f"not a regular expression: {error.msg}")
        return lambda value: None
    if not is_costly(text):
        return _here(pattern)
    notebook.meanings.costly = True
    return _elsewhere(text)


def is_costly(pattern: str) -> bool:
    """Say whether a pattern may explode: several repetitions, or repetitions of a group."""
    unbounded, ways = 0, 1
    for found in _TOKEN.finditer(pattern):
        of_group, what = bool(found[1]), found[2]
        if what is None:
            continue
        most = int(found[5] or (0 if found[4] else found[3] or 0)) if what[0] == "{" else 1
        if what in ("*", "+") or (what[0] == "{" and not most):
            unbounded += 2 if of_group else 1
        elif of_group:
            ways *= 2 ** min(most, 20)
        elif what == "?" or found[4]:
            ways *= most + 1
    return unbounded > 1 or ways > _MOST_WAYS


def _here(pattern: re.Pattern[str]) -> Search:
    def search(value: str) -> str | None:
        found = pattern.search(value[:MAX_MATCHED])
        if found is None:
            return None
        return (found[1] if pattern.groups else found[0]) or ""

    return search


def _elsewhere(pattern: str) -> Search:
    @lru_cache(maxsize=1024)
    def search(value: str) -> str | None:
        try:
            found: str | None = sandbox.ask({"does": "search", "pattern": pattern, "text": value})
        except (sandbox.Overrun, sandbox.Raised):
            raise PatternFailed from None
        return found

    return lambda value: search(value[:MAX_MATCHED])
