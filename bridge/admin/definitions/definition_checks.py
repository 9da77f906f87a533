"""
Checks of definitions for the console: a cache of results, and errors as the console reports them.

The permission `code` decides who may add Python code to a definition.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from types import MappingProxyType
from typing import Any

from bridge.admin.access.permissions import Permission
from bridge.admin.definitions.activation import NoPreviousVersion, NoSuchVersion, VersionConflict
from bridge.admin.definitions.drafts import CheckResult, DraftConflict, NoDraft, check
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
from bridge.wiring.active_settings import NoSuchListener, active_sources, all_sources
from bridge.workers.host import WorkerBusy
from bridge.workers.pool import parse
from config import Settings
from mappings.language.diagnostics import Issue, MappingErrors, Sources
from mappings.language.hooks import SUFFIX, changes_hooks
from parsers.errors import DocumentRefused
from parsers.limits import DEFINITIONS


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
            f"{count} mistakes", issues=[issue_json(each) for each in errors.issues]
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
