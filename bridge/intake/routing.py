"""
Which mapping a message goes to, and whether its header is acceptable at all.

Pure, and quick for traffic that repeats itself: the answer is remembered by sender and type.
The order of tests is the standard's: MSH-9, MSH-12, MSH-11 (HL7 v2.5.1 §2.9.2.2), then MSH-10.
"""

from bridge.intake.listening import Definition, Listening
from mappings.acceptance import refusal_for
from mappings.hl7.header import Header
from mappings.hl7.refusals import (
    MissingField,
    Refusal,
    UnsupportedProcessingId,
    UnsupportedVersion,
)

MOST_REMEMBERED = 4096
"""Different senders and types; beyond it all are forgotten, so that nobody can fill memory."""

Route = Definition | Refusal


class Router:
    """Routes the headers of one listener."""

    def __init__(self, listening: Listening) -> None:
        """Take the listener's policy."""
        self._listening = listening
        self._known: dict[tuple[object, ...], Route] = {}

    def route(self, header: Header) -> Definition:
        """Give the definition that takes a message. Raises Refusal."""
        key = (
            header.message_code,
            header.trigger,
            header.version,
            header.processing_id,
            header.fields[3:7],
        )
        route = self._known.get(key)
        if route is None:
            route = self._find(header)
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = route
        if isinstance(route, Refusal):
            raise type(route)(route.place)
        return route

    def _find(self, header: Header) -> Route:
        listening = self._listening
        for definition in listening.definitions:
            if definition.accepts(header):
                if refusals := definition.acceptance.refusals(header):
                    return refusals[0]
                break
        else:
            return refusal_for(header, [each.acceptance for each in listening.definitions])
        if listening.versions and header.version not in listening.versions:
            return UnsupportedVersion()
        if listening.processing_ids and header.processing_id not in listening.processing_ids:
            return UnsupportedProcessingId()
        return definition


def require_control_id(header: Header) -> None:
    """Refuse a message that could not be acknowledged: MSH-10 is required (§2.14.9.10)."""
    if header.control_id.strip() in {b"", b'""'}:
        raise MissingField("MSH-10")
