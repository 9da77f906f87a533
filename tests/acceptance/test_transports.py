"""Folders and HL7 over HTTP give the same guarantees as MLLP."""

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.house import House, free_port
from tests.acceptance.orders import order
from tests.acceptance.receiver import Receiver
from tests.acceptance.wire import control_id, segment, verdict
from tests.eventually import PATIENCE, eventually

SCAN_INTERVAL = 0.1  # seconds
SECRET = "Basic " + base64.b64encode(b"ris:invented").decode()


@dataclass
class Transports:
    house: House
    web: str
    guarded: str
    applied: str
    receiver: Receiver

    @property
    def inbox(self) -> Path:
        return self.house.home / "inbox"

    @property
    def outbox(self) -> Path:
        return self.house.home / "outbox"

    def drop(self, name: str, data: bytes) -> None:
        """Rename a complete file into the folder, as an interface engine does."""
        self.inbox.mkdir(exist_ok=True)
        (self.inbox / f".{name}").write_bytes(data)
        (self.inbox / f".{name}").rename(self.inbox / name)


@pytest.fixture(scope="module")
def transports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transports]:
    """One service with a folder and two HTTP listeners, a folder and an HTTP destination."""
    house = House(tmp_path_factory.mktemp("transports") / "home")
    receiver = Receiver()
    open_port, closed_port, applied_port = free_port(), free_port(), free_port()
    house.listener(
        "files", bind="folder:inbox", scan_every=f"{SCAN_INTERVAL * 1000:.0f}ms", answer_files=True
    )
    house.listener("web", bind=f"http://127.0.0.1:{open_port}/hl7", max_frame="64KiB",
                   frame_timeout="3s", charset="iso-8859-1")  # fmt: skip
    house.listener("guarded", bind=f"http://127.0.0.1:{closed_port}/",
                   authorization_file="secrets/ris.authorization")  # fmt: skip
    house.listener("applied", bind=f"http://127.0.0.1:{applied_port}/", acknowledge="applied")
    house.destination("files-out", 0, address="folder:outbox")
    house.destination("web-out", 0, address=f"http://127.0.0.1:{receiver.port}/in",
                      authorization_file="secrets/ris.authorization")  # fmt: skip
    house.make()
    (house.home / "secrets/ris.authorization").write_text(SECRET + "\n", "utf-8")
    house.start()
    yield Transports(
        house,
        f"http://127.0.0.1:{open_port}/hl7",
        f"http://127.0.0.1:{closed_port}/",
        f"http://127.0.0.1:{applied_port}/",
        receiver,
    )
    assert house.stop() == 0
    receiver.server.shutdown()
    receiver.server.server_close()


def content_of(path: Path) -> bytes:
    eventually(path.exists)
    return path.read_bytes()


def test_a_file_becomes_an_order(transports: Transports) -> None:
    """A file moves to done/, its acknowledgment is in acks/, and its order on the worklist."""
    message = order(5001)
    transports.drop("one.hl7", message)
    assert content_of(transports.inbox / "done/one.hl7") == message
    assert verdict(content_of(transports.inbox / "acks/one.hl7.ack")) == ("AA", "C5001")
    transports.house.settle()
    assert transports.house.row("A5001") is not None
    assert not (transports.inbox / "one.hl7").exists()


def test_the_same_file_again(transports: Transports) -> None:
    """The same file again is one message; the bridge overwrites nothing in done/."""
    for _ in range(2):
        transports.drop("twice.hl7", order(5002))
        content_of(transports.inbox / "done/twice.hl7")
    content_of(transports.inbox / "done/twice.2.hl7")
    rows = transports.house.bridge("messages", "list", "--listener", "files", "--limit", "1000")
    assert rows.count("C5002") == 0  # the list has no control ids
    found = [row for row in transports.house.worklist() if "A5002" in str(row)]
    assert len(found) == 1


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("no.hl7", b"hello"),
        ("empty.hl7", b""),
        ("type.hl7", order(5003).replace(b"ORM^O01", b"SIU^S12")),
    ],
)
def test_a_refused_file_moves_to_failed(transports: Transports, name: str, data: bytes) -> None:
    """A refused file moves to failed/, and its acknowledgment is in acks/."""
    transports.drop(name, data)
    assert content_of(transports.inbox / "failed" / name) == data
    assert verdict(content_of(transports.inbox / f"acks/{name}.ack"))[0] == "AR"


def test_several_messages_and_batches(transports: Transports) -> None:
    """The bridge acknowledges each message of a file, with line feeds or as a batch."""
    plain = order(5004).replace(b"\r", b"\r\n") + order(5005).replace(b"\r", b"\r\n")
    transports.drop("plain.hl7", plain)
    batch = b"FHS|^~\\&|A|B\rBHS|^~\\&|A|B\r" + order(5006) + order(5007) + b"BTS|2\rFTS|1\r"
    transports.drop("batch.hl7", batch)
    assert content_of(transports.inbox / "done/plain.hl7") == plain
    content_of(transports.inbox / "done/batch.hl7")
    answer = content_of(transports.inbox / "acks/batch.hl7.ack")
    assert answer.startswith(b"FHS")
    assert answer.count(b"MSA|AA|") == 2
    assert content_of(transports.inbox / "acks/plain.hl7.ack").count(b"MSA|AA|") == 2
    transports.house.settle()
    assert all(transports.house.row(f"A{number}") for number in (5004, 5005, 5006, 5007))


def written_slowly(file: Path, data: bytes) -> float:
    """Write a file in pieces; return the longest time without growth."""
    longest = 0.0
    with file.open("wb") as growing:
        for at in range(0, len(data), 60):
            began = time.monotonic()
            growing.write(data[at : at + 60])
            growing.flush()
            time.sleep(0.05)
            longest = max(longest, time.monotonic() - began)
    return longest


def test_unfinished_files_wait(transports: Transports) -> None:
    """The bridge does not read a growing file or one with the suffix `.part`."""
    (transports.inbox / "later.hl7.part").write_bytes(order(5008))
    complete = order(5009)
    names = (f"growing-{number}.hl7" for number in range(50))
    # If this process was suspended, the file looked complete: try again with another.
    grown = next(
        name for name in names if written_slowly(transports.inbox / name, complete) < SCAN_INTERVAL
    )
    assert content_of(transports.inbox / "done" / grown) == complete
    assert (transports.inbox / "later.hl7.part").exists()
    assert not list((transports.inbox / "failed").glob("*later*"))


def test_results_go_to_the_folder_and_over_http(transports: Transports) -> None:
    """A result is one file, named by MSH-10, and one POST."""
    assert verdict(httpx.post(transports.web, content=order(5010), timeout=PATIENCE).content) == (
        "AA",
        "C5010",
    )
    transports.house.settle()
    transports.house.draft("M5010", "A5010", "Nothing found.")
    transports.house.sign("M5010", "A5010")
    eventually(lambda: list(transports.outbox.glob("*.hl7")) and transports.receiver.received)
    (file,) = transports.outbox.glob("*.hl7")
    result = file.read_bytes()
    assert "Nothing found." in result.decode()
    assert control_id(result).decode() in file.name
    headers, body = transports.receiver.received[0]
    assert segment(body, b"OBR").split("|")[25] == "F"
    assert headers["Authorization"] == SECRET
    assert headers["Content-Type"].startswith("application/hl7-v2")
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ((b"", b""), 200, "AA"),
        ((b"ORM^O01", b"SIU^S12"), 400, "AR"),
        ((b"|C5020|", b"||"), 500, "AE"),
    ],
)
def test_http_status_follows_the_acknowledgment(
    transports: Transports, change: tuple[bytes, bytes], status: int, code: str
) -> None:
    """The status is 200 for AA, 400 for AR and 500 for AE, with the acknowledgment in the body."""
    kind = {"content-type": "application/hl7-v2; charset=utf-8"}
    message = order(5020).replace(*change, 1)
    reply = httpx.post(transports.web, content=message, headers=kind, timeout=PATIENCE)
    assert reply.status_code == status
    assert verdict(reply.content)[0] == code
    assert reply.headers["content-type"] == "application/hl7-v2; charset=utf-8"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "", {}, 405),
        ("POST", "/other", {}, 404),
        ("POST", "", {"content-type": "application/hl7-v2+xml"}, 415),
        ("POST", "", {"content-type": "application/json"}, 415),
        ("POST", "", {"content-encoding": "gzip"}, 415),
    ],
)
def test_http_requests_that_are_not_messages(
    transports: Transports, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """The listener refuses the request by its status and stores nothing."""
    reply = httpx.request(
        method, transports.web + path, content=order(5021), headers=headers, timeout=PATIENCE
    )
    assert reply.status_code == status
    assert b"MSA" not in reply.content


def test_the_charset_of_the_content_type(transports: Transports) -> None:
    """For a message without MSH-18, the charset of Content-Type overrides that of the listener."""
    message = order(5022, title="Schädel", msh10="Ö22").replace(b"||||||UNICODE UTF-8", b"")
    reply = httpx.post(
        transports.web,
        content=message,
        headers={"content-type": "application/hl7-v2; charset=utf-8"},
        timeout=PATIENCE,
    )
    assert b"MSA|AA|" + "Ö22".encode() in reply.content, "the reply has the same charset"
    transports.house.settle()
    row = transports.house.row("A5022")
    assert row is not None
    assert row["orders"][0]["StudyDescription"] == "Schädel"


@pytest.mark.parametrize(("modes", "code"), [("AL|AL", "AA"), ("AL|ER", "CA"), ("AL|NE", "CA")])
def test_applied_in_enhanced_mode(transports: Transports, modes: str, code: str) -> None:
    """The response is the application acknowledgment, if the sender asks for one."""
    number = {"AL|AL": 5030, "AL|ER": 5031, "AL|NE": 5032}[modes]
    message = order(number, modes=modes)
    reply = httpx.post(transports.applied, content=message, timeout=PATIENCE)
    assert (reply.status_code, verdict(reply.content)) == (200, (code, f"C{number}"))
    if modes != "AL|NE":  # the response waited for the report service
        assert transports.house.row(f"A{number}") is not None


def test_too_large_and_too_slow(transports: Transports) -> None:
    """A body above `max_frame` gets 413 and AR; the listener cuts a body that is too slow."""
    big = order(5023) + b"NTE|1||" + b"x" * 2_000_000
    for content in (big, iter([big])):
        reply = httpx.post(transports.web, content=content, timeout=PATIENCE)
        assert reply.status_code == 413
        assert verdict(reply.content) == ("AR", "C5023")
    wrong = {"authorization": SECRET[:-2]}
    reply = httpx.post(transports.guarded, content=big * 9, headers=wrong, timeout=PATIENCE)
    assert (reply.status_code, reply.content) == (401, b""), "without reading the body"
    transports.drop("endless.hl7", order(5026) + b"NTE|1||" + b"x" * 17 * 2**20)
    assert verdict(content_of(transports.inbox / "acks/endless.hl7.ack")) == ("AR", "C5026")

    def dribble() -> Iterator[bytes]:
        for byte in order(5024) * 50:  # more than a minute
            time.sleep(0.05)
            yield bytes([byte])

    with pytest.raises(httpx.TransportError):
        httpx.post(transports.web, content=dribble(), timeout=PATIENCE)


def test_authorization(transports: Transports) -> None:
    """With `authorization_file`, the listener accepts only requests with that header."""
    assert httpx.post(transports.guarded, content=order(5025), timeout=PATIENCE).status_code == 401
    wrong = {"authorization": SECRET[:-2]}
    assert (
        httpx.post(
            transports.guarded, content=order(5025), headers=wrong, timeout=PATIENCE
        ).status_code
        == 401
    )
    right = {"authorization": SECRET}
    reply = httpx.post(transports.guarded, content=order(5025), headers=right, timeout=PATIENCE)
    assert verdict(reply.content) == ("AA", "C5025")


def test_http_without_an_acknowledgment(transports: Transports) -> None:
    """A delivery needs an acknowledgment, not only status 200; Content-Length is optional."""
    transports.receiver.status, transports.receiver.answer = 200, b"thanks"
    before = len(transports.receiver.received)
    transports.house.draft("M5040", "A5040", "Say yes in HL7.")
    transports.house.sign("M5040", "A5040")
    eventually(lambda: len(transports.receiver.received) >= before + 2)

    def state() -> dict[str, Any]:
        listed = transports.house.bridge("deliveries", "list", "--destination", "web-out", "--json")
        newest: dict[str, Any] = json.loads(listed)[0]
        return newest

    newest = state()
    assert (newest["code"], newest["detail"]) == ("http", "200")
    assert newest["acknowledged_at"] is None
    transports.receiver.status, transports.receiver.answer, transports.receiver.with_length = (
        200,
        None,
        False,
    )
    eventually(lambda: state()["state"] == "done")
    bodies = [body for _, body in transports.receiver.received[before:]]
    assert len(set(bodies)) == 1
