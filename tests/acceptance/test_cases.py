"""
Faults that people of this job reported in public, played against the real program.

A folder `shared/cases` beside the clone may have the messages; without it there is nothing to play.
Each check says what is right after all messages of a case, in the order of their names.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.acceptance.house import House
from tests.acceptance.wire import Sender, verdict
from tests.corpus import ROOT

CASES = ROOT.parent / "shared" / "cases"
OUTSIDE = "include: outside-reports.yaml\naccept:\n  senders: [{application: LABRIS}]\n"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One service for all cases: each has its own patients."""
    made = House(tmp_path_factory.mktemp("cases") / "home")
    made.listener_extra = 'mappings = ["orders", "patients", "night"]'
    made.make()
    (made.home / "mappings" / "night.yaml").write_text(OUTSIDE, "utf-8")
    made.start()
    yield made
    made.kill()


def order(house: House, accession: str) -> dict[str, Any]:
    """Return the tags of an order on the list of reports."""
    (row,) = house.worklist(Accession=accession)
    return next(tags for tags in row["orders"] if tags["Accession"] == accession)


def unread(house: House, *accessions: str) -> set[str]:
    """Return which orders are on the list of unread ones."""
    listed = {
        tags["Accession"] for row in house.worklist(status="Ordered") for tags in row["orders"]
    }
    return listed & {*accessions}


def parked(house: House, mrn: str) -> list[str]:
    """Return the codes of the parked messages of a patient."""
    words = ("messages", "list", "--state", "parked", "--patient", mrn, "--json")
    return [row["code"] for row in json.loads(house.bridge(*words))]


def wrong_merge_undone(house: House) -> None:
    found = [order(house, accession) for accession in ("A0201", "A0202")]
    assert {(tags["PatientMRN"], tags["PatientName"]) for tags in found} == {("N7021", "FREED^IDA")}
    assert parked(house, "N7021") == []


def change_with_another_spelling(house: House) -> None:
    found = order(house, "A3001")
    assert (found["PatientName"], found["StudyDescription"]) == ("DOE^JANE^QUINN", "CHANGED")
    assert parked(house, "N7300") == []


def reported_elsewhere(house: House) -> None:
    assert unread(house, "A3401") == set()
    (row,) = house.worklist(Accession="A3401")
    assert [mark["sender"] for mark in row["reportedElsewhere"]] == ["LABRIS"]
    assert "Outside report" in house.bridge("orders", "show", "A3401")


def three_forms_of_one_name(house: House) -> None:
    names = [order(house, f"A060{number}")["PatientName"] for number in (1, 2, 3, 4)]
    whole = "Yamada^Tarou=山田^太郎=やまだ^たろう"
    assert names == [whole, "=山田^太郎=やまだ^たろう", "van der Berg^Anna^^Dr.", whole]


def escapes_that_are_not_quite(house: House) -> None:
    tags = order(house, "A2101")
    assert tags["Notes"].startswith("à la carte")
    shown = "\n".join(map(str, tags.values()))
    for text in ("second line", "4\\5 re.", "R&D", "CT & MR"):
        assert text in shown
    assert not {"\0", "\ufffd"} & {*shown}


def several_steps_of_one_order(house: House) -> None:
    (row,) = house.worklist(PatientMRN="N7110")
    assert [tags["Accession"] for tags in row["orders"]] == ["A1101"]
    shown = json.dumps(row["orders"])
    for value in ("S1", "S2", "PETAE", "CTAE1", "CTAE2", "PT", "CT"):
        assert value in shown


def several_steps_are_cancelled(house: House) -> None:
    assert unread(house, "A1101") == set()


def merged_number_beside_survivor(house: House) -> None:
    for accession in ("A0301", "A0302", "A0303"):
        assert order(house, accession)["PatientMRN"] == "N7030"
    assert parked(house, "N7031") == []


def one_orc_two_obr(house: House) -> None:
    assert unread(house, "A1001", "A1002") <= {"A1001"}


EARLIER: dict[tuple[str, str], Callable[[House], None]] = {
    ("12-several-ipc-below-one-obr", "message"): several_steps_of_one_order,
}
"""What is right after a message that others follow."""
CHECKS: dict[str, Callable[[House], None]] = {
    "01-wrong-merge-undone": wrong_merge_undone,
    "02-change-with-another-spelling": change_with_another_spelling,
    "06-reported-elsewhere": reported_elsewhere,
    "07-three-forms-of-one-name": three_forms_of_one_name,
    "08-escapes-that-are-not-quite": escapes_that_are_not_quite,
    "12-several-ipc-below-one-obr": several_steps_are_cancelled,
    "13-merged-id-beside-survivor": merged_number_beside_survivor,
    "17-one-orc-two-obr-then-cancel-one": one_orc_two_obr,
}


def _turn(name: str) -> tuple[int, str]:
    """Sort setup-1, setup-2, message, then-1, then-2."""
    word = name.partition("-")[0]
    return (("setup", "message", "then").index(word), name)


if PRESENT := [name for name in CHECKS if (CASES / name).is_dir()]:

    @pytest.mark.parametrize("case", PRESENT)
    def test_case(house: House, case: str) -> None:
        folder = CASES / case
        files = sorted(folder.glob("*.hl7"), key=lambda file: _turn(file.stem))
        with Sender(house.mllp_port) as sender:
            for file in files:
                code, _ = verdict(sender.ask(file.read_bytes()))
                assert code in {"AA", "AE"}, file.name
                if check := EARLIER.get((case, file.stem)):
                    house.settle()
                    check(house)
        house.settle()
        CHECKS[case](house)
