"""What is worth telling a person, from a look at the whole: silence, growth, parked, expiry, doubt.

Pure. Each condition has a key that stays the same while it lasts, so that it is told once;
texts bear names of ours, counts and durations, never what a message says.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.store.records.exceptions import ExceptionSubject, ProcessingException
from bridge.store.records.unmapped_codes import UnmappedCodeRecord

DAY = 86_400_000  # ms


class AlertSeverity(StrEnum):
    """How soon somebody should look."""

    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class AlertCondition:
    """Something that stands, until it is gone."""

    key: str
    severity: AlertSeverity
    text: str


@dataclass(frozen=True, slots=True)
class Validity:
    """From when to when something is valid; ms."""

    begins: int
    ends: int


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """What a node sees of its own: what of TLS is valid until when, bytes left where HOME is."""

    host: str
    certificates: Mapping[str, Validity]
    disk_free: int | None


@dataclass(frozen=True, slots=True)
class AlertThresholds:
    """When a condition stands; ms, and counts. 0 switches one off."""

    queue_depth: int = 1000
    queue_age: int = 600_000
    parked: int = 1
    certificate: int = 14 * DAY
    refused: int = 50
    """Of one listener within an hour."""
    disk_free: int = 0
    silence: Mapping[str, int] = field(default_factory=dict)
    """Listener to how long nothing may come."""


@dataclass(frozen=True, slots=True)
class QueueBacklog:
    """What waits in one queue: how many, how many of them parked, and since when (ms)."""

    waiting: int
    parked: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class SystemSnapshot:
    """One look at everything; times in ms."""

    now: int
    started_at: int
    queues: Mapping[str, QueueBacklog]
    last_message: Mapping[str, int | None]
    paused: Mapping[str, int]
    certificates: Mapping[str, Validity]
    """What of TLS expires, such as `certificate of listener orders`, to when it is valid."""
    circuits: Collection[str] = ()
    """Destinations that do not answer and are left alone."""
    concerns: Sequence[ProcessingException] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    """Messages that each listener refused within the last hour."""
    disk_free: int | None = None
    """Bytes left where HOME is."""
    unknown_codes: Sequence[UnmappedCodeRecord] = ()
    """Codes that the definitions in force have met, and no table of theirs has."""
    host: str = ""
    """Where `certificates` and the disk are."""
    other_nodes: Sequence[NodeFiles] = ()
    """What other nodes see of theirs."""

    @property
    def files(self) -> Sequence[NodeFiles]:
        """What each node sees of its own."""
        return [NodeFiles(self.host, self.certificates, self.disk_free), *self.other_nodes]


KEEP_POLICY = "keep"
MAX_SINGLE_MESSAGES = 20
"""Messages that are told of one by one; further ones are told together."""


def find_conditions(sight: SystemSnapshot, limits: AlertThresholds) -> list[AlertCondition]:
    """Give all that stands."""
    return [
        *_queues(sight, limits),
        *_silence(sight, limits),
        *_paused(sight),
        *_certificates(sight, limits),
        *_circuits(sight),
        *_refused(sight, limits),
        *_disk(sight, limits),
        *_concerns(sight),
        *_codes(sight),
    ]


def _queues(sight: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name, queue in sight.queues.items():
        if limits.queue_depth and queue.waiting >= limits.queue_depth:
            text = f"{queue.waiting} wait in {name}"
            yield AlertCondition(f"depth:{name}", AlertSeverity.CRITICAL, text)
        age = 0 if queue.oldest is None else sight.now - queue.oldest
        if limits.queue_age and age >= limits.queue_age:
            text = f"the oldest in {name} has waited for {duration(age)}"
            yield AlertCondition(f"age:{name}", AlertSeverity.CRITICAL, text)
        if limits.parked and queue.parked >= limits.parked:
            text = f"{queue.parked} parked in {name} wait for a person"
            yield AlertCondition(f"parked:{name}", AlertSeverity.WARNING, text)


def _silence(sight: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name, most in limits.silence.items():
        if not most or f"listener {name}" in sight.paused:
            continue
        last = sight.last_message.get(name)
        quiet = sight.now - max(last or 0, 0 if last else sight.started_at)
        if quiet >= most:
            text = f"nothing has come in at listener {name} for {duration(quiet)}"
            yield AlertCondition(f"silence:{name}", AlertSeverity.WARNING, text)


def _paused(sight: SystemSnapshot) -> Iterator[AlertCondition]:
    for name in sight.paused:
        yield AlertCondition(f"paused:{name}", AlertSeverity.WARNING, f"{name} is paused")


def _certificates(sight: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name in dict.fromkeys(name for files in sight.files for name in files.certificates):
        own = [(each.host, each.certificates.get(name)) for each in sight.files]
        soon = [(host, life.ends) for host, life in own if life and _ends_soon(life, sight, limits)]
        past = [host for host, ends in soon if ends <= sight.now]
        key = f"certificate:{name.removeprefix('certificate of ')}"
        if past:
            text = f"the {name} has expired{_where(sight, past)}"
            yield AlertCondition(key, AlertSeverity.CRITICAL, text)
        elif soon:
            left = duration(min(ends for _, ends in soon) - sight.now)
            text = f"the {name} expires in {left}{_where(sight, [host for host, _ in soon])}"
            yield AlertCondition(key, AlertSeverity.WARNING, text)


def _ends_soon(life: Validity, sight: SystemSnapshot, limits: AlertThresholds) -> bool:
    left = life.ends - sight.now
    soon = min(limits.certificate, (life.ends - life.begins) // 4)  # some live for a week
    return left <= 0 or left < soon


def _where(sight: SystemSnapshot, hosts: Collection[str]) -> str:
    """Say on which hosts, where there are several."""
    several = len({each.host for each in sight.files}) > 1
    return f" on {', '.join(sorted(set(hosts)))}" if several else ""


def _circuits(sight: SystemSnapshot) -> Iterator[AlertCondition]:
    for name in sight.circuits:
        text = f"destination {name} does not answer; it is tried now and then"
        yield AlertCondition(f"circuit:destination {name}", AlertSeverity.WARNING, text)


def _refused(sight: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    for name, count in sight.refused.items():
        if limits.refused and count >= limits.refused:
            text = f"listener {name} has refused {limits.refused} messages or more within an hour"
            yield AlertCondition(f"refused:listener {name}", AlertSeverity.WARNING, text)


def _disk(sight: SystemSnapshot, limits: AlertThresholds) -> Iterator[AlertCondition]:
    full = {
        each.host
        for each in sight.files
        if each.disk_free is not None and each.disk_free < limits.disk_free
    }
    if full:
        text = f"less than {limits.disk_free // 2**20} MiB are left on the disk of HOME"
        yield AlertCondition("disk", AlertSeverity.CRITICAL, text + _where(sight, full))


def _concerns(sight: SystemSnapshot) -> Iterator[AlertCondition]:
    """Each message by itself, since each is about a patient; what differs, by kind."""
    messages = [each for each in sight.concerns if each.kind is ExceptionSubject.MESSAGE]
    for each in messages[:MAX_SINGLE_MESSAGES]:
        text = f"message {each.row_id} was applied and still wants a person: {each.code}"
        yield AlertCondition(f"concern:message {each.row_id}", AlertSeverity.WARNING, text)
    if messages[MAX_SINGLE_MESSAGES:]:
        text = f"more than {MAX_SINGLE_MESSAGES} messages were applied and still want a person"
        yield AlertCondition("concern:further", AlertSeverity.WARNING, text)
    if any(each.kind is ExceptionSubject.FEED for each in sight.concerns):
        text = (
            "the change feed of the report service was replaced, such as by a restored backup;"
            " it is read again from its beginning: compare reports and results since the backup"
        )
        yield AlertCondition("concern:feed", AlertSeverity.CRITICAL, text)
    differing = Counter(each.code for each in sight.concerns if each.kind is ExceptionSubject.ORDER)
    for code, count in differing.items():
        text = f"{count} orders differ from the report service: {code}"
        yield AlertCondition(f"differs:{code}", AlertSeverity.WARNING, text)


def _codes(sight: SystemSnapshot) -> Iterator[AlertCondition]:
    """Each table by itself, unless what it does not have is kept, which is as good as meant."""
    told = Counter(
        (each.mapping, each.code_table)
        for each in sight.unknown_codes
        if each.policy != KEEP_POLICY and each.seen_at is None
    )
    for (mapping, table), count in told.items():
        text = f"of the codes that messages had, the code table {table} of {mapping} lacks {count}"
        yield AlertCondition(f"codes:{mapping} {table}", AlertSeverity.WARNING, text)


def duration(milliseconds: int) -> str:
    """Write a duration in its biggest unit: `3 d`, `2 h`, `5 min`, `10 s`."""
    for name, size in (("d", DAY), ("h", 3_600_000), ("min", 60_000)):
        if milliseconds >= size:
            return f"{milliseconds // size} {name}"
    return f"{milliseconds // 1000} s"
