"""
Paths and hosts that listeners and destinations may use.

The operator writes `bridge.toml` and can name any path there. Console users and packages can name
only paths inside HOME, because a listener reads and moves each file of its folder, a destination
writes to it, and the Authorization header is sent to an address of their choice. As root, a mistake
in a path moves any files of the machine, so folders outside of HOME are refused also in
`bridge.toml`.

Inside HOME, folders must not contain secrets, databases, mappings, archives or key files.
"""

import os
import re
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from bridge.errors import BridgeError
from bridge.transports.folders import Folder
from config import Settings
from config.dicom import DicomPeer
from config.listeners import ListenerSettings
from config.quantities import AnyDestinationAddress, FolderAddress
from config.sections import DestinationSettings
from config.settings import FILE_NAME, paths_in

Section = ListenerSettings | DestinationSettings
_OWN_FOLDERS: Final = ("secrets", "mappings", "run")
_FOREIGN_SYNTAX: Final = re.compile(r"\\|^~|/~|^[A-Za-z]:|%2[ef]|%5c", re.IGNORECASE)
"""Paths of other systems, home folders of accounts, and URL encoding; none is one of HOME."""


class RefusedPath(BridgeError):
    """A connection may not use a path or host that its settings name; `field` names the setting."""

    def __init__(self, owner: str, field: str, reason: str) -> None:
        super().__init__(f"{owner}: {field}: {reason}")
        self.field = field


class ProtectedPath(RefusedPath):
    """A path belongs to the installation itself."""

    def __init__(self, owner: str, field: str, path: Path) -> None:
        reason = f"{path} belongs to the installation; use another path"
        super().__init__(owner, field, reason)


class OutsideHome(RefusedPath):
    """A console user or a package names a path that is not inside HOME."""

    def __init__(self, owner: str, field: str, path: Path) -> None:
        reason = f"{path} is not inside HOME; only bridge.toml can name such a path"
        super().__init__(owner, field, reason)


class OutsideHomeAsRoot(RefusedPath):
    """The service runs as root, and a folder is not inside HOME."""

    def __init__(self, owner: str, field: str, path: Path) -> None:
        reason = (
            f"{path} is not inside HOME, and this account is root: run the service under an account"
            " of its own, or mount the folder inside HOME"
        )
        super().__init__(owner, field, reason)


def require_permitted(settings: Settings, section: Section) -> None:
    """
    Require that a connection may use the paths and the host of its settings. Raises RefusedPath.

    `settings` are those of bridge.toml or the active ones; both know what bridge.toml names.
    """
    owner, named = _owner(section), _named_by_file(settings, section)
    for field, path in _paths(section):
        if named.get(field) != path:
            _require_inside(settings, owner, field, path)
    field, address = _address(section)
    if isinstance(address, FolderAddress):
        folder_at(settings, section)
    elif isinstance(section, DestinationSettings) and named.get(field) != address:
        require_permitted_host(owner, address.host)
    authorization_path(settings, section)


def folder_at(settings: Settings, section: Section) -> Folder:
    """Return the folder of a listener or destination. Raises RefusedPath."""
    field, address = _address(section)
    if not isinstance(address, FolderAddress):
        raise TypeError("the address is not a folder")
    owner, path = _owner(section), Path(address.path)
    folder = settings.path(path)
    if _named_by_file(settings, section).get(field) != path:
        _require_inside(settings, owner, field, path)
    home, resolved = settings.home.resolve(), folder.resolve()
    for protected in _protected_paths(settings):
        if resolved.is_relative_to(protected) or protected.is_relative_to(resolved):
            raise ProtectedPath(owner, field, folder)
    if resolved.is_relative_to(home):
        return Folder(resolved, below=home)
    if os.geteuid() == 0:
        raise OutsideHomeAsRoot(owner, field, resolved)
    return Folder(folder)


def authorization_path(settings: Settings, section: Section) -> Path | None:
    """Return the path of a connection's authorization file, or None. Raises RefusedPath."""
    file, owner = section.authorization_file, _owner(section)
    if file is None:
        return None
    if _named_by_file(settings, section).get("authorization_file") != file:
        _require_inside(settings, owner, "authorization_file", file)
    path = settings.path(file)
    others = [
        *_files_of_installation(settings),
        *_databases(settings),
        settings.home / FILE_NAME,
        *_files_of_connections(settings, tls_only=True),
        *_files_of_peers(settings),
    ]
    if path.resolve() in {other.resolve() for other in others}:
        raise ProtectedPath(owner, "authorization_file", path)
    return path


def peer_token_path(settings: Settings, peer: DicomPeer) -> Path:
    """
    Return the path of the token file of a DICOM peer, which has one. Raises RefusedPath.

    A console user can name a file inside HOME only, and none that the installation uses itself.
    """
    file, owner = peer.token_file or Path(), f"DICOM peer {peer.name}"
    path = settings.path(file)
    in_file = {one.name: one.token_file for one in settings.of_file.dicom.peer}
    if in_file.get(peer.name) != file:
        _require_inside(settings, owner, "token_file", file)
        others = [
            *_files_of_installation(settings),
            *_databases(settings),
            settings.home / FILE_NAME,
            *_files_of_connections(settings),
        ]
        if path.resolve() in {other.resolve() for other in others}:
            raise ProtectedPath(owner, "token_file", path)
    return path


_NO_RECEIVER: Final = (
    "is not an address of a receiver; only bridge.toml can name link-local, multicast and"
    " unspecified addresses"
)


def require_permitted_host(owner: str, host: str) -> None:
    """
    Require that an address can be a receiver's. Raises RefusedPath.

    Link-local addresses belong to services of the machine, such as the metadata of a cloud. Names
    are not resolved here.
    """
    address = _literal(host)
    if address is not None and (
        address.is_link_local or address.is_multicast or address.is_unspecified
    ):
        raise RefusedPath(owner, "address", f"{host} {_NO_RECEIVER}")


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a text means to the operating system; None for a name."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        try:
            return IPv4Address(socket.inet_aton(host))  # as 2852039166 or 0xa9fea9fe
        except OSError:
            return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def _owner(section: Section) -> str:
    kind = "listener" if isinstance(section, ListenerSettings) else "destination"
    return f"{kind} {section.name}"


def _address(section: Section) -> tuple[str, AnyDestinationAddress]:
    if isinstance(section, ListenerSettings):
        return "bind", section.bind
    return "address", section.address


def _named_by_file(settings: Settings, section: Section) -> dict[str, object]:
    own = settings.of_file
    sections = own.listener if isinstance(section, ListenerSettings) else own.destination
    found: Section | None = next((one for one in sections if one.name == section.name), None)
    if found is None:
        return {}
    field, address = _address(found)
    return {field: address, **dict(_paths(found))}


def _paths(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the paths of a section by their settings, also those of folder addresses."""
    for name, value in model:
        if isinstance(value, Path):
            yield f"{prefix}{name}", value
        elif isinstance(value, FolderAddress):
            yield f"{prefix}{name}", Path(value.path)
        elif isinstance(value, BaseModel):
            yield from _paths(value, f"{prefix}{name}.")


def _require_inside(settings: Settings, owner: str, field: str, path: Path) -> None:
    if _FOREIGN_SYNTAX.search(str(path)):
        reason = f"{path} is not a path inside HOME; write it relative to HOME, with /"
        raise RefusedPath(owner, field, reason)
    resolved = settings.path(path).resolve()
    if not resolved.is_relative_to(settings.home.resolve()):
        raise OutsideHome(owner, field, resolved)


def _protected_paths(settings: Settings) -> list[Path]:
    """Return the files and folders that no folder transport may read or write, resolved."""
    found = [settings.home / folder for folder in _OWN_FOLDERS]
    found += _files_of_installation(settings)
    found += _files_of_connections(settings)
    found += _files_of_peers(settings)
    found += _databases(settings)
    return [file.resolve() for file in found]


def _databases(settings: Settings) -> list[Path]:
    urls = (settings.database_url(), settings.engine_database_url())
    files = [url.removeprefix("sqlite:///") for url in urls if url.startswith("sqlite:///")]
    return [Path(f"{file}{end}") for file in files for end in ("", "-large", "-wal", "-shm")]


def _files_of_installation(settings: Settings) -> set[Path]:
    dicom = settings.dicom.model_copy(update={"peer": []})
    empty: dict[str, object] = {"home": None, "listener": [], "destination": [], "dicom": dicom}
    sections = settings.model_copy(update=empty)
    return {settings.path(path).resolve() for path in paths_in(sections)}


def _files_of_peers(settings: Settings) -> list[Path]:
    """Return the token files of DICOM peers."""
    peers = [*settings.dicom.peer, *settings.of_file.dicom.peer]
    return [settings.path(peer.token_file) for peer in peers if peer.token_file is not None]


def _files_of_connections(settings: Settings, *, tls_only: bool = False) -> list[Path]:
    """Return the files that listeners and destinations name."""
    sections: list[Section] = []
    for source in (settings, settings.of_file):
        sections += [*source.listener, *source.destination]
    return [
        settings.path(path)
        for section in sections
        for path in paths_in(section.tls if tls_only else section)
    ]
