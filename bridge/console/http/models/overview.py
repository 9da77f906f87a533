"""
The responses about channels, as the console's pages read them.

They describe the responses; a test compares them. Times are in ms.
"""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from bridge.console.http.models.attention import AttentionBody
from bridge.contract.requests import Model


class _Response(Model):
    model_config = ConfigDict(extra="forbid", frozen=True)


Severity = Literal["red", "amber"]
Kind = Literal["listener", "destination"]


class ConditionBody(_Response):
    """The worst active alert condition of a channel."""

    severity: Severity
    text: str


class ChannelSummaryBody(_Response):
    """
    A channel. Counts are null if it also serves other sites (`shared`).

    `rate`: messages in the last minute; `errors`, `share`, `p50`, `p99` (ms): of the last hour;
    `oldest`: since when the oldest waits; `spark`: attempts by quarter hour of the last day.
    """

    kind: Kind
    name: str
    sites: list[str]
    shared: bool
    enabled: bool
    state: str
    condition: ConditionBody | None
    rate: float | None
    errors: int | None
    share: float | None
    waiting: int | None
    oldest: int | None
    p50: float | None
    p99: float | None
    spark: list[int]
    spark_bad: list[int]
    active_at: int | None
    certificate: int | None


class TotalsBody(_Response):
    """Messages received and results delivered within a day."""

    received: int
    sent: int


class OverviewBody(_Response):
    """All channels, problems first; the totals are null for users limited to sites."""

    now: int
    channels: list[ChannelSummaryBody]
    needs: AttentionBody
    totals: TotalsBody | None


class ActiveDefinitionBody(_Response):
    """The active version of a definition, and its last activation."""

    name: str
    version: str
    at: int
    actor: str
    reason: str


class ChannelConditionBody(_Response):
    """An active alert of a channel."""

    key: str
    severity: Severity
    text: str
    action: str
    raised_at: int


class HandshakeBody(_Response):
    """Failed TLS handshakes of one peer for one reason."""

    peer: str
    reason: str
    subject: str
    is_trouble: bool
    count: int
    last_at: int


class ChannelPageBody(_Response):
    """A channel; `settings` as in bridge.toml, empty for users who may not change connections."""

    summary: ChannelSummaryBody
    address: str
    source: str
    paused_at: int | None
    paused_by: str
    open_until: int | None
    problem: str
    settings: dict[str, Any]
    definitions: list[ActiveDefinitionBody]
    conditions: list[ChannelConditionBody]
    handshakes: list[HandshakeBody]
    start_failures: list[str]


class WeekBeforeBody(_Response):
    """The same times a week before; of minutes, equal parts of their quarter hours."""

    outcomes: dict[str, list[float]]
    p50: list[float | None]


class SeriesBody(_Response):
    """
    Points from `from` on, one every `step` ms; the last one is in progress.

    `oldest` is an age in ms. `gaps`: when no node recorded anything.
    """

    step: int
    begin: int = Field(alias="from")
    outcomes: dict[str, list[int]]
    p50: list[float | None]
    p99: list[float | None]
    waiting: list[int | None]
    oldest: list[int | None]
    week_before: WeekBeforeBody | None
    gaps: list[tuple[int, int]]
