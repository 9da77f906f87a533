"""
Sample messages that prove a connection: an order to an own listener, a result to a destination.

Both are about an invented patient. The order is sent over MLLP to the listener of this machine,
like any sender's, and becomes an order of the listener's site. The result has processing id T; if
the receiver accepts it, that is activity of the destination.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bridge.active_settings import current, find_connection
from bridge.admin.errors import InvalidContent, InvalidState, NoSuchItem
from bridge.admin.examination.messages import ExaminationMessages
from bridge.admin.examination.wire import PeerFault, Target, Wire
from bridge.executors import CONSOLE_THREADS
from bridge.monitoring.channels import store_activity
from bridge.store.database import Database
from bridge.transports.connection_paths import RefusedPath, require_permitted
from bridge.transports.tls import tls_context
from config import Settings
from config.listeners import ListenerSettings
from config.quantities import Address
from config.sections import ChannelKind, DestinationSettings
from mappings.hl7.acknowledgment import ERROR_DESCRIPTIONS, ReceivedAck, read_ack
from mappings.hl7.refusals import ErrorCode
from mllp.framing import frame

_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # by bind address
_SECONDS: Final = 15.0
"""Seconds to connect, and to wait for the reply: a person waits for the result."""


@dataclass(frozen=True, slots=True)
class SampleReply:
    """The reply to a sample message: its code (MSA-1) or '', and what happened in words."""

    accepted: bool
    code: str
    words: str


class ConnectionSamples:
    """Sends sample messages. `clock` is in ms."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], int]) -> None:
        self._settings = settings
        self._database = database
        self._clock = clock

    async def send_order(self, name: str) -> SampleReply:
        """
        Send a sample order to a listener of this machine.

        Raises NoSuchItem, and InvalidState for a listener that gets no plain MLLP from here.
        """
        listener = await CONSOLE_THREADS.run(self._find, ChannelKind.LISTENER, name)
        if not isinstance(listener, ListenerSettings):
            raise NoSuchItem
        if not isinstance(listener.bind, Address) or listener.tls is not None:
            raise InvalidState("sample orders are sent over MLLP without TLS only")
        if not listener.enabled:
            raise InvalidState(f"the listener {name} is disabled")
        host = _LOOPBACK.get(listener.bind.host, listener.bind.host)
        target = Target(host, listener.bind.port, connect_timeout=_SECONDS, ack_timeout=_SECONDS)
        return await _exchange(target, _sample_order(listener))

    async def send_result(self, name: str) -> SampleReply:
        """
        Send a sample result with processing id T to a destination.

        Raises NoSuchItem, InvalidContent for settings that name a path or host that they may not
        use, and InvalidState for a destination without MLLP.
        """
        destination = await CONSOLE_THREADS.run(self._find, ChannelKind.DESTINATION, name)
        if not isinstance(destination, DestinationSettings):
            raise NoSuchItem
        target = await CONSOLE_THREADS.run(self._target, destination)
        reply = await _exchange(target, ExaminationMessages().message()[1])
        if reply.accepted:
            activity = {(ChannelKind.DESTINATION, name): self._clock()}
            await CONSOLE_THREADS.run(store_activity, self._database, activity)
        return reply

    def _find(self, kind: ChannelKind, name: str) -> ListenerSettings | DestinationSettings | None:
        return find_connection(current(self._settings, self._database), kind, name)

    def _target(self, destination: DestinationSettings) -> Target:
        address, tls = destination.address, destination.tls
        if not isinstance(address, Address):
            raise InvalidState("sample results are sent over MLLP only")
        try:
            require_permitted(self._settings, destination)
            context = tls_context(self._settings, destination)
        except RefusedPath as error:
            raise InvalidContent(str(error)) from None
        except (OSError, ValueError):
            raise InvalidContent("the TLS files of the settings cannot be read") from None
        name = "" if tls is None else tls.server_name or ""
        return Target(address.host, address.port, context, name, _SECONDS, _SECONDS)


async def _exchange(target: Target, message: bytes) -> SampleReply:
    try:
        wire = await Wire.connect(target)
    except PeerFault as fault:
        return SampleReply(accepted=False, code="", words=str(fault))
    try:
        await wire.write(frame(message))
        reply = read_ack((await wire.replies(1))[0])
    except PeerFault as fault:
        return SampleReply(accepted=False, code="", words=str(fault))
    finally:
        wire.close()
    accepted = reply.code is not None and reply.code.positive
    return SampleReply(accepted, reply.code or "", _words(reply))


def _words(reply: ReceivedAck) -> str:
    """Describe a reply by its codes: its texts could contain anything."""
    if reply.code is None:
        return "the reply has no acknowledgment code (MSA-1)"
    if reply.code.positive:
        return f"accepted with {reply.code}"
    known = (ErrorCode(code) for code in reply.error_codes if code in set(ErrorCode))
    error = next(known, None)
    cause = "" if error is None else f": {ERROR_DESCRIPTIONS[error].lower()} ({error})"
    return f"refused with {reply.code}{cause}"


def _sample_order(listener: ListenerSettings) -> bytes:
    """Return an ORM^O01 about an invented patient, with numbers that no other sample has."""
    number = secrets.token_hex(4).upper()
    now = f"{datetime.now(UTC):%Y%m%d%H%M%S}+0000"
    processing_id = listener.processing_ids[0] if listener.processing_ids else "P"
    control_id = f"SAMPLE{number}"
    order = f"P{number}^SAMPLE|F{number}^SAMPLE"
    examination = "71260^CT chest with contrast^C4"
    reason = "Sample order, sent from the console"
    segments = (
        f"MSH|^~\\&|SAMPLE|CONSOLE|||{now}||ORM^O01^ORM_O01|{control_id}|{processing_id}|2.5.1",
        f"PID|1||SAMPLE-{number}^^^SAMPLE^MR||Sample^Patient||19700101|O",
        "PV1|1|O",
        f"ORC|NW|{order}||SC||||{now}",
        f"OBR|1|{order}|{examination}|||{now}||||||{reason}|||||S{number}||||||CT",
    )
    return "\r".join((*segments, "")).encode("ascii")
