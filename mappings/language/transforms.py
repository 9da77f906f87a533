"""The closed set of named transforms: `as: date`, `as: [digits, upper]`.

Says the same as `mappings.hl7.times` and `mappings.hl7.values`, or nothing: what is unusual in any
way is theirs.

Each is a function of text; those that are `raw` want the field as sent, separators and all.
What cannot be understood yields nothing, except dates of birth and study, which are kept as
written: a wrong form is better seen than lost.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from zoneinfo import ZoneInfo

from mappings.hl7.delimiters import Delimiters
from mappings.hl7.elements import Field, MessageSyntax
from mappings.hl7.person_names import PersonName, preferred_name
from mappings.hl7.times import Precision, Timestamp, parse_timestamp
from mappings.language.diagnostics import Diagnostics, YamlNode
from mappings.language.scope import MessageSetting

_LENGTHS = frozenset({8, 10, 12, 14})  # YYYYMMDD, and with hour, minute, second
_DAYS = frozenset(
    f"{month:02d}{day:02d}"
    for month, days in enumerate((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), start=1)
    for day in range(1, days + 1)
)
_FIRST, _LAST = "1800", "2199"
_YEARS_FROM = 2
_OLDEST = 999
CARET = "^"
"""What parts the components of plain names."""
_DAY = 8
_YEAR = 10_000  # between two days written YYYYMMDD and read as numbers
_BEFORE_SUFFIX = 3


def looks_like_time(text: str) -> bool:
    """Whether a text is a day, or a time on a day, in digits that HL7's own form would have."""
    return (
        len(text) in _LENGTHS
        and text.isascii()
        and text.isdigit()
        and text[4:8] in _DAYS
        and _FIRST <= text[:4] <= _LAST
        and text[8:10] < "24"
        and text[10:12] < "60"
        and text[12:] < "60"
    )


is_plain_time = lru_cache(maxsize=2048)(looks_like_time)
"""The same, for those that ask of one text several times."""


def years(birth: str, day: str) -> str:
    """Write the age between two plain times, where it is told in years; else nothing."""
    found = (int(day[:_DAY]) - int(birth[:_DAY])) // _YEAR
    return f"{min(found, _OLDEST):03d}Y" if found >= _YEARS_FROM else ""


def is_plain_name(text: str, marks: Delimiters) -> bool:
    """Whether a field is one name of plain components: no mark in it but the caret."""
    return (
        marks.component == CARET
        and marks.repetition not in text  # what was not declared is in every text
        and marks.escape not in text
        and marks.subcomponent not in text
        and '"' not in text
        and text.isprintable()
    )


def person(text: str) -> str:
    """Write a plain XPN in the order of DICOM's PN, as `transforms` does."""
    parts = [part.strip() for part in text.split(CARET, 5)[:5]]
    if not any(parts[:2]):
        return ""
    if len(parts) > _BEFORE_SUFFIX:
        family, given, further, suffix, prefix = (*parts, "")[:5]
        parts = [family, given, further, prefix, suffix]
    return CARET.join(parts).rstrip(CARET)


@lru_cache(maxsize=4096)
def provider(text: str) -> str:
    """Write a plain XCN with its degree, as `transforms` does; few of them send everything."""
    parts = [part.strip() for part in text.split(CARET, 7)[:7]]
    _, family, given, further, suffix, prefix, degree = (*parts, *[""] * 7)[:7]
    said = (prefix, given, further, family, suffix)
    display = " ".join(filter(None, said))
    return f"{display}, {degree}" if degree and family else display


_LONGEST_UID = 64
_UID = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))+")


def is_uid(text: str) -> bool:
    """Tell whether a text has the syntax of a DICOM UID (PS3.5 §9.1)."""
    return len(text) <= _LONGEST_UID and _UID.fullmatch(text) is not None


_MONTHS_ONLY_BELOW = 24
_DAYS_ONLY_BELOW = 1
_LONGEST = 999


def age_on(born: date, on: date) -> str:
    """Write days in the first month, months up to two years, then years; '' before birth."""
    days = (on - born).days
    if days < 0:
        return ""
    months = (on.year - born.year) * 12 + on.month - born.month - (on.day < born.day)
    if months < _DAYS_ONLY_BELOW:
        return f"{days:03d}D"
    if months < _MONTHS_ONLY_BELOW:
        return f"{months:03d}M"
    return f"{min(months // 12, _LONGEST):03d}Y"


def age_at(birth: str, day: str) -> str:
    """Write the age of who was born on one day at another; '' where one of them is no whole day."""
    born, on = parse_timestamp(birth), parse_timestamp(day)
    if born is None or on is None or min(born.precision, on.precision) < Precision.DAY:
        return ""
    return age_on(born.local.date(), on.local.date())


@dataclass(frozen=True, slots=True)
class Transform:
    """A named function; `raw` when it reads the field's own separators."""

    apply: Callable[[str, MessageSetting], str]
    raw: bool = False


def compile_transforms(node: YamlNode | None, notebook: Diagnostics) -> list[Transform]:
    """Read `as:`, one name or several in the order they apply."""
    chosen: list[Transform] = []
    for item in notebook.items(node) if node is not None else ():
        name = notebook.choice(item, "transform", TRANSFORMS)
        if name is None:
            continue
        if TRANSFORMS[name].raw and chosen:
            notebook.error(item, "transform", f"{name} reads the field itself: put it first")
        chosen.append(TRANSFORMS[name])
    return chosen


_parsed = lru_cache(maxsize=1024)(parse_timestamp)
"""One message asks for the same few times again and again."""


def _local(text: str, setting: MessageSetting) -> Timestamp | None:
    """Read a time; one that names its zone is moved to the site's."""
    stamp = _parsed(text)
    if stamp is None or stamp.offset is None or stamp.precision < Precision.HOUR:
        return stamp
    site = ZoneInfo(setting.defaults.time_zone)
    return Timestamp(stamp.moment(site).astimezone(site).replace(tzinfo=None), stamp.precision)


def _study_date(text: str, setting: MessageSetting) -> str:
    """YYYYMMDD at the site, as precise as it was said."""
    if is_plain_time(text):
        return text[:8]
    stamp = _local(text, setting)
    return text if stamp is None else stamp.date


def _study_time(text: str, setting: MessageSetting) -> str:
    """HHMMSS at the site, in compact digits; nothing when only a date was said."""
    if is_plain_time(text):
        return text[8:]
    stamp = _local(text, setting)
    return "" if stamp is None else stamp.time.partition(".")[0]


def _birth_date(text: str, setting: MessageSetting) -> str:
    """YYYYMMDD, YYYYMM or YYYY as said; a birthday is never moved to another zone."""
    if is_plain_time(text):
        return text[:8]
    stamp = _parsed(text)
    return text if stamp is None else stamp.date


def _timestamp(text: str, setting: MessageSetting) -> str:
    """YYYYMMDDHHMMSS at the site, as precise as it was said."""
    stamp = _local(text, setting)
    return text if stamp is None else stamp.digits


def _names(text: str, setting: MessageSetting) -> Field:
    return Field(text, MessageSyntax(setting.delimiters, setting.encoding))


def _person_name(text: str, setting: MessageSetting) -> str:
    """`DOE^JOHN^M^DR^JR`: an XPN in the order of DICOM's PN (PS3.5 §6.2.1)."""
    if is_plain_name(text, setting.delimiters):
        return person(text)
    chosen = preferred_name(_names(text, setting))
    return "" if chosen is None else _dicom(PersonName.from_xpn(chosen))


def _person_display(text: str, setting: MessageSetting) -> str:
    """`DR JOHN M DOE JR`: an XPN as people are addressed."""
    chosen = preferred_name(_names(text, setting))
    return "" if chosen is None else PersonName.from_xpn(chosen).display


def _provider_name(text: str, setting: MessageSetting) -> str:
    """`DR ANN WELBY, MD`: an XCN with its degree; nothing where it is an identifier alone."""
    if is_plain_name(text, setting.delimiters):
        return provider(text)
    name = _provider(text, setting)._replace(identifier="")
    return f"{name.display}, {name.degree}" if name.degree and name.family else name.display


def _provider_id(text: str, setting: MessageSetting) -> str:
    return _provider(text, setting).identifier


def _provider(text: str, setting: MessageSetting) -> PersonName:
    """Read XCN, and NDL, whose first component holds an XCN in subcomponents (OBR-32)."""
    field = _names(text, setting)
    repetition = field.repetition()
    inner = repetition.component(1).subcomponents
    if len(inner) > 1:
        marks = setting.delimiters
        text = marks.component.join(part.raw for part in inner)
        repetition = _names(text, setting).repetition()
    return PersonName.from_xcn(repetition)


def _dicom(name: PersonName) -> str:
    parts = (name.family, name.given, name.further, name.prefix, name.suffix)
    return "^".join(_LINE_ENDS.sub(" ", part.replace("^", " ")) for part in parts).rstrip("^")


def _uid(text: str, setting: MessageSetting) -> str:
    """Let a DICOM UID pass, and nothing else: not every ZDS is the one of IHE."""
    return text if is_uid(text) else ""


def _digits(text: str, setting: MessageSetting) -> str:
    return "".join(character for character in text if character.isdigit())


def _one_line(text: str, setting: MessageSetting) -> str:
    return " ".join(text.split())


TRANSFORMS = {
    "upper": Transform(lambda text, setting: text.upper()),
    "lower": Transform(lambda text, setting: text.lower()),
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

_LINE_ENDS = re.compile(r"[\r\n\t]+")


def age(birth: str, day: str, setting: MessageSetting) -> str:
    """
    Compute an age as DICOM writes it (VR AS, PS3.5 §6.2): `012D`, `005M`, `034Y`.

    Days in the first month, months up to two years, then years; on the study date, else
    today at the site. Nothing when the birth date is too vague to be sure, or lies ahead.
    """
    if is_plain_time(birth) and is_plain_time(day) and (known := years(birth, day)):
        return known
    born = _parsed(birth)
    if born is None:
        return ""
    said = _local(day, setting)
    if said is not None and said.precision >= Precision.DAY:
        on = said.local.date()
    else:
        on = setting.defaults.now.astimezone(ZoneInfo(setting.defaults.time_zone)).date()
    oldest, youngest = _bounds(born)
    longest = age_on(oldest, on)
    return longest if longest == age_on(youngest, on) else ""


def _bounds(born: Timestamp) -> tuple[date, date]:
    """Return the first and the last day a birth date of this precision can mean."""
    first = born.local.date()
    if born.precision is Precision.YEAR:
        return first, date(first.year, 12, 31)
    if born.precision is Precision.MONTH:
        return first, first.replace(day=monthrange(first.year, first.month)[1])
    return first, first
