"""The command line of `python -m mllp`; `test_sockets.py` runs it."""

from pathlib import Path

import pytest

from mllp import Frame
from mllp.__main__ import FileRecorder, address, parse
from mllp.testing import MemoryPeer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:2575", ("127.0.0.1", 2575)),
        ("ris.example:1", ("ris.example", 1)),
        ("[::1]:2575", ("::1", 2575)),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    """A host and a port; brackets around what contains colons itself."""
    assert address(text) == expected


@pytest.mark.parametrize("text", ["2575", ":2575", "ris", "ris:", "ris:hl7", "ris:65536"])
def test_no_addresses(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything else is refused with what was expected."""
    with pytest.raises(SystemExit) as stopped:
        parse(["listen", text])

    assert stopped.value.code == 2
    assert "expected HOST:PORT" in capsys.readouterr().err


def test_kept_files_are_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there from an earlier run stays."""
    (tmp_path / "000001.hl7").write_bytes(b"OLD")
    tray = FileRecorder(tmp_path, None)

    tray(Frame(b"NEW"), MemoryPeer(), lambda _: None)

    assert (tmp_path / "000001.hl7").read_bytes() == b"OLD"
    assert (tmp_path / "000002.hl7").read_bytes() == b"NEW"
    assert "frame 1: 3 bytes, kept as 000002.hl7" in capsys.readouterr().out


def test_a_truncated_frame_gets_no_reply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even the one that all others get."""
    reply = tmp_path / "reply"
    reply.write_bytes(b"AA")
    tray = FileRecorder(None, reply)
    found: list[object] = []

    tray(Frame(b"A"), MemoryPeer(), found.append)
    tray(Frame(b"A\x0bB", truncated=True), MemoryPeer(), found.append)

    assert found == [(b"AA",), ()]
    assert "frame 2: 3 bytes, truncated" in capsys.readouterr().out
