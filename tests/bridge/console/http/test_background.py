"""Background jobs of the console: creation, rights, progress, files, audit."""

import io
import zipfile
from typing import Any

from sqlalchemy import func, select

from bridge.admin.background.runner import BackgroundJobs
from bridge.admin.background.work import JobContext
from bridge.admin.messages.message_replay import MessageSubjects
from bridge.console.http.models.background import (
    BackgroundJobResponse,
    BackgroundJobsResponse,
    JobRowsResponse,
)
from bridge.dicom.received_log import ReceivedLog, read_message
from bridge.orders.received_objects import MessageKind
from bridge.queue import queries
from bridge.queue.log_tables import pull_new
from bridge.queue.statements import MESSAGE
from bridge.queue.states import QueueState
from parsers.dicom_file import DicomLimits, read_file
from tests.acceptance.orders import order
from tests.bridge.console.http.running_console import RunningConsole
from tests.bridge.console.http.test_sites import park
from tests.bridge.dicom.modality import encoded, meta_of, report

PATH = "/api/background-jobs"
BAD_REQUEST, FORBIDDEN, UNKNOWN, CONFLICT, INVALID = 400, 403, 404, 409, 422
FRESH_MS = 600_000


def create(console: RunningConsole, who: str, kind: str, selection: Any, **more: Any) -> Any:
    body = {"kind": kind, "selection": {"list": "messages", **selection}, **more}
    return console.call(who, "POST", PATH, body)


def run(console: RunningConsole, job: dict[str, Any]) -> dict[str, Any]:
    """Run jobs, as the service does, until this one has ended."""
    subjects_of = MessageSubjects(console.settings, console.database)
    context = JobContext(console.settings, console.database, subjects_of, console.clock, "test")
    runner = BackgroundJobs(context)
    while True:
        found: dict[str, Any] = console.call("chief", "GET", f"{PATH}/{job['id']}").json()
        if found["finished_at"] is not None:
            return found
        runner.step()


def test_a_search_is_replayed(console: RunningConsole) -> None:
    """For a limited user only messages of their sites; each leaves its result and its event."""
    ours = [console.store("orders", order(150 + number)) for number in range(3)]
    theirs = console.store("north", order(160))
    for message_id in (*ours, theirs):
        park(console, message_id, "table_locked")
    console.index()
    wanted = {"filters": {"state": "parked", "text": "locked"}}
    created = create(console, "editor1", "replay", wanted, reason="codes were added")
    assert created.status_code == 200, created.text
    BackgroundJobResponse.model_validate(created.json())
    assert (created.json()["state"], created.json()["expected"]) == ("waiting", 3)
    done = run(console, created.json())
    assert (done["state"], done["succeeded"], done["failed"]) == ("done", 3, 0)
    states = {
        message_id: queries.message(console.database, message_id).row.state
        for message_id in (*ours, theirs)
    }
    assert states == {**dict.fromkeys(ours, QueueState.QUEUED), theirs: QueueState.PARKED}
    rows = console.call("editor1", "GET", f"{PATH}/{done['id']}/rows").json()
    JobRowsResponse.model_validate(rows)
    assert [(row["row_id"], row["outcome"]) for row in rows["rows"]] == [(n, "done") for n in ours]
    events = console.audit_events("chief", action="replay")
    replayed = {event["subject"]: event for event in events}
    assert {f"message {message_id}" for message_id in ours} <= replayed.keys()
    assert replayed[f"message {ours[0]}"]["email"] == "editor1@site1.test"
    assert replayed[f"message {ours[0]}"]["reason"] == "codes were added"


def test_users_see_their_own_jobs(console: RunningConsole) -> None:
    """Who grants roles sees all; others get the response for a missing job."""
    own = console.messages["SITE1"]
    job = create(console, "editor", "acknowledge", {"ids": [own]}).json()
    run(console, job)
    listed = console.call("editor", "GET", PATH).json()
    BackgroundJobsResponse.model_validate(listed)
    assert job["id"] in {row["id"] for row in listed["rows"]}
    for method, path in (("GET", ""), ("GET", "/rows"), ("GET", "/content"), ("POST", "/stop")):
        body: Any = {} if method == "POST" else None
        response = console.call("operator", method, f"{PATH}/{job['id']}{path}", body)
        assert response.status_code == UNKNOWN
    for who, sees in (("viewer", False), ("chief", True)):
        rows = console.call(who, "GET", PATH).json()["rows"]
        assert (job["id"] in {row["id"] for row in rows}) == sees


def test_the_file_of_an_export(console: RunningConsole) -> None:
    """The download is audited, and is for those who may read all that the file contains."""
    ids = [console.messages["SITE1"], console.messages["SITE2"]]
    options = {"format": "raw"}
    job = create(console, "editor", "export", {"ids": ids}, options=options, reason="a defect")
    path = f"{PATH}/{job.json()['id']}/content"
    assert console.call("editor", "GET", path).status_code == CONFLICT
    done = run(console, job.json())
    assert done["result"]["name"].endswith(".zip")
    response = console.call("editor", "GET", path)
    assert response.headers["content-disposition"].startswith("attachment")
    assert response.headers["cache-control"] == "no-store"
    names = zipfile.ZipFile(io.BytesIO(response.content)).namelist()
    assert names == [*(f"{message_id}.hl7" for message_id in ids), "index.csv"]
    events = console.audit_events("chief", action="download export")
    assert events[0]["subject"] == f"background job {done['id']}"
    with console.limited("SITE1"):
        assert console.call("editor", "GET", path).status_code == UNKNOWN


def test_a_table_of_a_limited_user(console: RunningConsole) -> None:
    """Messages of other sites are left out, and named as not found."""
    ids = [console.messages["SITE1"], console.messages["SITE2"]]
    options = {"format": "csv", "columns": ["id", "patient"]}
    job = create(console, "editor1", "export", {"ids": ids}, options=options, reason="a list")
    done = run(console, job.json())
    assert (done["succeeded"], done["failed"]) == (1, 1)
    text = console.call("editor1", "GET", f"{PATH}/{done['id']}/content").text
    assert text == f"\ufeffid,patient\r\n{ids[0]},M1\r\n"


def test_sensitive_jobs_need_a_confirmed_password(console: RunningConsole) -> None:
    """Replay of several rows and exports with patient data; a single row or a retry does not."""
    ids = [console.messages["SITE1"], console.messages["SITE2"]]
    console.clock.ahead += FRESH_MS + 60_000
    try:
        sensitive: dict[str, dict[str, Any]] = {
            "replay": {},
            "cancel": {},
            "export": {"options": {"format": "raw"}, "reason": "x"},
        }
        for kind, more in sensitive.items():
            response = create(console, "editor", kind, {"ids": ids}, **more)
            assert response.json()["code"] == "reauthentication_required", response.text
        for kind, more in (
            ("acknowledge", {}),
            ("export", {"options": {"format": "deidentified"}}),
        ):
            assert create(console, "editor", kind, {"ids": ids}, **more).status_code == 200
    finally:
        console.clock.ahead = 0


def test_what_is_refused(console: RunningConsole) -> None:
    """Unknown members, kinds and lists; everything without a filter; content without the right."""
    ids = {"ids": [console.messages["SITE1"]]}
    assert create(console, "editor", "explode", ids).status_code == BAD_REQUEST
    assert create(console, "editor", "replay", {**ids, "hashes": [1]}).status_code == BAD_REQUEST
    assert create(console, "editor", "retry", ids).status_code == INVALID
    assert create(console, "editor", "replay", {"filters": {}}).status_code == INVALID
    assert create(console, "editor", "replay", {"filters": {"shoe": "9"}}).status_code == INVALID
    assert create(console, "operator", "search", {"filters": {}}).status_code == FORBIDDEN
    number = {"filters": {"number": "M1", "kind": "patient"}}
    assert create(console, "operator", "replay", number).status_code == FORBIDDEN


def test_who_may_download_a_received_object(console: RunningConsole) -> None:
    """Those who may read contents of its sites; each reading and download is audited."""
    made = report(mrn="M1", accession="A1", text="Nodule 8 mm")
    message, _ = read_message(MessageKind.REPORT_STORED, meta_of(made), encoded(made), ["SITE1"])
    log = ReceivedLog(console.database)
    log.store_object(message)
    log.close()
    pull_new(console.database)
    with console.database.read() as connection:
        number = connection.scalar(select(func.max(MESSAGE.c.id)))
    path = f"/api/messages/{number}/content"
    answers = {who: console.call(who, "GET", path) for who in ("operator", "editor", "editor1")}
    # The sender is no peer of the settings: without its site, only who sees all sites may read it.
    assert [answers[who].status_code for who in answers] == [FORBIDDEN, 200, UNKNOWN]
    assert answers["editor"].json()["is_dicom"]
    read = console.audit_events("chief", action="read")
    assert read[0]["subject"] == f"message {number}"
    options, selection = {"format": "raw"}, {"ids": [number]}
    refused = create(console, "operator", "export", selection, options=options, reason="a defect")
    assert refused.status_code == FORBIDDEN
    limited = create(console, "editor1", "export", selection, options=options, reason="a defect")
    assert run(console, limited.json())["succeeded"] == 0
    job = create(console, "editor", "export", selection, options=options, reason="a defect").json()
    run(console, job)
    for who in ("operator", "editor1"):
        assert console.call(who, "GET", f"{PATH}/{job['id']}/content").status_code == UNKNOWN
    files = console.call("editor", "GET", f"{PATH}/{job['id']}/content").content
    with zipfile.ZipFile(io.BytesIO(files)) as archive:
        assert read_file(archive.read(f"{number}.dcm"), DicomLimits()).SOPInstanceUID == (
            made.SOPInstanceUID
        )
    events = console.audit_events("chief", action="download export")
    assert events[0]["subject"] == f"background job {job['id']}"
