"""
Filters of the rule builder: the types and senders that a definition accepts, and its `only`.

The rules of a filter are alternatives (`OR`) of rules that hold together (`AND`), as in JavaScript.
Mirth answers a filtered message with AR, so message types and senders become `accept`. All other
tests become `only`, which accepts a message and ignores it.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from bridge.admin.mirth.expressions import Place, constant, parse
from bridge.admin.mirth.findings import Findings, quoted
from bridge.admin.mirth.reader import Element
from mappings.authoring.yaml_writing import Tree
from mappings.authoring.yaml_writing import written as as_yaml

_CONDITIONS: Final = ("NOT_EQUAL", "EQUALS", "EXISTS", "NOT_EXIST", "CONTAINS", "NOT_CONTAIN")
"""The conditions by their numbers before version 3.5."""
_SENDER_KEYS: Final = {
    3: "application",
    4: "facility",
    5: "receiving_application",
    6: "receiving_facility",
}
_TYPE: Final = 9  # MSH-9
_COMPARED: Final = re.compile(
    r"(?P<field>(?:msg|tmp)[^=!<>&|;]{1,300}?)\s*(?P<not>[!=])==?\s*(?P<value>'[^'\\]*'|\"[^\"\\]*\")"
)
_SCRIPT_RULES: Final = {
    "JavaScriptRule": "JavaScript is not converted",
    "ExternalScriptRule": "a script file is not converted",
    "IteratorRule": "rules over repetitions are not converted",
}


@dataclass(frozen=True, slots=True)
class FilterRule:
    """A rule that was understood: the place, the condition, and its constants."""

    element: Element
    place: Place
    condition: str
    values: tuple[str, ...]

    @property
    def of_header(self) -> int:
        """The field of MSH that the rule requires to be equal to a value, 0 for others."""
        place = self.place
        if place.segment != "MSH" or place.is_changed or self.condition != "EQUALS":
            return 0
        return place.field if self.values and place.subcomponent == 0 else 0


@dataclass(slots=True)
class FilterResult:
    """
    What a filter asks for.

    `types` are pairs of MSH-9.1 and MSH-9.2 (`*`: any), empty if the filter does not restrict them.
    """

    types: list[tuple[str, str]] = field(default_factory=list)
    senders: dict[str, str] = field(default_factory=dict)
    only: Tree = None
    only_line: int = 0


def read_filter(connector: Element, findings: Findings) -> FilterResult:
    """Read the filter of a connector, and list what was not converted."""
    result = FilterResult()
    alternatives: list[list[FilterRule]] = [[]]
    unread: list[tuple[Element, str, str, str]] = []
    elements = _rules(connector)
    for number, element in enumerate(elements):
        if number and element.value("operator") == "OR":
            alternatives.append([])
        rule = _read_rule(element)
        if isinstance(rule, FilterRule):
            alternatives[-1].append(rule)
        else:
            unread.append((element, *rule))
    whole = len(alternatives) == 1 or not unread
    for element, reason, hint, excerpt in unread:
        findings.left(element.line, _what(element), reason, hint, excerpt)
    if not whole:
        for rule in (rule for rules in alternatives for rule in rules):
            findings.left(
                rule.element.line,
                _what(rule.element),
                "an alternative of this filter was not converted, so none was",
                f"only: {as_yaml(_test(rule))}",
            )
        return result
    _convert(result, [rules for rules in alternatives if rules], findings)
    return result


def _rules(connector: Element) -> list[Element]:
    """Return the enabled rules of a filter in the form of version 3.5 and later."""
    found = [
        *connector.below("filter", "elements"),
        *map(_of_old_rule, connector.below("filter", "rules")),
    ]
    return [element for element in found if element.is_true("enabled", default=True)]


def old_data(element: Element) -> dict[str, Element]:
    """Return the values of a rule or step of versions before 3.5 by their names."""
    pairs = [entry.children for entry in element.below("data") if len(entry.children) > 1]
    return {pair[0].text.strip(): pair[1] for pair in pairs}


def _of_old_rule(element: Element) -> Element:
    """Return a rule of a version before 3.5 in the later form."""
    data, line = old_data(element), element.line
    kept = [below for below in element.children if below.name in ("name", "operator")]
    if element.value("type") != "Rule Builder":
        is_file = element.value("type") == "External Script"
        name = "ExternalScriptRule" if is_file else "JavaScriptRule"
        script = data.get("Script") or element.child("script") or Element("script", line)
        return Element(name, line, {}, [*kept, Element("script", line, text=script.text)])
    number = data["Equals"].text.strip() if "Equals" in data else "2"
    known = number.isdecimal() and int(number) < len(_CONDITIONS)
    condition = _CONDITIONS[int(number)] if known else "EXISTS"
    values = data["Values"].children if "Values" in data else []
    return Element(
        "RuleBuilderRule",
        line,
        {},
        [
            *kept,
            Element("field", line, text=data["Field"].text if "Field" in data else ""),
            Element("condition", line, text=condition),
            Element("values", line, {}, values),
        ],
    )


def _what(element: Element) -> str:
    return quoted(element, "filter rule")


def _read_rule(element: Element) -> FilterRule | tuple[str, str, str]:
    """Return a rule; or why it was not converted, a hint, and the script."""
    kind = element.name.rpartition(".")[2]
    if kind == "RuleBuilderRule":
        return _read_condition(element)
    script = element.value("script") or element.value("scriptPath")
    reason = _SCRIPT_RULES.get(kind, f"rules of the kind {kind[:60]} are not known")
    return reason, _script_hint(script), script


def condition_of(element: Element) -> Tree:
    """Return the condition of a rule, or of a destination set filter; None if it has none."""
    rule = _read_condition(element)
    return _test(rule) if isinstance(rule, FilterRule) else None


def _read_condition(element: Element) -> FilterRule | tuple[str, str, str]:
    place = parse(element.value("field"))
    if not isinstance(place, Place):
        return "its field is an expression, not a place", "", element.value("field")
    condition = element.value("condition") or "EXISTS"
    if place.is_changed and condition not in ("EXISTS", "NOT_EXIST"):
        return "it compares a changed value", "", element.value("field")
    if place.occurrence or (place.repetition and place.segment in ("ORC", "OBR")):
        return "it names one of several segments; a rule reads each order by itself", "", ""
    values = [constant(value.text) for value in element.below("values")]
    if None in values:
        return "it compares with an expression, not with a constant", "", element.value("field")
    return FilterRule(
        element, place, condition, tuple(value for value in values if value is not None)
    )


def _script_hint(script: str) -> str:
    """Return the tests that a script seems to make, as conditions."""
    found: dict[str, Tree] = {}
    for compared in _COMPARED.finditer(script[:20_000]):
        place, value = parse(compared["field"]), constant(compared["value"])
        if isinstance(place, Place) and place.field and value is not None and not place.is_changed:
            found[place.path] = {"not": value} if compared["not"] == "!" else value
    return f"it compares {as_yaml(found)}" if found else ""


def _convert(
    result: FilterResult, alternatives: list[list[FilterRule]], findings: Findings
) -> None:
    if not alternatives:
        return
    if all(rule.of_header == _TYPE for rules in alternatives for rule in rules):
        for rules in alternatives:
            result.types += [pair for pair in _types(rules) if pair not in result.types]
        _said_types(result, [rule for rules in alternatives for rule in rules], findings)
        return
    if len(alternatives) == 1:
        (rules,) = alternatives
        of_type = [rule for rule in rules if rule.of_header == _TYPE]
        of_sender = [rule for rule in rules if _is_sender(rule)]
        result.types = _types(of_type)
        _said_types(result, of_type, findings)
        for rule in of_sender:
            key = _SENDER_KEYS[rule.of_header]
            result.senders[key] = rule.values[0]
            findings.converted(rule.element.line, _what(rule.element), f"accept senders: {key}")
        alternatives = [[rule for rule in rules if rule not in (*of_type, *of_sender)]]
    tests = [_all_of([_test(rule) for rule in rules]) for rules in alternatives if rules]
    if not tests:
        return
    result.only = tests[0] if len(tests) == 1 else {"any": list(tests)}
    kept = [rule for rules in alternatives for rule in rules]
    result.only_line = min(rule.element.line for rule in kept)
    for rule in kept:
        _said_test(rule, findings)


def _is_sender(rule: FilterRule) -> bool:
    return (
        rule.of_header in _SENDER_KEYS
        and rule.place.component <= 1
        and len(rule.values) == 1
        and not set("*?") & set(rule.values[0])
        and bool(rule.values[0])
    )


def _types(rules: list[FilterRule]) -> list[tuple[str, str]]:
    """Return the pairs of code and trigger that all of these rules accept."""
    codes: list[str] = []
    triggers: list[str] = []
    for rule in rules:
        if rule.place.component == 2:  # noqa: PLR2004  # MSH-9.2
            triggers += rule.values
        elif rule.place.component <= 1:
            codes += [value.partition("^")[0] for value in rule.values]
            triggers += [value.split("^")[1] for value in rule.values if "^" in value]
        else:  # ORM_O01
            codes += [value.partition("_")[0] for value in rule.values]
            triggers += [value.partition("_")[2] for value in rule.values if "_" in value]
    if not codes:
        codes = (
            {"O01": ["ORM"], "O19": ["OMG"], "O23": ["OMI"]}.get(triggers[0], ["ADT"])
            if (triggers)
            else []
        )
    return [
        (code, trigger)
        for code in dict.fromkeys(codes)
        for trigger in dict.fromkeys(triggers or ["*"])
    ]


def _said_types(result: FilterResult, rules: list[FilterRule], findings: Findings) -> None:
    text = ", ".join("^".join(pair) for pair in result.types)
    for rule in rules:
        findings.converted(rule.element.line, _what(rule.element), f"accepted types: {text}")


def _said_test(rule: FilterRule, findings: Findings) -> None:
    text = f"only: {as_yaml(_test(rule))}"
    what, line = _what(rule.element), rule.element.line
    if rule.condition in ("CONTAINS", "NOT_CONTAIN"):
        findings.check(line, what, text, "letter case does not count in a pattern")
    elif rule.condition in ("EXISTS", "NOT_EXIST"):
        findings.check(line, what, text, "a field without a value counts as absent")
    else:
        findings.converted(line, what, text)


def _test(rule: FilterRule) -> dict[str, Tree]:
    """Return the condition of a rule."""
    place = rule.place if rule.place.field else Place(rule.place.segment, field=1)
    values = list(rule.values) or [""]
    test: Tree
    match rule.condition:
        case "EQUALS":
            test = values[0] if len(values) == 1 else list(values)
        case "NOT_EQUAL":
            test = {"not": values[0] if len(values) == 1 else list(values)}
        case "CONTAINS":
            test = {"matches": "|".join(map(_literal, values))}
        case "NOT_CONTAIN":
            pattern = "|".join(map(_literal, values))
            return {"not": {place.path: {"matches": pattern}}}
        case "NOT_EXIST":
            test = {"absent": "true"}
        case _:
            test = {"present": "true"}
    return {place.path: test}


def _literal(text: str) -> str:
    """Return a pattern of RE2 that matches a text."""
    return re.sub(r"([!-,./:-@\[-^`{-~])", r"\\\1", text)


def _all_of(tests: list[dict[str, Tree]]) -> Tree:
    """Return a condition that holds if all of these hold."""
    merged: dict[str, Tree] = {}
    for test in tests:
        if set(test) & set(merged):  # a key can stand once: not (not a or not b)
            return {"not": {"any": [{"not": one} for one in tests]}}
        merged |= test
    return merged
