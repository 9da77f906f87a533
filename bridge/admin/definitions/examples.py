"""
Examples: messages without patient data that a definition must go on reading as it does.

An example is a de-identified message with what the definition made of it. `bridge mapping check`
and the editor report each example with another result. An author accepts the new result, or
corrects the definition.

An interface package has the examples of its definitions, with the results that they had where it
was exported. Examples that exist already are not imported again.
"""

import codecs
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, TypeAdapter, field_validator
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from bridge.admin.errors import InvalidContent, NoSuchItem
from bridge.store.database import Database
from bridge.store.tables import MAPPING_EXAMPLES
from mappings.authoring.trial import FieldDifference, mapped_texts, text_differences
from mappings.compiler import Compiled
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import Issue, IssueSeverity
from mappings.language.scope import ListenerDefaults

MAX_EXAMPLES: Final = 500
"""Examples of one definition."""
MAX_BYTES: Final = 8 * 2**20
"""Bytes of the examples of one definition."""
_SECONDS: Final = 5.0
"""Time for the examples of one definition in a check."""
_SHOWN: Final = 3
_ROW: Final = MAPPING_EXAMPLES.c


@dataclass(frozen=True, slots=True)
class NewExample:
    """A message without patient data, with the defaults of its listener."""

    label: str
    listener: str
    payload: bytes
    charset: str
    defaults: ListenerDefaults


@dataclass(frozen=True, slots=True)
class Example:
    """A stored example; `added_at` in ms. `expected` has the result and the defaults."""

    id: int
    name: str
    label: str
    listener: str
    payload: bytes
    expected: Mapping[str, Any]
    added_at: int
    added_by: str

    def differences(self, mapping: InboundMapping) -> list[FieldDifference]:
        """Return what differs from the expected result."""
        return text_differences(self.expected["result"], self.result(mapping))

    def result(self, mapping: InboundMapping) -> dict[str, str]:
        expected = self.expected
        moment = datetime.fromtimestamp(expected["now"] / 1000, UTC)
        defaults = ListenerDefaults(expected["site"], expected["time_zone"], moment)
        return mapped_texts(mapping, self.payload, defaults, expected["charset"])


class PackagedExample(BaseModel):
    """An example in an interface package; `now` in ms, `payload` in base64."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str = Field(max_length=200)
    listener: str = Field(max_length=200)
    site: str
    time_zone: str
    charset: str
    now: int = Field(ge=0, lt=2**42)
    payload: Base64Bytes
    result: dict[str, str]

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        if value:
            ZoneInfo(value)
        return value

    @field_validator("charset")
    @classmethod
    def _known_charset(cls, value: str) -> str:
        codecs.lookup(value)
        return value

    @property
    def origin(self) -> tuple[bytes, str, str, str]:
        """What makes it another example: the message, and what its listener adds."""
        return self.payload, self.site, self.time_zone, self.charset


_PACKAGED: Final = TypeAdapter(list[PackagedExample])
MAX_PACKAGED_BYTES: Final = 4 * 2**20
"""Bytes of all examples in a package, which can be read again; the newest ones are taken."""


def as_packaged(database: Database, name: str, room: int = MAX_PACKAGED_BYTES) -> str:
    """Return the examples of a definition for an interface package; empty if it has none."""
    chosen: list[str] = []
    for example in reversed(all_of(database, name)):
        text = _packaged(example).model_dump_json()
        room -= len(text.encode()) + 2
        if room < 0:
            break
        chosen.append(text)
    lines = ",\n".join(reversed(chosen))
    return f"[{lines}]\n" if chosen else ""


def _packaged(example: Example) -> PackagedExample:
    return PackagedExample.model_construct(
        label=example.label, listener=example.listener, payload=example.payload, **example.expected
    )


def read_packaged(text: str) -> list[PackagedExample]:
    """Read the examples of a package. Raises InvalidContent."""
    try:
        return _PACKAGED.validate_json(text)
    except (ValueError, LookupError) as error:
        raise InvalidContent("the examples of the package cannot be read") from error


def missing(
    database: Database, name: str, packaged: Sequence[PackagedExample]
) -> list[PackagedExample]:
    """Return the examples that a definition does not have. Raises InvalidContent for too many."""
    known = {_packaged(example).origin for example in all_of(database, name)}
    new = list({example.origin: example for example in packaged}.values())
    new = [example for example in new if example.origin not in known]
    with database.read() as connection:
        _require_room(connection, name, [example.payload for example in new])
    return new


def add_packaged(
    connection: Connection, name: str, new: Sequence[PackagedExample], by: str, now: int
) -> None:
    rows = [
        {
            "name": name,
            "label": example.label,
            "listener": example.listener,
            "payload": example.payload,
            "expected": json.dumps(example.model_dump(include=set(_EXPECTED)), ensure_ascii=False),
            "added_at": now,
            "added_by": by,
        }
        for example in new
    ]
    if rows:
        connection.execute(insert(MAPPING_EXAMPLES), rows)


_EXPECTED: Final = ("site", "time_zone", "now", "charset", "result")


def add(
    connection: Connection, mapping: InboundMapping, new: Sequence[NewExample], by: str, now: int
) -> None:
    """Add examples with the result of a definition. Raises InvalidContent if there are too many."""
    _require_room(connection, mapping.name, [example.payload for example in new])
    rows = [
        {
            "name": mapping.name,
            "label": example.label,
            "listener": example.listener,
            "payload": example.payload,
            "expected": _expected(mapping, example),
            "added_at": now,
            "added_by": by,
        }
        for example in new
    ]
    if rows:
        connection.execute(insert(MAPPING_EXAMPLES), rows)


def _require_room(connection: Connection, name: str, payloads: Sequence[bytes]) -> None:
    count, size = _amount(connection, name)
    size += sum(map(len, payloads))
    if count + len(payloads) > MAX_EXAMPLES or size > MAX_BYTES:
        limit = f"{MAX_EXAMPLES} examples, {MAX_BYTES >> 20} MiB"
        raise InvalidContent(f"a definition has at most {limit}: remove some first")


def _amount(connection: Connection, name: str) -> tuple[int, int]:
    own = select(func.count(), func.coalesce(func.sum(func.length(_ROW.payload)), 0))
    count, size = connection.execute(own.where(_ROW.name == name)).one()
    return int(count), int(size)


def _expected(mapping: InboundMapping, example: NewExample) -> str:
    defaults = example.defaults
    result = mapped_texts(mapping, example.payload, defaults, example.charset)
    return json.dumps(
        {
            "site": defaults.site,
            "time_zone": defaults.time_zone,
            "now": int(defaults.now.timestamp() * 1000),
            "charset": example.charset,
            "result": result,
        },
        ensure_ascii=False,
    )


def names(database: Database) -> list[str]:
    """Return the names of the definitions that have examples."""
    with database.read() as connection:
        return list(connection.scalars(select(_ROW.name).distinct().order_by(_ROW.name)))


def all_of(database: Database, name: str) -> list[Example]:
    """Return the examples of a definition, in the order in which they were added."""
    own = select(MAPPING_EXAMPLES).where(_ROW.name == name).order_by(_ROW.id)
    with database.read() as connection:
        return [_example(row) for row in connection.execute(own)]


def list_json(database: Database, name: str, compiled: Compiled | None) -> list[dict[str, Any]]:
    """List the examples with what differs with a version; None: it has mistakes."""
    mapping = compiled if isinstance(compiled, InboundMapping) else None
    return [_as_json(example, mapping) for example in all_of(database, name)]


def _as_json(example: Example, mapping: InboundMapping | None) -> dict[str, Any]:
    found = [] if mapping is None else example.differences(mapping)
    differences = [
        {"field": item.field, "before": item.before, "after": item.after} for item in found
    ]
    return {
        "id": example.id,
        "label": example.label,
        "listener": example.listener,
        "added_at": example.added_at,
        "added_by": example.added_by,
        "state": "differs" if found else "same",
        "differences": differences,
    }


def accept(database: Database, mapping: InboundMapping, ids: Sequence[int]) -> int:
    """Make the result of a definition the expected one; no ids: of all that differ."""
    changed = 0
    for example in all_of(database, mapping.name):
        if (ids and example.id not in ids) or not example.differences(mapping):
            continue
        expected = json.dumps(
            {**example.expected, "result": example.result(mapping)}, ensure_ascii=False
        )
        with database.write() as connection:
            own = update(MAPPING_EXAMPLES).where(_ROW.id == example.id)
            connection.execute(own.values(expected=expected))
        changed += 1
    return changed


def remove(database: Database, name: str, ids: Sequence[int]) -> int:
    """Remove examples of a definition; return how many. Raises NoSuchItem if none is found."""
    own = delete(MAPPING_EXAMPLES).where(_ROW.name == name, _ROW.id.in_(list(ids)))
    with database.write() as connection:
        removed = connection.execute(own).rowcount
    if not removed:
        raise NoSuchItem("there is no such example")
    return removed


def issues_of(database: Database, compiled: Compiled | None) -> list[Issue]:
    """
    Return a warning for each example with another result, within a limited time.

    Definitions that write messages have no examples.
    """
    if not isinstance(compiled, InboundMapping):
        return []
    issues, until = list[Issue](), time.monotonic() + _SECONDS
    examples = all_of(database, compiled.name)
    for at, example in enumerate(examples):
        if time.monotonic() > until:
            text = f"{len(examples) - at} examples were not read: that takes too long"
            issues.append(_issue(compiled, text))
            break
        if found := example.differences(compiled):
            fields = ", ".join(item.field for item in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            text = f"example {example.id} ({example.label}) has another result: {fields}{more}"
            issues.append(_issue(compiled, text))
    return issues


def _issue(compiled: InboundMapping, text: str) -> Issue:
    file = f"{compiled.name}.yaml"
    return Issue("", "example", text, IssueSeverity.WARNING, file, 1, 1)


def _example(row: Row[Any]) -> Example:
    return Example(
        row.id,
        row.name,
        row.label,
        row.listener,
        bytes(row.payload),
        json.loads(row.expected),
        row.added_at,
        row.added_by,
    )
