"""Deliveries that are claimed together are composed together, for any report service."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from sqlalchemy import event, text

from bridge.contract import OrderKey
from bridge.queue.deliveries import DeliveryRequest
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable
from mappings.hl7.message import Message
from tests.bridge.delivery.fixtures import SITE, accepting, destination
from tests.bridge.delivery.whole_bridge import Hospital, open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import PATIENCE, eventually_async

STATUS, EXPORT = "/api/report/status", "/api/report/export/json"
CLAIMED = "SELECT count(*) FROM delivery WHERE state = 'claimed'"
TAKEN_OVER = """
    UPDATE delivery SET state = 'done', owner = 'another'
    WHERE state = 'claimed' AND id = (SELECT max(id) FROM delivery)
"""
STATES = "SELECT state, count(*) FROM delivery GROUP BY state"


async def sign_all(hospital: Hospital, *accessions: str) -> None:
    """Order, write and sign reports; their results are queued."""
    for accession in accessions:
        await hospital.send(order(f"ID{accession}", accession))
        await hospital.read_and_sign(accession, f"Text of {accession}.")
    await hospital.follow()


def calls(hospital: Hospital) -> list[str]:
    paths: list[str] = []

    async def note(request: httpx.Request) -> None:
        paths.append(request.url.path)

    hospital.http.event_hooks["request"].append(note)
    return paths


def texts_match(hospital: Hospital, sent: list[bytes]) -> list[bool]:
    names = [Message.parse(message).named("OBR")[0].value("OBR-3.1") for message in sent]
    assert len(set(names)) == len(names)
    return [
        f"Text of {name}." in message.decode() and message.decode().count("Text of ") == 1
        for name, message in zip(names, sent, strict=True)
    ]


async def test_many_are_read_in_one_call(tmp_path: Path, database: Database) -> None:
    """Each message has the text of its own report, without an export call per report."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        hospital.couriers[0].pause()
        await sign_all(hospital, "A1", "A2", "A3")
        paths = calls(hospital)
        hospital.couriers[0].resume()
        assert texts_match(hospital, await hospital.delivered(3)) == [True] * 3
        assert [path for path in paths if path in {STATUS, EXPORT}] == [STATUS]


def as_another_service(response: httpx.Response) -> httpx.Response:
    """Respond as a service that ignores the request for texts."""
    records = [{k: v for k, v in row.items() if k != "text"} for row in response.json()]
    return httpx.Response(200, json=records)


def as_a_strict_service(_: httpx.Response) -> httpx.Response:
    return httpx.Response(400, json={"code": "bad_request", "status": 400})


@pytest.mark.parametrize("service", [as_another_service, as_a_strict_service])
async def test_other_services_get_one_call_per_report(
    tmp_path: Path,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    service: Callable[[httpx.Response], httpx.Response],
) -> None:
    """A service without texts for many reports is not called that way for the next batch."""
    send = httpx.ASGITransport.handle_async_request

    async def other(self: httpx.ASGITransport, request: httpx.Request) -> httpx.Response:
        response = await send(self, request)
        if request.url.path != STATUS:
            return response
        await response.aread()
        return service(response)

    monkeypatch.setattr(httpx.ASGITransport, "handle_async_request", other)
    async with open_hospital(tmp_path, database, destination()) as hospital:
        hospital.couriers[0].pause()
        await sign_all(hospital, "A1", "A2")
        paths = calls(hospital)
        hospital.couriers[0].resume()
        await hospital.delivered(2)
        await sign_all(hospital, "A3")
        assert texts_match(hospital, await hospital.delivered(3)) == [True] * 3
        assert sorted(path for path in paths if path in {STATUS, EXPORT}) == [EXPORT] * 3 + [STATUS]


async def test_an_unknown_report_keeps_the_common_call(tmp_path: Path, database: Database) -> None:
    unknown = {"orders": [OrderKey(SITE, "M9", "A9").tags()], "status": "Final", "addenda": 0}
    async with open_hospital(tmp_path, database, destination()) as hospital:
        with database.write() as connection:
            release = DeliveryRequest("ris", "R9", "K9", "final", 0, unknown)
            hospital.outbox.enqueue(connection, [release], 0)
        await eventually_async(lambda: hospital.rows(STATES) == [("parked", 1)])
        hospital.couriers[0].pause()
        await sign_all(hospital, "A1", "A2")
        paths = calls(hospital)
        hospital.couriers[0].resume()
        await hospital.delivered(2)
        assert [path for path in paths if path in {STATUS, EXPORT}] == [STATUS]


async def test_a_busy_service_is_asked_again_when_it_says(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result that cannot be read waits as long as `Retry-After` requires."""
    send = httpx.ASGITransport.handle_async_request

    async def busy(self: httpx.ASGITransport, request: httpx.Request) -> httpx.Response:
        if request.url.path not in {STATUS, EXPORT}:
            return await send(self, request)
        return httpx.Response(503, headers={"retry-after": "600"}, json={"code": "busy"})

    async with open_hospital(tmp_path, database, destination()) as hospital:
        hospital.couriers[0].pause()
        await sign_all(hospital, "A1")
        before = hospital.time()
        monkeypatch.setattr(httpx.ASGITransport, "handle_async_request", busy)
        hospital.couriers[0].resume()
        query = "SELECT not_before FROM delivery WHERE state = 'queued' AND attempts > 0"
        ((due,),) = await eventually_async(lambda: hospital.rows(query))
        assert due >= before + 600_000


async def test_the_message_that_was_stored_first_is_sent(
    tmp_path: Path, database: Database
) -> None:
    """A courier sends the message that another node has stored meanwhile, not its own."""
    stored = b"MSH|^~\\&|A|B|C|D|2026||ORU^R01|OTHER|P|2.5.1\r"
    async with open_hospital(tmp_path, database, destination()) as hospital:

        async def store(request: httpx.Request) -> None:
            if request.url.path == STATUS:
                ((delivery_id,),) = hospital.rows("SELECT id FROM delivery")
                hospital.outbox.store_payloads({delivery_id: (stored, "OTHER")})

        hospital.couriers[0].pause()
        await sign_all(hospital, "A1")
        hospital.http.event_hooks["request"].append(store)
        hospital.couriers[0].resume()
        assert await hospital.delivered(1) == [stored]


async def test_a_stop_requeues_the_prepared_batch(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A courier that stops does not wait for the report service; its claims are requeued."""
    monkeypatch.setattr("bridge.delivery.courier.BATCH_SIZE", 2)
    requests, hanging = 0, asyncio.Event()

    async def hang(request: httpx.Request) -> None:
        nonlocal requests
        if request.url.path == STATUS:
            requests += 1
            if requests > 1:
                hanging.set()
                await asyncio.Event().wait()

    async with open_hospital(tmp_path, database, destination()) as hospital:
        hospital.couriers[0].pause()
        await sign_all(hospital, "A1", "A2", "A3", "A4")
        hospital.http.event_hooks["request"].append(hang)
        hospital.couriers[0].resume()
        await hanging.wait()
        await hospital.delivered(2)
        await eventually_async(lambda: dict(hospital.rows(STATES)) == {"done": 2, "claimed": 2})
        await hospital.couriers[0].stop(drain=0.0)
        assert dict(hospital.rows(STATES)) == {"done": 2, "queued": 2}


async def test_a_frozen_courier_does_not_go_on_with_its_batch(
    tmp_path: Path, database: Database
) -> None:
    """A frozen courier whose leases ended does not send the rest of its batch."""
    passed = 0.0
    claimed_twice = False

    def freeze(payload: bytes) -> bytes:
        nonlocal passed, claimed_twice
        if not passed:
            passed = 1000.0
            with database.write() as connection:  # another node has sent the rest
                changed = connection.execute(text(TAKEN_OVER)).rowcount
            claimed_twice = changed == 1
        return accepting(payload)

    reply_with: dict[str, Callable[[bytes], bytes | None]] = {"ris": freeze}
    async with open_hospital(
        tmp_path,
        database,
        destination(),
        reply_with=reply_with,
        timer=lambda: time.monotonic() + passed,
    ) as hospital:
        courier = hospital.couriers[0]
        courier.pause()
        await sign_all(hospital, "A1", "A2")
        courier.resume()
        sent = await hospital.delivered(1)
        await eventually_async(lambda: hospital.rows(STATES) == [("done", 2)])
        assert claimed_twice
        assert len(sent) == 1


async def test_a_slow_extension_makes_no_lease_longer(tmp_path: Path, database: Database) -> None:
    """A lease is extended from the time before the statement, and not after its end."""
    passed, first = 0.0, [True]

    def slow(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        nonlocal passed
        if "UPDATE delivery" in statement:
            passed = 100.0

    reply_with: dict[str, Callable[[bytes], bytes | None]] = {
        "ris": lambda payload: None if first and first.pop() else accepting(payload)
    }
    async with open_hospital(
        tmp_path, database, destination(), reply_with=reply_with, timer=lambda: passed
    ) as hospital:
        courier, receiver = hospital.couriers[0], hospital.receivers["ris"]
        courier.pause()
        await sign_all(hospital, "A1", "A2")
        courier.resume()
        await hospital.delivered(1)
        event.listen(database.engine, "before_cursor_execute", slow)
        await courier.keep_leases()
        event.remove(database.engine, "before_cursor_execute", slow)
        assert passed
        passed = hospital.outbox.lease / 1000 + 1
        await courier.keep_leases()
        receiver.pending[0].callback(accepting(receiver.sent[0]))
        await eventually_async(lambda: hospital.rows(STATES) == [("done", 2)])
        assert hospital.rows("SELECT attempts FROM delivery ORDER BY id") == [(1,), (2,)]


async def test_nothing_is_claimed_without_heartbeat(tmp_path: Path, database: Database) -> None:
    """A courier whose node may have lost its heartbeat lock leaves deliveries to other nodes."""
    calls = 0

    def lost() -> None:
        nonlocal calls
        calls += 1

    async with open_hospital(tmp_path, database, destination(), session=lost) as hospital:
        await sign_all(hospital, "A1")
        before = calls
        await eventually_async(lambda: calls > before + 2)
        assert hospital.rows("SELECT state, attempts FROM delivery") == [("queued", 0)]


def fail_once(database: Database, words: str) -> asyncio.Event:
    """Let the first statement with these words fail; return the event of the failure."""
    loop, failed = asyncio.get_running_loop(), asyncio.Event()

    def fail(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if words in statement and not failed.is_set():
            loop.call_soon_threadsafe(failed.set)
            raise StoreUnavailable("SQLITE_IOERR")

    event.listen(database.engine, "before_cursor_execute", fail)
    return failed


@pytest.mark.parametrize("stops", [False, True], ids=["pause", "stop"])
async def test_an_outcome_waits_for_the_database(
    tmp_path: Path, database: Database, stops: bool
) -> None:
    """Accepted messages are not sent again, also if their outcomes cannot be stored at once."""
    first = [True]
    reply_with: dict[str, Callable[[bytes], bytes | None]] = {
        "ris": lambda payload: accepting(payload) if first and first.pop() else None
    }
    async with open_hospital(tmp_path, database, destination(), reply_with=reply_with) as hospital:
        courier, receiver = hospital.couriers[0], hospital.receivers["ris"]
        courier.pause()
        await sign_all(hospital, "A1", "A2")
        failed = fail_once(database, "SET reply")
        courier.resume()
        await hospital.delivered(2)
        await failed.wait()
        courier.pause()
        stopping = [asyncio.create_task(courier.stop(drain=PATIENCE))] if stops else []
        receiver.pending[0].callback(accepting(receiver.sent[1]))
        await asyncio.gather(*stopping)
        query = "SELECT state, attempts FROM delivery"
        await eventually_async(lambda: hospital.rows(query) == [("done", 1)] * 2)


async def test_a_message_that_cannot_be_stored_is_not_sent(
    tmp_path: Path, database: Database
) -> None:
    """A message is sent after it is stored, so that each attempt sends the same bytes."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        hospital.couriers[0].pause()
        await sign_all(hospital, "A1")
        failed = fail_once(database, "INTO delivery_body")
        hospital.couriers[0].resume()
        sent = await hospital.delivered(1)
        assert failed.is_set()
        assert hospital.rows("SELECT payload FROM delivery_body") == [(sent[0],)]
