"""`bridge examine` asks before it sends, prints each result, and writes the reports."""

import json
import tomllib
from pathlib import Path

from typer.testing import CliRunner, Result

from bridge.cli.application import application
from tests.acceptance.house import free_port
from tests.acceptance.wire import accept, sink


def run(*arguments: str) -> Result:
    return CliRunner().invoke(application, ["examine", *arguments])


def test_a_receiver_is_examined(tmp_path: Path) -> None:
    page, text = tmp_path / "his.html", tmp_path / "his.txt"
    with sink() as receiver:
        address = f"127.0.0.1:{receiver.port}"
        probes = ("--probe", "connect", "--probe", "message", "--probe", "matching")
        result = run(address, "--yes", *probes, "--html", str(page), "--report", str(text))
    assert result.exit_code == 0, result.output
    assert "a result: AA" in result.stdout
    assert "MSA-2 is MSH-10 of the message" in text.read_text("utf-8")
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert len(receiver.received) == 2


def test_nothing_is_sent_without_consent() -> None:
    with sink() as receiver:
        result = run(f"127.0.0.1:{receiver.port}")
    assert result.exit_code == 2
    assert "nothing was sent" in result.stderr
    assert receiver.received == []


def test_faults_and_wrong_options(tmp_path: Path) -> None:
    """A fault is the status 1; options that do not fit are refused."""
    address = f"127.0.0.1:{free_port()}"
    assert run(address, "--yes", "--probe", "connect").exit_code == 1
    file = tmp_path / "no.hl7"
    file.write_text("no message")
    for wrong in (
        ("--probe", "none"),
        ("--ca", "x.pem"),
        ("--sender", "--tls"),
        ("--message", str(file)),
        ("--tls", "--certificate", "x.pem"),
    ):
        assert run(address, "--yes", *wrong).exit_code == 2, wrong


def test_settings_that_fit_are_printed() -> None:
    """Lines to paste into bridge.toml, and the same as JSON."""

    def without_number(message: bytes, _attempts: int) -> bytes:
        return accept(message.replace(message.split(b"|")[9], b"OTHER"), 0)

    with sink(without_number) as receiver:
        arguments = (f"127.0.0.1:{receiver.port}", "--yes", "--probe", "matching")
        result, as_json = run(*arguments), run(*arguments, "--json")
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("replies")]
    assert tomllib.loads(line) == {"replies": {"mismatch": "delivered"}}
    found = json.loads(as_json.stdout)
    assert [probe["name"] for probe in found["results"]] == ["matching"]
    assert [change["setting"] for change in found["proposal"]] == ["replies"]
