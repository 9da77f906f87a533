"""
Requests for background jobs: what may be asked for, with which permissions, and how it is named.

Values of private filters are sealed, and the title and the audit event name only kinds: a job is
listed, and its audit event read, by users who may not see patient data.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.admin.access.permissions import Permission
from bridge.admin.background import exports, jobs
from bridge.admin.background.actions import ACTIONS
from bridge.admin.background.deep_search import compile_conditions
from bridge.admin.background.exports import ExportFormat
from bridge.admin.background.jobs import BackgroundJob, JobKind, NewJob, Requester, Selection
from bridge.admin.background.work import MAX_ACTION_ROWS, MAX_EXPORT_ROWS
from bridge.admin.errors import InvalidContent
from bridge.admin.lists.definitions import LISTS, MESSAGES
from bridge.admin.lists.listing import Access
from bridge.audit import outbox
from bridge.queue.log_tables import pull_new
from bridge.store.database import Database

MAX_IDS: Final = 10_000
MAX_EXCEPT_IDS: Final = 1_000
MAX_EXPORT_COLUMNS: Final = 60
_PRIVATE: Final = frozenset({"number", "name", "text", "kind", "control_id", "hashes"})
"""Filters that the audit event does not contain."""
_VERBS: Final[Mapping[JobKind, str]] = {
    JobKind.REPLAY: "Replay",
    JobKind.RETRY: "Retry",
    JobKind.SKIP: "Skip",
    JobKind.CANCEL: "Cancel",
    JobKind.ACKNOWLEDGE: "Mark as reviewed:",
    JobKind.EXPORT: "Export",
    JobKind.SEARCH: "Search",
}
_FORMATS: Final = {
    ExportFormat.RAW: "raw",
    ExportFormat.CSV: "as CSV",
    ExportFormat.DEIDENTIFIED: "de-identified",
}


@dataclass(frozen=True, slots=True)
class JobRequest:
    """
    What a user asks for.

    Options of an export: `format`, of CSV `columns`, of a de-identified one `keep_text`,
    `keep_sites`, `consistent`, and `as_examples`: the definition whose examples the messages
    become, in place of a file; of all `limit`; of a search: `where`; of an action: `rate`, and
    the `state` for which rows with ids were selected.
    """

    kind: JobKind
    selection: Selection
    options: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def format(self) -> ExportFormat:
        """The format of an export. Raises InvalidContent."""
        found = self.options.get("format")
        if found not in set(ExportFormat):
            raise InvalidContent(f"the format is one of {', '.join(ExportFormat)}")
        return ExportFormat(found)

    @property
    def columns(self) -> Sequence[str]:
        """The columns of a table. Raises InvalidContent."""
        found = self.options.get("columns") or exports.fields_of(self.selection.list)
        if len(found) > MAX_EXPORT_COLUMNS:
            raise InvalidContent(f"at most {MAX_EXPORT_COLUMNS} columns")
        return list(dict.fromkeys(map(str, found)))

    @property
    def permissions(self) -> frozenset[Permission]:
        """The permissions that the job needs, also while it runs. Raises InvalidContent."""
        self._require_known()
        if self.kind is JobKind.SEARCH:
            return frozenset({Permission.FIND, Permission.BODIES})
        if self.kind is not JobKind.EXPORT:
            return frozenset({Permission.OPERATE})
        if self.options.get("as_examples"):
            self._require_examples()
            return frozenset({Permission.AUTHOR, Permission.BODIES})
        if self.format is not ExportFormat.CSV:
            return frozenset({Permission.OPERATE, Permission.BODIES})
        read = exports.permissions_of(self.selection.list, self.columns)
        return frozenset({Permission.OPERATE}) | read

    @property
    def is_sensitive(self) -> bool:
        """True if the user must have confirmed the password lately."""
        if self.kind is JobKind.EXPORT:
            return self.has_patient_data
        single = len(self.selection.ids) == 1
        return self.kind in {JobKind.REPLAY, JobKind.SKIP, JobKind.CANCEL} and not single

    @property
    def has_patient_data(self) -> bool:
        """True if the file of an export contains patient data, as they are."""
        if self.kind is not JobKind.EXPORT or self.format is ExportFormat.DEIDENTIFIED:
            return False
        return Permission.BODIES in self.permissions

    def _require_examples(self) -> None:
        if self.format is not ExportFormat.DEIDENTIFIED or self.selection.list != MESSAGES.name:
            raise InvalidContent("only de-identified messages become examples")

    def _require_known(self) -> None:
        listed = self.selection.list
        known = listed in ACTIONS
        if self.kind is JobKind.SEARCH:
            known = listed == MESSAGES.name
        elif self.kind is not JobKind.EXPORT:
            known = self.kind in ACTIONS.get(listed, ())
        if not known:
            raise InvalidContent(f"there is no {self.kind} of {listed}")


def create(
    database: Database, request: JobRequest, access: Access, requester: Requester, now: int
) -> BackgroundJob:
    """
    Create a job about rows that exist now; rows that arrive later are not included.

    `access` is that of the requester. Raises PermissionDenied, InvalidContent, TooManyJobs,
    ExportsFull.
    """
    for permission in sorted(request.permissions):
        access.require(permission)
    if request.has_patient_data and requester.account_id and not request.reason.strip():
        raise InvalidContent("an export with patient data needs a reason")
    selection = _checked(request, access)
    pull_new(database)
    with database.read() as connection:
        listed = LISTS[selection.list]
        upper = listed.newest_id(connection)
        expected, exact = len(set(selection.ids)), True
        if selection.filters is not None:
            most = _most_rows(request.kind)
            found, exact = listed.count(connection, selection.filters, access, most + 1)
            expected = max(0, found - len(set(selection.except_ids)))
        expected, exact = _limited(request, expected, exact=exact)
        if request.kind is JobKind.EXPORT:
            exports.require_space(connection)
    _require_few(request.kind, expected, request.options)
    job = NewJob(
        kind=request.kind,
        title=_title(request, expected, exact=exact),
        selection=selection,
        upper_id=upper,
        expected=expected,
        exact=exact,
        options=_stored_options(request),
        permissions=request.permissions,
        reason=request.reason.strip(),
    )
    outbox.describe(after=_described(request, expected, exact=exact))
    return jobs.create(database, job, requester, now)


def _checked(request: JobRequest, access: Access) -> Selection:
    """Return the selection with sealed filters. Raises InvalidContent, PermissionDenied."""
    selection = request.selection
    if selection.filters is None:
        if not 0 < len(selection.ids) <= MAX_IDS:
            raise InvalidContent(f"select 1 to {MAX_IDS} rows, or all that match")
        return selection
    if selection.ids or len(selection.except_ids) > MAX_EXCEPT_IDS:
        raise InvalidContent(f"select rows, or all that match except up to {MAX_EXCEPT_IDS}")
    if not selection.filters and request.kind not in {JobKind.EXPORT, JobKind.SEARCH}:
        raise InvalidContent("an action on all rows needs a filter")
    filters = selection.filters
    if selection.list == MESSAGES.name:
        filters = MESSAGES.sealed(filters, access)
    return Selection(selection.list, filters, (), selection.except_ids)


def _limited(request: JobRequest, expected: int, *, exact: bool) -> tuple[int, bool]:
    """Return how many rows are handled with the limit of the request, and whether that is exact."""
    limit = request.options.get("limit")
    return (expected, exact) if limit is None or expected < limit else (int(limit), True)


def _most_rows(kind: JobKind) -> int:
    return MAX_EXPORT_ROWS if kind in {JobKind.EXPORT, JobKind.SEARCH} else MAX_ACTION_ROWS


def _require_few(kind: JobKind, expected: int, options: Mapping[str, Any]) -> None:
    if expected > _most_rows(kind) and not options.get("limit"):
        raise InvalidContent(f"at most {_most_rows(kind):,} rows: narrow the filters")


def _title(request: JobRequest, expected: int, *, exact: bool) -> str:
    one, many = {"messages": ("message", "messages"), "deliveries": ("delivery", "deliveries")}[
        request.selection.list
    ]
    number = f"{expected:,}" if exact else f"{expected:,} or more"
    title = f"{_VERBS[request.kind]} {number} {one if expected == 1 and exact else many}"
    return f"{title} {_FORMATS[request.format]}" if request.kind is JobKind.EXPORT else title


def _stored_options(request: JobRequest) -> dict[str, Any]:
    options = dict(request.options)
    if request.kind is JobKind.EXPORT:
        if request.format is ExportFormat.CSV:
            options["columns"] = list(request.columns)
        if request.format is ExportFormat.DEIDENTIFIED:
            options["nonce"] = "" if options.get("consistent") else secrets.token_hex(32)
    elif request.kind is JobKind.SEARCH:
        compile_conditions(options.get("where") or {})
    return options


def _described(request: JobRequest, expected: int, *, exact: bool) -> dict[str, Any]:
    """Return what the audit event says: no values of private filters, no search conditions."""
    selection = request.selection
    filters = selection.filters or {}
    shown = {name: filters[name] for name in sorted(filters.keys() - _PRIVATE)}
    shown |= dict.fromkeys(sorted(filters.keys() & _PRIVATE), "…")
    options = {
        name: value for name, value in request.options.items() if name not in {"where", "nonce"}
    }
    described: dict[str, Any] = {"kind": request.kind.value, "list": selection.list}
    described |= {"rows": expected, "exact": exact, "options": options}
    return {**described, "filters": shown} if selection.filters is not None else described
