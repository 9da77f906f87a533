"""Link signals: which orders of one message, or of several, are read together.

The kinds and what they stand on are data (`links:`), one line each, on or off. A signal is
a value; that orders of different patients never join is the bridge's rule, not this file's.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
class Member:
    """What the signals between the groups of one message need to know of one group."""

    scope: MessageScope
    mrn: str
    accession: str


class Standing(NamedTuple):
    """What counts of a group between the groups of one message; `differ` is `unless_differ`."""

    mrn: str
    accession: str
    differ: str


@dataclass(frozen=True, slots=True)
class ValuedLink:
    """A signal that one group shows by itself."""

    kind: str
    value: Rule
    condition: Condition | None

    def signal(self, scope: MessageScope) -> LinkSignal | None:
        """Return the signal of a group, if it shows one."""
        if self.condition is not None and not self.condition(scope):
            return None
        value = self.value(scope)
        return LinkSignal(self.kind, value) if value not in ("", NULL) else None


@dataclass(frozen=True, slots=True)
class Links:
    """The switched-on signals of a definition."""

    valued: tuple[ValuedLink, ...] = ()
    accession: bool = False
    message_group: bool = False
    unless_differ: Rule | None = None

    def signals(self, members: Sequence[Member]) -> list[tuple[LinkSignal, ...]]:
        """Return the signals of every group of one message, in order."""
        if not members[1:]:
            return [self._own(each.scope) for each in members]
        between = self.between([self._standing(each) for each in members])
        return [
            (*self._own(member.scope), *others)
            for member, others in zip(members, between, strict=True)
        ]

    def _own(self, scope: MessageScope) -> tuple[LinkSignal, ...]:
        """Return the signals that a group shows by itself."""
        return tuple([shown for link in self.valued if (shown := link.signal(scope)) is not None])

    def _standing(self, member: Member) -> Standing:
        asked = self.unless_differ if self.message_group else None
        differ = "" if asked is None else asked(member.scope)
        return Standing(member.mrn, member.accession, differ)

    def between(self, standings: Sequence[Standing]) -> list[list[LinkSignal]]:
        """Return the signals that groups show by being in one message, in order."""
        shared, groups = self._accessions(standings), self._groups(standings)
        return [
            [LinkSignal(ACCESSION, each.accession)] * (each.accession in shared)
            + [LinkSignal(MESSAGE_GROUP, group)] * bool(group)
            for each, group in zip(standings, groups, strict=True)
        ]

    def _accessions(self, standings: Sequence[Standing]) -> set[str]:
        """Return the accessions that stand in several groups."""
        if not self.accession:
            return set()
        counts = Counter(each.accession for each in standings)
        return {accession for accession, count in counts.items() if accession and count > 1}

    def _groups(self, standings: Sequence[Standing]) -> list[str]:
        """Name the group of each; "" where it is alone.

        The name is the first one's accession and no message id: a change that repeats the
        groups shows the same signal again, a restarted counter of the sender joins nothing.
        """
        if not self.message_group:
            return [""] * len(standings)
        keys = [(each.mrn, each.differ) for each in standings]
        sizes = Counter(keys)
        anchors: dict[tuple[str, str], str] = {}
        for each, key in zip(standings, keys, strict=True):
            anchors.setdefault(key, each.accession)
        return [anchors[key] if sizes[key] > 1 else "" for key in keys]


def compile_links(node: YamlNode | None, context: CompilationContext) -> Links:
    """Read `links:`; what is not named is off."""
    if node is None:
        return Links()
    valued: list[ValuedLink] = []
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
    return Links(
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
) -> ValuedLink | None:
    if "value" not in entries:
        if context.diagnostics.read_flag(entries.get("on"), default=True):
            context.diagnostics.error(node, "link", f"{kind} needs `value`: where its value stands")
        return None
    condition = None
    if "when" in entries:
        condition = compile_condition(entries["when"], context.diagnostics)
    return ValuedLink(kind, compile_rule(entries["value"], context), condition)
