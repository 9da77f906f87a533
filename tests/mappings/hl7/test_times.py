"""Dates and times in the formats of senders."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.times import Precision, format_moment, parse_timestamp


@pytest.mark.parametrize(
    ("text", "digits", "precision"),
    [
        ("1970", "1970", Precision.YEAR),
        ("197003", "197003", Precision.MONTH),
        ("19880705", "19880705", Precision.DAY),
        ("1988070523", "1988070523", Precision.HOUR),
        ("198807050000", "198807050000", Precision.MINUTE),
        ("20250102153045", "20250102153045", Precision.SECOND),
        ("20250102153045.1", "20250102153045.100", Precision.FRACTION),
        ("20100604234724.085-0400", "20100604234724.085", Precision.FRACTION),
        ("2025010215304512", "20250102153045.120", Precision.FRACTION),
        ("20250102153045123", "20250102153045.123", Precision.FRACTION),
        ("20250102153045.", "20250102153045", Precision.SECOND),
        ("19760121+^D", "19760121", Precision.DAY),
        ("198807050000^D", "19880705", Precision.DAY),
        ("19880705^S", "19880705", Precision.DAY),
        (" 19880705 ", "19880705", Precision.DAY),
        ("2025-01-15", "20250115", Precision.DAY),
        ("2025-01-15T14:30:00Z", "20250115143000", Precision.SECOND),
        ("2025-01-15 14:30:00.250+01:00", "20250115143000.250", Precision.FRACTION),
        ("20250115T143000", "20250115143000", Precision.SECOND),
        ("2025/1/5", "20250105", Precision.DAY),
        ("01/15/2025", "20250115", Precision.DAY),
        ("15/01/2025", "20250115", Precision.DAY),
        ("01/02/2025", "20250102", Precision.DAY),
        ("01/15/2025 14:30:00", "20250115143000", Precision.SECOND),
        ("01/15/2025 2:30 PM", "202501151430", Precision.MINUTE),
        ("01/15/2025 12:05 am", "202501150005", Precision.MINUTE),
        ("15.01.2025", "20250115", Precision.DAY),
        ("Aug 15, 1942", "19420815", Precision.DAY),
        ("August 15th 1942", "19420815", Precision.DAY),
        ("15-AUG-1942", "19420815", Precision.DAY),
        ("15 Aug 1942 10:20", "194208151020", Precision.MINUTE),
    ],
)
def test_understood(text: str, digits: str, precision: Precision) -> None:
    """Each format keeps its precision."""
    read = parse_timestamp(text)
    assert read is not None
    assert (read.digits, read.precision) == (digits, precision)


@pytest.mark.parametrize(
    "text",
    [
        *("", '""', "unknown", "880705", "85", "19881301", "19880230", "1988070525", "15.13.2025"),
        *(
            "Foo 15, 1942",
            "01/02/25",
            "13/13/2025",
            "20250102153045+9900",
            "\u0661\u0669\u0667\u0660",
            "0000",
        ),
        *("19880705x", "T", "1" * 100, "2025-01-15" + " " * 1000 + "x"),
    ],
)
def test_not_understood(text: str) -> None:
    """Ambiguous and impossible dates are not parsed."""
    assert parse_timestamp(text) is None


def test_day_first() -> None:
    """`day_first` decides unless a number is above 12."""
    assert [
        read.digits if (read := parse_timestamp(text, day_first=True)) else None
        for text in ("01/02/2025", "01/15/2025", "15/01/2025")
    ] == ["20250201", "20250115", "20250115"]


def test_parts() -> None:
    """Date and time are available separately, with their precision."""
    read = parse_timestamp("202501021530")
    assert read is not None
    assert (read.date, read.time) == ("20250102", "1530")
    year = parse_timestamp("1970")
    assert year is not None
    assert (year.date, year.time) == ("1970", "")


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("20250102153045", datetime(2025, 1, 2, 14, 30, 45, tzinfo=UTC)),
        ("20250102153045-0500", datetime(2025, 1, 2, 20, 30, 45, tzinfo=UTC)),
        ("20250102153045+0530", datetime(2025, 1, 2, 10, 0, 45, tzinfo=UTC)),
        ("2025-01-02T15:30:45Z", datetime(2025, 1, 2, 15, 30, 45, tzinfo=UTC)),
    ],
)
def test_moment(text: str, instant: datetime) -> None:
    """The zone of the text takes precedence over that of the sender."""
    read = parse_timestamp(text)
    assert read is not None
    assert read.moment(timezone(timedelta(hours=1))) == instant


def test_format() -> None:
    """A time is formatted with its offset, a date without."""
    moment = datetime(2025, 1, 2, 23, 30, 45, 250_000, tzinfo=UTC)
    berlin = timezone(timedelta(hours=1))
    assert format_moment(moment, berlin) == "20250103003045+0100"
    assert format_moment(moment, berlin, Precision.MINUTE) == "202501030030+0100"
    assert format_moment(moment, berlin, Precision.FRACTION) == "20250103003045.250+0100"
    assert format_moment(moment, berlin, Precision.DAY) == "20250103"


_years = (datetime(1800, 1, 1), datetime(2199, 12, 31))  # noqa: DTZ001  # hypothesis adds the zone


@given(st.datetimes(*_years, timezones=st.just(UTC)))
def test_round_trip(moment: datetime) -> None:
    """A formatted time is parsed as the same instant, to the millisecond."""
    read = parse_timestamp(format_moment(moment, UTC, Precision.FRACTION))
    assert read is not None
    assert read.moment(UTC) == moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@given(st.text(max_size=40) | st.text("0123456789-/:. TZ+^apmAugDec", max_size=40))
def test_never_fails(text: str) -> None:
    """Any text is a time or None."""
    read = parse_timestamp(text)
    assert read is None or read.digits.replace(".", "").isdigit()
