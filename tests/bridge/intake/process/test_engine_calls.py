"""What a message was sent to the report engine for, and what the engine answered, is stored."""

from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.intake.process.engine_calls import MAX_CALLS
from bridge.queue import queries
from bridge.queue.notes import EngineCall, MessageNotes, read_notes
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.process.test_order_processor import UID, group, message


def stored(hospital: Hospital, message_id: int = 0) -> MessageNotes:
    """Return the notes of a message, or of the last one."""
    newest = hospital.rows("SELECT max(id) FROM message")[0][0]
    return queries.message(hospital.database, message_id or newest).notes


def made(hospital: Hospital) -> list[tuple[str, str, int, str]]:
    """Return the calls of the last message, without their times."""
    return [call[:4] for call in stored(hospital).calls]


async def test_each_order_of_a_message_has_its_launch(hospital: Hospital) -> None:
    """The launches of a message are stored with the places of their orders, and how they ended."""
    await hospital.send(message(group("A1"), group("A2")))
    assert made(hospital) == [("launch", "ORC[1]", 200, ""), ("launch", "ORC[2]", 200, "")]
    assert all(call.took >= 0 for call in stored(hospital).calls)


async def test_calls_of_messages_that_share_a_batch_are_apart(hospital: Hospital) -> None:
    """Launches of several messages share a request, but each message has only its own."""
    payloads = [message(group(f"B{number}"), mrn=f"M{number}") for number in range(3)]
    payloads.append(message(group("B9", description="x"), mrn="M0", name="SOMEBODY^ELSE"))
    for payload in payloads:
        await hospital.hand_over(payload)
    await hospital.applied()
    ids = [row[0] for row in hospital.rows("SELECT id FROM message ORDER BY id")]
    calls = [[call[:4] for call in stored(hospital, number).calls] for number in ids]
    assert calls[:3] == [[("launch", "ORC[1]", 200, "")]] * 3
    assert calls[3][0] == ("launch", "ORC[1]", 409, "patient_name_mismatch")


async def test_a_cancellation_has_the_calls_that_withdraw_the_report(hospital: Hospital) -> None:
    """The status query and the deletion are stored, besides the code of what happened."""
    await hospital.send(message(group("A1")))
    await hospital.send(message(group("A1", "CA", "CA")))
    assert [call for call, *_ in made(hospital)] == ["status", "delete"]
    assert "withdrawn" in stored(hospital).codes


async def test_linking_is_stored(hospital: Hospital) -> None:
    """A later order with the same study joins the first: with a launch, a query and a link."""
    await hospital.send(message(group("A1", uid=UID)))
    await hospital.send(message(group("A2", uid=UID)))
    assert [call for call, *_ in made(hospital)] == ["launch", "status", "link-orders"]
    assert stored(hospital).codes == ("linked",)


async def test_a_message_that_fails_keeps_its_calls(hospital: Hospital) -> None:
    """A parked message has the call that the engine refused, with status and code."""
    refusal = EngineFailure("/x", FailureKind.PERMANENT, "no_such_site", 400)

    async def refuse(_launch: object) -> object:
        raise refusal

    hospital.client.launch = refuse  # type: ignore[method-assign,assignment]
    await hospital.send(message(group("A1")))
    assert hospital.rows("SELECT state, code FROM message") == [("parked", "no_such_site")]
    assert made(hospital) == [("launch", "ORC[1]", 400, "no_such_site")]


async def test_an_engine_that_does_not_answer_has_status_0(hospital: Hospital) -> None:
    """A call without a response is stored with status 0 and the code of the failure."""

    async def silent(_launch: object) -> object:
        raise EngineFailure("/x", FailureKind.PERMANENT, "bad_address")

    hospital.client.launch = silent  # type: ignore[method-assign,assignment]
    await hospital.send(message(group("A1")))
    assert made(hospital) == [("launch", "ORC[1]", 0, "bad_address")]


async def test_a_long_message_has_a_limited_number_of_calls(hospital: Hospital) -> None:
    """What is stored with a message is limited, however many orders it has."""
    await hospital.send(message(*(group(f"A{number}") for number in range(MAX_CALLS + 20))))
    assert len(stored(hospital).calls) == MAX_CALLS


def test_notes_of_earlier_releases_are_codes() -> None:
    """Earlier releases stored a list of codes, or nothing."""
    assert read_notes('["linked"]') == MessageNotes(("linked",))
    assert read_notes("") == read_notes(None) == MessageNotes()
    call = EngineCall("launch", "ORC[1]", 200, "", 4)
    notes = MessageNotes(("linked",), (call,))
    assert read_notes(notes.to_text()) == notes
