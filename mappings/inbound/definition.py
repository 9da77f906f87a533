"""
InboundMapping: a compiled inbound definition, which pre-checks messages and maps them to events.

The pre-check runs before the acknowledgment. It reads the header, the order control and the tags
that may refuse a message, and returns the lanes.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from mappings.hl7.header import Header
from mappings.hl7.message import Message
from mappings.hl7.refusals import InternalError, MessageRefusal, TooManyGroups
from mappings.inbound.acceptance import Acceptance
from mappings.inbound.events import OrderEvent
from mappings.inbound.order_mapping import OrderRules, PatientNames
from mappings.inbound.patient_mapping import PatientRules
from mappings.language.diagnostics import Issue, IssueSeverity, RuleFailed, Sources
from mappings.language.scope import ListenerDefaults, MessageScope, require_little_shared

MAX_GROUPS = 1000
"""Limit of the orders or patients of a message. Each becomes an event of several kilobytes."""


@dataclass(frozen=True, slots=True)
class PreCheck:
    issues: tuple[Issue, ...]
    lanes: tuple[str, ...]
    """The patients of the message as `SITE|MRN`; a merge has two or more."""
    charset_suspect: bool = False
    """True if the bytes are not in the character set of MSH-18 or, without one, of the listener."""

    @property
    def refusals(self) -> tuple[MessageRefusal, ...]:
        """The reasons why the message is refused; empty if it is accepted."""
        if not self.issues:  # the usual case
            return ()
        return tuple(issue.refusal for issue in self.issues if issue.refusal is not None)


class Subjects(NamedTuple):
    """The sites, patient ids and order numbers that a message is about."""

    sites: frozenset[str] = frozenset()
    patients: frozenset[str] = frozenset()
    orders: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class InboundMapping:
    """A compiled definition. Immutable; `version` is a hash of its files (16 hex digits)."""

    name: str
    version: str
    acceptance: Acceptance
    plan: OrderRules | PatientRules
    files: tuple[str, ...] = ()
    """The names of the files of which it was compiled."""
    sources: Sources = field(default_factory=dict, repr=False, compare=False)
    """The texts of these files, with which another process can compile the same mapping."""
    takes_long: bool = False
    """Whether a rule is a hook or a complex pattern, so that messages are read on a thread."""

    @property
    def patient_names(self) -> PatientNames:
        """What happens to an order whose patient is known by another name."""
        if isinstance(self.plan, OrderRules):
            return self.plan.patient_names
        return PatientNames.EXACT

    def accepts(self, header: Header, fallback: str = "utf-8") -> bool:
        """
        True if messages of this type, trigger and sender are accepted.

        `fallback` is the codec if MSH-18 is empty or unknown.
        """
        return self.acceptance.accepts(header, fallback)

    def pre_check(self, message: Message, defaults: ListenerDefaults) -> PreCheck:
        """Check a message and determine its lanes. Raises nothing."""
        try:
            scopes = self._scopes(message, defaults)
        except TooManyGroups as refusal:
            return PreCheck((_issue(refusal),), (), message.charset_suspect)
        found = self.acceptance.refusals(message.header) + self._refusals(scopes, message)
        issues = tuple([_issue(refusal) for refusal in _distinct(found)]) if found else ()
        if message.charset_suspect:
            issues += (_suspect_charset(message),)
        return PreCheck(issues, self._lanes(scopes), message.charset_suspect)

    def check(self, message: Message, defaults: ListenerDefaults) -> list[Issue]:
        """Return the issues of a message. A message with a refusal is not acceptable."""
        return list(self.pre_check(message, defaults).issues)

    def subjects(self, message: Message, defaults: ListenerDefaults) -> Subjects:
        """
        Return the subjects of a message. Those that cannot be read are left out.

        Only identifiers are read, so that errors in other fields have no effect.
        """
        try:
            scopes = self.plan.scopes(message, defaults)
        except (MessageRefusal, RuleFailed):
            return Subjects()
        sites: set[str] = set()
        patients: set[str] = set()
        orders: set[str] = set()
        with suppress(MessageRefusal, RuleFailed):
            sites.update([self.plan.site(scope) for scope in scopes] if scopes else [defaults.site])
        with suppress(MessageRefusal, RuleFailed):
            patients.update(mrn for _, mrn in self.plan.patients(scopes))
        with suppress(MessageRefusal, RuleFailed):
            if isinstance(self.plan, OrderRules):
                orders.update(self.plan.order_numbers(scopes))
        return Subjects(*(frozenset(each - {""}) for each in (sites, patients, orders)))

    def order_reply(self, control: str, *, accepted: bool) -> str:
        """Return ORC-1 of the reply to an order control code; '' for a mapping without orders."""
        if isinstance(self.plan, OrderRules):
            return self.plan.control.reply(control, accepted=accepted)
        return ""

    def apply(self, message: Message, defaults: ListenerDefaults) -> list[OrderEvent]:
        """Map a message. Raises MessageRefusal if it was not pre-checked, and RuleFailed."""
        scopes = self._scopes(message, defaults)
        if isinstance(self.plan, OrderRules):
            return self.plan.events(scopes)
        return self.plan.events(scopes, message)

    def _scopes(self, message: Message, defaults: ListenerDefaults) -> Sequence[MessageScope]:
        """Split a message into its groups. Raises TooManyGroups."""
        scopes = self.plan.scopes(message, defaults)
        if len(scopes) > MAX_GROUPS:
            raise TooManyGroups(scopes[MAX_GROUPS].place)
        require_little_shared(message, scopes)
        return scopes

    def _refusals(self, scopes: Sequence[MessageScope], message: Message) -> list[MessageRefusal]:
        try:
            if isinstance(self.plan, OrderRules):
                return self.plan.refusals(scopes)
            return self.plan.refusals(scopes, message)
        except RuleFailed:
            return [InternalError()]
        except MessageRefusal as refusal:
            return [refusal]

    def _lanes(self, scopes: Sequence[MessageScope]) -> tuple[str, ...]:
        try:
            return tuple(f"{site}|{mrn}" for site, mrn in self.plan.patients(scopes))
        except (MessageRefusal, RuleFailed):  # such a message is refused, and has no lane
            return ()


def _suspect_charset(message: Message) -> Issue:
    expected = (
        "the character set that MSH-18 declares"
        if message.header.charset
        else "the character set of the listener (MSH-18 is empty)"
    )
    text = f"the bytes are not in {expected}; read as {message.encoding}"
    return Issue("MSH-18", "charset", text, IssueSeverity.WARNING)


def _issue(refusal: MessageRefusal) -> Issue:
    return Issue(refusal.place, refusal.error_code.value, refusal.text, refusal=refusal)


def _distinct(refusals: Sequence[MessageRefusal]) -> list[MessageRefusal]:
    """Remove duplicates: several groups may lack the same field of one patient."""
    return list({(type(each), each.place): each for each in refusals}.values())
