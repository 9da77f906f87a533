"""
Edit and resend: an edited copy of a stored message is sent again, inbound or outbound.

The copy is a new message with the reason of the operator; the original is not changed. A copy of a
received message is applied as if it had arrived; one of a delivery is sent to the same receiver,
with a new MSH-10, in place of an original that still waits.

Content contains patient data: show it to users who may read content only, and do not log it.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Row

from bridge import active_settings
from bridge.admin.channel_operations import charset_of
from bridge.admin.errors import InvalidState, NoSuchItem
from bridge.admin.messages.message_content import EditableMessage, editable_message, encode_edit
from bridge.admin.messages.message_index import origin_of
from bridge.admin.messages.message_replay import MessageSubjects, StoredMessageReplay
from bridge.delivery.composer import EVENTS_WITHOUT_TEXT
from bridge.delivery.delivery_history import edited_key, newer_events
from bridge.delivery.destinations import control_id
from bridge.delivery.dicom_objects import boundary_of
from bridge.errors import BridgeError
from bridge.queue import operations, queries
from bridge.queue.errors import IllegalTransition, NoSuchRow
from bridge.queue.listing_rows import DeliveryDetail, MessageDetail
from bridge.queue.operations import EditedDelivery
from bridge.queue.sites import delivery_sites
from bridge.queue.states import QueueState
from bridge.store.database import Database
from config import Settings
from mappings.outbound.results import ResultEvent
from parsers.dicom_file import is_dicom

Sees = Callable[[Collection[str]], bool]
"""True if a user may see an item of these sites."""

_CONTROL_ID: Final = 9  # the index of MSH-10 in a line that is cut at its separators
_CHARSET: Final = "utf-8"  # of deliveries without MSH-18


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a copy cannot be sent: an error code of table 0357 or '', the place, and the text."""

    code: str
    place: str
    text: str

    def in_words(self) -> str:
        return f"{self.place} {self.text}".strip()


class Resendable(Protocol):
    """A stored message that may be edited and sent again. Blocking."""

    @property
    def subject(self) -> str:
        """The target of audit events, such as `message 17`."""

    def sites(self) -> frozenset[str]:
        """Return the sites of the original. Raises NoSuchItem."""

    def sheet(self) -> EditableMessage:
        """Return the original for editing."""

    def faults(self, segments: Sequence[str], sees: Sees) -> Sequence[Fault]:
        """Return why a copy would not be sent. Raises InvalidEdit, InvalidState."""

    def resend(self, segments: Sequence[str], sees: Sees, email: str, reason: str) -> int:
        """
        Send the copy; return its id. An equal copy is sent only once.

        Raises InvalidEdit, InvalidState.
        """


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except NoSuchRow:
        raise NoSuchItem from None
    except IllegalTransition as error:
        raise InvalidState(str(error)) from None


def _require_none(faults: Sequence[Fault]) -> None:
    if faults:
        raise InvalidState("; ".join(fault.in_words() for fault in faults))


def _require_text(payload: bytes) -> None:
    """Raise InvalidState for a DICOM file: a modality sends it again if it is wrong."""
    if is_dicom(payload):
        raise InvalidState("a DICOM object cannot be edited")


@dataclass
class ReceivedMessage:
    """A message that was received."""

    settings: Settings
    database: Database
    subjects_of: MessageSubjects
    message_id: int

    @property
    def subject(self) -> str:
        return f"message {self.message_id}"

    def sites(self) -> frozenset[str]:
        return self.subjects_of(origin_of(self._detail)).sites

    def sheet(self) -> EditableMessage:
        _require_text(self._detail.payload)
        return editable_message(self._detail.payload, self._charset)

    def faults(self, segments: Sequence[str], sees: Sees) -> Sequence[Fault]:
        return self._checked(segments, sees)[0]

    def resend(self, segments: Sequence[str], sees: Sees, email: str, reason: str) -> int:
        faults, payload = self._checked(segments, sees)
        _require_none(faults)
        with _refused():
            return self._replay.resend(self.message_id, payload, email, reason)

    def _checked(self, segments: Sequence[str], sees: Sees) -> tuple[Sequence[Fault], bytes]:
        listener = self._detail.row.listener
        _require_text(self._detail.payload)
        payload = encode_edit(self._detail.payload, segments, self._charset)
        with _refused():
            found = [Fault(**fault) for fault in self._replay.faults(listener, payload)]
            visible = found or sees(self._replay.sites(listener, payload))
        return found if visible else [Fault("", "", "the message belongs to another site")], payload

    @cached_property
    def _detail(self) -> MessageDetail:
        with _refusals():
            return queries.message(self.database, self.message_id)

    @cached_property
    def _replay(self) -> StoredMessageReplay:
        return StoredMessageReplay(self.settings, self.database)

    @property
    def _charset(self) -> str:
        return charset_of(self.settings, self.database, self._detail.row.listener)


@contextmanager
def _refused() -> Iterator[None]:
    """Turn what the definitions refuse into an error of the use case."""
    try:
        yield
    except BridgeError as error:
        raise InvalidState(str(error)) from None


@dataclass
class SentDelivery:
    """A result that was composed for a receiver."""

    settings: Settings
    database: Database
    delivery_id: int

    @property
    def subject(self) -> str:
        return f"delivery {self.delivery_id}"

    def sites(self) -> frozenset[str]:
        return delivery_sites(self._detail.orders)

    def sheet(self) -> EditableMessage:
        return editable_message(self._detail.payload or b"", _CHARSET)

    def faults(self, segments: Sequence[str], sees: Sees) -> Sequence[Fault]:
        """Return the faults; the sites of a result do not change, so `sees` is not asked."""
        found = self._obstacles()
        if not found:
            self._encoded(segments)
        return found

    def resend(self, segments: Sequence[str], sees: Sees, email: str, reason: str) -> int:
        """Send the copy, in place of an original that waits or is parked."""
        _require_none(self._obstacles())
        now = time.time_ns() // 1_000_000
        payload, own_id, key = self._encoded(segments)
        edited = EditedDelivery(payload, own_id, key, now, email, reason)
        with _refusals():
            return operations.send_edited_delivery(
                self.database, self.delivery_id, edited, self._require_newest
            )

    @cached_property
    def _detail(self) -> DeliveryDetail:
        with _refusals():
            return queries.delivery(self.database, self.delivery_id)

    def _obstacles(self) -> list[Fault]:
        row = self._detail.row
        with self.database.read() as connection:
            newer = _newer(connection, row)
        texts = [
            "its message was not composed yet" if self._detail.payload is None else "",
            "its stored content has changed" if self._detail.is_damaged else "",
            _DICOM if boundary_of(self._detail.payload or b"") else "",
            "it is being sent now" if row.state is QueueState.CLAIMED else "",
            "" if self._has_destination() else "its destination is no longer in the settings",
            newer,
        ]
        return [Fault("", "", text) for text in texts if text]

    def _has_destination(self) -> bool:
        known = active_settings.current(self.settings, self.database).destination
        return any(entry.name == self._detail.row.destination for entry in known)

    def _require_newest(self, connection: Connection, row: Row[Any]) -> None:
        if text := _newer(connection, row):
            raise InvalidState(text)

    def _encoded(self, segments: Sequence[str]) -> tuple[bytes, str, str]:
        """Return the bytes of a copy, its control id and its key. MSH-10 is always a new one."""
        original = self._detail.payload or b""
        row = self._detail.row
        given = list(segments)
        before = editable_message(original, _CHARSET).segments[:1]
        changed = encode_edit(original, _with_control_id(given, _control_id(before)), _CHARSET)
        key = edited_key(row.release_key, changed)
        own_id = control_id(row.destination, key)
        return encode_edit(original, _with_control_id(given, own_id), _CHARSET), own_id, key


_DICOM: Final = "it contains DICOM objects: retry sends the same ones"


def _newer(connection: Connection, row: Any) -> str:
    """
    Return why a delivery must not be sent again; '' if it may.

    Its message would replace a newer one of the same order at the receiver.
    """
    newer = newer_events(connection, row.destination, row.report_id, row.release_key, row.id)
    replaced = (
        newer if ResultEvent(row.event) in EVENTS_WITHOUT_TEXT else newer - EVENTS_WITHOUT_TEXT
    )
    if not replaced:
        return ""
    return f"a newer result of this order was sent or waits ({', '.join(sorted(replaced))})"


def _control_id(segments: Sequence[str]) -> str:
    """Return MSH-10; '' if there is none."""
    fields = segments[0].split(segments[0][3:4] or "|") if segments else []
    return fields[_CONTROL_ID] if len(fields) > _CONTROL_ID else ""


def _with_control_id(segments: Sequence[str], own_id: str) -> Sequence[str]:
    """Replace MSH-10; `encode_edit` refuses what does not begin with MSH."""
    if not segments or not segments[0].startswith("MSH") or not segments[0][3:4]:
        return segments
    separator = segments[0][3]
    fields = segments[0].rstrip("\r\n").split(separator)
    fields += [""] * (_CONTROL_ID + 1 - len(fields))
    fields[_CONTROL_ID] = own_id
    return [separator.join(fields), *segments[1:]]
