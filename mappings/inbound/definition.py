"""
InboundMapping: a compiled inbound definition, which accepts messages, pre-checks them and maps
them to events.

The criteria of acceptance (`accept:`) are type and trigger, sender, version, and processing id. The
order of the checks is that of the standard: MSH-9, MSH-12, MSH-11 (HL7 v2.5.1 §2.9.2.2).

The pre-check runs before the acknowledgment. It reads the header, the order control and the tags
that may refuse a message, and returns the lanes.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from mappings.hl7 import charset
from mappings.hl7.escapes import unescape
from mappings.hl7.header import Delimiters, Header
from mappings.hl7.message import Message
from mappings.hl7.refusals import (
    InternalError,
    MessageRefusal,
    TooManyGroups,
    UnknownSender,
    UnsupportedEvent,
    UnsupportedMessage,
    UnsupportedProcessingId,
    UnsupportedVersion,
)
from mappings.inbound.events import OrderEvent
from mappings.inbound.order_mapping import AbsentTags, OrderRules, PatientNames
from mappings.inbound.outside_mapping import OutsideRules
from mappings.inbound.patient_mapping import PatientRules
from mappings.language.conditions import compile_wildcards
from mappings.language.diagnostics import (
    Diagnostics,
    Issue,
    IssueSeverity,
    RuleFailed,
    Sources,
    YamlNode,
    suggestion,
)
from mappings.language.scope import ListenerDefaults, MessageScope, require_little_shared

ACCEPTANCE_KEYS = ("messages", "senders", "versions", "processing")
SENDER_KEYS = ("application", "facility", "receiving_application", "receiving_facility")
ANY = "*"
VERSIONS = frozenset(
    {"2.1", "2.2", "2.3", "2.3.1", "2.4", "2.5", "2.5.1", "2.6", "2.7", "2.7.1"}
    | {"2.8", "2.8.1", "2.8.2", "2.9"}
)
PROCESSING_IDS = frozenset({"P", "D", "T"})
"""The codes of table 0103 (MSH-11). `VERSIONS` has those of table 0104 (MSH-12)."""
_FIRST_OF_SENDER = 3  # MSH-3
_ESCAPE = b"\x1b"  # begins text of ISO 2022, whose bytes are all ASCII
_CODE, _EVENT = re.compile(r"[A-Z0-9]{3}"), re.compile(r"[A-Z][A-Z0-9]\d|\*")


@dataclass(frozen=True, slots=True)
class SenderPattern:
    """Patterns (`*` and `?`) for MSH-3 to MSH-6. An empty pattern matches any value."""

    application: str = ""
    facility: str = ""
    receiving_application: str = ""
    receiving_facility: str = ""

    def matches(self, header: Header, fallback: str) -> bool:
        """Compare the trimmed first components with the patterns."""
        return self.mismatch(header, fallback) is None

    def mismatch(self, header: Header, fallback: str) -> int | None:
        """Return the number of the first field of MSH that does not match, None if all match."""
        fields = (
            (self.application, header.sending_application),
            (self.facility, header.sending_facility),
            (self.receiving_application, header.receiving_application),
            (self.receiving_facility, header.receiving_facility),
        )
        for number, (pattern, value) in enumerate(fields, start=_FIRST_OF_SENDER):
            if pattern and not compile_wildcards(pattern)(_first(value, header, fallback)):
                return number
        return None


def _first(value: bytes, header: Header, fallback: str) -> str:
    """Return the text of the first component; `fallback` is the codec if MSH-18 is empty."""
    marks = header.delimiters
    escapes = marks.escape and marks.escape.encode() in value
    if value.isascii() and _ESCAPE not in value and not escapes:  # the usual case
        return _first_component(value.decode(), marks).strip()
    declared = charset.decode_msh18(header.charset, marks.repetition)
    codec, _, text = charset.decode_body(value, declared, fallback, has_bom=False)
    if text is None:
        text = value.decode(codec)
    return unescape(_first_component(text, marks), marks, codec).strip()


def _first_component(text: str, marks: Delimiters) -> str:
    return text.partition(marks.component)[0] if marks.component else text


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The `accept:` part of an inbound definition."""

    messages: frozenset[tuple[str, str]]
    senders: tuple[SenderPattern, ...] = ()
    versions: frozenset[str] = frozenset()
    processing: frozenset[str] = frozenset()
    listed_only: bool = False
    """Whether no sender is accepted if none is listed; otherwise all are."""

    def accepts(self, header: Header, fallback: str) -> bool:
        """True if type (MSH-9.1), trigger (MSH-9.2) and sender are accepted."""
        if not self.accepts_type(header):
            return False
        if not self.senders:
            return not self.listed_only
        return any(sender.matches(header, fallback) for sender in self.senders)

    def accepts_type(self, header: Header) -> bool:
        """True if type and trigger are accepted, from any sender."""
        code = header.message_code
        return (code, header.trigger) in self.messages or (code, ANY) in self.messages

    def refusals(self, header: Header) -> list[MessageRefusal]:
        """Return refusals of version and processing id. An empty set accepts any value."""
        found: list[MessageRefusal] = []
        if self.versions and header.version not in self.versions:
            found.append(UnsupportedVersion())
        if self.processing and header.processing_id not in self.processing:
            found.append(UnsupportedProcessingId())
        return found


def refusal_for(
    header: Header, acceptances: Iterable[Acceptance], fallback: str = "utf-8"
) -> MessageRefusal:
    """
    Return why no definition accepts a header: its sender, trigger or type is unknown.

    If several sender patterns apply, the one that matches the most fields determines the reported
    field.
    """
    acceptances = list(acceptances)
    senders = [
        sender
        for acceptance in acceptances
        if acceptance.accepts_type(header)
        for sender in acceptance.senders
    ]
    if senders:
        furthest = max(sender.mismatch(header, fallback) or 0 for sender in senders)
        return UnknownSender(f"MSH-{furthest}")
    if any(known.listed_only and known.accepts_type(header) for known in acceptances):
        return UnknownSender(f"MSH-{_FIRST_OF_SENDER}")
    types = {code for acceptance in acceptances for code, _ in acceptance.messages}
    known = header.message_code in types
    return UnsupportedEvent() if known else UnsupportedMessage()


def compile_acceptance(
    node: YamlNode | None, place: YamlNode, diagnostics: Diagnostics
) -> Acceptance:
    """Read `accept:`. A definition that accepts no message has an error."""
    entries = diagnostics.read_mapping(node, ACCEPTANCE_KEYS) if node is not None else {}
    messages = _messages(entries.get("messages"), diagnostics)
    if not messages:
        diagnostics.error(node or place, "accept", "name the messages to accept, such as ORM^O01")
    senders = [_sender(item, diagnostics) for item in _items(entries, "senders", diagnostics)]
    versions, processing = (_items(entries, key, diagnostics) for key in ("versions", "processing"))
    return Acceptance(
        frozenset([*messages, *_without_event(messages)]),
        tuple(senders),
        frozenset(_listed(item, "version", VERSIONS, diagnostics) for item in versions),
        frozenset(
            _listed(item, "processing id", PROCESSING_IDS, diagnostics) for item in processing
        ),
    )


def _items(entries: dict[str, YamlNode], key: str, diagnostics: Diagnostics) -> Sequence[YamlNode]:
    return diagnostics.read_items(entries[key]) if key in entries else ()


def _listed(node: YamlNode, what: str, known: frozenset[str], diagnostics: Diagnostics) -> str:
    """Read a code, and warn if it is not in its table. It is accepted: senders invent codes."""
    text = diagnostics.read_text(node)
    if text and text not in known:
        diagnostics.warn(node, "accept", f"HL7 has no {what} {text!r}{suggestion(text, known)}")
    return text


def _messages(node: YamlNode | None, diagnostics: Diagnostics) -> list[tuple[str, str]]:
    found = []
    for item in diagnostics.read_items(node) if node is not None else ():
        code, caret, trigger = diagnostics.read_text(item).partition("^")
        if caret and code and trigger:
            if not _CODE.fullmatch(code) or not _EVENT.fullmatch(trigger):
                diagnostics.warn(
                    item, "accept", "hardly a message's type and event, such as ORM^O01"
                )
            found.append((code, trigger))
        else:
            diagnostics.error(item, "accept", "a message is written as ORM^O01, or ADT^* for all")
    return found


def _without_event(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Accept a bare type (MSH-9 `ORM`, HL7 v2.1) if the definition accepts one of its events."""
    codes = [code for code, _ in messages]
    return [(code, "") for code, trigger in messages if codes.count(code) == 1 and trigger != ANY]


def _sender(node: YamlNode, diagnostics: Diagnostics) -> SenderPattern:
    entries = diagnostics.read_mapping(node, SENDER_KEYS)
    return SenderPattern(**{key: _wildcards(value, diagnostics) for key, value in entries.items()})


def _wildcards(node: YamlNode, diagnostics: Diagnostics) -> str:
    text = diagnostics.read_text(node)
    try:
        compile_wildcards(text)
    except ValueError as error:
        diagnostics.error(node, "pattern", str(error))
        return ""
    return text


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


InboundPlan = OrderRules | PatientRules | OutsideRules


@dataclass(frozen=True, slots=True)
class InboundMapping:
    """A compiled definition. Immutable; `version` is a hash of its files (16 hex digits)."""

    name: str
    version: str
    acceptance: Acceptance
    plan: InboundPlan
    files: tuple[str, ...] = ()
    """The names of the files of which it was compiled."""
    sources: Sources = field(default_factory=dict, repr=False, compare=False)
    """The texts of these files, with which another process can compile the same mapping."""
    needs_thread: bool = False
    """Whether a rule is a hook or a complex pattern, so that messages are read on a thread."""

    @property
    def patient_names(self) -> PatientNames:
        """What happens to an order whose patient is known by another name."""
        if isinstance(self.plan, OrderRules):
            return self.plan.patient_names
        is_outside = isinstance(self.plan, OutsideRules)
        return PatientNames.COMPATIBLE if is_outside else PatientNames.EXACT

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
            if not isinstance(self.plan, PatientRules):
                orders.update(self.plan.order_numbers(scopes))
        return Subjects(*(frozenset(values - {""}) for values in (sites, patients, orders)))

    def absent_tags(self, message: Message, defaults: ListenerDefaults) -> AbsentTags:
        """Return which tags the orders of a message lack; nothing of a message without orders."""
        if not isinstance(self.plan, OrderRules):
            return AbsentTags()
        try:
            return self.plan.absent_tags(self._scopes(message, defaults))
        except (MessageRefusal, RuleFailed):
            return AbsentTags()

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
    return list({(type(refusal), refusal.place): refusal for refusal in refusals}.values())
