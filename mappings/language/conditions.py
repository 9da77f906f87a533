"""
Conditions: `when: {ORC-8: {matches: printset}}` compiled to a function of the scope.

All entries of a condition must hold; `any: […]` and `not: …` combine conditions. A test is a text,
a list of texts (one of which must be equal), or a mapping with the keys `TESTS`.
"""

from collections.abc import Callable

from mappings.hl7.elements import NULL
from mappings.language.accessors import Getter, compile_path
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.language.patterns import compile_pattern
from mappings.language.scope import MessageScope

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
            some = [compile_condition(each, diagnostics) for each in diagnostics.read_items(below)]
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
        each for each in candidates if not of_field or (each == each.strip() and each != NULL)
    ]
    if not any(passes(each) for each in possible):
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
