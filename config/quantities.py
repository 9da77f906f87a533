"""
Durations, sizes and addresses as people write them: `10s`, `16MiB`, `127.0.0.1:2575`.

Pure; used by the settings models as field types.
"""

import re
from typing import Annotated, Final, NamedTuple

from pydantic import BeforeValidator, PlainSerializer

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
MAX_PORT: Final = 65535


class Address(NamedTuple):
    """A host and a TCP port; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _measure(value: object, units: dict[str, float] | dict[str, int], example: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
        if number < 0:
            raise ValueError(f"must not be negative, write for example {example}")
        return number
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        known = ", ".join(units)
        raise ValueError(f"write a number and a unit ({known}), for example {example}")
    return float(match[1]) * units[match[2]]


def parse_duration(value: object) -> float:
    """Read `10s`, `250ms`, `5m`, `1h`, `7d` or a plain number of seconds; seconds out."""
    return _measure(value, _SECONDS, '"10s"')


def parse_size(value: object) -> int:
    """Read `16MiB`, `64KiB`, `1GiB` or a plain number of bytes; bytes out."""
    return int(_measure(value, _BYTES, '"16MiB"'))


def parse_address(value: object) -> Address:
    """Read `host:port` or `[ipv6]:port`."""
    if isinstance(value, Address):
        return value
    if not isinstance(value, str):
        raise ValueError('write "host:port", for example "127.0.0.1:2575"')  # noqa: TRY004  # pydantic wants ValueError
    host, colon, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
        raise ValueError('write "host:port", for example "127.0.0.1:2575"')
    return Address(host, int(port))


Seconds = Annotated[float, BeforeValidator(parse_duration)]
Bytes = Annotated[int, BeforeValidator(parse_size)]
HostPort = Annotated[Address, BeforeValidator(parse_address), PlainSerializer(str)]
