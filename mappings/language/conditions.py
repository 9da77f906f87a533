r"""
Conditions: `when: {ORC-8: {matches: printset}}` compiled to a function of the scope.

All entries of a condition must hold; `any: […]` and `not: …` combine conditions. A test is a text,
a list of texts (one of which must be equal), or a mapping with the keys `TESTS`.

Patterns (`matches`, wildcards) are matched in linear time by RE2, without regard to letter case.
Only this module uses `re2`. Python's `re` backtracks: a pattern such as `(a+)+$` can take
exponential time, and cannot be interrupted. RE2 has no look-around, backreferences, atomic groups,
possessive quantifiers, conditionals, comments and flag `x`; such patterns are reported with their
location. `\d`, `\w`, `\s` and `\b` mean ASCII; `\pL` is any letter. The end of the text is `$` or
`\z`. Syntax: https://github.com/google/re2/wiki/Syntax.

The size of a compiled pattern and the length of a value are limited, because their product bounds
the time of a search. `bounded_patterns` bounds the searches of a message together: the event loop
gives up a message whose patterns take long, and a thread evaluates it.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import re2

from mappings.hl7.message import NULL
from mappings.language.accessors import Getter, compile_path
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.language.scope import MessageScope

MAX_SEARCHED_CHARACTERS = 4096
"""Limit of the characters of a value that a pattern searches."""
MAX_PATTERN_CHARACTERS = 2000
"""The limit of the characters of a pattern."""

_MAX_CACHED_LENGTH, _MAX_CACHED = 32, 512
"""Length and number of values whose results are cached: codes repeat in messages."""
_MAX_STEPS = 2000  # instructions of a compiled pattern
_FEW_STEPS = 300  # larger patterns are not searched on the event loop
_BOUNDED_STEPS = 2**16  # instructions times bytes of all searches of a block: two milliseconds
_MAX_MEMORY = 2**20  # bytes of one compiled pattern with its cache

Search = Callable[[str], str | None]
"""Returns the first group of a match, the whole match without groups, None if nothing matches."""


class PatternsTakeLong(Exception):
    """The searches of a block of `bounded_patterns` would take long together."""


class _Bound(threading.local):
    left: int | None = None
    """The steps that the current block of this thread may still take; None without a block."""


_bound = _Bound()


@contextmanager
def bounded_patterns() -> Iterator[None]:
    """Bound all searches of this thread in a block. They raise PatternsTakeLong."""
    before, _bound.left = _bound.left, _BOUNDED_STEPS
    try:
        yield
    finally:
        _bound.left = before


def _spend(pattern: "re2._Regexp", text: bytes) -> None:
    """Count a search; raise PatternsTakeLong if the block has no steps left."""
    if _bound.left is not None:
        _bound.left -= pattern.programsize * len(text)
        if _bound.left < 0:
            raise PatternsTakeLong


_ENGINE = "patterns are matched in linear time (RE2)"
_UNSUPPORTED = {
    "(?=": "look-ahead (?=",
    "(?!": "negative look-ahead (?!",
    "(?<=": "look-behind (?<=",
    "(?<!": "negative look-behind (?<!",
    "(?P=": "the backreference (?P=",
    "(?>": "the atomic group (?>",
    "(?(": "the conditional group (?(",
    "(?#": "the comment (?#",
    "{,": "a repetition such as {,3} (write {0,3})",
    r"\Z": r"\Z (write \z)",
    r"\C": r"\C",
    r"\N": r"\N (write the character itself)",
    r"\u": r"\u (write the character itself)",
    r"\U": r"\U (write the character itself)",
}
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:<[=!]|P=|[a-zA-Z-]+(?=[:)])|[=!>(#])|\{,(?=\d)",
    re.DOTALL,
)
"""An escape, a character set, or the start of a special group or of a repetition."""


def compile_pattern(node: YamlNode, diagnostics: Diagnostics) -> Search:
    """Compile a pattern. A pattern with errors never matches."""
    text = diagnostics.read_text(node)
    try:
        found = _compiled(text, case_sensitive=False)
    except ValueError as error:
        diagnostics.error(node, "pattern", str(error))
        return lambda value: None
    diagnostics.needs_thread |= found.programsize > _FEW_STEPS
    return _search(found)


def compile_search(pattern: str) -> Search:
    """Compile a pattern. Raises ValueError with the reason."""
    return _search(_compiled(pattern, case_sensitive=False))


def _search(pattern: "re2._Regexp") -> Search:
    group = 1 if pattern.groups else 0

    def search(value: str) -> str | None:
        encoded = value[:MAX_SEARCHED_CHARACTERS].encode("utf-8", "surrogatepass")
        _spend(pattern, encoded)
        match = pattern.search(encoded)
        if match is None:
            return None
        text: bytes | None = match[group]
        return text.decode("utf-8", "replace") if text else ""

    cached = lru_cache(maxsize=_MAX_CACHED)(search)
    return lambda value: cached(value) if len(value) <= _MAX_CACHED_LENGTH else search(value)


@lru_cache(maxsize=1024)
def compile_wildcards(pattern: str) -> Callable[[str], bool]:
    """
    Compile a text with wildcards: `*` for any characters, `?` for one. Letter case matters.

    Raises ValueError.
    """
    parts = {"*": ".*", "?": "."}
    text = "".join(parts.get(character) or re.escape(character) for character in pattern)
    found = _compiled(rf"(?s)\A(?:{text})\z", case_sensitive=True)

    def matches(value: str) -> bool:
        if len(value) > MAX_SEARCHED_CHARACTERS:
            return False
        encoded = value.encode("utf-8", "surrogatepass")
        _spend(found, encoded)
        return found.search(encoded) is not None

    return matches


def _compiled(pattern: str, *, case_sensitive: bool) -> "re2._Regexp":
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise ValueError(f"a pattern has at most {MAX_PATTERN_CHARACTERS} characters")
    unsupported = _unsupported(pattern)
    if unsupported:
        raise ValueError(f"not supported in a pattern: {unsupported}; {_ENGINE}")
    options = re2.Options()
    options.case_sensitive = case_sensitive
    options.max_mem = _MAX_MEMORY
    options.log_errors = False  # RE2 logs to standard error
    try:
        found = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"not a regular expression: {text}; {_ENGINE}") from None
    except UnicodeError:
        raise ValueError("not a regular expression: it has no valid characters") from None
    if found.programsize > _MAX_STEPS:
        raise ValueError("the pattern is too large: it repeats too much")
    return found


def _unsupported(pattern: str) -> str:
    """Return the first construct that RE2 does not support; "" if there is none."""
    for found in _TOKEN.finditer(pattern):
        token = found[0]
        if token in _UNSUPPORTED:
            return _UNSUPPORTED[token]
        if token.startswith("\\") and token[1] in "123456789":
            return f"the backreference {token}"
        if token.startswith("(?") and set(token[2:]) & set("xaLu"):
            return f"the flag in {token})"
    return ""


Condition = Callable[[MessageScope], bool]
Test = Callable[[str], bool]

_NOTHING_TO_HOLD = "`any` lists no condition"
_NOTHING_TO_NEGATE = "`not` has no condition"
_NO_VALUE = "no value passes all of these tests"
_BLANKS = "values are compared without blanks around them, and a null as an empty text"
TESTS = ("is", "in", "not", "matches", "present", "absent")


def compile_condition(node: YamlNode, diagnostics: Diagnostics) -> Condition:
    """Compile a condition. A condition with errors is never true."""
    parts: list[Condition] = []
    for key, below in diagnostics.read_mapping(node).items():
        if key == "any":
            if not diagnostics.read_items(below):
                diagnostics.warn(below.at_key(), "dead", f"never true: {_NOTHING_TO_HOLD}")
            some = [compile_condition(item, diagnostics) for item in diagnostics.read_items(below)]
            parts.append(_any(some))
        elif key == "not":
            if below.value == {}:
                diagnostics.warn(below.at_key(), "dead", f"never true: {_NOTHING_TO_NEGATE}")
            parts.append(_not(compile_condition(below, diagnostics)))
        else:
            parts.append(_compile_field(key, below, diagnostics))
    return parts[0] if len(parts) == 1 else _all(parts)


def _compile_field(path: str, node: YamlNode, diagnostics: Diagnostics) -> Condition:
    """
    Compile the condition of one field.

    Equal conditions with a pattern are evaluated once for each group.
    """
    getter = compile_path(path, node.at_key(), diagnostics)
    holds = _field_condition(getter, compile_condition_test(node, diagnostics))
    pattern = node.get("matches")
    if pattern is None or len(node.value or ()) != 1 or not isinstance(pattern.value, str):
        return holds
    return diagnostics.conditions.setdefault((path, pattern.value), _cached(holds))


def compile_test(node: YamlNode, diagnostics: Diagnostics) -> Test:
    if not isinstance(node.value, dict):
        return frozenset(diagnostics.read_texts(node)).__contains__
    tests = [
        _TESTS[word](below, diagnostics)
        for word, below in diagnostics.read_mapping(node, TESTS).items()
    ]
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def compile_condition_test(
    node: YamlNode, diagnostics: Diagnostics, *, of_field: bool = True
) -> Test:
    """
    Compile the test of a condition, and warn if no value can pass it.

    `of_field`: the value is that of a field, which has no surrounding blanks, and a null is empty.
    """
    passes = compile_test(node, diagnostics)
    if not isinstance(node.value, dict):
        _warn_if_never_true(diagnostics.read_texts(node), passes, node, diagnostics, of_field)
        return passes
    entries = diagnostics.read_mapping(node, TESTS)
    listed = next((entries[word] for word in ("is", "in") if word in entries), None)
    presence = _wanted_presence(entries, diagnostics)
    if listed is not None:
        _warn_if_never_true(diagnostics.read_texts(listed), passes, node, diagnostics, of_field)
    elif presence == {True, False}:
        diagnostics.warn(node, "dead", "never true: a value cannot be present and absent")
    elif presence == {False}:
        _warn_if_never_true([""], passes, node, diagnostics, of_field)
    return passes


def _warn_if_never_true(
    candidates: list[str], passes: Test, node: YamlNode, diagnostics: Diagnostics, of_field: bool
) -> None:
    possible = [
        candidate
        for candidate in candidates
        if not of_field or (candidate == candidate.strip() and candidate != NULL)
    ]
    if not any(passes(candidate) for candidate in possible):
        why = _BLANKS if candidates and not possible else _NO_VALUE
        diagnostics.warn(node, "dead", f"never true: {why}")


def _wanted_presence(entries: dict[str, YamlNode], diagnostics: Diagnostics) -> set[bool]:
    """Return whether a test requires a value to be present; both if it has both keys."""
    flags = [
        diagnostics.read_flag(entries[word], default=True) is (word == "present")
        for word in ("present", "absent")
        if word in entries
    ]
    return set(flags)


def _is(node: YamlNode, diagnostics: Diagnostics) -> Test:
    return frozenset(diagnostics.read_texts(node)).__contains__


def _is_not(node: YamlNode, diagnostics: Diagnostics) -> Test:
    unwanted = frozenset(diagnostics.read_texts(node))
    return lambda value: value not in unwanted


def _matches(node: YamlNode, diagnostics: Diagnostics) -> Test:
    search = compile_pattern(node, diagnostics)
    return lambda value: search(value) is not None


def _present(node: YamlNode, diagnostics: Diagnostics) -> Test:
    wanted = diagnostics.read_flag(node, default=True)
    return lambda value: bool(value) is wanted


def _absent(node: YamlNode, diagnostics: Diagnostics) -> Test:
    wanted = diagnostics.read_flag(node, default=True)
    return lambda value: (not value) is wanted


_TESTS: dict[str, Callable[[YamlNode, Diagnostics], Test]] = {
    "is": _is,
    "in": _is,
    "not": _is_not,
    "matches": _matches,
    "present": _present,
    "absent": _absent,
}


# Loops instead of any() and all(): a generator costs as much as the conditions.
def _all(parts: list[Condition]) -> Condition:
    def holds(scope: MessageScope) -> bool:
        for part in parts:  # noqa: SIM110  # see above
            if not part(scope):
                return False
        return True

    return holds


def _any(parts: list[Condition]) -> Condition:
    def holds(scope: MessageScope) -> bool:
        for part in parts:  # noqa: SIM110  # see above
            if part(scope):
                return True
        return False

    return holds


def _not(part: Condition) -> Condition:
    return lambda scope: not part(scope)


def _cached(condition: Condition) -> Condition:
    def holds(scope: MessageScope) -> bool:
        known = scope.condition_results.get(condition)
        if known is None:
            known = scope.condition_results[condition] = condition(scope)
        return known

    return holds


def _field_condition(getter: Getter, test: Test) -> Condition:
    """Test the value of a field. A null counts as an empty text."""

    def holds(scope: MessageScope) -> bool:
        value = getter(scope)
        return test("" if value == NULL else value)

    return holds
