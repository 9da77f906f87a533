"""
Rules of outside reports: which version is shown, and whether a report is the patient's.

The time of the version decides, then the time of the message, then the status, then the arrival. A
message that comes late therefore does not replace a newer version.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from bridge.contract import OutsideStatus
from bridge.engine.rules.patients import BIRTH_DATE, NAME, compare_patient

_RANK: Final = {status: rank for rank, status in enumerate(OutsideStatus)}


class VersionTimes(NamedTuple):
    """What orders the versions of a report; times in ms. `arrival` counts the versions."""

    at: int | None
    sent_at: int | None
    received_at: int
    status: OutsideStatus
    arrival: int

    @property
    def sorting(self) -> tuple[int, int, int, int]:
        """Sorts the versions, the newest last."""
        sent = self.received_at if self.sent_at is None else self.sent_at
        at = sent if self.at is None else self.at
        return at, sent, _RANK[self.status], self.arrival


def is_of_other_patient(
    tags: Mapping[str, Any], orders: Sequence[Mapping[str, Any]], *, same_number: bool
) -> bool:
    """
    True if name and birth date of a report contradict those of the patient's orders.

    With the patient's number, one difference is an error in one of the two. A report that names
    the accession of an order only must not differ at all.
    """
    given = {name: str(tags.get(name, "")) for name in (NAME, BIRTH_DATE)}
    found = compare_patient(
        given,
        mrns=(),
        names=[str(order.get(NAME, "")) for order in orders],
        birth_dates=[str(order.get(BIRTH_DATE, "")) for order in orders],
    )
    return len(found.tags) > (1 if same_number else 0)
