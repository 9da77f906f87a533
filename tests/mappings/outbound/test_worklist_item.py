"""Worklist items: the attributes that a definition makes of an order, in the forms of DICOM."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydicom import config
from pydicom.dataset import Dataset

from mappings.authoring.trial import compare_items, item_text, sample_contexts
from mappings.compiler import DEFINITIONS, check_sources, compile_sources, load, read_folder
from mappings.inbound.definition import InboundMapping
from mappings.language.diagnostics import CodeRefused, IssueSeverity
from mappings.language.scope import ListenerDefaults
from mappings.outbound.worklist_item import WorklistItem, WorklistMapping, described

SHIPPED = read_folder(DEFINITIONS)
DEFAULTS = ListenerDefaults("NORTH", "Europe/Berlin", datetime(2026, 12, 1, tzinfo=UTC))
ORDERS = load(DEFINITIONS, "orders")

HEAD = "MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121120000||OMI^O23^OMI_O23|1|P|2.5.1"
PID = "PID|1||M1^^^MAIN^MR||TESTER^TILDA||19700101|F"
ORC = "ORC|NW|P1^LAB|F1^RIS||SC"
OBR = "OBR|1|P1|F1|78815^PET-CT^C4^LOC1^Local PET^99L"
PET = "IPC|A1^RIS|RP1|1.2.840.99999.1|S1|PT|PETPROT^PET^L|PET1||PETAE"
CT = "IPC|A1^RIS|RP1|1.2.840.99999.1|S2|CT|CT1^CT low dose^L~CT2^CT topogram^L|CT1|R1|CTAE1~CTAE2"


def mapping(overlay: str = "") -> WorklistMapping:
    sources = {**SHIPPED, "mine.yaml": f"include: worklist.yaml\n{overlay}"}
    compiled = compile_sources(sources, "mine")
    assert isinstance(compiled, WorklistMapping)
    return compiled


def items(*lines: str, overlay: str = "") -> list[WorklistItem]:
    definition = mapping(overlay)
    assert isinstance(ORDERS, InboundMapping)
    raw = "\r".join([*lines, ""]).encode()
    contexts = sample_contexts(definition, ORDERS, raw, DEFAULTS, "utf-8")
    return [item for context in contexts for item in definition.items(context)]


def order(*more: str, pid: str = PID, obr: str = OBR, overlay: str = "") -> dict[str, str]:
    """Return the attributes of an order with one step."""
    (item,) = items(HEAD, pid, ORC, obr, *more, overlay=overlay)
    return described(item)


def errors(text: str) -> list[str]:
    found = check_sources({**SHIPPED, "mine.yaml": text}, ["mine"], tables=False)
    return [str(issue) for issue in found if issue.severity is IssueSeverity.ERROR]


SPS = "ScheduledProcedureStepSequence[1]."
STEP_ID = f"{SPS}ScheduledProcedureStepID"


def test_each_segment_is_a_step() -> None:
    pet, ct = map(described, items(HEAD, PID, ORC, OBR, PET, CT))
    assert pet[STEP_ID] == "S1"
    assert ct[f"{SPS}ScheduledStationAETitle"] == "CTAE1\\CTAE2"
    assert ct[f"{SPS}ScheduledProcedureStepLocation"] == "R1"
    codes = [ct[f"{SPS}ScheduledProtocolCodeSequence[{number}].CodeValue"] for number in (1, 2)]
    assert codes == ["CT1", "CT2"]
    assert {one["RequestedProcedureID"] for one in (pet, ct)} == {"RP1"}


@pytest.mark.parametrize(
    "lines", [(PET, CT), (CT, "ZZZ|1", PET), ("NTE|1||note", PET, "ZDS|1", CT)]
)
def test_items_are_valid_dicom(lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value passes the checks of pydicom, and all keys of type 1 and 2 are present."""
    monkeypatch.setattr(config.settings, "_reading_validation_mode", config.RAISE)
    monkeypatch.setattr(config.settings, "_writing_validation_mode", config.RAISE)
    for item in items(HEAD, PID, ORC, OBR, *lines):
        data_set = Dataset.from_json(item.item)
        step = data_set.ScheduledProcedureStepSequence[0]
        for keyword in ("Modality", "ScheduledStationAETitle", "ScheduledProcedureStepID"):
            assert step[keyword].value
        for keyword in ("PatientWeight", "MedicalAlerts", "ReferencedStudySequence", "AdmissionID"):
            assert keyword in data_set


def test_an_order_without_ipc() -> None:
    """It is one step with the numbers of OBR, and the code of OBR-4 as its protocol."""
    found = order(obr=f"{OBR}{'|' * 14}A1|RP9|S9||||CT")
    assert found["RequestedProcedureID"] == "RP9"
    assert found[STEP_ID] == "S9"
    assert found[f"{SPS}ScheduledProtocolCodeSequence[1].CodeValue"] == "LOC1"
    assert found[f"{SPS}Modality"] == "CT"


def test_several_procedures_of_one_accession() -> None:
    """Each OBR is a procedure, with its own steps."""
    definition = mapping()
    assert isinstance(ORDERS, InboundMapping)
    raw = "\r".join([HEAD, PID, ORC, OBR, PET, ORC, OBR.replace("78815", "71250"), CT, ""]).encode()
    first, second = sample_contexts(definition, ORDERS, raw, DEFAULTS, "utf-8")
    both = replace(
        first.orders[0],
        echo=(*first.orders[0].echo, *second.orders[0].echo[2:]),
    )
    found = map(described, definition.items(replace(first, orders=(both,))))
    codes = [(one["RequestedProcedureCodeSequence[1].CodeValue"], one[STEP_ID]) for one in found]
    assert codes == [("78815", "S1"), ("71250", "S2")]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("TESTER^TILDA^M^JR^DR", {"Alphabetic": "TESTER^TILDA^M^DR^JR"}),
        (
            "Yamada^Tarou^^^^^L^A~山田^太郎^^^^^L^I~やまだ^たろう^^^^^L^P",
            {"Alphabetic": "Yamada^Tarou", "Ideographic": "山田^太郎", "Phonetic": "やまだ^たろう"},
        ),
    ],
)
def test_names(name: str, written: dict[str, str]) -> None:
    (item,) = items(HEAD, PID.replace("TESTER^TILDA", name), ORC, OBR)
    assert item.item["00100010"] == {"vr": "PN", "Value": [written]}


def test_physicians() -> None:
    """XCN and NDL become names in the order of DICOM."""
    visit = "PV1|1|O||||||7^WELBY^ANN^M^JR^DR~8^HOUSE^GREG"
    found = order(visit, obr=f"{OBR}{'|' * 12}9^BAKER^BO{'|' * 18}5&HAND&HAL&&&")
    assert found["ReferringPhysicianName"] == "WELBY^ANN^M^DR^JR"
    assert found["RequestingPhysician"] == "BAKER^BO"
    assert found[f"{SPS}ScheduledPerformingPhysicianName"] == "HAND^HAL"


@pytest.mark.parametrize(
    ("sent", "day", "time"),
    [
        ("20261201093000", "20261201", "093000"),
        ("202612010930", "20261201", "0930"),
        ("20261201233000+0000", "20261202", "003000"),  # in the zone of the site
        ("20261201", "20261201", "000000"),
        ("2026-12-01T09:30:00", "20261201", "093000"),
    ],
)
def test_times(sent: str, day: str, time: str) -> None:
    found = order(f"TQ1|1||||||{sent}")
    assert found[f"{SPS}ScheduledProcedureStepStartDate"] == day
    assert found[f"{SPS}ScheduledProcedureStepStartTime"] == time


@pytest.mark.parametrize(
    ("orc", "day"),
    [
        (f"{ORC}||||20261130150300", "20261130"),
        (f"{ORC}||||20261130150300||||||20261202", "20261202"),
        (f"{ORC}||^^^20261205||20261130150300", "20261205"),
    ],
)
def test_the_day_of_the_order(orc: str, day: str) -> None:
    """An order without a start is for its own day, at no time; a start of its own comes first."""
    (item,) = items(HEAD, PID, orc, OBR)
    found = described(item)
    assert found[f"{SPS}ScheduledProcedureStepStartDate"] == day
    assert found[f"{SPS}ScheduledProcedureStepStartTime"] == "000000"


def test_a_wrong_date_is_a_problem() -> None:
    (item,) = items(HEAD, PID, ORC, OBR, "TQ1|1||||||tomorrow")
    assert set(item.problems) == {
        "ScheduledProcedureStepStartDate",
        "ScheduledProcedureStepStartTime",
    }
    assert item.usable


@pytest.mark.parametrize(
    ("observation", "weight", "size"),
    [
        (("OBX|1|NM|^BODY WEIGHT||62|kg", "OBX|2|NM|^BODY HEIGHT||190|cm"), "62.0", "1.9"),
        (("OBX|1|NM|29463-7||137|lb|||||F", "OBX|2|NM|8302-2||1,75|m|||||F"), "62.142155", "1.75"),
        (("OBX|1|NM|^Weight||62000|g|||||F", "OBX|2|NM|^Height||175||||||F"), "62.0", "1.75"),
    ],
)  # fmt: skip
def test_measures(observation: tuple[str, ...], weight: str, size: str) -> None:
    """Weight in kg, size in m, whatever the unit of the observation."""
    found = order(*observation)
    assert (found["PatientWeight"], found["PatientSize"]) == (weight, size)


def test_the_state_of_the_patient() -> None:
    visit = "PV1|1|I|WARD^12^2^MAIN||||7^WELBY^ANN||||||||B6||||V77^^^MAIN"
    allergy = "AL1|1||LATEX^Latex^L"
    coded = OBR.replace("99L", "99L||||||||DC^Infectious|claustrophobic")
    found = order(visit, allergy, obr=coded)
    assert found["PregnancyStatus"] == "3"
    assert found["SpecialNeeds"] == "Pregnant"
    assert found["AdmissionID"] == "V77"
    assert found["CurrentPatientLocation"] == "WARD 12 2"
    assert found["Allergies"] == "Latex"
    assert found["PatientState"] == "Infectious"
    assert found["MedicalAlerts"] == "claustrophobic"


def test_other_numbers_of_the_patient() -> None:
    """Each but the patient's own one."""
    found = order(pid=PID.replace("M1^^^MAIN^MR", "M1^^^MAIN^MR~S77^^^SOC^SS"))
    assert found["OtherPatientIDsSequence[1].PatientID"] == "S77"
    assert found["OtherPatientIDsSequence[1].IssuerOfPatientID"] == "SOC"
    assert "OtherPatientIDsSequence[2].PatientID" not in found


@pytest.mark.parametrize(
    ("priority", "written"), [("S", "STAT"), ("R", "ROUTINE"), ("A", "HIGH"), ("X", None)]
)
def test_priorities(priority: str, written: str | None) -> None:
    found = order(f"TQ1|1||||||20261201||{priority}")
    assert found.get("RequestedProcedurePriority") == written


def test_texts_are_cut() -> None:
    """Texts end at the length of their VR; a code that is too long has an attribute of its own."""
    long = OBR.replace("78815^PET-CT", f"{'9' * 20}^{'x' * 80}")
    found = order(obr=long)
    assert found["RequestedProcedureDescription"] == "x" * 64
    assert found["RequestedProcedureCodeSequence[1].LongCodeValue"] == "9" * 20


def test_numbers_are_not_cut() -> None:
    """A number that does not fit is left out and named; the scheduler's own ones are shortened."""
    accession = "ACCESSION-NUMBER-0001"
    (item,) = items(HEAD, PID, ORC, f"{OBR}{'|' * 14}{accession}")
    found = described(item)
    assert "AccessionNumber" not in found
    assert found["RequestedProcedureID"] == found[STEP_ID] == accession[-16:]
    assert item.problems == ("AccessionNumber",)
    assert item.usable


def test_without_a_required_value() -> None:
    (item,) = items(HEAD, PID, ORC, OBR, overlay="item: {PatientName: {echo: PID-28.1}}")
    assert not item.usable
    assert item.problems == ("PatientName",)


def test_steps_with_one_number() -> None:
    """Each step of an order has a number of its own."""
    found = items(HEAD, PID, ORC, OBR, PET, PET.replace("PETAE", "OTHER"))
    assert [described(one)[STEP_ID] for one in found] == ["S1", "S1-2"]


def test_an_overlay_replaces_single_attributes() -> None:
    found = order(
        overlay="item: {PatientComments: {first: [a, b]}}\n"
        "step: {ScheduledStationAETitle: {echo: ORC-1}}\n"
        "when: {$order.PatientSex: F}\n"
    )
    assert found["PatientComments"] == "a"
    assert found[f"{SPS}ScheduledStationAETitle"] == "NW"
    assert found["PatientName"] == "TESTER^TILDA"
    assert not items(HEAD, PID, ORC, OBR, overlay="when: {$order.PatientSex: M}")


def test_a_refused_code() -> None:
    rule = "{value: {echo: OBR-4.1}, codes: modality, unknown: refuse}"
    with pytest.raises(CodeRefused):
        items(HEAD, PID, ORC, OBR, overlay=f"step: {{Modality: {rule}}}")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("item: {PatientNam: x}", "PatientName"),
        ("item: {AccessionNumber: 12345678901234567}", "SH"),
        ("item: {PatientBirthDate: soon}", "DA"),
        ("step: {Modality: 'C/T'}", "CS"),
        ("step: {ScheduledStationAETitle: 12345678901234567}", "AE"),
        ("item: {PixelData: x}", "OB"),
        ("item: {PatientName: {ekho: PID-5}}", "echo"),
        ("item: {PatientName: {echo: PDI-5}}", "PID"),
        ("item: {PatientName: $order.PatientNam}", "PatientName"),
        ("step_status: {SC: PLANNED}", "SCHEDULED"),
        ("steps: ICP", "IPC"),
        ("steps: OBX", "are no steps; give IPC"),
        ("steps: ZIPC", "ZIPC"),
        ("item: {PatientName: [$order.PatientName, x]}", "VM 1"),
        ("step: {Modality: {first: [{echo: OBR-24}, ANGIOGRAPHY ROOM 2]}}", "CS"),
        ("item: {PatientBirthDate: {first: [{echo: PID-7}, unknown]}}", "DA"),
        ("item: {PatientID: {first: []}}", "one value"),
        ("item: {PatientWeight: {metadata: []}}", "one key"),
        ("item: {Modality: CT}", "attribute of `step`"),
        ("item: {ScheduledProcedureStepSequence: []}", "`step`"),
        ("step: {ScheduledProcedureStepStatus: SCHEDULED}", "`step_status`"),
        ("item: {SpecificCharacterSet: ISO_IR 100}", "port"),
        ("item: {TransferSyntaxUID: 1.2.840.10008.1.2}", "files"),
        ("item: {OtherPatientIDsSequence: [{each: PID-3.1, PatientID: x}]}", "PID-3:"),
        ("item: {ReferencedStudySequence: [{each: nowhere, StudyID: a}]}", "place"),
    ],
)  # fmt: skip
def test_mistakes_have_their_place(text: str, named: str) -> None:
    (message,) = errors(f"include: worklist.yaml\n{text}")
    assert message.startswith("mine.yaml:2:")
    assert named in message


def test_required_rules() -> None:
    found = errors("kind: worklist\nitem: {PatientName: $order.PatientName}\nstep: {}\n")
    assert len(found) == 4
    assert all("no item could be used" in text for text in found)
    (emptied,) = errors("include: worklist.yaml\nitem: {PatientID: ''}\n")
    assert "no rule for PatientID" in emptied


def test_comparison() -> None:
    lines = (HEAD, PID, ORC, OBR, PET)
    before, after = items(*lines), items(*lines, overlay="item: {PatientComments: new}")
    (difference,) = compare_items(before, after)
    assert (difference.field, difference.after) == ("PatientComments", "new")


def test_a_readable_item() -> None:
    (item,) = items(HEAD, PID, ORC, OBR, PET)
    text = item_text(item)
    assert text.startswith("status: SCHEDULED\n")
    assert "\nPatientName: TESTER^TILDA\n" in text
