"""Launch: request objects, tags, languages and defaults."""

from typing import Any

import pytest

from tests.bridge.engine.http.engine_service import READER, Service, boot, identity, user
from tests.conformance.engine.cases import ok

TAGS = (
    *("PatientName", "PatientBirthDate", "PatientAge", "PatientSex", "Race", "Ethnicity"),
    *("Modality", "BodyPartExamined", "StudyDescription", "ProcedureCode", "StudyDate"),
    *("StudyTime", "StudyInstanceUID", "ReasonForExam", "KeyFindings", "ReferringPhysician"),
    *("ReportingPhysician", "Notes"),
)
LANGUAGES = (
    *("en-US", "en-GB", "en-AU", "zh-CN", "zh-Hant", "nl-NL", "fr-FR", "fr-CA", "de-DE"),
    *("id-ID", "it-IT", "ja-JP", "ko-KR", "pl-PL", "pt-BR", "ro-RO", "es-ES"),
)


def stored(service: Service, accession: str = "A1") -> dict[str, Any]:
    """Return all tags of an order from the change feed."""
    changes = ok(service.get("report/changes", limit=1000)).json()["changes"]
    orders = [order for each in changes for order in each["orders"]]
    found: dict[str, Any] = [each for each in orders if each["Accession"] == accession][-1]
    return found


@pytest.mark.parametrize("tag", TAGS)
def test_the_value_of_a_tag_is_kept(service: Service, tag: str) -> None:
    """ClinicalInfo tags: all are strings except Metadata; raw values are kept."""
    value = "A^B & <c> \\ {d} é 日本 | ~"
    ok(service.launch(tags={tag: value}))
    if tag == "KeyFindings":
        assert ok(service.get("report/content", **identity())).json()["content"] == value
    else:
        assert stored(service)[tag] == value


@pytest.mark.parametrize("value", [None, "", "   "])
def test_an_empty_tag_is_unset(service: Service, value: str | None) -> None:
    """JSON export record: an empty string if unset; null and blanks are unset."""
    ok(service.launch(tags=dict.fromkeys(TAGS, value)))
    record = ok(service.post("report/export/json", {"clinicalInfo": identity()})).json()
    assert {record["clinicalInfo"][0].get(tag, "") for tag in TAGS} == {""}


@pytest.mark.parametrize("value", [{}, {"a": 1}, [], ["x"], True, False])
def test_a_tag_that_is_not_a_string_is_refused(service: Service, value: Any) -> None:
    """ClinicalInfo tags: objects, lists and booleans are refused."""
    for tag in TAGS:
        response = service.launch(tags={tag: value})
        assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
        assert f"/clinicalInfo/{tag}" in {each["pointer"] for each in response.json()["errors"]}


METADATA = [
    {},
    {"ward": "3B"},
    {"nested": {"list": [1, 2.5, None, True, "x"], "ünïcode": "日本"}},
    {"": "empty key"},
    {"a.b": "dots", "a/b": "slashes", "$": "dollar"},
]


@pytest.mark.parametrize("metadata", METADATA)
def test_metadata_is_kept_and_not_displayed(service: Service, metadata: dict[str, Any]) -> None:
    """Metadata: an object; sent by HL7, not displayed and not exported."""
    body = ok(service.launch(READER, tags={"Metadata": metadata})).json()
    assert body["status"] == "Draft"
    assert stored(service)["Metadata"] == metadata
    record = ok(service.post("report/export/json", {"clinicalInfo": identity()})).text
    assert "Metadata" not in record
    link = ok(service.launch(userInfo=user())).json()["reportLink"]
    page = service.session(service.open(link))
    assert "Metadata" not in ok(page("report")).text


@pytest.mark.parametrize("code", LANGUAGES)
def test_supported_languages(service: Service, code: str) -> None:
    """Supported language codes: 17, for the application and for speech recognition."""
    for spelling in (code, code.lower(), code.upper(), code.replace("-", "_")):
        app = {"AppLanguage": spelling, "SpeechLanguage": spelling}
        body = ok(service.launch(reportingApp=app, userInfo=user())).json()
        page = service.open(body["reportLink"])
        assert boot(page)["locale"] == code
        assert f'lang="{code}"' in page.text


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        *(("zh-TW", "zh-Hant"), ("zh-HK", "zh-Hant"), ("zh-MO", "zh-Hant"), ("zh", "zh-CN")),
        *(("zh-Hans", "zh-CN"), ("zh-Hant-TW", "zh-Hant"), ("zh-Hans-HK", "zh-CN")),
        *(("en", "en-US"), ("pt", "pt-BR"), ("pt-PT", "pt-BR"), ("es-419", "es-ES")),
        *(("es-MX", "es-ES"), ("de-AT", "de-DE"), ("fr-BE", "fr-FR"), ("", "en-US")),
        *((None, "en-US"), ("  ", "en-US"), (" ja-JP ", "ja-JP")),
    ],
)
def test_other_codes_of_a_language(service: Service, sent: str | None, meant: str) -> None:
    """reportingApp: default en-US; another code of a supported language is mapped to it."""
    body = ok(service.launch(reportingApp={"AppLanguage": sent}, userInfo=user())).json()
    assert boot(service.open(body["reportLink"]))["locale"] == meant


@pytest.mark.parametrize("code", ["tlh", "sv-SE", "xx", "e", "en-", "日本", "*", "English", 5, {}])
def test_an_unsupported_language_is_refused(service: Service, code: Any) -> None:
    """Supported language codes: the error lists all of them."""
    for member in ("AppLanguage", "SpeechLanguage"):
        response = service.launch(reportingApp={member: code})
        if code == "en-":
            continue  # only the primary subtag is read
        assert response.status_code == 400, code
        if isinstance(code, str):
            assert all(each in response.json()["detail"] for each in LANGUAGES)


def test_request_objects_must_be_objects(service: Service) -> None:
    """Request body: reportingApp, response and clinicalInfo are objects."""
    wrong: tuple[Any, ...] = (None, [], "x", 5, True)
    for member in ("reportingApp", "response", "clinicalInfo"):
        for value in wrong:
            response = service.launch(**{member: value})
            assert response.status_code == 400, (member, value)
            assert response.json()["errors"][0]["pointer"].startswith(f"/{member}")


@pytest.mark.parametrize("value", ["HL7", "hl7", None, ""])
def test_return_format(service: Service, value: str | None) -> None:
    """ReturnFormat: only HL7 is supported."""
    ok(service.launch(reportingApp={"ReturnFormat": value}))
    for other in ("PDF", "HL7v3", "FHIR", 7):
        assert service.launch(reportingApp={"ReturnFormat": other}).status_code == 400


@pytest.mark.parametrize("member", ["SyncLaunch", "AutoComparePrior"])
def test_switches_are_booleans(service: Service, member: str) -> None:
    """reportingApp: SyncLaunch and AutoComparePrior are booleans; null is absent."""
    for value in (True, False, None):
        ok(service.launch(reportingApp={member: value}))
    others: tuple[Any, ...] = ("true", "yes", 1, 0, {}, [])
    for other in others:
        assert service.launch(reportingApp={member: other}).status_code == 400


@pytest.mark.parametrize("number", [7, "7", " 7 ", 7.0, None, "", "007"])
def test_template_numbers(service: Service, number: Any) -> None:
    """ApplyTemplate: a number that the site lacks gives a warning."""
    body = ok(service.launch(reportingApp={"ApplyTemplate": number})).json()
    assert body["warnings"] == (["unknown_template"] if number not in (None, "") else [])


@pytest.mark.parametrize("number", ["x", 7.5, -1, "-1", True, [], {}, "٣", 10**30, "1e3"])
def test_invalid_template_numbers_are_refused(service: Service, number: Any) -> None:
    """ApplyTemplate: 400 with its place."""
    response = service.launch(reportingApp={"ApplyTemplate": number})
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/reportingApp/ApplyTemplate"


@pytest.mark.parametrize("member", ["lazyLaunch", "forceUpdatePatientName", "registerOrder"])
def test_flags_of_a_launch_are_booleans(service: Service, member: str) -> None:
    """Launch request objects: boolean, default false; other types are refused."""
    right: dict[str, Any] = {member: False}
    ok(service.launch(**right))
    others: tuple[Any, ...] = ("true", "false", 1, 0, {}, [], "yes")
    for other in others:
        assert service.launch(**{member: other}).status_code == 400, other
