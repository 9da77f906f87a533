"""
Definitions, drafts and versions for the console.

Activations go through `bridge.admin.definitions.activation`, which checks the definition together
with the listeners and destinations that use it.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection
from typing_extensions import override

from bridge.admin.definitions import console_forms, drafts
from bridge.admin.definitions import drafts as drafting
from bridge.admin.definitions.activation import (
    Author,
    activate,
    differing_definitions,
    find_version,
    previous_version,
    rollback,
)
from bridge.admin.definitions.console_forms import (
    adds_code,
    as_console_errors,
    check_cached,
    require_code_permission,
    require_readable,
)
from bridge.admin.definitions.drafts import DraftConflict
from bridge.console.context import ActivationRequest, CodeEntry, DefinitionDrafts, DraftEdit
from bridge.console.errors import NoSuchItem
from bridge.store.database import Database
from bridge.store.records import mapping_versions
from bridge.store.records import unmapped_codes as unknown_codes
from bridge.store.records.mapping_versions import Activation, MappingDraft, MappingVersion
from bridge.store.records.unmapped_codes import CodeKey
from bridge.wiring import active_settings
from bridge.wiring.active_settings import all_sources, file_sources
from bridge.wiring.destinations import destination_definition_names
from config import Settings
from mappings.compiler import definition_names
from mappings.language.code_tables import file_of
from mappings.language.diagnostics import Sources


def overview(settings: Settings, database: Database) -> Mapping[str, Any]:
    """List listeners and destinations with their definitions, and all definitions."""
    current = active_settings.current(settings, database)
    with database.read() as connection:
        active = mapping_versions.active_versions(connection)
        drafts = mapping_versions.drafts(connection)
    own = {each.name: each.mappings for each in settings.listener}
    known = {*definition_names(file_sources(settings)("")), *active, *(e.name for e in drafts)}
    differ = set(differing_definitions(settings, database))
    return {
        "listeners": [
            {
                "name": each.name,
                "address": str(each.bind),
                "mappings": each.mappings,
                "settings": own.get(each.name, each.mappings),
                "said": _activation(active.get(active_settings.list_record_name(each.name))),
            }
            for each in current.listener
        ],
        "destinations": [
            {
                "name": each.name,
                "address": str(each.address),
                "mappings": list(destination_definition_names(each)),
            }
            for each in current.destination
        ],
        "definitions": [
            {
                "name": name,
                "kind": _kind(settings, database, name),
                "in_force": _activation(active.get(name)),
                "used": users(current, name),
                "drafts": [console_forms.draft(each) for each in drafts if each.name == name],
                "files_differ": name in differ,
            }
            for name in sorted(known)
            if not active_settings.is_record(name)
        ],
    }


def kinds(settings: Settings, database: Database) -> Mapping[str, str]:
    """Return the kind (`orders`, `patients`, `results`) of each definition without errors."""
    with database.read() as connection:
        active = {
            name
            for name in mapping_versions.active_versions(connection)
            if not active_settings.is_record(name)
        }
    known = sorted({*definition_names(file_sources(settings)("")), *active})
    found = {name: _kind(settings, database, name) for name in known}
    return {name: kind for name, kind in found.items() if kind}


def users(settings: Settings, name: str) -> dict[str, list[str]]:
    """Return the listeners and destinations that use a definition."""
    return {
        "listeners": [each.name for each in settings.listener if name in each.mappings],
        "destinations": [
            each.name for each in settings.destination if name in destination_definition_names(each)
        ],
    }


def _activation(found: Activation | None) -> dict[str, Any] | None:
    return console_forms.activation(found) if found else None


def _kind(settings: Settings, database: Database, name: str) -> str:
    return console_forms.kind(check_cached(all_sources(settings, database, name), name).compiled)


class ConsoleDrafts(DefinitionDrafts):
    """See `bridge.console.context.DefinitionDrafts`."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], int]) -> None:
        self._settings = settings
        self._database = database
        self._clock = clock

    @override
    def overview(self) -> Mapping[str, Any]:
        return overview(self._settings, self._database)

    @override
    def definition(self, name: str, actor: str) -> Mapping[str, Any]:
        with self._database.read() as connection:
            active = mapping_versions.active_versions(connection).get(name)
            version = active and mapping_versions.find(connection, name, active.version)
            drafts = [each for each in mapping_versions.drafts(connection) if each.name == name]
        own = next((each for each in drafts if each.actor == actor), None)
        home = file_sources(self._settings)(name)
        if active is None and not drafts and f"{name}.yaml" not in home:
            raise NoSuchItem("there is no such definition")
        sources = all_sources(self._settings, self._database, name)
        draft = dict(own.sources) if own else {}
        return {
            "name": name,
            "in_force": console_forms.activation(active) if active else None,
            "held": sorted(version.sources) if version else self._held(name, sources),
            "sources": sources,
            "newer": self._newer(name, version.sources if version else {}),
            "draft": {**console_forms.draft(own), "files": draft} if own else None,
            "others": [console_forms.draft(each) for each in drafts if each is not own],
            "used": users(active_settings.current(self._settings, self._database), name),
            **self._checked(name, {**sources, **draft}),
        }

    @override
    def save(self, writing: DraftEdit) -> Mapping[str, Any]:
        with as_console_errors():
            require_readable(writing.files)
        known = all_sources(self._settings, self._database, writing.name)
        sources = {**known, **writing.files}
        self._require_code(writing, sources, writing.files)
        draft = MappingDraft(
            writing.name,
            writing.actor,
            writing.files,
            writing.begun_on,
            writing.revision,
            check_cached(sources, writing.name).version,
            self._clock(),
        )
        with as_console_errors():
            saved = drafting.store_draft(self._database, draft)
        return {**console_forms.draft(saved), **self._checked(writing.name, sources)}

    @override
    def discard(self, name: str, actor: str) -> None:
        with self._database.write() as connection:
            mapping_versions.delete_draft(connection, name, actor)

    @override
    def history(self, name: str) -> Sequence[Mapping[str, Any]]:
        with self._database.read() as connection:
            return [
                console_forms.activation(each)
                for each in mapping_versions.history(connection, name)
            ]

    @override
    def version(self, name: str, version: str) -> Mapping[str, Any]:
        with as_console_errors(), self._database.read() as connection:
            found = find_version(connection, name, version)
        return {"version": found.version, "files": found.sources}

    @override
    def changes_hooks(self, change: DraftEdit | ActivationRequest) -> bool:
        name, written = change.name, dict[str, str]()
        if isinstance(change, DraftEdit):
            written = dict(change.files)
        elif change.revision:
            with self._database.read() as connection:
                own = mapping_versions.draft(connection, name, change.actor)
            written = dict(own.sources) if own else {}
        else:
            with as_console_errors(), self._database.read() as connection:
                older = self._older(connection, change).sources
            return adds_code(self._settings, self._database, name, older)
        sources = {**all_sources(self._settings, self._database, name), **written}
        return adds_code(self._settings, self._database, name, sources, written)

    @override
    def activate(self, decision: ActivationRequest) -> Mapping[str, Any]:
        name = decision.name
        with self._database.read() as connection:
            draft = mapping_versions.draft(connection, name, decision.actor)
        with as_console_errors():
            if draft is None:
                raise drafting.NoDraft(name)
            if draft.revision != decision.revision:
                raise DraftConflict(name)
            sources = all_sources(self._settings, self._database, name, draft.sources)
            self._require_code(decision, sources, draft.sources)
            chosen = [(name, sources)]
            begun_on, records = {name: decision.begun_on}, self._lists(decision)
            (done,) = activate(
                self._settings,
                self._database,
                chosen,
                self._author(decision),
                begun_on=begun_on,
                records=records,
            )
        self.discard(name, decision.actor)
        return {"version": done.version, "before": done.before}

    @override
    def rollback(self, decision: ActivationRequest) -> Mapping[str, Any]:
        name = decision.name
        with as_console_errors():
            with self._database.read() as connection:
                wanted = self._older(connection, decision)
            self._require_code(decision, wanted.sources)
            done = rollback(
                self._settings,
                self._database,
                name,
                self._author(decision),
                wanted.version,
                {decision.name: decision.begun_on},
            )
        return {"version": done.version, "before": done.before}

    @override
    def unmapped_codes(self, actor: str) -> Sequence[Mapping[str, Any]]:
        return drafts.list_unmapped_codes(self._database, lambda name: self._draft(name, actor)[0])

    @override
    def ignore_code(self, name: str, table: str, code: str, actor: str) -> None:
        key = CodeKey(name, table, code)
        if not unknown_codes.mark_seen(self._database, key, actor, self._clock()):
            raise NoSuchItem("there is no such code, or somebody has said so already")

    @override
    def add_code(self, entry: CodeEntry) -> Mapping[str, Any]:
        files, begun_on, revision = self._draft(entry.name, entry.actor)
        file = file_of(entry.table)
        text = {**all_sources(self._settings, self._database, entry.name), **files}.get(file)
        if text is None:
            raise NoSuchItem("there is no such code table")
        pair = (entry.value, entry.code) if entry.back else (entry.code, entry.value)
        with as_console_errors():
            written = {**files, file: drafts.set_entry(text, *pair)}
        return self.save(DraftEdit(entry.name, entry.actor, written, begun_on, revision))

    @override
    def set_listener_definitions(
        self, decision: ActivationRequest, names: Sequence[str]
    ) -> Mapping[str, Any]:
        record = active_settings.make_list_record(decision.name, names)
        with as_console_errors():
            activate(
                self._settings,
                self._database,
                [],
                self._author(decision),
                begun_on={record.name: decision.begun_on},
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

    def _lists(self, decision: ActivationRequest) -> list[MappingVersion]:
        """Return the definition lists of the chosen listeners, with the definition put first."""
        known = active_settings.current(self._settings, self._database).listener
        lists = []
        for name in decision.listeners:
            found = next((each.mappings for each in known if each.name == name), None)
            if found is None:
                raise active_settings.NoSuchListener(name)
            if decision.name not in found:
                lists.append(active_settings.make_list_record(name, [decision.name, *found]))
        return lists

    def _newer(self, name: str, held: Mapping[str, str]) -> dict[str, str]:
        """Return the files whose sources changed since the activation, with new texts."""
        known = all_sources(self._settings, self._database, "")
        own = file_sources(self._settings)(name)
        latest = {
            file: own.get(file, "") if file == f"{name}.yaml" else known[file] for file in held
        }
        return {file: text for file, text in latest.items() if text and text != held[file]}

    def _held(self, name: str, sources: Mapping[str, str]) -> list[str]:
        """Return the files of a definition that was never activated."""
        compiled = check_cached(sources, name).compiled
        own = f"{name}.yaml"
        return list(compiled.files) if compiled else [own] if own in sources else []

    def _checked(self, name: str, sources: Mapping[str, str]) -> dict[str, Any]:
        found = check_cached(sources, name)
        return {
            "kind": console_forms.kind(found.compiled),
            "version": found.version,
            "needed": list(found.compiled.files) if found.compiled else [],
            "issues": [console_forms.issue(each) for each in found.issues],
        }

    def _older(self, connection: Connection, decision: ActivationRequest) -> MappingVersion:
        if decision.version:
            return find_version(connection, decision.name, decision.version)
        return previous_version(connection, decision.name)

    def _require_code(
        self,
        by: DraftEdit | ActivationRequest,
        sources: Sources,
        written: Sources = MappingProxyType({}),
    ) -> None:
        require_code_permission(
            self._settings, self._database, by.name, sources, written, code=by.code
        )

    def _author(self, decision: ActivationRequest) -> Author:
        return Author(decision.actor, self._clock(), decision.reason)
