"""
Durations, sizes and addresses as text: `10s`, `16MiB`, `127.0.0.1:2575`.

Pure. The models of settings use them as field types.
"""

import re
from typing import Annotated, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, PlainValidator

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


TimeZone = Annotated[str, AfterValidator(parse_zone)]
Seconds = Annotated[float, BeforeValidator(parse_duration)]
Bytes = Annotated[int, BeforeValidator(parse_size)]
HostPort = Annotated[Address, PlainValidator(parse_address)]
