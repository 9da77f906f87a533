"""
Alert conditions: derived from a snapshot of the system. Pure.

The key of a condition stays the same while it lasts, so that operators get one notice. The texts
contain configured names, counts and durations, and no values of messages.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from bridge.handshake_counts import DICOM_REFUSAL
from bridge.monitoring.baseline import MINUTE
from bridge.monitoring.channels import StoredHandshake
from bridge.store.records.exceptions import MERGE_UNDONE, ExceptionSubject, ProcessingException
from bridge.store.records.unmapped_codes import UnmappedCodeRecord
from config.sections import ChannelKind

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

    @property
    def channel(self) -> tuple[ChannelKind, str] | None:
        """Kind and name of the listener or destination that the condition is about."""
        subject, _, about = self.key.partition(":")
        if subject == _SILENCE:
            return ChannelKind.LISTENER, about
        found = _CHANNEL.fullmatch(about)
        return None if found is None else (ChannelKind(found[1]), found[2])

    @property
    def action(self) -> str:
        """What a person can do, as a sentence."""
        return _ACTIONS.get(self.key) or _ACTIONS.get(self.key.partition(":")[0], "")


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
    rejecting: int = 3
    """Refusals of a destination in a row."""
    quiet: int = 12
    """Messages that a silent listener usually has received since its last one."""
    growing: int = 50
    """Items in a queue that does not get shorter."""
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
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Refusals of each destination since its last accepted message."""
    refusing_since: Mapping[str, int] = field(default_factory=dict)
    """When each of these destinations began to refuse, as far as it is known."""
    expected: Mapping[str, float] = field(default_factory=dict)
    """How many messages silent listeners usually have received since their last one."""
    backlogs: Mapping[tuple[str, str], QueueBacklog] = field(default_factory=dict)
    """The queue of each channel by kind and name; if it is long, of all listeners together."""
    waiting_before: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The most that waited in these queues in the minute before."""
    start_failures: Mapping[str, str] = field(default_factory=dict)
    """Why channels did not start, such as `listener orders`."""

    def silent_since(self, listener: str) -> int:
        """Return when a listener received its last message, or when this process started."""
        last = self.last_message.get(listener)
        return max(last or 0, 0 if last else self.started_at)

    def quiet_since(self, listener: str) -> int:
        """As `silent_since`, but after a start senders get time to connect again."""
        return max(self.last_message.get(listener) or 0, self.started_at)

    @property
    def files(self) -> Sequence[NodeFiles]:
        return [NodeFiles(self.host, self.certificates, self.disk_free), *self.other_nodes]


KEEP_POLICY = "keep"
THE_INBOX = "the inbox"
"""The name of the queue of all listeners."""
MAX_SINGLE_MESSAGES = 20
"""Number of messages with a separate alert; further messages share one alert."""


def find_conditions(snapshot: SystemSnapshot, limits: AlertThresholds) -> list[AlertCondition]:
    return [
        *_queues(snapshot, limits),
        *_parked(snapshot, limits),
        *_growing(snapshot, limits),
        *_silence(snapshot, limits),
        *_quiet(snapshot, limits),
        *_paused(snapshot),
        *_not_started(snapshot),
        *_certificates(snapshot, limits),
        *_circuits(snapshot),
        *_rejecting(snapshot, limits),
        *_handshakes(snapshot),
        *_refused(snapshot, limits),
        *_disk(snapshot, limits),
        *_exceptions(snapshot),
        *_codes(snapshot),
    ]


_CHANNEL: Final = re.compile(r"(?:.* of )?(listener|destination) (.+)")
_SILENCE: Final = "silence"
_ACTIONS: Final[Mapping[str, str]] = {
    "depth": "Check whether it is paused, and whether it replies.",
    "depth:the inbox": "Check whether the report service answers.",
    "age": "Check whether it is paused, and whether it replies.",
    "age:the inbox": "Check whether the report service answers.",
    "growing": "Find out what the oldest one waits for.",
    "parked": "Read the cause, correct it, and replay or retry them.",
    "silence": "Check the connection to the sender, and ask the sender.",
    "quiet": "Check the connection to the sender, and ask the sender.",
    "paused": "Resume it when the work is done.",
    "start": "Correct the reason: the service tries again every few seconds.",
    "certificate": "Replace the file: new connections use it at once.",
    "circuit": "Test the connection, and ask the receiver.",
    "unframed": "Read the bytes that came: the receiver must reply with an MLLP frame.",
    "rejecting": "Read the last reply, and correct the receiver or the mapping.",
    "tls": "Compare the certificates of both sides.",
    "refused": "Read the cause, correct the sender or the mapping, and replay the messages.",
    "refused:DICOM port": "Compare AE title and address of the peer with the settings of DICOM.",
    "disk": "Delete old messages, or give the disk more space.",
    "concern": "Check the order, and mark it as reviewed.",
    "concern:feed": "Compare reports and results since the backup.",
    "differs": "Compare the orders with the report service.",
    "codes": "Add the codes to the table, or ignore them.",
}


def _queues(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name, queue in snapshot.queues.items():
        if limits.queue_depth and queue.waiting >= limits.queue_depth:
            text = f"{queue.waiting} entries wait in {name}"
            yield AlertCondition(f"depth:{name}", AlertSeverity.CRITICAL, text)
        age = 0 if queue.oldest is None else snapshot.now - queue.oldest
        if limits.queue_age and age >= limits.queue_age:
            text = f"the oldest entry in {name} has waited for {format_duration(age)}"
            yield AlertCondition(f"age:{name}", AlertSeverity.CRITICAL, text)


def _parked(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for (kind, name), queue in snapshot.backlogs.items():
        if not limits.parked or queue.parked < limits.parked:
            continue
        owner = f"{kind} {name}" if name else THE_INBOX
        noun = "entry" if queue.parked == 1 else "entries"
        text = f"{queue.parked} parked {noun} of {owner} need attention"
        yield AlertCondition(f"parked:{owner}", AlertSeverity.WARNING, text)


def _silence(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name, limit in limits.silence.items():
        if not limit or f"listener {name}" in snapshot.paused:
            continue
        if _is_silent(snapshot, limits, name):
            quiet = snapshot.now - snapshot.silent_since(name)
            text = f"listener {name} has received no message for {format_duration(quiet)}"
            yield AlertCondition(f"silence:{name}", AlertSeverity.WARNING, text)


def _is_silent(snapshot: SystemSnapshot, limits: AlertThresholds, name: str) -> bool:
    limit = limits.silence.get(name, 0)
    return bool(limit) and snapshot.now - snapshot.silent_since(name) >= limit


MUCH_EXPECTED = 40
LONG_SILENCE = 300_000
"""After this time (ms) without `MUCH_EXPECTED` messages, silence is critical."""


def _quiet(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    """Return a condition for each listener that usually has received messages by now."""
    for name, expected in snapshot.expected.items():
        silence = snapshot.now - snapshot.quiet_since(name)
        if (
            not limits.quiet
            or expected < limits.quiet
            or f"listener {name}" in snapshot.paused
            or _is_silent(snapshot, limits, name)
        ):
            continue
        is_critical = expected >= MUCH_EXPECTED and silence >= LONG_SILENCE
        text = (
            f"listener {name} has received nothing for {format_duration(silence)};"
            f" it usually has {expected:.0f} messages or more in this time"
        )
        severity = AlertSeverity.CRITICAL if is_critical else AlertSeverity.WARNING
        yield AlertCondition(f"quiet:listener {name}", severity, text)


GROWING_AGE = 30_000
"""Age (ms) of the oldest item before which a queue is a burst that is being worked off."""


def _growing(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    """Return a condition for each queue that is long and does not get shorter."""
    for (kind, name), queue in snapshot.backlogs.items():
        owner = f"{kind} {name}" if name else THE_INBOX
        age = 0 if queue.oldest is None else snapshot.now - queue.oldest
        is_growing = queue.waiting >= snapshot.waiting_before.get((kind, name), 0)
        is_long = limits.growing and queue.waiting >= limits.growing and age >= GROWING_AGE
        if is_long and is_growing and owner not in snapshot.paused:
            text = f"{queue.waiting} entries wait at {owner}, and the queue does not get shorter"
            yield AlertCondition(f"growing:{owner}", AlertSeverity.WARNING, text)


MANY_REFUSALS = 10
LONG_REFUSAL = 600_000
"""After this time (ms), or after `MANY_REFUSALS`, a destination that refuses is critical."""


def _rejecting(snapshot: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name, count in snapshot.refusals.items():
        if not limits.rejecting or count < limits.rejecting:
            continue
        since = snapshot.refusing_since.get(name)
        lasts = 0 if since is None else snapshot.now - since
        text = f"destination {name} refuses everything: the last {count} messages"
        if lasts >= MINUTE:
            text += f", for {format_duration(lasts)}"
        is_critical = count >= MANY_REFUSALS or lasts >= LONG_REFUSAL
        severity = AlertSeverity.CRITICAL if is_critical else AlertSeverity.WARNING
        yield AlertCondition(f"rejecting:destination {name}", severity, text)


def _not_started(snapshot: SystemSnapshot) -> Iterator[AlertCondition]:
    for name, reason in snapshot.start_failures.items():
        text = f"{name} did not start: {reason}"
        yield AlertCondition(f"start:{name}", AlertSeverity.CRITICAL, text)


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


PORT_REFUSALS: Final = "refused:DICOM port"
"""The key of the condition that the DICOM port refuses connections or messages."""
MIN_HANDSHAKES = 3
"""Failed TLS handshakes of a connection within an hour after which operators are notified."""


def _handshakes(snapshot: SystemSnapshot) -> Iterator[AlertCondition]:
    """Return a condition for each connection whose handshakes fail repeatedly."""
    by_owner: dict[str, list[StoredHandshake]] = {}
    refusals = []
    for failure in snapshot.handshakes:
        if failure.kind == DICOM_REFUSAL:
            refusals.append(failure)
        elif failure.is_trouble:
            by_owner.setdefault(f"{failure.kind} {failure.name}", []).append(failure)
    if refusals:
        yield _port_refusals(refusals)
    for owner, failures in by_owner.items():
        count = sum(failure.count for failure in failures)
        if count >= MIN_HANDSHAKES:
            last = failures[0]
            text = f"{count} TLS handshakes of {owner} failed, the last with {last.peer}: "
            yield AlertCondition(f"tls:{owner}", AlertSeverity.WARNING, text + last.reason)


def _port_refusals(refusals: Sequence[StoredHandshake]) -> AlertCondition:
    """Name the peers with the most refusals, and the last one."""
    counts = Counter[str]()
    for refusal in refusals:
        counts[refusal.name] += refusal.count
    shown = ", ".join(f"{peer} {count}" for peer, count in counts.most_common(_SHOWN_PEERS))
    more = ", …" if len(counts) > _SHOWN_PEERS else ""
    last = max(refusals, key=lambda refusal: refusal.last_at)
    text = (
        f"the DICOM port refused {counts.total()} connections or messages ({shown}{more}), "
        f"the last from {last.peer}: {last.reason}"
    )
    return AlertCondition(PORT_REFUSALS, AlertSeverity.WARNING, text)


_SHOWN_PEERS: Final = 5


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
