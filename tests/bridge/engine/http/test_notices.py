"""Notices are in the language of the browser."""

import json
from importlib.resources import files

import pytest

from bridge.engine.http.html_pages import NoticeKey, notice_text
from bridge.engine.launch import LANGUAGES
from tests.bridge.engine.http.engine_service import BASE, READER, Service

CATALOGUE = json.loads(files("bridge.engine.http").joinpath("notices.json").read_text("utf-8"))


def test_every_language_has_every_notice() -> None:
    """Every one of the 17 languages has its own texts."""
    for code, own in CATALOGUE.items():
        assert set(own) == set(NoticeKey), code
        assert all(set(each) == {"title", "text"} and all(each.values()) for each in own.values())
    for which in NoticeKey:
        english = notice_text(which, "en-US")
        for code in LANGUAGES:
            assert (notice_text(which, code) == english) == code.startswith("en"), (which, code)


@pytest.mark.parametrize(
    ("accepted", "language", "title"),
    [
        ("de-CH, en;q=0.5", "de-DE", "Hier ist nichts"),
        ("xx, zh-TW;q=0.9", "zh-Hant", "此處沒有內容"),
        ("fr-CA", "fr-CA", "Il n\u2019y a rien ici"),
        ("", "en-US", "There is nothing here"),
    ],
)
def test_the_notice_of_an_unknown_link(
    service: Service, accepted: str, language: str, title: str
) -> None:
    """A notice is in the requested language, and its `lang` attribute names it."""
    headers = {"accept-language": accepted}
    response = service.open(f"{BASE}/reporting/launch-report/clinical?token=x", headers=headers)
    assert response.status_code == 404
    assert f'<html lang="{language}">' in response.text
    assert f"<h1>{title}</h1>" in response.text


def test_the_notice_of_a_failed_pre_warm_is_in_the_language_of_the_link(service: Service) -> None:
    """GET init, rule 5: the frame shows the reason; AppLanguage of the link has precedence."""
    response = service.open(
        f"{BASE}/reporting/init?token=x&AppLanguage=it-IT&SpeechLanguage=it-IT",
        headers={"accept-language": "de"},
    )
    assert response.status_code == 404
    assert "Impossibile preparare la sessione" in response.text
    assert '<p lang="en">' in response.text


def test_the_notice_of_a_link_that_may_not_be_framed(service: Service) -> None:
    """Frames: a link without the authority of an administrator does not open in a frame."""
    link = service.launch(READER).json()["reportLink"]
    headers = {"sec-fetch-dest": "iframe", "accept-language": "pl"}
    response = service.open(link, headers=headers)
    assert response.status_code == 403
    assert "Tego opisu nie można tu otworzyć" in response.text
