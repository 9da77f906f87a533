"""
Definitions, drafts and versions for the console: the overview of all, and the editor of one.

Activations go through `bridge.admin.definitions.activation`, which checks the definition together
with the listeners and destinations that use it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import Connection

from bridge import active_settings
from bridge.active_settings import all_sources, file_sources
from bridge.admin.background import jobs
from bridge.admin.definitions import drafts as drafting
from bridge.admin.definitions import examples, shadow
from bridge.admin.definitions.activation import (
    Author,
    activate,
    differing_definitions,
    find_version,
    previous_version,
    rollback,
)
from bridge.admin.definitions.drafts import (
    DraftConflict,
    adds_code,
    as_operator_errors,
    check_cached,
    issue_json,
    require_code_permission,
    require_readable,
)
from bridge.admin.errors import InvalidContent, NoSuchItem
from bridge.delivery.destination_settings import destination_definition_names
from bridge.queue.queries import MessageCount, count_by_definition
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records import unmapped_codes as code_records
from bridge.store.records.mapping_versions import Activation, MappingDraft, MappingVersion
from bridge.store.records.unmapped_codes import CodeKey
from config import Settings
from mappings.authoring.code_entries import entry_edit
from mappings.authoring.text_edits import EditRefused, apply_edits
from mappings.compiler import Compiled, definition_names
from mappings.inbound.definition import InboundMapping
from mappings.inbound.order_mapping import OrderRules
from mappings.inbound.outside_mapping import OutsideRules
from mappings.language.code_tables import table_file
from mappings.language.diagnostics import Sources
from mappings.outbound.worklist_item import WorklistMapping


def activation_json(found: Activation) -> dict[str, Any]:
    return {
        "version": found.version,
        "at": found.at,
        "actor": found.actor,
        "reason": found.reason,
        "origin": found.origin.value,
        "evidence": json.loads(found.evidence) if found.evidence else None,
    }


def draft_json(found: MappingDraft) -> dict[str, Any]:
    """Return the JSON form of a draft, without its files."""
    return {
        "actor": found.actor,
        "saved_at": found.saved_at,
        "begun_on": found.begun_on,
        "revision": found.revision,
        "checked_version": found.checked_version,
    }


WORKLIST: Final = "worklist"


def kind_of(compiled: Compiled | None) -> str:
    """Return the kind of a definition, `results` for all outbound ones; empty with errors."""
    if compiled is None:
        return ""
    if isinstance(compiled, WorklistMapping):
        return WORKLIST
    if not isinstance(compiled, InboundMapping):
        return "results"
    if isinstance(compiled.plan, OutsideRules):
        return "outside-reports"
    return "orders" if isinstance(compiled.plan, OrderRules) else "patients"


_COUNTED_MS: Final = 86_400_000


def overview(settings: Settings, database: Database, now: int) -> Mapping[str, Any]:
    """
    List listeners and destinations with their definitions, and all definitions; `now` in ms.

    `counted` of a definition are its messages of the last 24 hours, and the refused ones;
    `counts_exact` is false if there are more messages than are counted.
    """
    current = active_settings.current(settings, database)
    with database.read() as connection:
        active = mapping_versions.active_versions(connection)
        drafts = mapping_versions.drafts(connection)
    in_file = {listener.name: listener.mappings for listener in settings.listener}
    known = {*definition_names(file_sources(settings)("")), *active, *(e.name for e in drafts)}
    differ = set(differing_definitions(settings, database))
    counts, exact = count_by_definition(database, now - _COUNTED_MS)
    return {
        "counts_exact": exact,
        "listeners": [
            {
                "name": listener.name,
                "address": str(listener.bind),
                "mappings": listener.mappings,
                "settings": in_file.get(listener.name, listener.mappings),
                "said": _activation(active.get(active_settings.list_record_name(listener.name))),
            }
            for listener in current.listener
        ],
        "destinations": [
            {
                "name": destination.name,
                "address": str(destination.address),
                "mappings": list(destination_definition_names(destination)),
            }
            for destination in current.destination
        ],
        "definitions": [
            {
                "name": name,
                "kind": _kind(settings, database, name),
                "in_force": _activation(active.get(name)),
                "used": connections_using(current, name),
                "drafts": [draft_json(draft) for draft in drafts if draft.name == name],
                "files_differ": name in differ,
                "counted": asdict(counts.get(name, MessageCount())),
            }
            for name in sorted(known)
            if not active_settings.is_record(name)
        ],
    }


def definition_kinds(settings: Settings, database: Database) -> Mapping[str, str]:
    """
    Return the kind (`orders`, `patients`, `results`) of each definition without errors.

    Without those of the worklist, which no connection uses.
    """
    with database.read() as connection:
        active = {
            name
            for name in mapping_versions.active_versions(connection)
            if not active_settings.is_record(name)
        }
    known = sorted({*definition_names(file_sources(settings)("")), *active})
    found = {name: _kind(settings, database, name) for name in known}
    return {name: kind for name, kind in found.items() if kind not in ("", WORKLIST)}


def connections_using(settings: Settings, name: str) -> dict[str, list[str]]:
    """Return the listeners and destinations that use a definition."""
    return {
        "listeners": [listener.name for listener in settings.listener if name in listener.mappings],
        "destinations": [
            destination.name
            for destination in settings.destination
            if name in destination_definition_names(destination)
        ],
    }


def _activation(found: Activation | None) -> dict[str, Any] | None:
    return activation_json(found) if found else None


def _kind(settings: Settings, database: Database, name: str) -> str:
    return kind_of(check_cached(all_sources(settings, database, name), name).compiled)


@dataclass(frozen=True, slots=True)
class DraftEdit:
    """
    The changed files of a draft, by their names in a mappings folder.

    `begun_on` is the version and `revision` the stored revision that the edit is based on. `code`:
    the actor has the permission `code`, to change Python hooks. `actor` is an e-mail address.
    """

    name: str
    actor: str
    files: Mapping[str, str]
    begun_on: str
    revision: int
    code: bool = False


@dataclass(frozen=True, slots=True)
class ActivationRequest:
    """
    A version to activate, with the reason: a draft, or an older `version` for a rollback.

    If another version than `begun_on` is active, the activation is refused. `revision` is that of
    the draft. `listeners` then use the definition before their others. `code` as in `DraftEdit`.
    `shadow_job` is the shadow run of this version, which may still run.
    """

    name: str
    actor: str
    reason: str
    begun_on: str
    revision: int = 0
    version: str = ""
    listeners: Sequence[str] = ()
    code: bool = False
    shadow_job: int | None = None


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """
    A new entry of a code table.

    `back`: a message has the unmapped `value`, and the author adds its `code`; else a message has
    the unmapped `code`.
    """

    name: str
    actor: str
    table: str
    code: str
    value: str
    back: bool = False


class DefinitionEditor:
    """Definitions with their drafts, versions and unmapped codes. Blocking."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], int]) -> None:
        self._settings = settings
        self._database = database
        self._clock = clock

    def definition(self, name: str, actor: str) -> Mapping[str, Any]:
        """Return a definition with its files, and the actor's draft."""
        with self._database.read() as connection:
            active = mapping_versions.active_versions(connection).get(name)
            version = active and mapping_versions.find(connection, name, active.version)
            drafts = [known for known in mapping_versions.drafts(connection) if known.name == name]
        own_draft = next((known for known in drafts if known.actor == actor), None)
        files = file_sources(self._settings)(name)
        if active is None and not drafts and f"{name}.yaml" not in files:
            raise NoSuchItem("there is no such definition")
        sources = all_sources(self._settings, self._database, name)
        draft = dict(own_draft.sources) if own_draft else {}
        return {
            "name": name,
            "in_force": activation_json(active) if active else None,
            "held": sorted(version.sources) if version else self._held(name, sources),
            "sources": sources,
            "newer": self._newer(name, version.sources if version else {}),
            "draft": {**draft_json(own_draft), "files": draft} if own_draft else None,
            "others": [draft_json(known) for known in drafts if known is not own_draft],
            "used": connections_using(
                active_settings.current(self._settings, self._database), name
            ),
            **self._checked(name, {**sources, **draft}),
        }

    def save(self, edit: DraftEdit) -> Mapping[str, Any]:
        """Store a draft, also with errors; return the errors."""
        with as_operator_errors():
            require_readable(edit.files)
        known = all_sources(self._settings, self._database, edit.name)
        sources = {**known, **edit.files}
        self._require_code(edit, sources, edit.files)
        draft = MappingDraft(
            edit.name,
            edit.actor,
            edit.files,
            edit.begun_on,
            edit.revision,
            check_cached(sources, edit.name).version,
            self._clock(),
        )
        with as_operator_errors():
            saved = drafting.store_draft(self._database, draft)
        return {**draft_json(saved), **self._checked(edit.name, sources)}

    def discard(self, name: str, actor: str) -> None:
        """Delete a draft."""
        with self._database.write() as connection:
            mapping_versions.delete_draft(connection, name, actor)

    def history(self, name: str) -> Sequence[Mapping[str, Any]]:
        """List the activations of a definition, newest first."""
        with self._database.read() as connection:
            return [activation_json(entry) for entry in mapping_versions.history(connection, name)]

    def version(self, name: str, version: str) -> Mapping[str, Any]:
        with as_operator_errors(), self._database.read() as connection:
            found = find_version(connection, name, version)
        return {"version": found.version, "files": found.sources}

    def changes_hooks(self, change: DraftEdit | ActivationRequest) -> bool:
        """True if a change contains Python code that the active version does not."""
        name, written = change.name, dict[str, str]()
        if isinstance(change, DraftEdit):
            written = dict(change.files)
        elif change.revision:
            with self._database.read() as connection:
                own = mapping_versions.draft(connection, name, change.actor)
            written = dict(own.sources) if own else {}
        else:
            with as_operator_errors(), self._database.read() as connection:
                older = self._older(connection, change).sources
            return adds_code(self._settings, self._database, name, older)
        sources = {**all_sources(self._settings, self._database, name), **written}
        return adds_code(self._settings, self._database, name, sources, written)

    def activate(self, request: ActivationRequest) -> Mapping[str, Any]:
        """Activate the actor's draft."""
        name = request.name
        with self._database.read() as connection:
            draft = mapping_versions.draft(connection, name, request.actor)
        with as_operator_errors():
            if draft is None:
                raise drafting.NoDraft(name)
            if draft.revision != request.revision:
                raise DraftConflict(name)
            sources = all_sources(self._settings, self._database, name, draft.sources)
            self._require_code(request, sources, draft.sources)
            chosen = [(name, sources)]
            begun_on, records = {name: request.begun_on}, self._definition_lists(request)
            author = self._author(request)
            (done,) = activate(
                self._settings,
                self._database,
                chosen,
                replace(author, evidence=self._evidence(request, sources)),
                begun_on=begun_on,
                records=records,
            )
        self.discard(name, request.actor)
        return {"version": done.version, "before": done.before}

    def rollback(self, request: ActivationRequest) -> Mapping[str, Any]:
        """Activate the named older version, or the previous one."""
        name = request.name
        with as_operator_errors():
            with self._database.read() as connection:
                older = self._older(connection, request)
            self._require_code(request, older.sources)
            done = rollback(
                self._settings,
                self._database,
                name,
                self._author(request),
                older.version,
                {request.name: request.begun_on},
            )
        return {"version": done.version, "before": done.before}

    def unmapped_codes(self, actor: str) -> Sequence[Mapping[str, Any]]:
        """List codes of messages that have no entry in a code table."""
        return drafting.list_unmapped_codes(
            self._database, lambda name: self._draft(name, actor)[0]
        )

    def ignore_code(self, name: str, table: str, code: str, actor: str) -> None:
        """Record that a code stays without an entry. Raises NoSuchItem."""
        key = CodeKey(name, table, code)
        if not code_records.mark_seen(self._database, key, actor, self._clock()):
            raise NoSuchItem("there is no such code, or it is marked as seen already")

    def add_code(self, entry: CodeEntry) -> Mapping[str, Any]:
        """Add an entry to the actor's draft. Raises NoSuchItem, InvalidContent."""
        files, begun_on, revision = self._draft(entry.name, entry.actor)
        file = table_file(entry.table)
        text = {**all_sources(self._settings, self._database, entry.name), **files}.get(file)
        if text is None:
            raise NoSuchItem("there is no such code table")
        code, value = (entry.value, entry.code) if entry.back else (entry.code, entry.value)
        try:
            changed = apply_edits(text, entry_edit(text, code, value))
        except EditRefused as refused:
            raise InvalidContent(refused.reason) from None
        written = {**files, file: changed}
        return self.save(DraftEdit(entry.name, entry.actor, written, begun_on, revision))

    def set_listener_definitions(
        self, request: ActivationRequest, names: Sequence[str]
    ) -> Mapping[str, Any]:
        """Set the definitions of listener `request.name`; an empty list: as in its settings."""
        record = active_settings.make_list_record(request.name, names)
        with as_operator_errors():
            activate(
                self._settings,
                self._database,
                [],
                self._author(request),
                begun_on={record.name: request.begun_on},
                records=[record],
            )
        return {}

    def _draft(self, name: str, actor: str) -> tuple[Sources, str, int]:
        """Return the files of an author's draft, its base version, and its revision."""
        with self._database.read() as connection:
            own = mapping_versions.draft(connection, name, actor)
            active = mapping_versions.active_versions(connection).get(name)
        if own is not None:
            return own.sources, own.begun_on, own.revision
        return {}, active.version if active else "", 0

    def _definition_lists(self, request: ActivationRequest) -> list[MappingVersion]:
        """Return the definition lists of the chosen listeners, with the definition put first."""
        known = active_settings.current(self._settings, self._database).listener
        lists = []
        for name in request.listeners:
            found = next((section.mappings for section in known if section.name == name), None)
            if found is None:
                raise active_settings.NoSuchListener(name)
            if request.name not in found:
                lists.append(active_settings.make_list_record(name, [request.name, *found]))
        return lists

    def _newer(self, name: str, held: Mapping[str, str]) -> dict[str, str]:
        """Return the files whose sources changed since the activation, with new texts."""
        known = all_sources(self._settings, self._database, "")
        on_disk = file_sources(self._settings)(name)
        latest = {
            file: on_disk.get(file, "") if file == f"{name}.yaml" else known[file] for file in held
        }
        return {file: text for file, text in latest.items() if text and text != held[file]}

    def _held(self, name: str, sources: Mapping[str, str]) -> list[str]:
        """Return the files of a definition that was never activated."""
        compiled = check_cached(sources, name).compiled
        main = f"{name}.yaml"
        return list(compiled.files) if compiled else [main] if main in sources else []

    def _checked(self, name: str, sources: Mapping[str, str]) -> dict[str, Any]:
        found = check_cached(sources, name)
        return {
            "kind": kind_of(found.compiled),
            "version": found.version,
            "needed": list(found.compiled.files) if found.compiled else [],
            "issues": [
                issue_json(issue)
                for issue in (*found.issues, *examples.issues_of(self._database, found.compiled))
            ],
        }

    def _older(self, connection: Connection, request: ActivationRequest) -> MappingVersion:
        if request.version:
            return find_version(connection, request.name, request.version)
        return previous_version(connection, request.name)

    def _require_code(
        self,
        by: DraftEdit | ActivationRequest,
        sources: Sources,
        written: Sources = MappingProxyType({}),
    ) -> None:
        require_code_permission(
            self._settings, self._database, by.name, sources, written, code=by.code
        )

    def _evidence(self, request: ActivationRequest, sources: Sources) -> Mapping[str, str]:
        """Return what the shadow run of a draft has proved. Raises NoSuchItem, InvalidContent."""
        if request.shadow_job is None:
            return {}
        job = jobs.find(self._database, request.shadow_job)
        compiled = check_cached(sources, request.name).compiled
        if compiled is None or not shadow.is_of(job, request.name):
            raise NoSuchItem("there is no such shadow run")
        return {request.name: json.dumps(shadow.evidence_of(job, compiled.version))}

    def _author(self, request: ActivationRequest) -> Author:
        return Author(request.actor, self._clock(), request.reason)
