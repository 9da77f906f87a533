"""
Examinations as background jobs: who is examined, with whose consent, and what was found so far.

The probes run on a thread with an event loop of their own, because a slow partner must delay
neither other jobs nor messages. The job looks at them in its steps and stores what is new. An
examination whose process ended is not continued: it would send its messages again.

An address that is no destination must be one of a receiver, as in the settings of a destination:
names are resolved once, and each address that they mean must be permitted.
"""

import asyncio
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from sqlalchemy import func, select
from typing_extensions import override

from bridge.active_settings import (
    Connection,
    connection_record_name,
    current,
    find_connection,
)
from bridge.admin.access.permissions import Permission
from bridge.admin.background import jobs
from bridge.admin.background.jobs import (
    BackgroundJob,
    JobKind,
    NewJob,
    Progress,
    Requester,
    Selection,
)
from bridge.admin.background.work import JobContext, JobFailed, JobWork, log_failure
from bridge.admin.errors import InvalidContent, InvalidState, NoSuchItem
from bridge.admin.examination.proposal import (
    Proposal,
    new_destination,
    new_listener,
    propose,
)
from bridge.admin.examination.receiver import PROBES, ReceiverOptions
from bridge.admin.examination.results import Examination, ProbeResult, Verdict
from bridge.admin.examination.run import examine_receiver, examine_sender
from bridge.admin.examination.sender import SenderOptions, sender_probes
from bridge.admin.examination.wire import Target
from bridge.admin.lists.listing import Access
from bridge.audit import outbox
from bridge.errors import BridgeError
from bridge.mllp_peers import sender_tls
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records.background_jobs import OPEN_STATES
from bridge.store.tables import BACKGROUND_JOBS
from bridge.transports.connection_paths import (
    RefusedPath,
    require_permitted,
    require_permitted_host,
)
from bridge.transports.tls import tls_context
from config import Settings
from config.listeners import ListenerSettings
from config.quantities import Address, FolderAddress, parse_address
from config.sections import ChannelKind, DestinationSettings

MAX_PER_HOUR: Final = 20
"""Examinations that an account may begin in an hour."""
LOWEST_PORT: Final = 1024
_HOUR_MS: Final = 3_600_000
_END_SECONDS: Final = 10.0
_JOB: Final = BACKGROUND_JOBS.c


class Role(StrEnum):
    """Which of the partner's programs is examined."""

    RECEIVER = "receiver"
    SENDER = "sender"


class TlsChoice(StrEnum):
    """TLS to an address that is no destination; `unverified`: any certificate is accepted."""

    NONE = "none"
    VERIFIED = "verified"
    UNVERIFIED = "unverified"


class TooManyExaminations(InvalidState):
    """An account examines several partners at once, or many in an hour."""

    code = "too_many_examinations"

    def __init__(self) -> None:
        super().__init__(f"one examination at a time, and at most {MAX_PER_HOUR} in an hour")


@dataclass(frozen=True, slots=True)
class ExaminationRequest:
    """
    Who is examined: a destination, or the receiver at `address`, or the sender that will connect
    to `port`; `listener` is the one that it sends to later, '' if there is none yet.

    `probes` are some of a receiver's; none: all. `agreed` is who at the partner agreed.
    """

    role: Role
    destination: str = ""
    address: str = ""
    tls: TlsChoice = TlsChoice.NONE
    port: int = 0
    listener: str = ""
    probes: Sequence[str] = ()
    agreed: str = ""

    @property
    def subject(self) -> str:
        """The target in words, for the audit trail and titles."""
        if self.role is Role.SENDER:
            return f"sender at port {self.port}"
        return f"destination {self.destination}" if self.destination else f"receiver {self.address}"


def probes_of(role: Role) -> dict[str, str]:
    """Return names and titles of the probes, in their order."""
    if role is Role.SENDER:
        return sender_probes(SenderOptions())
    return {name: probe.title for name, probe in PROBES.items()}


def start(
    settings: Settings,
    database: Database,
    request: ExaminationRequest,
    requester: Requester,
    now: int,
) -> BackgroundJob:
    """
    Create an examination.

    Raises InvalidContent, NoSuchItem, TooManyExaminations, and TooManyJobs.
    """
    if not request.agreed.strip():
        raise InvalidContent("say who at the partner agreed to get test messages")
    address, tls = _checked(current(settings, database), request)
    probes = probes_of(request.role)
    if unknown := [name for name in request.probes if name not in probes]:
        raise InvalidContent(f"there is no probe {unknown[0]}")
    chosen = [name for name in probes if not request.probes or name in request.probes]
    _require_few(database, requester.account_id, now)
    options = {
        "role": request.role.value,
        "subject": request.subject,
        "destination": request.destination,
        "address": address,
        "port": request.port,
        "listener": request.listener,
        "tls": request.tls.value,
        "probes": chosen,
        "agreed": request.agreed.strip(),
    }
    job = NewJob(
        kind=JobKind.EXAMINE,
        title=f"Examine {request.subject}",
        selection=Selection(""),
        upper_id=0,
        expected=len(chosen),
        exact=True,
        options=options,
        permissions=frozenset({Permission.CONNECT}),
        reason=request.agreed.strip(),
    )
    outbox.describe(after={"address": address, "tls": tls, "probes": len(chosen)})
    return jobs.create(database, job, requester, now)


def _checked(settings: Settings, request: ExaminationRequest) -> tuple[str, bool]:
    """Return the address and whether it has TLS. Raises InvalidContent, NoSuchItem."""
    if request.role is Role.SENDER:
        if request.listener:
            _listener_of(settings, request.listener)
        _require_free_port(settings, request.port)
        return f"*:{request.port}", False
    if request.destination:
        section = destination_of(settings, request.destination)
        return str(section.address), section.tls is not None
    try:
        address = parse_address(request.address.strip())
        require_permitted_host("examination", address.host)
    except (ValueError, RefusedPath) as error:
        raise InvalidContent(str(error)) from None
    return str(address), request.tls is not TlsChoice.NONE


def destination_of(settings: Settings, name: str) -> DestinationSettings:
    """Return a destination that has an MLLP address. Raises NoSuchItem, InvalidContent."""
    section = find_connection(settings, ChannelKind.DESTINATION, name)
    if not isinstance(section, DestinationSettings):
        raise NoSuchItem
    if not isinstance(section.address, Address):
        raise InvalidContent("only receivers with MLLP can be examined")
    try:
        require_permitted(settings, section)
    except RefusedPath as error:
        raise InvalidContent(str(error)) from None
    return section


def _listener_of(settings: Settings, name: str) -> ListenerSettings:
    """Return a listener with MLLP. Raises NoSuchItem, InvalidContent."""
    section = find_connection(settings, ChannelKind.LISTENER, name)
    if not isinstance(section, ListenerSettings):
        raise NoSuchItem
    if not isinstance(section.bind, Address):
        raise InvalidContent("only senders with MLLP can be examined")
    return section


def _require_free_port(settings: Settings, port: int) -> None:
    if not LOWEST_PORT <= port < 2**16:
        raise InvalidContent(f"the port is from {LOWEST_PORT} to {2**16 - 1}")
    users = {
        listener.bind.port: f"listener {listener.name}"
        for listener in settings.listener
        if not isinstance(listener.bind, FolderAddress)
    }
    users[settings.http.bind.port] = "the web server"
    if port in users:
        raise InvalidContent(f"{users[port]} uses port {port}")


def _require_few(database: Database, account_id: str, now: int) -> None:
    own = select(func.count()).where(
        _JOB.kind == JobKind.EXAMINE.value, _JOB.account_id == account_id
    )
    with database.read() as connection:
        unfinished = connection.scalar(own.where(_JOB.state.in_(OPEN_STATES))) or 0
        recent = connection.scalar(own.where(_JOB.created_at > now - _HOUR_MS)) or 0
    if unfinished or recent >= MAX_PER_HOUR:
        raise TooManyExaminations


class _Ended(Exception):
    """The thread has ended; `examination` is None if it was stopped."""

    def __init__(self, examination: Examination | None) -> None:
        self.examination = examination


_Event = ProbeResult | _Ended | BaseException | None
"""A result, the end, a failure; None: the port is open."""
_Tell = Callable[[_Event], None]


class _Probing:
    """A thread that runs an examination, and the events that nobody has looked at."""

    def __init__(self, work: Callable[[_Tell], Coroutine[Any, Any, Examination]]) -> None:
        self._work = work
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._cancel: Callable[[], object] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="examination", daemon=True)
        self._thread.start()

    def events(self, until: float) -> list[_Event]:
        """Return what is new; wait for it until about `until` of the monotonic clock."""
        found: list[_Event] = []
        try:
            found.append(self._events.get(timeout=max(0.001, until - time.monotonic())))
            while True:
                found.append(self._events.get_nowait())
        except queue.Empty:
            return found

    def close(self) -> None:
        """Stop the probes, and wait until they have ended."""
        with self._lock:
            self._closed = True
            if self._cancel is not None:
                self._cancel()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._examine())
        except asyncio.CancelledError:
            self._events.put(_Ended(None))
        except BaseException as error:  # noqa: BLE001  # the job reports it
            self._events.put(error)

    async def _examine(self) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._work(self._events.put))
        with self._lock:
            self._cancel = partial(loop.call_soon_threadsafe, task.cancel)
            if self._closed:
                task.cancel()
        try:
            self._events.put(_Ended(await task))
        finally:
            with self._lock:
                self._cancel = None


class ExaminationWork(JobWork):
    """The work of an examination; its result is what the page and the report show."""

    def __init__(self, context: JobContext, job: BackgroundJob) -> None:
        self._context, self._job = context, job
        self._probing: _Probing | None = None
        self._found: dict[str, Any] = dict(job.result)
        self._was_begun = "began_at" in self._found

    @override
    def step(self, access: Access, until: float) -> bool:
        """Store what is new. Raises JobFailed, also if another process has begun this job."""
        del access  # the permission was examined before this step
        if self._was_begun:
            raise JobFailed("interrupted", "the service ended while the probes ran; start again")
        if self._probing is None:
            self._found = {"began_at": self._context.clock(), "listens": "", "results": []}
            self._store(0, 0)
            self._probing = _Probing(self._examine)
        results: list[ProbeResult] = []
        ended: _Ended | None = None
        listened = False
        for event in self._probing.events(until):
            match event:
                case ProbeResult():
                    results.append(event)
                case None:
                    listened = True
                    self._found["listens"] = f"{socket.gethostname()}:{self._job.options['port']}"
                case _Ended():
                    ended = event
                case _:
                    raise self._failure(event)
        self._found["results"] += [asdict(result) for result in results]
        if ended is not None and ended.examination is not None:
            self._found |= {"ended_at": self._context.clock(), "sent": ended.examination.sent}
        if results or listened or ended:
            faults = sum(result.verdict is Verdict.FAULT for result in results)
            self._store(len(results), faults)
        return ended is not None

    @override
    def result(self) -> dict[str, object]:
        return self._found

    @override
    def close(self) -> None:
        if self._probing is not None:
            self._probing.close()

    def _store(self, handled: int, faults: int) -> None:
        cursor = len(self._found["results"])
        progress = Progress(cursor, handled, handled - faults, faults)
        with self._context.database.write_without_sync() as connection:
            jobs.store_progress(
                connection, self._job.id, self._context.owner, progress, self._found
            )

    def _failure(self, error: BaseException) -> BridgeError:
        if isinstance(error, BridgeError):
            return error
        if isinstance(error, OSError):
            port = self._job.options["port"]
            return JobFailed("port_in_use", f"port {port} cannot be opened: {error.strerror}")
        if isinstance(error, Exception):
            log_failure("examination failed", self._job, error)
        return JobFailed("internal_error", "the examination failed; the log of the service has why")

    async def _examine(self, tell: _Tell) -> Examination:
        options, clock = self._job.options, self._context.clock
        if options["role"] == Role.SENDER:

            def listens() -> None:
                tell(None)

            port = options["port"]
            return await examine_sender(None, port, SenderOptions(), tell, clock, listens)
        target = await self._target()
        chosen = ReceiverOptions(probes=frozenset(options["probes"]))
        return await examine_receiver(target, chosen, tell, clock)

    async def _target(self) -> Target:
        """Return the address to connect to. Raises JobFailed."""
        options, loop = self._job.options, asyncio.get_running_loop()
        if options["destination"]:
            settings = current(self._context.settings, self._context.database)
            try:
                section = destination_of(settings, options["destination"])
                context = tls_context(settings, section)
            except (NoSuchItem, InvalidContent) as error:
                raise JobFailed("not_examined", str(error) or "the destination is gone") from None
            except (OSError, ValueError) as error:  # includes ssl.SSLError
                raise JobFailed("tls_files", f"its TLS files: {type(error).__name__}") from None
            address = parse_address(str(section.address))
            name = section.tls.server_name if section.tls else None
            return Target(address.host, address.port, context, name or address.host)
        address = parse_address(options["address"])
        try:
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            for _, _, _, _, resolved in found:
                require_permitted_host("examination", str(resolved[0]))
        except RefusedPath as error:
            raise JobFailed("not_permitted", str(error)) from None
        except OSError:
            raise JobFailed("not_found", f"the name {address.host} is not known") from None
        host = str(found[0][4][0])
        return Target(host, address.port, _tls(options["tls"], address.host), address.host)


def _tls(choice: str, host: str) -> ssl.SSLContext | None:
    if choice == TlsChoice.NONE:
        return None
    return sender_tls(host, insecure=choice == TlsChoice.UNVERIFIED).context


def find(database: Database, job_id: int) -> BackgroundJob:
    """Return an examination. Raises NoSuchItem."""
    job = jobs.find(database, job_id)
    if job.kind is not JobKind.EXAMINE:
        raise NoSuchItem("there is no such examination")
    return job


def newest(database: Database, subject: str, limit: int) -> list[BackgroundJob]:
    """List examinations of a target, or of all ('' ), newest first."""
    own = _JOB.kind == JobKind.EXAMINE.value
    if subject:
        own &= _JOB.title == f"Examine {subject}"
    statement = select(_JOB.id).where(own).order_by(_JOB.id.desc()).limit(limit)
    with database.read() as connection:
        ids = list(connection.scalars(statement))
    return [jobs.find(database, job_id) for job_id in ids]


def examination_of(job: BackgroundJob) -> Examination:
    """Return what was found, for a report. Raises InvalidState if no probe has ended."""
    found = job.result
    results = tuple(_result(stored) for stored in found.get("results", ()))
    if not results:
        raise InvalidState("there is no result yet")
    began = found["began_at"]
    ended = found.get("ended_at") or job.finished_at or began
    target = found.get("listens") or job.options["address"]
    return Examination(target, job.options["role"], began, ended, found.get("sent"), results)


def _result(stored: Mapping[str, Any]) -> ProbeResult:
    return ProbeResult(**{**stored, "verdict": Verdict(stored["verdict"])})


@dataclass(frozen=True, slots=True)
class ConnectionProposal:
    """
    Settings that fit an examined partner: of a connection, or of a new one without a name.

    `begun_on` is the version of the settings that the proposal changes.
    """

    kind: ChannelKind
    name: str
    begun_on: str
    proposal: Proposal


def proposal_of(
    settings: Settings, database: Database, job: BackgroundJob
) -> ConnectionProposal | None:
    """Return the settings that fit; None if the connection is gone, or nothing was found yet."""
    options, active = job.options, current(settings, database)
    results = [_result(stored) for stored in job.result.get("results", ())]
    kind = ChannelKind.LISTENER if options["role"] == Role.SENDER else ChannelKind.DESTINATION
    name = options[kind]
    section = find_connection(active, kind, name) if name else _new_connection(kind, options)
    if not results or section is None:
        return None
    with database.read() as connection:
        known = mapping_versions.active_versions(connection)
    activation = known.get(connection_record_name(kind, name))
    proposal = propose(section, results)
    return ConnectionProposal(kind, name, activation.version if activation else "", proposal)


def _new_connection(kind: ChannelKind, options: Mapping[str, Any]) -> Connection:
    if kind is ChannelKind.LISTENER:
        return new_listener(options["port"])
    return new_destination(options["address"], has_tls=options["tls"] != TlsChoice.NONE)


def _proposal_json(found: ConnectionProposal | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "kind": found.kind.value,
        "name": found.name,
        "begun_on": found.begun_on,
        "table": found.proposal.table,
        "changes": [asdict(change) for change in found.proposal.changes],
    }


def as_json(job: BackgroundJob, proposal: ConnectionProposal | None = None) -> dict[str, Any]:
    """Return an examination as pages show it."""
    options, found = job.options, job.result
    results = found.get("results", [])
    return {
        "id": job.id,
        "role": options["role"],
        "subject": options["subject"],
        "destination": options["destination"],
        "listener": options["listener"],
        "address": options["address"],
        "tls": options["tls"],
        "agreed": options["agreed"],
        "actor": job.actor,
        "state": job.state.value,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
        "listens": found.get("listens", ""),
        "sent": found.get("sent"),
        "error": found.get("error", ""),
        "detail": found.get("detail", ""),
        "probes": [
            {"name": name, "title": title}
            for name, title in probes_of(Role(options["role"])).items()
            if name in options["probes"]
        ],
        "results": results,
        "counts": {
            verdict.value: sum(result["verdict"] == verdict for result in results)
            for verdict in Verdict
        },
        "proposal": _proposal_json(proposal),
    }
