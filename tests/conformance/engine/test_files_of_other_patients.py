"""A structured report of another patient is set aside, with a warning in the response."""

from typing import Any

import pytest
from pydicom.dataset import Dataset

from tests.bridge.engine.http.engine_service import READER, Page, Service, identity, user
from tests.conformance.engine.cases import Case, ok
from tests.conformance.engine.test_dicom_sr import Files, basic, files
from tests.conformance.engine.test_launch import stored

TAGS = {"PatientName": "DOE^JANE^QUINN", "PatientBirthDate": "19700102"}
OWN = {"PatientID": "P1", "PatientName": "Doe^Jane", "PatientBirthDate": "19700102"}
ROE, BORN = {"PatientName": "ROE^RICHARD"}, {"PatientBirthDate": "19710203"}
OTHER = [
    ({"PatientID": "P2"}, ["PatientMRN"]),
    ({"PatientID": "", **ROE}, ["PatientName"]),
    ({"PatientID": "", **BORN}, ["PatientBirthDate"]),
    ({**ROE, **BORN}, ["PatientName", "PatientBirthDate"]),
]
SAME = [(ROE, ["PatientName"]), (BORN, ["PatientBirthDate"])]
WARNING = "dicom_sr_other_patient"
WAYS: dict[str, dict[str, Any]] = {
    "eager": {},
    "lazy": {"lazyLaunch": True},
    "register": {"lazyLaunch": True, "registerOrder": True},
}


def shown(page: Page) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = page("files").json()["files"]
    return listed


@pytest.mark.parametrize("way", ["eager", "lazy", "register", "known", "update"])
@pytest.mark.parametrize(("attributes", "tags"), OTHER)
def test_another_patients_file_is_set_aside(
    service: Service, attributes: dict[str, str], tags: list[str], way: str
) -> None:
    """The request succeeds with a warning; text and tags of the file are not used."""
    case = Case(service)
    sent = files(
        basic("Mass of 9 cm.", **{**OWN, **attributes}, StudyDescription="Wrong study"),
        basic("Nodule of 4 mm.", **OWN, SOPInstanceUID="1.2.3.8"),
    )
    if way == "update":
        ok(service.launch(READER, tags=TAGS))
        response = ok(case.post("update-dicomsr", "A1", dicomSR=sent))
    elif way == "known":
        case.order("A1", **TAGS)
        response = ok(service.launch(READER, dicomSR=sent))
    else:
        more: dict[str, Any] = {"lazyLaunch": way != "eager", "registerOrder": way == "register"}
        response = ok(service.launch(dicomSR=sent, tags=TAGS, userInfo=user(), **more))

    if way == "update":
        assert response.content == b""
        wanted = f'{WARNING};file=0;tags="{" ".join(tags)}"'
        assert response.headers["x-warnings"] == wanted
    else:
        assert WARNING in response.json()["warnings"]
        rejected = response.json()["filesSetAside"]
        assert [row["contradicts"] for row in rejected] == [tags]
    page = case.page("A1") if way != "lazy" else service.page(response)
    assert case.content("A1") == "Finding: Nodule of 4 mm."
    assert stored(service, "A1").get("StudyDescription", "") != "Wrong study"
    assert stored(service, "A1")["PatientName"] == TAGS["PatientName"]
    listed = [row for row in shown(page) if row["kind"] == "setAside"]
    assert [row["contradicts"] for row in listed] == [tags]
    assert "Mass" not in str(listed)
    assert [row["contradicts"] for row in page("report").json()["setAside"]] == [tags]


def events(service: Service, action: str) -> list[dict[str, Any]]:
    entries = service.get("admin/sites/SITE1/audit", action=action).json()["events"]
    return [entry["details"] for entry in entries]


@pytest.mark.parametrize("way", ["eager", "lazy", "register", "known", "update"])
@pytest.mark.parametrize(("attributes", "tags"), SAME)
def test_clinical_info_overrides_the_name_or_birth_date_of_a_file(
    service: Service, attributes: dict[str, str], tags: list[str], way: str
) -> None:
    """The file is used; response, feed, page and audit trail have a warning without values."""
    case = Case(service)
    sent = files(basic("Nodule of 4 mm.", **{**OWN, **attributes}, StudyDescription="CT Chest"))
    if way == "update":
        ok(service.launch(READER, tags=TAGS))
        response = ok(case.post("update-dicomsr", "A1", dicomSR=sent))
        assert response.content == b""
        assert response.headers["x-warnings"] == f'dicom_sr_overridden;file=0;tags="{tags[0]}"'
        changes = service.get("report/changes", after=0, limit=100).json()["changes"]
        updated = next(change for change in changes if change["event"] == "report_files_updated")
        assert updated["warnings"] == ["dicom_sr_overridden"]
        assert updated["filesOverridden"] == [{"sopInstanceUID": "1.2.3.4", "overridden": tags}]
    elif way == "known":
        case.order("A1", **TAGS)
        response = ok(service.launch(READER, dicomSR=sent))
    else:
        more: dict[str, Any] = {"lazyLaunch": way != "eager", "registerOrder": way == "register"}
        response = ok(service.launch(dicomSR=sent, tags=TAGS, userInfo=user(), **more))
    if way != "update":
        assert response.json()["warnings"] == ["dicom_sr_overridden"]
        rejected = response.json()["filesOverridden"]
        assert rejected == [{"sopInstanceUID": "1.2.3.4", "overridden": tags}]
        assert "filesSetAside" not in response.json()

    page = case.page("A1") if way != "lazy" else service.page(response)
    assert case.content("A1") == "Finding: Nodule of 4 mm."
    assert {**stored(service, "A1"), **TAGS} == stored(service, "A1")
    assert [row["kind"] for row in shown(page)] == ["dicomSR"]
    assert [row["overridden"] for row in page("report").json()["overridden"]] == [tags]
    (recorded,) = [
        event["warnings"]
        for event in events(service, "update-dicomsr" if way == "update" else "launch")
        if "warnings" in event
    ]
    assert recorded == [{"code": "dicom_sr_overridden", "file": 0, "tags": tags}]


def test_a_repeated_update_returns_the_same_warnings(service: Service) -> None:
    """The stored response of an Idempotency-Key has the header too."""
    ok(service.launch(READER, tags=TAGS))
    body = {"clinicalInfo": identity("A1"), "dicomSR": files(basic(**{**OWN, **ROE}))}
    key = {"Idempotency-Key": "k1"}

    first, again = (ok(service.post("report/update-dicomsr", body, headers=key)) for _ in range(2))

    assert first.headers["x-warnings"] == again.headers["x-warnings"]
    assert again.content == b""


def test_a_corrected_order_ends_the_notice(service: Service) -> None:
    """After the correction, the file that is sent again differs no longer."""
    case = Case(service)
    sent = files(basic(**{**OWN, **BORN}))
    ok(service.launch(READER, dicomSR=sent, tags=TAGS))
    assert case.page("A1")("report").json()["overridden"]
    ok(service.post("patient/update", {"SiteID": "SITE1", "PatientMRN": "P1", **BORN}))

    response = ok(case.post("update-dicomsr", "A1", dicomSR=sent, mode="append"))

    assert "x-warnings" not in response.headers
    assert case.page("A1")("report").json()["overridden"] == []


def test_a_file_without_identity_is_accepted(service: Service) -> None:
    """A missing value contradicts nothing."""
    response = ok(service.launch(READER, dicomSR=files(basic(PatientID="")), tags=TAGS)).json()

    assert response["warnings"] == []
    assert "filesSetAside" not in response
    assert Case(service).content("A1") == "Finding: Nodule of 4 mm."


def test_a_file_with_a_merged_identifier_is_accepted(service: Service) -> None:
    """The prior identifier belongs to the patient of the order."""
    ok(service.launch(READER, tags=TAGS))
    merge = {"SiteID": "SITE1", "PatientMRN": "P1", "PriorPatientMRN": "P0"}
    ok(service.post("patient/merge", merge))

    sent = files(basic(PatientID="P0", PatientName="DOE^JANE"))
    response = Case(service).post("update-dicomsr", "A1", dicomSR=sent)

    assert (response.status_code, response.content) == (200, b"")


def test_a_wrong_file_replaces_nothing(service: Service) -> None:
    """`replace` with only files of another patient keeps the existing files."""
    case = Case(service)
    ok(service.launch(READER, dicomSR=files(basic(**OWN)), tags=TAGS))
    wrong = files(basic("Mass.", PatientID="P9", SOPInstanceUID="1.2.3.9"))

    response = ok(case.post("update-dicomsr", "A1", dicomSR=wrong, mode="replace"))

    assert response.headers["x-warnings"].startswith(WARNING)
    assert case.content("A1") == "Finding: Nodule of 4 mm."


def test_a_corrected_order_accepts_the_file(service: Service) -> None:
    """After the correction of the order, the file is accepted when it is sent again."""
    case = Case(service)
    sent = files(basic(PatientID="", PatientBirthDate="19710203"))
    ok(service.launch(READER, dicomSR=sent, tags=TAGS))
    body = {"SiteID": "SITE1", "PatientMRN": "P1", "PatientBirthDate": "19710203"}
    ok(service.post("patient/update", body))

    response = case.post("update-dicomsr", "A1", dicomSR=sent, mode="append")

    assert (response.status_code, response.content) == (200, b"")
    assert case.content("A1") == "Finding: Nodule of 4 mm."
    assert [file["kind"] for file in shown(case.page("A1"))] == ["dicomSR"]


@pytest.mark.parametrize("way", ["launch", "update"])
def test_a_file_that_contradicts_a_corrected_order_is_removed(service: Service, way: str) -> None:
    """An accepted file is set aside with its text when it is sent again after the correction."""
    case = Case(service)
    sent = files(basic(PatientID="", PatientBirthDate="19710203"))
    tags = {"KeyFindings": "Own finding."}
    ok(service.launch(READER, dicomSR=sent, tags=tags))
    assert "Nodule" in case.content("A1")
    body = {"SiteID": "SITE1", "PatientMRN": "P1", "PatientBirthDate": "19700102"}
    ok(service.post("patient/update", body))

    if way == "update":
        response = ok(case.post("update-dicomsr", "A1", dicomSR=sent))
    else:
        response = ok(service.launch(READER, dicomSR=sent))

    if way == "launch":
        assert response.json()["filesSetAside"][0]["contradicts"] == ["PatientBirthDate"]
    assert case.content("A1") == "Own finding."
    assert [file["kind"] for file in shown(case.page("A1"))] == ["setAside"]


@pytest.mark.parametrize("findings", ["Own finding.", ""])
@pytest.mark.parametrize("way", ["register", "eager", "update"])
@pytest.mark.parametrize("state", ["draft", "unassigned"])
def test_a_withdrawn_file_leaves_no_text(
    service: Service, state: str, way: str, findings: str
) -> None:
    """A Draft, and a report that was unassigned with its text, lose the text of the file."""
    case = Case(service)
    sent = files(basic(PatientID="", PatientBirthDate="19710203"))
    ok(service.launch(READER, dicomSR=sent, tags={"KeyFindings": findings}))
    if state == "unassigned":
        ok(case.flat("unassign", "A1"))
    body = {"SiteID": "SITE1", "PatientMRN": "P1", "PatientBirthDate": "19700102"}
    ok(service.post("patient/update", body))

    if way == "update":
        ok(case.post("update-dicomsr", "A1", dicomSR=sent))
    else:
        ok(service.launch(dicomSR=sent, userInfo=user(), **WAYS[way]))

    assert case.content("A1") == findings
    report = case.page("A1")("report").json()
    assert (report["content"], "Nodule" in str(report["document"])) == (findings, False)


def test_a_file_that_is_set_aside_opens_no_order(service: Service) -> None:
    """A registered order that was never opened stays without text, and can be linked."""
    case = Case(service)
    register: dict[str, Any] = {**WAYS["register"], "userInfo": user()}
    sent = files(basic(PatientID="", PatientBirthDate="19710203"))
    ok(service.launch(dicomSR=sent, tags={"KeyFindings": "Own finding."}, **register))
    body = {"SiteID": "SITE1", "PatientMRN": "P1", "PatientBirthDate": "19700102"}
    ok(service.post("patient/update", body))

    ok(service.launch(dicomSR=sent, **register))

    assert case.record("A1")["hasContent"] is False
    assert [file["kind"] for file in shown(case.page("A1"))] == ["setAside"]
    assert case.content("A1") == "Own finding."


def test_two_files_that_contradict_each_other(service: Service) -> None:
    """If nothing else names the patient, the file with the PatientID of the order decides."""
    first = basic("Mass.", PatientID="", PatientName="ROE^RICHARD", SOPInstanceUID="1.2.3.9")
    response = ok(service.launch(READER, dicomSR=files(first, basic(**OWN)))).json()

    assert response["filesSetAside"] == [
        {"sopInstanceUID": "1.2.3.9", "contradicts": ["PatientName"]}
    ]
    assert Case(service).content("A1") == "Finding: Nodule of 4 mm."
    assert stored(service, "A1")["PatientName"] == "Doe^Jane"


def test_another_spelling_in_a_file_does_not_change_the_patient_name(service: Service) -> None:
    """A launch without a name is not refused for the spelling in a file."""
    ok(service.launch(READER, tags=TAGS))

    response = ok(service.launch(READER, accession="A2", dicomSR=files(basic(**OWN)))).json()

    assert response["warnings"] == []
    assert stored(service, "A2").get("PatientName", "") in ("", TAGS["PatientName"])


@pytest.mark.parametrize("register", [False, True])
def test_files_for_a_signed_report_are_ignored_with_a_warning(
    service: Service, register: bool
) -> None:
    case = Case(service)
    ok(service.launch(READER, dicomSR=files(basic(**OWN)), tags=TAGS))
    case.sign("A1", now=True)
    more = {"lazyLaunch": True, "registerOrder": True} if register else {"userInfo": user()}

    again = ok(service.launch(dicomSR=files(basic(**OWN)), **more)).json()
    new = files(basic("New.", **OWN, SOPInstanceUID="1.2.3.9"))
    response = ok(service.launch(dicomSR=new, **more)).json()

    assert "files_not_added" not in again["warnings"]
    assert "files_not_added" in response["warnings"]


ANOTHER = basic("Mass.", PatientID="P9", PatientName="ROE^RICHARD", AccessionNumber="77")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("missing", "given", "own"),
    [
        ("Accession", {"accession": ""}, []),
        ("Accession", {"accession": ""}, [basic(AccessionNumber="", SOPInstanceUID="1.2.3.9")]),
        ("PatientMRN", {"mrn": "", "tags": {"PatientName": "DOE^JANE"}}, []),
    ],
    ids=["accession", "accession-two-files", "mrn"],
)
def test_another_patients_file_does_not_identify_an_order(
    service: Service, missing: str, given: dict[str, Any], own: list[Dataset], way: str
) -> None:
    """An identity tag that only a set-aside file has is missing, and nothing is created."""
    response = service.launch(
        dicomSR=files(*own, ANOTHER), userInfo=user(), **{**WAYS[way], **given}
    )

    assert (response.status_code, response.json()["code"]) == (400, "missing_tag")
    assert response.json()["errors"][0]["pointer"] == f"/clinicalInfo/{missing}"
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


@pytest.mark.parametrize("way", [*WAYS, "update"])
@pytest.mark.parametrize("wrong_first", [True, False])
def test_one_instance_with_two_patients(service: Service, way: str, wrong_first: bool) -> None:
    """The file of the patient is accepted; the other one with its SOP instance is set aside."""
    case = Case(service)
    sent = files(basic("Mass.", PatientID="P9"), basic("Nodule of 4 mm.", **OWN))
    sent = sent if wrong_first else sent[::-1]

    if way == "update":
        case.order("A1", **TAGS)
        response = ok(case.post("update-dicomsr", "A1", dicomSR=sent))
    else:
        response = ok(service.launch(dicomSR=sent, tags=TAGS, userInfo=user(), **WAYS[way]))

    assert WARNING in (response.headers.get("x-warnings") or response.json()["warnings"])
    page = case.page("A1") if way != "lazy" else service.page(response)
    assert case.content("A1") == "Finding: Nodule of 4 mm."
    assert [row["kind"] for row in shown(page)] == ["setAside", "dicomSR"]

    ok(service.launch(READER, dicomSR=sent, tags=TAGS))
    assert sorted(row["kind"] for row in shown(page)) == ["dicomSR", "setAside"]


@pytest.mark.parametrize("way", [*WAYS, "again", "append"])
def test_two_versions_of_one_instance(service: Service, way: str) -> None:
    """If both belong to the patient, the first one is used; the other is kept, with a warning."""
    case = Case(service)
    first, second = (basic(f"Nodule of {size} mm.", **OWN) for size in (4, 5))
    if way in WAYS:
        sent = files(first, second)
        response = ok(service.launch(dicomSR=sent, tags=TAGS, userInfo=user(), **WAYS[way]))
    else:
        ok(service.launch(READER, dicomSR=files(first), tags=TAGS))
        if way == "again":
            response = ok(service.launch(READER, dicomSR=files(second), tags=TAGS))
        else:
            response = ok(case.post("update-dicomsr", "A1", dicomSR=files(second), mode="append"))

    if way == "append":
        assert response.headers["x-warnings"] == "dicom_sr_second_version;file=0"
    else:
        assert response.json()["warnings"] == ["dicom_sr_second_version"]
    page = case.page("A1") if way != "lazy" else service.page(response)
    assert case.content("A1") == "Finding: Nodule of 4 mm."
    assert sorted(row["kind"] for row in shown(page)) == ["dicomSR", "setAside"]


def test_a_replacement_may_be_a_new_version(service: Service) -> None:
    """`replace` removes the earlier content of the SOP instance."""
    case = Case(service)
    ok(service.launch(READER, dicomSR=files(basic("Nodule of 4 mm.", **OWN)), tags=TAGS))

    response = ok(case.post("update-dicomsr", "A1", dicomSR=files(basic("Of 5 mm.", **OWN))))

    assert (response.content, "x-warnings" in response.headers) == (b"", False)
    assert case.content("A1") == "Finding: Of 5 mm."


def test_a_file_without_a_name_does_not_hide_a_contradiction(service: Service) -> None:
    """If the order has no name, the first file that has one counts for the files after it."""
    texts = {
        "1.2.3.7": {},
        "1.2.3.8": {"PatientName": "Doe^Jane"},
        "1.2.3.9": {"PatientName": "Roe"},
    }
    sent = files(
        *(
            basic(f"Text {uid}.", PatientID="", SOPInstanceUID=uid, **name)
            for uid, name in texts.items()
        )
    )

    response = ok(service.launch(READER, dicomSR=sent))

    rejected = response.json()["filesSetAside"]
    assert [row["contradicts"] for row in rejected] == [["PatientName"]]
    assert "1.2.3.9" not in Case(service).content("A1")


LINKED = ("A1", "A2", "A3")


def _sent(text: str, instance: str) -> Files:
    return files(basic(text, SOPInstanceUID=instance))


def _orders(case: Case, *names: str) -> None:
    for place, name in enumerate(names):
        case.order(name)
        ok(case.post("update-dicomsr", name, dicomSR=_sent(f"Of {name}.", f"1.2.{place + 1}")))


def _first_text(case: Case, name: str) -> str:
    """Open the report of an order; return its first text."""
    ok(case.service.launch(READER, accession=name))
    return case.content(name).replace("Finding: ", "")


@pytest.mark.parametrize(
    ("removed", "texts"),
    [
        (["A2"], {"A1": "Of A1.\n\nOf A3.", "A2": "Of A2."}),
        (["A1"], {"A1": "Of A1.", "A2": "Of A2.\n\nOf A3."}),
        (["A3", "A1"], {"A1": "Of A1.", "A2": "Of A2.", "A3": "Of A3."}),
        (["A3", "A1", "A2"], {"A1": "Of A1.", "A2": "Of A2.", "A3": "Of A3."}),
    ],
)
def test_an_unlinked_order_keeps_its_files(
    case: Case, removed: list[str], texts: dict[str, str]
) -> None:
    """unlink-orders 3: each report has the texts of the files of its own orders."""
    _orders(case, *LINKED)
    ok(case.orders("link-orders", *LINKED))
    records = ok(case.orders("unlink-orders", *removed)).json()
    assert not any(record["hasContent"] for record in records)
    assert {name: _first_text(case, name) for name in texts} == texts


def test_a_file_of_two_orders_stays_with_both(case: Case) -> None:
    """Their linked report contains the SR once; after unlinking, both reports contain it."""
    for name in ("A1", "A2"):
        case.order(name)
        ok(case.post("update-dicomsr", name, dicomSR=_sent("Of both.", "1.2.9")))
    ok(case.orders("link-orders", "A1", "A2"))
    ok(case.post("update-dicomsr", "A2", dicomSR=_sent("Of A2.", "1.2.2"), mode="append"))
    ok(case.orders("unlink-orders", "A2"))
    assert _first_text(case, "A1") == "Of both."
    assert _first_text(case, "A2") == "Of both.\n\nOf A2."


@pytest.mark.parametrize("again", [False, True])
def test_an_order_is_registered_with_its_files(case: Case, again: bool) -> None:
    """registerOrder: the first text of the report comes from the files of the order."""
    case.order("A1")
    if again:
        case.order("A2")
    body = {"lazyLaunch": True, "registerOrder": True, "dicomSR": _sent("Of A2.", "1.2.2")}
    ok(case.service.launch("service", accession="A2", **body))
    assert case.record("A2")["hasContent"] is False
    ok(case.orders("link-orders", "A1", "A2"))
    ok(case.orders("unlink-orders", "A2"))
    assert (_first_text(case, "A1"), _first_text(case, "A2")) == ("", "Of A2.")


def test_a_merge_keeps_the_files_of_both_orders(case: Case) -> None:
    """patient/merge of one accession with two identifiers."""
    _orders(case, "A1")
    ok(
        case.service.launch(
            "service", accession="A1", mrn="P2", lazyLaunch=True, registerOrder=True
        )
    )
    merge = {"SiteID": "SITE1", "PatientMRN": "P2", "PriorPatientMRN": "P1"}
    ok(case.service.post("patient/merge", merge))
    assert _first_text(case, "A1") == "Of A1."
