"""Timestamps in JSON: ISO 8601, UTC, with `Z`."""

from datetime import UTC, datetime


def iso(milliseconds: int) -> str:
    """Format milliseconds since the Unix epoch."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(milliseconds: int | None) -> str | None:
    """Format milliseconds since the Unix epoch; None gives None."""
    return None if milliseconds is None else iso(milliseconds)


def parse_iso(text: str) -> int:
    """Parse an ISO 8601 time with zone to milliseconds; raise ValueError for other texts."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        message = "the time has no zone"
        raise ValueError(message)
    return round(moment.timestamp() * 1000)
