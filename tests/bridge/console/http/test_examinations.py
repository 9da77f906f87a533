"""Examinations of the console: who may begin them, of whom, how often, and their report."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from bridge.admin.background.runner import BackgroundJobs
from bridge.admin.background.work import JobContext
from bridge.admin.examination.job import MAX_PER_HOUR
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.console.http.models.background import BackgroundJobResponse
from bridge.console.http.models.examinations import (
    ExaminationResponse,
    ExaminationsResponse,
    ProbesResponse,
)
from mllp.framing import frame
from tests.acceptance.house import free_port
from tests.acceptance.orders import order
from tests.acceptance.wire import Sink, accept, sink
from tests.bridge.console.http.running_console import RunningConsole
from tests.eventually import eventually

PATH = "/api/examinations"
OK, FORBIDDEN, UNKNOWN, CONFLICT, INVALID = 200, 403, 404, 409, 422
QUICK = ["connect", "message", "duplicate"]
FRESH_MS = 600_000


def refuse_repetition(message: bytes, attempts: int) -> bytes:
    """Reply as a receiver that knows each MSH-10 once (table 0357: duplicate key)."""
    if not attempts:
        return accept(message, attempts)
    return frame(
        b"MSH|^~\\&|HIS|H|||20260302||ACK|1|T|2.5.1\rMSA|AE|%s\rERR||MSH^1^10|205|E\r"
        % message.split(b"|")[9]
    )


@pytest.fixture
def his() -> Iterator[Sink]:
    with sink(refuse_repetition) as running:
        yield running


@contextmanager
def jobs_of(console: RunningConsole, owner: str = "test") -> Iterator[BackgroundJobs]:
    """Yield the jobs of a process, which ends at the end."""
    subjects_of = MessageSubjects(console.settings, console.database)
    context = JobContext(console.settings, console.database, subjects_of, console.clock, owner)
    runner = BackgroundJobs(context)
    try:
        yield runner
    finally:
        runner.close()


def begin(console: RunningConsole, who: str = "chief", **body: Any) -> Any:
    request = {"role": "receiver", "agreed": "Ola at HIS", "probes": QUICK, **body}
    return console.call(who, "POST", PATH, request)


def read(console: RunningConsole, examination: int) -> dict[str, Any]:
    found: dict[str, Any] = console.call("chief", "GET", f"{PATH}/{examination}").json()
    return found


def run_until(
    console: RunningConsole, examination: int, is_enough: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """Run jobs as the service does until an examination is far enough; the process ends then."""
    with jobs_of(console) as runner:
        while not is_enough(found := read(console, examination)):
            runner.step()
    return found


def has_ended(found: dict[str, Any]) -> bool:
    return found["finished_at"] is not None


def test_a_receiver_is_examined(console: RunningConsole, his: Sink) -> None:
    """The results, the consent and the settings that fit are stored; the report is a file."""
    created = begin(console, address=f"127.0.0.1:{his.port}")
    assert created.status_code == OK, created.text
    job = BackgroundJobResponse.model_validate(created.json())
    assert (job.expected, job.reason) == (len(QUICK), "Ola at HIS")
    found = run_until(console, job.id, has_ended)
    ExaminationResponse.model_validate(found)
    assert (found["state"], found["agreed"]) == ("done", "Ola at HIS")
    assert [result["name"] for result in found["results"]] == QUICK
    assert found["counts"] == {"ok": 2, "note": 0, "fault": 1, "skipped": 0}
    proposal = found["proposal"]
    assert proposal["table"]["replies"] == {"AE 205": "delivered"}
    assert (proposal["kind"], proposal["name"], proposal["begun_on"]) == ("destination", "", "")
    assert {message.split(b"|")[10] for message in his.received} == {b"T"}
    listed = console.call("chief", "GET", f"{PATH}?subject=receiver+127.0.0.1:{his.port}").json()
    ExaminationsResponse.model_validate(listed)
    assert [row["id"] for row in listed["rows"]] == [job.id]
    kinds = {"html": "text/html", "pdf": "application/pdf", "text": "text/plain"}
    reports = {
        name: console.call("chief", "GET", f"{PATH}/{job.id}/report?format={name}")
        for name in kinds
    }
    for name, report in reports.items():
        assert report.headers["content-type"].startswith(kinds[name])
        assert report.headers["content-disposition"].startswith("attachment; filename=")
    assert "Agreed with Ola at HIS." in reports["text"].text
    assert 'replies = {"AE 205" = "delivered"}' in reports["text"].text
    event = console.audit_events("chief", action="examine")[0]
    assert event["subject"] == f"receiver 127.0.0.1:{his.port}"
    assert event["reason"] == "Ola at HIS"


def test_the_probes_are_listed(console: RunningConsole) -> None:
    """The page offers those of a receiver, and shows those of a sender before they begin."""
    found = ProbesResponse.model_validate(console.call("chief", "GET", f"{PATH}/probes").json())
    assert "duplicate" in {probe.name for probe in found.receiver}
    assert found.sender[0].name == "message"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"address": "169.254.169.254:80"}, INVALID, "link-local"),
        ({"address": "224.0.0.1:2575"}, INVALID, "link-local"),
        ({"address": "0.0.0.0:2575"}, INVALID, "link-local"),
        ({"address": "2852039166:80"}, INVALID, "link-local"),
        ({"address": "his.test"}, INVALID, "host:port"),
        ({"destination": "nobody"}, UNKNOWN, ""),
        ({"address": "127.0.0.1:2575", "agreed": " "}, INVALID, ""),
        ({"address": "127.0.0.1:2575", "probes": ["flood"]}, INVALID, "no probe flood"),
        ({"role": "sender", "port": 80}, INVALID, "1024"),
        ({"role": "sender", "port": 0}, INVALID, "1024"),
    ],
)
def test_what_cannot_be_examined(
    console: RunningConsole, body: dict[str, Any], status: int, words: str
) -> None:
    """Neither services of the machine nor its system ports; and nobody without consent."""
    answer = begin(console, **body)
    assert answer.status_code in {status, 400}, answer.text
    assert words in answer.text


def test_a_name_of_a_forbidden_address(
    console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is resolved once; one that means a service of the machine is not connected to."""
    forbidden = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: forbidden)
    job = begin(console, address="metadata.test:80").json()
    found = run_until(console, job["id"], has_ended)
    assert (found["state"], found["error"], found["results"]) == ("failed", "not_permitted", [])


def test_a_port_of_a_listener(console: RunningConsole) -> None:
    """A paused listener keeps its port."""
    port = console.settings.listener[0].bind.port  # type: ignore[union-attr]  # not a folder
    answer = begin(console, role="sender", port=port, probes=[])
    assert answer.status_code == INVALID
    assert "listener orders" in answer.text


def test_an_examination_needs_a_confirmed_password(console: RunningConsole) -> None:
    """It sends messages to another system."""
    console.clock.ahead = FRESH_MS + 1000
    try:
        answer = begin(console, address="127.0.0.1:2575")
    finally:
        console.clock.ahead = 0
    assert (answer.status_code, answer.json()["code"]) == (FORBIDDEN, "reauthentication_required")


def test_the_settings_that_fit_are_saved_as_other_settings(
    console: RunningConsole, his: Sink
) -> None:
    """The proposal is the table of the connection: validated, audited, and only once."""
    path = "/api/connections/destination/his"
    table = {"name": "his", "address": f"127.0.0.1:{his.port}", "enabled": False}
    created = {"table": table, "reason": "new", "begun_on": "", "new": True}
    assert console.call("chief", "PUT", path, created).status_code == OK
    job = begin(console, destination="his").json()
    found = run_until(console, job["id"], has_ended)
    proposal = found["proposal"]
    changes = {change["setting"]: (change["before"], change["after"])
               for change in proposal["changes"]}  # fmt: skip
    assert changes == {"replies": ("{}", '{"AE 205" = "delivered"}')}
    assert proposal["table"] == {**table, "replies": {"AE 205": "delivered"}}
    change = {"table": proposal["table"], "reason": "fits", "begun_on": proposal["begun_on"]}
    assert console.call("chief", "PUT", path, change).status_code == OK
    assert console.call("chief", "GET", path).json()["table"] == proposal["table"]
    assert read(console, job["id"])["proposal"]["changes"] == []
    assert console.call("chief", "PUT", path, change).status_code == CONFLICT


def silent() -> socket.socket:
    """A receiver that accepts connections and never replies."""
    return socket.create_server(("127.0.0.1", 0))


def test_an_examination_is_stopped(console: RunningConsole) -> None:
    """The probe that waits for a reply ends at once; what was found stays."""
    with closing(silent()) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        job = begin(console, address=address, probes=["connect", "message", "idle"]).json()
        with jobs_of(console) as runner:
            while not read(console, job["id"])["results"]:
                runner.step()
            console.call("chief", "POST", f"/api/background-jobs/{job['id']}/stop", {})
            while not has_ended(read(console, job["id"])):
                runner.step()
    found = read(console, job["id"])
    assert (found["state"], len(found["results"])) == ("stopped", 1)


def test_an_examination_is_not_continued(console: RunningConsole) -> None:
    """Another process does not send the messages again after the first one has ended."""
    with closing(silent()) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        job = begin(console, address=address, probes=["connect", "message"]).json()
        run_until(console, job["id"], lambda found: found["results"])
        found = run_until(console, job["id"], has_ended)
    assert (found["state"], found["error"]) == ("failed", "interrupted")
    assert [result["name"] for result in found["results"]] == ["connect"]
    report = console.call("chief", "GET", f"{PATH}/{job['id']}/report?format=text")
    assert "not finished" in report.text


def test_a_sender_is_examined(console: RunningConsole) -> None:
    """The port opens for the time of the examination, and what arrives is judged."""
    port = free_port()
    job = begin(console, role="sender", port=port, probes=[]).json()
    with jobs_of(console) as runner:
        while not (found := read(console, job["id"]))["listens"]:
            runner.step()
        assert found["listens"].endswith(f":{port}")
        with socket.create_connection(("127.0.0.1", port)) as sender:
            sender.sendall(frame(order(1)) + frame(order(2)))
            while not (found := read(console, job["id"]))["results"]:
                runner.step()
        console.call("chief", "POST", f"/api/background-jobs/{job['id']}/stop", {})
        while not has_ended(read(console, job["id"])):
            runner.step()
    assert found["results"][0]["words"] == "goes on with the next message"
    eventually(lambda: not _is_open(port))


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_a_port_in_use(console: RunningConsole) -> None:
    """The person is told; another port can be chosen."""
    with closing(socket.create_server(("", 0))) as other:
        port = other.getsockname()[1]
        job = begin(console, role="sender", port=port, probes=[]).json()
        found = run_until(console, job["id"], has_ended)
    assert (found["state"], found["error"]) == ("failed", "port_in_use")


def test_few_examinations_in_an_hour(console: RunningConsole, his: Sink) -> None:
    """One at a time and few in an hour, so that nobody examines the addresses of a network."""
    address = f"127.0.0.1:{his.port}"
    first = begin(console, address=address).json()
    second = begin(console, address=address)
    assert (second.status_code, second.json()["code"]) == (CONFLICT, "too_many_examinations")
    stop = f"/api/background-jobs/{first['id']}/stop"
    assert console.call("chief", "POST", stop, {}).status_code == OK
    codes = []
    for _ in range(MAX_PER_HOUR + 1):
        answer = begin(console, address=address)
        codes.append(answer.status_code)
        if answer.status_code == OK:
            stop = f"/api/background-jobs/{answer.json()['id']}/stop"
            console.call("chief", "POST", stop, {})
    assert codes[-1] == CONFLICT
    assert codes.count(OK) < MAX_PER_HOUR
    assert his.received == []
