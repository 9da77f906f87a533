"""The responses about the first steps of an installation. Times in ms."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict

from bridge.admin.overview.first_steps import StepName
from bridge.contract.requests import Model


class _Response(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FirstStepBody(_Response):
    """A step: `words` say what was found or what is to be done; `seen` depends on the step."""

    name: StepName
    done: bool
    words: str
    seen: dict[str, Any]


class FirstStepsBody(_Response):
    """The steps in their order, and the number of those that are not done."""

    steps: Sequence[FirstStepBody]
    left: int


class SampleReplyBody(_Response):
    """The reply to a sample message: its code (MSA-1) or '', and what happened in words."""

    accepted: bool
    code: str
    words: str


class SetUpBody(_Response):
    """The number of first steps that are left."""

    left: int


class MeBody(_Response):
    """
    The signed-in user. `sites` are those that the user is limited to; null: all sites.

    `zones`: the time zone of each visible site. `home`: the page that /console leads to. `start` is
    null for users who cannot set up connections.
    """

    email: str
    name: str
    theme: str
    role: str
    permissions: Sequence[str]
    sites: Sequence[str] | None
    zones: dict[str, str]
    home: Literal["overview", "start"]
    start: SetUpBody | None
