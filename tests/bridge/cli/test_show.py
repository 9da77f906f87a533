"""What commands print: on each terminal, for unknown names, and as JSON."""

import json
import re
import time
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from bridge.cli.application import application
from bridge.cli.output import print_record, print_rows
from bridge.metrics import Metrics
from bridge.monitoring.alerts import update_alerts
from bridge.monitoring.channels import (
    LOADED_VALID_MS,
    ChannelCircuit,
    pause,
    store_circuits,
    store_loaded,
    store_start_failures,
)
from bridge.monitoring.conditions import AlertCondition, AlertSeverity
from bridge.monitoring.statistics import StatisticsRecorder
from bridge.store.databases import bridge_database
from config.sections import ChannelKind
from config.settings import FILE_NAME
from tests.bridge.cli.home import Home

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


PARKED = """
    INSERT INTO delivery (id, destination, report_id, release_key, event, state, control_id, lane,
                          orders, release_at, created_at)
    VALUES (:id, :name, 'r', 'r:final:' || :name, 'final', 'parked', 'C' || :id, :id, '[]', 1, 1)
"""


@pytest.mark.parametrize(
    ("command", "option", "known"),
    [
        (("deliveries", "list"), "--destination", "ris-results"),
        (("deliveries", "retry", "--dry-run"), "--destination", "ris-results"),
        (("messages", "list"), "--listener", "ris-orders"),
        (("messages", "replay", "--dry-run"), "--listener", "ris-orders"),
    ],
)
def test_an_unknown_name(tmp_path: Path, command: tuple[str, ...], option: str, known: str) -> None:
    """The command exits with 1 and names the unknown name. A known name has an empty list."""
    home = tmp_path / "home"
    Home(home).init()
    settings = home / "bridge.toml"
    written = '[[destination]]\nname = "ris-results"\naddress = "127.0.0.1:9"\n'
    settings.write_text(
        '[[listener]]\nname = "ris-orders"\nbind = "127.0.0.1:0"\nsite = "S"\n' + written, "utf-8"
    )
    arguments = [*command, "--home", str(home), option]
    result = CliRunner().invoke(application, [*arguments, known])
    assert result.exit_code == 0, result.output
    assert command[1] == "list" or not result.stdout
    result = CliRunner().invoke(application, [*arguments, "riss"])
    assert result.exit_code != 0
    kind = option.removeprefix("--")
    assert str(result.exception) == f"there is no {kind} riss in the settings"
    assert not result.stdout
    if command[1] == "list":
        result = CliRunner().invoke(application, [*arguments, known, "--json"])
        assert json.loads(result.stdout) == []


def test_retry_for_an_inactive_destination(tmp_path: Path) -> None:
    """A retry warns if the destination is removed, disabled or paused."""
    home = tmp_path / "home"
    Home(home).init()
    sections = [
        f'[[destination]]\nname = "{name}"\naddress = "127.0.0.1:9"\n{more}\n'
        for name, more in (("good", ""), ("dark", "enabled = false"), ("still", ""))
    ]
    (home / "bridge.toml").write_text("".join(sections), "utf-8")
    with bridge_database(home) as database, database.write() as connection:
        for number, name in enumerate(("good", "gone", "dark", "still"), start=1):
            connection.execute(text(PARKED), {"id": number, "name": name})
    still = ["destinations", "pause", "still", "--home", str(home)]
    assert CliRunner().invoke(application, still).exit_code == 0
    result = CliRunner().invoke(
        application, ["deliveries", "retry", "--state", "parked", "--home", str(home)]
    )
    assert result.exit_code == 0, result.output
    assert "4 queued, 0 failed" in result.stdout
    assert result.stderr.splitlines() == [
        "note: destination dark is disabled: its deliveries wait",
        "note: destination gone is not in the settings: its deliveries wait",
        "note: destination still is paused: its deliveries wait",
    ]


PAUSED = AlertCondition("paused:listener a", AlertSeverity.WARNING, "listener a is paused")


def test_former_names_in_json(tmp_path: Path) -> None:
    """JSON has two members also by their names of the release before, with the same values."""
    home = Home(tmp_path / "home")
    home.init()
    with bridge_database(tmp_path / "home") as database:
        for now in (1000, 2000, 3000):  # raised, cleared, raised again
            update_alerts(database, [PAUSED] if now != 2000 else [], now, 0, hold_down=10_000)
    (alert,) = json.loads(home.ok("alerts", "list", "--json"))
    assert alert["key"] == PAUSED.key
    values = ("1970-01-01T00:00:03.000+00:00", 1)
    assert (alert["notified_at"], alert["recurrences"]) == values
    assert (alert["told_at"], alert["returns"]) == values


_REFUSED = text("""
    INSERT INTO message (received_at, listener, identity, digest, edition, message_type, mapping,
        mapping_version, flags, ack_code, acknowledgment, error_code, error_place, state, detail)
    VALUES (:at, 'in', 1, 1, 0, 'ORM^O01', 'orders', '1', 0, 'AE', 'delivered', '', '', 'refused',
        '')
""")


def test_the_overview_of_channels(tmp_path: Path) -> None:
    """What needs a person, then a line for each channel; `--json` has all members."""
    home = Home(tmp_path / "home")
    home.init()
    (home.folder / FILE_NAME).write_text(SETTINGS, "utf-8")
    metrics = Metrics()
    metrics.received.labels("in", "accepted").inc(3)
    metrics.received.labels("in", "refused").inc(1)
    now = time.time_ns() // 1_000_000
    with bridge_database(home.folder) as database:
        StatisticsRecorder(metrics, database, "test").store(now)
        with database.write() as connection:
            connection.execute(_REFUSED, {"at": now})
        quiet = AlertCondition("quiet:listener in", AlertSeverity.WARNING, "it is silent")
        update_alerts(database, [quiet], now, 0)
    needs, need, _, head, row = home.ok("channels").splitlines()
    assert [needs, need] == home.ok("attention").splitlines()
    assert needs.split()[:3] == ["severity", "count", "subject"]
    assert re.split("  +", need)[:3] == ["amber", "conditions", "listener in"]
    assert need.endswith("It is silent  Check the connection to the sender, and ask the sender.")
    assert head.split()[:4] == ["channel", "state", "rate", "errors"]
    assert row.split()[:2] == ["listener", "in"]
    assert "25.0%" in row.split()
    found = json.loads(home.ok("channels", "--json"))
    assert found["needs"] == json.loads(home.ok("attention", "--json"))
    (channel,) = found["channels"]
    assert (channel["errors"], channel["share"], channel["sites"]) == (1, 0.25, ["SITE1"])
