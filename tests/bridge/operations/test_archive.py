"""What retention writes down is readable, whatever became of the disk on the way."""

import errno
import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bridge.operations.archive import Archive

NOW = datetime(2026, 11, 21, 15, tzinfo=UTC)


def test_a_batch_that_was_not_kept_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is told, and what was archived before and is after can be read."""

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
    assert [json.loads(each) for each in lines] == [
        {"id": 1, "payload": "MSH|"},
        {"id": 2, "payload_base64": "/w=="},
    ]
