"""
Order mapping: ORM^O01, OMG^O19 and OMI^O23 become one event for each ORC/OBR group.

    NW: create          XO: change          XO/CM: change examined

The order control table is looked up with the pair ORC-1/ORC-5, then with ORC-5 in capitals, then
with ORC-1 alone. Order statuses need not be in table 0038, because senders invent their own.

An event also has link signals (`links:`), the values by which orders of a patient are linked to
one report, and Metadata, the open-ended part of clinicalInfo: `values` has a rule for each key,
`each` creates a key for each segment of a name, and `keep` stores whole segments (`Z*`) as sent.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from typing import Any, NamedTuple

from mappings.hl7.message import NULL, Message, without_null
from mappings.hl7.refusals import MessageRefusal, MissingField, TableValueNotFound
from mappings.inbound.events import CHILD_OF, LinkSignal, OrderAction, OrderEvent
from mappings.language.accessors import SEGMENTS
from mappings.language.conditions import Condition, compile_condition
from mappings.language.diagnostics import Diagnostics, RuleFailed, YamlNode
from mappings.language.rules import (
    TAGS,
    CompilationContext,
    Rule,
    TagRule,
    compile_rule,
    compile_tags,
    fill,
    never_has_value,
    separator_of,
)
from mappings.language.scope import ListenerDefaults, MessageScope, is_imaging, split_orders


class Identifier(NamedTuple):
    """A repetition of type CX: number, namespace and universal id of the authority, type."""

    number: str
    namespace: str
    universal: str
    kind: str

    @property
    def assigned(self) -> bool:
        return bool(self.namespace or self.universal)

    def differs_in_authority(self, other: "Identifier") -> bool:
        """
        True if both have an authority and the authorities differ. Universal ids take
        precedence.
        """
        if self.universal and other.universal:
            return self.universal != other.universal
        return bool(self.namespace and other.namespace) and self.namespace != other.namespace


def read_identifiers(scope: MessageScope, segment: str, field: int) -> Sequence[Identifier]:
    """
    Return the identifiers of a field, in order, with authority names in lower case. A field is
    parsed once for each scope: a small message may have thousands of repetitions.
    """
    found: Sequence[Identifier] | None = scope.parsed.get((segment, field))
    if found is None:
        found = scope.parsed[segment, field] = _parsed_identifiers(scope, segment, field)
    return found


def _parsed_identifiers(scope: MessageScope, segment: str, field: int) -> list[Identifier]:
    parts = (f"{field}.1", f"{field}.4.1", f"{field}.4.2", f"{field}.5")
    rows = map(scope.message.segment, scope.all_positions(segment))
    repetitions = [
        repetition for row in rows for repetition in zip(*map(row.values, parts), strict=True)
    ]
    return [
        Identifier(number, namespace.casefold(), universal, kind)
        for number, namespace, universal, kind in [
            map(without_null, repetition) for repetition in repetitions
        ]
    ]


MAX_OTHER_NUMBERS = 50
"""Numbers beside the patient's own one. A small message may have thousands of repetitions."""


def other_numbers(
    scope: MessageScope, mrn: str, *, of_any_authority: bool = False
) -> tuple[str, ...]:
    """
    Return the other numbers in PID-3 with the type and the authority of the patient's number.

    They identify the same person. A number with neither type nor authority is not used.
    `of_any_authority`: a sender in another hospital has numbers of its own, and repeats ours.
    """
    if not mrn or not _repeats(scope):
        return ()
    found = read_identifiers(scope, "PID", 3)
    own = [
        identifier
        for identifier in found
        if identifier.number == mrn and (identifier.kind or identifier.assigned)
    ]
    others = (
        identifier.number
        for identifier in found
        if identifier.number not in {"", mrn}
        and (identifier.kind or identifier.assigned)
        and any(
            identifier.kind == known.kind
            and (of_any_authority or not identifier.differs_in_authority(known))
            for known in own
        )
    )
    return tuple(dict.fromkeys(others))[:MAX_OTHER_NUMBERS]


def _repeats(scope: MessageScope) -> bool:
    """True if PID-3 has repetitions. Most messages have one identifier."""
    mark = scope.delimiters.repetition
    rows = map(scope.message.segment, scope.all_positions("PID"))
    return bool(mark) and any(mark in row.field_text(3) for row in rows)


ACCESSION = "accession"
MESSAGE_GROUP = "message-group"
VALUED = ("study-uid", "printset", "order-group", "parent")
CUSTOM = "custom:"
LINK_KEYS = ("on", "value", "when", "unless_differ")


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
        own = [self._own(order_group.scope) for order_group in groups]
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
        counts = Counter(group.accession for group in groups)
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
        keys = [(group.mrn, rule(group.scope) if rule else "") for group in groups]
        sizes = Counter(keys)
        anchors: dict[tuple[str, str], str] = {}
        for group, key in zip(groups, keys, strict=True):
            anchors.setdefault(key, group.accession)
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
        else context.diagnostics.read_mapping(node, LINK_KEYS)
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


@dataclass(frozen=True, slots=True)
class SegmentSelection:
    names: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        return name in self.names or name.startswith(self.beginnings)


def compile_selection(nodes: Sequence[YamlNode], diagnostics: Diagnostics) -> SegmentSelection:
    """Read a list of segment names; a star at the end makes a prefix."""
    names, beginnings = set(), []
    for node in nodes:
        text = diagnostics.read_text(node)
        if text.endswith("*"):
            beginnings.append(text[:-1])
        else:
            names.add(segment_name(node, diagnostics))
    return SegmentSelection(frozenset(names), tuple(beginnings))


def segment_name(node: YamlNode, diagnostics: Diagnostics) -> str:
    """Read the name of a segment: one of the standard, or a Z segment."""
    text = diagnostics.read_text(node)
    if text not in SEGMENTS and not text.startswith("Z"):
        diagnostics.unknown(node, "segment", text, SEGMENTS)
    return text


MAX_METADATA_BYTES = 60_000
"""Bytes of JSON that the report service accepts in Metadata, with a reserve."""
OMITTED = "MetadataOmitted"
_RESERVED = 2_000  # bytes for the list of omitted keys
_MAX_CHARACTER_BYTES = 8  # bytes of JSON for a character, with a share for its key

MAX_UNCHECKED_CHARACTERS = MAX_METADATA_BYTES // _MAX_CHARACTER_BYTES
"""Metadata with fewer characters fits in any case, and needs no exact computation."""

MESSAGE_METADATA_KEYS = ("values", "each", "keep")
LOOP_KEYS = ("segment", "key", "value", "when")


@dataclass(frozen=True, slots=True)
class SegmentKeyRule:
    segment: str
    key: Rule
    value: Rule
    condition: Condition | None

    def fill(self, scope: MessageScope, filled: dict[str, str]) -> None:
        """Add the keys of all segments. Equal keys are numbered. A null becomes an empty text."""
        numbers: dict[str, int] = {}
        for position in scope.all_positions(self.segment):
            one = scope.single(position)
            if self.condition is not None and not self.condition(one):
                continue
            key, value = self.key(one), self.value(one)
            if key in ("", NULL) or not value:
                continue
            name = key
            while name in filled:  # keys may repeat without limit
                numbers[key] = numbers.get(key, 0) + 1
                name = f"{key} ({numbers[key] + 1})"
            filled[name] = "" if value == NULL else value


@dataclass(frozen=True, slots=True)
class MetadataRules:
    """The `metadata:` part of an orders definition."""

    values: dict[str, Rule]
    each: tuple[SegmentKeyRule, ...]
    keep: SegmentSelection
    lists: Mapping[str, str] = field(default_factory=dict)
    """Keys whose values are `distinct`, with their separators."""

    def fill(self, scope: MessageScope) -> dict[str, str]:
        """Return the Metadata of a group. A null becomes an empty text."""
        filled: dict[str, str] = {}
        for key, rule in self.values.items():
            value = rule(scope)
            if value:
                filled[key] = "" if value == NULL else value
        for segment_rule in self.each:
            segment_rule.fill(scope, filled)
        names, kept = scope.message.names, dict[str, list[str]]()
        for position in scope.select_positions(self.keep.has):
            kept.setdefault(names[position], []).append(scope.message.lines.text(position))
        for name, lines in kept.items():
            before = [filled[name]] if name in filled else []
            filled[name] = "\n".join([*before, *lines])
        return within_limit(filled)


def within_limit(filled: dict[str, str]) -> dict[str, str]:
    """Drop keys that exceed the limit of the report service, and list them in `MetadataOmitted`."""
    characters = len("".join(filled)) + len("".join(filled.values()))
    if characters < MAX_UNCHECKED_CHARACTERS:
        return filled
    kept, left_out, size = {}, [], _RESERVED
    for key, value in filled.items():
        entry_size = len(json.dumps({key: value}, ensure_ascii=False).encode())
        if size + entry_size > MAX_METADATA_BYTES:
            left_out.append(key)
        else:
            kept[key] = value
            size += entry_size
    if left_out:
        kept[OMITTED] = ", ".join(left_out)[: _RESERVED // _MAX_CHARACTER_BYTES]
    return kept


def compile_metadata(node: YamlNode | None, context: CompilationContext) -> MetadataRules:
    """Read `metadata:`."""
    if node is None:
        return MetadataRules({}, (), SegmentSelection())
    entries = context.diagnostics.read_mapping(node, MESSAGE_METADATA_KEYS)
    values = context.diagnostics.read_mapping(entries["values"]) if "values" in entries else {}
    each = context.diagnostics.read_items(entries["each"]) if "each" in entries else []
    keep = context.diagnostics.read_items(entries["keep"]) if "keep" in entries else []
    return MetadataRules(
        {key: compile_rule(below, context) for key, below in values.items()},
        tuple(found for item in each if (found := _each(item, context)) is not None),
        compile_selection(keep, context.diagnostics),
        {
            key: separator_of(below.value, context)
            for key, below in values.items()
            if isinstance(below.value, dict) and "distinct" in below.value
        },
    )


def _each(node: YamlNode, context: CompilationContext) -> SegmentKeyRule | None:
    entries = context.diagnostics.read_mapping(node, LOOP_KEYS)
    missing = [key for key in LOOP_KEYS[:3] if key not in entries]
    if missing:
        context.diagnostics.error(node, "metadata", f"each needs {', '.join(missing)}")
        return None
    condition = None
    if "when" in entries:
        condition = compile_condition(entries["when"], context.diagnostics)
    return SegmentKeyRule(
        segment_name(entries["segment"], context.diagnostics),
        compile_rule(entries["key"], context),
        compile_rule(entries["value"], context),
        condition,
    )


CONTROL_KEYS = ("unknown", "actions", "replies")
UNKNOWN = ("refuse", "ignore")
EXAMINED = "examined"
DEFAULT_REPLIES = ("OK", "UA")
"""ORC-1 of a reply to a code without its own replies: accepted, or unable to accept."""


@dataclass(frozen=True, slots=True)
class OrderDecision:
    """An action, and whether the examination has been performed."""

    action: OrderAction
    examined: bool = False


@dataclass(frozen=True, slots=True)
class OrderControlTable:
    """The `order_control:` part; `refuse_unknown`: refuse codes that the table does not have."""

    rows: Mapping[tuple[str, str, str], OrderDecision]
    """By order control, order status and result status; '' is any status without its own row."""
    refuse_unknown: bool = True
    replies: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def reply(self, control: str, *, accepted: bool) -> str:
        """Return ORC-1 of the reply to an order control code (ORR, ORI, ORG)."""
        return self.replies.get(control, DEFAULT_REPLIES)[0 if accepted else 1]

    def decide(self, control: str, status: str, result: str = "") -> OrderDecision | None:
        """Return the decision for a code and its statuses; None if the code is refused."""
        rows = self.rows
        found = rows.get((control, status.upper(), result.upper())) if result else None
        found = found or rows.get((control, status, "")) or rows.get((control, status.upper(), ""))
        found = found or rows.get((control, "", ""))
        if found is None and not self.refuse_unknown:
            return OrderDecision(OrderAction.IGNORE)
        return found


def compile_order_control(
    node: YamlNode | None, place: YamlNode, diagnostics: Diagnostics
) -> OrderControlTable:
    """Read `order_control:`, which is required."""
    if node is None:
        diagnostics.error(place, "order-control", "order_control is missing")
        return OrderControlTable({})
    entries = diagnostics.read_mapping(node, CONTROL_KEYS)
    refuse = True
    if "unknown" in entries:
        refuse = diagnostics.read_choice(entries["unknown"], "policy", UNKNOWN) != "ignore"
    rows: dict[tuple[str, str, str], OrderDecision] = {}
    actions = diagnostics.read_mapping(entries["actions"]) if "actions" in entries else {}
    for key, below in actions.items():
        control, _, statuses = key.partition("/")
        status, _, result = statuses.partition("/")
        rows[control.strip(), status.strip(), result.strip()] = _decision(below, diagnostics)
    if not rows:
        diagnostics.error(node, "order-control", "order_control has no actions")
    return OrderControlTable(rows, refuse, _replies(entries.get("replies"), diagnostics))


def _replies(node: YamlNode | None, diagnostics: Diagnostics) -> dict[str, tuple[str, str]]:
    replies = {}
    for control, below in (diagnostics.read_mapping(node) if node is not None else {}).items():
        words = diagnostics.read_texts(below)
        if len(words) != len(DEFAULT_REPLIES):
            diagnostics.error(below, "shape", "two codes are expected here: done, unable to")
            continue
        replies[control] = (words[0], words[1])
    return replies


def _decision(node: YamlNode, diagnostics: Diagnostics) -> OrderDecision:
    word, _, remark = diagnostics.read_text(node).partition(" ")
    if word not in tuple(OrderAction):
        diagnostics.unknown(node, "action", word, tuple(OrderAction))
        return OrderDecision(OrderAction.IGNORE)
    if remark.strip() not in ("", EXAMINED):
        diagnostics.unknown(node, "remark", remark.strip(), (EXAMINED,))
    return OrderDecision(OrderAction(word), remark.strip() == EXAMINED)


PARENTS = ("parent_placer", "parent_filler")
ORDER_KEYS = ("placer", "filler", "control", "status", "result_status", *PARENTS)
APP_TAGS = (
    "AppLanguage",
    "SpeechLanguage",
    "ReturnFormat",
    "ApplyTemplate",
    "SyncLaunch",
    "AutoComparePrior",
)
SWITCHES = frozenset({"SyncLaunch", "AutoComparePrior"})
KEYS = (
    *("tags", "metadata", "reporting_app", "order", "order_control", "links", "echo", "only"),
    "patient_names",
)
EXCLUDED_BY_ONLY = "left out by `only`"
NO_IMAGING_ORDER = "no imaging order"
NOTES_OF_IGNORED_ORDERS = frozenset({EXCLUDED_BY_ONLY, NO_IMAGING_ORDER})
"""Notes of events for order groups that are ignored."""

IDENTITY_TAGS = ("PatientMRN", "Accession")
"""The tags that identify a report, in addition to SiteID, which the listener can supply."""


@unique
class PatientNames(StrEnum):
    """What happens to an order whose patient is known by another name (HL7 conformance page)."""

    COMPATIBLE = "compatible"  # a spelling of the known name matches; others are parked
    EXACT = "exact"  # orders with another name are parked
    UPDATE = "update"  # the name of the order replaces the known name


class AbsentTags(NamedTuple):
    """The tags that orders of a message lack: bit k is set for `TAGS[k]`; and how many orders."""

    bits: int = 0
    orders: int = 0


@dataclass(frozen=True, slots=True)
class OrderRules:
    """A compiled orders definition."""

    tags: dict[str, TagRule]
    metadata: MetadataRules
    reporting_app: dict[str, TagRule]
    order: dict[str, Rule]
    control: OrderControlTable
    links: LinkRules
    echo: SegmentSelection
    only: Condition | None
    refusing: tuple[TagRule, ...]
    """The rules of tags that may refuse a message."""
    needs_mapping: bool
    """Whether other rules may refuse a message, so that the pre-check maps the message."""
    patient_names: PatientNames = PatientNames.COMPATIBLE

    def scopes(self, message: Message, defaults: ListenerDefaults) -> list[MessageScope]:
        """Split a message into its order groups."""
        return split_orders(message, defaults)

    def refusals(self, scopes: Sequence[MessageScope]) -> list[MessageRefusal]:
        """
        Return why a message is refused.

        Rules other than those of tags raise their MessageRefusal.
        """
        if not scopes:
            return [MissingField("ORC")]
        found: list[MessageRefusal] = []
        for scope in scopes:
            if self._wanted(scope) and (some := self._refusals(scope)):
                found += some
        if self.needs_mapping and not found:
            self.events(scopes)
        return found

    def patients(self, scopes: Sequence[MessageScope]) -> list[tuple[str, str]]:
        """Return site and MRN of each patient of a message, without duplicates."""
        pairs = [(self.site(scope), self.tags["PatientMRN"].value(scope)) for scope in scopes]
        return [pair for pair in dict.fromkeys(pairs) if pair[1]]

    def order_numbers(self, scopes: Sequence[MessageScope]) -> list[str]:
        """Return accession, placer and filler number of each group, without namespaces."""
        found = [self.tags["Accession"].value(scope) for scope in scopes]
        for name in ("placer", "filler"):
            found += [self._code(name, scope).partition("^")[0].strip() for scope in scopes]
        return found

    def events(self, scopes: Sequence[MessageScope]) -> list[OrderEvent]:
        """Map all groups. Raises a MessageRefusal if the message was not pre-checked."""
        if not scopes:
            raise MissingField("ORC")
        wanted = [scope for scope in scopes if self._wanted(scope)]
        groups = [self._group(scope) for scope in wanted]
        signals = dict(zip(map(id, wanted), self.links.signals(groups), strict=True))
        return [
            self._event(scope, signals[id(scope)]) if id(scope) in signals else self._ignored(scope)
            for scope in scopes
        ]

    def absent_tags(self, scopes: Sequence[MessageScope]) -> "AbsentTags":
        """
        Return which tags the orders of a message lack. Only the rules of tags are evaluated.

        A tag whose rule calls a hook counts as present, and one that cannot be read as absent.
        """
        bits, orders = 0, 0
        for scope in scopes:
            if self._wanted(scope):
                orders += 1
                for number, tag in enumerate(TAGS):
                    if not bits >> number & 1 and self._lacks(tag, scope):
                        bits |= 1 << number
        return AbsentTags(bits, orders)

    def _lacks(self, tag: str, scope: MessageScope) -> bool:
        rule = self.tags.get(tag)
        if tag == "SiteID" and scope.defaults.site:
            return False
        if rule is None or rule.calls_hook:
            return rule is None
        try:
            return rule.value(scope) in ("", NULL)
        except (MessageRefusal, RuleFailed):
            return True

    def site(self, scope: MessageScope) -> str:
        """Return the SiteID of a group: the value of the mapping, else that of the listener."""
        rule = self.tags.get("SiteID")
        return (rule.value(scope) if rule else "") or scope.defaults.site

    def _wanted(self, scope: MessageScope) -> bool:
        return is_imaging(scope) and (self.only is None or self.only(scope))

    def _group(self, scope: MessageScope) -> OrderGroup:
        mrn, accession = (self.tags[tag].value(scope) for tag in IDENTITY_TAGS)
        return OrderGroup(scope, mrn, accession)

    def _decision(self, scope: MessageScope) -> OrderDecision | None:
        codes = (self._code(name, scope) for name in ("control", "status", "result_status"))
        return self.control.decide(*codes)

    def _code(self, name: str, scope: MessageScope) -> str:
        """Return a value of `order:`, computed once. A null is empty; control is in capitals."""
        value = scope.known_values.get(name)
        if value is None:
            rule = self.order.get(name)
            value = rule(scope) if rule else ""
            value = "" if value == NULL else value.upper() if name == "control" else value
            scope.known_values[name] = value
        return value

    def _refusals(self, scope: MessageScope) -> list[MessageRefusal]:
        found: list[MessageRefusal] = []
        if self._decision(scope) is None:
            place = scope.locate("ORC-1")
            missing = not self._code("control", scope)
            found.append(MissingField(place) if missing else TableValueNotFound(place))
        found += [refusal for rule in self.refusing if (refusal := rule.refusal(scope)) is not None]
        return found or missing_site(self.tags["SiteID"], scope)

    def _event(self, scope: MessageScope, signals: Any) -> OrderEvent:
        decision = self._decision(scope)
        if decision is None:
            raise self._refusals(scope)[0]
        info: dict[str, Any] = fill(self.tags, scope)
        info.setdefault("SiteID", scope.defaults.site)
        if not info["SiteID"]:
            raise self._refusals(scope)[0]
        metadata = self.metadata.fill(scope)
        if metadata:
            info["Metadata"] = metadata
        return OrderEvent(
            action=decision.action,
            site=info["SiteID"],
            location=info.get("SiteLocation", ""),
            mrn=info.get("PatientMRN", ""),
            accession=info.get("Accession", ""),
            clinical_info=info,
            reporting_app=self._app(scope),
            place=scope.place,
            link_signals=(*signals, *self._parents(scope)),
            placer=self._code("placer", scope),
            filler=self._code("filler", scope),
            echo=self._echo(scope),
            order_control=self._code("control", scope),
            order_status=self._code("status", scope),
            result_status=self._code("result_status", scope),
            examined=decision.examined,
            other_mrns=other_numbers(scope, info.get("PatientMRN", "")),
            lists=self.metadata.lists,
        )

    def _parents(self, scope: MessageScope) -> list[LinkSignal]:
        numbers = dict.fromkeys(self._code(name, scope) for name in PARENTS if name in self.order)
        return [LinkSignal(CHILD_OF, number) for number in numbers if number]

    def _ignored(self, scope: MessageScope) -> OrderEvent:
        """Return the event of a group that is not an imaging order, or that `only` excludes."""
        note = EXCLUDED_BY_ONLY if is_imaging(scope) else NO_IMAGING_ORDER
        mrn = self.tags["PatientMRN"].value(scope)
        return OrderEvent(
            OrderAction.IGNORE, self.site(scope), "", mrn, "", {}, {}, scope.place, note=note
        )

    def _app(self, scope: MessageScope) -> dict[str, Any]:
        filled: dict[str, Any] = fill(self.reporting_app, scope)
        for tag in SWITCHES & filled.keys():
            filled[tag] = filled[tag].lower() == "true"
        return filled

    def _echo(self, scope: MessageScope) -> tuple[str, ...]:
        return tuple(scope.select_lines(self.echo.has))


def compile_orders(
    root: YamlNode, entries: dict[str, YamlNode], context: CompilationContext
) -> OrderRules:
    """Compile the parts of a definition of kind `orders`."""
    diagnostics = context.diagnostics
    tags = compile_tags(entries.get("tags"), context, TAGS)
    app = compile_tags(entries.get("reporting_app"), context, APP_TAGS)
    context.refusing = any(rule.refusing for rule in app.values())
    check_identity_rules(tags, ("SiteID", *IDENTITY_TAGS), entries.get("tags", root), context)
    order = diagnostics.read_mapping(entries["order"], ORDER_KEYS) if "order" in entries else {}
    echo = diagnostics.read_items(entries["echo"]) if "echo" in entries else []
    if "control" not in order:
        diagnostics.error(
            entries.get("order", root), "order", "order needs `control`, usually ORC-1"
        )
    plan = OrderRules(
        tags=tags,
        metadata=compile_metadata(entries.get("metadata"), context),
        reporting_app=app,
        order={key: compile_rule(below, context) for key, below in order.items()},
        control=compile_order_control(entries.get("order_control"), root, diagnostics),
        links=compile_links(entries.get("links"), context),
        echo=compile_selection(echo, context.diagnostics),
        only=compile_condition(entries["only"], diagnostics) if "only" in entries else None,
        refusing=tuple(rule for rule in tags.values() if rule.refusing),
        needs_mapping=False,
        patient_names=_patient_names(entries.get("patient_names"), diagnostics),
    )
    return replace(plan, needs_mapping=context.refusing)


def _patient_names(node: YamlNode | None, diagnostics: Diagnostics) -> PatientNames:
    found = (
        None if node is None else diagnostics.read_choice(node, "patient_names", list(PatientNames))
    )
    return PatientNames(found) if found else PatientNames.COMPATIBLE


def missing_site(rule: TagRule, scope: MessageScope) -> list[MessageRefusal]:
    """Return a refusal if neither the message nor the listener has a site."""
    known = rule.value(scope) or scope.defaults.site
    return [] if known else [MissingField(rule.place(scope))]


def check_identity_rules(
    tags: dict[str, TagRule], names: Sequence[str], node: YamlNode, context: CompilationContext
) -> None:
    """Report tags of a report's identity that the definition cannot fill."""
    for name in names:
        if name not in tags:
            context.diagnostics.error(
                node, "identity", f"no rule for {name}: nothing could be reported"
            )
            continue
        if never_has_value(node[name]):
            message = f"{name} can have no value: nothing could be reported"
            context.diagnostics.error(node[name], "identity", message)
        elif name != "SiteID" and not tags[name].required:
            context.diagnostics.error(node[name], "identity", f"{name} must be `required: true`")
