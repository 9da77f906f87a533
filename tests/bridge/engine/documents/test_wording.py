"""Labels and dates exist in all 17 languages, and the zone is always named."""

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bridge.engine.documents.exports import html
from bridge.engine.documents.exports.model import (
    CATALOGUE,
    ExportedReport,
    age_text,
    day_and_time,
    day_text,
    labels,
    moment_text,
    person_name,
)

CODES = (
    *("en-US", "en-GB", "en-AU", "zh-CN", "zh-Hant", "nl-NL", "fr-FR", "fr-CA", "de-DE"),
    *("id-ID", "it-IT", "ja-JP", "ko-KR", "pl-PL", "pt-BR", "ro-RO", "es-ES"),
)
MOMENT = datetime(2025, 1, 31, 23, 30, tzinfo=UTC)


def test_catalogue_is_complete() -> None:
    """Every language has every label, and every signature names person and time."""
    for words in CATALOGUE.values():
        assert words.keys() == CATALOGUE["en"].keys()
        assert all(words.values())
        assert "{name}" in words["signed"]
        assert "{time}" in words["signed"]


@pytest.mark.parametrize("code", CODES)
def test_every_language_has_its_own_labels(code: str) -> None:
    """Only English has English labels."""
    assert (labels(code) is CATALOGUE["en"]) == code.startswith("en")
    assert moment_text(MOMENT, UTC, code).endswith(" UTC")


@pytest.mark.parametrize(
    ("zone", "written"),
    [
        ("Europe/Berlin", "01.02.2025, 00:30:00 CET"),
        ("America/Sao_Paulo", "31.01.2025, 20:30:00 UTC-03"),
        ("UTC", "31.01.2025, 23:30:00 UTC"),
    ],
)
def test_zones(zone: str, written: str) -> None:
    """One moment in three time zones; the text names the zone."""
    assert moment_text(MOMENT, ZoneInfo(zone), "de-DE") == written


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ("20250131", "Jan 31, 2025"),
        ("2025-01-31", "Jan 31, 2025"),
        ("01021975", "01021975"),
        ("20251399", "20251399"),
        ("31/01/2025", "31/01/2025"),
        ("", ""),
    ],
)
def test_days(raw: str, written: str) -> None:
    """Only unambiguous dates are formatted."""
    assert day_text(raw, "en-US") == written


def test_unknown_language_is_english() -> None:
    """An unknown language code does not break an export."""
    assert labels("tlh") is CATALOGUE["en"]
    assert moment_text(MOMENT, UTC, "not a language").startswith("Jan 31, 2025")


def test_export_in_a_zone(make: Callable[..., ExportedReport]) -> None:
    """`timeZone` applies to the time of signing."""
    assert "Mar 5, 2025, 12:30:00 AM JST" in html.render(make("x"), ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ("MADE^UP", "MADE, UP"),
        ("MADE^UP^Q^DR^JR", "MADE, DR UP Q, JR"),
        ("MADE^UP^Q^JR^DR", "MADE, DR UP Q, JR"),
        ("MADE^UP^^^MD", "MADE, UP, MD"),
        ("VAN MADE&VAN&MADE^UP", "VAN MADE, UP"),
        ("MADE", "MADE"),
        ("^UP", "UP"),
        ("Yamada^Tarou=山田^太郎=やまだ^たろう", "Yamada, Tarou (山田 太郎)"),
        ("山田^太郎", "山田 太郎"),
        ("=山田^太郎", "山田 太郎"),
        ("^^^", ""),
        ("", ""),
    ],
)
def test_person_names(raw: str, written: str) -> None:
    """Components and component groups become readable text."""
    assert person_name(raw) == written


@pytest.mark.parametrize(
    ("language", "name", "age"),
    [
        ("en-US", "Yamada, Tarou (山田 太郎)", "65y"),
        ("de-DE", "Yamada, Tarou (山田 太郎)", "65 J."),
        ("fr-FR", "Yamada, Tarou (山田 太郎)", "65 ans"),
        ("ja-JP", "山田 太郎 (Yamada, Tarou)", "65歳"),
        ("zh-CN", "山田 太郎 (Yamada, Tarou)", "65岁"),
        ("zh-Hant", "山田 太郎 (Yamada, Tarou)", "65歲"),
        ("ko-KR", "山田 太郎 (Yamada, Tarou)", "65세"),
    ],
)
def test_names_and_ages_in_a_language(language: str, name: str, age: str) -> None:
    """The group in the script of the language is first, and another one beside it."""
    assert person_name("Yamada^Tarou=山田^太郎=やまだ^たろう", language) == name
    assert age_text("065Y", language) == age
    assert age_text("about 65", language) == "about 65"


def test_a_korean_name_in_hangul() -> None:
    """The phonetic group of a Korean name has the letters that a Korean reader expects."""
    assert person_name("Hong^Gildong=洪^吉洞=홍^길동", "ko-KR") == "홍 길동 (洪 吉洞)"
    assert person_name("Hong^Gildong=洪^吉洞=홍^길동", "es-ES") == "Hong, Gildong (洪 吉洞)"


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ("20250304", "2025-03-04"),
        ("2025030410", "2025-03-04 10"),
        ("202503041015", "2025-03-04 10:15"),
        ("20251399", "20251399"),
        ("yesterday", "yesterday"),
    ],
)
def test_days_and_times(raw: str, written: str) -> None:
    """DICOM dates and times are formatted; invalid ones are unchanged."""
    assert day_and_time(raw) == written
