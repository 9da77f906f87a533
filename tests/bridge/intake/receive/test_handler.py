"""The frame handler stores a row before each acknowledgment."""

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from bridge.intake.receive import acknowledgments
from bridge.intake.receive.acknowledgments import (
    CONDITIONS,
    MATRIX,
    ControlIds,
    RequiredCodes,
    deferred_application_code,
    required_codes,
)
from bridge.intake.receive.handler import MAX_ABANDONED_FRAMES, AbandonedFrameLimit
from bridge.queue.digests import digest, stored_digest
from bridge.queue.states import QueueState
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from config.listeners import Acknowledge, ReusedControlId
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.batch import MAX_MESSAGES
from mappings.hl7.header import peek
from mappings.hl7.message import find_nul
from mappings.hl7.refusals import AckCode
from mllp.errors import (
    FrameMemoryExhausted,
    FrameTimedOut,
    FrameTooLarge,
    FramingError,
    TruncatedFrame,
)
from tests.bridge.intake.fixture import FixedCompletion, FullMessageLog, open_intake, order
from tests.bridge.intake.messages import adt
from tests.eventually import eventually_async

BIG = order().replace(b"CT Head", b"CT " + b"x" * 200_000)
LATIN = order().replace(b"TILDA", b"J\xfcRGEN")
BATCH = (
    b"FHS|^~\\&|RIS\rBHS|^~\\&|RIS\r"
    + order("B1", "A1")
    + order("B2", "A2", "M2")
    + b"BTS|2\rFTS|1\r"
)
NO_PATIENT = order().replace(b"|M1|", b"||")
QUERY = order().replace(b"ORM^O01", b"QRY^A19")
LAB = order().replace(b"ORM^O01", b"ORM^O99")
TEST_MESSAGE = order().replace(b"|P|2.3.1", b"|T|2.3.1")

PROBES = {
    "one order": (order(), "AA", b"ID1", (), ""),
    "empty MSH-10": (order(""), "AE", b"", ("101",), "MSH-10"),
    "not HL7": (b"GET / HTTP/1.1\r\n\r\n", "AR", b"", ("100",), "MSH"),
    "nothing": (b"", "AR", b"", ("100",), "MSH"),
    "0xFC without MSH-18": (LATIN, "AA", b"ID1", (), ""),
    "200 kB": (BIG, "AA", b"ID1", (), ""),
    "UTF-8 byte order mark": (b"\xef\xbb\xbf" + order(), "AA", b"ID1", (), ""),
    "no patient": (NO_PATIENT, "AE", b"ID1", ("101",), "PID-3.1"),
    "unknown type": (QUERY, "AR", b"ID1", ("200",), "MSH-9.1"),
    "unknown event": (LAB, "AR", b"ID1", ("201",), "MSH-9.2"),
    "a test message": (TEST_MESSAGE, "AR", b"ID1", ("202",), "MSH-11"),
    "two messages without a batch": (order() + order("ID2"), "AR", b"ID1", ("100",), "MSH[2]"),
}


@pytest.mark.parametrize(
    ("payload", "code", "control_id", "errors", "place"), PROBES.values(), ids=PROBES
)
async def test_probes(
    database: Database,
    payload: bytes,
    code: str,
    control_id: bytes,
    errors: tuple[str, ...],
    place: str,
) -> None:
    """Each frame gets one reply with its control id, after it is stored with its place."""
    async with open_intake(database) as intake:
        ack = await intake.ask(payload)
        assert (ack.code, ack.control_id, ack.error_codes) == (code, control_id, errors)
        state = "queued" if code == "AA" else "refused"
        assert intake.rows("state, ack_code, error_place") == [(state, code, place)]


async def test_a_truncated_frame_is_never_accepted(database: Database) -> None:
    """A frame that lost bytes is refused, even if it looks like an order."""
    async with open_intake(database) as intake:
        ack = await intake.ask(order(), truncated=True)
        assert (ack.code, ack.control_id) == (AckCode.REJECT, b"ID1")
        assert intake.rows("state") == [("refused",)]


async def test_a_batch_is_answered_in_one_batch(database: Database) -> None:
    """Each message of FHS/BHS has its own acknowledgment, all in one frame."""
    async with open_intake(database) as intake:
        (reply,) = await intake.send(BATCH)
        lines = reply.split(b"\r")
        assert [line[:3] for line in lines if line] == [
            *(b"FHS", b"BHS", b"MSH", b"MSA", b"MSH", b"MSA", b"BTS", b"FTS")
        ]
        assert [line for line in lines if line.startswith(b"MSA")] == [b"MSA|AA|B1", b"MSA|AA|B2"]
        assert intake.rows("state") == [("queued",), ("queued",)]


async def test_a_refused_message_in_a_batch(database: Database) -> None:
    """A refused message leaves the others of its batch accepted."""
    async with open_intake(database) as intake:
        (reply,) = await intake.send(BATCH.replace(b"||M2||", b"||||"))
        assert b"MSA|AA|B1" in reply
        assert b"MSA|AE|B2" in reply


@pytest.mark.parametrize(
    ("trailer", "other", "place"), [(b"BTS|2", b"BTS|3", "BTS-1"), (b"FTS|1", b"FTS|7", "FTS-1")]
)
async def test_a_batch_with_a_wrong_count(
    database: Database, trailer: bytes, other: bytes, place: str
) -> None:
    """A wrong count refuses the whole batch with the reason. The corrected batch is accepted."""
    async with open_intake(database) as intake:
        (reply,) = await intake.send(BATCH.replace(trailer, other))
        assert reply.count(b"MSA|AE|B") == 2
        assert intake.rows("state, error_place") == [("refused", place)] * 2
        await intake.send(BATCH)
        assert intake.rows("state, ack_code")[2:] == [("queued", "AA")] * 2


async def test_a_batch_with_a_garbled_header_is_refused(database: Database) -> None:
    """A damaged message in a batch is detected also without a count."""
    garbled = BATCH.replace(b"MSH", b"MXH", 1).replace(b"BTS|2", b"BTS")
    async with open_intake(database) as intake:
        (reply,) = await intake.send(garbled)
        assert b"MSA|AR|B2|the batch has lines that belong to no message: BHS" in reply
        assert intake.rows("state, error_place") == [("refused", "BHS")]
        (alone,) = await intake.send(garbled.replace(b"MSH", b"MXH"))
        assert b"MSA|AR|" in alone


@pytest.mark.parametrize("acknowledge", [Acknowledge.CHECKED, Acknowledge.STORED])
async def test_a_batch_with_too_many_messages(database: Database, acknowledge: Acknowledge) -> None:
    """It is refused as one message; 500,000 tiny ones would take a thread for many seconds."""
    tiny = b"MSH|^~\\&|R|||||||X\r"
    async with open_intake(database, acknowledge=acknowledge) as intake:
        (reply,) = await intake.send(b"BHS|^~\\&|R\r" + tiny * (MAX_MESSAGES + 1) + b"BTS|10001\r")
        assert b"MSA|AR||the batch has more than 10,000 messages: BHS" in reply
        assert intake.rows("state, error_place") == [("refused", "BHS")]


async def test_a_batch_with_the_most_messages(database: Database) -> None:
    """10,000 messages are accepted, also if each is a file of its own: no limit is off by one."""
    few = [order(f"C{n}", f"A{n}") for n in range(2)]
    refused = [b"MSH|^~\\&|R|||||||X\r"] * (MAX_MESSAGES - len(few))
    whole = b"BHS|^~\\&|R\r%bBTS|10000\r" % b"".join(few + refused)
    files = [b"FHS|^~\\&|R\rBHS|^~\\&|R\r%bBTS|1\rFTS|1\r" % message for message in few + refused]
    async with open_intake(database) as intake:
        for payload, count in ((whole, 1), (b"".join(files), 2)):
            (reply,) = await intake.send(payload)
            assert reply.count(b"MSA|AA|C") == len(few)
            assert reply.count(b"MSA|") == MAX_MESSAGES, count


async def test_an_empty_batch_with_a_count(database: Database) -> None:
    async with open_intake(database) as intake:
        (reply,) = await intake.send(b"BHS|^~\\&|A|B\rBTS|2\r")
        assert b"MSA|AR|" in reply


async def test_stored_takes_a_batch_as_it_is(database: Database) -> None:
    """With `stored`, a batch with a wrong count is stored."""
    async with open_intake(database, acknowledge=Acknowledge.STORED) as intake:
        (reply,) = await intake.send(BATCH.replace(b"BTS|2", b"BTS|3"))
        assert reply.count(b"MSA|AA|B") == 2


ENHANCED = {
    ("AL", "AL"): (["CA", "AA"], ["CR"]),
    ("AL", "NE"): (["CA"], ["CR"]),
    ("AL", ""): (["CA"], ["CR"]),
    ("AL", "ER"): (["CA"], ["CR"]),
    ("AL", "SU"): (["CA", "AA"], ["CR"]),
    ("NE", "AL"): (["AA"], ["AR"]),
    ("NE", "NE"): ([], []),
    ("", "AL"): (["AA"], ["AR"]),
    ("ER", "AL"): (["AA"], ["CR"]),
    ("ER", "ER"): ([], ["CR"]),
    ("SU", "AL"): (["CA", "AA"], ["AR"]),
    ("SU", "ER"): (["CA"], ["AR"]),
    ("", ""): (["AA"], ["AR"]),
    ("XX", "NE"): (["CA"], ["CR"]),
}


@pytest.mark.parametrize(
    ("accept", "application", "good", "bad"),
    [(*modes, *codes) for modes, codes in ENHANCED.items()],
)
async def test_enhanced_mode(
    database: Database, accept: str, application: str, good: list[str], bad: list[str]
) -> None:
    """MSH-15 and MSH-16 decide which acknowledgments are sent (HL7 v2.5.1 §2.9.3)."""
    async with open_intake(database) as intake:
        payload = order(accept=accept, application=application)
        replies = await intake.send(payload)
        assert [read_ack(reply).code for reply in replies] == good
        assert len({reply.split(b"|")[9] for reply in replies}) == len(replies)
        again = await intake.send(payload)
        assert again == replies
        refused = await intake.send(payload.replace(b"|P|", b"|T|").replace(b"ID1", b"ID2"))
        assert [read_ack(message).code for message in refused] == bad
        assert len(intake.rows()) == 2


async def test_a_retransmit_gets_the_stored_acknowledgment(database: Database) -> None:
    """The same bytes get the stored reply, are counted, and not stored."""
    async with open_intake(database) as intake:
        first = await intake.send(order())
        assert await intake.send(order()) == first
        assert len(intake.rows()) == 1
        assert b'bridge_retransmits_total{listener="ris"} 1.0' in intake.metrics.render()


async def test_a_reused_control_id_is_a_new_message(database: Database) -> None:
    """Other bytes with a used MSH-10 are stored with a flag, because senders restart counters."""
    async with open_intake(database) as intake:
        await intake.send(order("ID1", "A1"))
        ack = await intake.ask(order("ID1", "A2"))
        assert ack.code is AckCode.ACCEPT
        assert intake.rows("flags") == [(0,), (2,)]


async def test_a_reused_control_id_can_be_refused(database: Database) -> None:
    """With `refuse`, other bytes with a used MSH-10 get AE 205."""
    async with open_intake(database, reuse=ReusedControlId.REFUSE) as intake:
        await intake.send(order("ID1", "A1"))
        ack = await intake.ask(order("ID1", "A2"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("205",))


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (QueueState.DONE, "AA"),
        (QueueState.IGNORED, "AA"),
        (QueueState.QUEUED, "AE"),
        (QueueState.CLAIMED, "AE"),
        (QueueState.PARKED, "AE"),
    ],
)
async def test_applied_answers_by_the_outcome(
    database: Database, state: QueueState, code: str
) -> None:
    """`acknowledge = "applied"`: AA after the report engine has the order, also in a batch."""
    async with open_intake(
        database, completion=FixedCompletion(state), acknowledge=Acknowledge.APPLIED
    ) as intake:
        assert (await intake.ask(order())).code == code
        (batch,) = await intake.send(BATCH)
        assert batch.startswith(b"FHS")
        assert batch.count(b"MSA|" + code.encode()) == batch.count(b"MSA|") == 2


async def test_applied_in_enhanced_mode(database: Database) -> None:
    """The commit acknowledgment is sent at once, the application acknowledgment later."""
    async with open_intake(
        database, completion=FixedCompletion(), acknowledge=Acknowledge.APPLIED
    ) as intake:
        replies = await intake.send(order(accept="AL", application="AL"))
        assert [read_ack(reply).code for reply in replies] == ["CA"]
        await eventually_async(lambda: bool(intake.caller.later))
        assert [read_ack(item).code for item in intake.caller.later] == ["AA"]


ONE_RESPONSE = {
    ("AL", "AL", QueueState.DONE): ["CA", "AA"],
    ("AL", "AL", QueueState.PARKED): ["CA", "AE"],
    ("AL", "ER", QueueState.DONE): ["CA"],
    ("AL", "ER", QueueState.PARKED): ["CA", "AE"],
    ("AL", "SU", QueueState.PARKED): ["CA"],
    ("AL", "NE", QueueState.PARKED): ["CA"],
    ("NE", "ER", QueueState.DONE): [],
    ("NE", "ER", QueueState.PARKED): ["AE"],
}


@pytest.mark.parametrize(
    ("accept", "application", "state", "codes"),
    [(*modes, codes) for modes, codes in ONE_RESPONSE.items()],
)
async def test_applied_for_a_peer_with_one_response(
    database: Database, accept: str, application: str, state: QueueState, codes: list[str]
) -> None:
    """Over HTTP and for a file, the response waits for the application acknowledgment."""
    async with open_intake(
        database, completion=FixedCompletion(state), acknowledge=Acknowledge.APPLIED
    ) as intake:
        intake.caller.accepts_later_frames = False
        payload = order(accept=accept, application=application)
        assert [read_ack(reply).code for reply in await intake.send(payload)] == codes
        batch = await intake.send(b"BHS|^~\\&|RIS\r" + payload + b"BTS|1\r")
        assert [item.count(b"MSA|" + codes[-1].encode()) for item in batch] == [1] * bool(codes)
        assert intake.caller.later == []


class UnreadableState(FixedCompletion):
    @override
    def wait(self, message_id: int, limit: float) -> asyncio.Future[QueueState]:
        future: asyncio.Future[QueueState] = asyncio.get_running_loop().create_future()
        future.set_exception(StoreUnavailable("08006"))
        return future


async def test_an_unknown_outcome_after_the_commit(database: Database) -> None:
    """The message is stored: what follows its commit acknowledgment is AE, not CE or a NAK."""
    changes: dict[str, Any] = {"acknowledge": Acknowledge.APPLIED, "commit_blocks": True}
    async with open_intake(database, completion=UnreadableState(), **changes) as intake:
        block, commit = await intake.send(order(accept="AL", application="AL"))
        assert (block, read_ack(commit).code) == (b"\x06", "CA")
        await eventually_async(lambda: bool(intake.caller.later))
        assert [read_ack(item).code for item in intake.caller.later] == ["AE"]


async def answers_on_full_disk(database: Database, payload: bytes) -> list[bytes]:
    async with open_intake(database) as intake:
        intake.handler._inbox = FullMessageLog()
        return await intake.send(payload)


async def test_a_full_disk_is_never_acknowledged(database: Database) -> None:
    """The bridge answers AE 207 when the disk is full, in enhanced mode CE 207."""
    for payload, code, error in (
        (order(), AckCode.ERROR, "207"),
        (order(accept="AL", application="AL"), AckCode.COMMIT_ERROR, "207"),
        (TEST_MESSAGE, AckCode.REJECT, "202"),
    ):
        (reply,) = await answers_on_full_disk(database, payload)
        ack = read_ack(reply)
        assert (ack.code, ack.error_codes) == (code, (error,))
    (batch,) = await answers_on_full_disk(database, BATCH)
    assert b"MSA|AE|B1" in batch
    assert b"MSA|AE|B2" in batch


async def test_abandoned_frames_get_a_reply(database: Database) -> None:
    """A frame too large or unfinished gets a NAK with its control id before the close."""
    async with open_intake(database) as intake:
        for error in (FrameTooLarge(100), TruncatedFrame(7)):
            ack = read_ack(intake.handler.unframed(error, order()[:300]))
            assert (ack.code, ack.control_id) == (AckCode.REJECT, b"ID1")


async def test_a_retransmit_after_ae_207(database: Database) -> None:
    """After AE 207 the same bytes are evaluated again."""
    async with open_intake(database) as intake:
        router, intake.handler._evaluator._router = intake.handler._evaluator._router, None  # type: ignore[assignment]
        assert (await intake.ask(order())).error_codes == ("207",)
        intake.handler._evaluator._router = router
        assert (await intake.ask(order())).code is AckCode.ACCEPT


async def test_an_acknowledgment_gets_no_reply(database: Database) -> None:
    """An acknowledgment gets no reply, unless MSH-15 requests it."""
    ack = b"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121||ACK^O01|%b|P|2.3.1%b\rMSA|AA|%b\r"
    ours = ControlIds()().encode()
    async with open_intake(database) as intake:
        assert await intake.send(ack % (b"A1", b"", ours)) == []
        assert intake.rows("state, error_code") == [("refused", "200")]
        (reply,) = await intake.send(ack % (b"A2", b"|||AL|NE", ours))
        assert read_ack(reply).code == "CR"
        (reply,) = await intake.send(ack % (b"A3", b"", b"C17"))
        assert read_ack(reply).code == "AR"


async def test_processing_ids(database: Database) -> None:
    """By default only P is accepted. Test messages need the setting."""

    def tests(sequence: int) -> list[bytes]:
        cases = [(f"{name}{sequence}", name.encode()) for name in ("T", "D", "")]
        return [order(number).replace(b"|P|", b"|%b|" % name) for number, name in cases]

    async with open_intake(database) as intake:
        refused = [await intake.ask(test) for test in tests(1)]
        assert [(message.code, message.error_codes[0]) for message in refused] == [
            ("AR", "202")
        ] * 3
        assert (await intake.ask(order("P1"))).code == "AA"
    async with open_intake(database, processing_ids=frozenset({"P", "T"})) as intake:
        codes = [(await intake.ask(message)).code for message in tests(2)]
        assert codes == ["AA", "AR", "AR"]


async def test_a_batch_without_replies(database: Database) -> None:
    """MSH-15 and MSH-16 NE apply in a batch too: the bridge sends no empty batch."""
    quiet = [order(f"N{n}", accept="NE", application="NE") for n in (1, 2)]
    async with open_intake(database) as intake:
        assert await intake.send(b"BHS|^~\\&|RIS\r" + b"".join(quiet) + b"BTS|2\r") == []
        assert [state for state, *_ in intake.rows()] == ["queued"] * 2


STORED, NOT_KEPT = b"\x06", b"\x15"


@pytest.mark.parametrize(
    ("payload", "code"),
    [(order(), AckCode.ACCEPT), (order().replace(b"|M1|", b"||"), AckCode.ERROR)],
    ids=["taken", "refused"],
)
async def test_stored(database: Database, payload: bytes, code: AckCode) -> None:
    """A stored message gets its commit block, then its acknowledgment, also if refused."""
    async with open_intake(database, commit_blocks=True) as intake:
        block, ack = await intake.send(payload)
        assert block == STORED
        assert read_ack(ack).code is code


async def test_not_stored(database: Database) -> None:
    """A message that is not stored gets only the negative block, so it must be sent again."""
    async with open_intake(database, commit_blocks=True) as intake:
        intake.handler._inbox = FullMessageLog()
        assert await intake.send(order()) == [NOT_KEPT]
        assert await intake.send(b"BHS|^~\\&|R\r" + order() + b"BTS|1\r") == [NOT_KEPT]


async def test_the_block_does_not_wait_for_the_report_service(database: Database) -> None:
    """With `applied` the block is sent at once, the acknowledgment later."""
    changes: dict[str, Any] = {"commit_blocks": True, "acknowledge": Acknowledge.APPLIED}
    async with open_intake(database, **changes) as intake:
        assert await intake.send(b"BHS|^~\\&|R\r" + order("B1", "A2", "M2") + b"BTS|1\r") == [
            STORED
        ]
        await eventually_async(lambda: bool(intake.caller.later))
        assert intake.caller.later.pop().startswith(b"BHS")
        assert await intake.send(order()) == [STORED]
        await eventually_async(lambda: bool(intake.caller.later))
        assert read_ack(intake.caller.later[0]).code is AckCode.ACCEPT


PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "acknowledgments.md"
OUTCOMES = ("AA", "AE", "AR")
ASKS = {"AL": OUTCOMES, "NE": (), "": (), "ER": ("AE", "AR"), "SU": ("AA",)}
EVERY = list(product(CONDITIONS, CONDITIONS, OUTCOMES))


def _header(accept: str, application: str) -> bytes:
    return f"MSH|^~\\&|A|B|C|D|20261121||ORM^O01|1|P|2.5.1|||{accept}|{application}".encode()


def test_the_matrix_is_complete() -> None:
    """The file has one line for each pair of conditions and outcome."""
    assert sorted(MATRIX) == sorted(EVERY)


@pytest.mark.parametrize(("accept", "application", "outcome"), EVERY)
def test_every_line_follows_the_standard(accept: str, application: str, outcome: str) -> None:
    """Original mode has one application ACK. Enhanced mode has each as requested."""
    owes = required_codes(peek(_header(accept, application)), AckCode(outcome))
    if not accept and not application:
        assert owes == RequiredCodes(None, AckCode(outcome))
        return
    commit = outcome in ASKS[accept]
    is_refused = outcome != "AA" and commit  # a refused message does not reach the application
    wanted = outcome in ASKS[application] and not is_refused
    expected = RequiredCodes(
        AckCode("C" + outcome[1]) if commit else None, AckCode(outcome) if wanted else None
    )
    assert owes == expected


@pytest.mark.parametrize(("accept", "application", "outcome"), EVERY)
def test_the_later_reply_follows_msh_16(accept: str, application: str, outcome: str) -> None:
    """MSH-16 alone decides what follows a positive commit acknowledgment."""
    later = deferred_application_code(peek(_header(accept, application)), AckCode(outcome))
    requested = not (accept or application) or outcome in ASKS[application]
    assert later == (AckCode(outcome) if requested else None)


@pytest.mark.parametrize("odd", ["XX", "al", " AL ", "ALWAYS", "\u00e9"])
def test_a_value_outside_the_table_means_always(odd: str) -> None:
    """An unknown condition means AL."""
    header = peek(_header(odd, "NE"))
    assert required_codes(header, AckCode.ACCEPT) == RequiredCodes(AckCode.COMMIT_ACCEPT, None)


def test_a_null_is_the_original_mode() -> None:
    """`""` in both fields is the original mode: one reply, and not two."""
    header = peek(_header('""', '""'))
    assert not header.enhanced
    assert required_codes(header, AckCode.ACCEPT) == RequiredCodes(None, AckCode.ACCEPT)
    assert required_codes(peek(_header("AL", '""')), AckCode.ACCEPT) == RequiredCodes(
        AckCode.COMMIT_ACCEPT, None
    )


def test_the_page_shows_the_matrix() -> None:
    """`docs/reference/acknowledgments.md` equals the file."""
    page = PAGE.read_text("utf-8")
    for accept, application in product(CONDITIONS, CONDITIONS):
        cells = [MATRIX[accept, application, outcome].at_once.codes for outcome in OUTCOMES]
        shown = " | ".join(" then ".join(codes) or "nothing" for codes in cells)
        assert f"| {accept or 'empty'} | {application or 'empty'} | {shown} |\n" in page


def test_limit_of_an_hour() -> None:
    remnants = AbandonedFrameLimit(2, 10.0)
    assert [remnants.may_store(at) for at in (0.0, 4.0, 5.0, 9.9, 10.0, 11.0, 14.0)] == [
        *(True, True, False, False, True, False, True)
    ]


@pytest.mark.parametrize(
    ("error", "code"), [(FrameMemoryExhausted(7), b"AE"), (FrameTooLarge(7), b"AR")]
)
async def test_only_a_busy_service_asks_for_a_repetition(
    database: Database, error: FramingError, code: bytes
) -> None:
    """AE for a frame that may be sent again, AR for one that will never be accepted."""
    async with open_intake(database) as intake:
        assert b"MSA|" + code in intake.handler.unframed(error, order())


async def test_abandoned_frames_are_stored(database: Database) -> None:
    """Abandoned frames are listed once among the refused messages, up to the limit."""
    async with open_intake(database) as intake:
        intake.handler.unframed(FrameTimedOut(7, 1.0), order()[:300])
        intake.handler.unframed(TruncatedFrame(7), order("ID2")[:300])
        intake.handler.unframed(TruncatedFrame(7), order("ID2")[:300])
        for number in range(200):
            intake.handler.unframed(TruncatedFrame(7), b"%d" % number)
        assert (await intake.ask(order("ID2"))).code is AckCode.ACCEPT
        rows = intake.rows("state, message_type, acknowledgment, retransmits, flags")
        assert rows[:2] == [
            ("refused", "ORM^O01", "pending", 0, 0),
            ("refused", "ORM^O01", "not_owed", 1, 0),
        ]
        assert rows[-1][0] == "queued"
        assert len(rows) == MAX_ABANDONED_FRAMES


@pytest.mark.parametrize("truncated", [True, False])
async def test_an_abandoned_frame_uses_no_control_id(
    database: Database, *, truncated: bool
) -> None:
    """The complete message is not a reuse of its control id."""
    async with open_intake(database, reuse=ReusedControlId.REFUSE) as intake:
        assert (await intake.ask(NO_PATIENT, truncated=truncated)).code is not AckCode.ACCEPT
        assert (await intake.ask(order())).code is AckCode.ACCEPT
        assert intake.rows("flags")[-1] == (0,)


@pytest.mark.parametrize("acknowledge", [Acknowledge.CHECKED, Acknowledge.STORED])
async def test_it_is_refused(database: Database, acknowledge: Acknowledge) -> None:
    """The reply is AE 102 with the place, also after similar messages."""
    async with open_intake(database, acknowledge=acknowledge) as intake:
        for number in range(20):
            name = f"ID{number}"
            assert (await intake.ask(order(name, acc=f"A{number}"))).code is AckCode.ACCEPT
        ack = await intake.ask(order("ID90").replace(b"CT Head", b"CT\0Head"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("102",))
        assert intake.rows("error_place")[-1] == ("OBR-4.2",)
        ack = await intake.ask(adt("A08", "M1").replace(b"TILDA", b"TIL\0DA"))
        assert (ack.code, ack.error_codes) == (AckCode.ERROR, ("102",))
        assert intake.rows("error_place")[-1] == ("PID-5.2",)
        assert [state for (state,) in intake.rows("state")].count("refused") == 2


@pytest.mark.parametrize(
    "escape",
    [
        b"\\X00\\",
        b"\\X000d\\\\X0A\\",
        b"\\x4100\\",
        b"A\\X0041\\B",
        b"\\X0000\\",
        b"\\X\\",
        b"\\X0\\",
    ],
)
async def test_an_escape_is_never_refused(database: Database, escape: bytes) -> None:
    """It is read as UTF-16, or kept as it is (`tests/mappings/hl7/test_escapes.py`)."""
    async with open_intake(database) as intake:
        ack = await intake.ask(order("ID90").replace(b"CT Head", b"CT" + escape + b"Head"))
        assert ack.code is AckCode.ACCEPT


async def test_nulls_around_a_message(database: Database) -> None:
    """NULs before and after a message are ignored."""
    async with open_intake(database) as intake:
        assert (await intake.ask(b"\0" + order() + b"\0\0")).code is AckCode.ACCEPT


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (b"PID|1||M1||A^B\0\rPV1|1\r", "PID-5.2"),
        (b"PID|1||M1~M2^X^\0||A\r", "PID-3.3"),
        (b"OBX|1|TX|||a\rOBX|2|TX|||b\0c\r", "OBX[2]-5"),
        (b"OBX|1|TX|||a\rb\0c\r", "OBX-5"),
        (b"NTE|1||a\\X00E0\\\\X00\\\r", ""),
    ],
)
def test_its_place(lines: bytes, place: str) -> None:
    """The place has segment, field and component. Other escapes are not affected."""
    payload = b"MSH|^~\\&|RIS|MAIN|||20261121||ORM^O01|1|P|2.5.1\r" + lines
    assert find_nul(payload, peek(payload)) == place


def test_an_identity_never_changes() -> None:
    """Later releases compute the same identity and digest: they know retransmits and damage."""
    header = peek(b"MSH|^~\\&|RIS|NORTH|||20260101||ORM^O01|1|P|2.3\r")
    assert acknowledgments.message_identity("ris", header) == -6008900380756168105
    assert acknowledgments.payload_identity("ris", digest(b"MSH|")) == 978237913239183036
    assert stored_digest(digest(b"MSH|")) == -2346342023636188671


def test_ids_are_unique() -> None:
    """Ids are unique in one generator, in two, and after the counter restarts."""
    one, other = acknowledgments.ControlIds(), acknowledgments.ControlIds()
    ids = [give() for give in (one, other) for _ in range(1000)]
    one._count = iter([acknowledgments._MAX_COUNT + 1])  # type: ignore[assignment]  # near its end
    ids += [one() for _ in range(10)]
    assert len(set(ids)) == len(ids)


def test_form_of_ids() -> None:
    """Ids are letters and digits, at most 20 characters, the limit of MSH-10 before 2.7."""
    give = acknowledgments.ControlIds()
    assert all(len(item) == 20 and item.isalnum() and item.isascii() for item in (give(), give()))
