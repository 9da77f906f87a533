"""
Times: dates and times of any precision, as HL7 has them and as senders write them.

Precision is kept, never padded: `1970` is a year, not the first of January. What cannot be
understood without guessing (a two-digit year) is None. Clocks and defaults are the caller's.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from enum import IntEnum, unique


@unique
class Precision(IntEnum):
    """How much of a time was said; comparable."""

    YEAR = 1
    MONTH = 2
    DAY = 3
    HOUR = 4
    MINUTE = 5
    SECOND = 6
    FRACTION = 7


_FORMATS = {
    Precision.YEAR: "%Y",
    Precision.MONTH: "%Y%m",
    Precision.DAY: "%Y%m%d",
    Precision.HOUR: "%Y%m%d%H",
    Precision.MINUTE: "%Y%m%d%H%M",
    Precision.SECOND: "%Y%m%d%H%M%S",
    Precision.FRACTION: "%Y%m%d%H%M%S.%f",
}
_CODES = dict(zip("YLDHMS", Precision, strict=False))  # TS.2, table 0529
_LONGEST_OFFSET = 14 * 60  # minutes
_YEARS = range(1800, 2200)  # others are two-digit years in disguise: `880705`
_LONGEST = 48  # characters; more is no time

_OFFSET = r"\s*(?P<offset>Z|[+-]\d{2}:?\d{2})?"
_CLOCK = (
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2})(?::?(?P<minute>\d{2}))?(?::?(?P<second>\d{2}))?"
    r"(?:[.,](?P<fraction>\d{1,9}))?\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?"
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WORD = r"(?P<word>[A-Za-z]{3,9})\.?"
_SHAPES = [
    re.compile(shape + _CLOCK + _OFFSET, re.ASCII)
    for shape in (
        r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})",
        r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})/(?P<second_number>\d{1,2})/(?P<year>\d{4})",
        r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})",
        _WORD + r"\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})",
        r"(?P<day>\d{1,2})[\s-]" + _WORD + r"[\s-](?P<year>\d{4})",
        r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})(?=T)",
    )
]
_DIGITS = re.compile(
    r"(?P<year>\d{4})(?:(?P<month>\d{2})(?:(?P<day>\d{2})(?:(?P<hour>\d{2})(?:(?P<minute>\d{2})"
    r"(?:(?P<second>\d{2})(?:\.?(?P<fraction>\d{1,9}))?)?)?)?)?)?\.?" + _OFFSET,
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time as precise as it was said; `offset` in minutes east of UTC, None when not said."""

    local: datetime  # without zone; what was not said is 1 or 0
    precision: Precision
    offset: int | None = None

    @property
    def digits(self) -> str:
        """HL7's own form, as precise as it was said, without zone: `198807050000`, `1970`."""
        text = self.local.strftime(_FORMATS[self.precision]).rjust(4, "0")
        return text[:-3] if self.precision is Precision.FRACTION else text

    @property
    def date(self) -> str:
        """The date's part of `digits`: `19880705`, `197001`, `1970`."""
        return self.digits[:8]

    @property
    def time(self) -> str:
        """The time's part of `digits`: `1430`; '' when only a date was said."""
        return self.digits[8:]

    def moment(self, zone: tzinfo) -> datetime:
        """Return the instant, aware; `zone` is the sender's, used where none was said."""
        said = zone if self.offset is None else timezone(timedelta(minutes=self.offset))
        return self.local.replace(tzinfo=said)


def format_moment(moment: datetime, zone: tzinfo, precision: Precision = Precision.SECOND) -> str:
    """Write an aware time for a zone, with its offset when it has a time: `…1530+0100`."""
    local = moment.astimezone(zone)
    said = Timestamp(local.replace(tzinfo=None), precision).digits
    return said + local.strftime("%z")[:5] if precision > Precision.DAY else said


def parse_timestamp(text: str, *, day_first: bool = False) -> Timestamp | None:
    """
    Read DT, TM-less DTM and TS, and what stands in their place in the field.

    HL7 digits of any length with fraction and zone, a second component with the precision
    (`19760121^D`), ISO 8601, `01/15/2025 14:30`, `Aug 15, 1942`, `15-AUG-1942`, `15.01.2025`.
    `01/02/2025` is February with `day_first`, else January; a number above 12 decides alone.
    None: empty, null, or not understood.
    """
    body, _, code = text.partition("^")
    body = body.strip().rstrip("+")
    found = _DIGITS.fullmatch(body) if len(body) <= _LONGEST else None
    if found is None and len(body) <= _LONGEST:
        shapes = (shape.fullmatch(body) for shape in _SHAPES)
        found = next(filter(None, shapes), None)
    if found is None:
        return None
    try:
        return _timestamp(found.groupdict(), _CODES.get(code[:1]), day_first=day_first)
    except ValueError:  # a 13th month, a 30th of February
        return None


def _timestamp(
    said: dict[str, str | None], limit: Precision | None, *, day_first: bool
) -> Timestamp | None:
    month, day = _month_and_day(said, day_first=day_first)
    numbers = [said["year"], month, day, said.get("hour"), said.get("minute"), said.get("second")]
    fraction = said.get("fraction")
    known = [int(number) for number in numbers if number is not None]
    precision = Precision(len(known) + (fraction is not None))
    if said.get("half") and len(known) > Precision.DAY:
        known[3] = known[3] % 12 + (12 if (said["half"] or "").lower().startswith("p") else 0)
    year, month_number, day_number, *clock = known + [1, 1, 0, 0, 0][len(known) - 1 :]
    micro = int((fraction or "0").ljust(6, "0")[:6])
    if year not in _YEARS:
        return None
    date_only = datetime(year, month_number, day_number)  # noqa: DTZ001  # the zone is beside it
    local = date_only.replace(hour=clock[0], minute=clock[1], second=clock[2], microsecond=micro)
    return Timestamp(local, min(precision, limit or precision), _offset(said.get("offset")))


def _month_and_day(
    said: dict[str, str | None], *, day_first: bool
) -> tuple[str | None, str | None]:
    if word := said.get("word"):
        return str(_MONTHS.index(word[:3].lower()) + 1), said["day"]
    first, second = said.get("first"), said.get("second_number")
    if first is None or second is None:
        return said.get("month"), said.get("day")
    if int(first) > 12 or (day_first and int(second) <= 12):  # noqa: PLR2004  # months
        return second, first
    return first, second


def _offset(text: str | None) -> int | None:
    if text is None or text == "Z":
        return None if text is None else 0
    digits = text[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    if minutes > _LONGEST_OFFSET:
        raise ValueError("no such zone")
    return -minutes if text[0] == "-" else minutes
