"""
The difference between the connections of an interface package and those of an installation. Pure.

A connection of the package replaces the one of the same kind and name. A listener of the
installation whose address a listener of the package uses, for example because it was renamed, is
disabled: its stored messages are still processed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from typing import Any

from bridge.errors import BridgeError
from bridge.monitoring.channels import ChannelKind
from bridge.wiring.active_settings import MODELS, Connection, connections_of, find_connection, keys
from config import Settings
from config.addresses import FolderAddress
from config.forms import to_table
from config.listeners import ListenerSettings


class NotImported(BridgeError):
    """A package cannot be imported; nothing was changed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not imported: {why}")


class ChangeKind(StrEnum):
    """What an import does to a connection."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting with its values as in bridge.toml; None: the default applies."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class PlannedConnection:
    """A connection before an import, None if it does not exist, and after it."""

    kind: ChannelKind
    name: str
    before: Connection | None
    after: Connection
    displaced: bool = False

    @property
    def change(self) -> ChangeKind:
        """What the import does to it."""
        if self.displaced:
            return ChangeKind.DISABLED
        if self.before is None:
            return ChangeKind.NEW
        return ChangeKind.UNCHANGED if self.before == self.after else ChangeKind.CHANGED

    @property
    def differences(self) -> list[SettingDifference]:
        before = {} if self.before is None else _flat(to_table(self.before))
        after = _flat(to_table(self.after))
        return [
            SettingDifference(key, before.get(key), after.get(key))
            for key in dict.fromkeys([*before, *after])
            if before.get(key) != after.get(key)
        ]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A mapping file before the import, None if it does not exist, and after it."""

    name: str
    before: str | None
    after: str


def plan_connections(
    current: Settings, packaged: Settings, keep: Sequence[str] = ()
) -> list[PlannedConnection]:
    """
    Compare the connections of a package with the current ones.

    `keep` names settings of which existing connections keep their values, such as `bind`. Raises
    NotImported for an empty package and for unknown settings.
    """
    known = {key for model in MODELS.values() for key in keys(model)} - {"name"}
    if unknown := [each for each in keep if each not in known]:
        raise NotImported(f"connections have no setting {unknown[0]}")
    planned = []
    for kind in ChannelKind:
        for section in connections_of(packaged, kind):
            before = find_connection(current, kind, section.name)
            after = section if before is None else keeping(kind, before, section, keep)
            planned.append(PlannedConnection(kind, section.name, before, after))
    if not planned:
        raise NotImported("interface.toml contains no listener and no destination")
    return [*planned, *displaced_by(current, planned)]


def keeping(
    kind: ChannelKind, before: Connection, after: Connection, keep: Sequence[str]
) -> Connection:
    """Return a connection with the previous values of some settings."""
    old, table = to_table(before), to_table(after)
    for key in keep:
        table.pop(key, None)
        if key in old:
            table[key] = old[key]
    return MODELS[kind].model_validate(table) if keep else after


def displaced_by(
    current: Settings, planned: Sequence[PlannedConnection]
) -> Iterator[PlannedConnection]:
    """Yield the enabled listeners whose address a listener of the package uses."""
    named = {each.name for each in planned if each.kind is ChannelKind.LISTENER}
    used = {key for each in planned if (key := _address_key(each.after)) is not None}
    for listener in current.listener:
        if listener.name not in named and _address_key(listener) in used:
            after = listener.model_copy(update={"enabled": False})
            yield PlannedConnection(ChannelKind.LISTENER, listener.name, listener, after, True)


def _address_key(section: Connection) -> str | None:
    """Return what only one enabled listener can use: its folder or its port."""
    if not isinstance(section, ListenerSettings) or not section.enabled or section.share_port:
        return None
    if isinstance(section.bind, FolderAddress):
        return str(section.bind)
    return f"port {section.bind.port}" if section.bind.port else None


def require_permitted_changes(
    planned: Sequence[PlannedConnection], files: Sequence[FileChange], *, replace: bool
) -> None:
    """Raise NotImported if the import replaces connections or files, and must not."""
    if replace:
        return
    existing = [f"{each.kind} {each.name}" for each in planned if each.before is not None]
    if existing:
        raise NotImported(f"{', '.join(existing)} exists; --replace replaces it")
    replaced = [each.name for each in files if each.before is not None]
    if replaced:
        raise NotImported(f"other files exist: {', '.join(replaced)}; --replace replaces them")


def results(planned: Sequence[PlannedConnection], files: Sequence[FileChange]) -> list[str]:
    """Return what an import did, one line each."""
    verbs = {
        ChangeKind.NEW: "added",
        ChangeKind.CHANGED: "replaced",
        ChangeKind.DISABLED: "disabled",
    }
    done = [f"{verbs[each.change]} {each.name}" for each in planned if each.change in verbs]
    return done + [f"{'replaced' if each.before else 'added'} {each.name}" for each in files]


def describe_changes(
    planned: Sequence[PlannedConnection], files: Sequence[FileChange]
) -> Iterator[str]:
    """Yield the lines of a difference: connections with their settings, then mapping files."""
    for each in planned:
        yield f"{each.kind} {each.name}: {each.change}"
        for setting in each.differences if each.change is not ChangeKind.NEW else ():
            before, after = _shown(setting.before), _shown(setting.after)
            yield f"  {setting.name}: {before} -> {after}"
    for file in files:
        yield f"file {file.name}: {ChangeKind.NEW if file.before is None else ChangeKind.CHANGED}"
        if file.before is not None:
            yield from _file_lines(file)
    if not files and all(each.change is ChangeKind.UNCHANGED for each in planned):
        yield "nothing changes"


def _file_lines(file: FileChange) -> Iterator[str]:
    before, after = (file.before or "").splitlines(), file.after.splitlines()
    for line in list(unified_diff(before, after, lineterm="", n=1))[2:]:
        yield f"  {line}"


def _shown(value: Any) -> str:
    return "default" if value is None else str(value)


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found
