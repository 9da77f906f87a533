"""The service answers every message, also a damaged one, and keeps running."""

import random
import re
from pathlib import Path

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, segment, verdict
from tests.conformance.parsers import agree, structure_errors
from tests.corpus import CORPUS

SAMPLES = Path(__file__).parents[2] / "sample_messages"
NO_CONTROL_ID = "ValidationError: Missing required child MSA.MSA_2"
NEGATIVE = {"AE", "AR", "CE", "CR"}


def framed(raw: bytes) -> bytes:
    """The content of a file without framing bytes, as the payload of one frame."""
    return raw.strip(VT + FS_CR).replace(FS_CR, b"\r")


def check_answer(reply: bytes) -> None:
    code, _ = verdict(reply)
    assert code in {"AA", "CA"} | NEGATIVE
    if code in NEGATIVE:
        error = segment(reply, b"ERR")
        assert re.search(r"\b(1\d\d|20\d)\b", error), error
        assert "207" not in error, "an internal error"


def test_messages_of_every_shape(running: House) -> None:
    """The service answers every message, unless it requests NE; a refusal has a reason."""
    for number, file in enumerate(CORPUS):
        after = order(
            20_000 + number, msh10=f"AFTER{number}"
        )  # its ACK comes after the replies to the file
        with Sender(running.mllp_port) as sender:
            raw = framed(file.read_bytes())
            sender.post(raw, after)
            wanted = b"".join(re.split(rb"[\r\n]", raw)[0].split(raw[3:4])[14:16])  # MSH-15 and 16
            replies: list[bytes] = []
            while not replies or verdict(replies[-1])[1] != f"AFTER{number}":
                reply = sender.reply()
                assert reply is not None, file.name
                replies.append(reply)
            *replies, last = replies
            assert verdict(last)[0] == "AA", file.name
            assert replies or wanted in {b"NE", b"NENE"}, file.name
            for item in replies:
                if b"BHS" not in item:
                    check_answer(item)
                    assert agree(item), file.name
                    assert structure_errors(item).removesuffix(NO_CONTROL_ID) == "", file.name


@pytest.mark.parametrize("kind", ["cut", "noise", "segments", "delimiters", "bytes"])
def test_damaged_messages(running: House, kind: str) -> None:
    """The service answers a damaged message or ignores it, and accepts the next one."""
    rng = random.Random(f"damage {kind}")
    sources = [framed(file.read_bytes()) for file in (*CORPUS, *SAMPLES.glob("*/*.hl7"))]
    for number in range(60):
        raw = damaged(rng.choice(sources)[:6000], kind, rng)
        after = 21_000 + 100 * len(kind) + number
        with Sender(running.mllp_port) as sender:
            sender.post(raw, order(after, msh10=f"{kind}{number}"))
            replies: list[bytes] = []
            while not replies or verdict(replies[-1])[1] != f"{kind}{number}":
                reply = sender.reply(10)
                assert reply is not None, raw
                replies.append(reply)
            assert verdict(replies[-1])[0] == "AA"
            for reply in replies[:-1]:
                if b"BHS" not in reply[:8] and b"FHS" not in reply[:8]:
                    check_answer(reply)
            enhanced = len(raw.split(b"\r")[0].split(raw[3:4] or b"|")) > 14
            assert len(replies) > 1 or enhanced, raw


def damaged(raw: bytes, kind: str, rng: random.Random) -> bytes:
    """Damage a message; the result does not contain the end of a frame."""
    lines = raw.replace(b"\n", b"\r").split(b"\r")
    match kind:
        case "cut":
            raw = raw[: rng.randrange(1, len(raw))]
        case "noise":
            spot = rng.randrange(len(raw))
            raw = raw[:spot] + rng.randbytes(rng.randrange(1, 40)) + raw[spot:]
        case "segments":
            rng.shuffle(lines[1:])
            kept = [line for line in lines[1:] if rng.random() > 0.3]
            raw = b"\r".join([lines[0], *kept, *rng.choices(lines, k=3)])
        case "delimiters":
            for _ in range(10):
                spot = rng.randrange(len(raw))
                raw = raw[:spot] + bytes([rng.choice(b'|^~\\&\r\n"')]) + raw[spot + 1 :]
        case _:
            for _ in range(20):
                spot = rng.randrange(len(raw))
                raw = raw[:spot] + bytes([rng.randrange(256)]) + raw[spot + 1 :]
    return raw.replace(FS_CR, b"\r").replace(VT, b" ") or b"x"


def test_no_exception_is_logged(running: House) -> None:
    """The service has logged no exception for these messages."""
    running.settle()

    assert "not accepted" not in running.log()
    failures = [line for line in running.log().splitlines() if "not applied" in line]
    assert all(
        "listener=stored" in line for line in failures
    )  # this listener stores invalid messages
