"""Dates of a message, shifted by whole weeks in the format in which they are written."""

import re
from dataclasses import dataclass
from datetime import date, timedelta

_DIGITS = re.compile(r"\d+")
_YEAR = r"(?P<year>(?:1[89]|20|21)\d\d)"
_MONTH, _DAY = r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WORD = rf"(?P<word>(?:{'|'.join(_MONTHS)})[a-z]{{0,6}})"
WRITTEN_DATES = [
    re.compile(rf"(?<!\d){pattern}(?!\d)", re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_YEAR}-{_MONTH}-{_DAY}",
        rf"{_YEAR}/{_MONTH}/{_DAY}",
        rf"{_MONTH}/{_DAY}/{_YEAR}",
        rf"{_DAY}\.{_MONTH}\.{_YEAR}",
        rf"{_WORD}\.?\s+{_DAY}(?:st|nd|rd|th)?,?\s+{_YEAR}",
        rf"{_DAY}[\s-]{_WORD}[\s-]{_YEAR}",
    )
]
"""The formats that senders use instead of that of HL7, as in `mappings.hl7.times`."""


def read_date(text: str) -> date | None:
    """Return the day of a date of HL7 (`YYYYMMDD…`), None if it has none."""
    try:
        return date(int(text[:4]), int(text[4:6]), int(text[6:8]))
    except ValueError:
        return None


_DATE = re.compile(
    r"(?P<blank>\s*)(?P<year>(?:1[89]|20|21)\d\d)(?P<month>0[1-9]|1[0-2])?"
    r"(?P<day>(?<=\d{6})(?:0[1-9]|[12]\d|3[01]))?"
    r"(?P<rest>(?:(?<=\d{8})(?:[01]\d|2[0-4])(?:[0-5]\d(?:[0-5]\d)?)?(?:\.\d{1,6})?)?"
    r"(?:[+-]\d{4})?\s*)"
)


_CLOCK = re.compile(
    r"(?:(?:T|,?\s+)[\d:.,]{1,18}\s*(?:[ap]\.?m\.?)?[Z+\d:-]{0,6})?\s*", re.IGNORECASE
)


def _fitted(value: str, model: str) -> str:
    """Write a part of a date like another one, with as many characters; `9` for 10 to 31."""
    if not value.isdecimal():
        value = value.upper() if model.isupper() else value.capitalize()
        return value.ljust(len(model))
    return value.zfill(len(model)) if len(value) <= len(model) else "9" * len(model)


@dataclass(frozen=True, slots=True)
class DateShift:
    """Shifts the dates of one message. `sent` is the date of the message."""

    weeks: int
    sent: date | None
    oldest: int

    def shift(self, text: str) -> str:
        """Return a shifted date with the same precision, "" if the text is none."""
        found = _DATE.fullmatch(text)
        if found is None:
            return self._shift_written(text)
        if not self._is_real(found):
            return ""
        year, month, day = (found[name] for name in ("year", "month", "day"))
        moved = self._moved(date(int(year), int(month or 7), int(day or 1)))
        digits = f"{moved.year:04}{moved.month:02}{moved.day:02}"
        return f"{found['blank']}{digits[: 8 if day else 6 if month else 4]}{found['rest']}"

    def _shift_written(self, text: str) -> str:
        for pattern in WRITTEN_DATES:
            if (found := pattern.match(text)) and _CLOCK.fullmatch(text, found.end()):
                return self.written(found) + text[found.end() :]
        return ""

    def shift_day(self, text: str) -> str:
        """Return a shifted date, "" if the text is none, or may be a number: it has digits only."""
        digits = text.strip()
        is_day = digits.isdecimal() and len(digits) >= len("YYYYMMDD")
        return self.shift(text) if is_day else ""

    def written(self, found: re.Match[str]) -> str:
        """Return a date of `WRITTEN_DATES` in its own format, with as many characters."""
        parts = found.groupdict()
        word = parts.get("word")
        month, day = (
            _MONTHS.index(word[:3].lower()) + 1 if word else int(parts["month"]),
            parts["day"],
        )
        if month > 12 and not word:  # noqa: PLR2004  # the day is first
            month, day = int(day), str(month)
        try:
            moved = self._moved(date(int(parts["year"]), month, int(day)))
        except ValueError:
            return _DIGITS.sub(lambda number: "0" * len(number[0]), found[0])
        values = {"year": f"{moved.year:04}", "month": str(moved.month), "day": str(moved.day)}
        values["word"] = _MONTHS[moved.month - 1]
        text = found[0]
        for name in (name for name in values if parts.get(name)):
            start, end = (position - found.start() for position in found.span(name))
            text = text[:start] + _fitted(values[name], text[start:end]) + text[end:]
        return text

    @staticmethod
    def _is_real(found: re.Match[str]) -> bool:
        try:
            date(int(found["year"]), int(found["month"] or 7), int(found["day"] or 1))
        except ValueError:
            return False
        return True

    def _moved(self, day: date) -> date:
        if self.sent is not None and self.sent.year - day.year > self.oldest:
            day = date(self.sent.year - self.oldest, day.month, min(day.day, 28))
        return day + timedelta(weeks=self.weeks)
