"""
The simulated hospital and radiologist.

The hospital has two systems that send orders, and one that receives results. It uses real MLLP
connections (`bridge.mllp_peers`) and records each result with its time.

The radiologist and her host application make HTTP calls. Reports are opened by launch links. The
page uses its session endpoints; all other calls are those of the interface reference.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import httpx

from bridge.demo.installation import HOST, SITE
from bridge.demo.narration import CallRefused, NoReply, TooLate, Unexpected
from bridge.mllp_peers import AcknowledgingReceiver, ReceivedMessage, send
from mappings.hl7.acknowledgment import ReceivedAck, read_ack
from mappings.hl7.message import Message
from mappings.hl7.refusals import AckCode

_REPLY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class System:
    """A system that sends orders to a port."""

    name: str
    charset: str
    port: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """The reply to a message, and the seconds until it arrived."""

    reply: bytes
    ack: ReceivedAck
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """A result that the RIS received; `at` in seconds of `clock`."""

    at: float
    message: Message

    @property
    def accession(self) -> str:
        """OBR-18."""
        return self.message.value("OBR-18")

    @property
    def status(self) -> str:
        """OBR-25: P, F or C."""
        return self.message.value("OBR-25")

    @property
    def text(self) -> str:
        """The lines of the report and its addenda."""
        return "\n".join(
            segment.value("5")
            for segment in self.message.named("OBX")
            if segment.value("3.1") == "18748-4"
        )


class Hospital:
    """Sends messages, and records results in order."""

    def __init__(self, reactor: Any, clock: Callable[[], float] = time.time) -> None:
        self._reactor = reactor
        self._clock = clock
        self._arrived = asyncio.Event()
        self._read = 0
        self.results: list[Result] = []
        self.on_result: Callable[[Result], None] = lambda _: None

    def listen(self, port: int) -> None:
        """Receive results and accept all of them."""
        AcknowledgingReceiver(AckCode.ACCEPT, self._take).listen(self._reactor, HOST, port)

    async def send(self, system: System, messages: Sequence[bytes]) -> AsyncIterator[Exchange]:
        """Send messages over one connection, one after the other; yield each exchange."""
        began = time.perf_counter()
        replies = send(HOST, system.port, messages, reply_timeout=_REPLY_SECONDS)
        async for received in replies:
            if received.reply is None:
                raise NoReply(system.name, received.error)
            yield Exchange(received.reply, read_ack(received.reply), time.perf_counter() - began)
            began = time.perf_counter()

    async def next(self, count: int, within: float) -> Sequence[Result]:
        """Return the next `count` results. Raises TooLate."""
        end = self._read + count
        try:
            async with asyncio.timeout(within):
                while len(self.results) < end:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            unread = [(result.accession, result.status) for result in self.unread]
            raise TooLate(f"{count} results at the RIS", within, unread) from None
        found, self._read = self.results[self._read : end], end
        return found

    @property
    def unread(self) -> Sequence[Result]:
        """Results that `next` has not returned yet."""
        return self.results[self._read :]

    def _take(self, received: ReceivedMessage) -> None:
        result = Result(self._clock(), Message.parse(received.payload))
        self.results.append(result)
        self._arrived.set()
        self.on_result(result)


_BOOT: Final = re.compile(r'<script type="application/json" id="boot">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Order:
    """The patient and the accession that identify a report."""

    mrn: str
    accession: str

    def identity(self) -> dict[str, str]:
        """Return the order key as in the HTTP interface."""
        return {"SiteID": SITE, "PatientMRN": self.mrn, "Accession": self.accession}


@dataclass(frozen=True, slots=True)
class WorklistReport:
    """A row of the worklist; `tags` are those of its first order, times in ms."""

    status: str
    accessions: frozenset[str]
    tags: dict[str, Any]
    release_at: int | None


class Radiologist:
    """A client with the token of one user. A failed call raises CallRefused."""

    def __init__(self, address: str, token: str) -> None:
        self._http = httpx.AsyncClient(base_url=address, timeout=30, trust_env=False)
        self._token = {"x-access-token": token}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def worklist(self) -> list[WorklistReport]:
        page = await self.call("GET", f"/api/worklist?SiteID={SITE}&limit=500")
        return [
            WorklistReport(
                row["status"],
                frozenset(order["Accession"] for order in row["orders"]),
                row["orders"][0],
                row["unsignUntil"],
            )
            for row in page["items"]
        ]

    async def report(self, order: Order) -> WorklistReport:
        reports = await self.worklist()
        found = [report for report in reports if order.accession in report.accessions]
        if len(found) != 1:
            raise Unexpected(f"reports of {order.accession}", 1, len(found))
        return found[0]

    async def link(self, order: Order) -> str:
        """Launch a report; return its link."""
        body = {
            "clinicalInfo": order.identity(),
            "reportingApp": {"AppLanguage": "en-US"},
            "response": {"type": "link"},
        }
        launched = await self.call("POST", "/api/report/launch/clinical", body)
        return str(launched["reportLink"])

    async def open(self, order: Order) -> "Page":
        """Launch a report and open its link, as the viewer's browser does."""
        link = await self.link(order)
        response = await self._http.get(link)
        boot = _BOOT.search(response.text)
        if not response.is_success or boot is None:
            raise CallRefused("opening a report link", response.status_code, "")
        return Page(self, str(json.loads(boot[1])["session"]))

    async def do(self, action: str, order: Order, **more: Any) -> None:
        """Call an action of `/api/report/…` for an order."""
        await self.call("POST", f"/api/report/{action}", {"clinicalInfo": order.identity(), **more})

    async def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        """Make a call, by default with the token; return the JSON, None for an empty body."""
        response = await self._http.request(
            method, path, json=body, headers=headers if headers is not None else self._token
        )
        if not response.is_success:
            raise CallRefused(f"{method} {path.partition('?')[0]}", *_problem(response))
        return response.json() if response.content else None


@dataclass(frozen=True, slots=True)
class Page:
    """An opened report page; each action returns the state of the page."""

    radiologist: Radiologist
    session: str

    async def do(self, action: str, **body: Any) -> dict[str, Any]:
        """Perform the action of a button of the page."""
        method, content = ("GET", None) if action == "report" else ("POST", body)
        headers = {"Authorization": f"Bearer {self.session}"}
        path = f"/reporting/api/session/{action}"
        state: dict[str, Any] = await self.radiologist.call(method, path, content, headers)
        return state

    async def write(self, lines: Sequence[str]) -> None:
        """Write and save the text of the report."""
        state = await self.do("report")
        await self.do("save", version=state["version"], text="\n".join(lines))

    async def write_addendum(self, text: str) -> None:
        state = await self.do("addendum/create")
        state = await self.do("addendum/save", version=_draft_version(state), text=text)
        await self.do("addendum/sign", version=_draft_version(state))


def _draft_version(state: dict[str, Any]) -> int:
    return int(
        next(addendum["version"] for addendum in state["addenda"] if addendum["state"] == "draft")
    )


def _problem(response: httpx.Response) -> tuple[int, str]:
    try:
        return response.status_code, str(response.json().get("code", ""))
    except ValueError:
        return response.status_code, ""
