"""
By which numbers a message is found: hashes of its control id, patient ids, order numbers, sites.

Pure. The index stores them keyed (`bridge.index_key`); here they are not, for a worker process
that reads a large message has no key. `numbers` reads the places of the standard; what the
message's own definition reads elsewhere is added to them (`Numbers.joined`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from bridge.queue.hashing import signed64
from mappings.hl7.message import Message, Segment
from mappings.hl7.path import EVERY, Path
from mappings.hl7.refusals import Refusal
from mappings.inbound import Subjects


class Kind(StrEnum):
    """What a number is the number of."""

    CONTROL = "control"
    PATIENT = "patient"
    ORDER = "order"


_PLACES = {
    kind: tuple(map(Path.parse, places))
    for kind, places in {
        Kind.CONTROL: ("MSH-10",),
        Kind.PATIENT: ("PID-2.1", "PID-3.1", "PID-4.1", "PID-18.1", "MRG-1.1"),
        Kind.ORDER: (
            *("ORC[*]-2.1", "ORC[*]-3.1", "ORC[*]-4.1", "OBR[*]-2.1", "OBR[*]-3.1", "OBR[*]-18"),
            *("OBR[*]-19", "IPC[*]-1.1", "ZDS[*]-1.1"),
        ),
    }.items()
}

_OF_SEGMENT: dict[str, list[tuple[Kind, Path]]] = {}
for _kind, _paths in _PLACES.items():
    for _path in _paths:
        _OF_SEGMENT.setdefault(_path.segment, []).append((_kind, _path))
_NO_NUMBER = frozenset({"", '""'})


@dataclass(frozen=True, slots=True)
class Numbers:
    """A message's numbers as texts, by what they number."""

    control: frozenset[str]
    patient: frozenset[str]
    order: frozenset[str]

    def joined(self, about: Subjects) -> "Numbers":
        """Add the numbers that a definition has read, from whatever field."""
        return Numbers(self.control, self.patient | about.patients, self.order | about.orders)

    def hashes(self) -> Iterator[int]:
        """Give what the index keeps."""
        for kind, values in zip(Kind, (self.control, self.patient, self.order), strict=True):
            for value in values:
                yield hashed(kind, value)


def hashed(kind: Kind, value: str) -> int:
    """Give the 64 bits under which a number stands in the index; blanks around it do not count."""
    return signed64(kind.value.encode(), value.strip().encode())


def site_number(sites: Collection[str]) -> int:
    """Give the 64 bits of the sites that one message speaks of."""
    return signed64(b"site", *(each.encode() for each in sorted(sites)))


def site_numbers(reach: Collection[str]) -> list[int]:
    """
    Give what the messages are indexed under that somebody limited to these sites may list.

    Those that speak of three sites and more are none of a site's own.
    """
    pairs = combinations(sorted(reach), 2)
    return [site_number(each) for each in (*((one,) for one in sorted(reach)), *pairs)]


def numbers(payload: bytes, charset: str = "utf-8") -> Numbers:
    """Read a message's numbers; none where it cannot be read."""
    try:
        message = Message.parse(payload, fallback=charset)
    except Refusal:
        return Numbers(frozenset(), frozenset(), frozenset())
    found: dict[Kind, set[str]] = {kind: set() for kind in Kind}
    seen: set[str] = set()
    for index, name in enumerate(message.names):
        if name in _OF_SEGMENT:
            _add(found, message.segment(index), first=name not in seen)
            seen.add(name)
    return Numbers(*(frozenset(found[kind] - _NO_NUMBER) for kind in Kind))


def subject_hashes(about: Subjects) -> Iterator[int]:
    """Give what the index keeps of the numbers that a definition has read."""
    return Numbers(frozenset(), about.patients, about.orders).hashes()


def hashes(payload: bytes) -> list[int]:
    """Read what the index keeps of a message."""
    return list(numbers(payload).hashes())


def _add(found: Mapping[Kind, set[str]], segment: Segment, *, first: bool) -> None:
    """Add the numbers of a segment; places without `[*]` count in the first of its name."""
    for kind, place in _OF_SEGMENT[segment.id]:
        if (first or place.occurrence == EVERY) and segment.field_text(place.field):
            found[kind].update(map(str.strip, segment.values(place)))
