"""
Rows for PostgreSQL, as one binary array for each column: what `unnest` takes them from.

The driver's own way looks at every element and asks what it is; here the columns are known.
Format: PostgreSQL's `array_send`, an array of one dimension.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.pq import Format
from typing_extensions import override

from bridge.queue.statements import COLUMNS

_NULL = struct.pack(">i", -1)
_HEAD = struct.Struct(">iiIii")  # dimensions, whether there are nulls, element's type, length, 1
_SIZE = struct.Struct(">i")


class Packed:
    """An array that is written already."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Dumper(Dumper):
    """Hands it to the driver; the statement's cast says of what type it is."""

    format = Format.BINARY

    @override
    def dump(self, obj: Packed) -> bytes:
        return obj.data


def _head(kind: str, values: Sequence[Any], *, nulls: bool) -> bytes:
    return _HEAD.pack(1, nulls, types[kind].oid, len(values), 1)


def _integers(kind: str, width: str, size: int) -> Callable[[Sequence[Any]], bytes]:
    one = struct.Struct(f">i{width}")

    def pack(values: Sequence[Any]) -> bytes:
        if None not in values:
            pairs = chain.from_iterable((size, value) for value in values)
            return _head(kind, values, nulls=False) + struct.pack(
                f">{f'i{width}' * len(values)}", *pairs
            )
        parts = [_NULL if value is None else one.pack(size, value) for value in values]
        return b"".join((_head(kind, values, nulls=True), *parts))

    return pack


def _texts(values: Sequence[str]) -> bytes:
    known = {value: _sized(value.encode()) for value in set(values)}  # most are the same
    return b"".join((_head("text", values, nulls=False), *[known[value] for value in values]))


def _bytes(values: Sequence[bytes]) -> bytes:
    return b"".join((_head("bytea", values, nulls=False), *map(_sized, values)))


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


_PACK: Mapping[str, Callable[[Sequence[Any]], bytes]] = {
    "bigint": _integers("int8", "q", 8),
    "integer": _integers("int4", "i", 4),
    "text": _texts,
}
_PACKERS = (*[_PACK[kind] for _, kind in COLUMNS], _bytes, _bytes)


def packed(rows: Sequence[Sequence[Any]]) -> list[Packed]:
    """Write the columns of rows that are laid out as statements.COLUMNS says."""
    columns = zip(*rows, strict=True)
    return [Packed(pack(column)) for pack, column in zip(_PACKERS, columns, strict=True)]


psycopg.adapters.register_dumper(Packed, _Dumper)
