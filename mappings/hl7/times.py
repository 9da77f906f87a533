"""
Times: dates and times of any precision, in the formats of HL7 and in those that senders use.

Precision is kept: `1970` is a year, not the first of January. A text whose meaning is ambiguous (a
two-digit year) is not parsed. The caller supplies clock and time zone.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from enum import IntEnum, unique


@unique
class Precision(IntEnum):
    """The smallest unit that a time contains; values are ordered."""

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
_YEARS = range(1800, 2200)  # `880705`, which has a two-digit year, would be in the year 8807
_LONGEST = 48  # characters

_OFFSET = r"\s*(?P<offset>Z|[+-]\d{2}:?\d{2})?"
_CLOCK = (
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2})(?::?(?P<minute>\d{2}))?(?::?(?P<second>\d{2}))?"
    r"(?:[.,](?P<fraction>\d{1,9}))?\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?"
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WORD = r"(?P<word>[A-Za-z]{3,9})\.?"
_PATTERNS = [
    re.compile(pattern + _CLOCK + _OFFSET, re.ASCII)
    for pattern in (
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
    """
    A time with its precision.

    `offset` is in minutes east of UTC, None if the text has no zone.
    """

    local: datetime  # without zone; missing parts are 1 or 0
    precision: Precision
    offset: int | None = None

    @property
    def digits(self) -> str:
        """The HL7 format with the same precision and without zone: `198807050000`, `1970`."""
        text = self.local.strftime(_FORMATS[self.precision]).rjust(4, "0")
        return text[:-3] if self.precision is Precision.FRACTION else text

    @property
    def date(self) -> str:
        """The date part of `digits`: `19880705`, `197001`, `1970`."""
        return self.digits[:8]

    @property
    def time(self) -> str:
        """The time part of `digits`: `1430`; '' for a date."""
        return self.digits[8:]

    def moment(self, zone: tzinfo) -> datetime:
        """
        Return the instant as an aware datetime.

        `zone` applies if the timestamp has no offset.
        """
        actual = zone if self.offset is None else timezone(timedelta(minutes=self.offset))
        return self.local.replace(tzinfo=actual)


def format_moment(moment: datetime, zone: tzinfo, precision: Precision = Precision.SECOND) -> str:
    """Format an aware datetime in a zone; times have their offset: `…1530+0100`."""
    local = moment.astimezone(zone)
    digits = Timestamp(local.replace(tzinfo=None), precision).digits
    return digits + local.strftime("%z")[:5] if precision > Precision.DAY else digits


def parse_timestamp(text: str, *, day_first: bool = False) -> Timestamp | None:
    """
    Parse DT, DTM and TS, and the date formats that senders use instead.

    Accepts HL7 digits of any length with fraction and zone, a second component with the precision
    (`19760121^D`), ISO 8601, `01/15/2025 14:30`, `Aug 15, 1942`, `15-AUG-1942` and `15.01.2025`.
    `01/02/2025` is in February if `day_first`, else in January. A number above 12 is always the
    day. Returns None for an empty text, a null, and unknown formats.
    """
    body, _, code = text.partition("^")
    body = body.strip().rstrip("+")
    found = _DIGITS.fullmatch(body) if len(body) <= _LONGEST else None
    if found is None and len(body) <= _LONGEST:
        matches = (pattern.fullmatch(body) for pattern in _PATTERNS)
        found = next(filter(None, matches), None)
    if found is None:
        return None
    try:
        return _timestamp(found.groupdict(), _CODES.get(code[:1]), day_first=day_first)
    except ValueError:  # a 13th month, a 30th of February
        return None


def _timestamp(
    parts: dict[str, str | None], limit: Precision | None, *, day_first: bool
) -> Timestamp | None:
    month, day = _month_and_day(parts, day_first=day_first)
    numbers = [
        parts["year"],
        month,
        day,
        parts.get("hour"),
        parts.get("minute"),
        parts.get("second"),
    ]
    fraction = parts.get("fraction")
    known = [int(number) for number in numbers if number is not None]
    precision = Precision(len(known) + (fraction is not None))
    if parts.get("half") and len(known) > Precision.DAY:
        known[3] = known[3] % 12 + (12 if (parts["half"] or "").lower().startswith("p") else 0)
    # Missing parts: January, the first, midnight.
    year, month_number, day_number, *clock = known + [1, 1, 0, 0, 0][len(known) - 1 :]
    micro = int((fraction or "0").ljust(6, "0")[:6])
    if year not in _YEARS:
        return None
    date_only = datetime(year, month_number, day_number)  # noqa: DTZ001  # the offset is stored separately
    local = date_only.replace(hour=clock[0], minute=clock[1], second=clock[2], microsecond=micro)
    return Timestamp(local, min(precision, limit or precision), _offset(parts.get("offset")))


def _month_and_day(
    parts: dict[str, str | None], *, day_first: bool
) -> tuple[str | None, str | None]:
    if word := parts.get("word"):
        return str(_MONTHS.index(word[:3].lower()) + 1), parts["day"]
    first, second = parts.get("first"), parts.get("second_number")
    if first is None or second is None:
        return parts.get("month"), parts.get("day")
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
