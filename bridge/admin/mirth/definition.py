"""The proposed definition: a file that includes a shipped one and has only the differences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bridge.admin.mirth.filters import FilterResult
from bridge.admin.mirth.findings import Findings, printable
from bridge.admin.mirth.steps import SECTIONS, ProposedRule
from mappings.authoring.yaml_writing import Tree
from mappings.authoring.yaml_writing import written as as_yaml
from mappings.compiler import check_sources
from mappings.language.diagnostics import Issue, IssueSeverity, Sources

ORDERS: Final = {"ORM": "O01", "OMG": "O19", "OMI": "O23"}
"""The triggers of order messages by their code."""
PATIENTS: Final = "ADT"


@dataclass(slots=True)
class ProposedDefinition:
    """A definition to write: what it includes, what it accepts, and its rules."""

    name: str
    include: str
    title: str
    messages: list[str]
    senders: dict[str, str]
    only: Tree
    only_line: int
    rules: list[ProposedRule] = field(default_factory=list)

    @property
    def file(self) -> str:
        return f"{self.name}.yaml"


def accepted_messages(result: FilterResult, include: str) -> list[str]:
    """Return the types that a definition accepts; empty: those of the included one."""
    if include == "patients.yaml":
        return [f"{code}^{trigger}" for code, trigger in result.types if code == PATIENTS]
    return [
        f"{code}^{ORDERS[code] if trigger == '*' else trigger}"
        for code, trigger in result.types
        if code in ORDERS
    ]


def write_definition(
    definition: ProposedDefinition, sources: Sources, findings: Findings
) -> tuple[str, Sequence[Issue]]:
    """
    Return the text of a definition and its remaining issues.

    A rule that the compiler refuses is left out and listed: each round has fewer rules.
    """
    while True:
        text, lines = _compose(definition)
        checked = {**sources, definition.file: text}
        issues = check_sources(checked, [definition.name], tables=False)
        issues = [issue for issue in issues if issue.file == definition.file]
        wrong = {
            rule: issue
            for issue in issues
            if issue.severity is IssueSeverity.ERROR and (rule := lines.get(issue.line)) is not None
        }
        if not wrong:
            return text, issues
        for place, issue in wrong.items():
            _leave_out(definition, place, issue, findings)


_ONLY: Final = -1
"""The place of `only` beside the numbers of the rules."""


def _leave_out(
    definition: ProposedDefinition, place: int, issue: Issue, findings: Findings
) -> None:
    if place == _ONLY:
        hint = f"only: {as_yaml(definition.only)}"
        findings.left(definition.only_line, "filter", f"the condition has a mistake: {issue}", hint)
        definition.only = None
        return
    rule = definition.rules[place]
    findings.left(
        rule.line, rule.what, f"the rule has a mistake: {issue.message}", as_yaml(rule.rule)
    )
    definition.rules = [other for other in definition.rules if other is not rule]


def _compose(definition: ProposedDefinition) -> tuple[str, dict[int, int]]:
    """Return the text, and the number of the rule on each line that has one."""
    lines = [f"# {printable(definition.title)}", f"include: {definition.include}"]
    places: dict[int, int] = {}
    accept: dict[str, Tree] = {}
    if definition.messages:
        accept["messages"] = list(definition.messages)
    if definition.senders:
        accept["senders"] = [dict(definition.senders)]
    if accept:
        lines.append("accept:")
        lines += [f"  {key}: {as_yaml(value)}" for key, value in accept.items()]
    if definition.only is not None:
        lines.append(f"# line {definition.only_line}: filter")
        lines.append(f"only: {as_yaml(definition.only)}")
        places[len(lines)] = _ONLY
    opened: tuple[str, ...] = ()
    numbered = sorted(
        enumerate(definition.rules), key=lambda entry: SECTIONS.index(entry[1].section)
    )
    for number, rule in numbered:
        if rule.section != opened:
            lines += [f"{'  ' * depth}{key}:" for depth, key in enumerate(rule.section)]
            opened = rule.section
        indent = "  " * len(rule.section)
        lines.append(f"{indent}# {printable(f'line {rule.line}: {rule.what}')}")
        lines.append(f"{indent}{as_yaml(rule.key)}: {as_yaml(rule.rule)}")
        places[len(lines)] = number
    return "\n".join([*lines, ""]), places
