"""What the probes find out becomes settings of the destination or listener that exist and fit."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import pytest
import trustme

from bridge.admin.examination.proposal import new_destination, new_listener, propose
from bridge.admin.examination.report import document_of
from bridge.admin.examination.results import Examination, ProbeResult, Verdict
from bridge.admin.examination.sender import SenderOptions
from bridge.admin.specification.document import as_text
from config.listeners import ListenerSettings
from config.sections import DestinationSettings
from mllp.framing import frame
from tests.bridge.admin.examination.partners import (
    Serve,
    ack,
    connected,
    messages,
    receiver,
    replying,
)
from tests.bridge.admin.examination.test_receivers import examine
from tests.bridge.admin.examination.test_senders import Send, Sender, examined


def destination(**settings: Any) -> DestinationSettings:
    return DestinationSettings.model_validate(
        {"name": "his", "address": "his.test:2575", **settings}
    )


def listener(**settings: Any) -> ListenerSettings:
    return ListenerSettings.model_validate({"name": "ris", "bind": "127.0.0.1:2575", **settings})


def changed(
    section: DestinationSettings | ListenerSettings, found: Examination
) -> Mapping[str, str]:
    """Return the proposed changes as in bridge.toml; the proposed table is valid."""
    proposal = propose(section, found.results)
    accepted = type(section).model_validate(proposal.table)
    assert propose(accepted, found.results).changes == []
    assert all(change.why for change in proposal.changes)
    return {change.setting: change.after for change in proposal.changes}


def without_end(message: bytes) -> bytes:
    return ack(message)[:-2]


def without_start(message: bytes) -> bytes:
    return ack(message)[1:-2]


def of_version(*accepted: bytes) -> Serve:
    """Return a receiver that refuses messages of other versions (MSH-12)."""

    def reply(message: bytes) -> bytes:
        version = message.split(b"\r")[0].split(b"|")[11]
        return ack(message, "AA" if version in accepted else "AR")

    return replying(reply)


def small(limit: int) -> Serve:
    """Return a receiver that refuses larger messages."""
    return replying(lambda message: ack(message, "AE" if len(message) > limit else "AA"))


async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A receiver that replies after 0.7 s."""
    async for message in messages(reader):
        await asyncio.sleep(0.7)
        writer.write(ack(message))


@pytest.mark.parametrize(
    ("serve", "probes", "expected"),
    [
        (replying(lambda m: ack(m, named=b"X")), ["matching"],
         {"replies": '{mismatch = "delivered"}'}),
        (replying(without_end), ["message"], {"replies": '{"garbage unframed" = "delivered"}'}),
        (replying(without_start), ["message"], {"replies": '{"garbage unframed" = "delivered"}'}),
        (replying(lambda m: ack(m, "OK")), ["message"], {"replies": '{garbage = "delivered"}'}),
        (of_version(b"2.3", b"2.3.1"), ["versions"], {"version": '"2.3.1"'}),
        (of_version(), ["versions"], {}),
        (small(100_000), ["size"], {"content": '["text"]'}),
        (small(2_000_000), ["size"], {}),
        (replying(ack), ["connect", "message", "matching", "framing", "tls", "versions", "time"],
         {}),
        # Results are UTF-8 in any case: no setting fits a receiver of ASCII.
        (replying(lambda m: ack(m, "AA" if m.isascii() else "AE")), ["utf-8", "latin-1"], {}),
    ],
    ids=["other MSA-2", "no FS CR", "no VT", "no code", "old versions", "no version", "small",
         "large", "usual", "ASCII only"],
)  # fmt: skip
async def test_an_odd_receiver(
    serve: Serve, probes: list[str], expected: Mapping[str, str]
) -> None:
    """Each oddity that a setting can bear is proposed, and nothing else."""
    async with receiver(serve) as port:
        found = await examine(port, *probes)
    assert changed(destination(), found) == expected


async def test_a_slow_receiver() -> None:
    """The examination waits for the first reply; three times the longest is the time-out."""
    async with receiver(late) as port:
        found = await examine(port, "message", "time", patience=60.0)
    assert Verdict.FAULT not in {result.verdict for result in found.results}
    proposed = changed(destination(ack_timeout="2s"), found)
    assert int(proposed["ack_timeout"].strip('"s')) >= 3
    assert changed(destination(ack_timeout="300s"), found) == {}


async def test_a_receiver_with_tls() -> None:
    """A handshake finds TLS on a port that is examined without it; the other probes use it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(server)
    async with receiver(replying(ack), server) as port:
        found = await examine(port, "connect", "tls", "message", ack_timeout=5.0)
    assert [result.verdict for result in found.results] == [
        *(Verdict.OK, Verdict.FAULT, Verdict.OK)
    ]
    assert changed(destination(), found) == {"tls": "{}"}
    assert "`ca`" in found.results[1].advice
    assert changed(destination(tls={"ca": "his.pem"}), found) == {}


def result(**settings: Any) -> Examination:
    probe = ProbeResult("x", "x", Verdict.FAULT, "x", advice="a reason", settings=settings)
    return Examination("his:1", "receiver", 0, 0, 1, (probe,))


@pytest.mark.parametrize(
    ("before", "found", "expected"),
    [
        ({"replies": {"AE": "park"}}, {"replies": {"AE": "delivered", "AR": "delivered"}},
         {"replies": '{AE = "park", AR = "delivered"}'}),
        ({"ack_timeout": "60s"}, {"ack_timeout": "45s"}, {}),
        ({"version": "2.3"}, {"version": "2.4"}, {}),
        ({"version": "2.5.1"}, {"version": "2.4"}, {"version": '"2.4"'}),
    ],
)  # fmt: skip
def test_what_fits_already_stays(
    before: dict[str, Any], found: dict[str, Any], expected: Mapping[str, str]
) -> None:
    assert changed(destination(**before), result(**found)) == expected


def test_the_report_has_the_settings() -> None:
    """The partner reads what Report Bridge does, and why."""
    found = result(ack_timeout="90s")
    changes = propose(new_destination("his.test:2575", has_tls=False), found.results).changes
    text = as_text(document_of(found, changes))
    assert 'ack_timeout = "90s"' in text
    assert "a reason" in text


def sending(*payloads: bytes) -> Send:
    """Return a sender of these messages, one after another on one connection."""

    async def send(port: int) -> None:
        async with connected(port) as (reader, writer):
            for payload in payloads:
                writer.write(frame(payload))
                await reader.readuntil(b"\x1c\r")
            await asyncio.Event().wait()

    return send


def order(number: int, *, name: str = "Doe", msh11: str = "P", charset: str = "utf-8") -> bytes:
    head = f"MSH|^~\\&|RIS|N|B|S|20260302||ORM^O01|N{number}|{msh11}|2.3"
    return f"{head}\rPID|1||M1||{name}^Jane\rORC|NW|P1\r".encode(charset)


# The first answer is one acknowledgment, the second one in pieces: each sender sends two messages.
QUICK = SenderOptions(wait=20.0, delays=(), watch=0.5, limit=20.0)


@pytest.mark.parametrize(
    ("orders", "expected"),
    [
        ([order(1), order(2)], {}),
        ([order(1, name="Dünn", charset="latin-1"), order(2)], {"charset": '"iso-8859-1"'}),
        ([order(1, name="Œrsted", charset="cp1252"), order(2)], {"charset": '"windows-1252"'}),
        ([order(1, name="Dünn"), order(2)], {}),
        ([order(1, name="Dünn"), order(2, name="Dünn", charset="latin-1")], {}),
        ([order(1, msh11=""), order(2, msh11="A")], {"processing_ids": '["P", "", "A"]'}),
        ([order(1, msh11="T"), order(2, msh11="D")], {}),
    ],
    ids=["usual", "Latin-1", "Windows", "UTF-8", "several sets", "MSH-11", "tests"],
)
async def test_an_odd_sender(orders: list[bytes], expected: Mapping[str, str]) -> None:
    found = await examined(sending(*orders), QUICK)
    assert changed(listener(), found) == expected


async def test_a_sender_with_old_control_ids() -> None:
    """A listener that refuses them would refuse new orders."""
    found = await examined(sending(order(1), order(1, name="Roe")), QUICK)
    assert changed(listener(), found) == {}
    refusing = listener(reused_control_id="refuse")
    assert changed(refusing, found) == {"reused_control_id": '"accept"'}


async def test_an_impatient_sender() -> None:
    """It repeats a message before the report engine has its order."""
    late = SenderOptions(wait=20.0, delays=(5.0,), watch=5.0, limit=60.0)
    found = await examined(Sender(patience=0.2).run, late)
    assert changed(listener(acknowledge="applied"), found) == {"acknowledge": '"checked"'}
    assert changed(listener(acknowledge="stored"), found) == {}


async def test_a_sender_with_tls() -> None:
    """A handshake is named; a certificate cannot be proposed."""

    async def send(port: int) -> None:
        with pytest.raises(OSError):  # noqa: PT011  # the connection ends
            await asyncio.open_connection(
                "127.0.0.1", port, ssl=ssl.create_default_context(), ssl_handshake_timeout=5
            )

    found = await examined(send, SenderOptions(wait=1.0, delays=(), watch=0.5, limit=5.0))
    assert "TLS handshake" in found.results[-1].words
    assert changed(new_listener(2579), found) == {}
