"""Where rules look that say nothing but places: what of a definition can be checked at a glance."""

from dataclasses import dataclass
from typing import NamedTuple

from mappings.hl7.path import BadPath, Path
from mappings.nodes import Node


class Source(NamedTuple):
    """A place that a value may stand in; `match`: component and text that must stand with it."""

    segment: str
    field: int
    component: int
    match: tuple[int, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a definition looks for what the check is about, in order."""

    mrn: tuple[Source, ...]
    accession: tuple[Source, ...]
    control: tuple[Source, ...]
    status: tuple[Source, ...]

    def all(self) -> tuple[Source, ...]:
        """Give all of them."""
        return (*self.mrn, *self.accession, *self.control, *self.status)


def sources_of(node: Node) -> tuple[Source, ...] | None:
    """Read a rule that says nothing but where to look; None for any other."""
    value = node.value
    if isinstance(value, str):
        source = _source(value)
        return None if source is None else (source,)
    if isinstance(value, list):
        parts = [sources_of(each) for each in value]
        known = [each for each in parts if each is not None]
        return tuple(one for each in known for one in each) if len(known) == len(parts) else None
    if not isinstance(value, dict):
        return None
    keys = set(value)
    if keys == {"first"}:
        return sources_of(node["first"])
    return sources_of(node["from"]) if "from" in keys and keys <= {"from", "required"} else None


def _source(text: str) -> Source | None:
    try:
        path = Path.parse(text)
    except BadPath:
        return None
    plain = not path.subcomponent and path.repetition is None and path.occurrence == 1
    if not plain or not path.segment or not path.field or path.segment == "MSH":
        return None
    if not path.matches:
        return Source(path.segment, path.field, path.component)
    (match, *more) = path.matches
    if more or match.subcomponent or not match.component or not match.value.isascii():
        return None
    return Source(path.segment, path.field, path.component, (match.component, match.value.encode()))
