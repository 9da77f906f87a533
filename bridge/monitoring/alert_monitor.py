"""
Alert monitor: collects a snapshot of the system, updates the alerts, and sends notifications.

`conditions` decides which conditions of a snapshot are alerts.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from bridge.metrics import Metrics
from bridge.monitoring.alerts import AlertEvent, AlertNotice, mark_unsent, update_alerts
from bridge.monitoring.channels import ChannelKind, read_channels
from bridge.monitoring.conditions import (
    AlertCondition,
    AlertThresholds,
    NodeFiles,
    QueueBacklog,
    SystemSnapshot,
    Validity,
    find_conditions,
)
from bridge.queue import queries
from bridge.queue.listing_rows import Depth
from bridge.queue.states import QueueState
from bridge.redaction import describe
from bridge.store.database import Database
from bridge.store.records import unmapped_codes
from bridge.store.records.exceptions import list_unseen

Notify = Callable[[Sequence[AlertNotice]], None]
"""Sends notices in one way, such as by e-mail, or raises."""


MAX_EXCEPTIONS = 1000
MAX_UNMAPPED_CODES = 2000
HOUR = 3_600_000  # ms


def no_disk_limit() -> None:
    """Return no free space: the disk is not monitored."""


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
    """Channels of the current settings; paused channels that were deleted are no alerts."""
    disk_free: Callable[[], int | None] = no_disk_limit
    hold: int = 0
    """How long a flapping condition must be gone before its alert is cleared."""
    host: str = ""
    """The host name of this process."""
    other_nodes: Callable[[int], Sequence[NodeFiles]] = no_other_nodes
    """Returns the files and disks of other nodes at a time."""
    unsent: dict[str, dict[str, AlertNotice]] = field(default_factory=dict)
    """Notices that could not be sent, by way and condition; kept in this process only."""

    def check(self) -> list[AlertCondition]:
        """Check once, send notices, and return the current conditions. Raises StoreError."""
        now = self.clock()
        found = find_conditions(self._snapshot(now), self.thresholds())
        notices = update_alerts(self.database, found, now, self.repeat_after, self.hold)
        self.metrics.show_alerts({each.key.partition(":")[0] for each in found})
        log = structlog.get_logger("alerts")
        for notice in notices:
            log.warning("alert", state=notice.news.value, reason=notice.condition.text)
        standing = {each.key for each in found}
        reached = [self._send(notifier, notices, standing) for notifier in self.notifiers]
        if notices and self.notifiers and not any(reached):
            mark_unsent(self.database, notices)
        return found

    def _send(
        self, notifier: str, notices: Sequence[AlertNotice], standing: Container[str]
    ) -> bool:
        """Send new notices, and unsent ones that are still valid; return whether that succeeded."""
        unsent = self.unsent.pop(notifier, {}).items()
        news = {
            k: each
            for k, each in unsent
            if (k in standing) is (each.news is not AlertEvent.CLEARED)
        }
        news |= {each.condition.key: each for each in notices}
        if not news:
            return True
        try:
            self.notifiers[notifier]([*news.values()])
        except Exception as error:  # noqa: BLE001  # the other ways must work, too
            structlog.get_logger("alerts").error(
                "not told", endpoint=notifier, error=describe(error)
            )
            self.unsent[notifier] = news
            return False
        return True

    def _snapshot(self, now: int) -> SystemSnapshot:
        names = self.names()
        listeners = read_channels(self.database, ChannelKind.LISTENER)
        destinations = read_channels(self.database, ChannelKind.DESTINATION)
        paused = {
            f"{kind} {each.name}": each.paused_at
            for kind, found in (
                (ChannelKind.LISTENER, listeners),
                (ChannelKind.DESTINATION, destinations),
            )
            for each in found.values()
            if each.paused_at is not None and f"{kind} {each.name}" in names
        }
        queues = {
            "the inbox": queries.open_messages(self.database),
            **{
                f"destination {name}": found
                for name, found in queries.open_deliveries(self.database).items()
            },
        }
        return SystemSnapshot(
            now=now,
            started_at=self.started_at,
            queues={name: _queue(depths) for name, depths in queues.items()},
            last_message={each.name: each.active_at for each in listeners.values()},
            paused=paused,
            certificates=self.certificates(),
            circuits=[
                each.name
                for each in destinations.values()
                if each.open_until is not None and f"destination {each.name}" in names
            ],
            concerns=list_unseen(self.database, MAX_EXCEPTIONS),
            refused=queries.refused_since(self.database, now - HOUR),
            disk_free=self.disk_free(),
            unknown_codes=unmapped_codes.list_active(self.database, MAX_UNMAPPED_CODES),
            host=self.host,
            other_nodes=self.other_nodes(now),
        )


def _queue(depths: Mapping[QueueState, Depth]) -> QueueBacklog:
    waiting = [depths[each] for each in (QueueState.QUEUED, QueueState.CLAIMED) if each in depths]
    parked = depths.get(QueueState.PARKED)
    return QueueBacklog(
        waiting=sum(each.count for each in waiting),
        parked=0 if parked is None else parked.count,
        oldest=min((each.oldest for each in waiting if each.count), default=None),
    )
