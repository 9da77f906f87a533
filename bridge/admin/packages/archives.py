"""Interfaces as ZIP files, for the console: `bridge.console.context.Parcels`.

A ZIP holds what an exported folder holds, in it or in one folder of its own. Whatever else it
says (links, other places, sizes that are not so) is refused before anything of it is used.
"""

import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

from typing_extensions import override

from bridge.admin.definitions.activation import Who
from bridge.admin.definitions.problems import refusals
from bridge.admin.packages import activation
from bridge.admin.packages.activation import Brought
from bridge.admin.packages.folder_import import (
    FILE,
    MAPPINGS,
    Files,
    NoSuchInterface,
    NotImported,
    contents,
)
from bridge.console.context import InterfacePackages, PackageImport
from bridge.console.errors import ChangeConflict, InvalidState, NoSuchItem
from bridge.store.database import Database
from bridge.workers.documents import TooCostly, Unparsable, parse
from config import Settings, SettingsError
from parsers.limits import PACKAGE

_FILE: Final = re.compile(
    rf"{re.escape(FILE)}|{MAPPINGS}/([A-Za-z0-9_-]{{1,64}}\.(yaml|py)"
    r"|codes/[A-Za-z0-9_-]{1,64}\.csv|include/[A-Za-z0-9_-]{1,64}\.yaml)"
)
_MIDDAY = (1980, 1, 1, 0, 0, 0)


def packed(files: Files) -> bytes:
    """Make a ZIP; the same files make the same bytes."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name in sorted(files):
            made.writestr(zipfile.ZipInfo(name, _MIDDAY), files[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def unpacked(data: bytes) -> Files:
    """
    Give a ZIP's files; a worker process has read them. Raises NotImported, WorkerBusy.

    Refused: what is no interface, and what exceeds the limits of size, number, depth and time.
    """
    try:
        answer = parse("package", data, limits=PACKAGE)
    except TooCostly:
        raise NotImported("the ZIP takes too long to read") from None
    except Unparsable:
        raise NotImported("this is not a ZIP file that can be read") from None
    if "fault" in answer:
        raise NotImported(answer["fault"])
    found: dict[str, str] = answer["files"]
    inside = _inside(list(found))
    return {name.removeprefix(inside): text for name, text in found.items()}


def _inside(names: Sequence[str]) -> str:
    """Give the one folder that everything is in, where there is one, and look at all names."""
    first = names[0].partition("/")[0] if names else ""
    inside = f"{first}/" if first != MAPPINGS and f"{first}/{FILE}" in names else ""
    strange = [each for each in names if not _FILE.fullmatch(each.removeprefix(inside))]
    if strange:
        raise NotImported(f"of the ZIP's files {len(strange)} are none of an interface")
    return inside


class ZippedInterfaces(InterfacePackages):
    """See `bridge.console.context.Parcels`."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], int]) -> None:
        """`clock` is in milliseconds."""
        self._settings = settings
        self._database = database
        self._clock = clock

    @override
    def export_zip(self, names: Sequence[str]) -> bytes:
        try:
            return packed(contents(self._settings, self._database, names))
        except NoSuchInterface as error:
            raise NoSuchItem(str(error)) from None
        except OSError:
            raise InvalidState("bridge.toml cannot be read") from None

    @override
    def preview(self, data: bytes) -> Mapping[str, Any]:
        found = self._brought(data)
        return {
            "mark": found.mark,
            "channels": list(found.channels),
            "definitions": [
                {"name": name, "replaces": replaces} for name, replaces in found.definitions.items()
            ],
            "settings": found.text,
            "files": [
                {"name": each.name, "before": each.before, "after": each.after}
                for each in found.files
            ],
        }

    @override
    def import_zip(self, parcel: PackageImport) -> Mapping[str, Any]:
        found = self._brought(parcel.data)
        if found.mark != parcel.mark:
            raise ChangeConflict("overtaken", "something was changed since this was looked at")
        who = Who(parcel.actor, self._clock(), parcel.reason)
        with refusals():
            activation.put(self._settings, self._database, found, who, replace=parcel.replace)
        return {"channels": list(found.channels), "files": [each.name for each in found.files]}

    def _brought(self, data: bytes) -> Brought:
        try:
            with refusals():
                return activation.brought(self._settings, self._database, unpacked(data))
        except SettingsError as error:
            told = "; ".join(f"{each.place}: {each.message}" for each in error.mistakes)
            raise InvalidState(f"not imported: {told}") from None
        except OSError:
            raise InvalidState("HOME cannot be read") from None
