"""Messages written when their release is learned of: what they say, and when they are not."""

from dataclasses import replace
from pathlib import Path

import pytest

from bridge.delivery.composer import Composer
from bridge.delivery.history import Standing, Told, told_already
from bridge.queue.outbox import Outbox
from bridge.store.database import Database
from mappings.results import ResultEvent
from tests.bridge.delivery.equipment import Time, destination, until
from tests.bridge.delivery.hospital import Hospital, open_hospital
from tests.bridge.intake.desk import order

pytestmark = pytest.mark.anyio

EDITIONS = "SELECT b.edition FROM delivery_body AS b ORDER BY b.delivery_id"


async def signed(hospital: Hospital, accession: str = "A1", text: str = "No bleeding.") -> None:
    """Order a report, sign it, and learn of it."""
    await hospital.send(order(f"ID{accession}", accession))
    await hospital.read_and_sign(accession, text)
    await hospital.follow()


async def test_written_ahead_says_what_it_would_say_at_its_turn(
    tmp_path: Path, database: Database
) -> None:
    """A paused receiver's message is written at once, word for word as its turn would write it."""
    here = destination()
    async with open_hospital(tmp_path, database, here) as hospital:
        hospital.couriers[0].pause()
        await signed(hospital)
        assert hospital.rows(EDITIONS) == [(here.edition,)]
        assert hospital.receivers["ris"].sent == []
        ((ahead,),) = hospital.rows("SELECT payload FROM delivery_body")
        (claimed,) = Outbox(database, "another").claim("ris", hospital.time(), 1, here.edition)
        assert (claimed.payload, claimed.attempts) == (bytes(ahead), 1)
        composer = Composer(hospital.client, database, Time().moment)
        anew = replace(claimed, payload=None)
        known = composer.look_up([anew], here)[anew.delivery_id]
        written, control_id = await composer.compose(anew, known, here)
        assert control_id == claimed.control_id
        assert written.split(b"\r")[1:] == bytes(ahead).split(b"\r")[1:]


async def test_whoever_waits_is_handed_the_message(tmp_path: Path, database: Database) -> None:
    """An idle courier has it claimed by the commit that queued it; a paused one has no room."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        (courier,) = hospital.couriers
        await until(lambda: courier.room > 0)
        await signed(hospital)
        await hospital.delivered(1)
        await until(lambda: hospital.rows("SELECT state, attempts FROM delivery") == [("done", 1)])
        assert hospital.rows("SELECT count(*) FROM delivery_lane") == [(0,)]
        courier.pause()
        assert courier.room == 0
        await signed(hospital, "A2")
        waiting = "SELECT state, attempts FROM delivery ORDER BY id DESC LIMIT 1"
        assert hospital.rows(waiting) == [("queued", 0)]
        courier.resume()
        await hospital.delivered(2)


async def test_a_definition_activated_meanwhile_writes_what_nobody_had_in_hand(
    tmp_path: Path, database: Database
) -> None:
    """Waiting messages are written anew by other settings; what was tried keeps its bytes."""
    before = destination(fields={"note": "old"})
    after = destination(fields={"note": "new"})
    assert before.edition != after.edition
    async with open_hospital(tmp_path, database, before) as hospital:
        (courier,) = hospital.couriers
        courier.pause()
        await signed(hospital)
        courier.adopt(after)
        courier.resume()
        await hospital.delivered(1)
        assert hospital.rows(EDITIONS) == [("",)]  # at its turn, and not ahead


async def test_files_are_read_at_their_turn(tmp_path: Path, database: Database) -> None:
    """A receiver of files gets a message whose text and files were read together."""
    plain = destination()
    (results, status) = plain.mappings
    files = replace(results, manner=replace(results.manner, content=("text", "rtf")))
    async with open_hospital(
        tmp_path, database, replace(plain, mappings=(files, status))
    ) as hospital:
        hospital.couriers[0].pause()
        await signed(hospital)
        assert hospital.rows("SELECT count(*) FROM delivery") == [(1,)]
        assert hospital.rows(EDITIONS) == []
        hospital.couriers[0].resume()
        await hospital.delivered(1)


async def test_what_stands_behind_something_undecided_is_not_written(
    tmp_path: Path, database: Database
) -> None:
    """An addendum behind a report that is still to be delivered waits for what becomes of it."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        hospital.couriers[0].pause()
        page = None
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "One.")
        await page("addendum/create")
        await page("addendum/save", text="More.")
        await page("addendum/sign")
        await hospital.follow()
        assert hospital.rows("SELECT count(*) FROM delivery") == [(2,)]
        assert len(hospital.rows(EDITIONS)) == 1
        hospital.couriers[0].resume()
        report, addendum = await hospital.delivered(2)
        assert b"More." in addendum
        assert b"One." in report


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ([], []),
        ([Standing("R:final:1:all", "final", "done")], [Told(ResultEvent.FINAL)]),
        ([Standing("R:final:1:all", "final", "ignored")], []),
        *(([Standing("R:final:1:all", "final", state)], None) for state in ("queued", "claimed")),
        ([Standing("R:final:1:abc", "final", "parked")], None),
        ([Standing("R:final:1:other", "final", "parked")], []),
    ],
)
def test_what_was_told(before: list[Standing], told: list[Told] | None) -> None:
    """What was delivered was told, what was skipped was not, and nobody knows of the rest."""
    assert told_already(before, "R:addendum:1:abc") == told
