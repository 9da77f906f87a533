"""
Taking an interface that was exported into the files of HOME, for those who keep these in git.

What it would change is said first, and nothing is written where anything is wrong. What is written
is for the service's next start; `bridge.wiring.bringing` puts one into force on all nodes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel

from bridge.errors import BridgeError
from bridge.wiring import delivery, intake
from bridge.wiring.interfaces import FILE, KINDS, MAPPINGS, Files, definitions_of
from config import Settings
from config.reading import read
from config.settings import FILE_NAME, load, parse
from config.writing import replace_all
from mappings.compiler import read_folder
from mappings.nodes import Sources


class NotImported(BridgeError):  # noqa: N818  # named for what happened
    """A folder cannot be taken in; nothing was changed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not imported: {why}")


@dataclass(frozen=True, slots=True)
class Changed:
    """A file of HOME/mappings as it is, None where there is none, and as it would be."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """
    What an interface would change: names of what it adds, files that differ, and bridge.toml.

    `added` is the text that bridge.toml would have more.
    """

    home: Path
    channels: tuple[str, ...]
    definitions: tuple[str, ...]
    files: tuple[Changed, ...]
    before: str
    added: str

    @property
    def replaces(self) -> tuple[str, ...]:
        """The files that say something else today."""
        return tuple(each.name for each in self.files if each.before is not None)

    @property
    def settings(self) -> str:
        """bridge.toml as it would be."""
        return f"{self.before.rstrip()}\n\n{self.added}".lstrip("\n")

    @property
    def mark(self) -> str:
        """What is the same only as long as the home and the interface are (16 hex digits)."""
        parts = [self.before, self.added]
        parts += [
            part or "" for each in self.files for part in (each.name, each.before, each.after)
        ]
        return sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Imported:
    """What was taken in: names of listeners and destinations, of definitions, and of files."""

    channels: tuple[str, ...]
    definitions: tuple[str, ...]
    files: tuple[str, ...]


def take_in(home: Path, folder: Path, *, replace: bool = False) -> Imported:
    """
    Add the interface of a folder to a home.

    `replace` lets its files take the place of other files of the same name. Raises as `arrival`
    and `carry_out` do.
    """
    found = arrival(home, files_of_folder(folder))
    carry_out(found, replace=replace)
    return Imported(found.channels, found.definitions, tuple(each.name for each in found.files))


def files_of_folder(folder: Path) -> Files:
    """Read an interface's folder. Raises OSError."""
    files = {f"{MAPPINGS}/{name}": each for name, each in read_folder(folder / MAPPINGS).items()}
    return {**files, FILE: (folder / FILE).read_text("utf-8")}


def arrival(home: Path, files: Files) -> Arrival:
    """
    Say what an interface would change; it is checked as the service would.

    Raises NotImported, SettingsError, MappingErrors, and what a listener or destination that
    cannot work raises.
    """
    if FILE not in files:
        raise NotImported(f"there is no {FILE}")
    before = (home / FILE_NAME).read_text("utf-8")
    known = load(home)
    found = Arrival(home, (), (), (), before, files[FILE])
    channels_only(files[FILE])
    settings = parse(found.settings, home, Path(FILE))
    names = tuple(name for name in _names(settings) if name not in set(_names(known)))
    if not names:
        raise NotImported(f"{FILE} has no listener and no destination")
    own = read_folder(home / MAPPINGS)
    brought = brought_by(files)
    _check(settings, names, {**own, **brought})
    changed = [
        Changed(name, own.get(name), text)
        for name, text in sorted(brought.items())
        if own.get(name) != text
    ]
    definitions = tuple(definitions_of(settings, names))
    return Arrival(home, names, definitions, tuple(changed), before, files[FILE])


def carry_out(found: Arrival, *, replace: bool = False) -> None:
    """Write what was said. Raises NotImported where a file would be replaced unasked, OSError."""
    if found.replaces and not replace:
        raise NotImported(f"other files are in HOME/mappings: {', '.join(found.replaces)}")
    files = {found.home / MAPPINGS / each.name: each.after.encode() for each in found.files}
    replace_all({**files, found.home / FILE_NAME: found.settings.encode()})


def brought_by(files: Files) -> Sources:
    """Give the mappings of an interface, by their names in a mappings folder."""
    return {name.removeprefix(f"{MAPPINGS}/"): text for name, text in files.items() if name != FILE}


def channels_only(text: str) -> None:
    """
    Refuse what is more than an interface: nobody looks for a sign-in's settings in one.

    Raises NotImported, SettingsError.
    """
    further = sorted(read(text, Path(FILE)).keys() - set(KINDS))
    if further:
        raise NotImported(f"{FILE} says more than listeners and destinations: {further[0]}")


def _names(settings: Settings) -> list[str]:
    names = [each.name for each in settings.listener]
    return names + [each.name for each in settings.destination]


def _check(settings: Settings, names: Sequence[str], sources: Sources) -> None:
    """Make everything as the service would make it at its next start."""
    for listener in settings.listener:
        if listener.name in names:
            there(settings, listener)
            intake.compiled(settings, listener, lambda _: sources)
    for destination in settings.destination:
        if destination.name in names:
            there(settings, destination)
            delivery.destination(settings, destination, lambda _: sources)


def there(settings: Settings, chosen: BaseModel) -> None:
    """See that the files are there that settings name and no folder brings: keys, secrets."""
    absent = [str(path) for path in _paths(chosen) if not settings.path(path).is_file()]
    if absent:
        raise NotImported(f"put these files into HOME first: {', '.join(absent)}")


def _paths(chosen: BaseModel) -> Iterator[Path]:
    for name in type(chosen).model_fields:
        value = getattr(chosen, name)
        if isinstance(value, Path):
            yield value
        elif isinstance(value, BaseModel):
            yield from _paths(value)
