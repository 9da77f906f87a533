"""
Alert conditions: derived from a snapshot of the system. Pure.

The key of a condition stays the same while it lasts, so that operators get one notice. The texts
contain configured names, counts and durations, and no values of messages.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.monitoring.channels import StoredHandshake
from bridge.store.records.exceptions import MERGE_UNDONE, ExceptionSubject, ProcessingException
from bridge.store.records.unmapped_codes import UnmappedCodeRecord

DAY = 86_400_000  # ms


class AlertSeverity(StrEnum):
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class AlertCondition:
    """A condition about which operators are notified while it lasts."""

    key: str
    severity: AlertSeverity
    text: str


@dataclass(frozen=True, slots=True)
class Validity:
    """The validity period of a certificate or revocation list, ms."""

    begins: int
    ends: int


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The TLS files of a node, and the free bytes on the disk of its data directory."""

    host: str
    certificates: Mapping[str, Validity]
    disk_free: int | None


@dataclass(frozen=True, slots=True)
class AlertThresholds:
    """Thresholds of the conditions: durations in ms, counts, bytes; 0 switches a condition off."""

    queue_depth: int = 1000
    queue_age: int = 600_000
    parked: int = 1
    certificate: int = 14 * DAY
    refused: int = 50
    """Refused messages of one listener within an hour."""
    disk_free: int = 0
    silence: Mapping[str, int] = field(default_factory=dict)
    """The longest time without a message, by listener."""


@dataclass(frozen=True, slots=True)
class QueueBacklog:
    """The backlog of one queue: waiting and parked items, and the age of the oldest (ms)."""

    waiting: int
    parked: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class SystemSnapshot:
    """The state of the system at one time; times in ms."""

    now: int
    started_at: int
    queues: Mapping[str, QueueBacklog]
    last_message: Mapping[str, int | None]
    paused: Mapping[str, int]
    certificates: Mapping[str, Validity]
    """TLS files by name, such as `certificate of listener orders`."""
    circuits: Mapping[str, str] = field(default_factory=dict)
    """Destinations with an open circuit, and why the last attempt got no usable reply."""
    handshakes: Sequence[StoredHandshake] = ()
    """Failed TLS handshakes within the last hour, newest first."""
    unframed: Mapping[str, str] = field(default_factory=dict)
    """Destinations whose last reply had no start or end block, and what came."""
    exceptions: Sequence[ProcessingException] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    """Refused messages of each listener within the last hour."""
    disk_free: int | None = None
    """Free bytes on the disk of the data directory."""
    unknown_codes: Sequence[UnmappedCodeRecord] = ()
    """Unmapped codes of the active definitions."""
    host: str = ""
    """The host of `certificates` and `disk_free`."""
    other_nodes: Sequence[NodeFiles] = ()
    """The files of other nodes."""

    @property
    def files(self) -> Sequence[NodeFiles]:
        return [NodeFiles(self.host, self.certificates, self.disk_free), *self.other_nodes]


KEEP_POLICY = "keep"
MAX_SINGLE_MESSAGES = 20
"""Number of messages with a separate alert; further messages share one alert."""


def find_conditions(snapshot: SystemSnapshot, limits: AlertThresholds) -> list[AlertCondition]:
    return [
        *_queues(snapshot, limits),
        *_silence(snapshot, limits),
        *_paused(snapshot),
        *_certificates(snapshot, limits),
        *_circuits(snapshot),
        *_handshakes(snapshot),
        *_refused(snapshot, limits),
        *_disk(snapshot, limits),
        *_exceptions(snapshot),
        *_codes(snapshot),
    ]


def _queues(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name, queue in snapshot.queues.items():
        if limits.queue_depth and queue.waiting >= limits.queue_depth:
            text = f"{queue.waiting} entries wait in {name}"
            yield AlertCondition(f"depth:{name}", AlertSeverity.CRITICAL, text)
        age = 0 if queue.oldest is None else snapshot.now - queue.oldest
        if limits.queue_age and age >= limits.queue_age:
            text = f"the oldest entry in {name} has waited for {format_duration(age)}"
            yield AlertCondition(f"age:{name}", AlertSeverity.CRITICAL, text)
        if limits.parked and queue.parked >= limits.parked:
            text = f"{queue.parked} parked in {name} need attention"
            yield AlertCondition(f"parked:{name}", AlertSeverity.WARNING, text)


def _silence(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name, limit in limits.silence.items():
        if not limit or f"listener {name}" in snapshot.paused:
            continue
        last = snapshot.last_message.get(name)
        quiet = snapshot.now - max(last or 0, 0 if last else snapshot.started_at)
        if quiet >= limit:
            text = f"listener {name} has received no message for {format_duration(quiet)}"
            yield AlertCondition(f"silence:{name}", AlertSeverity.WARNING, text)


def _paused(snapshot: SystemSnapshot) -> Iterator[AlertCondition]:
    for name in snapshot.paused:
        yield AlertCondition(f"paused:{name}", AlertSeverity.WARNING, f"{name} is paused")


def _certificates(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name in dict.fromkeys(name for files in snapshot.files for name in files.certificates):
        own = [(file.host, file.certificates.get(name)) for file in snapshot.files]
        soon = [
            (host, validity.ends)
            for host, validity in own
            if validity and _ends_soon(validity, snapshot, limits)
        ]
        past = [host for host, ends in soon if ends <= snapshot.now]
        key = f"certificate:{name.removeprefix('certificate of ')}"
        if past:
            text = f"the {name} has expired{_on_hosts(snapshot, past)}"
            yield AlertCondition(key, AlertSeverity.CRITICAL, text)
        elif soon:
            left = format_duration(min(ends for _, ends in soon) - snapshot.now)
            text = f"the {name} expires in {left}{_on_hosts(snapshot, [host for host, _ in soon])}"
            yield AlertCondition(key, AlertSeverity.WARNING, text)


def _ends_soon(validity: Validity, snapshot: SystemSnapshot, limits: AlertThresholds) -> bool:
    left = validity.ends - snapshot.now
    # Some certificates are valid for only a week.
    soon = min(limits.certificate, (validity.ends - validity.begins) // 4)
    return left <= 0 or left < soon


def _on_hosts(snapshot: SystemSnapshot, hosts: Collection[str]) -> str:
    several = len({file.host for file in snapshot.files}) > 1
    return f" on {', '.join(sorted(set(hosts)))}" if several else ""


def _circuits(snapshot: SystemSnapshot) -> Iterator[AlertCondition]:
    for name, problem in snapshot.circuits.items():
        why = f" ({problem})" if problem else ""
        text = f"destination {name} does not respond{why}; delivery is retried automatically"
        yield AlertCondition(f"circuit:destination {name}", AlertSeverity.WARNING, text)
    for name, problem in snapshot.unframed.items():
        text = f"destination {name} replies without MLLP framing: {problem}"
        yield AlertCondition(f"unframed:destination {name}", AlertSeverity.WARNING, text)


MIN_HANDSHAKES = 3
"""Failed TLS handshakes of a connection within an hour after which operators are notified."""


def _handshakes(snapshot: SystemSnapshot) -> Iterator[AlertCondition]:
    """Return a condition for each connection whose handshakes fail repeatedly."""
    by_owner: dict[str, list[StoredHandshake]] = {}
    for failure in snapshot.handshakes:
        if failure.is_trouble:
            by_owner.setdefault(f"{failure.kind} {failure.name}", []).append(failure)
    for owner, failures in by_owner.items():
        count = sum(failure.count for failure in failures)
        if count >= MIN_HANDSHAKES:
            last = failures[0]
            text = f"{count} TLS handshakes of {owner} failed, the last with {last.peer}: "
            yield AlertCondition(f"tls:{owner}", AlertSeverity.WARNING, text + last.reason)


def _refused(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name, count in snapshot.refused.items():
        if limits.refused and count >= limits.refused:
            text = f"listener {name} has refused {limits.refused} messages or more within an hour"
            yield AlertCondition(f"refused:listener {name}", AlertSeverity.WARNING, text)


def _disk(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    full = {
        file.host
        for file in snapshot.files
        if file.disk_free is not None and file.disk_free < limits.disk_free
    }
    if full:
        text = f"less than {limits.disk_free // 2**20} MiB are free on the disk of HOME"
        yield AlertCondition("disk", AlertSeverity.CRITICAL, text + _on_hosts(snapshot, full))


def _exceptions(snapshot: SystemSnapshot) -> Iterator[AlertCondition]:
    """Return a condition for each message, for a replaced feed, and for each kind of difference."""
    messages = [
        exception for exception in snapshot.exceptions if exception.kind is ExceptionSubject.MESSAGE
    ]
    for message in messages[:MAX_SINGLE_MESSAGES]:
        text = f"message {message.row_id} was applied and needs attention: {message.code}"
        yield AlertCondition(f"concern:message {message.row_id}", AlertSeverity.WARNING, text)
    if messages[MAX_SINGLE_MESSAGES:]:
        text = f"more than {MAX_SINGLE_MESSAGES} applied messages need attention"
        yield AlertCondition("concern:further", AlertSeverity.WARNING, text)
    yield from _refused_later(snapshot)
    if any(row.kind is ExceptionSubject.FEED for row in snapshot.exceptions):
        text = (
            "the change feed of the report service was replaced, such as by a restored backup;"
            " it is read again from its beginning: compare reports and results since the backup"
        )
        yield AlertCondition("concern:feed", AlertSeverity.CRITICAL, text)
    differing = Counter(
        row.code for row in snapshot.exceptions if row.kind is ExceptionSubject.ORDER
    )
    for code, count in differing.items():
        text = f"{count} orders differ from the report service: {code}"
        if code == MERGE_UNDONE:
            text = f"{count} orders were moved by a merge that was undone: check whose they are"
        yield AlertCondition(f"differs:{code}", AlertSeverity.WARNING, text)


def _refused_later(snapshot: SystemSnapshot) -> Iterator[AlertCondition]:
    results = [
        exception
        for exception in snapshot.exceptions
        if exception.kind is ExceptionSubject.DELIVERY
    ]
    for result in results[:MAX_SINGLE_MESSAGES]:
        text = f"delivery {result.row_id} was accepted and then refused: {result.code}"
        yield AlertCondition(f"concern:delivery {result.row_id}", AlertSeverity.WARNING, text)
    if results[MAX_SINGLE_MESSAGES:]:
        text = f"more than {MAX_SINGLE_MESSAGES} accepted results were refused later"
        yield AlertCondition("concern:further deliveries", AlertSeverity.WARNING, text)


def _codes(snapshot: SystemSnapshot) -> Iterator[AlertCondition]:
    """Return a condition for each code table with unmapped codes, unless its policy is `keep`."""
    unmapped = Counter(
        (code.mapping, code.code_table)
        for code in snapshot.unknown_codes
        if code.policy != KEEP_POLICY and code.seen_at is None
    )
    for (mapping, table), count in unmapped.items():
        noun = "code" if count == 1 else "codes"
        text = f"{count} unmapped {noun} in table {table} (mapping {mapping})"
        yield AlertCondition(f"codes:{mapping} {table}", AlertSeverity.WARNING, text)


def format_duration(milliseconds: int) -> str:
    """Format a duration in its largest unit: `3 d`, `2 h`, `5 min`, `10 s`."""
    for name, size in (("d", DAY), ("h", 3_600_000), ("min", 60_000)):
        if milliseconds >= size:
            return f"{milliseconds // size} {name}"
    return f"{milliseconds // 1000} s"
