"""Launch: identifiers, placeholders and the name of the patient."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import FOREIGN, READER, Service, identity, user
from tests.conformance.engine.cases import Case, ok


def test_the_triple_identifies_an_order(service: Service) -> None:
    """What the service does 3: SiteID, PatientMRN and Accession; case and blanks inside count."""
    ids = {
        ok(service.launch(accession=accession, mrn=mrn)).json()["reportId"]
        for accession in ("A1", "a1", "A 1")
        for mrn in ("P1", "p1", "P01")
    }
    assert len(ids) == 9
    ids.add(ok(service.launch(FOREIGN, site="SITE2")).json()["reportId"])
    assert len(ids) == 10


def test_blanks_around_identifiers_are_ignored(service: Service) -> None:
    """Order identity: leading and trailing blanks are removed."""
    one = ok(service.launch(READER)).json()["reportId"]
    two = ok(service.launch(READER, accession=" A1 ", mrn="\tP1\n")).json()["reportId"]
    assert one == two


@pytest.mark.parametrize("mrn", [4711, "4711", 4711.0, " 4711"])
def test_integers_are_accepted_as_text(service: Service, mrn: Any) -> None:
    """All tags are strings; an integer becomes its digits."""
    ok(service.launch(tags={"PatientMRN": mrn, "PatientAge": 61}))
    assert service.status(mrn="4711")["clinicalInfo"][0]["PatientMRN"] == "4711"


@pytest.mark.parametrize("mrn", [47.5, 1e-9, True, {}, [], ["P1"]])
def test_other_types_of_identifiers_are_refused(service: Service, mrn: Any) -> None:
    """Order identity: an identifier is a string."""
    assert service.launch(tags={"PatientMRN": mrn}).status_code == 400


HOSTILE = (
    *("../../etc/passwd", "P1' OR '1'='1", "<script>alert(1)</script>", "%00", "P|1^2~3&4"),
    *("\\X0D\\", "{\\rtf1}", "a" * 1024, "名前", "🙂", "e\u0301", "P1;DROP TABLE"),
)


@pytest.mark.parametrize("value", HOSTILE)
def test_identifiers_with_special_characters(service: Service, value: str) -> None:
    """Order identity: they are stored and found as text."""
    ok(service.launch(accession=value, mrn=value))
    assert service.status(value, value)["clinicalInfo"] == [identity(value, value)]
    response = service.get("report/content", **identity(value, value))
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    "tags",
    [
        {"PatientMRN": "someone@hospital.test"},
        {"PatientMRN": " SOMEONE@HOSPITAL.TEST "},
        {"Accession": "a.b+c@x.example.org"},
        {"PatientMRN": READER},
        {"PatientMRN": "reader person"},
        {"Accession": "READER  PERSON"},
        {"PatientName": "someone@hospital.test"},
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_placeholders_are_rejected(service: Service, tags: dict[str, str], lazy: bool) -> None:
    """Authentication 8: an e-mail address or the identity of the launching user."""
    response = service.launch(READER, tags=tags, lazyLaunch=lazy)
    assert (response.status_code, response.json()["code"]) == (400, "placeholder_identifier")
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_the_identity_of_the_named_user_is_a_placeholder_too(service: Service) -> None:
    """Authentication 8: the launching user is the user of userInfo."""
    for mrn in ("new@site1.test", "New Person"):
        response = service.launch(
            tags={"PatientMRN": mrn}, userInfo=user("new@site1.test", "New Person")
        )
        assert response.json()["code"] == "placeholder_identifier"


def test_a_physician_may_have_the_name_of_the_user(service: Service) -> None:
    """Authentication 8 applies to patient identifiers only."""
    ok(service.launch(READER, tags={"ReportingPhysician": READER, "ReferringPhysician": READER}))


@pytest.mark.parametrize(
    ("known", "given", "same"),
    [
        ("DOE^JOHN", "Doe John", True),
        ("DOE^JOHN^^^", "DOE^JOHN", True),
        ("MÜLLER^ÉVA", "Mu\u0308ller^E\u0301va", True),
        ("  DOE^JOHN ", "DOE^JOHN", True),
        ("DOE^JOHN", "JOHN^DOE", False),
        ("DOE^JOHN", "DOE^JON", False),
        ("山田^太郎", "山田^花子", False),
        ("DOE^JOHN", "^^", True),
        ("DOE^JOHN", "", True),
    ],
)
def test_a_launch_with_another_name(service: Service, known: str, given: str, same: bool) -> None:
    """ForceUpdatePatientName false: another PatientName for the PatientMRN is 409."""
    ok(service.launch(tags={"PatientName": known}))
    for lazy in (True, False):
        response = service.launch(accession="A2", tags={"PatientName": given}, lazyLaunch=lazy)
        assert response.status_code == (200 if same else 409)
        if not same:
            assert response.json()["code"] == "patient_name_mismatch"
            assert response.json()["retryable"] is False
            assert given not in response.text


def test_a_launch_that_forces_a_name(service: Service) -> None:
    """forceUpdatePatientName: all reports with the PatientMRN get it, also signed ones."""
    case = Case(service)
    case.draft("A1", PatientName="DOE^JANE")
    case.sign("A1", now=True)
    case.order("A2", PatientName="DOE^JANE")
    ok(service.launch(FOREIGN, site="SITE2", tags={"PatientName": "DOE^JANE"}))
    before = case.export("A1")["reportInfo"]
    ok(
        service.launch(
            accession="A3", tags={"PatientName": "ROE^JANE"}, forceUpdatePatientName=True
        )
    )
    for name in ("A1", "A2", "A3"):
        assert case.export(name)["clinicalInfo"][0]["PatientName"] == "ROE^JANE"
    assert case.export("A1")["reportInfo"] == before
    other = service.post("report/export/json", {"clinicalInfo": identity(site="SITE2")}, FOREIGN)
    assert other.json()["clinicalInfo"][0]["PatientName"] == "DOE^JANE"


@pytest.mark.parametrize("accession", ["A1", "A2"], ids=["known", "new"])
def test_a_forced_name_does_not_undo_a_later_correction(service: Service, accession: str) -> None:
    """ForceUpdatePatientName renames at the launch; its link opens with the newest name."""
    case = Case(service)
    case.order("A1", PatientName="DOE^JANE")
    forced: dict[str, Any] = {"tags": {"PatientName": "ROE^JANE"}, "forceUpdatePatientName": True}
    lazy = {"accession": accession, "lazyLaunch": True, "userInfo": user(), **forced}
    launched = ok(service.launch(**lazy))
    body = {"SiteID": "SITE1", "PatientMRN": "P1", "PatientName": "POE^JANE"}
    ok(service.post("patient/update", body))

    service.page(launched)

    for name in ("A1", accession):
        assert case.export(name)["clinicalInfo"][0]["PatientName"] == "POE^JANE"


@pytest.mark.parametrize("name", [None, "", "  ", "^", "^^^"])
def test_forcing_a_name_requires_a_name(service: Service, name: str | None) -> None:
    """ForceUpdatePatientName true: PatientName must be in clinicalInfo."""
    response = service.launch(tags={"PatientName": name}, forceUpdatePatientName=True)
    assert (response.status_code, response.json()["code"]) == (400, "missing_tag")
