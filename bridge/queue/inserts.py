"""
Write a batch of arrivals in one go: the hot path.

Tuples and the driver's own cursor, no ORM, no object for each row. Within the caller's
transaction; decides nothing but leaves that to `admission`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bridge.queue.admission import NEW, Ruling, rule, short
from bridge.queue.arrivals import Arrival, Flag, Receipt
from bridge.queue.hot_path import HotPath, Row, insert_new
from bridge.queue.states import State

_KEY_REUSED = ("205", "MSH-10")  # HL7 table 0357: duplicate key identifier


def admit(path: HotPath, cursor: Any, arrivals: Sequence[Arrival]) -> list[Receipt]:
    """Store what is new, look up what is not; give one receipt for each arrival, in order."""
    identities = [each.identity for each in arrivals]
    rulings = rule(arrivals, path.known(cursor, identities))
    rows = [
        _row(arrival, ruling)
        for arrival, ruling in zip(arrivals, rulings, strict=True)
        if ruling.is_new
    ]
    ids = iter(path.insert(cursor, rows) if rows else ())
    new_ids = [next(ids) if ruling.is_new else 0 for ruling in rulings]
    copies = {_original(ruling, new_ids) for ruling in rulings if not ruling.is_new}
    acks = path.retransmitted(cursor, sorted(copies)) if copies else {}
    return [
        _receipt(arrival, ruling, message_id)
        if ruling.is_new
        else _repeated(_original(ruling, new_ids), acks)
        for arrival, ruling, message_id in zip(arrivals, rulings, new_ids, strict=True)
    ]


def admit_new(cursor: Any, arrivals: Sequence[Arrival]) -> list[Receipt]:
    """Store arrivals on PostgreSQL in one statement; store and return nothing if one is known."""
    ids = insert_new(cursor, [_row(arrival, NEW) for arrival in arrivals])
    return [_receipt(each, NEW, number) for each, number in zip(arrivals, ids, strict=bool(ids))]


def _row(arrival: Arrival, ruling: Ruling) -> Row:
    """Lay an arrival out as `arrival_statements.COLUMNS` says."""
    refused = ruling.reused and arrival.refuse_reuse is not None
    lanes = (*arrival.lanes, None, None)
    code, place = _KEY_REUSED if refused else (arrival.error_code, arrival.error_place)
    return (
        arrival.received_at,
        arrival.listener,
        arrival.identity,
        short(arrival.digest),
        ruling.edition,
        arrival.message_type,
        arrival.mapping,
        arrival.mapping_version,
        lanes[0],
        lanes[1],
        _flags(arrival, ruling),
        arrival.refuse_reuse_code if refused else arrival.ack_code,
        arrival.acknowledgment.value,
        code,
        place,
        State.REFUSED.value if refused else arrival.state.value,
        arrival.payload,
        arrival.refuse_reuse if refused else arrival.ack,
    )


def _flags(arrival: Arrival, ruling: Ruling) -> int:
    flags = int(arrival.flags)
    if ruling.reused:
        flags |= Flag.REUSED_CONTROL_ID.value
    return flags | Flag.CORRECTED.value if ruling.edition else flags


def _receipt(arrival: Arrival, ruling: Ruling, message_id: int) -> Receipt:
    """Say what a new message's sender is to be told."""
    if arrival.refuse_reuse is not None and ruling.reused:
        ack, code = arrival.refuse_reuse, arrival.refuse_reuse_code
    else:
        ack, code = arrival.ack, arrival.ack_code
    return Receipt(message_id, ack, code, duplicate=False, reused=ruling.reused)


def _repeated(original: int, acks: Mapping[int, tuple[bytes, str]]) -> Receipt:
    ack, code = acks[original]
    return Receipt(original, ack, code, duplicate=True, reused=False)


def _original(ruling: Ruling, new_ids: Sequence[int]) -> int:
    """Give the id of the message that a copy repeats."""
    if ruling.stored is not None:
        return ruling.stored
    assert ruling.twin is not None  # noqa: S101  # what is not new is one or the other
    return new_ids[ruling.twin]
