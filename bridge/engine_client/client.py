"""
Client of a report service: our engine in this process, or any service over HTTP.

`InProcess` and `over_http` make the connection; the client is the same. Each method returns a body
of `bridge.contract`, or raises `EngineFailure`, which says whether a retry can help. It makes one
attempt; the queues repeat failed calls. Optional members of a request are left out, because another
service may reject members that it does not know.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import perf_counter
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote, unquote

import httpx
from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError
from pydantic_core import to_json

from bridge.contract import SIGNED, TOKEN_HEADER, OrderKey
from bridge.contract.requests import (
    DeleteBody,
    ExportBody,
    LinkBody,
    OrderIdentity,
    OrderInSite,
    OutsideReportBody,
    PatientMergeBody,
    PatientUnmergeBody,
    PatientUpdateBody,
    PdfBody,
    ReportedElsewhereBody,
    ReturnedOrder,
    RtfFileBody,
    RtfResponse,
    StatusBody,
    StructuredReportFile,
    UpdateMode,
    UpdateStructuredReports,
)
from bridge.contract.responses import (
    ChangesResponse,
    ContentResponse,
    LaunchResponse,
    OutsideReportOfPatient,
    OutsideReportsResponse,
    ReleasedTextBody,
    SignedInUser,
    StatusAnswerBody,
    StatusRecordBody,
    StructuredReportOfOrder,
    StructuredReportsResponse,
    UndoneMergeBody,
    WorklistResponse,
)
from bridge.engine_client.errors import OK, EngineFailure, classify, code_of, retry_after
from bridge.errors import FailureKind
from bridge.web.bodies import IN_PROCESS
from mllp.tls import HandshakeFailure, describe_handshake

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
OnCall = Callable[[str, int | None, str, float], object]
"""Receives a call that ended: path, status, error code ('': success) and seconds."""

OnHandshakeFailure = Callable[[str, HandshakeFailure], object]
"""Handles a failed TLS handshake with the service at an address."""

TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
"""Seconds to wait for a free connection, for a part of the response, and to connect."""

LIMITS: Final = httpx.Limits(max_connections=64, max_keepalive_connections=32)

DEADLINE: Final = 60.0
"""Seconds that a call may take, in addition to the `wait` that it requests."""

MAX_RESPONSE_BYTES: Final = 64 * 2**20
"""Bytes of the largest response: several times the largest export of our own engine."""

NO_TEXTS: Final = "no_texts"
"""Error code of the client: the record of a signed report has no text."""

_LONG_POLL_MARGIN: Final = 5.0
"""Seconds that a response may take in addition to the requested wait."""
_MAX_CAUSES: Final = 6
"""Errors below one another that are searched for that of the TLS library."""
_UNAUTHORIZED: Final = 401
_SERVER_ERROR: Final = 500
_PATH_CHARACTERS: Final = "/!$&'()*+,;=:@~%"

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_NEVER_VALID: Final = (
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
    httpx.TooManyRedirects,
    httpx.LocalProtocolError,
)

_LAUNCH: Final = "/api/report/launch/clinical"
_BATCH: Final = f"{_LAUNCH}/batch"
_STATUS: Final = "/api/report/status"
_ELSEWHERE: Final = "/api/report/elsewhere"
_PROFILE: Final = "/reporting/api/account"
_WARNINGS: Final = "x-warnings"

_USER: Final = TypeAdapter(SignedInUser)


def over_http(base_url: str) -> httpx.AsyncClient:
    """Connect to the service at an address; proxy settings of the environment are ignored."""
    return httpx.AsyncClient(
        base_url=base_url, timeout=TIMEOUT, limits=LIMITS, trust_env=False, cookies=_no_cookies()
    )


class InProcess:
    """
    An application of this process, which runs in the task of the caller.

    Its errors have the results of an HTTP server: status 500 before the response has started, else
    a broken connection. The application has logged them.
    """

    def __init__(self, application: Application, base_url: str) -> None:
        self.base_url = url = httpx.URL(base_url)
        self.is_closed = False
        self._application = application
        self._host = (b"host", url.netloc)
        self._scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": url.scheme,
            "server": (url.host, url.port),
            "client": ("127.0.0.1", 0),
            "root_path": "",
        }

    async def aclose(self) -> None:
        self.is_closed = True

    async def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        query: Mapping[str, Any] | None,
    ) -> "Answer | None":
        """Return the response; None if it is incomplete."""
        raw_path = quote(path, safe=_PATH_CHARACTERS)
        scope: Message = {
            **self._scope,
            "method": method,
            "path": unquote(raw_path),
            "raw_path": raw_path.encode(),
            "query_string": str(httpx.QueryParams(query)).encode() if query else b"",
            "headers": [
                self._host,
                *([(b"content-length", b"%d" % len(body))] if body else ()),
                *((name.encode(), value.encode()) for name, value in headers.items()),
            ],
            "extensions": {IN_PROCESS: {}},
        }
        received, complete = False, asyncio.Event()
        start: Message = {"status": _SERVER_ERROR, "headers": ()}
        content = bytearray()

        async def receive() -> Message:
            nonlocal received
            if received:
                await complete.wait()
                return {"type": "http.disconnect"}
            received = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            else:
                content.extend(message.get("body", b""))
                if not message.get("more_body"):
                    complete.set()

        with suppress(Exception):
            await self._application(scope, receive, send)
        if "type" in start and not complete.is_set():
            return None
        named = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in start["headers"]
        }
        return Answer(start["status"], named, bytes(content))


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """A response, also of an error."""

    status: int
    headers: Mapping[str, str]
    """The names are in lower case."""
    content: bytes

    @property
    def is_success(self) -> bool:
        return self.status in OK


def read_json(reader: TypeAdapter[T], content: bytes) -> T:
    """
    Read JSON; nothing counts as null. Raises ValueError, RecursionError.

    JSON in UTF-16 or 32 is read, too, and characters that do not exist are replaced.
    """
    try:
        return reader.validate_json(content or b"null")
    except ValidationError as error:
        if error.errors()[0]["type"] != "json_invalid":
            raise
    text = json.dumps(json.loads(content), ensure_ascii=False)
    return reader.validate_json(text.encode(errors="replace"))


Reader = Callable[[Answer], T]
"""Reads a successful response. Raises ValueError, RecursionError."""


def _json_reader(adapter: TypeAdapter[T]) -> Reader[T]:
    return lambda answer: read_json(adapter, answer.content)


_ANYTHING: Final = _json_reader(TypeAdapter[Any](Any))
_RECORDS: Final = _json_reader(TypeAdapter(tuple[StatusRecordBody, ...]))
_OUTSIDE: Final = _json_reader(TypeAdapter(OutsideReportsResponse))
_STRUCTURED: Final = _json_reader(TypeAdapter(StructuredReportsResponse))
_ANSWERS: Final = _json_reader(TypeAdapter(tuple[StatusAnswerBody, ...]))
_CHANGES: Final = _json_reader(TypeAdapter(ChangesResponse))
_CONTENT: Final = _json_reader(TypeAdapter(ContentResponse))
_EXPORT: Final = _json_reader(TypeAdapter(ReleasedTextBody))
_WORKLIST: Final = _json_reader(TypeAdapter(WorklistResponse))
_LAUNCHED: Final = _json_reader(TypeAdapter(LaunchResponse))
_UNDONE_MERGE: Final = _json_reader(TypeAdapter[UndoneMergeBody | None](UndoneMergeBody | None))
_RESULTS: Final = _json_reader(
    TypeAdapter(
        Annotated[
            list[dict[str, Any]],
            BeforeValidator(lambda body: body.get("results") if isinstance(body, dict) else body),
        ]
    )
)


def _read_warnings(answer: Answer) -> frozenset[str]:
    """Return the codes of the warnings of a JSON response."""
    _ANYTHING(answer)
    items = answer.headers.get(_WARNINGS, "").split(",")
    return frozenset(item.partition(";")[0].strip() for item in items) - {""}


def _no_cookies() -> CookieJar:
    """Return a jar that stores nothing: different requests carry the cookies of different users."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


class AccessTokens:
    """The access tokens of a service, by site."""

    def __init__(self, default: str = "", by_site: Mapping[str, str] | None = None) -> None:
        """`default` is used for sites without a token in `by_site`."""
        self._default = default
        self._by_site = dict(by_site or {})

    def of(self, site: str) -> str:
        """Return the token for a site; '' if there is none."""
        return self._by_site.get(site, self._default)

    def distinct(self) -> tuple[str, ...]:
        """Return one site for each different token ('' for the default token)."""
        seen = {token: site for site, token in reversed(self._by_site.items())}
        if self._default:
            seen = {self._default: "", **{t: s for t, s in seen.items() if t != self._default}}
        return tuple(seen.values())


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A launch; `register_order` and `link_group` are additions of our engine."""

    clinical_info: Mapping[str, Any]
    reporting_app: Mapping[str, Any] = field(default_factory=dict)
    lazy: bool = False
    register_order: bool = False
    link_group: str = ""
    """New orders of one batch with the same name share one report."""
    force_update_patient_name: bool = False

    @property
    def site(self) -> str:
        """The site that determines the access token."""
        return str(self.clinical_info.get("SiteID", ""))

    def body(self) -> dict[str, Any]:
        """Return the body of `POST /api/report/launch/clinical`."""
        options = {
            "linkGroup": self.link_group,
            "lazyLaunch": self.lazy,
            "registerOrder": self.register_order,
            "forceUpdatePatientName": self.force_update_patient_name,
        }
        return {
            "clinicalInfo": dict(self.clinical_info),
            "reportingApp": dict(self.reporting_app),
            "response": {"type": "link"},
            **{name: value for name, value in options.items() if value},
        }


class EngineClient:
    """The endpoints that the bridge calls."""

    def __init__(
        self,
        http: httpx.AsyncClient | InProcess,
        tokens: AccessTokens | str,
        *,
        deadline: float = DEADLINE,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        on_handshake_failure: OnHandshakeFailure | None = None,
    ) -> None:
        """`http` is closed by the caller; `tokens` are by site, or one token for all sites."""
        self._http = http
        self._deadline = deadline
        self._max_response_bytes = max_response_bytes
        self._on_handshake_failure = on_handshake_failure
        self._on_call: OnCall | None = None
        self.tokens = tokens if isinstance(tokens, AccessTokens) else AccessTokens(tokens)

    def observed(self, on_call: OnCall) -> "EngineClient":
        """Return this client, which also reports each call that reads JSON when it has ended."""
        client = copy(self)
        client._on_call = on_call  # noqa: SLF001  # a copy of this object
        return client

    def token_of(self, site: str) -> str:
        """Return the access token for a site; all launches of a batch use one token."""
        return self.tokens.of(site)

    async def launch(self, launch: LaunchRequest) -> LaunchResponse:
        return await self._call("POST", _LAUNCH, launch.site, _LAUNCHED, body=launch.body())

    async def launch_batch(
        self, launches: Sequence[LaunchRequest]
    ) -> list[LaunchResponse | EngineFailure]:
        """
        Launch several reports of one token in one call; return one result for each, in order.

        Raises EngineFailure if the whole call failed (`is_unsupported`: no such endpoint).
        """
        bodies = [launch.body() for launch in launches]
        results = await self._call("POST", _BATCH, launches[0].site, _RESULTS, body=bodies)
        if len(results) != len(launches):
            raise EngineFailure(_BATCH, FailureKind.AMBIGUOUS, "unreadable")
        return [_read_result(result) for result in results]

    async def content(self, order: OrderKey) -> str:
        """Read the report's plain text."""
        found = await self._call(
            "GET", "/api/report/content", order.site, _CONTENT, query=order.tags()
        )
        return found.content

    async def export_json(
        self, order: OrderKey, *, prelim_until: int | None = None
    ) -> ReleasedTextBody:
        """
        Export the texts of a report, with times and persons.

        `prelim_until` (ms), here and below, is an addition of our engine: it selects the text of
        the latest preliminary read up to that time.
        """
        body = ExportBody.model_construct(clinicalInfo=_identity(order), prelimUntil=prelim_until)
        return await self._call("POST", "/api/report/export/json", order.site, _EXPORT, body=body)

    async def export_rtf(
        self,
        order: OrderKey,
        time_zone: str | None = None,
        *,
        addenda: int | None = None,
        prelim_until: int | None = None,
    ) -> bytes:
        """Export RTF; our engine includes only the first `addenda` addenda."""
        body = RtfFileBody.model_construct(
            clinicalInfo=_identity(order),
            timeZone=time_zone,
            responseType=RtfResponse.ARRAYBUFFER,
            addenda=addenda,
            prelimUntil=prelim_until,
        )
        answer = await self._succeed("POST", "/api/report/export/rtf", order.site, body=body)
        return answer.content

    async def export_pdf(
        self,
        order: OrderKey,
        time_zone: str | None = None,
        *,
        addenda: int | None = None,
        prelim_until: int | None = None,
    ) -> bytes:
        """Export PDF with the first `addenda` addenda; an addition of our engine."""
        body = PdfBody.model_construct(
            clinicalInfo=_identity(order),
            timeZone=time_zone,
            addenda=addenda,
            prelimUntil=prelim_until,
        )
        answer = await self._succeed("POST", "/api/report/export/pdf", order.site, body=body)
        return answer.content

    async def delete(
        self, order: OrderKey, *, only_ordered: bool = False, set_aside: bool = False
    ) -> None:
        """
        Delete an unsigned report.

        With `only_ordered` our engine refuses (400) to delete a report in progress; another
        service may ignore the field. `set_aside`: the order is not cancelled.
        """
        body = DeleteBody.model_construct(
            clinicalInfo=_identity(order), onlyWhenOrdered=only_ordered, setAside=set_aside
        )
        await self._call("POST", "/api/report/delete", order.site, _ANYTHING, body=body)

    async def mark_reported(
        self, order: OrderKey, at: int, *, sender: str = "", status: str = ""
    ) -> tuple[StatusRecordBody, ...]:
        """
        Mark an order as reported elsewhere since `at` (ms); idempotent.

        An addition of our engine. `status` is the result status of the message (table 0123).
        """
        body = ReportedElsewhereBody.model_construct(
            clinicalInfo=_identity(order),
            reported=True,
            reportedAt=at,
            sender=sender,
            resultStatus=status,
        )
        return await self._call("POST", _ELSEWHERE, order.site, _RECORDS, body=body)

    async def add_outside_report(self, body: OutsideReportBody) -> None:
        """Store a version of a report that was not made here; idempotent. Only our engine can."""
        await self._call("POST", "/api/report/outside", body.SiteID, _ANYTHING, body=body)

    async def outside_reports(self, order: OrderKey) -> tuple[OutsideReportOfPatient, ...]:
        """Read the outside reports of the patient of an order; only our engine has them."""
        found = await self._call(
            "GET", "/api/report/outside-reports", order.site, _OUTSIDE, query=order.tags()
        )
        return found.reports

    async def structured_reports(self, order: OrderKey) -> tuple[StructuredReportOfOrder, ...]:
        """Read the structured reports of an order's report; only our engine has this call."""
        found = await self._call(
            "GET", "/api/report/structured-reports", order.site, _STRUCTURED, query=order.tags()
        )
        return found.reports

    async def add_structured_report(self, order: OrderKey, content: str) -> frozenset[str]:
        """
        Add a DICOM SR file, in base64, to an unsigned report; idempotent.

        Return the codes of the warnings: a file that is not the patient's is set aside.
        """
        body = UpdateStructuredReports.model_construct(
            clinicalInfo=_identity(order),
            dicomSR=[StructuredReportFile.model_construct(fileData=content)],
            mode=UpdateMode.APPEND,
        )
        path = "/api/report/update-dicomsr"
        return await self._call("POST", path, order.site, _read_warnings, body=body)

    async def unmark_reported(self, order: OrderKey) -> tuple[StatusRecordBody, ...]:
        """Remove the mark of an order that is reported elsewhere; idempotent."""
        body = ReportedElsewhereBody.model_construct(clinicalInfo=_identity(order), reported=False)
        return await self._call("POST", _ELSEWHERE, order.site, _RECORDS, body=body)

    async def status(self, orders: Sequence[OrderKey]) -> tuple[StatusRecordBody, ...]:
        """Read the status records of orders of one token; unknown orders are absent."""
        body = StatusBody.model_construct(clinicalInfo=[*map(_identity, orders)])
        return await self._call("POST", _STATUS, orders[0].site, _RECORDS, body=body)

    async def signed_texts(self, orders: Sequence[OrderKey]) -> dict[OrderKey, ReleasedTextBody]:
        """
        Read the texts of signed reports by their orders; an addition of our own engine.

        The orders belong to one token. An order is absent if its report is unsigned or unknown, or
        belongs to another patient. Raises EngineFailure, with code `no_texts` if a signed report
        has no text.
        """
        body = StatusBody.model_construct(clinicalInfo=[*map(_identity, orders)], texts=True)
        answers = await self._call("POST", _STATUS, orders[0].site, _ANSWERS, body=body)
        if any(answer.text is None and answer.status in SIGNED for answer in answers):
            raise EngineFailure(_STATUS, FailureKind.PERMANENT, NO_TEXTS)
        return {
            order: answer.text
            for answer in answers
            if answer.text is not None
            for order in answer.orders
        }

    async def link_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecordBody, ...]:
        """Link orders of a site to one report; the first order is the anchor."""
        return await self._group("link-orders", orders)

    async def unlink_orders(self, orders: Sequence[OrderKey]) -> tuple[StatusRecordBody, ...]:
        """Unlink orders of a site from their reports."""
        return await self._group("unlink-orders", orders)

    async def _group(self, action: str, orders: Sequence[OrderKey]) -> tuple[StatusRecordBody, ...]:
        site = orders[0].site
        keys = [
            OrderInSite.model_construct(PatientMRN=order.mrn, Accession=order.accession)
            for order in orders
        ]
        body = LinkBody.model_construct(SiteID=site, clinicalInfo=keys)
        return await self._call("POST", f"/api/report/{action}", site, _RECORDS, body=body)

    async def changes(
        self,
        after: int,
        limit: int = 500,
        wait: float = 0.0,
        site: str = "",
        without: Sequence[str] = (),
    ) -> ChangesResponse:
        """
        Read the changes after a cursor, in commit order.

        Waits up to `wait` seconds for a change. `site` selects the token, which determines the
        visible sites. The service may leave out the events in `without`.
        """
        query = _given(after=after, limit=limit, wait=wait or None, without=list(without) or None)
        return await self._call(
            "GET", "/api/report/changes", site, _CHANGES, query=query, wait=wait
        )

    async def update_patient(self, site: str, mrn: str, tags: Mapping[str, str]) -> None:
        """Update demographics in all reports of a site; idempotent."""
        body = PatientUpdateBody.model_construct(None, SiteID=site, PatientMRN=mrn, **tags)
        await self._call("POST", "/api/patient/update", site, _ANYTHING, body=body)

    async def merge_patients(self, site: str, mrn: str, prior_mrn: str) -> None:
        """Move all reports of `prior_mrn` to the surviving `mrn`; idempotent."""
        body = PatientMergeBody.model_construct(
            SiteID=site, PatientMRN=mrn, PriorPatientMRN=prior_mrn
        )
        await self._call("POST", "/api/patient/merge", site, _ANYTHING, body=body)

    async def undo_merge(
        self,
        site: str,
        mrn: str,
        prior_mrn: str,
        orders: Sequence[ReturnedOrder] = (),
        *,
        include_signed: bool = False,
    ) -> UndoneMergeBody:
        """Let `prior_mrn` lead to `mrn` no longer, and give it these orders back; idempotent."""
        body = PatientUnmergeBody.model_construct(
            SiteID=site,
            PatientMRN=mrn,
            PriorPatientMRN=prior_mrn,
            orders=list(orders),
            includeSigned=include_signed,
        )
        done = await self._call("POST", "/api/patient/unmerge", site, _UNDONE_MERGE, body=body)
        return done or UndoneMergeBody(moved=(), kept=())  # a service that moves no orders

    async def worklist(
        self,
        site: str,
        *,
        status: str | None = None,
        mrn: str | None = None,
        accession: str | None = None,
        text: str | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> WorklistResponse:
        query = _given(
            SiteID=site,
            status=status,
            PatientMRN=mrn,
            Accession=accession,
            q=text,
            sort=sort,
            limit=limit,
            cursor=cursor or None,
        )
        return await self._call("GET", "/api/worklist", site, _WORKLIST, query=query)

    async def administer(
        self,
        method: str,
        path: str,
        site: str = "",
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """
        Forward a user's request to `/api/admin` and `path`; return status and body of the response.

        The text of an error response may contain patient data. Do not log it.
        """
        return await self._forward(method, f"/api/admin{path}", site, body, query)

    async def administer_account(
        self,
        method: str,
        path: str = "",
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """Call an account endpoint with our own token; return status and body of the response."""
        return await self._forward(method, f"/api/account{path}", "", body, query)

    async def signed_in_user(
        self, cookies: str, *, unattended: bool = False
    ) -> SignedInUser | None:
        """Return the signed-in user, or None. `unattended` does not prolong the session."""
        headers = {"cookie": cookies, "accept": "application/json"}
        if unattended:
            headers["x-unattended"] = "1"
        answer = await self._send("GET", _PROFILE, headers)
        if answer.status == _UNAUTHORIZED:
            return None
        if not answer.is_success:
            raise _failure_of(_PROFILE, answer)
        try:
            return _USER.validate_json(answer.content)
        except ValueError:
            raise EngineFailure(_PROFILE, FailureKind.PERMANENT, "unreadable") from None

    async def _call(
        self,
        method: str,
        path: str,
        site: str,
        read: Reader[T],
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> T:
        """Send JSON and read a successful response; `wait` extends the deadline."""
        report, begun = self._on_call, perf_counter()
        try:
            answer = await self._succeed(method, path, site, body=body, query=query, wait=wait)
            try:
                found = read(answer)
            except (ValueError, RecursionError):  # without their text, which may quote the body
                raise EngineFailure(path, FailureKind.AMBIGUOUS, "unreadable", 200) from None
        except EngineFailure as failure:
            if report is not None:
                report(path, failure.status, failure.code, perf_counter() - begun)
            raise
        if report is not None:
            report(path, 200, "", perf_counter() - begun)
        return found

    async def _succeed(
        self,
        method: str,
        path: str,
        site: str,
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> Answer:
        answer = await self._send(
            method, path, self._headers(site), body=body, query=query, wait=wait
        )
        if not answer.is_success:
            raise _failure_of(path, answer)
        return answer

    async def _forward(
        self, method: str, path: str, site: str, body: object, query: Mapping[str, Any] | None
    ) -> tuple[int, Any]:
        answer = await self._send(method, path, self._headers(site), body=body, query=query)
        try:
            return answer.status, json.loads(answer.content) if answer.content else None
        except (ValueError, RecursionError):
            raise EngineFailure(path, FailureKind.PERMANENT, "unreadable") from None

    def _headers(self, site: str) -> dict[str, str]:
        return {TOKEN_HEADER: self.tokens.of(site), "accept": "application/json"}

    async def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        wait: float = 0.0,
    ) -> Answer:
        """
        Send a request; return the response, also of an error.

        Raises EngineFailure without a response. After the deadline it is ambiguous, because the
        service may have executed the call. Calls are idempotent, and the queues repeat them.
        """
        if self._http.is_closed:
            raise unreachable(path)
        given = {**headers, "content-type": "application/json"} if body is not None else headers
        content = b"" if body is None else _json(body)
        read_timeout = wait + _LONG_POLL_MARGIN if wait else 0.0
        try:
            async with asyncio.timeout(self._deadline + read_timeout):
                if isinstance(self._http, InProcess):
                    answer = await self._http.exchange(method, path, given, content, query)
                else:
                    timeout = httpx.Timeout(30.0, connect=5.0, read=read_timeout)
                    request = self._http.build_request(
                        method,
                        path,
                        content=content or None,
                        # httpx rejects text that is not ASCII
                        headers={name.encode(): value.encode() for name, value in given.items()},
                        params=query,
                        timeout=timeout if wait else TIMEOUT,
                    )
                    answer = await self._exchange(self._http, request, path)
        except _NOT_SENT as error:
            if self._on_handshake_failure is not None and (found := _handshake_failure(error)):
                self._on_handshake_failure(str(self._http.base_url).rstrip("/"), found)
            raise unreachable(path) from None
        except _NEVER_VALID:
            raise EngineFailure(path, FailureKind.PERMANENT, "bad_address") from None
        except (httpx.HTTPError, TimeoutError):
            raise no_answer(path) from None
        if answer is None:
            raise no_answer(path)
        return answer

    async def _exchange(self, http: httpx.AsyncClient, request: httpx.Request, path: str) -> Answer:
        response = await http.send(request, stream=True)
        content = bytearray()
        try:
            async for part in response.aiter_bytes():
                content += part
                if len(content) > self._max_response_bytes:
                    raise EngineFailure(
                        path, FailureKind.AMBIGUOUS, "too_large", response.status_code
                    )
        finally:
            await response.aclose()
        return Answer(response.status_code, response.headers, bytes(content))


def _handshake_failure(error: BaseException | None) -> HandshakeFailure | None:
    """Find the error of the TLS library, which httpx puts below its own."""
    for _ in range(_MAX_CAUSES):
        if error is None:
            break
        if found := describe_handshake(error):
            return found
        error = error.__cause__ or error.__context__
    return None


def unreachable(path: str) -> EngineFailure:
    """Return the failure for a request that was not sent."""
    return EngineFailure(path, FailureKind.TRANSIENT, "unreachable")


def no_answer(path: str) -> EngineFailure:
    """Return the failure for a request without a response: its effect is unknown."""
    return EngineFailure(path, FailureKind.AMBIGUOUS, "no_answer")


def _identity(order: OrderKey) -> OrderIdentity:
    return OrderIdentity.model_construct(
        SiteID=order.site, PatientMRN=order.mrn, Accession=order.accession
    )


def _json(body: object) -> bytes:
    """Return a body without members that are unset or null."""
    if isinstance(body, BaseModel):
        return body.model_dump_json(exclude_unset=True, exclude_none=True).encode()
    return to_json(body)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _read_result(body: Mapping[str, Any]) -> LaunchResponse | EngineFailure:
    """Read one result of a batch: the response to a launch, or a problem body."""
    status = body.get("status")
    if isinstance(status, int):
        code = code_of(body, status)
        return EngineFailure(_BATCH, classify(status, code), code, status)
    try:
        return LaunchResponse.model_validate(body)
    except ValidationError:
        raise EngineFailure(_BATCH, FailureKind.AMBIGUOUS, "unreadable", 200) from None


def _failure_of(path: str, answer: Answer) -> EngineFailure:
    try:
        problem = json.loads(answer.content)
    except (ValueError, RecursionError):
        problem = None
    code = code_of(problem, answer.status)
    business = answer.headers.get("x-error-class") == "business"
    after = retry_after(answer.headers.get("retry-after"), datetime.now(UTC))
    kind = classify(answer.status, code, business=business)
    return EngineFailure(path, kind, code, answer.status, after)
