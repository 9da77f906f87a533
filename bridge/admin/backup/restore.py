"""
Restore of a backup into a new data directory, also as a test copy.

The backup is read into a folder beside HOME, verified, and moved to HOME when it is complete. After
an error or an interruption, neither HOME nor a database has anything of it.
"""

import hashlib
import json
import os
import socket
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from bridge import __version__, active_settings
from bridge.admin.audit_events import audited
from bridge.admin.backup.backup import (
    DIGESTS,
    FORMAT,
    MANIFEST,
    BackupFailed,
    DatabaseCopy,
    NotRestored,
    require_empty,
    require_restorable,
    restore_postgresql,
    staging,
    urls_of,
    verify_file,
)
from bridge.admin.packages.folder import as_toml
from bridge.admin.progress import NOT_SHOWN, Report
from bridge.audit.events import operator
from bridge.store.database import Database
from bridge.store.databases import bridge_database, migrate_bridge, open_bridge_database
from bridge.store.records import background_jobs, mapping_versions
from bridge.store.records.mapping_versions import ActivationOrigin
from config import Settings, SettingsError, load
from config.private_files import make_folder, open_private, replace_all, sync_folder
from config.quantities import FolderAddress, WebAddress, parse_connection_address
from config.sections import ChannelKind
from config.settings import FILE_NAME
from config.toml_text import parse_toml

_CHUNK: Final = 2**20
_MAX_MANIFEST: Final = 64 * 2**20
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL


@dataclass(frozen=True, slots=True)
class RestoreSummary:
    """What was restored; `notes` say what the operator must do."""

    home: Path
    made_at: str
    release: str
    files: int
    rows: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    release: str
    made_at: str
    secrets: bool
    copies: tuple[DatabaseCopy, ...]


def restore(
    file: Path,
    home: Path,
    *,
    as_test_copy: bool = False,
    database_url: str = "",
    engine_url: str = "",
    report: Report = NOT_SHOWN,
) -> RestoreSummary:
    """
    Restore a backup into a HOME that does not exist or is empty.

    `database_url` and `engine_url` are PostgreSQL databases instead of those of the backup. Raises
    NotRestored, OSError.
    """
    home = home.absolute()
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise NotRestored(f"{home} is not empty")
    make_folder(home.parent)
    with staging(home.with_name(f".{home.name}.restore")) as parts:
        manifest, files = _unpack(file, parts, report)
        require_restorable(manifest.copies)
        content = parts / "home"
        make_folder(content)
        urls = {"url": database_url, "engine_url": engine_url}
        changes = {"database": {name: url for name, url in urls.items() if url}}
        if as_test_copy:
            changes = changes_of(content, changes, manifest.made_at)
        if any(changes.values()):
            change_settings(content, changes, rewrite=as_test_copy)
        settings = _load(content)
        _restore_databases(settings, content, manifest, parts, report)
        if as_test_copy:
            disconnect(content)
        if home.exists():
            home.rmdir()
        content.rename(home)
    sync_folder(home.parent)
    notes = list(_notes(manifest, as_test_copy=as_test_copy))
    if manifest.secrets:
        with (
            bridge_database(home) as database,
            audited(home, database, "restore", ("backup", file.name)),
        ):
            pass
    rows = sum(sum(copy.rows.values()) for copy in manifest.copies)
    return RestoreSummary(home, manifest.made_at, manifest.release, files, rows, tuple(notes))


def _notes(manifest: Manifest, *, as_test_copy: bool) -> Sequence[str]:
    notes = []
    if not manifest.secrets:
        notes.append(
            "the backup has no secrets: copy those of the same installation to HOME/secrets,"
            " and the password of the database into bridge.toml"
        )
    if manifest.release != __version__:
        notes.append(f"the backup is of release {manifest.release}, this is {__version__}")
    if as_test_copy:
        notes.append("this is a test copy: other ports, and it sends nothing")
    else:
        notes.append("run `bridge check`, and start the service")
    return notes


def _unpack(file: Path, target: Path, report: Report) -> tuple[Manifest, int]:
    """Unpack the archive and compare the digests; return the manifest and the number of files."""
    manifest: Manifest | None = None
    listed: object = None
    size, found = max(file.stat().st_size, 1), dict[str, str]()
    try:
        with file.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|gz") as archive:
            for info in archive:
                report("reading the backup", raw.tell(), size)
                if manifest is None:
                    manifest = _read_manifest(archive, info)
                elif info.name == DIGESTS:
                    listed = json.loads(_content(archive, info))
                elif info.isreg():
                    found[info.name] = _extract(archive, info, target)
                else:
                    raise NotRestored(
                        f"the backup has a member {info.name[:200]!r} that is no file"
                    )
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise NotRestored(f"{file} is not a complete backup") from None
    if manifest is None or found != listed:
        raise NotRestored(f"{file} is not a complete backup")
    return manifest, len(found)


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    source = archive.extractfile(info)
    if source is None or info.size > _MAX_MANIFEST:
        raise ValueError(info.name)
    return source.read()


def _read_manifest(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Manifest:
    if info.name != MANIFEST:
        raise ValueError(MANIFEST)
    values: dict[str, Any] = json.loads(_content(archive, info))
    if values.get("format") != FORMAT:
        raise NotRestored("the backup has another format; use the release that made it or a newer")
    try:
        return Manifest(
            str(values["release"]),
            str(values["made_at"]),
            bool(values["secrets"]),
            tuple(DatabaseCopy(**copy) for copy in values["databases"]),
        )
    except (KeyError, TypeError, AttributeError):
        raise ValueError(MANIFEST) from None


def _extract(archive: tarfile.TarFile, info: tarfile.TarInfo, target: Path) -> str:
    """Write a member below the target; return its digest."""
    name = PurePosixPath(info.name)
    if (
        name.is_absolute()
        or ".." in name.parts
        or name.parts[:1] not in (("home",), ("databases",))
    ):
        raise NotRestored("the backup has a member that points outside of it")
    path, source = target.joinpath(*name.parts), archive.extractfile(info)
    make_folder(path.parent)
    digest = hashlib.sha256()
    with os.fdopen(open_private(path, _FLAGS), "wb") as out:
        while source is not None and (piece := source.read(_CHUNK)):
            digest.update(piece)
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _load(content: Path) -> Settings:
    try:
        return load(content)
    except SettingsError as error:
        raise NotRestored("; ".join(map(str, error.mistakes))) from None


def _restore_databases(
    settings: Settings, content: Path, manifest: Manifest, parts: Path, report: Report
) -> None:
    urls = urls_of(settings)
    for copy in manifest.copies:
        url = urls.get(copy.name, "")
        if not url.startswith("sqlite" if copy.dialect == "sqlite" else "postgresql"):
            raise NotRestored(f"bridge.toml names no {copy.dialect} database for {copy.name}")
        if copy.dialect == "postgresql":
            require_empty(url)
    for copy in manifest.copies:
        if copy.dialect == "sqlite":
            _place_file(copy, Path(urls[copy.name].removeprefix("sqlite:///")), parts, report)
        else:
            folder = parts / "databases" / copy.name
            restore_postgresql(copy, urls[copy.name], folder, report)


def _place_file(copy: DatabaseCopy, target: Path, parts: Path, report: Report) -> None:
    source = parts / "databases" / f"{copy.name}.db"
    try:
        if verify_file(copy.name, source, report) != dict(copy.rows):
            raise NotRestored(f"the copy of database {copy.name} has other rows")
    except BackupFailed as error:
        raise NotRestored(str(error)) from None
    if target.exists():
        raise NotRestored(f"{target} exists")
    make_folder(target.parent)
    source.rename(target)


_HOST: Final = "127.0.0.1"
_FIRST_PORT: Final = 20_000
_REASON: Final = "test copy"
Changes = Mapping[str, Mapping[str, Any]]


def changes_of(home: Path, changes: Changes, made_at: str) -> dict[str, dict[str, Any]]:
    """Return the settings of a test copy by section; a value of None removes a setting."""
    port = free_ports(1)[0]
    found = {name: dict(values) for name, values in changes.items()}
    found["http"] = {
        "bind": f"{_HOST}:{port}",
        "public_url": f"http://{_HOST}:{port}",
        "regional_urls": None,
        "probe_bind": None,
        "banner": f"TEST COPY of {made_at[:16].replace('T', ' ')} UTC",
    }
    found["alerts"] = {"mail": None, "webhook": None}
    found["retention"] = {"keep": None, "max_size": None}
    found["tracing"] = {"endpoint": None}
    found["assistance"] = {"transcription_url": None, "placing_url": None, "placing_model": None}
    values = parse_toml((home / FILE_NAME).read_text("utf-8"), home / FILE_NAME)
    for key, url in values.get("database", {}).items():
        if key in {"url", "engine_url"} and str(url).startswith("sqlite:///"):
            found["database"].setdefault(key, f"sqlite:///{Path(url).name}")
    if values.get("engine", {}).get("base_url", "internal") != "internal":
        found["engine"] = {"base_url": f"http://{_HOST}:9"}  # nobody listens there
    return found


def change_settings(home: Path, changes: Changes, *, rewrite: bool) -> None:
    """
    Change settings of bridge.toml. `rewrite`: also disconnect its listeners and destinations.

    The file is written anew; the original stays beside it.
    """
    file = home / FILE_NAME
    text = file.read_text("utf-8")
    values = parse_toml(text, file)
    for section, members in changes.items():
        table = {**values.get(section, {}), **members}
        values[section] = {key: value for key, value in table.items() if value is not None}
    if rewrite:
        listeners = values.get("listener", [])
        for table, port in zip(listeners, free_ports(len(listeners)), strict=True):
            table.update(_listener(table, port))
        for table in values.get("destination", []):
            table["enabled"] = False
    new = "\n".join(_as_toml(values))
    replace_all({file: new.encode(), home / f"{FILE_NAME}.original": text.encode()})


def disconnect(home: Path) -> None:
    """Disconnect what the console saved, and stop background jobs, which would go on."""
    settings = load(home)
    database = open_bridge_database(settings)
    try:
        migrate_bridge(database)
        _disconnect(database)
    finally:
        database.dispose()


def _disconnect(database: Database) -> None:
    with database.write() as connection:
        background_jobs.stop_open(connection, time.time_ns() // 1_000_000)
        active = mapping_versions.active_versions(connection)
        for name, activation in active.items():
            owner = active_settings.connection_of_record(name)
            record = mapping_versions.find(connection, name, activation.version)
            table = None if owner is None or record is None else active_settings.table_of(record)
            if owner is None or table is None:
                continue
            kind, own = owner
            table["enabled"] = False
            if kind is ChannelKind.LISTENER:
                table |= _listener(table, free_ports(1)[0])
            changed = active_settings.make_connection_record(kind, own, table)
            mapping_versions.activate(
                connection,
                changed,
                activation.at + 1,
                operator(),
                _REASON,
                ActivationOrigin.ACTIVATE,
            )


def _listener(table: Mapping[str, Any], port: int) -> dict[str, Any]:
    address = parse_connection_address(table.get("bind"))
    if isinstance(address, FolderAddress):
        return {"enabled": False}
    if isinstance(address, WebAddress):
        scheme = "https" if address.secure else "http"
        return {"bind": f"{scheme}://{_HOST}:{port}{address.path}"}
    return {"bind": f"{_HOST}:{port}"}


_given: set[int] = set()


def free_ports(count: int) -> Sequence[int]:
    """Return ports of this machine that nobody listens on, each only once."""
    found: list[int] = []
    for port in range(_FIRST_PORT, 2**16):
        if len(found) == count:
            break
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
        _given.add(port)
        found.append(port)
    return found


def _as_toml(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sections, then the arrays of tables."""
    for name, table in values.items():
        if isinstance(table, Mapping):
            yield as_toml(name, table).replace(f"[[{name}]]", f"[{name}]", 1)
        elif not isinstance(table, list):
            yield f"{name} = {json.dumps(table, ensure_ascii=False)}"
    for name, tables in values.items():
        if isinstance(tables, list):
            yield from (as_toml(name, table) for table in tables)
