"""
Backup of an installation into one file, while the service runs.

The file is a compressed tar archive: `manifest.json`, the copies of the databases in `databases/`,
the data directory in `home/`, and at last `digests.json` with the digest of each member. It is
complete and verified when it gets its name.

Files of the data directory may change meanwhile: of a growing log, the backup has what it contained
when it was opened, and a file that was moved away is left out.
"""

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

from bridge import __version__
from bridge.admin.audit_events import audited
from bridge.admin.backup.copies import BackupFailed, DatabaseCopy, copy_databases, staging, urls_of
from bridge.admin.progress import NOT_SHOWN, Report
from bridge.store.databases import bridge_is_ready, open_bridge_database
from config import Settings, load
from config.private_files import FILE_MODE, open_private, sync_folder
from config.settings import FILE_NAME, paths_in

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
        size = _write(file, copies, members, summary, report)
    return BackupSummary(**{**_members_of(summary), "bytes": size})


@contextmanager
def _recorded(settings: Settings, name: str) -> Iterator[None]:
    """Record the backup in the audit trail, unless a migration must come first."""
    database = open_bridge_database(settings)
    try:
        if not bridge_is_ready(database):
            yield  # a newer release backs up before it migrates
            return
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
    named = {settings.path(each).resolve() for each in paths_in(settings) if each != archive}
    return {*named - {settings.home.resolve()}, settings.home.resolve() / "secrets"}


def _database_files(settings: Settings) -> Iterator[Path]:
    for url in (settings.database_url(), settings.engine_database_url()):
        if url.startswith("sqlite:///"):
            base = Path(url.removeprefix("sqlite:///")).resolve()
            yield from (Path(f"{base}{end}") for end in ("", "-wal", "-shm", "-journal"))


def _write(
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
