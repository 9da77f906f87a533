"""
Named transforms: `as: date`, `as: [digits, upper]`.

A transform is a function of a text. Transforms with `raw` receive the field as sent, with
separators. A text that cannot be parsed results in "". Birth dates and study dates are an
exception: they are kept as written, because an invalid date is better than none.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from zoneinfo import ZoneInfo

from mappings.hl7.header import Delimiters
from mappings.hl7.message import Field, MessageSyntax
from mappings.hl7.person_names import GROUPS, PersonName, dicom_name, preferred_name
from mappings.hl7.times import Precision, Timestamp, parse_timestamp
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.language.scope import MessageScope

_LENGTHS = frozenset({8, 10, 12, 14})  # YYYYMMDD, and with hour, minute, second
_MONTHS_WITH_DAYS = frozenset(
    f"{month:02d}{day:02d}"
    for month, days in enumerate((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), start=1)
    for day in range(1, days + 1)
)
"""All `MMDD` but 0229. `parse_timestamp` parses that day, because it depends on the year."""
_FIRST_YEAR, _LAST_YEAR = "1800", "2199"
_MIN_YEARS = 2
_MAX_YEARS = 999
CARET = "^"
"""The component separator of plain names."""
_DATE_DIGITS = 8
_YEAR = 10_000  # a year, as the difference of two days written YYYYMMDD and read as numbers
_BEFORE_SUFFIX = 3  # components of XPN before the suffix


def looks_like_time(text: str) -> bool:
    """True if a text is a date or a date and time in HL7 digits, without zone and fraction."""
    return (
        len(text) in _LENGTHS
        and text.isascii()
        and text.isdigit()
        and text[4:8] in _MONTHS_WITH_DAYS
        and _FIRST_YEAR <= text[:4] <= _LAST_YEAR
        and text[8:10] < "24"
        and text[10:12] < "60"
        and text[12:] < "60"
    )


is_plain_time = lru_cache(maxsize=2048)(looks_like_time)
"""`looks_like_time` with a cache."""


def age_in_years(birth: str, day: str) -> str:
    """Return the age between two plain times in years; "" if DICOM writes it in days or months."""
    found = (int(day[:_DATE_DIGITS]) - int(birth[:_DATE_DIGITS])) // _YEAR
    return f"{min(found, _MAX_YEARS):03d}Y" if found >= _MIN_YEARS else ""


def is_plain_name(text: str, marks: Delimiters) -> bool:
    """True if a field is one name whose only separator is the caret."""
    return (
        marks.component == CARET
        and marks.repetition not in text  # an undeclared (empty) separator is in every text
        and marks.escape not in text
        and marks.subcomponent not in text
        and '"' not in text
        and text.isprintable()
    )


def format_dicom_name(text: str) -> str:
    """Convert a plain XPN to the order of DICOM's PN. It may have DICOM's groups already."""
    if GROUPS in text:
        return GROUPS.join(map(_format_group, text.split(GROUPS)[:3])).rstrip(GROUPS)
    return _format_group(text)


def _format_group(text: str) -> str:
    parts = [part.strip() for part in text.split(CARET, 5)[:5]]
    if not any(parts[:2]):
        return ""
    if len(parts) > _BEFORE_SUFFIX:
        family, given, further, suffix, prefix = (*parts, "")[:5]
        parts = [family, given, further, prefix, suffix]
    return CARET.join(parts).rstrip(CARET)


@lru_cache(maxsize=4096)
def format_provider(text: str) -> str:
    """Format a plain XCN with its degree."""
    parts = [part.strip() for part in text.split(CARET, 7)[:7]]
    _, family, given, further, suffix, prefix, degree = (*parts, *[""] * 7)[:7]
    names = (prefix, given, further, family, suffix)
    display = " ".join(filter(None, names))
    return f"{display}, {degree}" if degree and family else display


_MAX_UID_LENGTH = 64
_UID = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))+")


def is_uid(text: str) -> bool:
    """True if a text has the syntax of a DICOM UID (PS3.5 §9.1)."""
    return len(text) <= _MAX_UID_LENGTH and _UID.fullmatch(text) is not None


_MONTHS_ONLY_BELOW = 24
_DAYS_ONLY_BELOW = 1  # months


def age_on(born: date, on: date) -> str:
    """Return days in the first month, months up to two years, then years; '' before birth."""
    days = (on - born).days
    if days < 0:
        return ""
    months = (on.year - born.year) * 12 + on.month - born.month - (on.day < born.day)
    if months < _DAYS_ONLY_BELOW:
        return f"{days:03d}D"
    if months < _MONTHS_ONLY_BELOW:
        return f"{months:03d}M"
    return f"{min(months // 12, _MAX_YEARS):03d}Y"


def age_at(birth: str, day: str) -> str:
    """Return the age on a day of a person with this birth date; '' if one is not a full date."""
    born, on = parse_timestamp(birth), parse_timestamp(day)
    if born is None or on is None or min(born.precision, on.precision) < Precision.DAY:
        return ""
    return age_on(born.local.date(), on.local.date())


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform; `raw` if it reads the separators of the field."""

    apply: Callable[[str, MessageScope], str]
    raw: bool = False


def compile_transforms(node: YamlNode | None, diagnostics: Diagnostics) -> list[Transform]:
    """Read `as:`, one name or several in the order of their application."""
    chosen: list[Transform] = []
    for item in diagnostics.read_items(node) if node is not None else ():
        name = diagnostics.read_choice(item, "transform", TRANSFORMS)
        if name is None:
            continue
        if TRANSFORMS[name].raw and chosen:
            diagnostics.error(item, "transform", f"{name} reads the field itself: put it first")
        chosen.append(TRANSFORMS[name])
    return chosen


_parsed = lru_cache(maxsize=1024)(parse_timestamp)
"""The times of one message repeat."""


def _local(text: str, scope: MessageScope) -> Timestamp | None:
    """Parse a time. One with a zone is converted to the zone of the site."""
    stamp = _parsed(text)
    if stamp is None or stamp.offset is None or stamp.precision < Precision.HOUR:
        return stamp
    site = ZoneInfo(scope.defaults.time_zone)
    return Timestamp(stamp.moment(site).astimezone(site).replace(tzinfo=None), stamp.precision)


def _study_date(text: str, scope: MessageScope) -> str:
    """YYYYMMDD at the site, with the precision of the text."""
    if is_plain_time(text):
        return text[:8]
    stamp = _local(text, scope)
    return text if stamp is None else stamp.date


def _study_time(text: str, scope: MessageScope) -> str:
    """HHMMSS at the site, compact; "" for a date without time."""
    if is_plain_time(text):
        return text[8:]
    stamp = _local(text, scope)
    return "" if stamp is None else stamp.time.partition(".")[0]


def _birth_date(text: str, scope: MessageScope) -> str:
    """YYYYMMDD, YYYYMM or YYYY as sent. A birth date is not converted to another zone."""
    if is_plain_time(text):
        return text[:8]
    stamp = _parsed(text)
    return text if stamp is None else stamp.date


def _timestamp(text: str, scope: MessageScope) -> str:
    """YYYYMMDDHHMMSS at the site, with the precision of the text."""
    stamp = _local(text, scope)
    return text if stamp is None else stamp.digits


def _field(text: str, scope: MessageScope) -> Field:
    return Field(text, MessageSyntax(scope.delimiters, scope.encoding))


def _person_name(text: str, scope: MessageScope) -> str:
    """
    `DOE^JOHN^M^DR^JR`: an XPN in the order of DICOM's PN (PS3.5 §6.2.1).

    The forms of one name become groups: `Yamada^Tarou=山田^太郎=やまだ^たろう`.
    """
    if is_plain_name(text, scope.delimiters):
        return format_dicom_name(text)
    return dicom_name(_field(text, scope))


def _person_display(text: str, scope: MessageScope) -> str:
    """`DR JOHN M DOE JR`: an XPN as text."""
    chosen = preferred_name(_field(text, scope))
    return "" if chosen is None else PersonName.from_xpn(chosen).display


def _provider_name(text: str, scope: MessageScope) -> str:
    """`DR ANN WELBY, MD`: an XCN with its degree; "" if it has only an identifier."""
    if is_plain_name(text, scope.delimiters):
        return format_provider(text)
    name = _provider(text, scope)._replace(identifier="")
    return f"{name.display}, {name.degree}" if name.degree and name.family else name.display


def _provider_id(text: str, scope: MessageScope) -> str:
    return _provider(text, scope).identifier


def _provider(text: str, scope: MessageScope) -> PersonName:
    """Parse an XCN, or an NDL, whose first component has an XCN in subcomponents (OBR-32)."""
    field = _field(text, scope)
    repetition = field.repetition()
    inner = repetition.component(1).subcomponents
    if len(inner) > 1:
        marks = scope.delimiters
        text = marks.component.join(part.raw for part in inner)
        repetition = _field(text, scope).repetition()
    return PersonName.from_xcn(repetition)


def _uid(text: str, scope: MessageScope) -> str:
    """Return a DICOM UID, "" for any other text: not each ZDS is that of IHE."""
    return text if is_uid(text) else ""


def _digits(text: str, scope: MessageScope) -> str:
    return "".join(character for character in text if character.isdigit())


def _one_line(text: str, scope: MessageScope) -> str:
    return " ".join(text.split())


TRANSFORMS = {
    "upper": Transform(lambda text, scope: text.upper()),
    "lower": Transform(lambda text, scope: text.lower()),
    "digits": Transform(_digits),
    "one-line": Transform(_one_line),
    "date": Transform(_study_date),
    "time": Transform(_study_time),
    "timestamp": Transform(_timestamp),
    "birth-date": Transform(_birth_date),
    "person-name": Transform(_person_name, raw=True),
    "person-display": Transform(_person_display, raw=True),
    "provider-name": Transform(_provider_name, raw=True),
    "provider-id": Transform(_provider_id, raw=True),
    "study-uid": Transform(_uid),
}


def age(birth: str, day: str, scope: MessageScope) -> str:
    """
    Return an age in the format of DICOM (VR AS, PS3.5 §6.2): `012D`, `005M`, `034Y`.

    Days in the first month, months up to two years, then years; on the study date, else today at
    the site. "" if the precision of the birth date is not sufficient, or if it is in the future.
    """
    if is_plain_time(birth) and is_plain_time(day) and (known := age_in_years(birth, day)):
        return known
    born = _parsed(birth)
    if born is None:
        return ""
    study = _local(day, scope)
    if study is not None and study.precision >= Precision.DAY:
        on = study.local.date()
    else:
        on = scope.defaults.now.astimezone(ZoneInfo(scope.defaults.time_zone)).date()
    oldest, youngest = _bounds(born)
    longest = age_on(oldest, on)
    return longest if longest == age_on(youngest, on) else ""


def _bounds(born: Timestamp) -> tuple[date, date]:
    """Return the first and the last day of a birth date with this precision."""
    first = born.local.date()
    if born.precision is Precision.YEAR:
        return first, date(first.year, 12, 31)
    if born.precision is Precision.MONTH:
        return first, first.replace(day=monthrange(first.year, first.month)[1])
    return first, first
