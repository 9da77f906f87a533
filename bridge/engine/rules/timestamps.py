"""How a moment is written in JSON: UTC, ISO 8601, with `Z`."""

from datetime import UTC, datetime


def iso(milliseconds: int) -> str:
    """Write a moment given in milliseconds since the Unix epoch."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(milliseconds: int | None) -> str | None:
    """As `iso`; None where there is no moment."""
    return None if milliseconds is None else iso(milliseconds)


def parse_iso(text: str) -> int:
    """Read an ISO 8601 time with its zone as milliseconds; raise ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        message = "the time has no zone"
        raise ValueError(message)
    return round(moment.timestamp() * 1000)
