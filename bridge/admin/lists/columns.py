"""Values that the lists show beside those of their rows."""

from dataclasses import dataclass, field
from typing import Final

MAX_IDS: Final = 100
MAX_COLUMNS: Final = 12
"""Rows and columns of one call."""


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """Values by id and column; `left`: messages that were not read before the deadline."""

    values: dict[int, dict[str, str]] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)


def shown_name(name: str) -> str:
    """Return a name of type XPN or PN as `Family, Given`."""
    family, _, rest = name.partition("^")
    given = rest.partition("^")[0]
    return ", ".join(filter(None, (family.partition("&")[0].strip(), given.strip())))
