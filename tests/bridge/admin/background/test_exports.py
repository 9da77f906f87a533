"""Exports: every row once, without patient data where that is promised, within limits."""

import csv
import io
import zipfile
from dataclasses import replace
from typing import Any

import pytest

from bridge.admin.access.permissions import ConsoleRole
from bridge.admin.background import exports, jobs
from bridge.admin.background.exports import ExportsFull
from bridge.admin.background.jobs import JobKind, JobState
from bridge.admin.background.zip_parts import ZipParts, ZipState, end_parts
from bridge.admin.errors import InvalidContent, PermissionDenied
from bridge.store.records import background_jobs
from bridge.store.tables import BACKGROUND_JOB_PARTS
from tests.bridge.admin.background.job_runs import OPERATOR, JobRuns
from tests.bridge.admin.background.test_actions import kill
from tests.bridge.admin.lists.filled_lists import FilledLists

ALL: dict[str, Any] = {}
DAY = 86_400_000  # ms; the default of keep_exports


def opened(content: bytes) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert archive.testzip() is None
    return archive


def table(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))


def test_a_raw_export_has_a_file_for_each_row_although_processes_are_killed(
    lists: FilledLists, runs: JobRuns, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of the messages, once, and an index; the audit trail names all rows."""
    monkeypatch.setattr(exports, "_ROWS", 25)
    job = runs.create(JobKind.EXPORT, ALL, format="raw")
    for number in (2, 3):
        kill(runs, database_url, "commit", number)
    done = runs.finish(job)
    assert (done.state, done.handled, done.failed) == (JobState.DONE, 120, 0)
    archive = opened(runs.file(job))
    expected = {f"{item.n}.hl7": item.payload for item in lists.samples}
    assert {name: archive.read(name) for name in archive.namelist() if name[0] != "i"} == expected
    index = table(archive.read("index.csv"))
    assert [row["file"] for row in index] == list(expected)
    assert index[0]["received_at"].startswith("2023-11-14T22:13:21")
    named = [n for event in runs.events("export") for n in event["after"]["ids"]]
    assert named == [item.n for item in lists.samples]
    assert done.result == {"name": f"messages-raw-{job.id}.zip", "bytes": 1} | {
        "more": False,
        "bytes": len(runs.file(job)),
        "until": (done.finished_at or 0) + DAY,
    }


def test_a_de_identified_export_has_no_patient_data(runs: JobRuns, lists: FilledLists) -> None:
    """Nor ids or times, which lead back; equal numbers are replaced by equal ones."""
    job = runs.finish(runs.create(JobKind.EXPORT, ALL, format="deidentified", consistent=True))
    archive = opened(runs.file(job))
    names = [name for name in archive.namelist() if name != "index.csv"]
    assert len(names) == job.succeeded == len(lists.samples)
    texts = [archive.read(name).decode() for name in names]
    for text in texts:
        fields = dict(line.split("|", 1) for line in text.split("\r") if line)
        for word in ("Müller", "Jürgen", "ROSSI", "Anna", "Miller"):
            assert word.casefold() not in text.casefold()
        assert fields["PID"].count("|") == 4
    placers = sum(f"|P{item.n}|" in text for item, text in zip(lists.samples, texts, strict=True))
    assert placers <= 3  # a permutation keeps a short number by chance
    numbers = [text.split("PID|1||")[1].split("|")[0] for text in texts]
    assert len(set(numbers)) == 3
    assert numbers[:3] == numbers[3:6]
    assert set(table(archive.read("index.csv"))[0]) == {
        *("file", "listener", "message_type", "mapping", "state", "cause")
    }


def test_two_de_identified_exports_differ_unless_they_are_to_be_consistent(runs: JobRuns) -> None:
    def first(**options: Any) -> bytes:
        job = runs.finish(runs.create(JobKind.EXPORT, ids=(7,), format="deidentified", **options))
        assert "nonce" not in job.options  # afterwards nobody can compute its key
        return opened(runs.file(job)).read("000001.hl7")

    assert first() != first()
    assert first(consistent=True) == first(consistent=True)


def test_a_table_has_the_chosen_columns(runs: JobRuns, lists: FilledLists) -> None:
    """Also those from the content; a spreadsheet finds no formula in a value."""
    columns = ["id", "time", "age", "received_at", "state", "control_id", "patient", "path:PID-5.1"]
    with runs.database.write() as connection:
        connection.exec_driver_sql("UPDATE message SET detail = '=1+1' WHERE id = 3")
    job = runs.finish(
        runs.create(JobKind.EXPORT, {"state": "parked"}, format="csv", columns=[*columns, "detail"])
    )
    rows = table(table_bytes(runs, job))
    parked = [item for item in lists.samples if item.state == "parked"]
    assert [int(row["id"]) for row in rows] == [item.n for item in parked]
    assert [row["control_id"] for row in rows] == [f"C{item.n}" for item in parked]
    assert {row["path:PID-5.1"] for row in rows} == {"Müller", "ROSSI", "Miller"}
    assert not any(row["detail"].startswith("=") for row in rows)
    assert [row["time"] for row in rows] == [row["received_at"] for row in rows]
    assert all(float(row["age"]) > 0 for row in rows)
    assert table_bytes(runs, job).startswith("\ufeff".encode())


def table_bytes(runs: JobRuns, job: Any) -> bytes:
    parts = jobs.parts(runs.database, job.id)
    return b"".join(exports.unpacked(job, part) for part in parts)


def test_what_exports_need(runs: JobRuns) -> None:
    """Permissions by content, and a reason for patient data."""
    for options in ({"format": "raw"}, {"format": "csv", "columns": ["patient"]}):
        with pytest.raises(InvalidContent):
            runs.create(JobKind.EXPORT, ALL, reason=" ", **options)
    runs.create(JobKind.EXPORT, ALL, reason="", format="csv", columns=["id", "cause_text"])
    with pytest.raises(InvalidContent):
        runs.create(JobKind.EXPORT, ALL, format="csv", columns=["shoe size"])
    with pytest.raises(InvalidContent):
        runs.create(JobKind.EXPORT, ALL, format="pdf")
    runs.grant = replace(OPERATOR, bodies=False)
    for kind in ("raw", "deidentified"):
        with pytest.raises(PermissionDenied):
            runs.create(JobKind.EXPORT, ALL, format=kind)
    with pytest.raises(PermissionDenied):
        runs.create(JobKind.EXPORT, ALL, format="csv", columns=["patient"])
    runs.create(JobKind.EXPORT, ALL, format="csv", columns=["id", "accession"])
    runs.grant = replace(OPERATOR, role=ConsoleRole.VIEWER)
    with pytest.raises(PermissionDenied):
        runs.create(JobKind.EXPORT, ALL, format="csv", columns=["id"])


def test_exports_have_bounded_files(runs: JobRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that becomes too large fails, and its parts are deleted; a full store refuses others."""
    monkeypatch.setattr(exports, "_ROWS", 10)
    monkeypatch.setattr(exports, "MAX_FILE", 5000)
    large = runs.finish(runs.create(JobKind.EXPORT, ALL, format="raw"))
    assert (large.state, large.result["error"]) == (JobState.FAILED, "export_too_large")
    assert runs.count(BACKGROUND_JOB_PARTS) == 0
    small = runs.finish(runs.create(JobKind.EXPORT, {"state": "parked"}, format="raw"))
    assert small.state is JobState.DONE
    monkeypatch.setattr(exports, "MAX_FILES", 100)
    with pytest.raises(ExportsFull):
        runs.create(JobKind.EXPORT, ALL, format="raw")
    background_jobs.prune(runs.database, (small.finished_at or 0) + 2, 1)
    runs.create(JobKind.EXPORT, ALL, format="raw")


def test_a_file_in_parts_is_a_zip_file_of_any_size() -> None:
    """More files than fit into the old format, written by several processes."""
    state, parts, index = ZipState(), [], []
    for start in range(0, 70_000, 10_000):
        writer = ZipParts(state)
        for n in range(start, start + 10_000):
            writer.add(f"{n}.hl7", b"MSH|^~\\&|%d\r" % n)
            writer.add_to_index(f"{n}\r\n")
            index.append(f"{n}\r\n")
        numbered, state = writer.take()
        parts += numbered
    parts += end_parts(state)
    assert len({number for number, _ in parts}) == len(parts)
    archive = opened(b"".join(content for _, content in sorted(parts)))
    assert len(archive.namelist()) == 70_001
    assert archive.read("index.csv").decode() == "".join(index)
    assert archive.read("65999.hl7") == b"MSH|^~\\&|65999\r"


def test_an_empty_export_is_a_zip_file(runs: JobRuns) -> None:
    job = runs.finish(
        runs.create(JobKind.EXPORT, {"state": "parked", "text": "none"}, format="raw")
    )
    assert opened(runs.file(job)).namelist() == ["index.csv"]
