"""The console tries, compares and infers definitions on invented messages."""

from collections.abc import Iterator
from typing import Any

import pytest

from bridge.admin.definitions.editor import DefinitionEditor, DraftEdit
from bridge.admin.definitions.trials import ComparisonRequest, DefinitionTrials, TrialMessage
from bridge.admin.errors import InvalidContent
from bridge.store.databases import bridge_database
from config import load
from mappings.hl7.batch import messages_in_text
from tests.bridge.engine_client.unreachable import client
from tests.databases import create_migrated_home

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
def console(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[DefinitionEditor, DefinitionTrials]]:
    home = tmp_path_factory.mktemp("trials") / "home"
    create_migrated_home(home)
    (home / "bridge.toml").write_text(
        '[[listener]]\nname = "ris"\nbind = "127.0.0.1:2575"\nsite = "S"\n', "utf-8"
    )
    settings = load(home)
    with bridge_database(home) as database:
        drafts = DefinitionEditor(settings, database, lambda: 1_000)
        drafts.save(DraftEdit("ris-c", ANN, {"ris-c.yaml": SENDER}, "", 0))
        yield drafts, DefinitionTrials(settings, database, client())


Console = tuple[DefinitionEditor, DefinitionTrials]


def try_messages(
    trials: DefinitionTrials, name: str, *messages: bytes, version: str = "draft"
) -> Any:
    return trials.try_out(name, ANN, version, [TrialMessage(message) for message in messages])


def test_charset_of_pasted_messages(console: Console) -> None:
    """Pasted text is encoded in the charset of MSH-18, as on the wire."""
    (message,) = messages_in_text(ODD.format(1))
    assert b"\xa6im\xe1k%Zo\xeb" in message
    (trial,) = try_messages(console[1], "ris-c", message)["trials"]
    assert trial["issues"] == []
    assert trial["events"][0]["clinical_info"]["PatientName"] == "Šimák^Zoë"


def test_a_trial_has_the_fields_of_the_message(console: Console) -> None:
    (trial,) = try_messages(console[1], "ris-c", *messages_in_text(ODD.format(2)))["trials"]
    (event,) = trial["events"]
    assert (event["mrn"], event["accession"]) == ("S2", "A2")
    assert event["clinical_info"]["Metadata"]["ReadingRoom"] == "Room 2"
    pid = next(segment for segment in trial["segments"] if segment["place"] == "PID")
    assert pid["fields"][:5] == ["1", "S2", "", "", "Šimák%Zoë"]


def test_a_traced_message(console: Console) -> None:
    """One message of a trial has a trace, whose places are those of its bytes."""
    samples = [
        TrialMessage(one) for number in (1, 2) for one in messages_in_text(ODD.format(number))
    ]
    first, second = console[1].try_out("ris-c", ANN, "draft", samples, traced=1)["trials"]
    assert "trace" not in first
    (event,) = second["trace"]["events"]
    room = next(one for one in event["targets"] if one["target"] == "meta:ReadingRoom")
    (source,) = room["sources"]
    ((start, end),) = source["spans"]
    assert (source["places"], source["file"]) == (["ZRM-2"], "ris-c.yaml")
    assert samples[1].payload[start:end] == b"Room 2"
    assert all(target["explained"] for target in event["targets"])


def test_targets_that_differ_from_the_active_version(console: Console) -> None:
    """A draft shows which values change, with both values; a new definition changes nothing."""
    drafts, trials = console
    (message,) = messages_in_text(ODD.format(7).replace("$", "|").replace("%", "^"))
    (new,) = try_messages(trials, "ris-c", message)["trials"]
    assert new["changed"] == []
    text = drafts.definition("orders", ANN)["sources"]["orders.yaml"]
    changed = text.replace("ProcedureCode: [OBR-4.1,", "ProcedureCode: [OBR-4.2,")
    drafts.save(DraftEdit("orders", ANN, {"orders.yaml": changed}, "", 0))
    (trial,) = try_messages(trials, "orders", message)["trials"]
    assert trial["changed"] == [
        {"place": "ORC[1]", "target": "tag:ProcedureCode", "before": "CT", "after": "CT head"}
    ]
    (active,) = try_messages(trials, "orders", message, version="active")["trials"]
    assert active["changed"] == []
    drafts.discard("orders", ANN)


def test_failed_trials(console: Console) -> None:
    """A trial names the place of a refusal, bytes without a message, and a draft's mistake."""
    drafts, trials = console
    without = messages_in_text(ODD.format(3).replace("$S3$", "$$"))
    (refused,) = try_messages(trials, "ris-c", *without)["trials"]
    assert (refused["accepted"], refused["issues"][0]["path"]) == (False, "PID-2.1")
    (junk,) = try_messages(trials, "ris-c", b"junk")["trials"]
    assert (junk["accepted"], junk["segments"]) == (False, [])
    drafts.save(DraftEdit("wrong", ANN, {"wrong.yaml": "kind: order\n"}, "", 0))
    with pytest.raises(InvalidContent):
        try_messages(trials, "wrong", *without)


def test_results_are_shown_as_hl7(console: Console) -> None:
    """A trial of results shows HL7 with a specimen report for the orders of the message."""
    message = messages_in_text(ODD.format(4).replace("$", "|").replace("%", "^"))
    (trial,) = try_messages(console[1], "results", *message, version="active")["trials"]
    assert trial["accepted"]
    assert trial["hl7"][0].startswith("MSH|^~\\&|")
    assert "OBX|" in trial["hl7"][0]


def test_definition_of_the_order(console: Console) -> None:
    """A trial of results reads the order with its stored definition, else the first match."""
    _, trials = console
    (message,) = messages_in_text(ODD.format(9).replace("$", "|").replace("%", "^"))
    named = TrialMessage(message, "ris", "patients")
    (unread,) = trials.try_out("results", ANN, "active", [named])["trials"]
    assert (unread["accepted"], unread["hl7"]) == (False, [])
    (read,) = trials.try_out("results", ANN, "active", [TrialMessage(message, "ris")])["trials"]
    assert read["accepted"]


def test_no_stored_messages(console: Console) -> None:
    """Without stored messages a comparison is empty, and no message has the control id."""
    comparison = console[1].compare(ComparisonRequest("ris-c", ANN, "now", "draft", 100))
    assert (comparison["compared"], comparison["differing"]) == (0, 0)
    assert console[1].stored_messages("ris-c", 5, "C99") == []


def test_evidence_of_a_proposal(console: Console) -> None:
    """Inference proposes places, charset and Z segment from the bytes, and counts the evidence."""
    _, trials = console
    samples = [
        message for number in range(5, 11) for message in messages_in_text(ODD.format(number))
    ]
    proposal = trials.infer(samples)
    assert (proposal["charset"], proposal["messages"], proposal["unread"]) == ("iso8859-15", 6, 0)
    for piece in ("PID-2.1", "OBR-3.2", "ZRM-2", "6 of 6 groups"):
        assert piece in proposal["text"]


def test_a_definition_of_the_worklist(console: Console) -> None:
    """A trial shows the items of the orders and what they use; a comparison their attributes."""
    drafts, trials = console
    text = "include: worklist.yaml\nitem: {PatientComments: draft}\n"
    saved = drafts.save(DraftEdit("modalities", ANN, {"modalities.yaml": text}, "", 0))
    assert saved["kind"] == "worklist"
    message = ODD.format(3).replace("$F{0}%A{0}$", "$F3$").encode()
    (trial,) = try_messages(trials, "modalities", message)["trials"]
    assert trial["accepted"]
    (item,) = trial["hl7"]
    assert "PatientComments: draft" in item
    used = {fact["name"] for fact in trial["facts"] if fact["used"]}
    assert {"clinicalInfo.PatientName", "clinicalInfo.Accession"} <= used
    assert not any(fact["name"].startswith("report.") for fact in trial["facts"])


NIGHT = "include: outside-reports.yaml\naccept: {senders: [{application: NIGHT}]}\n"
RESULT = (
    "MSH|^~\\&|NIGHT|NORTH|RB|RB|20260401080000||ORU^R01|N1|P|2.5.1\r"
    "PID|1||S3||DOE^JANE||19700101|F\r"
    "ORC|RE|P3|F3\r"
    "OBR|1|P3|F3|CT^CT head||||||||||||||A3|||||||F\r"
    "OBX|1|TX|R||No acute finding.||||||F\r"
)


def test_a_definition_of_outside_reports(console: Console) -> None:
    """A trial shows the report, a comparison what differs, and a mistake its place."""
    drafts, trials = console
    edit = DraftEdit("night", ANN, {"night.yaml": NIGHT}, "", 0)
    saved = drafts.save(edit)
    assert (saved["kind"], saved["issues"]) == ("outside-reports", [])
    (trial,) = try_messages(trials, "night", RESULT.encode())["trials"]
    assert trial["accepted"]
    assert "No acute finding." in str(trial)
    wrong = f"{NIGHT}report: {{titel: OBR-4.1}}\n"
    found = drafts.save(DraftEdit("night", ANN, {"night.yaml": wrong}, "", saved["revision"]))
    (issue,) = found["issues"]
    assert (issue["file"], issue["line"], issue["column"]) == ("night.yaml", 3, 10)
