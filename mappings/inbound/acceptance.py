"""
Acceptance: which messages a definition accepts.

The criteria are type and trigger, sender, version, and processing id. The order of the checks is
that of the standard: MSH-9, MSH-12, MSH-11 (HL7 v2.5.1 §2.9.2.2). Only headers are read.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mappings.hl7 import charset
from mappings.hl7.delimiters import Delimiters
from mappings.hl7.escapes import unescape
from mappings.hl7.header import Header
from mappings.hl7.refusals import (
    MessageRefusal,
    UnknownSender,
    UnsupportedEvent,
    UnsupportedMessage,
    UnsupportedProcessingId,
    UnsupportedVersion,
)
from mappings.language.diagnostics import Diagnostics, YamlNode, suggestion
from mappings.language.patterns import compile_wildcards

KEYS = ("messages", "senders", "versions", "processing")
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

    def accepts(self, header: Header, fallback: str) -> bool:
        """True if type (MSH-9.1), trigger (MSH-9.2) and sender are accepted."""
        if not self.accepts_type(header):
            return False
        return not self.senders or any(each.matches(header, fallback) for each in self.senders)

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
        sender for each in acceptances if each.accepts_type(header) for sender in each.senders
    ]
    if senders:
        furthest = max(sender.mismatch(header, fallback) or 0 for sender in senders)
        return UnknownSender(f"MSH-{furthest}")
    types = {code for each in acceptances for code, _ in each.messages}
    known = header.message_code in types
    return UnsupportedEvent() if known else UnsupportedMessage()


def compile_acceptance(
    node: YamlNode | None, place: YamlNode, diagnostics: Diagnostics
) -> Acceptance:
    """Read `accept:`. A definition that accepts no message has an error."""
    entries = diagnostics.read_mapping(node, KEYS) if node is not None else {}
    messages = _messages(entries.get("messages"), diagnostics)
    if not messages:
        diagnostics.error(node or place, "accept", "name the messages to accept, such as ORM^O01")
    senders = [_sender(item, diagnostics) for item in _items(entries, "senders", diagnostics)]
    versions, processing = (
        _items(entries, each, diagnostics) for each in ("versions", "processing")
    )
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
