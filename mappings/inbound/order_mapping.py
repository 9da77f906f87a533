"""
Order mapping: ORM^O01, OMG^O19 and OMI^O23 become one event for each ORC/OBR group.

    NW: create          XO: change          XO/CM: change examined

The order control table is looked up with the pair ORC-1/ORC-5, then with ORC-5 in capitals, then
with ORC-1 alone. Order statuses need not be in table 0038, because senders invent their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from typing import Any

from mappings.hl7.elements import NULL
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal, MissingField, TableValueNotFound
from mappings.inbound.events import CHILD_OF, LinkSignal, OrderAction, OrderEvent
from mappings.inbound.identifiers import other_numbers
from mappings.inbound.link_signals import LinkRules, OrderGroup, compile_links
from mappings.inbound.metadata import (
    MetadataRules,
    SegmentSelection,
    compile_metadata,
    compile_selection,
)
from mappings.language.conditions import Condition, compile_condition
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.language.rules import Rule, compile_rule, never_has_value
from mappings.language.scope import ListenerDefaults, MessageScope, is_imaging, split_orders
from mappings.language.tags import TAGS, TagRule, compile_tags, fill

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

    rows: Mapping[tuple[str, str], OrderDecision]
    refuse_unknown: bool = True
    replies: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def reply(self, control: str, *, accepted: bool) -> str:
        """Return ORC-1 of the reply to an order control code (ORR, ORI, ORG)."""
        return self.replies.get(control, DEFAULT_REPLIES)[0 if accepted else 1]

    def decide(self, control: str, status: str) -> OrderDecision | None:
        """Return the decision for a code and a status; None if the code is refused."""
        rows = self.rows
        found = rows.get((control, status)) or rows.get((control, status.upper()))
        found = found or rows.get((control, ""))
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
    rows: dict[tuple[str, str], OrderDecision] = {}
    actions = diagnostics.read_mapping(entries["actions"]) if "actions" in entries else {}
    for key, below in actions.items():
        control, _, status = key.partition("/")
        rows[control.strip(), status.strip()] = _decision(below, diagnostics)
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
ORDER_KEYS = ("placer", "filler", "control", "status", *PARENTS)
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
        control, status = self._code("control", scope), self._code("status", scope)
        return self.control.decide(control, status)

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
        found += [each for rule in self.refusing if (each := rule.refusal(scope)) is not None]
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
