"""
Link signals: the values by which orders of a patient are linked to one report.

Definitions configure the signals (`links:`). The bridge links orders, and only those of one
patient.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mappings.hl7.elements import NULL
from mappings.inbound.events import LinkSignal
from mappings.language.conditions import Condition, compile_condition
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import YamlNode
from mappings.language.rules import Rule, compile_rule
from mappings.language.scope import MessageScope

ACCESSION = "accession"
MESSAGE_GROUP = "message-group"
VALUED = ("study-uid", "printset", "order-group", "parent")
CUSTOM = "custom:"
KEYS = ("on", "value", "when", "unless_differ")


@dataclass(frozen=True, slots=True)
class OrderGroup:
    """An ORC/OBR group of a message, with the patient and accession that signals compare."""

    scope: MessageScope
    mrn: str
    accession: str


@dataclass(frozen=True, slots=True)
class LinkRule:
    """A signal that depends on one group alone."""

    kind: str
    value: Rule
    condition: Condition | None

    def signal(self, scope: MessageScope) -> LinkSignal | None:
        """Return the signal of a group, None if it has none."""
        if self.condition is not None and not self.condition(scope):
            return None
        value = self.value(scope)
        return LinkSignal(self.kind, value) if value not in ("", NULL) else None


@dataclass(frozen=True, slots=True)
class LinkRules:
    """The enabled signals of a definition."""

    valued: tuple[LinkRule, ...] = ()
    accession: bool = False
    message_group: bool = False
    unless_differ: Rule | None = None

    def signals(self, groups: Sequence[OrderGroup]) -> list[tuple[LinkSignal, ...]]:
        own = [self._own(each.scope) for each in groups]
        if len(groups) == 1:
            return own
        shared, names = self._shared_accessions(groups), self._group_names(groups)
        return [
            signals
            + (LinkSignal(ACCESSION, group.accession),) * (group.accession in shared)
            + (LinkSignal(MESSAGE_GROUP, name),) * bool(name)
            for signals, group, name in zip(own, groups, names, strict=True)
        ]

    def _own(self, scope: MessageScope) -> tuple[LinkSignal, ...]:
        return tuple([found for rule in self.valued if (found := rule.signal(scope)) is not None])

    def _shared_accessions(self, groups: Sequence[OrderGroup]) -> set[str]:
        if not self.accession:
            return set()
        counts = Counter(each.accession for each in groups)
        return {accession for accession, count in counts.items() if accession and count > 1}

    def _group_names(self, groups: Sequence[OrderGroup]) -> list[str]:
        """
        Return the name of each group's message group, "" if it has no other member.

        The name is the accession of the first member. It is not the message's control id, so that a
        change that repeats the groups has the same signal.
        """
        if not self.message_group:
            return [""] * len(groups)
        rule = self.unless_differ
        keys = [(each.mrn, rule(each.scope) if rule else "") for each in groups]
        sizes = Counter(keys)
        anchors: dict[tuple[str, str], str] = {}
        for each, key in zip(groups, keys, strict=True):
            anchors.setdefault(key, each.accession)
        return [anchors[key] if sizes[key] > 1 else "" for key in keys]


def compile_links(node: YamlNode | None, context: CompilationContext) -> LinkRules:
    """Read `links:`. Signals that are not listed are disabled."""
    if node is None:
        return LinkRules()
    valued: list[LinkRule] = []
    switched: dict[str, bool] = {}
    unless: Rule | None = None
    for kind, below in context.diagnostics.read_mapping(node).items():
        entries = _entries(below, context)
        on = context.diagnostics.read_flag(entries.get("on"), default=True)
        if kind in (ACCESSION, MESSAGE_GROUP):
            switched[kind] = on
            if kind == MESSAGE_GROUP and "unless_differ" in entries:
                unless = compile_rule(entries["unless_differ"], context)
        elif kind in VALUED or kind.startswith(CUSTOM):
            link = _valued(kind, below, entries, context)
            valued += [link] if on and link is not None else []
        else:
            known = (ACCESSION, MESSAGE_GROUP, *VALUED, CUSTOM + "name")
            context.diagnostics.unknown(below.at_key(), "link signal", kind, known)
    return LinkRules(
        tuple(valued), switched.get(ACCESSION, False), switched.get(MESSAGE_GROUP, False), unless
    )


def _entries(node: YamlNode, context: CompilationContext) -> dict[str, YamlNode]:
    """Read one signal; `study-uid: off` is short for `{on: off}`."""
    return (
        {"on": node}
        if isinstance(node.value, str)
        else context.diagnostics.read_mapping(node, KEYS)
    )


def _valued(
    kind: str, node: YamlNode, entries: dict[str, YamlNode], context: CompilationContext
) -> LinkRule | None:
    if "value" not in entries:
        if context.diagnostics.read_flag(entries.get("on"), default=True):
            context.diagnostics.error(node, "link", f"{kind} needs `value`: the path of its value")
        return None
    condition = None
    if "when" in entries:
        condition = compile_condition(entries["when"], context.diagnostics)
    return LinkRule(kind, compile_rule(entries["value"], context), condition)
