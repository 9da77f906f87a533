"""Filters by state, cause and background job, which messages and deliveries have in common."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, text

from bridge.admin.lists.listing import (
    MAX_BRANCHES,
    SORTABLE,
    Branch,
    Criterion,
    Driver,
    Filters,
    Parameters,
    choices_of,
    exists,
    texts_of,
)
from bridge.queue.queries import ATTENTION
from bridge.queue.states import QueueState

STATE_CHOICES: Final = (
    *(state.value for state in QueueState),
    *("open", "failed", "waiting", "retrying"),
)
"""
The values of the filter `state`: the states, and `open` (queued or claimed), `failed` (parked or
refused), `waiting` (queued, never tried), `retrying` (queued after a failure).
"""
STATE_GROUPS: Final[Mapping[str, Sequence[str]]] = {
    "open": ("queued", "claimed"),
    "failed": ("parked", "refused"),
    "waiting": ("queued",),
    "retrying": ("queued",),
}
_TRIED: Final = {"waiting": "m.attempts = 0", "retrying": "m.attempts > 0"}
ATTENTION_TEXT: Final = "state IN ('parked', 'refused', 'cancelled')"
"""The condition of the partial indexes; repeated, because SQLite does not infer it."""


def found_by_job(parameters: Parameters, job_id: int) -> Criterion:
    """Return the criterion of the rows that a background job has found."""
    job = parameters.add(job_id)
    own = f"job_id = {job} AND outcome = 'found'"
    row = f"SELECT 1 FROM background_job_row AS r WHERE r.row_id = m.id AND r.{own}"  # noqa: S608  # our own names
    ids = f"SELECT row_id AS id FROM background_job_row WHERE {own}"  # noqa: S608  # our own names
    return Criterion(exists(row), Driver((Branch(ids, "row_id"),)))


def states_and_causes(
    connection: Connection, parameters: Parameters, filters: Filters, table: str, source: str
) -> list[Criterion]:
    """
    Return the criteria of `state` and `cause` for messages or deliveries.

    States that need attention have partial indexes, also by cause and channel. Queued and claimed
    rows have other indexes; they drive if they are so few that they can be sorted. `source` is the
    column of the channel; its filter is `channel`, or has the name of the column.
    """
    by_channel = source if source in filters else "channel"
    codes = texts_of(filters, "cause") if "cause" in filters else []
    other = {"message": "m.error_code", "delivery": "m.detail"}[table]
    causes = [parameters.among(column, codes) for column in ("m.code", other)] if codes else []
    found = [Criterion(f"({' OR '.join(causes)})")] if codes else []
    if "state" not in filters:
        return found
    chosen = choices_of(filters, "state", STATE_CHOICES)
    states = sorted({state for name in chosen for state in STATE_GROUPS.get(name, (name,))})
    alternatives = []
    for name in chosen:
        own = parameters.among("m.state", STATE_GROUPS.get(name, (name,)))
        alternatives.append(f"({own} AND {_TRIED[name]})" if name in _TRIED else own)
    probe = f"({' OR '.join(alternatives)})"
    if not set(chosen).isdisjoint(_TRIED) or not _are_indexed(connection, table, states):
        return [*found, Criterion(probe)]
    branches = [
        branch
        for state in states
        for branch in _state_branches(parameters, filters, table, (source, by_channel), state)
    ]
    if len(branches) > MAX_BRANCHES:
        return [*found, Criterion(probe)]
    driver = Driver(tuple(branches))
    if _has_cause_index(filters, by_channel, states):
        channels = parameters.among(f"m.{source}", texts_of(filters, by_channel))
        return [Criterion(f"{probe} AND {causes[0]} AND {channels}", driver)]
    return [*found, Criterion(probe, driver)]


def _are_indexed(connection: Connection, table: str, states: Collection[str]) -> bool:
    """True if an index finds the rows of each state in order, or the state has few rows."""
    return all(state in set(ATTENTION) or has_few(connection, table, state) for state in states)


def _has_cause_index(filters: Filters, by_channel: str, states: Sequence[str]) -> bool:
    """
    True if the rows of a cause and channel are found by the index of causes.

    Only parked rows: the cause of a refused message is its error code.
    """
    parked = list(states) == [QueueState.PARKED.value]
    return parked and "cause" in filters and by_channel in filters


def in_state(state: str) -> str:
    """Return the condition of a state with an index; a partial one needs a known value."""
    own = f"state = '{QueueState(state).value}'"
    return f"{own} AND {ATTENTION_TEXT}" if state in set(ATTENTION) else own


_WITH_INDEX: Final = frozenset({*ATTENTION, QueueState.QUEUED.value, QueueState.CLAIMED.value})


def has_few(connection: Connection, table: str, state: str) -> bool:
    """True if a state has an index, and so few rows that they can be sorted."""
    if state not in _WITH_INDEX:
        return False
    some = f"SELECT 1 FROM {table} WHERE {in_state(state)} LIMIT {SORTABLE + 1}"  # noqa: S608  # our own names
    number = connection.execute(text(f"SELECT count(*) FROM ({some}) AS s")).scalar()  # noqa: S608  # our own names
    return int(number or 0) <= SORTABLE


def _state_branches(
    parameters: Parameters, filters: Filters, table: str, channel: tuple[str, str], state: str
) -> list[Branch]:
    source, by_channel = channel
    own = in_state(state)
    if state not in set(ATTENTION):
        return [Branch(f"SELECT id + 0 AS id FROM {table} WHERE {own}", "id + 0")]  # noqa: S608  # our own names
    attention = f"SELECT id FROM {table} WHERE {own}"  # noqa: S608  # our own names
    if not _has_cause_index(filters, by_channel, [state]):
        return [Branch(attention)]
    return [
        Branch(
            f"{attention} AND code = {parameters.add(code)} AND {source} = {parameters.add(name)}"
        )
        for code in texts_of(filters, "cause")
        for name in texts_of(filters, by_channel)
    ]
