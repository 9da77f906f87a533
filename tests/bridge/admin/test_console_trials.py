"""Trying, comparing and learning as the console does it, on invented messages."""

from collections.abc import Iterator
from typing import Any

import pytest

from bridge.admin.data_directory import create_data_directory
from bridge.admin.definitions.console_drafts import ConsoleDrafts
from bridge.admin.definitions.console_trial import ConsoleTrials
from bridge.console.context import ComparisonRequest, DraftEdit, TrialMessage
from bridge.console.errors import InvalidContent
from bridge.wiring.stores import bridge_database
from config import load

ANN = "ann@example.org"
ODD = (
    "MSH$%~!&$RISC$SOUTH$RB$RB$20260401080000$$ORM%O01$C{0}$P$2.3$$$$$$8859/15\n"
    "PID$1$S{0}$$$Šimák%Zoë$$19700101$F\n"
    "ORC$NW$P{0}\n"
    "OBR$1$P{0}$F{0}%A{0}$CT%CT head\n"
    "ZRM$1$Room {0}$Protocol 7\n"
)
SENDER = """\
include: orders.yaml
accept:
  senders: [{application: RISC}]
tags:
  PatientMRN: {from: PID-2.1, required: true}
  Accession: {from: OBR-3.2, required: true}
metadata:
  values:
    ReadingRoom: ZRM-2
"""


@pytest.fixture(scope="module")
def places(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ConsoleDrafts, ConsoleTrials]]:
    """A desk and a bench of one home, with a draft on the desk."""
    home = tmp_path_factory.mktemp("bench") / "home"
    create_data_directory(home)
    (home / "bridge.toml").write_text(
        '[[listener]]\nname = "ris"\nbind = "127.0.0.1:2575"\nsite = "S"\n', "utf-8"
    )
    settings = load(home)
    with bridge_database(home) as database:
        desk = ConsoleDrafts(settings, database, lambda: 1_000)
        desk.save(DraftEdit("ris-c", ANN, {"ris-c.yaml": SENDER}, "", 0))
        yield desk, ConsoleTrials(settings, database)


Places = tuple[ConsoleDrafts, ConsoleTrials]


def tried(bench: ConsoleTrials, name: str, *messages: bytes, word: str = "draft") -> Any:
    """Try what was pasted."""
    return bench.try_out(name, ANN, word, [TrialMessage(each) for each in messages])


def test_what_was_pasted_is_what_was_on_the_wire(places: Places) -> None:
    """In the charset that MSH-18 names, for the letters would be others else."""
    (message,) = places[1].messages_in_text(ODD.format(1))
    assert b"\xa6im\xe1k%Zo\xeb" in message
    (trial,) = tried(places[1], "ris-c", message)["trials"]
    assert trial["issues"] == []
    assert trial["events"][0]["clinical_info"]["PatientName"] == "Šimák^Zoë"


def test_a_trial_shows_what_was_used_and_what_not(places: Places) -> None:
    """Where it stands in the message, beside what came out."""
    (trial,) = tried(places[1], "ris-c", *places[1].messages_in_text(ODD.format(2)))["trials"]
    (event,) = trial["events"]
    assert (event["mrn"], event["accession"]) == ("S2", "A2")
    assert event["clinical_info"]["Metadata"]["ReadingRoom"] == "Room 2"
    assert {"PID-2", "OBR-3", "ZRM-2"} <= set(trial["used"])
    assert "MSH-7" in trial["unused"]
    pid = next(each for each in trial["segments"] if each["place"] == "PID")
    assert pid["fields"][:5] == ["1", "S2", "", "", "Šimák%Zoë"]


def test_what_cannot_be_tried_says_why(places: Places) -> None:
    """A refusal with its place, bytes that are no message, a draft with a mistake."""
    desk, bench = places
    without = bench.messages_in_text(ODD.format(3).replace("$S3$", "$$"))
    (refused,) = tried(bench, "ris-c", *without)["trials"]
    assert (refused["accepted"], refused["issues"][0]["path"]) == (False, "PID-2.1")
    (junk,) = tried(bench, "ris-c", b"junk")["trials"]
    assert (junk["accepted"], junk["segments"]) == (False, [])
    desk.save(DraftEdit("wrong", ANN, {"wrong.yaml": "kind: order\n"}, "", 0))
    with pytest.raises(InvalidContent):
        tried(bench, "wrong", *without)


def test_what_is_written_is_shown_as_hl7(places: Places) -> None:
    """For the orders of the message, with a report that nobody dictated."""
    message = places[1].messages_in_text(ODD.format(4).replace("$", "|").replace("%", "^"))
    (trial,) = tried(places[1], "results", *message, word="active")["trials"]
    assert trial["accepted"]
    assert trial["hl7"][0].startswith("MSH|^~\\&|")
    assert "OBX|" in trial["hl7"][0]


def test_results_answer_orders_as_they_were_read(places: Places) -> None:
    """By what a message was stored with; else by the first definition that accepts it."""
    _, bench = places
    (message,) = bench.messages_in_text(ODD.format(9).replace("$", "|").replace("%", "^"))
    named = TrialMessage(message, "ris", "patients")
    (unread,) = bench.try_out("results", ANN, "active", [named])["trials"]
    assert (unread["accepted"], unread["hl7"]) == (False, [])
    (read,) = bench.try_out("results", ANN, "active", [TrialMessage(message, "ris")])["trials"]
    assert read["accepted"]


def test_nothing_stored_is_nothing_to_compare(places: Places) -> None:
    """And no message of a control id that nobody sent."""
    told = places[1].compare(ComparisonRequest("ris-c", ANN, "now", "draft", 100))
    assert (told["compared"], told["differing"]) == (0, 0)
    assert places[1].stored_messages("ris-c", 5, "C99") == []


def test_a_proposal_comes_with_its_evidence(places: Places) -> None:
    """From messages as they were on the wire: places, charset, Z segment."""
    _, bench = places
    samples = [one for number in range(5, 11) for one in bench.messages_in_text(ODD.format(number))]
    told = bench.learn(samples)
    assert (told["charset"], told["messages"], told["unread"]) == ("iso8859-15", 6, 0)
    for piece in ("PID-2.1", "OBR-3.2", "ZRM-2", "6 of 6 groups"):
        assert piece in told["text"]
