"""
Durations, sizes and addresses as text: `10s`, `16MiB`, `127.0.0.1:2575` (or `mllp://…`),
`folder:inbox`, `http://127.0.0.1:2580/hl7`, `dicom://PACS@127.0.0.1:11112`.

Pure. The models of settings use them as field types.
"""

import re
from ipaddress import ip_network
from typing import Annotated, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, PlainValidator
from typing_extensions import override

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_MAX_DURATION_SECONDS: Final = 36_525 * 86_400.0
_MAX_SIZE_BYTES: Final = 2.0**50
MAX_PORT: Final = 65535


class Address(str):
    """A TCP address `host:port` or `[ipv6]:port`; port 0 lets the system choose."""

    __slots__ = ()

    @property
    def host(self) -> str:
        return self.rpartition(":")[0].removeprefix("[").removesuffix("]")

    @property
    def port(self) -> int:
        """The port, 0 to 65535."""
        return int(self.rpartition(":")[2])


def _measure(
    value: object, units: dict[str, float] | dict[str, int], maximum: float, example: str
) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number: float = value
    else:
        match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
        if match is None or match[2] not in units:
            known = ", ".join(units)
            raise ValueError(f"write a number and a unit ({known}), for example {example}")
        number = float(match[1]) * units[match[2]]
    if number < 0:
        raise ValueError(f"must not be negative, write for example {example}")
    if not number <= maximum:  # NaN is refused too, unlike by `number > maximum`
        raise ValueError(f"is too large, write for example {example}")
    return float(number)


def parse_duration(value: object) -> float:
    """Parse `10s`, `250ms`, `5m`, `1h`, `7d` or a plain number of seconds; return seconds."""
    return _measure(value, _SECONDS, _MAX_DURATION_SECONDS, '"10s"')


def parse_size(value: object) -> int:
    """Parse `16MiB`, `64KiB`, `1GiB` or a plain number of bytes; return bytes."""
    return int(_measure(value, _BYTES, _MAX_SIZE_BYTES, '"16MiB"'))


def parse_address(value: object) -> Address:
    """Parse `host:port` or `[ipv6]:port`. Raises ValueError with an example."""
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not bare or not _PORT.fullmatch(port) or int(port) > MAX_PORT:
        raise ValueError('write "host:port", for example "127.0.0.1:2575"')
    return Address(value)


def parse_zone(value: str) -> str:
    """Return the name of an IANA time zone unchanged. Raises ValueError if it is unknown."""
    try:
        ZoneInfo(value)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError('write an IANA time zone, for example "Europe/Berlin"') from None
    return value


def parse_network(value: str) -> str:
    """Return an IP address or network unchanged. Raises ValueError."""
    try:
        ip_network(value)
    except ValueError:
        text = f'{value} is no IP address or network; write "10.1.0.0/16" or "192.168.7.9"'
        raise ValueError(text) from None
    return value


Network = Annotated[str, AfterValidator(parse_network)]
TimeZone = Annotated[str, AfterValidator(parse_zone)]
Seconds = Annotated[float, BeforeValidator(parse_duration)]
Bytes = Annotated[int, BeforeValidator(parse_size)]
HostPort = Annotated[Address, PlainValidator(parse_address)]


_PORTS: Final = {"http": 80, "https": 443}
_FOLDER: Final = "folder:"
_MLLP: Final = "mllp://"
_EXAMPLES: Final = 'write "host:port", "folder:PATH", "http://host:port/path" or "https://…"'
_DICOM: Final = "dicom://"
_DICOMWEB: Final = "dicomweb+"
_PACS_EXAMPLES: Final = f'{_EXAMPLES}; for a PACS "dicom://TITLE@host:port" or "dicomweb+https://…"'
_TITLE: Final = re.compile(r"[!-\[\]-~]([ -\[\]-~]{0,14}[!-\[\]-~])?")  # PS3.5 6.2, AE


def parse_title(value: str) -> str:
    """Return an AE title unchanged. Raises ValueError."""
    if not _TITLE.fullmatch(value):
        raise ValueError(
            "write 1 to 16 ASCII characters, without backslash and outer spaces, as CT1"
        )
    return value


Title = Annotated[str, AfterValidator(parse_title)]


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
        port = urlsplit(self).port
        return _PORTS["https" if self.secure else "http"] if port is None else port

    @property
    def path(self) -> str:
        """The path. The default is `/`."""
        return urlsplit(self).path or "/"


class DicomAddress(str):
    """A DICOM application, `dicom://TITLE@host:port`."""

    __slots__ = ()

    @property
    def called_title(self) -> str:
        return self.removeprefix(_DICOM).rpartition("@")[0]

    @property
    def host(self) -> str:
        return Address(self.rpartition("@")[2]).host

    @property
    def port(self) -> int:
        return Address(self.rpartition("@")[2]).port


class DicomWebAddress(WebAddress):
    """A DICOMweb service, `dicomweb+https://host/path`: studies are stored at `/path/studies`."""

    __slots__ = ()

    @property
    def url(self) -> str:
        """The address of the service, without a final slash."""
        return self.removeprefix(_DICOMWEB).rstrip("/")

    @property
    @override
    def secure(self) -> bool:
        return self.url.startswith("https:")


ConnectionAddress = Address | FolderAddress | WebAddress
AnyDestinationAddress = ConnectionAddress | DicomAddress


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


def parse_destination_address(value: object) -> AnyDestinationAddress:
    """Parse an address of any kind, or of a PACS. Raises ValueError with examples."""
    if isinstance(value, str):
        if value.startswith(_DICOM):
            title, at, rest = value.removeprefix(_DICOM).rpartition("@")
            if not at:
                raise ValueError('write "dicom://TITLE@host:port"')
            parse_title(title)
            parse_address(rest)
            return DicomAddress(value)
        if value.startswith((f"{_DICOMWEB}http://", f"{_DICOMWEB}https://")):
            _web(value.removeprefix(_DICOMWEB))
            return DicomWebAddress(value)
    try:
        return parse_connection_address(value)
    except ValueError as error:
        raise ValueError(_PACS_EXAMPLES if str(error) == _EXAMPLES else str(error)) from None


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
DestinationAddress = Annotated[AnyDestinationAddress, PlainValidator(parse_destination_address)]
