"""
What needs a person, grouped by cause: parked messages and results, attention items, codes, alerts.

Each group has its cause in words, how many rows it has, the times of the first and the last, a
proposed action, and the filters of the list with its rows. An active alert is a group unless it is
about rows that other groups have. The overview, the page, the badge and the command show the same
groups. Blocking.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, exists, func, or_, select, text, update

from bridge.admin.access.permissions import Permission
from bridge.admin.causes import Cause, ProposedAction, cause_of
from bridge.admin.channel_operations import VisibleChannels, visible_channels
from bridge.admin.lists import attention as items
from bridge.admin.lists.listing import UNLIMITED, Access
from bridge.index_key import keyed64
from bridge.monitoring.alerts import ActiveAlert, active_alerts
from bridge.monitoring.baseline import MINUTE
from bridge.monitoring.conditions import KEEP_POLICY, PORT_REFUSALS, AlertSeverity
from bridge.monitoring.statistics import DESTINATION, LISTENER, read_backlogs, was_checked
from bridge.queue.log_tables import pull_new
from bridge.queue.sites import visible_sites_hashes
from bridge.queue.statements import MESSAGE
from bridge.store.database import Database
from bridge.store.databases import bridge_database
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.unmapped_codes import UnmappedCodeRecord, still_unmapped
from bridge.store.tables import EXCEPTIONS, UNKNOWN_CODES
from config import Settings, load

MAX_ROWS: Final = 200_000
"""Parked rows that are grouped, the newest; a user of some sites: `MAX_ROWS_OF_SITES`."""
MAX_ROWS_OF_SITES: Final = 5_000
MAX_GROUPS: Final = 500
_ITEM, _CODE = EXCEPTIONS.c, UNKNOWN_CODES.c


class GroupSubject(StrEnum):
    MESSAGES = "messages"
    DELIVERIES = "deliveries"
    ORDERS = "orders"
    FEED = "feed"
    CODES = "codes"
    CONDITIONS = "conditions"


SEVERITIES: Final[Mapping[AlertSeverity, str]] = {
    AlertSeverity.CRITICAL: "red",
    AlertSeverity.WARNING: "amber",
}
_RED: Final = SEVERITIES[AlertSeverity.CRITICAL]
_AMBER: Final = SEVERITIES[AlertSeverity.WARNING]


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """
    Rows with one cause, or an active alert; times in ms.

    `severity` is red or amber. `kind` and `channel` name a listener or destination, both are '' if
    the rows have none. `list` and `filters` name the list that shows the rows, '' if there is none;
    `applied`: they were processed, and only the result is to be checked. `reference` is the order
    or message to look at if the group has a single row.
    """

    key: str
    subject: GroupSubject
    severity: str
    code: str
    kind: str
    channel: str
    count: int
    first_at: int
    last_at: int
    words: str
    action: str
    advice: str
    applied: bool
    list: str
    filters: Mapping[str, Sequence[str]]
    reference: int | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """
    The groups: red ones first, then those to be checked last, the most recent first.

    `complete` is false if there are more parked rows; `checked`, if the alert conditions were not
    checked lately, such as in the first half minute after a start.
    """

    groups: Sequence[AttentionGroup]
    complete: bool
    checked: bool


def groups(settings: Settings, database: Database, access: Access, now: int) -> Attention:
    """Return what needs a person on the visible sites. Requires SEE."""
    access.require(Permission.SEE)
    is_limited = access.sites is not None
    channels = visible_channels(settings, database, access.sites) if is_limited else None
    alerts = [
        alert
        for alert in visible_alerts(active_alerts(database), channels)
        if alert.subject not in _OF_OTHER_GROUPS
    ]
    pull_new(database)
    since = now - max(2 * MINUTE, round(3000 * settings.alerts.every))
    with database.read() as connection:
        messages, all_messages = _parked(connection, GroupSubject.MESSAGES, access)
        deliveries, all_deliveries = _parked(connection, GroupSubject.DELIVERIES, access)
        found = [*messages, *deliveries, *_items(connection, access)]
        if not is_limited:
            found += _codes(connection)
        checked = was_checked(connection, since)
    found += _conditions(database, alerts)
    found.sort(key=lambda group: (group.severity != _RED, group.applied, -group.last_at, group.key))
    complete = all_messages and all_deliveries and len(found) <= MAX_GROUPS
    return Attention(found[:MAX_GROUPS], complete, checked)


def read_groups(home: Path, now: int) -> Attention:
    """Return what needs a person, for commands."""
    with bridge_database(home) as database:
        return groups(load(home), database, UNLIMITED, now)


_OF_OTHER_GROUPS: Final = frozenset({"parked", "concern", "differs", "codes"})
"""Alerts about rows that groups of the other subjects have."""
_WITHOUT_COUNTS: Final = frozenset({"paused", "circuit", "certificate", "start"})
"""Alerts of shared channels that reveal no counts of other sites."""


def visible_alerts(
    alerts: Iterable[ActiveAlert], channels: VisibleChannels | None
) -> list[ActiveAlert]:
    """Return the alerts that a user of these channels may see; None: all of them."""
    if channels is None:
        return list(alerts)
    return [
        alert
        for alert in alerts
        if (shared := channels.get(alert.channel or ("", ""))) is not None
        and (not shared or alert.subject in _WITHOUT_COUNTS)
    ]


_STATES_BEHIND: Final[Mapping[str, Sequence[str]]] = {
    "depth": ["open"],
    "age": ["open"],
    "growing": ["open"],
    "rejecting": ["open", "parked"],
    "refused": ["refused"],
}
"""The states of the rows that an alert is about."""


def _conditions(database: Database, alerts: Sequence[ActiveAlert]) -> Iterable[AttentionGroup]:
    """Yield a group for each alert, with the list of its rows if it has one."""
    are_queues = any(_STATES_BEHIND.get(alert.subject) == ["open"] for alert in alerts)
    backlogs = read_backlogs(database) if are_queues else {}
    for alert in alerts:
        kind, name = alert.channel or ("", "")
        is_port = alert.key == PORT_REFUSALS
        states = None if is_port else _STATES_BEHIND.get(alert.subject)
        action = ProposedAction.CHECK_CONNECTION if name else ""
        own = {"channel" if kind != DESTINATION else "destination": [name]} if name else {}
        listed = "deliveries" if kind == DESTINATION else "messages"
        waiting = sum(
            queue.waiting
            for key, queue in backlogs.items()
            if key == alert.channel or (not name and key[0] == LISTENER)
        )
        yield AttentionGroup(
            key=alert.key,
            subject=GroupSubject.CONDITIONS,
            severity=SEVERITIES[alert.severity],
            code=alert.subject,
            kind=kind,
            channel=name,
            count=waiting if states == ["open"] else 0,
            first_at=alert.raised_at,
            last_at=alert.raised_at,
            words=alert.text[:1].upper() + alert.text[1:],
            action=ProposedAction.CHECK_PEERS if is_port else action,
            advice=alert.action,
            applied=False,
            list="" if states is None else listed,
            filters={} if states is None else {**own, "state": states},
        )


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    kind: str
    source: str
    stored_at: str
    subject: ExceptionSubject
    of_sites: str


_TABLES: Final = {
    GroupSubject.MESSAGES: _Table(
        *("message", LISTENER, "listener", "received_at", ExceptionSubject.MESSAGE),
        "EXISTS (SELECT 1 FROM message_number AS n WHERE n.number = {number}"
        " AND n.message_id = m.id)",
    ),
    GroupSubject.DELIVERIES: _Table(
        *("delivery", DESTINATION, "destination", "created_at", ExceptionSubject.DELIVERY),
        "m.sites_hash = {number}",
    ),
}
_PARKED: Final = "m.state = 'parked' AND m.state IN ('parked', 'refused', 'cancelled')"
"""The condition of the partial indexes, repeated because SQLite does not infer it."""


def _parked(
    connection: Connection, subject: GroupSubject, access: Access
) -> tuple[list[AttentionGroup], bool]:
    """Return the groups of parked rows, and whether all rows were read."""
    table = _TABLES[subject]
    hashes = (
        None if access.sites is None else list(map(keyed64, visible_sites_hashes(access.sites)))
    )
    if hashes == []:
        return [], True
    limit = MAX_ROWS if hashes is None else MAX_ROWS_OF_SITES
    values: dict[str, Any] = {"limit": limit + 1}
    condition = _PARKED
    if hashes is not None:
        names = [f"h{number}" for number in range(len(hashes))]
        values |= dict(zip(names, hashes, strict=True))
        own = " OR ".join(table.of_sites.format(number=f":{name}") for name in names)
        condition += f" AND ({own})"
    rows = connection.execute(
        text(
            f"SELECT code, {table.source} AS source, count(*) AS number, min(id) AS first,"  # noqa: S608  # our own names
            f" max(id) AS last FROM (SELECT m.id, m.code, m.{table.source} FROM {table.name} AS m"
            f" WHERE {condition} ORDER BY m.id DESC LIMIT :limit) AS parked"
            f" GROUP BY code, {table.source}"
        ),
        values,
    ).all()
    times = _times(connection, table, {number for row in rows for number in (row.first, row.last)})
    found = []
    for row in rows:
        cause = cause_of(table.subject, "parked", row.code)
        at = times.get(row.first, 0), times.get(row.last, 0)
        channel = "channel" if subject is GroupSubject.MESSAGES else "destination"
        filters = {"state": ["parked"], "cause": [row.code], channel: [row.source]}
        found.append(
            _group(
                *(subject, row.code, row.source, row.number, at, cause, subject.value, filters),
                kind=table.kind,
            )
        )
    return found, sum(row.number for row in rows) <= limit


def _times(connection: Connection, table: _Table, ids: Collection[int]) -> dict[int, int]:
    """Return when rows were stored; there are few groups, so few lookups."""
    statement = text(f"SELECT {table.stored_at} FROM {table.name} WHERE id = :id")  # noqa: S608  # our own names
    return {number: connection.execute(statement, {"id": number}).scalar_one() for number in ids}


def _group(
    subject: GroupSubject,
    code: str,
    channel: str,
    count: int,
    at: tuple[int, int],
    cause: Cause,
    listed: str,
    filters: Mapping[str, Sequence[str]],
    *,
    kind: str = "",
    applied: bool = False,
    reference: int | None = None,
) -> AttentionGroup:
    is_red = not applied or subject is GroupSubject.FEED
    return AttentionGroup(
        key=f"{subject.value}~{code}~{channel}",
        subject=subject,
        severity=_RED if is_red else _AMBER,
        code=code,
        kind=kind,
        channel=channel,
        count=count,
        first_at=at[0],
        last_at=at[1],
        words=cause.words or code,
        action=cause.action or ProposedAction.ACKNOWLEDGE,
        advice=cause.advice,
        applied=applied,
        list=listed,
        filters=filters,
        reference=reference,
    )


_SUBJECTS: Final = {
    ExceptionSubject.MESSAGE: GroupSubject.MESSAGES,
    ExceptionSubject.DELIVERY: GroupSubject.DELIVERIES,
    ExceptionSubject.ORDER: GroupSubject.ORDERS,
    ExceptionSubject.FEED: GroupSubject.FEED,
}


_MESSAGE: Final = MESSAGE.alias("m")
_IS_NOT_PARKED: Final = or_(
    _ITEM.kind != ExceptionSubject.MESSAGE.value,
    ~exists().where(_MESSAGE.c.id == _ITEM.row_id, _MESSAGE.c.code == _ITEM.code, text(_PARKED)),
)


def _items(connection: Connection, access: Access) -> Iterable[AttentionGroup]:
    """
    Yield the groups of open attention items: processed, and a person must check the result.

    Those with the code of a parked message are left out: it is in a group already.
    """
    statement = (
        select(
            _ITEM.kind,
            _ITEM.code,
            func.count().label("number"),
            func.min(_ITEM.noted_at).label("first_at"),
            func.max(_ITEM.noted_at).label("last_at"),
            func.max(_ITEM.row_id).label("row_id"),
        )
        .where(*items.conditions({"seen": "no"}, access), _IS_NOT_PARKED)
        .group_by(_ITEM.kind, _ITEM.code)
        .order_by(func.max(_ITEM.noted_at).desc())
        .limit(MAX_GROUPS)
    )
    for row in connection.execute(statement):
        subject = ExceptionSubject(row.kind)
        cause = cause_of(subject, "", row.code)
        own = {"subject": [row.kind], "code": [row.code]}
        at = row.first_at, row.last_at
        yield _group(
            *(_SUBJECTS[subject], row.code, "", row.number, at, cause, "attention", own),
            applied=True,
            reference=row.row_id if row.number == 1 else None,
        )


def _codes(connection: Connection) -> Iterable[AttentionGroup]:
    """Yield the code tables with codes that nobody has entered or ignored, last met first."""
    by_table: dict[tuple[str, str], list[UnmappedCodeRecord]] = {}
    for record in still_unmapped(connection, _CODE.seen_at.is_(None), _CODE.policy != KEEP_POLICY):
        by_table.setdefault((record.mapping, record.code_table), []).append(record)
    for (mapping, table), records in islice(by_table.items(), MAX_GROUPS):
        cause = Cause(
            f"Codes have no entry in the table {table} of {mapping}",
            ProposedAction.ADD_CODES,
            "Add the codes, activate, then replay the messages that lack a value.",
        )
        at = (
            min(record.first_at for record in records),
            max(record.last_at for record in records),
        )
        yield _group(
            *(GroupSubject.CODES, f"{mapping} {table}", "", len(records), at),
            *(cause, "codes", {"definition": [mapping]}),
            applied=True,
        )


def mark_reviewed(
    database: Database, subject: ExceptionSubject, code: str, access: Access, now: int, by: str
) -> int:
    """Mark the open items with a code as reviewed, on the visible sites; return their number."""
    wanted = {"subject": [subject.value], "code": [code], "seen": "no"}
    with database.write() as connection:
        own = items.conditions(wanted, access)
        statement = update(EXCEPTIONS).where(*own).values(seen_at=now, seen_by=by)
        return connection.execute(statement).rowcount
