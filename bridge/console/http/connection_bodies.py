"""What requests about the settings of listeners and destinations carry."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import ConfigDict, Field, StringConstraints

from bridge.console.http.mapping_bodies import Version
from bridge.request_body import Model

_MOST_KEYS = 60

ConnectionName = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Table = Annotated[dict[str, Any], Field(max_length=_MOST_KEYS)]


class _Body(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlanBody(_Body):
    """A table as bridge.toml would have it; `new`: nobody may have its name."""

    table: Table
    new: bool = False


class BackBody(_Body):
    """Why, and what is in force as the page knows it."""

    reason: Reason
    begun_on: Version


class SettingsBody(BackBody):
    """The table, null: bridge.toml has the word again."""

    table: Table | None
    new: bool = False
