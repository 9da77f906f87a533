"""
Exports of messages and deliveries: raw, as a table (CSV), or de-identified.

The parts of the file, the audit event that names their rows, and the progress of the job are one
transaction. A raw export is a ZIP file with a file for each row, named by the row's id. A
de-identified one names its files by their order: an id would lead back to the original.
"""

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any, Final, Protocol

from sqlalchemy import Connection, insert
from typing_extensions import override

from bridge.active_settings import active_sources, current
from bridge.admin.access.permissions import Permission
from bridge.admin.background import jobs
from bridge.admin.background.actions import event_of
from bridge.admin.background.jobs import BackgroundJob, JobRow, Progress
from bridge.admin.background.work import (
    MAX_EXPORT_ROWS,
    JobContext,
    JobFailed,
    JobWork,
    SelectedRow,
    SelectedRows,
)
from bridge.admin.background.zip_parts import (
    PART_BYTES,
    NumberedPart,
    ZipParts,
    ZipState,
    end_parts,
)
from bridge.admin.channel_operations import charset_of
from bridge.admin.definitions import examples
from bridge.admin.definitions.drafts import check_cached
from bridge.admin.definitions.examples import NewExample
from bridge.admin.errors import InvalidContent, InvalidState
from bridge.admin.lists import deliveries as delivery_columns
from bridge.admin.lists import message_columns
from bridge.admin.lists.columns import MAX_COLUMNS, MAX_IDS, ColumnValues
from bridge.admin.lists.csv_lines import MARK, csv_line
from bridge.admin.lists.definitions import LISTS
from bridge.admin.lists.deliveries import ListedDelivery
from bridge.admin.lists.listing import Access
from bridge.admin.lists.row_json import (
    DELIVERY_FIELDS,
    MESSAGE_FIELDS,
    cell,
    columns_of,
    delivery_json,
    message_json,
)
from bridge.admin.messages.message_index import origin_of
from bridge.audit import outbox
from bridge.delivery.dicom_objects import boundary_of
from bridge.errors import BridgeError
from bridge.index_key import derived_key
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.store.database import Database
from bridge.store.tables import BACKGROUND_JOB_PARTS
from config import Settings
from mappings.authoring.deidentification import Deidentifier, NotDeidentified, Options, options_for
from mappings.inbound.definition import InboundMapping
from mappings.language.scope import ListenerDefaults
from parsers.dicom_file import is_dicom

MAX_FILE: Final = 256 * 2**20
"""Bytes of the file of one export."""
MAX_FILES: Final = 2 * 2**30
"""Bytes of the files of all exports together."""
MAX_DEIDENTIFIED: Final = 2**20
"""Bytes of a message, above which it is not de-identified: that would take too long."""
_ROWS: Final = 1000
"""Rows whose content is in memory, and that one audit event names."""
_STORE_SECONDS: Final = 2.0
_CELL_SECONDS: Final = 60.0
"""Seconds for the content columns of `MAX_IDS` rows; cells of further rows stay empty."""
_TABLE_PART: Final = 4 * PART_BYTES


class ExportFormat(StrEnum):
    RAW = "raw"
    CSV = "csv"
    DEIDENTIFIED = "deidentified"


class ExportsFull(InvalidState):
    """The files of exports occupy the permitted space."""

    code = "exports_full"

    def __init__(self) -> None:
        super().__init__("the files of exports need too much space; they are deleted after a day")


def require_space(connection: Connection) -> None:
    """Raise ExportsFull if no further export may be stored."""
    if jobs.file_bytes(connection) >= MAX_FILES:
        raise ExportsFull


def fields_of(list_name: str) -> Sequence[str]:
    """Return the columns of a table without a choice: none contains patient data."""
    return {"messages": MESSAGE_FIELDS, "deliveries": DELIVERY_FIELDS}[list_name]


def content_of(list_name: str, columns: Sequence[str]) -> list[str]:
    """Return those columns that are read from the content of the rows."""
    known = columns_of(list_name)
    return [column for column in columns if column not in known]


def permissions_of(list_name: str, columns: Sequence[str]) -> frozenset[Permission]:
    """Return the permissions that columns need. Raises InvalidContent for an unknown one."""
    reader = {
        "messages": message_columns.permission_of,
        "deliveries": delivery_columns.permission_of,
    }[list_name]
    return frozenset(map(reader, content_of(list_name, columns)))


class _Writer(Protocol):
    """Writes rows into parts of a file."""

    at_once: int

    @property
    def size(self) -> int:
        """The bytes in memory."""

    def add(self, ids: Sequence[int], access: Access) -> list[JobRow]:
        """Add up to `at_once` rows; return those that could not be written, with the reason."""

    def take(self) -> tuple[list[NumberedPart], dict[str, int]]:
        """Return the parts in memory, and what another process needs to continue after them."""

    def end(self) -> list[NumberedPart]:
        """Return the parts that complete the file."""

    def store(self, connection: Connection) -> None:
        """Store what is no part of the file. Raises InvalidContent."""


class Export(JobWork):
    """The work of an export."""

    def __init__(self, context: JobContext, job: BackgroundJob) -> None:
        self._context = context
        self._job = job
        self._rows = SelectedRows(context.database, job)
        self._state: dict[str, int] = dict(job.result.get("state", {}))
        self._writer = _make_writer(context, job, self._state)
        self._left = int(job.options.get("limit") or MAX_EXPORT_ROWS) - job.handled
        self._ids: list[int] = []
        self._failures: list[JobRow] = []
        self._cursor = job.cursor
        self._stored_at = time.monotonic()

    @override
    def step(self, access: Access, until: float) -> bool:
        if "ended" in self._state:  # by a process that was killed immediately after
            return True
        while True:
            self._write(self._next_rows(access, until), access)
            is_complete = self._rows.is_complete or self._left <= 0
            if is_complete or self._is_due():
                self._store(is_complete=is_complete)
            if is_complete or time.monotonic() >= until:
                return is_complete

    @override
    def result(self) -> dict[str, object]:
        with self._context.database.read() as connection:
            size = jobs.file_bytes(connection, self._job.id)
        more = bool(self._state.get("more"))
        if name := self._job.options.get("as_examples"):
            return {"definition": name, "more": more}
        keep = round(self._context.settings.console.keep_exports * 1000)
        until = self._context.clock() + keep
        return {"name": file_name(self._job), "bytes": size, "more": more, "until": until}

    def _next_rows(self, access: Access, until: float) -> list[SelectedRow]:
        rows: list[SelectedRow] = []
        while len(rows) < min(self._writer.at_once, self._left):
            row = self._rows.next(access, until)
            if row is None:
                break
            rows.append(row)
        return rows

    def _write(self, rows: Sequence[SelectedRow], access: Access) -> None:
        ids = [row.id for row in rows if not row.is_hidden]
        self._failures += [JobRow(row.id, "not_found", "") for row in rows if row.is_hidden]
        if ids:
            self._failures += self._writer.add(ids, access)
        self._ids += [row.id for row in rows]
        self._left -= len(rows)

    def _is_due(self) -> bool:
        """True if the parts in memory are to be stored."""
        if len(self._ids) >= _ROWS or self._writer.size >= PART_BYTES:
            return True
        is_old = time.monotonic() - self._stored_at > _STORE_SECONDS
        return is_old and self._rows.cursor != self._cursor

    def _store(self, *, is_complete: bool) -> None:
        """Store the parts, their audit event and the progress in one transaction."""
        job, context = self._job, self._context
        numbered, state = self._writer.take()
        if is_complete:
            numbered += self._writer.end()
            state = {**state, "ended": 1, "more": int(not self._rows.is_complete)}
        counts = Progress(
            *(self._rows.cursor, len(self._ids)),
            *(len(self._ids) - len(self._failures), len(self._failures)),
        )
        with context.database.write_without_sync() as connection:
            self._writer.store(connection)
            _add_parts(connection, job.id, numbered)
            for failure in self._failures:
                jobs.store_row(connection, job.id, failure)
            jobs.store_progress(connection, job.id, context.owner, counts, {"state": state})
            if self._ids:
                event = event_of(job, "export", (job.selection.list, ""))
                event = replace(event, after={"ids": self._ids, "format": job.options["format"]})
                outbox.add(connection, event, context.clock())
        self._state, self._ids, self._failures = state, [], []
        self._cursor, self._stored_at = self._rows.cursor, time.monotonic()


def _add_parts(connection: Connection, job_id: int, numbered: Sequence[NumberedPart]) -> None:
    """Store parts of a file. Raises JobFailed if the file or all files become too large."""
    if not numbered:
        return
    new = sum(len(content) for _, content in numbered)
    if jobs.file_bytes(connection, job_id) + new > MAX_FILE:
        limit = f"the file would have more than {MAX_FILE >> 20} MiB: select fewer rows"
        raise JobFailed("export_too_large", limit)
    if jobs.file_bytes(connection) + new > MAX_FILES:
        raise ExportsFull
    rows = [{"job_id": job_id, "number": number, "content": part} for number, part in numbered]
    connection.execute(insert(BACKGROUND_JOB_PARTS), rows)


def file_name(job: BackgroundJob) -> str:
    """Return the name of an export's file, without patient data."""
    kind = ExportFormat(job.options["format"])
    ending = "csv" if kind is ExportFormat.CSV else "zip"
    return f"{job.selection.list}-{kind.value}-{job.id}.{ending}"


def unpacked(job: BackgroundJob, part: bytes) -> bytes:
    """Return a stored part as it is in the file."""
    return zlib.decompress(part) if job.options["format"] == ExportFormat.CSV else part


def _make_writer(context: JobContext, job: BackgroundJob, state: Mapping[str, int]) -> _Writer:
    match ExportFormat(job.options["format"]):
        case ExportFormat.CSV:
            return _TableWriter(context, job, state)
        case ExportFormat.RAW:
            return _make_files_writer(context, job, state, deidentified=False)
        case ExportFormat.DEIDENTIFIED if job.options.get("as_examples"):
            return _ExampleWriter(context, job)
        case ExportFormat.DEIDENTIFIED:
            return _make_files_writer(context, job, state, deidentified=True)


@dataclass(frozen=True, slots=True)
class _Content:
    """The message of a row, and what the index says about it."""

    row: Mapping[str, Any]
    payload: bytes


class _NotWritten(BridgeError):
    """A row that is left out; `code` is its outcome."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        super().__init__(detail)


ContentReader = Callable[[int], _Content]
"""Returns the message of a row. Raises _NotWritten, NoSuchRow."""


class _FilesWriter:
    """Writes a ZIP file with a file for each row, and an index."""

    at_once = 1

    def __init__(
        self,
        job: BackgroundJob,
        state: Mapping[str, int],
        read: ContentReader,
        columns: Sequence[str],
        name: Callable[[int, int], str],
    ) -> None:
        """`name` returns the name of a file without its ending, by row id and number."""
        known = {field: state[field] for field in ZipState.__slots__ if field in state}
        self._zip = ZipParts(ZipState(**known))
        self._after = ZipState(**known)
        self._list = job.selection.list
        self._read = read
        self._columns = columns
        self._name = name
        if not state:
            self._zip.add_to_index(csv_line(["file", *columns]))

    @property
    def size(self) -> int:
        return self._zip.size

    def add(self, ids: Sequence[int], access: Access) -> list[JobRow]:
        failures = []
        for row_id in ids:
            try:
                content = self._read(row_id)
            except NoSuchRow:
                failures.append(JobRow(row_id, "not_found", ""))
                continue
            except _NotWritten as reason:
                failures.append(JobRow(row_id, reason.code, str(reason)))
                continue
            name = f"{self._name(row_id, self._zip.files + 1)}.{_ending(content.payload)}"
            self._zip.add(name, content.payload)
            cells = [cell(self._list, content.row, column, 0) for column in self._columns]
            self._zip.add_to_index(csv_line([name, *cells]))
        return failures

    def take(self) -> tuple[list[NumberedPart], dict[str, int]]:
        numbered, self._after = self._zip.take()
        return numbered, asdict(self._after)

    def end(self) -> list[NumberedPart]:
        return end_parts(self._after)

    def store(self, connection: Connection) -> None:
        """Store nothing else."""


_INDEX: Final = {
    "messages": (
        *("id", "received_at", "listener", "message_type", "state", "cause"),
        *("mapping", "mapping_version"),
    ),
    "deliveries": ("id", "created_at", "destination", "event", "state", "cause", "control_id"),
}
_DEIDENTIFIED_INDEX: Final = {
    "messages": ("listener", "message_type", "mapping", "state", "cause"),
    "deliveries": ("destination", "event", "state", "cause"),
}
"""Without ids and times, which would lead back to the originals."""


def _ending(payload: bytes) -> str:
    """Return the ending of a file: DICOM, several documents for a PACS, or HL7."""
    if is_dicom(payload):
        return "dcm"
    return "mime" if boundary_of(payload) else "hl7"


def _make_files_writer(
    context: JobContext, job: BackgroundJob, state: Mapping[str, int], *, deidentified: bool
) -> _FilesWriter:
    listed = job.selection.list
    read = {"messages": _message_content, "deliveries": _delivery_content}[listed]
    if not deidentified:
        reader = partial(read, context)
        return _FilesWriter(job, state, reader, _INDEX[listed], lambda row_id, _: f"{row_id}")
    deidentifiers = _Deidentifiers(context, job)
    replaced = {"messages": deidentifiers.message, "deliveries": deidentifiers.delivery}[listed]
    columns = _DEIDENTIFIED_INDEX[listed]
    return _FilesWriter(job, state, replaced, columns, lambda _, number: f"{number:06}")


def _message_content(context: JobContext, row_id: int) -> _Content:
    detail = queries.message(context.database, row_id)
    return _Content(message_json(detail.row), detail.payload)


def _delivery_content(context: JobContext, row_id: int) -> _Content:
    detail = queries.delivery(context.database, row_id)
    if not detail.payload:
        raise _NotWritten("not_composed", "its message is not composed yet")
    return _Content(delivery_json(ListedDelivery(detail.row, None)), detail.payload)


class _Deidentifiers:
    """
    De-identifies the messages of an export with one key, by the definition of each.

    The key is derived from the index key of the installation and the nonce of the export. The nonce
    is deleted at the end, and then nobody can compute the key. With `consistent`, there is no
    nonce: all such exports of the installation replace equal values equally.
    """

    def __init__(self, context: JobContext, job: BackgroundJob) -> None:
        self._context = context
        nonce = bytes.fromhex(job.options.get("nonce", ""))
        self._key = derived_key("de-identification", nonce)
        self._options = Options(
            text="keep" if job.options.get("keep_text") else "remove",
            keep_sites=bool(job.options.get("keep_sites", True)),
        )
        self._sources = active_sources(context.settings, context.database)
        self._destinations = {
            destination.name: destination.mapping
            for destination in current(context.settings, context.database).destination
        }
        self._of_definition = lru_cache(maxsize=16)(self._make)

    def message(self, row_id: int) -> _Content:
        detail = queries.message(self._context.database, row_id)
        _require_small(detail.payload)
        origin = origin_of(detail)
        _, events = self._context.subjects_of.read(origin)
        patient = events[0].mrn if events else ""
        charset = charset_of(self._context.settings, self._context.database, origin.listener)
        deidentifier = self._of_definition(origin.mapping, origin.version)
        payload = _deidentified(deidentifier, detail.payload, patient, charset)
        return _Content(message_json(detail.row), payload)

    def delivery(self, row_id: int) -> _Content:
        content = _delivery_content(self._context, row_id)
        _require_small(content.payload)
        definition = self._destinations.get(str(content.row["destination"]), "")
        deidentifier = self._of_definition(definition, "")
        payload = _deidentified(deidentifier, content.payload, "", "utf-8")
        return _Content(content.row, payload)

    def _make(self, definition: str, version: str) -> Deidentifier:
        """Make what de-identifies messages of a definition: it keeps the codes that it names."""
        found = self._context.subjects_of.definition(definition, version) if version else None
        sources = found.sources if found else self._sources(definition) if definition else {}
        return Deidentifier(self._key, options_for(sources, self._options))


class _ExampleWriter:
    """Stores de-identified messages as examples of a definition, in place of a file."""

    at_once = 1

    def __init__(self, context: JobContext, job: BackgroundJob) -> None:
        self._context = context
        self._job = job
        name = job.options["as_examples"]
        self._mapping = active_mapping(context.settings, context.database, name)
        settings = current(context.settings, context.database)
        self._listeners = {entry.name: entry for entry in settings.listener}
        self._read = _Deidentifiers(context, job).message
        self._new: list[NewExample] = []

    @property
    def size(self) -> int:
        return sum(len(example.payload) for example in self._new)

    def add(self, ids: Sequence[int], access: Access) -> list[JobRow]:
        failures = []
        for row_id in ids:
            try:
                self._new.append(self._example(row_id))
            except NoSuchRow:
                failures.append(JobRow(row_id, "not_found", ""))
            except _NotWritten as reason:
                failures.append(JobRow(row_id, reason.code, str(reason)))
        return failures

    def take(self) -> tuple[list[NumberedPart], dict[str, int]]:
        return [], {}

    def end(self) -> list[NumberedPart]:
        return []

    def store(self, connection: Connection) -> None:
        now = self._context.clock()
        examples.add(connection, self._mapping, self._new, self._job.actor, now)
        self._new = []

    def _example(self, row_id: int) -> NewExample:
        content = self._read(row_id)
        listener = self._listeners.get(str(content.row["listener"]))
        if listener is None:
            raise _NotWritten("not_found", "its listener was removed")
        # The time of receipt would lead back to the original.
        moment = datetime.fromtimestamp(self._context.clock() / 1000, UTC)
        defaults = ListenerDefaults(listener.site, listener.time_zone, moment)
        label = f"{content.row['message_type']} of {listener.name}"
        return NewExample(label, listener.name, content.payload, listener.charset, defaults)


def active_mapping(settings: Settings, database: Database, name: str) -> InboundMapping:
    """Return the active version of a definition. Raises InvalidContent if it reads no messages."""
    sources = active_sources(settings, database)(name)
    compiled = check_cached(sources, name).compiled if f"{name}.yaml" in sources else None
    if not isinstance(compiled, InboundMapping):
        raise InvalidContent(f"no active definition {name} reads messages")
    return compiled


def _require_small(payload: bytes) -> None:
    if len(payload) > MAX_DEIDENTIFIED:
        raise _NotWritten("too_large", f"it has more than {MAX_DEIDENTIFIED >> 20} MiB")


def _deidentified(deidentifier: Deidentifier, payload: bytes, patient: str, charset: str) -> bytes:
    if is_dicom(payload) or boundary_of(payload):
        raise _NotWritten("not_deidentified", "it is or contains a DICOM object")
    try:
        return deidentifier.message(payload, patient, charset)
    except NotDeidentified as error:
        raise _NotWritten("not_deidentified", str(error)) from None


class _TableWriter:
    """Writes a table: one line for each row, as CSV in UTF-8, with a mark for spreadsheets."""

    at_once = MAX_IDS

    def __init__(self, context: JobContext, job: BackgroundJob, state: Mapping[str, int]) -> None:
        self._context = context
        self._list = job.selection.list
        self._columns: list[str] = list(job.options["columns"])
        self._own = columns_of(self._list)
        self._parts = state.get("parts", 0)
        self._text = "" if state else MARK + csv_line(self._columns)

    @property
    def size(self) -> int:
        return len(self._text) // 4  # about what is left after compression

    def add(self, ids: Sequence[int], access: Access) -> list[JobRow]:
        with self._context.database.read() as connection:
            rows = LISTS[self._list].rows(connection, ids, access)
        to_json: Any = message_json if self._list == "messages" else delivery_json
        content = self._content([row.id for row in rows], access)
        now = self._context.clock()
        for row in reversed(rows):
            values, read = to_json(row), content.get(row.id, {})
            cells = (
                cell(self._list, values, name, now) if name in self._own else read.get(name, "")
                for name in self._columns
            )
            self._text += csv_line(list(cells))
        written = {row.id for row in rows}
        return [JobRow(row_id, "not_found", "") for row_id in ids if row_id not in written]

    def take(self) -> tuple[list[NumberedPart], dict[str, int]]:
        data, self._text = self._text.encode(), ""
        pieces = [data[at : at + _TABLE_PART] for at in range(0, len(data), _TABLE_PART)]
        numbered = list(enumerate(map(zlib.compress, pieces), self._parts))
        self._parts += len(numbered)
        return numbered, {"parts": self._parts}

    def end(self) -> list[NumberedPart]:
        return []

    def store(self, connection: Connection) -> None:
        """Store nothing else."""

    def _content(self, ids: list[int], access: Access) -> dict[int, dict[str, str]]:
        """Return the values of the columns that are read from content."""
        columns = content_of(self._list, self._columns)
        found: dict[int, dict[str, str]] = {}
        for start in range(0, len(columns) if ids else 0, MAX_COLUMNS):
            some = columns[start : start + MAX_COLUMNS]
            for row_id, values in self._values(ids, some, access).values.items():
                found.setdefault(row_id, {}).update(values)
        return found

    def _values(self, ids: list[int], columns: Sequence[str], access: Access) -> ColumnValues:
        database = self._context.database
        if self._list == "deliveries":
            return delivery_columns.column_values(database, ids, columns, access)
        subjects_of = self._context.subjects_of
        return message_columns.values(database, subjects_of, ids, columns, access, _CELL_SECONDS)
