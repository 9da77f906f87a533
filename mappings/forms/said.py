"""What written code calls: the few things that are more than a line of it."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from mappings.fetch import NULL, finish
from mappings.forms.form import Sent
from mappings.hl7.message import Message
from mappings.scope import Defaults, Scope, Setting, order_groups


@lru_cache
def draft(kind: type) -> type:
    """Make a class whose values can still be written, and can become values of a frozen one."""
    slots: tuple[str, ...] = kind.__slots__  # type: ignore[attr-defined]  # it is a dataclass with slots
    return type(f"{kind.__name__}Draft", (), {"__slots__": slots})


def scopes(sent: Sent, defaults: Defaults) -> list[Scope]:
    """Cut the message as rules see it, for those that only they can follow."""
    return order_groups(Message.parse(sent.raw, fallback=sent.fallback), defaults)


def read(text: str, mark: str, named: Mapping[str, str], setting: Setting) -> str:
    """Resolve the escapes of a text, and trim it; `named` are those that stand for delimiters."""
    before, _, rest = text.partition(mark)
    body, closed, after = rest.partition(mark)
    if closed and body in named and mark not in after:  # nearly always there is but one
        return (before + named[body] + after).strip()
    return finish(text, setting, raw=False)


def part(text: str, number: int, separator: str) -> str:
    """Take a part of a text; where nothing separates it is the first."""
    if separator not in text:
        return text if number == 1 else ""
    parts = text.split(separator, number)
    return parts[number - 1] if len(parts) >= number else ""


POSITIONAL = frozenset({"^", "&"})
"""Separators of components: behind each of them a value has its place, also behind an empty one."""


def joined(values: Sequence[str], separator: str) -> str:
    """Join what has a value; separators of components keep empty places. Only nulls make a null."""
    if separator in POSITIONAL:
        kept = separator.join(["" if value == NULL else value for value in values])
        return kept.rstrip(separator) or (NULL if NULL in values else "")
    said = [value for value in values if value]
    if NULL not in said:
        return separator.join(said)
    return separator.join([value for value in said if value != NULL]) or NULL


def gathered(values: Sequence[str], separator: str, *, only_first: bool) -> str:
    """Join values, or take the first of them; only nulls make a null."""
    if not values:
        return ""
    kept = [value for value in values if value != NULL]
    if not kept:
        return NULL
    return kept[0] if only_first or len(kept) == 1 else separator.join(kept)


def numbered(key: str, filled: Mapping[str, str], numbers: dict[str, int]) -> str:
    """Give a key that is not taken: equal ones are counted on."""
    name = key
    while name in filled:
        numbers[key] = numbers.get(key, 0) + 1
        name = f"{key} ({numbers[key] + 1})"
    return name
