"""A compiled inbound definition: accepts, checks, names the lanes, maps.

The check is what runs before the acknowledgment; it looks at the header, at required tags
and at the order control, and at nothing that cannot refuse.
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
from mappings.language.diagnostics import Issue, IssueSeverity, Sources
from mappings.language.errors import RuleFailed
from mappings.language.scope import ListenerDefaults, MessageScope

MAX_GROUPS = 1000
"""Orders or patients of one message: each of them becomes an event of several kilobytes."""


@dataclass(frozen=True, slots=True)
class PreCheck:
    """What is known of a message before it is acknowledged."""

    issues: tuple[Issue, ...]
    lanes: tuple[str, ...]

    @property
    def refusals(self) -> tuple[MessageRefusal, ...]:
        """Why the message is not taken; empty when it is."""
        if not self.issues:  # nearly always
            return ()
        return tuple(issue.refusal for issue in self.issues if issue.refusal is not None)


class Subjects(NamedTuple):
    """The sites, patient ids and order numbers that a definition reads in a message."""

    sites: frozenset[str] = frozenset()
    patients: frozenset[str] = frozenset()
    orders: frozenset[str] = frozenset()


class Inspection(NamedTuple):
    """An examination of bytes, and whether they are in another charset than they say."""

    examination: PreCheck
    charset_suspect: bool


@dataclass(frozen=True, slots=True)
class InboundMapping:
    """Immutable; `version` is a hash of everything it was compiled from (16 hex digits)."""

    name: str
    version: str
    acceptance: Acceptance
    plan: OrderRules | PatientRules
    files: tuple[str, ...] = ()
    """Everything it was compiled from, by file name."""
    sources: Sources = field(default_factory=dict, repr=False, compare=False)
    """The texts of those files: from them another process compiles the same."""
    takes_long: bool = False
    """Whether a hook or a large pattern is among its rules: read on a thread, then."""

    @property
    def patient_names(self) -> PatientNames:
        """What becomes of an order whose patient is known by another name."""
        if isinstance(self.plan, OrderRules):
            return self.plan.patient_names
        return PatientNames.EXACT

    def accepts(self, header: Header) -> bool:
        """Say whether messages of this type, trigger and sender are this mapping's."""
        return self.acceptance.takes(header)

    def inspect(
        self, raw: bytes, fallback: str, head: Header, defaults: ListenerDefaults
    ) -> Inspection:
        """Read bytes whose header is known, and examine them. Raises Malformed alone."""
        message = Message.parse(raw, fallback=fallback, head=head)
        return Inspection(self.examine(message, defaults), message.charset_suspect)

    def examine(self, message: Message, defaults: ListenerDefaults) -> PreCheck:
        """Check a message and name its lanes, in one pass. Raises nothing."""
        scopes = self.plan.scopes(message, defaults)
        if len(scopes) > MAX_GROUPS:
            return PreCheck((_issue(_too_many(scopes)),), ())
        found = self.acceptance.refusals(message.header) + self._refusals(scopes, message)
        issues = tuple([_issue(refusal) for refusal in _distinct(found)]) if found else ()
        if message.charset_suspect:
            issues += (_SUSPECT,)
        return PreCheck(issues, self._lanes(scopes))

    def check(self, message: Message, defaults: ListenerDefaults) -> list[Issue]:
        """Say what is wrong with a message; an issue with a refusal is not acceptable."""
        return list(self.examine(message, defaults).issues)

    def lane(self, message: Message, defaults: ListenerDefaults) -> tuple[str, ...]:
        """Name the patients a message is about, `SITE|MRN`; a merge names two or more."""
        return self._lanes(self.plan.scopes(message, defaults))

    def subjects(self, message: Message, defaults: ListenerDefaults) -> Subjects:
        """
        Return what a message is about; parts that the definition cannot read are left out.

        Only identifiers are read: a mistake in another field hides none of them.
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
        """Give ORC-1 of the reply to an order control code; empty where these are no orders."""
        if isinstance(self.plan, OrderRules):
            return self.plan.control.reply(control, accepted=accepted)
        return ""

    def apply(self, message: Message, defaults: ListenerDefaults) -> list[OrderEvent]:
        """Map a message; raises Refusal for one that was not checked, RuleFailed."""
        return self.events(self.plan.scopes(message, defaults), message)

    def read(self, raw: bytes, fallback: str, defaults: ListenerDefaults) -> list[OrderEvent]:
        """
        Map a message as it was stored; `fallback` is the codec where MSH-18 says nothing.

        Raises Refusal, RuleFailed.
        """
        return self.apply(Message.parse(raw, fallback=fallback), defaults)

    def events(self, scopes: Sequence[MessageScope], message: Message) -> list[OrderEvent]:
        """Map a message that is cut already; raises as `apply` does."""
        if len(scopes) > MAX_GROUPS:
            raise _too_many(scopes)
        if isinstance(self.plan, OrderRules):
            return self.plan.events(scopes)
        return self.plan.events(scopes, message)

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
        except (
            MessageRefusal,
            RuleFailed,
        ):  # it is refused anyway, and a refused message has no lane
            return ()


_SUSPECT = Issue(
    "MSH-18",
    "charset",
    "the bytes are not in the declared character set; read as another",
    IssueSeverity.WARNING,
)


def _too_many(scopes: Sequence[MessageScope]) -> MessageRefusal:
    return TooManyGroups(scopes[MAX_GROUPS].place)


def _issue(refusal: MessageRefusal) -> Issue:
    return Issue(refusal.place, refusal.error_code.value, refusal.text, refusal=refusal)


def _distinct(refusals: Sequence[MessageRefusal]) -> list[MessageRefusal]:
    """Several groups may miss the same field of the one patient."""
    return list({(type(each), each.place): each for each in refusals}.values())
