"""
JSON from users: parse it, and refuse values that the service could not store or send.

Refused are bad syntax, bytes that are not UTF-8, NaN and infinity, numbers that are too long, deep
nesting, repeated names in an object, NUL characters, and unpaired surrogates.
"""

import json
import math
from typing import Any, Never

from parsers.errors import DocumentRefused
from parsers.limits import JSON

_NESTING = frozenset({dict, list})


def read(body: bytes) -> Any:
    """
    Return the value; raise `DocumentRefused` with the reason and never with the text.

    The number of values is not limited here: `bridge.web.bodies` counts them in the text.
    """
    try:
        text = body.decode("utf-8-sig")
        value = json.loads(
            text,
            parse_constant=_not_a_number,
            parse_float=_finite,
            object_pairs_hook=_with_unique_names,
        )
    except DocumentRefused:
        raise
    except UnicodeDecodeError:
        raise DocumentRefused("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise DocumentRefused(
            f"the body is not JSON: {error.msg} at character {error.pos}"
        ) from None
    except RecursionError:
        raise DocumentRefused("the body is nested too deeply") from None
    except ValueError:
        raise DocumentRefused("the body has a number that is not finite or too long") from None
    if "\\u" in text:  # only such an escape can create NUL or an unpaired surrogate
        _require_storable(value)
    elif text.count("[") + text.count("{") > JSON.depth:
        _require_depth(value)
    return value


def _with_unique_names(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):  # two values of a name, such as two patients, are ambiguous
        raise DocumentRefused("an object has the same name twice")
    return found


def _not_a_number(name: str) -> Never:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError
    return number


def _require_depth(value: Any) -> None:
    """Refuse deep nesting, level by level. The parser creates `dict` and `list`, no subclasses."""
    level = [value] if type(value) in _NESTING else []
    for _ in range(JSON.depth):
        level = [
            member
            for each in level
            for member in (each.values() if type(each) is dict else each)
            if type(member) in _NESTING
        ]
        if not level:
            return
    raise DocumentRefused("the body is nested too deeply")


def _require_storable(value: Any) -> None:
    """Check the depth and all strings, without recursion."""
    _require_depth(value)
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
            pending += item
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str) and not storable(item):
            raise DocumentRefused("a string contains a NUL character or an unpaired surrogate")


def storable(text: str) -> bool:
    """True if both databases and UTF-8 can hold this text."""
    return "\x00" not in text and not any("\ud800" <= each <= "\udfff" for each in text)
