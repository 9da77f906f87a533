"""Folders and HL7 over HTTP: the same promises as over MLLP, from outside."""

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

LOOKS = 0.1  # seconds between two looks at the folder
SECRET = "Basic " + base64.b64encode(b"ris:invented").decode()


@dataclass
class Post:
    """A house that is reached by folder and by HTTP."""

    house: House
    web: str
    guarded: str
    receiver: Receiver

    @property
    def inbox(self) -> Path:
        return self.house.home / "inbox"

    @property
    def outbox(self) -> Path:
        return self.house.home / "outbox"

    def drop(self, name: str, data: bytes) -> None:
        """Put a file into the folder, as an interface engine does: whole at once."""
        self.inbox.mkdir(exist_ok=True)
        (self.inbox / f".{name}").write_bytes(data)
        (self.inbox / f".{name}").rename(self.inbox / name)


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    """One service with a folder and two HTTP listeners, a folder and an HTTP destination."""
    house = House(tmp_path_factory.mktemp("post") / "home")
    receiver = Receiver()
    open_port, closed_port = free_port(), free_port()
    house.listener(
        "files", bind="folder:inbox", scan_every=f"{LOOKS * 1000:.0f}ms", answer_files=True
    )
    house.listener("web", bind=f"http://127.0.0.1:{open_port}/hl7", max_frame="64KiB",
                   frame_timeout="3s", charset="iso-8859-1")  # fmt: skip
    house.listener("guarded", bind=f"http://127.0.0.1:{closed_port}/",
                   authorization_file="secrets/ris.authorization")  # fmt: skip
    house.destination("files-out", 0, address="folder:outbox")
    house.destination("web-out", 0, address=f"http://127.0.0.1:{receiver.port}/in",
                      authorization_file="secrets/ris.authorization")  # fmt: skip
    house.make()
    (house.home / "secrets/ris.authorization").write_text(SECRET + "\n", "utf-8")
    house.start()
    yield Post(
        house, f"http://127.0.0.1:{open_port}/hl7", f"http://127.0.0.1:{closed_port}/", receiver
    )
    assert house.stop() == 0
    receiver.server.shutdown()
    receiver.server.server_close()


def content_of(path: Path) -> bytes:
    """Wait for a file, and return its content."""
    eventually(path.exists)
    return path.read_bytes()


def test_a_file_becomes_an_order(post: Post) -> None:
    """It goes to done/, its acknowledgment to acks/, the order onto the worklist."""
    message = order(5001)
    post.drop("one.hl7", message)
    assert content_of(post.inbox / "done/one.hl7") == message
    assert verdict(content_of(post.inbox / "acks/one.hl7.ack")) == ("AA", "C5001")
    post.house.settle()
    assert post.house.row("A5001") is not None
    assert not (post.inbox / "one.hl7").exists()


def test_the_same_file_again(post: Post) -> None:
    """It is one message: the stored acknowledgment again, and nothing overwritten in done/."""
    for _ in range(2):
        post.drop("twice.hl7", order(5002))
        content_of(post.inbox / "done/twice.hl7")
    content_of(post.inbox / "done/twice.2.hl7")
    rows = post.house.bridge("messages", "list", "--listener", "files", "--limit", "1000")
    assert rows.count("C5002") == 0  # control ids are in no list
    found = [each for each in post.house.worklist() if "A5002" in str(each)]
    assert len(found) == 1


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("no.hl7", b"hello"),
        ("empty.hl7", b""),
        ("type.hl7", order(5003).replace(b"ORM^O01", b"SIU^S12")),
    ],
)
def test_what_is_refused_fails(post: Post, name: str, data: bytes) -> None:
    """It goes to failed/, with a reason beside it."""
    post.drop(name, data)
    assert content_of(post.inbox / "failed" / name) == data
    assert verdict(content_of(post.inbox / f"acks/{name}.ack"))[0] == "AR"


def test_several_messages_and_batches(post: Post) -> None:
    """One after the other, line feeds, or FHS and BHS around them: each is answered."""
    plain = order(5004).replace(b"\r", b"\r\n") + order(5005).replace(b"\r", b"\r\n")
    post.drop("plain.hl7", plain)
    batch = b"FHS|^~\\&|A|B\rBHS|^~\\&|A|B\r" + order(5006) + order(5007) + b"BTS|2\rFTS|1\r"
    post.drop("batch.hl7", batch)
    assert content_of(post.inbox / "done/plain.hl7") == plain
    content_of(post.inbox / "done/batch.hl7")
    answer = content_of(post.inbox / "acks/batch.hl7.ack")
    assert answer.startswith(b"FHS")
    assert answer.count(b"MSA|AA|") == 2
    assert content_of(post.inbox / "acks/plain.hl7.ack").count(b"MSA|AA|") == 2
    post.house.settle()
    assert all(post.house.row(f"A{number}") for number in (5004, 5005, 5006, 5007))


def written_slowly(file: Path, data: bytes) -> float:
    """Write a file bit by bit; give for how long it did not grow, at most."""
    longest = 0.0
    with file.open("wb") as growing:
        for at in range(0, len(data), 60):
            began = time.monotonic()
            growing.write(data[at : at + 60])
            growing.flush()
            time.sleep(0.05)
            longest = max(longest, time.monotonic() - began)
    return longest


def test_unfinished_files_wait(post: Post) -> None:
    """A file that still grows, or bears a name for the unfinished, is left alone."""
    (post.inbox / "later.hl7.part").write_bytes(order(5008))
    whole = order(5009)
    names = (f"growing-{number}.hl7" for number in range(50))
    # Where we were held up ourselves, the file was finished for as long: that is no case of it.
    grown = next(name for name in names if written_slowly(post.inbox / name, whole) < LOOKS)
    assert content_of(post.inbox / "done" / grown) == whole
    assert (post.inbox / "later.hl7.part").exists()
    assert not list((post.inbox / "failed").glob("*later*"))


def test_results_go_to_the_folder_and_over_http(post: Post) -> None:
    """One file and one POST each, the addendum after the report, named by MSH-10."""
    assert verdict(httpx.post(post.web, content=order(5010), timeout=PATIENCE).content) == (
        "AA",
        "C5010",
    )
    post.house.settle()
    post.house.draft("M5010", "A5010", "Nothing found.")
    post.house.sign("M5010", "A5010")
    eventually(lambda: list(post.outbox.glob("*.hl7")) and post.receiver.received)
    (file,) = post.outbox.glob("*.hl7")
    result = file.read_bytes()
    assert "Nothing found." in result.decode()
    assert control_id(result).decode() in file.name
    headers, body = post.receiver.received[0]
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
    post: Post, change: tuple[bytes, bytes], status: int, code: str
) -> None:
    """200 for AA, 400 for AR, 500 for AE, and the acknowledgment in the body of each."""
    kind = {"content-type": "application/hl7-v2; charset=utf-8"}
    message = order(5020).replace(*change, 1)
    reply = httpx.post(post.web, content=message, headers=kind, timeout=PATIENCE)
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
def test_http_that_is_no_message(
    post: Post, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """Refused by its status, before anything is stored."""
    reply = httpx.request(
        method, post.web + path, content=order(5021), headers=headers, timeout=PATIENCE
    )
    assert reply.status_code == status
    assert b"MSA" not in reply.content


def test_the_charset_of_the_content_type(post: Post) -> None:
    """A message that names no charset is what its Content-Type says, not the listener's."""
    message = order(5022, title="Schädel", msh10="Ö22").replace(b"||||||UNICODE UTF-8", b"")
    reply = httpx.post(
        post.web,
        content=message,
        headers={"content-type": "application/hl7-v2; charset=utf-8"},
        timeout=PATIENCE,
    )
    assert b"MSA|AA|" + "Ö22".encode() in reply.content, "and so is what it is answered"
    post.house.settle()
    row = post.house.row("A5022")
    assert row is not None
    assert row["orders"][0]["StudyDescription"] == "Schädel"


def test_too_large_and_too_slow(post: Post) -> None:
    """A body beyond `max_frame` is 413 and AR, however it comes; one that dribbles is cut."""
    big = order(5023) + b"NTE|1||" + b"x" * 2_000_000
    for content in (big, iter([big])):
        reply = httpx.post(post.web, content=content, timeout=PATIENCE)
        assert reply.status_code == 413
        assert verdict(reply.content) == ("AR", "C5023")
    wrong = {"authorization": SECRET[:-2]}
    reply = httpx.post(post.guarded, content=big * 9, headers=wrong, timeout=PATIENCE)
    assert (reply.status_code, reply.content) == (401, b""), "refused before the body is read"
    post.drop("endless.hl7", order(5026) + b"NTE|1||" + b"x" * 17 * 2**20)
    assert verdict(content_of(post.inbox / "acks/endless.hl7.ack")) == ("AR", "C5026")

    def dribble() -> Iterator[bytes]:
        for byte in order(5024) * 50:  # more than a minute
            time.sleep(0.05)
            yield bytes([byte])

    with pytest.raises(httpx.TransportError):
        httpx.post(post.web, content=dribble(), timeout=PATIENCE)


def test_who_may_send(post: Post) -> None:
    """With `authorization_file` only the sender that shows that header is heard."""
    assert httpx.post(post.guarded, content=order(5025), timeout=PATIENCE).status_code == 401
    wrong = {"authorization": SECRET[:-2]}
    assert (
        httpx.post(post.guarded, content=order(5025), headers=wrong, timeout=PATIENCE).status_code
        == 401
    )
    right = {"authorization": SECRET}
    reply = httpx.post(post.guarded, content=order(5025), headers=right, timeout=PATIENCE)
    assert verdict(reply.content) == ("AA", "C5025")


def test_http_without_an_acknowledgment(post: Post) -> None:
    """A status alone delivers nothing; an acknowledgment does, though nobody told its length."""
    post.receiver.status, post.receiver.answer = 200, b"thanks"
    before = len(post.receiver.received)
    post.house.draft("M5040", "A5040", "Say yes in HL7.")
    post.house.sign("M5040", "A5040")
    eventually(lambda: len(post.receiver.received) >= before + 2)

    def state() -> dict[str, Any]:
        listed = post.house.bridge("deliveries", "list", "--destination", "web-out", "--json")
        newest: dict[str, Any] = json.loads(listed)[0]
        return newest

    newest = state()
    assert (newest["code"], newest["detail"]) == ("http", "200")
    assert newest["acknowledged_at"] is None
    post.receiver.status, post.receiver.answer, post.receiver.measured = 200, None, False
    eventually(lambda: state()["state"] == "done")
    bodies = [body for _, body in post.receiver.received[before:]]
    assert len(set(bodies)) == 1
