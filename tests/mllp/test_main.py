"""The command line of `python -m mllp`. `test_sockets.py` runs it as a process."""

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
    """An address is a host and a port. Brackets enclose a host with colons."""
    assert address(text) == expected


@pytest.mark.parametrize("text", ["2575", ":2575", "ris", "ris:", "ris:hl7", "ris:65536"])
def test_no_addresses(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid address is refused with the expected form."""
    with pytest.raises(SystemExit) as stopped:
        parse(["listen", text])

    assert stopped.value.code == 2
    assert "expected HOST:PORT" in capsys.readouterr().err


def test_kept_files_are_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files of an earlier run stay."""
    (tmp_path / "000001.hl7").write_bytes(b"OLD")
    recorder = FileRecorder(tmp_path, None)

    recorder(Frame(b"NEW"), MemoryPeer(), lambda _: None)

    assert (tmp_path / "000001.hl7").read_bytes() == b"OLD"
    assert (tmp_path / "000002.hl7").read_bytes() == b"NEW"
    assert "frame 1: 3 bytes, kept as 000002.hl7" in capsys.readouterr().out


def test_a_truncated_frame_gets_no_reply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reply = tmp_path / "reply"
    reply.write_bytes(b"AA")
    recorder = FileRecorder(None, reply)
    replies: list[object] = []

    recorder(Frame(b"A"), MemoryPeer(), replies.append)
    recorder(Frame(b"A\x0bB", truncated=True), MemoryPeer(), replies.append)

    assert replies == [(b"AA",), ()]
    assert "frame 2: 3 bytes, truncated" in capsys.readouterr().out
