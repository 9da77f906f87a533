"""Responses about shadow runs, as the console's pages read them."""

from typing import Literal

from pydantic import BaseModel

from bridge.console.http.models.background import BackgroundJobResponse


class SurveyResponse(BaseModel):
    """What a run would compare: at least `count` rows of a list, exactly so if `exact`."""

    connections: list[str]
    count: int
    exact: bool
    before: str
    after: str
    list: Literal["messages", "deliveries"]


class ShadowRunResponse(BaseModel):
    """A shadow run: its job, the versions, and what it compares; `total` rows match."""

    job: BackgroundJobResponse
    before: str
    after: str
    days: float
    connections: list[str]
    total: int


class ShadowPageResponse(BaseModel):
    """What a run would compare, or why there can be none; the user's last runs, newest first."""

    survey: SurveyResponse | None
    why_not: str
    runs: list[ShadowRunResponse]


class ShadowValueResponse(BaseModel):
    """
    A value that differs: its target, or its place in the message and the name of the place.

    `target` is `sent` if one version sends nothing; the texts say why.
    """

    place: str
    target: str
    name: str
    before: str
    after: str


class ShadowValuesResponse(BaseModel):
    """What differs in one message or result."""

    differences: list[ShadowValueResponse]
