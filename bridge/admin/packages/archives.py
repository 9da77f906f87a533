"""
Interface packages as ZIP files, for the console.

A ZIP contains the files of an exported folder, at its top or in one folder. Anything else (links,
other paths, wrong sizes) is refused before any content is used.
"""

import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

from typing_extensions import override

from bridge.admin.definitions.activation import Author
from bridge.admin.definitions.problems import as_console_errors
from bridge.admin.packages import activation
from bridge.admin.packages.activation import ActivationPlan
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
from bridge.workers.pool import DocumentTooCostly, DocumentUnparsable, parse
from config import Settings, SettingsError
from parsers.limits import PACKAGE

_FILE: Final = re.compile(
    rf"{re.escape(FILE)}|{MAPPINGS}/([A-Za-z0-9_-]{{1,64}}\.(yaml|py)"
    r"|codes/[A-Za-z0-9_-]{1,64}\.csv|include/[A-Za-z0-9_-]{1,64}\.yaml)"
)
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def packed(files: Files) -> bytes:
    """Return a ZIP file; equal files give equal bytes."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _TIMESTAMP), files[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def unpacked(data: bytes) -> Files:
    """
    Return the files of a ZIP, which a worker process reads. Raises NotImported, WorkerBusy.

    A ZIP that is no interface package, or exceeds a limit of size, number, depth or time, is
    refused.
    """
    try:
        answer = parse("package", data, limits=PACKAGE)
    except DocumentTooCostly:
        raise NotImported("the ZIP takes too long to read") from None
    except DocumentUnparsable:
        raise NotImported("this is not a ZIP file that can be read") from None
    if "fault" in answer:
        raise NotImported(answer["fault"])
    found: dict[str, str] = answer["files"]
    folder = _common_folder(list(found))
    return {name.removeprefix(folder): text for name, text in found.items()}


def _common_folder(names: Sequence[str]) -> str:
    """Return the folder that contains all files, empty if there is none; check all names."""
    first = names[0].partition("/")[0] if names else ""
    folder = f"{first}/" if first != MAPPINGS and f"{first}/{FILE}" in names else ""
    unknown = [each for each in names if not _FILE.fullmatch(each.removeprefix(folder))]
    if unknown:
        raise NotImported(f"{len(unknown)} files of the ZIP do not belong to an interface package")
    return folder


class ConsolePackages(InterfacePackages):
    """Interface packages of the console (`bridge.console.context.InterfacePackages`)."""

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
        found = self._plan(data)
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
        found = self._plan(parcel.data)
        if found.mark != parcel.mark:
            raise ChangeConflict(
                "overtaken", "the package or the active versions changed since the preview"
            )
        author = Author(parcel.actor, self._clock(), parcel.reason)
        with as_console_errors():
            activation.activate_package(
                self._settings, self._database, found, author, replace=parcel.replace
            )
        return {"channels": list(found.channels), "files": [each.name for each in found.files]}

    def _plan(self, data: bytes) -> ActivationPlan:
        try:
            with as_console_errors():
                return activation.plan_activation(self._settings, self._database, unpacked(data))
        except SettingsError as error:
            text = "; ".join(f"{each.place}: {each.message}" for each in error.mistakes)
            raise InvalidState(f"not imported: {text}") from None
        except OSError:
            raise InvalidState("HOME cannot be read") from None
