"""Responses about what needs attention. Times in ms."""

from collections.abc import Sequence
from typing import Literal

from pydantic import ConfigDict

from bridge.contract.requests import Model


class _Response(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AttentionGroupBody(_Response):
    """
    Rows with one cause, or an active alert. `list` and `filters` name the list with the rows.

    `applied`: the rows were processed, and only the result is to be checked.
    """

    key: str
    subject: str
    severity: Literal["red", "amber"]
    code: str
    kind: Literal["listener", "destination", ""]
    channel: str
    count: int
    first_at: int
    last_at: int
    words: str
    action: str
    advice: str
    applied: bool
    list: str
    filters: dict[str, Sequence[str]]
    reference: int | None


class AttentionBody(_Response):
    """
    All groups; `complete` is false if there are more parked rows than were read.

    `checked` is false if the alert conditions were not checked lately.
    """

    groups: list[AttentionGroupBody]
    complete: bool
    checked: bool


class ReviewedBody(_Response):
    """How many items were marked as reviewed."""

    count: int
