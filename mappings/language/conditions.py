"""Conditions: `when: {ORC-8: {matches: printset}}` becomes a function of the scope.

All entries of a condition must hold; `any: […]` and `not: …` combine. A test is a text, a
list of texts (one of them), or one of the words in `TESTS`.
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


def compile_condition(node: YamlNode, notebook: Diagnostics) -> Condition:
    """Compile a condition; with mistakes noted it holds for nothing."""
    parts: list[Condition] = []
    for key, below in notebook.mapping(node).items():
        if key == "any":
            if not notebook.items(below):
                notebook.warn(below.at_key(), "dead", f"never true: {_NOTHING_TO_HOLD}")
            some = [compile_condition(each, notebook) for each in notebook.items(below)]
            parts.append(_any(some))
        elif key == "not":
            if below.value == {}:
                notebook.warn(below.at_key(), "dead", f"never true: {_NOTHING_TO_NEGATE}")
            parts.append(_not(compile_condition(below, notebook)))
        else:
            parts.append(_compile_field(key, below, notebook))
    return parts[0] if len(parts) == 1 else _all(parts)


def _compile_field(path: str, node: YamlNode, notebook: Diagnostics) -> Condition:
    """Compile the condition of one field; equal ones with a pattern are asked once of a group."""
    getter = compile_path(path, node.at_key(), notebook)
    holds = _of(getter, compile_condition_test(node, notebook))
    pattern = node.get("matches")
    if pattern is None or len(node.value or ()) != 1 or not isinstance(pattern.value, str):
        return holds
    return notebook.conditions.setdefault((path, pattern.value), _once(holds))


def compile_test(node: YamlNode, notebook: Diagnostics) -> Test:
    """Compile what a value is compared with."""
    if not isinstance(node.value, dict):
        return frozenset(notebook.texts(node)).__contains__
    tests = [_TESTS[word](below, notebook) for word, below in notebook.mapping(node, TESTS).items()]
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def compile_condition_test(node: YamlNode, notebook: Diagnostics, *, of_field: bool = True) -> Test:
    """
    Compile the test of a condition; one that no value can pass is noted.

    `of_field`: the value is a field's, so that it has no blanks around it, and a null is nothing.
    """
    passes = compile_test(node, notebook)
    if not isinstance(node.value, dict):
        _note_never(notebook.texts(node), passes, node, notebook, of_field)
        return passes
    entries = notebook.mapping(node, TESTS)
    listed = next((entries[word] for word in ("is", "in") if word in entries), None)
    wants = _wants(entries, notebook)
    if listed is not None:
        _note_never(notebook.texts(listed), passes, node, notebook, of_field)
    elif wants == {True, False}:
        notebook.warn(node, "dead", "never true: a value cannot be present and absent")
    elif wants == {False}:
        _note_never([""], passes, node, notebook, of_field)
    return passes


def _note_never(
    candidates: list[str], passes: Test, node: YamlNode, notebook: Diagnostics, of_field: bool
) -> None:
    """Note a test that none of the only values that could pass it does pass."""
    possible = [
        each for each in candidates if not of_field or (each == each.strip() and each != NULL)
    ]
    if not any(passes(each) for each in possible):
        why = _BLANKS if candidates and not possible else _NO_VALUE
        notebook.warn(node, "dead", f"never true: {why}")


def _wants(entries: dict[str, YamlNode], notebook: Diagnostics) -> set[bool]:
    """Say whether a test wants a value to be there, or not to be; both, where it says both."""
    flags = [
        notebook.flag(entries[word], default=True) is (word == "present")
        for word in ("present", "absent")
        if word in entries
    ]
    return set(flags)


def _is(node: YamlNode, notebook: Diagnostics) -> Test:
    return frozenset(notebook.texts(node)).__contains__


def _is_not(node: YamlNode, notebook: Diagnostics) -> Test:
    unwanted = frozenset(notebook.texts(node))
    return lambda value: value not in unwanted


def _matches(node: YamlNode, notebook: Diagnostics) -> Test:
    search = compile_pattern(node, notebook)
    return lambda value: search(value) is not None


def _present(node: YamlNode, notebook: Diagnostics) -> Test:
    wanted = notebook.flag(node, default=True)
    return lambda value: bool(value) is wanted


def _absent(node: YamlNode, notebook: Diagnostics) -> Test:
    wanted = notebook.flag(node, default=True)
    return lambda value: (not value) is wanted


_TESTS: dict[str, Callable[[YamlNode, Diagnostics], Test]] = {
    "is": _is,
    "in": _is,
    "not": _is_not,
    "matches": _matches,
    "present": _present,
    "absent": _absent,
}


# Loops, for a condition is asked of every row of a message, and a generator costs as much.
def _all(parts: list[Condition]) -> Condition:
    def hold(scope: MessageScope) -> bool:
        for part in parts:  # noqa: SIM110  # see above
            if not part(scope):
                return False
        return True

    return hold


def _any(parts: list[Condition]) -> Condition:
    def holds(scope: MessageScope) -> bool:
        for part in parts:  # noqa: SIM110  # see above
            if part(scope):
                return True
        return False

    return holds


def _not(part: Condition) -> Condition:
    return lambda scope: not part(scope)


def _once(condition: Condition) -> Condition:
    """Remember in the scope whether a condition holds."""

    def holds(scope: MessageScope) -> bool:
        known = scope.held.get(condition)
        if known is None:
            known = scope.held[condition] = condition(scope)
        return known

    return holds


def _of(getter: Getter, test: Test) -> Condition:
    def holds(scope: MessageScope) -> bool:
        value = getter(scope)
        return test("" if value == NULL else value)

    return holds
