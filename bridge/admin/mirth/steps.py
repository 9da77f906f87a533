"""
Steps of a transformer: rules of a definition.

A Mapper step becomes the rule of the tag that its variable names, else a value in Metadata. A
Message Builder step moves a value to another place of the message; all rules that read that place
read the value where it comes from.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from bridge.admin.mirth.expressions import Constant, Expression, Place, Variable, parse
from bridge.admin.mirth.filters import condition_of, old_data
from bridge.admin.mirth.findings import Findings, quoted
from bridge.admin.mirth.reader import Element
from mappings.authoring.edits import AddSource, Position, changed
from mappings.authoring.yaml_writing import Tree, plain
from mappings.authoring.yaml_writing import written as as_yaml
from mappings.language.outline import Outline

_TAGS: Final = {
    "PatientMRN": ("mrn", "patientmrn", "patientid", "medicalrecordnumber", "patientnumber"),
    "Accession": ("accession", "accessionnumber", "accessionno", "accno", "accessionnum"),
    "PatientName": ("patientname", "ptname"),
    "PatientBirthDate": ("dob", "birthdate", "dateofbirth", "patientdob", "patientbirthdate"),
    "PatientSex": ("sex", "gender", "patientsex", "patientgender"),
    "Modality": ("modality",),
    "BodyPartExamined": ("bodypart", "bodypartexamined"),
    "ProcedureCode": ("procedurecode", "examcode", "proccode", "exam", "procedureid"),
    "StudyDescription": ("studydescription", "proceduredescription", "examdescription", "procdesc"),
    "StudyInstanceUID": ("studyuid", "studyinstanceuid"),
    "ReasonForExam": ("reason", "reasonforexam", "reasonforstudy", "indication"),
    "ReferringPhysician": ("referringphysician", "referringdoctor", "orderingprovider"),
    "Race": ("race",),
    "Ethnicity": ("ethnicity",),
}
_TAG_OF: Final = {name: tag for tag, names in _TAGS.items() for name in names}
_ORDER_OF: Final = {
    "placer": "placer",
    "placerordernumber": "placer",
    "placernumber": "placer",
    "filler": "filler",
    "fillerordernumber": "filler",
    "fillernumber": "filler",
}
_AS_OF: Final[Mapping[str, Mapping[str, Tree]]] = {
    "Modality": {"codes": "modality", "unknown": "empty"},
    "ReferringPhysician": {"as": "provider-name"},
    "StudyInstanceUID": {"as": "study-uid"},
}
"""Modifiers that a source of these tags has itself."""
_TAGS_SECTION: Final = ("tags",)
_METADATA: Final = ("metadata", "values")
_ORDER: Final = ("order",)
SECTIONS: Final = (_TAGS_SECTION, _METADATA, _ORDER)
"""The keys of a definition that contain proposed rules, in their order."""
_SECTION_OF: Final = {"tag": _TAGS_SECTION, "meta": _METADATA, "order": _ORDER}
_SCRIPT_STEPS: Final = {
    "JavaScriptStep": "JavaScript is not converted",
    "ExternalScriptStep": "a script file is not converted",
    "XsltStep": "XSLT is not converted",
    "IteratorStep": "steps over repetitions are not converted",
}
_PREFIX: Final = re.compile(r"/\^((?:[A-Za-z0-9 _:#-]|\\[-/.:#])+)/[a-z]*")
"""A regular expression that matches a constant at the begin of a value."""
_ASSIGNED: Final = re.compile(
    r"(?:(?:var|let|const)\s+(?P<name>\w{1,60})\s*=|"
    r"(?:channel|connector)Map\.put\(\s*['\"](?P<key>\w{1,60})['\"]\s*,)\s*(?P<value>msg[^;\n]{1,300})"
)
_MAX_HINTS: Final = 5
_KEPT: Final = frozenset(
    {
        *("const", "default", "as", "extract", "codes", "codes_back", "unknown", "separator"),
        *("required", "distinct", "after", "when", "where", "hook"),
    }
)
"""Keys of a rule whose values are no sources."""
_PATHS_ONLY: Final = frozenset({"all", "first", "age"})
"""Keys of a rule whose values can only be paths."""
_METADATA_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class ProposedRule:
    """A rule of the proposed definition, with the step that it comes from."""

    section: tuple[str, ...]
    key: str
    rule: Tree
    line: int
    what: str


@dataclass(slots=True)
class Steps:
    """The rules that the steps of a transformer become."""

    base: Outline
    """The shipped definition that the proposal includes."""
    findings: Findings
    destinations: Mapping[str, str] = field(default_factory=dict)
    """The names of the destinations by their ids."""
    rules: dict[tuple[str, ...], ProposedRule] = field(default_factory=dict)
    """By section and key."""
    _variables: dict[str, Tree] = field(default_factory=dict)

    def read(self, connector: Element) -> None:
        """Convert the enabled steps of the transformer of a source connector."""
        for step in transformer_steps(connector):
            kind = step_kind(step)
            if kind == "MapperStep":
                self._mapper(step)
            elif kind == "MessageBuilderStep":
                self._message_builder(step)
            elif kind == "DestinationSetFilterStep":
                self._destination_set(step)
            else:
                list_step(step, self.findings)

    def _mapper(self, step: Element) -> None:
        variable = step.value("variable")
        what = quoted(step, "Mapper step") if step.value("name") else f"Mapper step “{variable}”"
        value = self._value(step, what)
        if value is None:
            return
        self._variables[variable] = value
        target = self._target(variable)
        if target is None:
            self.findings.check(
                step.line,
                what,
                f"{as_yaml(value)} is not kept: this kind of definition has no Metadata",
            )
            return
        section, key = target
        before = self.base.rule(f"{'tag' if section == ('tags',) else 'order'}:{key}")
        if section == _METADATA or before is None:
            self._add(ProposedRule(section, key, value, step.line, what))
            self.findings.converted(
                step.line,
                what,
                f"Metadata {key}: {as_yaml(value)}. It is stored with the order and returns with"
                " the result",
            )
            return
        tree = plain(before.node)
        source = self._source(key, value)
        first = _sources_of(tree)[:1]
        if first in ([source], [value]):
            self.findings.converted(step.line, what, f"{key}: read from {as_yaml(value)} already")
            return
        rule = changed(_without(tree, value), AddSource(source, Position.FIRST))
        self._add(ProposedRule(section, key, rule, step.line, what))
        self.findings.converted(step.line, what, f"{key}: {as_yaml(value)} first")

    def _target(self, variable: str) -> tuple[tuple[str, ...], str] | None:
        """Return section and key of the rule that a variable names."""
        name = re.sub(r"[^a-z0-9]", "", variable.lower())
        tag = _TAG_OF.get(name)
        if tag and self.base.rule(f"tag:{tag}") and (*_TAGS_SECTION, tag) not in self.rules:
            return _TAGS_SECTION, tag
        if self.base.kind != "orders":
            return None
        number = _ORDER_OF.get(name)
        if number and (*_ORDER, number) not in self.rules:
            return _ORDER, number
        key = variable if _METADATA_KEY.fullmatch(variable) else f"Mirth{name[:50]}"
        return _METADATA, key

    def _source(self, key: str, value: Tree) -> Tree:
        """Return a value as a source of a tag, with the modifiers that each source needs."""
        more = _AS_OF.get(key)
        if more is None:
            return value
        entry = value if isinstance(value, dict) else {"from": value}
        return {**more, **entry}

    def _message_builder(self, step: Element) -> None:
        what = quoted(step, "Message Builder step")
        target = parse(step.value("messageSegment"))
        if not isinstance(target, Place) or not target.field or target.is_changed:
            excerpt = step.value("messageSegment")
            self.findings.left(step.line, what, "it writes to an expression", excerpt=excerpt)
            return
        value = self._value(step, what)
        if value is None:
            return
        if isinstance(value, dict) and "const" in value and target.segment == "MSH":
            self.findings.left(
                step.line, what, f"{target.path} is set to a constant, which no order needs"
            )
            return
        moved = 0
        for rule in self.base.rules:
            kind, _, key = rule.target.partition(":")
            section = _SECTION_OF.get(kind)
            if section is None:
                continue
            known = self.rules.get((*section, key))
            tree = plain(rule.node) if known is None else known.rule
            after = _moved(tree, target.path, value)
            if after != tree:
                moved += 1
                self._add(ProposedRule(section, key, after, step.line, what))
        if moved:
            rules = "1 rule reads" if moved == 1 else f"{moved} rules read"
            text = f"{rules} {as_yaml(value)} instead of {target.path}"
            self.findings.converted(step.line, what, text)
        else:
            self.findings.check(
                step.line, what, f"no rule reads {target.path}", f"the value is {as_yaml(value)}"
            )

    def _destination_set(self, step: Element) -> None:
        """List a destination set filter in words: which destinations get no message, and when."""
        condition = condition_of(step)
        numbers = [number.text.strip() for number in step.below("metaDataIds")]
        names = [f"“{self.destinations.get(number, number)}”" for number in numbers]
        match step.value("behavior"):
            case "REMOVE_ALL":
                what = "to no destination"
            case "REMOVE_ALL_EXCEPT":
                what = f"only to {', '.join(names)}"
            case _:
                what = f"not to {', '.join(names)}"
        when = "an expression" if condition is None else as_yaml(condition)
        self.findings.left(
            step.line,
            quoted(step, "destination set filter"),
            f"{when}: {what}",
            "a result goes to each destination whose `sites` and `events` fit",
        )

    def _add(self, rule: ProposedRule) -> None:
        self.rules[(*rule.section, rule.key)] = rule

    def _value(self, step: Element, what: str) -> Tree:
        """Return the rule of a step's mapping, default value and replacements; None: not read."""
        text = step.value("mapping")
        found = parse(text) if text else Constant("")
        value = self._rule(found)
        if value is None:
            self.findings.left(
                step.line,
                what,
                "its mapping is JavaScript, not a place or a constant",
                excerpt=text,
            )
            return None
        pairs = _replacements(step)
        if pairs:
            replaced = _without_prefix(found, pairs)
            if replaced is None:
                self.findings.left(
                    step.line,
                    what,
                    f"its regular expressions are not converted ({len(pairs)})",
                    f"the value is {as_yaml(value)}; `extract` keeps a part of it, `codes`"
                    " translates it",
                    excerpt=" ".join(pairs[0]),
                )
                return None
            value = replaced
        default = step.value("defaultValue")
        if default and default not in ("''", '""'):
            other = self._rule(parse(default))
            if other is None:
                self.findings.check(step.line, what, "its default value is not converted")
            elif isinstance(other, dict) and "const" in other:
                entry = value if isinstance(value, dict) else {"from": value}
                value = {**entry, "default": other["const"]}
            else:
                value = {"from": [value, other]}
        if value == {"const": ""}:
            self.findings.check(step.line, what, "an empty value is not kept")
            return None
        return value

    def _rule(self, found: Expression | None) -> Tree:
        if isinstance(found, Constant):
            return {"const": found.text}
        if isinstance(found, Variable):
            return self._variables.get(found.name)
        if isinstance(found, Place) and found.field:
            return None if _names_an_order(found) else found.rule
        return None


def transformer_steps(connector: Element, name: str = "transformer") -> list[Element]:
    """Return the enabled steps of a transformer in the form of version 3.5 and later."""
    found = [
        *connector.below(name, "elements"),
        *map(_of_old_step, connector.below(name, "steps")),
    ]
    return [element for element in found if element.is_true("enabled", default=True)]


def step_kind(step: Element) -> str:
    return step.name.rpartition(".")[2]


def list_step(step: Element, findings: Findings, hint: str = "") -> None:
    """List a step that is not converted."""
    kind = step_kind(step)
    script = step.value("script") or step.value("scriptPath") or step.value("template")
    reason = _SCRIPT_STEPS.get(kind, f"steps of the kind {kind[:60]} are not converted")
    what = quoted(step, kind.removesuffix("Step") + " step")
    findings.left(step.line, what, reason, hint or _script_hint(step, script), script)


def _of_old_step(element: Element) -> Element:
    """Return a step of a version before 3.5 in the later form."""
    data, line = old_data(element), element.line

    def copied(name: str, key: str) -> Element:
        found = data.get(key)
        return Element(name, line, text=found.text if found is not None else "")

    kept = [below for below in element.children if below.name == "name"]
    kind = element.value("type")
    pairs = data["RegularExpressions"].children if "RegularExpressions" in data else []
    replacements = Element("replacements", line, {}, list(pairs))
    common = [*kept, copied("mapping", "Mapping"), copied("defaultValue", "DefaultValue")]
    if kind == "Mapper":
        return Element(
            "MapperStep", line, {}, [*common, copied("variable", "Variable"), replacements]
        )
    if kind == "Message Builder":
        target = copied("messageSegment", "Variable")
        return Element("MessageBuilderStep", line, {}, [*common, target, replacements])
    names = {"External Script": "ExternalScriptStep", "XSLT Step": "XsltStep"}
    script = data.get("Script") or element.child("script") or Element("script", line)
    return Element(
        names.get(kind, "JavaScriptStep"),
        line,
        {},
        [*kept, Element("script", script.line, text=script.text)],
    )


def _replacements(step: Element) -> list[tuple[str, str]]:
    """Return the pairs of regular expression and replacement, as JavaScript."""
    return [
        (pair.children[0].text.strip(), pair.children[1].text.strip())
        for pair in step.below("replacements")
        if len(pair.children) > 1
    ]


def _without_prefix(found: Expression | None, pairs: list[tuple[str, str]]) -> Tree:
    """Return the rule of a place whose constant prefix is removed; None for anything else."""
    pattern, replacement = pairs[0]
    prefix = _PREFIX.fullmatch(pattern)
    if len(pairs) > 1 or prefix is None or replacement not in ("''", '""'):
        return None
    if not isinstance(found, Place) or found.extract:
        return None
    return replace(found, extract=f"^(?:{prefix[1]})?(.*)").rule


def _names_an_order(place: Place) -> bool:
    """True if a place is in the second or a later order: each order is mapped by itself."""
    return bool(place.occurrence) and place.segment in ("ORC", "OBR")


def _sources_of(rule: Tree) -> list[Tree]:
    """Return the alternatives of a rule."""
    if isinstance(rule, dict) and "from" in rule:
        rule = rule["from"]
    return rule if isinstance(rule, list) else [rule]


def _without(rule: Tree, value: Tree) -> Tree:
    """Return a rule without a source that is this path."""
    if isinstance(rule, list):
        return [source for source in rule if source != value] or rule
    if isinstance(rule, dict) and isinstance(rule.get("from"), list):
        return {**rule, "from": _without(rule["from"], value)}
    return rule


def _moved(rule: Tree, target: str, value: Tree) -> Tree:
    """Return a rule in which the value replaces the path `target` and the places below it."""
    if isinstance(rule, str):
        return _moved_path(rule, target, value)
    if isinstance(rule, list):
        return [_moved(entry, target, value) for entry in rule]
    if isinstance(rule, dict):
        whole = str(rule.get("as", "")).endswith("-name") and _reads_whole(rule, target)
        kept = _KEPT if isinstance(value, str) else _KEPT | _PATHS_ONLY
        kept = kept | rule.keys() if whole else kept
        return {
            key: below if key in kept else _moved(below, target, value)
            for key, below in rule.items()
        }
    return rule


def _moved_path(path: str, target: str, value: Tree) -> Tree:
    if target in (path, f"{path}.1"):
        return value
    if path.startswith(f"{target}.") and isinstance(value, str):
        return value + path.removeprefix(target)
    return path


def _reads_whole(rule: Mapping[str, Tree], target: str) -> bool:
    """True if a rule reads the complete name of which `target` is one component."""
    return any(target == f"{source}.1" for source in _sources_of(rule.get("from")))


def _script_hint(step: Element, script: str) -> str:
    """Return the rules that assignments of a script resemble, with their lines."""
    first = step.line_of("script")
    hints = []
    for found in _ASSIGNED.finditer(script[:200_000]):
        value = parse(_balanced(found["value"]))
        if isinstance(value, Place) and value.field:
            line = first + script.count("\n", 0, found.start())
            hints.append(f"line {line}: {found['name'] or found['key']} is {as_yaml(value.rule)}")
    more = len(hints) - _MAX_HINTS
    return "; ".join([*hints[:_MAX_HINTS], *([f"and {more} more"] if more > 0 else [])])


def _balanced(text: str) -> str:
    """Return a text without the closing brackets that have no opening one."""
    text = text.rstrip()
    while text.count(")") > text.count("("):
        text = text[: text.rindex(")")].rstrip()
    return text
