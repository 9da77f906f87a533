"""
The input of all export formats, and its labels, dates and names in the language of the user.

The services of the engine fill the model after they have checked the access. `labels.json` has the
labels. Dates follow CLDR.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from enum import StrEnum
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, cast

from bridge.engine.documents.uploads.images import EncodedImage
from bridge.engine.rules.text.document import Document

if TYPE_CHECKING:
    from babel import Locale


class PageSize(StrEnum):
    """The paper of a printed report, in the spelling of the site's setting."""

    A4 = "A4"
    LETTER = "Letter"


@dataclass(frozen=True, slots=True)
class ExportedImage:
    """An image of a site or user, after `images.accept`."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ExportedUser:
    """A user: the value of `signedBy`, `prelimBy` and `reviewedBy`."""

    name: str
    email: str
    signature: ExportedImage | None = None
    text: str = ""  # after the name: a title, a registration number


@dataclass(frozen=True, slots=True)
class ExportedSite:
    """The site of a report; `time_zone` is an IANA name or empty."""

    name: str
    header_image: ExportedImage | None = None
    footer_image: ExportedImage | None = None
    time_zone: str = ""
    page_size: PageSize = PageSize.A4


@dataclass(frozen=True, slots=True)
class ExportedAddendum:
    body: Document
    signed_at: datetime
    signed_by: ExportedUser


@dataclass(frozen=True, slots=True)
class PrelimEntry:
    """One preliminary read, and its review if there was one."""

    tag_name: str
    tag_group: str
    at: datetime
    by: ExportedUser
    reviewed_at: datetime | None = None
    reviewed_by: ExportedUser | None = None


@dataclass(frozen=True, slots=True)
class ExportedReport:
    """
    One report: the anchor order first, signed addenda and preliminary reads oldest first.

    All times are timezone-aware. `signed_at` and `signed_by` are None while the report is unsigned.
    `images_left_out` counts the key images that are too many or too large to print.
    """

    site: ExportedSite
    orders: tuple[Mapping[str, str], ...]
    status: str
    body: Document
    signed_at: datetime | None = None
    signed_by: ExportedUser | None = None
    addenda: tuple[ExportedAddendum, ...] = ()
    prelims: tuple[PrelimEntry, ...] = ()
    language: str = "en-US"
    key_images: tuple[EncodedImage, ...] = ()
    images_left_out: int = 0
    report_id: str = ""


DEFAULT_LABELS = "en"

# Hangul jamo, CJK radicals to Hangul syllables, compatibility ideographs, planes 2 and 3.
EAST_ASIAN = re.compile("[\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")
_DATE_TIME = re.compile(
    r"(?P<year>[12]\d{3})(?:(?P<month>0[1-9]|1[0-2])(?:(?P<day>[0-2]\d|3[01])(?P<time>[0-9.]+)?)?)?"
    r"(?P<zone>[+-]\d{4})?"
)
_TIME = re.compile(r"([01]\d|2[0-3])([0-5]\d)([0-5]\d|60)?(?:\.\d{1,6})?")
DA_DIGITS = 8
FIRST_YEAR, LAST_YEAR = 1850, 2150  # other years mean that the digits are not a date

CATALOGUE = cast(
    "Mapping[str, Mapping[str, str]]",
    json.loads(files(__package__).joinpath("labels.json").read_text("utf-8")),
)


def labels(language: str) -> Mapping[str, str]:
    """Return the labels of a language code; an unknown one falls back to its base, then English."""
    base = language.partition("-")[0]
    return CATALOGUE.get(language) or CATALOGUE.get(base) or CATALOGUE[DEFAULT_LABELS]


def locale_of(language: str) -> "Locale":
    """Return the CLDR locale of one of the interface reference's 17 codes; English otherwise."""
    from babel import Locale, UnknownLocaleError  # noqa: PLC0415  # large, and seldom needed

    try:
        return Locale.parse(language, sep="-")
    except (UnknownLocaleError, ValueError):
        return Locale.parse("en_US")


def moment_text(moment: datetime, zone: tzinfo, language: str) -> str:
    """Format a timezone-aware time in `zone`, with the abbreviation of the zone."""
    from babel.dates import format_datetime  # noqa: PLC0415  # as above

    local = moment.astimezone(zone)
    written = format_datetime(local, "medium", locale=locale_of(language))
    abbreviation = local.tzname() or "UTC"
    if abbreviation[0] in "+-":  # zones without an abbreviation have their offset as a name
        abbreviation = f"UTC{abbreviation}"
    return f"{_plain_spaces(written)} {abbreviation}"


def day_text(raw: str, language: str) -> str:
    """Format a DICOM (YYYYMMDD) or ISO date by language; other texts are unchanged."""
    from babel.dates import format_date  # noqa: PLC0415  # as above

    day = _parse_day(raw.strip())
    if day is None:
        return raw
    return _plain_spaces(format_date(day, "medium", locale=locale_of(language)))


def person_name(raw: str, language: str = "en-US") -> str:
    """
    Format a DICOM PN or HL7 XPN value: `DOE, DR JANE Q, JR`.

    Of several representations (`A=I=P`) the one in the script of the language is first, and another
    one follows in parentheses.
    """
    groups = dict.fromkeys(filter(None, (_name_group(group) for group in raw.split("=")[:3])))
    shown = sorted(groups, key=lambda name: _script_rank(name, language))
    return shown[0] + "".join(f" ({other})" for other in shown[1:2]) if shown else ""


_HANGUL = re.compile("[\u1100-\u11ff\uac00-\ud7a3]")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_PREFIX = re.compile(
    r"(?:dr|prof|mr|mrs|ms|miss|mx|rev|sir|herr|frau|hr|fr|mme|m|sr|sra|dhr|mevr)\b", re.IGNORECASE
)
_SUFFIX = re.compile(
    r"(?:jr|sr|junior|senior|i{1,3}|iv|v|esq|md|m\.d|phd|ph\.d|rn|dds)\b", re.IGNORECASE
)


def _script_rank(name: str, language: str) -> int:
    """Rank the script of the language first, then Latin letters, or else characters."""
    if language.startswith("ko") and _HANGUL.search(name):
        return 0
    east_asian, han = EAST_ASIAN.search(name), _HAN.search(name)
    if language.startswith(("ja", "zh", "ko")):
        return 1 if han else 3 if east_asian else 2
    return 1 if not east_asian else 2 if han else 3


def _name_group(group: str) -> str:
    if "^" not in group:
        return " ".join(group.split())
    parts = [" ".join(part.partition("&")[0].split()) for part in group.split("^")]
    family, given, middle, prefix, suffix, *more = [*parts, "", "", "", ""]
    # HL7 has suffix and prefix the other way round.
    if _SUFFIX.match(prefix) or (_PREFIX.match(suffix) and not _PREFIX.match(prefix)):
        prefix, suffix = suffix, prefix
    own = " ".join(filter(None, (prefix, given, middle)))
    between = " " if EAST_ASIAN.search(group) else ", "
    return between.join(filter(None, (family, own, suffix, *more)))


_AGE = re.compile(r"(\d{1,3})([YMWD])")
_AGE_UNITS = {
    "Y": "duration-year",
    "M": "duration-month",
    "W": "duration-week",
    "D": "duration-day",
}
_OWN_AGE_UNITS = {
    "ja-JP": ("歳", "か月", "週", "日"),
    "ko-KR": ("세", "개월", "주", "일"),
    "zh-CN": ("岁", "个月", "周", "天"),
    "zh-Hant": ("歲", "個月", "週", "天"),
    "de-DE": (" J.", " Mon.", " Wo.", " T."),
}
"""Where the short forms of CLDR are not those of the country's clinics; as in the reporting app."""


def age_text(raw: str, language: str) -> str:
    """Format a DICOM age (`065Y`) by language; other texts are unchanged."""
    from babel.units import format_unit  # noqa: PLC0415  # as above

    found = _AGE.fullmatch(raw.strip())
    if not found:
        return raw
    count, unit = int(found[1]), found[2]
    if own := _OWN_AGE_UNITS.get(language):
        return f"{count}{own['YMWD'.index(unit)]}"
    length: Literal["narrow", "short"] = "narrow" if language.startswith("en") else "short"
    written = format_unit(count, _AGE_UNITS[unit], length, locale=locale_of(language))
    return _plain_spaces(written)


def day_and_time(raw: str) -> str:
    """Format a DICOM DA or DT value as ISO 8601 with a space; other texts are unchanged."""
    if found := _DATE_TIME.fullmatch(raw):
        zone = f" {found['zone'][:3]}:{found['zone'][3:]}" if found["zone"] else ""
        day = "-".join(filter(None, found.group("year", "month", "day")))
        return " ".join(filter(None, (day, time_text(found["time"] or "")))) + zone
    return raw


def time_text(raw: str) -> str:
    """Format a DICOM TM value as `10:15:00`, without fractions."""
    found = _TIME.fullmatch(raw)
    return ":".join(filter(None, found.groups())) if found else raw


def _parse_day(raw: str) -> date | None:
    digits = raw.replace("-", "")
    if len(digits) != DA_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    try:
        day = date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        return None
    return day if FIRST_YEAR <= day.year <= LAST_YEAR else None


def _plain_spaces(text: str) -> str:
    """Replace the narrow and no-break spaces of CLDR, which few fonts have."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")
