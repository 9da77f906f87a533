"""Inbound patient messages: ADT events become patient updates, merges and visit changes.

Visits are no concern of ours beyond what an order carries: its number, and where the patient is.

A number says nothing without its authority: two hospitals number alike (HL7 v2.5.1 §2A.14.4).

One scope per PID, since A39 and A40 may merge several pairs; one per MRG where visits move.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mappings.hl7.elements import NULL
from mappings.hl7.message import Message
from mappings.hl7.refusals import (
    DuplicateKeyIdentifier,
    IdentifierTooLong,
    MessageRefusal,
    MissingField,
    UnsupportedEvent,
)
from mappings.inbound.events import OrderAction, OrderEvent, PatientVisit
from mappings.inbound.order_mapping import needed, no_site
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import YamlNode
from mappings.language.rules import Rule, compile_rule, without_filters
from mappings.language.scope import ListenerDefaults, MessageScope, split_merges, split_patients
from mappings.language.tags import LONGEST, TAGS, TagRule, compile_tags, fill

VISIT_KEYS = ("key", "number", "prior", "values")


@dataclass(frozen=True, slots=True)
class VisitRules:
    """Where an event names its visit, what it was before, and what orders are told of it."""

    key: str
    number: Rule
    prior: Rule
    values: dict[str, Rule]

    def read(self, scope: MessageScope) -> PatientVisit | None:
        """Read the visit of an event; None where it names none."""
        number, prior = _known(self.number(scope)), _known(self.prior(scope))
        if not number and not prior:
            return None
        told = {key: rule(scope) for key, rule in self.values.items()}
        return PatientVisit(
            self.key, number, prior, {key: _known(value) for key, value in told.items() if value}
        )


def _known(value: str) -> str:
    return "" if value == NULL else value


def compile_visit(node: YamlNode | None, context: CompilationContext) -> VisitRules | None:
    """Read `visit:`; None where a definition has none."""
    if node is None:
        return None
    entries = context.diagnostics.read_mapping(node, VISIT_KEYS)
    missing = [key for key in VISIT_KEYS[:3] if key not in entries]
    if missing:
        context.diagnostics.error(node, "identity", f"visit needs {', '.join(missing)}")
        return None
    values = context.diagnostics.read_mapping(entries["values"]) if "values" in entries else {}
    return VisitRules(
        context.diagnostics.read_text(entries["key"]),
        compile_rule(entries["number"], context),
        compile_rule(entries["prior"], context),
        {key: compile_rule(below, context) for key, below in values.items()},
    )


class Identifier(NamedTuple):
    """A repetition of type CX: its number, its authority's name and universal id, its type."""

    number: str
    namespace: str
    universal: str
    kind: str

    @property
    def assigned(self) -> bool:
        """Whether it says by whom."""
        return bool(self.namespace or self.universal)

    def differs(self, other: "Identifier") -> bool:
        """Whether both say by whom, and not by the same; universal ids decide if both have one."""
        if self.universal and other.universal:
            return self.universal != other.universal
        return bool(self.namespace and other.namespace) and self.namespace != other.namespace


def identifiers(scope: MessageScope, segment: str, field: int) -> list[Identifier]:
    """Read all identifiers of a field, in order; names of authorities in one case."""
    parts = (f"{field}.1", f"{field}.4.1", f"{field}.4.2", f"{field}.5")
    return [
        Identifier(_said(number), _said(namespace).casefold(), _said(universal), _said(kind))
        for row in map(scope.message.segment, scope.all_positions(segment))
        for number, namespace, universal, kind in zip(*map(row.values, parts), strict=True)
    ]


def _said(text: str) -> str:
    return "" if text.strip() == NULL else text.strip()


def reassigned(scope: MessageScope, prior: str, now: str) -> str | None:
    """
    Give the prior number that was assigned by whoever assigned the one of now.

    That is `prior` unless its authority is another; then the first of its type in MRG-1 that the
    right one assigned; None where there is none.
    """
    before = [each for each in identifiers(scope, "MRG", 1) if each.number]
    mine = [each for each in before if each.number == prior]
    ours = [each for each in identifiers(scope, "PID", 3) if each.number == now]
    if not mine or not ours or any(not one.differs(own) for one in mine for own in ours):
        return prior
    kinds = {each.kind for each in mine}
    for each in before:
        if each.assigned and each.kind in kinds and any(not each.differs(own) for own in ours):
            return each.number
    return None


def _is_anothers(one: Identifier, ours: list[Identifier]) -> bool:
    """Whether one was assigned by somebody else than all of ours were."""
    return bool(ours) and all(one.differs(own) for own in ours)


def alike(scope: MessageScope, prior: str, now: str) -> list[str]:
    """
    Give the other prior numbers that MRG-1 names of the type and authority of one of them.

    Senders list all that a merge retires. Numbers of no type are of no kind: they may be anything.
    """
    before = [each for each in identifiers(scope, "MRG", 1) if each.number not in ("", NULL)]
    ours = [each for each in identifiers(scope, "PID", 3) if each.number == now]
    chosen = next(
        (each for each in before if each.number == prior and not _is_anothers(each, ours)), None
    )
    if chosen is None or not chosen.kind:
        return []
    found = [each.number for each in before if each[1:] == chosen[1:]]
    return [number for number in dict.fromkeys(found) if number not in (prior, now)]


KEYS = ("tags", "events", "prior_mrn", "prior_name", "visit")
REFUSE = "refuse"
OTHERWISE = "*"
ACTIONS = (
    OrderAction.PATIENT_UPDATE,
    OrderAction.PATIENT_MERGE,
    OrderAction.VISIT_MOVE,
    OrderAction.IGNORE,
)


RENUMBERING = frozenset({"A46", "A47"})
"""Events that change a number; those that merge two patients are other ones."""

_CHANGES_NOTHING = "this event changes no report"
_OTHER_KIND = "identifiers of another kind are merged"
_OTHER_AUTHORITY = "identifiers of another assigning authority are merged"
_NAMES_AUTHORITY = re.compile(r"\[(CX-)?4[.=]")  # CX-4 in a path


@dataclass(frozen=True, slots=True)
class PatientRules:
    """A compiled patients definition; an event that maps to None is refused."""

    tags: dict[str, TagRule]
    actions: Mapping[str, OrderAction | None]
    prior_mrn: Rule
    prior_place: str
    visit: VisitRules | None = None
    prior_name: Rule | None = None
    by_authority: bool = False
    """Whether `prior_mrn` itself says whose identifiers it takes."""

    def scopes(self, message: Message, defaults: ListenerDefaults) -> list[MessageScope]:
        """Cut a message as this kind of definition wants it."""
        groups = split_patients(message, defaults)
        if self._action(message) not in {OrderAction.PATIENT_MERGE, OrderAction.VISIT_MOVE}:
            return groups
        return [part for each in groups for part in split_merges(each)]

    def refusals(self, scopes: Sequence[MessageScope], message: Message) -> list[MessageRefusal]:
        """Say why a message cannot be taken."""
        action = self._action(message)
        if action is None:
            return [UnsupportedEvent()]
        if action in {OrderAction.IGNORE, OrderAction.VISIT_MOVE}:
            return []
        if not scopes:
            return [MissingField("PID")]
        return [refusal for scope in scopes for refusal in self._refusals(scope, action)]

    def patients(self, scopes: Sequence[MessageScope]) -> list[tuple[str, str]]:
        """Site and MRN of every patient of a message, survivors and merged, each once."""
        pairs = []
        for scope in scopes:
            site = self.site(scope)
            mrns = [self.tags["PatientMRN"].value(scope), *self._priors(scope)]
            pairs += [(site, mrn) for mrn in mrns]
        return [pair for pair in dict.fromkeys(pairs) if pair[1]]

    def events(self, scopes: Sequence[MessageScope], message: Message) -> list[OrderEvent]:
        """Map every patient; raises the first Refusal of a message that was not checked."""
        for refusal in self.refusals(scopes, message):
            raise refusal
        action = self._action(message) or OrderAction.IGNORE
        if not scopes:
            return [
                OrderEvent(OrderAction.IGNORE, "", "", "", "", {}, {}, "MSH", note="no patient")
            ]
        renumbers = self._trigger(message) in RENUMBERING
        return [event for scope in scopes for event in self._events(scope, action, renumbers)]

    def site(self, scope: MessageScope) -> str:
        """Return the SiteID: what the mapping yields, else the listener's."""
        rule = self.tags.get("SiteID")
        return (rule.value(scope) if rule else "") or scope.defaults.site

    def _action(self, message: Message) -> OrderAction | None:
        trigger = self._trigger(message)
        return self.actions[trigger] if trigger in self.actions else self.actions.get(OTHERWISE)

    def _trigger(self, message: Message) -> str:
        # Up to 2.1 the event stands in EVN alone.
        return message.header.trigger or message.value("EVN-1").strip()

    def _prior(self, scope: MessageScope) -> str:
        """Give the number of before, by the authority of the one of now; '' where there is none."""
        return self._assigned(scope, self._named(scope)) or ""

    def _priors(self, scope: MessageScope) -> list[str]:
        """Give the number of before, and whatever else of its kind MRG-1 names beside it."""
        prior = self._prior(scope)
        return [prior, *alike(scope, prior, self.tags["PatientMRN"].value(scope))]

    def _named(self, scope: MessageScope) -> str:
        value = self.prior_mrn(scope)
        return "" if value == NULL else value

    def _assigned(self, scope: MessageScope, prior: str) -> str | None:
        if self.by_authority or not prior:
            return prior
        return reassigned(scope, prior, self.tags["PatientMRN"].value(scope))

    def _prior_name(self, scope: MessageScope) -> str:
        value = "" if self.prior_name is None else self.prior_name(scope)
        return "" if value == NULL else value

    def _refusals(self, scope: MessageScope, action: OrderAction) -> list[MessageRefusal]:
        found = [each for rule in self.tags.values() if (each := rule.refusal(scope)) is not None]
        found = found or no_site(self.tags["SiteID"], scope)
        if action is OrderAction.PATIENT_MERGE and not self._not_ours(scope):
            prior, place = self._prior(scope), scope.locate(self.prior_place)
            if not prior:
                found.append(MissingField(place))
            elif any(len(each) > LONGEST for each in self._priors(scope)):
                found.append(IdentifierTooLong(place))
            elif prior == self.tags["PatientMRN"].value(scope):
                found.append(DuplicateKeyIdentifier(place))
        return found

    def _not_ours(self, scope: MessageScope) -> str:
        """Say why a merge is of none of the identifiers that we know patients by; '' if it is."""
        named = self._named(scope)
        if named:
            return _OTHER_AUTHORITY if self._assigned(scope, named) is None else ""
        merged = [each for each in identifiers(scope, "MRG", 1) if each.number]
        if not merged:  # nobody is named: refused as a missing field
            return ""
        before = {each.kind for each in merged if each.kind}
        now = {e.kind for e in identifiers(scope, "PID", 3) if e.kind and e.number}
        return "" if before.isdisjoint(now) else _OTHER_KIND

    def _events(
        self, scope: MessageScope, action: OrderAction, renumbers: bool
    ) -> list[OrderEvent]:
        """Map one patient: a merge of several numbers is as many merges."""
        event = self._event(scope, action)
        if event.action is not OrderAction.PATIENT_MERGE:
            return [event]
        priors = self._priors(scope)
        return [replace(event, prior_mrn=prior, renumbers=renumbers) for prior in priors]

    def _event(self, scope: MessageScope, action: OrderAction) -> OrderEvent:
        visit = None if self.visit is None else self.visit.read(scope)
        if action is OrderAction.VISIT_MOVE and not self._moves(scope, visit):
            action = OrderAction.IGNORE
        note = _CHANGES_NOTHING if action is OrderAction.IGNORE else ""
        if action is OrderAction.IGNORE and self._refusals(scope, action):
            # What is not looked at is not asked for either: the check let it pass.
            return OrderEvent(action, "", "", "", "", {}, {}, scope.place, note=note)
        if action is OrderAction.PATIENT_MERGE and (why := self._not_ours(scope)):
            action, note = OrderAction.IGNORE, why
        info = {**fill(self.tags, scope), "SiteID": self.site(scope)}
        moves = action in {OrderAction.PATIENT_MERGE, OrderAction.VISIT_MOVE}
        return OrderEvent(
            action=action,
            site=info["SiteID"],
            location="",
            mrn=info.get("PatientMRN", ""),
            accession="",
            clinical_info=info,
            reporting_app={},
            place=scope.place,
            prior_mrn=self._prior(scope) if moves else "",
            prior_name=self._prior_name(scope) if moves else "",
            echo=_identity(scope) if moves else (),
            note=note,
            visit=visit if action in {OrderAction.PATIENT_UPDATE, OrderAction.VISIT_MOVE} else None,
        )

    def _moves(self, scope: MessageScope, visit: PatientVisit | None) -> bool:
        """Whether it is said which visit moves, and whose it is then."""
        known = visit is not None and bool(visit.prior or (self._prior(scope) and visit.number))
        return known and not self._refusals(scope, OrderAction.VISIT_MOVE)


def _identity(scope: MessageScope) -> tuple[str, ...]:
    """Keep how the sender writes who the patient is now."""
    return tuple(scope.select_lines({"MSH", "PID"}.__contains__))


def compile_patients(
    root: YamlNode, entries: dict[str, YamlNode], context: CompilationContext
) -> PatientRules:
    """Compile the parts of a definition of kind `patients`."""
    diagnostics = context.diagnostics
    tags = compile_tags(entries.get("tags"), context, TAGS)
    needed(tags, ("SiteID", "PatientMRN"), entries.get("tags", root), context)
    actions: dict[str, OrderAction | None] = {}
    if "events" not in entries:
        diagnostics.error(root, "events", "events is missing: what A08, A40 … lead to")
    triggers = diagnostics.read_mapping(entries["events"]) if "events" in entries else {}
    for trigger, below in triggers.items():
        word = diagnostics.read_choice(below, "action", (*ACTIONS, REFUSE))
        actions[trigger] = None if word in (None, REFUSE) else OrderAction(str(word))
    if "prior_mrn" not in entries:
        diagnostics.error(root, "identity", "prior_mrn is missing: where MRG names the old number")
        return PatientRules(tags, actions, lambda scope: "", "MRG-1")
    visit = compile_visit(entries.get("visit"), context)
    if visit is None and OrderAction.VISIT_MOVE in actions.values():
        diagnostics.error(root, "identity", "visit is missing: where a move names its visit")
    before = len(context.paths)
    rule = compile_rule(entries["prior_mrn"], context)
    place = without_filters(context.paths[before]) if len(context.paths) > before else "MRG-1"
    whose = any(map(_NAMES_AUTHORITY.search, context.paths[before:]))
    name = compile_rule(entries["prior_name"], context) if "prior_name" in entries else None
    return PatientRules(tags, actions, rule, place, visit, name, whose)
