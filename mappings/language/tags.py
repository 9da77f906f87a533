"""The clinicalInfo tags of a definition: which exist, and how they are filled.

Tags are the interface document's ("clinicalInfo tags"); Metadata is open-ended and has its
own module.
"""

from dataclasses import dataclass

from mappings.hl7.elements import NULL
from mappings.hl7.refusals import IdentifierTooLong, MessageRefusal, MissingField
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import YamlNode
from mappings.language.rules import Rule, compile_rule, without_filters
from mappings.language.scope import MessageScope
from mappings.language.unreachable_rules import from_listener_alone

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
LONGEST, LONGEST_TEXT = 1_024, 100_000
"""What report services take. Longer texts are cut: better than an order that cannot be placed."""

IDENTIFIERS = frozenset({"SiteID", "PatientMRN", "Accession", "StudyInstanceUID"})
NEVER_DELETED = IDENTIFIERS | {"PatientName"}
"""A null does not delete who or what an order is about: here it counts as absent."""


@dataclass(frozen=True, slots=True)
class TagRule:
    """One tag: its rule, whether it must have a value, and where it is looked for first."""

    tag: str
    rule: Rule
    required: bool
    refusing: bool
    places: tuple[str, ...]
    """Where the tag is looked for, in order."""
    of_listener: bool = False
    """Whether no message can say it: the listener's settings must."""
    kept: bool = True
    """Whether `fill` asks by `value`: the value is needed again, or a null means nothing."""

    def value(self, scope: MessageScope) -> str:
        """Return what the rule yields, asked once; a null that deletes nothing is nothing."""
        value = scope.values.get(self.tag)
        if value is None:
            value = self.rule(scope)
            if value == NULL and self.tag in NEVER_DELETED:
                value = ""
            scope.values[self.tag] = value
        return value

    def refusal(self, scope: MessageScope) -> MessageRefusal | None:
        """Say why this tag makes the message unacceptable, if it does."""
        try:
            value = self.value(scope)
        except MessageRefusal as refusal:
            return refusal
        if self.required and value in ("", NULL):
            return MissingField(self.place(scope))
        if self.tag in IDENTIFIERS and len(value) > LONGEST:
            return IdentifierTooLong(self.place(scope))
        return None

    def place(self, scope: MessageScope) -> str:
        """Tell where a value is missed: the first source whose segment was sent at all."""
        sent = (place for place in self.places if scope.rows(place.partition("-")[0]))
        return scope.locate(next(sent, self.places[0]))


def compile_tags(
    node: YamlNode | None, shop: CompilationContext, known: tuple[str, ...]
) -> dict[str, TagRule]:
    """Compile a mapping of tags to rules."""
    entries = shop.notebook.mapping(node, known) if node is not None else {}
    return {tag: compile_tag(tag, below, shop) for tag, below in entries.items()}


def compile_tag(tag: str, node: YamlNode, shop: CompilationContext) -> TagRule:
    """Compile one tag."""
    before = len(shop.paths)
    shop.refusing = False
    rule = compile_rule(node, shop)
    required_node = node.get("required")
    required = shop.notebook.flag(required_node, default=False)
    places = tuple(without_filters(path) for path in shop.paths[before:]) or ("MSH-4",)
    refusing = required or shop.refusing
    kept = refusing or tag in NEVER_DELETED
    return TagRule(tag, rule, required, refusing, places, from_listener_alone(node), kept)


def fill(rules: dict[str, TagRule], scope: MessageScope) -> dict[str, str]:
    """Fill every tag that has a value; a null becomes an empty text. Raises MissingField."""
    filled: dict[str, str] = {}
    known = scope.values
    for tag, rule in rules.items():
        value = known.get(tag)
        if value is None:
            value = rule.value(scope) if rule.kept else rule.rule(scope)
        if value and value != NULL:
            filled[tag] = value if len(value) <= LONGEST else shortened(tag, value)
        elif rule.required:
            raise MissingField(rule.place(scope))
        elif value:
            filled[tag] = ""
    return filled


def shortened(tag: str, value: str) -> str:
    """Cut a text to what a report service takes, and show that it was cut."""
    longest = LONGEST_TEXT if tag in LONG_TEXTS else LONGEST
    return value if len(value) <= longest else value[: longest - 1] + "…"
