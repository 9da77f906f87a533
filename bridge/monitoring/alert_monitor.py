"""Look at everything, note what stands, tell those who want to know. One look at a time.

Gathers and passes on; what is worth telling is `conditions`' business.
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
"""Tells somebody, or raises."""


MAX_EXCEPTIONS = 1000
MAX_UNMAPPED_CODES = 2000
HOUR = 3_600_000  # ms


def no_disk_limit() -> None:
    """Know nothing."""


def no_other_nodes(_now: int) -> Sequence[NodeFiles]:
    """Be alone."""
    return ()


@dataclass(frozen=True, slots=True)
class AlertMonitor:
    """What one installation is watched for, and who is told; blocking."""

    database: Database
    thresholds: Callable[[], AlertThresholds]
    certificates: Callable[[], Mapping[str, Validity]]
    tell: Mapping[str, Notify]
    """The ways to tell people, by name."""
    metrics: Metrics
    clock: Callable[[], int]
    started_at: int
    repeat_after: int
    names: Callable[[], frozenset[str]] = frozenset
    """Channels of today's settings: what is paused and gone from them is no news."""
    disk_free: Callable[[], int | None] = no_disk_limit
    hold: int = 0
    """How long what came back again and again must be gone, ms."""
    host: str = ""
    """Where this process is, for people."""
    other_nodes: Callable[[int], Sequence[NodeFiles]] = no_other_nodes
    """What other nodes see of their own files and disks; takes the time now, ms."""
    owed: dict[str, dict[str, AlertNotice]] = field(default_factory=dict)
    """What could not be told in each way, by key, for as long as this process lives."""

    def look(self) -> list[AlertCondition]:
        """Look once; tell what is new; give what stands. Raises StoreError."""
        now = self.clock()
        found = find_conditions(self._sight(now), self.thresholds())
        notices = update_alerts(self.database, found, now, self.repeat_after, self.hold)
        self.metrics.show_alerts({each.key.partition(":")[0] for each in found})
        log = structlog.get_logger("alerts")
        for notice in notices:
            log.warning("alert", state=notice.news.value, reason=notice.condition.text)
        standing = {each.key for each in found}
        reached = [self._told(way, notices, standing) for way in self.tell]
        if notices and self.tell and not any(reached):
            mark_unsent(self.database, notices)
        return found

    def _told(self, way: str, notices: Sequence[AlertNotice], standing: Container[str]) -> bool:
        """Tell in one way what is new, and what could not be told before and is still true."""
        owed = self.owed.pop(way, {}).items()
        news = {
            k: each for k, each in owed if (k in standing) is (each.news is not AlertEvent.CLEARED)
        }
        news |= {each.condition.key: each for each in notices}
        if not news:
            return True
        try:
            self.tell[way]([*news.values()])
        except Exception as error:  # noqa: BLE001  # the others are told all the same
            structlog.get_logger("alerts").error("not told", endpoint=way, error=describe(error))
            self.owed[way] = news
            return False
        return True

    def _sight(self, now: int) -> SystemSnapshot:
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
