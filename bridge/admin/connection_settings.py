"""
Listeners and destinations in the console: forms, checks, connection tests, history.

Changes go through `bridge.admin.definitions.activation`, which checks them as a start does.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from pydantic import ValidationError

from bridge import active_settings
from bridge.active_settings import (
    HEADINGS,
    NAME_KEYS,
    SECTIONS,
    active_sources,
    find_connection,
)
from bridge.admin.checks import connection_checks
from bridge.admin.definitions.activation import ActivationResult, Author, activate, previous_version
from bridge.admin.definitions.drafts import as_operator_errors
from bridge.admin.definitions.editor import activation_json, definition_kinds
from bridge.admin.errors import InvalidContent, InvalidState, NoSuchItem
from bridge.delivery.destination_settings import dicom_receiver
from bridge.delivery.dicom_sender import PACS, DicomReceiver, describe_status, echo
from bridge.errors import BridgeError
from bridge.executors import CONSOLE_THREADS
from bridge.monitoring.alert_settings import certificate_files
from bridge.monitoring.connection_probe import (
    ProbeStep,
    ProbeTarget,
    probe_connection,
    probe_folder,
    probe_port,
)
from bridge.monitoring.node_files import expiry_times
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import ActivationOrigin
from bridge.transports.connection_paths import (
    RefusedPath,
    folder_at,
    require_permitted,
)
from bridge.transports.tls import tls_context
from config import Settings
from config.dicom import DicomPeer
from config.forms import form_fields, to_table
from config.listeners import ListenerSettings
from config.problems import SettingProblem, describe_problems
from config.quantities import DicomAddress, FolderAddress
from config.sections import ChannelKind, ConnectionKind, DestinationSettings
from mappings.language.diagnostics import MappingErrors
from mllp.errors import NotConnected, ReplyLost

_LISTENER_TIMEOUT = 5.0  # seconds
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # by bind address


class FieldMistake(NamedTuple):
    """A mistake in a field of a table; an empty field means the table itself."""

    field: str
    text: str


def find_mistakes(kind: ConnectionKind, table: Mapping[str, Any]) -> list[FieldMistake]:
    """Return the mistakes of a table, as a check of the settings reports them."""
    try:
        SECTIONS[kind].model_validate(dict(table))
    except ValidationError as error:
        problems = describe_problems(error, SECTIONS[kind], HEADINGS[kind])
        return [_mistake(problem) for problem in problems]
    return []


def _mistake(problem: SettingProblem) -> FieldMistake:
    field = ".".join(part for part in problem.location if isinstance(part, str))
    return FieldMistake(field, problem.message)


async def _probe_steps(
    settings: Settings, chosen: ListenerSettings | DestinationSettings
) -> Sequence[ProbeStep]:
    """
    Test the connection to a listener or destination. The settings need not be saved.

    Raises InvalidContent if they name a path or host that they may not use.
    """
    try:
        require_permitted(settings, chosen)
    except RefusedPath as error:
        raise _refusal(error) from None
    address = chosen.bind if isinstance(chosen, ListenerSettings) else chosen.address
    if isinstance(address, FolderAddress):
        return await probe_folder(folder_at(settings, chosen).path)
    if isinstance(chosen, ListenerSettings):
        tls = _unverified_context() if chosen.tls is not None else None
        host = _LOOPBACK.get(address.host, address.host)
        mutual = chosen.tls is not None and chosen.tls.client_ca is not None
        return await probe_connection(
            ProbeTarget(host, address.port, _LISTENER_TIMEOUT, tls, needs_client_certificate=mutual)
        )
    try:
        context = tls_context(settings, chosen)
    except (OSError, ValueError):
        return [ProbeStep("tls", ok=False, code="the files of the settings cannot be read")]
    name = chosen.tls.server_name if chosen.tls else None
    limit = chosen.connect_timeout
    steps = await probe_connection(
        ProbeTarget(address.host, address.port, limit, context, name or "")
    )
    if isinstance(address, DicomAddress) and all(step.ok for step in steps):
        receiver = dicom_receiver(settings, chosen, address)
        return [*steps, await PACS.run(_echo, receiver)]
    return steps


def _echo(receiver: DicomReceiver) -> ProbeStep:
    """Send a C-ECHO. Blocking."""
    began = time.monotonic()
    try:
        status = echo(receiver)
    except (NotConnected, ReplyLost) as error:
        code = error.cause if isinstance(error, NotConnected) else error.reason.value
        return ProbeStep("echo", ok=False, code=code)
    took = round((time.monotonic() - began) * 1000)
    return ProbeStep("echo", status == 0, "" if status == 0 else describe_status(status), took)


def _refusal(error: RefusedPath) -> InvalidContent:
    mistake = FieldMistake(error.field, str(error))
    return InvalidContent(f"1 mistakes: {mistake.text}", mistakes=[mistake._asdict()])


def _unverified_context() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate, so that the test can report it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True, slots=True)
class ProposedConnection:
    """Settings of a connection to check; `new`: the name must be free."""

    kind: ConnectionKind
    table: Mapping[str, Any]
    """The table as in bridge.toml."""
    new: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionChange:
    """
    New settings of a connection, with the reason.

    Without a `table`, the settings of bridge.toml apply again, or the connection is removed.
    `begun_on` is the version on which the change is based; if another one is active, the change is
    refused. `actor` is an e-mail address.
    """

    kind: ConnectionKind
    name: str
    actor: str
    reason: str
    begun_on: str
    table: Mapping[str, Any] | None = None
    new: bool = False


_FIELDS: Mapping[type[BridgeError], str] = {
    connection_checks.AddressInUse: "bind",
    connection_checks.NeedsPostgreSQL: "share_port",
    connection_checks.MissingSite: "site",
    connection_checks.UnusableToken: "token_file",
    connection_checks.SharedToken: "token_file",
}


class Connections:
    """Listeners, destinations and DICOM peers, of the console or of bridge.toml. Blocking."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], int]) -> None:
        """`clock` is in milliseconds."""
        self._settings = settings
        self._database = database
        self._clock = clock

    def form(self) -> Mapping[str, Any]:
        """Describe the settings of each kind, and the choices for them."""
        return {
            **{kind.value: list(form_fields(model)) for kind, model in SECTIONS.items()},
            "definitions": definition_kinds(self._settings, self._database),
        }

    def connection(self, kind: ConnectionKind, name: str) -> Mapping[str, Any]:
        """Return the active settings of a connection and their history. Raises NoSuchItem."""
        record = active_settings.connection_record_name(kind, name)
        with self._database.read() as connection:
            past = mapping_versions.history(connection, record)
        chosen = find_connection(self._current(), kind, name)
        if chosen is None and not past:
            raise NoSuchItem(f"there is no such {kind}")
        return {
            "name": name,
            "table": None if chosen is None else to_table(chosen),
            "in_force": activation_json(past[0]) if past else None,
            "in_file": find_connection(self._settings, kind, name) is not None,
            "history": [activation_json(activation) for activation in past],
        }

    def check(self, plan: ProposedConnection) -> Mapping[str, Any]:
        """Return errors and warnings by field."""
        kind, name = plan.kind, str(plan.table.get(NAME_KEYS[plan.kind], ""))
        mistakes = find_mistakes(kind, plan.table)
        current = self._current()
        if plan.new and find_connection(current, kind, name) is not None:
            mistakes.append(FieldMistake(NAME_KEYS[kind], f"there is a {kind} of this name"))
        if mistakes:
            return {
                "mistakes": [field_mistake._asdict() for field_mistake in mistakes],
                "warnings": [],
            }
        record = active_settings.make_connection_record(kind, name, plan.table)
        planned = active_settings.current(self._settings, self._database, [record])
        mistakes = list(self._build_mistakes(planned, kind, name))
        warnings = [] if mistakes else list(self._certificate_warnings(planned, kind, name))
        return {"mistakes": [mistake._asdict() for mistake in mistakes], "warnings": warnings}

    async def try_out(self, plan: ProposedConnection) -> Sequence[Mapping[str, Any]]:
        """
        Connect with these settings; return the steps of the test.

        Raises InvalidContent, also for a DICOM peer, which opens the associations itself.
        """
        self._require_no_mistakes(find_mistakes(plan.kind, plan.table))
        chosen = active_settings.build_section(plan.kind, "", plan.table)
        if isinstance(chosen, DicomPeer):
            raise InvalidContent("a DICOM peer opens the associations: send a C-ECHO from it")
        if isinstance(chosen, ListenerSettings) and not isinstance(chosen.bind, FolderAddress):
            current = await CONSOLE_THREADS.run(self._current)
            if all(
                listener.bind != chosen.bind or not listener.enabled
                for listener in current.listener
            ):
                return [asdict(probe_port(chosen.bind.host, chosen.bind.port))]
        return [asdict(step) for step in await _probe_steps(self._settings, chosen)]

    async def probe(self, kind: ChannelKind, name: str) -> Sequence[Mapping[str, Any]]:
        """Connect with the active settings; return the steps of the test. Raises NoSuchItem."""
        current = await CONSOLE_THREADS.run(self._current)
        chosen = find_connection(current, kind, name)
        if chosen is None:
            raise NoSuchItem
        return [asdict(step) for step in await _probe_steps(current, chosen)]

    def save(self, change: ConnectionChange) -> Mapping[str, Any]:
        """Activate settings on all nodes. Raises InvalidContent, ChangeConflict, InvalidState."""
        kind, name = change.kind, change.name
        if change.table is None:
            self._require_removable(kind, name)
        else:
            plan = ProposedConnection(kind, {**change.table, NAME_KEYS[kind]: name}, change.new)
            found = self.check(plan)["mistakes"]
            self._require_no_mistakes([FieldMistake(**mistake) for mistake in found])
        record = active_settings.make_connection_record(kind, name, change.table)
        return self._activate(change, record, ActivationOrigin.ACTIVATE)

    def rollback(self, change: ConnectionChange) -> Mapping[str, Any]:
        """Activate the previous settings."""
        name = active_settings.connection_record_name(change.kind, change.name)
        with as_operator_errors(), self._database.read() as connection:
            previous = previous_version(connection, name)
        return self._activate(change, previous, ActivationOrigin.ROLLBACK)

    def _activate(
        self,
        change: ConnectionChange,
        record: mapping_versions.MappingVersion,
        origin: ActivationOrigin,
    ) -> Mapping[str, Any]:
        author = Author(change.actor, self._clock(), change.reason)
        begun_on = {record.name: change.begun_on}
        with as_operator_errors():
            results: Sequence[ActivationResult] = activate(
                self._settings, self._database, [], author, origin, begun_on, [record]
            )
        return {"version": results[0].version, "before": results[0].before}

    def _current(self) -> Settings:
        return active_settings.current(self._settings, self._database)

    def _require_removable(self, kind: ConnectionKind, name: str) -> None:
        """
        Raise InvalidState for an enabled connection that is not in bridge.toml.

        Without a table in bridge.toml the connection would be removed, so it must be disabled
        first.
        """
        if find_connection(self._settings, kind, name) is not None:
            return
        chosen = find_connection(self._current(), kind, name)
        if chosen is not None and chosen.enabled:
            raise InvalidState(f"disable {kind} {name} first")

    def _require_no_mistakes(self, found: Sequence[FieldMistake]) -> None:
        if found:
            mistakes = [mistake._asdict() for mistake in found]
            raise InvalidContent(f"{len(found)} mistakes: {found[0].text}", mistakes=mistakes)

    def _build_mistakes(
        self, planned: Settings, kind: ConnectionKind, name: str
    ) -> Iterator[FieldMistake]:
        """Build the connection as a start does; yield a mistake for each failed part."""
        find, messages = active_sources(self._settings, self._database), set()
        for part in connection_checks.connection_parts(planned, kind, name, find):
            try:
                part()
            except MappingErrors as error:
                field = "mappings" if kind is ChannelKind.LISTENER else "mapping"
                drafted = self._drafted(planned, kind, name)
                text = error.issues[0].message
                if drafted:
                    text = f"{drafted} is a draft: activate it first, and choose the listener there"
                messages.add(FieldMistake(field, text))
            except RefusedPath as error:
                messages.add(FieldMistake(error.field, str(error)))
            except BridgeError as error:
                messages.add(FieldMistake(_FIELDS.get(type(error), ""), str(error)))
        yield from sorted(messages)

    def _drafted(self, planned: Settings, kind: ConnectionKind, name: str) -> str:
        """Return the first definition of a listener that exists as a draft only; '' without one."""
        section = find_connection(planned, kind, name)
        chosen = section.mappings if isinstance(section, ListenerSettings) else ()
        with self._database.read() as connection:
            active = mapping_versions.active_versions(connection)
            drafts = {draft.name for draft in mapping_versions.drafts(connection)}
        files = active_settings.file_sources(self._settings)
        return next(
            (
                candidate
                for candidate in chosen
                if candidate in drafts
                and candidate not in active
                and f"{candidate}.yaml" not in files(candidate)
            ),
            "",
        )

    def _certificate_warnings(
        self, planned: Settings, kind: ConnectionKind, name: str
    ) -> Iterator[Mapping[str, Any]]:
        checked = f"{kind} {name}"
        soon = self._clock() + round(planned.alerts.certificate_before * 1000)
        for owner, at in expiry_times(certificate_files(planned)).items():
            if owner == checked and at < soon:
                yield {"code": "certificate", "at": at}
