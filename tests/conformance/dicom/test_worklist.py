"""The modality worklist (PS3.4 annex K), asked by dcmtk and pynetdicom."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pydicom import Dataset, dcmread
from pydicom.dataset import FileMetaDataset
from pydicom.uid import UID, ExplicitVRBigEndian, ImplicitVRLittleEndian
from pynetdicom import AE, evt
from pynetdicom.dsutils import decode
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # made at run time
    ModalityWorklistInformationFind,
)

from bridge.dicom.encoding import read_query
from bridge.dicom.matching import BadKey
from bridge.store.database import Database
from bridge.store.records.scheduled_steps import StepStatus
from tests.bridge.dicom.worklist_items import (
    HONG,
    JEROME,
    WANG,
    YAMADA,
    element,
    insert,
    make_item,
)
from tests.conformance.dicom.port import TITLE, Port, dcmtk, dump, echoscu, findscu, ids
from tests.programs import DCMTK

Serve = Callable[..., Port]
ID, NAME, ACCESSION = "(0010,0020) LO", "(0010,0010) PN", "(0008,0050) SH"
pytestmark = pytest.mark.needs(DCMTK)


def ask(
    port: Port, query: Dataset, *, calling: str = "CT1", syntax: str = ImplicitVRLittleEndian
) -> tuple[list[Dataset], list[Dataset]]:
    """Ask with pynetdicom; return the answers and all statuses."""
    entity = AE(calling)
    entity.add_requested_context(ModalityWorklistInformationFind, syntax)
    association = entity.associate("127.0.0.1", port.number, ae_title=TITLE)
    assert association.is_established
    found = list(association.send_c_find(query, ModalityWorklistInformationFind))
    association.release()
    return [answer for _, answer in found if answer], [status for status, _ in found]


def query_of(**keys: Any) -> Dataset:
    query = Dataset()
    query.PatientID = ""
    for keyword, value in keys.items():
        setattr(query, keyword, value)
    return query


def test_an_echo(serve: Serve) -> None:
    """C-ECHO succeeds for each peer; implementation and titles are ours."""
    port = serve()
    assert "Received Echo Response (Success)" in echoscu(port.number, "-v")
    assert (
        port.count("bridge_dicom_requests_total", peer="CT1", request="C-ECHO", status="0000") == 1
    )
    assert "Their Implementation Version Name: REPORT_BRIDGE" in echoscu(port.number, "-d")


def test_an_answer(serve: Serve, steps: Database) -> None:
    """An answer has exactly the attributes that the query has, without values where none are."""
    insert(steps, make_item(1, T00101030=element("DS", 70.5)))
    query = dump(
        *(ID, "(0010,1030) DS", "(0038,0300) LO", "(0020,000d) UI"),
        "(0032,1064) SQ\n(fffe,e000) -\n(0008,0100) SH\n(fffe,e00d) -\n(fffe,e0dd) -",
        step=("(0040,0001) AE", "(0040,0002) DA", "(0040,0010) SH"),
    )
    (answer,), output = findscu(serve().number, query)
    assert {found.keyword for found in answer} == {
        *("PatientID", "PatientWeight", "CurrentPatientLocation", "StudyInstanceUID"),
        *("RequestedProcedureCodeSequence", "ScheduledProcedureStepSequence"),
    }
    assert (answer.PatientID, answer.PatientWeight, answer.StudyInstanceUID) == (
        "P1",
        70.5,
        "2.25.1",
    )
    assert answer.CurrentPatientLocation in ("", None)
    assert [code.CodeValue for code in answer.RequestedProcedureCodeSequence] == ["CTHEAD"]
    (step,) = answer.ScheduledProcedureStepSequence
    assert (step.ScheduledStationAETitle, step.ScheduledProcedureStepStartDate) == (
        "CT1",
        "20261130",
    )
    assert step.ScheduledStationName in ("", None)
    assert "Find Response: 1 (Pending)" in output


NAMES = [
    ("ISO_IR 192", YAMADA, "山田*"),
    ("ISO_IR 192", HONG, "HONG*"),
    ("ISO_IR 192", JEROME, "buc^jerome"),
    (r"\ISO 2022 IR 87", YAMADA, "*"),
    (r"\ISO 2022 IR 149", HONG, "*"),
    ("GB18030", WANG, "*"),
    ("GBK", WANG, "*"),
    ("ISO_IR 100", JEROME, "*"),
]
DCMTK_NAMES = [
    (r"\ISO 2022 IR 149", HONG),
    (r"\ISO 2022 IR 58", WANG),
    ("GB18030", WANG),
    ("ISO_IR 100", JEROME),
]
"""Names in character sets that dcmtk converts with the C library's iconv."""


@pytest.mark.parametrize(("charset", "name", "key"), NAMES)
def test_names(serve: Serve, steps: Database, charset: str, name: dict[str, str], key: str) -> None:
    """Names come in the character set of the query, in all their groups; dcmtk prints them."""
    insert(steps, make_item(1, name=name), make_item(2, name={"Alphabetic": "Other^Name"}))
    query = dump(f"(0008,0005) CS [{charset}]", f"{NAME} [{key}]", ID)
    answers, output = findscu(serve().number, query)
    answer = next(found for found in answers if found.PatientID == "P1")
    assert answer.SpecificCharacterSet in (charset, charset.split("\\"))
    assert str(answer.PatientName) == "=".join(name.values())
    if key != "*":
        assert ids(answers) == ["P1"]
    if charset == "ISO_IR 192":
        assert f"[{'='.join(name.values())}]" in output


@pytest.mark.parametrize(("charset", "name"), DCMTK_NAMES)
def test_dcmtk_converts_names(
    serve: Serve, steps: Database, tmp_path: Path, charset: str, name: dict[str, str]
) -> None:
    """The programs of dcmtk read the code extensions of the answers."""
    insert(steps, make_item(1, name=name))
    query = dump(f"(0008,0005) CS [{charset}]", NAME, ID)
    (answer,), _output = findscu(serve().number, query)
    answer.save_as(tmp_path / "answer.dcm", enforce_file_format=True)
    assert f"[{'='.join(name.values())}]" in dcmtk("dcmdump", "+U8", str(tmp_path / "answer.dcm"))


def test_the_character_set_of_a_peer(serve: Serve, steps: Database) -> None:
    """A peer's own character set is used for all answers; what it lacks is replaced."""
    insert(steps, make_item(1, name=YAMADA), make_item(2, name=JEROME))
    port = serve({"ae_title": "CT1", "charset": "ISO_IR 100"})
    answers, _ = findscu(port.number, dump("(0008,0005) CS [ISO_IR 192]", NAME, ID))
    assert [found.SpecificCharacterSet for found in answers] == ["ISO_IR 100"] * 2
    names = {found.PatientID: str(found.PatientName) for found in answers}
    assert names == {"P1": "Yamada^Tarou=??^??=???^???", "P2": "Buc^Jérôme"}


def test_a_query_without_a_character_set(serve: Serve, steps: Database) -> None:
    """Its letters are read in the character set of the peer, if it has one."""
    insert(steps, make_item(1), make_item(2, name=JEROME))
    port = serve({"ae_title": "CT1", "charset": "ISO_IR 100"})
    for empty in (b"", b"\x08\0\x05\0\0\0\0\0"):
        (answer,), _ = ask_raw(port, empty + b"\x10\0\x10\0\x08\0\0\0Buc^J\xe9r*")
        assert str(answer.PatientName) == "Buc^Jérôme"


@pytest.mark.parametrize(
    ("element", "tag"),
    [
        (b"\x10\0\x20\0\x10\0\0\0P1", "00100020"),
        (
            b"\x40\0\0\x01\x12\0\0\0\xfe\xff\0\xe0\x0a\0\0\0\x08\0\x60\0\x0a\0\0\0CT",
            "00080060",
        ),
    ],
    ids=["a value", "a value in an item"],
)
def test_a_truncated_query(element: bytes, tag: str) -> None:
    """A key whose value is cut is refused: it would restrict nothing, or something else."""
    with pytest.raises(BadKey) as raised:
        read_query(decode(BytesIO(element), is_implicit_vr=True, is_little_endian=True))
    assert raised.value.tag == tag


def test_the_smallest_character_set(serve: Serve, steps: Database) -> None:
    """Without a character set in the query an answer has the smallest that suffices."""
    insert(steps, make_item(1), make_item(2, name=JEROME), make_item(3, name=YAMADA))
    answers, _ = findscu(serve().number, dump(NAME, ID))
    sets = {found.PatientID: found.get("SpecificCharacterSet") for found in answers}
    assert sets == {"P1": None, "P2": "ISO_IR 100", "P3": "ISO_IR 192"}


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("-xi", "Little Endian Implicit"),
        ("-xe", "Little Endian Explicit"),
        ("-xb", "Little Endian Explicit"),
    ],
)
def test_transfer_syntaxes(serve: Serve, steps: Database, option: str, name: str) -> None:
    """Answers have the transfer syntax of the association."""
    insert(steps, make_item(1, name=YAMADA, T00101030=element("DS", 70.5)))
    query = dump(
        "(0008,0005) CS [ISO_IR 192]", NAME, ID, "(0010,1030) DS", step=("(0040,0002) DA",)
    )
    (answer,), output = findscu(serve().number, query, option)
    assert f"Used TransferSyntax: {name}" in output
    assert str(answer.PatientName) == "=".join(YAMADA.values())
    assert answer.ScheduledProcedureStepSequence[0].ScheduledProcedureStepStartDate == "20261130"


def test_big_endian(serve: Serve, steps: Database) -> None:
    """Big endian is answered in big endian."""
    insert(steps, make_item(1, T002811FF=element("US", 258)))
    (answer,), _ = ask(serve(), query_of(PatientName=""), syntax=ExplicitVRBigEndian)
    assert (answer.PatientID, str(answer.PatientName)) == ("P1", "Doe^Jane")


DAYS = [("20261129", "100000"), ("20261130", "080000"), ("20261130", "200000"), ("20261201", "")]


@pytest.mark.parametrize(
    ("date", "time", "found"),
    [
        ("", "", ["P1", "P2", "P3", "P4"]),
        ("20261130", "", ["P2", "P3"]),
        ("20261130-", "", ["P2", "P3", "P4"]),
        ("-20261130", "", ["P1", "P2", "P3"]),
        ("20261129-20261130", "", ["P1", "P2", "P3"]),
        ("20261130", "070000-120000", ["P2"]),
        ("20261129-20261130", "110000-120000", ["P2"]),
        ("20261129-20261130", "0900-0700", ["P1"]),
        ("*", "*", ["P1", "P2", "P3", "P4"]),
        ("20261130", "*", ["P2", "P3"]),
    ],
)
def test_ranges(serve: Serve, steps: Database, date: str, time: str, found: list[str]) -> None:
    """Dates and times match as ranges; the answers come by start."""
    insert(steps, *(make_item(at + 1, day=day, time=hour) for at, (day, hour) in enumerate(DAYS)))
    step = (f"(0040,0002) DA [{date}]", f"(0040,0003) TM [{time}]")
    answers, _ = findscu(serve().number, dump(ID, step=step))
    assert ids(answers) == found


@pytest.mark.parametrize(
    ("keys", "step", "found"),
    [
        ((f"{ID} [P2]",), ("(0008,0060) CS",), ["P2"]),
        ((f"{ID} [P?]",), ("(0008,0060) CS [MR]",), ["P2"]),
        ((f"{ACCESSION} [A1]", ID), ("(0008,0060) CS",), ["P1"]),
        ((ID, r"(0020,000d) UI [2.25.1\2.25.3]"), ("(0008,0060) CS",), ["P1", "P3"]),
        ((ID, "(0020,000d) UI [*]"), ("(0008,0060) CS",), ["P1", "P2", "P3"]),
        ((ID,), ("(0040,0001) AE [MR1]",), ["P2"]),
        ((ID,), ("(0040,0011) SH [ROOM*]",), ["P1", "P2"]),
        ((ID,), ("(0040,0009) SH [S3]",), ["P3"]),
        ((ID,), (r"(0008,0060) CS [CT\MR]",), ["P1", "P2"]),
        ((ID, "(0008,0060) CS [MR]"), ("(0008,0060) CS",), ["P1", "P2", "P3"]),
    ],
)
def test_keys(
    serve: Serve, steps: Database, keys: tuple[str, ...], step: tuple[str, ...], found: list[str]
) -> None:
    """Keys of order and step, single, as lists and as wildcards; one at a wrong place is none."""
    insert(
        steps,
        make_item(1),
        make_item(2, modality="MR", station="MR1", location="ROOM 4"),
        make_item(3, modality="US", station=None, location=None),
    )
    answers, _ = findscu(serve().number, dump(*keys, step=step))
    assert sorted(ids(answers)) == found


def test_a_step_without_a_station(serve: Serve, steps: Database) -> None:
    """It is for each station: a modality that asks for its own title gets it with this title."""
    insert(steps, make_item(1, station=None), make_item(2, station="CT2"))
    port = serve({"ae_title": "CT1"}, {"ae_title": "CT2"})
    for title, found in (("CT1", {"P1": "CT1"}), ("CT2", {"P1": "CT2", "P2": "CT2"})):
        query = dump(ID, step=(f"(0040,0001) AE [{title}]",))
        answers, _ = findscu(port.number, query, calling=title)
        assert {
            answer.PatientID: answer.ScheduledProcedureStepSequence[0].ScheduledStationAETitle
            for answer in answers
        } == found
    assert findscu(port.number, dump(ID, step=("(0040,0001) AE [CT3]",)))[0] == []
    any_station, _ = findscu(port.number, dump(ID, step=("(0040,0001) AE",)))
    assert sorted(ids(any_station)) == ["P1", "P2"]


def test_statuses_of_steps(serve: Serve, steps: Database) -> None:
    """Finished steps are hidden until a query asks for their status."""
    for number, status in enumerate(StepStatus):
        insert(steps, make_item(number, status=status.value))
    port = serve().number
    shown, _ = findscu(port, dump(ID, step=("(0040,0020) CS",)))
    found = [step.ScheduledProcedureStepSequence[0].ScheduledProcedureStepStatus for step in shown]
    assert found == ["SCHEDULED", "ARRIVED", "READY", "STARTED"]
    completed, _ = findscu(port, dump(ID, step=("(0040,0020) CS [COMPLETED]",)))
    assert len(completed) == 1
    several, _ = findscu(port, dump(ID, step=("(0040,0020) CS [C*]",)))
    assert len(several) == 2


def test_what_a_peer_sees(serve: Serve, steps: Database) -> None:
    """Sites, modalities, stations and locations of a peer hide all other steps."""
    insert(
        steps,
        make_item(1),
        make_item(2, modality="MR", station="MR1"),
        make_item(3, station="CT2", location="ROOM 9"),
        make_item(4, station=None, location=None),
        sites=("SITE1", "SITE1", "SITE1", "SITE2"),
    )
    port = serve(
        {"ae_title": "ALL"},
        {"ae_title": "ONE", "sites": ["SITE1"]},
        {"ae_title": "CT", "modalities": ["CT"]},
        {"ae_title": "STATION", "stations": ["CT1", "MR1"]},
        {"ae_title": "ROOM", "locations": ["ROOM 9"]},
    ).number
    seen = {
        title: sorted(ids(findscu(port, dump(ID), calling=title)[0]))
        for title in ("ALL", "ONE", "CT", "STATION", "ROOM")
    }
    assert seen == {
        "ALL": ["P1", "P2", "P3", "P4"],
        "ONE": ["P1", "P2", "P3"],
        "CT": ["P1", "P3", "P4"],
        "STATION": ["P1", "P2", "P4"],
        "ROOM": ["P3", "P4"],
    }
    hidden, _ = findscu(port, dump(ID, step=("(0008,0060) CS [MR]",)), calling="CT")
    assert hidden == []


def test_unknown_keys(serve: Serve, steps: Database) -> None:
    """A key that the worklist does not have is empty in the answer, whose status says so."""
    insert(steps, make_item(1))
    port = serve()
    query = query_of(QueryRetrieveLevel="STUDY")
    query.add_new(0x00091001, "LO", "PRIVATE")
    (answer,), statuses = ask(port, query)
    assert [status.Status for status in statuses] == [0xFF01, 0x0000]
    assert answer.QueryRetrieveLevel in ("", None)
    (_,), statuses = ask(port, query_of(AccessionNumber=""))
    assert [status.Status for status in statuses] == [0xFF00, 0x0000]


@pytest.mark.parametrize(
    ("keyword", "value", "tag"),
    [
        ("StudyInstanceUID", "1.2.*", 0x0020000D),
        ("PatientBirthDate", "1970-01-01", 0x00100030),
        ("SpecificCharacterSet", "latin1", 0x00080005),
    ],
)
def test_wrong_keys(serve: Serve, steps: Database, keyword: str, value: str, tag: int) -> None:
    """A value that is not possible ends with A900, its attribute and a reason without the value."""
    insert(steps, make_item(1))
    query = query_of(PatientName="Jérôme" if keyword == "SpecificCharacterSet" else "")
    query.SpecificCharacterSet = "ISO_IR 100"
    if keyword == "SpecificCharacterSet":
        answers, (status,) = ask_raw(serve(), b"\x08\x00\x05\x00\x06\0\0\0latin1" + NAME_BYTES)
    else:
        setattr(query, keyword, value)
        answers, (status,) = ask(serve(), query)
    assert answers == []
    assert status.Status == 0xA900
    assert status.OffendingElement == tag
    assert value not in status.ErrorComment


NAME_BYTES = b"\x10\x00\x10\x00\x06\0\0\0J\xe9r\xf4me"


def ask_raw(port: Port, identifier: bytes) -> tuple[list[Dataset], list[Dataset]]:
    """Send an identifier as it is, in implicit little endian."""
    return ask(port, decode(BytesIO(identifier), is_implicit_vr=True, is_little_endian=True))


def test_no_keys(serve: Serve, steps: Database) -> None:
    """A query without keys is refused: its answers would have no attributes."""
    insert(steps, make_item(1))
    query = Dataset()
    query.SpecificCharacterSet = "ISO_IR 100"  # pynetdicom cannot send an empty identifier
    entity = AE("CT1")
    entity.add_requested_context(ModalityWorklistInformationFind)
    association = entity.associate("127.0.0.1", serve().number, ae_title=TITLE)
    ((status, _),) = association.send_c_find(query, ModalityWorklistInformationFind)
    assert (status.Status, status.ErrorComment) == (0xA900, "the identifier has no keys")
    association.release()


def test_two_items_in_a_key(serve: Serve, steps: Database) -> None:
    """A sequence key with two items is refused."""
    query = query_of()
    query.ScheduledProcedureStepSequence = [Dataset(), Dataset()]
    for item in query.ScheduledProcedureStepSequence:
        item.Modality = "CT"
    _, (status,) = ask(serve(), query)
    assert (status.Status, status.OffendingElement) == (0xA900, 0x00400100)


def test_a_limit(serve: Serve, steps: Database) -> None:
    """A peer gets the first steps up to its limit, or a refusal, as its settings say."""
    insert(steps, *(make_item(number, time=f"{number:02}0000") for number in range(1, 9)))
    port = serve(
        {"ae_title": "FIRST", "max_answers": 3},
        {"ae_title": "NONE", "max_answers": 3, "on_limit": "refuse"},
        {"ae_title": "ALL", "max_answers": 8, "on_limit": "refuse"},
    )
    first, statuses = ask(port, query_of(), calling="FIRST")
    assert (ids(first), statuses[-1].Status) == (["P1", "P2", "P3"], 0x0000)
    none, (status,) = ask(port, query_of(), calling="NONE")
    assert (none, status.Status) == ([], 0xA700)
    assert "3" in status.ErrorComment
    assert len(ask(port, query_of(), calling="ALL")[0]) == 8


def test_a_cancel(serve: Serve, steps: Database) -> None:
    """C-CANCEL ends a query within a batch."""
    insert(steps, *(make_item(number) for number in range(400)))
    answers, output = findscu(serve().number, dump(ID), "--cancel", "5")
    assert "Cancel" in output
    assert 5 <= len(answers) < 300


def test_a_small_pdu(serve: Serve, steps: Database) -> None:
    """An answer that is larger than the peer's PDU comes in fragments."""
    long = element("LT", "x" * 10_000)
    insert(steps, make_item(1, T00104000=long))
    (answer,), _ = findscu(serve().number, dump(ID, "(0010,4000) LT"), "-pdu", "4096")
    assert answer.PatientComments == "x" * 10_000


def test_a_query_while_steps_change(serve: Serve, steps: Database) -> None:
    """A step is found as soon as it is stored."""
    port = serve().number
    assert findscu(port, dump(ID))[0] == []
    insert(steps, make_item(1))
    assert ids(findscu(port, dump(ID))[0]) == ["P1"]
    insert(steps, make_item(1, status="CANCELLED"))
    assert findscu(port, dump(ID))[0] == []


def test_no_database(serve: Serve, steps: Database) -> None:
    """If the database does not answer, the query ends with C001."""
    port = serve()
    with steps.write() as connection:
        connection.exec_driver_sql("ALTER TABLE scheduled_step RENAME TO elsewhere")
    _, (status,) = ask(port, query_of())
    assert status.Status == 0xC001


def test_a_wrong_value_in_a_step(serve: Serve, steps: Database) -> None:
    """A value that cannot be written does not hide its step."""
    insert(
        steps,
        make_item(1, T00280010=element("US", "many"), T00100030=element("DA", "Ä")),
        make_item(2),
    )
    query = query_of(PatientBirthDate="", PatientSize="")
    query.Rows = None
    answers, _ = ask(serve(), query)
    assert sorted(ids(answers)) == ["P1", "P2"]


def test_the_program_of_pynetdicom(serve: Serve, steps: Database, tmp_path: Path) -> None:
    """`python -m pynetdicom findscu -w` gets the steps."""
    insert(steps, make_item(1, name=YAMADA), make_item(2, modality="MR"))
    query = query_of(PatientName="")
    query.ScheduledProcedureStepSequence = [Dataset()]
    query.ScheduledProcedureStepSequence[0].Modality = "CT"
    query.file_meta = FileMetaDataset()
    query.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
    query.file_meta.MediaStorageSOPClassUID = ModalityWorklistInformationFind
    query.file_meta.MediaStorageSOPInstanceUID = UID("1.2.3")
    query.save_as(tmp_path / "query.dcm", enforce_file_format=True)
    command = [sys.executable, "-m", "pynetdicom", "findscu", "-W", "-aet", "CT1", "-aec", TITLE]
    options = ["-w", "-f", str(tmp_path / "query.dcm"), "127.0.0.1", str(serve().number)]
    done = subprocess.run(
        [*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("rsp*.dcm")
    assert str(dcmread(file, force=True).PatientID) == "P1"


def test_many_modalities_at_once(serve: Serve, steps: Database) -> None:
    """Forty modalities that ask at the same time, each as fast as it can, get all their steps."""
    insert(steps, *(make_item(number) for number in range(60)))
    port = serve(max_associations_per_source=50)
    pdus = recorded_query(port)

    async def ask_all() -> list[tuple[int, int]]:
        return await asyncio.gather(*(replay(port, pdus) for _ in range(40)))

    assert asyncio.run(ask_all()) == [(0, 60)] * 40


def recorded_query(port: Port) -> list[bytes]:
    """Ask with pynetdicom; return the PDUs that it sent."""
    found: list[bytes] = []

    def note(event: Any) -> None:
        found.append(bytes(event.data))

    entity = AE("CT1")
    entity.add_requested_context(ModalityWorklistInformationFind, ImplicitVRLittleEndian)
    association = entity.associate(
        "127.0.0.1", port.number, ae_title=TITLE, evt_handlers=[(evt.EVT_DATA_SENT, note)]
    )
    list(association.send_c_find(query_of(), ModalityWorklistInformationFind))
    association.release()
    return found


async def replay(port: Port, pdus: list[bytes]) -> tuple[int, int]:
    """Send PDUs without a pause after the acceptance; return the final status and the answers."""
    request, *messages, release = pdus
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    writer.write(request)
    count = -1  # the final response is no answer
    status = 0xFF00
    while status in (0xFF00, 0xFF01):
        head = await reader.readexactly(6)
        body = await reader.readexactly(int.from_bytes(head[2:], "big"))
        if head[0] == 2:
            writer.write(b"".join(messages))
        assert head[0] in (2, 4), head
        at = body.find(b"\x00\x00\x00\x09\x02\x00\x00\x00")
        if head[0] == 4 and body[5] & 1:
            status = int.from_bytes(body[at + 8 : at + 10], "little")
            count += 1
    writer.write(release)
    await reader.read()
    writer.close()
    return status, count
