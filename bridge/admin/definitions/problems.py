"""Problems with definitions as the console shows them, and the cache of compiled definitions."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from bridge.admin.definitions.activation import NoSuchVersion, NothingBefore, Overtaken
from bridge.admin.definitions.drafts import Checked, NoDraft, SavedElsewhere, check
from bridge.console.errors import (
    ChangeConflict,
    ConsoleError,
    ConsoleOverloaded,
    InvalidContent,
    InvalidState,
    NoSuchItem,
)
from bridge.errors import BridgeError
from bridge.store.errors import StoreError
from bridge.store.records.mapping_versions import Activation, MappingDraft
from bridge.wiring.active_settings import NoListener
from bridge.workers.documents import parse
from bridge.workers.errors import WorkerBusy
from mappings.compiler import Compiled
from mappings.inbound.definition import InboundMapping
from mappings.inbound.order_mapping import OrderRules
from mappings.language.diagnostics import Issue, Sources
from mappings.language.errors import MappingErrors
from parsers.errors import DocumentRefused
from parsers.limits import DEFINITIONS


def issue(found: Issue) -> dict[str, Any]:
    """Tell an issue with its place."""
    return {
        "file": found.file,
        "line": found.line,
        "column": found.column,
        "path": found.path,
        "severity": found.severity.value,
        "message": found.message,
        "code": found.code,
    }


def activation(found: Activation) -> dict[str, Any]:
    """Tell who put a version into force, when, why, and how."""
    return {
        "version": found.version,
        "at": found.at,
        "actor": found.actor,
        "reason": found.reason,
        "origin": found.origin.value,
    }


def draft(found: MappingDraft) -> dict[str, Any]:
    """Tell of a draft without what it says."""
    return {
        "actor": found.actor,
        "saved_at": found.saved_at,
        "begun_on": found.begun_on,
        "revision": found.revision,
        "checked_version": found.checked_version,
    }


def kind(made: Compiled | None) -> str:
    """Say what a definition maps: orders, patients or results; empty where it has mistakes."""
    if made is None:
        return ""
    if not isinstance(made, InboundMapping):
        return "results"
    return "orders" if isinstance(made.plan, OrderRules) else "patients"


_NOT_THERE = (NoSuchVersion, NothingBefore, NoDraft, NoListener)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what this package's callees raise into refusals of the console."""
    try:
        yield
    except MappingErrors as errors:
        count = len(errors.issues)
        raise InvalidContent(
            f"{count} mistakes", issues=[issue(each) for each in errors.issues]
        ) from None
    except SavedElsewhere as error:
        raise ChangeConflict("saved_elsewhere", str(error)) from None
    except Overtaken as error:
        raise ChangeConflict("overtaken", str(error), version=error.version) from None
    except _NOT_THERE as error:
        raise NoSuchItem(str(error)) from None
    except WorkerBusy:
        raise ConsoleOverloaded from None
    except DocumentRefused as refused:
        raise InvalidState(refused.reason) from None
    except (StoreError, ConsoleError):
        raise
    except BridgeError as error:
        raise InvalidState(str(error)) from None


_MOST = 64

_Key = tuple[str, frozenset[str], frozenset[tuple[str, str]]]
_known: OrderedDict[_Key, Checked] = OrderedDict()
_guard = Lock()


def admit(files: Sources) -> None:
    """
    Read files that an author sends in a worker process, before this process reads them.

    Raises TooCostly, Unparsable, WorkerBusy.
    """
    parse("definitions", json.dumps(dict(files)).encode(), limits=DEFINITIONS)


def checked(sources: Sources, name: str) -> Checked:
    """Check a definition, or remember what was found; failures are looked at each time."""
    # A hook is an installed module's only as long as no file has its name.
    hooks = frozenset(file for file in sources if file.endswith(".py"))
    with _guard:
        for key, found in _known.items():
            same = key[:2] == (name, hooks)
            if same and all(sources.get(file) == text for file, text in key[2]):
                _known.move_to_end(key)
                return found
    found = check(sources, name)
    if found.made is not None:
        made_of = frozenset((file, sources[file]) for file in found.made.files)
        with _guard:
            _known[name, hooks, made_of] = found
            while len(_known) > _MOST:
                _known.popitem(last=False)
    return found
