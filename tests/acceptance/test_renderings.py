"""Result formats that `bridge.toml` selects, from the signature to the bytes at a receiver."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.acceptance.house import House
from tests.acceptance.orders import group_of, order
from tests.acceptance.radiologist import addendum
from tests.acceptance.wire import Sink, control_id
from tests.conformance.parsers import agree, structure_errors

TEXT = "FINDINGS:\nNo nodule.\n\nIMPRESSION: normal."
FORMATS: dict[str, dict[str, Any]] = {
    "old": {"version": "2.3", "interpreter": "xcn", "times": "local"},
    "block": {"version": "2.3.1", "layout": "formatted", "addenda": "newest"},
    "sections": {"version": "2.4", "sections": "loinc", "layout": "repetitions"},
    "codes": {"sections": "dicom", "echo": "whole", "time_zone": "Europe/Zurich"},
    "child": {"addenda": "child"},
    "mixed": {"addenda": "mdm"},
    "papers": {"mapping": "mdm", "version": "2.4"},
    "rad128": {"mapping": "rad128"},
    "files": {"content": ["text", "pdf", "rtf"], "metadata": {"*": "NTE", "Extra": "OBR-21"}},
    "combined": {"orders": "combined"},
    "grouped": {"orders": "grouped"},
}


@dataclass(frozen=True, slots=True)
class Receivers:
    """A running service, and a sink for each result format."""

    house: House
    sinks: dict[str, Sink]

    def sent(self, name: str, accession: str, count: int) -> list[list[list[str]]]:
        """Return the valid messages about an accession, as segments of fields."""
        found = self.sinks[name].about(accession, count)
        assert len(found) == count
        assert len({control_id(message) for message in found}) == count
        for message in found:
            assert not structure_errors(message)
            assert agree(message)
        return [
            [line.split("|") for line in message.decode().split("\r") if line] for message in found
        ]


@pytest.fixture(scope="module")
def receivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receivers]:
    """A service that has released a report with an addendum and a report of two orders."""
    house = House(tmp_path_factory.mktemp("renderings") / "home")
    sinks = {name: Sink() for name in FORMATS}
    for name, settings in FORMATS.items():
        house.destination(name, sinks[name].port, **settings)
    house.make()
    house.start()
    house.send(order(1, extra="NTE|1||Allergic\r"))
    house.draft("M1", "A1", TEXT, Metadata={"Extra": "seven"})
    house.sign("M1", "A1")
    addendum(house, "M1", "A1", "One more thing.")
    house.send(order(2, extra=group_of(3)))
    house.draft("M2", "A2", TEXT)
    house.sign("M2", "A2")
    yield Receivers(house, sinks)
    house.kill()
    for each in sinks.values():
        each.stop()


def named(message: list[list[str]], name: str) -> list[list[str]]:
    return [segment for segment in message if segment[0] == name]


def observed(message: list[list[str]]) -> list[list[str]]:
    """The OBX segments that are results (OBX-11 is not O)."""
    return [segment for segment in named(message, "OBX") if segment[11] != "O"]


def test_an_old_version(receivers: Receivers) -> None:
    """2.3: MSH-9 of two components, MSH-12, times without offset, OBR-32 as ID^FAMILY^GIVEN."""
    final, late = receivers.sent("old", "|A1|", 2)
    assert (final[0][8], final[0][11]) == ("ORU^R01", "2.3")
    (obr,) = named(final, "OBR")
    assert len(obr[22]) == 14
    assert obr[32] == "^Reader^Ada"
    assert [each[5] for each in observed(final)] == TEXT.replace("\n\n", "\n \n").split("\n")
    assert "One more thing." in [each[5] for each in observed(late)]


def test_one_block(receivers: Receivers) -> None:
    """FT: one OBX with `.br` between lines; the addendum alone, with its own sub-id."""
    final, late = receivers.sent("block", "|A1|", 2)
    assert [(each[2], each[4], each[5]) for each in observed(final)] == [
        ("FT", "1", TEXT.replace("\n", "\\.br\\"))
    ]
    (newest,) = observed(late)
    assert newest[4] == "2"
    assert newest[5].endswith("\\.br\\One more thing.")


@pytest.mark.parametrize(
    ("name", "findings", "impression", "late"),
    [("sections", "59776-5", "19005-8", "55107-7"), ("codes", "121070", "121072", "121078")],
)
def test_sections(
    receivers: Receivers, name: str, findings: str, impression: str, late: str
) -> None:
    """Each section has its LOINC or DICOM code, the same in the addendum's message."""
    first, second = receivers.sent(name, "|A1|", 2)

    def codes(message: list[list[str]]) -> list[tuple[str, str]]:
        return list(dict.fromkeys((e[3].split("^")[0], e[4]) for e in observed(message)))

    assert codes(first) == [(findings, "1"), (impression, "1")]
    assert codes(second) == [*codes(first), (late, "2")]


def test_the_order_is_echoed(receivers: Receivers) -> None:
    """`echo = "whole"` repeats the fields of the order, except its status."""
    (final, _) = receivers.sent("codes", "|A1|", 2)
    (orc,), (obr,), (pv1,) = (named(final, name) for name in ("ORC", "OBR", "PV1"))
    assert (orc[1], orc[2], orc[3]) == ("RE", "P1", "F1")
    assert orc[5:6] in ([], [""])
    assert pv1[3] == "CT^^^HOSP"
    assert obr[31] == "^COUGH"
    assert named(final, "ZDS")
    assert obr[22][-5:] in ("+0100", "+0200")


def test_an_addendum_as_a_child(receivers: Receivers) -> None:
    """The addendum has CH, its own filler number, and the parent's numbers in ORC-8 and OBR-29."""
    final, late = receivers.sent("child", "A1|", 2)
    assert named(final, "ORC")[0][1] == "RE"
    (orc,), (obr,) = named(late, "ORC"), named(late, "OBR")
    assert (orc[1], orc[3], obr[3]) == ("CH", "F1-A1", "F1-A1")
    assert (orc[8], obr[29]) == ("P1^F1", "P1^F1")
    assert obr[26] == "18748-4&Diagnostic imaging report&LN^1"
    assert [each[5] for each in observed(late)][1:] == ["One more thing."]


def test_an_addendum_as_a_document(receivers: Receivers) -> None:
    """The report is an ORU, and its addendum an MDM^T06."""
    final, late = receivers.sent("mixed", "A1|", 2)
    assert (final[0][8], late[0][8]) == ("ORU^R01^ORU_R01", "MDM^T06^MDM_T02")
    assert named(late, "TXA")[0][13]


def test_documents(receivers: Receivers) -> None:
    """The report is MDM^T02; TXA-13 of the T06 is TXA-12 of the T02."""
    final, late = receivers.sent("papers", "|F1|", 2)
    assert [m[0][8] for m in (final, late)] == ["MDM^T02^MDM_T02", "MDM^T06^MDM_T02"]
    first, second = named(final, "TXA")[0], named(late, "TXA")[0]
    assert (first[14], first[15], first[17], first[19]) == ("P1", "F1", "LA", "AV")
    assert second[13] == first[12] != second[12]


def test_results_distribution(receivers: Receivers) -> None:
    """RAD-128 has study UID, accession, observer and sections, and no local codes."""
    final, _ = receivers.sent("rad128", "|A1|", 2)
    assert final[0][8] == "ORU^R01^ORU_R01"
    study = named(final, "OBX")[0]
    assert study[2:4] + study[5:6] == [
        "ST", "113014^DICOM Study^DCM", "1.2.826.0.1.3680043.10.2"
    ]  # fmt: skip
    (obr,) = named(final, "OBR")
    assert (obr[18], obr[25]) == ("A1", "F")
    assert obr[32]
    assert all(each[3].endswith(("^LN", "^DCM")) for each in named(final, "OBX"))


def test_files_and_metadata(receivers: Receivers) -> None:
    """PDF and RTF accompany the text; a metadata key goes into its field and not into notes."""
    final, _ = receivers.sent("files", "|A1|", 2)
    pdf, rtf = (each for each in observed(final) if each[2] == "ED")
    assert pdf[5].startswith("^Application^PDF^Base64^")
    assert base64.b64decode(pdf[5].split("^")[4], validate=True).startswith(b"%PDF-")
    assert base64.b64decode(rtf[5].split("^")[4], validate=True).startswith(b"{\\rtf1")
    assert named(final, "OBR")[0][21] == "seven"
    assert not any("seven" in each[3] for each in named(final, "NTE"))


def test_linked_orders(receivers: Receivers) -> None:
    """`combined` has CN and RE with the text once; `grouped` has RE and the text for each order."""
    (combined,) = receivers.sent("combined", "|A3|", 1)
    assert [each[1] for each in named(combined, "ORC")] == ["CN", "RE"]
    assert [each[18] for each in named(combined, "OBR")] == ["A2", "A3"]
    assert sum(each[5] == "No nodule." for each in observed(combined)) == 1
    (grouped,) = receivers.sent("grouped", "|A3|", 1)
    assert [each[1] for each in named(grouped, "ORC")] == ["RE", "RE"]
    assert sum(each[5] == "No nodule." for each in observed(grouped)) == 2
    assert len(receivers.sinks["old"].about("No nodule.", 4)) == 4, (
        "a message for each order, with the same text"
    )


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"papers", "rad128", "mixed"}))
def test_the_preview_is_what_is_sent(receivers: Receivers, name: str) -> None:
    """`mapping try` composes the releases of a destination again; only MSH-7 differs."""
    sent = {control_id(each): each for each in receivers.sinks[name].about("|A1|", 2)}
    options = ("--destination", name, "--last", "20", "--json")
    previews = json.loads(receivers.house.bridge("mapping", "try", "results", *options))

    composed = [text.encode() for each in previews for text in each["hl7"]]
    again = {control_id(each.replace(b"\n", b"\r")): each for each in composed}
    assert sent.keys() <= again.keys()
    for number, message in sent.items():
        expected = message.strip(b"\r").replace(b"\r", b"\n")
        if name != "files":  # a PDF has the time at which it was made
            assert _without_time(again[number]) == _without_time(expected)
        else:
            assert again[number].count(b"\nOBX|") == expected.count(b"\nOBX|")
            assert b"Base64^JVBERi0" in again[number]


def _without_time(message: bytes) -> list[bytes]:
    """Return the fields of the header without MSH-7, and the other segments."""
    header, *others = message.split(b"\n")
    fields = header.split(b"|")
    return [*fields[:6], *fields[7:], *others]
