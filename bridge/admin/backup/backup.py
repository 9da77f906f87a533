"""
Backup of an installation into one file, while the service runs.

The file is a compressed tar archive: `manifest.json`, the copies of the databases in `databases/`,
the data directory in `home/`, and at last `digests.json` with the digest of each member. It is
complete and verified when it gets its name.

Files of the data directory may change during the backup: of a growing log, the backup has what it
contained when it was opened, and a file that was moved away is left out.

SQLite: the copy of a database is a database file. Both files are of one moment: their writers wait
for the few milliseconds in which the snapshots begin. PostgreSQL: the copy is a folder with one
file a table, as COPY writes it, from one snapshot. A restore creates the schema by the migrations
of this release up to the revision of the copy, so it needs neither pg_dump nor the same PostgreSQL
release.

Each copy is verified: SQLite's integrity check, and the number of rows of each table.
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from bridge import __version__
from bridge.admin.audit_events import audited
from bridge.admin.progress import NOT_SHOWN, Report
from bridge.errors import BridgeError
from bridge.queue.log_tables import pull_new
from bridge.store import migration
from bridge.store.database import Database
from bridge.store.databases import (
    ENGINE_PACKAGE,
    ENGINE_VERSIONS,
    bridge_is_ready,
    open_bridge_database,
)
from bridge.store.postgresql import partitions
from bridge.store.sqlite import message_log_of
from config import Settings, load
from config.private_files import FILE_MODE, create_empty, make_folder, open_private, sync_folder
from config.settings import FILE_NAME, paths_in


class BackupFailed(BridgeError):
    """A backup cannot be written, or is not complete."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no backup: {reason}")


class NotRestored(BridgeError):
    """A backup cannot be restored; nothing is left of the attempt."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not restored: {reason}")


_PAGES: Final = 2_000  # of a SQLite file in one step
_LOCK_SECONDS: Final = 30.0
_DESCRIPTION: Final = "database.json"
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_SCHEMAS: Final = (
    (migration.PACKAGE, migration.VERSION_TABLE),
    (ENGINE_PACKAGE, ENGINE_VERSIONS),
)
"""The packages with tables, and their version tables."""


@dataclass(frozen=True, slots=True)
class DatabaseCopy:
    """A copy: its name in the backup, the revisions of its schema, and the rows of its tables."""

    name: str
    dialect: str
    revisions: Mapping[str, str]
    rows: Mapping[str, int]


def urls_of(settings: Settings) -> dict[str, str]:
    """Return the databases of an installation by their names; one if both parts share it."""
    found = {"bridge": settings.database_url()}
    engine = settings.engine_database_url()
    if settings.engine.is_internal and engine != found["bridge"]:
        found["engine"] = engine
    return found


def copy_databases(urls: Mapping[str, str], folder: Path, report: Report) -> list[DatabaseCopy]:
    """Copy databases into a folder, and verify the copies. Raises BackupFailed."""
    make_folder(folder)
    sqlite = {name: _file(url) for name, url in urls.items() if url.startswith("sqlite")}
    copies = list(_copy_sqlite(sqlite, folder, report))
    for name, url in urls.items():
        if name not in sqlite:
            copies.append(_copy_postgresql(name, url, folder / name, report))
    return copies


def _file(url: str) -> Path:
    return Path(make_url(url).database or "")


def _copy_sqlite(files: Mapping[str, Path], folder: Path, report: Report) -> Iterator[DatabaseCopy]:
    missing = [str(file) for file in files.values() if not file.exists()]
    if missing:
        raise BackupFailed(f"there is no database {missing[0]}; start the service once")
    with ExitStack() as stack:
        sources = {
            name: stack.enter_context(closing(_connect(file))) for name, file in files.items()
        }
        with ExitStack() as locks:
            for file in files.values():  # nobody writes while the snapshots begin
                writer = locks.enter_context(closing(_connect(file)))
                writer.execute("BEGIN IMMEDIATE")
            for source in sources.values():
                source.execute("BEGIN")
                source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        for name, source in sources.items():
            yield _copy_file(name, source, folder / f"{name}.db", report)


_LEFT_OUT: Final = frozenset({"background_job_part"})
"""Tables whose rows are not copied: the files of exports, which are deleted after a day."""


def _connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=_LOCK_SECONDS, isolation_level=None)


def _copy_file(name: str, source: sqlite3.Connection, target: Path, report: Report) -> DatabaseCopy:
    step = f"copying database {name}"
    create_empty(target)
    with closing(_connect(target)) as copy:

        def progress(_status: int, remaining: int, total: int) -> None:
            report(step, total - remaining, total)

        source.backup(copy, pages=_PAGES, progress=progress)
        copy.execute("PRAGMA journal_mode = DELETE")
        _leave_out(copy)
    rows = verify_file(name, target, report)
    if rows != {**_counts(source), **dict.fromkeys(_LEFT_OUT & rows.keys(), 0)}:
        raise BackupFailed(f"the copy of database {name} has other rows")
    return DatabaseCopy(name, "sqlite", _revisions_of_file(source), rows)


def _leave_out(copy: sqlite3.Connection) -> None:
    """Delete rows that a backup does not contain, and overwrite their bytes."""
    copy.execute("PRAGMA secure_delete = ON")
    for table in sorted(_LEFT_OUT & _counts(copy).keys()):
        copy.execute(f"DELETE FROM {table}")  # noqa: S608  # our own names


def verify_file(name: str, file: Path, report: Report) -> dict[str, int]:
    """Check the integrity of a SQLite file; return the rows of its tables. Raises BackupFailed."""
    report(f"checking database {name}", 0, 0)
    try:
        with closing(_connect(file)) as copy:
            found = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise BackupFailed(f"the copy of database {name} is damaged: {found}")
            return _counts(copy)
    except sqlite3.Error as error:
        raise BackupFailed(f"the copy of database {name} cannot be read: {error}") from None


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    names = [row[0] for row in connection.execute(query)]
    return {
        name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608  # our own names
        for name in sorted(names)
    }


def _revisions_of_file(connection: sqlite3.Connection) -> dict[str, str]:
    known = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    found = {}
    for _, table in _SCHEMAS:
        if table in known:
            row = connection.execute(f"SELECT version_num FROM {table}").fetchone()  # noqa: S608  # our own names
            found[table] = row[0] if row else ""
    return found


_TABLES: Final = """
    SELECT c.relname FROM pg_class AS c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
        AND NOT c.relispartition
    ORDER BY c.relname
"""
_SEQUENCES: Final = """
    SELECT c.relname FROM pg_class AS c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'S' ORDER BY c.relname
"""
_COLUMNS: Final = """
    SELECT attname FROM pg_attribute
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    ORDER BY attname
"""
_FOREIGN_KEYS: Final = """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE contype = 'f' AND connamespace = current_schema()::regnamespace AND conparentid = 0
"""


def _open_server(url: str) -> psycopg.Connection[Any]:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True, options="-c TimeZone=UTC -c DateStyle=ISO")


def _copy_postgresql(name: str, url: str, folder: Path, report: Report) -> DatabaseCopy:
    step = f"copying database {name}"
    make_folder(folder)
    rows: dict[str, int] = {}
    digests, columns = {}, {}
    try:
        with _open_server(url) as server:
            server.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            tables = _names(server, _TABLES)
            for at, table in enumerate(tables):
                report(step, at, len(tables))
                columns[table] = _names(server, _COLUMNS, (table,))
                digests[table] = _write_table(server, table, columns[table], folder / table)
                counted = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
                rows[table] = 0 if table in _LEFT_OUT else _one(server.execute(counted))
            sequences = {
                name: list(
                    server.execute(
                        sql.SQL("SELECT last_value, is_called FROM {}").format(sql.Identifier(name))
                    ).fetchone()
                    or ()
                )
                for name in _names(server, _SEQUENCES)
            }
            revisions = {
                table: str(
                    _one(
                        server.execute(
                            sql.SQL("SELECT version_num FROM {}").format(sql.Identifier(table))
                        )
                    )
                )
                for _, table in _SCHEMAS
                if table in tables
            }
            ranges = _ranges(server) if "message" in tables else []
    except psycopg.Error as error:
        raise BackupFailed(f"database {name}: {type(error).__name__}") from None
    report(f"checking database {name}", 0, 0)
    for table, (digest, lines) in digests.items():
        if lines != rows[table] or digest != digest_of(folder / table):
            raise BackupFailed(f"the copy of table {table} is not complete")
    description = {"columns": columns, "sequences": sequences, "partitions": ranges}
    _write(folder / _DESCRIPTION, json.dumps(description).encode())
    return DatabaseCopy(name, "postgresql", revisions, rows)


def _write_table(
    server: psycopg.Connection[Any], table: str, columns: Sequence[str], file: Path
) -> tuple[str, int]:
    """Write the rows of a table; return the digest of the file, and its number of rows."""
    digest, lines = hashlib.sha256(), 0
    query = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.Identifier(table),
        sql.SQL("false" if table in _LEFT_OUT else "true"),
    )
    descriptor = open_private(file, _WRITE_FLAGS)
    with open(descriptor, "wb") as out, server.cursor().copy(query) as copy:  # noqa: PTH123  # a descriptor
        for piece in copy:
            data = bytes(piece)
            digest.update(data)
            lines += data.count(b"\n")  # COPY writes a line feed in a value as \n
            out.write(data)
    return digest.hexdigest(), lines


def _ranges(server: psycopg.Connection[Any]) -> list[list[int]]:
    bounds = """
        SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i
        JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 'message'::regclass
    """
    found = [partitions.parse_bounds(*row) for row in server.execute(bounds).fetchall()]
    return sorted([bound.low, bound.high] for bound in found if bound is not None)


def _names(server: psycopg.Connection[Any], query: str, values: Sequence[str] = ()) -> list[str]:
    return [str(row[0]) for row in server.execute(query, values or None).fetchall()]


def _one(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    return None if row is None else row[0]


def require_restorable(copies: Sequence[DatabaseCopy]) -> None:
    """Require that this release knows the revisions of the copies. Raises NotRestored."""
    known = {table: set(migration.revisions(package)) for package, table in _SCHEMAS}
    for copy in copies:
        for table, revision in copy.revisions.items():
            if revision not in known.get(table, set()):
                reason = f"the backup is of a newer release (migration {revision} of {copy.name})"
                raise NotRestored(f"{reason}; install that release")


def require_empty(url: str) -> None:
    """Require that a PostgreSQL database has no tables. Raises NotRestored."""
    try:
        with _open_server(url) as server:
            if _names(server, _TABLES):
                shown = make_url(url).render_as_string(hide_password=True)
                raise NotRestored(f"the database {shown} is not empty; name an empty one")
    except psycopg.Error as error:
        raise NotRestored(f"the database cannot be used: {type(error).__name__}") from None


def restore_postgresql(copy: DatabaseCopy, url: str, folder: Path, report: Report) -> None:
    """Restore a copy into an empty database; after an error it is empty again."""
    try:
        _create_schema(copy, url, folder)
        with _open_server(url) as server:
            _load(server, copy, folder, report)
    except BaseException as error:
        _empty(url)
        if isinstance(error, psycopg.Error):
            raise NotRestored(f"database {copy.name}: {type(error).__name__}") from None
        raise


def _create_schema(copy: DatabaseCopy, url: str, folder: Path) -> None:
    database = Database(url)
    try:
        for package, table in _SCHEMAS:
            if table in copy.revisions:
                migration.upgrade(database, package, table, copy.revisions[table])
        described = json.loads((folder / _DESCRIPTION).read_text("utf-8"))
        if described["partitions"]:
            with database.write() as connection:
                have = max(
                    (partition.high for partition in partitions.partitions(connection)), default=0
                )
                for low, high in described["partitions"]:
                    if low >= have:
                        partitions.create(connection, low, high)
    finally:
        database.dispose()


def _load(
    server: psycopg.Connection[Any], copy: DatabaseCopy, folder: Path, report: Report
) -> None:
    """Load all tables in one transaction; foreign keys are checked at its end."""
    step, tables = f"restoring database {copy.name}", sorted(copy.rows)
    described = json.loads((folder / _DESCRIPTION).read_text("utf-8"))
    with server.transaction():
        if unknown := set(tables) - set(_names(server, _TABLES)):
            raise NotRestored(f"this release has no table {min(unknown)}")
        keys = server.execute(_FOREIGN_KEYS).fetchall()
        for table, name, _ in keys:
            server.execute(
                sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(
                    sql.SQL(table), sql.Identifier(name)
                )
            )
        names = sql.SQL(", ").join(map(sql.Identifier, tables))
        server.execute(sql.SQL("TRUNCATE {}").format(names))
        for at, table in enumerate(tables):
            report(step, at, len(tables))
            _read_table(server, table, described["columns"][table], folder / table)
            counted = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
            if _one(server.execute(counted)) != copy.rows[table]:
                raise NotRestored(f"table {table} is not complete")
        for table, name, definition in keys:
            server.execute(
                sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {}").format(
                    sql.SQL(table), sql.Identifier(name), sql.SQL(definition)
                )
            )
        for sequence, (value, called) in described["sequences"].items():
            server.execute("SELECT setval(%s::regclass, %s, %s)", (sequence, value, called))
    server.execute("ANALYZE")  # without statistics, PostgreSQL guesses its query plans


def _read_table(
    server: psycopg.Connection[Any], table: str, columns: Sequence[str], file: Path
) -> None:
    query = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with file.open("rb") as data, server.cursor().copy(query) as copy:
        while piece := data.read(2**20):
            copy.write(piece)


def _empty(url: str) -> None:
    """Drop what a failed restore created in a database that was empty."""
    with _open_server(url) as server, server.transaction():
        for query, kind in ((_TABLES, "TABLE"), (_SEQUENCES, "SEQUENCE")):
            for name in _names(server, query):
                server.execute(
                    sql.SQL("DROP {} IF EXISTS {} CASCADE").format(
                        sql.SQL(kind), sql.Identifier(name)
                    )
                )


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _write(file: Path, data: bytes) -> None:
    with open(open_private(file, _WRITE_FLAGS), "wb") as out:  # noqa: PTH123  # a descriptor
        out.write(data)


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """Make a private folder, and remove it with its files at the end."""
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
DIGESTS: Final = "digests.json"
_CHUNK: Final = 2**20
_PASSWORD: Final = re.compile(r"(postgresql\+psycopg://[^:@/\s\"']*):[^@\"'\s]*@")


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What a backup contains; `left_out` are links and devices of the data directory."""

    file: Path
    bytes: int
    files: int
    rows: int
    databases: tuple[str, ...]
    secrets: bool
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the archive: its name, its file, and its bytes if they differ from the file's."""

    name: str
    file: Path
    data: bytes | None = None


def back_up(
    home: Path, file: Path, *, secrets: bool = True, report: Report = NOT_SHOWN
) -> BackupSummary:
    """
    Write a backup; audited. Without `secrets` it has no keys, tokens and passwords.

    Raises BackupFailed, SettingsError, OSError. After an error or an interruption there is no file.
    """
    settings = load(home)
    file = file.absolute()
    if file.exists():
        raise BackupFailed(f"{file} exists")
    if not file.parent.is_dir():
        raise BackupFailed(f"there is no folder {file.parent}")
    with (
        _recorded(settings, file.name),
        staging(file.with_name(f".{file.name}.parts")) as parts,
    ):
        copies = copy_databases(urls_of(settings), parts, report)
        tree, left_out = _home_members(settings, file, secrets=secrets)
        members = [*_copied(parts), *tree]
        summary = BackupSummary(
            file,
            0,
            len(tree),
            sum(sum(copy.rows.values()) for copy in copies),
            tuple(copy.name for copy in copies),
            secrets,
            tuple(left_out),
        )
        size = _write_archive(file, copies, members, summary, report)
    return BackupSummary(**{**_members_of(summary), "bytes": size})


@contextmanager
def _recorded(settings: Settings, name: str) -> Iterator[None]:
    """Record the backup in the audit trail, unless a migration must come first."""
    database = open_bridge_database(settings)
    try:
        if not bridge_is_ready(database):
            yield  # a newer release backs up before it migrates
            return
        pull_new(database)  # so that the copy has the messages of the log
        with audited(settings.home, database, "backup", ("backup", name)):
            yield
    finally:
        database.dispose()


def _members_of(summary: BackupSummary) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in BackupSummary.__slots__}


def _copied(parts: Path) -> list[Member]:
    files = sorted(path for path in parts.rglob("*") if path.is_file())
    return [Member(f"databases/{path.relative_to(parts).as_posix()}", path) for path in files]


def _home_members(
    settings: Settings, file: Path, *, secrets: bool
) -> tuple[list[Member], list[str]]:
    """Return the files of the data directory, without databases and the folder `run`."""
    home = settings.home.resolve()
    hidden = set() if secrets else _secret_paths(settings)
    skipped = {home / "run", file.resolve(), *_database_files(settings)}
    found, left_out = [], []
    for folder, folders, names in os.walk(home):
        here = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if here / name not in skipped | hidden and name != f".{file.name}.parts"
        )
        for name in [*folders, *sorted(names)]:
            path = here / name
            shown = path.relative_to(home).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                left_out.append(shown)
            elif path.is_file() and path not in skipped | hidden:
                data = None
                if not secrets and path == home / FILE_NAME:
                    text = path.read_text("utf-8")
                    data = _PASSWORD.sub(r"\1@", text).encode()
                found.append(Member(f"home/{shown}", path, data))
    return found, left_out


def _secret_paths(settings: Settings) -> set[Path]:
    """Return the folder `secrets`, and the other files that the settings name."""
    archive = settings.retention.archive
    named = {settings.path(path).resolve() for path in paths_in(settings) if path != archive}
    return {*named - {settings.home.resolve()}, settings.home.resolve() / "secrets"}


def _database_files(settings: Settings) -> Iterator[Path]:
    for url in (settings.database_url(), settings.engine_database_url()):
        if url.startswith("sqlite:///"):
            database = Path(url.removeprefix("sqlite:///")).resolve()
            for base in (database, message_log_of(database)):
                yield from (Path(f"{base}{end}") for end in ("", "-wal", "-shm", "-journal"))


def _write_archive(
    file: Path,
    copies: Sequence[DatabaseCopy],
    members: Sequence[Member],
    summary: BackupSummary,
    report: Report,
) -> int:
    """Write the archive under a temporary name, verify it, and rename it; return its size."""
    temporary = file.with_name(f".{file.name}.new")
    with suppress(FileNotFoundError):
        temporary.unlink()
    try:
        descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb") as raw:
            os.fchmod(descriptor, FILE_MODE)
            with gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed:
                digests = _add_all(packed, copies, members, summary, report)
            raw.flush()
            os.fsync(descriptor)
        _verify(temporary, digests, report)
        os.link(temporary, file)  # unlike a rename, it replaces no file
    except FileExistsError:
        raise BackupFailed(f"{file} exists") from None
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(file.parent)
    return file.stat().st_size


def _add_all(
    out: gzip.GzipFile,
    copies: Sequence[DatabaseCopy],
    members: Sequence[Member],
    summary: BackupSummary,
    report: Report,
) -> dict[str, str]:
    """Write the manifest and all members; return the digests."""
    digests = {}
    manifest = {
        "format": FORMAT,
        "release": __version__,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "secrets": summary.secrets,
        "databases": [asdict(copy) for copy in copies],
    }
    total, done = sum(map(_size, members)), 0
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, MANIFEST, json.dumps(manifest, indent=1).encode())
        for member in members:
            report("writing the backup", done, total)
            digest = _add_member(archive, member)
            if digest is not None:
                digests[member.name] = digest
            done += _size(member)
        _add(archive, DIGESTS, json.dumps(digests, indent=1).encode())
    return digests


def _size(member: Member) -> int:
    try:
        return member.file.stat().st_size
    except FileNotFoundError:
        return 0


class _Digesting:
    """A file to read from that computes the digest of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


def _add_member(archive: tarfile.TarFile, member: Member) -> str | None:
    """Add a member; return its digest, or None if its file is gone."""
    if member.data is not None:
        _add(archive, member.name, member.data)
        return hashlib.sha256(member.data).hexdigest()
    try:
        source = member.file.open("rb")
    except FileNotFoundError:
        return None
    with source:
        reader: Any = _Digesting(source)
        info = _info(member.name, os.fstat(source.fileno()).st_size)
        try:
            archive.addfile(info, reader)
        except OSError as error:
            if error.errno is not None:
                raise
            raise BackupFailed(f"{member.file} became shorter; try again") from None
    return str(reader.digest.hexdigest())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    archive.addfile(_info(name, len(data)), io.BytesIO(data))


def _info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, FILE_MODE, int(time.time())
    return info


def _verify(file: Path, digests: Mapping[str, str], report: Report) -> None:
    """Read the archive again, and compare the digest of each member. Raises BackupFailed."""
    found = {}
    with tarfile.open(file, "r|gz") as archive:
        for at, info in enumerate(archive):
            report("verifying the backup", at, len(digests))
            source = archive.extractfile(info)
            if source is not None and info.name not in (MANIFEST, DIGESTS):
                digest = hashlib.sha256()
                while piece := source.read(_CHUNK):
                    digest.update(piece)
                found[info.name] = digest.hexdigest()
    if wrong := sorted(name for name, digest in digests.items() if found.get(name) != digest):
        raise BackupFailed(f"the disk did not store {wrong[0]} as it was written")
