"""Fixtures for tests of a whole bridge: clock, definitions, destinations, report pages."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import httpx

from bridge.delivery.destinations import CompiledDestination
from bridge.queue.states import RetryPolicy
from mappings.compiler import DEFINITIONS, load
from mappings.hl7.acknowledgment import build_ack
from mappings.hl7.header import peek
from mappings.hl7.refusals import AckCode
from mappings.inbound.definition import InboundMapping
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultEvent

SITE = "SITE1"
TOKEN = "rbt_service-token-of-the-tests"
USER = {"UserEmail": "ada@example.org", "UserName": "Ada Reader"}
FAST = RetryPolicy(first=0.01, maximum=0.05)


class Time:
    """A clock in milliseconds that a test can advance."""

    def __init__(self) -> None:
        self.leap = 0

    def __call__(self) -> int:
        return round(datetime.now(UTC).timestamp() * 1000) + self.leap

    def moment(self) -> datetime:
        return datetime.fromtimestamp(self() / 1000, UTC)


def accepting(payload: bytes) -> bytes:
    """Acknowledge a message, as a RIS does."""
    return build_ack(
        peek(payload), AckCode.ACCEPT, control_id="1", now=datetime(2026, 1, 1, tzinfo=UTC)
    )


@dataclass
class Page:
    http: httpx.AsyncClient
    secret: str

    async def __call__(self, path: str, **body: Any) -> Any:
        headers = {"authorization": f"Bearer {self.secret}"}
        shown = await self.http.get("/reporting/api/session/report", headers=headers)
        report = shown.json().get("report", shown.json())
        about = (
            report["addenda"][-1] if path.startswith("addendum/") and report["addenda"] else report
        )
        version = about["version"]
        response = await self.http.post(
            f"/reporting/api/session/{path}", json={"version": version, **body}, headers=headers
        )
        assert response.status_code == 200, response.text
        return response.json()


@cache
def inbound() -> tuple[InboundMapping, ...]:
    found = [load(DEFINITIONS, name) for name in ("orders", "patients")]
    return tuple(mapping for mapping in found if isinstance(mapping, InboundMapping))


@cache
def outbound() -> tuple[OutboundMapping, ...]:
    found = [load(DEFINITIONS, name) for name in ("results", "status")]
    return tuple(mapping for mapping in found if isinstance(mapping, OutboundMapping))


def destination(name: str = "ris", **changes: Any) -> CompiledDestination:
    return CompiledDestination(name, **{"mappings": outbound(), "retry": FAST, **changes})


EVERYTHING = frozenset(ResultEvent)
