"""
The first steps of an installation: a site, a sender, a receiver, a reader.

Each step checks itself: whether it is done is read from the data, and stored nowhere. The start
page of the console and `bridge first-steps` show the same words.

A sender is connected when a message of it was understood, a receiver when it accepted a message,
a reader when somebody without a role in the console has enrolled. Accession numbers are the only
data of a patient here, so the steps are for users who may search for them, on all sites.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from sqlalchemy import Connection, select

from bridge.active_settings import current
from bridge.admin.causes import cause_of
from bridge.admin.errors import EngineRefusal
from bridge.admin.messages.message_index import origin_of, read_numbers
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.admin.orders.order_tracking import find_orders
from bridge.admin.report_engine import ReportEngine, report_engine
from bridge.contract.responses import ReaderCounts
from bridge.executors import CONSOLE_THREADS
from bridge.monitoring import channels
from bridge.monitoring.channels import Channel
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import MessageDetail
from bridge.queue.statements import MESSAGE
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.tables import ORDERS
from config import Settings, load
from config.listeners import ListenerSettings
from config.quantities import DicomAddress, DicomWebAddress, FolderAddress, WebAddress
from config.sections import ChannelKind, DestinationSettings
from mappings.hl7.header import peek
from mappings.hl7.refusals import MessageRefusal

T = TypeVar("T")

_SHOWN_ORDERS: Final = 5
_SHOWN_SENDER: Final = 100  # characters of MSH-3 and MSH-4
_NOT_UNDERSTOOD: Final = frozenset({QueueState.REFUSED, QueueState.PARKED})
_STATE_WORDS: Final = {"queued": "waits", "claimed": "in progress", "done": "applied"}
_ALL_ADDRESSES: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  # compared, not bound


class StepName(StrEnum):
    SITE = "site"
    SENDER = "sender"
    RECEIVER = "receiver"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class FirstStep:
    """
    A step; `seen` is what the data shows, in JSON.

    `words` is what was found, or what is to be done.
    """

    name: StepName
    done: bool
    words: str
    seen: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListenerPlace:
    """
    A listener, as its senders reach it.

    `transport` is mllp, http or folder; `is_local`: only senders on this machine reach it;
    `problem`: why it did not start.
    """

    name: str
    address: str
    transport: str
    host: str
    port: int | None
    tls: bool
    is_local: bool
    site: str
    enabled: bool
    loaded: bool
    problem: str


@dataclass(frozen=True, slots=True)
class DestinationPlace:
    """
    A destination; `accepts`: its last reply was an acceptance.

    `problem`: why its last attempt failed, in words.
    """

    name: str
    address: str
    transport: str
    enabled: bool
    loaded: bool
    accepts: bool
    replied_at: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """The newest message: from whom, and what was understood. Times in ms."""

    id: int
    at: int
    listener: str
    message_type: str
    application: str
    facility: str
    state: str
    cause_text: str
    orders: Sequence[Mapping[str, Any]]
    """`id`, `site` and `accession` of some of its orders."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the database of the bridge shows."""

    listeners: Sequence[ListenerPlace]
    destinations: Sequence[DestinationPlace]
    message: ReceivedMessage | None
    is_understood: bool


class FirstSteps:
    """Reads the first steps; `clock` is in ms."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        engine: ReportEngine,
        subjects_of: MessageSubjects,
        clock: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._database = database
        self._engine = engine
        self._subjects_of = subjects_of
        self._clock = clock
        self._latest: ReceivedMessage | None = None
        self._is_complete = False

    async def read(self) -> list[FirstStep]:
        """Return the four steps in their order. Raises EngineUnreachable."""
        stored = await CONSOLE_THREADS.run(self._read_stored)
        steps = [
            _site_step(await self._of_engine(self._engine.call("GET", "sites"))),
            _sender_step(stored),
            _receiver_step(stored.destinations),
            _reader_step(await self._of_engine(self._engine.readers())),
        ]
        self._is_complete = all(step.done for step in steps)
        return steps

    async def left(self) -> int:
        """Return the number of steps that are not done; it is not counted again after zero."""
        if self._is_complete:
            return 0
        return sum(not step.done for step in await self.read())

    def is_empty(self) -> bool:
        """True if no message was ever received. Blocking."""
        with self._database.read() as connection:
            if _newest_id(connection) is not None:
                return False
        known = channels.read_channels(self._database, ChannelKind.LISTENER)
        return all(listener.active_at is None for listener in known.values())

    async def _of_engine(self, answer: Awaitable[T]) -> T | None:
        """Return what the report engine answers; None if another service has no such endpoint."""
        try:
            return await answer
        except EngineRefusal:
            if self._settings.engine.is_internal:
                raise
            return None

    def _read_stored(self) -> _Stored:
        active, now = current(self._settings, self._database), self._clock()
        message = self._newest_message()
        with self._database.read() as connection:
            has_order = connection.execute(select(ORDERS.c.id).limit(1)).first() is not None
        is_accepted = message is not None and message.state not in _NOT_UNDERSTOOD
        return _Stored(
            self._listeners(active, now),
            self._destinations(active, now),
            message,
            is_accepted or has_order,
        )

    def _newest_message(self) -> ReceivedMessage | None:
        """Return the newest message; its content is read again only if it has changed."""
        with self._database.read() as connection:
            newest = _newest_id(connection)
        if newest is None:
            return None
        known = self._latest
        if known is None or (known.id, known.state) != newest:
            try:
                detail = queries.message(self._database, newest[0])
            except NoSuchRow:  # removed in between
                return None
            self._latest = known = _received(detail, self._orders_of(detail))
        return known

    def _orders_of(self, detail: MessageDetail) -> list[dict[str, Any]]:
        subjects = self._subjects_of(origin_of(detail))
        numbers = read_numbers(detail.payload).with_subjects(subjects)
        found = find_orders(self._database, numbers.order, subjects.sites or None)
        return [
            {name: order[name] for name in ("id", "site", "accession")}
            for order in found
            if order["mrn"] in numbers.patient
        ][:_SHOWN_ORDERS]

    def _listeners(self, active: Settings, now: int) -> list[ListenerPlace]:
        known = channels.read_channels(self._database, ChannelKind.LISTENER)
        failures = channels.read_start_failures(self._database, ChannelKind.LISTENER, now)
        return [
            _listener_place(
                listener,
                _host_of(listener, urlsplit(self._settings.http.public_url).hostname or ""),
                loaded=known.get(listener.name, Channel(listener.name)).is_loaded(now),
                problem=failures.get(listener.name, ""),
            )
            for listener in active.listener
        ]

    def _destinations(self, active: Settings, now: int) -> list[DestinationPlace]:
        known = channels.read_channels(self._database, ChannelKind.DESTINATION)
        failures = channels.read_start_failures(self._database, ChannelKind.DESTINATION, now)
        return [
            _destination_place(
                destination,
                known.get(destination.name, Channel(destination.name)),
                failures.get(destination.name, ""),
                now,
            )
            for destination in active.destination
        ]


def _newest_id(connection: Connection) -> tuple[int, str] | None:
    """Return id and state of the newest message."""
    newest = select(MESSAGE.c.id, MESSAGE.c.state).order_by(MESSAGE.c.id.desc()).limit(1)
    row = connection.execute(newest).first()
    return None if row is None else (row.id, row.state)


def _received(detail: MessageDetail, orders: Sequence[Mapping[str, Any]]) -> ReceivedMessage:
    row = detail.row
    code = row.code or row.error_code
    cause = cause_of(ExceptionSubject.MESSAGE, row.state, code, row.detail, row.error_place)
    try:
        header = peek(detail.payload)
    except MessageRefusal:
        application = facility = b""
    else:
        application, facility = header.sending_application, header.sending_facility
    return ReceivedMessage(
        row.id,
        row.received_at,
        row.listener,
        row.message_type,
        application.decode("utf-8", "replace")[:_SHOWN_SENDER],
        facility.decode("utf-8", "replace")[:_SHOWN_SENDER],
        row.state,
        cause.words,
        orders,
    )


def _transport(address: object) -> str:
    if isinstance(address, FolderAddress):
        return "folder"
    if isinstance(address, DicomAddress | DicomWebAddress):
        return "dicom"
    return "http" if isinstance(address, WebAddress) else "mllp"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_of(listener: ListenerSettings, public_host: str) -> str:
    """
    Return the host to which senders connect; '' for a folder.

    A listener on all addresses is reached by the name that browsers use, else by that of this
    machine.
    """
    if isinstance(listener.bind, FolderAddress):
        return ""
    if listener.bind.host not in _ALL_ADDRESSES:
        return listener.bind.host
    return socket.gethostname() if _is_loopback(public_host) else public_host


def _listener_place(
    listener: ListenerSettings, host: str, *, loaded: bool, problem: str
) -> ListenerPlace:
    bind = listener.bind
    return ListenerPlace(
        listener.name,
        str(bind),
        _transport(bind),
        host,
        None if isinstance(bind, FolderAddress) else bind.port,
        listener.tls is not None,
        not isinstance(bind, FolderAddress) and _is_loopback(bind.host),
        listener.site,
        listener.enabled,
        loaded,
        problem,
    )


def _destination_place(
    destination: DestinationSettings, channel: Channel, failure: str, now: int
) -> DestinationPlace:
    answers = channel.active_at is not None and channel.open_until is None
    return DestinationPlace(
        destination.name,
        str(destination.address),
        _transport(destination.address),
        destination.enabled,
        channel.is_loaded(now),
        answers and not channel.refused and not channel.problem,
        channel.active_at,
        failure or channel.problem,
    )


def _site_step(sites: Sequence[Mapping[str, Any]] | None) -> FirstStep:
    seen = [
        {"id": site["SiteID"], "name": site["name"], "zone": site["timeZone"]}
        for site in sites or ()
    ]
    if sites is None:
        words = "Sites belong to the service at engine.base_url."
    elif not seen:
        words = "Create a site: a hospital or department with its own orders and reports."
    else:
        names = [f"{site['id']} ({site['name']}, {site['zone']})" for site in seen[:3]]
        words = "; ".join([*names, *(["…"] if len(seen) > len(names) else [])])
    return FirstStep(StepName.SITE, bool(seen) or sites is None, words, {"sites": seen})


def _sender_step(stored: _Stored) -> FirstStep:
    seen = {
        "listeners": [asdict(listener) for listener in stored.listeners],
        "message": None if stored.message is None else asdict(stored.message),
    }
    return FirstStep(StepName.SENDER, stored.is_understood, _sender_words(stored), seen)


def _sender_words(stored: _Stored) -> str:
    message = stored.message
    if message is not None:
        sender = "/".join(filter(None, (message.application, message.facility)))
        origin = f"{message.message_type or 'A message'} from {sender or 'an unnamed sender'}"
        state = message.cause_text or _STATE_WORDS.get(message.state, message.state)
        found = f"{origin} at {message.listener}: {state}"
        numbers = ", ".join(str(order["accession"]) for order in message.orders)
        return f"{found}; accession {numbers}." if numbers else f"{found}."
    if stored.is_understood:
        return "Messages have arrived."
    enabled = [listener for listener in stored.listeners if listener.enabled]
    if not enabled:
        return "Add a listener: an address at which a sender's messages arrive."
    for listener in enabled:
        if listener.problem:
            return f"The listener {listener.name} did not start: {listener.problem}"
    listener = enabled[0]
    limit = " Only senders on this machine reach it." if listener.is_local else ""
    place = listener.address
    if listener.transport == "mllp":
        place = f"host {listener.host}, port {listener.port}, MLLP{' with TLS' * listener.tls}"
    return f"Give this to the administrator of the sender: {place}.{limit}"


def _receiver_step(destinations: Sequence[DestinationPlace]) -> FirstStep:
    enabled = [destination for destination in destinations if destination.enabled]
    accepting = [destination for destination in enabled if destination.accepts]
    if accepting:
        words = f"{accepting[0].name} ({accepting[0].address}) accepts messages."
    elif not enabled:
        words = "Add a destination: a receiver of results."
    else:
        problems = [f"{item.name}: {item.problem}" for item in enabled if item.problem]
        words = (
            f"The last attempt failed: {problems[0]}."
            if problems
            else f"{enabled[0].name} ({enabled[0].address}) has accepted nothing yet: test it, and"
            " send a sample result."
        )
    seen = {"destinations": [asdict(destination) for destination in destinations]}
    return FirstStep(StepName.RECEIVER, bool(accepting), words, seen)


def _reader_step(readers: ReaderCounts | None) -> FirstStep:
    if readers is None:
        words = "Accounts belong to the service at engine.base_url."
        return FirstStep(StepName.READER, done=True, words=words, seen={})
    enrolled, invited = readers.enrolled, readers.invited
    if enrolled:
        words = f"{enrolled} {'reader has' if enrolled == 1 else 'readers have'} enrolled."
    elif invited:
        waits = "1 reader has" if invited == 1 else f"{invited} readers have"
        words = f"{waits} not used the enrolment link yet."
    else:
        words = "Invite a reader: somebody who reads and signs reports."
    return FirstStep(StepName.READER, enrolled > 0, words, readers.model_dump())


def read_first_steps(home: Path, now: Callable[[], int]) -> list[FirstStep]:
    """Read the steps of a data directory for a command. Blocking."""
    settings = load(home)
    with bridge_database(home) as database, report_engine(settings) as engine:
        subjects_of = MessageSubjects(settings, database)
        steps = FirstSteps(settings, database, engine.engine, subjects_of, now)
        return engine.run(steps.read())
