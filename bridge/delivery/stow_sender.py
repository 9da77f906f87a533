"""
STOW-RS sender: stores the objects of a delivery at a DICOMweb service (PS3.18 10.5).

The body of the delivery is posted as it is. The statuses of its objects in the response are the
reply. Raises `NotConnected` if nothing was sent, `ReplyLost` if the state at the service is
unknown, and `NoAcknowledgment` for a response that does not name the objects.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed

from bridge.delivery.dicom_objects import boundary_of, sent_objects
from bridge.delivery.dicom_replies import ObjectStatus, write_reply
from bridge.transports import NoAcknowledgment
from bridge.transports.http_sender import HttpPoster, HttpReceiver

_SUCCESS: Final = 0x0000
_PROCESSING_FAILURE: Final = 0x0110
_REFUSED: Final = frozenset({200, 202, 409})
"""HTTP statuses whose responses say what became of each object (PS3.18 table 10.5.3-1)."""

_STORED_SEQUENCE: Final = "00081199"
_FAILED_SEQUENCE: Final = "00081198"
_INSTANCE: Final = "00081155"
_FAILURE: Final = "00081197"
_WARNING: Final = "00081196"
_MAX_STATUS: Final = 0xFFFF


class StowSender:
    """Posts deliveries to one service, one at a time, each over its own connection."""

    def __init__(self, receiver: HttpReceiver, *, max_bytes: int = 2**20) -> None:
        """`receiver` has the address of `/studies`. A response may have `max_bytes` bytes."""
        self._poster = HttpPoster(receiver, max_bytes)

    def send(self, payload: bytes) -> Deferred[bytes]:
        """Store the objects of one delivery; return their statuses."""
        return Deferred.fromFuture(asyncio.ensure_future(self._send(payload)))

    def close(self) -> Deferred[None]:
        """Do nothing: each delivery has its own connection."""
        return succeed(None)

    async def _send(self, payload: bytes) -> bytes:
        content_type = (
            f'multipart/related; type="application/dicom"; boundary={boundary_of(payload)}'
        )
        headers = [("Content-Type", content_type), ("Accept", "application/dicom+json")]
        status, body = await self._poster.post(payload, headers)
        found = dict(_statuses(body)) if status in _REFUSED else {}
        objects = sent_objects(payload)
        if not all(one.sop_instance in found for one in objects):
            raise NoAcknowledgment(status)
        return write_reply(
            [
                ObjectStatus(
                    "STOW-RS",
                    found[one.sop_instance],
                    _words(found[one.sop_instance]),
                    one.sop_class,
                    one.sop_instance,
                )
                for one in objects
            ]
        )


def _words(status: int) -> str:
    if status == _SUCCESS:
        return "stored"
    return "stored with a warning" if status >> 12 == 0xB else "not stored"  # noqa: PLR2004


def _statuses(body: bytes) -> Iterator[tuple[str, int]]:
    """Yield the SOP Instance UIDs of a response in DICOM JSON with their statuses."""
    try:
        found = json.loads(body)
    except ValueError:
        return
    for data in found if isinstance(found, list) else [found]:
        if not isinstance(data, dict):
            continue
        for item in _items(data, _STORED_SEQUENCE):
            yield _value(item, _INSTANCE), _number(item, _WARNING, _SUCCESS)
        for item in _items(data, _FAILED_SEQUENCE):
            yield _value(item, _INSTANCE), _number(item, _FAILURE, _PROCESSING_FAILURE)


def _items(data: Mapping[str, Any], tag: str) -> list[dict[str, Any]]:
    element = data.get(tag)
    values = element.get("Value") if isinstance(element, dict) else None
    return [item for item in values if isinstance(item, dict)] if isinstance(values, list) else []


def _first(item: Mapping[str, Any], tag: str) -> Any:
    element = item.get(tag)
    values = element.get("Value") if isinstance(element, dict) else None
    return values[0] if isinstance(values, list) and values else None


def _value(item: Mapping[str, Any], tag: str) -> str:
    return str(_first(item, tag) or "")


def _number(item: Mapping[str, Any], tag: str, absent: int) -> int:
    value = _first(item, tag)
    is_status = isinstance(value, int) and 0 < value <= _MAX_STATUS
    return value if is_status else absent
