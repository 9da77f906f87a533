"""dicomSR in launch and update-dicomsr: extraction, precedence of clinicalInfo, refusals."""

import base64
from typing import Any

import pytest
from pydicom.dataset import Dataset

from bridge.engine.rules.text.document import parse
from bridge.engine.rules.text.plain_text import plain_text
from tests.bridge.engine.documents.test_measurement_groups import (
    LIVER,
    NODE,
    NODULE,
    group,
    measurement_report,
)
from tests.bridge.engine.documents.test_structured_report import (
    COMPREHENSIVE,
    CT_IMAGE,
    code,
    file_of,
    item,
    nested,
    number,
    report,
)
from tests.bridge.engine.http.engine_service import READER, Service, identity, user
from tests.conformance.engine.cases import Case, ok
from tests.conformance.engine.test_launch import stored

Files = list[dict[str, str]]


def files(*made: Dataset) -> Files:
    """Return reports as members of a request."""
    return [{"fileData": base64.b64encode(file_of(one)).decode()} for one in made]


def basic(text: str = "Nodule of 4 mm.", **attributes: Any) -> Dataset:
    return report(item("TEXT", "Finding", TextValue=text), **attributes)


ATTRIBUTES = {
    "PatientName": ("PatientName", "SR^NAMED"),
    "PatientBirthDate": ("PatientBirthDate", "19700102"),
    "PatientAge": ("PatientAge", "050Y"),
    "PatientSex": ("PatientSex", "F"),
    "StudyDate": ("StudyDate", "20250101"),
    "StudyTime": ("StudyTime", "101500"),
    "StudyDescription": ("StudyDescription", "CT Chest"),
    "StudyInstanceUID": ("StudyInstanceUID", "1.2.3"),
    "ReferringPhysician": ("ReferringPhysicianName", "REF^ERRER"),
    "BodyPartExamined": ("BodyPartExamined", "CHEST"),
}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("tag", ATTRIBUTES)
def test_clinical_info_is_extracted(service: Service, tag: str, lazy: bool) -> None:
    keyword, value = ATTRIBUTES[tag]
    sent = files(basic(**{keyword: value, "SOPInstanceUID": "1.2.9"}))
    for accession, given in (("A1", None), ("A2", "SR^NAMED" if tag == "PatientName" else "Given")):
        body = ok(
            service.launch(
                accession=accession,
                dicomSR=sent,
                tags={tag: given},
                lazyLaunch=lazy,
                userInfo=user(),
            )
        ).json()
        if lazy:
            ok(service.open(body["reportLink"]))
        assert stored(service, accession)[tag] == (given or value)


@pytest.mark.parametrize("lazy", [False, True])
def test_findings_are_rendered(service: Service, lazy: bool) -> None:
    """dicomSR: the text of a new report has text and measurements after the KeyFindings."""
    measured = report(
        item(
            "CONTAINER",
            "Measurements",
            ContentSequence=[number("Long axis", "12.5", "mm"), number("Volume", "3", "ml")],
        ),
        sop_class=COMPREHENSIVE,
        SOPInstanceUID="1.2.3.5",
    )
    body = ok(
        service.launch(
            dicomSR=files(basic(), measured), lazyLaunch=lazy, userInfo=user(),
            tags={"KeyFindings": "From the request."},
        )
    ).json()  # fmt: skip
    if lazy:
        ok(service.open(body["reportLink"]))
    content = Case(service).content("A1")
    for text in ("From the request.", "Nodule of 4 mm.", "Long axis", "12.5 mm", "3 ml"):
        assert text in content


def test_lazy_files_stay_sealed(service: Service) -> None:
    """lazyLaunch: the first opening creates the report; until then its data is sealed."""
    sent = files(basic("Unopened finding"))
    tags = {"KeyFindings": "Unopened key finding", "PatientName": "SEALED^NAME"}
    link = ok(service.launch(dicomSR=sent, tags=tags, lazyLaunch=True, userInfo=user())).json()[
        "reportLink"
    ]
    assert service.post("report/status", {"clinicalInfo": [identity()]}).status_code == 404
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []
    with service.database.read() as connection:
        tables = connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).scalars()
        dump = "".join(
            str(connection.exec_driver_sql(f"SELECT * FROM {table}").fetchall())  # noqa: S608  # names from the catalogue
            for table in list(tables)
        )
    for secret in ("Unopened", "SEALED", link.rpartition("=")[2]):
        assert secret not in dump
    ok(service.open(link))
    content = Case(service).content("A1")
    assert "Unopened finding" in content
    assert "Unopened key finding" in content


def test_japanese_reports(service: Service) -> None:
    """Files in ISO 2022 IR 87: names and text are read."""
    made = basic("左肺に結節。", SpecificCharacterSet=["", "ISO 2022 IR 87"])
    ok(service.launch(READER, dicomSR=files(made)))
    assert "左肺に結節。" in Case(service).content("A1")


@pytest.mark.parametrize(
    "data",
    [
        b"not dicom",
        b"\0" * 200,
        file_of(report(SOPClassUID=CT_IMAGE, Modality="CT")),
        file_of(basic())[:-7],
        file_of(report(nested(200))),
        b"\x00" * 128 + b"DICM",
    ],
)
@pytest.mark.parametrize("where", ["launch", "lazy", "update"])
def test_a_file_that_is_not_a_structured_report_is_refused(
    service: Service, data: bytes, where: str
) -> None:
    """dicomSR: all or nothing: 400 with the place of the file, for lazy launches too."""
    case = Case(service)
    bad = [*files(basic()), {"fileData": base64.b64encode(data).decode()}]
    if where == "update":
        case.draft("A1", "")
        response = case.post("update-dicomsr", "A1", dicomSR=bad)
        assert case.content("A1") == ""
    else:
        response = service.launch(dicomSR=bad, lazyLaunch=where == "lazy")
        assert service.get("worklist", SiteID="SITE1").json()["items"] == []
    assert response.status_code == 400, response.text
    assert response.json()["errors"][0]["pointer"] == "/dicomSR/1/fileData"


@pytest.mark.parametrize("data", ["", "no base64", "data:application/dicom;base64,AAAA", "AAAA"])
def test_an_error_names_the_bad_file(service: Service, data: str) -> None:
    """dicomSR: the text of the error contains the index of the file."""
    sent = [*files(basic()), {"fileData": data}]
    assert service.launch(dicomSR=sent).json()["detail"].startswith("dicomSR[1]: ")


def test_invalid_file_objects_are_refused(service: Service) -> None:
    """dicomSR: a list of objects with fileData, a base64 string."""
    Case(service).draft("A1", "")
    for entry in (None, "x", {}, {"fileData": None}, {"fileData": 5}, {"fileData": ""},
                  {"fileData": "=="}, {"filedata": "AAAA"}):  # fmt: skip
        assert service.launch(dicomSR=[entry]).status_code == 400, entry
        assert Case(service).post("update-dicomsr", "A1", dicomSR=[entry]).status_code == 400


@pytest.mark.parametrize(("mode", "kept"), [(None, "New"), ("replace", "New"), ("append", "both")])
def test_update_modes(service: Service, mode: str | None, kept: str) -> None:
    """update-dicomsr: replace (default) replaces the existing files; append adds files."""
    case = Case(service)
    ok(service.launch(READER, dicomSR=files(basic("Old finding."))))
    more = {"mode": mode} if mode else {}
    sent = files(basic("New finding.", SOPInstanceUID="1.2.3.9"))
    for same in (sent * 2, sent):
        response = case.post("update-dicomsr", "A1", dicomSR=same, **more)
        assert (response.status_code, response.content) == (200, b"")
    assert ("Old finding." in case.content("A1")) == (kept == "both")
    assert case.content("A1").count("New finding.") == 1


@pytest.mark.parametrize("mode", ["REPLACE", "", "both", 1, {}, []])
def test_invalid_modes_are_refused(service: Service, mode: Any) -> None:
    """update-dicomsr: mode is replace or append."""
    case = Case(service)
    case.draft("A1", "")
    response = case.post("update-dicomsr", "A1", dicomSR=files(basic()), mode=mode)
    assert response.status_code == 400


def test_an_empty_update_is_refused(service: Service) -> None:
    """update-dicomsr: dicomSR is required and not empty."""
    case = Case(service)
    case.draft("A1", "")
    empty: tuple[dict[str, Any], ...] = ({"dicomSR": []}, {}, {"dicomSR": None})
    for sent in empty:
        assert case.post("update-dicomsr", "A1", **sent).status_code == 400


def test_a_file_does_not_overwrite_edited_text(service: Service) -> None:
    """update-dicomsr: the file is added, and its text is not used."""
    case = Case(service)
    case.draft("A1", "")
    page = case.page("A1")
    version = ok(page("report")).json()["version"]
    ok(page("save", {"version": version, "text": "Dictated."}))
    ok(case.post("update-dicomsr", "A1", dicomSR=files(basic())))
    assert case.content("A1") == "Dictated."


def test_a_later_file_does_not_change_a_preliminary_read(service: Service) -> None:
    """update-dicomsr: also if no user has edited the text."""
    case = Case(service)
    ok(service.launch(READER, dicomSR=files(basic("Read."))))
    ok(case.post("prelim", "A1", prelimGroup="Night", prelimTag="Resident"))
    read = case.content("A1")
    ok(case.post("update-dicomsr", "A1", dicomSR=files(basic("Later.", SOPInstanceUID="1.2.4"))))
    assert case.content("A1") == read == "Finding: Read."


def test_a_too_long_identifier_in_a_file_is_refused(service: Service) -> None:
    """dicomSR: the limits of the request apply to values of a file."""
    body: dict[str, Any] = {
        "clinicalInfo": {"SiteID": "SITE1", "Accession": "A1"},
        "reportingApp": {},
        "response": {"type": "link"},
    }
    body["dicomSR"] = files(basic(PatientID="9" * 3000))
    response = service.post("report/launch/clinical", body)
    assert (response.status_code, response.json()["code"]) == (400, "too_long")


def test_a_placeholder_in_a_file_is_refused(service: Service) -> None:
    """Authentication 8 applies to values of a file too."""
    body: dict[str, Any] = {
        "clinicalInfo": {"SiteID": "SITE1", "Accession": "A1"},
        "reportingApp": {},
        "response": {"type": "link"},
        "dicomSR": files(basic(PatientID="reader@site1.test")),
    }
    response = service.post("report/launch/clinical", body, READER)
    assert response.json()["code"] == "placeholder_identifier"


def test_hostile_text_is_text(service: Service) -> None:
    """SR text with markup, RTF and HL7 delimiters is kept as text and escaped in exports."""
    text = "<script>alert(1)</script> {\\rtf1 \\bin9} |^~\\&"
    case = Case(service)
    ok(service.launch(READER, dicomSR=files(basic(text))))
    assert text in case.content("A1")
    page = ok(case.post("export/html", "A1")).json()["html"]
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    rtf = ok(case.post("export/rtf", "A1")).content
    assert b"\\bin9" not in rtf


def test_a_verified_observer(service: Service) -> None:
    """dicomSR: the verifying physician becomes the reporting physician."""
    observer = Dataset()
    observer.VerifyingObserverName = "READ^ER"
    observer.VerifyingOrganization = "Somewhere"
    observer.VerificationDateTime = "20250101120000"
    observer.VerifyingObserverIdentificationCodeSequence = [code("READ")]
    ok(service.launch(dicomSR=files(basic(VerifyingObserverSequence=[observer]))))
    assert stored(service)["ReportingPhysician"] == "READ^ER"


def test_a_name_in_a_file_does_not_change_the_patient_name(service: Service) -> None:
    """ForceUpdatePatientName true: PatientName must be in clinicalInfo."""
    ok(service.launch(tags={"PatientName": "DOE^JANE"}))
    sent = files(basic(PatientName="ROE^JANE"))
    response = service.launch(accession="A2", dicomSR=sent, forceUpdatePatientName=True)
    assert (response.status_code, response.json()["code"]) == (400, "missing_tag")
    assert stored(service)["PatientName"] == "DOE^JANE"


@pytest.mark.parametrize("way", ["launch", "lazy", "update", "map"])
def test_measurement_groups_reach_one_section_each(service: Service, way: str) -> None:
    """The values of a lesion stay with its name and site, on every way into a template."""
    case = Case(service)
    outline = "Findings:\nLungs:\nClear.\nLymph nodes:\nNormal.\nLiver:\nNormal.\nImpression:\n"
    template = {"name": "CT", "text": outline}
    ok(service.call("PUT", "/api/admin/sites/SITE1/templates/7", json=template))
    sent = files(
        measurement_report(group("Nodule 1", *NODULE), group("Node. A", *NODE), group("L", *LIVER))
    )
    app: dict[str, Any] = {"reportingApp": {"ApplyTemplate": 7}, "userInfo": user()}
    if way in ("launch", "lazy"):
        page = service.page(ok(service.launch(dicomSR=sent, lazyLaunch=way == "lazy", **app)))
        text = case.content("A1")
    elif way == "update":
        ok(service.launch(**app))
        ok(case.post("update-dicomsr", "A1", dicomSR=sent))
        text = case.content("A1")
    else:
        page = service.page(ok(service.launch(dicomSR=sent, userInfo=user())))
        found = page("templates/7/map", {"findings": case.content("A1")}).json()["document"]
        text = plain_text(parse(found))

    assert text.splitlines() == [
        "Findings",
        "Lungs",
        "Nodule 1 (Right upper lobe of lung), 8.2 \u00d7 6.1 mm (Long Axis \u00d7 Short Axis).",
        "Lymph nodes",
        "Node. A (Lymph node, Mediastinum), Short Axis 11 mm.",
        "Liver",
        "L (Liver), Volume 3.4 cm\u00b3 (Mean).",
        "Impression",
    ]
