"""The archive stays readable after disk errors and interrupted runs."""

import errno
import gzip
import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from bridge.admin.installation.retention import Archive, last_batch, last_lines

NOW = datetime(2026, 11, 21, 15, tzinfo=UTC)


def test_a_failed_batch_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk raises an error. Batches before and after it are readable."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    archive = Archive(tmp_path / "archive", NOW)
    archive.add("message", [{"id": 1, "payload": b"MSH|"}])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            archive.add("message", [{"id": 2, "payload": b"\xff"}])
    archive.add("message", [{"id": 2, "payload": b"\xff"}])
    (file,) = (tmp_path / "archive").iterdir()
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": 1, "payload": "MSH|"},
        {"id": 2, "payload_base64": "/w=="},
    ]


def lines(folder: Path) -> list[dict[str, object]]:
    """Return all archived lines of messages, the oldest run first."""
    files = [file for file in sorted(folder.iterdir()) if file.name.startswith("message-")]
    content = b"".join(gzip.decompress(file.read_bytes()) for file in files)
    return [json.loads(line) for line in content.decode().splitlines()]


def test_interrupted_before_the_deletion(tmp_path: Path) -> None:
    """The next run finds the rows in the last batch, and writes only other rows."""
    before = Archive(tmp_path, NOW)
    before.add("message", [{"id": 1, "payload": b"MSH|"}])
    before.add("message", [{"id": 2, "payload": b"\x1f\x8b\x08"}, {"id": 3, "payload": b"c"}])
    before.add("delivery", [{"id": 4, "payload": b"d"}])
    again = Archive(tmp_path, NOW + timedelta(hours=1))
    again.add("message", [{"id": 2, "payload": b"\x1f\x8b\x08"}])
    again.add("message", [{"id": 3, "payload": b"replayed"}, {"id": 4, "payload": b"d"}])
    assert [(line["id"], line.get("payload")) for line in lines(tmp_path)] == [
        *((1, "MSH|"), (2, None), (3, "c")),
        *((3, "replayed"), (4, "d")),
    ]


def archived_ids(folder: Path) -> list[object]:
    """Return the ids that `zcat` prints. It fails for an incomplete file."""
    files = sorted(str(file) for file in folder.iterdir())
    shown = subprocess.run(["gzip", "-dc", *files], check=True, capture_output=True).stdout
    return [json.loads(line)["id"] for line in shown.splitlines()]


def test_interrupted_while_writing(tmp_path: Path) -> None:
    """An incomplete batch is truncated, and its rows are written again."""
    first, second = [{"id": 1, "payload": b"a"}], [{"id": 2, "payload": b"b"}]
    begun = Archive(tmp_path / "begun", NOW)
    begun.add("message", first)
    (file,) = (tmp_path / "begun").iterdir()
    batch = file.read_bytes()
    left = [batch[:cut] for cut in range(len(batch))] + [bytes(3), bytes(5000)]
    for at, before in product(range(len(left)), (batch, b"")):
        folder = tmp_path / f"{at}-{len(before)}"
        folder.mkdir()
        (folder / file.name).write_bytes(before + left[at])
        again = Archive(folder, NOW + timedelta(hours=1))
        again.add("message", first)
        again.add("message", second)
        assert [line["id"] for line in lines(folder)] == [1, 2], left[at]
    assert archived_ids(tmp_path / f"0-{len(batch)}") == [1, 2]


def test_content_like_the_start_of_a_batch(tmp_path: Path) -> None:
    """A complete batch that contains the magic bytes of a batch is kept."""
    inside = gzip.compress(b"x" * 100)[:20]
    noise = os.urandom(300_000)
    (tmp_path / "message-20261121T150000Z.jsonl.gz").write_bytes(
        gzip.compress(b'{"id": 1}\n', 0) + gzip.compress(noise + inside, 0)
    )
    assert last_batch(next(tmp_path.iterdir())) == noise + inside
    assert gzip.decompress(next(tmp_path.iterdir()).read_bytes())[10:] == noise + inside


def test_damaged_files_stay(tmp_path: Path) -> None:
    """Other damage stays for the operator, and the run writes to a new file."""
    good = gzip.compress(b'{"id": 1}\n')
    damaged = good + b"\x1f\x8b\x08\x00 no member" + good
    (tmp_path / "message-20261121T150000Z.jsonl.gz").write_bytes(damaged)
    assert last_lines(tmp_path, "message") == {'{"id": 1}\n'}
    assert next(tmp_path.iterdir()).read_bytes() == damaged


def test_several_interrupted_runs(tmp_path: Path) -> None:
    """Rows in the last batches of several files are not written twice."""
    rows = [{"id": number, "payload": b"a"} for number in range(1, 5)]
    for run in range(1, 5):
        Archive(tmp_path, NOW + timedelta(hours=run)).add("message", rows[:run])
    assert archived_ids(tmp_path) == [1, 2, 3, 4]


def test_a_clock_set_back(tmp_path: Path) -> None:
    """Names sort in the order of runs, and the newest file is continued."""
    Archive(tmp_path, NOW).add("message", [{"id": 1, "payload": b"a"}])
    back = Archive(tmp_path, NOW - timedelta(days=1))
    back.add("message", [{"id": 1, "payload": b"a"}, {"id": 2, "payload": b"b"}])
    Archive(tmp_path, NOW + timedelta(hours=1)).add("message", [{"id": 2, "payload": b"b"}])
    assert archived_ids(tmp_path) == [1, 2]
