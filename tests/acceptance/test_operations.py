"""Operations: pause, resume, bulk replay, alerts, retention."""

import gzip
import http.server
import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tests.acceptance.house import House, bridge, free_port
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, Sink, ack, sink, verdict
from tests.eventually import PATIENCE, eventually

pytestmark = pytest.mark.slow

NOTIFIED: list[dict[str, Any]] = []


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        NOTIFIED.extend(json.loads(body)["alerts"])
        self.send_response(204)
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def hook() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def refusing(message: bytes, attempts: int) -> bytes:
    """Refuse messages with REFUSEME; accept all others."""
    code = b"AR" if b"REFUSEME" in message else b"AA"
    return VT + ack(message, code) + FS_CR


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, hook: int) -> Iterator[tuple[House, Sink]]:
    """A service that checks its alerts every 200 ms, and the receiver of its results."""
    house = House(tmp_path_factory.mktemp("watched") / "home")
    with sink(refusing) as ris:
        house.destination("ris", ris.port, replies={"AR": "park"})
        house.settings = (
            f'[alerts]\nevery = "200ms"\nwebhook = {{ url = "http://127.0.0.1:{hook}/" }}\n'
        )
        house.listener_extra = 'alert_after = "2s"'
        house.make()
        house.start()
        yield house, ris
        assert house.stop() == 0


def notifications(key: str, news: str = "raised") -> list[dict[str, Any]]:
    return [row for row in NOTIFIED if row["key"] == key and row["news"] == news]


def test_a_paused_listener_reads_nothing(watched: tuple[House, Sink]) -> None:
    """Connections stay open; messages sent meanwhile are acknowledged after the resume."""
    house, _ = watched
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(6001))) == ("AA", "C6001")
        house.bridge("listeners", "pause", "orders")
        eventually(
            lambda: house.metric('bridge_channel_paused{kind="listener",name="orders"}') == 1
        )
        sender.post(order(6002))
        assert sender.reply(1.5) is None
        eventually(lambda: notifications("paused:listener orders"))
        house.kill()
        house.start()
    with Sender(house.mllp_port) as sender:
        sender.post(order(6003))
        assert sender.reply(1.5) is None, "a pause outlasts kill -9"
        rows = json.loads(house.bridge("listeners", "list", "--json"))
        assert rows[0]["state"] == "paused"
        assert "is running" in house.bridge("listeners", "resume", "orders")
        assert verdict(sender.reply(PATIENCE)) == ("AA", "C6003")
    eventually(lambda: notifications("paused:listener orders", "cleared"))
    assert len(notifications("paused:listener orders")) == 1, "notified once, despite a restart"
    house.bridge("listeners", "pause", "unknown", expect=1)


def test_a_listener_that_no_node_has_loaded_does_not_run(watched: tuple[House, Sink]) -> None:
    """A listener that is added to bridge.toml is not running until the next start."""
    house, _ = watched
    file = house.home / "bridge.toml"
    before = file.read_text()

    def states() -> dict[str, str]:
        rows = json.loads(house.bridge("listeners", "list", "--json"))
        return {row["name"]: row["state"] for row in rows}

    eventually(lambda: states() == {"orders": "running"})
    assert f"address=http://127.0.0.1:{house.http_port}/console" in house.log()
    try:
        file.write_text(
            before + f'[[listener]]\nname = "late"\nbind = "127.0.0.1:{free_port()}"\nsite = "S"\n'
        )
        assert states() == {"orders": "running", "late": "not running"}
        assert "listener late: no running node has loaded it" in house.bridge("check")
    finally:
        file.write_text(before)


def test_silence_raises_an_alert(watched: tuple[House, Sink]) -> None:
    """No message for `alert_after` raises an alert; the next message clears it."""
    house, _ = watched
    eventually(lambda: notifications("silence:orders"))
    NOTIFIED.clear()
    with Sender(house.mllp_port) as sender:
        eventually(lambda: sender.ask(order(6099)) and notifications("silence:orders", "cleared"))


def test_a_paused_destination_gets_nothing(watched: tuple[House, Sink]) -> None:
    """A paused destination gets no results; they arrive after the resume."""
    house, ris = watched
    house.bridge("destinations", "pause", "ris")
    eventually(lambda: house.metric('bridge_channel_paused{kind="destination",name="ris"}') == 1)
    before = len(ris.received)
    house.draft("M6010", "A6010", "Waits.")
    house.sign("M6010", "A6010")
    eventually(lambda: deliveries(house, "queued"))
    assert len(ris.received) == before
    house.bridge("destinations", "resume", "ris")
    assert len(ris.wait(before + 1)) == before + 1


def test_parked_results_raise_an_alert_and_are_retried_in_bulk(watched: tuple[House, Sink]) -> None:
    """Results parked by the reply table raise one alert; a filter retries them, oldest first."""
    house, ris = watched
    for number in (6021, 6022, 6023):
        house.draft(f"M{number}", f"A{number}", "REFUSEME")
        house.sign(f"M{number}", f"A{number}")
    eventually(lambda: len(deliveries(house, "parked")) == 3)
    eventually(lambda: notifications("parked:destination ris"))
    ris.answer = lambda message, attempts: VT + ack(message) + FS_CR
    house.bridge("deliveries", "retry", expect=2)
    listed = house.bridge("deliveries", "retry", "--state", "parked", "--dry-run").split()
    assert listed == [str(delivery) for delivery in sorted(deliveries(house, "parked"))]
    out = house.bridge("deliveries", "retry", "--state", "parked", "--code", "AR", "--rate", "20")
    assert "3 queued, 0 failed" in out
    eventually(lambda: not deliveries(house, "parked"))
    eventually(lambda: notifications("parked:destination ris", "cleared"))
    assert len(notifications("parked:destination ris")) == 1


def deliveries(house: House, state: str) -> list[int]:
    text = house.bridge("deliveries", "list", "--state", state, "--json")
    return [load["id"] for load in json.loads(text)]


def test_refused_messages_are_replayed_in_bulk(watched: tuple[House, Sink]) -> None:
    """A bulk replay reports each message that is still refused; it requires ids or a filter."""
    house, _ = watched
    with Sender(house.mllp_port) as sender:
        for number in (6031, 6032):
            bad = order(number).replace(b"ORM^O01^ORM_O01", b"SIU^S12")
            assert verdict(sender.ask(bad))[0] == "AR"
    out = house.bridge("messages", "replay", "--state", "refused", expect=1)
    assert out.count("still refused") == 2
    assert "0 queued, 2 failed" in out
    house.bridge("messages", "replay", expect=2)


def test_retention_archives_what_it_removes(watched: tuple[House, Sink], tmp_path: Path) -> None:
    """`prune` archives the removed messages completely; the newest ones fit into the size."""
    house, _ = watched
    with Sender(house.mllp_port) as sender:
        for number in range(6040, 6070):  # more than fit into --max-size
            sender.ask(order(number))
        house.settle()  # before the newest ones: a row is old when it was applied long ago, too
        for number in range(6070, 6080):
            sender.ask(order(number))
    house.settle()
    archive = tmp_path / "archive"
    before = json.loads(house.bridge("messages", "list", "--json", "--limit", "1000"))
    size = ("--max-size", "4KiB", "--archive", str(archive), "--json")
    counts = json.loads(house.bridge("prune", *size))
    after = json.loads(house.bridge("messages", "list", "--json", "--limit", "1000"))
    assert counts["messages"] == len(before) - len(after) > 10
    (file,) = archive.glob("message-*.jsonl.gz")
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert len(lines) == counts["messages"]
    assert lines[0]["payload"].startswith("MSH|")
    assert file.stat().st_mode & 0o077 == 0
    house.bridge("prune", expect=2)


def test_a_crash_writes_the_stack(watched: tuple[House, Sink]) -> None:
    """A crash in a library writes the functions of all threads, and a start continues the work."""
    house, _ = watched
    assert house.service is not None
    house.service.process.send_signal(signal.SIGSEGV)
    house.service.process.wait()
    assert "Fatal Python error: Segmentation fault" in house.log()
    assert 'bridge/runtime/loop.py", line' in house.log()
    house.start()
    with Sender(house.mllp_port) as sender:
        assert verdict(sender.ask(order(6999))) == ("AA", "C6999")


@contextmanager
def _mail_server(received: list[bytes]) -> Iterator[int]:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb", buffering=0) as wire:
            wire.write(b"220 mail\r\n")
            data = False
            while line := wire.readline():
                received.append(line)
                if data and line != b".\r\n":
                    continue
                verb = b"." if data else line[:4].upper()
                data = verb == b"DATA"
                answers = {b"DATA": b"354 go on", b"QUIT": b"221 bye"}
                wire.write(answers.get(verb, b"250 ok") + b"\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    thread.join()
    server.close()


def test_alerts_by_mail(tmp_path: Path) -> None:
    """`bridge alerts test` sends a sample alert by mail although the webhook is down."""
    house = House(tmp_path / "home")
    received: list[bytes] = []
    with _mail_server(received) as port:
        mail = f'host = "127.0.0.1", port = {port}, from = "bridge@example.org"'
        house.settings = (
            f'[alerts]\nmail = {{ {mail}, to = ["it@example.org"], security = "none" }}\n'
            f'webhook = {{ url = "http://127.0.0.1:{free_port()}/" }}\n'
        )
        house.make()
        output = bridge("alerts", "test", expect=1, env={"BRIDGE_HOME": str(house.home)})
    assert "mail: notified\nwebhook: " in output
    text = b"".join(received).decode()
    assert "raised: a test: nothing is wrong" in text
    assert "To: it@example.org" in text
    assert "\nDate: " in text
    assert "@example.org>" in text.partition("\nMessage-ID: ")[2]
