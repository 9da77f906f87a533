"""
Patient mapping: ADT messages become patient updates, merges and visit moves.

Of a visit, only the values that orders carry matter: its number and the location of the patient. A
patient number is valid only with its assigning authority, because hospitals use the same numbers
(HL7 v2.5.1 §2A.14.4). A message is split at each PID, because A39 and A40 may merge several pairs,
and at each MRG if visits move.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mappings.hl7.message import Message, without_null
from mappings.hl7.refusals import (
    DuplicateKeyIdentifier,
    IdentifierTooLong,
    MessageRefusal,
    MissingField,
    TooManyRepetitions,
    UnsupportedEvent,
)
from mappings.inbound.events import OrderAction, OrderEvent, PatientVisit
from mappings.inbound.order_mapping import (
    Identifier,
    check_identity_rules,
    missing_site,
    other_numbers,
    read_identifiers,
)
from mappings.language.diagnostics import YamlNode
from mappings.language.rules import (
    MAX_VALUE_CHARACTERS,
    TAGS,
    CompilationContext,
    Rule,
    TagRule,
    compile_rule,
    compile_tags,
    fill,
    without_filters,
)
from mappings.language.scope import ListenerDefaults, MessageScope, split_merges, split_patients

VISIT_KEYS = ("key", "number", "prior", "values")


@dataclass(frozen=True, slots=True)
class VisitRules:
    """The `visit:` part: the visit of an event, its prior number, and Metadata for its orders."""

    key: str
    number: Rule
    prior: Rule
    values: dict[str, Rule]

    def read(self, scope: MessageScope) -> PatientVisit | None:
        """Return the visit of an event, None if it has none."""
        number, prior = without_null(self.number(scope)), without_null(self.prior(scope))
        if not number and not prior:
            return None
        values = {key: rule(scope) for key, rule in self.values.items()}
        known = {key: without_null(value) for key, value in values.items() if value}
        return PatientVisit(self.key, number, prior, known)


def compile_visit(node: YamlNode | None, context: CompilationContext) -> VisitRules | None:
    """Read `visit:`; None if the definition has none."""
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


MAX_PAIRS = 200
"""Pairs of numbers of one patient in a message. Each is a call to the report engine."""

MAX_SAME_NUMBERS = 50
"""Authorities of one number in PID-3. Each number in MRG-1 is compared with all of them."""


def _current_identifiers(scope: MessageScope, current_mrn: str) -> list[Identifier]:
    """Return the identifiers in PID-3 with the current number. Raises TooManyRepetitions."""
    found = read_identifiers(scope, "PID", 3)
    same = dict.fromkeys(identifier for identifier in found if identifier.number == current_mrn)
    if len(same) > MAX_SAME_NUMBERS:
        raise TooManyRepetitions(scope.locate("PID-3"))
    return list(same)


def prior_of_same_authority(scope: MessageScope, prior: str, current_mrn: str) -> str | None:
    """
    Return the prior number that the authority of the current number assigned.

    This is the first number in MRG-1 with the type of the current number, if `prior` has another
    one. Otherwise it is `prior` if it has the same authority or none, or else the first number in
    MRG-1 with the type of `prior` and the authority of `current_mrn`; None if there is none.
    """
    merged = [identifier for identifier in read_identifiers(scope, "MRG", 1) if identifier.number]
    with_prior = [identifier for identifier in merged if identifier.number == prior]
    current = _current_identifiers(scope, current_mrn)
    if not with_prior:
        return prior
    if same := _of_current_type(merged, with_prior, current):
        return same
    if any(not _has_other_authority(identifier, current) for identifier in with_prior):
        return prior
    kinds = {identifier.kind for identifier in with_prior}
    for identifier in merged:
        if (
            identifier.assigned
            and identifier.kind in kinds
            and not _has_other_authority(identifier, current)
        ):
            return identifier.number
    return None


def _of_current_type(
    merged: list[Identifier], with_prior: list[Identifier], current: list[Identifier]
) -> str:
    """Return the first number of the current type; '' without one or if the prior one has it."""
    kinds = {identifier.kind for identifier in current} - {""}
    if len(kinds) != 1 or any(identifier.kind in kinds for identifier in with_prior):
        return ""
    found = (identifier for identifier in merged if identifier.kind in kinds)
    return next(
        (
            identifier.number
            for identifier in found
            if not _has_other_authority(identifier, current)
        ),
        "",
    )


def _has_other_authority(one: Identifier, current: list[Identifier]) -> bool:
    return bool(current) and all(one.differs_in_authority(identifier) for identifier in current)


def other_merged_numbers(scope: MessageScope, prior: str, current_mrn: str) -> list[str]:
    """
    Return the other numbers in MRG-1 with the type and authority of `prior`.

    Senders list all numbers that a merge retires. A number without type is not used.
    """
    merged = [identifier for identifier in read_identifiers(scope, "MRG", 1) if identifier.number]
    current = _current_identifiers(scope, current_mrn)
    chosen = next(
        (
            identifier
            for identifier in merged
            if identifier.number == prior and not _has_other_authority(identifier, current)
        ),
        None,
    )
    if chosen is None or not chosen.kind:
        return []
    found = [identifier.number for identifier in merged if identifier[1:] == chosen[1:]]
    return [number for number in dict.fromkeys(found) if number not in (prior, current_mrn)]


KEYS = ("tags", "events", "prior_mrn", "prior_name", "visit")
REFUSE = "refuse"
OTHERWISE = "*"
ACTIONS = (
    OrderAction.PATIENT_UPDATE,
    OrderAction.PATIENT_MERGE,
    OrderAction.PATIENT_UNMERGE,
    OrderAction.VISIT_MOVE,
    OrderAction.IGNORE,
)
_WITH_PRIOR = frozenset(
    {OrderAction.PATIENT_MERGE, OrderAction.PATIENT_UNMERGE, OrderAction.VISIT_MOVE}
)
"""Actions whose messages name a prior patient in MRG."""


RENUMBERING = frozenset({"A46", "A47"})
"""Events that change a number. Other events merge two patients."""

_NO_CHANGE = "this event changes no report"
_OTHER_TYPE = "identifiers of another kind are merged"
_OTHER_AUTHORITY = "identifiers of another assigning authority are merged"
_NAMES_AUTHORITY = re.compile(r"\[(CX-)?4[.=]")  # CX-4 in a path


@dataclass(frozen=True, slots=True)
class PatientRules:
    """A compiled patients definition. Events whose action is None are refused."""

    tags: dict[str, TagRule]
    actions: Mapping[str, OrderAction | None]
    prior_mrn: Rule
    prior_place: str
    visit: VisitRules | None = None
    prior_name: Rule | None = None
    by_authority: bool = False
    """Whether the paths of `prior_mrn` select the assigning authority."""

    def scopes(self, message: Message, defaults: ListenerDefaults) -> list[MessageScope]:
        """Split a message into groups of one patient; merges and moves into groups of one MRG."""
        groups = split_patients(message, defaults)
        if self._action(message) not in _WITH_PRIOR:
            return groups
        return split_merges(groups)

    def refusals(self, scopes: Sequence[MessageScope], message: Message) -> list[MessageRefusal]:
        """Return why a message is refused."""
        action = self._action(message)
        if action is None:
            return [UnsupportedEvent()]
        if action in {OrderAction.IGNORE, OrderAction.VISIT_MOVE, OrderAction.PATIENT_UNMERGE}:
            return []
        if not scopes:
            return [MissingField("PID")]
        return [refusal for scope in scopes for refusal in self._refusals(scope, action)]

    def patients(self, scopes: Sequence[MessageScope]) -> list[tuple[str, str]]:
        """Return site and MRN of each patient of a message, also of merged ones; no duplicates."""
        pairs = []
        for scope in scopes:
            site, mrn = self.site(scope), self.tags["PatientMRN"].value(scope)
            mrns = [mrn, *self._priors(scope)]
            if self._action(scope.message) is OrderAction.PATIENT_UNMERGE:
                mrns += other_numbers(scope, mrn)
            pairs += [(site, mrn) for mrn in mrns]
        return [pair for pair in dict.fromkeys(pairs) if pair[1]]

    def events(self, scopes: Sequence[MessageScope], message: Message) -> list[OrderEvent]:
        """
        Map all patients.

        Raises the first MessageRefusal of a message that was not pre-checked.
        """
        for refusal in self.refusals(scopes, message):
            raise refusal
        action = self._action(message) or OrderAction.IGNORE
        if not scopes:
            return [
                OrderEvent(OrderAction.IGNORE, "", "", "", "", {}, {}, "MSH", note="no patient")
            ]
        if action is OrderAction.PATIENT_UNMERGE and message.first("MRG") is None:
            return self._separated(scopes)
        renumbers = self._trigger(message) in RENUMBERING
        return [event for scope in scopes for event in self._events(scope, action, renumbers)]

    def _separated(self, scopes: Sequence[MessageScope]) -> list[OrderEvent]:
        """Map the patients of A37, which has one PID for each: the first one with each other."""
        first, *others = (self._event(scope, OrderAction.PATIENT_UNMERGE) for scope in scopes)
        if first.action is OrderAction.IGNORE:
            return [first]
        numbers = [number for event in others if event.mrn for number in _numbers(event)] or [""]
        return _pairs(replace(first, is_mutual=True), numbers, scopes[0])

    def site(self, scope: MessageScope) -> str:
        """Return the SiteID: the value of the mapping, else that of the listener."""
        rule = self.tags.get("SiteID")
        return (rule.value(scope) if rule else "") or scope.defaults.site

    def _action(self, message: Message) -> OrderAction | None:
        trigger = self._trigger(message)
        return self.actions[trigger] if trigger in self.actions else self.actions.get(OTHERWISE)

    def _trigger(self, message: Message) -> str:
        # Up to v2.1 only EVN-1 has the event.
        return message.header.trigger or message.value("EVN-1").strip()

    def _prior(self, scope: MessageScope) -> str:
        """Return the prior number of the authority of the current one; '' if there is none."""
        return self._prior_by_authority(scope, self._sent_prior(scope)) or ""

    def _priors(self, scope: MessageScope) -> list[str]:
        """Return the prior number, and the other numbers of its type that MRG-1 contains."""
        prior = self._prior(scope)
        return [prior, *other_merged_numbers(scope, prior, self.tags["PatientMRN"].value(scope))]

    def _sent_prior(self, scope: MessageScope) -> str:
        return without_null(self.prior_mrn(scope))

    def _prior_by_authority(self, scope: MessageScope, prior: str) -> str | None:
        if self.by_authority or not prior:
            return prior
        return prior_of_same_authority(scope, prior, self.tags["PatientMRN"].value(scope))

    def _prior_name(self, scope: MessageScope) -> str:
        return "" if self.prior_name is None else without_null(self.prior_name(scope))

    def _refusals(self, scope: MessageScope, action: OrderAction) -> list[MessageRefusal]:
        found = [
            refusal for rule in self.tags.values() if (refusal := rule.refusal(scope)) is not None
        ]
        found = found or missing_site(self.tags["SiteID"], scope)
        if action is OrderAction.PATIENT_MERGE and not self._foreign_merge(scope):
            prior, place = self._prior(scope), scope.locate(self.prior_place)
            if not prior:
                found.append(MissingField(place))
            elif any(len(number) > MAX_VALUE_CHARACTERS for number in self._priors(scope)):
                found.append(IdentifierTooLong(place))
            elif prior == self.tags["PatientMRN"].value(scope):
                found.append(DuplicateKeyIdentifier(place))
        elif action in _WITH_PRIOR and any(
            len(number) > MAX_VALUE_CHARACTERS for number in self._priors(scope)
        ):
            found.append(IdentifierTooLong(scope.locate(self.prior_place)))
        return found

    def _foreign_merge(self, scope: MessageScope) -> str:
        """Return why a merge is about identifiers that are not in use here; '' if it is not."""
        prior = self._sent_prior(scope)
        if prior:
            return _OTHER_AUTHORITY if self._prior_by_authority(scope, prior) is None else ""
        merged = [
            identifier for identifier in read_identifiers(scope, "MRG", 1) if identifier.number
        ]
        if not merged:  # a missing field, which is refused
            return ""
        current = [
            identifier for identifier in read_identifiers(scope, "PID", 3) if identifier.number
        ]
        merged_kinds, kinds = (
            {identifier.kind for identifier in some} - {""} for some in (merged, current)
        )
        return "" if merged_kinds.isdisjoint(kinds) else _OTHER_TYPE

    def _events(
        self, scope: MessageScope, action: OrderAction, renumbers: bool
    ) -> list[OrderEvent]:
        """Map one patient. A message about several of its numbers becomes several events."""
        event = self._event(scope, action)
        if event.action not in _WITH_PRIOR:
            return [event]
        priors = self._priors(scope)
        if event.action is OrderAction.PATIENT_UNMERGE:
            return _pairs(event, priors, scope)
        if len(priors) > MAX_PAIRS:
            raise TooManyRepetitions(scope.locate("MRG-1"))
        return [replace(event, prior_mrn=prior, renumbers=renumbers) for prior in priors]

    def _event(self, scope: MessageScope, action: OrderAction) -> OrderEvent:
        visit = None if self.visit is None else self.visit.read(scope)
        if action is OrderAction.VISIT_MOVE and not self._is_complete_move(scope, visit):
            action = OrderAction.IGNORE
        note = _NO_CHANGE if action is OrderAction.IGNORE else ""
        needs_no_patient = {OrderAction.IGNORE, OrderAction.PATIENT_UNMERGE}
        if action in needs_no_patient and self._refusals(scope, action):
            # The pre-check accepted it without identifiers.
            return OrderEvent(
                OrderAction.IGNORE, "", "", "", "", {}, {}, scope.place, note=_NO_CHANGE
            )
        if action is OrderAction.PATIENT_MERGE and (why := self._foreign_merge(scope)):
            action, note = OrderAction.IGNORE, why
        info = {**fill(self.tags, scope), "SiteID": self.site(scope)}
        moves = action in _WITH_PRIOR
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
            other_mrns=other_numbers(scope, info.get("PatientMRN", "")),
            prior_name=self._prior_name(scope) if moves else "",
            echo=_identity_lines(scope) if moves else (),
            note=note,
            visit=visit if action in {OrderAction.PATIENT_UPDATE, OrderAction.VISIT_MOVE} else None,
        )

    def _is_complete_move(self, scope: MessageScope, visit: PatientVisit | None) -> bool:
        known = visit is not None and bool(visit.prior or (self._prior(scope) and visit.number))
        return known and not self._refusals(scope, OrderAction.VISIT_MOVE)


def _numbers(event: OrderEvent) -> list[str]:
    """Return the numbers of a patient that an event separates from another one."""
    others = (number for number in event.other_mrns if len(number) <= MAX_VALUE_CHARACTERS)
    return [event.mrn, *others]


def _pairs(event: OrderEvent, priors: Sequence[str], scope: MessageScope) -> list[OrderEvent]:
    """
    Separate each number of a patient from each number of the other one.

    A number that both lists contain moves to the patient in PID-3. Raises TooManyRepetitions.
    """
    numbers = _numbers(event)
    from_others = [prior for prior in priors if prior not in numbers] or priors[:1]
    if len(numbers) * len(from_others) > MAX_PAIRS:
        raise TooManyRepetitions(scope.locate("PID-3"))
    return [
        replace(
            event,
            mrn=number,
            clinical_info={**event.clinical_info, "PatientMRN": number},
            prior_mrn=prior,
            other_mrns=tuple(other for other in numbers if other != number),
            is_further=(number, prior) != (numbers[0], from_others[0]),
        )
        for number in numbers
        for prior in from_others
    ]


def _identity_lines(scope: MessageScope) -> tuple[str, ...]:
    """Return the segments with the current identifiers of the patient, as sent."""
    return tuple(scope.select_lines({"MSH", "PID"}.__contains__))


def compile_patients(
    root: YamlNode, entries: dict[str, YamlNode], context: CompilationContext
) -> PatientRules:
    """Compile the parts of a definition of kind `patients`."""
    diagnostics = context.diagnostics
    tags = compile_tags(entries.get("tags"), context, TAGS)
    check_identity_rules(tags, ("SiteID", "PatientMRN"), entries.get("tags", root), context)
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
    by_authority = any(map(_NAMES_AUTHORITY.search, context.paths[before:]))
    name = compile_rule(entries["prior_name"], context) if "prior_name" in entries else None
    return PatientRules(tags, actions, rule, place, visit, name, by_authority)
