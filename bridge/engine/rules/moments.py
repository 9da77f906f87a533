"""How a moment is written in JSON: UTC, ISO 8601, with `Z`."""

from datetime import UTC, datetime


def iso(milliseconds: int) -> str:
    """Write a moment given in milliseconds since the Unix epoch."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
