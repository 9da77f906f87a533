"""
Rows for PostgreSQL, as one binary array for each column: what `unnest` takes them from.

The driver's own way looks at every element and asks what it is; here the columns are known.
Format: PostgreSQL's `array_send`, an array of one dimension. `packed_arrays` hands it to the
driver.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

_NULL = struct.pack(">i", -1)
_HEAD = struct.Struct(">iiIii")  # dimensions, whether there are nulls, element's type, length, 1
_EMPTY = struct.Struct(">iiI")  # no dimension, no nulls, element's type
_SIZE = struct.Struct(">i")
_TYPES = {"bool": 16, "bytea": 17, "int8": 20, "int4": 23, "text": 25}  # oid, for ever the same
_NAMES = {"bigint": "int8", "integer": "int4", "boolean": "bool"}


class Packed:
    """An array that is written already."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def _head(kind: str, values: Sequence[Any], *, nulls: bool) -> bytes:
    return _HEAD.pack(1, nulls, _TYPES[kind], len(values), 1)


def _numbers(kind: str, width: str) -> Callable[[Sequence[Any]], bytes]:
    one = struct.Struct(f">i{width}")
    size = one.size - _SIZE.size

    def pack(values: Sequence[Any]) -> bytes:
        if None not in values:
            pairs = chain.from_iterable((size, value) for value in values)
            return _head(kind, values, nulls=False) + struct.pack(
                f">{f'i{width}' * len(values)}", *pairs
            )
        parts = [_NULL if value is None else one.pack(size, value) for value in values]
        return b"".join((_head(kind, values, nulls=True), *parts))

    return pack


def _texts(values: Sequence[str | None]) -> bytes:
    # Most are the same.
    known = {value: _NULL if value is None else _sized(value.encode()) for value in set(values)}
    head = _head("text", values, nulls=None in known)
    return b"".join((head, *[known[value] for value in values]))


def _bytes(values: Sequence[bytes | None]) -> bytes:
    parts = [_NULL if value is None else _sized(value) for value in values]
    return b"".join((_head("bytea", values, nulls=None in values), *parts))


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


_PACK: Mapping[str, Callable[[Sequence[Any]], bytes]] = {
    "bigint": _numbers("int8", "q"),
    "integer": _numbers("int4", "i"),
    "boolean": _numbers("bool", "?"),
    "text": _texts,
    "bytea": _bytes,
}


def packed(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[Packed, ...]:
    """Write the columns of rows whose values are of these kinds: the names of SQL types."""
    if not rows:
        return tuple(Packed(_EMPTY.pack(0, 0, _TYPES[_NAMES.get(kind, kind)])) for kind in kinds)
    columns = zip(*rows, strict=True)
    return tuple(Packed(_PACK[kind](column)) for kind, column in zip(kinds, columns, strict=True))
