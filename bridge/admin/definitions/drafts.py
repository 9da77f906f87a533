"""
Drafts of definitions: save, check and activate them; and versions by name.

Each author has their own draft. It contains only the files that differ from the active version.

A version name may be shortened as long as it is unambiguous. If several authors have drafts,
`draft` is the most recently saved one.

The permission `code` decides who may add Python code to a definition.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from threading import Lock
from types import MappingProxyType
from typing import Any

from bridge.active_settings import (
    NoSuchListener,
    active_sources,
    all_sources,
    file_sources,
    is_record,
)
from bridge.admin.access.permissions import Permission
from bridge.admin.definitions.activation import (
    ActivationResult,
    Author,
    NoPreviousVersion,
    NoSuchVersion,
    VersionConflict,
    activate,
    find_version,
    previous_version,
)
from bridge.admin.errors import (
    ChangeConflict,
    InvalidContent,
    InvalidState,
    NoSuchItem,
    OperatorError,
    Overloaded,
    PermissionDenied,
)
from bridge.errors import BridgeError
from bridge.store.database import Database
from bridge.store.errors import StoreError
from bridge.store.records import mapping_versions, unmapped_codes
from bridge.store.records.mapping_versions import MappingDraft
from bridge.workers.host import WorkerBusy
from bridge.workers.pool import parse
from config import Settings
from mappings.compiler import (
    Compiled,
    check_sources,
    compile_sources,
    compile_with_files,
    definition_names,
)
from mappings.language.code_tables import read_table, table_file
from mappings.language.diagnostics import Diagnostics, Issue, MappingErrors, Sources
from mappings.language.hooks import SUFFIX, changes_hooks
from parsers.limits import DEFINITIONS, DocumentRefused


class NoDraft(BridgeError):
    """There is no draft of this definition, or none by this author."""

    def __init__(self, name: str) -> None:
        super().__init__(f"mapping {name} has no draft")


class DraftConflict(BridgeError):
    """The author saved another revision in another window."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the draft of mapping {name} was saved in another window")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The issues of a definition. `compiled` is None if there is an error."""

    issues: tuple[Issue, ...]
    compiled: Compiled | None = None

    @property
    def version(self) -> str:
        """The version of the compiled definition; empty if there is an error."""
        return "" if self.compiled is None else self.compiled.version


def save(
    settings: Settings, database: Database, draft: MappingDraft
) -> tuple[MappingDraft, CheckResult]:
    """
    Store a draft, also one with mistakes; return it with its issues.

    `draft.revision` is the revision that was edited, 0 for a new draft. Raises DraftConflict.
    """
    found = check(all_sources(settings, database, draft.name, draft.sources), draft.name)
    return store_draft(database, replace(draft, checked_version=found.version)), found


def store_draft(database: Database, draft: MappingDraft) -> MappingDraft:
    """Store a checked draft; return it with its new revision. Raises DraftConflict."""
    with database.write() as connection:
        revision = mapping_versions.save_draft(connection, draft)
    if not revision:
        raise DraftConflict(draft.name)
    return replace(draft, revision=revision)


def check(sources: Sources, name: str) -> CheckResult:
    """Check a definition, and compile it if it has no error."""
    issues = tuple(check_sources(sources, [name], tables=False))
    try:
        compiled, _ = compile_with_files(sources, name)
    except MappingErrors:
        return CheckResult(issues)
    return CheckResult(issues, compiled)


def activate_draft(
    settings: Settings, database: Database, name: str, author: Author, draft_author: str = ""
) -> ActivationResult:
    """Activate and drop the draft of an author, by default the most recently saved draft."""
    with database.read() as connection:
        draft = mapping_versions.draft(connection, name, draft_author)
    if draft is None:
        raise NoDraft(name)
    sources = all_sources(settings, database, name, draft.sources)
    (done,) = activate(settings, database, [(name, sources)], author)
    with database.write() as connection:
        mapping_versions.delete_draft(connection, name, draft.actor)
    return done


FILES, ACTIVE, PREVIOUS, DRAFT = "files", "active", "previous", "draft"


def compile_version(settings: Settings, database: Database, name: str, version: str) -> Compiled:
    """Compile one version. Raises MappingErrors, NoSuchVersion, NoPreviousVersion, NoDraft."""
    return compile_sources(sources_of(settings, database, name, version), name)


def sources_of(
    settings: Settings, database: Database, name: str, version: str, author: str = ""
) -> Sources:
    """
    Return the sources of one version. Raises NoSuchVersion, NoPreviousVersion, NoDraft.

    A definition that was made in the console has no file: `files` then means its draft, else its
    active version.
    """
    if version == FILES:
        files = file_sources(settings)(name)
        if f"{name}.yaml" in files or name not in console_definitions(settings, database):
            return files
        with database.read() as connection:
            draft = mapping_versions.draft(connection, name, author)
        return all_sources(settings, database, name, draft.sources if draft else None)
    if version == ACTIVE:
        return active_sources(settings, database)(name)
    with database.read() as connection:
        if version == PREVIOUS:
            return previous_version(connection, name).sources
        if version != DRAFT:
            return find_version(connection, name, version).sources
        draft = mapping_versions.draft(connection, name, author)
    if draft is None:
        raise NoDraft(name)
    return all_sources(settings, database, name, draft.sources)


def console_definitions(settings: Settings, database: Database) -> list[str]:
    """Return the names of definitions and drafts that have no file in the data directory."""
    with database.read() as connection:
        stored = set(mapping_versions.active_versions(connection))
        stored |= {draft.name for draft in mapping_versions.drafts(connection)}
    files = definition_names(file_sources(settings)(""))
    return sorted(name for name in stored - set(files) if not is_record(name))


_MAX_CODES = 500


def list_unmapped_codes(
    database: Database, draft_of: Callable[[str], Sources]
) -> list[Mapping[str, Any]]:
    """
    List unmapped codes, most recent first.

    `value` is the value in the author's draft; `draft_of` returns the files of a draft.
    """
    found = unmapped_codes.list_active(database, _MAX_CODES)
    drafts = {
        name: draft_of(name)
        for name in {unmapped_code_record.mapping for unmapped_code_record in found}
    }
    return [
        {
            **asdict(record),
            "value": _value_in(
                drafts[record.mapping], record.code_table, record.code, back=record.back
            ),
        }
        for record in found
    ]


def _value_in(files: Sources, table: str, code: str, *, back: bool) -> str:
    if not code or table_file(table) not in files:
        return ""
    entries = read_table(files, table, Diagnostics())
    return (entries.code(code) if back else entries.value(code)) or ""


def issue_json(found: Issue) -> dict[str, Any]:
    return {
        "file": found.file,
        "line": found.line,
        "column": found.column,
        "path": found.path,
        "severity": found.severity.value,
        "message": found.message,
        "code": found.code,
    }


_NOT_FOUND = (NoSuchVersion, NoPreviousVersion, NoDraft, NoSuchListener)


@contextmanager
def as_operator_errors() -> Iterator[None]:
    """Convert errors of activation, drafts and documents to those of `bridge.admin.errors`."""
    try:
        yield
    except MappingErrors as errors:
        count = len(errors.issues)
        raise InvalidContent(
            f"{count} mistakes", issues=[issue_json(issue) for issue in errors.issues]
        ) from None
    except DraftConflict as error:
        raise ChangeConflict("saved_elsewhere", str(error)) from None
    except VersionConflict as error:
        raise ChangeConflict("overtaken", str(error), version=error.version) from None
    except _NOT_FOUND as error:
        raise NoSuchItem(str(error)) from None
    except WorkerBusy:
        raise Overloaded from None
    except DocumentRefused as refused:
        raise InvalidState(refused.reason) from None
    except (StoreError, OperatorError):
        raise
    except BridgeError as error:
        raise InvalidState(str(error)) from None


_MAX_CACHED = 64

_Key = tuple[str, frozenset[str], frozenset[tuple[str, str]]]
_cache: OrderedDict[_Key, CheckResult] = OrderedDict()
_lock = Lock()


def require_readable(files: Sources) -> None:
    """
    Read the files of an author in a worker process first, because a hostile file can cost much time
    or memory.

    Raises DocumentTooCostly, DocumentUnparsable, WorkerBusy.
    """
    parse("definitions", json.dumps(dict(files)).encode(), limits=DEFINITIONS)


def check_cached(sources: Sources, name: str) -> CheckResult:
    """Check a definition; results without errors are cached."""
    # A hook file hides an installed module with the same name, so file names are part of the key.
    hooks = frozenset(file for file in sources if file.endswith(".py"))
    with _lock:
        for key, found in _cache.items():
            same = key[:2] == (name, hooks)
            if same and all(sources.get(file) == text for file, text in key[2]):
                _cache.move_to_end(key)
                return found
    found = check(sources, name)
    if found.compiled is not None:
        contents = frozenset((file, sources[file]) for file in found.compiled.files)
        with _lock:
            _cache[name, hooks, contents] = found
            while len(_cache) > _MAX_CACHED:
                _cache.popitem(last=False)
    return found


def adds_code(
    settings: Settings,
    database: Database,
    name: str,
    sources: Sources,
    written: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """
    True if a definition runs other code than its active version.

    `sources` are all files that the definition may refer to; `written` are the author's files.
    """
    known = all_sources(settings, database, name)
    hooks = {file: text for file, text in written.items() if file.endswith(SUFFIX)}
    if any(known.get(file) != text for file, text in hooks.items()):
        return True
    return changes_hooks(active_sources(settings, database)(name), sources, name)


def require_code_permission(
    settings: Settings,
    database: Database,
    name: str,
    sources: Sources,
    written: Mapping[str, str] = MappingProxyType({}),
    *,
    code: bool,
) -> None:
    """Raise PermissionDenied if the definition adds code and the author lacks permission `code`."""
    if not code and adds_code(settings, database, name, sources, written):
        raise PermissionDenied(Permission.CODE)
