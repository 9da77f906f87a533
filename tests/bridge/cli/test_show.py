"""Commands print complete text on each terminal, and escape control characters."""

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.cli.application import application
from bridge.cli.output import print_record, print_rows
from bridge.monitoring.channels import (
    LOADED_VALID_MS,
    ChannelCircuit,
    pause,
    store_circuits,
    store_loaded,
    store_start_failures,
)
from bridge.store.databases import bridge_database
from config.sections import ChannelKind
from config.settings import FILE_NAME

SETTINGS = """
[[listener]]
name = "in"
bind = "127.0.0.1:2575"
site = "SITE1"
"""


def test_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A narrow terminal does not cut the text."""
    long = "x" * 200
    print_rows([{"id": 17, "text": long}, {"id": 4}], ["id", "text", "sent_at"], as_json=False)

    assert capsys.readouterr().out == f"id  text{' ' * 196}  sent at\n17  {long}\n4\n"


def test_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of a sender are shown, not executed. Letters of any language stay."""
    print_rows([{"type": "ORM\x1b[2J"}], ["type"], as_json=False)
    print_record({"id": 1}, {"payload": "PID|\x1b$B\u3000\u5c71\nPV1"}, as_json=False)

    assert capsys.readouterr().out == (
        "type\nORM\\x1b[2J\nid  1\n\npayload\nPID|\\x1b$B\u3000\u5c71\nPV1\n"
    )


def test_the_state_of_destinations(tmp_path: Path) -> None:
    """Only a loaded destination that responds and accepts is shown as running."""
    home, now = tmp_path / "home", time.time_ns() // 1_000_000
    run = CliRunner().invoke
    assert run(application, ["init", str(home)]).exit_code == 0
    names = ("well", "mute", "stuck", "held", "late", "gone", "nope")
    written = [f'[[destination]]\nname = "{name}"\naddress = "127.0.0.1:9"\n' for name in names]
    (home / FILE_NAME).write_text(SETTINGS + "".join(written), "utf-8")
    with bridge_database(home) as database:
        since = {"well": None, "mute": now, "held": now, "nope": None}
        store_circuits(
            database, {n: ChannelCircuit(at, int(n == "nope")) for n, at in since.items()}
        )
        store_loaded(database, ChannelKind.DESTINATION, {"well", "mute", "held", "nope"}, now)
        store_loaded(database, ChannelKind.DESTINATION, {"gone"}, now - LOADED_VALID_MS)
        store_start_failures(
            database, ChannelKind.DESTINATION, "node", {"stuck": "no such file"}, now
        )
        pause(database, ChannelKind.DESTINATION, "held", now, "ada")
    found = run(application, ["destinations", "list"], env={"BRIDGE_HOME": str(home)}).stdout

    lines = [line.split("  ") for line in found.splitlines()[1:]]
    assert [next(cell for cell in line[2:] if cell) for line in lines] == [
        "running", "not answering", "could not begin", "paused",
        "not running", "not running", "refusing",
    ]  # fmt: skip
    assert "no such file" in found


def test_embedded_documents_are_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal shows the length of Base64. JSON and other text are complete."""
    document, words = "JVBERi0x" * 4000, "word " * 400
    text = f"OBX|1|ED|PDF^R||^application^pdf^Base64^{document}=||||||F\nOBX|2|TX|||{words}"
    print_record({"id": 1}, {"payload": text}, as_json=False)
    shown = capsys.readouterr().out
    assert document not in shown
    assert "32001 characters" in shown
    assert "||||||F\n" in shown
    assert words.strip() in shown
    print_record({"id": 1}, {"payload": text}, as_json=True)
    assert document in capsys.readouterr().out
