"""What the scenes share: who plays, and what was counted on the way."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.demo.hospital import Hospital, System
from bridge.demo.radiologist import Radiologist
from bridge.demo.telling import Teller


@dataclass(slots=True)
class Score:
    """
    What the summary shows. `orders`, `patients` and `senders` count accepted messages, each once.

    `replies` are the first acknowledgments by message; `seconds` those from a release to its
    result at the RIS.
    """

    orders: Counter[str] = field(default_factory=Counter)
    patients: Counter[str] = field(default_factory=Counter)
    senders: Counter[str] = field(default_factory=Counter)
    replies: dict[bytes, bytes] = field(default_factory=dict)
    acks: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cast:
    """Everybody a scene needs."""

    teller: Teller
    hospital: Hospital
    systems: Mapping[str, System]
    radiologist: Radiologist
    score: Score = field(default_factory=Score)
