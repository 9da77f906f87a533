"""
What DICOM peers did last, and whom the DICOM port refused: rows of all nodes, times in ms.

Any address can cause refusals, with any AE title. So an address has at most `MAX_OF_ADDRESS` rows,
and all together `MAX_REFUSALS`: the newest ones stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import Connection, case, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from bridge.store.tables import DICOM_PEERS, DICOM_REFUSALS

MAX_REFUSALS: Final = 200
MAX_OF_ADDRESS: Final = 10
HOUR: Final = 3_600_000
_PEER, _REFUSAL = DICOM_PEERS.c, DICOM_REFUSALS.c


@dataclass(frozen=True, slots=True)
class PeerActivity:
    """The last association and the last request of a peer; `answers` are those of the request."""

    address: str = ""
    associated_at: int | None = None
    request: str = ""
    requested_at: int | None = None
    answers: int = 0


class RefusalKey(NamedTuple):
    """Who was refused, and why; the AE title is empty if none was read."""

    address: str
    title: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusals of one kind; `count` counts those that followed one another within an hour each."""

    address: str
    title: str
    reason: str
    count: int
    first_at: int
    last_at: int


def store_peers(connection: Connection, found: Mapping[str, PeerActivity]) -> None:
    """Store what peers did, by AE title; what is not known of a peer stays as it was."""
    if not found:
        return
    statement = insert(DICOM_PEERS)
    new = statement.excluded
    is_request, is_association = new.requested_at.is_not(None), new.associated_at.is_not(None)
    statement = statement.on_conflict_do_update(
        index_elements=["title"],
        set_={
            "address": case((is_association, new.address), else_=_PEER.address),
            "associated_at": func.coalesce(new.associated_at, _PEER.associated_at),
            "request": case((is_request, new.request), else_=_PEER.request),
            "requested_at": func.coalesce(new.requested_at, _PEER.requested_at),
            "answers": case((is_request, new.answers), else_=_PEER.answers),
        },
    )
    rows = [
        {
            "title": title,
            "address": activity.address,
            "associated_at": activity.associated_at,
            "request": activity.request,
            "requested_at": activity.requested_at,
            "answers": activity.answers,
        }
        for title, activity in sorted(found.items())
    ]
    connection.execute(statement, rows)


def read_peers(connection: Connection) -> dict[str, PeerActivity]:
    """Return what peers did last, by AE title."""
    return {
        row.title: PeerActivity(
            row.address, row.associated_at, row.request, row.requested_at, row.answers
        )
        for row in connection.execute(select(DICOM_PEERS))
    }


def store_refusals(connection: Connection, found: Mapping[RefusalKey, int], now: int) -> None:
    """Add numbers of refusals, and forget the oldest ones above the limits."""
    if not found:
        return
    statement = insert(DICOM_REFUSALS)
    new = statement.excluded
    is_over = _REFUSAL.last_at < new.last_at - HOUR
    statement = statement.on_conflict_do_update(
        index_elements=[*DICOM_REFUSALS.primary_key],
        set_={
            "count": case((is_over, new.count), else_=_REFUSAL.count + new.count),
            "first_at": case((is_over, new.first_at), else_=_REFUSAL.first_at),
            "last_at": new.last_at,
        },
    )
    rows = [
        {**key._asdict(), "count": count, "first_at": now, "last_at": now}
        for key, count in sorted(found.items())
    ]
    connection.execute(statement, rows)
    newest = _REFUSAL.last_at.desc(), _REFUSAL.title, _REFUSAL.reason
    ranked = select(
        *DICOM_REFUSALS.primary_key,
        func.row_number().over(order_by=(*newest, _REFUSAL.address)).label("place"),
        func.row_number().over(partition_by=_REFUSAL.address, order_by=newest).label("own_place"),
    ).subquery()
    too_many = select(ranked.c.address, ranked.c.title, ranked.c.reason).where(
        (ranked.c.place > MAX_REFUSALS) | (ranked.c.own_place > MAX_OF_ADDRESS)
    )
    for address, title, reason in connection.execute(too_many).all():
        connection.execute(
            delete(DICOM_REFUSALS).where(
                _REFUSAL.address == address, _REFUSAL.title == title, _REFUSAL.reason == reason
            )
        )


def read_refusals(connection: Connection, since: int) -> list[Refusal]:
    """Return refusals since a time, the newest first."""
    order = _REFUSAL.last_at.desc(), _REFUSAL.address, _REFUSAL.title, _REFUSAL.reason
    rows = connection.execute(
        select(*(_REFUSAL[name] for name in Refusal.__slots__))
        .where(_REFUSAL.last_at >= since)
        .order_by(*order)
    )
    return [Refusal(*row) for row in rows]
