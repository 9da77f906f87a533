"""
Alerts: conditions with the notices sent for them, the monitor that finds them, and ways to send.

A condition causes a notice when it begins, reminders while it lasts, and a notice when it ends. A
flapping condition is reported as such, and as ended only after it has been gone for a while. After
a restart, or on another node, no notice is sent twice. Everything here blocks.
"""

import smtplib
import ssl
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import localtime, make_msgid
from enum import StrEnum
from typing import Any, Final

import httpx
import structlog
from sqlalchemy import Connection, Row, Select, and_, case, delete, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from bridge.handshake_counts import DICOM, DICOM_REFUSAL, SERVICE
from bridge.metrics import Metrics
from bridge.monitoring.baseline import MINUTE
from bridge.monitoring.channels import (
    HOUR,
    read_channels,
    read_handshakes,
    read_start_failures,
)
from bridge.monitoring.conditions import (
    THE_INBOX,
    AlertCondition,
    AlertSeverity,
    AlertThresholds,
    NodeFiles,
    QueueBacklog,
    SystemSnapshot,
    Validity,
    find_conditions,
)
from bridge.monitoring.statistics import (
    DESTINATION,
    LISTENER,
    ChannelKey,
    read_backlogs,
    read_expected,
    refusing_since,
    store_check,
    waiting_before,
)
from bridge.queue import queries
from bridge.redaction import describe
from bridge.store.database import Database
from bridge.store.records import unmapped_codes
from bridge.store.records.exceptions import list_unseen
from bridge.store.tables import ALERTS
from config.sections import ChannelKind
from mllp.errors import LossReason


class AlertEvent(StrEnum):
    """The reason of a notice."""

    RAISED = "raised"
    REMINDER = "reminder"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True)
class AlertNotice:
    """A notice about one condition; `raised_at` in ms."""

    event: AlertEvent
    condition: AlertCondition
    raised_at: int


_ALERT = ALERTS.c
_ACTIVE: Final[Select[Any]] = select(ALERTS).where(_ALERT.cleared_at.is_(None))

MAX_RECURRENCES = 3
"""A condition that returned this many times is flapping."""
_OTHERS = frozenset({SERVICE, DICOM, DICOM_REFUSAL})
"""Kinds of connections that are no channels."""

_KEPT_MS = 90 * 86_400_000


def update_alerts(
    database: Database,
    active: Sequence[AlertCondition],
    now: int,
    repeat_after: int,
    hold_down: int = 0,
) -> list[AlertNotice]:
    """
    Store the current conditions and return the notices to send.

    A condition that has become critical is raised again. Returned notices count as sent: no node
    gets them again before `repeat_after` ms (0: never). A condition that returned `MAX_RECURRENCES`
    times, each time within `hold_down` ms, is cleared after it has been gone for `hold_down` ms.
    """
    with database.write() as connection:
        database.serialize(connection, "alerts")
        before = {row.key: row for row in connection.execute(_ACTIVE)}
        for condition in active:
            _store_raised(connection, condition, now, hold_down)
        notices = [*_raised_or_repeated(connection, now, repeat_after)]
        keys = {alert_condition.key for alert_condition in active}
        for key, row in before.items():
            held = row.recurrences >= MAX_RECURRENCES and now - row.seen_at < hold_down
            if key not in keys and not held:
                cleared = update(ALERTS).where(_ALERT.key == key, _ALERT.cleared_at.is_(None))
                connection.execute(cleared.values(cleared_at=now))
                if row.notified_at is not None:
                    notices.append(AlertNotice(AlertEvent.CLEARED, _condition(row), row.raised_at))
        for notice in notices:
            _set_notified(connection, notice, now)
        connection.execute(delete(ALERTS).where(_ALERT.cleared_at < now - _KEPT_MS))
        return notices


def _store_raised(
    connection: Connection, condition: AlertCondition, now: int, hold_down: int
) -> None:
    severity = condition.severity.value
    kind, name = condition.channel or ("", "")
    is_active = _ALERT.cleared_at.is_(None)
    is_milder = or_(_ALERT.severity == severity, literal(severity) == AlertSeverity.WARNING.value)
    current = {
        "severity": severity,
        "text": condition.text,
        "seen_at": now,
        "kind": str(kind),
        "name": name,
        "action": condition.action,
    }
    connection.execute(
        insert(ALERTS)
        .values(key=condition.key, raised_at=now, **current)
        .on_conflict_do_update(
            index_elements=[_ALERT.key],
            set_={
                **current,
                "raised_at": case((is_active, _ALERT.raised_at), else_=now),
                "notified_at": case((and_(is_active, is_milder), _ALERT.notified_at)),
                "recurrences": case(
                    (is_active, _ALERT.recurrences),
                    (_ALERT.cleared_at > now - hold_down, _ALERT.recurrences + 1),
                    else_=0,
                ),
                "cleared_at": None,
            },
        )
    )


def _set_notified(connection: Connection, notice: AlertNotice, now: int | None) -> None:
    own = update(ALERTS).where(_ALERT.key == notice.condition.key)
    connection.execute(own.values(notified_at=now))


def _raised_or_repeated(connection: Connection, now: int, repeat_after: int) -> list[AlertNotice]:
    notices = []
    for row in connection.execute(_ACTIVE).all():
        if row.seen_at != now:
            continue
        if row.notified_at is None:
            notices.append(AlertNotice(AlertEvent.RAISED, _condition_to_raise(row), row.raised_at))
        elif repeat_after and now - row.notified_at >= repeat_after:
            notices.append(AlertNotice(AlertEvent.REMINDER, _condition(row), row.raised_at))
    return notices


def mark_unsent(database: Database, notices: Sequence[AlertNotice]) -> None:
    """Mark notices as not sent, because every way to send them failed."""
    with database.write() as connection:
        for notice in notices:
            if notice.event is not AlertEvent.CLEARED:
                _set_notified(connection, notice, None)


def list_alerts(database: Database) -> list[dict[str, Any]]:
    """List active alerts, then cleared ones, newest first; times in ms."""
    with database.read() as connection:
        newest_first = (_ALERT.cleared_at.is_not(None), _ALERT.raised_at.desc())
        rows = connection.execute(select(ALERTS).order_by(*newest_first)).mappings()
        return [dict(row) for row in rows]


@dataclass(frozen=True, slots=True)
class ActiveAlert:
    """An active alert as pages show it; `raised_at` in ms."""

    key: str
    severity: AlertSeverity
    text: str
    action: str
    channel: tuple[str, str] | None
    """Kind and name of the listener or destination that it is about."""
    raised_at: int

    @property
    def subject(self) -> str:
        """The kind of the condition, such as `parked`."""
        return self.key.partition(":")[0]


def active_alerts(database: Database) -> list[ActiveAlert]:
    """List the active alerts: critical ones first, then by age."""
    with database.read() as connection:
        rows = connection.execute(_ACTIVE.order_by(_ALERT.raised_at, _ALERT.key)).all()
    found = [
        ActiveAlert(
            row.key,
            AlertSeverity(row.severity),
            row.text,
            row.action,
            (row.kind, row.name) if row.kind else None,
            row.raised_at,
        )
        for row in rows
    ]
    return sorted(found, key=lambda alert: alert.severity is not AlertSeverity.CRITICAL)


def _condition_to_raise(row: Row[Any]) -> AlertCondition:
    found = _condition(row)
    if row.recurrences < MAX_RECURRENCES:
        return found
    return replace(found, text=f"{found.text}; the condition keeps returning")


def _condition(row: Row[Any]) -> AlertCondition:
    return AlertCondition(row.key, AlertSeverity(row.severity), row.text)


TIMEOUT = 15.0  # seconds


@dataclass(frozen=True, slots=True)
class MailServer:
    """The mail server and the addresses; `security` is `none`, `starttls` or `tls`."""

    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    security: str = "starttls"
    user: str = ""
    password: str = ""
    ca: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """The URL of a webhook; `authorization` is the value of the Authorization header."""

    url: str
    authorization: str = ""


def send_mail(mail: MailServer, system: str, notices: Sequence[AlertNotice]) -> None:
    """Send one mail. Raises OSError, which includes smtplib's errors."""
    message = EmailMessage()
    first = notices[0]
    more = f" (+{len(notices) - 1})" if len(notices) > 1 else ""
    message["Subject"] = f"[{system}] {first.event}: {first.condition.text}{more}"
    message["From"], message["To"] = mail.sender, ", ".join(mail.to)
    message["Date"] = localtime()  # relays need not add it (RFC 5322 §3.6)
    message["Message-ID"] = make_msgid(domain=mail.sender.rpartition("@")[2])
    message.set_content("\n".join(map(notice_line, notices)) + "\n")
    context = ssl.create_default_context(cafile=mail.ca)
    if mail.security == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(
            mail.host, mail.port, timeout=TIMEOUT, context=context
        )
    else:
        smtp = smtplib.SMTP(mail.host, mail.port, timeout=TIMEOUT)
    with smtp:
        if mail.security == "starttls":
            smtp.starttls(context=context)
        if mail.user:
            smtp.login(mail.user, mail.password)
        smtp.send_message(message)


def call_webhook(hook: WebhookTarget, system: str, notices: Sequence[AlertNotice]) -> None:
    """Post all notices as one JSON document. Raises httpx.HTTPError."""
    headers = {"authorization": hook.authorization} if hook.authorization else {}
    body = {"system": system, "alerts": [notice_json(notice) for notice in notices]}
    # The body of the response is not read: it may be of any size.
    with httpx.stream("POST", hook.url, json=body, headers=headers, timeout=TIMEOUT) as response:
        response.raise_for_status()


def notice_json(notice: AlertNotice) -> dict[str, Any]:
    return {
        "news": notice.event.value,
        "key": notice.condition.key,
        "severity": notice.condition.severity.value,
        "text": notice.condition.text,
        "since": _moment(notice.raised_at),
    }


def notice_line(notice: AlertNotice) -> str:
    condition = notice.condition
    since = _moment(notice.raised_at)
    return f"{notice.event:<8}  {condition.severity:<8}  {condition.text}  (since {since})"


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


Notify = Callable[[Sequence[AlertNotice]], None]
"""Sends notices in one way, such as by e-mail, or raises."""


MAX_EXCEPTIONS = 1000
MAX_UNMAPPED_CODES = 2000


def no_disk_limit() -> None:
    """Return None: the disk is not monitored."""


def no_other_nodes(_now: int) -> Sequence[NodeFiles]:
    """Return nothing: there are no other nodes."""
    return ()


@dataclass(frozen=True, slots=True)
class AlertMonitor:
    """Monitors one installation; blocking. Times and durations are in ms."""

    database: Database
    thresholds: Callable[[], AlertThresholds]
    certificates: Callable[[], Mapping[str, Validity]]
    notifiers: Mapping[str, Notify]
    """The ways to send notices, by name."""
    metrics: Metrics
    clock: Callable[[], int]
    started_at: int
    repeat_after: int
    names: Callable[[], frozenset[str]] = frozenset
    """Channels of the current settings. Deleted channels that are still paused cause no alert."""
    disk_free: Callable[[], int | None] = no_disk_limit
    hold_down: int = 0
    """How long a flapping condition must be gone before its alert is cleared."""
    host: str = ""
    """The host name of this process."""
    other_nodes: Callable[[int], Sequence[NodeFiles]] = no_other_nodes
    """Returns the files of other nodes that are valid at a time (ms)."""
    zones: Callable[[], Mapping[str, str]] = dict
    """Returns the time zones of the listeners, by name."""
    unsent: dict[str, dict[str, AlertNotice]] = field(default_factory=dict)
    """Notices that could not be sent, by way and condition; kept in this process only."""

    def check(self) -> list[AlertCondition]:
        """Check once, send notices, and return the current conditions. Raises StoreError."""
        now = self.clock()
        found = find_conditions(self._snapshot(now), self.thresholds())
        notices = update_alerts(self.database, found, now, self.repeat_after, self.hold_down)
        store_check(self.database, now)
        self.metrics.show_alerts(
            {alert_condition.key.partition(":")[0] for alert_condition in found}
        )
        log = structlog.get_logger("alerts")
        for notice in notices:
            log.warning("alert", state=notice.event.value, reason=notice.condition.text)
        active = {condition.key for condition in found}
        reached = [self._send(notifier, notices, active) for notifier in self.notifiers]
        if notices and self.notifiers and not any(reached):
            mark_unsent(self.database, notices)
        return found

    def _send(self, notifier: str, notices: Sequence[AlertNotice], active: Container[str]) -> bool:
        """Send new notices, and unsent ones that are still valid; return whether that succeeded."""
        unsent = self.unsent.pop(notifier, {}).items()
        current = {
            k: notice
            for k, notice in unsent
            if (k in active) is (notice.event is not AlertEvent.CLEARED)
        }
        current |= {notice.condition.key: notice for notice in notices}
        if not current:
            return True
        try:
            self.notifiers[notifier]([*current.values()])
        except Exception as error:  # noqa: BLE001  # the other ways must work, too
            structlog.get_logger("alerts").error(
                "notification not sent", endpoint=notifier, error=describe(error)
            )
            self.unsent[notifier] = current
            return False
        return True

    def _snapshot(self, now: int) -> SystemSnapshot:
        names = self.names()
        found = {kind: read_channels(self.database, kind) for kind in ChannelKind}
        # Channels that were removed keep their state in the database.
        channels = {
            kind: {name: channel for name, channel in own.items() if f"{kind} {name}" in names}
            for kind, own in found.items()
        }
        destinations = channels[ChannelKind.DESTINATION]
        backlogs = read_backlogs(self.database)
        snapshot = SystemSnapshot(
            now=now,
            started_at=self.started_at,
            queues=_queues(backlogs),
            backlogs=backlogs,
            last_message={
                name: channel.active_at for name, channel in found[ChannelKind.LISTENER].items()
            },
            paused={
                f"{kind} {name}": channel.paused_at
                for kind, own in channels.items()
                for name, channel in own.items()
                if channel.paused_at is not None
            },
            certificates=self.certificates(),
            circuits={
                name: channel.problem
                for name, channel in destinations.items()
                if channel.open_until is not None
            },
            handshakes=[
                failure
                for failure in read_handshakes(self.database)
                if failure.last_at > now - HOUR
                and (failure.kind in _OTHERS or f"{failure.kind} {failure.name}" in names)
            ],
            unframed={
                name: channel.problem
                for name, channel in destinations.items()
                if channel.problem_code == LossReason.UNFRAMED
            },
            exceptions=list_unseen(self.database, MAX_EXCEPTIONS),
            refused=queries.refused_since(self.database, now - HOUR),
            disk_free=self.disk_free(),
            unknown_codes=unmapped_codes.list_active(self.database, MAX_UNMAPPED_CODES),
            host=self.host,
            other_nodes=self.other_nodes(now),
            refusals={
                name: channel.refused
                for name, channel in destinations.items()
                if channel.refused and channel.open_until is None
            },
            start_failures={
                f"{kind} {name}": reason
                for kind in (*ChannelKind, DICOM)
                for name, reason in read_start_failures(self.database, kind, now).items()
                if kind == DICOM or f"{kind} {name}" in names
            },
        )
        return self._with_statistics(snapshot, names)

    def _with_statistics(self, snapshot: SystemSnapshot, names: frozenset[str]) -> SystemSnapshot:
        """Add what the statistics of the last hour and of earlier weeks tell."""
        now, database = snapshot.now, self.database
        listeners = [name for kind, name in map(str.split, names) if kind == ChannelKind.LISTENER]
        silent = {
            name: since
            for name in listeners
            if f"listener {name}" not in snapshot.paused
            and now - (since := snapshot.quiet_since(name)) >= MINUTE
        }
        return replace(
            snapshot,
            waiting_before=waiting_before(database, snapshot.backlogs, now),
            refusing_since=refusing_since(database, snapshot.refusals, now),
            expected=read_expected(database, silent, self.zones(), now),
        )


def _queues(backlogs: Mapping[ChannelKey, QueueBacklog]) -> dict[str, QueueBacklog]:
    """Return the inbox of all listeners together, and the queue of each destination."""
    inbox = [backlog for (kind, _), backlog in backlogs.items() if kind == LISTENER]
    total = QueueBacklog(
        sum(backlog.waiting for backlog in inbox),
        sum(backlog.parked for backlog in inbox),
        min((backlog.oldest for backlog in inbox if backlog.oldest is not None), default=None),
    )
    outbox = {" ".join(key): backlog for key, backlog in backlogs.items() if key[0] == DESTINATION}
    return {THE_INBOX: total, **outbox}
