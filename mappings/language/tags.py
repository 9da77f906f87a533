"""
The clinicalInfo tags: which tags exist, and the rules that fill them.

`mappings.inbound.metadata` fills the open-ended Metadata.
"""

from dataclasses import dataclass

from mappings.hl7.elements import NULL
from mappings.hl7.refusals import IdentifierTooLong, MessageRefusal, MissingField
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import YamlNode
from mappings.language.rules import Rule, compile_rule, is_from_listener_only, without_filters
from mappings.language.scope import MessageScope

TAGS = (
    "SiteID",
    "SiteLocation",
    "PatientMRN",
    "Accession",
    "PatientName",
    "PatientBirthDate",
    "PatientAge",
    "PatientSex",
    "Race",
    "Ethnicity",
    "Modality",
    "BodyPartExamined",
    "StudyDescription",
    "ProcedureCode",
    "StudyDate",
    "StudyTime",
    "StudyInstanceUID",
    "ReasonForExam",
    "KeyFindings",
    "ReferringPhysician",
    "ReportingPhysician",
    "Notes",
)
LONG_TEXTS = frozenset({"ReasonForExam", "KeyFindings", "Notes"})
MAX_VALUE_CHARACTERS, MAX_TEXT_CHARACTERS = 1_024, 100_000
"""Limits of the report service. Longer texts are cut, so that the order is accepted."""

IDENTIFIERS = frozenset({"SiteID", "PatientMRN", "Accession", "StudyInstanceUID"})
NEVER_DELETED = IDENTIFIERS | {"PatientName"}
"""Tags that identify an order. A null does not delete them; it counts as absent."""


@dataclass(frozen=True, slots=True)
class TagRule:
    tag: str
    rule: Rule
    required: bool
    refusing: bool
    """Whether the rule may refuse a message."""
    places: tuple[str, ...]
    """The paths of the rule, in order."""
    of_listener: bool = False
    """Whether only the listener's settings can supply the value."""
    cached: bool = True
    """Whether `fill` calls `value` instead of `rule`: to use its cache, or to ignore a null."""

    def value(self, scope: MessageScope) -> str:
        """Return the value, computed once; "" for a null of a tag that is never deleted."""
        value = scope.known_values.get(self.tag)
        if value is None:
            value = self.rule(scope)
            if value == NULL and self.tag in NEVER_DELETED:
                value = ""
            scope.known_values[self.tag] = value
        return value

    def refusal(self, scope: MessageScope) -> MessageRefusal | None:
        """Return why this tag makes the message unacceptable, None if it does not."""
        try:
            value = self.value(scope)
        except MessageRefusal as refusal:
            return refusal
        if self.required and value in ("", NULL):
            return MissingField(self.place(scope))
        if self.tag in IDENTIFIERS and len(value) > MAX_VALUE_CHARACTERS:
            return IdentifierTooLong(self.place(scope))
        return None

    def place(self, scope: MessageScope) -> str:
        """Return the location of a missing value: the first path whose segment was sent."""
        sent = (place for place in self.places if scope.visible_positions(place.partition("-")[0]))
        return scope.locate(next(sent, self.places[0]))


def compile_tags(
    node: YamlNode | None, context: CompilationContext, known: tuple[str, ...]
) -> dict[str, TagRule]:
    entries = context.diagnostics.read_mapping(node, known) if node is not None else {}
    return {tag: compile_tag(tag, below, context) for tag, below in entries.items()}


def compile_tag(tag: str, node: YamlNode, context: CompilationContext) -> TagRule:
    before = len(context.paths)
    context.refusing = False
    rule = compile_rule(node, context)
    required_node = node.get("required")
    required = context.diagnostics.read_flag(required_node, default=False)
    places = tuple(without_filters(path) for path in context.paths[before:]) or ("MSH-4",)
    refusing = required or context.refusing
    cached = refusing or tag in NEVER_DELETED
    return TagRule(tag, rule, required, refusing, places, is_from_listener_only(node), cached)


def fill(rules: dict[str, TagRule], scope: MessageScope) -> dict[str, str]:
    """
    Return the tags with a value; a null becomes an empty text.

    Raises MissingField for a required tag, and the refusals and failures of rules.
    """
    filled: dict[str, str] = {}
    known = scope.known_values
    for tag, rule in rules.items():
        value = known.get(tag)
        if value is None:
            value = rule.value(scope) if rule.cached else rule.rule(scope)
        if value and value != NULL:
            filled[tag] = value if len(value) <= MAX_VALUE_CHARACTERS else shortened(tag, value)
        elif rule.required:
            raise MissingField(rule.place(scope))
        elif value:
            filled[tag] = ""
    return filled


def shortened(tag: str, value: str) -> str:
    """Cut a text to the limit of the report service, with an ellipsis."""
    longest = MAX_TEXT_CHARACTERS if tag in LONG_TEXTS else MAX_VALUE_CHARACTERS
    return value if len(value) <= longest else value[: longest - 1] + "…"
