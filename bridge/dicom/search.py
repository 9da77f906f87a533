"""
The search of the worklist: the steps that a peer may see and that match a query.

C-FIND and the HTTP search share it. The database selects by columns, which may find too much;
`matching` decides.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

import structlog

from bridge.dicom import matching
from bridge.dicom.matching import START_DATE, STEPS, Key, Query
from bridge.store.database import Database
from bridge.store.records import scheduled_steps
from bridge.store.records.scheduled_steps import ON_WORKLIST, ScheduledStep, StepFilter, StepStatus
from config.dicom import DicomPeer

_STATUS: Final = "00400020"
_STATIONS: Final = "00400001"
_MODALITY: Final = "00080060"
_LOCATION: Final = "00400011"
_STUDY: Final = "0020000D"
_FIRST_PAGE: Final = 50
_PAGE: Final = 200
_PLAIN: Final = re.compile(r"[A-Za-z0-9 ._-]+")
"""A text that JSON writes as it is."""
_EXACT: Final = frozenset({"AE", "CS", "LO", "SH"})
_NOT_STORED: Final = frozenset({_STATUS, _STATIONS})
"""Attributes whose value in an answer may not be that of the stored item."""
_MAX_TEXTS: Final = 5

Found = tuple[ScheduledStep, dict[str, Any]]
"""A step, and its item."""
Shape = Callable[[ScheduledStep, dict[str, Any]], dict[str, Any]]


def find_steps(database: Database, peer: DicomPeer, query: Query) -> Iterator[Found]:
    """
    Yield the steps that a peer may see and whose items match, by start.

    A step without a station is for each peer that sees it: its item names the title of the peer,
    because Scheduled Station AE Title is of type 1, and modalities ask for their own title.
    """
    chosen = choose_rows(peer, query)
    if chosen is not None:
        yield from find_rows(database, chosen, query, partial(_with_station, peer.ae_title))


def _with_station(title: str, step: ScheduledStep, item: dict[str, Any]) -> dict[str, Any]:
    if step.stations:
        return item
    station = {_STATIONS: {"vr": "AE", "Value": [title]}}
    steps = [{**scheduled, **station} for scheduled in item[STEPS]["Value"]]
    return {**item, STEPS: {"vr": "SQ", "Value": steps}}


def find_rows(
    database: Database, chosen: StepFilter, query: Query, shape: Shape | None = None
) -> Iterator[Found]:
    """Yield the steps that meet conditions and whose items, or what `shape` makes, match."""
    seen: set[tuple[Any, int]] = set()
    after, count = None, _FIRST_PAGE
    while True:
        with database.read_committed() as connection:
            steps, after = scheduled_steps.find_page(connection, chosen, after, count)
        for step in steps:
            item = _item_of(step)
            identity = (step.key, step.position)
            if item is None or identity in seen:
                continue
            shaped = item if shape is None else shape(step, item)
            if matching.matches(query, shaped):
                seen.add(identity)
                yield step, shaped
        if after is None:
            return
        count = _PAGE


def choose_rows(peer: DicomPeer, query: Query) -> StepFilter | None:
    """Return conditions that each matching step meets; None if no step can match."""
    step = _keys_of_step(query)
    modalities = _narrow(peer.modalities, exact_values(step.get(_MODALITY)))
    locations = _narrow(peer.locations, exact_values(step.get(_LOCATION)))
    if modalities is None or locations is None:
        return None
    visible = _narrow(peer.stations, ())
    asked = exact_values(step.get(_STATIONS))
    return StepFilter(
        statuses=_statuses(step),
        sites=() if "*" in peer.sites else peer.sites,
        modalities=modalities,
        stations=visible or (asked and [*asked, ""]),
        locations=locations,
        days=_days(step),
        study_uids=exact_values(query.get(_STUDY)),
        texts=[text for text in _texts(query) if _PLAIN.fullmatch(text)][:_MAX_TEXTS],
    )


def _keys_of_step(query: Query) -> Query:
    key = query.get(STEPS)
    return (key.item if key is not None else None) or {}


def _narrow(allowed: Sequence[str], wanted: Collection[str]) -> Collection[str] | None:
    """Return the values that are allowed and wanted; () if all, None if there is none."""
    if not allowed:
        return wanted
    if not wanted:
        return [*allowed, ""]
    return [value for value in wanted if value in allowed] or None


def exact_values(key: Key | None) -> Collection[str]:
    """Return the values of a key that are to be equal; () if they are patterns, or none."""
    if key is None or key.is_universal or any(set(text) & set("*?") for text in key.values):
        return ()
    return key.values


def _statuses(step: Query) -> Collection[str]:
    """Return the statuses that are asked for; those of the worklist if none is."""
    key = step.get(_STATUS)
    if key is None or key.is_universal:
        return ON_WORKLIST
    asked = {_STATUS: key}
    found = [
        status
        for status in StepStatus
        if matching.matches(asked, {_STATUS: {"vr": "CS", "Value": [status.value]}}, STEPS)
    ]
    return found or ["-"]


def _days(step: Query) -> tuple[int | None, int | None]:
    key = step.get(START_DATE)
    if key is None or key.is_universal or len(key.values) != 1:
        return None, None
    first, last = (int(day) if day else None for day in matching.date_range(key.values[0]))
    return first, last


def _texts(query: Query, level: str = "") -> Iterator[str]:
    for tag, key in query.items():
        if not matching.is_known(tag, level) or tag in _NOT_STORED:
            continue
        if key.item:
            yield from _texts(key.item, tag)
        elif key.vr in _EXACT and len(key.values) == 1:
            yield from exact_values(key)


def _item_of(step: ScheduledStep) -> dict[str, Any] | None:
    try:
        item: dict[str, Any] = json.loads(step.item)
    except ValueError:
        structlog.get_logger("dicom").error("a step is not readable", reason="not JSON")
        return None
    return item
