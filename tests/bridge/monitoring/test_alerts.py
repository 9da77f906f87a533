"""Conditions raise alerts, which are sent, repeated and cleared."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import httpx
import pytest

from bridge.delivery.reply_policy import NO_PROBLEM, ReplyProblem
from bridge.metrics import Metrics
from bridge.monitoring import node_files
from bridge.monitoring.alerts import (
    AlertEvent,
    AlertMonitor,
    AlertNotice,
    WebhookTarget,
    call_webhook,
    list_alerts,
    update_alerts,
)
from bridge.monitoring.channels import (
    ChannelCircuit,
    pause,
    read_channels,
    resume,
    store_activity,
    store_circuits,
)
from bridge.monitoring.conditions import (
    DAY,
    AlertCondition,
    AlertSeverity,
    AlertThresholds,
    NodeFiles,
    QueueBacklog,
    SystemSnapshot,
    Validity,
    find_conditions,
    format_duration,
)
from bridge.monitoring.node_files import NodeAddress
from bridge.queue.arrivals import Arrival
from bridge.queue.message_log import MessageLog
from bridge.queue.states import QueueState
from bridge.runtime.delivery import CircuitRecorder
from bridge.runtime.schedule import Job, Schedule
from bridge.store.database import Database
from bridge.store.migration import upgrade
from bridge.store.records import exceptions
from bridge.store.records.exceptions import ExceptionSubject, ProcessingException
from bridge.store.records.unmapped_codes import UnmappedCodeRecord
from config.sections import ChannelKind
from tests.bridge.queue.conftest import accept
from tests.eventually import PATIENCE

NOW = 100 * DAY
QUIET = SystemSnapshot(NOW, NOW - DAY, {}, {}, {}, {})
KEPT = ProcessingException(ExceptionSubject.MESSAGE, 7, "report_kept", NOW)
DIFFERS = ProcessingException(ExceptionSubject.ORDER, 7, "not_queued ris", NOW)
CODE = UnmappedCodeRecord("orders", "sex", "Q", "PID-8.1", "empty", False, "v", 3, 1, 2, None, "")
PARKED = QueueBacklog(0, 1, None)
TROUBLE = AlertCondition("parked:x", AlertSeverity.WARNING, "1 parked")


@pytest.mark.parametrize(
    ("sight", "limits", "keys"),
    [
        ({"queues": {"q": QueueBacklog(9, 0, NOW)}}, {"queue_depth": 10}, []),
        ({"queues": {"q": QueueBacklog(10, 0, NOW)}}, {"queue_depth": 10}, ["depth:q"]),
        ({"queues": {"q": QueueBacklog(10, 0, NOW)}}, {"queue_depth": 0}, []),
        ({"queues": {"q": QueueBacklog(1, 0, NOW - 600_000)}}, {}, ["age:q"]),
        ({"backlogs": {("listener", "a"): PARKED}}, {}, ["parked:listener a"]),
        ({"backlogs": {("listener", ""): PARKED}}, {}, ["parked:the inbox"]),
        ({"backlogs": {("listener", "a"): PARKED}}, {"parked": 2}, []),
        ({"last_message": {"a": NOW - 5000}}, {"silence": {"a": 5000}}, ["silence:a"]),
        ({"last_message": {"a": NOW - 4999}}, {"silence": {"a": 5000}}, []),
        ({"last_message": {}}, {"silence": {"a": DAY}}, ["silence:a"]),
        ({"started_at": NOW - 5}, {"silence": {"a": DAY}}, []),
        ({"unknown_codes": [CODE, replace(CODE, code="R")]}, {}, ["codes:orders sex"]),
        ({"unknown_codes": [replace(CODE, policy="keep")]}, {}, []),
        ({"unknown_codes": [replace(CODE, seen_at=1)]}, {}, []),
        (
            {"last_message": {"a": 1}, "paused": {"listener a": 1}},
            {"silence": {"a": 5000}},
            ["paused:listener a"],
        ),
        ({"certificates": {"l": Validity(0, NOW + 14 * DAY)}}, {}, []),
        ({"certificates": {"l": Validity(0, NOW + 14 * DAY - 1)}}, {}, ["certificate:l"]),
        ({"certificates": {"l": Validity(NOW - 6 * DAY, NOW + 2 * DAY)}}, {}, []),
        (
            {"certificates": {"l": Validity(NOW - 6 * DAY - 4, NOW + 2 * DAY)}},
            {},
            ["certificate:l"],
        ),
        ({"certificates": {"l": Validity(0, NOW)}}, {"certificate": 0}, ["certificate:l"]),
        ({"certificates": {"certificate of l": Validity(0, NOW)}}, {}, ["certificate:l"]),
        ({"certificates": {"ca of d": Validity(0, NOW)}}, {}, ["certificate:ca of d"]),
        ({"circuits": {"d": ""}}, {}, ["circuit:destination d"]),
        ({"unframed": {"d": "sent 4 bytes"}}, {}, ["unframed:destination d"]),
        ({"refused": {"a": 49, "b": 50}}, {}, ["refused:listener b"]),
        ({"refused": {"b": 50}}, {"refused": 0}, []),
        ({"disk_free": 99}, {"disk_free": 100}, ["disk"]),
        ({"disk_free": 100}, {"disk_free": 100}, []),
        ({"disk_free": None}, {"disk_free": 100}, []),
        ({"exceptions": [KEPT]}, {}, ["concern:message 7"]),
        (
            {"exceptions": [replace(KEPT, row_id=n) for n in range(21)]},
            {},
            [*(f"concern:message {n}" for n in range(20)), "concern:further"],
        ),
        (
            {"exceptions": [replace(DIFFERS, row_id=n) for n in range(3)]},
            {},
            ["differs:not_queued ris"],
        ),
        (
            {
                "exceptions": [
                    ProcessingException(ExceptionSubject.FEED, NOW + n, "cursor_beyond_end", NOW)
                    for n in (0, 1)
                ]
            },
            {},
            ["concern:feed"],
        ),
    ],
)
def test_conditions(sight: dict[str, object], limits: dict[str, object], keys: list[str]) -> None:
    """Each condition starts at its threshold."""
    found = find_conditions(replace(QUIET, **sight), AlertThresholds(**limits))  # type: ignore[arg-type]
    assert [condition.key for condition in found] == keys


def test_durations() -> None:
    """A duration is shown in its largest unit."""
    assert [format_duration(item) for item in (999, 60_000, 7_200_000, 3 * DAY)] == [
        "0 s", "1 min", "2 h", "3 d",
    ]  # fmt: skip


def kinds_of(notices: Sequence[AlertNotice]) -> list[str]:
    return [notice.event.value for notice in notices]


def test_raised_once_reminded_and_cleared(database: Database) -> None:
    """A condition is raised once, repeated later, cleared once, and raised again."""
    events = [
        kinds_of(update_alerts(database, conditions, now, repeat_after=1000))
        for now, conditions in [
            (1, [TROUBLE]),
            (2, [TROUBLE]),
            (1000, [TROUBLE]),
            (1001, [TROUBLE]),
            (1500, []),
            (1501, []),
            (1600, [TROUBLE]),
        ]
    ]
    assert events == [["raised"], [], [], ["reminder"], ["cleared"], [], ["raised"]]
    (row,) = list_alerts(database)
    assert (row["raised_at"], row["cleared_at"]) == (1600, None)


def monitor(database: Database, notifiers: dict[str, object], clock: list[int]) -> AlertMonitor:
    return AlertMonitor(
        database,
        AlertThresholds,
        dict,
        notifiers,  # type: ignore[arg-type]
        Metrics(),
        lambda: clock[0],
        0,
        0,
        lambda: frozenset({"listener a"}),
    )


def test_unsent_notices_are_sent_later(database: Database) -> None:
    """A notice that no channel could send is sent later. One working channel is enough."""
    sent: list[AlertNotice] = []

    def broken(notices: Sequence[AlertNotice]) -> None:
        raise OSError

    clock = [1]
    pause(database, ChannelKind.LISTENER, "a", 1, "ada")
    pause(database, ChannelKind.LISTENER, "gone", 1, "ada")
    monitor(database, {"mail": broken}, clock).check()
    clock[0] = 2
    monitor(database, {"mail": broken, "webhook": sent.extend}, clock).check()
    clock[0] = 3
    monitor(database, {"webhook": sent.extend}, clock).check()
    assert [(notice.event, notice.condition.key) for notice in sent] == [
        (AlertEvent.RAISED, "paused:listener a")
    ]


def test_each_channel_sends_missed_notices(database: Database) -> None:
    """Mail fails while the webhook works: mail sends the active alerts once, later."""
    posted: list[AlertNotice] = []
    mailed: list[AlertNotice] = []
    down = [True]

    def mail(notices: Sequence[AlertNotice]) -> None:
        if down[0]:
            raise OSError
        mailed.extend(notices)

    clock = [1]
    watching = monitor(database, {"mail": mail, "webhook": posted.extend}, clock)
    pause(database, ChannelKind.LISTENER, "a", 1, "ada")
    watching.check()
    resume(database, ChannelKind.LISTENER, "a")
    watching.check()
    pause(database, ChannelKind.LISTENER, "a", 3, "ada")
    watching.check()
    down[0] = False
    watching.check()
    watching.check()
    assert kinds_of(posted) == ["raised", "cleared", "raised"]
    assert kinds_of(mailed) == ["raised"]


def test_a_critical_condition_is_raised_again(database: Database) -> None:
    """A certificate that expires soon is raised, and raised again when it has expired."""
    events = []
    for now, severity in enumerate(["warning", "warning", "critical", "critical", "warning"]):
        conditions = [replace(TROUBLE, severity=AlertSeverity(severity))]
        events.append(kinds_of(update_alerts(database, conditions, now, repeat_after=0)))
    assert events == [["raised"], [], ["raised"], [], []]


def test_channels(database: Database) -> None:
    """The first pause keeps its author, `resume` reports a pause, and activity only grows."""
    pause(database, ChannelKind.DESTINATION, "d", 5, "ada")
    pause(database, ChannelKind.DESTINATION, "d", 6, "bob")
    found = read_channels(database, ChannelKind.DESTINATION)["d"]
    assert (found.paused, found.paused_at, found.paused_by) == (True, 5, "ada")
    assert read_channels(database, ChannelKind.LISTENER) == {}
    assert resume(database, ChannelKind.DESTINATION, "d")
    assert not resume(database, ChannelKind.DESTINATION, "d")
    store_activity(database, {(ChannelKind.DESTINATION, "d"): 9, (ChannelKind.LISTENER, "l"): 8})
    store_activity(database, {(ChannelKind.DESTINATION, "d"): 7})
    assert read_channels(database, ChannelKind.DESTINATION)["d"].active_at == 9
    assert not read_channels(database, ChannelKind.LISTENER)["l"].paused


def listed(database: Database) -> list[tuple[str, int, str]]:
    return [
        (exception.kind.value, exception.row_id, exception.code)
        for exception in exceptions.list_unseen(database, 9)
    ]


def test_exceptions(database: Database) -> None:
    """An exception is stored once and listed until it is acknowledged."""
    with database.write() as connection:
        for now in (1, 2):
            exceptions.add(connection, ExceptionSubject.MESSAGE, [(7, "report_kept")], now)
        exceptions.add(connection, ExceptionSubject.MESSAGE, [(8, "several_orders")], 3)
    assert listed(database) == [("message", 8, "several_orders"), ("message", 7, "report_kept")]
    assert (
        exceptions.mark_seen(
            database, [(ExceptionSubject.MESSAGE, 7), (ExceptionSubject.ORDER, 8)], 4
        )
        == 1
    )
    with database.write() as connection:
        exceptions.add(connection, ExceptionSubject.MESSAGE, [(7, "report_kept")], 5)
    assert listed(database) == [("message", 8, "several_orders")]
    assert exceptions.mark_seen(database, None, 6) == 1
    assert listed(database) == []


def test_renewed_differences(database: Database) -> None:
    """After orders are compared again, only the new differences remain."""
    for found in ([(1, "no_report"), (2, "no_report")], [(2, "no_report"), (2, "not_queued d")]):
        with database.write() as connection:
            exceptions.replace_all(connection, ExceptionSubject.ORDER, [1, 2, 3], found, 1)
    assert listed(database) == [("order", 2, "no_report"), ("order", 2, "not_queued d")]
    with database.write() as connection:
        exceptions.forget(connection, ExceptionSubject.ORDER, [2])
    assert listed(database) == []


async def test_the_snapshot(database: Database) -> None:
    """The monitor reads circuits, refused messages and exceptions from the database."""
    message_log = MessageLog(database)
    message_log.start(asyncio.get_running_loop())
    for number in range(3):
        arrival = Arrival(
            *("a", number, bytes(16), b"", (), "", "", "", b"", "AE"),
            state=QueueState.REFUSED,
            received_at=NOW - (DAY if number else 0),
        )
        await accept(message_log, arrival)
    await message_log.stop()
    open_until = {"d": NOW, "gone": NOW, "well": None}
    store_circuits(database, {name: ChannelCircuit(at) for name, at in open_until.items()})
    with database.write() as connection:
        exceptions.add(connection, ExceptionSubject.MESSAGE, [(1, "report_kept")], 1)
    looking = replace(
        monitor(database, {}, [NOW]),
        thresholds=lambda: AlertThresholds(refused=1, disk_free=2),
        names=lambda: frozenset({"destination d", "destination well"}),
        disk_free=lambda: 1,
    )
    assert [item.key for item in looking.check()] == [
        *("circuit:destination d", "refused:listener a", "disk", "concern:message 1")
    ]


SOON, FINE, PAST = Validity(0, NOW + 3 * DAY), Validity(0, NOW + 90 * DAY), Validity(0, NOW - 1)
CERTIFICATE = "certificate of listener a"
SIGHT = SystemSnapshot(NOW, NOW, {}, {}, {}, {CERTIFICATE: FINE}, disk_free=99, host="one")
FLAP = AlertCondition("depth:x", AlertSeverity.CRITICAL, "1000 entries wait in x")


def texts(*other_nodes: NodeFiles) -> list[str]:
    sight = replace(SIGHT, other_nodes=other_nodes)
    return [condition.text for condition in find_conditions(sight, AlertThresholds(disk_free=50))]


def test_files_of_other_nodes(database: Database) -> None:
    """Conditions of other nodes name their host. The check ignores expired entries and its own."""
    for number, (node, lives, free) in enumerate(
        [("b", {CERTIFICATE: SOON}, 10), ("c", {CERTIFICATE: PAST}, None), ("me", {}, 1)]
    ):
        node_files.save_node_files(
            database, NodeAddress(node, f"host-{node}"), lives, free, NOW + number
        )
    assert node_files.files_of_other_nodes(database, "me", NOW + 1) == []
    near, *further = node_files.files_of_other_nodes(database, "me", NOW - 1)
    assert texts(near) == [
        f"the {CERTIFICATE} expires in 3 d on host-b",
        "less than 0 MiB are free on the disk of HOME on host-b",
    ]
    assert texts(near, *further)[0] == f"the {CERTIFICATE} has expired on host-c"
    assert texts() == []
    assert texts(NodeFiles("one", {CERTIFICATE: SOON}, 99)) == [f"the {CERTIFICATE} expires in 3 d"]
    node_files.save_node_files(database, NodeAddress("b", "host-b"), {}, 99, NOW + 2 * DAY)
    assert node_files.files_of_other_nodes(database, "me", 0) == [NodeFiles("host-b", {}, 99)]


def test_a_flapping_condition(database: Database) -> None:
    """A condition is raised three times, then as flapping, and cleared after a longer absence."""
    notices = []
    for now in range(40):
        conditions = [FLAP] if now % 2 == 0 else []
        notices += update_alerts(database, conditions, now, 0, hold_down=10)
    assert [notice.event for notice in notices] == [AlertEvent.RAISED, AlertEvent.CLEARED] * 3 + [
        AlertEvent.RAISED
    ]
    assert notices[-1].condition.text == f"{FLAP.text}; the condition keeps returning"
    assert list_alerts(database)[0]["cleared_at"] is None
    assert update_alerts(database, [], 47, 0, hold_down=10) == []
    (router,) = update_alerts(database, [], 48, 0, hold_down=10)
    assert router.event is AlertEvent.CLEARED
    (anew,) = update_alerts(database, [FLAP], 58, 0, hold_down=10)
    assert anew.condition.text == FLAP.text


@dataclass
class CourierState:
    circuit_status: tuple[int | None, int, int, ReplyProblem]


def run_job(circuits: CircuitRecorder, meanwhile: Callable[[], None]) -> None:
    async def run() -> None:
        schedule = Schedule(Metrics())
        step = schedule.periodic(Job.CIRCUITS, circuits.store, last=circuits.store)
        await step.start()
        meanwhile()
        await step.stop()

    asyncio.run(run())


def test_circuits_and_replies_are_stored(database: Database) -> None:
    """The job stores changes and replies. It closes a circuit left open by an earlier run."""
    upgrade(database)
    now = [1000]
    near, far = (
        CourierState((None, 0, 0, NO_PROBLEM)),
        CourierState((9000, 0, 0, ReplyProblem("tls", "the TLS handshake failed"))),
    )
    couriers = {"near": near, "far": far}

    def record_circuits() -> dict[str, tuple[int | None, int | None]]:
        def meanwhile() -> None:
            near.circuit_status = (
                near.circuit_status[0],
                near.circuit_status[1] + 1,
                near.circuit_status[2],
                NO_PROBLEM,
            )

        run_job(CircuitRecorder(database, couriers, lambda: now[0]), meanwhile)  # type: ignore[arg-type]  # its state alone
        found = read_channels(database, ChannelKind.DESTINATION)
        return {name: (found[name].open_until, found[name].active_at) for name in couriers}

    assert record_circuits() == {"near": (None, 1000), "far": (9000, None)}
    stored = read_channels(database, ChannelKind.DESTINATION)["far"]
    assert (stored.problem_code, stored.problem) == ("tls", "the TLS handshake failed")
    far.circuit_status, now[0] = (None, 0, 0, NO_PROBLEM), 2000
    assert record_circuits() == {"near": (None, 2000), "far": (None, None)}


def test_refusals_in_a_row_are_stored(database: Database) -> None:
    """The job stores the time of the first refusal until a message is accepted."""
    upgrade(database)
    courier = CourierState((None, 1, 0, NO_PROBLEM))

    def record_refusals(refused: int) -> int:
        def meanwhile() -> None:
            replies = courier.circuit_status[1] + 1
            courier.circuit_status = (None, replies, refused, NO_PROBLEM)

        run_job(CircuitRecorder(database, {"ris": courier}, lambda: 1000), meanwhile)  # type: ignore[dict-item]  # its state alone
        return read_channels(database, ChannelKind.DESTINATION)["ris"].refused

    assert [record_refusals(1), record_refusals(2), record_refusals(0)] == [1, 2, 0]


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


def target(server: socket.socket) -> WebhookTarget:
    return WebhookTarget(f"http://127.0.0.1:{server.getsockname()[1]}/", "")


@pytest.mark.parametrize(("status", "accepted"), [(b"200 OK", True), (b"500 Fault", False)])
def test_a_response_that_does_not_end(
    listening: socket.socket, status: bytes, accepted: bool
) -> None:
    """The body of the response is not read: a hostile receiver sends one without an end."""
    closed = threading.Event()

    def answer() -> None:
        line, _ = listening.accept()
        with line:
            line.settimeout(PATIENCE)
            line.recv(65536)
            line.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain\r\n\r\n")
            try:
                while True:
                    line.sendall(bytes(65536))
            except OSError:
                closed.set()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    if accepted:
        call_webhook(target(listening), "system", [])
    else:
        with pytest.raises(httpx.HTTPStatusError):
            call_webhook(target(listening), "system", [])
    assert closed.wait(PATIENCE)
    thread.join()
