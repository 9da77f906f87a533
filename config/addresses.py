"""
Addresses of listeners and destinations: an MLLP port, a folder, or HL7 over HTTP.

`127.0.0.1:2575` (or `mllp://…`), `folder:inbox`, `http://127.0.0.1:2580/hl7`. Pure.
"""

from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import PlainValidator

from config.quantities import Address, parse_address

_PORTS: Final = {"http": 80, "https": 443}
_FOLDER: Final = "folder:"
_MLLP: Final = "mllp://"
_EXAMPLES: Final = 'write "host:port", "folder:PATH", "http://host:port/path" or "https://…"'


class FolderAddress(str):
    """A folder, `folder:PATH`; relative to HOME."""

    __slots__ = ()

    @property
    def path(self) -> str:
        return self.removeprefix(_FOLDER)


class WebAddress(str):
    """An address for HL7 over HTTP, `http://host:port/path` or `https://…`."""

    __slots__ = ()

    @property
    def secure(self) -> bool:
        """Whether the scheme is https."""
        return self.startswith("https:")

    @property
    def host(self) -> str:
        return urlsplit(self).hostname or ""

    @property
    def port(self) -> int:
        """The port. The default is 80 for http and 443 for https."""
        parts = urlsplit(self)
        return _PORTS[parts.scheme] if parts.port is None else parts.port

    @property
    def path(self) -> str:
        """The path. The default is `/`."""
        return urlsplit(self).path or "/"


ConnectionAddress = Address | FolderAddress | WebAddress


def parse_connection_address(value: object) -> ConnectionAddress:
    """Parse an address of any kind. Raises ValueError with examples."""
    if isinstance(value, str):
        if value.startswith(_FOLDER):
            return _folder(value)
        if value.startswith(("http://", "https://")):
            return _web(value)
        if "://" not in value or value.startswith(_MLLP):
            return parse_address(value.removeprefix(_MLLP))
    raise ValueError(_EXAMPLES)


def _folder(value: str) -> FolderAddress:
    if not value.removeprefix(_FOLDER).strip() or "\0" in value:
        raise ValueError('write "folder:PATH", for example "folder:inbox"')
    return FolderAddress(value)


def _web(value: str) -> WebAddress:
    if not _is_plain(value):
        raise ValueError('write "http://host:port/path"; credentials go into authorization_file')
    return WebAddress(value)


def _is_plain(value: str) -> bool:
    """Whether an address has a host and neither credentials nor a query."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return False
    more = parts.query or parts.fragment or parts.username
    return bool(parts.hostname) and not more


def web_address(value: str, example: str, *, query: bool = False) -> str:
    """
    Return the http or https address of a service without a final slash.

    `query` permits a query. Raises ValueError with `example`.
    """
    try:
        parts = urlsplit(value)
        fits = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
        parts = urlsplit("")
    if not fits or parts.fragment or (parts.query and not query):
        raise ValueError(f'write an address such as "{example}"')
    return value.rstrip("/")


AnyAddress = Annotated[ConnectionAddress, PlainValidator(parse_connection_address)]
